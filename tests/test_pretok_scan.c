/* Scanners of patterns: against Hugging Face's pieces, against PCRE2, in every spelling. */
#include "base/mem.h"
#include "text/pretok.h"
#include "support/pieces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define COLUMNS 3

/* The same texts in each column, cut by the pattern that the column is for. */
static void check_columns(const char *const names[COLUMNS], const char *const expected[][COLUMNS],
                          size_t rows)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        Walker walker = walker_open(names[i]);
        assert_string_equal(pretok_name(walker.pretok), names[i]);
        for (size_t j = 0; j < rows; j++) {
            assert_pieces(walker, expected[j][i]);
        }
        walker_close(walker);
    }
}

/* What tokenizers 0.23.3 says: ByteLevel for the first column, Split for the others. */
static void test_pretok_scan__pieces_are_those_of_hugging_face(void **state)
{
    (void)state;
    static const char *const names[] = {PRETOK_GPT2, PRETOK_LLAMA3, PRETOK_QWEN2};
    static const char *const expected[][COLUMNS] = {
        {"I|'m| sure| they|'|LL| say| we|'ve| it|'s| '|S| '|re",
         "I|'m| sure| they|'LL| say| we|'ve| it|'s| '|S| '|re",
         "I|'m| sure| they|'LL| say| we|'ve| it|'s| '|S| '|re"},
        {"Hello|,| | world|!|\n\n | New|  | line| \n", "Hello|,| | world|!\n\n| | New|  | line| \n",
         "Hello|,| | world|!\n\n| | New|  | line| \n"},
        {"12345| 67| 8\xc2\xb2\xc2\xbd\xe2\x85\xa7", "123|45| |67| |8\xc2\xb2\xc2\xbd|\xe2\x85\xa7",
         "1|2|3|4|5| |6|7| |8|\xc2\xb2|\xc2\xbd|\xe2\x85\xa7"},
        {"a|\t|\t|b| \r\n\r\n| c|\n", "a|\t|\tb| \r\n\r\n| c|\n", "a|\t|\tb| \r\n\r\n| c|\n"},
        {"don|'t|''|s| '|d|'|D| \"'|x|\"", "don|'t|''|s| '|d|'D| \"'|x|\"",
         "don|'t|''|s| '|d|'D| \"'|x|\""},
        {"\xc2\xa0|x| |\xe3\x80\x80|y|\xe2\x80\x83| z|\xc2\x85|\n|.",
         "\xc2\xa0x| |\xe3\x80\x80y|\xe2\x80\x83| z|\xc2\x85\n|.",
         "\xc2\xa0x| |\xe3\x80\x80y|\xe2\x80\x83| z|\xc2\x85\n|."},
        {"it|'|\xc5\xbf| '|\xc5\xbfo", "it|'\xc5\xbf| '|\xc5\xbfo", "it|'\xc5\xbf| '|\xc5\xbfo"},
        {"na\xc3\xafve| \xe5\xad\x97\xe5\xad\x97|\xef\xbc\x8c|\xe5\xad\x97| |\n|\xe5\xad\x97|"
         "\xe3\x80\x82|\n|\xd0\xb6\xd0\x96",
         "na\xc3\xafve| \xe5\xad\x97\xe5\xad\x97|\xef\xbc\x8c\xe5\xad\x97| \n|\xe5\xad\x97|"
         "\xe3\x80\x82\n|\xd0\xb6\xd0\x96",
         "na\xc3\xafve| \xe5\xad\x97\xe5\xad\x97|\xef\xbc\x8c\xe5\xad\x97| \n|\xe5\xad\x97|"
         "\xe3\x80\x82\n|\xd0\xb6\xd0\x96"},
        {"x|=|1|;|\n\n|\t|y|=|2| //?!|\r\n\r\n| ok", "x|=|1|;\n\n|\ty|=|2| //?!\r\n\r\n| ok",
         "x|=|1|;\n\n|\ty|=|2| //?!\r\n\r\n| ok"},
        {"e|\xcc\x81| \xf0\x9f\x99\x82\xf0\x9f\x99\x82| a|\xf0\x9f\x99\x82|b",
         "e|\xcc\x81| \xf0\x9f\x99\x82\xf0\x9f\x99\x82| a|\xf0\x9f\x99\x82"
         "b",
         "e|\xcc\x81| \xf0\x9f\x99\x82\xf0\x9f\x99\x82| a|\xf0\x9f\x99\x82"
         "b"},
        {"a|   \n  ", "a|   \n|  ", "a|   \n|  "},
        {"$|5|.|00| 100000|%| -|1", "$|5|.|00| |100|000|%| -|1", "$|5|.|0|0| |1|0|0|0|0|0|%| -|1"},
        {"", "", ""},
        {"   ", "   ", "   "},
        {"'", "'", "'"},
    };
    check_columns(names, expected, COUNT(expected));
}

