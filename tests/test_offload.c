/* What is offloaded to memory of the host, and gradients in bf16, which take the same ways: the
 * bits of a training without it, whenever copies come; plans that are exact on both sides; state
 * that another setting goes on from. */
#include "data/loader.h"
#include "support/late_copies.h"
#include "support/small_run.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tensor/rounding.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UPDATES 2
#define BATCH 2
#define SEQ 8
#define END 7 /* the token that documents begin with */

typedef struct {
    const char *preset;
    SpecOverrides o;
    DType dtype, state;
    OptimizerId optimizer;
} Case;

static const Case cases[] = {
    {"gpt2-124m", {.layers = 5}, DT_F32, DT_F32, OPTIMIZER_ADAMW},
    {"gpt2-124m", {.layers = 4, .tied = 1}, DT_BF16, DT_BF16, OPTIMIZER_ADAMW},
    {"llama-22m", {.layers = 3, .kv_heads = 1}, DT_BF16, DT_F32, OPTIMIZER_MUON},
    {"llama-22m", {.layers = 5, .post_norm = 2}, DT_BF16, DT_BF16, OPTIMIZER_MUON},
    {"gemma-3-1b", {.layers = 6, .window = 5, .full_every = 2}, DT_BF16, DT_F32, OPTIMIZER_SGD},
    {"gpt2-124m", {.layers = 4}, DT_E4M3, DT_F32, OPTIMIZER_ADAMW},
    {"llama-22m", {.layers = 3}, DT_E4M3, DT_BF16, OPTIMIZER_ADAMW},
    {"ttt-125m", {.layers = 4, .mini = 4}, DT_F32, DT_BF16, OPTIMIZER_ADAMW},
};
#define CASES (sizeof cases / sizeof cases[0])

static TrainerSetup setup_of(const Case *k, int64_t accum)
{
    SpecOverrides o = k->o;
    TrainerSetup setup = small_setup("tiny", BATCH, accum, SEQ);
    o.width = 32;
    o.heads = 2;
    o.head_dim = 16;
    o.ffn = 48;
    o.vocab = 64;
    o.context = 8;
    assert_int_equal(spec_resolve(k->preset, &o, 0, &setup.spec), 0);
    setup.separate = setup.spec.mixer == MIXER_ATTENTION;
    setup.dtype = k->dtype;
    setup.optimizer.id = k->optimizer;
    setup.optimizer.state = k->state;
    setup.optimizer.seed = 77;
    return setup;
}

/* Losses, norms, then all of the state, as it is saved. */
typedef struct {
    double numbers[3 * UPDATES], pieces[UPDATES];
    char *state;
    size_t bytes;
    TrainPlan plan;
} Result;

static void read_all(Trainer *t, Result *out)
{
    int64_t flat = t->model.params.flat;
    int states = optimizer_states(t->optimizer.kind);
    out->state = mem_zalloc((size_t)flat * (size_t)(1 + states), sizeof(double));
    for (int which = STATE_PARAMS; which < states; which++) {
        for (int row = 0; row < t->model.params.count; row++) {
            const Param *param = &t->model.params.rows[row];
            if (which == STATE_PARAMS || which < optimizer_rule(t->optimizer.kind, param)->states) {
                assert_int_equal(trainer_read_state(t, which, param->offset, param->count,
                                                    out->state + out->bytes),
                                 0);
                out->bytes += (size_t)param->count * dtype_size(trainer_state_dtype(t, which));
            }
        }
    }
}

/* Updates [first, last) on the tokens that are theirs. */
static void train(Trainer *t, int first, int last, double *numbers, double *pieces)
{
    int accum = (int)t->setup.accum, each = BATCH * SEQ;
    Tokens tokens = make_tokens(UPDATES * BATCH * accum, SEQ, BATCH, 20);
    int32_t *starts = mem_alloc((size_t)(UPDATES * accum * each) * sizeof *starts);
    document_starts(tokens.ids, (int64_t)UPDATES * accum * each, SEQ, END, starts);
    for (int u = first; u < last; u++) {
        HostBatch batch = {0};
        for (int micro = 0; micro < accum; micro++) {
            int at = (u * accum + micro) * each;
            batch =
                (HostBatch){tokens.ids + at, tokens.targets + at, tokens.order + at, starts + at};
            trainer_micro_step(t, batch, micro);
            assert_int_equal(late_copies_pending(), 0);
        }
        trainer_update(t, 1e-2, u);
        assert_int_equal(late_copies_pending(), 0);
        trainer_post(t);
        trainer_fetch(t, &numbers[3 * u], &numbers[3 * u + 1]);
        numbers[3 * u + 2] = trainer_evaluate(t, batch);
        pieces[u] = t->fetched_piece_sq;
    }
    free(starts);
    free_tokens(tokens);
}

