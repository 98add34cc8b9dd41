/* Muon against torch.optim.Muon (tests/gold/make_optim.py): single matrices of odd shapes, and
 * whole models whose other parameters AdamW trains; its memory, and the same bits with
 * recomputation. */
#include "base/err.h"
#include "base/mem.h"
#include "support/gold.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    const char *label;
    bool cpu;
    DType dtype;
    double bound; /* of weights after three updates, and of losses */
} Variant;

/* bf16 keeps 8 bits, and the iteration strengthens what is small. */
static const Variant variants[] = {{"ref f64", false, DT_F64, 2e-7},
                                   {"ref f32", false, DT_F32, 1e-5},
                                   {"cpu f32", true, DT_F32, 1e-5},
                                   {"ref bf16", false, DT_BF16, 0.05}};
#define VARIANTS (sizeof variants / sizeof variants[0])

static Backend *open_backend(const Variant *v)
{
    return v->cpu ? cpu_backend_open(2) : ref_backend_open();
}

static Tensor tensor_of(DType dtype, int64_t count)
{
    return tensor_1d(mem_zalloc((size_t)count, dtype_size(dtype)), dtype, count);
}

static void fill(Tensor t, const double *values)
{
    for (int64_t i = 0; i < tensor_count(t); i++) {
        if (t.dtype == DT_F64) {
            ((double *)t.data)[i] = values[i];
        } else {
            ((float *)t.data)[i] = (float)values[i];
        }
    }
}

/* An optimizer of one matrix, host memory only. In bf16 the products are. */
static void open_matrix(Optimizer *o, const Param *param, DType dtype)
{
    DType acc = dtype_accumulate(dtype);
    *o = (Optimizer){.kind = optimizer_kind(OPTIMIZER_MUON), .products = dtype, .tokens = 1};
    o->settings = (OptimizerSettings){
        .id = OPTIMIZER_MUON, .momentum = 0.95, .muon_steps = 5, .weight_decay = 0.1};
    int class = optimizer_class(o, param);
    optimizer_add_range(
        o, (OptimizerRange){
               .count = param->count, .low = -1, .class = class, .decay = true, .counted = true});
    optimizer_add_matrix(
        o, (OptimizerMatrix){.rows = param->dim[0], .columns = param->dim[1], .class = class});
    o->param = tensor_of(acc, param->count);
    o->grad = tensor_of(acc, param->count);
    o->state[0] = tensor_of(acc, param->count);
    o->norm_sq = tensor_of(acc, 1);
    o->hyper = tensor_of(DT_F32, (int64_t)o->hyper_rows * HYPER_COUNT);
    assert_int_equal(optimizer_state_at(o, 1, param->count), 0); /* no second moment */
}

static void close_matrix(Optimizer *o)
{
    Tensor all[] = {o->param, o->grad, o->state[0], o->norm_sq, o->hyper};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i].data);
    }
    optimizer_free(o);
}

static double *values_of(const Gold *gold, int matrix, const char *what, int step)
{
    char name[64];
    int64_t count;
    snprintf(name, sizeof name, step < 0 ? "%d.%s" : "%d.%s.%d", matrix, what, step);
    return gold_values(gold, name, &count);
}

/* factor: of all gradients, which must not matter. */
static void check_matrix(const Gold *gold, int matrix, const Variant *v, double factor)
{
    char name[64];
    snprintf(name, sizeof name, "%d.start", matrix);
    const SafeTensor *shape = safetensors_find(&gold->file, name);
    Param param = {.rank = 2, .dim = {shape->dim[0], shape->dim[1]}, .matrix = true, .growth = 1};
    param.count = shape->dim[0] * shape->dim[1];
    Backend *backend = open_backend(v);
    Optimizer o;
    Workspace work = {0};
    Ctx c;
    size_t sizes[WORK_BLOCKS];
    ctx_init(&c, backend);
    open_matrix(&o, &param, v->dtype);
    workspace_count(&work, &c);
    optimizer_norm(&c, &o);
    optimizer_step(&c, &o);
    workspace_peaks(&work, &c, sizes);
    assert_int_equal(workspace_reserve(&work, &c, sizes, "for a test"), 0);
    memset(work.blocks[WORK_SCRATCH], 0xff, sizes[WORK_SCRATCH]); /* no numbers */
    double *start = values_of(gold, matrix, "start", -1);
    fill(o.param, start);
    for (int step = 0; step < 3; step++) {
        double *grad = values_of(gold, matrix, "grad", step);
        for (int64_t i = 0; i < param.count; i++) {
            grad[i] *= factor;
        }
        fill(o.grad, grad);
        optimizer_prepare(&c, &o, 0.02, step);
        optimizer_norm(&c, &o);
        optimizer_step(&c, &o);
        free(grad);
    }
    double *end = values_of(gold, matrix, "end", -1), *found = gold_download(backend, o.param);
    double error = gold_relative_error(found, end, param.count);
    if (!(error <= v->bound)) {
        fail_msg("%s, %lld x %lld, gradients x %g: off by %.3g", v->label, (long long)param.dim[0],
                 (long long)param.dim[1], factor, error);
    }
    assert_true(param.count == 1 || gold_relative_error(start, end, param.count) > 0.01);
    free(found);
    free(end);
    free(start);
    close_matrix(&o);
    workspace_free(&work, backend);
    backend->close(backend);
}

static void test_muon__matrices_of_odd_shapes(void **state)
{
    (void)state;
    Gold gold = {0};
    assert_int_equal(safetensors_open(PACER_GOLD_DIR "/muon.safetensors", &gold.file), 0);
    for (size_t i = 0; i < VARIANTS; i++) {
        for (int matrix = 0; matrix < 8; matrix++) {
            check_matrix(&gold, matrix, &variants[i], 1);
        }
        check_matrix(&gold, 0, &variants[i], 1e8);
        check_matrix(&gold, 1, &variants[i], 0x1p-8);
    }
    safetensors_close(&gold.file);
}

