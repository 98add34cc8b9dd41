/* A token is drawn with probability proportional to its weight exp((logit - greatest) /
 * temperature), by one random number that is compared with running sums of the weights: first
 * with sums over blocks of tokens, then with those in the block it falls into. Without top-k and
 * top-p this takes two passes over the vocabulary and no order. The k likeliest are found with a
 * heap of k, whose root is the least likely of them; where the set ends that reaches p, first by
 * the weight that lies at each distance from the greatest, then by splitting what lies at the
 * distance in question at a pivot and going on with the part where the set ends. Of equal logits
 * the earlier token counts as the likelier. */
#include "model/sample.h"

#include "base/assert.h"
#include "base/rng.h"
#include "model/sample_weights.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Samples have a stream each, far from those of initialisation and shuffling. */
#define SAMPLE_STREAMS 0x73616D706C650000u

#define NO_TOKEN (-1)

#define BLOCK 256     /* tokens that are looked at together */
#define HEAP_BLOCK 64 /* the same, where most blocks have nothing to offer */
#define MOST_SUMS 512

/* What is drawn from. */
typedef struct {
    const float *logits;         /* (count) of all tokens; unused where there are candidates */
    SampleCandidate *candidates; /* (count) what is left of them; NULL: all */
    int64_t count;
    WeightScale scale;
} Pool;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The first of the greatest; NO_TOKEN when none is a number. */
static int32_t likeliest(const float *logits, int64_t vocab)
{
    float greatest = -INFINITY;
    int64_t at = 0;
    for (int64_t first = 0; first < vocab; first += BLOCK) {
        float here = logits_greatest(logits + first, least(BLOCK, vocab - first));
        if (here > greatest) {
            greatest = here;
            at = first;
        }
    }
    while (at < vocab && logits[at] != greatest) {
        at++;
    }
    return at < vocab ? (int32_t)at : NO_TOKEN;
}

/* Weights of [first, first + count), count <= BLOCK. */
static void weigh(const Pool *pool, int64_t first, int64_t count, float *weights)
{
    if (pool->candidates == NULL) {
        weights_of(&pool->scale, pool->logits + first, count, weights);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        weights[i] = pool->candidates[first + i].logit;
    }
    weights_of(&pool->scale, weights, count, weights);
}

