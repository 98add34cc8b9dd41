#include "support/data_files.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

char *data_files_folder(void)
{
    const char *base = getenv("TMPDIR");
    char *folder = io_join(base != NULL && base[0] != '\0' ? base : "/tmp", "pacer-data-XXXXXX");
    PACER_ASSERT(mkdtemp(folder) != NULL, "%s", folder);
    return folder;
}

void data_files_remove(char *folder)
{
    PACER_ASSERT(io_remove_tree(folder) == 0, "%s", err_message());
    free(folder);
}

void data_files_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    PACER_ASSERT(file != NULL, "%s", path);
    PACER_ASSERT(fwrite(data, 1, size, file) == size && fclose(file) == 0, "%s", path);
}

uint8_t *data_files_read(const char *path, size_t *size)
{
    char *data;
    PACER_ASSERT(io_read_all(path, (size_t)1 << 28, &data, size) == 0, "%s", err_message());
    return (uint8_t *)data;
}

bool data_files_counts(uint64_t token)
{
    return token * token % 7 >= 3;
}

static char *make_shard(const char *folder, const char *stem, uint64_t first, uint64_t count,
                        uint64_t vocab, bool masked)
{
    ShardWriter *writer;
    PACER_ASSERT(shard_writer_open(folder, stem, vocab, 7, &writer) == 0, "%s", err_message());
    for (uint64_t i = 0; i < count; i++) {
        uint32_t token = (uint32_t)(first + i);
        shard_writer_put(writer, &token, 1);
        if (masked && !data_files_counts(token)) {
            shard_writer_leave_out(writer, 1);
        }
    }
    ShardInfo info;
    PACER_ASSERT(shard_writer_finish(writer, 1, count, &info) == 0, "%s", err_message());
    char *path = io_join(folder, info.file);
    free(info.file);
    return path;
}

char *data_files_shard(const char *folder, const char *stem, uint64_t first, uint64_t count,
                       uint64_t vocab)
{
    return make_shard(folder, stem, first, count, vocab, false);
}

char *data_files_masked(const char *folder, const char *stem, uint64_t first, uint64_t count,
                        uint64_t vocab)
{
    return make_shard(folder, stem, first, count, vocab, true);
}

static void put_tokens(uint8_t *out, uint32_t first, uint32_t count, int token_bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        for (int byte = 0; byte < token_bytes; byte++) {
            *out++ = (uint8_t)((first + i) >> (8 * byte));
        }
    }
}

void data_files_llmc(const char *path, uint32_t first, uint32_t count, int token_bytes)
{
    size_t size = 1024 + (size_t)count * (size_t)token_bytes;
    uint8_t *bytes = mem_zalloc(size, 1);
    put_tokens(bytes, token_bytes == 2 ? 20240520 : 20240801, 1, 4);
    put_tokens(bytes + 4, token_bytes == 2 ? 1 : 7, 1, 4);
    put_tokens(bytes + 8, count, 1, 4);
    put_tokens(bytes + 1024, first, count, token_bytes);
    data_files_write(path, bytes, size);
    free(bytes);
}

void data_files_raw(const char *path, uint32_t first, uint32_t count)
{
    uint8_t *bytes = mem_alloc((size_t)count * 2);
    put_tokens(bytes, first, count, 2);
    data_files_write(path, bytes, (size_t)count * 2);
    free(bytes);
}

static void open_positions(Positions *positions, const uint64_t *sizes, int count, uint64_t vocab,
                           bool masked)
{
    *positions = (Positions){.folder = data_files_folder(), .split = {.name = "train"}};
    for (int i = 0; i < count; i++) {
        char *path = make_shard(positions->folder, "train-00000", positions->split.tokens, sizes[i],
                                vocab, masked && i % 2 == 0);
        Shard shard;
        PACER_ASSERT(shard_open(&shard, path, false) == 0, "%s", err_message());
        split_add(&positions->split, shard);
        free(path);
    }
}

void positions_open(Positions *positions, const uint64_t *sizes, int count, uint64_t vocab)
{
    open_positions(positions, sizes, count, vocab, false);
}

void masked_positions_open(Positions *positions, const uint64_t *sizes, int count, uint64_t vocab)
{
    open_positions(positions, sizes, count, vocab, true);
}

void positions_close(Positions *positions)
{
    for (int i = 0; i < positions->split.shard_count; i++) {
        shard_close(&positions->split.shards[i]);
    }
    free(positions->split.shards);
    data_files_remove(positions->folder);
}

size_t data_files_mutate(uint8_t *bytes, size_t size, size_t capacity, uint64_t round)
{
    uint64_t draw = 0;
#define BELOW(n) rng_below(99, round, draw++, (n))
    for (uint64_t changes = 1 + BELOW(4); changes > 0 && size > 0; changes--) {
        size_t at = (size_t)BELOW(size), length = (size_t)BELOW(size - at < 64 ? size - at : 64);
        switch (BELOW(4)) {
        case 0:
            bytes[at] ^= (uint8_t)(1 << BELOW(8));
            break;
        case 1:
            bytes[at] = (uint8_t) "\"{}[],:0-9e.\\\n\xff"[BELOW(16)];
            break;
        case 2:
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        default:
            length = length < capacity - size ? length : capacity - size;
            memmove(bytes + at + length, bytes + at, size - at);
            size += length;
        }
    }
#undef BELOW
    return size;
}
