#include "train/trainer.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "train/checkpoint_parts.h"

#include <stdlib.h>
#include <string.h>

/* Elements that an offloaded update brings at a time: copies that are long enough for the link, in
 * rooms that are small beside what is away. */
#define PIECE_LEAST ((int64_t)64 << 10)
#define PIECE_MOST ((int64_t)4 << 20)
#define PIECES 32 /* of what a rank keeps, between these */

static int64_t offload_piece(const Trainer *t)
{
    int64_t part = t->ddp.owned / PIECES / ARENA_ALIGN * ARENA_ALIGN;
    part = part > PIECE_LEAST ? part : PIECE_LEAST;
    part = part < PIECE_MOST ? part : PIECE_MOST;
    return t->setup.offload_piece > 0 ? t->setup.offload_piece : part;
}

static Tensor push_state(Trainer *t, MemKind kind, DType dtype, int64_t count)
{
    return arena_push(&t->work.state, kind, dtype, 1, &count);
}

static Tensor push_host(Trainer *t, MemKind kind, DType dtype, int64_t count)
{
    return arena_push(&t->ctx.host, kind, dtype, 1, &count);
}

Tensor trainer_weights(const Trainer *t)
{
    return tensor_given(t->optimizer.low) ? t->optimizer.low : t->optimizer.param;
}

static bool has_low(const Trainer *t)
{
    return t->model.act != dtype_accumulate(t->model.act);
}

bool trainer_keeps_masters(const Trainer *t)
{
    return has_low(t) || ddp_cuts_weights(&t->setup.ddp);
}

int64_t trainer_low_at(const Trainer *t, DdpPiece piece)
{
    int64_t offset = piece.offset, decayed = t->model.params.decayed;
    if (ddp_cuts_weights(&t->setup.ddp)) {
        const Bucket *bucket = &t->ddp.buckets[ddp_bucket_of(&t->ddp, offset)];
        return bucket->kind == SENT_PLAIN ? bucket->kind_own + piece.own - bucket->own : -1;
    }
    return offset < t->low_end ? offset : offset < decayed ? -1 : offset - decayed + t->low_end;
}

/* Masters of which the copy that the model reads is a part. */
static bool has_split(const Trainer *t)
{
    return has_low(t) && !t->model.quantised && t->setup.optimizer.state == DT_BF16;
}

/* They are made of masters in the device's memory, and turned where they arrive. */
bool trainer_sends_codes(const TrainerSetup *setup, const Backend *backend)
{
    return setup->dtype == DT_E4M3 && backend->ops.quant_turn != NULL &&
           !offloads_optimizer(setup->offload);
}

/* What this rank updates of [first, end), where `range` says what else there is to say. What all
 * ranks keep is counted in the first one's norm. */
static void add_pieces(Trainer *t, int64_t first, int64_t end, OptimizerRange range)
{
    bool sharded = ddp_is_sharded(&t->ddp);
    for (DdpPiece piece; ddp_own_piece(&t->ddp, first, end, &piece); first += piece.count) {
        first = range.index = piece.offset;
        range.offset = ddp_cuts_grads(&t->ddp.setup) ? piece.own : piece.offset;
        range.low = has_low(t) ? trainer_low_at(t, piece) : -1;
        range.own = piece.own;
        range.master = trainer_keeps_masters(t) ? piece.own : piece.offset;
        range.count = piece.count;
        range.counted = !sharded || piece.keeper >= 0 || t->ddp.shard == 0;
        optimizer_add_range(&t->optimizer, range);
    }
}

/* The matrices of a parameter, which may have several packed. */
static void add_matrices(Trainer *t, const Param *param, int class)
{
    int64_t starts[] = {0, param->second, param->third}, columns = param->dim[1];
    int unit = ddp_has_rooms(&t->ddp.setup) ? ddp_bucket_of(&t->ddp, param->offset) : 0;
    for (int i = 0; i < 3 && (i == 0 || starts[i] > 0); i++) {
        int64_t end = i < 2 && starts[i + 1] > 0 ? starts[i + 1] : param->dim[0];
        optimizer_add_matrix(&t->optimizer,
                             (OptimizerMatrix){.offset = param->offset + starts[i] * columns,
                                               .rows = end - starts[i],
                                               .columns = columns,
                                               .class = class,
                                               .unit = unit});
    }
}

