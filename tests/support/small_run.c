#include "support/small_run.h"

#include "base/mem.h"
#include "base/rng.h"
#include "support/gold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

TrainerSetup small_setup(const char *preset, int64_t batch, int64_t accum, int64_t seq)
{
    TrainerSetup setup = {.attention = ATTENTION_FLASH, .batch = batch, .accum = accum, .seq = seq};
    SpecOverrides o = {
        .layers = 2, .width = 48, .heads = 4, .ffn = 72, .vocab = 101, .context = 40};
    assert_int_equal(spec_resolve(preset, &o, 0, &setup.spec), 0);
    setup.optimizer = (OptimizerSettings){.beta1 = 0.9,
                                          .beta2 = 0.95,
                                          .eps = 1e-8,
                                          .momentum = 0.9,
                                          .muon_steps = 5,
                                          .weight_decay = 0.1,
                                          .clip = 1.0};
    return setup;
}

Tokens make_tokens(int64_t sequences, int64_t seq, int64_t batch, int64_t vocab)
{
    int64_t n = sequences * seq;
    Tokens t = {mem_alloc((size_t)n * 4), mem_alloc((size_t)n * 4), mem_alloc((size_t)n * 4)};
    for (int64_t i = 0; i < n; i++) {
        t.ids[i] = (int32_t)rng_below(5, 1, (uint64_t)i, (uint64_t)vocab);
        t.targets[i] = (int32_t)rng_below(5, 2, (uint64_t)i, (uint64_t)vocab);
    }
    for (int64_t first = 0; first < n; first += batch * seq) {
        gold_sort_order(t.ids + first, batch * seq, t.order + first);
    }
    return t;
}

void free_tokens(Tokens t)
{
    free(t.ids);
    free(t.targets);
    free(t.order);
}

void fill_params(Trainer *t)
{
    double *param = t->optimizer.param.data;
    for (int r = 0; r < t->model.params.count; r++) {
        const Param *row = &t->model.params.rows[r];
        for (int64_t i = 0; i < row->count; i++) {
            float normal;
            rng_normals(3, (uint64_t)r, (uint64_t)i, 1, &normal);
            param[row->offset + i] = (row->init == INIT_ONE ? 1 : 0) + 0.3 * (double)normal;
        }
    }
}

/* Masters as they are saved, wherever they are. */
static double *masters_of(Trainer *t)
{
    int64_t flat = t->model.params.flat;
    DType dtype = trainer_state_dtype(t, STATE_PARAMS);
    double *values = mem_zalloc((size_t)flat, sizeof *values);
    void *raw = mem_alloc((size_t)flat * dtype_size(dtype));
    assert_int_equal(trainer_read_state(t, STATE_PARAMS, 0, flat, raw), 0);
    for (int64_t i = 0; i < flat; i++) {
        values[i] = dtype == DT_F64 ? ((double *)raw)[i] : ((float *)raw)[i];
    }
    free(raw);
    return values;
}

Outcome small_run(TrainerSetup setup, Backend *backend, int updates)
{
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
    trainer_init_params(&t, 11);
    Tokens tokens = make_tokens(8 * updates, setup.seq, setup.batch, setup.spec.vocab);
    Outcome out = {0};
    for (int u = 0; u < updates; u++) {
        for (int64_t micro = 0; micro < setup.accum; micro++) {
            int64_t at = (u * 8 + micro * setup.batch) * setup.seq;
            trainer_micro_step(
                &t, (HostBatch){tokens.ids + at, tokens.targets + at, tokens.order + at, NULL},
                micro);
        }
        trainer_update(&t, 1e-3, u);
        trainer_post(&t);
        trainer_fetch(&t, &out.losses[u], &out.norms[u]);
    }
    out.count = t.model.params.flat;
    out.params = masters_of(&t);
    assert_int_equal(trainer_peak_bytes(&t), plan.blocks);
    assert_int_equal(trainer_peak_host(&t), plan.host);
    free_tokens(tokens);
    trainer_close(&t);
    return out;
}
