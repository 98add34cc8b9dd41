#include "analyse/products.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/signals.h"
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_SECONDS 2e-3 /* that a sample should take */
#define REPEATS_MOST 200    /* calls in a sample */
#define SAMPLES_LEAST 3
#define SAMPLES_MOST 20
#define NOISE_BYTES ((size_t)4 << 20) /* of random numbers, which repeat behind that */
#define SLOT 0                        /* of the backend's recordings */

/* --- finding them --- */

static bool is_linear(OpId op)
{
    return op == OP_LINEAR_FORWARD || op == OP_LINEAR_BACKWARD_INPUT ||
           op == OP_LINEAR_BACKWARD_WEIGHT || op == OP_LINEAR_GELU_FORWARD ||
           op == OP_LINEAR_GELU_BACKWARD_INPUT || op == OP_QUANT_FORWARD ||
           op == OP_QUANT_BACKWARD_INPUT || op == OP_QUANT_BACKWARD_WEIGHT;
}

static void note(void *user, const TraceCall *call)
{
    ModelProducts *products = user;
    OpId op = call->op;
    if (!is_linear(op)) {
        return;
    }
    const int64_t *dim = call->shape.dim;
    for (int i = 0; i < products->count; i++) {
        ModelProduct *p = &products->items[i];
        if (p->op == op && p->rows == dim[0] && p->inputs == dim[1] && p->outputs == dim[2]) {
            p->calls++;
            return;
        }
    }
    if (products->count == PRODUCTS_MAX) {
        products->left_out++;
        return;
    }
    products->items[products->count++] = (ModelProduct){.op = op,
                                                        .rows = dim[0],
                                                        .inputs = dim[1],
                                                        .outputs = dim[2],
                                                        .calls = 1,
                                                        .flops = call->flops};
}

static Tensor unreal(DType dtype, int64_t count)
{
    return tensor_1d(NULL, dtype, count);
}

void products_of_model(ModelProducts *out, const ModelSpec *spec, DType dtype, int64_t batch,
                       int64_t seq, Backend *backend)
{
    *out = (ModelProducts){.count = 0};
    Model model;
    Ctx c;
    DType acc = dtype_accumulate(dtype);
    int64_t rows = batch * seq;
    model_init(&model, spec, dtype, backend->row_align > 0 ? backend->row_align : 1);
    model_bind(&model, unreal(model.act, model.params.flat), unreal(acc, model.params.flat),
               model_rope_shape(&model));
    if (model.quantised) {
        int64_t scales = model_quant_scales(&model);
        model_bind_quant(&model,
                         (ModelQuant){.scales = tensor_2d(NULL, DT_F32, scales, SCALE_COUNT),
                                      .largest = tensor_2d(NULL, DT_F32, scales, 1),
                                      .codes = unreal(DT_E4M3, model_quant_codes(&model))});
    }
    ctx_init(&c, backend);
    c.dry = true;
    c.note = note;
    c.note_user = out;
    DeviceBatch tokens = {.batch = batch,
                          .seq = seq,
                          .ids = unreal(DT_I32, rows),
                          .targets = unreal(DT_I32, rows),
                          .order = unreal(DT_I32, rows)};
    model_forward(&c, &model, tokens, KEEP_ALL);
    model_head(&c, &model, unreal(acc, rows), 1, true, MODE_SET);
    model_backward(&c, &model, MODE_SET);
    model_end(&c, &model);
    model_free(&model);
}

/* --- timing them --- */

typedef struct {
    Ctx c;
    const ModelProduct *product;
    Tensor x, w, y, bias; /* (rows, inputs), (outputs, inputs), (rows, outputs), (outputs) act */
    Tensor dw;            /* (outputs, inputs) acc */
    Tensor pre;           /* gelu's input: like y forward, like x backward */
    Quant x_codes, w_codes, y_codes;
    int repeats;
} Trial;

static Tensor push(Arena *arena, DType dtype, int64_t rows, int64_t width)
{
    return arena_push(arena, MEM_SCRATCH, dtype, 2, (int64_t[]){rows, width});
}

static Quant push_codes(Arena *arena, Tensor scale, int64_t rows, int64_t width)
{
    return (Quant){.rows = push(arena, DT_E4M3, rows, width),
                   .columns = push(arena, DT_E4M3, width, rows),
                   .stride = rows,
                   .scale = scale,
                   .largest = tensor_rows(scale, 0, 1)};
}

