/* Linear maps of a few rows on the CPU against sums in double, and weights in bf16 under a model
 * that computes in f32: a number in bf16 is a number in f32, so the two kinds of weights must
 * give the same bits. */
#include "base/mem.h"
#include "cpu/cpu.h"
#include "model/generate.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST_BACKENDS 6
#define SENTINEL 12345.0f

/* Every instruction set of this machine, then the best one with one, two and three threads. */
typedef struct {
    Backend *backend[MOST_BACKENDS];
    int count, isas;
} Backends;

static int open_backends(void **state)
{
    static const char *const isas[] = {"base", "v3", "v4"};
    Backends *all = mem_zalloc(1, sizeof *all);
    *state = all;
    char *before = getenv("PACER_SIMD") != NULL ? mem_strdup(getenv("PACER_SIMD")) : NULL;
    for (int i = 0; i < 3; i++) {
        setenv("PACER_SIMD", isas[i], 1);
        Backend *backend = cpu_backend_open(2);
        if (backend != NULL) {
            all->backend[all->count++] = backend;
        }
    }
    unsetenv("PACER_SIMD");
    if (before != NULL) {
        setenv("PACER_SIMD", before, 1);
        free(before);
    }
    all->isas = all->count;
    for (int threads = 1; threads <= 3; threads++) {
        all->backend[all->count++] = cpu_backend_open(threads);
    }
    return all->isas > 0 && all->backend[all->count - 1] != NULL ? 0 : -1;
}

static int close_backends(void **state)
{
    Backends *all = *state;
    for (int i = 0; i < all->count; i++) {
        all->backend[i]->close(all->backend[i]);
    }
    free(all);
    return 0;
}

/* A linear map with weights that bf16 can hold, in both types. Pointers miss their alignment by
 * an element each, and y has a sentinel on either side. */
typedef struct {
    int64_t rows, outputs, inputs;
    float *x_block, *w_block, *bias_block, *y_block;
    uint16_t *low_block;
    float *x, *w, *bias, *y;
    uint16_t *low;
} Case;

/* From -1 to 1, repeatable. */
static float draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)((double)(*state >> 8) / (1 << 23) - 1.0);
}

static Case case_make(int64_t rows, int64_t outputs, int64_t inputs)
{
    Case k = {.rows = rows, .outputs = outputs, .inputs = inputs};
    uint32_t state = (uint32_t)(rows * 31 + outputs * 7 + inputs);
    size_t weights = (size_t)(outputs * inputs);
    k.x_block = mem_zalloc((size_t)(rows * inputs) + 1, sizeof(float));
    k.w_block = mem_zalloc(weights + 1, sizeof(float));
    k.low_block = mem_zalloc(weights + 1, sizeof(uint16_t));
    k.bias_block = mem_zalloc((size_t)outputs + 1, sizeof(float));
    k.y_block = mem_zalloc((size_t)(rows * outputs) + 2, sizeof(float));
    k.x = k.x_block + 1;
    k.w = k.w_block + 1;
    k.low = k.low_block + 1;
    k.bias = k.bias_block + 1;
    k.y = k.y_block + 1;
    for (int64_t i = 0; i < rows * inputs; i++) {
        k.x[i] = draw(&state);
    }
    for (size_t i = 0; i < weights; i++) {
        k.low[i] = bf16_from_f32(draw(&state));
        k.w[i] = f32_from_bf16(k.low[i]);
    }
    for (int64_t i = 0; i < outputs; i++) {
        k.bias[i] = draw(&state);
    }
    return k;
}

static void case_free(Case *k)
{
    free(k->x_block);
    free(k->w_block);
    free(k->low_block);
    free(k->bias_block);
    free(k->y_block);
}

/* Only rows [first, first + count). */
static void run_rows(const Case *k, Backend *backend, DType type, bool biased, int64_t first,
                     int64_t count)
{
    Ctx c;
    ctx_init(&c, backend);
    Tensor bias = biased ? tensor_1d(k->bias, DT_F32, k->outputs) : TENSOR_NONE;
    void *w = type == DT_BF16 ? (void *)k->low : (void *)k->w;
    op_linear_forward(&c, tensor_2d(k->x + first * k->inputs, DT_F32, count, k->inputs),
                      tensor_2d(w, type, k->outputs, k->inputs), bias,
                      tensor_2d(k->y + first * k->outputs, DT_F32, count, k->outputs));
}

