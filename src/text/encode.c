/* Per pre-token: the cache, or byte-pair merging. Merging takes the pair of lowest rank, of
 * several the leftmost, until no pair has a merge: short pieces by scanning an array of ranks,
 * long ones with a heap over a linked list, since a scan per merge would be quadratic. */
#include "text/encode.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "text/string_finder.h"
#include "text/word_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_PIECE 96
#define NO_RANK UINT32_MAX
#define CACHE_LONGEST 128
#define CACHE_MOST_PIECES ((size_t)1 << 16)
#define CACHE_MOST_IDS ((size_t)1 << 20)

/* The ids of pre-tokens met before: text repeats itself, so nine of ten pieces are answered here.
 * It never takes more than a few MiB: when full it starts anew. */
typedef struct {
    WordTable *pieces; /* where in `ids` those of a piece are, and how many: first << 8 | count */
    TokenList ids;
} PieceCache;

/* A neighbouring pair of a long piece that may be merged. */
typedef struct {
    uint32_t rank, at; /* at: index of its left symbol */
    uint32_t left, right, result;
} Candidate;

typedef struct {
    uint32_t id, next, previous;
} Symbol;

/* A stretch of text: an added token, or ordinary text. */
typedef struct {
    size_t start, end;
    bool added;
    uint32_t id; /* of the added token */
} Span;

/* Added tokens are found as Hugging Face does it: first all that are not `normalized`; then, in
 * what lies between, the others. Not handed out yet is [at, size) of the text. Within it
 * [at, plain_start) has no plain match, and [plain_start, plain_end) is one, if they differ. */
typedef struct {
    StringFinder *plain, *normalized;
    const uint8_t *text;
    size_t at, size, plain_start, plain_end;
    uint32_t plain_id;
} Spans;

struct Encoder {
    const Tokenizer *tokenizer;
    PretokWalk *walk;
    Spans spans;
    PieceCache cache;
    bool direct;              /* no merges: every byte is its token */
    const uint32_t *byte_ids; /* the tokenizer's */
    /* Of a long piece: symbols with the indices of their neighbours, and the heap. */
    Symbol *symbols;
    size_t symbol_capacity;
    Candidate *heap;
    size_t heap_count, heap_capacity;
};

/* Room for `count` more ids, which the caller fills in. */
static uint32_t *extend(TokenList *list, size_t count)
{
    if (list->count + count > list->capacity) {
        list->capacity = (list->count + count) * 3 / 2 + 64;
        list->ids = mem_realloc(list->ids, list->capacity, sizeof *list->ids);
    }
    list->count += count;
    return list->ids + list->count - count;
}

void token_list_add(TokenList *list, const uint32_t *ids, size_t count)
{
    uint32_t *room = extend(list, count);
    for (size_t i = 0; i < count; i++) { /* mostly one or two */
        room[i] = ids[i];
    }
}

void token_list_free(TokenList *list)
{
    free(list->ids);
    *list = (TokenList){0};
}

/* Remembers the ids of a piece; one that is too long to come back often is let go. */
static void cache_add(PieceCache *cache, const uint8_t *bytes, size_t size, const uint32_t *ids,
                      size_t count)
{
    if (size > CACHE_LONGEST) {
        return;
    }
    if (word_table_words(cache->pieces) >= CACHE_MOST_PIECES || cache->ids.count > CACHE_MOST_IDS) {
        word_table_clear(cache->pieces);
        cache->ids.count = 0;
    }
    *word_table_at(cache->pieces, bytes, size) = (uint64_t)cache->ids.count << 8 | count;
    token_list_add(&cache->ids, ids, count);
}

/* ---- Added tokens ---- */

static void spans_open(Spans *spans, const Tokenizer *tokenizer)
{
    const AddedToken *added = tokenizer->added;
    spans->plain = string_finder_open();
    spans->normalized = string_finder_open();
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        Token token = tokenizer->tokens[added[i].id];
        string_finder_add(added[i].normalized ? spans->normalized : spans->plain, token.bytes,
                          token.size, added[i].id);
    }
}

/* Begins a text, which stays where it is until the walk is over. */
static void spans_begin(Spans *spans, const uint8_t *text, size_t size)
{
    spans->text = text;
    spans->at = spans->plain_start = spans->plain_end = 0;
    spans->size = size;
}

/* The next of the spans that cover the text, none of them empty. False when it is used up. */
static bool spans_next(Spans *s, Span *span)
{
    size_t size;
    uint64_t id = 0;
    if (s->at == s->size) {
        return false;
    }
    if (s->at == s->plain_end) { /* the last plain match is behind us */
        s->plain_start = string_finder_find(s->plain, s->text, s->at, s->size, s->size, &size, &id);
        s->plain_end = s->plain_start + size;
        s->plain_id = (uint32_t)id;
    }
    if (s->at == s->plain_start) {
        *span = (Span){s->plain_start, s->plain_end, true, s->plain_id};
    } else {
        size_t start = string_finder_find(s->normalized, s->text, s->at, s->plain_start,
                                          s->plain_start, &size, &id);
        *span = start == s->at ? (Span){start, start + size, true, (uint32_t)id}
                               : (Span){s->at, start, false, 0};
    }
    s->at = span->end;
    return true;
}

