/* A pre-token pattern, the first line, and a text, the rest. Patterns may cost much per byte (their
 * steps are bounded, not small), so texts are short. */
#include "fuzz/fuzz.h"
#include "fuzz/text_check.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TEXT 128

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t length = newline != NULL ? (size_t)(newline - data) : size;
    char *pattern = fuzz_text(data, length);
    Pretok *pretok;
    fuzz_forget();
    int code = pretok_open(pattern, &pretok);
    fuzz_expect(code);
    PACER_ASSERT((code == 0) == (pretok != NULL), "code %d with a pattern or without", code);
    if (code == 0) {
        size_t start = length < size ? length + 1 : size, left = size - start;
        fuzz_pieces(pretok, data + start, left < MOST_TEXT ? left : MOST_TEXT);
    }
    pretok_close(pretok);
    free(pattern);
    return 0;
}
