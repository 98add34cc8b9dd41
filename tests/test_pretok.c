/* Pre-tokens: patterns of any kind, and the places where a text may be cut. The scanners' pieces
 * are test_pretok_scan.c's. */
#include "base/err.h"
#include "base/mem.h"
#include "text/pretok.h"
#include "support/pieces.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define EVIL "(?:\\w|\\w\\w)+\\d$|q"

/* Matches of nothing, gaps, lines, lookahead and lookbehind: Split with the behaviour "isolated".
 */
static void test_pretok__patterns_cut_as_hugging_face_does(void **state)
{
    (void)state;
    static const char *expected[][2] = {
        {"\\d+", "ab|12|c|345"},
        {"(?=b)", "caa|bxx|bc"},
        {"b*?(?!$)|x", "c|a|a|b|x|x|b|c"},
        {"a*(?=.)", "c|aa|b|x|x|b|c"},
        {"^a", "a|b\n|a|ac\n|a"},
        {"c$", "ab|c|\nc|c|\n|c"},
        {"\\s+|\\w+(?=!)", "hey| |you|!| |now| |!x"},
        {".", "a|\r|\n|b|\xe2\x80\xa8|c"},
        {"[^x]+", "a|x|b|x|\n|x"},
        {"[[:digit:]b]+&&", "a|b11&&|1"},
        {"[]\\[a]+", "b|]a[|b"},
        {"\\s+", "a\xe1\xa0\x8e"
                 "b| \xc2\x85\xe3\x80\x80|c"},
        {"[^\\s]+", "a\xe1\xa0\x8e"
                    "b| \xc2\x85\xe3\x80\x80|c"},
        {"[\\S]", "a|\xe1\xa0\x8e|b| |c"},
        {"[\\S\\n]+", "a\n\xe1\xa0\x8e| |c"},
        {"\\h+|[\\H]", "x|aF09|g| |\t|@|G|`"},
        {"[\\h-]+|\\H", "x|a-F|g| |\xe1\xa0\x8e"},
        {"\\S", "a|\xe1\xa0\x8e|b| |c"},
        {"[[:space:]x]+", "a\xe1\xa0\x8e"
                          "b|x x|c"},
        {"[[:^space:]]+", "a\xe1\xa0\x8e"
                          "b| |c"},
        {"\\\\s|\\x{20}+s", "a|\\s|s|  s|a"},
        {"\\S+(?= \\S)|b", "a| |b| |ab| a"},
        {"\\G.b|c", "ab|c|ab|ab"},
        {"(?<=a)b|c", "a|b|c|ba|b"},
    };
    for (size_t i = 0; i < COUNT(expected); i++) {
        Walker walker = walker_open(expected[i][0]);
        assert_string_equal(pretok_name(walker.pretok), "regex");
        assert_string_equal(pretok_regex(walker.pretok), expected[i][0]);
        assert_pieces(walker, expected[i][1]);
        walker_close(walker);
    }
}

static void test_pretok__bytes_that_are_not_utf8_are_counted(void **state)
{
    (void)state;
    Walker walkers[] = {walker_open(PRETOK_GPT2), walker_open("\\w+")};
    for (size_t i = 0; i < COUNT(walkers); i++) {
        size_t ends[64];
        const uint8_t first[] = "ab\xff\xe2\x82"
                                "cd\xf0\x9f\x99\x82\xc3";
        const uint8_t second[] = "0123456789012345678901234567890123456789\x80";
        assert_int_equal(pieces_of(walkers[i], first, sizeof first - 1, 0, ends), 4);
        assert_int_equal(ends[1], 5);
        assert_int_equal(ends[2], 7);
        assert_int_equal(pretok_walk_invalid(walkers[i].walk), 4);
        pieces_of(walkers[i], second, sizeof second - 1, 0, ends);
        assert_int_equal(pretok_walk_invalid(walkers[i].walk), 5);
        walker_close(walkers[i]);
    }
}

/* Pieces of the whole are those of the two parts, where the cut was chosen from text[0, seen). */
static size_t check_cut(Walker walker, const uint8_t *text, size_t size, size_t seen)
{
    uint8_t *exact = mem_alloc(seen > 0 ? seen : 1);
    memcpy(exact, text, seen);
    size_t cut = pretok_walk_cut(walker.walk, exact, seen);
    free(exact);
    assert_true(cut <= seen);
    if (cut > 0) {
        size_t *whole = mem_alloc(2 * (size + 1) * sizeof *whole), *parts = whole + size + 1;
        size_t count = pieces_of(walker, text, size, 0, whole);
        size_t before = pieces_of(walker, text, cut, 0, parts);
        size_t after = pieces_of(walker, text + cut, size - cut, cut, parts + before);
        assert_int_equal(before + after, count);
        assert_memory_equal(whole, parts, count * sizeof *whole);
        free(whole);
    }
    return cut;
}

static void test_pretok__a_cut_changes_no_piece_whatever_follows(void **state)
{
    (void)state;
    static const char *patterns[] = {
        PRETOK_GPT2,
        PRETOK_LLAMA3,
        PRETOK_QWEN2,
        PRETOK_CL100K,
        PRETOK_O200K,
        PRETOK_TEKKEN,
        "\\d+",
        ".",
        "(?=\\w)|\\s",
        " ?\\w+|\\s+(?!\\S)|\\s+",
        "a.(?=l)|l|r|'",
        "\\w+(?=[^!]*!)|\\w",
        "[^\\s]+\\s*?(?=\\s|$)|\\s",
        "(?:\\w|')+ ?|[^\\w]",
    };
    for (size_t i = 0; i < COUNT(patterns); i++) {
        Walker walker = walker_open(patterns[i]);
        size_t found = 0, tried = 0;
        for (uint64_t number = 0; number < 1500; number++) {
            uint8_t text[256];
            size_t size = nasty_text(number + 100000, 2 + number % 16, text);
            found += check_cut(walker, text, size, number % (size + 1)) > 0;
            tried++;
        }
        assert_true(found > tried / 50);
        walker_close(walker);
    }
}

