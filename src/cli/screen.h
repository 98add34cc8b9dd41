#pragma once
/* The terminal as a screen that is drawn again and again, and given back as it was on every way
 * out: a key, a signal, an error, an end by exit(), a crash. There is one terminal, so there is
 * one screen. */
#include "report/watch.h"

typedef enum {
    SCREEN_TIME,    /* nothing happened for that long */
    SCREEN_KEY,     /* one was pressed */
    SCREEN_RESIZED, /* or came back from the background: draw again */
    SCREEN_ENDED    /* by a signal */
} ScreenEvent;

/* Whether standard output is a terminal that can be drawn on. */
bool screen_is_possible(void);

/* Columns and lines of the terminal; where there is none, those of COLUMNS and LINES, or 80 and
 * 30. */
void screen_size(int *width, int *height);

/* Columns of text on standard output: the terminal's up to 100, or 100 where it is none. */
int screen_text_width(void);

/* Whether the terminal shows colours and wants them, and whether the locale is UTF-8 (sets
 * LC_CTYPE). */
bool screen_has_colour(void);
bool screen_has_utf8(void);

int screen_open(void);
void screen_close(void); /* a no-op when it is not open */

/* Draws the lines that have changed, in one write. ERR_FAILED when the terminal is gone. */
int screen_show(const WatchText *frame);

ScreenEvent screen_wait(double seconds, char *key);

/* 0, ERR_INTERRUPTED or ERR_TERMINATED. */
int screen_signal(void);