static void run(const Case *k, Backend *backend, DType type, bool biased)
{
    for (int64_t i = -1; i <= k->rows * k->outputs; i++) {
        k->y[i] = SENTINEL;
    }
    run_rows(k, backend, type, biased, 0, k->rows);
    assert_float_equal(k->y[-1], SENTINEL, 0);
    assert_float_equal(k->y[k->rows * k->outputs], SENTINEL, 0);
}

/* Every `stride`-th output within what sums of f32 in any order may be off by. */
static void check(const Case *k, bool biased, int64_t stride)
{
    for (int64_t n = 0; n < k->rows; n++) {
        for (int64_t o = 0; o < k->outputs; o += stride) {
            double sum = biased ? k->bias[o] : 0, size = fabs(sum);
            for (int64_t i = 0; i < k->inputs; i++) {
                double product = (double)k->x[n * k->inputs + i] * k->w[o * k->inputs + i];
                sum += product;
                size += fabs(product);
            }
            double bound = (double)(k->inputs / 4 + 6) * FLT_EPSILON / 2 * size;
            double error = fabs(sum - k->y[n * k->outputs + o]);
            if (!(error <= bound)) {
                fail_msg("(%lld, %lld, %lld), bias %d: row %lld, output %lld is off by %g of %g",
                         (long long)k->rows, (long long)k->outputs, (long long)k->inputs, biased,
                         (long long)n, (long long)o, error, size);
            }
        }
    }
}

static float *copy_of_y(const Case *k)
{
    size_t bytes = (size_t)(k->rows * k->outputs) * sizeof(float);
    return memcpy(mem_alloc(bytes), k->y, bytes);
}

static void assert_same_y(const Case *k, const float *before)
{
    assert_memory_equal(k->y, before, (size_t)(k->rows * k->outputs) * sizeof(float));
}

static void check_shape(const Backends *all, int64_t rows, int64_t outputs, int64_t inputs)
{
    Case k = case_make(rows, outputs, inputs);
    bool biased = (rows + outputs) % 2 == 0;
    for (int i = 0; i < all->isas; i++) {
        run(&k, all->backend[i], DT_F32, biased);
        check(&k, biased, 1);
        float *before = copy_of_y(&k);
        run(&k, all->backend[i], DT_BF16, biased);
        check(&k, biased, 1);
        if (rows <= CPU_FEW_ROWS) {
            assert_same_y(&k, before);
        }
        free(before);
    }
    case_free(&k);
}

static void test_few_rows__sums_are_right(void **state)
{
    static const int64_t inputs[] = {1, 5, 63, 64, 65, 768, 3072};
    static const int64_t outputs[] = {1, 3, 7, 10};
    for (int i = 0; i < 7; i++) {
        for (int64_t rows = 1; rows <= 17; rows += inputs[i] > 100 ? 4 : 1) {
            check_shape(*state, rows, outputs[(rows + i) % 4], inputs[i]);
        }
        check_shape(*state, CPU_FEW_ROWS, 6, inputs[i]);
        check_shape(*state, CPU_FEW_ROWS + 1, 9, inputs[i]);
    }
}

/* As many outputs as a vocabulary; with more rows the expanded weights do not fit in the
 * backend's block at once. */
static void test_few_rows__vocabulary(void **state)
{
    const Backends *all = *state;
    Case few = case_make(2, 50257, 65);
    run(&few, all->backend[all->count - 1], DT_BF16, true);
    check(&few, true, 3);
    case_free(&few);
    Case many = case_make(CPU_FEW_ROWS + 1, 50257, 65);
    assert_true((size_t)(many.outputs * many.inputs) * sizeof(float) > CPU_BLOCK_BYTES);
    for (int biased = 0; biased < 2; biased++) {
        run(&many, all->backend[all->count - 2], DT_BF16, biased);
        check(&many, biased, 101);
        /* Where the first block of weights ends. */
        int64_t last = (int64_t)(CPU_BLOCK_BYTES / sizeof(float)) / many.inputs;
        Case edge = many;
        edge.y += last - 1; /* column last - 1 becomes column 0 of what is checked */
        edge.w += (last - 1) * many.inputs;
        edge.bias += last - 1;
        edge.rows = 1;
        edge.outputs = 3;
        check(&edge, biased, 1);
    }
    case_free(&many);
}

