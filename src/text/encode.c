/* Per pre-token: the cache, or byte-pair merging. Merging takes the pair of lowest rank, of
 * several the leftmost, until no pair has a merge: short pieces by scanning an array of ranks,
 * long ones with a heap over a linked list, since a scan per merge would be quadratic. */
#include "text/encode.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/added_walk.h"
#include "text/encode_cut.h"
#include "text/pretok_scan.h"
#include "text/string_finder.h"
#include "text/word_table.h"

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

struct Encoder {
    const Tokenizer *tokenizer;
    StringFinder *plain, *normalized; /* added tokens, those that are `normalized` apart */
    NormalizeRoom room;
    PretokWalk *walk;  /* of one pattern, which is all there is; */
    SplitWalk *splits; /* or NULL, and this */
    PieceCache cache;
    bool direct;              /* no merges: every byte is its token */
    const uint32_t *byte_ids; /* the tokenizer's */
    uint64_t invalid;         /* bytes that are not UTF-8 */
    EncodeCut cut;
    TokenList *out; /* of the text that is encoded now */
    /* Of a long piece: symbols with the indices of their neighbours, and the heap. */
    Symbol *symbols;
    uint32_t *ids;
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

/* ---- Added tokens ----
 *
 * They are found as Hugging Face does it: first all that are not `normalized`; then, in what lies
 * between and has been normalized, the others, whose texts are normalized too. */

static void open_finders(Encoder *e)
{
    const Tokenizer *t = e->tokenizer;
    e->plain = string_finder_open();
    e->normalized = string_finder_open();
    for (size_t i = 0; i < t->added_count; i++) {
        Token token = t->tokens[t->added[i].id];
        const uint8_t *bytes = token.bytes;
        size_t size = token.size;
        if (t->added[i].normalized) {
            bytes = normalizer_run(&t->normalizer, &e->room, bytes, &size, true);
        }
        string_finder_add(t->added[i].normalized ? e->normalized : e->plain, bytes, size,
                          t->added[i].id);
        encode_cut_add(&e->cut, token.bytes, token.size);
        encode_cut_add(&e->cut, bytes, size);
    }
}

/* ---- Encoding ---- */

Encoder *encoder_open(const Tokenizer *tokenizer)
{
    Encoder *encoder = mem_zalloc(1, sizeof *encoder);
    encoder->tokenizer = tokenizer;
    if (tokenizer->pretok != NULL) {
        encoder->walk = pretok_walk_open(tokenizer->pretok);
    } else {
        encoder->splits = split_walk_open(&tokenizer->splits);
    }
    encode_cut_open(&encoder->cut, tokenizer);
    open_finders(encoder);
    encoder->cache.pieces = word_table_open(0);
    encoder->direct =
        tokenizer->merge_count == 0 && !tokenizer->ignore_merges && tokenizer->pretok != NULL;
    encoder->byte_ids = tokenizer->byte_ids;
    return encoder;
}

void encoder_close(Encoder *encoder)
{
    if (encoder != NULL) {
        pretok_walk_close(encoder->walk);
        split_walk_close(encoder->splits);
        string_finder_close(encoder->plain);
        string_finder_close(encoder->normalized);
        normalize_room_free(&encoder->room);
        encode_cut_close(&encoder->cut);
        free(encoder->ids);
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

/* The token of the vocabulary with these bytes; added ones that are not part of it do not count. */
static bool find_entry(const Tokenizer *t, const uint8_t *bytes, size_t size, uint32_t *id)
{
    if (!tokenizer_find(t, bytes, size, id)) {
        return false;
    }
    const AddedToken *added = tokenizer_added_of(t, *id);
    return added == NULL || !added->apart;
}

/* The ids that merging starts from, at most `size` of them; returns how many. As in Hugging Face, a
 * character that has no token is unknown, and comes out when the next one that has one does;
 * neighbours are one where fuse_unk says so. Bytes do not bring it out. */
static size_t character_symbols(const Tokenizer *t, const uint8_t *bytes, size_t size,
                                uint32_t *symbols)
{
    size_t count = 0;
    bool unknown = false;
    for (size_t at = 0, length; at < size; at += length) {
        length = (size_t)utf8_length(bytes + at, size - at);
        bool valid = length > 0, fallback = true;
        length = valid ? length : 1;
        uint32_t id;
        if (valid && find_entry(t, bytes + at, length, &id)) {
            if (unknown) {
                symbols[count++] = t->unknown;
            }
            unknown = false;
            symbols[count++] = id;
            continue;
        }
        for (size_t i = 0; i < length; i++) {
            fallback = fallback && t->byte_ids[bytes[at + i]] != UINT32_MAX;
        }
        for (size_t i = 0; fallback && i < length; i++) {
            symbols[count++] = t->byte_ids[bytes[at + i]];
        }
        if (!fallback) {
            if (unknown && !t->fuse_unknown) {
                symbols[count++] = t->unknown;
            }
            unknown = true;
        }
    }
    if (unknown) {
        symbols[count++] = t->unknown;
    }
    return count;
}

static size_t piece_symbols(const Encoder *e, const uint8_t *bytes, size_t size, uint32_t *symbols)
{
    if (e->tokenizer->characters) {
        return character_symbols(e->tokenizer, bytes, size, symbols);
    }
    for (size_t i = 0; i < size; i++) {
        symbols[i] = e->byte_ids[bytes[i]];
    }
    return size;
}

/* Merges in place; returns the number of symbols left, in `symbols`. */
static size_t merge_short(const Encoder *encoder, size_t count, uint32_t symbols[SHORT_PIECE])
{
    uint32_t ranks[SHORT_PIECE], results[SHORT_PIECE]; /* of symbol i with i + 1 */
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
    if (size > e->symbol_capacity) {
        e->symbols = mem_realloc(e->symbols, size, sizeof *e->symbols);
        e->ids = mem_realloc(e->ids, size, sizeof *e->ids);
        e->symbol_capacity = size;
    }
    const uint32_t end = (uint32_t)piece_symbols(e, bytes, size, e->ids); /* also: no symbol */
    Symbol *s = e->symbols;
    for (uint32_t i = 0; i < end; i++) {
        s[i] = (Symbol){e->ids[i], i + 1, i == 0 ? end : i - 1};
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
    if (size == 1 && !e->tokenizer->characters) {
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
    bool may_be_whole = e->tokenizer->ignore_merges && !e->tokenizer->has_joints;
    if (may_be_whole && find_entry(e->tokenizer, bytes, size, &whole)) {
        token_list_add(out, &whole, 1);
    } else if (size <= SHORT_PIECE) {
        size_t count = piece_symbols(e, bytes, size, symbols);
        token_list_add(out, symbols, merge_short(e, count, symbols));
    } else {
        merge_long(e, bytes, size, out);
    }
    cache_add(&e->cache, bytes, size, out->ids + from, out->count - from);
}

/* SplitSink. Characters that no merge joins are in two tokens whatever is around them, so a piece
 * may be taken apart there: a text that is one piece becomes words, which come back. */
static void encode_split(void *context, const uint8_t *piece, size_t size, size_t readable)
{
    Encoder *e = context;
    const Tokenizer *t = e->tokenizer;
    uint32_t whole;
    if (!t->has_joints) {
        encode_piece(e, piece, size, readable, e->out);
        return;
    }
    if (t->ignore_merges && find_entry(t, piece, size, &whole)) {
        token_list_add(e->out, &whole, 1);
        return;
    }
    int length;
    uint32_t character = utf8_decode(piece, size, &length);
    size_t start = 0;
    for (size_t at = (size_t)length; at < size; at += (size_t)length) {
        uint32_t next = piece[at];
        length = 1;
        bool joined = (character | next) < 0x80;
        if (joined) {
            joined = t->ascii_joints[character][next] != 0;
        } else {
            next = utf8_decode(piece + at, size - at, &length);
            joined = pair_table_get(&t->joints, pair_of(character, next)) != 0;
        }
        if (!joined) {
            encode_piece(e, piece + start, at - start, readable - start, e->out);
            start = at;
        }
        character = next;
    }
    encode_piece(e, piece + start, size - start, readable - start, e->out);
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

/* Text without plain added tokens. `opens`: it begins here; `first`: so does the document. */
static void encode_between(Encoder *e, const uint8_t *text, size_t size, bool opens, bool first,
                           TokenList *out)
{
    Span span;
    text = normalizer_run(&e->tokenizer->normalizer, &e->room, text, &size, opens);
    AddedWalk walk = added_walk_begin(e->tokenizer, e->normalized, text, size);
    while (added_walk_next(&walk, &span)) {
        if (span.added) {
            token_list_add(out, &span.id, 1);
        } else if (e->splits == NULL) {
            encode_ordinary(e, text + span.start, span.end - span.start, out);
        } else {
            e->out = out;
            split_walk_run(e->splits, text + span.start, span.end - span.start,
                           opens || span.start > 0, first && span.start == 0, encode_split, e);
        }
    }
}

void encoder_run_part(Encoder *encoder, const uint8_t *text, size_t size, bool begins,
                      TokenList *out)
{
    Span span;
    AddedWalk walk = added_walk_begin(encoder->tokenizer, encoder->plain, text, size);
    while (added_walk_next(&walk, &span)) {
        if (span.added) {
            token_list_add(out, &span.id, 1);
        } else {
            encode_between(encoder, text + span.start, span.end - span.start,
                           begins || span.start > 0, begins && span.start == 0, out);
        }
    }
    if (encoder->walk == NULL) {
        encoder->invalid += scan_invalid(text, size);
    }
}

void encoder_run(Encoder *encoder, const uint8_t *text, size_t size, TokenList *out)
{
    encoder_run_part(encoder, text, size, true, out);
}

/* Where ordinary text that begins before `limit` is, behind the last added token: its start. */
static size_t last_ordinary(const Encoder *e, const uint8_t *text, size_t size, size_t limit)
{
    size_t start = 0;
    Span outer = {0}, inner;
    AddedWalk walk = added_walk_begin(e->tokenizer, e->plain, text, size);
    while (outer.end < limit && added_walk_next(&walk, &outer)) {
        if (outer.added && outer.start < limit) {
            start = outer.end;
        }
        AddedWalk within = added_walk_begin(e->tokenizer, e->normalized, text + outer.start,
                                            outer.added ? 0 : outer.end - outer.start);
        while (added_walk_next(&within, &inner) && outer.start + inner.start < limit) {
            start = inner.added ? outer.start + inner.end : start;
        }
    }
    return start;
}

/* An added token that starts before `limit` is decided whatever follows the text: none is longer
 * than the rest, and neither is one of the other class that starts inside it and would take
 * precedence. */
size_t encoder_cut(Encoder *encoder, const uint8_t *text, size_t size)
{
    if (encoder->cut.local) {
        return encode_cut_find(&encoder->cut, text, size);
    }
    size_t plain = string_finder_longest(encoder->plain);
    size_t normalized = string_finder_longest(encoder->normalized);
    size_t margin = 2 * (plain > normalized ? plain : normalized);
    if (margin >= size) {
        return 0;
    }
    size_t limit = size - margin, start = last_ordinary(encoder, text, size, limit);
    if (start >= limit) {
        return start;
    }
    size_t cut = encoder->direct ? limit - start
                 : encoder->walk != NULL
                     ? pretok_walk_cut(encoder->walk, text + start, limit - start)
                     : split_walk_cut(encoder->splits, text + start, limit - start);
    return start + cut;
}

uint64_t encoder_invalid(const Encoder *encoder)
{
    return encoder->invalid + (encoder->walk != NULL ? pretok_walk_invalid(encoder->walk) : 0);
}
