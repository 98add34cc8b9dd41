/* Folders of Hugging Face's that are refused: what pacer's models do not compute, tensors that
 * do not fit, indexes that lie. */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "exchange/hf_config.h"
#include "exchange/weight_folder.h"
#include "model/model.h"
#include "support/exchange_files.h"
#include "support/safe_values.h"
#include "tensor/safetensors.h"
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

/* The fixture's config.json with one field replaced. */
static int parse_with(const char *name, const char *field, const char *value, ModelSpec *spec)
{
    char *path = exchange_fixture(name), *text = exchange_read(path, "config.json");
    cJSON *root = cJSON_Parse(text), *item = cJSON_Parse(value);
    cJSON_DeleteItemFromObjectCaseSensitive(root, field);
    if (item != NULL) {
        cJSON_AddItemToObject(root, field, item);
    }
    char *changed = cJSON_PrintUnformatted(root);
    int code = hf_config_parse(changed, strlen(changed), "config.json", spec);
    cJSON_free(changed);
    cJSON_Delete(root);
    free(text);
    free(path);
    return code;
}

static void test_exchange_bad__config_refuses_what_is_not_computed(void **state)
{
    (void)state;
    static const struct {
        const char *fixture, *field, *value, *message;
    } cases[] = {
        {"hf_llama", "rope_parameters", "{\"rope_type\":\"longrope\",\"factor\":8}", "rope_type"},
        {"hf_llama", "rope_parameters", "{\"rope_type\":\"yarn\",\"factor\":8,\"mscale\":1}",
         "mscale"},
        {"hf_llama", "rope_parameters", "{\"rope_type\":\"llama3\",\"factor\":8}",
         "low_freq_factor"},
        {"hf_llama", "rope_scaling", "{\"type\":\"linear\"}", "\"factor\" of the scaled"},
        {"hf_llama", "layer_types", "[\"full_attention\",\"sliding_attention\"]", "layer_types"},
        {"hf_llama", "layer_types", "[\"sliding_attention\",\"sliding_attention\"]",
         "sliding_window"},
        {"hf_llama", "layer_types", "[\"full_attention\",\"chunked_attention\"]",
         "chunked_attention"},
        {"hf_llama", "layer_types", "[\"full_attention\"]", "layer_types"},
        {"hf_mistral", "layer_types", "[\"sliding_attention\",\"full_attention\"]", "layer_types"},
        {"hf_mistral", "sliding_window", "0", "sliding_window"},
        {"hf_qwen3", "attention_bias", "true", "attention_bias"},
        {"hf_qwen3", "final_logit_softcapping", "30.0", "final_logit_softcapping"},
        {"hf_gemma2", "layer_types",
         "[\"full_attention\",\"sliding_attention\",\"sliding_attention\"]", "layer_types"},
        {"hf_gemma2", "final_logit_softcapping", "-1", "final_logit_softcapping"},
        {"hf_gemma2", "query_pre_attn_scalar", "0", "query_pre_attn_scalar"},
        {"hf_gemma2", "hidden_activation", "\"relu\"", "hidden_activation"},
        {"hf_gemma2", "use_bidirectional_attention", "true", "use_bidirectional_attention"},
        {"hf_gemma3", "attn_logit_softcapping", "50.0", "attn_logit_softcapping"},
        {"hf_gemma3", "rope_parameters",
         "{\"full_attention\":{\"rope_type\":\"default\"},"
         "\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":2}}",
         "rope_type"},
        {"hf_gemma3", "rope_parameters",
         "{\"full_attention\":{\"rope_type\":\"default\"},"
         "\"sliding_attention\":{\"partial_rotary_factor\":0.5}}",
         "partial_rotary_factor"},
        {"hf_gemma3", "rope_parameters", "{\"rope_theta\":77.0}", "rope_parameters"},
        {"hf_gemma3", "rope_scaling", "{\"type\":\"linear\",\"factor\":8}",
         "name it \"rope_type\""},
        {"hf_qwen2", "rope_parameters",
         "{\"full_attention\":{\"rope_theta\":33.0},\"sliding_attention\":{\"rope_theta\":44.0}}",
         "\"rope_parameters\" differ"},
        {"hf_gemma3", "model_type", "\"gemma3\"", "gemma3_text"},
        {"hf_llama", "rope_scaling", "{\"type\":\"dynamic\",\"factor\":2}", "\"type\" is dynamic"},
        {"hf_llama", "rope_parameters", "{\"rope_theta\":-1}", "rope_theta"},
        {"hf_llama", "partial_rotary_factor", "0.5", "partial_rotary_factor"},
        {"hf_llama", "attention_bias", "true", "attention_bias"},
        {"hf_llama", "mlp_bias", "true", "mlp_bias"},
        {"hf_llama", "is_causal", "false", "is_causal"},
        {"hf_llama", "head_dim", "7", "head-dim"},
        {"hf_llama", "hidden_act", "\"gelu\"", "hidden_act"},
        {"hf_llama", "sliding_window", "4096", "sliding_window"},
        {"hf_llama", "quantization_config", "{\"bits\":4}", "quantization_config"},
        {"hf_llama", "model_type", "\"mixtral\"", "gpt2, llama"},
        {"hf_llama", "model_type", "[]", "model_type"},
        {"hf_llama", "hidden_size", "", "\"hidden_size\" is missing"},
        {"hf_llama", "hidden_size", "24.5", "\"hidden_size\" must be a whole number"},
        {"hf_llama", "num_hidden_layers", "1e9", "num_hidden_layers"},
        {"hf_llama", "num_key_value_heads", "4", "multiple"},
        {"hf_llama", "tie_word_embeddings", "\"yes\"", "tie_word_embeddings"},
        {"hf_gpt2", "activation_function", "\"gelu\"", "gelu_new"},
        {"hf_gpt2", "scale_attn_by_inverse_layer_idx", "true", "scale_attn_by_inverse_layer_idx"},
        {"hf_gpt2", "scale_attn_weights", "false", "scale_attn_weights"},
        {"hf_gpt2", "add_cross_attention", "true", "add_cross_attention"},
        {"hf_gpt2", "n_inner", "0", "n_inner"},
    };
    ModelSpec spec;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        exchange_expect(parse_with(cases[i].fixture, cases[i].field, cases[i].value, &spec),
                        cases[i].message);
    }
    assert_int_equal(parse_with("hf_gpt2", "n_inner", "null", &spec), 0);
    assert_int_equal(spec.ffn, 80);
    assert_int_equal(parse_with("hf_gpt2", "reorder_and_upcast_attn", "true", &spec), 0);
    assert_true(spec.norm_eps == 2e-5 && spec.tied && spec.rope_base == 0);
    assert_int_equal(parse_with("hf_gpt2", "layer_norm_epsilon", "", &spec), 0);
    assert_true(spec.norm_eps == 1e-5);
    assert_int_equal(parse_with("hf_llama", "rope_scaling", "{}", &spec), 0);
    assert_true(spec.rope_base == 500000.0 && spec.norm_eps == 1e-6);
    /* The older object counts where both are there, and a base that none says is transformers'. */
    assert_int_equal(parse_with("hf_llama", "rope_scaling", "{\"type\":\"default\"}", &spec), 0);
    assert_true(spec.rope_base == 10000.0);
    assert_int_equal(parse_with("hf_qwen2", "rope_parameters", "", &spec), 0);
    assert_true(spec.rope_base == 10000.0);
    assert_int_equal(parse_with("hf_gemma3", "rope_parameters", "", &spec), 0);
    assert_true(spec.rope_base == 1e6 && spec.rope_local_base == 10000.0);
    assert_int_equal(parse_with("hf_llama", "num_key_value_heads", "", &spec), 0);
    assert_int_equal(spec.kv_heads, 6);
    exchange_expect(hf_config_parse("[1", 2, "x.json", &spec), "is not JSON");
    /* A window that is switched off is none; scaled angles, the older way to write them. */
    assert_int_equal(parse_with("hf_qwen2", "sliding_window", "7", &spec), 0);
    assert_true(spec.qkv_bias);
    assert_int_equal(
        parse_with("hf_llama", "rope_scaling", "{\"type\":\"linear\",\"factor\":2}", &spec), 0);
    assert_true(spec.rope_scaling == ROPE_LINEAR && spec.rope_factor == 2 && !spec.qkv_bias);
}

