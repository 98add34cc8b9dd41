#include "support/plain_documents.h"

#include "base/mem.h"

#include <stdbool.h>
#include <string.h>

void text_add(Text *text, const char *bytes, size_t size)
{
    if (text->size + size >= text->capacity) {
        text->capacity = 2 * (text->size + size) + 64;
        text->bytes = mem_realloc(text->bytes, text->capacity, 1);
    }
    if (size > 0) {
        memcpy(text->bytes + text->size, bytes, size);
    }
    text->size += size;
}

void text_add_line(Text *text, const char *line)
{
    text_add(text, line, strlen(line));
}

static bool has(const Text *text, size_t at, const char *part)
{
    return text->size - at >= strlen(part) && memcmp(text->bytes + at, part, strlen(part)) == 0;
}

size_t plain_documents(const Text *text, PlainDocument *out)
{
    size_t count = 0, first = text->size >= 3 && has(text, 0, "\xef\xbb\xbf") ? 3 : 0;
    size_t begin = first, at = first, line = 1, begin_line = 1;
    while (at < text->size) {
        if (!has(text, at, "<|endoftext|>")) {
            line += text->bytes[at++] == '\n';
            continue;
        }
        if (at > begin) {
            out[count++] = (PlainDocument){begin, at - begin, begin_line};
        }
        bool line_start = at == first || text->bytes[at - 1] == '\n';
        at += 13;
        size_t line_break = !line_start             ? 0
                            : has(text, at, "\n")   ? 1
                            : has(text, at, "\r\n") ? 2
                                                    : 0;
        at += line_break;
        line += line_break > 0;
        begin = at;
        begin_line = line;
    }
    if (at > begin) {
        out[count++] = (PlainDocument){begin, at - begin, begin_line};
    }
    return count;
}
