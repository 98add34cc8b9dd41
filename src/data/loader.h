#pragma once
/* Training sequences out of a split. The token stream is cut into windows of `seq` tokens, and a
 * sequence is one window with its targets, each the token that follows. Sequence k of epoch e is
 * a function of (seed, e, k) alone: not of batch size, accumulation, ranks or what was read before.
 * A position in training is therefore one number, the index of the next sequence counted over
 * all epochs. */
#include "data/dataset.h"

typedef struct {
    const Split *split; /* must outlive the loader */
    int64_t seq;
    uint64_t vocab; /* tokens are checked against it */
    uint64_t seed;
    uint64_t windows; /* sequences of an epoch: floor((tokens - 1) / seq) */
    bool shuffled;
} Loader;

/* In random order, another one for each epoch. ERR_INPUT when the split has not seq + 1 tokens. */
int loader_init(Loader *loader, const Split *split, int64_t seq, uint64_t vocab, uint64_t seed);

/* In the order of the stream, the same for each epoch: for validation. */
int loader_init_sequential(Loader *loader, const Split *split, int64_t seq, uint64_t vocab);

/* Position in the stream of the first token of a sequence. */
uint64_t loader_start(const Loader *loader, uint64_t sequence);

/* tokens, targets (count, seq): sequences [first, first + count); targets that do not count are
 * -1. Any number of threads may call
 * it. ERR_INPUT naming shard, position and token when one is not below the vocabulary. */
int loader_fill(const Loader *loader, uint64_t first, int64_t count, int32_t *tokens,
                int32_t *targets);

/* A random order of [0, n) without a table: position k of the order is computed directly. For fixed
 * (n, seed, epoch) a permutation of [0, n); k < n. */
uint64_t shuffle_at(uint64_t n, uint64_t seed, uint64_t epoch, uint64_t k);
