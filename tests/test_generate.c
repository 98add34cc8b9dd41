/* Generation token by token against whole passes over what a sequence should hold, with and
 * without the cache. */
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cuda/cuda.h"
#include "model/generate.h"
#include "model/sample.h"
#include "ref/ref.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VOCAB 61
#define MOST 96 /* tokens of a text */

/* A model with random weights that are large enough for every part of it to matter. */
typedef struct {
    Backend *backend;
    Model model;
    void *values, *rope;
} Small;

static void *upload(Backend *backend, DType dtype, const float *values, int64_t count)
{
    Tensor host = tensor_1d(mem_zalloc((size_t)count, dtype_size(dtype)), dtype, count);
    for (int64_t i = 0; i < count; i++) {
        ref_put(host, i, values[i]);
    }
    void *block = backend->alloc(backend, tensor_bytes(host));
    assert_non_null(block);
    backend->upload(backend, block, host.data, tensor_bytes(host));
    backend->sync(backend);
    free(host.data);
    return block;
}

/* The wider the model, the smaller: activations of all have about the same size. */
static void fill_values(const ParamTable *table, int64_t width, float *values)
{
    float scale = sqrtf(24.0f / (float)width);
    static const float middle[] = {[INIT_NORMAL] = 0, [INIT_ZERO] = 0, [INIT_ONE] = 1};
    static const float spread[] = {[INIT_NORMAL] = 0.2f, [INIT_ZERO] = 0.1f, [INIT_ONE] = 0.1f};
    for (int row = 0; row < table->count; row++) {
        const Param *p = &table->rows[row];
        float *to = values + p->offset;
        rng_normals(3, (uint64_t)row, 0, (uint64_t)p->count, to);
        for (int64_t i = 0; i < p->count; i++) {
            to[i] = middle[p->init] + scale * spread[p->init] * to[i];
        }
    }
}

static void small_open(Small *small, const char *preset, SpecOverrides o, DType act,
                       Backend *backend)
{
    ModelSpec spec;
    o.layers = 2;
    o.ffn = 40;
    o.vocab = VOCAB;
    assert_int_equal(spec_resolve(preset, &o, 0, &spec), 0);
    *small = (Small){.backend = backend};
    Model *m = &small->model;
    model_init(m, &spec, act, 8); /* logits with padding behind the vocabulary */
    float *values = mem_zalloc((size_t)m->params.flat, sizeof *values);
    fill_values(&m->params, spec.width, values);
    small->values = upload(backend, act, values, m->params.flat);
    free(values);
    Tensor rope = model_rope_shape(m);
    if (tensor_given(rope)) {
        rope.data = mem_zalloc(1, tensor_bytes(rope));
        model_fill_rope(m, rope);
        small->rope = backend->alloc(backend, tensor_bytes(rope));
        backend->upload(backend, small->rope, rope.data, tensor_bytes(rope));
        backend->sync(backend);
        free(rope.data);
        rope.data = small->rope;
    }
    model_bind(m, tensor_1d(small->values, act, m->params.flat), TENSOR_NONE, rope);
}

static void small_close(Small *small)
{
    small->backend->release(small->backend, small->values);
    if (small->rope != NULL) {
        small->backend->release(small->backend, small->rope);
    }
    model_free(&small->model);
}

/* Logits (vocab) of the last of these tokens, by one pass over all of them. */
static double *logits_of_pass(Small *small, const int32_t *tokens, int64_t count)
{
    Backend *backend = small->backend;
    Model *m = &small->model;
    void *blocks[2] = {NULL, NULL};
    void *ids = backend->alloc(backend, (size_t)count * sizeof *tokens);
    backend->upload(backend, ids, tokens, (size_t)count * sizeof *tokens);
    Tensor host = tensor_2d(NULL, m->act, 1, m->vocab_rows);
    host.data = mem_zalloc(1, tensor_bytes(host));
    Ctx c;
    ctx_init(&c, backend);
    c.attention = ATTENTION_NAIVE;
    for (int dry = 1; dry >= 0; dry--) {
        c.dry = dry == 1;
        if (!c.dry) {
            blocks[0] = backend->alloc(backend, c.saved.peak);
            blocks[1] = backend->alloc(backend, c.scratch.peak);
            arena_init(&c.saved, "saved", blocks[0], c.saved.peak);
            arena_init(&c.scratch, "scratch", blocks[1], c.scratch.peak);
        }
        model_forward(&c, m,
                      (DeviceBatch){.batch = 1, .seq = count, .ids = tensor_1d(ids, DT_I32, count)},
                      KEEP_NOTHING);
        Tensor logits = ctx_scratch(&c, MEM_HEAD, m->act, 1, m->vocab_rows);
        model_logits(&c, m, count - 1, logits);
        if (!c.dry) {
            backend->download(backend, host.data, logits.data, tensor_bytes(logits));
        }
        model_end(&c, m);
        arena_release(&c.scratch, (ArenaMark){0});
    }
    double *values = mem_alloc(VOCAB * sizeof *values);
    for (int64_t i = 0; i < VOCAB; i++) {
        values[i] = ref_get(host, i);
    }
    backend->release(backend, ids);
    backend->release(backend, blocks[0]);
    backend->release(backend, blocks[1]);
    free(host.data);
    return values;
}

