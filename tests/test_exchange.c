/* Models of Hugging Face's against the logits that transformers computed, there and back without
 * a changed bit. */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "exchange/hf_config.h"
#include "exchange/hf_export.h"
#include "exchange/weight_folder.h"
#include "model/generate.h"
#include "support/exchange_files.h"
#include "support/safe_values.h"
#include "support/gold.h"
#include "tensor/half.h"
#include "train/checkpoint.h"
#include "train/model_source.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const fixtures[] = {"hf_gpt2",  "hf_llama",   "hf_llama_tied", "hf_sharded",
                                       "hf_qwen2", "hf_llama3",  "hf_stretched",  "hf_yarn",
                                       "hf_qwen3", "hf_mistral", "hf_gemma2",     "hf_gemma3"};
#define FIXTURES (sizeof fixtures / sizeof fixtures[0])

/* --- a trainer with a folder's weights --- */

static void open_trainer(Trainer *t, Backend *backend, const ModelSpec *spec, int64_t batch,
                         int64_t seq)
{
    TrainerSetup setup = {.spec = *spec, .batch = batch, .seq = seq, .accum = 1, .dtype = DT_F32};
    setup.attention = ATTENTION_FLASH;
    TrainPlan plan;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(t, &setup, backend, &plan), 0);
}

/* Largest difference of the model's logits from those that expected_in/expected.safetensors has
 * for its ids. */
static double compare_logits(const char *path, const char *expected_in)
{
    char *file = io_join(expected_in, "expected.safetensors");
    SafeFile expected;
    assert_int_equal(safetensors_open(file, &expected), 0);
    const SafeTensor *ids = safetensors_find(&expected, "ids");
    const SafeTensor *want = safetensors_find(&expected, "logits");
    ModelSource source;
    assert_int_equal(model_source_open(&source, path), 0);
    Backend *backend = cpu_backend_open(2);
    Trainer t;
    open_trainer(&t, backend, &source.spec, ids->dim[0], ids->dim[1]);
    if (initial_weights(&t, path) != 0) {
        fail_msg("%s", err_message());
    }
    void *tokens = safe_values(ids);
    float *values = safe_values(want);
    backend->upload(backend, t.ids.data, tokens, ids->bytes);
    model_forward(&t.ctx, &t.model,
                  (DeviceBatch){.batch = ids->dim[0], .seq = ids->dim[1], .ids = t.ids},
                  KEEP_NOTHING);
    int64_t vocab = source.spec.vocab, rows = t.ids.dim[0], width = t.model.vocab_rows;
    Tensor logits = ctx_scratch(&t.ctx, MEM_HEAD, DT_F32, rows, width);
    model_logits(&t.ctx, &t.model, 0, logits);
    double *got = gold_download(backend, logits), worst = 0;
    assert_int_equal(want->bytes, (size_t)(rows * vocab) * sizeof(float));
    for (int64_t i = 0; i < rows * vocab; i++) {
        double error = fabs(got[i / vocab * width + i % vocab] - (double)values[i]);
        worst = error <= worst ? worst : error;
    }
    free(got);
    free(values);
    free(tokens);
    model_end(&t.ctx, &t.model);
    arena_release(&t.ctx.scratch, (ArenaMark){0});
    trainer_close(&t);
    backend->close(backend);
    model_source_close(&source);
    safetensors_close(&expected);
    free(file);
    return worst;
}

static void test_exchange__logits_are_those_of_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        char *path = exchange_fixture(fixtures[i]);
        double worst = compare_logits(path, path);
        if (!(worst <= 1e-5)) {
            fail_msg("%s: logits are off by %g", path, worst);
        }
        free(path);
    }
}

/* --- gradients, and text --- */

/* A fixture with its weights in a trainer on the CPU. */
typedef struct {
    char *path;
    SafeFile expected;
    ModelSource source;
    Backend *backend;
    Trainer t;
} Fixture;

static void open_fixture(Fixture *f, const char *name)
{
    f->path = exchange_fixture(name);
    char *file = io_join(f->path, "expected.safetensors");
    assert_int_equal(safetensors_open(file, &f->expected), 0);
    free(file);
    const SafeTensor *ids = safetensors_find(&f->expected, "ids");
    assert_int_equal(model_source_open(&f->source, f->path), 0);
    f->backend = cpu_backend_open(2);
    open_trainer(&f->t, f->backend, &f->source.spec, ids->dim[0], ids->dim[1]);
    assert_int_equal(initial_weights(&f->t, f->path), 0);
}

