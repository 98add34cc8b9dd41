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

/* With code 0 makes it durable and gives it its name. Otherwise, or when that fails, leaves nothing
 * and keeps the message. Returns the code. */
int fresh_folder_end(FreshFolder *folder, int code);
