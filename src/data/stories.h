#pragma once
/* The built-in corpus: stories in simple English for small children, composed from characters,
 * places, wishes, mishaps and endings. A story is a pure function of (seed, index): the same bytes
 * on every platform and thread, so any part of the corpus can be made anywhere, in any order. */
#include <stddef.h>
#include <stdint.h>

/* No story is longer; most have 500 to 1400 bytes. */
#define STORY_MAX_BYTES 4096

/* Of builtin:stories, whatever the seed of the run, so that runs compare. */
#define STORIES_SEED 1

/* The line between documents. */
#define STORY_SEPARATOR "<|endoftext|>\n"

/* Writes story `index` of the corpus `seed`, ending with a newline, without a separator. Returns
 * the bytes written; capacity must be at least STORY_MAX_BYTES. */
size_t story_write(uint64_t seed, uint64_t index, char *out, size_t capacity);

/* Stories 0, 1, ... of the corpus `seed`, each followed by STORY_SEPARATOR, as many as fit in
 * `bytes`, made with `threads`. Into the file `path` as one event (temporary
 * file, rename), or to standard output when it is "-" (output.h). `interrupted` gives 0 or the
 * code to end with, and may be NULL; after an error the old file, if any, is still there. */
int stories_write(const char *path, uint64_t bytes, uint64_t seed, int threads,
                  int (*interrupted)(void));
