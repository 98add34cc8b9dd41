/* Master weights and moments between host memory and where they are kept: on this rank, or, with
 * zero1 and more, on the rank that each piece belongs to. */
#include "train/trainer.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "tensor/rounding.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((int64_t)1 << 20) /* elements of a parameter handled at a time */

static Tensor buffer_of(const Trainer *t, int which)
{
    return which == STATE_PARAMS ? t->optimizer.param : t->optimizer.state[which];
}

/* Whether it is in memory of the host, where pieces of an update are taken back to in the
 * backend's own time. */
static bool is_away(const Trainer *t, int which)
{
    return which == STATE_PARAMS ? t->optimizer.host_param : t->optimizer.host_states;
}

static void put(Trainer *t, int which, Tensor to, const void *from)
{
    if (is_away(t, which)) {
        t->backend->sync(t->backend);
        memcpy(to.data, from, tensor_bytes(to));
    } else {
        t->backend->upload(t->backend, to.data, from, tensor_bytes(to));
    }
}

static void get(Trainer *t, int which, void *to, Tensor from)
{
    if (is_away(t, which)) {
        t->backend->sync(t->backend);
        memcpy(to, from.data, tensor_bytes(from));
    } else {
        t->backend->download(t->backend, to, from.data, tensor_bytes(from));
    }
}

DType trainer_state_dtype(const Trainer *t, int which)
{
    DType dtype = buffer_of(t, which).dtype;
    return dtype == DT_REST ? DT_F32 : dtype;
}

static bool is_split(const Trainer *t, int which)
{
    return buffer_of(t, which).dtype == DT_REST;
}