/* Of the weights of [first, last). */
static double sum(const Pool *pool, int64_t first, int64_t last)
{
    double total = 0;
    float weights[BLOCK];
    for (; first < last; first += BLOCK) {
        int64_t count = least(BLOCK, last - first);
        weigh(pool, first, count, weights);
        total += weights_sum(weights, count);
    }
    return total;
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

/* The k likeliest tokens, in no order, into candidates; returns how many there are. A later
 * token that is not greater than the root is less likely than all of them. */
static int64_t take_likeliest(const float *logits, int64_t vocab, int64_t k,
                              SampleCandidate *candidates)
{
    int64_t count = 0, i = 0;
    for (; i < vocab && count < k; i++) {
        if (!isnan(logits[i])) {
            candidates[count++] = (SampleCandidate){(int32_t)i, logits[i]};
        }
    }
    make_heap(candidates, count);
    while (i < vocab) {
        int64_t end = least(i + HEAP_BLOCK, vocab);
        if (!(logits_greatest(logits + i, end - i) > candidates[0].logit)) {
            i = end;
        }
        for (; i < end; i++) {
            if (logits[i] > candidates[0].logit) {
                candidates[0] = (SampleCandidate){(int32_t)i, logits[i]};
                sift(candidates, count, 0);
            }
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

/* Brings those of [low, high) that are likelier than one of them, the pivot, to the front and
 * the pivot behind them; returns where it lies. The pivot is the middle one of three. */
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

/* Of the pool, the smallest set of the likeliest whose weights reach `goal`. Where it ends is
 * narrowed down to [low, high): what lies before is in it, with `reached` of the weight, which
 * is too little, and what lies behind is not. */
static void keep_share(Pool *pool, int64_t low, double reached, double goal)
{
    int64_t high = pool->count;
    while (high - low > 1 && reached < goal) {
        int64_t pivot = split(pool->candidates, low, high);
        double above = sum(pool, low, pivot);
        if (reached + above >= goal) {
            high = pivot;
            continue;
        }
        reached += above + sum(pool, pivot, pivot + 1);
        low = pivot + 1;
    }
    pool->count = reached < goal ? high : low;
}

/* The step at which the weights of the pool, of all tokens, reach p of their sum; what is
 * reached before it, and what is to be. */
static int32_t last_step(const Pool *pool, double p, double *reached, double *goal)
{
    double at[WEIGHT_LAST_STEP + 1] = {0}, total = 0;
    float weights[BLOCK];
    int32_t steps[BLOCK];
    for (int64_t first = 0; first < pool->count; first += BLOCK) {
        int64_t count = least(BLOCK, pool->count - first);
        weigh(pool, first, count, weights);
        weight_steps(&pool->scale, pool->logits + first, count, steps);
        for (int64_t i = 0; i < count; i++) {
            at[steps[i]] += weights[i];
        }
        total += weights_sum(weights, count);
    }
    *goal = p * total;
    *reached = 0;
    int32_t step = 0;
    while (step < WEIGHT_LAST_STEP && *reached + at[step] < *goal) {
        *reached += at[step++];
    }
    return step;
}

/* The same set of a pool of all tokens. Those before its last step come to the front of the
 * room, those at it to the end and then behind the others. What is no number may come with them:
 * it has no weight. */
static void take_share(Pool *pool, double p, SampleCandidate *room)
{
    double reached, goal;
    int32_t last = last_step(pool, p, &reached, &goal);
    int64_t before = 0, from = pool->count;
    int32_t steps[BLOCK];
    for (int64_t first = 0; first < pool->count; first += BLOCK) {
        const float *logits = pool->logits + first;
        int64_t count = least(BLOCK, pool->count - first);
        weight_steps(&pool->scale, logits, count, steps);
        for (int64_t i = 0; i < count; i++) { /* written to both places, kept in one at most */
            SampleCandidate one = {(int32_t)(first + i), logits[i]};
            room[before] = one;
            room[from - 1] = one;
            before += steps[i] < last;
            from -= steps[i] == last;
        }
    }
    int64_t there = pool->count - from;
    memmove(room + before, room + from, (size_t)there * sizeof *room);
    pool->candidates = room;
    pool->count = before + there;
    keep_share(pool, before, reached, goal);
}

/* u in [0, 1). */
static int32_t draw(const Pool *pool, double u)
{
    double sums[MOST_SUMS], total = 0;
    int64_t size = (pool->count / (MOST_SUMS * BLOCK) + 1) * BLOCK, parts = 0;
    for (int64_t first = 0; first < pool->count; first += size) {
        sums[parts] = sum(pool, first, least(first + size, pool->count));
        total += sums[parts++];
    }
    double goal = u * total, before = 0, passed = 0;
    int64_t chosen = 0;
    for (int64_t part = 0; part < parts && passed <= goal; part++) {
        if (sums[part] > 0) {
            chosen = part;
            before = passed;
            passed += sums[part];
        }
    }
    int64_t last = least((chosen + 1) * size, pool->count), found = chosen * size;
    float weights[BLOCK];
    for (int64_t first = chosen * size; first < last; first += BLOCK) {
        int64_t count = least(BLOCK, last - first);
        weigh(pool, first, count, weights);
        for (int64_t i = 0; i < count && before <= goal; i++) {
            if (weights[i] > 0) {
                found = first + i;
                before += weights[i];
            }
        }
    }
    return pool->candidates != NULL ? pool->candidates[found].token : (int32_t)found;
}

static bool cuts_at_k(const SampleSettings *settings, int64_t vocab)
{
    return settings->top_k > 0 && settings->top_k < vocab;
}

static bool cuts_at_p(const SampleSettings *settings)
{
    return settings->top_p > 0 && settings->top_p < 1;
}

int64_t sample_room(const SampleSettings *settings, int64_t vocab)
{
    if (settings->temperature == 0) {
        return 0;
    }
    return cuts_at_k(settings, vocab) ? settings->top_k : cuts_at_p(settings) ? vocab : 0;
}

int32_t sample_token(const float *logits, int64_t vocab, const SampleSettings *settings,
                     uint64_t sample, uint64_t place, SampleCandidate *room)
{
    PACER_ASSERT(settings->temperature >= 0 && settings->top_k >= 0 && settings->top_p >= 0,
                 "temperature %g, top-k %lld, top-p %g", settings->temperature,
                 (long long)settings->top_k, settings->top_p);
    int32_t best = likeliest(logits, vocab);
    if (best == NO_TOKEN || settings->temperature == 0) {
        return best;
    }
    Pool pool = {.logits = logits,
                 .count = vocab,
                 .scale = weight_scale(logits[best], settings->temperature)};
    if (cuts_at_k(settings, vocab)) {
        pool.candidates = room;
        pool.count = take_likeliest(logits, vocab, settings->top_k, room);
        if (cuts_at_p(settings)) {
            keep_share(&pool, 0, 0, settings->top_p * sum(&pool, 0, pool.count));
        }
    } else if (cuts_at_p(settings)) {
        take_share(&pool, settings->top_p, room);
    }
    return draw(&pool, rng_uniform(settings->seed, SAMPLE_STREAMS + sample, place));
}
