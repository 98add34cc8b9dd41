/* Pre-tokens: the scanners against Hugging Face's pieces and against PCRE2, patterns of any kind,
 * and the places where a text may be cut. */
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "text/pretok.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define EVIL "(?:\\w|\\w\\w)+\\d$|q"

/* A pattern with what it takes to walk. */
typedef struct {
    Pretok *pretok;
    PretokWalk *walk;
} Walker;

static Walker walker_open(const char *pattern)
{
    Walker walker;
    if (pretok_open(pattern, &walker.pretok) != 0) {
        fail_msg("%s: %s", pattern, err_message());
    }
    walker.walk = pretok_walk_open(walker.pretok);
    return walker;
}

static void walker_close(Walker walker)
{
    pretok_walk_close(walker.walk);
    pretok_close(walker.pretok);
}

/* Appends the ends of the pieces of text, plus offset, at ends; returns how many. The text lies in
 * memory of exactly its size, so that reading past it is seen by the sanitizer. */
static size_t pieces_of(Walker walker, const uint8_t *text, size_t size, size_t offset,
                        size_t *ends)
{
    uint8_t *exact = mem_alloc(size > 0 ? size : 1);
    memcpy(exact, text, size);
    pretok_walk_begin(walker.walk, exact, size);
    size_t count = 0, end, last = 0;
    while (pretok_walk_next(walker.walk, &end)) {
        assert_true(end > last && end <= size);
        last = end;
        ends[count++] = end + offset;
    }
    assert_int_equal(last, size);
    assert_false(pretok_walk_next(walker.walk, &end));
    free(exact);
    return count;
}

/* `expected`: the text with | where it is to be cut. */
static void assert_pieces(Walker walker, const char *expected)
{
    uint8_t text[256] = {0};
    size_t size = 0, ends[256], count = 0;
    char got[512] = "", *out = got;
    for (const char *c = expected; *c != 0; c++) {
        if (*c != '|') {
            text[size++] = (uint8_t)*c;
        }
    }
    size_t pieces = pieces_of(walker, text, size, 0, ends);
    for (size_t i = 0; i < size; i++) {
        *out++ = (char)text[i];
        if (i + 1 == ends[count] && ++count < pieces) {
            *out++ = '|';
        }
    }
    assert_string_equal(got, expected);
}

