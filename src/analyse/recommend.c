#include "analyse/recommend.h"

#include "base/assert.h"
#include "config/config.h"

#include <math.h>

#define FIRST_BATCH 4  /* at which kinds of attention are compared */
#define MOST_APART 0.1 /* what is slower by this is not taken, however busy the machine is */

int64_t recommend_accum(const RecommendLimits *limits, const Candidate *candidate)
{
    return limits->global_batch > 0 ? limits->global_batch / candidate->batch : 1;
}

double recommend_rate(const RecommendLimits *limits, const Candidate *candidate)
{
    if (candidate->state != CANDIDATE_MEASURED) {
        return 0;
    }
    double accum = (double)recommend_accum(limits, candidate);
    double seconds = (accum - 1) * candidate->micro_s + candidate->last_s;
    return accum * (double)candidate->batch / seconds;
}

typedef struct {
    RecommendLimits limits;
    CandidateMeasure measure;
    void *user;
    Recommendation *found;
} Search;

/* *out is what came of these settings, now or when they were tried before; NULL when there is no
 * room for more. */
static int try(const Search *search, Candidate candidate, Candidate **out)
{
    Recommendation *r = search->found;
    for (Candidate *c = r->candidates; c < r->candidates + r->count; c++) {
        if (c->attention == candidate.attention && c->recompute == candidate.recompute &&
            c->batch == candidate.batch) {
            *out = c;
            return 0;
        }
    }
    *out = r->count < RECOMMEND_MOST ? &r->candidates[r->count++] : NULL;
    if (*out == NULL) {
        return 0;
    }
    **out = candidate;
    int code = search->measure(search->user, *out);
    PACER_ASSERT(code != 0 || (*out)->state != CANDIDATE_MEASURED || (*out)->last_s > 0,
                 "a step of batch %lld that took no time", (long long)candidate.batch);
    return code;
}

int64_t recommend_next_batch(int64_t batch, int64_t global_batch)
{
    int64_t next = 2 * batch;
    while (global_batch > 0 && next <= global_batch && global_batch % next != 0) {
        next++;
    }
    return global_batch == 0 || next <= global_batch ? next : 0;
}

static int64_t next_batch(const RecommendLimits *limits, int64_t batch)
{
    int64_t next = recommend_next_batch(batch, limits->global_batch);
    return next <= limits->largest ? next : 0;
}

static int64_t first_batch(const RecommendLimits *limits)
{
    if (limits->batch > 0) {
        return limits->batch;
    }
    int64_t batch = limits->largest < FIRST_BATCH ? limits->largest : FIRST_BATCH;
    while (limits->global_batch > 0 && limits->global_batch % batch != 0) {
        batch--;
    }
    return batch;
}

/* Step 1: the fastest kind, at the largest batch up to `batch` that any of them can do. NULL:
 * none can do even 1. */
static int compare_kinds(const Search *search, int64_t batch, Candidate **best)
{
    const RecommendLimits *limits = &search->limits;
    *best = NULL;
    for (; *best == NULL && batch > 0; batch = limits->batch > 0 ? 0 : batch / 2) {
        for (int i = 0; i < limits->kind_count; i++) {
            Candidate *c, like = {.attention = limits->kinds[i],
                                  .recompute = limits->recompute,
                                  .batch = batch};
            int code = try(search, like, &c);
            if (code != 0) {
                return code;
            }
            bool faster = *best == NULL ||
                          (c != NULL && recommend_rate(limits, c) > recommend_rate(limits, *best));
            if (c != NULL && c->state == CANDIDATE_MEASURED && faster) {
                *best = c;
            }
        }
    }
    return 0;
}

/* Step 2, from a measured candidate on. *ended says what ended it. */
static int grow_batch(const Search *search, const Candidate *from, CandidateState *ended)
{
    const RecommendLimits *limits = &search->limits;
    const Candidate *last = from;
    *ended = CANDIDATE_MEASURED;
    for (int64_t batch = from->batch; (batch = next_batch(limits, batch)) > 0;) {
        double step_s = last->last_s * (double)batch / (double)last->batch;
        Candidate *c,
            like = {.attention = from->attention, .recompute = from->recompute, .batch = batch};
        if (step_s > limits->slowest_s) {
            *ended = CANDIDATE_TOO_SLOW;
            return 0;
        }
        int code = try(search, like, &c);
        if (code != 0 || c == NULL) {
            return code;
        }
        if (c->state != CANDIDATE_MEASURED) {
            *ended = c->state;
            return 0;
        }
        double gain = recommend_rate(limits, c) / recommend_rate(limits, last) - 1;
        if (gain < RECOMMEND_GAIN) {
            return 0;
        }
        last = c;
    }
    return 0;
}

double recommend_spread(const Recommendation *r)
{
    double most = 0;
    for (int i = 0; i < r->count; i++) {
        most = r->candidates[i].state == CANDIDATE_MEASURED ? fmax(most, r->candidates[i].spread)
                                                            : most;
    }
    return most;
}

static void choose(const RecommendLimits *limits, Recommendation *r)
{
    double fastest = 0, apart = fmin(fmax(recommend_spread(r), RECOMMEND_GAIN), MOST_APART);
    for (int i = 0; i < r->count; i++) {
        fastest = fmax(fastest, recommend_rate(limits, &r->candidates[i]));
    }
    r->best = -1;
    for (int i = 0; i < r->count; i++) {
        const Candidate *c = &r->candidates[i];
        bool near =
            c->state == CANDIDATE_MEASURED && recommend_rate(limits, c) >= fastest * (1 - apart);
        if (near && (r->best < 0 || c->bytes < r->candidates[r->best].bytes)) {
            r->best = i;
        }
    }
}

/* Step 3: the grades of recomputation from the cheapest on, each from where memory ended the one
 * before, until something else ends them. base: the best without; NULL: nothing fitted. */
static int try_grades(Search *search, Candidate *base, CandidateState ended)
{
    RecommendLimits *own = &search->limits;
    const Recommendation *r = search->found;
    int code = 0;
    if (base != NULL) { /* the kind is known */
        own->kinds[0] = base->attention;
        own->kind_count = 1;
    }
    while (code == 0 && ended == CANDIDATE_TOO_LARGE && own->recompute < KEEP_INPUTS) {
        own->recompute++;
        Candidate *next = NULL;
        if (base != NULL) {
            Candidate like = {.attention = base->attention,
                              .recompute = own->recompute,
                              .batch = r->candidates[r->count - 1].batch};
            code = try(search, like, &next);
            next = next != NULL && next->state == CANDIDATE_MEASURED ? next : NULL;
        } else {
            code = compare_kinds(search, own->batch > 0 ? own->batch : 1, &next);
            base = next;
        }
        if (code == 0 && next != NULL) {
            ended = CANDIDATE_MEASURED;
            code = own->batch == 0 ? grow_batch(search, next, &ended) : 0;
        }
    }
    return code;
}

int recommend_search(const RecommendLimits *limits, CandidateMeasure measure, void *user,
                     Recommendation *out)
{
    *out = (Recommendation){.best = -1};
    Candidate *base;
    Search search = {*limits, measure, user, out};
    int code = compare_kinds(&search, first_batch(limits), &base);
    CandidateState ended = base != NULL ? CANDIDATE_MEASURED : CANDIDATE_TOO_LARGE;
    if (code == 0 && base != NULL && limits->batch == 0) {
        code = grow_batch(&search, base, &ended);
    }
    if (code == 0 && !limits->recompute_given) {
        code = try_grades(&search, base, ended);
    }
    choose(limits, out);
    return code;
}
