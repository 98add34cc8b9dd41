/* The byte alphabet, and tokenizers put together by hand. */
#include "text/tokenizer.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const uint8_t *bytes_of(const char *text)
{
    return (const uint8_t *)text;
}

static int add_text(Tokenizer *tokenizer, uint32_t id, const char *text)
{
    return tokenizer_add_token(tokenizer, id, bytes_of(text), strlen(text));
}

static int add_added(Tokenizer *tokenizer, uint32_t id, const char *text)
{
    return tokenizer_add_added(tokenizer, (AddedToken){.id = id, .special = true}, bytes_of(text),
                               strlen(text));
}

/* Byte i has id 255 - i, so that no test passes because ids are bytes. */
static Tokenizer *with_bytes(void)
{
    Tokenizer *tokenizer = tokenizer_new();
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)(255 - i);
        assert_int_equal(tokenizer_add_token(tokenizer, i, &byte, 1), 0);
    }
    assert_int_equal(tokenizer_set_pattern(tokenizer, PRETOK_GPT2), 0);
    return tokenizer;
}

static uint32_t id_of(char byte)
{
    return 255u - (uint8_t)byte;
}

static void finish(Tokenizer *tokenizer)
{
    if (tokenizer_finish(tokenizer) != 0) {
        fail_msg("%s", err_message());
    }
}

static void test_tokenizer__alphabet_is_gpt2s(void **state)
{
    (void)state;
    /* As GPT-2 defines it: what prints stands for itself, the rest is counted from 256 on. */
    uint32_t next = 256;
    bool seen[512] = {false};
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
                      (byte >= 0xae && byte <= 0xff);
        uint32_t character = byte_character((uint8_t)byte);
        assert_int_equal(character, prints ? byte : next++);
        assert_false(seen[character]);
        seen[character] = true;
        uint8_t back = (uint8_t)~byte;
        assert_true(character_byte(character, &back));
        assert_int_equal(back, byte);
    }
    assert_int_equal(byte_character(' '), 0x120);
    assert_int_equal(byte_character('\n'), 0x10a);
    assert_int_equal(byte_character(0x7f), 0x121);
    assert_int_equal(byte_character(0xad), 0x143);
    for (uint32_t character = 0; character < 0x11000; character++) {
        uint8_t byte;
        assert_int_equal(character_byte(character, &byte), character < 512 && seen[character]);
    }
    uint8_t byte;
    assert_false(character_byte(UINT32_MAX, &byte));
    assert_false(character_byte(0x10ffff, &byte));
}

static void test_tokenizer__bytes_are_tokens(void **state)
{
    (void)state;
    Tokenizer *tokenizer;
    assert_int_equal(tokenizer_open("bytes", &tokenizer), 0);
    assert_int_equal(tokenizer->vocab, 257);
    assert_int_equal(tokenizer->merge_count, 0);
    for (uint32_t i = 0; i < 256; i++) {
        size_t size;
        assert_int_equal(tokenizer->byte_ids[i], i);
        assert_int_equal(*tokenizer_bytes(tokenizer, i, &size), i);
        assert_int_equal(size, 1);
    }
    uint32_t end, rank, result;
    assert_int_equal(tokenizer_end(tokenizer, NULL, &end), 0);
    assert_int_equal(end, 256);
    assert_int_equal(tokenizer->added_count, 1);
    assert_true(tokenizer->added->special);
    assert_false(tokenizer_merge_of(tokenizer, 0, 1, &rank, &result));
    assert_string_equal(pretok_name(tokenizer->pretok), "gpt2");
    /* Datasets carry this number. */
    assert_true(tokenizer->hash == io_hash("bytes", 5));
    tokenizer_free(tokenizer);
    tokenizer_free(NULL);
}

static void test_tokenizer__tokens_are_found_both_ways(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    Tokenizer *tokenizer = with_bytes();
    uint8_t bytes[11] = "token\0\0xyz";
    for (uint32_t i = 0; i < COUNT; i++) { /* three ids apart, so that two of three are holes */
        bytes[5] = (uint8_t)i;
        bytes[6] = (uint8_t)(i >> 8);
        assert_int_equal(tokenizer_add_token(tokenizer, 1000 + 3 * i, bytes, 7 + i % 4), 0);
    }
    finish(tokenizer);
    assert_int_equal(tokenizer->vocab, 1000 + 3 * (COUNT - 1) + 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t id;
        size_t size;
        bytes[5] = (uint8_t)i;
        bytes[6] = (uint8_t)(i >> 8);
        assert_true(tokenizer_find(tokenizer, bytes, 7 + i % 4, &id));
        assert_int_equal(id, 1000 + 3 * i);
        const uint8_t *stored = tokenizer_bytes(tokenizer, id, &size);
        assert_int_equal(size, 7 + i % 4);
        assert_memory_equal(stored, bytes, size);
        assert_null(tokenizer_bytes(tokenizer, id + 1, &size));
        assert_int_equal(size, 0);
        assert_false(tokenizer_find(tokenizer, bytes, 7 + (i + 1) % 4, &id));
    }
    uint32_t id;
    size_t size;
    assert_false(tokenizer_find(tokenizer, bytes_of("toke"), 4, &id));
    assert_false(tokenizer_find(tokenizer, bytes_of(""), 0, &id));
    assert_null(tokenizer_bytes(tokenizer, UINT32_MAX, &size));
    tokenizer_free(tokenizer);
}