static void test_few_rows__bits_do_not_depend_on_threads(void **state)
{
    const Backends *all = *state;
    static const int64_t rows[] = {1, 4, 9, CPU_FEW_ROWS};
    for (int i = 0; i < 4; i++) {
        for (int type = 0; type < 2; type++) {
            Case k = case_make(rows[i], 259, 301); /* enough for threads */
            run(&k, all->backend[all->isas], type == 0 ? DT_F32 : DT_BF16, true);
            float *before = copy_of_y(&k);
            for (int b = all->isas + 1; b < all->count; b++) {
                run(&k, all->backend[b], type == 0 ? DT_F32 : DT_BF16, true);
                assert_same_y(&k, before);
            }
            free(before);
            case_free(&k);
        }
    }
}

/* A text does not change when others are generated beside it. */
static void test_few_rows__bits_do_not_depend_on_other_rows(void **state)
{
    const Backends *all = *state;
    for (int b = 0; b < all->isas; b++) {
        Case k = case_make(13, 37, 77);
        run(&k, all->backend[b], DT_F32, true);
        float *before = copy_of_y(&k);
        for (int64_t first = 0, count = 1; first < k.rows; first += count, count++) {
            count = count < k.rows - first ? count : k.rows - first;
            run_rows(&k, all->backend[b], DT_F32, true, first, count);
        }
        assert_same_y(&k, before);
        free(before);
        case_free(&k);
    }
}

static void check_embedding(Backend *backend, bool with_positions)
{
    enum { VOCAB = 11, WIDTH = 37, SEQ = 3, ROWS = 6 };
    uint32_t seed = 5;
    uint16_t low[VOCAB * WIDTH], low_positions[SEQ * WIDTH];
    float wide[VOCAB * WIDTH], wide_positions[SEQ * WIDTH];
    float from_low[ROWS * WIDTH], from_wide[ROWS * WIDTH];
    int32_t ids[ROWS] = {10, 0, 3, 3, 7, 10}, at = 2;
    for (int i = 0; i < VOCAB * WIDTH; i++) {
        low[i] = bf16_from_f32(draw(&seed));
        wide[i] = f32_from_bf16(low[i]);
    }
    for (int i = 0; i < SEQ * WIDTH; i++) {
        low_positions[i] = bf16_from_f32(draw(&seed));
        wide_positions[i] = f32_from_bf16(low_positions[i]);
    }
    Ctx c;
    ctx_init(&c, backend);
    Tensor tokens = tensor_1d(ids, DT_I32, ROWS), position = tensor_1d(&at, DT_I32, 1);
    Tensor table16 = tensor_2d(low, DT_BF16, VOCAB, WIDTH);
    Tensor table32 = tensor_2d(wide, DT_F32, VOCAB, WIDTH);
    Tensor positions16 =
        with_positions ? tensor_2d(low_positions, DT_BF16, SEQ, WIDTH) : TENSOR_NONE;
    Tensor positions32 =
        with_positions ? tensor_2d(wide_positions, DT_F32, SEQ, WIDTH) : TENSOR_NONE;
    Tensor out16 = tensor_2d(from_low, DT_F32, ROWS, WIDTH);
    Tensor out32 = tensor_2d(from_wide, DT_F32, ROWS, WIDTH);
    op_embed_forward(&c, tokens, table16, positions16, TENSOR_NONE, SEQ, out16);
    op_embed_forward(&c, tokens, table32, positions32, TENSOR_NONE, SEQ, out32);
    assert_memory_equal(from_low, from_wide, sizeof from_low);
    float expected = wide[3 * WIDTH + 5] + (with_positions ? wide_positions[2 * WIDTH + 5] : 0.0f);
    assert_float_equal(from_low[2 * WIDTH + 5], expected, 0);
    op_embed_step(&c, tokens, table16, positions16, position, out16);
    op_embed_step(&c, tokens, table32, positions32, position, out32);
    assert_memory_equal(from_low, from_wide, sizeof from_low);
    assert_float_equal(from_low[2 * WIDTH + 5], expected, 0);
}

static void test_few_rows__embeddings_in_bf16(void **state)
{
    const Backends *all = *state;
    Backend *ref = ref_backend_open();
    for (int positions = 0; positions < 2; positions++) {
        for (int b = 0; b < all->isas; b++) {
            check_embedding(all->backend[b], positions);
        }
        check_embedding(ref, positions);
    }
    ref->close(ref);
}

