/* A token is drawn with probability proportional to its weight exp((logit - greatest) / temperature), by one random
 * number that is compared with running sums of the weights. Without top-k and top-p this takes two passes over the
 * vocabulary and no order. The k likeliest are found with a heap of k, whose root is the least likely of them; the
 * set that reaches p by splitting at a pivot and going on with the part where it ends. Of equal logits the earlier
 * token counts as the likelier. */
#include "model/sample.h"

#include "base/assert.h"
#include "base/rng.h"

#include <math.h>
#include <stdbool.h>

/* Samples have a stream each, far from those of initialisation and shuffling. */
#define SAMPLE_STREAMS 0x73616D706C650000u

#define NO_TOKEN (-1)

/* The first of the greatest; NO_TOKEN when none is a number. */
static int32_t likeliest(const float *logits, int64_t vocab)
{
    int64_t best = 0;
    while (best < vocab && isnan(logits[best])) {
        best++;
    }
    if (best == vocab) {
        return NO_TOKEN;
    }
    float greatest = logits[best];
    for (int64_t i = best + 1; i < vocab; i++) {
        if (logits[i] > greatest) {
            greatest = logits[i];
            best = i;
        }
    }
    return (int32_t)best;
}

/* 1 for the greatest, also where that is infinite. In single precision: it is made for every token of the
 * vocabulary, and on a GPU would else take longer than the model. */
static float weight(float logit, float greatest, double temperature)
{
    return logit == greatest ? 1 : expf((float)((logit - greatest) / temperature));
}

static bool likelier(SampleCandidate a, SampleCandidate b)
{
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

/* Restores a heap of `count` below `at`; its root is the least likely. */
static void sift(SampleCandidate *heap, int64_t count, int64_t at)
{
    SampleCandidate moved = heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) {
            break;
        }
        if (child + 1 < count && likelier(heap[child], heap[child + 1])) {
            child++;
        }
        if (likelier(heap[child], moved)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void make_heap(SampleCandidate *heap, int64_t count)
{
    for (int64_t at = count / 2 - 1; at >= 0; at--) {
        sift(heap, count, at);
    }
}

/* The `most` likeliest tokens, in no order, into candidates; returns how many there are. */
static int64_t take_likeliest(const float *logits, int64_t vocab, int64_t most,
                              SampleCandidate *candidates)
{
    int64_t count = 0;
    for (int64_t i = 0; i < vocab; i++) {
        SampleCandidate one = {(int32_t)i, logits[i]};
        if (isnan(one.logit)) {
            continue;
        }
        if (count < most) {
            candidates[count++] = one;
            if (count == most && most < vocab) {
                make_heap(candidates, count);
            }
        } else if (likelier(one, candidates[0])) {
            candidates[0] = one;
            sift(candidates, count, 0);
        }
    }
    return count;
}

static void swap(SampleCandidate *a, SampleCandidate *b)
{
    SampleCandidate kept = *a;
    *a = *b;
    *b = kept;
}

/* Brings those of [low, high) that are likelier than one of them, the pivot, to the front and the pivot behind
 * them; returns where it lies. The pivot is the middle one of three. */
static int64_t split(SampleCandidate *candidates, int64_t low, int64_t high)
{
    SampleCandidate *first = candidates + low, *middle = candidates + low + (high - low) / 2;
    SampleCandidate *last = candidates + high - 1;
    if (likelier(*middle, *first)) {
        swap(middle, first);
    }
    if (likelier(*last, *first)) {
        swap(last, first);
    }
    if (likelier(*middle, *last)) {
        swap(middle, last);
    }
    int64_t at = low;
    for (int64_t i = low; i < high - 1; i++) {
        if (likelier(candidates[i], *last)) {
            swap(&candidates[i], &candidates[at++]);
        }
    }
    swap(&candidates[at], last);
    return at;
}

/* Brings the smallest set of the likeliest whose weights reach p of all to the front; returns its size. Where the
 * set ends is narrowed down to [low, high): what lies before is in it, with `reached` of the weight, which is too
 * little, and what lies behind is not. */
static int64_t keep_share(SampleCandidate *candidates, int64_t count, float greatest,
                          const SampleSettings *settings)
{
    double total = 0, reached = 0;
    for (int64_t i = 0; i < count; i++) {
        total += weight(candidates[i].logit, greatest, settings->temperature);
    }
    double goal = settings->top_p * total;
    int64_t low = 0, high = count;
    while (high - low > 1) {
        int64_t pivot = split(candidates, low, high);
        double above = 0;
        for (int64_t i = low; i < pivot; i++) {
            above += weight(candidates[i].logit, greatest, settings->temperature);
        }
        if (reached + above >= goal) {
            high = pivot;
            continue;
        }
        reached += above + weight(candidates[pivot].logit, greatest, settings->temperature);
        low = pivot + 1;
        if (reached >= goal) {
            return low;
        }
    }
    return high;
}

/* A token with probability proportional to its weight, which replaces the logit; u in [0, 1). */
static int32_t draw(SampleCandidate *candidates, int64_t count, float greatest, double temperature,
                    double u)
{
    double total = 0, passed = 0;
    for (int64_t i = 0; i < count; i++) {
        candidates[i].logit = weight(candidates[i].logit, greatest, temperature);
        total += candidates[i].logit;
    }
    int32_t last = NO_TOKEN;
    for (int64_t i = 0; i < count; i++) {
        if (candidates[i].logit > 0) {
            last = candidates[i].token;
            passed += candidates[i].logit;
            if (passed > u * total) {
                break;
            }
        }
    }
    return last;
}

int32_t sample_token(const float *logits, int64_t vocab, const SampleSettings *settings,
                     uint64_t sample, uint64_t place, SampleCandidate *candidates)
{
    PACER_ASSERT(settings->temperature >= 0 && settings->top_k >= 0 && settings->top_p >= 0,
                 "temperature %g, top-k %lld, top-p %g", settings->temperature,
                 (long long)settings->top_k, settings->top_p);
    int32_t best = likeliest(logits, vocab);
    if (best == NO_TOKEN || settings->temperature == 0) {
        return best;
    }
    float greatest = logits[best];
    bool narrowed = settings->top_k > 0 && settings->top_k < vocab;
    int64_t count = take_likeliest(logits, vocab, narrowed ? settings->top_k : vocab, candidates);
    if (settings->top_p > 0 && settings->top_p < 1) {
        count = keep_share(candidates, count, greatest, settings);
    }
    double u = rng_uniform(settings->seed, SAMPLE_STREAMS + sample, place);
    return draw(candidates, count, greatest, settings->temperature, u);
}
