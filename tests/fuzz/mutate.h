#pragma once
/* Changes to inputs, for where no compiler guides them: bits, bytes, digits, blocks, numbers at the
 * edges of their types, and the words that occur in the seeds. Everything is a function of (seed,
 * round), so a round can be made again. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *data;
    size_t size;
} Input;

typedef struct {
    Input *seeds;
    size_t seed_count;
    Input *words; /* views of the seeds */
    size_t word_count;
} Mutator;

/* Takes the seeds and finds the words in them. */
void mutator_init(Mutator *mutator, Input *seeds, size_t seed_count);
void mutator_free(Mutator *mutator);

/* Writes the input of that round into out, which has room for `limit` bytes; returns its size. */
size_t mutator_make(const Mutator *mutator, uint64_t seed, uint64_t round, uint8_t *out,
                    size_t limit);
