#pragma once
/* The built-in stories as a text file. */
#include <stdint.h>

/* Stories 0, 1, ... of the corpus `seed`, each followed by STORY_SEPARATOR, as many as fit in
 * `bytes`: what stories_fill makes, with `threads`. Into the file `path` as one event (temporary
 * file, rename), or to standard output when it is "-" (output.h). `interrupted` gives 0 or the
 * code to end with, and may be NULL; after an error the old file, if any, is still there. */
int stories_write(const char *path, uint64_t bytes, uint64_t seed, int threads,
                  int (*interrupted)(void));
