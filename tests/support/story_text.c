#include "support/story_text.h"

#include <string.h>

#define SEPARATOR_LENGTH (sizeof STORY_SEPARATOR - 1)

size_t stories_fill(uint64_t seed, uint64_t first_index, char *out, size_t bytes,
                    uint64_t *next_index)
{
    size_t used = 0;
    for (*next_index = first_index;; ++*next_index) {
        char story[STORY_MAX_BYTES];
        size_t length = story_write(seed, *next_index, story, sizeof story);
        if (length + SEPARATOR_LENGTH > bytes - used) {
            return used;
        }
        memcpy(out + used, story, length);
        memcpy(out + used + length, STORY_SEPARATOR, SEPARATOR_LENGTH);
        used += length + SEPARATOR_LENGTH;
    }
}
