#include "fuzz/text_check.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Appends the ends of the pieces of text[from, to), as positions in the text. */
static void add_ends(PretokWalk *walk, const uint8_t *text, size_t from, size_t to, TokenList *ends)
{
    size_t end, before = 0;
    pretok_walk_begin(walk, text + from, to - from);
    while (pretok_walk_next(walk, &end)) {
        PACER_ASSERT(end > before && end <= to - from, "a piece from %zu to %zu of %zu", before,
                     end, to - from);
        uint32_t position = (uint32_t)(from + end);
        token_list_add(ends, &position, 1);
        before = end;
    }
    PACER_ASSERT(before == to - from, "pieces end at %zu of %zu", before, to - from);
}

/* A cut that looks at the first `seen` bytes alone must hold for the whole text. */
static void check_piece_cut(PretokWalk *walk, const uint8_t *text, size_t size, size_t seen,
                            const TokenList *whole)
{
    size_t cut = pretok_walk_cut(walk, text, seen);
    PACER_ASSERT(cut <= seen, "cut at %zu of %zu", cut, seen);
    if (cut > 0) {
        TokenList parts = {0};
        add_ends(walk, text, 0, cut, &parts);
        add_ends(walk, text, cut, size, &parts);
        PACER_ASSERT(parts.count == whole->count &&
                         (parts.count == 0 ||
                          memcmp(parts.ids, whole->ids, parts.count * sizeof *parts.ids) == 0),
                     "cut at %zu, seeing %zu of %zu: %zu pieces instead of %zu", cut, seen, size,
                     parts.count, whole->count);
        token_list_free(&parts);
    }
}

void fuzz_pieces(const Pretok *pretok, const uint8_t *text, size_t size)
{
    PretokWalk *walk = pretok_walk_open(pretok);
    TokenList whole = {0};
    add_ends(walk, text, 0, size, &whole);
    PACER_ASSERT(pretok_walk_invalid(walk) <= size, "more bad bytes than bytes");
    check_piece_cut(walk, text, size, size, &whole);
    check_piece_cut(walk, text, size, size / 2, &whole);
    check_piece_cut(walk, text, size, size - size / 4, &whole);
    token_list_free(&whole);
    pretok_walk_close(walk);
}

static void check_id_cut(Encoder *encoder, const uint8_t *text, size_t size, size_t seen,
                         const TokenList *whole)
{
    size_t cut = encoder_cut(encoder, text, seen);
    PACER_ASSERT(cut <= seen, "cut at %zu of %zu", cut, seen);
    if (cut > 0) {
        TokenList parts = {0};
        encoder_run(encoder, text, cut, &parts);
        encoder_run_part(encoder, text + cut, size - cut, false, &parts);
        PACER_ASSERT(parts.count == whole->count &&
                         (parts.count == 0 ||
                          memcmp(parts.ids, whole->ids, parts.count * sizeof *parts.ids) == 0),
                     "cut at %zu, seeing %zu of %zu: %zu ids instead of %zu, or others", cut, seen,
                     size, parts.count, whole->count);
        token_list_free(&parts);
    }
}

/* Whether ids are the text's own bytes. */
static bool is_exact(const Tokenizer *t)
{
    bool exact = !t->characters && t->normalizer.count == 0;
    for (size_t i = 0; i < t->splits.count; i++) {
        StepKind kind = t->splits.steps[i].kind;
        exact = exact && (kind == STEP_SPLIT || kind == STEP_ALPHABET);
    }
    for (size_t i = 0; i < t->added_count; i++) {
        exact = exact && !t->added[i].lstrip && !t->added[i].rstrip;
    }
    return exact;
}

void fuzz_ids(const Tokenizer *tokenizer, Encoder *encoder, const uint8_t *text, size_t size)
{
    TokenList ids = {0};
    encoder_run(encoder, text, size, &ids);
    for (size_t i = 0; i < ids.count; i++) {
        PACER_ASSERT(ids.ids[i] < tokenizer->vocab, "id %u", ids.ids[i]);
    }
    ByteList bytes = {0};
    int code = tokenizer_decode(tokenizer, ids.ids, ids.count, &bytes);
    PACER_ASSERT(code == 0, "%s", err_message());
    PACER_ASSERT(!is_exact(tokenizer) ||
                     (bytes.size == size && (size == 0 || memcmp(bytes.bytes, text, size) == 0)),
                 "%zu bytes became %zu, or other ones", size, bytes.size);
    check_id_cut(encoder, text, size, size, &ids);
    check_id_cut(encoder, text, size, size / 2, &ids);
    check_id_cut(encoder, text, size, size - size / 4, &ids);
    byte_list_free(&bytes);
    token_list_free(&ids);
}
