/* Any bytes as text, through small tokenizers with a scanner, with PCRE2, and with
 * ignore_merges. Texts without an added token are also encoded by the definition: of all
 * neighbours in a piece that can be merged those of the lowest rank, the leftmost first, until
 * none can. */
#include "fuzz/fuzz.h"
#include "fuzz/text_check.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define VARIANTS 6

/* In order of rank; each side is a byte or made by an earlier line. */
static const char *const merges[][2] = {
    {"t", "h"},   {"th", "e"}, {" ", "the"}, {"e", "r"},       {"i", "n"},       {"in", "g"},
    {" ", " "},   {"a", "a"},  {"aa", "aa"}, {"aaaa", "a"},    {"\xc3", "\xa9"}, {"1", "2"},
    {"\n", "\n"}, {"'", "s"},  {"h", "e"},   {"\xff", "\xff"}, {"l", "l"},       {"o", "ll"},
};

static void must(int code)
{
    PACER_ASSERT(code == 0, "%s", err_message());
}

static uint32_t id_of(const Tokenizer *tokenizer, const void *bytes, size_t size)
{
    uint32_t id = 0;
    bool found = tokenizer_find(tokenizer, bytes, size, &id);
    PACER_ASSERT(found, "a token of %zu bytes is not there", size);
    return id;
}

static Tokenizer *make(int variant)
{
    static const char *const patterns[VARIANTS] = {PRETOK_GPT2, PRETOK_LLAMA3, "\\w+|\\s",
                                                   "a+?b|.",    PRETOK_O200K,  PRETOK_CL100K};
    static const char *const added[] = {"<|endoftext|>", "<|e", "<|endof", "<>"};
    Tokenizer *tokenizer = tokenizer_new();
    uint32_t next = 0;
    for (int byte = 255; byte >= 0; byte--) { /* ids are not the bytes */
        must(tokenizer_add_token(tokenizer, next++, (const uint8_t[]){(uint8_t)byte}, 1));
    }
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        const char *left = merges[i][0], *right = merges[i][1];
        size_t left_size = strlen(left), right_size = strlen(right);
        char *both = mem_format("%s%s", left, right);
        must(tokenizer_add_token(tokenizer, next++, (uint8_t *)both, left_size + right_size));
        must(tokenizer_add_merge(tokenizer, id_of(tokenizer, left, left_size),
                                 id_of(tokenizer, right, right_size)));
        free(both);
    }
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        AddedToken token = {.id = next++, .special = i == 0, .normalized = i == 3};
        must(tokenizer_add_added(tokenizer, token, (const uint8_t *)added[i], strlen(added[i])));
    }
    must(tokenizer_set_pattern(tokenizer, patterns[variant]));
    tokenizer->ignore_merges = variant == 1;
    must(tokenizer_finish(tokenizer));
    return tokenizer;
}

static void add_piece(const Tokenizer *tokenizer, const uint8_t *piece, size_t size, TokenList *out)
{
    uint32_t whole;
    if (tokenizer->ignore_merges && tokenizer_find(tokenizer, piece, size, &whole)) {
        token_list_add(out, &whole, 1);
        return;
    }
    uint32_t *ids = mem_alloc(size * sizeof *ids);
    for (size_t i = 0; i < size; i++) {
        ids[i] = tokenizer->byte_ids[piece[i]];
    }
    while (true) {
        size_t best = size;
        uint32_t best_rank = UINT32_MAX, best_result = 0, rank, result;
        for (size_t i = 0; i + 1 < size; i++) {
            bool joins = tokenizer_merge_of(tokenizer, ids[i], ids[i + 1], &rank, &result);
            if (joins && rank < best_rank) {
                best = i;
                best_rank = rank;
                best_result = result;
            }
        }
        if (best == size) {
            break;
        }
        ids[best] = best_result;
        memmove(ids + best + 1, ids + best + 2, (size - best - 2) * sizeof *ids);
        size--;
    }
    token_list_add(out, ids, size);
    free(ids);
}

static void check_definition(const Tokenizer *tokenizer, Encoder *encoder, const uint8_t *text,
                             size_t size)
{
    TokenList wanted = {0}, ids = {0};
    PretokWalk *walk = pretok_walk_open(tokenizer->pretok);
    pretok_walk_begin(walk, text, size);
    for (size_t start = 0, end; pretok_walk_next(walk, &end); start = end) {
        add_piece(tokenizer, text + start, end - start, &wanted);
    }
    encoder_run(encoder, text, size, &ids);
    PACER_ASSERT(
        ids.count == wanted.count &&
            (ids.count == 0 || memcmp(ids.ids, wanted.ids, ids.count * sizeof *ids.ids) == 0),
        "%zu ids instead of %zu, or others", ids.count, wanted.count);
    pretok_walk_close(walk);
    token_list_free(&ids);
    token_list_free(&wanted);
}

/* Encoders stay, so that what they remember of earlier texts is used: a failure that does not come
 * again with its input alone is one of the memory. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Tokenizer *tokenizers[VARIANTS];
    static Encoder *encoders[VARIANTS];
    size = size < 2048 ? size : 2048; /* the definition takes the square of a piece's length */
    bool plain = size == 0 || memchr(data, '<', size) == NULL;
    for (int variant = 0; variant < VARIANTS; variant++) {
        if (tokenizers[variant] == NULL) {
            tokenizers[variant] = make(variant);
            encoders[variant] = encoder_open(tokenizers[variant]);
        }
        fuzz_ids(tokenizers[variant], encoders[variant], data, size);
        if (plain) {
            check_definition(tokenizers[variant], encoders[variant], data, size);
        }
    }
    return 0;
}