static void open_trainer(Trainer *t, const TrainerSetup *setup, Backend *backend, TrainPlan *plan)
{
    trainer_plan(setup, backend, plan);
    assert_int_equal(trainer_open(t, setup, backend, plan), 0);
}

static Result run(const TrainerSetup *setup, Backend *backend)
{
    Result out = {0};
    Trainer t;
    open_trainer(&t, setup, backend, &out.plan);
    trainer_init_params(&t, 11);
    train(&t, 0, UPDATES, out.numbers, out.pieces);
    read_all(&t, &out);
    assert_int_equal(trainer_peak_bytes(&t), out.plan.blocks);
    assert_int_equal(trainer_peak_host(&t), out.plan.host);
    trainer_close(&t);
    return out;
}

static void same(const Result *a, const Result *b, const TrainerSetup *setup, size_t number)
{
    if (memcmp(a->numbers, b->numbers, sizeof a->numbers) != 0 || a->bytes != b->bytes ||
        memcmp(a->state, b->state, a->bytes) != 0) {
        fail_msg("case %zu, recompute %d, offload %d: other bits", number, (int)setup->keep,
                 (int)setup->offload);
    }
}

static size_t saved_bytes(const TrainPlan *plan)
{
    return plan->sizes[WORK_SAVED];
}

/* Of pieces: divides no range, so that all of them have a short last one. */
#define PIECE 192

static void test_offload__gives_the_same_bits(void **state)
{
    (void)state;
    Backend *ref = ref_backend_open();
    for (size_t i = 0; i < CASES; i++) {
        TrainerSetup setup = setup_of(&cases[i], 2);
        Result plain = run(&setup, ref);
        assert_true(plain.numbers[0] != plain.numbers[3] && plain.numbers[1] > 0);
        Backend *late = late_copies_open();
        const Keep grades[] = {KEEP_ALL, (Keep)(1 + i % KEEP_INPUTS)};
        for (int n = 0; n < 6; n++) {
            setup.keep = grades[n / 3];
            setup.offload = (OffloadKind)(OFFLOAD_OPTIMIZER + n % 3);
            setup.offload_piece = n == 0 ? 0 : PIECE;
            Result moved = run(&setup, n == 5 ? ref : late);
            same(&plain, &moved, &setup, i);
            free(moved.state);
        }
        late->close(late);
        free(plain.state);
    }
    ref->close(ref);
}

/* With gradients there too, their norm is summed bucket by bucket, and so rounded otherwise; where
 * it changes nothing, all else has the same bits. Buckets of one layer, of two, and of all. */
static void test_offload__gradients_are_the_same_but_for_their_norm(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        TrainerSetup setup = setup_of(&cases[i], 1 + (int64_t)(i % 3));
        setup.optimizer.clip = 0;
        setup.keep = (Keep)(i % KEEP_INPUTS);
        setup.noise = setup.accum > 1 ? NOISE_PIECES : NOISE_NONE;
        Backend *late = late_copies_open();
        Result plain = run(&setup, late);
        setup.offload = OFFLOAD_ALL;
        setup.offload_piece = PIECE;
        for (int turn = 0; turn < 3; turn++) {
            setup.ddp.bucket_bytes = turn == 0 ? 0 : turn == 1 ? 60000 : 1 << 20;
            Result moved = run(&setup, late);
            assert_true(moved.plan.host_by_kind[MEM_GRADS] == plain.plan.by_kind[MEM_GRADS]);
            for (int u = 0; u < UPDATES; u++) {
                double norm = plain.numbers[3 * u + 1];
                assert_true(fabs(moved.numbers[3 * u + 1] - norm) <= 1e-6 * norm);
                assert_true(fabs(moved.pieces[u] - plain.pieces[u]) <= 1e-5 * plain.pieces[u]);
                moved.numbers[3 * u + 1] = norm;
            }
            same(&plain, &moved, &setup, i);
            free(moved.state);
        }
        free(plain.state);
        late->close(late);
    }
}

/* What gradients in bf16 are after a micro-step, from those in f32 and the random bits that are
 * said to be a function of seed, update, micro-step and element. After a second one they are the
 * sum, but for two roundings. */