/* Which layers have a window, by each of the ways to say it. */
static void test_exchange_bad__config_tells_windows(void **state)
{
    (void)state;
    static const struct {
        const char *fixture, *field, *value;
        int64_t window, full_every;
    } cases[] = {
        {"hf_mistral", "vocab_size", "53", 5, 0},
        {"hf_mistral", "sliding_window", "null", 0, 0},
        {"hf_mistral", "sliding_window", "", 4096, 0}, /* transformers' own */
        {"hf_qwen3", "sliding_window", "7", 0, 0},     /* switched off */
        {"hf_gemma2", "vocab_size", "53", 5, 2},
        {"hf_gemma2", "layer_types", "", 5, 2},
        {"hf_gemma2", "layer_types", "[\"full_attention\",\"full_attention\",\"full_attention\"]",
         0, 0},
        {"hf_gemma2", "layer_types",
         "[\"sliding_attention\",\"sliding_attention\",\"sliding_attention\"]", 5, 0},
        {"hf_gemma3", "vocab_size", "53", 5, 3},
        {"hf_gemma3", "layer_types", "", 5, 3},             /* sliding_window_pattern says it */
        {"hf_gemma3", "sliding_window_pattern", "2", 5, 3}, /* layer_types does */
    };
    ModelSpec spec;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse_with(cases[i].fixture, cases[i].field, cases[i].value, &spec), 0);
        if (spec.window != cases[i].window || spec.full_every != cases[i].full_every) {
            fail_msg("%s, %s %s: window %d, full every %d", cases[i].fixture, cases[i].field,
                     cases[i].value, (int)spec.window, (int)spec.full_every);
        }
    }
    /* GELU in a gated feed-forward; the caps and scales of Gemma. */
    assert_int_equal(parse_with("hf_llama", "hidden_act", "\"gelu_pytorch_tanh\"", &spec), 0);
    assert_int_equal(spec.ffn_kind, FFN_GEGLU);
    assert_int_equal(parse_with("hf_gpt2", "activation_function", "\"relu2\"", &spec), 0);
    assert_int_equal(spec.ffn_kind, FFN_RELU2);
    assert_int_equal(parse_with("hf_gemma2", "query_pre_attn_scalar", "8", &spec), 0);
    assert_true(spec.score_scale == 0 && spec.score_cap == 2 && spec.logit_cap == 6);
    assert_true(spec.post_norm && spec.names == NAMES_GEMMA && spec.ffn_kind == FFN_GEGLU);
    assert_int_equal(parse_with("hf_gemma2", "attn_logit_softcapping", "null", &spec), 0);
    assert_true(spec.score_cap == 0 && spec.logit_cap == 6);
    assert_int_equal(parse_with("hf_gemma3", "query_pre_attn_scalar", "16", &spec), 0);
    assert_true(spec.score_scale == 0.25 && spec.rope_local_base == 100 && spec.qk_norm);
    assert_true(fabs(spec.embed_scale - sqrt(24)) < 1e-14);
}