/* Rows of the table in the order of the buffer, each with the padding behind it. */
static void add_ranges(Trainer *t, bool decay)
{
    const ParamTable *table = &t->model.params;
    int64_t end = decay ? table->decayed : table->flat;
    for (int row = 0, next; row < table->count; row = next) {
        const Param *param = &table->rows[row];
        for (next = row + 1; next < table->count && table->rows[next].decay != decay; next++) {}
        if (param->decay != decay) {
            continue;
        }
        int64_t stop = next < table->count ? table->rows[next].offset : end;
        OptimizerRange range = {.class = optimizer_class(&t->optimizer, param), .decay = decay};
        if (t->optimizer.classes[range.class].rule->shape != NULL) {
            add_matrices(t, param, range.class);
        }
        add_pieces(t, param->offset, stop, range);
    }
}

/* On all ranks. */
static double update_tokens(const TrainerSetup *s)
{
    return (double)trainer_tokens(s) * (s->ddp.ranks > 1 ? s->ddp.ranks : 1);
}

static Tensor gather_grad(void *trainer, int64_t first, int64_t end, int64_t *at)
{
    Trainer *t = trainer;
    return ddp_gather_parts(&t->ddp, &t->ctx, first, end, at);
}

static void scatter_grad(void *trainer, int64_t first, int64_t end)
{
    Trainer *t = trainer;
    ddp_sum_parts(&t->ddp, &t->ctx, first, end);
}

/* A buffer as the model has it, of which the elements from low_end on may be missing. */
static ParamParts whole_parts(const Trainer *t, Tensor flat)
{
    int64_t others = t->model.params.flat - t->model.params.decayed, held = flat.dim[0] - others;
    return (ParamParts){tensor_rows(flat, 0, held), tensor_rows(flat, held, others), 0};
}

static const Bucket *bucket_of(const Trainer *t, int row)
{
    return &t->ddp.buckets[ddp_bucket_of(&t->ddp, t->model.params.rows[row].offset)];
}

/* Of what comes into rooms, row's bucket, and of what does not decay. What travels as codes has no
 * place. */
static ParamParts place_values(const void *trainer, int row)
{
    const Trainer *t = trainer;
    if (!ddp_cuts_weights(&t->setup.ddp)) {
        return whole_parts(t, trainer_weights(t));
    }
    const Bucket *bucket = bucket_of(t, row);
    Tensor held = bucket->kind == SENT_PLAIN ? ddp_weights(&t->ddp, bucket)
                                             : tensor_rows(t->ddp.weights[SENT_PLAIN], 0, 0);
    return (ParamParts){held, held, bucket->first};
}

static ParamParts place_grads(const void *trainer, int row)
{
    const Trainer *t = trainer;
    if (t->ddp.roomy == 0) {
        return whole_parts(t, t->optimizer.grad);
    }
    const Bucket *bucket = bucket_of(t, row);
    Tensor held = tensor_rows(t->ddp.grad, t->ddp.rooms[bucket->room].first, bucket->count);
    return (ParamParts){held, held, bucket->first};
}

/* Master weights, those that the model computes with, and rooms for what ranks send each other. */
static void lay_out_weights(Trainer *t)
{
    const DdpSetup *ddp = &t->setup.ddp;
    Optimizer *o = &t->optimizer;
    DType act = t->model.act, acc = dtype_accumulate(act);
    int64_t flat = t->model.params.flat, decayed = t->model.params.decayed;
    bool cut = ddp_cuts_weights(ddp);
    o->param =
        (o->host_param ? push_host : push_state)(t, MEM_PARAMS, has_split(t) ? DT_REST : acc,
                                                 trainer_keeps_masters(t) ? t->ddp.owned : flat);
    if (has_low(t)) {
        int64_t low = cut ? t->ddp.kept[SENT_PLAIN] : flat - decayed + t->low_end;
        o->low = push_state(t, MEM_PARAMS, act, low);
    }
    if (cut) {
        const int64_t *roomy = t->ddp.weights_roomy, *kept = t->ddp.kept;
        t->ddp.own_weights[SENT_PLAIN] = trainer_weights(t);
        t->ddp.weights[SENT_PLAIN] = push_state(t, MEM_PARAMS, act, roomy[SENT_PLAIN]);
        t->ddp.own_weights[SENT_CODES] = push_state(t, MEM_PARAMS, DT_E4M3, kept[SENT_CODES]);
        t->ddp.weights[SENT_CODES] = push_state(t, MEM_PARAMS, DT_E4M3, roomy[SENT_CODES]);
    }
    o->grad = (o->host_grad ? push_host : push_state)(t, MEM_GRADS, ddp->low ? DT_BF16 : acc,
                                                      ddp_cuts_grads(ddp) ? t->ddp.owned : flat);
    t->ddp.grad = o->grad;
    if (ddp_has_rooms(ddp)) {
        t->ddp.own_grad = o->grad;
        t->ddp.grad = push_state(t, MEM_GRADS, acc, t->ddp.roomy);
    }
    if ((ddp->ranks > 1 && ddp->wire == DT_BF16) || (ddp->low && ddp->offload)) {
        t->ddp.wire = push_state(t, MEM_GRADS, DT_BF16, t->ddp.grad.dim[0]);
    }
}

