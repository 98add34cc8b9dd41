/* A step: micro-steps with their communication, the update, evaluation, and results that are
 * fetched later. Parts that are the same each time go through the backend's recorder. */
#include "train/trainer.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tensor/rounding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void tell(Trainer *t, Phase phase, bool begins)
{
    if (t->hook != NULL && !t->ctx.dry && phase != PHASE_COUNT) {
        t->hook(t->hook_user, phase, begins);
    }
}

/* Ends the part of the step that is under way and begins another; PHASE_COUNT: none. */
static void enter(Trainer *t, Phase part)
{
    tell(t, t->part, false);
    t->part = part;
    tell(t, t->part, true);
}

/* Part of a step that the backend computes: what the host does is not what the device does then. */
static void enter_computed(Trainer *t, Phase part, int stamp)
{
    if (trainer_is_stamped(t)) {
        t->backend->stamp(t->backend, t->stamps + stamp);
    } else {
        enter(t, part);
    }
}

static bool has_ranks(const Trainer *t)
{
    return t->setup.ddp.ranks > 1;
}

/* Arrays that follow each other on both sides go as one: to a device, every upload costs its way
 * there. */
static void send_batch(Trainer *t, HostBatch host)
{
    const int32_t *from[] = {host.ids, host.targets, host.order,
                             tensor_given(t->starts) ? host.starts : NULL};
    char *to[] = {t->ids.data, t->targets.data, t->order.data, t->starts.data};
    size_t each = tensor_bytes(t->ids);
    int64_t count = tensor_count(t->ids);
    for (int i = 0, next; !t->ctx.dry && i < 4; i = next) {
        size_t bytes = each;
        for (next = i + 1; next < 4 && from[i] != NULL && from[next] == from[next - 1] + count &&
                           to[next] == to[next - 1] + each;
             next++) {
            bytes += each;
        }
        if (from[i] != NULL) {
            t->backend->upload(t->backend, to[i], from[i], bytes);
        }
    }
}

/* Tokens of the update so far that do not count. Their number is sent with the last micro-step,
 * where the backend has another one: the sum over ranks replaces it. */
static void count_left_out(Trainer *t, HostBatch host, int64_t micro)
{
    if (t->ctx.dry) {
        return;
    }
    t->left_out = micro == 0 ? 0 : t->left_out;
    for (int64_t i = 0, rows = tensor_count(t->targets); i < rows; i++) {
        t->left_out += host.targets[i] < 0;
    }
    if (micro + 1 == t->setup.accum && (has_ranks(t) || t->left_out != t->left_out_sent)) {
        Tensor to = t->optimizer.left_out;
        float narrow = (float)t->left_out;
        t->left_out_sent = t->left_out;
        t->left_out_acc = (double)t->left_out;
        if (to.dtype == DT_F32) {
            memcpy(&t->left_out_acc, &narrow, sizeof narrow);
        }
        t->backend->upload(t->backend, to.data, &t->left_out_acc, tensor_bytes(to));
    }
}

/* Random bits for rounding gradients are a function of the seed, the update, the micro-step and the
 * element's number. */
#define GRADS_STREAM 0x6772616473u
#define GRADS_MICRO_BITS 20

static void send_rounding(Trainer *t, int64_t micro)
{
    if (t->ctx.dry || !t->setup.low_grads) {
        return;
    }
    RngBlock random = rng_block(t->setup.optimizer.seed, GRADS_STREAM,
                                (uint64_t)t->step << GRADS_MICRO_BITS | (uint64_t)micro);
    t->host_rounding[HYPER_KEY1] = (float)(random.word[0] >> (32 - ROUNDING_KEY_BITS));
    t->host_rounding[HYPER_KEY2] = (float)(random.word[1] >> (32 - ROUNDING_KEY_BITS));
    Tensor to = t->ddp.rounding;
    t->backend->upload(t->backend, to.data, t->host_rounding, tensor_bytes(to));
}

static DeviceBatch device_batch(const Trainer *t)
{
    return (DeviceBatch){t->setup.batch, t->setup.seq, t->ids, t->targets, t->order, t->starts};
}

