/* Word counts against a list that is searched from front to back, over sizes of rounds, numbers of
 * threads and ways to hand the text over. */
#include "text/word_count.h"

#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct {
    char *words[4096];
    size_t sizes[4096];
    uint64_t counts[4096];
    size_t count;
    uint64_t total;
} Naive;

static void naive_add(Naive *naive, const char *bytes, size_t size)
{
    size_t i = 0;
    while (i < naive->count &&
           (naive->sizes[i] != size || memcmp(naive->words[i], bytes, size) != 0)) {
        i++;
    }
    if (i == naive->count) {
        assert_true(i < 4096);
        naive->words[i] = memcpy(mem_alloc(size), bytes, size);
        naive->sizes[i] = size;
        naive->count++;
    }
    naive->counts[i]++;
    naive->total++;
}

/* The pieces of one text, walked as a whole. */
static void naive_text(Naive *naive, const Pretok *pretok, const char *text, size_t size)
{
    PretokWalk *walk = pretok_walk_open(pretok);
    size_t begin = 0, end;
    pretok_walk_begin(walk, (const uint8_t *)text, size);
    while (pretok_walk_next(walk, &end)) {
        naive_add(naive, text + begin, end - begin);
        begin = end;
    }
    pretok_walk_close(walk);
}

static void naive_free(Naive *naive)
{
    for (size_t i = 0; i < naive->count; i++) {
        free(naive->words[i]);
    }
    free(naive);
}

static uint64_t count_of(const WordCount *count, const char *bytes, size_t size)
{
    for (size_t i = 0; i < word_count_words(count); i++) {
        Word word = word_count_word(count, i);
        if (word.size == size && memcmp(word.bytes, bytes, size) == 0) {
            return word.count;
        }
    }
    return 0;
}

static uint64_t count_of_text(const WordCount *count, const char *text)
{
    return count_of(count, text, strlen(text));
}

static void assert_same(const WordCount *count, const Naive *naive)
{
    assert_int_equal(word_count_words(count), naive->count);
    assert_int_equal(word_count_total(count), naive->total);
    for (size_t i = 0; i < naive->count; i++) {
        assert_int_equal(count_of(count, naive->words[i], naive->sizes[i]), naive->counts[i]);
    }
    for (size_t i = 1; i < word_count_words(count); i++) {
        Word a = word_count_word(count, i - 1), b = word_count_word(count, i);
        int order = memcmp(a.bytes, b.bytes, a.size < b.size ? a.size : b.size);
        assert_true(order < 0 || (order == 0 && a.size < b.size));
    }
}

static Pretok *open_pretok(void)
{
    Pretok *pretok;
    assert_int_equal(pretok_open(PRETOK_GPT2, &pretok), 0);
    return pretok;
}

static void put_text(WordCount *count, const char *text)
{
    word_count_put(count, text, strlen(text));
}

/* Random text of words, spaces, line ends, digits, letters of several bytes and stray bytes. */
static char *random_text(uint64_t seed, size_t parts, size_t *size)
{
    static const char *const choices[] = {"the", "a",  "cat",  " ",    " ",  " ",
                                          "  ",  "\n", "\n\n", "12",   "'s", "!?",
                                          "é",   "日", "\xff", "\r\n", "x",  "\t"};
    char *text = mem_alloc(parts * 4 + 1);
    *size = 0;
    for (size_t i = 0; i < parts; i++) {
        const char *part = choices[rng_below(seed, 1, i, sizeof choices / sizeof *choices)];
        memcpy(text + *size, part, strlen(part));
        *size += strlen(part);
    }
    return text;
}

