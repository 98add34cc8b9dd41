/* Bytes as text. In the byte alphabet every byte is a printable character: bytes that print in
 * Latin-1 stand for themselves, and the others, in ascending order, for the characters from U+0100
 * on. */
#include "text/tokenizer.h"

#include "text/unicode.h"

#include <string.h>

#define FIRST_SHIFTED 0x100u
#define SHIFTED_LOW 33u                     /* 0x00 to 0x20: controls and the space */
#define SHIFTED_MIDDLE (0xa0u - 0x7fu + 1u) /* delete, controls, the no-break space */
#define SOFT_HYPHEN 0xadu

uint32_t byte_character(uint8_t byte)
{
    if (byte < SHIFTED_LOW) {
        return FIRST_SHIFTED + byte;
    }
    if (byte >= 0x7f && byte <= 0xa0) {
        return FIRST_SHIFTED + SHIFTED_LOW + (byte - 0x7fu);
    }
    if (byte == SOFT_HYPHEN) {
        return FIRST_SHIFTED + SHIFTED_LOW + SHIFTED_MIDDLE;
    }
    return byte;
}

bool character_byte(uint32_t character, uint8_t *byte)
{
    uint32_t shifted = character - FIRST_SHIFTED;
    uint32_t value = character;
    if (character >= FIRST_SHIFTED) {
        value = shifted < SHIFTED_LOW                    ? shifted
                : shifted < SHIFTED_LOW + SHIFTED_MIDDLE ? 0x7f + shifted - SHIFTED_LOW
                                                         : SOFT_HYPHEN;
    }
    *byte = (uint8_t)value;
    return byte_character(*byte) == character;
}

bool alphabet_to_bytes(const char *text, size_t length, uint8_t *out, size_t *size)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + length;
    size_t used = 0;
    while (at < end) {
        int step;
        if (!character_byte(utf8_decode(at, (size_t)(end - at), &step), &out[used++])) {
            return false;
        }
        at += step;
    }
    *size = used;
    return true;
}

ShownToken token_shown(const void *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *from = bytes;
    ShownToken shown;
    size_t used = 0;
    for (size_t i = 0; i < size;) {
        if (used + 8 > sizeof shown.text) {
            memcpy(shown.text + used, "...", 3);
            used += 3;
            break;
        }
        int length = utf8_length(from + i, size - i);
        if (length == 0 || from[i] < 0x20 || from[i] == 0x7f) {
            const char escape[] = {'\\', 'x', digits[from[i] >> 4], digits[from[i] & 15]};
            memcpy(shown.text + used, escape, sizeof escape);
            used += sizeof escape;
            i++;
        } else {
            memcpy(shown.text + used, from + i, (size_t)length);
            used += (size_t)length;
            i += (size_t)length;
        }
    }
    shown.text[used] = '\0';
    return shown;
}