/* What tokenizers 0.23.3 says: ByteLevel for the first column, Split for the others. */
static void test_pretok__scanners_cut_as_hugging_face_does(void **state)
{
    (void)state;
    static const char *names[] = {PRETOK_GPT2, PRETOK_LLAMA3, PRETOK_QWEN2};
    static const char *expected[][3] = {
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
    for (size_t i = 0; i < COUNT(names); i++) {
        Walker walker = walker_open(names[i]);
        for (size_t j = 0; j < COUNT(expected); j++) {
            assert_pieces(walker, expected[j][i]);
        }
        walker_close(walker);
    }
}

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

/* Characters that trouble patterns, and bytes that are none. All were assigned long ago, so that
 * any PCRE2 knows them. */
static const char *nasty[] = {
    "a",
    "Z",
    "s",
    "T",
    "r",
    "e",
    "v",
    "l",
    "l",
    "m",
    "D",
    "'",
    "'",
    "'",
    "'",
    "0",
    "1",
    "9",
    " ",
    " ",
    " ",
    " ",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\v",
    ".",
    "!",
    "-",
    "_",
    "\xc3\xa9",
    "\xd0\xb6",
    "\xe5\xad\x97",
    "\xc5\xbf",
    "\xc2\x85",
    "\xe3\x80\x80",
    "\xc2\xa0",
    "\xe2\x80\xa8",
    "\xe2\x80\x8b",
    "\xc2\xb2",
    "\xe2\x85\xa7",
    "\xcc\x81",
    "\xf0\x9f\x99\x82",
    "\xf0\x9d\x92\x9c",
    "\xef\xbf\xbd",
    "\x80",
    "\xff",
    "\xe2\x82",
    "\xf0\x9f\x99",
    "\xc3",
    "\x7f",
    "\x01",
    "{",
    "[",
    "`",
    "@",
    "wxyzWXYZab",
};

static size_t nasty_text(uint64_t number, size_t characters, uint8_t *text)
{
    size_t size = 0;
    for (size_t i = 0; i < characters; i++) {
        const char *piece = nasty[rng_below(7, number, i, COUNT(nasty))];
        memcpy(text + size, piece, strlen(piece));
        size += strlen(piece);
    }
    return size;
}

/* The pattern with \s and \S written as classes of the 25 characters, since PCRE2's differ. */
static char *without_shorthand(const char *pattern)
{
    static const char *spaces = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
                                "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
    char *out = mem_strdup("");
    bool in_class = false;
    for (const char *c = pattern; *c != 0; c++) {
        char *longer;
        if (c[0] == '\\' && (c[1] == 's' || c[1] == 'S')) {
            longer = in_class ? mem_format("%s%s", out, spaces)
                              : mem_format("%s[%s%s]", out, c[1] == 'S' ? "^" : "", spaces);
            c++;
        } else {
            in_class = *c == '[' || (in_class && *c != ']');
            longer = mem_format("%s%c", out, *c);
        }
        free(out);
        out = longer;
    }
    return out;
}

static void test_pretok__scanners_agree_with_pcre2(void **state)
{
    (void)state;
    static const char *names[] = {PRETOK_GPT2, PRETOK_LLAMA3, PRETOK_QWEN2};
    for (size_t i = 0; i < COUNT(names); i++) {
        Walker scanner = walker_open(names[i]);
        char *pattern = without_shorthand(pretok_regex(scanner.pretok));
        Walker regex = walker_open(pattern);
        assert_string_equal(pretok_name(regex.pretok), "regex");
        for (uint64_t number = 0; number < 6000; number++) {
            uint8_t text[256];
            size_t left[256], right[256];
            size_t size = nasty_text(number, number % 24, text);
            size_t count = pieces_of(scanner, text, size, 0, left);
            assert_int_equal(pieces_of(regex, text, size, 0, right), count);
            assert_memory_equal(left, right, count * sizeof left[0]);
        }
        assert_int_equal(pretok_walk_invalid(scanner.walk), pretok_walk_invalid(regex.walk));
        walker_close(regex);
        walker_close(scanner);
        free(pattern);
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
    static const char *patterns[] = {PRETOK_LLAMA3, " ?\\w+|\\s+(?!\\S)|\\s+",
                                     "\\w{1,3}(?=[^!]{0,9}!)|\\w"};
    uint8_t *text = mem_alloc(10 * 20000);
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

static void test_pretok__known_patterns_have_scanners_in_any_spelling(void **state)
{
    (void)state;
    static const char *gpt2_rest = "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    char *spellings[] = {mem_strdup(PRETOK_GPT2),
                         mem_format("'s|'t|'re|'ve|'m|'ll|'d%s", gpt2_rest),
                         mem_format("'(?:[sdmt]|ll|ve|re)%s", gpt2_rest)};
    for (size_t i = 0; i < COUNT(spellings); i++) {
        Pretok *pretok;
        assert_int_equal(pretok_open(spellings[i], &pretok), 0);
        assert_string_equal(pretok_name(pretok), PRETOK_GPT2);
        assert_string_equal(pretok_regex(pretok), spellings[1]);
        pretok_close(pretok);
    }
    for (size_t i = 0; i < COUNT(spellings); i++) {
        free(spellings[i]);
    }
    Walker walker = walker_open("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
                                "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
                                "\\s+(?!\\S)|\\s+");
    assert_string_equal(pretok_name(walker.pretok), PRETOK_LLAMA3);
    walker_close(walker);
}

static void test_pretok__bad_patterns_are_refused_with_a_reason(void **state)
{
    (void)state;
    char *huge = mem_alloc((1 << 17) + 1);
    memset(huge, 'a', 1 << 17);
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
        cmocka_unit_test(test_pretok__scanners_cut_as_hugging_face_does),
        cmocka_unit_test(test_pretok__patterns_cut_as_hugging_face_does),
        cmocka_unit_test(test_pretok__scanners_agree_with_pcre2),
        cmocka_unit_test(test_pretok__bytes_that_are_not_utf8_are_counted),
        cmocka_unit_test(test_pretok__a_cut_changes_no_piece_whatever_follows),
        cmocka_unit_test(test_pretok__a_long_text_is_cut_near_its_end),
        cmocka_unit_test(test_pretok__known_patterns_have_scanners_in_any_spelling),
        cmocka_unit_test(test_pretok__bad_patterns_are_refused_with_a_reason),
        cmocka_unit_test(test_pretok__evil_patterns_come_to_an_end),
        cmocka_unit_test(test_pretok__long_runs_are_one_piece),
    };
    return cmocka_run_group_tests_name("pretok", tests, NULL, NULL);
}