/* As naive_text, but for the special token <|x|> and, if asked for, line by line. */
static void naive_document(Naive *naive, const Pretok *pretok, const char *text, size_t size,
                           bool by_line)
{
    while (size > 0) {
        const char *special = memmem(text, size, "<|x|>", 5);
        size_t part = special != NULL ? (size_t)(special - text) : size;
        size_t left = size - part - (special != NULL ? 5 : 0);
        while (part > 0) {
            const char *line_end = by_line ? memchr(text, '\n', part) : NULL;
            size_t line = line_end != NULL ? (size_t)(line_end - text) + 1 : part;
            naive_text(naive, pretok, text, line);
            text += line;
            part -= line;
        }
        text += special != NULL ? 5 : 0;
        size = left;
    }
}

static void test_word_count__equals_a_walk_over_the_whole(void **state)
{
    (void)state;
    Pretok *pretok = open_pretok();
    const ByteString special = {(const uint8_t *)"<|x|>", 5};
    const size_t rounds[] = {0, 64, 100, 1000};
    for (uint64_t seed = 0; seed < 12; seed++) {
        size_t size, special_size;
        char *text = random_text(seed, 1500, &size);
        for (size_t i = 0; i < 20; i++) { /* special tokens, some of them broken */
            special_size = 5 - (i % 5 == 4);
            memcpy(text + rng_below(seed, 2, i, size - 5), "<|x|>", special_size);
        }
        bool by_line = seed % 2 == 1;
        Naive *naive = mem_zalloc(1, sizeof *naive);
        naive_document(naive, pretok, text, size / 3, by_line);
        naive_document(naive, pretok, text + size / 3, size - size / 3, by_line);
        for (size_t r = 0; r < sizeof rounds / sizeof *rounds; r++) {
            for (int threads = 1; threads <= 3; threads++) {
                WordCount *count = word_count_open((WordCountOptions){.pretok = pretok,
                                                                      .specials = &special,
                                                                      .special_count = 1,
                                                                      .by_line = by_line,
                                                                      .threads = threads,
                                                                      .round_bytes = rounds[r]});
                for (size_t at = 0, i = 0; at < size; i++) {
                    size_t end = at < size / 3 ? size / 3 : size;
                    size_t part = 1 + rng_below(seed, 3, i, 70);
                    part = part < end - at ? part : end - at;
                    word_count_put(count, text + at, part);
                    at += part;
                    if (at == size / 3) {
                        word_count_end(count);
                    }
                }
                word_count_flush(count);
                assert_same(count, naive);
                assert_int_equal(word_count_dropped(count), 0);
                word_count_close(count);
            }
        }
        naive_free(naive);
        free(text);
    }
    pretok_close(pretok);
}

static void test_word_count__documents_do_not_touch(void **state)
{
    (void)state;
    Pretok *pretok = open_pretok();
    WordCount *count = word_count_open((WordCountOptions){.pretok = pretok, .threads = 2});
    put_text(count, "ab");
    put_text(count, "cd ab");
    word_count_end(count);
    word_count_end(count); /* an empty one */
    put_text(count, "cd");
    word_count_flush(count);
    assert_int_equal(count_of_text(count, "abcd"), 1);
    assert_int_equal(count_of_text(count, " ab"), 1);
    assert_int_equal(count_of_text(count, "cd"), 1);
    assert_int_equal(word_count_total(count), 3);
    put_text(count, "cd"); /* goes on after a flush */
    word_count_flush(count);
    assert_int_equal(count_of_text(count, "cd"), 2);
    assert_int_equal(word_count_words(count), 3);
    word_count_close(count);

    count = word_count_open((WordCountOptions){.pretok = pretok, .threads = 2});
    word_count_flush(count);
    assert_int_equal(word_count_words(count), 0);
    word_count_close(count);
    word_count_close(NULL);
    pretok_close(pretok);
}