/* Fails unless the largest difference is within tolerance of the logits' size. f64 logits are
 * read where they are. */
static void expect_logits(const Generator *g, int64_t sequence, bool began, const double *want,
                          double tolerance, const char *what, int64_t place)
{
    const float *got = generator_logits(g, sequence);
    double squares = 0, worst = 0;
    for (int64_t i = 0; i < VOCAB; i++) {
        double value = got[i];
        if (g->logits.dtype ==
            DT_F64) { /* on the device the sequences of a beginning share one row */
            int64_t row = began ? 0 : sequence;
            value = ((const double *)g->logits.data)[row * g->logits.dim[1] + i];
        }
        double error = fabs(value - want[i]);
        worst = error <= worst ? worst : error;
        squares += want[i] * want[i];
    }
    if (!(worst <= tolerance * sqrt(squares / VOCAB))) {
        fail_msg("%s: sequence %d at token %d: logits differ by %g of %g", what, (int)sequence,
                 (int)place, worst, sqrt(squares / VOCAB));
    }
}

/* What a sequence should hold, kept by another hand than the generator's. */
typedef struct {
    int32_t text[MOST];
    int64_t count, first; /* those from first on are held */
} Window;

static void window_add(Window *w, const ModelSpec *spec, int32_t token)
{
    if (spec->mixer == MIXER_ATTENTION && w->count - w->first == spec->context) {
        w->first = w->count - spec->context / 2;
    }
    w->text[w->count++] = token;
}

static int32_t likeliest(const float *logits)
{
    return sample_token(logits, VOCAB, &(SampleSettings){.temperature = 0}, 0, 0, NULL);
}

#define SEQUENCES 3

/* Greedy texts of `tokens` tokens; the sequences part with the first new token. `longer` is the
 * same model with a context that is long enough for a pass over all that is held. */
static void compare(Small *small, Small *longer, const char *what, int64_t sequences, bool cached,
                    int64_t beginning, int64_t tokens, double tolerance)
{
    Generator g;
    const ModelSpec *spec = &small->model.spec;
    assert_int_equal(generator_open(&g, &small->model, small->backend, sequences, cached), 0);
    Window windows[SEQUENCES];
    for (int64_t s = 0; s < sequences; s++) {
        windows[s] = (Window){.count = beginning};
        for (int64_t i = 0; i < beginning; i++) {
            windows[s].text[i] = (int32_t)((i * 17 + i * i) % VOCAB);
        }
        if (spec->mixer == MIXER_ATTENTION && beginning > spec->context) {
            windows[s].first = beginning - spec->context;
        }
    }
    generator_begin(&g, windows[0].text, beginning);
    for (int64_t place = beginning; place < tokens; place++) {
        int32_t next[SEQUENCES];
        for (int64_t s = 0; s < sequences; s++) {
            const Window *w = &windows[s];
            double *want = logits_of_pass(longer, w->text + w->first, w->count - w->first);
            expect_logits(&g, s, place == beginning, want, tolerance, what, place);
            free(want);
            next[s] =
                (likeliest(generator_logits(&g, s)) + (place == beginning ? (int)s : 0)) % VOCAB;
            window_add(&windows[s], spec, next[s]);
        }
        generator_append(&g, next);
    }
    generator_close(&g);
}

typedef struct {
    const char *preset;
    SpecOverrides o;
} Kind;

static const Kind gpt2 = {"gpt2-124m", {.width = 30, .heads = 3, .context = 11}};
static const Kind llama = {"llama-22m", {.width = 24, .heads = 4, .kv_heads = 2, .context = 12}};
static const Kind wide_heads = {"llama-22m",
                                {.width = 128, .heads = 2, .kv_heads = 1, .context = 20}};
static const Kind ttt_linear = {
    "ttt-125m", {.width = 24, .heads = 3, .context = 10, .ttt = 1 + TTT_LINEAR, .mini = 4}};
static const Kind ttt_mlp = {
    "ttt-125m", {.width = 24, .heads = 3, .context = 10, .ttt = 1 + TTT_MLP, .mini = 4}};

