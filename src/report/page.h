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

/* As a string of JSON with its quotes, which also stands safely within a script element of HTML:
 * no '<', '>' or '&', and what is not visible is shown as escape.h says. Line breaks stay. */
void page_put_json(Page *page, const char *text);

/* As a number of JSON with at most `digits` significant digits; null when it is not finite. */
void page_put_number(Page *page, double number, int digits);

/* Text broken at spaces into lines of at most `fit` letters; what does not fit into `most` lines
 * ends in "...". Returns the number of lines. */
int page_put_wrapped(Page *page, const char *text, size_t fit, int most);

void page_free(Page *page);
