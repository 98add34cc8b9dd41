#pragma once
/* The loss of a run over its steps, from metrics.jsonl alone. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    int64_t step;
    double loss; /* nats per token */
} CurvePoint;

typedef struct {
    CurvePoint *train, *validation; /* ascending steps */
    size_t train_count, validation_count;
} Curve;

/* ERR_INPUT naming the file and line when there is no such record. A value that was not recorded, or
 * was NaN, is no point. */
int curve_read(Curve *curve, const char *run_dir);
void curve_free(Curve *curve); /* no-op on a zeroed curve */

/* The training losses as a drawing in characters, `columns` x `rows` without axes. */
void curve_print(const Curve *curve, int columns, int rows, FILE *file);
