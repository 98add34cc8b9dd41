#include "text/splits.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/pretok_scan.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

void splits_add(Splits *splits, SplitStep step)
{
    splits->steps = mem_realloc(splits->steps, splits->count + 1, sizeof *splits->steps);
    splits->steps[splits->count++] = step;
}

void splits_free(Splits *splits)
{
    for (size_t i = 0; i < splits->count; i++) {
        pretok_close(splits->steps[i].pretok);
    }
    free(splits->steps);
    *splits = (Splits){0};
}

/* Steps that look at the class of each character alone cut a text the same way whatever lies around
 * a place, and leave the place to the pattern behind them. A space that is put before each of their
 * pieces is another matter. */
bool splits_part_words(const Splits *splits)
{
    for (size_t i = 0; i < splits->count; i++) {
        const SplitStep *step = &splits->steps[i];
        if (step->kind == STEP_SPACE && i == 0) {
            continue;
        }
        if (step->kind != STEP_SPLIT || step->behavior > SPLIT_CONTIGUOUS) {
            return false;
        }
        if (pretok_parts_words(step->pretok)) {
            return step->behavior == SPLIT_ISOLATED;
        }
        if (!pretok_is_class(step->pretok)) {
            return false;
        }
    }
    return false;
}

bool splits_rewrite_starts(const Splits *splits)
{
    return splits->count > 0 &&
           (splits->steps[0].kind == STEP_SPACE || splits->steps[0].kind == STEP_METASPACE);
}

const SplitStep *splits_metaspace(const Splits *splits)
{
    return splits->count > 0 && splits->steps[0].kind == STEP_METASPACE ? splits->steps : NULL;
}

/* ---- Walks ---- */

/* Of one step. */
typedef struct {
    PretokWalk *walk; /* NULL: no pattern */
    ByteList text;    /* as it was rewritten */
} Level;

struct SplitWalk {
    const Splits *splits;
    Level *levels;
    bool in_alphabet;
    ByteList bytes; /* of a piece in the byte alphabet */
    SplitSink sink;
    void *context;
};

SplitWalk *split_walk_open(const Splits *splits)
{
    SplitWalk *walk = mem_zalloc(1, sizeof *walk);
    walk->splits = splits;
    walk->levels = mem_zalloc(splits->count + 1, sizeof *walk->levels);
    for (size_t i = 0; i < splits->count; i++) {
        if (splits->steps[i].kind == STEP_SPLIT) {
            walk->levels[i].walk = pretok_walk_open(splits->steps[i].pretok);
        }
        walk->in_alphabet = walk->in_alphabet || splits->steps[i].kind == STEP_ALPHABET;
    }
    return walk;
}

void split_walk_close(SplitWalk *walk)
{
    if (walk != NULL) {
        for (size_t i = 0; i < walk->splits->count; i++) {
            pretok_walk_close(walk->levels[i].walk);
            byte_list_free(&walk->levels[i].text);
        }
        byte_list_free(&walk->bytes);
        free(walk->levels);
        free(walk);
    }
}

static void run_from(SplitWalk *w, size_t level, const uint8_t *text, size_t size, size_t readable,
                     bool opens, bool first);

/* Whether a piece and the one that follows it are one. Between two that the pattern does not match
 * is a match of nothing. */
static bool belong(const SplitStep *step, bool matched, bool next_matched)
{
    switch (step->behavior) {
    case SPLIT_CONTIGUOUS:
        return matched != step->inverted && next_matched != step->inverted;
    case SPLIT_WITH_PREVIOUS:
        return !matched && next_matched;
    case SPLIT_WITH_NEXT:
        return matched && !next_matched;
    default:
        return false;
    }
}

static bool next_matched(Level *level, const SplitStep *step, size_t *end)
{
    bool more = pretok_walk_next(level->walk, end);
    return more && pretok_walk_matched(level->walk) != step->inverted;
}

static void run_split(SplitWalk *w, size_t at_level, const uint8_t *text, size_t size,
                      size_t readable, bool first)
{
    const SplitStep *step = &w->splits->steps[at_level];
    Level *level = &w->levels[at_level];
    pretok_walk_begin(level->walk, text, size);
    size_t start = 0, end = 0, next = 0;
    bool matched = next_matched(level, step, &end);
    while (start < size) {
        /* Three in a row are one only where all of them match or none does. */
        bool follows = end < size && next_matched(level, step, &next);
        bool joined = end < size && belong(step, matched, follows);
        if (joined) {
            end = next;
            matched = follows;
            if (step->behavior == SPLIT_CONTIGUOUS) {
                continue;
            }
        }
        run_from(w, at_level + 1, text + start, end - start, readable - start, true,
                 first && start == 0);
        start = end;
        if (joined && end < size) {
            matched = next_matched(level, step, &end);
        } else if (!joined) {
            end = next;
            matched = follows;
        }
    }
}

