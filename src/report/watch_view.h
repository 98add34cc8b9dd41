#pragma once
/* What was read of a run, as a screen of text. Nothing here looks at a file, a clock or a
 * terminal. */
#include "report/watch_plot.h"

typedef struct {
    int width, height; /* of the terminal; at least 1 */
    bool utf8, colour;
    WatchPlot plot;
    bool keys; /* someone sits at the keyboard: say which key ends it */
    bool help, paused;
} WatchFlags;

/* Fills out (not initialised before) with at most `height` lines of at most `width` columns.
 * Caller frees it. */
void watch_view(const WatchRun *run, const WatchFlags *flags, WatchText *out);

/* The line of keys, for every view. */
void watch_view_keys(const WatchFlags *flags, WatchText *out);

/* A state's colour. */
Ink watch_state_ink(WatchState state);
