#pragma once
/* Lines of text for a terminal of a given size: widths are counted in columns, nothing goes
 * beyond the edges, and what stands in a record cannot steer the terminal. */
#include "report/page.h"

#include <stdarg.h>
#include <stdbool.h>

typedef enum {
    INK_PLAIN,
    INK_DIM,
    INK_BOLD,
    INK_RED,
    INK_GREEN,
    INK_YELLOW,
    INK_BLUE,
    INK_MAGENTA,
    INK_CYAN,
    INK_COUNT
} Ink;

typedef struct {
    int width, height; /* columns, and lines at most */
    bool utf8, colour;
    Page *lines; /* colours as escape sequences, set back at the end of each line */
    int count;
    int column; /* of the last line, from 0: where the next character goes */
} WatchText;

void watch_text_init(WatchText *text, int width, int height, bool utf8, bool colour);
void watch_text_free(WatchText *text);

/* Begins a line; false when there is no more room, and then all that is put is lost. */
bool watch_text_line(WatchText *text);

/* Into the last line, as far as there is room. Control characters and broken UTF-8 become '?',
 * and without utf8 every other character beyond ASCII too. */
void watch_text_put(WatchText *text, Ink ink, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same as an item that stays in one piece: two columns behind the one before, or in a new
 * line. */
void watch_text_item(WatchText *text, Ink ink, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A sentence, broken at spaces into as many lines as it takes. */
void watch_text_wrap(WatchText *text, Ink ink, const char *sentence);

/* `count` times a character of one column of ours, or its stand-in. */
void watch_text_glyph(WatchText *text, Ink ink, const char *utf8, char ascii, int count);

/* The line as it is (taken from another text of the same width). */
void watch_text_copy(WatchText *text, const WatchText *from, int line);

/* Columns that a NUL-terminated string takes once put, escape sequences of colours not counted:
 * for tests and layout. */
int watch_text_columns(const char *line, bool utf8);
