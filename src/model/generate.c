#include "model/generate.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

#define SAMPLE_STREAM 0x73616D706C65u /* apart from initialisation and shuffling */

/* A pass over the first seq of g->ids; the last row's logits into g->logits where they are wanted. */
static void forward(Generator *g, int64_t seq, bool logits)
{
    DeviceBatch batch = {.batch = 1, .seq = seq, .ids = tensor_rows(g->ids, 0, seq)};
    g->model->decode = g->decode;
    model_forward(&g->ctx, g->model, batch, KEEP_NOTHING);
    if (logits) {
        model_logits(&g->ctx, g->model, seq - 1, g->logits);
    }
    model_end(&g->ctx, g->model);
    g->model->decode = (Decode){0};
}

static void lay_out(Generator *g, Arena *state)
{
    const ModelSpec *spec = &g->model->spec;
    g->ids = arena_push(state, MEM_BATCH, DT_I32, 1, &spec->context);
    g->logits = arena_push(state, MEM_HEAD, g->model->act, 2, (int64_t[]){1, g->model->vocab_rows});
    Tensor states = model_decode_shape(g->model, 1);
    if (tensor_given(states)) {
        g->decode.sequences = 1;
        g->decode.states = arena_push(state, MEM_MIXER, states.dtype, states.rank, states.dim);
        g->decode.position = arena_push(state, MEM_BATCH, DT_I32, 1, (int64_t[]){1});
    }
}

static bool carries_state(const Generator *g)
{
    return tensor_given(g->decode.states);
}

int generator_open(Generator *g, Model *model, Backend *backend)
{
    *g = (Generator){.model = model};
    PACER_ASSERT(model->act != DT_F64, "sampling from a model in %s", dtype_name(model->act));
    ctx_init(&g->ctx, backend);
    g->ctx.attention = ATTENTION_NAIVE; /* takes any shape, and one sequence is no burden */
    g->ctx.dry = true;
    Arena state;
    arena_init_counting(&state, "state");
    lay_out(g, &state);
    forward(g, carries_state(g) ? 1 : model->spec.context, true);
    const size_t sizes[3] = {g->ctx.saved.peak, g->ctx.scratch.peak, state.peak};
    for (int i = 0; i < 3; i++) {
        g->blocks[i] = backend->alloc(backend, sizes[i]);
        if (g->blocks[i] == NULL) {
            generator_close(g);
            return err_set(ERR_MEMORY, "cannot allocate %zu bytes to sample from the model",
                           sizes[i]);
        }
    }
    arena_init(&g->ctx.saved, "saved", g->blocks[0], sizes[0]);
    arena_init(&g->ctx.scratch, "scratch", g->blocks[1], sizes[1]);
    arena_init(&state, "state", g->blocks[2], sizes[2]);
    lay_out(g, &state);
    g->ctx.dry = false;
    size_t vocab = (size_t)model->spec.vocab;
    g->host_logits = mem_zalloc(vocab, sizeof *g->host_logits);
    g->ranked = mem_zalloc(vocab, sizeof *g->ranked);
    generator_restart(g);
    return 0;
}

void generator_restart(Generator *g)
{
    g->taken = 0;
    if (carries_state(g)) {
        model_decode_start(&g->ctx, g->model, g->decode);
        g->model->decode = (Decode){0};
    }
}

void generator_close(Generator *g)
{
    for (int i = 0; i < 3; i++) {
        if (g->blocks[i] != NULL) {
            g->ctx.backend->release(g->ctx.backend, g->blocks[i]);
        }
    }
    free(g->host_logits);
    free(g->ranked);
    *g = (Generator){0};
}

/* Logits of the comparison under way; qsort carries no argument. */
static _Thread_local const float *ranking;

static int by_logit(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (ranking[x] != ranking[y]) {
        return ranking[x] < ranking[y] ? 1 : -1;
    }
    return (x > y) - (x < y);
}

/* One pass over the last tokens. */
static void look_back(Generator *g, const int32_t *tokens, int64_t count)
{
    Backend *backend = g->ctx.backend;
    int64_t context = g->model->spec.context, seq = count < context ? count : context;
    backend->upload(backend, g->ids.data, tokens + (count - seq), (size_t)seq * sizeof *tokens);
    forward(g, seq, true);
}

/* Every token that the states have not seen. */
static void go_on(Generator *g, const int32_t *tokens, int64_t count)
{
    Backend *backend = g->ctx.backend;
    PACER_ASSERT(count > g->taken, "%lld tokens, %lld of them taken already", (long long)count,
                 (long long)g->taken);
    for (; g->taken < count; g->taken++) {
        /* Only the place in the mini-batch matters; a text may be longer than an int32_t counts. */
        int32_t position = (int32_t)(g->taken % g->model->spec.mini);
        backend->upload(backend, g->ids.data, tokens + g->taken, sizeof *tokens);
        backend->upload(backend, g->decode.position.data, &position, sizeof position);
        forward(g, 1, g->taken == count - 1);
    }
}

const float *generator_logits(Generator *g, const int32_t *tokens, int64_t count)
{
    Backend *backend = g->ctx.backend;
    int64_t vocab = g->model->spec.vocab;
    if (carries_state(g)) {
        go_on(g, tokens, count);
    } else {
        look_back(g, tokens, count);
    }
    size_t bytes = (size_t)vocab * dtype_size(g->logits.dtype);
    backend->download(backend, g->host_logits, g->logits.data, bytes);
    if (g->logits.dtype == DT_BF16) { /* widened in place, from the end */
        const uint16_t *narrow = (const uint16_t *)g->host_logits;
        for (int64_t i = vocab - 1; i >= 0; i--) {
            g->host_logits[i] = f32_from_bf16(narrow[i]);
        }
    }
    return g->host_logits;
}

int32_t generator_next(Generator *g, const int32_t *tokens, int64_t count,
                       const SampleSettings *settings)
{
    int64_t vocab = g->model->spec.vocab;
    generator_logits(g, tokens, count);
    for (int64_t i = 0; i < vocab; i++) {
        g->ranked[i] = (int32_t)i;
    }
    ranking = g->host_logits;
    qsort(g->ranked, (size_t)vocab, sizeof *g->ranked, by_logit);
    int64_t among = settings->top_k > 0 && settings->top_k < vocab ? settings->top_k : vocab;
    double top = g->host_logits[g->ranked[0]], sum = 0;
    for (int64_t i = 0; i < among; i++) {
        sum += exp((g->host_logits[g->ranked[i]] - top) / settings->temperature);
    }
    double left = sum * rng_uniform(settings->seed, SAMPLE_STREAM, g->drawn++);
    for (int64_t i = 0; i < among; i++) {
        left -= exp((g->host_logits[g->ranked[i]] - top) / settings->temperature);
        if (left < 0) {
            return g->ranked[i];
        }
    }
    return g->ranked[0];
}
