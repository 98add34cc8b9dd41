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

void page_free(Page *page);

/* --- reports --- */

/* A report as both of its files, written in one go: what one has and the other has not goes to
 * that page alone. */
typedef struct {
    Page markdown, html;
} Pages;

/* The title, and in HTML all before it, with the style of every report. */
void pages_open(Pages *pages, const char *title);

/* Marks as they are: of Markdown, and of HTML. */
void pages_mark(Pages *pages, const char *markdown, const char *html);

/* A text, escaped, with the marks before and behind it in Markdown and in HTML. */
void pages_put(Pages *pages, const char *text, const char *before, const char *behind,
               const char *html_before, const char *html_behind);

/* A figure: a link to folder/NAME.png, and the drawing of folder/NAME.svg within the HTML page, as
 * a picture that sees nothing of it. shown: the folder as seen from the page, "" or "charts/". alt:
 * what it shows, for those who do not see it. */
int pages_put_figure(Pages *pages, const char *folder, const char *shown, const char *name,
                     const char *alt);

/* Writes folder/report.md and folder/report.html, each as one event, and frees. */
int pages_save(Pages *pages, const char *folder);
void pages_free(Pages *pages);
