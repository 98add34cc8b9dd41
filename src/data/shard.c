#include "data/shard.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/mem.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* llm.c: 256 int32, of which the first three count; then the tokens. */
#define LLMC_HEADER_BYTES 1024
#define LLMC_MAGIC_U16 20240520u
#define LLMC_VERSION_U16 1u
#define LLMC_MAGIC_U32 20240801u
#define LLMC_VERSION_U32 7u
#define LLMC_MAGIC_EVAL 20240522u

#define SCAN_CHUNK ((uint64_t)1 << 20) /* bytes: hash and maximum while they are in the cache */
#define PUT_CHUNK 4096                 /* tokens narrowed to uint16 at a time */
#define READ_CHUNK 4096                /* tokens read at a time */
#define HEAD_BYTES 512                 /* of a file, by which its format is known */

const char *shard_format_name(ShardFormat format)
{
    switch (format) {
    case SHARD_PACER:
        return "pacer shard";
    case SHARD_LLMC:
        return "llm.c file";
    case SHARD_RAW:
        return "raw uint16 file";
    case SHARD_MEMORY:
        break;
    }
    return "built in";
}

/* The file holds a header of `header` bytes and shard->tokens tokens, and nothing else. */
static int check_length(Shard *shard, uint64_t header)
{
    uint64_t width = (uint64_t)shard->token_bytes, actual = io_file_size(shard->file);
    if (shard->tokens > (UINT64_MAX - header) / width) {
        return err_set(ERR_INPUT,
                       "the header promises an impossible %" PRIu64
                       " tokens: it was damaged; prepare or copy the file again",
                       shard->tokens);
    }
    uint64_t expected = header + shard->tokens * width;
    if (actual != expected) {
        return err_set(ERR_INPUT,
                       "%s: %" PRIu64 " tokens make %" PRIu64 " bytes, the file has %" PRIu64
                       "; prepare or copy it again",
                       actual < expected ? "truncated" : "longer than its header says",
                       shard->tokens, expected, actual);
    }
    shard->header = header;
    return 0;
}

/* The first bytes of a file, as many as it has. */
typedef struct {
    uint8_t bytes[HEAD_BYTES];
    size_t size;
} Head;

static int open_pacer(Shard *shard, const Head *head)
{
    if (head->size < SHARD_HEADER_BYTES) {
        return err_set(ERR_INPUT,
                       "truncated: a shard has at least %d bytes, the file has %zu; prepare or "
                       "copy it again",
                       SHARD_HEADER_BYTES, head->size);
    }
    ShardHeader header;
    memcpy(&header, head->bytes, sizeof header);
    if (header.version != SHARD_VERSION) {
        return err_set(ERR_INPUT,
                       "shard format version %" PRIu32
                       ", this pacer reads version %u; prepare it again with this pacer",
                       header.version, SHARD_VERSION);
    }
    if (io_hash(&header, offsetof(ShardHeader, header_hash)) != header.header_hash) {
        return err_set(ERR_INPUT,
                       "the header was changed or damaged (its hash does not match); prepare "
                       "it again");
    }
    shard->format = SHARD_PACER;
    shard->token_bytes = (int)header.token_bytes;
    shard->tokens = header.tokens;
    shard->vocab = header.vocab;
    shard->documents = header.documents;
    shard->text_bytes = header.text_bytes;
    shard->tokenizer = header.tokenizer;
    shard->hash = header.payload_hash;
    bool width = shard->token_bytes == 2 || shard->token_bytes == 4;
    uint64_t limit = shard->token_bytes == 2 ? UINT16_MAX + 1u : SHARD_MAX_VOCAB;
    if (!width || shard->tokens == 0 || shard->vocab == 0 || shard->vocab > limit ||
        shard->documents > shard->tokens) {
        return err_set(ERR_INPUT,
                       "the header makes no sense (%d bytes per token, %" PRIu64
                       " tokens, vocabulary %" PRIu64 ", %" PRIu64 " documents); prepare it again",
                       shard->token_bytes, shard->tokens, shard->vocab, shard->documents);
    }
    return check_length(shard, SHARD_HEADER_BYTES);
}

