#pragma once
/* A folder that appears under its name as a whole or not at all. It is filled beside its place,
 * as NAME.partial/made-by-pacer; what an interrupted attempt left there is removed by the next
 * one. A NAME.partial with anything else in it is not pacer's: it is left alone, and so is what
 * a link of that name points to. */

typedef struct {
    char *path;    /* as it will be called */
    char *work;    /* NAME.partial */
    char *partial; /* to be filled */
    int lock;
} FreshFolder;

/* ERR_INPUT when the path exists and is no empty folder, or somebody else is filling it, or
 * NAME.partial is in the way. */
int fresh_folder_open(FreshFolder *folder, const char *path);

/* Makes it durable and gives it its name. Ends the folder, also on failure, which leaves
 * nothing. */
int fresh_folder_commit(FreshFolder *folder);

void fresh_folder_abandon(
    FreshFolder *folder); /* leaves nothing; keeps the message; no-op on a zeroed one */