static void close_fixture(Fixture *f)
{
    trainer_close(&f->t);
    f->backend->close(f->backend);
    model_source_close(&f->source);
    safetensors_close(&f->expected);
    free(f->path);
}

/* Rows of the batch by id, equal ids in order. */
static int32_t *order_of(const int32_t *ids, int64_t rows, int64_t vocab)
{
    int32_t *order = mem_alloc((size_t)rows * sizeof *order);
    int64_t count = 0;
    for (int64_t id = 0; id < vocab; id++) {
        for (int64_t row = 0; row < rows; row++) {
            if (ids[row] == id) {
                order[count++] = (int32_t)row;
            }
        }
    }
    assert_int_equal(count, rows);
    return order;
}

static void check_gradients(const char *name)
{
    Fixture f;
    open_fixture(&f, name);
    const ParamTable *table = &f.t.model.params;
    int32_t *ids = safe_values(safetensors_find(&f.expected, "ids"));
    int32_t *targets = safe_values(safetensors_find(&f.expected, "targets"));
    int32_t *order = order_of(ids, f.t.ids.dim[0], f.source.spec.vocab);
    trainer_micro_step(&f.t, (HostBatch){.ids = ids, .targets = targets, .order = order}, 0);
    double *grad = gold_download(f.backend, f.t.optimizer.grad);
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        char own[HF_NAME_SIZE + 8];
        HfName hf = hf_name(f.source.spec.names, row->name);
        snprintf(own, sizeof own, "grad.%s", hf.name);
        const SafeTensor *stored = safetensors_find(&f.expected, own);
        assert_non_null(stored);
        assert_int_equal(stored->bytes, (size_t)row->count * sizeof(float));
        float *want = safe_values(stored);
        double worst = 0, largest = 0;
        int64_t rows = row->dim[0], width = row->count / rows;
        for (int64_t i = 0; i < row->count; i++) {
            double there = want[hf.transposed ? i % width * rows + i / width : i];
            double error = fabs(grad[row->offset + i] - there);
            worst = error <= worst ? worst : error;
            largest = fmax(largest, fabs(there));
        }
        if (!(worst <= 1e-4 * largest)) {
            fail_msg("%s: gradients by %s are off by %g of %g", name, row->name, worst, largest);
        }
        free(want);
    }
    free(grad);
    free(order);
    free(targets);
    free(ids);
    close_fixture(&f);
}

static void test_exchange__gradients_are_those_of_pytorch(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        check_gradients(fixtures[i]);
    }
}

static void check_text(const char *name, bool cached)
{
    Fixture f;
    open_fixture(&f, name);
    const SafeTensor *text = safetensors_find(&f.expected, "greedy");
    int32_t *ids = safe_values(safetensors_find(&f.expected, "ids")), *want = safe_values(text);
    int64_t vocab = f.source.spec.vocab, prompt = f.source.spec.context - text->dim[0];
    Generator g;
    assert_int_equal(generator_open(&g, &f.t.model, f.backend, 1, cached), 0);
    generator_begin(&g, ids, prompt);
    for (int64_t i = 0; i < text->dim[0]; i++) {
        const float *logits = generator_logits(&g, 0);
        int32_t best = 0;
        for (int32_t v = 1; v < vocab; v++) {
            best = logits[v] > logits[best] ? v : best;
        }
        if (best != want[i]) {
            fail_msg("%s, %s: token %d is %d, not %d", name, cached ? "cached" : "anew", (int)i,
                     best, want[i]);
        }
        if (i + 1 < text->dim[0]) {
            generator_append(&g, &best);
        }
    }
    generator_close(&g);
    free(want);
    free(ids);
    close_fixture(&f);
}

static void test_exchange__text_is_that_of_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        check_text(fixtures[i], true);
        check_text(fixtures[i], false);
    }
}

/* --- there and back --- */