static void compare_kind(const Kind *kind, DType act, Backend *backend, const char *what,
                         double tolerance)
{
    Small small, longer;
    SpecOverrides o = kind->o;
    small_open(&small, kind->preset, o, act, backend);
    bool ttt = small.model.spec.mixer == MIXER_TTT;
    o.context = ttt ? MOST : o.context;
    small_open(&longer, kind->preset, o, act, backend);
    int64_t context = small.model.spec.context, tokens = 2 * context + context / 2 + 3;
    for (int cached = 0; cached < 2; cached++) {
        compare(&small, &longer, what, SEQUENCES, cached == 1, 5, tokens, tolerance);
    }
    compare(&small, &longer, what, 1, true, 1, context + 4, tolerance);
    compare(&small, &longer, what, 2, true, context, context + 3, tolerance);
    compare(&small, &longer, what, 2, true, context + 5, context + 9, tolerance);
    small_close(&small);
    small_close(&longer);
}

static void compare_backends(const Kind *kind)
{
    Backend *cpu = cpu_backend_open(2), *ref = ref_backend_open();
    assert_non_null(cpu);
    compare_kind(kind, DT_F32, cpu, "cpu f32", 1e-5);
    cpu->few_shapes = true; /* as on a GPU */
    compare_kind(kind, DT_F32, cpu, "cpu f32, few lengths", 1e-5);
    compare_kind(kind, DT_F64, ref, "ref f64", 1e-12);
    cpu->close(cpu);
    ref->close(ref);
    Backend *gpu;
    if (cuda_backend_open(0, &gpu) == 0) {
        compare_kind(kind, DT_F32, gpu, "cuda f32", 1e-5);
        compare_kind(kind, DT_BF16, gpu, "cuda bf16", 0.1);
        gpu->close(gpu);
    }
}

static void test_generate__attention_with_learned_positions(void **state)
{
    (void)state;
    compare_backends(&gpt2);
}

static void test_generate__attention_with_rope_and_grouped_heads(void **state)
{
    (void)state;
    compare_backends(&llama);
    compare_backends(&wide_heads);
}

static void test_generate__ttt_linear_has_no_limit(void **state)
{
    (void)state;
    compare_backends(&ttt_linear);
}

static void test_generate__ttt_mlp_has_no_limit(void **state)
{
    (void)state;
    compare_backends(&ttt_mlp);
}

/* Matrices and embeddings in bf16 beside activations in f32. */
static void test_generate__weights_in_half_the_bytes(void **state)
{
    (void)state;
    Backend *backend = cpu_backend_open(2);
    Small small;
    small_open(&small, gpt2.preset, gpt2.o, DT_F32, backend);
    Model *m = &small.model;
    int64_t matrices = m->params.decayed, others = m->params.flat - matrices;
    float *values = small.values;
    void *narrow = upload(backend, DT_BF16, values, matrices);
    model_bind_split(m, tensor_1d(narrow, DT_BF16, matrices),
                     tensor_1d(values + matrices, DT_F32, others), TENSOR_NONE);
    compare(&small, &small, "bf16 weights", SEQUENCES, true, 5, 25, 1e-5);
    backend->release(backend, narrow);
    small_close(&small);
    backend->close(backend);
}

/* A context of one or two tokens leaves nothing, or one, behind when it is full. */
static void test_generate__smallest_contexts(void **state)
{
    (void)state;
    Backend *backend = cpu_backend_open(1);
    for (int64_t context = 1; context <= 3; context++) {
        Kind kind = gpt2;
        Small small;
        kind.o.context = context;
        small_open(&small, kind.preset, kind.o, DT_F32, backend);
        for (int cached = 0; cached < 2; cached++) {
            compare(&small, &small, "small context", 2, cached == 1, 1, 9, 1e-5);
        }
        small_close(&small);
    }
    backend->close(backend);
}

/* Greedy tokens of one sequence, `count` of them behind the beginning. */
static void continue_text(Generator *g, const int32_t *beginning, int64_t length, int64_t count,
                          int32_t *text)
{
    generator_begin(g, beginning, length);
    for (int64_t i = 0; i < count; i++) {
        int32_t next[SEQUENCES];
        for (int64_t s = 0; s < g->sequences; s++) {
            next[s] = likeliest(generator_logits(g, s));
        }
        text[i] = next[0];
        generator_append(g, next);
    }
}

/* A text that begins again does so from nothing, whatever was before; equal sequences stay
 * equal. */
static void test_generate__begins_anew(void **state)
{
    (void)state;
    const Kind *kinds[] = {&gpt2, &llama, &ttt_linear, &ttt_mlp};
    const int32_t first[] = {5, 9, 33, 2, 2, 60, 1}, second[] = {44, 3};
    Backend *backend = cpu_backend_open(2);
    for (int k = 0; k < 4; k++) {
        Small small;
        Generator g;
        int32_t once[30], other[30], again[30], whole[30];
        small_open(&small, kinds[k]->preset, kinds[k]->o, DT_F32, backend);
        assert_int_equal(generator_open(&g, &small.model, backend, 2, true), 0);
        continue_text(&g, first, 7, 30, once);
        assert_memory_equal(generator_logits(&g, 0), generator_logits(&g, 1),
                            VOCAB * sizeof(float));
        continue_text(&g, second, 2, 30, other);
        continue_text(&g, first, 7, 30, again);
        generator_close(&g);
        assert_memory_equal(once, again, sizeof once);
        assert_int_equal(generator_open(&g, &small.model, backend, 1, false), 0);
        continue_text(&g, first, 7, 30, whole);
        generator_close(&g);
        assert_memory_equal(once, whole, sizeof once);
        small_close(&small);
    }
    backend->close(backend);
}

