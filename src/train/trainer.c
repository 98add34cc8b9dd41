#include "train/trainer.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "data/prefetch.h"

#include <stdlib.h>
#include <string.h>

static Tensor push_state(Trainer *t, MemKind kind, DType dtype, int64_t count)
{
    return arena_push(&t->state, kind, dtype, 1, &count);
}

Tensor trainer_weights(const Trainer *t)
{
    return tensor_given(t->adamw.low) ? t->adamw.low : t->adamw.param;
}

/* What this rank updates of [first, end). What all ranks keep is counted in the first one's norm. */
static void add_ranges(Trainer *t, int64_t first, int64_t end, bool decay)
{
    bool sharded = ddp_is_sharded(&t->ddp), low = tensor_given(t->adamw.low);
    while (first < end) {
        DdpPiece piece = ddp_piece(&t->ddp, first, end);
        if (piece.keeper < 0 || piece.keeper == t->ddp.setup.rank) {
            adamw_add_range(&t->adamw, (AdamwRange){.offset = piece.offset,
                                                    .own = piece.own,
                                                    .master = low ? piece.own : piece.offset,
                                                    .count = piece.count,
                                                    .decay = decay,
                                                    .counted = !sharded || piece.keeper >= 0 ||
                                                               t->ddp.setup.rank == 0});
        }
        first += piece.count;
    }
}

/* Takes every lasting tensor from t->state in a fixed order and binds the model to them. */
static void lay_out(Trainer *t)
{
    const TrainerSetup *s = &t->setup;
    const ParamTable *table = &t->model.params;
    DType acc = dtype_accumulate(s->dtype);
    int64_t rows = s->batch * s->seq;
    Adamw *a = &t->adamw;
    a->settings = s->adamw;
    ddp_init(&t->ddp, &s->ddp, table);
    bool low = s->dtype != acc;
    a->param = push_state(t, MEM_PARAMS, acc, low ? t->ddp.owned : table->flat);
    if (low) {
        a->low = push_state(t, MEM_PARAMS, s->dtype, table->flat);
    }
    a->grad = push_state(t, MEM_GRADS, acc, table->flat);
    if (s->ddp.ranks > 1 && s->ddp.wire == DT_BF16) {
        t->ddp.wire = push_state(t, MEM_GRADS, DT_BF16, table->flat);
    }
    t->ddp.grad = a->grad;
    a->m = push_state(t, MEM_OPTIMIZER, acc, t->ddp.owned);
    a->v = push_state(t, MEM_OPTIMIZER, acc, t->ddp.owned);
    a->hyper = push_state(t, MEM_CONSTANTS, DT_F32, HYPER_COUNT);
    /* Numbers of at most 8 bytes, then the stamps. */
    t->results = push_state(t, MEM_CONSTANTS, DT_F64, FETCH_COUNT + STAMP_COUNT);
    t->loss = t->results;
    t->loss.dtype = acc;
    t->loss.dim[0] = 1;
    a->norm_sq = t->own_loss = t->loss;
    if (t->results.data != NULL) {
        double *numbers = t->results.data;
        t->loss.data = numbers + FETCH_LOSS;
        a->norm_sq.data = numbers + FETCH_NORM_SQ;
        t->own_loss.data = numbers + FETCH_OWN_LOSS;
        t->stamps = (int64_t *)(numbers + FETCH_COUNT);
    }
    Tensor rope = model_rope_shape(&t->model);
    if (tensor_given(rope)) {
        rope = arena_push(&t->state, MEM_CONSTANTS, rope.dtype, 2, rope.dim);
    }
    t->ids = push_state(t, MEM_BATCH, DT_I32, rows);
    t->targets = push_state(t, MEM_BATCH, DT_I32, rows);
    t->order = push_state(t, MEM_BATCH, DT_I32, rows);
    t->losses = push_state(t, MEM_HEAD, acc, rows);
    if (s->ddp.ranks > 1) {
        t->checksum = push_state(t, MEM_CONSTANTS, DT_I32, 2);
    }
    add_ranges(t, 0, table->decayed, true);
    add_ranges(t, table->decayed, table->flat, false);
    model_bind(&t->model, trainer_weights(t), a->grad, rope);
}

static void begin(Trainer *t, const TrainerSetup *setup, Backend *backend)
{
    *t = (Trainer){.setup = *setup, .backend = backend};
    ctx_init(&t->ctx, backend);
    t->ctx.attention = setup->attention;
    t->ctx.ttt_keep = setup->ttt_keep;
    model_init(&t->model, &setup->spec, setup->dtype,
               backend->row_align > 0 ? backend->row_align : 1);
}