/* What the backend may record: a micro-step whose gradients are assigned, one whose gradients
 * are added, the last one when there are ranks to send to, the update, and the measurement of
 * stamps. */
enum { RECORD_FIRST, RECORD_REST, RECORD_LAST, RECORD_UPDATE, RECORD_STAMPS };

static void run_recorded(Trainer *t, int slot, void (*body)(void *))
{
    trace_enter(t->ctx.trace, slot);
    if (t->setup.graph && !t->ctx.dry && t->backend->replay != NULL) {
        t->backend->replay(t->backend, slot, body, t);
    } else {
        body(t);
    }
    trace_leave(t->ctx.trace);
}

static void on_ready(void *ddp, int64_t from)
{
    ddp_ready(ddp, from);
}

/* A device tells by itself how long that took. */
static void on_stall(void *trainer, bool begins)
{
    Trainer *t = trainer;
    bool amid = t->part == PHASE_FORWARD || t->part == PHASE_LOSS || t->part == PHASE_BACKWARD;
    tell(t, amid && !trainer_is_stamped(t) ? PHASE_COMM_EXPOSED : PHASE_COUNT, begins);
}

/* Weights come from other ranks, and are needed here. */
static void on_need(void *trainer, int64_t offset, int64_t count)
{
    Trainer *t = trainer;
    if (ddp_cuts_weights(&t->setup.ddp)) {
        ddp_fetch(&t->ddp, &t->ctx, offset, t->back);
    }
    ddp_wait_for(&t->ddp, ddp_awaited(&t->ddp, offset, count));
    trainer_unpack(t, offset);
}

static void note_stalled(Trainer *t, int stamp)
{
    if (trainer_is_stamped(t)) {
        channel_note_stalled(t->ddp.channel, t->stamps + stamp);
    }
}

/* gather: weights come back from other ranks meanwhile. All of them are needed, and so waited
 * for, by the end; but where they are dropped again, until the end of the backward pass. */
static void forward(Trainer *t, bool gather)
{
    Ctx *c = &t->ctx;
    if (ddp_cuts_weights(&t->setup.ddp)) {
        if (gather) {
            note_stalled(t, STAMP_STALLED_BEFORE);
            ddp_drop(&t->ddp);
        }
        model_forward(c, &t->model, device_batch(t), t->setup.keep);
        if (gather) {
            note_stalled(t, STAMP_STALLED_AFTER);
        }
        return;
    }
    if (gather) {
        note_stalled(t, STAMP_STALLED_BEFORE);
        ddp_gather(&t->ddp, trainer_weights(t));
        if (t->model.quantised) { /* codes are of whole matrices, and scales of all of them */
            on_need(t, 0, t->model.params.flat);
            model_quantise(c, &t->model);
        } else {
            c->need = on_need;
            c->need_user = t;
        }
    }
    model_forward(c, &t->model, device_batch(t), t->setup.keep);
    if (gather) {
        c->need = NULL;
        ddp_wait(&t->ddp);
        note_stalled(t, STAMP_STALLED_AFTER);
    }
}

static bool has_scattered_weights(const Trainer *t)
{
    return ddp_is_sharded(&t->ddp) && t->ddp.channel != NULL;
}

/* What a pass tells the ranks of on its way. */
static void begin_pass(Trainer *t, bool sends)
{
    Ctx *c = &t->ctx;
    t->back = false;
    t->ddp.stalls = on_stall;
    t->ddp.stalls_user = t;
    c->ready = sends ? on_ready : NULL;
    c->ready_user = &t->ddp;
    if (trainer_takes_all(t)) {
        c->need = on_need;
        c->need_user = t;
        trainer_clear_desk(t);
    }
}

static void end_pass(Trainer *t)
{
    t->ctx.ready = NULL;
    if (trainer_takes_all(t)) {
        t->ctx.need = NULL;
    }
}

/* mode: the first micro-step of an update sets gradients, later ones add. last: this is the
 * micro-step after which the gradients are complete, and other ranks have theirs. Where gradients
 * are in rooms they are sent in every micro-step, and, where ranks keep parts of them, set. */