/* No gradient: no step but the decay, and nothing that is no number. */
static void test_muon__a_gradient_of_zero(void **state)
{
    (void)state;
    TrainerSetup setup = small_setup("llama-22m", 2, 1, 8);
    setup.optimizer.id = OPTIMIZER_MUON;
    Backend *backend = cpu_backend_open(1);
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
    trainer_init_params(&t, 1);
    double *before = gold_download(backend, t.optimizer.param);
    trainer_update(&t, 0.5, 0);
    double *after = gold_download(backend, t.optimizer.param);
    const Param *matrix = &t.model.params.rows[params_first_decayed(&t.model.params, 0)];
    assert_true(matrix->matrix);
    for (int64_t i = matrix->offset; i < matrix->offset + matrix->count; i++) {
        assert_true(fabs(after[i] - 0.95 * before[i]) <= 1e-8);
    }
    free(before);
    free(after);
    trainer_close(&t);
    backend->close(backend);
}

/* In f32 the keys' biases, whose gradients are rounding alone, go anywhere with AdamW. */
static void check_weights(const Gold *gold, const char *model, const Variant *v, const Trainer *t)
{
    const ParamTable *table = &t->model.params;
    for (int r = 0; r < table->count; r++) {
        char name[96];
        int64_t count;
        snprintf(name, sizeof name, "end.%s", table->rows[r].name);
        double *want = gold_values(gold, name, &count);
        double *got = gold_download(t->backend,
                                    tensor_rows(t->optimizer.param, table->rows[r].offset, count));
        double error = gold_relative_error(got, want, count);
        bool rounding = v->dtype != DT_F64 && !table->rows[r].matrix;
        if (!rounding && !(error <= 20 * v->bound)) {
            fail_msg("%s, %s: %s is off by %.3g", model, v->label, name, error);
        }
        free(got);
        free(want);
    }
}

/* Ten updates with clipping: packed and joined q, k, v, a gate, tied weights. */
static void compare(const char *model)
{
    Gold gold;
    gold_open(&gold, model);
    for (size_t i = 0; i < VARIANTS - 1; i++) {
        const Variant *v = &variants[i];
        Backend *backend = open_backend(v);
        TrainerSetup setup = gold.setup;
        Trainer t;
        int64_t steps;
        double *want = gold_values(&gold, "losses", &steps);
        double *norms = gold_values(&gold, "norms", &steps);
        setup.dtype = v->dtype;
        setup.optimizer.id = OPTIMIZER_MUON;
        setup.optimizer.momentum = 0.95;
        setup.optimizer.muon_steps = 5;
        gold_trainer(&gold, &setup, backend, &t);
        for (int64_t step = 0; step < steps; step++) {
            double loss, norm;
            trainer_micro_step(&t, gold_batch(&gold, 0), 0);
            trainer_update(&t, gold.rate, step);
            trainer_post(&t);
            trainer_fetch(&t, &loss, &norm);
            if (!(fabs(loss - want[step]) <= v->bound * want[step]) ||
                !(fabs(norm - norms[step]) <= 10 * v->bound * norms[step])) {
                fail_msg("%s, %s, update %lld: loss %.9g, norm %.9g, not %.9g and %.9g", model,
                         v->label, (long long)step, loss, norm, want[step], norms[step]);
            }
        }
        check_weights(&gold, model, v, &t);
        free(want);
        free(norms);
        trainer_close(&t);
        backend->close(backend);
    }
    gold_close(&gold);
}

static void test_muon__whole_models(void **state)
{
    (void)state;
    compare("muon_gpt2");
    compare("muon_llama_gqa");
}

/* A matrix has one state, everything else two; small_run asserts that the plan is exact. */
static void test_muon__saves_the_second_moment(void **state)
{
    (void)state;
    const char *const presets[] = {"gpt2-124m", "llama-22m", "gemma-2-2b", "ttt-125m"};
    Backend *backend = cpu_backend_open(2);
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        TrainerSetup setup = small_setup(presets[i], 2, 4, 16);
        TrainPlan adamw, muon;
        trainer_plan(&setup, backend, &adamw);
        setup.optimizer.id = OPTIMIZER_MUON;
        trainer_plan(&setup, backend, &muon);
        Model model;
        model_init(&model, &setup.spec, DT_F32, 1);
        size_t saved = 0;
        for (int r = 0; r < model.params.count; r++) {
            saved += model.params.rows[r].matrix ? (size_t)model.params.rows[r].count * 4 : 0;
        }
        size_t found = adamw.by_kind[MEM_OPTIMIZER] - muon.by_kind[MEM_OPTIMIZER];
        assert_true(saved > 0 && found >= saved && found < saved + saved / 10);
        model_free(&model);
        Outcome outcomes[2];
        for (int recompute = 0; recompute < 2; recompute++) {
            setup.keep = recompute == 1 ? KEEP_INPUTS : KEEP_ALL;
            outcomes[recompute] = small_run(setup, backend, 3);
        }
        assert_memory_equal(outcomes[0].params, outcomes[1].params,
                            (size_t)outcomes[0].count * sizeof(double));
        free(outcomes[0].params);
        free(outcomes[1].params);
    }
    backend->close(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_muon__matrices_of_odd_shapes),
        cmocka_unit_test(test_muon__a_gradient_of_zero),
        cmocka_unit_test(test_muon__whole_models),
        cmocka_unit_test(test_muon__saves_the_second_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