/* Weights in f32 may be kept whole by every rank; anything else only by its keeper. */
DdpPiece trainer_piece(const Trainer *t, int which, int64_t offset, int64_t end)
{
    bool whole = which == STATE_PARAMS && !trainer_keeps_masters(t);
    DdpPiece piece =
        whole ? (DdpPiece){offset, end - offset, offset, -1} : ddp_piece(&t->ddp, offset, end);
    piece.own = optimizer_state_at(&t->optimizer, which, piece.own);
    return piece;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint16_t trainer_low_of(const Trainer *t, float master)
{
    return is_split(t, STATE_PARAMS) ? master_split(bits_of(master)).low : bf16_from_f32(master);
}

/* The copy that the model reads, when it is of another type than the master's: of all weights, or
 * of this rank's. Calls are of one parameter's elements. */
static void write_low(Trainer *t, int64_t offset, int64_t count, const float *from)
{
    Backend *backend = t->backend;
    uint16_t *low = mem_alloc((size_t)PIECE * sizeof *low);
    bool cut = ddp_cuts_weights(&t->setup.ddp);
    for (int64_t at = offset, end = offset + count; at < end;) {
        int64_t stop = end - at < PIECE ? end : at + PIECE;
        DdpPiece piece = {at, stop - at, at, -1};
        piece = cut ? ddp_piece(&t->ddp, at, stop) : piece;
        int64_t place = trainer_low_at(t, piece);
        if (ddp_keeps(&t->ddp, piece) && place >= 0) {
            for (int64_t i = 0; i < piece.count; i++) {
                low[i] = trainer_low_of(t, from[at - offset + i]);
            }
            Tensor to = tensor_rows(t->optimizer.low, place, piece.count);
            backend->upload(backend, to.data, low, tensor_bytes(to));
            backend->sync(backend);
        }
        at += piece.count;
    }
    free(low);
}

void trainer_write_state(Trainer *t, int which, int64_t offset, int64_t count, const void *host)
{
    Backend *backend = t->backend;
    Tensor flat = buffer_of(t, which);
    size_t size = dtype_size(flat.dtype);
    uint16_t *rest = NULL;
    if (is_split(t, which)) {
        rest = mem_alloc((size_t)count * sizeof *rest);
        for (int64_t i = 0; i < count; i++) {
            rest[i] = master_split(bits_of(((const float *)host)[i])).rest;
        }
    }
    const char *from = rest != NULL ? (const char *)rest : host;
    for (int64_t at = offset, end = offset + count; at < end;) {
        DdpPiece piece = trainer_piece(t, which, at, end);
        if (ddp_keeps(&t->ddp, piece)) {
            Tensor to = tensor_rows(flat, piece.own, piece.count);
            put(t, which, to, from + (size_t)(at - offset) * size);
        }
        at += piece.count;
    }
    if (which == STATE_PARAMS && tensor_given(t->optimizer.low)) {
        write_low(t, offset, count, host);
    }
    if (which == STATE_PARAMS) {
        ddp_drop(&t->ddp);
    }
    t->codes_behind = t->codes_behind || (which == STATE_PARAMS && t->model.quantised);
    backend->sync(backend);
    free(rest);
}

void trainer_read_own(Trainer *t, int which, DdpPiece piece, void *to)
{
    Backend *backend = t->backend;
    PACER_ASSERT(which != STATE_PARAMS || !t->scattered, "weights of other ranks are missing");
    Tensor from = tensor_rows(buffer_of(t, which), piece.own, piece.count);
    if (!is_split(t, which)) {
        get(t, which, to, from);
        return;
    }
    Tensor low = tensor_rows(t->optimizer.low, trainer_low_at(t, piece), piece.count);
    uint16_t *halves = mem_alloc(2 * tensor_bytes(from)), *rest = halves + piece.count;
    backend->download(backend, halves, low.data, tensor_bytes(low));
    get(t, which, rest, from);
    for (int64_t i = 0; i < piece.count; i++) {
        uint32_t bits = master_join(halves[i], rest[i]);
        memcpy((char *)to + (size_t)i * sizeof bits, &bits, sizeof bits);
    }
    free(halves);
}

int trainer_read_state(Trainer *t, int which, int64_t offset, int64_t count, void *host)
{
    size_t size = dtype_size(trainer_state_dtype(t, which));
    int code = 0;
    for (int64_t at = offset, end = offset + count; code == 0 && at < end;) {
        DdpPiece piece = trainer_piece(t, which, at, end);
        char *to = (char *)host + (size_t)(at - offset) * size;
        size_t bytes = (size_t)piece.count * size;
        if (ddp_keeps(&t->ddp, piece)) {
            trainer_read_own(t, which, piece, to);
        }
        if (piece.keeper >= 0) {
            code = comm_broadcast(t->comm, to, bytes, piece.keeper);
        }
        at += piece.count;
    }
    return code;
}

void trainer_read_grads(const Trainer *t, int64_t offset, int64_t count, void *host)
{
    Tensor from = tensor_rows(t->optimizer.grad, offset, count);
    if (t->optimizer.host_grad) {
        t->backend->sync(t->backend);
        memcpy(host, from.data, tensor_bytes(from));
    } else {
        t->backend->download(t->backend, host, from.data, tensor_bytes(from));
    }
    for (int64_t i = count - 1; from.dtype == DT_BF16 && i >= 0; i--) { /* in place, from behind */
        ((float *)host)[i] = f32_from_bf16(((const uint16_t *)host)[i]);
    }
}

void trainer_init_params(Trainer *t, uint64_t seed)
{
    const ParamTable *table = &t->model.params;
    PACER_ASSERT(trainer_state_dtype(t, STATE_PARAMS) == DT_F32, "master weights are %s",
                 dtype_name(t->optimizer.param.dtype));
    float *values = mem_alloc((size_t)PIECE * sizeof *values);
    for (int row = 0; row < table->count; row++) {
        const Param *param = &table->rows[row];
        for (int64_t at = 0; at < param->count; at += PIECE) {
            int64_t n = param->count - at < PIECE ? param->count - at : PIECE;
            params_init_values(table, row, seed, at, n, values);
            trainer_write_state(t, STATE_PARAMS, param->offset + at, n, values);
        }
    }
    free(values);
}

/* Scales and this rank's largest values so far, in one array on the host: SCALE_COUNT + 1 each. */
static float *fetch_scales(Trainer *t, size_t *count)
{
    const ModelQuant *quant = &t->quant;
    int64_t scales = quant->scales.dim[0], parts = quant->largest.dim[1];
    *count = (size_t)scales * (SCALE_COUNT + 1);
    float *host = mem_alloc(*count * sizeof *host);
    float *largest = mem_alloc(tensor_bytes(quant->largest));
    t->backend->download(t->backend, host, quant->scales.data, tensor_bytes(quant->scales));
    t->backend->download(t->backend, largest, quant->largest.data, tensor_bytes(quant->largest));
    for (int64_t i = 0; i < scales; i++) {
        host[scales * SCALE_COUNT + i] = largest[i * parts + quant->part];
    }
    free(largest);
    return host;
}

static void send_scales(Trainer *t, const float *host)
{
    const ModelQuant *quant = &t->quant;
    Backend *backend = t->backend;
    int64_t scales = quant->scales.dim[0], parts = quant->largest.dim[1];
    float *largest = mem_zalloc((size_t)(scales * parts), sizeof *largest);
    for (int64_t i = 0; i < scales; i++) {
        largest[i * parts + quant->part] = host[scales * SCALE_COUNT + i];
    }
    backend->upload(backend, quant->scales.data, host, tensor_bytes(quant->scales));
    backend->upload(backend, quant->largest.data, largest, tensor_bytes(quant->largest));
    backend->sync(backend);
    free(largest);
}

/* Inputs of products are of the size of a norm's outputs, gradients of that of the loss's at most;
 * both are only for the first update. The last scale, of the gradient by logits, stays: no value is
 * above 1 / tokens, most are ten thousand times smaller, and so it needs no room. */
#define FIRST_INPUT 16.0f

void trainer_scales_reset(Trainer *t)
{
    if (!t->model.quantised) {
        return;
    }
    const TrainerSetup *s = &t->setup;
    int64_t count = model_quant_scales(&t->model), kind = model_quant_weights(&t->model);
    float *host = mem_zalloc((size_t)count * (SCALE_COUNT + 1), sizeof *host);
    double tokens = (double)s->batch * (double)s->seq * (double)s->accum;
    tokens *= s->ddp.ranks > 1 ? s->ddp.ranks : 1;
    for (int64_t i = kind; i < count; i++) {
        host[count * SCALE_COUNT + i] = i < 2 * kind ? FIRST_INPUT : (float)(1 / tokens);
    }
    host[count * SCALE_COUNT + count - 1] = ldexpf((float)(1 / tokens), -SCALE_ROOM);
    send_scales(t, host);
    op_rescale(&t->ctx, t->quant.scales, t->quant.largest);
    free(host);
    size_t numbers;
    host = fetch_scales(t, &numbers);
    for (int64_t i = 0; i < count - 1; i++) {
        host[i * SCALE_COUNT + SCALE_HELD] = 0; /* what is measured takes the guess's place */
    }
    send_scales(t, host);
    t->scaled = false;
    free(host);
}

/* The largest values of whole weights, of which each rank has seen its part. */
static int join_largest(Trainer *t, float *largest)
{
    int64_t count = model_quant_weights(&t->model);
    if (!ddp_cuts_weights(&t->setup.ddp) || t->comm == NULL) {
        return 0;
    }
    double *all = mem_alloc((size_t)count * sizeof *all);
    for (int64_t i = 0; i < count; i++) {
        all[i] = largest[i];
    }
    int code = comm_max(t->comm, all, (int)count);
    for (int64_t i = 0; i < count; i++) {
        largest[i] = (float)all[i];
    }
    free(all);
    return code;
}

/* Eight digits for each number: its bits. */
int trainer_scales_text(Trainer *t, char **text)
{
    *text = NULL;
    if (!t->model.quantised) {
        return 0;
    }
    size_t count;
    float *host = fetch_scales(t, &count);
    int code = join_largest(t, host + model_quant_scales(&t->model) * SCALE_COUNT);
    *text = mem_alloc(8 * count + 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &host[i], sizeof bits);
        snprintf(*text + 8 * i, 9, "%08" PRIx32, bits);
    }
    free(host);
    return code;
}