static void compute(Trainer *t, Mode mode, bool last)
{
    Ctx *c = &t->ctx;
    const TrainerSetup *s = &t->setup;
    double scale =
        1.0 / (double)trainer_tokens(s); /* the update makes it one by those that count */
    scale /= has_ranks(t) ? s->ddp.ranks : 1;
    bool piece = s->noise == NOISE_PIECES && mode == MODE_SET;
    bool send = last || ddp_has_rooms(&s->ddp);
    Mode grad_mode = ddp_cuts_grads(&s->ddp) ? MODE_SET : mode;
    if (send) {
        t->ddp.own_sq = s->noise == NOISE_PIECES ? t->piece_sq : TENSOR_NONE;
        t->ddp.measures = piece; /* bucket by bucket, before other ranks' gradients are in it */
        ddp_begin(&t->ddp, c, mode == MODE_SET, last);
    }
    begin_pass(t, send);
    enter_computed(t, PHASE_FORWARD, STAMP_START);
    trace_body(c->trace, "forward");
    forward(t, mode == MODE_SET && has_scattered_weights(t));
    enter_computed(t, PHASE_LOSS, STAMP_FORWARD);
    trace_part(c->trace, "loss");
    ddp_arrive(&t->ddp);
    model_head(c, &t->model, t->losses, scale, true, grad_mode);
    op_sum(c, t->losses, scale, t->loss, mode);
    if (last) {
        ddp_sum(&t->ddp, t->sums);
    }
    enter_computed(t, PHASE_BACKWARD, STAMP_LOSS);
    trace_part(c->trace, "backward");
    t->back = true;
    model_backward(c, &t->model, grad_mode);
    model_end(c, &t->model);
    end_pass(t);
    if (piece && !send) {
        op_sum_squares(c, t->optimizer.grad, t->piece_sq, MODE_SET);
    }
    if (send && !last && (trainer_is_stamped(t) || !has_ranks(t))) { /* a part of backward */
        ddp_end(&t->ddp);
        send = false;
    }
    enter_computed(t, send ? PHASE_COMM_EXPOSED : PHASE_COUNT, STAMP_BACKWARD);
    if (send) {
        ddp_end(&t->ddp);
        enter_computed(t, PHASE_COUNT, STAMP_COMM);
    }
}

static void compute_first(void *trainer)
{
    compute(trainer, MODE_SET, false);
}

static void compute_rest(void *trainer)
{
    compute(trainer, MODE_ADD, false);
}

static void compute_last(void *trainer)
{
    Trainer *t = trainer;
    compute(t, t->setup.accum > 1 ? MODE_ADD : MODE_SET, true);
}

/* Sharded, each rank has the gradients, and then the new weights, of its own part. */
static void update(void *trainer)
{
    Trainer *t = trainer;
    trace_body(t->ctx.trace, "optimizer");
    optimizer_norm(&t->ctx, &t->optimizer);
    if (ddp_is_sharded(&t->ddp)) {
        ddp_sum_shards(&t->ddp, t->optimizer.norm_sq);
        ddp_wait(&t->ddp);
    }
    optimizer_step(&t->ctx, &t->optimizer);
    trainer_rescale(t);
    enter_computed(t, PHASE_COUNT, STAMP_UPDATE);
}

/* Where the copies of update number `update` arrive: stamps of its micro-steps but the last,
 * then results. */
static int read_slot(const Trainer *t, int64_t update, int64_t micro)
{
    return (int)(update % 2 * t->setup.accum + micro);
}

void trainer_micro_step(Trainer *t, HostBatch host, int64_t micro)
{
    t->micro = micro;
    enter(t, PHASE_DATA_MOVE);
    send_batch(t, host);
    count_left_out(t, host, micro);
    send_rounding(t, micro);
    trainer_make_codes(t);
    if (trainer_is_stamped(t)) {
        enter(t, PHASE_LAUNCH);
    }
    if (has_ranks(t) && micro + 1 == t->setup.accum) {
        run_recorded(t, RECORD_LAST, compute_last);
    } else if (micro == 0) {
        run_recorded(t, RECORD_FIRST, compute_first);
    } else {
        run_recorded(t, RECORD_REST, compute_rest);
    }
    ddp_passed(&t->ddp);
    t->scattered = false;
    if (trainer_is_stamped(t) && micro + 1 < t->setup.accum) {
        t->backend->read_start(t->backend, read_slot(t, t->posted, micro), t->stamps,
                               STAMP_MICRO * sizeof *t->stamps);
    }
    enter(t, PHASE_COUNT);
}

