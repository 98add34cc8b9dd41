#include "serve/track.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WHOLE_DIGITS 15 /* of steps and tokens, which are exact */
#define VALUE_DIGITS 7

/* Another number each time, also in another process that serves the same address later. */
static uint64_t next_epoch(void)
{
    static _Atomic uint64_t last;
    uint64_t none = 0;
    atomic_compare_exchange_strong(&last, &none, (uint64_t)time(NULL) << 20);
    return atomic_fetch_add(&last, 1) + 1;
}

/* Indices of the least and the greatest of a column, the earlier first; false: no number. */
static bool extremes(const TrackRow *rows, size_t count, int column, size_t *first, size_t *second)
{
    size_t least = count, most = count;
    for (size_t i = 0; i < count; i++) {
        double value = rows[i].value[column];
        if (isfinite(value)) {
            least = least == count || value < rows[least].value[column] ? i : least;
            most = most == count || value > rows[most].value[column] ? i : most;
        }
    }
    *first = least < most ? least : most;
    *second = least < most ? most : least;
    return least < count;
}

static double mean_of(const TrackRow *rows, size_t count)
{
    double sum = 0;
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        double mean = rows[i].value[COLUMN_MEAN];
        sum += isfinite(mean) ? mean : 0;
        known += isfinite(mean);
    }
    return known > 0 ? sum / (double)known : NAN;
}

/* count >= 2 rows, which stand for equally many lines, as a pair. out may be rows. */
static void reduce(const TrackRow *rows, size_t count, TrackRow out[2])
{
    TrackRow pair[2];
    size_t first, second;
    for (int column = COLUMN_PLACES; column < COLUMN_COUNT; column++) {
        bool any = extremes(rows, count, column, &first, &second);
        pair[0].value[column] = any ? rows[first].value[column] : NAN;
        pair[1].value[column] = any ? rows[second].value[column] : NAN;
    }
    pair[0].value[COLUMN_MEAN] = pair[1].value[COLUMN_MEAN] = mean_of(rows, count);
    if (!extremes(rows, count, COLUMN_LOSS, &first, &second) || first == second) {
        first = 0;
        second = count - 1;
    }
    for (int column = 0; column < COLUMN_PLACES; column++) {
        pair[0].value[column] = rows[first].value[column];
        pair[1].value[column] = rows[second].value[column];
    }
    memcpy(out, pair, sizeof pair);
}

static void thin(Track *track)
{
    for (size_t i = 0; i < track->count; i += 4) {
        reduce(track->rows + i, 4, track->rows + i / 2);
    }
    track->count /= 2;
    track->lines *= 2;
    track->filled = track->lines;
    track->epoch = next_epoch();
}

void track_cut(Track *track, double step)
{
    size_t before = track->count;
    while (track->count > 0 && track->rows[track->count - 1].value[COLUMN_STEP] >= step) {
        track->count--;
    }
    if (track->count != before) {
        track->filled = track->count % 2 == 1 ? 1 : track->lines;
        track->epoch = next_epoch();
    }
}

void track_add(Track *track, const TrackRow *row)
{
    if (track->lines == 0) {
        track->lines = track->filled = 2;
        track->epoch = next_epoch();
    }
    track_cut(track, row->value[COLUMN_STEP]);
    bool whole = track->filled >= track->lines;
    if (whole && track->count == TRACK_MOST) {
        thin(track);
    }
    if (whole || track->filled == 1) {
        track->rows = mem_grow(track->rows, track->count, &track->capacity, sizeof *track->rows);
        track->rows[track->count++] = *row;
        track->filled = whole ? 1 : 2;
    } else {
        TrackRow *last = track->rows + track->count - 2;
        TrackRow rows[3] = {last[0], last[1], *row};
        double before = mean_of(last, 2), mean = row->value[COLUMN_MEAN];
        reduce(rows, 3, last);
        track->filled++;
        if (isfinite(before) && isfinite(mean)) { /* the new line is one of `filled` */
            mean = before + (mean - before) / (double)track->filled;
            last[0].value[COLUMN_MEAN] = last[1].value[COLUMN_MEAN] = mean;
        }
    }
}

void track_clear(Track *track)
{
    track->count = 0;
    track->lines = track->filled = 2;
    track->epoch = next_epoch();
}

void track_free(Track *track)
{
    free(track->rows);
    *track = (Track){0};
}

/* Rows that only a thinning, a cut or a new file changes. */
static size_t settled(const Track *track)
{
    return track->filled < track->lines ? track->count - (track->filled == 1 ? 1 : 2)
                                        : track->count;
}

void track_cursor(const Track *track, char text[TRACK_CURSOR_SIZE])
{
    snprintf(text, TRACK_CURSOR_SIZE, "%" PRIu64 ".%zu", track->epoch, settled(track));
}

size_t track_from(const Track *track, const char *cursor)
{
    uint64_t epoch = 0;
    size_t rows = 0;
    int end = 0;
    bool good = cursor != NULL && strspn(cursor, "0123456789.") == strlen(cursor) &&
                sscanf(cursor, "%20" SCNu64 ".%9zu%n", &epoch, &rows, &end) == 2 &&
                cursor[end] == '\0';
    return good && epoch == track->epoch && rows <= track->count ? rows : 0;
}

void track_put(Page *page, const Track *track, size_t from, int columns, size_t most)
{
    static const char *const names[COLUMN_COUNT] = {
#define X(name, json) json,
        TRACK_COLUMNS(X)
#undef X
    };
    const TrackRow *rows = track->rows != NULL ? track->rows + from : NULL;
    size_t count = track->count - from;
    TrackRow *thinned = NULL;
    if (most >= 2 && count > most) {
        size_t each = 2 * ((count + most - 1) / most), used = 0; /* rows that become a pair */
        thinned = mem_zalloc(most + 4, sizeof *thinned);
        for (size_t i = 0; i < count; i += each) {
            size_t here = count - i < each ? count - i : each;
            if (here >= 2) {
                reduce(rows + i, here, thinned + used);
                used += 2;
            } else {
                thinned[used++] = rows[i];
            }
        }
        rows = thinned;
        count = used;
    }
    page_put(page, "{\"at\":%zu", from);
    for (int column = 0; column < columns; column++) {
        if (column == COLUMN_MEAN && track->lines <= 2 && thinned == NULL) {
            continue;
        }
        page_put(page, ",\"%s\":[", names[column]);
        for (size_t i = 0; i < count; i++) {
            if (i > 0) {
                page_put_bytes(page, ",", 1);
            }
            double value = rows[i].value[column];
            page_put_number(page, value, value == floor(value) ? WHOLE_DIGITS : VALUE_DIGITS);
        }
        page_put_bytes(page, "]", 1);
    }
    page_put_bytes(page, "}", 1);
    free(thinned);
}
