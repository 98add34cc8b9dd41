/* Encoding against a naive encoder that knows only the definition: find the added tokens, cut
 * into pre-tokens, merge the pair of lowest rank, leftmost first, until none is left.
 * Tokenizers, texts and cuts are random over small alphabets, where ties, overlaps and reused
 * tokens are frequent. */
#include "base/mem.h"
#include "base/rng.h"
#include "text/decode.h"
#include "text/encode_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEED 20

/* A stream of small random numbers. */
typedef struct {
    uint64_t stream, at;
} Draw;

static uint64_t draw(Draw *d, uint64_t below)
{
    return rng_block(SEED, d->stream, d->at++).word[0] % below;
}

/* Bytes as ids 0 to 255, then `merges` random merges whose result is new, then the added tokens. */
static Tokenizer *random_tokenizer(Draw *d, int merges, const char *const *added, int added_count)
{
    Tokenizer *t = tokenizer_new();
    uint8_t text[256][32];
    size_t sizes[256];
    uint32_t ids[256];
    int known = 0;
    for (int byte = 0; byte < 256; byte++) {
        uint8_t one = (uint8_t)byte;
        assert_int_equal(tokenizer_add_token(t, (uint32_t)byte, &one, 1), 0);
    }
    for (const char *letter = "ab '1\n"; *letter != '\0'; letter++) {
        text[known][0] = (uint8_t)*letter;
        sizes[known] = 1;
        ids[known++] = (uint8_t)*letter;
    }
    uint32_t next = 256;
    for (int i = 0; i < merges; i++) {
        size_t left = draw(d, (uint64_t)known), right = draw(d, (uint64_t)known);
        size_t size = sizes[left] + sizes[right];
        if (size > 12 || known == 256) {
            continue;
        }
        uint8_t both[32];
        memcpy(both, text[left], sizes[left]);
        memcpy(both + sizes[left], text[right], sizes[right]);
        uint32_t id = next;
        bool seen = false;
        for (int j = 0; j < known; j++) {
            seen |= sizes[j] == size && memcmp(text[j], both, size) == 0;
        }
        if (!seen) {
            assert_int_equal(tokenizer_add_token(t, id, both, size), 0);
            memcpy(text[known], both, size);
            sizes[known] = size;
            ids[known++] = next++;
        }
        assert_int_equal(tokenizer_add_merge(t, ids[left], ids[right]), 0);
    }
    for (int i = 0; i < added_count; i++) {
        bool normalized = added[i][0] == '+'; /* found in the second pass */
        const char *content = added[i] + normalized;
        assert_int_equal(tokenizer_add_added(
                             t,
                             (AddedToken){.id = next++, .special = true, .normalized = normalized},
                             (const uint8_t *)content, strlen(content)),
                         0);
    }
    assert_int_equal(tokenizer_set_pattern(t, PRETOK_GPT2), 0);
    assert_int_equal(tokenizer_finish(t), 0);
    return t;
}

static void naive_piece(const Tokenizer *t, const uint8_t *bytes, size_t size, TokenList *out)
{
    uint32_t *symbols = mem_alloc((size + 1) * sizeof *symbols);
    size_t count = size;
    for (size_t i = 0; i < size; i++) {
        symbols[i] = t->byte_ids[bytes[i]];
    }
    const Merge *merges = t->merges;
    for (bool merged = true; merged;) {
        merged = false;
        for (size_t rank = 0; rank < t->merge_count && !merged; rank++) {
            for (size_t i = 0; i + 1 < count && !merged; i++) {
                if (symbols[i] == merges[rank].left && symbols[i + 1] == merges[rank].right) {
                    symbols[i] = merges[rank].result;
                    memmove(symbols + i + 1, symbols + i + 2, (count - i - 2) * sizeof *symbols);
                    count--;
                    merged = true;
                }
            }
        }
    }
    token_list_add(out, symbols, count);
    free(symbols);
}

static void naive_plain(const Tokenizer *t, const uint8_t *text, size_t size, TokenList *out)
{
    PretokWalk *walk = pretok_walk_open(t->pretok);
    pretok_walk_begin(walk, text, size);
    size_t start = 0, end;
    while (pretok_walk_next(walk, &end)) {
        naive_piece(t, text + start, end - start, out);
        start = end;
    }
    assert_int_equal(start, size);
    pretok_walk_close(walk);
}

/* The longest added token of the class at the beginning of the text; 0 when there is none. */
static size_t added_at(const Tokenizer *t, bool normalized, const uint8_t *text, size_t size,
                       uint32_t *id)
{
    size_t best = 0;
    for (size_t i = 0; i < t->added_count; i++) {
        AddedToken added = t->added[i];
        size_t length;
        const uint8_t *bytes = tokenizer_bytes(t, added.id, &length);
        if (added.normalized == normalized && length <= size && length > best &&
            memcmp(bytes, text, length) == 0) {
            best = length;
            *id = added.id;
        }
    }
    return best;
}

