#pragma once
/* Texts in memory, and their documents found the plain way, for tests of what finds them in
 * files. */
#include <stddef.h>
#include <stdint.h>

/* A growing text; free `bytes`. */
typedef struct {
    char *bytes;
    size_t size, capacity;
} Text;

void text_add(Text *text, const char *bytes, size_t size);
void text_add_line(Text *text, const char *line); /* a string, as it is */

typedef struct {
    size_t offset, size, line;
} PlainDocument;

/* The documents of a text by the rules of source.h, byte after byte. Returns their number; `out`
 * has room for one more than the text has bytes. */
size_t plain_documents(const Text *text, PlainDocument *out);