static int open_llmc(Shard *shard, const uint32_t header[3])
{
    uint64_t size = io_file_size(shard->file);
    if (size < LLMC_HEADER_BYTES) {
        return err_set(ERR_INPUT,
                       "truncated: an llm.c file has at least %d bytes, this one has %" PRIu64
                       "; make or copy it again",
                       LLMC_HEADER_BYTES, size);
    }
    bool narrow = header[0] == LLMC_MAGIC_U16;
    uint32_t known = narrow ? LLMC_VERSION_U16 : LLMC_VERSION_U32;
    if (header[1] != known) {
        return err_set(ERR_INPUT,
                       "llm.c file of version %" PRIu32 ", pacer reads version %" PRIu32
                       "; make it again with a current llm.c",
                       header[1], known);
    }
    shard->format = SHARD_LLMC;
    shard->token_bytes = narrow ? 2 : 4;
    shard->tokens = header[2];
    if (shard->tokens == 0 || shard->tokens > INT32_MAX) {
        return err_set(ERR_INPUT,
                       "the llm.c header gives %d tokens, which cannot be; make it again",
                       (int)(int32_t)shard->tokens);
    }
    return check_length(shard, LLMC_HEADER_BYTES);
}

static int open_raw(Shard *shard)
{
    uint64_t size = io_file_size(shard->file);
    if (size % 2 != 0) {
        return err_set(ERR_INPUT,
                       "%" PRIu64 " bytes are no whole number of uint16 tokens: truncated, or "
                       "not a token file; prepare or copy it again",
                       size);
    }
    shard->format = SHARD_RAW;
    shard->token_bytes = 2;
    shard->tokens = size / 2;
    return check_length(shard, 0);
}

/* No byte of the first few hundred is a control character that text does not have. */
static bool looks_like_text(const Head *head)
{
    for (size_t i = 0; i < head->size; i++) {
        uint8_t byte = head->bytes[i];
        if (byte < 32 && byte != '\n' && byte != '\r' && byte != '\t') {
            return false;
        }
    }
    return true;
}

static int unknown_format(const Shard *shard, const Head *head)
{
    if (looks_like_text(head)) {
        char *word = escape_shell_path(shard->path);
        int code = err_set(ERR_INPUT,
                           "looks like text, not tokens; make tokens of it first: pacer data "
                           "prepare --out DIR %s",
                           word);
        free(word);
        return code;
    }
    return err_set(ERR_INPUT,
                   "neither a pacer shard nor an llm.c token file (unknown first bytes); "
                   "headerless uint16 files are read under nanoGPT's names train.bin and val.bin");
}

int shard_open(Shard *shard, const char *path, bool raw)
{
    *shard = (Shard){0};
    int code = io_file_open(path, &shard->file);
    if (code != 0) {
        return code;
    }
    Head head = {.size = HEAD_BYTES};
    head.size = io_file_size(shard->file) < HEAD_BYTES ? io_file_size(shard->file) : HEAD_BYTES;
    code = io_file_read(shard->file, 0, head.bytes, head.size);
    if (code != 0) {
        shard_close(shard);
        return code;
    }
    shard->path = mem_strdup(path);
    uint32_t start[3]; /* of llm.c */
    memcpy(start, head.bytes, sizeof start);
    if (head.size == 0) {
        code = err_set(ERR_INPUT, "the file is empty; prepare or copy it again");
    } else if (head.size >= 8 && memcmp(head.bytes, SHARD_MAGIC, 8) == 0) {
        code = open_pacer(shard, &head);
    } else if (start[0] == LLMC_MAGIC_U16 || start[0] == LLMC_MAGIC_U32) {
        code = open_llmc(shard, start);
    } else if (start[0] == LLMC_MAGIC_EVAL) {
        code = err_set(ERR_INPUT,
                       "an llm.c evaluation file (multiple choice), not a stream of tokens; "
                       "give a _train or _val file");
    } else if (raw) {
        code = open_raw(shard);
    } else {
        code = unknown_format(shard, &head);
    }
    if (code != 0) {
        shard_close(shard);
        err_wrap(code, "%s", path);
    }
    return code;
}

