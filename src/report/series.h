#pragma once
/* Configurations that differ along one axis alone, in the order of its numbers: batch 8, 16, 32
 * at 2 ranks. */
#include "report/results.h"

typedef struct {
    int axis;
    const char *option;  /* of the axis: the first whose values are different positive numbers */
    char *where;         /* the other varying settings, " (ranks 2)"; "" when there are none */
    int *configurations; /* ascending values; at least two */
    double *values;
    int count;
} Series;

typedef struct {
    Series *items;
    int count;
} SeriesList;

/* All of them, of all axes. */
void series_make(const Results *results, SeriesList *list);
void series_free(SeriesList *list);
