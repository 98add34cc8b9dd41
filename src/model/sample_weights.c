#include "model/sample_weights.h"

#include <math.h>
#include <string.h>

/* Four registers of the narrowest machine, enough to hide the time that a sum takes. */
#define LANES 16

#define LN2 0.69314718055994530942

/* 1.5 * 2^23 + 127: added to a number n from -127 to 0 it leaves n rounded to a whole one, plus
 * 127, in the low bits, which shifted up are 2^n, and 0 for -127. */
#define ROUNDER 12583039.0f

float logits_greatest(const float *logits, int64_t count)
{
    float lane[LANES];
    for (int l = 0; l < LANES; l++) {
        lane[l] = -INFINITY;
    }
    int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            lane[l] = logits[i + l] > lane[l] ? logits[i + l] : lane[l];
        }
    }
    for (int64_t i = whole; i < count; i++) {
        lane[0] = logits[i] > lane[0] ? logits[i] : lane[0];
    }
    float greatest = lane[0];
    for (int l = 1; l < LANES; l++) {
        greatest = lane[l] > greatest ? lane[l] : greatest;
    }
    return greatest;
}

WeightScale weight_scale(float greatest, double temperature)
{
    double octave = fmin(fmax(temperature, 1e-30), 1e30) * LN2;
    /* Of 24 bits the upper 16: their product with a whole number of up to 7 bits is exact. */
    float high = (float)octave;
    uint32_t bits;
    memcpy(&bits, &high, sizeof bits);
    bits &= 0xFFFFFF00u;
    memcpy(&high, &bits, sizeof high);
    return (WeightScale){.greatest = greatest,
                         .octaves = (float)(1 / octave),
                         .octave_high = high,
                         .octave_low = (float)(octave - high),
                         .lowest = (float)(-127 * octave)};
}

/* count: a multiple of LANES. The difference is a whole number of octaves and a rest of half a
 * one at most, whose power of 2 is a polynomial, fitted for the least relative error (1e-7).
 * What is no number takes the second way of the comparison. */
static void weigh(WeightScale s, const float *logits, int64_t count, float *weights)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float x = logits[i] - s.greatest;
        x = x > s.lowest ? x : s.lowest;
        float biased = x * s.octaves + ROUNDER;
        float n = biased - ROUNDER;
        float rest = ((x - n * s.octave_high) - n * s.octave_low) * s.octaves;
        float power = 1.326472731e-3f;
        power = power * rest + 9.671512991e-3f;
        power = power * rest + 5.550733581e-2f;
        power = power * rest + 2.402224243e-1f;
        power = power * rest + 6.931470037e-1f;
        power = power * rest + 1;
        uint32_t bits;
        memcpy(&bits, &biased, sizeof bits);
        bits <<= 23;
        float whole;
        memcpy(&whole, &bits, sizeof whole);
        weights[i] = power * whole;
    }
}

void weights_of(const WeightScale *scale, const float *logits, int64_t count, float *weights)
{
    if (isinf(scale->greatest)) { /* whose distance to others says nothing */
        for (int64_t i = 0; i < count; i++) {
            weights[i] = logits[i] == scale->greatest;
        }
        return;
    }
    int64_t rest = count % LANES, whole = count - rest;
    weigh(*scale, logits, whole, weights);
    if (rest > 0) {
        float last[LANES] = {0};
        memcpy(last, logits + whole, (size_t)rest * sizeof *last);
        weigh(*scale, last, LANES, last);
        memcpy(weights + whole, last, (size_t)rest * sizeof *last);
    }
}

float weights_sum(const float *weights, int64_t count)
{
    float lane[LANES] = {0};
    int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            lane[l] += weights[i + l];
        }
    }
    for (int64_t i = whole; i < count; i++) {
        lane[i - whole] += weights[i];
    }
    float sum = 0;
    for (int l = 0; l < LANES; l++) {
        sum += lane[l];
    }
    return sum;
}

void weight_steps(const WeightScale *scale, const float *logits, int64_t count, int32_t *steps)
{
    float greatest = scale->greatest, per_unit = WEIGHT_STEPS * scale->octaves;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float below = (greatest - logits[i]) * per_unit;
        below = below > 0 ? below : 0; /* also where infinity is taken from infinity */
        below = below < WEIGHT_LAST_STEP ? below : WEIGHT_LAST_STEP;
        steps[i] = (int32_t)below;
    }
}