static void test_tokenizer__wrong_tokens_are_refused(void **state)
{
    (void)state;
    Tokenizer *tokenizer = with_bytes();
    assert_int_equal(add_text(tokenizer, 5, "new"), ERR_INPUT);
    assert_says("same id, 5");
    assert_int_equal(add_text(tokenizer, 300, "a"), ERR_INPUT);
    assert_says("\"a\" is there twice, with ids 158 and 300");
    assert_int_equal(add_text(tokenizer, TOKENIZER_MAX_VOCAB, "new"), ERR_INPUT);
    assert_says("ids go up to 9999999");
    assert_int_equal(add_text(tokenizer, 300, ""), ERR_INPUT);
    assert_says("is empty");
    uint8_t *large = mem_zalloc(TOKENIZER_MAX_TOKEN_BYTES + 1, 1);
    assert_int_equal(tokenizer_add_token(tokenizer, 300, large, TOKENIZER_MAX_TOKEN_BYTES + 1),
                     ERR_INPUT);
    assert_says("at most 65535");
    assert_int_equal(tokenizer_add_token(tokenizer, 300, large, TOKENIZER_MAX_TOKEN_BYTES), 0);
    free(large);
    assert_int_equal(add_text(tokenizer, TOKENIZER_MAX_VOCAB - 1, "new"), 0);
    finish(tokenizer);
    assert_int_equal(tokenizer->vocab, TOKENIZER_MAX_VOCAB);
    tokenizer_free(tokenizer);

    tokenizer = tokenizer_new();
    for (uint32_t i = 0; i < 255; i++) {
        uint8_t byte = (uint8_t)(i < 'A' ? i : i + 1);
        assert_int_equal(tokenizer_add_token(tokenizer, i, &byte, 1), 0);
    }
    assert_int_equal(tokenizer_set_pattern(tokenizer, "("), ERR_INPUT);
    assert_int_equal(tokenizer_set_pattern(tokenizer, PRETOK_LLAMA3), 0);
    assert_int_equal(tokenizer_finish(tokenizer), ERR_INPUT);
    assert_says("byte 0x41 (\"A\") has no token");
    tokenizer_free(tokenizer);
}

static void assert_merge(const Tokenizer *tokenizer, char left, char right, uint32_t rank,
                         uint32_t result)
{
    uint32_t got_rank, got_result;
    assert_true(tokenizer_merge_of(tokenizer, id_of(left), id_of(right), &got_rank, &got_result));
    assert_int_equal(got_rank, rank);
    assert_int_equal(got_result, result);
}

static void test_tokenizer__merges_keep_their_order(void **state)
{
    (void)state;
    Tokenizer *tokenizer = with_bytes();
    static const char *const made[] = {"ab", "bc", "cd", "abc"};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(add_text(tokenizer, 256 + i, made[i]), 0);
    }
    assert_int_equal(tokenizer_add_merge(tokenizer, id_of('a'), id_of('b')), 0);
    assert_int_equal(tokenizer_add_merge(tokenizer, id_of('b'), id_of('c')), 0);
    assert_int_equal(tokenizer_add_merge(tokenizer, 256, id_of('c')), 0);
    assert_int_equal(tokenizer_add_merge(tokenizer, id_of('c'), id_of('d')), 0);
    assert_int_equal(tokenizer_add_merge(tokenizer, id_of('a'), id_of('b')), 0); /* again */
    assert_int_equal(tokenizer_add_merge(tokenizer, id_of('a'), id_of('b')), 0);
    assert_int_equal(tokenizer_add_merge(tokenizer, id_of('x'), id_of('y')), ERR_INPUT);
    assert_says("merge of \"x\" and \"y\"");
    assert_int_equal(tokenizer_add_merge(tokenizer, id_of('x'), 7777), ERR_INPUT);
    assert_says("id 7777 has no token");
    assert_int_equal(tokenizer_add_merge(tokenizer, UINT32_MAX, id_of('x')), ERR_INPUT);
    finish(tokenizer);
    const Merge *merges = tokenizer->merges;
    assert_int_equal(tokenizer->merge_count, 4);
    assert_int_equal(merges[0].result, 257);
    assert_int_equal(merges[1].result, 259);
    assert_int_equal(merges[2].result, 258);
    assert_int_equal(merges[3].result, 256);
    assert_merge(tokenizer, 'b', 'c', 0, 257);
    assert_merge(tokenizer, 'c', 'd', 2, 258);
    assert_merge(tokenizer, 'a', 'b', 3, 256);
    uint32_t rank, result;
    assert_true(tokenizer_merge_of(tokenizer, 256, id_of('c'), &rank, &result));
    assert_int_equal(result, 259);
    assert_false(tokenizer_merge_of(tokenizer, id_of('b'), id_of('a'), &rank, &result));
    assert_false(tokenizer_merge_of(tokenizer, id_of('a'), 257, &rank, &result));
    tokenizer_free(tokenizer);
}