void trainer_plan(const TrainerSetup *setup, Backend *backend, TrainPlan *plan)
{
    Trainer t;
    begin(&t, setup, backend);
    t.ctx.dry = true;
    arena_init_counting(&t.state, "state");
    lay_out(&t);
    for (int64_t micro = 0; micro < setup->accum; micro++) {
        trainer_micro_step(&t, (HostBatch){0}, micro);
    }
    trainer_update(&t, 0, 0);
    memset(plan, 0, sizeof *plan);
    memcpy(plan->step, t.ctx.stats, sizeof plan->step);
    plan->flops_update = ctx_total(&t.ctx).flops;
    trainer_evaluate(&t, (HostBatch){0});
    if (setup->ddp.ranks > 1) {
        op_checksum(&t.ctx, trainer_weights(&t), t.checksum);
    }
    const Arena *arenas[] = {&t.state, &t.ctx.saved, &t.ctx.scratch};
    for (int i = 0; i < 3; i++) {
        for (int kind = 0; kind < MEM_KINDS; kind++) {
            plan->by_kind[kind] += arenas[i]->peak_by_kind[kind];
        }
        plan->blocks += arenas[i]->peak;
    }
    plan->state = t.state.peak;
    plan->saved = t.ctx.saved.peak;
    plan->scratch = t.ctx.scratch.peak;
    plan->loader = prefetch_bytes(setup->batch, setup->seq, (uint64_t)setup->spec.vocab);
    plan->total = plan->blocks + plan->loader;
    plan->parameters = t.model.params.parameters;
    trainer_close(&t);
}

int64_t trainer_largest_batch(const TrainerSetup *setup, Backend *backend, size_t bytes)
{
    TrainerSetup trial = *setup;
    TrainPlan plan;
    int64_t fits = 0, fails = 0;
    for (trial.batch = 1; fails == 0; trial.batch *= 2) {
        trainer_plan(&trial, backend, &plan);
        *(plan.total <= bytes ? &fits : &fails) = trial.batch;
        if (fits > INT64_MAX / 4 / setup->seq) {
            return fits;
        }
    }
    while (fails - fits > 1) {
        trial.batch = fits + (fails - fits) / 2;
        trainer_plan(&trial, backend, &plan);
        *(plan.total <= bytes ? &fits : &fails) = trial.batch;
    }
    return fits;
}

int trainer_open(Trainer *t, const TrainerSetup *setup, Backend *backend, const TrainPlan *plan)
{
    begin(t, setup, backend);
    const size_t sizes[] = {plan->state, plan->saved, plan->scratch};
    for (int i = 0; i < 3; i++) {
        t->blocks[i] = backend->alloc(backend, sizes[i]);
        if (t->blocks[i] == NULL) {
            trainer_close(t);
            return err_set(ERR_MEMORY,
                           "cannot allocate %zu bytes for the run; try a smaller --batch",
                           sizes[i]);
        }
    }
    arena_init(&t->state, "state", t->blocks[0], plan->state);
    arena_init(&t->ctx.saved, "saved", t->blocks[1], plan->saved);
    arena_init(&t->ctx.scratch, "scratch", t->blocks[2], plan->scratch);
    /* Zero gradients, moments and the padding between parameters, which no kernel writes. */
    backend->zero(backend, t->blocks[0], plan->state);
    lay_out(t);
    if (trainer_is_stamped(t)) {
        t->fetched_stamps = mem_zalloc((size_t)(setup->accum * STAMP_MICRO + STAMP_TAIL),
                                       sizeof *t->fetched_stamps);
    }
    if (tensor_given(t->model.rope)) {
        Tensor host = t->model.rope;
        host.data = mem_alloc(tensor_bytes(host));
        model_fill_rope(&t->model, host);
        backend->upload(backend, t->model.rope.data, host.data, tensor_bytes(host));
        backend->sync(backend);
        free(host.data);
    }
    return 0;
}

void trainer_close(Trainer *t)
{
    if (t->backend != NULL && t->backend->forget != NULL) {
        t->backend->forget(t->backend);
    }
    for (int i = 0; i < 3; i++) {
        if (t->blocks[i] != NULL) {
            t->backend->release(t->backend, t->blocks[i]);
        }
    }
    adamw_free(&t->adamw);
    ddp_free(&t->ddp);
    model_free(&t->model);
    free(t->fetched_stamps);
    *t = (Trainer){0};
}

void trainer_trace(Trainer *t, Trace *trace)
{
    if (t->backend->forget != NULL) {
        t->backend->forget(t->backend);
    }
    t->ctx.trace = trace;
}

void trainer_connect(Trainer *t, Comm *comm, Channel *channel)
{
    t->comm = comm;
    t->ddp.channel = channel;
}

size_t trainer_peak_bytes(const Trainer *t)
{
    return t->state.peak + t->ctx.saved.peak + t->ctx.scratch.peak;
}

size_t trainer_peak_kind(const Trainer *t, MemKind kind)
{
    return t->state.peak_by_kind[kind] + t->ctx.saved.peak_by_kind[kind] +
           t->ctx.scratch.peak_by_kind[kind];
}
