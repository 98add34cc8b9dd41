/* The search for settings that fit: over the real plans of a small model with made-up times of its
 * ops, against every combination counted by itself; and over made-up candidates. */
#include "analyse/fit.h"

#include "base/err.h"
#include "base/mem.h"
#include "config/config.h"
#include "support/says.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEQ 24

static void set(Config *cfg, const char *name, const char *value)
{
    must(config_set(cfg, name, value));
}

/* --- the search over a small model --- */

/* Every op takes its own time, whatever its size: a step is then the sum over the plan's counts. */
static double made_up_seconds(OpId op)
{
    return 1e-6 * (1 + (op * 37) % 11);
}

typedef struct {
    const FitSpace *space;
    Backend *backend;
    size_t room;
    double copy_rate;
    int lessons;
} Small;

#define SMALL_LAYERS 4

static TrainerSetup small_with(int64_t batch, int64_t accum, Keep keep, OffloadKind offload)
{
    TrainerSetup setup = small_setup("llama-22m", batch, accum, SEQ);
    setup.spec.layers = SMALL_LAYERS;
    setup.keep = keep;
    setup.offload = offload;
    return setup;
}

static TrainerSetup small_of(const Small *small, const FitCandidate *c)
{
    int64_t accum = small->space->sequences / c->batch;
    return small_with(c->batch, accum, (Keep)c->value[0], (OffloadKind)c->value[1]);
}

static int plan_small(void *user, FitCandidate *c)
{
    const Small *small = user;
    TrainerSetup setup = small_of(small, c);
    TrainPlan plan;
    trainer_plan(&setup, small->backend, &plan);
    c->bytes = plan.total;
    c->fits = plan.total <= small->room;
    op_uses_find(&c->uses, &setup, small->backend);
    return 0;
}

static int no_copies(void *user, OpTimes *times)
{
    (void)user, (void)times;
    fail_msg("nothing is copied");
    return 0;
}

static int copies_small(void *user, OpTimes *times)
{
    const Small *small = user;
    assert_int_equal(times->count, 0);
    times->copy_rate[COPY_OUT] = times->copy_rate[COPY_IN] = small->copy_rate;
    return 0;
}

static int learn_small(void *user, const FitCandidate *c, OpTimes *times)
{
    Small *small = user;
    assert_true(c->fits);
    assert_true(small->lessons < 64);
    small->lessons++;
    for (int i = 0; i < c->uses.count; i++) {
        OpKind kind = c->uses.items[i].kind;
        op_times_put(times, kind, made_up_seconds(kind.op));
    }
    return 0;
}

typedef struct {
    size_t bytes;
    double seconds;
    int64_t batch;
    Keep keep;
    OffloadKind offload;
    bool copies;
} Truth;

/* Every combination by its own plan, with copies that take no time. */
static int all_truths(const Small *small, Truth *out)
{
    int count = 0, each = (KEEP_INPUTS + 1) * (OFFLOAD_BOTH + 1);
    for (int n = 0; n < small->space->batch_count * each; n++) {
        int64_t batch = small->space->batches[n / each];
        Keep keep = (Keep)(n % (KEEP_INPUTS + 1));
        OffloadKind offload = (OffloadKind)(n % each / (KEEP_INPUTS + 1));
        TrainerSetup setup = small_with(batch, small->space->sequences / batch, keep, offload);
        TrainPlan plan;
        trainer_plan(&setup, small->backend, &plan);
        Truth *t = &out[count++];
        *t = (Truth){plan.total, 0, batch, keep, offload, plan.copied[COPY_OUT] > 0};
        for (int op = 0; op < OP_COUNT; op++) {
            t->seconds += made_up_seconds((OpId)op) * (double)plan.step[op].calls;
        }
    }
    return count;
}

/* In the order of a search. */
static bool is_better(const Truth *a, const Truth *b)
{
    double apart = b == NULL ? -1 : a->seconds / b->seconds - 1;
    return apart < -1e-9 || (apart < 1e-9 && a->bytes < b->bytes);
}

/* The best within the room; one that copies only where none as fast but for FIT_APART does not. */
static const Truth *best_truth(const Truth *truths, int count, size_t room)
{
    const Truth *best = NULL, *plain = NULL;
    for (const Truth *t = truths; t < truths + count; t++) {
        bool fits = t->bytes <= room;
        best = fits && is_better(t, best) ? t : best;
        plain = fits && !t->copies && is_better(t, plain) ? t : plain;
    }
    return plain != NULL && plain->seconds <= best->seconds * (1 + FIT_APART) ? plain : best;
}

