#include "support/pieces.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

Walker walker_open(const char *pattern)
{
    Walker walker;
    if (pretok_open(pattern, &walker.pretok) != 0) {
        fail_msg("%s: %s", pattern, err_message());
    }
    walker.walk = pretok_walk_open(walker.pretok);
    return walker;
}

void walker_close(Walker walker)
{
    pretok_walk_close(walker.walk);
    pretok_close(walker.pretok);
}

size_t pieces_of(Walker walker, const uint8_t *text, size_t size, size_t offset, size_t *ends)
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

void assert_pieces(Walker walker, const char *expected)
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

static const char *nasty[] = {"a",
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
                              "A",
                              "B",
                              "\xc3\x89",
                              "\xc7\x85",
                              "\xca\xb0",
                              "\xd7\x90",
                              "\xe0\xa4\xbe",
                              "\xcc\x81",
                              "/",
                              "/",
                              "\xe1\xa0\x8e"};

size_t nasty_text(uint64_t number, size_t characters, uint8_t *text)
{
    size_t size = 0;
    for (size_t i = 0; i < characters; i++) {
        const char *piece = nasty[rng_below(7, number, i, COUNT(nasty))];
        memcpy(text + size, piece, strlen(piece));
        size += strlen(piece);
    }
    return size;
}
