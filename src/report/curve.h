#pragma once
/* The loss of a run over its steps, from metrics.jsonl alone. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int64_t step;
    double loss; /* nats per token */
} CurvePoint;

/* How far the run was after a step. */
typedef struct {
    int64_t step;
    double tokens; /* since the beginning of the run; NAN: not recorded */
    /* in training steps, evaluations left out; NAN from the first line that does not say */
    double seconds;
} CurveMark;

/* How an array is thinned: its entries stand for `lines` lines each, the last for `filled`. */
typedef struct {
    size_t lines, filled;
} CurveThinning;

typedef struct {
    CurvePoint *points; /* ascending steps */
    size_t count;
    CurveThinning thinning;
} CurveLine;

typedef struct {
    CurveLine train, validation;
    CurveLine noise;  /* not losses: the noise scale, in sequences */
    CurveMark *marks; /* of the lines of steps */
    size_t mark_count;
    CurveThinning mark_thinning;
    size_t most; /* entries of an array, of which then two become one: even; 0: any number */
} Curve;

/* ERR_INPUT naming the file and line when there is no such record. A value that was not
 * recorded, or was NaN, is no point. most: see Curve. */
int curve_read(Curve *curve, const char *run_dir, size_t most);
void curve_free(Curve *curve); /* no-op on a zeroed curve */

/* Line by line. Points are joined to their mean, at the last of their steps. A line's `ms` is the
 * mean of the steps since the line before. */
void curve_add(const Curve *curve, CurveLine *line, int64_t step, double loss);
void curve_add_mark(Curve *curve, int64_t step, double tokens, double ms);

/* Takes back points, or marks, from a step on. */
void curve_cut(CurveLine *line, int64_t step);
void curve_cut_marks(Curve *curve, int64_t step);

/* Tokens and seconds of training after a step, on the straight line between the marks around it
 * (the first begins at 0); NAN when the record does not say. */
double curve_tokens(const Curve *curve, int64_t step);
double curve_seconds(const Curve *curve, int64_t step);
double curve_step(const Curve *curve, int64_t step); /* the step itself */
typedef double CurvePlace(const Curve *curve, int64_t step);

/* A long curve thinned: steps up to `last` are cut into spans, and a span's point is the mean of
 * its losses, which also takes the noise of single batches out. Adds the means of this curve's
 * spans to `sums`, which repeats of a configuration share. */
#define CURVE_BINS 250
typedef struct {
    double loss, place;
    double square; /* of the losses */
    int count;
} CurveBin;

/* Standard deviation of a span over the repeats; NAN with fewer than two. */
double curve_bin_spread(const CurveBin *bin);
void curve_bin(const Curve *curve, const CurveLine *line, CurvePlace *place, int64_t last,
               CurveBin sums[CURVE_BINS]);

/* Indices of at most `most` points of a line, ascending: the first, the last, and the least and the
 * greatest of each span between. Returns their number; kept[] has room for `most`. */
#define CURVE_SHOWN 1000
size_t curve_thin(const CurveLine *line, size_t most, size_t *kept);
