#include "data/stories.h"

#include "base/assert.h"
#include "base/rng.h"
#include "data/stories_engine.h"

#include <pthread.h>
#include <string.h>

/* Keeps the stories' random numbers apart from every other use of the same seed. */
#define STORY_STREAM UINT64_C(0x73746f72696573)

/* The one global: the content is constant, and so is what it compiles to, made on first use. */
static const StoryGrammar *grammar;
static pthread_once_t grammar_once = PTHREAD_ONCE_INIT;

static void make_grammar(void)
{
    grammar = stories_compile(stories_content);
}

const StoryGrammar *stories_grammar(void)
{
    int code = pthread_once(&grammar_once, make_grammar);
    PACER_ASSERT(code == 0, "pthread_once: %d", code);
    return grammar;
}

size_t story_write(uint64_t seed, uint64_t index, char *out, size_t capacity)
{
    PACER_ASSERT(capacity >= STORY_MAX_BYTES, "a story needs room for %d bytes, not %zu",
                 STORY_MAX_BYTES, capacity);
    RngBlock block = rng_block(seed, STORY_STREAM, index);
    uint64_t state = (uint64_t)block.word[0] << 32 | block.word[1];
    return stories_tell(stories_grammar(), state, out, STORY_MAX_BYTES, NULL, NULL);
}

size_t stories_fill(uint64_t seed, uint64_t first_index, char *out, size_t bytes,
                    uint64_t *next_index)
{
    const size_t separator = sizeof STORY_SEPARATOR - 1;
    size_t used = 0;
    uint64_t index = first_index;
    for (;; index++) {
        char last[STORY_MAX_BYTES];
        size_t room = bytes - used;
        bool direct = room >= STORY_MAX_BYTES;
        char *story = direct ? out + used : last;
        size_t length = story_write(seed, index, story, STORY_MAX_BYTES);
        if (length + separator > room) {
            break;
        }
        if (!direct) {
            memcpy(out + used, story, length);
        }
        memcpy(out + used + length, STORY_SEPARATOR, separator);
        used += length + separator;
    }
    *next_index = index;
    return used;
}
