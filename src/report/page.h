#pragma once
/* Pages and scripts: text that grows, and the ways in which words of a record, which may hold
 * anything, become part of it. */
#include <stddef.h>

typedef struct {
    char *text; /* NUL-terminated; NULL in a zeroed page */
    size_t size, capacity;
} Page;

void page_put(Page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_put_bytes(Page *page, const char *bytes, size_t count);
void page_put_html(Page *page, const char *text);     /* as text or an attribute's value */
void page_put_markdown(Page *page, const char *text); /* as text, also in a cell of a table */

/* As a string of gnuplot's. It has rules of its own for quotes, commands, macros, comments and
 * lines that go on; so all but letters, digits and spaces is written as octal numbers. */
void page_put_quoted(Page *page, const char *text);

/* From the declaration to <main>, with the style of every report; page_close ends what it began. */
void page_open(Page *page, const char *title);
void page_close(Page *page);

/* An SVG file as part of a page: without declaration and name space, which only a file needs. */
int page_put_svg(Page *page, const char *path);

/* Writes folder/name as one event and empties the page, which page_free does too. */
int page_save(Page *page, const char *folder, const char *name);
void page_free(Page *page);