/* Tokens [first, first + count) as they are stored: in memory, or read into `room`. What a file has
 * lost reads as zeros (shard_check). */
static const void *stored(const Shard *shard, uint64_t first, uint64_t count, void *room)
{
    uint64_t width = (uint64_t)shard->token_bytes;
    if (shard->memory != NULL) {
        return (const uint8_t *)shard->memory + first * width;
    }
    (void)io_file_read(shard->file, shard->header + first * width, room, (size_t)(count * width));
    return room;
}

static uint32_t largest_u16(const uint16_t *tokens, uint64_t count)
{
    uint16_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (uint64_t i = 0; i < count; i++) {
        largest = tokens[i] > largest ? tokens[i] : largest;
    }
    return largest;
}

static uint32_t largest_u32(const uint32_t *tokens, uint64_t count)
{
    uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (uint64_t i = 0; i < count; i++) {
        largest = tokens[i] > largest ? tokens[i] : largest;
    }
    return largest;
}

static uint32_t largest_in(const void *tokens, int token_bytes, uint64_t count)
{
    return token_bytes == 2 ? largest_u16(tokens, count) : largest_u32(tokens, count);
}

int shard_scan(Shard *shard)
{
    if (shard->scanned) {
        return 0;
    }
    XXH3_state_t *hash = mem_checked(XXH3_createState(), sizeof(XXH3_state_t *));
    XXH3_64bits_reset(hash);
    uint32_t largest = 0;
    uint64_t step = SCAN_CHUNK / (uint64_t)shard->token_bytes;
    void *room = mem_alloc(SCAN_CHUNK);
    for (uint64_t first = 0; first < shard->tokens; first += step) {
        uint64_t count = shard->tokens - first < step ? shard->tokens - first : step;
        const void *tokens = stored(shard, first, count, room);
        XXH3_64bits_update(hash, tokens, (size_t)(count * (uint64_t)shard->token_bytes));
        uint32_t here = largest_in(tokens, shard->token_bytes, count);
        largest = here > largest ? here : largest;
    }
    free(room);
    uint64_t digest = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    int code = shard_check(shard);
    if (code != 0) {
        return code;
    }
    if (shard->format == SHARD_PACER && digest != shard->hash) {
        return err_set(ERR_INPUT,
                       "%s: its tokens were changed or damaged (hash %016" PRIx64
                       ", the header has %016" PRIx64 "); prepare it again",
                       shard->path, digest, shard->hash);
    }
    if (shard->vocab > 0 && largest >= shard->vocab) {
        return err_set(ERR_INPUT,
                       "%s: token %u at position %" PRIu64
                       " is not below the vocabulary of its header, %" PRIu64 "; prepare it again",
                       shard->path, shard_token(shard, shard_find_at_least(shard, shard->vocab)),
                       shard_find_at_least(shard, shard->vocab), shard->vocab);
    }
    shard->hash = digest;
    shard->largest = largest;
    shard->scanned = true;
    return 0;
}

void shard_from_memory(Shard *shard, const char *name, void *tokens, uint64_t count,
                       int token_bytes, uint64_t vocab)
{
    PACER_ASSERT(token_bytes == 2 || token_bytes == 4, "token_bytes %d", token_bytes);
    *shard = (Shard){.path = mem_strdup(name),
                     .format = SHARD_MEMORY,
                     .tokens = count,
                     .token_bytes = token_bytes,
                     .vocab = vocab,
                     .hash = io_hash(tokens, (size_t)count * (size_t)token_bytes),
                     .scanned = true,
                     .memory = tokens};
    shard->largest = largest_in(tokens, token_bytes, count);
    PACER_ASSERT(vocab == 0 || shard->largest < vocab, "token %u, vocabulary %" PRIu64,
                 shard->largest, vocab);
}