static void test_word_count__words_are_in_order_of_their_bytes(void **state)
{
    (void)state;
    static const char *const words[] = {"a",          "aaaaaaaa",   "aaaaaaaaa", "aaaaaaaab",
                                        "aaaaaaaaba", "aaaaaaaabz", "aaaaaaaac", "b",
                                        "ba",         "\xc3\xa9"};
    Pretok *pretok = open_pretok();
    WordCount *count = word_count_open((WordCountOptions){.pretok = pretok, .threads = 1});
    for (size_t i = 0; i < 10; i++) {
        put_text(count, words[7 * i % 10]);
        word_count_end(count);
    }
    word_count_flush(count);
    assert_int_equal(word_count_words(count), 10);
    for (size_t i = 0; i < 10; i++) {
        Word word = word_count_word(count, i);
        assert_int_equal(word.size, strlen(words[i]));
        assert_memory_equal(word.bytes, words[i], word.size);
    }
    word_count_close(count);
    pretok_close(pretok);
}

static void test_word_count__longest_special_token_wins(void **state)
{
    (void)state;
    Pretok *pretok = open_pretok();
    const ByteString specials[] = {{(const uint8_t *)"<a>", 3},
                                   {(const uint8_t *)"<a>b", 4},
                                   {(const uint8_t *)"[s]", 3},
                                   {NULL, 0}};
    for (int piece = 1; piece < 12; piece++) {
        WordCount *count = word_count_open((WordCountOptions){
            .pretok = pretok, .specials = specials, .special_count = 4, .threads = 1});
        const char *text = "x<a>bbx[s]x<a>cx<a";
        for (size_t at = 0; at < strlen(text); at += (size_t)piece) {
            word_count_put(count, text + at, strnlen(text + at, (size_t)piece));
        }
        word_count_flush(count);
        assert_int_equal(count_of_text(count, "x"), 2);
        assert_int_equal(count_of_text(count, "bx"), 1);
        assert_int_equal(count_of_text(count, "cx"), 1);
        assert_int_equal(count_of_text(count, "<"), 1);
        assert_int_equal(count_of_text(count, "a"), 1);
        assert_int_equal(word_count_words(count), 5);
        word_count_close(count);
    }
    pretok_close(pretok);
}

static void test_word_count__text_without_a_cut_is_cut_between_characters(void **state)
{
    (void)state;
    Pretok *pretok = open_pretok();
    for (int threads = 1; threads <= 2; threads++) {
        WordCount *count = word_count_open(
            (WordCountOptions){.pretok = pretok, .threads = threads, .round_bytes = 64});
        put_text(count, "a");
        for (int i = 0; i < 3000; i++) {
            put_text(count, "é");
        }
        word_count_flush(count);
        uint64_t bytes = 0;
        for (size_t i = 0; i < word_count_words(count); i++) {
            Word word = word_count_word(count, i);
            assert_true(word.size <= 16 * 64);
            bytes += word.size * word.count;
        }
        assert_int_equal(bytes, 6001);
        assert_true(word_count_total(count) < 14);
        word_count_close(count);
    }
    pretok_close(pretok);
}

static void test_word_count__holds_long_and_many_words(void **state)
{
    (void)state;
    Pretok *pretok = open_pretok();
    WordCount *count = word_count_open((WordCountOptions){.pretok = pretok, .threads = 2});
    const size_t sizes[] = {262132, 262136, 262139, 262140, 262144, 300000, 700000};
    char *letters = mem_alloc(700000);
    memset(letters, 'q', 700000);
    for (int repeat = 0; repeat < 2; repeat++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            word_count_put(count, letters, sizes[i]);
            word_count_end(count);
        }
        word_count_flush(count);
    }
    char word[16];
    for (int i = 0; i < 60000; i++) {
        for (int digit = 0, value = i; digit < 4; digit++, value /= 16) {
            word[digit] = (char)('a' + value % 16);
        }
        word_count_put(count, word, 4);
        word_count_end(count);
    }
    word_count_flush(count);
    assert_int_equal(word_count_words(count), 60000 + sizeof sizes / sizeof *sizes);
    for (size_t i = 0; i < word_count_words(count); i++) {
        Word found = word_count_word(count, i);
        assert_int_equal(found.count, found.bytes[0] == 'q' ? 2 : 1);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(count_of(count, letters, sizes[i]), 2);
    }
    free(letters);
    word_count_close(count);
    pretok_close(pretok);
}