/* --- tensors that do not fit --- */

typedef struct {
    const char *drop; /* a tensor that is left out */
    const char *add;  /* one that is added ... */
    const char *like; /* ... with these values */
    size_t skip;      /* characters of every name that are left out */
    float change;     /* added to the first of the added values */
    int64_t longer;   /* rows more in the tensor `drop` instead of leaving it out */
} Change;

/* The GPT-2 fixture with a change, checked. */
static int check_changed(Change c)
{
    char *from = exchange_fixture("hf_gpt2"), *file = io_join(from, "model.safetensors");
    char *to = io_join(exchange_folder, "changed"), *out = io_join(to, "model.safetensors");
    char *config = exchange_read(from, "config.json");
    SafeFile safe;
    assert_int_equal(safetensors_open(file, &safe), 0);
    assert_int_equal(io_make_folders(to), 0);
    exchange_write(to, "config.json", config);
    SafeEntry *entries = mem_zalloc((size_t)safe.count + 1, sizeof *entries);
    float *values = mem_zalloc(100000, sizeof *values);
    void **copies = mem_zalloc((size_t)safe.count, sizeof *copies);
    int count = 0;
    for (int i = 0; i < safe.count; i++) {
        const SafeTensor *t = &safe.tensors[i];
        copies[i] = safe_values(t);
        Tensor tensor = {copies[i], t->dtype, t->rank, {0}};
        memcpy(tensor.dim, t->dim, sizeof tensor.dim);
        if (c.drop != NULL && strcmp(t->name, c.drop) == 0) {
            if (c.longer == 0) {
                continue;
            }
            tensor.dim[0] += c.longer;
            tensor.data = values;
        }
        if (c.like != NULL && strcmp(t->name, c.like) == 0) {
            memcpy(values, copies[i], t->bytes);
            values[0] += c.change;
            entries[count++] = (SafeEntry){c.add, tensor};
            entries[count - 1].tensor.data = values;
        }
        entries[count++] = (SafeEntry){t->name + c.skip, tensor};
    }
    assert_int_equal(safetensors_write(out, entries, count, NULL, NULL, NULL), 0);
    WeightFolder *changed;
    int code = weight_folder_open(to, &changed);
    if (code == 0) {
        const ModelSpec *spec = weight_folder_spec(changed);
        Model shapes;
        model_init(&shapes, spec, DT_F32, 1);
        code = weight_folder_check(changed, spec, &shapes.params);
        model_free(&shapes);
        weight_folder_close(changed);
    }
    for (int i = 0; i < safe.count; i++) {
        free(copies[i]);
    }
    safetensors_close(&safe);
    free(copies);
    free(entries);
    free(values);
    free(config);
    free(out);
    free(to);
    free(file);
    free(from);
    return code;
}