static void assert_same_weights(const ModelSource *a, const ModelSource *b)
{
    Model shapes;
    model_init(&shapes, &a->spec, DT_F32, 1);
    const ParamTable *table = &shapes.params;
    assert_int_equal(weight_folder_check(a->weights, &a->spec, table), 0);
    assert_int_equal(weight_folder_check(b->weights, &a->spec, table), 0);
    for (int r = 0; r < table->count; r++) {
        size_t bytes = (size_t)table->rows[r].count * sizeof(float);
        float *x = mem_alloc(bytes), *y = mem_alloc(bytes);
        assert_int_equal(weight_folder_read(a->weights, table, r, false, x), 0);
        assert_int_equal(weight_folder_read(b->weights, table, r, false, y), 0);
        assert_memory_equal(x, y, bytes);
        free(x);
        free(y);
    }
    model_free(&shapes);
}

static void assert_same_spec(const ModelSpec *a, const ModelSpec *b)
{
    assert_string_equal(a->name, b->name);
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        if (spec_value(a, field) != spec_value(b, field)) {
            fail_msg("%s is %g and %g", field->name, spec_value(a, field), spec_value(b, field));
        }
    }
}

/* path, imported and exported again into files of at most shard bytes, is the same model. */
static void round_trip(const char *path, int64_t shard)
{
    char *run = mem_format("%s/run-%lld", exchange_folder, (long long)shard);
    char *out = mem_format("%s/out-%lld", exchange_folder, (long long)shard);
    ModelSource first, second, third;
    assert_int_equal(import_model(path, run), 0);
    assert_int_equal(model_source_open(&first, path), 0);
    assert_int_equal(model_source_open(&second, run), 0);
    assert_int_equal(second.step, 0);
    assert_non_null(second.run);
    assert_null(weight_folder_spec(second.weights));
    assert_same_spec(&first.spec, &second.spec);
    assert_same_weights(&first, &second);
    HfModel model = {second.weights, &second.spec, model_source_tokenizer(&second), false};
    HfExport options = {DT_F32, shard};
    assert_int_equal(hf_export(&model, options, out), 0);
    assert_int_equal(model_source_open(&third, out), 0);
    assert_same_spec(&first.spec, &third.spec);
    assert_same_weights(&first, &third);
    exchange_expect(hf_export(&model, options, out), "is not empty");
    exchange_expect(import_model(run, out), "pacer's already");
    char *partial = mem_format("%s.partial", out);
    assert_false(io_exists(partial));
    free(partial);
    model_source_close(&first);
    model_source_close(&second);
    model_source_close(&third);
    io_remove_tree(run);
    io_remove_tree(out);
    free(run);
    free(out);
}

static void test_exchange__import_and_export_change_no_weight(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        char *path = exchange_fixture(fixtures[i]);
        round_trip(path, 1000000);
        round_trip(path, 9000);
        round_trip(path, 1);
        free(path);
    }
}

/* A TTT model under its own names: no class of transformers', but the same folder. */
static void test_exchange__ttt_models_go_out_and_come_back(void **state)
{
    (void)state;
    SpecOverrides o = {.layers = 2,
                       .width = 16,
                       .heads = 2,
                       .ffn = 24,
                       .vocab = 31,
                       .context = 40,
                       .tied = 1,
                       .ttt = 1 + TTT_MLP,
                       .mini = 4,
                       .ttt_rate = 0.25};
    ModelSpec spec;
    assert_int_equal(spec_resolve("ttt-125m", &o, 0, &spec), 0);
    Model shapes;
    model_init(&shapes, &spec, DT_F32, 1);
    const ParamTable *table = &shapes.params;
    SafeEntry *entries = mem_zalloc((size_t)table->count, sizeof *entries);
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        float *values = mem_alloc((size_t)row->count * sizeof *values);
        params_init_values(table, r, 7, 0, row->count, values);
        entries[r] = (SafeEntry){row->name, {values, DT_F32, row->rank, {0}}};
        memcpy(entries[r].tensor.dim, row->dim, sizeof row->dim);
    }
    char *path = io_join(exchange_folder, "ttt");
    cJSON *tree;
    HfConfigExtra extra = {-1, -1, DT_F32};
    assert_int_equal(io_make_folders(path), 0);
    assert_int_equal(hf_config(&spec, extra, &tree), 0);
    char *config = json_print(tree);
    cJSON_Delete(tree);
    exchange_write(path, "config.json", config);
    char *file = io_join(path, "model.safetensors");
    assert_int_equal(safetensors_write(file, entries, table->count, NULL, NULL, NULL), 0);
    round_trip(path, 3000);
    for (int r = 0; r < table->count; r++) {
        free(entries[r].tensor.data);
    }
    free(entries);
    free(config);
    free(file);
    free(path);
    model_free(&shapes);
}

