#pragma once
/* The lines of a run as a table of numbers that stays small however long the run is, and from
 * which a reader who has the beginning gets only what is new.
 *
 * Rows come in pairs. At first each line has a row. When TRACK_MOST rows are full, two pairs
 * become one, which has the least and the greatest loss of its lines in the order in which they
 * came: a spike is never lost. Of the other columns a pair has least and greatest too, and both of
 * its rows have the mean loss of its lines, for a reader who smooths. */
#include "report/page.h"

#include <stddef.h>
#include <stdint.h>

#define TRACK_MOST 4096 /* rows; a multiple of 4 */

/* X(NAME, in JSON): what a row has. The first three say where it is; a line that is added has its
 * loss as its mean. */
#define TRACK_COLUMNS(X)  \
    X(STEP, "step")       \
    X(TOKENS, "tokens")   \
    X(SECONDS, "seconds") \
    X(LOSS, "loss")       \
    X(MEAN, "mean")       \
    X(TOK_S, "tok_s")     \
    X(LR, "lr")           \
    X(GRAD_NORM, "grad_norm")

enum {
#define X(name, json) COLUMN_##name,
    TRACK_COLUMNS(X)
#undef X
        COLUMN_COUNT,
    COLUMN_PLACES = COLUMN_LOSS
};

typedef struct {
    double value[COLUMN_COUNT]; /* NAN: not recorded */
} TrackRow;

typedef struct {
    TrackRow *rows; /* ascending steps */
    size_t count, capacity;
    size_t lines;   /* that a pair stands for, 2 or more; 0 in a zeroed track */
    size_t filled;  /* lines of the last pair */
    uint64_t epoch; /* another when rows that were there have changed, but for the last pair */
} Track;

/* Adds a line; rows from its step on, of a run that was resumed, are taken back before. */
void track_add(Track *track, const TrackRow *row);
void track_cut(Track *track, double step); /* takes back rows from a step on */
void track_clear(Track *track);
void track_free(Track *track);

/* What a reader may name to get what is new: "EPOCH.ROWS", the rows that will not change. */
#define TRACK_CURSOR_SIZE 48
void track_cursor(const Track *track, char text[TRACK_CURSOR_SIZE]);

/* The row from which on a reader with that cursor (any text; NULL) needs the rows. */
size_t track_from(const Track *track, const char *cursor);

/* {"at": FROM, "step": [...], "tokens": [...], ...}: the first `columns` columns of the rows from
 * `from` on, thinned further to about `most` (0: as they are). A missing value is null. The mean
 * is left out where every line has its row. */
void track_put(Page *page, const Track *track, size_t from, int columns, size_t most);
