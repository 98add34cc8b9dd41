#pragma once
/* What `plan --fit` and `train --fit` say of the settings that they found. */
#include "analyse/fit_measure.h"

/* Of a searched option. */
const char *fit_value_name(const FitFound *found, const FitCandidate *candidate, int axis);

/* "--batch 4 --accum 2 --recompute ffn"; the caller frees it. */
char *fit_settings_text(const FitFound *found, const FitCandidate *candidate);

/* The error when nothing fits: names what needs the least. */
int fit_refuse(const Config *cfg, const FitFound *found);

/* Where steps of the same setting differed too much. */
void fit_warn_if_busy(const FitFound *found);

/* train --fit: gives cfg what is found, by another process, so that nothing of the search is left
 * in this one's memory; or what the run has that it goes on with. *taken: the same as words of a
 * command line, then NULL (words_free); NULL where nothing was open. In that other process it
 * does not return. */
int fit_take(Config *cfg, char ***taken);