/* Gradients are divided by the tokens of an update. Where those of a checkpoint, whose scales are
 * in `host`, had another number, its scales of gradients follow: the last one, which no
 * measurement moves, says by how much. A guess of no update yet is made anew. */
static void follow_tokens(Trainer *t, float *host, const float *own)
{
    int64_t count = model_quant_scales(&t->model), first = 2 * model_quant_weights(&t->model);
    int64_t last = (count - 1) * SCALE_COUNT + SCALE_HELD;
    float then = host[last], now = own[last];
    if (then == now || !(then > 0) || !isfinite(then)) {
        send_scales(t, host);
        return;
    }
    for (int64_t i = first; i < count; i++) {
        float *scale = host + i * SCALE_COUNT;
        if (scale[SCALE_HELD] == 0) {
            memcpy(scale, own + i * SCALE_COUNT, SCALE_COUNT * sizeof *scale);
        }
        scale[SCALE_HELD] *= now / then;
        host[count * SCALE_COUNT + i] = 0;
    }
    host[last] = now;
    send_scales(t, host);
    op_rescale(&t->ctx, tensor_rows(t->quant.scales, first, count - first),
               tensor_rows(t->quant.largest, first, count - first));
}

int trainer_scales_take(Trainer *t, const char *text)
{
    size_t count = (size_t)model_quant_scales(&t->model) * (SCALE_COUNT + 1);
    if (strlen(text) != 8 * count || strspn(text, "0123456789abcdef") != 8 * count) {
        return err_set(ERR_INPUT, "the scales of fp8 are damaged, or of another model");
    }
    float *host = mem_alloc(count * sizeof *host);
    for (size_t i = 0; i < count; i++) {
        char digits[9] = {0};
        memcpy(digits, text + 8 * i, 8);
        uint32_t bits = (uint32_t)strtoul(digits, NULL, 16);
        memcpy(&host[i], &bits, sizeof bits);
    }
    float *own = fetch_scales(t, &count);
    follow_tokens(t, host, own);
    t->scaled = host[SCALE_FACTOR] > 0;
    free(own);
    free(host);
    return 0;
}