static size_t least_bytes(const Truth *truths, int count)
{
    size_t least = SIZE_MAX;
    for (const Truth *t = truths; t < truths + count; t++) {
        least = t->bytes < least ? t->bytes : least;
    }
    return least;
}

/* With room for a combination and no more, or for all but a byte of it; and a byte less than all
 * need. */
static void test_fit__the_fastest_that_fits_whatever_the_memory(void **state)
{
    (void)state;
    Config cfg;
    FitSpace space;
    Truth truths[128];
    config_init(&cfg, COMMAND_TRAIN);
    set(&cfg, "fit", "on");
    set(&cfg, "global-batch", "12");
    must(config_check(&cfg));
    must(fit_space(&cfg, &space));
    assert_int_equal(space.batch_count, 4); /* 1, 2, 4, 12 */
    assert_int_equal(space.batches[3], 12);
    assert_int_equal(space.axis_count, 2);
    Small small = {.space = &space, .backend = ref_backend_open(), .copy_rate = 1e30};
    int count = all_truths(&small, truths), refused = 0, graded = 0, offloaded = 0, plain = 0;
    Keep last = KEEP_NOTHING;
    for (int n = 0; n <= 2 * count; n += 3) {
        small.room =
            n < 2 * count ? truths[n / 2].bytes - (size_t)(n % 2) : least_bytes(truths, count) - 1;
        small.lessons = 0;
        const Truth *best = best_truth(truths, count, small.room);
        FitMachine machine = {plan_small, copies_small, learn_small, &small};
        Fit fit;
        must(fit_search(&space, &machine, &fit));
        assert_int_equal(fit.count, count);
        if (best == NULL) {
            assert_int_equal(fit.best, -1);
            assert_int_equal(small.lessons, 0);
            refused++;
        } else {
            const FitCandidate *c = &fit.items[fit.best];
            assert_int_equal(c->bytes, best->bytes);
            assert_true(fabs(c->time.seconds / best->seconds - 1) < 1e-12);
            assert_int_equal(c->batch, best->batch);
            assert_int_equal(c->value[0], best->keep);
            assert_int_equal(c->value[1], best->offload);
            graded += best->keep != last;
            offloaded += best->copies;
            plain += !best->copies;
            last = best->keep;
        }
        for (const Truth *t = truths; t < truths + count; t++) {
            assert_true(fit.items[fit.smallest].bytes <= t->bytes);
        }
        fit_free(&fit);
    }
    assert_int_equal(refused, 1); /* a byte less than the smallest */
    assert_true(graded > 3);      /* the memory decided */
    assert_true(offloaded > 3 && plain > 1);
    small.backend->close(small.backend);
    config_free(&cfg);
}

/* --- made-up candidates --- */

typedef struct {
    size_t bytes[2], room; /* by the value of the one axis */
    double seconds[2];
    const char *refused; /* the second value */
    int lessons;
} Pair;

static OpKind kind_of(OpId op, double flops, double bytes)
{
    return (OpKind){.op = op, .flops = flops, .bytes = bytes};
}

static int plan_pair(void *user, FitCandidate *c)
{
    const Pair *pair = user;
    int value = c->value[0] != 0;
    c->bytes = pair->bytes[value];
    c->fits = c->bytes <= pair->room;
    op_uses_add(&c->uses, 0, kind_of(OP_SUM, 0, value + 1), 1);
    if (value == 1 && pair->refused != NULL) {
        c->bytes = 0;
        c->fits = false;
        snprintf(c->why, sizeof c->why, "%s", pair->refused);
    }
    return 0;
}

static int learn_pair(void *user, const FitCandidate *c, OpTimes *times)
{
    Pair *pair = user;
    pair->lessons++;
    op_times_put(times, c->uses.items[0].kind, pair->seconds[c->value[0] != 0]);
    return 0;
}