static void test_offload__gradients_in_bf16_are_rounded_by_chance(void **state)
{
    (void)state;
    Backend *late = late_copies_open();
    for (int offloaded = 0; offloaded < 2; offloaded++) {
        TrainerSetup setup = setup_of(&cases[1], 2);
        Tokens tokens = make_tokens(2 * BATCH, SEQ, BATCH, 20);
        int32_t starts[2 * BATCH * SEQ];
        document_starts(tokens.ids, 2 * BATCH * SEQ, SEQ, END, starts);
        TrainPlan plan;
        Trainer plain, low;
        open_trainer(&plain, &setup, late, &plan);
        setup.low_grads = true;
        setup.offload = offloaded ? OFFLOAD_ALL : OFFLOAD_NONE;
        open_trainer(&low, &setup, late, &plan);
        assert_int_equal(low.optimizer.grad.dtype, DT_BF16);
        low.step = 3;
        trainer_init_params(&plain, 11);
        trainer_init_params(&low, 11);
        int64_t flat = plain.model.params.flat, up = 0;
        float *first = mem_zalloc((size_t)flat, sizeof *first);
        float *whole = mem_alloc((size_t)flat * sizeof *whole), *kept = mem_alloc((size_t)flat * 4);
        for (int micro = 0; micro < 2; micro++) {
            int at = micro * BATCH * SEQ;
            HostBatch batch = {tokens.ids + at, tokens.targets + at, tokens.order + at,
                               starts + at};
            trainer_micro_step(&plain, batch, micro);
            trainer_micro_step(&low, batch, micro);
            trainer_read_grads(&plain, 0, flat, whole);
            trainer_read_grads(&low, 0, flat, kept);
            RngBlock random = rng_block(77, 0x6772616473u, 3 << 20 | micro);
            for (int64_t i = 0; i < flat; i++) {
                uint32_t bits,
                    noise = rounding_bits(random.word[0] >> 8, random.word[1] >> 8, (uint64_t)i);
                memcpy(&bits, &whole[i], sizeof bits);
                float rounded = f32_from_bf16(bf16_by_chance(bits, noise & 0xFFFF));
                first[i] = micro == 0 ? kept[i] : first[i];
                up += rounded != f32_from_bf16(bf16_from_f32(whole[i]));
                double most = 0x1p-7 * (fabs(first[i]) + fabs(whole[i]) + fabs(kept[i]));
                if (micro == 0 ? kept[i] != rounded : !(fabs(kept[i] - whole[i]) <= most)) {
                    fail_msg("offload %d, micro-step %d: gradient %lld is %.9g, of %.9g", offloaded,
                             micro, (long long)i, kept[i], whole[i]);
                }
            }
        }
        assert_true(up > flat / 8);
        free(first);
        free(whole);
        free(kept);
        free_tokens(tokens);
        trainer_close(&plain);
        trainer_close(&low);
    }
    late->close(late);
}

/* Of one layer's gradients in f32: a room. */
static size_t layer_bytes(const TrainerSetup *setup)
{
    Model model;
    model_init(&model, &setup->spec, setup->dtype, 1);
    const ParamTable *table = &model.params;
    int64_t from = table->rows[params_first_decayed(table, 0)].offset;
    int64_t to = table->rows[params_first_decayed(table, 1)].offset;
    model_free(&model);
    return (size_t)(to - from) * sizeof(float);
}

/* And wherever they are; but for the rounding of their norm, however they are cut into buckets; and
 * after a resume. Those that leave take a room more. */
static void test_offload__gradients_in_bf16_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 1; i < CASES; i++) {
        TrainerSetup setup = setup_of(&cases[i], 1 + (int64_t)(i % 3));
        if (setup.dtype == DT_F32 || setup.optimizer.id == OPTIMIZER_MUON) {
            continue;
        }
        Backend *late = late_copies_open();
        setup.low_grads = true;
        Result here = run(&setup, late);
        assert_true(here.plan.by_kind[MEM_GRADS] > 0 && here.plan.host_by_kind[MEM_GRADS] == 0);
        for (int kind = OFFLOAD_OPTIMIZER; kind <= OFFLOAD_ALL; kind++) {
            setup.offload = (OffloadKind)kind;
            setup.offload_piece = PIECE;
            Result moved = run(&setup, late);
            same(&here, &moved, &setup, i);
            free(moved.state);
        }
        size_t grads = here.plan.by_kind[MEM_GRADS] + layer_bytes(&setup);
        setup.low_grads = false;
        TrainPlan plan;
        setup.ddp.bucket_bytes = 0;
        trainer_plan(&setup, late, &plan);
        size_t half =
            (plan.host_by_kind[MEM_GRADS] / 2 + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
        assert_int_equal(half + plan.by_kind[MEM_GRADS], grads);
        free(here.state);
        late->close(late);
    }
}