static void test_exchange_bad__tensors_that_do_not_fit_are_named(void **state)
{
    (void)state;
    const char *wte = "transformer.wte.weight", *fc = "transformer.h.1.mlp.c_fc.weight";
    assert_int_equal(check_changed((Change){.skip = strlen("transformer.")}), 0);
    exchange_expect(check_changed((Change){.drop = fc}),
                    "1 of the model's tensors is missing: \"transformer.h.1.mlp.c_fc.weight\"");
    exchange_expect(check_changed((Change){.drop = fc, .longer = 1}),
                    "(21, 52) F32, wanted (20, 52)");
    exchange_expect(check_changed((Change){.skip = 3}), "28 of the model's tensors are missing");
    exchange_expect(check_changed((Change){.add = "score.weight", .like = wte}),
                    "\"score.weight\"");
    assert_int_equal(check_changed((Change){.add = "lm_head.weight", .like = wte}), 0);
    exchange_expect(check_changed((Change){.add = "lm_head.weight", .like = wte, .change = 1}),
                    "differs from the embedding");
    assert_int_equal(
        check_changed((Change){.add = "transformer.h.0.attn.masked_bias", .like = wte}), 0);
    assert_int_equal(check_changed((Change){.add = "transformer.h.0.attn.bias", .like = wte}), 0);
}

