#pragma once
/* A model that trains with nobody to send to, so that its steps can be measured. */
#include "data/prefetch.h"
#include "train/setup.h"

typedef struct {
    Trainer trainer;
    Loader loader;
    Prefetch *prefetch;
} OneRank;

/* By run's setup and plan, on its data. Both stay where they are until one_rank_close, which is
 * called whatever this returns. ERR_MEMORY when the device cannot give what the plan says. */
int one_rank_open(OneRank *one, const Run *run);
void one_rank_close(OneRank *one); /* a no-op on a zeroed struct */