static void run_space(SplitWalk *w, size_t at_level, const uint8_t *text, size_t size,
                      size_t readable, bool opens, bool first)
{
    if (!opens || text[0] == ' ') {
        run_from(w, at_level + 1, text, size, readable, opens, first);
        return;
    }
    ByteList *out = &w->levels[at_level].text;
    out->size = 0;
    byte_list_add(out, " ", 1);
    byte_list_add(out, text, size);
    run_from(w, at_level + 1, out->bytes, out->size, out->size, opens, first);
}

static void run_metaspace(SplitWalk *w, size_t at_level, const uint8_t *text, size_t size,
                          bool opens, bool first)
{
    const SplitStep *step = &w->splits->steps[at_level];
    ByteList *out = &w->levels[at_level].text;
    uint8_t sign[4];
    size_t length = (size_t)utf8_encode(step->sign, sign);
    bool signed_already = text[0] == ' ' || (size >= length && memcmp(text, sign, length) == 0);
    bool meant = step->scheme == PREPEND_ALWAYS || (step->scheme == PREPEND_FIRST && first);
    out->size = 0;
    byte_list_add(out, sign, opens && meant && !signed_already ? length : 0);
    for (size_t at = 0, end; at < size; at = end + 1) {
        const uint8_t *space = memchr(text + at, ' ', size - at);
        end = space != NULL ? (size_t)(space - text) : size;
        byte_list_add(out, text + at, end - at);
        byte_list_add(out, sign, end < size ? length : 0);
    }
    size_t start = 0;
    const uint8_t *next = out->bytes;
    while (step->parts && (next = memmem(next + 1, out->size - (size_t)(next + 1 - out->bytes),
                                         sign, length)) != NULL) {
        size_t at = (size_t)(next - out->bytes);
        run_from(w, at_level + 1, out->bytes + start, at - start, out->size - start, true,
                 first && start == 0);
        start = at;
    }
    run_from(w, at_level + 1, out->bytes + start, out->size - start, out->size - start, opens,
             first && start == 0);
}

static void run_alphabet(SplitWalk *w, size_t at_level, const uint8_t *text, size_t size,
                         bool opens, bool first)
{
    ByteList *out = &w->levels[at_level].text;
    out->size = 0;
    for (size_t i = 0; i < size; i++) {
        byte_list_add_character(out, byte_character(text[i]));
    }
    run_from(w, at_level + 1, out->bytes, out->size, out->size, opens, first);
}

static void hand_out(SplitWalk *w, const uint8_t *text, size_t size, size_t readable)
{
    if (!w->in_alphabet) {
        w->sink(w->context, text, size, readable);
        return;
    }
    w->bytes.size = 0;
    size_t count;
    uint8_t *bytes = byte_list_extend(&w->bytes, size);
    alphabet_to_bytes((const char *)text, size, bytes, &count);
    w->sink(w->context, bytes, count, count);
}

/* Takes a piece through the steps from `level` on. */
static void run_from(SplitWalk *w, size_t level, const uint8_t *text, size_t size, size_t readable,
                     bool opens, bool first)
{
    if (level == w->splits->count) {
        hand_out(w, text, size, readable);
        return;
    }
    switch (w->splits->steps[level].kind) {
    case STEP_SPLIT:
        run_split(w, level, text, size, readable, first);
        return;
    case STEP_SPACE:
        run_space(w, level, text, size, readable, opens, first);
        return;
    case STEP_METASPACE:
        run_metaspace(w, level, text, size, opens, first);
        return;
    case STEP_ALPHABET:
        run_alphabet(w, level, text, size, opens, first);
        return;
    }
}

void split_walk_run(SplitWalk *walk, const uint8_t *text, size_t size, bool opens, bool first,
                    SplitSink sink, void *context)
{
    walk->sink = sink;
    walk->context = context;
    if (size > 0) {
        run_from(walk, 0, text, size, size, opens, first);
    }
}

/* A place between two pieces of the first step is one for all that follow, which see each piece
 * alone. Pieces that join their neighbours do not end where the pattern's do. */
size_t split_walk_cut(SplitWalk *walk, const uint8_t *text, size_t size)
{
    const SplitStep *first = walk->splits->steps;
    if (walk->splits->count == 0) {
        return 0;
    }
    if (splits_part_words(walk->splits)) {
        return scan_cut(text, size);
    }
    bool plain = first->kind == STEP_SPLIT &&
                 (first->behavior == SPLIT_ISOLATED ||
                  (first->behavior == SPLIT_CONTIGUOUS && pretok_is_class(first->pretok)));
    return plain ? pretok_walk_cut(walk->levels[0].walk, text, size) : 0;
}
