#include "data/shard.h"

#include "base/assert.h"
#include "base/mem.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define PUT_CHUNK 4096 /* tokens narrowed to uint16 at a time */

struct ShardWriter {
    char *folder, *stem, *temporary;
    IoWriter *file;
    XXH3_state_t *hash; /* of the tokens alone: the header is not known yet */
    uint64_t vocab, tokenizer, tokens;
    int token_bytes;
    uint8_t *mask; /* as in the file, of mask_room bytes; NULL: all tokens count so far */
    uint64_t mask_room, left_out;
};

static void writer_free(ShardWriter *writer)
{
    XXH3_freeState(writer->hash);
    free(writer->folder);
    free(writer->stem);
    free(writer->temporary);
    free(writer->mask);
    free(writer);
}

int shard_writer_open(const char *folder, const char *stem, uint64_t vocab, uint64_t tokenizer,
                      ShardWriter **out)
{
    PACER_ASSERT(vocab > 0 && vocab <= SHARD_MAX_VOCAB, "vocabulary %" PRIu64, vocab);
    *out = NULL;
    char *name = mem_format("%s" SHARD_SUFFIX IO_TEMPORARY, stem);
    char *temporary = io_join(folder, name);
    free(name);
    IoWriter *file;
    int code = io_writer_open(temporary, &file);
    if (code != 0) {
        free(temporary);
        return code;
    }
    ShardWriter *writer = mem_alloc(sizeof *writer);
    *writer = (ShardWriter){.folder = mem_strdup(folder),
                            .stem = mem_strdup(stem),
                            .temporary = temporary,
                            .file = file,
                            .hash = mem_checked(XXH3_createState(), sizeof(XXH3_state_t *)),
                            .vocab = vocab,
                            .tokenizer = tokenizer,
                            .token_bytes = vocab <= UINT16_MAX + 1u ? 2 : 4};
    XXH3_64bits_reset(writer->hash);
    static const uint8_t no_header[SHARD_HEADER_BYTES];
    io_writer_put(file, no_header, sizeof no_header);
    *out = writer;
    return 0;
}

static int put_bytes(ShardWriter *writer, const void *bytes, uint64_t size)
{
    XXH3_64bits_update(writer->hash, bytes, (size_t)size);
    return io_writer_put(writer->file, bytes, (size_t)size);
}

int shard_writer_put(ShardWriter *writer, const uint32_t *tokens, uint64_t count)
{
    int code = 0;
    for (uint64_t done = 0; done < count;) {
        uint16_t narrow[PUT_CHUNK];
        uint64_t part = count - done < PUT_CHUNK ? count - done : PUT_CHUNK;
        uint32_t largest = 0;
        for (uint64_t i = 0; i < part; i++) {
            largest = tokens[done + i] > largest ? tokens[done + i] : largest;
            narrow[i] = (uint16_t)tokens[done + i];
        }
        PACER_ASSERT(largest < writer->vocab, "token %u, vocabulary %" PRIu64, largest,
                     writer->vocab);
        code = writer->token_bytes == 2 ? put_bytes(writer, narrow, part * 2)
                                        : put_bytes(writer, tokens + done, part * 4);
        done += part;
    }
    writer->tokens += count;
    return code;
}

/* Room in the mask for all tokens so far. */
static void grow_mask(ShardWriter *writer)
{
    uint64_t need = shard_mask_bytes(writer->tokens);
    if (need > writer->mask_room) {
        uint64_t room = need > 2 * writer->mask_room ? need : 2 * writer->mask_room;
        writer->mask = mem_realloc(writer->mask, (size_t)room, 1);
        memset(writer->mask + writer->mask_room, 0, (size_t)(room - writer->mask_room));
        writer->mask_room = room;
    }
}

void shard_writer_leave_out(ShardWriter *writer, uint64_t count)
{
    PACER_ASSERT(count <= writer->tokens, "%" PRIu64 " of %" PRIu64, count, writer->tokens);
    grow_mask(writer);
    for (uint64_t i = writer->tokens - count; i < writer->tokens; i++) {
        writer->mask[i / 8] |= (uint8_t)(1 << i % 8);
    }
    writer->left_out += count;
}

uint64_t shard_writer_tokens(const ShardWriter *writer)
{
    return writer->tokens;
}

/* Puts the header over the zeros at the front of the finished file. */
static int seal(const ShardWriter *writer, const ShardInfo *info)
{
    ShardHeader header = {.magic = SHARD_MAGIC,
                          .version = info->left_out > 0 ? SHARD_VERSION_MASKED : SHARD_VERSION,
                          .left_out = info->left_out,
                          .token_bytes = (uint32_t)writer->token_bytes,
                          .tokens = info->tokens,
                          .vocab = writer->vocab,
                          .documents = info->documents,
                          .text_bytes = info->text_bytes,
                          .tokenizer = writer->tokenizer,
                          .payload_hash = info->hash};
    header.header_hash = io_hash(&header, offsetof(ShardHeader, header_hash));
    const char *path = writer->temporary;
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool done =
        file >= 0 && pwrite(file, &header, sizeof header, 0) == sizeof header && fsync(file) == 0;
    int code = done ? 0 : io_error(path, "write");
    if (file >= 0 && close(file) != 0 && code == 0) {
        code = io_error(path, "write");
    }
    return code;
}

int shard_writer_finish(ShardWriter *writer, uint64_t documents, uint64_t text_bytes,
                        ShardInfo *info)
{
    PACER_ASSERT(writer->tokens > 0 && documents <= writer->tokens,
                 "%" PRIu64 " tokens, %" PRIu64 " documents", writer->tokens, documents);
    if (writer->left_out > 0) {
        grow_mask(writer);
        put_bytes(writer, writer->mask, shard_mask_bytes(writer->tokens)); /* an error sticks */
    }
    uint64_t hash = XXH3_64bits_digest(writer->hash);
    *info = (ShardInfo){.file = mem_format("%s-%016" PRIx64 SHARD_SUFFIX, writer->stem, hash),
                        .tokens = writer->tokens,
                        .documents = documents,
                        .text_bytes = text_bytes,
                        .left_out = writer->left_out,
                        .hash = hash};
    char *path = io_join(writer->folder, info->file);
    int code = io_writer_close(writer->file, NULL);
    if (code == 0) {
        code = seal(writer, info);
    }
    if (code == 0 && rename(writer->temporary, path) != 0) {
        code = io_error(path, "write");
    }
    if (code == 0) {
        code = io_sync_folder(writer->folder);
    } else {
        unlink(writer->temporary);
    }
    if (code != 0) {
        free(info->file);
        *info = (ShardInfo){0};
    }
    free(path);
    writer_free(writer);
    return code;
}

void shard_writer_abandon(ShardWriter *writer)
{
    if (writer != NULL) {
        io_writer_abandon(writer->file);
        writer_free(writer);
    }
}
