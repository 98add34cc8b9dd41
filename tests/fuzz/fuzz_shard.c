/* Files of tokens, in each of the three formats. Hashes would stop nearly every change at the door,
 * so a file with the magic of a shard is also tried with hashes made right. */
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/io.h"
#include "base/mem.h"
#include "data/shard.h"

#include <stdlib.h>
#include <string.h>

static void read_tokens(const Shard *shard)
{
    uint64_t count = shard->tokens;
    int32_t *tokens = mem_zalloc((size_t)count, sizeof *tokens);
    int32_t largest = shard_read(shard, 0, count, tokens);
    uint32_t wanted = shard->largest < INT32_MAX ? shard->largest : INT32_MAX;
    PACER_ASSERT((uint32_t)largest == wanted, "largest %d, scanned %u", largest, wanted);
    uint64_t middle = count / 2;
    int32_t one;
    shard_read(shard, middle, 1, &one);
    PACER_ASSERT(one == tokens[middle], "token %d is also %d", one, tokens[middle]);
    uint64_t at = shard_find_at_least(shard, (uint64_t)shard->largest + 1);
    PACER_ASSERT(at == count, "a token above the largest");
    free(tokens);
}

static void try_file(const char *path, size_t size, bool raw)
{
    Shard shard;
    fuzz_forget();
    int code = shard_open(&shard, path, raw);
    fuzz_expect(code);
    if (code != 0) {
        return;
    }
    PACER_ASSERT(shard.tokens > 0 && shard.tokens <= size / (size_t)shard.token_bytes,
                 "%llu tokens in %zu bytes", (unsigned long long)shard.tokens, size);
    code = shard_scan(&shard);
    fuzz_expect(code);
    if (code == 0) {
        read_tokens(&shard);
    }
    shard_close(&shard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("0.shard", data, size);
    try_file(path, size, false);
    try_file(path, size, true);
    if (size >= SHARD_HEADER_BYTES && memcmp(data, SHARD_MAGIC, 8) == 0) {
        uint8_t *whole = mem_alloc(size);
        memcpy(whole, data, size);
        ShardHeader header;
        memcpy(&header, whole, sizeof header);
        header.payload_hash = io_hash(whole + SHARD_HEADER_BYTES, size - SHARD_HEADER_BYTES);
        header.header_hash = io_hash(&header, offsetof(ShardHeader, header_hash));
        memcpy(whole, &header, sizeof header);
        try_file(fuzz_file("0.shard", whole, size), size, false);
        free(whole);
    }
    return 0;
}
