/* What identifies a tokenizer in datasets and checkpoints: a hash of everything that decides ids,
 * whichever file it came from. */
#include "text/tokenizer_internal.h"

#include "base/io.h"
#include "base/mem.h"

#include <string.h>
#include <xxhash.h>

static void put_number(XXH3_state_t *state, uint32_t number)
{
    const uint8_t bytes[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16),
                              (uint8_t)(number >> 24)};
    XXH3_64bits_update(state, bytes, sizeof bytes);
}

/* Tokens in the order of ids, merges in the order of ranks, added tokens, pattern and
 * ignore_merges, each with its length before it. */
static uint64_t hash_parts(const Tokenizer *tokenizer)
{
    XXH3_state_t *state = mem_checked(XXH3_createState(), sizeof(XXH3_state_t *));
    XXH3_64bits_reset(state);
    uint32_t vocab = tokenizer_vocab(tokenizer);
    put_number(state, vocab);
    for (uint32_t id = 0; id < vocab; id++) {
        size_t size;
        const uint8_t *bytes = tokenizer_bytes(tokenizer, id, &size);
        put_number(state, (uint32_t)size);
        if (size > 0) {
            XXH3_64bits_update(state, bytes, size);
        }
    }
    size_t merge_count = tokenizer_merge_count(tokenizer);
    const Merge *merges = tokenizer_merges(tokenizer);
    put_number(state, (uint32_t)merge_count);
    for (size_t i = 0; i < merge_count; i++) {
        put_number(state, merges[i].left);
        put_number(state, merges[i].right);
    }
    size_t added_count = tokenizer_added_count(tokenizer);
    const AddedToken *added = tokenizer_added(tokenizer);
    put_number(state, (uint32_t)added_count);
    for (size_t i = 0; i < added_count; i++) {
        put_number(state, added[i].id);
        put_number(state, (uint32_t)added[i].special | (uint32_t)added[i].normalized << 1);
    }
    const char *regex = pretok_regex(tokenizer_pretok(tokenizer));
    put_number(state, (uint32_t)strlen(regex));
    XXH3_64bits_update(state, regex, strlen(regex));
    put_number(state, tokenizer_ignore_merges(tokenizer));
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

/* True for TOKENIZER_BYTES, also when it was written to a file and read again. */
static bool is_bytes_tokenizer(const Tokenizer *tokenizer)
{
    const AddedToken *added = tokenizer_added(tokenizer);
    size_t end_size;
    const uint8_t *end = tokenizer_bytes(tokenizer, 256, &end_size);
    bool same = tokenizer_vocab(tokenizer) == 257 && tokenizer_merge_count(tokenizer) == 0 &&
                tokenizer_added_count(tokenizer) == 1 && added->id == 256 && added->special &&
                !added->normalized && !tokenizer_ignore_merges(tokenizer) &&
                strcmp(pretok_name(tokenizer_pretok(tokenizer)), PRETOK_GPT2) == 0 &&
                end_size == sizeof TOKENIZER_END - 1 && memcmp(end, TOKENIZER_END, end_size) == 0;
    for (uint32_t byte = 0; same && byte < 256; byte++) {
        same = tokenizer_byte_id(tokenizer, (uint8_t)byte) == byte;
    }
    return same;
}

/* Every byte tokenizer is the same, so its name identifies it. */
uint64_t tokenizer_compute_hash(const Tokenizer *tokenizer)
{
    return is_bytes_tokenizer(tokenizer) ? io_hash(TOKENIZER_BYTES, sizeof TOKENIZER_BYTES - 1)
                                         : hash_parts(tokenizer);
}
