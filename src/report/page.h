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

/* Text broken at spaces into lines of at most `fit` letters; what does not fit into `most` lines
 * ends in "...". Returns the number of lines. */
int page_put_wrapped(Page *page, const char *text, size_t fit, int most);

/* From the declaration to <main>, with the style of every report; page_close ends what it began. */
void page_open(Page *page, const char *title);
void page_close(Page *page);

/* A figure: the SVG file within the page, as a picture that sees nothing of it. alt: what it
 * shows, for those who do not see it. */
int page_put_figure(Page *page, const char *path, const char *alt);

/* Writes folder/name as one event and empties the page, which page_free does too. */
int page_save(Page *page, const char *folder, const char *name);
void page_free(Page *page);
