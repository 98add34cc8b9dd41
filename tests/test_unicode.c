/* UTF-8, and the classes of characters. */
#include "text/unicode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void test_unicode__classes_are_those_of_unicode_16(void **state)
{
    (void)state;
    size_t counts[4] = {0};
    for (uint32_t c = 0; c < 0x110000; c++) {
        counts[unicode_class(c)]++;
    }
    assert_int_equal(counts[CHAR_LETTER], 141028);
    assert_int_equal(counts[CHAR_NUMBER], 1911);
    assert_int_equal(counts[CHAR_SPACE], 25);
    assert_int_equal(unicode_class(0x110000), CHAR_OTHER);
    assert_int_equal(unicode_class(UINT32_MAX), CHAR_OTHER);
    struct {
        uint32_t character;
        CharKind class;
    } some[] = {{'A', CHAR_LETTER},     {'z', CHAR_LETTER},    {'@', CHAR_OTHER},
                {'[', CHAR_OTHER},      {'0', CHAR_NUMBER},    {'9', CHAR_NUMBER},
                {'/', CHAR_OTHER},      {':', CHAR_OTHER},     {'\t', CHAR_SPACE},
                {'\r', CHAR_SPACE},     {0x0e, CHAR_OTHER},    {0x1f, CHAR_OTHER},
                {0x85, CHAR_SPACE},     {0xa0, CHAR_SPACE},    {0xb2, CHAR_NUMBER},
                {0x301, CHAR_OTHER},    {0x180e, CHAR_OTHER},  {0x200b, CHAR_OTHER},
                {0x2167, CHAR_NUMBER},  {0x3000, CHAR_SPACE},  {0x4e00, CHAR_LETTER},
                {0xac00, CHAR_LETTER},  {0xd7a3, CHAR_LETTER}, {0xd7a4, CHAR_OTHER},
                {0x10d40, CHAR_NUMBER}, {0x1c89, CHAR_LETTER}, {0x323af, CHAR_LETTER},
                {0x323b0, CHAR_OTHER},  {0xfffd, CHAR_OTHER},  {0x10ffff, CHAR_OTHER}};
    for (size_t i = 0; i < COUNT(some); i++) {
        assert_int_equal(unicode_class(some[i].character), some[i].class);
    }
}

static void test_unicode__kinds_are_those_of_unicode_16(void **state)
{
    (void)state;
    size_t counts[16] = {0};
    for (uint32_t c = 0; c < 0x110000; c++) {
        counts[unicode_kind(c)]++;
    }
    assert_int_equal(counts[CHAR_UPPER], 1858 + 31);
    assert_int_equal(counts[CHAR_LOWER], 2258);
    assert_int_equal(counts[CHAR_LETTER], 404 + 136477);
    assert_int_equal(counts[CHAR_MARK], 2501);
    struct {
        uint32_t character;
        CharKind kind;
    } some[] = {{'Z', CHAR_UPPER},     {'a', CHAR_LOWER},     {0xaa, CHAR_LETTER},
                {0xdf, CHAR_LOWER},    {0x100, CHAR_UPPER},   {0x101, CHAR_LOWER},
                {0x137, CHAR_LOWER},   {0x138, CHAR_LOWER},   {0x1c5, CHAR_UPPER},
                {0x2b0, CHAR_LETTER},  {0x301, CHAR_MARK},    {0x488, CHAR_MARK},
                {0x903, CHAR_MARK},    {0x1c89, CHAR_UPPER},  {0x1c8a, CHAR_LOWER},
                {0x4e00, CHAR_LETTER}, {0x10d50, CHAR_UPPER}, {0x10d70, CHAR_LOWER}};
    for (size_t i = 0; i < COUNT(some); i++) {
        assert_int_equal(unicode_kind(some[i].character), some[i].kind);
    }
}

static void test_unicode__utf8_takes_every_character_there_and_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c == 0xd800) {
            c = 0xe000;
        }
        uint8_t bytes[4];
        int length = utf8_encode(c, bytes), read;
        assert_int_equal(length, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        assert_int_equal(utf8_length(bytes, 4), length);
        assert_int_equal(utf8_decode(bytes, (size_t)length, &read), c);
        assert_int_equal(read, length);
        if (length > 1) {
            assert_int_equal(utf8_length(bytes, (size_t)length - 1), 0);
        }
    }
}

static void test_unicode__utf8_refuses_what_is_none(void **state)
{
    (void)state;
    const char *bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc2",
        "\xc2\x41",
        "\xe0\x9f\xbf",
        "\xe0\x80\x80",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xe2\x82",
        "\xe2\x82\x41",
        "\xe2\x41\x82",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf0\x9f\x99",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xfe\x80",
        "\xf0\x9f\x99\xc2",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        int length;
        const uint8_t *bytes = (const uint8_t *)bad[i];
        assert_int_equal(utf8_length(bytes, strlen(bad[i])), 0);
        assert_int_equal(utf8_decode(bytes, strlen(bad[i]), &length), UTF8_REPLACEMENT);
        assert_int_equal(length, 1);
    }
}

static void test_unicode__a_character_cut_off_at_the_end_is_seen(void **state)
{
    (void)state;
    struct {
        const char *text;
        size_t cut_off;
    } cases[] = {{"", 0},
                 {"a", 0},
                 {"\xc3\xa9", 0},
                 {"a\xc3", 1},
                 {"\xe2\x82\xac", 0},
                 {"\xe2\x82", 2},
                 {"\xe2", 1},
                 {"a\xf0\x9f\x99", 3},
                 {"\xf0\x9f\x99\x82", 0},
                 {"\x80\x80\x80\x80", 0},
                 {"\xc3\xa9\x80", 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint8_t *text = (const uint8_t *)cases[i].text;
        assert_int_equal(utf8_cut_off(text, strlen(cases[i].text)), cases[i].cut_off);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unicode__classes_are_those_of_unicode_16),
        cmocka_unit_test(test_unicode__kinds_are_those_of_unicode_16),
        cmocka_unit_test(test_unicode__utf8_takes_every_character_there_and_back),
        cmocka_unit_test(test_unicode__utf8_refuses_what_is_none),
        cmocka_unit_test(test_unicode__a_character_cut_off_at_the_end_is_seen),
    };
    return cmocka_run_group_tests_name("unicode", tests, NULL, NULL);
}
