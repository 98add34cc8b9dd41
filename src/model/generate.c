/* Three ways for tokens to go through the model: a pass over all that a sequence holds; the same
 * pass, which also fills the cache; and a step, one token of each sequence. All three end with the
 * logits of the last token of each sequence on the host. Which way is taken never changes what a
 * sequence holds: with and without the cache the model sees the same tokens, and the logits are the
 * same up to rounding.
 *
 * A pass is over one sequence at a time: its memory does not grow with the number of sequences,
 * and all of them begin with the same one. */
#include "model/generate.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/attention_kind.h"

#include <stdio.h>
#include <stdlib.h>

/* A step is the same work for every token: what changes lies in g->ids. The slots before it are
 * the trainer's. */
#define STEP_RECORDING (BACKEND_RECORDINGS - 1)

/* Logits of rows [first, first + logits' rows) of the pass, when any are wanted. */
static void run(Generator *g, DeviceBatch batch, const Decode *decode, int64_t first, Tensor logits)
{
    g->model->decode = *decode;
    model_forward(&g->ctx, g->model, batch, KEEP_NOTHING);
    if (tensor_given(logits)) {
        model_logits(&g->ctx, g->model, first, logits);
    }
    model_end(&g->ctx, g->model);
    g->model->decode = (Decode){0};
}

/* Tokens that a pass over `held` takes. Of those behind the last one, rows of the cache are
 * written again before they are read. */
static int64_t pass_length(const Generator *g, int64_t held)
{
    return model_pass_length(g->ctx.backend, held, g->model->spec.context);
}

/* Over g->ids, of which the first `held` are what sequences [first, first + count) hold. Their
 * logits go to the row of the first of them. */
static void pass(Generator *g, int64_t held, int64_t first, int64_t count)
{
    int64_t seq = pass_length(g, held);
    DeviceBatch batch = {.batch = 1, .seq = seq, .ids = tensor_rows(g->ids, 0, seq)};
    Decode decode = g->decode;
    decode.filling = tensor_given(decode.states);
    decode.fill_first = first;
    decode.fill_count = count;
    run(g, batch, &decode, held - 1, tensor_rows(g->logits, first, 1));
}

/* The token of each sequence that lies in g->ids. */
static void step(Generator *g, bool logits)
{
    DeviceBatch batch = {
        .batch = g->sequences, .seq = 1, .ids = tensor_rows(g->ids, 0, g->sequences)};
    run(g, batch, &g->decode, 0, logits ? g->logits : TENSOR_NONE);
}

static void step_with_logits(void *generator)
{
    step(generator, true);
}

static void forget_recording(Backend *backend)
{
    if (backend->forget != NULL) {
        backend->forget(backend);
    }
}

static bool forgets(const Generator *g)
{
    return g->model->layers[0].mixer->keeps_tokens;
}

static void lay_out(Generator *g, Arena *state)
{
    const ModelSpec *spec = &g->model->spec;
    int64_t step_ids = g->sequences + 1;
    int64_t ids = forgets(g) && spec->context > step_ids ? spec->context : step_ids;
    int64_t logits[] = {g->sequences, g->model->vocab_rows};
    g->ids = arena_push(state, MEM_BATCH, DT_I32, 1, &ids);
    g->logits = arena_push(state, MEM_HEAD, g->model->act, 2, logits);
    if (g->cached || !forgets(g)) {
        Tensor states = model_decode_shape(g->model, g->sequences);
        g->decode.sequences = g->sequences;
        g->decode.states = arena_push(state, MEM_MIXER, states.dtype, states.rank, states.dim);
        g->decode.position = tensor_rows(g->ids, g->sequences, 1);
    }
}

/* Everything that generation may do, to be measured. */
static void rehearse(Generator *g)
{
    if (forgets(g)) {
        pass(g, g->model->spec.context, 0, 1);
    }
    if (tensor_given(g->decode.states)) {
        step(g, true);
    }
}