/* Takes every lasting tensor from t->state in a fixed order and binds the model to them. */
static void lay_out(Trainer *t)
{
    const TrainerSetup *s = &t->setup;
    const ParamTable *table = &t->model.params;
    DType act = t->model.act, acc = dtype_accumulate(act);
    int64_t rows = s->batch * s->seq;
    Optimizer *o = &t->optimizer;
    o->settings = s->optimizer;
    o->kind = optimizer_kind(s->optimizer.id);
    ddp_init(&t->ddp, &t->setup.ddp, table);
    /* Ranks compare and exchange the whole copy; one alone does without what only codes are of. */
    t->low_end = s->ddp.ranks > 1 ? table->decayed : model_quant_only(&t->model);
    add_ranges(t, true);
    add_ranges(t, false);
    bool elsewhere = ddp_is_sharded(&t->ddp) || t->setup.ddp.offload;
    optimizer_assign(o, t->ddp.shards, t->ddp.shard);
    o->gather = elsewhere ? gather_grad : NULL;
    o->scatter = elsewhere ? scatter_grad : NULL;
    o->user = t;
    o->products = t->backend->other_ops != NULL ? acc : act;
    o->host_states = offloads_optimizer(s->offload);
    o->host_grad = t->setup.ddp.offload;
    o->host_param = o->host_states && has_low(t);
    o->piece = offload_piece(t);
    lay_out_weights(t);
    for (int i = 0; i < optimizer_states(o->kind); i++) {
        int64_t count = optimizer_state_at(o, i, t->ddp.owned);
        o->state[i] = (o->host_states ? push_host : push_state)(
            t, MEM_OPTIMIZER, optimizer_state_dtype(o, acc), count);
    }
    o->hyper = push_state(t, MEM_CONSTANTS, DT_F32, (int64_t)o->hyper_rows * HYPER_COUNT);
    if (s->low_grads) {
        t->ddp.rounding = push_state(t, MEM_CONSTANTS, DT_F32, HYPER_COUNT);
    }
    t->results = push_state(t, MEM_CONSTANTS, DT_F64, FETCH_COUNT + STAMP_COUNT);
    Tensor numbers = tensor_1d(t->results.data, acc, FETCH_COUNT);
    t->sums = tensor_rows(numbers, FETCH_LOSS, FETCH_SUMS);
    t->loss = tensor_rows(numbers, FETCH_LOSS, 1);
    o->left_out = tensor_rows(numbers, FETCH_LEFT_OUT, 1);
    o->norm_sq = t->ddp.norm_sq = tensor_rows(numbers, FETCH_NORM_SQ, 1);
    t->own_loss = tensor_rows(numbers, FETCH_OWN_LOSS, 1);
    t->piece_sq = tensor_rows(numbers, FETCH_PIECE_SQ, 1);
    t->gains_sq = tensor_rows(numbers, FETCH_GAINS_SQ, 1);
    if (s->noise == NOISE_GAINS) {
        t->model.sequence_sq = t->piece_sq;
        t->model.gains_sq = t->gains_sq;
    }
    o->tokens = update_tokens(s);
    if (t->results.data != NULL) {
        t->stamps = (int64_t *)t->results.data + FETCH_COUNT;
    }
    Tensor rope = model_rope_shape(&t->model);
    if (tensor_given(rope)) {
        rope = arena_push(&t->work.state, MEM_CONSTANTS, rope.dtype, 2, rope.dim);
    }
    t->ids = push_state(t, MEM_BATCH, DT_I32, rows);
    t->targets = push_state(t, MEM_BATCH, DT_I32, rows);
    t->order = push_state(t, MEM_BATCH, DT_I32, rows);
    if (s->separate) {
        t->starts = push_state(t, MEM_BATCH, DT_I32, rows);
    }
    t->losses = push_state(t, MEM_HEAD, acc, rows);
    if (s->ddp.ranks > 1) {
        t->checksum = push_state(t, MEM_CONSTANTS, DT_I32, 2);
    }
    model_bind_places(&t->model, place_values, place_grads, t, rope);
    trainer_lay_out_codes(t);
}