/* ---- Encoding ---- */

Encoder *encoder_open(const Tokenizer *tokenizer)
{
    Encoder *encoder = mem_zalloc(1, sizeof *encoder);
    encoder->tokenizer = tokenizer;
    encoder->walk = pretok_walk_open(tokenizer->pretok);
    spans_open(&encoder->spans, tokenizer);
    encoder->cache.pieces = word_table_open(0);
    encoder->direct = tokenizer->merge_count == 0 && !tokenizer->ignore_merges;
    encoder->byte_ids = tokenizer->byte_ids;
    return encoder;
}

void encoder_close(Encoder *encoder)
{
    if (encoder != NULL) {
        pretok_walk_close(encoder->walk);
        string_finder_close(encoder->spans.plain);
        string_finder_close(encoder->spans.normalized);
        word_table_close(encoder->cache.pieces);
        token_list_free(&encoder->cache.ids);
        free(encoder->symbols);
        free(encoder->heap);
        free(encoder);
    }
}

static uint32_t rank_of(const Tokenizer *tokenizer, uint32_t left, uint32_t right, uint32_t *result)
{
    uint32_t rank;
    return tokenizer_merge_of(tokenizer, left, right, &rank, result) ? rank : NO_RANK;
}

/* Merges in place; returns the number of symbols left, in `symbols`. */
static size_t merge_short(const Encoder *encoder, const uint8_t *bytes, size_t size,
                          uint32_t symbols[SHORT_PIECE])
{
    uint32_t ranks[SHORT_PIECE], results[SHORT_PIECE]; /* of symbol i with i + 1 */
    size_t count = size;
    for (size_t i = 0; i < size; i++) {
        symbols[i] = encoder->byte_ids[bytes[i]];
    }
    for (size_t i = 0; i + 1 < count; i++) {
        ranks[i] = rank_of(encoder->tokenizer, symbols[i], symbols[i + 1], &results[i]);
    }
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            best = ranks[i] < ranks[best] ? i : best;
        }
        if (ranks[best] == NO_RANK) {
            break;
        }
        symbols[best] = results[best];
        count--;
        size_t behind = count - best - 1; /* symbols behind the merged one */
        memmove(symbols + best + 1, symbols + best + 2, behind * sizeof *symbols);
        if (behind > 0) {
            memmove(ranks + best, ranks + best + 1, behind * sizeof *ranks);
            memmove(results + best, results + best + 1, behind * sizeof *results);
            ranks[best] =
                rank_of(encoder->tokenizer, symbols[best], symbols[best + 1], &results[best]);
        }
        if (best > 0) {
            ranks[best - 1] =
                rank_of(encoder->tokenizer, symbols[best - 1], symbols[best], &results[best - 1]);
        }
    }
    return count;
}

