#pragma once
/* The user's folder for what pacer has found out about a machine by measuring, and can find out
 * again: choices of kernels by timing, ceilings. Deleting it costs the time to measure anew,
 * nothing else. */
#include <stdbool.h>

/* Path of the file `name` there, in which everything but letters, digits and points becomes a
 * dash: in the folder of the file that PACER_TUNE_CACHE names, else in $XDG_CACHE_HOME/pacer or
 * ~/.cache/pacer. NULL when there is no home. Caller frees. */
char *cache_path(const char *name);

/* False with PACER_TUNE=off: nothing is to be read or written there. */
bool cache_in_use(void);

/* Makes the folder that holds path. 0 or an ErrCode. */
int cache_make_folder(const char *path);
