/* The parts of a step and what they take together: what a dry run tells against the plan and
 * against what is known of copies; sums of times by hand. */
#include "analyse/op_times.h"

#include "base/mem.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEQ 24

/* --- what a dry run tells is what the plan counts --- */

typedef struct {
    OpStat ops[OP_COUNT];
    double copied[COPY_QUEUES];
} Told;

static void add_stat(void *user, const TraceCall *call, TrainerPlace place)
{
    OpStat *stats = ((Told *)user)->ops;
    stats[call->op].calls += place.times;
    stats[call->op].flops += (double)place.times * call->flops;
    stats[call->op].bytes += (double)place.times * call->bytes;
}

static void add_copy(void *user, CopyQueue queue, double bytes, TrainerPlace place)
{
    ((Told *)user)->copied[queue] += (double)place.times * bytes;
}

static void told_as_planned(TrainerSetup setup, Keep keep, OffloadKind offload)
{
    Backend *backend = ref_backend_open();
    Told told = {0};
    TrainPlan plan;
    backend->head_bytes = 1; /* six chunks of the head */
    setup.keep = keep;
    setup.offload = offload;
    trainer_plan(&setup, backend, &plan);
    trainer_calls(&setup, backend, (TrainerListener){add_stat, add_copy, &told});
    for (int op = 0; op < OP_COUNT; op++) {
        assert_int_equal(told.ops[op].calls, plan.step[op].calls);
        assert_true(told.ops[op].flops == plan.step[op].flops);
        assert_true(told.ops[op].bytes == plan.step[op].bytes);
    }
    for (int queue = 0; queue < COPY_QUEUES; queue++) {
        assert_true(told.copied[queue] == plan.copied[queue]);
        assert_true((told.copied[queue] > 0) == (offload != OFFLOAD_NONE));
    }
    backend->close(backend);
}

static void test_calls__are_those_of_the_plan(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 5; accum++) {
        TrainerSetup llama = small_setup("llama-22m", 17, accum, 40);
        TrainerSetup gpt2 = small_setup("gpt2-124m", 17, accum, 40);
        TrainerSetup ttt = small_setup("ttt-125m", 17, accum, 40);
        told_as_planned(llama, KEEP_ALL, OFFLOAD_NONE);
        told_as_planned(gpt2, KEEP_NO_FFN, OFFLOAD_OPTIMIZER);
        told_as_planned(ttt, KEEP_INPUTS, OFFLOAD_NONE);
        llama.spec.layers = 3;
        gpt2.spec.layers = 5;
        told_as_planned(llama, KEEP_NO_ACTS, OFFLOAD_ACTIVATIONS);
        told_as_planned(gpt2, KEEP_ALL, OFFLOAD_ALL);
    }
}

/* Where copies are is known from what they are of. Blocks' inputs leave in the forward pass, all
 * but two blocks', and come in the backward pass. Moments come and go in the update. Gradients of
 * layers leave in the backward pass of every micro-step; all but the first begin with those before:
 * the first buckets come in the forward pass, the others in the backward pass. */
static void test_calls__copies_are_in_their_stretch(void **state)
{
    (void)state;
    enum { LAYERS = 5, ACCUM = 4 };
    TrainerSetup setup = small_setup("llama-22m", 2, ACCUM, SEQ);
    Backend *backend = ref_backend_open();
    OpUses uses = {0};
    TrainPlan plan;
    setup.spec.layers = LAYERS;
    setup.keep = KEEP_INPUTS;
    setup.offload = OFFLOAD_BOTH;
    trainer_plan(&setup, backend, &plan);
    op_uses_find(&uses, &setup, backend);
    static const double times[] = {1, ACCUM - 2, 1};
    double inputs = (LAYERS - 2) * 2.0 * SEQ * (double)setup.spec.width * sizeof(float);
    double moments = (double)plan.host_by_kind[MEM_OPTIMIZER];
    for (int micro = 0; micro < 3; micro++) {
        const double(*pass)[COPY_QUEUES] = &uses.copied[micro * STRETCH_PASSES];
        assert_true(pass[0][COPY_OUT] == times[micro] * inputs && pass[0][COPY_IN] == 0);
        assert_true(pass[1][COPY_OUT] == 0 && pass[1][COPY_IN] == 0);
        assert_true(pass[2][COPY_OUT] == 0 && pass[2][COPY_IN] == times[micro] * inputs);
    }
    assert_true(fabs(uses.copied[STRETCH_UPDATE][COPY_OUT] / moments - 1) < 0.01); /* padding */
    assert_true(uses.copied[STRETCH_UPDATE][COPY_IN] == uses.copied[STRETCH_UPDATE][COPY_OUT]);

    setup.spec.layers = LAYERS;
    setup.ddp.bucket_bytes = 0; /* a bucket for each layer */
    setup.offload = OFFLOAD_ALL;
    op_uses_find(&uses, &setup, backend);
    double first = uses.copied[2][COPY_OUT];
    assert_true(first > 0 && uses.copied[0][COPY_IN] == 0 && uses.copied[2][COPY_IN] == inputs);
    for (int micro = 1; micro < 3; micro++) {
        const double(*pass)[COPY_QUEUES] = &uses.copied[micro * STRETCH_PASSES];
        double grads = pass[0][COPY_IN] + pass[2][COPY_IN] - times[micro] * inputs;
        assert_true(pass[2][COPY_OUT] == times[micro] * first && grads == times[micro] * first);
        assert_true(pass[0][COPY_IN] > 0 && pass[2][COPY_IN] > times[micro] * inputs);
        assert_true(pass[1][COPY_IN] == 0 && pass[1][COPY_OUT] == 0);
    }
    op_uses_free(&uses);
    backend->close(backend);
}

