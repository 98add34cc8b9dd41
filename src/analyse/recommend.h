#pragma once
/* The search for good settings of a training on this machine: which kind of attention, how many
 * sequences at a time, whether to recompute, and, with several ranks, which way of sharing
 * gradients. It measures few short steps and ends when more no longer pays:
 *
 *   1. every kind of attention, at a small batch: the fastest stays;
 *   2. batches, doubled while they fit, are not too slow to try, and are faster than the last by
 *      RECOMMEND_GAIN;
 *   3. grades of recomputation, from the cheapest on, while memory alone ends the doubling.
 *
 * Of settings within RECOMMEND_GAIN of the fastest, or within the spread of what was measured where
 * that is more, the one with the least memory is recommended.
 * The search is separate from the measuring, so that it can be tested without any. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECOMMEND_GAIN 0.02
#define RECOMMEND_BUSY 0.05 /* a spread above it says more of the machine than of the settings */
#define RECOMMEND_MOST 48   /* candidates */
#define RECOMMEND_KINDS 3

typedef enum {
    CANDIDATE_MEASURED,
    CANDIDATE_TOO_LARGE, /* its plan does not fit */
    CANDIDATE_TOO_SLOW,  /* to be tried: a step would take longer than the probe may */
    CANDIDATE_REFUSED    /* not for this shape or machine */
} CandidateState;

typedef struct {
    int attention; /* CONFIG_ATTENTION_* */
    int recompute; /* Keep */
    int64_t batch;
    /* Found by measuring. */
    CandidateState state;
    size_t bytes;           /* planned; 0: not planned */
    double micro_s, last_s; /* a micro-step that is not the last; the last one with the update */
    double spread; /* of its steps: half of what lies between their quartiles, over the median */
    char why[160]; /* not measured: the reason */
} Candidate;

/* Fills what is found by measuring; an error ends the search. */
typedef int (*CandidateMeasure)(void *user, Candidate *candidate);

typedef struct {
    int kinds[RECOMMEND_KINDS], kind_count; /* CONFIG_ATTENTION_* to try; one: it is given */
    bool recompute_given;                   /* recompute stays as it is */
    int recompute;
    int64_t batch;        /* > 0: given, and not searched */
    int64_t largest;      /* sequences of one micro-step, at most */
    int64_t global_batch; /* of one rank, a multiple of the batch; 0: one micro-step per update */
    double slowest_s;     /* a step that would take longer is not tried */
} RecommendLimits;

typedef struct {
    Candidate candidates[RECOMMEND_MOST];
    int count;
    int best; /* -1: nothing fits */
} Recommendation;

int recommend_search(const RecommendLimits *limits, CandidateMeasure measure, void *user,
                     Recommendation *out);

/* The next batch to try behind one: twice it, or the next that divides the global batch (0: there
 * is none); 0: no such batch. */
int64_t recommend_next_batch(int64_t batch, int64_t global_batch);

/* Micro-steps per update, and sequences per second of one rank with them. */
int64_t recommend_accum(const RecommendLimits *limits, const Candidate *candidate);
double recommend_rate(const RecommendLimits *limits, const Candidate *candidate);

double recommend_spread(const Recommendation *recommendation); /* the largest of those measured */
