#pragma once
/* Branches of several batches from points along one run (recipe key trunk): which batch costs loss
 * at equal tokens, and the largest that does not. */
#include "report/statistics.h"
#include "report/tables.h"

#define BRANCH_TOLERANCE 0.01 /* nats; unless the recipe says another */

/* What a batch costs at a point of the trunk, against the smallest batch there. */
typedef struct {
    double at, batch, tokens; /* update of the trunk; sequences and tokens per update */
    Estimate loss;            /* over repeats, at the end of the branch */
    Estimate difference;      /* to the smallest batch, repeat by repeat; of that itself 0 */
    bool diverged;            /* in some repeat: that is a loss, whatever the others came to */
} BranchRow;

/* The batch up to which none costs more than the tolerance: by the means, and by the ends of the
 * intervals: at least so much for sure, and at most what cannot be ruled out. Batches without a
 * difference are passed over. Sequences. */
typedef struct {
    double at, batch;   /* NAN: none can be compared with the smallest */
    double least, most; /* NAN: no interval */
    double largest;     /* that could be compared */
} BranchLimit;

/* Of rows with one `at`, ascending batches, the smallest first. */
BranchLimit branch_limit(const BranchRow *rows, int count, double tolerance);

/* False where nothing branches. */
bool branches_table(const Results *results, Table *table);
