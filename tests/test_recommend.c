/* The search for settings, over a made-up machine whose best settings are known. */
#include "analyse/recommend.h"

#include "base/err.h"
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* A micro-step takes fixed_s + batch x per_sequence_s, by kind; memory grows with the batch, less
 * with every grade of recomputation, each of which costs more time. */
typedef struct {
    double fixed_s, per_sequence_s[4], update_s; /* by CONFIG_ATTENTION_* */
    double spread;
    size_t base_bytes, sequence_bytes, memory;
    int calls;
} Machine;

static const double memory_of[] = {1, 0.95, 0.9, 0.45, 0.3, 0.25};
static const double time_of[] = {1, 1.01, 1.02, 1.1, 1.25, 4.0 / 3};

static int measure(void *user, Candidate *c)
{
    Machine *m = user;
    m->calls++;
    c->bytes = m->base_bytes +
               (size_t)((double)c->batch * (double)m->sequence_bytes * memory_of[c->recompute]);
    if (m->per_sequence_s[c->attention] == 0) {
        c->state = CANDIDATE_REFUSED;
        c->bytes = 0;
    } else if (c->bytes > m->memory) {
        c->state = CANDIDATE_TOO_LARGE;
    } else {
        c->state = CANDIDATE_MEASURED;
        c->micro_s = (m->fixed_s + (double)c->batch * m->per_sequence_s[c->attention]) *
                     time_of[c->recompute];
        c->last_s = c->micro_s + m->update_s;
        c->spread = m->spread;
    }
    return 0;
}

static RecommendLimits all_kinds(void)
{
    return (RecommendLimits){
        .kinds = {CONFIG_ATTENTION_FLASH, CONFIG_ATTENTION_LIBRARY, CONFIG_ATTENTION_NAIVE},
        .kind_count = 3,
        .largest = 1000000,
        .slowest_s = 1e9};
}

static Machine machine(void)
{
    return (Machine){.fixed_s = 0.01,
                     .per_sequence_s = {[CONFIG_ATTENTION_FLASH] = 0.001,
                                        [CONFIG_ATTENTION_LIBRARY] = 0.0008,
                                        [CONFIG_ATTENTION_NAIVE] = 0.002},
                     .base_bytes = 1000,
                     .sequence_bytes = 100,
                     .memory = (size_t)1 << 40};
}

static void test_recommend__fastest_kind_and_the_batch_behind_which_little_is_gained(void **state)
{
    (void)state;
    Machine m = machine();
    RecommendLimits limits = all_kinds();
    Recommendation r;
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    const Candidate *best = &r.candidates[r.best];
    assert_int_equal(best->attention, CONFIG_ATTENTION_LIBRARY);
    assert_int_equal(best->recompute, KEEP_ALL);
    /* Rate of batch b is b / (0.01 + 0.0008 b): from 512 to 1024 it gains 1.2 %, and 512 is
     * within 2 % of it. */
    assert_int_equal(best->batch, 512);
    assert_int_equal(m.calls, r.count);
    assert_true(r.count <= 12);
}

/* Of 1024 batches, 512 has 98.8 % of the rate, 256 96.5 %, 128 92.2 %, 64 84.7 %. */
static void test_recommend__what_the_spread_hides_is_not_told_apart(void **state)
{
    (void)state;
    static const struct {
        double spread;
        int64_t batch;
    } cases[] = {{0.01, 512}, {0.05, 256}, {0.08, 128}, {0.5, 128}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Machine m = machine();
        m.spread = cases[i].spread;
        RecommendLimits limits = all_kinds();
        Recommendation r;
        assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
        assert_int_equal(r.candidates[r.best].batch, cases[i].batch);
        assert_true(recommend_spread(&r) == cases[i].spread);
    }
}

static void test_recommend__a_kind_that_is_refused_is_a_row_and_not_taken(void **state)
{
    (void)state;
    Machine m = machine();
    m.per_sequence_s[CONFIG_ATTENTION_LIBRARY] = 0;
    RecommendLimits limits = all_kinds();
    Recommendation r;
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    assert_int_equal(r.candidates[r.best].attention, CONFIG_ATTENTION_FLASH);
    assert_int_equal(r.candidates[1].state, CANDIDATE_REFUSED);
}

