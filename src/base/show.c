#include "base/show.h"

#include <inttypes.h>

const char *show_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

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