static void test_word_count__drops_the_rarest_alike_for_any_threads(void **state)
{
    (void)state;
    Pretok *pretok = open_pretok();
    uint64_t dropped[3];
    size_t words[3];
    for (int threads = 1; threads <= 3; threads++) {
        WordCount *count = word_count_open((WordCountOptions){
            .pretok = pretok, .threads = threads, .table_limit = 100000, .round_bytes = 8192});
        for (int i = 0; i < 20000; i++) {
            char text[32];
            text[0] = ' ';
            for (int digit = 1, value = i; digit < 5; digit++, value /= 13) {
                text[digit] = (char)('a' + value % 13);
            }
            memcpy(text + 5, " often", 7);
            put_text(count, text);
        }
        word_count_flush(count);
        assert_int_equal(count_of_text(count, " often"), 20000);
        assert_int_equal(word_count_total(count), 40000);
        uint64_t sum = word_count_dropped(count);
        for (size_t i = 0; i < word_count_words(count); i++) {
            sum += word_count_word(count, i).count;
        }
        assert_int_equal(sum, 40000);
        assert_true(word_count_dropped(count) > 10000);
        dropped[threads - 1] = word_count_dropped(count);
        words[threads - 1] = word_count_words(count);
        word_count_close(count);
    }
    assert_true(words[0] > 1 && words[0] == words[1] && words[1] == words[2]);
    assert_true(dropped[0] == dropped[1] && dropped[1] == dropped[2]);
    pretok_close(pretok);
}

/* Words with the numbers one to four, a thousand of each. */
static void test_word_count__table_drops_one_number_at_a_time(void **state)
{
    (void)state;
    WordTable *table = word_table_open(1), *other = word_table_open(1);
    for (int i = 0; i < 4000; i++) {
        char word[32];
        memset(word, 'x', sizeof word);
        memcpy(word, &i, sizeof i);
        *word_table_at(table, (const uint8_t *)word, sizeof word) = (uint64_t)(1 + i / 1000);
        *word_table_at(other, (const uint8_t *)word, sizeof word) += 10;
    }
    assert_int_equal(word_table_words(table), 4000);
    size_t full = word_table_memory(table);
    assert_int_equal(word_table_drop(table, full), 0);
    assert_int_equal(word_table_words(table), 4000);
    /* 36 bytes and a slot of 16 for each word; 2048 slots are enough for 1000 words. */
    assert_int_equal(word_table_drop(table, 2048 * 16 + 1000 * 36), 1000 + 2000 + 3000);
    assert_int_equal(word_table_words(table), 1000);
    assert_int_equal(word_table_memory(table), 2048 * 16 + 1000 * 36);
    word_table_add(table, other);
    assert_int_equal(word_table_words(table), 4000);
    uint64_t sum = 0;
    Word word;
    for (size_t slot = 0; slot < word_table_slots(table); slot++) {
        sum += word_table_slot(table, slot, &word) ? word.count : 0;
    }
    assert_int_equal(sum, 40000 + 4000);
    word_table_clear(table);
    assert_int_equal(word_table_words(table), 0);
    assert_int_equal(*word_table_at(table, (const uint8_t *)"ab", 2), 0);
    assert_int_equal(*word_table_at(table, (const uint8_t *)"ab\0", 3), 0);
    assert_int_equal(word_table_words(table), 2);
    word_table_close(other);
    word_table_close(table);
    word_table_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_word_count__equals_a_walk_over_the_whole),
        cmocka_unit_test(test_word_count__documents_do_not_touch),
        cmocka_unit_test(test_word_count__words_are_in_order_of_their_bytes),
        cmocka_unit_test(test_word_count__longest_special_token_wins),
        cmocka_unit_test(test_word_count__text_without_a_cut_is_cut_between_characters),
        cmocka_unit_test(test_word_count__holds_long_and_many_words),
        cmocka_unit_test(test_word_count__drops_the_rarest_alike_for_any_threads),
        cmocka_unit_test(test_word_count__table_drops_one_number_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