/* Bytes that leave the device are those that the host has, by purpose; the saved arena of one with
 * recompute block is known from the shapes. */
static void test_offload__the_plan_knows_both_memories(void **state)
{
    (void)state;
    Backend *ref = ref_backend_open();
    for (size_t i = 0; i < CASES; i++) {
        TrainerSetup setup = setup_of(&cases[i], 1);
        TrainPlan plain, plan;
        int64_t layers = setup.spec.layers;
        trainer_plan(&setup, ref, &plain);
        setup.offload = OFFLOAD_OPTIMIZER;
        trainer_plan(&setup, ref, &plan);
        assert_int_equal(plain.host, 0);
        assert_int_equal(plan.by_kind[MEM_OPTIMIZER], 0);
        assert_int_equal(plan.host_by_kind[MEM_OPTIMIZER], plain.by_kind[MEM_OPTIMIZER]);
        assert_int_equal(plan.by_kind[MEM_PARAMS] + plan.host_by_kind[MEM_PARAMS],
                         plain.by_kind[MEM_PARAMS]);
        assert_true((plan.host_by_kind[MEM_PARAMS] > 0) == (setup.dtype != DT_F32));
        assert_int_equal(plan.host,
                         plan.host_by_kind[MEM_OPTIMIZER] + plan.host_by_kind[MEM_PARAMS]);
        assert_int_equal(saved_bytes(&plan), saved_bytes(&plain));
        assert_int_equal(plan.total, plan.blocks + plan.loader);
        setup.offload = OFFLOAD_ACTIVATIONS;
        trainer_plan(&setup, ref, &plan);
        assert_true(plan.host > 0);
        assert_int_equal(saved_bytes(&plan) + plan.host, saved_bytes(&plain));
        setup.keep = KEEP_INPUTS;
        trainer_plan(&setup, ref, &plan);
        size_t size = setup.dtype == DT_F32 ? 4 : 2;
        assert_int_equal(plan.host, (size_t)(layers - 2) * BATCH * SEQ * 32 * size);
        assert_int_equal(plan.host, plan.host_by_kind[MEM_RESIDUAL]);
        setup.offload = OFFLOAD_BOTH;
        setup.spec.layers = 2;
        trainer_plan(&setup, ref, &plan); /* which have nothing that would go */
        assert_int_equal(plan.host_by_kind[MEM_RESIDUAL], 0);
    }
    ref->close(ref);
}

/* The plan's bytes between the memories are those that a step copies, whatever its length. */
static void test_offload__the_plan_knows_what_is_copied(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 5; accum += 2) {
        for (size_t i = 0; i < CASES; i += 2) {
            TrainerSetup setup = setup_of(&cases[i], accum);
            setup.offload = i % 4 == 0 ? OFFLOAD_ALL : OFFLOAD_BOTH;
            setup.offload_piece = PIECE;
            TrainPlan plan;
            Trainer t;
            double numbers[3 * UPDATES], pieces[UPDATES], before[COPY_QUEUES];
            Backend *late = late_copies_open();
            open_trainer(&t, &setup, late, &plan);
            trainer_init_params(&t, 11);
            train(&t, 0, 1, numbers,
                  pieces); /* which also makes codes of the weights, where there are */
            for (int queue = 0; queue < COPY_QUEUES; queue++) {
                before[queue] = late_copies_bytes((CopyQueue)queue);
            }
            train(&t, 1, 2, numbers, pieces);
            for (int queue = 0; queue < COPY_QUEUES; queue++) {
                double copied = late_copies_bytes((CopyQueue)queue) - before[queue];
                assert_true(copied > 0 && copied == plan.copied[queue]);
            }
            trainer_close(&t);
            late->close(late);
        }
    }
}

/* What comes in a pass begins a block's work before it is needed, and so does what leaves, but for
 * what is complete at the very end. */