void trainer_update(Trainer *t, double rate, int64_t step)
{
    t->micro = -1;
    enter(t, trainer_is_stamped(t) ? PHASE_LAUNCH : PHASE_OPTIMIZER);
    optimizer_prepare(&t->ctx, &t->optimizer, rate, step);
    run_recorded(t, RECORD_UPDATE, update);
    t->step = step + 1;
    ddp_drop(&t->ddp); /* here: what is replayed tells the host nothing */
    t->scattered = has_scattered_weights(t) && !ddp_cuts_weights(&t->setup.ddp);
    enter(t, PHASE_COUNT);
}

void trainer_settle(Trainer *t)
{
    if (t->scattered) {
        ddp_gather(&t->ddp, trainer_weights(t));
        on_need(t, 0, t->model.params.flat);
        if (t->model.quantised) {
            model_quantise(&t->ctx, &t->model);
        }
        t->scattered = false;
    }
}

/* Number `at` of acc's type. */
static double widen(const void *raw, int at, DType dtype)
{
    return dtype == DT_F64 ? ((const double *)raw)[at] : ((const float *)raw)[at];
}

int64_t trainer_ahead(const Trainer *t)
{
    return t->backend->read_start != NULL ? 1 : 0;
}

void trainer_post(Trainer *t)
{
    PACER_ASSERT(t->posted - t->fetched <= trainer_ahead(t), "%lld results are not fetched",
                 (long long)(t->posted - t->fetched));
    if (t->backend->read_start != NULL) {
        t->backend->read_start(t->backend, read_slot(t, t->posted, t->setup.accum - 1),
                               t->results.data, tensor_bytes(t->results));
    }
    t->posted++;
}

int trainer_step(Trainer *t, Prefetch *prefetch, double rate, int64_t step, double *waited)
{
    const TrainerSetup *s = &t->setup;
    for (int64_t micro = 0; micro < s->accum; micro++) {
        Batch batch;
        t->micro = micro;
        enter(t, PHASE_DATA_LOAD);
        int code = prefetch_next(prefetch, &batch, waited);
        enter(t, PHASE_COUNT);
        if (code != 0) {
            return code;
        }
        trainer_micro_step(t, (HostBatch){batch.tokens, batch.targets, batch.order, batch.starts},
                           micro);
        /* The loss of all ranks does not tell that of this rank's own sequences; the tokens' losses
         * are those of the last micro-step until the next one's head. No part of what is recorded,
         * so that updates without it cost nothing more. */
        if (step == 0 && t->comm != NULL) {
            op_sum(&t->ctx, t->losses, 1.0 / (double)trainer_tokens(s), t->own_loss,
                   micro == 0 ? MODE_SET : MODE_ADD);
        }
    }
    trainer_update(t, rate, step);
    trainer_post(t);
    return 0;
}

/* The update's results, and its stamps where there are any; the last copy is waited for, which
 * means all. */
static void read_results(Trainer *t, void *raw)
{
    Backend *backend = t->backend;
    int64_t last = t->setup.accum - 1;
    backend->read_wait(backend, read_slot(t, t->fetched, last), raw, tensor_bytes(t->results));
    if (!trainer_is_stamped(t)) {
        return;
    }
    for (int64_t micro = 0; micro < last; micro++) {
        backend->read_wait(backend, read_slot(t, t->fetched, micro),
                           t->fetched_stamps + micro * STAMP_MICRO,
                           STAMP_MICRO * sizeof *t->fetched_stamps);
    }
    memcpy(t->fetched_stamps + last * STAMP_MICRO, (char *)raw + FETCH_COUNT * sizeof(double),
           STAMP_COUNT * sizeof *t->fetched_stamps);
}