/* Where the logits come to on the host. */
static int place_logits(Generator *g)
{
    Backend *backend = g->ctx.backend;
    size_t bytes = tensor_bytes(g->logits);
    g->host_logits = backend->host_alloc(backend, bytes);
    if (g->host_logits == NULL) {
        return err_set(ERR_MEMORY, "cannot allocate %zu bytes of the host for the model's logits",
                       bytes);
    }
    if (g->logits.dtype != DT_F32) {
        g->rows = mem_zalloc((size_t)tensor_count(g->logits), sizeof *g->rows);
    }
    return 0;
}

int generator_open(Generator *g, Model *model, Backend *backend, int64_t sequences, bool cached)
{
    PACER_ASSERT(sequences > 0, "%lld sequences", (long long)sequences);
    *g = (Generator){.model = model, .sequences = sequences, .cached = cached};
    ctx_init(&g->ctx, backend);
    if (forgets(g)) {
        const ModelSpec *s = &model->spec;
        AttentionUse use = {s, 1, s->context, false, model->act};
        g->ctx.attention = model_attention(backend, ATTENTION_FLASH, &use);
    }
    size_t sizes[WORK_BLOCKS];
    workspace_count(&g->work, &g->ctx);
    lay_out(g, &g->work.state);
    rehearse(g);
    workspace_peaks(&g->work, &g->ctx, sizes);
    char purpose[64];
    snprintf(purpose, sizeof purpose, "to generate %lld sequence%s from the model",
             (long long)sequences, sequences == 1 ? "" : "s");
    int code = workspace_reserve(&g->work, &g->ctx, sizes, purpose);
    if (code != 0) {
        generator_close(g);
        return code;
    }
    lay_out(g, &g->work.state);
    forget_recording(backend);
    memset(g->ctx.stats, 0, sizeof g->ctx.stats);
    code = place_logits(g);
    if (code != 0) {
        generator_close(g);
        return code;
    }
    g->next = mem_zalloc((size_t)sequences + 1, sizeof *g->next);
    if (forgets(g)) {
        g->tokens = mem_zalloc((size_t)(sequences * model->spec.context), sizeof *g->tokens);
    }
    return 0;
}

void generator_close(Generator *g)
{
    if (g->work.blocks[WORK_STATE] != NULL) {
        forget_recording(g->ctx.backend);
    }
    workspace_free(&g->work, g->ctx.backend);
    if (g->host_logits != NULL) {
        g->ctx.backend->host_release(g->ctx.backend, g->host_logits);
    }
    free(g->rows);
    free(g->tokens);
    free(g->next);
    *g = (Generator){0};
}

static void *logits_row(const Generator *g, int64_t sequence)
{
    size_t row = (size_t)g->model->vocab_rows * dtype_size(g->logits.dtype);
    return (char *)g->host_logits + (size_t)sequence * row;
}

/* The first `rows` rows of the logits. */
static void fetch_logits(Generator *g, int64_t rows)
{
    Backend *backend = g->ctx.backend;
    Tensor from = tensor_rows(g->logits, 0, rows);
    backend->download(backend, g->host_logits, from.data, tensor_bytes(from));
}

static void upload_ids(Generator *g, const int32_t *ids, int64_t count)
{
    Backend *backend = g->ctx.backend;
    backend->upload(backend, g->ids.data, ids, (size_t)count * sizeof *ids);
}

/* The tokens in g->next, one of each sequence. */
static void take_step(Generator *g, bool logits)
{
    /* Of a text without limit only the place in the mini-batch matters. */
    int64_t position = forgets(g) ? g->held : g->held % g->model->spec.mini;
    g->next[g->sequences] = (int32_t)position;
    upload_ids(g, g->next, g->sequences + 1);
    Backend *backend = g->ctx.backend;
    if (logits && backend->replay != NULL) {
        backend->replay(backend, STEP_RECORDING, step_with_logits, g);
    } else {
        step(g, logits);
    }
    g->held++;
    if (logits) {
        fetch_logits(g, g->sequences);
    }
}