static void search_states(const Pair *given, Fit *fit, int *best)
{
    Config cfg;
    FitSpace space;
    Pair pair = *given;
    config_init(&cfg, COMMAND_TRAIN);
    set(&cfg, "fit", "on");
    set(&cfg, "batch", "3");
    set(&cfg, "recompute", "none");
    set(&cfg, "offload", "none");
    set(&cfg, "fit-also", "state-dtype");
    must(config_check(&cfg));
    assert_true(config_fit_is_open(&cfg));
    must(fit_space(&cfg, &space));
    assert_int_equal(space.axis_count, 1);
    assert_string_equal(space.axes[0].option->name, "state-dtype");
    assert_int_equal(space.batch_count, 1);
    FitMachine machine = {plan_pair, no_copies, learn_pair, &pair};
    must(fit_search(&space, &machine, fit));
    *best = fit->best >= 0 ? fit->items[fit->best].value[0] : -1;
    config_free(&cfg);
}

static void test_fit__what_rounds_otherwise_has_to_pay(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        size_t room;
        const char *refused;
        int best;
    } cases[] = {
        {0.995, 100, NULL, CONFIG_STATE_DTYPE_F32}, /* within FIT_APART */
        {0.98, 100, NULL, CONFIG_STATE_DTYPE_BF16},     {1.5, 100, NULL, CONFIG_STATE_DTYPE_F32},
        {1.5, 60, NULL, CONFIG_STATE_DTYPE_BF16}, /* the only one that fits */
        {0.5, 100, "not here", CONFIG_STATE_DTYPE_F32}, {0.5, 40, NULL, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Pair pair = {.bytes = {100, 60},
                     .room = cases[i].room,
                     .seconds = {1, cases[i].seconds},
                     .refused = cases[i].refused};
        Fit fit;
        int best;
        search_states(&pair, &fit, &best);
        assert_int_equal(best, cases[i].best);
        assert_int_equal(fit.items[fit.smallest].bytes, cases[i].refused != NULL ? 100 : 60);
        if (cases[i].refused != NULL) { /* the last row */
            assert_string_equal(fit.items[1].why, "not here");
        }
        fit_free(&fit);
    }
}

static int learns_nothing(void *user, const FitCandidate *c, OpTimes *times)
{
    (void)c;
    (void)times;
    return ++*(int *)user > 20 ? err_set(ERR_FAILED, "asked for ever") : 0;
}

static int plan_alike(void *user, FitCandidate *c)
{
    (void)user;
    c->bytes = 1;
    c->fits = true;
    op_uses_add(&c->uses, 0, kind_of(OP_SUM, 0, 1), 1);
    return 0;
}

/* What cannot be measured is asked for once; an error ends the search. */
static void test_fit__a_lesson_that_fails(void **state)
{
    (void)state;
    Config cfg;
    FitSpace space;
    Fit fit;
    int asked = 0;
    config_init(&cfg, COMMAND_TRAIN);
    set(&cfg, "fit", "on");
    must(config_check(&cfg));
    must(fit_space(&cfg, &space));
    FitMachine machine = {plan_alike, no_copies, learns_nothing, &asked};
    must(fit_search(&space, &machine, &fit));
    assert_int_equal(asked, 1); /* all batches and grades have the same kind */
    fit_free(&fit);
    asked = 100;
    assert_int_equal(fit_search(&space, &machine, &fit), ERR_FAILED);
    fit_free(&fit);
    config_free(&cfg);
}

/* --- candidates that copy --- */

/* An update of four sequences, one or all at once. All at once takes 4 ms forward, 8 ms backward
 * and 1 ms for the update; one by one an eighth longer in the passes. With activations offloaded,
 * 40 MB go in the forward passes of an update, and come in the backward passes. */
typedef struct {
    size_t room;
    double copy_rate;
} Link;

enum { LINK_FORWARD, LINK_BACKWARD, LINK_UPDATE };

static bool keeps_activations(const FitCandidate *c)
{
    return !offloads_activations((OffloadKind)c->value[0]);
}

