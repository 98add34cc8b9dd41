#include "data/stories.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/rng.h"
#include "data/stories_engine.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Keeps the stories' random numbers apart from every other use of the same seed. */
#define STORY_STREAM UINT64_C(0x73746f72696573)

#define SEPARATOR_LENGTH (sizeof STORY_SEPARATOR - 1)

/* The one global: the content is constant, and so is what it compiles to, made on first use. */
static const StoryGrammar *grammar;
static pthread_once_t grammar_once = PTHREAD_ONCE_INIT;

static void make_grammar(void)
{
    grammar = stories_compile(stories_texts);
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

#define BLOCK_STORIES 256 /* made by one thread at a time */
#define BLOCKS_PER_THREAD 4

/* Consecutive stories, each with its separator. */
typedef struct {
    size_t ends[BLOCK_STORIES]; /* of each, in text */
    char text[BLOCK_STORIES * (STORY_MAX_BYTES + SEPARATOR_LENGTH)];
} Block;

static void make_block(Block *block, uint64_t seed, uint64_t first)
{
    size_t used = 0;
    for (uint64_t i = 0; i < BLOCK_STORIES; i++) {
        used += story_write(seed, first + i, block->text + used, STORY_MAX_BYTES);
        memcpy(block->text + used, STORY_SEPARATOR, SEPARATOR_LENGTH);
        used += SEPARATOR_LENGTH;
        block->ends[i] = used;
    }
}

/* Bytes of the block's first stories that fit in `room`. */
static size_t fitting(const Block *block, uint64_t room)
{
    size_t used = 0;
    for (int i = 0; i < BLOCK_STORIES && block->ends[i] <= room; i++) {
        used = block->ends[i];
    }
    return used;
}

/* Rounds of blocks, made by all threads and written in order. */
static int write_all(Output *output, uint64_t bytes, uint64_t seed, int threads,
                     int (*interrupted)(void))
{
    int count = threads * BLOCKS_PER_THREAD, code = 0;
    Block *blocks = mem_alloc((size_t)count * sizeof *blocks);
    Progress progress = progress_begin("stories");
    uint64_t first = 0, done = 0;
    for (bool room = true; code == 0 && room; first += (uint64_t)count * BLOCK_STORIES) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int i = 0; i < count; i++) {
            make_block(&blocks[i], seed, first + (uint64_t)i * BLOCK_STORIES);
        }
        for (int i = 0; code == 0 && room && i < count; i++) {
            size_t size = fitting(&blocks[i], bytes - done);
            room = size == blocks[i].ends[BLOCK_STORIES - 1];
            code = output_put(output, blocks[i].text, size);
            done += size;
        }
        int stop = code == 0 && interrupted != NULL ? interrupted() : 0;
        code = stop != 0 ? err_set(stop, "stopped; nothing was written") : code;
        progress_say(&progress, done, bytes);
    }
    free(blocks);
    if (code == 0 && done == 0) {
        code = err_set(ERR_INPUT, "%" PRIu64 " bytes hold no story; ask for some thousand or more",
                       bytes);
    }
    return code;
}

/* ERR_INPUT when a file is there that does not begin with the first story of this seed, or of the
 * usual one. */
static int check_target(const char *path, uint64_t seed)
{
    const uint64_t seeds[] = {seed, STORIES_SEED};
    char head[STORY_MAX_BYTES + SEPARATOR_LENGTH], story[sizeof head];
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
        return 0;
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return io_error(path, "read");
    }
    size_t size = fread(head, 1, sizeof head, file);
    fclose(file);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        size_t length = story_write(seeds[i], 0, story, sizeof story);
        memcpy(story + length, STORY_SEPARATOR, SEPARATOR_LENGTH);
        length += SEPARATOR_LENGTH;
        if (size >= length && memcmp(head, story, length) == 0) {
            return 0;
        }
    }
    return err_set(ERR_INPUT,
                   "%s: exists, and is no text of pacer data stories with this --seed; choose "
                   "another --out, or remove it",
                   path);
}

int stories_write(const char *path, uint64_t bytes, uint64_t seed, int threads,
                  int (*interrupted)(void))
{
    Output *output;
    int code = check_target(path, seed);
    code = code != 0 ? code : output_open(path, &output);
    if (code != 0) {
        return code;
    }
    code = write_all(output, bytes, seed, threads, interrupted);
    if (code != 0) {
        output_abandon(output);
        return code;
    }
    return output_commit(output);
}