static void begin(Trainer *t, const TrainerSetup *setup, Backend *backend)
{
    *t = (Trainer){.setup = *setup, .backend = backend, .part = PHASE_COUNT};
    ctx_init(&t->ctx, backend);
    t->ctx.attention = setup->attention;
    t->ctx.ttt_keep = setup->ttt_keep;
    model_init(&t->model, &setup->spec, setup->dtype,
               backend->row_align > 0 ? backend->row_align : 1);
    model_keep_plain(&t->model, setup->plain_products);
    mup_scale_params(&t->model, &setup->mup);
    t->model.like = setup->keep;
    t->model.offload = offloads_activations(setup->offload);
    t->setup.ddp.offload = offloads_gradients(setup->offload);
    t->setup.ddp.low = setup->low_grads;
    t->setup.ddp.codes = trainer_sends_codes(setup, backend);
    PACER_ASSERT(!ddp_stores_grads(&t->setup.ddp) || setup->ddp.ranks <= 1, "%d ranks",
                 setup->ddp.ranks);
    PACER_ASSERT(setup->offload == OFFLOAD_NONE || backend->copy != NULL, "%s copies nothing",
                 backend->name);
}

int trainer_check_sizes(const TrainerSetup *setup)
{
    const ModelSpec *s = &setup->spec;
    double rows = (double)setup->batch * (double)setup->seq, head = (double)s->head_dim;
    bool ttt = s->mixer == MIXER_TTT, naive = !ttt && setup->attention == ATTENTION_NAIVE;
    double inner = head * head * (s->ttt == TTT_MLP ? 8 : 1); /* of a head's inner model */
    double steps = (double)setup->seq / (double)(ttt ? s->mini : 1) + 1;
    const struct {
        const char *option; /* besides batch and seq */
        int64_t value;
        double elements; /* at least as many as the largest tensor or workspace has */
    } sizes[] = {
        {"d-model", s->width, rows * (3 * (double)s->width + (double)s->heads + 16)},
        {"ffn", s->ffn, rows * 2 * (double)s->ffn},
        {"seq (--attention naive) x --heads", s->heads,
         naive ? rows * (double)setup->seq * (double)s->heads : 0},
        {"d-model / heads", (int64_t)head,
         ttt ? 4 * (double)setup->batch * (double)s->heads * steps * inner : 0},
    };
    size_t largest = 0;
    for (size_t i = 1; i < sizeof sizes / sizeof sizes[0]; i++) {
        largest = sizes[i].elements > sizes[largest].elements ? i : largest;
    }
    double bytes = sizes[largest].elements * 4;
    if (bytes <= 0x1p50) {
        return 0;
    }
    return err_set(ERR_INPUT,
                   "--batch %lld x --seq %lld x --%s %lld makes tensors of some %.2g bytes, more "
                   "than 2^50, which cannot be planned: take less of one",
                   (long long)setup->batch, (long long)setup->seq, sizes[largest].option,
                   (long long)sizes[largest].value, bytes);
}

static void plan_total(TrainPlan *plan, const Backend *backend)
{
    size_t copy = backend->device == NULL ? plan->save_copy : 0;
    plan->total = size_sum(plan->blocks, size_sum(plan->loader, copy));
}