static struct {
    int replays, forgets, slot;
} recorded;

static void count_replay(Backend *backend, int slot, void (*body)(void *), void *user)
{
    (void)backend;
    recorded.replays++;
    recorded.slot = slot;
    body(user);
}

static void count_forget(Backend *backend)
{
    (void)backend;
    recorded.forgets++;
}

/* Steps that end with logits, and they alone, are what a backend may record; it forgets before
 * memory goes. */
static void test_generate__steps_may_be_recorded(void **state)
{
    (void)state;
    const Kind *kinds[] = {&llama, &ttt_linear};
    /* Ten tokens behind three. Attention, of context 6: 3 steps, a pass that leaves 4, 2 steps,
     * a pass, 2 steps, a pass. TTT: the last of the three, and ten. */
    const int replays[] = {7, 11};
    for (int k = 0; k < 2; k++) {
        Backend *backend = cpu_backend_open(1);
        Small small;
        Generator g;
        int32_t text[10], plain[10];
        SpecOverrides o = kinds[k]->o;
        o.context = 6;
        small_open(&small, kinds[k]->preset, o, DT_F32, backend);
        assert_int_equal(generator_open(&g, &small.model, backend, 1, true), 0);
        continue_text(&g, (int32_t[]){1, 2, 3}, 3, 10, plain);
        generator_close(&g);
        memset(&recorded, 0, sizeof recorded);
        backend->replay = count_replay;
        backend->forget = count_forget;
        assert_int_equal(generator_open(&g, &small.model, backend, 1, true), 0);
        continue_text(&g, (int32_t[]){1, 2, 3}, 3, 10, text);
        generator_close(&g);
        assert_int_equal(recorded.replays, replays[k]);
        assert_int_equal(recorded.forgets, 2);
        assert_int_equal(recorded.slot, BACKEND_RECORDINGS - 1);
        assert_memory_equal(text, plain, sizeof text);
        small_close(&small);
        backend->close(backend);
    }
}

static int allocations_left;

static void *scarce_alloc(Backend *backend, size_t bytes)
{
    (void)backend;
    return allocations_left-- > 0
               ? aligned_alloc(ARENA_ALIGN, (bytes / ARENA_ALIGN + 1) * ARENA_ALIGN)
               : NULL;
}

static void scarce_release(Backend *backend, void *block)
{
    (void)backend;
    free(block);
}

/* Too little memory is an error that says so and leaves nothing behind; enough of it is asked
 * for once. */
static void test_generate__needs_memory_at_the_start_only(void **state)
{
    (void)state;
    Backend *backend = ref_backend_open();
    Small small;
    small_open(&small, gpt2.preset, gpt2.o, DT_F32, backend);
    void *(*alloc)(Backend *, size_t) = backend->alloc;
    void (*release)(Backend *, void *) = backend->release;
    backend->alloc = scarce_alloc;
    backend->release = scarce_release;
    Generator g;
    for (int allowed = 0; allowed < 3; allowed++) {
        allocations_left = allowed;
        assert_int_equal(generator_open(&g, &small.model, backend, 2, true), ERR_MEMORY);
        assert_non_null(strstr(err_message(), "bytes to generate 2 sequences"));
        generator_close(&g);
    }
    allocations_left = 3;
    assert_int_equal(generator_open(&g, &small.model, backend, 2, true), 0);
    int32_t text[20];
    continue_text(&g, (int32_t[]){1, 2, 3}, 3, 20, text);
    generator_close(&g);
    generator_close(&g);
    backend->alloc = alloc;
    backend->release = release;
    small_close(&small);
    backend->close(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generate__attention_with_learned_positions),
        cmocka_unit_test(test_generate__attention_with_rope_and_grouped_heads),
        cmocka_unit_test(test_generate__ttt_linear_has_no_limit),
        cmocka_unit_test(test_generate__ttt_mlp_has_no_limit),
        cmocka_unit_test(test_generate__weights_in_half_the_bytes),
        cmocka_unit_test(test_generate__smallest_contexts),
        cmocka_unit_test(test_generate__begins_anew),
        cmocka_unit_test(test_generate__steps_may_be_recorded),
        cmocka_unit_test(test_generate__needs_memory_at_the_start_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