static void naive_encode(const Tokenizer *t, int pass, const uint8_t *text, size_t size,
                         TokenList *out)
{
    if (pass == 2) {
        naive_plain(t, text, size, out);
        return;
    }
    size_t from = 0;
    for (size_t at = 0; at < size;) {
        uint32_t id;
        size_t length = added_at(t, pass == 1, text + at, size - at, &id);
        if (length > 0) {
            naive_encode(t, pass + 1, text + from, at - from, out);
            token_list_add(out, &id, 1);
            from = at + length;
        }
        at += length > 0 ? length : 1;
    }
    naive_encode(t, pass + 1, text + from, size - from, out);
}

static size_t random_text(Draw *d, uint8_t *text, size_t most)
{
    static const char *const words[] = {"a", "b",    "ab", "ba",       " ",    "  ",   "'s",
                                        "1", "\n",   "<|", "<|end|>",  "|>",   "<x>",  "<x><y>",
                                        "é", "\xff", "aa", "\xe2\x82", "abab", "<|en", "!"};
    size_t size = 0, goal = draw(d, most);
    while (size < goal) {
        const char *word = words[draw(d, sizeof words / sizeof words[0])];
        size_t length = strlen(word);
        if (size + length > most) {
            break;
        }
        memcpy(text + size, word, length);
        size += length;
    }
    return size;
}

static const char *const added_tokens[] = {"<|end|>", "<x>", "<x><y>", "+<|en", "+|>b", "+x><"};

static void same_ids(const TokenList *a, const TokenList *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->ids, b->ids, a->count * sizeof *a->ids);
}

static void decodes_to(const Tokenizer *t, const TokenList *ids, const uint8_t *text, size_t size)
{
    ByteList bytes = {0};
    assert_int_equal(tokenizer_decode(t, ids->ids, ids->count, &bytes), 0);
    assert_int_equal(bytes.size, size);
    assert_memory_equal(bytes.bytes, text, size);
    byte_list_free(&bytes);
}

static void test_encode__as_the_definition_says(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 60; round++) {
        Draw d = {.stream = round};
        Tokenizer *t = random_tokenizer(&d, 60, added_tokens, round % 2 ? 6 : 0);
        Encoder *encoder = encoder_open(t);
        for (int i = 0; i < 40; i++) {
            uint8_t text[400];
            size_t size = random_text(&d, text, sizeof text);
            TokenList fast = {0}, slow = {0};
            encoder_run(encoder, text, size, &fast);
            naive_encode(t, 0, text, size, &slow);
            same_ids(&fast, &slow);
            decodes_to(t, &fast, text, size);
            token_list_free(&fast);
            token_list_free(&slow);
        }
        encoder_close(encoder);
        tokenizer_free(t);
    }
}

/* One pre-token longer than the array that short ones are merged in. */
static void test_encode__long_pieces(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 30; round++) {
        Draw d = {.stream = 1000 + round};
        Tokenizer *t = random_tokenizer(&d, 80, NULL, 0);
        Encoder *encoder = encoder_open(t);
        uint8_t text[700];
        size_t size = 90 + draw(&d, 600);
        for (size_t i = 0; i < size; i++) {
            text[i] = draw(&d, round % 3 + 1) == 0 ? 'a' : 'b';
        }
        TokenList fast = {0}, slow = {0};
        encoder_run(encoder, text, size, &fast);
        naive_encode(t, 0, text, size, &slow);
        same_ids(&fast, &slow);
        token_list_free(&fast);
        token_list_free(&slow);
        encoder_close(encoder);
        tokenizer_free(t);
    }
}

static void test_encode__any_bytes_come_back(void **state)
{
    (void)state;
    Draw d = {.stream = 2000};
    Tokenizer *t = random_tokenizer(&d, 100, added_tokens, 6);
    Encoder *encoder = encoder_open(t);
    uint8_t text[3000];
    for (int i = 0; i < 50; i++) {
        size_t size = draw(&d, sizeof text);
        for (size_t j = 0; j < size; j++) {
            text[j] = (uint8_t)draw(&d, 256);
        }
        TokenList ids = {0};
        encoder_run(encoder, text, size, &ids);
        decodes_to(t, &ids, text, size);
        token_list_free(&ids);
    }
    assert_true(encoder_invalid(encoder) > 0);
    encoder_close(encoder);
    tokenizer_free(t);
}

/* Whatever follows, cutting at encoder_cut changes no id. */
static void test_encode__cuts_change_nothing(void **state)
{
    (void)state;
    int cuts = 0;
    for (uint64_t round = 0; round < 40; round++) {
        Draw d = {.stream = 3000 + round};
        Tokenizer *t = random_tokenizer(&d, 60, added_tokens, 6);
        Encoder *encoder = encoder_open(t);
        for (int i = 0; i < 60; i++) {
            uint8_t text[500];
            size_t size = random_text(&d, text, sizeof text);
            size_t window = size > 0 ? 1 + draw(&d, size) : 0;
            size_t cut = window > 0 ? encoder_cut(encoder, text, window) : 0;
            assert_true(cut <= window);
            TokenList whole = {0}, parts = {0};
            encoder_run(encoder, text, size, &whole);
            encoder_run(encoder, text, cut, &parts);
            encoder_run(encoder, text + cut, size - cut, &parts);
            same_ids(&whole, &parts);
            cuts += cut > 0;
            token_list_free(&whole);
            token_list_free(&parts);
        }
        encoder_close(encoder);
        tokenizer_free(t);
    }
    assert_true(cuts > 300);
}