static void test_exchange__bf16_export_rounds_to_nearest(void **state)
{
    (void)state;
    char *path = exchange_fixture("hf_gpt2"), *out = io_join(exchange_folder, "bf16");
    ModelSource source, rounded;
    assert_int_equal(model_source_open(&source, path), 0);
    HfModel model = {source.weights, &source.spec, NULL, false};
    HfExport options = {DT_BF16, 1000000};
    assert_int_equal(hf_export(&model, options, out), 0);
    assert_int_equal(model_source_open(&rounded, out), 0);
    Model shapes;
    model_init(&shapes, &source.spec, DT_F32, 1);
    int row = shapes.layers[1].up.weight.first;
    int64_t count = shapes.params.rows[row].count;
    float *a = mem_alloc((size_t)count * sizeof *a), *b = mem_alloc((size_t)count * sizeof *b);
    assert_int_equal(weight_folder_read(source.weights, &shapes.params, row, false, a), 0);
    assert_int_equal(weight_folder_read(rounded.weights, &shapes.params, row, false, b), 0);
    int changed = 0;
    for (int64_t i = 0; i < count; i++) {
        assert_true(f32_from_bf16(bf16_from_f32(a[i])) == b[i]);
        changed += a[i] != b[i];
    }
    assert_true(changed > count / 2);
    char *config = exchange_read(out, "config.json");
    assert_non_null(strstr(config, "\"dtype\":\t\"bfloat16\""));
    free(config);
    free(a);
    free(b);
    model_free(&shapes);
    model_source_close(&source);
    model_source_close(&rounded);
    free(path);
    free(out);
}

/* What versions of transformers insist on: real numbers as such, whole ones as such. */
static void test_exchange__numbers_have_their_kind(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "\"final_logit_softcapping\":\t6.0", "\"attn_logit_softcapping\":\t2.0",
        "\"query_pre_attn_scalar\":\t12,", "\"sliding_window\":\t5,"};
    char *path = exchange_fixture("hf_gemma2");
    ModelSource source;
    cJSON *tree;
    assert_int_equal(model_source_open(&source, path), 0);
    assert_int_equal(hf_config(&source.spec, (HfConfigExtra){-1, -1, DT_F32}, &tree), 0);
    char *text = json_print(tree);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (strstr(text, wanted[i]) == NULL) {
            fail_msg("%s is not in %s", wanted[i], text);
        }
    }
    free(text);
    cJSON_Delete(tree);
    model_source_close(&source);
    free(path);
}

static void expect_equal(const ModelSpec *a, const ModelSpec *b)
{
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        if (spec_has(a, field) && spec_value(a, field) != spec_value(b, field)) {
            fail_msg("%s: %g, %g", field->name, spec_value(a, field), spec_value(b, field));
        }
    }
}

/* What a preset has and a model of it does not, the number below 0, is said in config.json, where
 * transformers would put something of its own, and comes back. */
