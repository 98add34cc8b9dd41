#pragma once
/* Pages and scripts: the ways in which words of a record, which may hold anything, become part of
 * a text. */
#include "base/json.h"
#include "base/page.h"

void page_put_html(Page *page, const char *text);     /* as text or an attribute's value */
void page_put_markdown(Page *page, const char *text); /* as text, also in a cell of a table */

/* As a string of JSON with its quotes, which also stands safely within a script element of HTML:
 * no '<', '>' or '&', and what is not visible is shown as escape.h says. Line breaks stay. */
void page_put_json(Page *page, const char *text);

/* A tree of JSON, which it takes, on one line with all that is not visible as \uNNNN. */
void page_put_tree(Page *page, cJSON *tree);

/* As a number of JSON with at most `digits` significant digits; null when it is not finite. */
void page_put_number(Page *page, double number, int digits);

/* Text broken at spaces into lines of at most `fit` letters; what does not fit into `most` lines
 * ends in "...". Returns the number of lines. */
int page_put_wrapped(Page *page, const char *text, size_t fit, int most);