/* What the sink received, document by document. */
typedef struct {
    TokenList ids;
    size_t ends[64]; /* ids up to the end of each document */
    size_t documents;
    uint64_t bytes;
} Received;

static int receive(void *context, uint64_t tag, const uint32_t *ids, size_t count, uint64_t bytes,
                   bool ends)
{
    Received *r = context;
    assert_int_equal(tag, 7 * r->documents);
    token_list_add(&r->ids, ids, count);
    r->bytes += bytes;
    if (ends) {
        r->ends[r->documents++] = r->ids.count;
    }
    return 0;
}

/* Documents of every size around the round's, put in by pieces, with several threads: the ids of
 * each are those of the whole document at once. */
static void test_encode__streams_give_the_same_ids(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 3000, 700000, 5, 0, 5200000, 300000, 262144, 1};
    enum { DOCUMENTS = sizeof sizes / sizeof sizes[0] };
    Draw d = {.stream = 4000};
    Tokenizer *t = random_tokenizer(&d, 60, added_tokens, 6);
    Encoder *encoder = encoder_open(t);
    for (int threads = 1; threads <= 3; threads += 2) {
        Received r = {0};
        TokenList whole = {0};
        size_t ends[DOCUMENTS];
        uint64_t bytes = 0;
        EncodeStream *stream = encode_stream_open(t, threads, receive, &r);
        for (int i = 0; i < DOCUMENTS; i++) {
            uint8_t *text = mem_alloc(sizes[i] + 400);
            size_t size = 0;
            while (size < sizes[i]) {
                size += random_text(&d, text + size, 400);
            }
            encoder_run(encoder, text, size, &whole);
            ends[i] = whole.count;
            bytes += size;
            rounds_begin(stream->rounds, (uint64_t)(7 * i));
            for (size_t at = 0, part; at < size; at += part) {
                part = 1 + draw(&d, 200000);
                part = part < size - at ? part : size - at;
                assert_int_equal(rounds_put(stream->rounds, text + at, part), 0);
            }
            assert_int_equal(rounds_end(stream->rounds), 0);
            free(text);
        }
        assert_int_equal(rounds_flush(stream->rounds), 0);
        same_ids(&whole, &r.ids);
        assert_int_equal(r.documents, DOCUMENTS);
        assert_memory_equal(r.ends, ends, sizeof ends);
        assert_int_equal(r.bytes, bytes);
        encode_stream_close(stream);
        token_list_free(&whole);
        token_list_free(&r.ids);
    }
    encoder_close(encoder);
    tokenizer_free(t);
}

/* A document without a byte, and a stream without a document. */
static void test_encode__nothing_at_all(void **state)
{
    (void)state;
    Draw d = {.stream = 6000};
    Tokenizer *t = random_tokenizer(&d, 20, NULL, 0);
    for (int documents = 0; documents < 2; documents++) {
        Received r = {0};
        EncodeStream *stream = encode_stream_open(t, 2, receive, &r);
        for (int i = 0; i < documents; i++) {
            rounds_begin(stream->rounds, 0);
            assert_int_equal(rounds_put(stream->rounds, "", 0), 0);
            assert_int_equal(rounds_end(stream->rounds), 0);
        }
        assert_int_equal(rounds_flush(stream->rounds), 0);
        assert_true(r.ids.count == 0 && r.bytes == 0);
        assert_int_equal(r.documents, documents);
        encode_stream_close(stream);
        token_list_free(&r.ids);
    }
    tokenizer_free(t);
}

/* A text without any place to cut is carried on, and comes back whole. */
static void test_encode__no_place_to_cut(void **state)
{
    (void)state;
    Draw d = {.stream = 5000};
    Tokenizer *t = random_tokenizer(&d, 20, NULL, 0);
    Received r = {0};
    EncodeStream *stream = encode_stream_open(t, 2, receive, &r);
    size_t size = 3 << 20;
    uint8_t *text = mem_alloc(size);
    memset(text, 'a', size);
    rounds_begin(stream->rounds, 0);
    assert_int_equal(rounds_put(stream->rounds, text, size), 0);
    assert_int_equal(rounds_end(stream->rounds), 0);
    assert_int_equal(rounds_flush(stream->rounds), 0);
    decodes_to(t, &r.ids, text, size);
    encode_stream_close(stream);
    token_list_free(&r.ids);
    free(text);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode__as_the_definition_says),
        cmocka_unit_test(test_encode__long_pieces),
        cmocka_unit_test(test_encode__any_bytes_come_back),
        cmocka_unit_test(test_encode__cuts_change_nothing),
        cmocka_unit_test(test_encode__streams_give_the_same_ids),
        cmocka_unit_test(test_encode__nothing_at_all),
        cmocka_unit_test(test_encode__no_place_to_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
