#pragma once
/* The text of many stories the plain way: one after the other. */
#include "data/stories.h"

/* Fills out with as many whole stories as fit in `bytes`, from first_index on, each followed by
 * STORY_SEPARATOR. Returns the bytes used; *next_index is the first story that was left out. */
size_t stories_fill(uint64_t seed, uint64_t first_index, char *out, size_t bytes,
                    uint64_t *next_index);