void trainer_plan(const TrainerSetup *setup, Backend *backend, TrainPlan *plan)
{
    Trainer t;
    if (trainer_check_sizes(setup) != 0) {
        *plan = (TrainPlan){.total = SIZE_MAX};
        return;
    }
    begin(&t, setup, backend);
    workspace_count(&t.work, &t.ctx);
    lay_out(&t);
    for (int64_t micro = 0, accum = setup->accum; micro < accum; micro++) {
        OpStat before[OP_COUNT];
        double copied[COPY_QUEUES];
        memcpy(before, t.ctx.stats, sizeof before);
        memcpy(copied, t.ctx.copied, sizeof copied);
        trainer_micro_step(&t, (HostBatch){0}, micro);
        if (micro == 1 && accum > 3) { /* all but the last are like it */
            ctx_repeat(&t.ctx, before, accum - 3);
            for (int i = 0; i < COPY_QUEUES; i++) {
                t.ctx.copied[i] += (t.ctx.copied[i] - copied[i]) * (double)(accum - 3);
            }
            micro = accum - 2;
        }
    }
    trainer_update(&t, 0, 0);
    memset(plan, 0, sizeof *plan);
    memcpy(plan->step, t.ctx.stats, sizeof plan->step);
    plan->flops_update = ctx_total(&t.ctx).flops;
    memcpy(plan->copied, t.ctx.copied, sizeof plan->copied);
    trainer_evaluate(&t, (HostBatch){0});
    if (setup->ddp.ranks > 1) {
        trainer_checksum(&t);
    }
    const Arena *arenas[] = {&t.work.state, &t.ctx.saved, &t.ctx.scratch};
    for (int i = 0; i < 3; i++) {
        for (int kind = 0; kind < MEM_KINDS; kind++) {
            plan->by_kind[kind] = size_sum(plan->by_kind[kind], arenas[i]->peak_by_kind[kind]);
        }
        plan->blocks = size_sum(plan->blocks, arenas[i]->peak);
    }
    workspace_peaks(&t.work, &t.ctx, plan->sizes);
    plan->host = plan->sizes[WORK_HOST];
    memcpy(plan->host_by_kind, t.ctx.host.peak_by_kind, sizeof plan->host_by_kind);
    plan->loader =
        prefetch_bytes(setup->batch, setup->seq, (uint64_t)setup->spec.vocab, setup->separate);
    plan->save_copy = setup->save_copy ? parts_own_bytes(&t) : 0;
    plan_total(plan, backend);
    plan->parameters = t.model.params.parameters;
    plan->uncut = ddp_uncut(&t.ddp);
    trainer_close(&t);
}

typedef struct {
    const Trainer *trainer;
    TrainerListener listener;
    int64_t times;
} Teller;

/* Copies that begin before the forward pass run beside it; what is done behind the backward pass
 * counts as a part of that. */
static TrainerPlace place_of(const Teller *teller)
{
    const Trainer *t = teller->trainer;
    int64_t last = t->setup.accum - 1;
    int kind = t->micro == 0 ? 0 : t->micro < last ? 1 : 2;
    int pass = t->part == PHASE_LOSS                                        ? 1
               : t->part == PHASE_BACKWARD || t->part == PHASE_COMM_EXPOSED ? 2
                                                                            : 0;
    bool update = t->micro < 0;
    return (TrainerPlace){update ? STRETCH_UPDATE : kind * STRETCH_PASSES + pass,
                          !update && pass == 2, teller->times};
}

static void tell_call(void *user, const TraceCall *call)
{
    const Teller *teller = user;
    teller->listener.call(teller->listener.user, call, place_of(teller));
}

static void tell_copy(void *user, CopyQueue queue, double bytes)
{
    const Teller *teller = user;
    teller->listener.copy(teller->listener.user, queue, bytes, place_of(teller));
}

void trainer_calls(const TrainerSetup *setup, Backend *backend, TrainerListener listener)
{
    Trainer t;
    Teller teller = {&t, listener, 1};
    begin(&t, setup, backend);
    workspace_count(&t.work, &t.ctx);
    lay_out(&t);
    t.ctx.note = tell_call;
    t.ctx.note_copy = tell_copy;
    t.ctx.note_user = &teller;
    for (int64_t micro = 0, accum = setup->accum; micro < accum; micro++) {
        bool alike = micro == 1 && accum > 2; /* all but the last */
        teller.times = alike ? accum - 2 : 1;
        trainer_micro_step(&t, (HostBatch){0}, micro);
        micro = alike ? accum - 2 : micro;
    }
    teller.times = 1;
    trainer_update(&t, 0, 0);
    trainer_close(&t);
}