static void test_offload__copies_run_beside_a_block(void **state)
{
    (void)state;
    for (int kind = OFFLOAD_ACTIVATIONS; kind <= OFFLOAD_ALL; kind++) {
        for (int low = 0; low < 2; low++) {
            TrainerSetup setup = setup_of(&cases[0], 2);
            Tokens tokens = make_tokens(2 * BATCH, SEQ, BATCH, 20);
            int32_t starts[2 * BATCH * SEQ];
            document_starts(tokens.ids, 2 * BATCH * SEQ, SEQ, END, starts);
            TrainPlan plan;
            Trainer t;
            Backend *late = late_copies_open();
            setup.dtype = DT_BF16;
            setup.spec.layers = 7;
            setup.ddp.bucket_bytes = 0;
            setup.offload = (OffloadKind)kind;
            setup.low_grads = low;
            open_trainer(&t, &setup, late, &plan);
            t.ctx.note = late_copies_note;
            for (int micro = 0; micro < 2; micro++) {
                int at = micro * BATCH * SEQ;
                trainer_micro_step(&t,
                                   (HostBatch){tokens.ids + at, tokens.targets + at,
                                               tokens.order + at, starts + at},
                                   micro);
                int64_t in = late_copies_beside(COPY_IN), out = late_copies_beside(COPY_OUT);
                if (in < 8 || (kind != OFFLOAD_ALL && out < 8)) {
                    fail_msg("offload %d, low %d, micro-step %d: %lld ops beside what comes, %lld "
                             "beside what leaves",
                             kind, low, micro, (long long)in, (long long)out);
                }
            }
            free_tokens(tokens);
            trainer_close(&t);
            late->close(late);
        }
    }
}

/* State is the same wherever it is: each setting goes on from each other's. */
static void test_offload__goes_on_from_any(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        TrainerSetup setup = setup_of(&cases[i], 1);
        Backend *late = late_copies_open();
        Result whole = run(&setup, late);
        for (int pair = 0; pair < 4; pair++) {
            static const OffloadKind kinds[] = {OFFLOAD_NONE, OFFLOAD_OPTIMIZER, OFFLOAD_BOTH,
                                                OFFLOAD_NONE, OFFLOAD_ALL};
            Trainer from, to;
            TrainPlan plan;
            Result out = {0};
            setup.offload_piece = PIECE;
            setup.offload = kinds[pair];
            if (pair == 3) { /* and with random bits that know the update */
                if (setup.dtype == DT_F32 || setup.optimizer.id == OPTIMIZER_MUON) {
                    continue;
                }
                setup.low_grads = true;
                free(whole.state);
                whole = run(&setup, late);
            }
            open_trainer(&from, &setup, late, &plan);
            trainer_init_params(&from, 11);
            train(&from, 0, 1, out.numbers, out.pieces);
            setup.offload = kinds[pair + 1];
            open_trainer(&to, &setup, late, &plan);
            char *scales;
            assert_int_equal(trainer_scales_text(&from, &scales), 0);
            if (scales != NULL) {
                assert_int_equal(trainer_scales_take(&to, scales), 0);
                free(scales);
            }
            const ParamTable *table = &from.model.params;
            for (int which = STATE_PARAMS; which < optimizer_states(from.optimizer.kind); which++) {
                for (int row = 0; row < table->count; row++) {
                    const Param *param = &table->rows[row];
                    if (which >= optimizer_rule(from.optimizer.kind, param)->states) {
                        continue;
                    }
                    double *values = mem_alloc((size_t)param->count * sizeof *values);
                    assert_int_equal(
                        trainer_read_state(&from, which, param->offset, param->count, values), 0);
                    trainer_write_state(&to, which, param->offset, param->count, values);
                    free(values);
                }
            }
            to.step = 1;
            train(&to, 1, 2, out.numbers, out.pieces);
            read_all(&to, &out);
            same(&whole, &out, &setup, i);
            free(out.state);
            trainer_close(&from);
            trainer_close(&to);
        }
        free(whole.state);
        late->close(late);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offload__gives_the_same_bits),
        cmocka_unit_test(test_offload__gradients_are_the_same_but_for_their_norm),
        cmocka_unit_test(test_offload__gradients_in_bf16_are_rounded_by_chance),
        cmocka_unit_test(test_offload__gradients_in_bf16_have_the_same_bits),
        cmocka_unit_test(test_offload__the_plan_knows_both_memories),
        cmocka_unit_test(test_offload__the_plan_knows_what_is_copied),
        cmocka_unit_test(test_offload__copies_run_beside_a_block),
        cmocka_unit_test(test_offload__goes_on_from_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