/* The same of the younger patterns, with tokenizers' Split in the behaviour "isolated". */
static void test_pretok_scan__words_split_by_case_as_in_hugging_face(void **state)
{
    (void)state;
    static const char *const names[] = {PRETOK_CL100K, PRETOK_O200K, PRETOK_TEKKEN};
    static const char *const expected[][COLUMNS] = {
        {"I|'m| sure| they|'LL| say| WE|'VE| it|'s| '|S| '|re",
         "I'm| sure| they'LL| say| WE'VE| it's| '|S| '|re",
         "I|'m| sure| they|'LL| say| WE|'VE| it|'s| '|S| '|re"},
        {"HelloWorld| XMLHttpRequest| iOS| aB| ABc| parseHTML|2",
         "Hello|World| XMLHttp|Request| i|OS| a|B| ABc| parse|HTML|2",
         "Hello|World| XMLHttp|Request| i|OS| a|B| ABc| parse|HTML|2"},
        {"123|45| |678|\xc2\xb2\xc2\xbd| |3|,|14", "123|45| |678|\xc2\xb2\xc2\xbd| |3|,|14",
         "1|2|3|4|5| |6|7|8|\xc2\xb2|\xc2\xbd| |3|,|1|4"},
        {"a| \n  ", "a| \n|  ", "a| \n|  "},
        {"a| \n| | b|\n", "a| \n| | b|\n", "a| \n| | b|\n"},
        {"a| \r\n\r\n\t", "a| \r\n\r\n|\t", "a| \r\n\r\n|\t"},
        {" \n", " \n", " \n"},
        {"http|://|x|.de|/a|//|b|!\n|/\n|//|c", "http|://|x|.de|/a|//|b|!\n/\n//|c",
         "http|://|x|.de|/a|//|b|!\n/\n//|c"},
        {"!\xcc\x81| !!\xcc\x81| \xcc\x81|ABC| \xcc\x81'|s| \xcc\x81\xcc\x81|A",
         "!\xcc\x81| !!\xcc\x81| \xcc\x81|ABC| \xcc\x81's| \xcc\x81\xcc\x81|A",
         "!\xcc\x81| !!\xcc\x81| \xcc\x81|ABC| \xcc\x81|'s| \xcc\x81\xcc\x81|A"},
        {"\xc7\x85"
         "a| \xc7\x85| A\xca\xb0"
         "B| \xca\xb0"
         "BC| \xe5\xad\x97"
         "A| \xe5\xad\x97"
         "a| A\xe5\xad\x97"
         "AB",
         "\xc7\x85"
         "a| \xc7\x85| A\xca\xb0|B| \xca\xb0|BC| \xe5\xad\x97|A| \xe5\xad\x97"
         "a| A\xe5\xad\x97|AB",
         "\xc7\x85"
         "a| \xc7\x85| A\xca\xb0|B| \xca\xb0|BC| \xe5\xad\x97|A| \xe5\xad\x97"
         "a| A\xe5\xad\x97|AB"},
        {"don|'t| DON|'T| x|'S|\xc5\xbf| A|'\xc5\xbf|o| ''|s",
         "don't| DON'T| x'S|\xc5\xbf| A'\xc5\xbf|o| ''|s",
         "don|'t| DON|'T| x|'S\xc5\xbf| A|'\xc5\xbfo| ''|s"},
        {"x|\xe1\xa0\x8ey| \xe1\xa0\x8e| z", "x|\xe1\xa0\x8ey| \xe1\xa0\x8e| z",
         "x|\xe1\xa0\x8ey| \xe1\xa0\x8e| z"},
        {"\xe1\xb2\x89\xe1\xb2\x8a| \xe1\xb2\x8a\xe1\xb2\x89",
         "\xe1\xb2\x89\xe1\xb2\x8a| \xe1\xb2\x8a|\xe1\xb2\x89",
         "\xe1\xb2\x89\xe1\xb2\x8a| \xe1\xb2\x8a|\xe1\xb2\x89"},
        {"e|\xcc\x81"
         "A| E|\xcc\x81"
         "A| EE|\xcc\x81",
         "e\xcc\x81|A| E\xcc\x81|A| EE\xcc\x81", "e\xcc\x81|A| E\xcc\x81|A| EE\xcc\x81"},
        {"\xc2\xa0X| |\xe3\x80\x80y|\xe2\x80\x83Z|\xc2\x85\n|.",
         "\xc2\xa0X| |\xe3\x80\x80y|\xe2\x80\x83Z|\xc2\x85\n|.",
         "\xc2\xa0X| |\xe3\x80\x80y|\xe2\x80\x83Z|\xc2\x85\n|."},
        {"", "", ""},
        {"'", "'", "'"},
        {" ", " ", " "},
        {"ABC|'D", "ABC'D", "ABC|'D"},
        {"\xf0\x9f\x99\x82\xf0\x9f\x99\x82| a|\xf0\x9f\x99\x82"
         "b",
         "\xf0\x9f\x99\x82\xf0\x9f\x99\x82| a|\xf0\x9f\x99\x82"
         "b",
         "\xf0\x9f\x99\x82\xf0\x9f\x99\x82| a|\xf0\x9f\x99\x82"
         "b"},
    };
    check_columns(names, expected, COUNT(expected));
}