static void test_recommend__memory_ends_the_growth_and_recomputing_is_tried(void **state)
{
    (void)state;
    Machine m = machine();
    RecommendLimits limits = all_kinds();
    Recommendation r;
    m.memory = 1000 + 20 * 100; /* 16 fit; from the grade ffn on 32, from attention on 64 */
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    /* 16 at 0.0228 s is 702 a second, 32 at 1.1 x 0.0356 s 817, 64 at 1.25 x 0.0612 s 837. */
    assert_int_equal(r.candidates[r.best].batch, 64);
    assert_int_equal(r.candidates[r.best].recompute, KEEP_NO_MIXERS);
    m.memory = 1000 + 15 * 100; /* 8 fit, from ffn on 32, and 64 with none */
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    assert_int_equal(r.candidates[r.best].batch, 32);
    assert_int_equal(r.candidates[r.best].recompute, KEEP_NO_FFN);
    limits.batch = 32; /* given: the cheapest grade that fits */
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    assert_int_equal(r.candidates[r.best].recompute, KEEP_NO_FFN);
    limits.batch = 0;
    m.memory = 1000 + 20 * 100;
    limits.recompute_given = true;
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    assert_int_equal(r.candidates[r.best].batch, 16);
    m.memory = 1000 + 27; /* one sequence, of which only the input is kept */
    limits.recompute_given = false;
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    assert_int_equal(r.candidates[r.best].batch, 1);
    assert_int_equal(r.candidates[r.best].recompute, KEEP_INPUTS);
    m.memory = 1000;
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    assert_int_equal(r.best, -1);
}

static void test_recommend__batches_divide_the_global_batch(void **state)
{
    (void)state;
    Machine m = machine();
    RecommendLimits limits = all_kinds();
    Recommendation r;
    limits.global_batch = limits.largest = 90;
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    for (int i = 0; i < r.count; i++) {
        assert_int_equal(90 % r.candidates[i].batch, 0);
    }
    const Candidate *best = &r.candidates[r.best];
    assert_int_equal(best->batch, 90);
    assert_int_equal(recommend_accum(&limits, best), 1);
    assert_int_equal(recommend_accum(&limits, &r.candidates[0]), 30);
    /* 30 micro-steps of 3 and an update that takes as long as all of them halve the rate of
     * sequences. */
    Candidate c = {.batch = 3, .state = CANDIDATE_MEASURED, .micro_s = 0.01, .last_s = 0.31};
    assert_true(recommend_rate(&limits, &c) > 149.9 && recommend_rate(&limits, &c) < 150.1);
}

static void test_recommend__given_settings_stay(void **state)
{
    (void)state;
    Machine m = machine();
    RecommendLimits limits = all_kinds();
    Recommendation r;
    limits.batch = 7;
    limits.kinds[0] = CONFIG_ATTENTION_NAIVE;
    limits.kind_count = 1;
    limits.recompute_given = true;
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.candidates[0].batch, 7);
    assert_int_equal(r.candidates[0].attention, CONFIG_ATTENTION_NAIVE);
}

static void test_recommend__steps_that_take_too_long_are_not_tried(void **state)
{
    (void)state;
    Machine m = machine();
    RecommendLimits limits = all_kinds();
    Recommendation r;
    limits.slowest_s = 0.05; /* 32 sequences take 0.0356 s, 64 by that twice as long */
    assert_int_equal(recommend_search(&limits, measure, &m, &r), 0);
    assert_int_equal(r.candidates[r.best].batch, 32);
}

static int fails(void *user, Candidate *c)
{
    (void)user;
    (void)c;
    return err_set(ERR_FAILED, "broken");
}

static void test_recommend__an_error_ends_the_search(void **state)
{
    (void)state;
    RecommendLimits limits = all_kinds();
    Recommendation r;
    assert_int_equal(recommend_search(&limits, fails, NULL, &r), ERR_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recommend__fastest_kind_and_the_batch_behind_which_little_is_gained),
        cmocka_unit_test(test_recommend__what_the_spread_hides_is_not_told_apart),
        cmocka_unit_test(test_recommend__a_kind_that_is_refused_is_a_row_and_not_taken),
        cmocka_unit_test(test_recommend__memory_ends_the_growth_and_recomputing_is_tried),
        cmocka_unit_test(test_recommend__batches_divide_the_global_batch),
        cmocka_unit_test(test_recommend__given_settings_stay),
        cmocka_unit_test(test_recommend__steps_that_take_too_long_are_not_tried),
        cmocka_unit_test(test_recommend__an_error_ends_the_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
