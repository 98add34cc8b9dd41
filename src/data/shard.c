#include "data/shard.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* llm.c: 256 int32, of which the first three count; then the tokens. */
#define LLMC_HEADER_BYTES 1024
#define LLMC_MAGIC_U16 20240520u
#define LLMC_VERSION_U16 1u
#define LLMC_MAGIC_U32 20240801u
#define LLMC_VERSION_U32 7u
#define LLMC_MAGIC_EVAL 20240522u

#define SCAN_CHUNK ((uint64_t)1 << 20) /* bytes: hash and maximum while they are in the cache */
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

/* The file holds a header of `header` bytes, shard->tokens tokens and the mask if there is one, and
 * nothing else. */
static int check_length(Shard *shard, uint64_t header)
{
    uint64_t width = (uint64_t)shard->token_bytes, actual = io_file_size(shard->file);
    if (shard->tokens > (UINT64_MAX - header) / (width + 1)) {
        return err_set(ERR_INPUT,
                       "the header promises an impossible %" PRIu64
                       " tokens: it was damaged; prepare or copy the file again",
                       shard->tokens);
    }
    uint64_t expected = header + shard->tokens * width;
    expected += shard->masked ? shard_mask_bytes(shard->tokens) : 0;
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
    if (header.version != SHARD_VERSION && header.version != SHARD_VERSION_MASKED) {
        return err_set(ERR_INPUT,
                       "shard format version %" PRIu32
                       ", this pacer reads versions %u and %u; prepare it again with this pacer",
                       header.version, SHARD_VERSION, SHARD_VERSION_MASKED);
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
    shard->masked = header.version == SHARD_VERSION_MASKED;
    shard->left_out = shard->masked ? header.left_out : 0;
    bool width = shard->token_bytes == 2 || shard->token_bytes == 4;
    uint64_t limit = shard->token_bytes == 2 ? UINT16_MAX + 1u : SHARD_MAX_VOCAB;
    if (!width || shard->tokens == 0 || shard->vocab == 0 || shard->vocab > limit ||
        shard->documents > shard->tokens || shard->left_out > shard->tokens) {
        return err_set(
            ERR_INPUT,
            "the header makes no sense (%d bytes per token, %" PRIu64 " tokens, vocabulary %" PRIu64
            ", %" PRIu64 " documents, %" PRIu64 " tokens left out); prepare it again",
            shard->token_bytes, shard->tokens, shard->vocab, shard->documents, shard->left_out);
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

/* Bytes [first, first + count) of the mask. */
static void read_mask(const Shard *shard, uint64_t first, uint64_t count, void *room)
{
    uint64_t start = shard->header + shard->tokens * (uint64_t)shard->token_bytes;
    (void)io_file_read(shard->file, start + first, room, (size_t)count);
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
    for (uint64_t at = 0, all = shard->masked ? shard_mask_bytes(shard->tokens) : 0; at < all;) {
        uint64_t part = all - at < SCAN_CHUNK ? all - at : SCAN_CHUNK;
        read_mask(shard, at, part, room);
        XXH3_64bits_update(hash, room, (size_t)part);
        at += part;
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

void shard_mask(const Shard *shard, uint64_t first, uint64_t count, int32_t *targets)
{
    uint8_t bits[READ_CHUNK];
    while (shard->masked && count > 0) {
        uint64_t inside = first % 8, part = 8 * READ_CHUNK - inside;
        part = count < part ? count : part;
        read_mask(shard, first / 8, shard_mask_bytes(inside + part), bits);
        for (uint64_t i = 0; i < part; i++) {
            bool out = (bits[(inside + i) / 8] >> ((inside + i) % 8) & 1) != 0;
            targets[i] = out ? -1 : targets[i];
        }
        first += part;
        count -= part;
        targets += part;
    }
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
