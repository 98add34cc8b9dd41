#pragma once
/* The gradient noise scale (McCandlish et al. 2018, "simple noise scale"): tr(Sigma) / |G|^2, where
 * G is the mean gradient of a sequence and Sigma the covariance of single sequences' gradients. An
 * update of that many sequences has a gradient whose noise is as large as itself; above it, more
 * sequences make the gradient little better.
 *
 * An update of B sequences is the mean of n pieces of b = B / n sequences, one for each micro-step
 * of each rank. Of their squared norms
 *     E |g_b|^2 = |G|^2 + tr(Sigma) / b        of a piece
 *     E |g_B|^2 = |G|^2 + tr(Sigma) / B        of the update
 * so that both unknowns follow without bias from the two. Single updates tell little: both are
 * averaged over updates, with weights that fall by NOISE_MEMORY from one to the one before it, and
 * then divided. */
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define NOISE_MEMORY 0.98 /* about the last 50 updates */

/* Sums over updates, weighted; zeroed: none yet. */
typedef struct {
    double weight, weight_sq;        /* of the weights and of their squares */
    double trace, mean_sq;           /* of estimates of tr(Sigma) and |G|^2, */
    double trace_2, mean_sq_2, both; /* their squares and their product */
} Noise;

/* One update's unbiased estimates of tr(Sigma), for single sequences, and |G|^2. piece_sq is the
 * mean of |g_b|^2 over those pieces that were measured. pieces > 1. */
void noise_estimate(double piece_sq, double update_sq, int64_t piece, int64_t pieces, double *trace,
                    double *mean_sq);

/* Takes them into the averages. */
void noise_add(Noise *noise, double trace, double mean_sq);

typedef struct {
    Value scale; /* sequences; missing: no update yet, or the noise hides the gradient */
    Value error; /* one standard error of it, from the spread of updates, taken as independent;
                  * missing as well before the second */
} NoiseScale;

NoiseScale noise_scale(const Noise *noise);

/* The sums as text for a checkpoint, every bit of them; caller frees. False for text that is not
 * such: there are none then. */
char *noise_text(const Noise *noise);
bool noise_take(Noise *noise, const char *text);
