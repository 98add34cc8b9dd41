#include "train/noise.h"

#include "base/assert.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void noise_estimate(double piece_sq, double update_sq, int64_t piece, int64_t pieces, double *trace,
                    double *mean_sq)
{
    PACER_ASSERT(pieces > 1 && piece > 0, "%lld pieces of %lld", (long long)pieces,
                 (long long)piece);
    double n = (double)pieces;
    *mean_sq = (n * update_sq - piece_sq) / (n - 1);
    *trace = (double)piece * n * (piece_sq - update_sq) / (n - 1);
}

void noise_add(Noise *noise, double trace, double mean_sq)
{
    const double keep = NOISE_MEMORY;
    noise->weight = keep * noise->weight + 1;
    noise->weight_sq = keep * keep * noise->weight_sq + 1;
    noise->trace = keep * noise->trace + trace;
    noise->mean_sq = keep * noise->mean_sq + mean_sq;
    noise->trace_2 = keep * noise->trace_2 + trace * trace;
    noise->mean_sq_2 = keep * noise->mean_sq_2 + mean_sq * mean_sq;
    noise->both = keep * noise->both + trace * mean_sq;
}

NoiseScale noise_scale(const Noise *noise)
{
    NoiseScale result = {0};
    double w = noise->weight;
    if (!(w > 0)) {
        return result;
    }
    double trace = noise->trace / w, mean_sq = noise->mean_sq / w;
    double ratio = trace / mean_sq;
    if (!(mean_sq > 0) || !(trace > 0) || !isfinite(ratio)) {
        return result;
    }
    result.scale = value_of(ratio);
    /* The ratio's deviation, to first order: that of trace - ratio x mean_sq over |G|^2. The share
     * of the weights that one update has on average corrects for a mean that was taken from the
     * same updates. */
    double share = noise->weight_sq / (w * w);
    double variance = noise->trace_2 / w - trace * trace -
                      2 * ratio * (noise->both / w - trace * mean_sq) +
                      ratio * ratio * (noise->mean_sq_2 / w - mean_sq * mean_sq);
    if (share < 1) {
        double error = sqrt(fmax(variance, 0) * share / (1 - share)) / mean_sq;
        result.error = (Value){isfinite(error), error};
    }
    return result;
}

#define COUNT (sizeof(Noise) / sizeof(double))
_Static_assert(sizeof(Noise) == 7 * sizeof(double), "a Noise is seven numbers");

/* 16 digits for each number: its bits. */
char *noise_text(const Noise *noise)
{
    uint64_t bits[COUNT];
    memcpy(bits, noise, sizeof bits);
    char *text = mem_alloc(16 * COUNT + 1);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(text + 16 * i, 17, "%016" PRIx64, bits[i]);
    }
    return text;
}

bool noise_take(Noise *noise, const char *text)
{
    bool good = strlen(text) == 16 * COUNT && strspn(text, "0123456789abcdef") == 16 * COUNT;
    uint64_t bits[COUNT] = {0};
    for (size_t i = 0; i < COUNT && good; i++) {
        char digits[17] = {0};
        memcpy(digits, text + 16 * i, 16);
        bits[i] = strtoull(digits, NULL, 16);
    }
    memcpy(noise, bits, sizeof bits);
    return good;
}