/* Asserts that a scanner and a regular expression without one cut nasty texts alike. */
static void assert_agree(const char *scanned, const char *compiled)
{
    Walker scanner = walker_open(scanned), regex = walker_open(compiled);
    assert_true(pretok_is_gapless(scanned));
    assert_false(pretok_is_gapless(compiled));
    for (uint64_t number = 0; number < 6000; number++) {
        uint8_t text[24 * NASTY_BYTES];
        size_t left[24 * NASTY_BYTES], right[24 * NASTY_BYTES];
        size_t size = nasty_text(number, number % 24, text);
        size_t count = pieces_of(scanner, text, size, 0, left);
        assert_int_equal(pieces_of(regex, text, size, 0, right), count);
        assert_memory_equal(left, right, count * sizeof left[0]);
    }
    assert_int_equal(pretok_walk_invalid(scanner.walk), pretok_walk_invalid(regex.walk));
    walker_close(regex);
    walker_close(scanner);
}

static void test_pretok_scan__scanners_agree_with_pcre2(void **state)
{
    (void)state;
    const char *name;
    size_t count = 0;
    for (; (name = pretok_names(count)) != NULL; count++) {
        Walker scanner = walker_open(name);
        char *pattern = mem_format("(?:%s)", pretok_regex(scanner.pretok));
        assert_agree(name, pattern);
        free(pattern);
        walker_close(scanner);
    }
    assert_int_equal(count, 6);
}

#define GPT2_REST "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K(digits)                                              \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|" digits \
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"