void trainer_fetch(Trainer *t, double *loss, double *grad_norm)
{
    PACER_ASSERT(t->fetched < t->posted, "nothing was posted");
    double raw[FETCH_COUNT + STAMP_COUNT];
    enter(t, trainer_is_stamped(t) ? PHASE_WAIT : PHASE_OPTIMIZER);
    if (t->backend->read_wait != NULL) {
        read_results(t, raw);
    } else {
        t->backend->download(t->backend, raw, t->results.data, tensor_bytes(t->results));
    }
    enter(t, PHASE_COUNT);
    t->fetched++;
    DType acc = t->loss.dtype;
    double tokens = t->optimizer.tokens, left_out = widen(raw, FETCH_LEFT_OUT, acc);
    double mean = left_out == 0 ? 1 : left_out < tokens ? tokens / (tokens - left_out) : 0;
    *loss = mean * widen(raw, FETCH_LOSS, acc);
    *grad_norm = mean * sqrt(widen(raw, FETCH_NORM_SQ, acc));
    t->fetched_own_loss = mean * widen(raw, FETCH_OWN_LOSS, acc);
    double ranks = t->setup.ddp.ranks > 1 ? t->setup.ddp.ranks : 1;
    bool gains = t->setup.noise == NOISE_GAINS;
    double pieces = gains ? (double)t->setup.batch : ranks * (double)t->setup.accum;
    double summed = gains ? pieces : ranks; /* of how many pieces FETCH_PIECE_SQ is a sum */
    t->fetched_piece_sq = mean * mean * pieces * pieces / summed * widen(raw, FETCH_PIECE_SQ, acc);
    t->fetched_whole_sq =
        gains ? mean * mean * widen(raw, FETCH_GAINS_SQ, acc) : *grad_norm * *grad_norm;
    t->fetched_counted = tokens - left_out;
}

void trainer_warm(Trainer *t)
{
    if (!trainer_is_stamped(t)) {
        return;
    }
    int64_t rows = t->setup.batch * t->setup.seq;
    int32_t *host = mem_zalloc((size_t)rows * 2, sizeof *host), *order = host + rows;
    for (int64_t i = 0; i < rows; i++) {
        order[i] = (int32_t)i;
    }
    send_batch(t, (HostBatch){host, host, order, host});
    trainer_make_codes(t);
    char *scales;
    int code = trainer_scales_text(t, &scales);
    compute(t, MODE_SET, false);
    if (t->setup.accum > 1) {
        compute(t, MODE_ADD, false);
    }
    t->backend->sync(t->backend);
    if (scales != NULL && code == 0) {
        trainer_scales_take(t, scales);
    }
    free(scales);
    free(host);
}

#define COST_STAMPS 64

static void stamp_often(void *trainer)
{
    Trainer *t = trainer;
    for (int i = 0; i < COST_STAMPS; i++) {
        t->backend->stamp(t->backend, t->stamps + (i == 0 ? STAMP_START : STAMP_FORWARD));
    }
}

/* As they are in a step: recorded, where steps are. */
double trainer_stamp_cost(Trainer *t)
{
    if (!trainer_is_stamped(t)) {
        return 0;
    }
    for (int round = 0; round < 3; round++) {
        run_recorded(t, RECORD_STAMPS, stamp_often);
    }
    int64_t stamps[STAMP_COUNT];
    t->backend->download(t->backend, stamps, t->stamps, sizeof stamps);
    return 1e-9 * (double)(stamps[STAMP_FORWARD] - stamps[STAMP_START]) / (COST_STAMPS - 1);
}

double trainer_evaluate(Trainer *t, HostBatch host)
{
    Ctx *c = &t->ctx;
    PACER_ASSERT(!t->scattered, "weights of other ranks are missing");
    send_batch(t, host);
    trainer_make_codes(t);
    c->watching = false;
    begin_pass(t, false);
    model_evaluate(c, &t->model, device_batch(t), t->losses, t->loss);
    end_pass(t);
    c->watching = true;
    if (c->dry) {
        return 0;
    }
    double raw;
    t->backend->download(t->backend, &raw, t->loss.data, tensor_bytes(t->loss));
    return widen(&raw, 0, t->loss.dtype);
}