/* Codes, a scale for all of them, and what is made of them. */
static void push_coded(Trial *t, Arena *arena)
{
    const ModelProduct *p = t->product;
    Tensor scale = arena_push(arena, MEM_SCRATCH, DT_F32, 1, (int64_t[]){SCALE_COUNT});
    t->x_codes = push_codes(arena, scale, p->rows, p->inputs);
    t->w_codes = push_codes(arena, scale, p->outputs, p->inputs);
    t->y_codes = push_codes(arena, scale, p->rows, p->outputs);
    t->x = push(arena, DT_BF16, p->rows, p->inputs);
    t->y = push(arena, DT_BF16, p->rows, p->outputs);
    t->dw = push(arena, DT_F32, p->outputs, p->inputs);
}

static void push_operands(Trial *t, Arena *arena, DType dtype)
{
    const ModelProduct *p = t->product;
    if (dtype == DT_E4M3) {
        push_coded(t, arena);
        return;
    }
    t->x = push(arena, dtype, p->rows, p->inputs);
    t->w = push(arena, dtype, p->outputs, p->inputs);
    t->y = push(arena, dtype, p->rows, p->outputs);
    if (p->op == OP_LINEAR_BACKWARD_WEIGHT) {
        t->dw = push(arena, dtype_accumulate(dtype), p->outputs, p->inputs);
    }
    if (p->op == OP_LINEAR_GELU_FORWARD) {
        t->bias = arena_push(arena, MEM_SCRATCH, dtype, 1, &p->outputs);
        t->pre = push(arena, dtype, p->rows, p->outputs);
    }
    if (p->op == OP_LINEAR_GELU_BACKWARD_INPUT) {
        t->pre = push(arena, dtype, p->rows, p->inputs);
    }
}

static void call_once(Trial *t)
{
    Ctx *c = &t->c;
    switch (t->product->op) {
    case OP_LINEAR_FORWARD:
        op_linear_forward(c, t->x, t->w, TENSOR_NONE, t->y);
        break;
    case OP_LINEAR_BACKWARD_INPUT:
        op_linear_backward_input(c, t->y, t->w, t->x, MODE_SET);
        break;
    case OP_LINEAR_BACKWARD_WEIGHT:
        op_linear_backward_weight(c, t->x, t->y, t->dw, TENSOR_NONE, MODE_SET);
        break;
    case OP_LINEAR_GELU_FORWARD:
        op_linear_gelu_forward(c, t->x, t->w, t->bias, t->pre, t->y);
        break;
    case OP_LINEAR_GELU_BACKWARD_INPUT:
        op_linear_gelu_backward_input(c, t->y, t->w, t->pre, t->x);
        break;
    case OP_QUANT_FORWARD:
        op_quant_forward(c, t->x_codes, t->w_codes, TENSOR_NONE, t->y);
        break;
    case OP_QUANT_BACKWARD_INPUT:
        op_quant_backward_input(c, t->y_codes, t->w_codes, t->x, MODE_SET);
        break;
    case OP_QUANT_BACKWARD_WEIGHT:
        op_quant_backward_weight(c, t->x_codes, t->y_codes, t->dw, MODE_SET);
        break;
    default:
        PACER_ASSERT(false, "%s is no linear map", op_name(t->product->op));
    }
}

static void call_often(void *trial)
{
    Trial *t = trial;
    for (int i = 0; i < t->repeats; i++) {
        call_once(t);
    }
}

/* Seconds of one call, from an idle device until it is idle again. */
static double sample(Trial *t, bool recorded)
{
    Backend *backend = t->c.backend;
    backend->sync(backend);
    double started = clock_seconds();
    if (recorded) {
        backend->replay(backend, SLOT, call_often, t);
    } else {
        call_often(t);
    }
    backend->sync(backend);
    return (clock_seconds() - started) / t->repeats;
}

static void time_calls(Trial *t, ModelProduct *product, double seconds)
{
    Backend *backend = t->c.backend;
    double times[SAMPLES_MOST], spent = 0;
    t->repeats = 1;
    sample(t, false); /* chooses an algorithm, wakes threads, touches memory */
    double once = sample(t, false);
    double wanted = ceil(SAMPLE_SECONDS / fmax(once, 1e-9));
    t->repeats = wanted < REPEATS_MOST ? (int)wanted : REPEATS_MOST;
    bool recorded = backend->replay != NULL;
    if (recorded) {
        sample(t, true); /* as it is */
        sample(t, true); /* records */
    }
    int least = once > seconds ? 1 : SAMPLES_LEAST, count = 0;
    while (count < least || (spent < seconds && count < SAMPLES_MOST)) {
        times[count] = sample(t, recorded);
        spent += times[count] * t->repeats;
        count++;
    }
    if (recorded) {
        backend->forget(backend);
    }
    product->seconds = clock_quantile(times, (size_t)count, 0.5);
    product->samples = count;
}