static int32_t *tokens_of(const Generator *g, int64_t sequence)
{
    return g->tokens + sequence * g->model->spec.context;
}

/* Attention reads the beginning of all sequences in one pass. */
static void read_beginning(Generator *g, const int32_t *tokens, int64_t count)
{
    int64_t context = g->model->spec.context;
    g->held = count < context ? count : context;
    for (int64_t s = 0; s < g->sequences; s++) {
        memcpy(tokens_of(g, s), tokens + (count - g->held), (size_t)g->held * sizeof *tokens);
    }
    double start = clock_seconds();
    upload_ids(g, tokens_of(g, 0), pass_length(g, g->held));
    pass(g, g->held, 0, g->sequences);
    double given = clock_seconds();
    fetch_logits(g, 1);
    log_debug("the prompt's pass over %lld tokens: %.2f ms until all of it was given to the "
              "device, %.2f ms more until it was done",
              (long long)pass_length(g, g->held), 1e3 * (given - start),
              1e3 * (clock_seconds() - given));
    for (int64_t s = 1; s < g->sequences; s++) {
        memcpy(logits_row(g, s), g->host_logits, tensor_bytes(tensor_rows(g->logits, 0, 1)));
    }
}

void generator_begin(Generator *g, const int32_t *tokens, int64_t count)
{
    PACER_ASSERT(count > 0, "a text begins with %lld tokens", (long long)count);
    if (forgets(g)) {
        read_beginning(g, tokens, count);
        return;
    }
    model_decode_start(&g->ctx, g->model, g->decode);
    g->model->decode = (Decode){0};
    g->held = 0;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t s = 0; s < g->sequences; s++) {
            g->next[s] = tokens[i];
        }
        take_step(g, i == count - 1);
    }
}

/* Makes room for another token where there is none: the older half goes. */
static bool forget(Generator *g)
{
    int64_t context = g->model->spec.context;
    if (g->held < context) {
        return false;
    }
    int64_t kept = context / 2;
    for (int64_t s = 0; s < g->sequences; s++) {
        int32_t *tokens = tokens_of(g, s);
        memmove(tokens, tokens + (context - kept), (size_t)kept * sizeof *tokens);
    }
    g->held = kept;
    return true;
}

void generator_append(Generator *g, const int32_t *next)
{
    PACER_ASSERT(g->held > 0, "append before begin");
    memcpy(g->next, next, (size_t)g->sequences * sizeof *next);
    if (!forgets(g)) {
        take_step(g, true);
        return;
    }
    bool anew = forget(g) || !g->cached;
    for (int64_t s = 0; s < g->sequences; s++) {
        tokens_of(g, s)[g->held] = next[s];
    }
    if (!anew) {
        take_step(g, true);
        return;
    }
    g->held++;
    for (int64_t s = 0; s < g->sequences; s++) {
        upload_ids(g, tokens_of(g, s), pass_length(g, g->held));
        pass(g, g->held, s, 1);
    }
    fetch_logits(g, g->sequences);
}

/* to (count) from values of another type. */
static void bring_to_f32(const void *from, DType dtype, int64_t count, float *to)
{
    PACER_ASSERT(dtype == DT_BF16 || dtype == DT_F64, "logits in %s", dtype_name(dtype));
    if (dtype == DT_BF16) {
        const uint16_t *halves = from;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            to[i] = f32_from_bf16(halves[i]);
        }
        return;
    }
    const double *wide = from;
    for (int64_t i = 0; i < count; i++) {
        to[i] = (float)wide[i];
    }
}

const float *generator_logits(const Generator *g, int64_t sequence)
{
    PACER_ASSERT(sequence >= 0 && sequence < g->sequences, "sequence %lld of %lld",
                 (long long)sequence, (long long)g->sequences);
    const void *fetched = logits_row(g, sequence);
    if (g->rows == NULL) {
        return fetched;
    }
    float *row = g->rows + sequence * g->model->vocab_rows;
    bring_to_f32(fetched, g->logits.dtype, g->model->spec.vocab, row);
    return row;
}
