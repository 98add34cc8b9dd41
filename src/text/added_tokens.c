/* A candidate position is one whose byte begins some added token (memchr when all begin with the
 * same one, as "<|...|>" do). There the token is looked up in the tokenizer's own table, once
 * per length that added tokens have, longest first. */
#include "text/added_tokens.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { PLAIN, NORMALIZED, CLASSES };

/* The added tokens of one class. */
typedef struct {
    uint32_t *lengths; /* descending, each once */
    size_t length_count;
    bool begins[256];
    int only_begin; /* the byte that all begin with; -1 when there are several */
} TokenClass;

struct AddedFinder {
    const Tokenizer *tokenizer;
    TokenClass classes[CLASSES];
    uint8_t *class_of; /* by id: 0, or 1 + class */
    uint32_t vocab;
    size_t longest;
    const uint8_t *text;
    /* What is not handed out yet: [at, size) of the text. Within it [at, plain_start) has no
     * match of the class PLAIN, and [plain_start, plain_end) is one, if they differ. */
    size_t at, size, plain_start, plain_end;
    uint32_t plain_id;
};

static int descending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

AddedFinder *added_finder_open(const Tokenizer *tokenizer)
{
    AddedFinder *finder = mem_zalloc(1, sizeof *finder);
    size_t count = tokenizer_added_count(tokenizer);
    const AddedToken *added = tokenizer_added(tokenizer);
    finder->tokenizer = tokenizer;
    finder->vocab = tokenizer_vocab(tokenizer);
    finder->class_of = mem_zalloc(finder->vocab, 1);
    for (int class = 0; class < CLASSES; class ++) {
        finder->classes[class].lengths = mem_alloc((count + 1) * sizeof(uint32_t));
        finder->classes[class].only_begin = -1;
    }
    for (size_t i = 0; i < count; i++) {
        size_t size;
        const uint8_t *bytes = tokenizer_bytes(tokenizer, added[i].id, &size);
        int which = added[i].normalized ? NORMALIZED : PLAIN;
        TokenClass *class = &finder->classes[which];
        bool first = class->length_count == 0;
        class->only_begin = first || class->only_begin == bytes[0] ? bytes[0] : -1;
        class->begins[bytes[0]] = true;
        class->lengths[class->length_count++] = (uint32_t)size;
        finder->class_of[added[i].id] = (uint8_t)(1 + which);
        finder->longest = size > finder->longest ? size : finder->longest;
    }
    for (int which = 0; which < CLASSES; which++) {
        TokenClass *class = &finder->classes[which];
        qsort(class->lengths, class->length_count, sizeof *class->lengths, descending);
        size_t kept = 0;
        for (size_t i = 0; i < class->length_count; i++) {
            if (kept == 0 || class->lengths[i] != class->lengths[kept - 1]) {
                class->lengths[kept++] = class->lengths[i];
            }
        }
        class->length_count = kept;
    }
    return finder;
}

void added_finder_close(AddedFinder *finder)
{
    if (finder != NULL) {
        for (int class = 0; class < CLASSES; class ++) {
            free(finder->classes[class].lengths);
        }
        free(finder->class_of);
        free(finder);
    }
}

size_t added_finder_longest(const AddedFinder *finder)
{
    return finder->longest;
}

/* The first match of the class that lies within [from, to): its start, or `to` when there is
 * none. */
static size_t find(const AddedFinder *finder, int which, size_t from, size_t to, size_t *end,
                   uint32_t *id)
{
    const TokenClass *class = &finder->classes[which];
    if (class->length_count == 0) {
        return to;
    }
    for (size_t at = from; at < to; at++) {
        if (class->only_begin >= 0) {
            const uint8_t *next = memchr(finder->text + at, class->only_begin, to - at);
            if (next == NULL) {
                return to;
            }
            at = (size_t)(next - finder->text);
        } else if (!class->begins[finder->text[at]]) {
            continue;
        }
        for (size_t i = 0; i < class->length_count; i++) {
            uint32_t length = class->lengths[i];
            if (length <= to - at &&
                tokenizer_find_added(finder->tokenizer, finder->text + at, length, id) &&
                finder->class_of[*id] == 1 + which) {
                *end = at + length;
                return at;
            }
        }
    }
    return to;
}

void added_finder_begin(AddedFinder *finder, const uint8_t *text, size_t size)
{
    finder->text = text;
    finder->at = finder->plain_start = finder->plain_end = 0;
    finder->size = size;
}

bool added_finder_next(AddedFinder *f, TextSpan *span)
{
    if (f->at == f->size) {
        return false;
    }
    if (f->at == f->plain_end) { /* the last match of the first class is behind us */
        f->plain_end = f->size;
        f->plain_start = find(f, PLAIN, f->at, f->size, &f->plain_end, &f->plain_id);
    }
    if (f->at == f->plain_start && f->plain_start < f->plain_end) {
        *span = (TextSpan){f->plain_start, f->plain_end, true, f->plain_id};
    } else {
        size_t end = f->plain_start;
        uint32_t id = 0;
        size_t start = find(f, NORMALIZED, f->at, f->plain_start, &end, &id);
        *span =
            start == f->at ? (TextSpan){start, end, true, id} : (TextSpan){f->at, start, false, 0};
    }
    f->at = span->end;
    return true;
}