void shard_close(Shard *shard)
{
    io_file_close(shard->file);
    free(shard->memory);
    free(shard->path);
    *shard = (Shard){0};
}

int shard_check(const Shard *shard)
{
    return shard->file != NULL ? io_file_check(shard->file) : 0;
}

/* Tokens as int32; returns the largest. */
static int32_t widen_u16(const uint16_t *in, uint64_t count, int32_t *out)
{
    int32_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (uint64_t i = 0; i < count; i++) {
        out[i] = in[i];
        largest = out[i] > largest ? out[i] : largest;
    }
    return largest;
}

static int32_t widen_u32(const uint32_t *in, uint64_t count, int32_t *out)
{
    int32_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (uint64_t i = 0; i < count; i++) {
        out[i] = in[i] > INT32_MAX ? INT32_MAX : (int32_t)in[i];
        largest = out[i] > largest ? out[i] : largest;
    }
    return largest;
}

int32_t shard_read(const Shard *shard, uint64_t first, uint64_t count, int32_t *out)
{
    PACER_ASSERT(first <= shard->tokens && count <= shard->tokens - first,
                 "first %" PRIu64 " count %" PRIu64 " tokens %" PRIu64, first, count,
                 shard->tokens);
    int32_t largest = 0;
    while (count > 0) {
        union {
            uint16_t narrow[READ_CHUNK];
            uint32_t wide[READ_CHUNK];
        } room;
        uint64_t part = count < READ_CHUNK ? count : READ_CHUNK;
        const void *tokens = stored(shard, first, part, &room);
        int32_t here =
            shard->token_bytes == 2 ? widen_u16(tokens, part, out) : widen_u32(tokens, part, out);
        largest = here > largest ? here : largest;
        first += part;
        count -= part;
        out += part;
    }
    return largest;
}

uint32_t shard_token(const Shard *shard, uint64_t position)
{
    PACER_ASSERT(position < shard->tokens, "position %" PRIu64 " of %" PRIu64, position,
                 shard->tokens);
    union {
        uint16_t narrow;
        uint32_t wide;
    } room;
    const void *token = stored(shard, position, 1, &room);
    return shard->token_bytes == 2 ? *(const uint16_t *)token : *(const uint32_t *)token;
}

uint64_t shard_find_at_least(const Shard *shard, uint64_t limit)
{
    int32_t tokens[READ_CHUNK];
    for (uint64_t first = 0; first < shard->tokens; first += READ_CHUNK) {
        uint64_t left = shard->tokens - first, count = left < READ_CHUNK ? left : READ_CHUNK;
        if ((uint64_t)shard_read(shard, first, count, tokens) < limit) {
            continue;
        }
        uint64_t at = 0;
        while ((uint64_t)tokens[at] < limit) {
            at++;
        }
        return first + at;
    }
    return shard->tokens;
}

/* ---- Writing ---- */

struct ShardWriter {
    char *folder, *stem, *temporary;
    IoWriter *file;
    XXH3_state_t *hash; /* of the tokens alone: the header is not known yet */
    uint64_t vocab, tokenizer, tokens;
    int token_bytes;
};

static void writer_free(ShardWriter *writer)
{
    XXH3_freeState(writer->hash);
    free(writer->folder);
    free(writer->stem);
    free(writer->temporary);
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

uint64_t shard_writer_tokens(const ShardWriter *writer)
{
    return writer->tokens;
}

/* Puts the header over the zeros at the front of the finished file. */
static int seal(const ShardWriter *writer, const ShardInfo *info)
{
    ShardHeader header = {.magic = SHARD_MAGIC,
                          .version = SHARD_VERSION,
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
    uint64_t hash = XXH3_64bits_digest(writer->hash);
    *info = (ShardInfo){.file = mem_format("%s-%016" PRIx64 SHARD_SUFFIX, writer->stem, hash),
                        .tokens = writer->tokens,
                        .documents = documents,
                        .text_bytes = text_bytes,
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
