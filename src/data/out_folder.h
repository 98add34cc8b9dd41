#pragma once
/* The folder that a preparation writes into. What it held stays complete and usable until the new
 * manifest replaces the old one in a single step; shards of different content have different names
 * (shard.h), so both sets fit side by side.
 *
 * May be written to: a folder that is missing, or empty, or holds a pacer dataset, or only the
 * remains of a preparation that was interrupted. Files that pacer did not name are never
 * touched, and make it refuse where no pacer manifest says that this is a dataset. One
 * preparation at a time. */
#include "data/manifest.h"

#include <regex.h>
#include <stdbool.h>

#define OUT_FOLDER_TOKENIZER "tokenizer" /* tokenizer-HASH.json */

typedef struct {
    char *path;
    int lock;          /* the folder, held with flock */
    bool fresh;        /* it was not there */
    bool unsure;       /* a commit failed: the disk has the old manifest or the new one */
    Manifest manifest; /* of the dataset that is there now; no shards: none */
    regex_t own_names; /* of files that a preparation makes */
} OutFolder;

int out_folder_open(OutFolder *folder, const char *path);

/* The folder now is this dataset. Takes the manifest's content on success. */
int out_folder_commit(OutFolder *folder, Manifest *manifest);

/* Removes files of pacer's that the folder's dataset does not list, and the folder itself where it
 * was not there before and is empty; unlocks. After a commit
 * that failed, the files of both datasets stay, for the next preparation to sweep. No-op on a
 * zeroed folder. */
void out_folder_close(OutFolder *folder);
