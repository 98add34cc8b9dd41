#include "base/utf8.h"

#include "base/assert.h"

#include <stdbool.h>
#include <string.h>

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

size_t utf8_mark(const void *text, size_t size)
{
    bool marked = size >= UTF8_MARK_SIZE && memcmp(text, UTF8_MARK, UTF8_MARK_SIZE) == 0;
    return marked ? UTF8_MARK_SIZE : 0;
}

int utf8_length(const uint8_t *text, size_t size)
{
    uint8_t lead = text[0];
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4 || size < 2) {
        return 0;
    }
    if (lead < 0xe0) {
        return continues(text[1]) ? 2 : 0;
    }
    /* The second byte has a narrower range after some leads: no overlong forms (e0, f0), no
     * surrogates (ed), nothing above U+10FFFF (f4). */
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (size < 3 || text[1] < low || text[1] > high || !continues(text[2])) {
        return 0;
    }
    if (lead < 0xf0) {
        return 3;
    }
    return size >= 4 && continues(text[3]) ? 4 : 0;
}

uint32_t utf8_decode(const uint8_t *text, size_t size, int *length)
{
    *length = utf8_length(text, size);
    switch (*length) {
    case 1:
        return text[0];
    case 2:
        return (text[0] & 0x1fu) << 6 | (text[1] & 0x3fu);
    case 3:
        return (text[0] & 0xfu) << 12 | (text[1] & 0x3fu) << 6 | (text[2] & 0x3fu);
    case 4:
        return (text[0] & 0x7u) << 18 | (text[1] & 0x3fu) << 12 | (text[2] & 0x3fu) << 6 |
               (text[3] & 0x3fu);
    default:
        *length = 1;
        return UTF8_REPLACEMENT;
    }
}

int utf8_encode(uint32_t character, uint8_t out[4])
{
    PACER_ASSERT(character <= UTF8_LAST && (character < 0xd800 || character > 0xdfff),
                 "U+%X is no character", character);
    if (character < 0x80) {
        out[0] = (uint8_t)character;
        return 1;
    }
    int length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (uint8_t)(leads[length] | character);
    return length;
}

size_t utf8_cut_off(const uint8_t *text, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        uint8_t byte = text[size - back];
        if (byte < 0x80) {
            return 0;
        }
        if (byte >= 0xc0) {
            size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
            return back < whole ? back : 0;
        }
    }
    return 0;
}
