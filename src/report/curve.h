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

typedef struct {
    CurvePoint *train, *validation; /* ascending steps */
    size_t train_count, validation_count;
    CurveMark *marks; /* of the lines of steps */
    size_t mark_count;
} Curve;

/* ERR_INPUT naming the file and line when there is no such record. A value that was not
 * recorded, or was NaN, is no point. */
int curve_read(Curve *curve, const char *run_dir);
void curve_free(Curve *curve); /* no-op on a zeroed curve */

/* Tokens and seconds of training after a step, on the straight line between the marks around it
 * (the first begins at 0); NAN when the record does not say. */
double curve_tokens(const Curve *curve, int64_t step);
double curve_seconds(const Curve *curve, int64_t step);