double trainer_model_flops(const TrainerSetup *setup, Backend *backend)
{
    Trainer t;
    TrainerSetup plain = *setup;
    plain.keep = KEEP_ALL;
    plain.ttt_keep = true;
    plain.accum = 1;
    begin(&t, &plain, backend);
    workspace_count(&t.work, &t.ctx);
    lay_out(&t);
    trainer_micro_step(&t, (HostBatch){0}, 0);
    double flops = ctx_total(&t.ctx).flops;
    trainer_close(&t);
    return flops;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

void trainer_plan_join(TrainPlan *plan, const TrainPlan *other, const Backend *backend)
{
    plan->blocks = 0;
    for (int i = 0; i < WORK_BLOCKS; i++) {
        plan->sizes[i] = larger(plan->sizes[i], other->sizes[i]);
    }
    for (int kind = 0; kind < MEM_KINDS; kind++) {
        plan->by_kind[kind] = larger(plan->by_kind[kind], other->by_kind[kind]);
        plan->blocks = size_sum(plan->blocks, plan->by_kind[kind]);
        plan->host_by_kind[kind] = larger(plan->host_by_kind[kind], other->host_by_kind[kind]);
    }
    plan->host = plan->sizes[WORK_HOST];
    plan_total(plan, backend);
}

static void make_stamps(Trainer *t)
{
    free(t->fetched_stamps);
    t->fetched_stamps =
        mem_zalloc((size_t)(t->setup.accum * STAMP_MICRO + STAMP_TAIL), sizeof *t->fetched_stamps);
}

int trainer_open(Trainer *t, const TrainerSetup *setup, Backend *backend, const TrainPlan *plan)
{
    begin(t, setup, backend);
    int code =
        workspace_reserve(&t->work, &t->ctx, plan->sizes, "for the run; try a smaller --batch");
    if (code != 0) {
        trainer_close(t);
        return code;
    }
    /* Zero gradients, moments and the padding between parameters, which no kernel writes. */
    backend->zero(backend, t->work.blocks[WORK_STATE], plan->sizes[WORK_STATE]);
    if (plan->host > 0) {
        memset(t->work.blocks[WORK_HOST], 0, plan->host);
    }
    lay_out(t);
    trainer_scales_reset(t);
    if (trainer_is_stamped(t)) {
        make_stamps(t);
    }
    if (tensor_given(t->model.rope)) {
        rope_upload(&t->model, backend, t->model.rope);
    }
    return 0;
}

void rope_upload(const Model *model, Backend *backend, Tensor rope)
{
    Tensor host = rope;
    host.data = mem_alloc(tensor_bytes(host));
    model_fill_rope(model, host);
    backend->upload(backend, rope.data, host.data, tensor_bytes(host));
    backend->sync(backend);
    free(host.data);
}

void trainer_close(Trainer *t)
{
    if (t->backend != NULL && t->backend->forget != NULL) {
        t->backend->forget(t->backend);
    }
    workspace_free(&t->work, t->backend);
    optimizer_free(&t->optimizer);
    ddp_free(&t->ddp);
    model_free(&t->model);
    free(t->fetched_stamps);
    *t = (Trainer){0};
}

void trainer_set_accum(Trainer *t, int64_t accum)
{
    if (accum == t->setup.accum) {
        return;
    }
    PACER_ASSERT(t->posted == t->fetched, "results are under way");
    if (t->backend->forget != NULL) {
        t->backend->forget(t->backend);
    }
    t->setup.accum = accum;
    t->optimizer.tokens = update_tokens(&t->setup);
    if (t->fetched_stamps != NULL) {
        make_stamps(t);
    }
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
    return t->work.state.peak + t->ctx.saved.peak + t->ctx.scratch.peak;
}

size_t trainer_peak_host(const Trainer *t)
{
    return t->ctx.host.peak;
}

size_t trainer_peak_kind(const Trainer *t, MemKind kind)
{
    return t->work.state.peak_by_kind[kind] + t->ctx.saved.peak_by_kind[kind] +
           t->ctx.scratch.peak_by_kind[kind];
}