static void test_pretok_scan__known_patterns_have_scanners_in_any_spelling(void **state)
{
    (void)state;
    static const char *spellings[][2] = {
        {PRETOK_GPT2, "'s|'t|'re|'ve|'m|'ll|'d" GPT2_REST},
        {PRETOK_GPT2, "'(?:[sdmt]|ll|ve|re)" GPT2_REST},
        {PRETOK_GPT2, "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|"
                      "\\s+(?!\\S)|\\s"},
        {PRETOK_LLAMA3, "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
                        "\\p{N}{1,3}" LLAMA_REST},
        {PRETOK_LLAMA3, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
                        "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
        {PRETOK_QWEN2, "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
                       "\\p{N}" LLAMA_REST},
        {PRETOK_CL100K, CL100K("\\p{N}{1,3}")},
    };
    for (size_t i = 0; i < COUNT(spellings); i++) {
        Walker named = walker_open(spellings[i][0]), spelled = walker_open(spellings[i][1]);
        assert_string_equal(pretok_name(spelled.pretok), spellings[i][0]);
        assert_string_equal(pretok_regex(spelled.pretok), spellings[i][1]);
        assert_string_equal(pretok_identity(spelled.pretok), pretok_regex(named.pretok));
        walker_close(named);
        walker_close(spelled);
        /* A group of the spelling is another text with the same meaning. */
        char *group = mem_format("(?:%s)", spellings[i][1]);
        assert_agree(spellings[i][1], group);
        free(group);
    }
}

/* In Oniguruma's syntax + behind braces repeats. */
static void test_pretok_scan__possessive_braces_take_all_digits(void **state)
{
    (void)state;
    static const char *written = CL100K("\\p{N}{1,3}+");
    Walker walker = walker_open(written);
    assert_string_equal(pretok_name(walker.pretok), "regex");
    assert_string_equal(pretok_regex(walker.pretok), written);
    assert_pieces(walker, "1234567| |89|a|!|12");
    walker_close(walker);
    assert_agree(written, CL100K("(?:\\p{N}{1,3})+"));
}

/* Runs of 256 KiB that backtracking would go through again and again. */
static void test_pretok_scan__long_runs_take_linear_time(void **state)
{
    (void)state;
    static const struct {
        const char *unit;    /* repeated */
        const char *begin;   /* before the run */
        size_t first, count; /* bytes of the first piece; pieces in all */
    } runs[] = {{"A", "", 1 << 18, 1},        {"A", "\xcc\x81", 2, 2},
                {"A", "!", 1 + (1 << 18), 1}, {"\xcc\x81", "", 1 << 18, 1},
                {"aB", "", 1, (1 << 17) + 1}, {"/\n", "", 1 << 18, 1}};
    uint8_t *text = mem_alloc((1 << 18) + 8);
    size_t *ends = mem_alloc(((1 << 18) + 8) * sizeof *ends);
    Walker walker = walker_open(PRETOK_O200K);
    for (size_t i = 0; i < COUNT(runs); i++) {
        size_t size = strlen(runs[i].begin), unit = strlen(runs[i].unit);
        memcpy(text, runs[i].begin, size);
        for (size_t done = 0; done < 1 << 18; done += unit, size += unit) {
            memcpy(text + size, runs[i].unit, unit);
        }
        assert_int_equal(pieces_of(walker, text, size, 0, ends), runs[i].count);
        assert_int_equal(ends[0], runs[i].first);
    }
    walker_close(walker);
    free(ends);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretok_scan__pieces_are_those_of_hugging_face),
        cmocka_unit_test(test_pretok_scan__words_split_by_case_as_in_hugging_face),
        cmocka_unit_test(test_pretok_scan__scanners_agree_with_pcre2),
        cmocka_unit_test(test_pretok_scan__known_patterns_have_scanners_in_any_spelling),
        cmocka_unit_test(test_pretok_scan__possessive_braces_take_all_digits),
        cmocka_unit_test(test_pretok_scan__long_runs_take_linear_time),
    };
    return cmocka_run_group_tests_name("pretok_scan", tests, NULL, NULL);
}