static bool before(const Candidate *a, const Candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(Encoder *e, Candidate candidate)
{
    e->heap = mem_grow(e->heap, e->heap_count, &e->heap_capacity, sizeof *e->heap);
    size_t at = e->heap_count++;
    while (at > 0 && before(&candidate, &e->heap[(at - 1) / 2])) {
        e->heap[at] = e->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    e->heap[at] = candidate;
}

static Candidate heap_pop(Encoder *e)
{
    Candidate top = e->heap[0], last = e->heap[--e->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < e->heap_count; child = 2 * at + 1) {
        if (child + 1 < e->heap_count && before(&e->heap[child + 1], &e->heap[child])) {
            child++;
        }
        if (!before(&e->heap[child], &last)) {
            break;
        }
        e->heap[at] = e->heap[child];
        at = child;
    }
    e->heap[at] = last;
    return top;
}

static void propose(Encoder *e, uint32_t at, uint32_t next)
{
    uint32_t left = e->symbols[at].id, right = e->symbols[next].id, result;
    uint32_t rank = rank_of(e->tokenizer, left, right, &result);
    if (rank != NO_RANK) {
        heap_push(e, (Candidate){rank, at, left, right, result});
    }
}

static void merge_long(Encoder *e, const uint8_t *bytes, size_t size, TokenList *out)
{
    PACER_ASSERT(size < UINT32_MAX, "a pre-token of %zu bytes", size);
    const uint32_t end = (uint32_t)size; /* stands for no symbol */
    if (size > e->symbol_capacity) {
        e->symbols = mem_realloc(e->symbols, size, sizeof *e->symbols);
        e->symbol_capacity = size;
    }
    Symbol *s = e->symbols;
    for (uint32_t i = 0; i < end; i++) {
        s[i] = (Symbol){e->byte_ids[bytes[i]], i + 1, i == 0 ? end : i - 1};
    }
    e->heap_count = 0;
    for (uint32_t i = 0; i + 1 < end; i++) {
        propose(e, i, i + 1);
    }
    while (e->heap_count > 0) {
        Candidate c = heap_pop(e);
        /* An entry is out of date when its left symbol is gone (it then points to itself) or either
         * symbol has changed. */
        uint32_t right = s[c.at].next;
        if (right == c.at || right == end || s[c.at].id != c.left || s[right].id != c.right) {
            continue;
        }
        uint32_t behind = s[right].next;
        s[c.at].id = c.result;
        s[c.at].next = behind;
        s[right].next = right;
        if (behind != end) {
            s[behind].previous = c.at;
            propose(e, c.at, behind);
        }
        if (s[c.at].previous != end) {
            propose(e, s[c.at].previous, c.at);
        }
    }
    for (uint32_t i = 0; i < end; i = s[i].next) {
        token_list_add(out, &s[i].id, 1);
    }
}

/* `readable`: bytes of the text from this piece on. */
static void encode_piece(Encoder *e, const uint8_t *bytes, size_t size, size_t readable,
                         TokenList *out)
{
    if (size == 1) {
        token_list_add(out, &e->byte_ids[bytes[0]], 1);
        return;
    }
    uint64_t known;
    if (word_table_find(e->cache.pieces, bytes, size, readable, &known)) {
        token_list_add(out, e->cache.ids.ids + (known >> 8), known & 0xff);
        return;
    }
    size_t from = out->count;
    uint32_t whole, symbols[SHORT_PIECE];
    if (e->tokenizer->ignore_merges && tokenizer_find(e->tokenizer, bytes, size, &whole)) {
        token_list_add(out, &whole, 1);
    } else if (size <= SHORT_PIECE) {
        token_list_add(out, symbols, merge_short(e, bytes, size, symbols));
    } else {
        merge_long(e, bytes, size, out);
    }
    cache_add(&e->cache, bytes, size, out->ids + from, out->count - from);
}

static void encode_ordinary(Encoder *e, const uint8_t *text, size_t size, TokenList *out)
{
    pretok_walk_begin(e->walk, text, size); /* also counts bytes that are not UTF-8 */
    if (e->direct) {
        uint32_t *ids = extend(out, size);
        for (size_t i = 0; i < size; i++) {
            ids[i] = e->byte_ids[text[i]];
        }
        return;
    }
    size_t start = 0, end;
    while (pretok_walk_next(e->walk, &end)) {
        encode_piece(e, text + start, end - start, size - start, out);
        start = end;
    }
}

void encoder_run(Encoder *encoder, const uint8_t *text, size_t size, TokenList *out)
{
    Span span;
    spans_begin(&encoder->spans, text, size);
    while (spans_next(&encoder->spans, &span)) {
        if (span.added) {
            token_list_add(out, &span.id, 1);
        } else {
            encode_ordinary(encoder, text + span.start, span.end - span.start, out);
        }
    }
}

/* An added token that starts before `limit` is decided whatever follows the text: none is longer
 * than the rest, and neither is one of the other class that starts inside it and would take
 * precedence. */
size_t encoder_cut(Encoder *encoder, const uint8_t *text, size_t size)
{
    size_t plain = string_finder_longest(encoder->spans.plain);
    size_t normalized = string_finder_longest(encoder->spans.normalized);
    size_t margin = 2 * (plain > normalized ? plain : normalized);
    if (margin >= size) {
        return 0;
    }
    size_t limit = size - margin,
           start = 0; /* start: of the ordinary text that the cut falls into */
    Span span = {0};
    spans_begin(&encoder->spans, text, size);
    while (spans_next(&encoder->spans, &span) && span.start < limit) {
        start = span.added ? span.end : start;
    }
    if (start >= limit) {
        return start;
    }
    size_t cut = encoder->direct ? limit - start
                                 : pretok_walk_cut(encoder->walk, text + start, limit - start);
    return start + cut;
}

uint64_t encoder_invalid(const Encoder *encoder)
{
    return pretok_walk_invalid(encoder->walk);
}

int tokenizer_decode(const Tokenizer *tokenizer, const uint32_t *ids, size_t count, ByteList *out)
{
    for (size_t i = 0; i < count; i++) {
        size_t size;
        const uint8_t *bytes = tokenizer_bytes(tokenizer, ids[i], &size);
        if (bytes == NULL) {
            return err_set(ERR_INPUT,
                           "token %zu is %" PRIu32 ", which this tokenizer does not have (its "
                           "vocabulary has %" PRIu32 " entries)",
                           i, ids[i], tokenizer->vocab);
        }
        if (out->size + size > out->capacity) {
            out->capacity = (out->size + size) * 3 / 2 + 256;
            out->bytes = mem_realloc(out->bytes, out->capacity, 1);
        }
        memcpy(out->bytes + out->size, bytes, size);
        out->size += size;
    }
    return 0;
}

void byte_list_free(ByteList *list)
{
    free(list->bytes);
    *list = (ByteList){0};
}