/* The sharded fixture with another index. */
static int open_with_index(const char *find, const char *replace)
{
    char *from = exchange_fixture("hf_sharded"),
         *text = exchange_read(from, "model.safetensors.index.json");
    char *to = io_join(exchange_folder, "index"), *config = exchange_read(from, "config.json");
    io_remove_tree(to);
    assert_int_equal(io_make_folders(to), 0);
    exchange_write(to, "config.json", config);
    for (int i = 1; i <= 4; i++) {
        char *name = mem_format("model-%05d-of-00004.safetensors", i);
        char *old = io_join(from, name), *new = io_join(to, name);
        assert_int_equal(symlink(old, new), 0);
        free(old);
        free(new);
        free(name);
    }
    char *at = strstr(text, find);
    assert_non_null(at);
    char *changed = mem_format("%.*s%s%s", (int)(at - text), text, replace, at + strlen(find));
    exchange_write(to, "model.safetensors.index.json", changed);
    WeightFolder *opened;
    int code = weight_folder_open(to, &opened);
    weight_folder_close(opened);
    free(changed);
    free(config);
    free(to);
    free(text);
    free(from);
    return code;
}

static void test_exchange_bad__an_index_is_held_against_its_files(void **state)
{
    (void)state;
    const char *first = "\"lm_head.weight\": \"model-00004-of-00004.safetensors\"";
    char *above = exchange_fixture("hf_sharded/model-00001-of-00004.safetensors");
    char *absolute = mem_format("\"lm_head.weight\": \"%s\"", above);
    assert_int_equal(open_with_index("weight_map", "weight_map"), 0);
    exchange_expect(open_with_index(first, absolute), "plain name");
    exchange_expect(open_with_index(first, "\"lm_head.weight\": \"../x\""), "plain name");
    exchange_expect(open_with_index(first, "\"lm_head.weight\": 5"), "plain name");
    exchange_expect(open_with_index(first, "\"lm_head.weight\": \"none.safetensors\""), "none");
    exchange_expect(
        open_with_index(first, "\"lm_head.weight\": \"model-00001-of-00004.safetensors\""),
        "where it is listed");
    char *twice = mem_format("%s, %s", first, first);
    exchange_expect(open_with_index(first, twice), "twice");
    free(twice);
    exchange_expect(open_with_index("lm_head.weight", "head.weight"), "where it is listed");
    exchange_expect(
        open_with_index(first, "\"transformer.wte.weight\": \"model-00001-of-00004.safetensors\""),
        "is");
    exchange_expect(open_with_index("weight_map", "map"), "weight_map");
    free(absolute);
    free(above);
}

static void test_exchange_bad__other_files_are_refused_with_a_way_out(void **state)
{
    (void)state;
    char *from = exchange_fixture("hf_gpt2"), *config = exchange_read(from, "config.json");
    char *to = io_join(exchange_folder, "bin");
    WeightFolder *opened;
    assert_int_equal(io_make_folders(to), 0);
    exchange_expect(weight_folder_open(to, &opened), "config.json");
    exchange_write(to, "config.json", config);
    exchange_expect(weight_folder_open(to, &opened), "neither");
    exchange_write(to, "pytorch_model.bin", "PK");
    exchange_expect(weight_folder_open(to, &opened), "safe_serialization=True");
    ModelSource source;
    exchange_expect(model_source_open(&source, exchange_folder), "neither a run directory");
    free(to);
    free(config);
    free(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange_bad__config_refuses_what_is_not_computed),
        cmocka_unit_test(test_exchange_bad__config_tells_windows),
        cmocka_unit_test(test_exchange_bad__tensors_that_do_not_fit_are_named),
        cmocka_unit_test(test_exchange_bad__an_index_is_held_against_its_files),
        cmocka_unit_test(test_exchange_bad__other_files_are_refused_with_a_way_out),
    };
    return cmocka_run_group_tests(tests, exchange_make_folder, exchange_remove_folder);
}