static void test_pretok__a_long_text_is_cut_near_its_end(void **state)
{
    (void)state;
    static const char *patterns[] = {PRETOK_LLAMA3, PRETOK_O200K, " ?\\w+|\\s+(?!\\S)|\\s+",
                                     "\\w{1,3}(?=[^!]{0,9}!)|\\w"};
    uint8_t *text = mem_alloc(NASTY_BYTES * 20000);
    size_t size = nasty_text(1, 20000, text);
    for (size_t i = 0; i < COUNT(patterns); i++) {
        Walker walker = walker_open(patterns[i]);
        for (size_t seen = size - 12; seen <= size; seen++) {
            assert_true(check_cut(walker, text, size, seen) > size - 1000);
        }
        walker_close(walker);
    }
    /* Nothing to cut at: words without end, a character that is not complete, a look behind. */
    memset(text, 'a', size);
    Walker walker = walker_open(PRETOK_GPT2);
    assert_int_equal(pretok_walk_cut(walker.walk, text, size), 0);
    assert_int_equal(pretok_walk_cut(walker.walk, (const uint8_t *)"a\xc3", 2), 0);
    assert_int_equal(pretok_walk_cut(walker.walk, (const uint8_t *)"a b", 3), 1);
    assert_int_equal(pretok_walk_cut(walker.walk, text, 0), 0);
    walker_close(walker);
    walker = walker_open("(?<=a)b|.");
    assert_int_equal(pretok_walk_cut(walker.walk, text, size), 0);
    walker_close(walker);
    free(text);
}

static void test_pretok__bad_patterns_are_refused_with_a_reason(void **state)
{
    (void)state;
    char *huge = mem_alloc((1 << 17) + 1);
    memset(huge, '.', 1 << 17);
    huge[1 << 17] = 0;
    const char *bad[][2] = {
        {"a(b", "at byte 3"},
        {"[z-a]", "range"},
        {"\\C", "\\C"},
        {"a*", "empty string"},
        {"", "empty string"},
        {"x|\\s*", "empty string"},
        {" ?[^(\\s|[.,!])]+", "at byte 8"},
        {"[\\w&&a]", "at byte 3"},
        {"a|[_\\W]", "has \\W in a character class at byte 4"},
        {"a|\\p{N}{1,3}+", "has {1,3}+ at byte 7"},
        {"a{2}+", "(?:...{2})+"},
        {"cl100k_base", "no pattern \"cl100k_base\", but " PRETOK_LISTED},
        {"O200K", "written as (?:O200K)"},
        {"a\xff", "UTF-8"},
        {huge, "65536"},
        {"(?:a{60000}){60000}", "too"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        Pretok *pretok = (Pretok *)&bad;
        assert_int_equal(pretok_open(bad[i][0], &pretok), ERR_INPUT);
        assert_null(pretok);
        assert_says(bad[i][1]);
    }
    free(huge);
    pretok_close(NULL);
    pretok_walk_close(NULL);
}

/* The matcher gives up on the long words, and goes on after them. */
static void test_pretok__evil_patterns_come_to_an_end(void **state)
{
    (void)state;
    Walker walker = walker_open(EVIL);
    assert_pieces(walker, "!|q|!");
    char words[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! b";
    size_t ends[sizeof words];
    size_t count = pieces_of(walker, (const uint8_t *)words, strlen(words), 0, ends);
    assert_int_equal(count, 2);
    assert_int_equal(ends[0], strlen(words) - 2);
    assert_int_equal(pretok_walk_cut(walker.walk, (const uint8_t *)words, strlen(words)), 0);
    walker_close(walker);
}

/* The third pattern needs more than the stack of the just-in-time compiler. */
static void test_pretok__long_runs_are_one_piece(void **state)
{
    (void)state;
    size_t size = 1 << 18, end;
    uint8_t *text = mem_alloc(size);
    static const char *patterns[] = {PRETOK_GPT2, PRETOK_LLAMA3, "(?:(a)|( )|(b)|(c))+", "\\w+$|x"};
    for (size_t i = 0; i < COUNT(patterns); i++) {
        Walker walker = walker_open(patterns[i]);
        memset(text, 'a', size);
        for (size_t at = 0; at < size; at += 8) {
            text[at] = i == 2 ? ' ' : 'b';
        }
        pretok_walk_begin(walker.walk, text, size);
        assert_true(pretok_walk_next(walker.walk, &end));
        assert_int_equal(end, size);
        assert_false(pretok_walk_next(walker.walk, &end));
        walker_close(walker);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretok__patterns_cut_as_hugging_face_does),
        cmocka_unit_test(test_pretok__bytes_that_are_not_utf8_are_counted),
        cmocka_unit_test(test_pretok__a_cut_changes_no_piece_whatever_follows),
        cmocka_unit_test(test_pretok__a_long_text_is_cut_near_its_end),
        cmocka_unit_test(test_pretok__bad_patterns_are_refused_with_a_reason),
        cmocka_unit_test(test_pretok__evil_patterns_come_to_an_end),
        cmocka_unit_test(test_pretok__long_runs_are_one_piece),
    };
    return cmocka_run_group_tests_name("pretok", tests, NULL, NULL);
}
