/* The search for settings that fit: over the real plans of a small model with made-up times of its
 * ops, against every combination counted by itself; and over made-up candidates. */
#include "analyse/fit.h"

#include "base/err.h"
#include "base/mem.h"
#include "config/config.h"
#include "cpu/cpu.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEQ 24

static void must(int code)
{
    if (code != 0) {
        fail_msg("%s", err_message());
    }
}

static void set(Config *cfg, const char *name, const char *value)
{
    must(config_set(cfg, name, value));
}

/* --- what a dry run tells is what the plan counts --- */

static void add_stat(void *user, const TraceCall *call, bool back, int64_t times)
{
    OpStat *stats = user;
    (void)back;
    stats[call->op].calls += times;
    stats[call->op].flops += (double)times * call->flops;
    stats[call->op].bytes += (double)times * call->bytes;
}

static void told_as_planned(const char *preset, int64_t accum, Keep keep)
{
    TrainerSetup setup = small_setup(preset, 17, accum, 40);
    Backend *backend = cpu_backend_open(1);
    OpStat told[OP_COUNT] = {0};
    TrainPlan plan;
    backend->head_bytes = 1; /* six chunks of the head */
    setup.keep = keep;
    trainer_plan(&setup, backend, &plan);
    trainer_calls(&setup, backend, add_stat, told);
    for (int op = 0; op < OP_COUNT; op++) {
        assert_int_equal(told[op].calls, plan.step[op].calls);
        assert_true(told[op].flops == plan.step[op].flops);
        assert_true(told[op].bytes == plan.step[op].bytes);
    }
    backend->close(backend);
}

static void test_calls__are_those_of_the_plan(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 5; accum++) {
        told_as_planned("llama-22m", accum, KEEP_ALL);
        told_as_planned("gpt2-124m", accum, KEEP_NO_FFN);
        told_as_planned("ttt-125m", accum, KEEP_INPUTS);
    }
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
    int lessons;
} Small;

static TrainerSetup small_of(const Small *small, const FitCandidate *c)
{
    TrainerSetup setup =
        small_setup("llama-22m", c->batch, small->space->sequences / c->batch, SEQ);
    for (int i = 0; i < small->space->axis_count; i++) {
        if (strcmp(small->space->axes[i].option->name, "recompute") == 0) {
            setup.keep = (Keep)c->value[i];
        }
    }
    return setup;
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
} Truth;

/* Every combination by its own plan. */
static int all_truths(const Small *small, Truth *out)
{
    int count = 0;
    for (int b = 0; b < small->space->batch_count; b++) {
        for (int keep = KEEP_ALL; keep <= KEEP_INPUTS; keep++) {
            int64_t batch = small->space->batches[b];
            TrainerSetup setup =
                small_setup("llama-22m", batch, small->space->sequences / batch, SEQ);
            TrainPlan plan;
            setup.keep = (Keep)keep;
            trainer_plan(&setup, small->backend, &plan);
            Truth *t = &out[count++];
            *t = (Truth){plan.total, 0, batch, (Keep)keep};
            for (int op = 0; op < OP_COUNT; op++) {
                t->seconds += made_up_seconds((OpId)op) * (double)plan.step[op].calls;
            }
        }
    }
    return count;
}

/* With room for each combination and no more, and for all but a byte of it. */
static void test_fit__the_fastest_that_fits_whatever_the_memory(void **state)
{
    (void)state;
    Config cfg;
    FitSpace space;
    Truth truths[64];
    config_init(&cfg, COMMAND_TRAIN);
    set(&cfg, "fit", "on");
    set(&cfg, "global-batch", "12");
    must(config_check(&cfg));
    must(fit_space(&cfg, &space));
    assert_int_equal(space.batch_count, 4); /* 1, 2, 4, 12 */
    assert_int_equal(space.batches[3], 12);
    assert_int_equal(space.axis_count, 1);
    Small small = {.space = &space, .backend = cpu_backend_open(1)};
    int count = all_truths(&small, truths), refused = 0, different = 0;
    Keep last = KEEP_NOTHING;
    for (int n = 0; n < 2 * count; n++) {
        small.room = truths[n / 2].bytes - (size_t)(n % 2);
        small.lessons = 0;
        const Truth *best = NULL;
        for (const Truth *t = truths; t < truths + count; t++) {
            bool better = best == NULL || t->seconds < best->seconds ||
                          (t->seconds == best->seconds && t->bytes < best->bytes);
            best = t->bytes <= small.room && better ? t : best;
        }
        FitMachine machine = {plan_small, learn_small, &small};
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
            different += best->keep != last;
            last = best->keep;
        }
        for (const Truth *t = truths; t < truths + count; t++) {
            assert_true(fit.items[fit.smallest].bytes <= t->bytes);
        }
        fit_free(&fit);
    }
    assert_int_equal(refused, 1); /* a byte less than the smallest */
    assert_true(different > 3);   /* the memory decided */
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
    op_uses_add(&c->uses, kind_of(OP_SUM, 0, value + 1), 1);
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
    set(&cfg, "fit-also", "state-dtype");
    must(config_check(&cfg));
    assert_true(config_fit_is_open(&cfg));
    must(fit_space(&cfg, &space));
    assert_int_equal(space.axis_count, 1);
    assert_string_equal(space.axes[0].option->name, "state-dtype");
    assert_int_equal(space.batch_count, 1);
    FitMachine machine = {plan_pair, learn_pair, &pair};
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
    op_uses_add(&c->uses, kind_of(OP_SUM, 0, 1), 1);
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
    FitMachine machine = {plan_alike, learns_nothing, &asked};
    must(fit_search(&space, &machine, &fit));
    assert_int_equal(asked, 1); /* all batches and grades have the same kind */
    fit_free(&fit);
    asked = 100;
    assert_int_equal(fit_search(&space, &machine, &fit), ERR_FAILED);
    fit_free(&fit);
    config_free(&cfg);
}