bool trainer_overflow(Trainer *t, char name[MODEL_SCALE_NAME])
{
    bool found = false;
    size_t count;
    float *host = t->model.quantised ? fetch_scales(t, &count) : NULL;
    int64_t scales = model_quant_scales(&t->model);
    for (int64_t i = 0; i < scales && !found; i++) {
        found = !isfinite(host[i * SCALE_COUNT + SCALE_HELD]) ||
                !isfinite(host[scales * SCALE_COUNT + i]);
        if (found) {
            model_scale_name(&t->model, i, name);
        }
    }
    free(host);
    return found;
}

static uint64_t checksum_of(Trainer *t, Tensor values)
{
    uint32_t half[2] = {0};
    op_checksum(&t->ctx, values, t->checksum);
    if (!t->ctx.dry) {
        t->backend->download(t->backend, half, t->checksum.data, sizeof half);
    }
    return (uint64_t)half[1] << 32 | half[0];
}

/* Weights that are gathered are looked at as every rank gets them: a bucket after the other, whose
 * sums, by their number, are added up. */
uint64_t trainer_checksum(Trainer *t)
{
    Ddp *ddp = &t->ddp;
    trainer_settle(t);
    if (!ddp_cuts_weights(&t->setup.ddp)) {
        return checksum_of(t, trainer_weights(t));
    }
    uint64_t sum = 0;
    trainer_make_codes(t); /* which may be what is looked at */
    ddp_drop(ddp);
    for (int i = ddp->count - 1; i >= 0; i--) {
        const Bucket *bucket = &ddp->buckets[i];
        if (!t->ctx.dry) {
            ddp_fetch(ddp, &t->ctx, bucket->first, false);
            ddp_wait_for(ddp, bucket->ticket);
        }
        Tensor values = ddp_weights(ddp, bucket);
        if (bucket->kind == SENT_CODES) { /* four at a time */
            values = tensor_1d(values.data, DT_I32, bucket->count / (int64_t)sizeof(int32_t));
        }
        sum += checksum_of(t, values) * (2 * (uint64_t)i + 1);
    }
    return sum;
}