/* Every pair of bytes is a token; a third of them, in a shuffled order, get merges. */
static void test_tokenizer__many_merges_are_found(void **state)
{
    (void)state;
    enum { PAIRS = 65536 };
    Tokenizer *tokenizer = with_bytes();
    uint32_t *order = mem_alloc(PAIRS * sizeof *order), *rank_of = mem_zalloc(PAIRS, sizeof *order);
    for (uint32_t i = 0; i < PAIRS; i++) {
        uint8_t pair[2] = {(uint8_t)(255 - i / 256), (uint8_t)(255 - i % 256)};
        assert_int_equal(tokenizer_add_token(tokenizer, 256 + i, pair, 2), 0);
        uint32_t at = (uint32_t)rng_below(1, 2, i, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t rank = 0; rank < PAIRS / 3; rank++) {
        rank_of[order[rank]] = rank + 1;
        assert_int_equal(tokenizer_add_merge(tokenizer, order[rank] / 256, order[rank] % 256), 0);
    }
    finish(tokenizer);
    for (uint32_t i = 0; i < PAIRS; i++) {
        uint32_t rank, result;
        bool found = tokenizer_merge_of(tokenizer, i / 256, i % 256, &rank, &result);
        assert_int_equal(found, rank_of[i] > 0);
        if (found) {
            assert_int_equal(rank, rank_of[i] - 1);
            assert_int_equal(result, 256 + i);
        }
    }
    free(order);
    free(rank_of);
    tokenizer_free(tokenizer);
}

static void test_tokenizer__added_tokens_may_share_bytes(void **state)
{
    (void)state;
    Tokenizer *tokenizer = with_bytes();
    assert_int_equal(add_text(tokenizer, 256, "  "), 0);
    assert_int_equal(add_text(tokenizer, 257, "<s>"), 0);
    assert_int_equal(add_added(tokenizer, 400, "  "), 0); /* another token of the same bytes */
    assert_int_equal(add_added(tokenizer, 257, "<s>"), 0);
    assert_int_equal(add_added(tokenizer, 300, "</s>"), 0);
    assert_int_equal(add_added(tokenizer, 301, "</s>"), ERR_INPUT);
    assert_says("\"</s>\" is there twice");
    assert_int_equal(add_added(tokenizer, 257, "<t>"), ERR_INPUT);
    assert_says("\"<s>\" and \"<t>\" have the same id, 257");
    assert_int_equal(add_added(tokenizer, 301, ""), ERR_INPUT);
    finish(tokenizer);
    uint32_t id;
    assert_true(tokenizer_find(tokenizer, bytes_of("  "), 2, &id));
    assert_int_equal(id, 256);
    assert_true(tokenizer_find_added(tokenizer, bytes_of("  "), 2, &id));
    assert_int_equal(id, 400);
    assert_false(tokenizer_find_added(tokenizer, bytes_of("a"), 1, &id));
    const AddedToken *added = tokenizer->added;
    assert_int_equal(tokenizer->added_count, 3);
    assert_int_equal(added[0].id, 257);
    assert_int_equal(added[1].id, 300);
    assert_int_equal(added[2].id, 400);

    assert_int_equal(tokenizer_end(tokenizer, NULL, &id), 0); /* </s> is one of the usual ones */
    assert_int_equal(id, 300);
    assert_int_equal(tokenizer_end(tokenizer, "<s>", &id), 0);
    assert_int_equal(id, 257);
    assert_int_equal(tokenizer_end(tokenizer, "<t>", &id), ERR_INPUT);
    assert_says("\"<t>\"");
    tokenizer_free(tokenizer);

    tokenizer = with_bytes();
    finish(tokenizer);
    assert_int_equal(tokenizer_end(tokenizer, NULL, &id), ERR_INPUT);
    assert_says("<|endoftext|>");
    tokenizer_free(tokenizer);
}

/* Tokenizers that a tokenizer.json has no words for. */
static void test_tokenizer__what_cannot_be_written_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *added, *says;
        bool merged;
    } cases[] = {{"\xff", "no text that JSON can hold", false},
                 {"é", "spelled like token 22 ", false}, /* the alphabet's byte 0xe9 */
                 {" a", "made by merges too", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer *tokenizer = with_bytes();
        if (cases[i].merged) {
            assert_int_equal(add_text(tokenizer, 256, cases[i].added), 0);
            assert_int_equal(tokenizer_add_merge(tokenizer, id_of(' '), id_of('a')), 0);
        }
        assert_int_equal(add_added(tokenizer, 256, cases[i].added), 0);
        finish(tokenizer);
        assert_int_equal(tokenizer_write_json(tokenizer, "/nonexistent/t.json"), ERR_INPUT);
        assert_says("/nonexistent/t.json");
        assert_says(cases[i].says);
        tokenizer_free(tokenizer);
    }
}