/* --- times that are put together --- */

static void test_times__unknown_kinds_are_scaled_from_the_nearest(void **state)
{
    (void)state;
    OpTimes times = {0};
    OpUses uses = {0};
    op_times_put(&times, kind_of(OP_SUM, 0, 100), 1e-3);
    op_times_put(&times, kind_of(OP_SUM, 0, 1000), 5e-3);
    op_times_put(&times, kind_of(OP_LINEAR_FORWARD, 200, 7), 4e-3);
    op_times_put(&times, kind_of(OP_SUM, 0, 10000), NAN);
    op_uses_add(&uses, kind_of(OP_SUM, 0, 100), 2);
    op_uses_add(&uses, kind_of(OP_SUM, 0, 100), 1);
    assert_int_equal(uses.count, 1);
    OpSum sum = op_times_sum(&times, &uses);
    assert_true(fabs(sum.seconds - 3e-3) < 1e-15 && sum.scaled_s == 0);
    op_uses_add(&uses, kind_of(OP_SUM, 0, 2000), 1);            /* twice the one of 1000 */
    op_uses_add(&uses, kind_of(OP_SUM, 0, 10000), 1);           /* ten times */
    op_uses_add(&uses, kind_of(OP_LINEAR_FORWARD, 300, 99), 1); /* by FLOP */
    op_uses_add(&uses, kind_of(OP_CAST, 0, 110), 1);            /* 6 ms for 1100 bytes of all */
    sum = op_times_sum(&times, &uses);
    assert_true(fabs(sum.scaled_s - (10e-3 + 50e-3 + 6e-3 + 0.6e-3)) < 1e-12);
    assert_true(fabs(sum.seconds - sum.scaled_s - 3e-3) < 1e-12);
    OpKind back = kind_of(OP_SUM, 0, 100);
    back.back = true; /* another kind, the other direction being the nearest */
    assert_null(op_times_find(&times, &back));
    op_uses_free(&uses);
    op_uses_add(&uses, back, 1);
    assert_true(op_times_sum(&times, &uses).scaled_s == 1e-3);
    op_uses_free(&uses);
    op_times_free(&times);
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
    assert_int_equal(space.axis_count, 1);
    assert_int_equal(space.axes[0].count, KEEP_INPUTS + 1);

    space_of((const char *[]){"model", "llama-22m", "recompute", "act", NULL}, &space, 0);
    assert_int_equal(space.axis_count, 0);
    assert_int_equal(space.sequences, config_start("llama-22m")->batch);
    assert_true(space.split);

    space_of((const char *[]){"accum", "4", NULL}, &space, 0);
    assert_false(space.split);
    assert_int_equal(space.batch_count, 1);
    assert_int_equal(space.sequences, 4 * space.batches[0]);

    space_of((const char *[]){"fit-also", "dtype, state-dtype", NULL}, &space, 0);
    assert_int_equal(space.axis_count, 3);
    for (int i = 0; i < space.axis_count; i++) {
        const FitAxis *axis = &space.axes[i];
        bool dtype = strcmp(axis->option->name, "dtype") == 0;
        assert_int_equal(axis->rounds, strcmp(axis->option->name, "recompute") != 0);
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
    FitCandidate c = {.value = {KEEP_NO_FFN}, .batch = 4};
    must(fit_settings(&cfg, &space, &c, &out));
    assert_int_equal(out.batch, 4);
    assert_int_equal(out.accum, 3);
    assert_int_equal(out.recompute, KEEP_NO_FFN);
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
        cmocka_unit_test(test_calls__are_those_of_the_plan),
        cmocka_unit_test(test_fit__the_fastest_that_fits_whatever_the_memory),
        cmocka_unit_test(test_fit__what_rounds_otherwise_has_to_pay),
        cmocka_unit_test(test_fit__a_lesson_that_fails),
        cmocka_unit_test(test_times__unknown_kinds_are_scaled_from_the_nearest),
        cmocka_unit_test(test_space__is_what_is_not_given),
        cmocka_unit_test(test_settings__are_the_candidate_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