/* NOISE_BYTES of numbers in [-1, 1): products of zeros run faster than any model will. Caller
 * frees. */
static char *make_noise(DType dtype)
{
    size_t count = NOISE_BYTES / dtype_size(dtype);
    char *noise = mem_alloc(NOISE_BYTES);
    for (size_t i = 0; i < count; i++) {
        float value = (float)(2 * rng_uniform(1, 0, i) - 1);
        if (dtype == DT_BF16) {
            ((uint16_t *)noise)[i] = bf16_from_f32(value);
        } else if (dtype == DT_E4M3) {
            ((uint8_t *)noise)[i] = e4m3_from_f32(value);
        } else {
            ((float *)noise)[i] = value;
        }
    }
    return noise;
}

static void measure(ModelProduct *product, Backend *backend, DType dtype, const char *noise,
                    double seconds)
{
    Trial t = {.product = product, .repeats = 1};
    Arena operands;
    arena_init_counting(&operands, "operands");
    push_operands(&t, &operands, dtype);
    ctx_init(&t.c, backend);
    t.c.dry = true;
    call_once(&t);
    size_t bytes = operands.peak, scratch = t.c.scratch.peak;
    size_t available = backend->available(backend);
    char *block = available > 0 && bytes + scratch > available
                      ? NULL
                      : backend->alloc(backend, bytes + scratch);
    product->too_large = block == NULL;
    if (block == NULL) {
        return;
    }
    for (size_t at = 0; at < bytes; at += NOISE_BYTES) {
        size_t part = bytes - at < NOISE_BYTES ? bytes - at : NOISE_BYTES;
        backend->upload(backend, block + at, noise, part);
    }
    backend->sync(backend);
    arena_init(&operands, "operands", block, bytes);
    push_operands(&t, &operands, dtype);
    if (dtype == DT_E4M3) {
        const float ones[SCALE_COUNT] = {1, 1};
        backend->upload(backend, t.x_codes.scale.data, ones, sizeof ones);
    }
    ctx_init(&t.c, backend);
    arena_init(&t.c.scratch, "scratch", block + bytes, scratch);
    time_calls(&t, product, seconds);
    backend->release(backend, block);
}

int products_measure(ModelProducts *products, Backend *backend, DType dtype, double seconds)
{
    char *noise = make_noise(dtype);
    int code = 0;
    for (int i = 0; i < products->count && code == 0; i++) {
        ModelProduct *p = &products->items[i];
        log_live("timing product %d of %d: %s, %lld x %lld x %lld", i + 1, products->count,
                 op_name(p->op), (long long)p->rows, (long long)p->inputs, (long long)p->outputs);
        measure(p, backend, dtype, noise, seconds / products->count);
        code = signals_check();
    }
    free(noise);
    return code;
}

double products_best(const ModelProducts *products)
{
    double best = 0;
    for (int i = 0; i < products->count; i++) {
        const ModelProduct *p = &products->items[i];
        best = p->seconds > 0 ? fmax(best, p->flops / p->seconds) : best;
    }
    return best;
}

cJSON *products_json(const ModelProducts *products, double best)
{
    cJSON *array = json_array();
    for (int i = 0; i < products->count; i++) {
        const ModelProduct *p = &products->items[i];
        cJSON *item = json_object();
        json_put_text(item, "op", op_name(p->op));
        json_put_whole(item, "rows", p->rows);
        json_put_whole(item, "inputs", p->inputs);
        json_put_whole(item, "outputs", p->outputs);
        json_put_whole(item, "calls", p->calls);
        if (p->seconds > 0) {
            json_put_number(item, "seconds", p->seconds);
            json_put_whole(item, "samples", p->samples);
            json_put_number(item, "flops_s", p->flops / p->seconds);
            json_put(item, "share", best > 0 ? value_of(p->flops / p->seconds / best) : (Value){0});
        }
        json_append(array, item);
    }
    return array;
}