static int plan_link(void *user, FitCandidate *c)
{
    const Link *link = user;
    bool whole = c->batch == 4, kept = keeps_activations(c);
    c->bytes = 50 + (size_t)(c->batch * (kept ? 30 : 5));
    c->fits = c->bytes <= link->room;
    if (offloads_optimizer((OffloadKind)c->value[0])) {
        snprintf(c->why, sizeof c->why, "not here");
        c->fits = false;
        return 0;
    }
    for (int micro = 0; micro < (whole ? 1 : 3); micro++) {
        double calls = whole || micro == 1 ? 2 : 1; /* 4 sequences, or 1, 2 and 1 */
        calls *= whole ? 2 : 1;
        double each = whole ? 1 : 1.125, bytes = kept ? 0 : 10e6 * calls;
        int first = micro * STRETCH_PASSES;
        op_uses_add(&c->uses, first, kind_of(OP_SUM, 1e3 * each, 0), calls);
        op_uses_add(&c->uses, first + 2, kind_of(OP_SUM, 2e3 * each, 0), calls);
        c->uses.copied[first][COPY_OUT] = bytes;
        c->uses.copied[first + 2][COPY_IN] = bytes;
    }
    op_uses_add(&c->uses, STRETCH_UPDATE, kind_of(OP_SUM, 1001, 0), 1);
    return 0;
}

static int copies_link(void *user, OpTimes *times)
{
    times->copy_rate[COPY_OUT] = times->copy_rate[COPY_IN] = ((const Link *)user)->copy_rate;
    return 0;
}

static int learn_link(void *user, const FitCandidate *c, OpTimes *times)
{
    (void)user;
    for (int i = 0; i < c->uses.count; i++) {
        double work = c->uses.items[i].kind.flops;
        op_times_put(times, c->uses.items[i].kind, work == 1001 ? 1e-3 : 1e-6 * work);
    }
    return 0;
}

/* 4 + 8 + 1 ms at once, and 4.5 + 9 + 1 ms one by one. A link of 20 GB/s takes 2 ms each way; one
 * of 6.25 GB/s 6.4 ms, of which 2.4 are waited for at once, in the forward pass; one of 4 GB/s
 * 10 ms, of which one by one 5.5 and 1 are waited for. */