/* Logits after a beginning of 5 tokens and 3 more from a model bound in one of the two ways. */
static void generate(const ModelSpec *spec, Backend *backend, bool split, int64_t vocab, float *out)
{
    Model model;
    model_init(&model, spec, DT_F32, 1);
    const ParamTable *table = &model.params;
    float *flat = mem_zalloc((size_t)table->flat, sizeof *flat);
    uint16_t *matrices = mem_zalloc((size_t)table->decayed, sizeof *matrices);
    uint32_t seed = 1;
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        for (int64_t i = row->offset; i < row->offset + row->count; i++) {
            flat[i] = 0.1f * draw(&seed) + (row->rank == 1 ? 1.0f : 0.0f);
            if (row->decay) {
                matrices[i] = bf16_from_f32(flat[i]);
                flat[i] = f32_from_bf16(matrices[i]);
            }
        }
    }
    Tensor rope = model_rope_shape(&model);
    rope.data = tensor_given(rope) ? mem_zalloc(tensor_bytes(rope), 1) : NULL;
    if (tensor_given(rope)) {
        model_fill_rope(&model, rope);
    }
    assert_true(model_splits(&model));
    if (split) {
        model_bind_split(&model, tensor_1d(matrices, DT_BF16, table->decayed),
                         tensor_1d(flat + table->decayed, DT_F32, table->flat - table->decayed),
                         rope);
    } else {
        model_bind(&model, tensor_1d(flat, DT_F32, table->flat), TENSOR_NONE, rope);
    }
    const Weight *norm = &model.final_norm.weight;
    assert_string_equal(table->rows[norm->first].name,
                        spec->names == NAMES_GPT2 ? "ln_f.weight" : "model.norm.weight");
    assert_ptr_equal(norm->value.data, flat + table->rows[norm->first].offset);
    Generator generator;
    assert_int_equal(generator_open(&generator, &model, backend, 2, true), 0);
    generator_begin(&generator, (const int32_t[]){1, 5, 2, 2, 9}, 5);
    for (int32_t i = 0; i < 3; i++) {
        generator_append(&generator, (const int32_t[]){i, 10 - i});
    }
    memcpy(out, generator_logits(&generator, 1), (size_t)vocab * sizeof *out);
    generator_close(&generator);
    free(rope.data);
    free(matrices);
    free(flat);
    model_free(&model);
}

static void test_few_rows__model_with_matrices_in_bf16(void **state)
{
    enum { VOCAB = 23 };
    const Backends *all = *state;
    Backend *ref = ref_backend_open();
    static const char *const presets[] = {"gpt2-124m", "tiny"};
    for (int p = 0; p < 2; p++) {
        SpecOverrides overrides = {.layers = 2,
                                   .width = 16,
                                   .heads = 2,
                                   .kv_heads = 2,
                                   .ffn = 40,
                                   .vocab = VOCAB,
                                   .context = 16};
        ModelSpec spec;
        assert_int_equal(spec_resolve(presets[p], &overrides, 0, &spec), 0);
        float whole[VOCAB], split[VOCAB];
        Backend *backends[] = {all->backend[all->count - 1], ref};
        for (int b = 0; b < 2; b++) {
            generate(&spec, backends[b], false, VOCAB, whole);
            generate(&spec, backends[b], true, VOCAB, split);
            assert_memory_equal(whole, split, sizeof whole);
            assert_true(whole[0] != whole[1]);
        }
    }
    ref->close(ref);
}

static void test_few_rows__ttt_models_are_not_split(void **state)
{
    (void)state;
    Model model;
    model_init(&model, spec_find("ttt-125m"), DT_F32, 1);
    assert_false(model_splits(&model));
    model_free(&model);
    model_init(&model, spec_find("gpt2-124m"), DT_BF16, 1);
    assert_false(model_splits(&model));
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_rows__sums_are_right),
        cmocka_unit_test(test_few_rows__vocabulary),
        cmocka_unit_test(test_few_rows__bits_do_not_depend_on_threads),
        cmocka_unit_test(test_few_rows__bits_do_not_depend_on_other_rows),
        cmocka_unit_test(test_few_rows__embeddings_in_bf16),
        cmocka_unit_test(test_few_rows__model_with_matrices_in_bf16),
        cmocka_unit_test(test_few_rows__ttt_models_are_not_split),
    };
    return cmocka_run_group_tests(tests, open_backends, close_backends);
}
