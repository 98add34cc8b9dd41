#include "data/loader.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/rng.h"

#include <inttypes.h>
#include <string.h>

#define ROUNDS 8
#define SHUFFLE_STREAM UINT64_C(0x53687566000000) /* in the upper bits; the epoch counts below */

/* A Feistel network permutes the smallest power of two that holds n; a result of n or more goes
 * through it again until it falls below n (cycle walking). That stays a permutation of [0, n), and
 * takes two passes on average at most, since more than half of the power of two is below n.
 *
 * The bits are split in a low and a high part, differing by at most one bit. Each round changes one
 * part by a random function of the other, which is undone by doing it again: a bijection whatever
 * the function is. */
uint64_t shuffle_at(uint64_t n, uint64_t seed, uint64_t epoch, uint64_t k)
{
    PACER_ASSERT(k < n && n <= UINT64_C(1) << 62, "k %" PRIu64 " n %" PRIu64, k, n);
    int bits = n > 1 ? 64 - __builtin_clzll(n - 1) : 0; /* that n - 1 has */
    int low_bits = bits / 2, high_bits = bits - low_bits;
    uint64_t low_mask = (UINT64_C(1) << low_bits) - 1, high_mask = (UINT64_C(1) << high_bits) - 1;
    uint64_t stream = SHUFFLE_STREAM + epoch;
    do {
        uint64_t low = k & low_mask, high = k >> low_bits;
        for (uint64_t round = 0; round < ROUNDS; round += 2) {
            RngBlock a = rng_block(seed, stream, round << 32 | low);
            high ^= a.word[0] & high_mask;
            RngBlock b = rng_block(seed, stream, (round + 1) << 32 | high);
            low ^= b.word[0] & low_mask;
        }
        k = high << low_bits | low;
    } while (k >= n);
    return k;
}

int loader_init(Loader *loader, const Split *split, int64_t seq, uint64_t vocab, uint64_t seed)
{
    PACER_ASSERT(seq > 0 && vocab > 0 && vocab <= SHARD_MAX_VOCAB,
                 "seq %" PRId64 " vocabulary %" PRIu64, seq, vocab);
    *loader = (Loader){.split = split,
                       .seq = seq,
                       .vocab = vocab,
                       .seed = seed,
                       .windows = split->tokens > 0 ? (split->tokens - 1) / (uint64_t)seq : 0,
                       .shuffled = true};
    if (split->tokens == 0) {
        return err_set(ERR_INPUT, "the data has no %s split", split->name);
    }
    if (loader->windows == 0) {
        return err_set(ERR_INPUT,
                       "the %s split has %" PRIu64 " tokens, fewer than the %" PRId64
                       " that one sequence of seq %" PRId64
                       " takes; use more data or a smaller --seq",
                       split->name, split->tokens, seq + 1, seq);
    }
    return 0;
}

int loader_init_sequential(Loader *loader, const Split *split, int64_t seq, uint64_t vocab)
{
    int code = loader_init(loader, split, seq, vocab, 0);
    loader->shuffled = false;
    return code;
}

uint64_t loader_start(const Loader *loader, uint64_t sequence)
{
    uint64_t epoch = sequence / loader->windows, k = sequence % loader->windows;
    uint64_t window = loader->shuffled ? shuffle_at(loader->windows, loader->seed, epoch, k) : k;
    return window * (uint64_t)loader->seq;
}

static int bad_token(const Loader *loader, uint64_t position)
{
    uint64_t inside;
    const Shard *shard = split_locate(loader->split, position, &inside);
    return err_set(ERR_INPUT,
                   "%s: token %u at position %" PRIu64 " is not below the vocabulary, %" PRIu64
                   "; the file was changed or belongs to another tokenizer: prepare it again",
                   shard->path, shard_token(shard, inside), inside, loader->vocab);
}

int loader_fill(const Loader *loader, uint64_t first, int64_t count, int32_t *tokens,
                int32_t *targets)
{
    uint64_t seq = (uint64_t)loader->seq;
    for (int64_t row = 0; row < count; row++, tokens += seq, targets += seq) {
        uint64_t start = loader_start(loader, first + (uint64_t)row);
        int32_t largest = split_read(loader->split, start + 1, seq, targets);
        int32_t head = split_read(loader->split, start, 1, tokens);
        memcpy(tokens + 1, targets, (seq - 1) * sizeof *tokens);
        largest = head > largest ? head : largest;
        split_mask(loader->split, start + 1, seq, targets);
        int code = split_check(loader->split, start, seq + 1);
        if (code != 0) {
            return code;
        }
        if ((uint64_t)largest >= loader->vocab) {
            uint64_t at = 0;
            while (at < seq && (uint64_t)tokens[at] < loader->vocab) {
                at++;
            }
            return bad_token(loader, start + at);
        }
    }
    return 0;
}