static void test_fit__copies_are_weighed_against_smaller_micro_steps(void **state)
{
    (void)state;
    static const struct {
        size_t room;
        double rate;
        int64_t batch;
        OffloadKind offload;
        double seconds, waits;
    } cases[] = {
        {170, 20e9, 4, OFFLOAD_NONE, 13e-3, 0}, /* as fast with offload, which gains nothing */
        {169, 20e9, 4, OFFLOAD_ACTIVATIONS, 13e-3, 0},
        {169, 6.25e9, 1, OFFLOAD_NONE, 14.5e-3, 0},
        {169, 40e6 / 5.45e-3, 1, OFFLOAD_NONE, 14.5e-3, 0}, /* offload is faster by 0.3 % */
        {169, 40e6 / 5.2e-3, 4, OFFLOAD_ACTIVATIONS, 14.2e-3, 1.2e-3}, /* 2 % */
        {79, 6.25e9, 4, OFFLOAD_ACTIVATIONS, 15.4e-3, 2.4e-3},
        {69, 4e9, 1, OFFLOAD_ACTIVATIONS, 21e-3, 6.5e-3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Link link = {cases[i].room, cases[i].rate};
        Config cfg;
        FitSpace space;
        Fit fit;
        config_init(&cfg, COMMAND_TRAIN);
        set(&cfg, "fit", "on");
        set(&cfg, "global-batch", "4");
        set(&cfg, "recompute", "none");
        must(config_check(&cfg));
        must(fit_space(&cfg, &space));
        space.batch_count = 2; /* 1 and 4 */
        space.batches[1] = 4;
        FitMachine machine = {plan_link, copies_link, learn_link, &link};
        must(fit_search(&space, &machine, &fit));
        const FitCandidate *c = &fit.items[fit.best];
        if (c->batch != cases[i].batch || c->value[0] != (int)cases[i].offload ||
            fabs(c->time.seconds - cases[i].seconds) > 1e-9 ||
            fabs(c->time.copies_s - cases[i].waits) > 1e-9) {
            fail_msg("case %zu: batch %lld, offload %d, %.9g s of which %.9g waited", i,
                     (long long)c->batch, c->value[0], c->time.seconds, c->time.copies_s);
        }
        fit_free(&fit);
        config_free(&cfg);
    }
}

/* --- what is searched --- */

static void space_of(const char *const *options, FitSpace *space, int expected)
{
    Config cfg;
    config_init(&cfg, COMMAND_PLAN);
    set(&cfg, "fit", "on");
    for (; options[0] != NULL; options += 2) {
        set(&cfg, options[0], options[1]);
    }
    must(config_check(&cfg));
    assert_int_equal(fit_space(&cfg, space), expected);
    config_free(&cfg);
}

static void test_space__is_what_is_not_given(void **state)
{
    (void)state;
    FitSpace space;
    space_of((const char *[]){"global-batch", "90", "ranks", "3", NULL}, &space, 0);
    static const int64_t batches[] = {1, 2, 5, 10, 30};
    assert_int_equal(space.batch_count, 5);
    assert_memory_equal(space.batches, batches, sizeof batches);
    assert_int_equal(space.axis_count, 2);
    assert_int_equal(space.axes[0].count, KEEP_INPUTS + 1);
    assert_string_equal(space.axes[1].option->name, "offload");
    assert_int_equal(space.axes[1].count, OFFLOAD_BOTH + 1);
    assert_int_equal(space.axes[1].rounds, 0);
    fit_leave_out(&space, "recompute");
    assert_int_equal(space.axis_count, 1);
    assert_string_equal(space.axes[0].option->name, "offload");
    fit_leave_out(&space, "offload");
    fit_leave_out(&space, "offload");
    assert_int_equal(space.axis_count, 0);
    space_of((const char *[]){"fit-also", "offload", "recompute", "none", NULL}, &space, 0);
    assert_int_equal(space.axis_count, 1);
    assert_int_equal(space.axes[0].count, OFFLOAD_ALL + 1); /* the last rounds otherwise */
    assert_int_equal(space.axes[0].rounds, 1u << OFFLOAD_ALL);

    space_of((const char *[]){"model", "llama-22m", "recompute", "act", "offload", "both", NULL},
             &space, 0);
    assert_int_equal(space.axis_count, 0);
    assert_int_equal(space.sequences, config_start("llama-22m")->batch);
    assert_true(space.split);

    space_of((const char *[]){"accum", "4", NULL}, &space, 0);
    assert_false(space.split);
    assert_int_equal(space.batch_count, 1);
    assert_int_equal(space.sequences, 4 * space.batches[0]);

    space_of((const char *[]){"fit-also", "dtype, state-dtype", "offload", "none", NULL}, &space,
             0);
    assert_int_equal(space.axis_count, 3);
    for (int i = 0; i < space.axis_count; i++) {
        const FitAxis *axis = &space.axes[i];
        bool dtype = strcmp(axis->option->name, "dtype") == 0;
        unsigned others = ((1u << axis->count) - 1) << axis->values[0] & ~(1u << axis->plain);
        bool rounds = strcmp(axis->option->name, "recompute") != 0;
        assert_int_equal(axis->rounds, rounds ? others : 0);
        assert_int_equal(axis->values[0], dtype ? CONFIG_DTYPE_F32 : 0); /* not auto */
    }
    space_of((const char *[]){"global-batch", "7", "ranks", "2", NULL}, &space, ERR_INPUT);
    assert_non_null(strstr(err_message(), "not a multiple of --ranks 2"));
}

static void test_settings__are_the_candidate_and_nothing_else(void **state)
{
    (void)state;
    Config cfg, out;
    FitSpace space;
    config_init(&cfg, COMMAND_TRAIN);
    set(&cfg, "fit", "on");
    set(&cfg, "global-batch", "12");
    set(&cfg, "lr", "0.5");
    must(config_check(&cfg));
    must(fit_space(&cfg, &space));
    FitCandidate c = {.value = {KEEP_NO_FFN, OFFLOAD_BOTH}, .batch = 4};
    must(fit_settings(&cfg, &space, &c, &out));
    assert_int_equal(out.batch, 4);
    assert_int_equal(out.accum, 3);
    assert_int_equal(out.recompute, KEEP_NO_FFN);
    assert_int_equal(out.offload, OFFLOAD_BOTH);
    assert_true(out.lr == 0.5 && out.global_batch == 12);
    assert_int_equal(out.state_dtype, cfg.state_dtype);
    assert_true(config_is_set(&out, "batch") && config_is_set(&out, "recompute"));
    assert_false(config_fit_is_open(&out));
    config_free(&out);
    config_free(&cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit__the_fastest_that_fits_whatever_the_memory),
        cmocka_unit_test(test_fit__what_rounds_otherwise_has_to_pay),
        cmocka_unit_test(test_fit__a_lesson_that_fails),
        cmocka_unit_test(test_fit__copies_are_weighed_against_smaller_micro_steps),
        cmocka_unit_test(test_space__is_what_is_not_given),
        cmocka_unit_test(test_settings__are_the_candidate_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
