#include "cli/show.h"

#include "text/unicode.h"

#include <inttypes.h>

const char *show_count(uint64_t count, bool known, char text[SHOW_COUNT_SIZE])
{
    char digits[SHOW_COUNT_SIZE];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count), used = 0;
    for (int i = 0; known && i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return known ? text : "-";
}

void show_text(const uint8_t *text, size_t size, bool breaks, FILE *file)
{
    for (size_t at = 0; at < size;) {
        int length = utf8_length(text + at, size - at);
        uint8_t first = text[at];
        bool control =
            first < 0x20 || first == 0x7f || (length == 2 && first == 0xc2 && text[at + 1] < 0xa0);
        if (first == '\n' || first == '\t') {
            fputs(breaks ? (first == '\n' ? "\n" : "\t") : (first == '\n' ? "\\n" : "\\t"), file);
            at++;
        } else if (length == 0 || control) {
            fprintf(file, "\\x%02x", first);
            at++;
        } else {
            fwrite(text + at, 1, (size_t)length, file);
            at += (size_t)length;
        }
    }
}