static void test_exchange__what_is_taken_away_stays_away(void **state)
{
    (void)state;
    static const struct {
        const char *preset;
        SpecOverrides fields;
        const char *wanted[3];
    } cases[] = {
        {"gemma-2-2b",
         {.window = -1, .score_cap = -1},
         {"\"attn_logit_softcapping\":\tnull", "\"final_logit_softcapping\":\t30.0",
          "[\"full_attention\", \"full_attention\", \"full_attention\"]"}},
        {"gemma-2-2b",
         {.full_every = -1, .logit_cap = -1},
         {"\"final_logit_softcapping\":\tnull", "\"sliding_window\":\t4096",
          "[\"sliding_attention\", \"sliding_attention\", \"sliding_attention\"]"}},
        {"gemma-3-270m",
         {.window = -1, .score_scale = -1},
         {"\"sliding_window_pattern\":\t1,", "\"query_pre_attn_scalar\":\t256,",
          "[\"full_attention\", \"full_attention\", \"full_attention\"]"}},
        {"gemma-3-270m", {.window = -1, .qk_norm = 1}, {"\"model_type\":\t\"gemma2\""}},
        {"gemma-3-1b", {.full_every = 2}, {"\"sliding_window_pattern\":\t2,"}},
        {"llama-3.2-1b", {.rope_scaling = 1 + ROPE_PLAIN}, {"\"rope_type\":\t\"default\""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SpecOverrides fields = cases[i].fields, back;
        ModelSpec spec, read, again;
        cJSON *tree;
        fields.layers = 3;
        assert_int_equal(spec_resolve(cases[i].preset, &fields, 0, &spec), 0);
        assert_int_equal(hf_config(&spec, (HfConfigExtra){-1, -1, DT_F32}, &tree), 0);
        char *text = json_print(tree);
        for (int w = 0; w < 3 && cases[i].wanted[w] != NULL; w++) {
            if (strstr(text, cases[i].wanted[w]) == NULL) {
                fail_msg("%s is not in %s", cases[i].wanted[w], text);
            }
        }
        assert_int_equal(hf_config_parse(text, strlen(text), "config.json", &read), 0);
        expect_equal(&spec, &read);
        spec_overrides(&read, &back);
        assert_int_equal(spec_resolve(read.name, &back, 0, &again), 0);
        expect_equal(&spec, &again);
        cJSON_Delete(tree);
        free(text);
    }
}

static void test_exchange__every_f16_is_exact(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
        double sign = bits & 0x8000 ? -1 : 1;
        float got = f32_from_f16((uint16_t)bits);
        if (exponent == 31 && fraction != 0) {
            assert_true(isnan(got));
            continue;
        }
        double want = exponent == 31  ? (double)INFINITY
                      : exponent == 0 ? ldexp(fraction, -24)
                                      : ldexp(1024 + fraction, exponent - 25);
        assert_true((double)got == sign * want && (signbit(got) != 0) == (sign < 0));
    }
}

/* --- train --init and --resume --- */

static void test_exchange__init_names_the_option_to_give(void **state)
{
    (void)state;
    char *path = exchange_fixture("hf_llama");
    ModelSource source;
    assert_int_equal(model_source_open(&source, path), 0);
    Backend *backend = cpu_backend_open(1);
    static const struct {
        int64_t kv_heads, context;
        bool tied;
        double norm_eps;
        const char *message;
    } cases[] = {{6, 19, false, 1e-6, "give --kv-heads 2"},
                 {2, 19, true, 1e-6, "give --tied off"},
                 {2, 19, false, 1e-5, "give --norm-eps 1e-06"},
                 {2, 64, false, 1e-6, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ModelSpec spec = source.spec;
        spec.kv_heads = cases[i].kv_heads;
        spec.context = cases[i].context;
        spec.tied = cases[i].tied;
        spec.norm_eps = cases[i].norm_eps;
        Trainer t;
        open_trainer(&t, backend, &spec, 1, 8);
        int code = initial_weights(&t, path);
        if (cases[i].message != NULL) {
            exchange_expect(code, cases[i].message);
        } else {
            assert_int_equal(code, 0);
        }
        trainer_close(&t);
    }
    char *run = io_join(exchange_folder, "imported"), *checkpoint;
    assert_int_equal(import_model(path, run), 0);
    assert_int_equal(checkpoint_find(run, &checkpoint), 0);
    Trainer t;
    TrainState unused;
    open_trainer(&t, backend, &source.spec, 1, 8);
    exchange_expect(checkpoint_load(checkpoint, &t, &unused), "--init");
    trainer_close(&t);
    backend->close(backend);
    model_source_close(&source);
    free(checkpoint);
    free(run);
    free(path);
}

/* With arguments MODEL FOLDER: prints how far the model's logits are from
 * FOLDER/expected.safetensors (tools/hf_check.py). */
int main(int argc, char **argv)
{
    if (argc == 3) {
        printf("%g\n", compare_logits(argv[1], argv[2]));
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange__logits_are_those_of_transformers),
        cmocka_unit_test(test_exchange__gradients_are_those_of_pytorch),
        cmocka_unit_test(test_exchange__text_is_that_of_transformers),
        cmocka_unit_test(test_exchange__import_and_export_change_no_weight),
        cmocka_unit_test(test_exchange__ttt_models_go_out_and_come_back),
        cmocka_unit_test(test_exchange__bf16_export_rounds_to_nearest),
        cmocka_unit_test(test_exchange__numbers_have_their_kind),
        cmocka_unit_test(test_exchange__what_is_taken_away_stays_away),
        cmocka_unit_test(test_exchange__every_f16_is_exact),
        cmocka_unit_test(test_exchange__init_names_the_option_to_give),
    };
    return cmocka_run_group_tests(tests, exchange_make_folder, exchange_remove_folder);
}