/* --- times that are put together --- */

static OpKind kind_of(OpId op, double flops, double bytes)
{
    return (OpKind){.op = op, .flops = flops, .bytes = bytes};
}

static void test_times__unknown_kinds_are_scaled_from_the_nearest(void **state)
{
    (void)state;
    OpTimes times = {0};
    OpUses uses = {0};
    op_times_put(&times, kind_of(OP_SUM, 0, 100), 1e-3);
    op_times_put(&times, kind_of(OP_SUM, 0, 1000), 5e-3);
    op_times_put(&times, kind_of(OP_LINEAR_FORWARD, 200, 7), 4e-3);
    op_times_put(&times, kind_of(OP_SUM, 0, 10000), NAN);
    op_uses_add(&uses, 0, kind_of(OP_SUM, 0, 100), 2);
    op_uses_add(&uses, 0, kind_of(OP_SUM, 0, 100), 1);
    assert_int_equal(uses.count, 1);
    assert_true(op_use_calls(&uses.items[0]) == 3);
    OpSum sum = op_times_sum(&times, &uses);
    assert_true(fabs(sum.seconds - 3e-3) < 1e-15 && sum.scaled_s == 0);
    op_uses_add(&uses, 0, kind_of(OP_SUM, 0, 2000), 1);            /* twice the one of 1000 */
    op_uses_add(&uses, 0, kind_of(OP_SUM, 0, 10000), 1);           /* ten times */
    op_uses_add(&uses, 0, kind_of(OP_LINEAR_FORWARD, 300, 99), 1); /* by FLOP */
    op_uses_add(&uses, 0, kind_of(OP_CAST, 0, 110), 1);            /* 6 ms for 1100 bytes of all */
    sum = op_times_sum(&times, &uses);
    assert_true(fabs(sum.scaled_s - (10e-3 + 50e-3 + 6e-3 + 0.6e-3)) < 1e-12);
    assert_true(fabs(sum.seconds - sum.scaled_s - 3e-3) < 1e-12);
    OpKind back = kind_of(OP_SUM, 0, 100);
    back.back = true; /* another kind, the other direction being the nearest */
    assert_null(op_times_find(&times, &back));
    op_uses_free(&uses);
    op_uses_add(&uses, 0, back, 1);
    assert_true(op_times_sum(&times, &uses).scaled_s == 1e-3);
    op_uses_free(&uses);
    op_times_free(&times);
}

/* A stretch that is bound by its ops, one by copies in, and one by copies out; what is scaled
 * counts where ops bind. */
static void test_times__a_stretch_is_as_long_as_its_longest_part(void **state)
{
    (void)state;
    OpTimes times = {.copy_rate = {[COPY_OUT] = 0.5e9, [COPY_IN] = 1e9}};
    OpUses uses = {0};
    op_times_put(&times, kind_of(OP_SUM, 0, 100), 1e-3);
    op_uses_add(&uses, 0, kind_of(OP_SUM, 0, 100), 3);
    op_uses_add(&uses, 0, kind_of(OP_SUM, 0, 50), 1); /* scaled: 0.5 ms */
    uses.copied[0][COPY_OUT] = 1e6;                   /* 2 ms, below 3.5 */
    op_uses_add(&uses, 2, kind_of(OP_SUM, 0, 100), 1);
    op_uses_add(&uses, 2, kind_of(OP_SUM, 0, 50), 2);
    uses.copied[2][COPY_IN] = 7e6; /* 7 ms, above 2 */
    op_uses_add(&uses, STRETCH_UPDATE, kind_of(OP_SUM, 0, 100), 1);
    uses.copied[STRETCH_UPDATE][COPY_IN] = 4e6;  /* 4 ms, */
    uses.copied[STRETCH_UPDATE][COPY_OUT] = 4e6; /* beside 8 ms, above 1 */
    OpSum sum = op_times_sum(&times, &uses);
    assert_true(fabs(sum.seconds - (3.5e-3 + 7e-3 + 8e-3)) < 1e-12);
    assert_true(fabs(sum.copies_s - (5e-3 + 7e-3)) < 1e-12);
    assert_true(fabs(sum.scaled_s - 0.5e-3) < 1e-12);
    assert_true(op_uses_copy(&uses));
    op_uses_free(&uses);
    assert_false(op_uses_copy(&uses));
    op_times_free(&times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls__are_those_of_the_plan),
        cmocka_unit_test(test_calls__copies_are_in_their_stretch),
        cmocka_unit_test(test_times__unknown_kinds_are_scaled_from_the_nearest),
        cmocka_unit_test(test_times__a_stretch_is_as_long_as_its_longest_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