/* One tokenizer and all that differ from it in one thing; the order of adding does not count. */
enum {
    SAME,
    OTHER_ORDER,
    OTHER_ID,
    OTHER_BYTES,
    OTHER_MERGES,
    OTHER_RIGHT,
    NO_MERGE,
    NOT_SPECIAL,
    NORMALIZED,
    NOT_ADDED,
    OTHER_PATTERN,
    IGNORES_MERGES,
    VARIANTS
};

static uint64_t hash_of_variant(int variant)
{
    Tokenizer *tokenizer = with_bytes();
    if (variant == OTHER_ORDER) {
        assert_int_equal(add_text(tokenizer, 258, "<s>"), 0);
    }
    assert_int_equal(add_text(tokenizer, 256, "ab"), 0);
    assert_int_equal(add_text(tokenizer, 257, "bc"), 0);
    assert_int_equal(
        add_text(tokenizer, variant == OTHER_ID ? 260 : 259, variant == OTHER_BYTES ? "yx" : "xy"),
        0);
    assert_int_equal(add_text(tokenizer, 261, "bd"), 0);
    static const char *const usual[] = {"ab", "bc"}, *const swapped[] = {"bc", "ab"},
                             *const other_right[] = {"ab", "bd"};
    const char *const *merges = variant == OTHER_MERGES  ? swapped
                                : variant == OTHER_RIGHT ? other_right
                                                         : usual;
    for (int i = 0; i < (variant == NO_MERGE ? 1 : 2); i++) {
        uint32_t left = id_of(merges[i][0]), right = id_of(merges[i][1]);
        assert_int_equal(tokenizer_add_merge(tokenizer, left, right), 0);
    }
    AddedToken added = {
        .id = 258, .special = variant != NOT_SPECIAL, .normalized = variant == NORMALIZED};
    assert_int_equal(variant == NOT_ADDED
                         ? add_text(tokenizer, 258, "<s>")
                         : tokenizer_add_added(tokenizer, added, bytes_of("<s>"), 3),
                     0);
    if (variant == OTHER_PATTERN) {
        assert_int_equal(tokenizer_set_pattern(tokenizer, PRETOK_LLAMA3), 0);
    }
    tokenizer->ignore_merges = variant == IGNORES_MERGES;
    finish(tokenizer);
    uint64_t hash = tokenizer->hash;
    tokenizer_free(tokenizer);
    return hash;
}

static void test_tokenizer__hash_knows_every_part(void **state)
{
    (void)state;
    uint64_t hashes[VARIANTS];
    for (int i = 0; i < VARIANTS; i++) {
        hashes[i] = hash_of_variant(i);
    }
    assert_true(hashes[SAME] == hashes[OTHER_ORDER]);
    for (int i = OTHER_ORDER; i < VARIANTS; i++) {
        for (int j = i + 1; j < VARIANTS; j++) {
            assert_true(hashes[i] != hashes[j]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer__alphabet_is_gpt2s),
        cmocka_unit_test(test_tokenizer__bytes_are_tokens),
        cmocka_unit_test(test_tokenizer__tokens_are_found_both_ways),
        cmocka_unit_test(test_tokenizer__wrong_tokens_are_refused),
        cmocka_unit_test(test_tokenizer__merges_keep_their_order),
        cmocka_unit_test(test_tokenizer__many_merges_are_found),
        cmocka_unit_test(test_tokenizer__added_tokens_may_share_bytes),
        cmocka_unit_test(test_tokenizer__what_cannot_be_written_is_named),
        cmocka_unit_test(test_tokenizer__hash_knows_every_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
