/* GGUF files read back by a reader of their own: head, fields, alignment, and every value of every
 * tensor by definition, on odd shapes. The weights are a function of row and element. */
#include "exchange/gguf.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/model.h"
#include "support/exchange_files.h"
#include "support/gguf_file.h"
#include "support/small_tokenizer.h"
#include "tensor/half.h"
#include "tensor/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TOKENS 267 /* of the small tokenizer */

static void expect_whole(const Gguf *g, const char *name, int64_t value)
{
    const Field *f = field_of(g, name);
    assert_true(f != NULL && f->type == 4);
    assert_int_equal(f->value, value);
}

static void expect_real(const Gguf *g, const char *name, double value)
{
    const Field *f = field_of(g, name);
    assert_true(f != NULL && f->type == 6);
    uint32_t bits = (uint32_t)f->value;
    float found;
    memcpy(&found, &bits, sizeof found);
    assert_true(found == (float)value);
}

static void expect_text(const Gguf *g, const char *name, const char *value)
{
    const Field *f = field_of(g, name);
    assert_true(f != NULL && f->type == 8);
    assert_string_equal(f->text, value);
}

/* --- models --- */

typedef struct {
    const char *preset, *arch;
    SpecOverrides o;
} Case;

static const Case cases[] = {
    {"gpt2-124m", "gpt2", {.layers = 2, .width = 36, .heads = 3, .vocab = TOKENS, .context = 9}},
    {"gpt2-124m",
     "gpt2",
     {.layers = 1, .width = 64, .heads = 4, .ffn = 100, .vocab = 300, .context = 7, .tied = 1}},
    {"llama-22m",
     "llama",
     {.layers = 2,
      .width = 64,
      .heads = 6,
      .kv_heads = 2,
      .head_dim = 10,
      .ffn = 96,
      .vocab = 301,
      .context = 40}},
    {"llama-22m",
     "llama",
     {.layers = 1,
      .width = 35,
      .heads = 3,
      .head_dim = 16,
      .ffn = 33,
      .vocab = TOKENS,
      .context = 64,
      .tied = 2,
      .rope_scaling = 1 + ROPE_LLAMA3,
      .rope_factor = 8,
      .rope_low = 1,
      .rope_high = 4,
      .rope_context = 32}},
    {"llama-22m",
     "llama",
     {.layers = 1,
      .width = 32,
      .heads = 2,
      .vocab = TOKENS,
      .context = 64,
      .rope_scaling = 1 + ROPE_YARN,
      .rope_factor = 4,
      .rope_low = 1,
      .rope_high = 30,
      .rope_context = 16,
      .rope_gain = 1.25}},
    {"mistral-7b",
     "llama",
     {.layers = 1, .width = 32, .heads = 2, .vocab = TOKENS, .context = 9, .window = 9}},
    {"qwen2.5-0.5b",
     "qwen2",
     {.layers = 2,
      .width = 96,
      .heads = 6,
      .kv_heads = 2,
      .head_dim = 16,
      .ffn = 40,
      .vocab = 280,
      .context = 64,
      .rope_scaling = 1 + ROPE_LINEAR,
      .rope_factor = 2}},
    {"qwen3-0.6b",
     "qwen3",
     {.layers = 2,
      .width = 48,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 16,
      .ffn = 40,
      .vocab = TOKENS,
      .context = 64}},
    {"gemma-2-2b",
     "gemma2",
     {.layers = 3,
      .width = 48,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 16,
      .ffn = 40,
      .vocab = 280,
      .context = 64,
      .window = 7}},
    {"gemma-3-270m",
     "gemma3",
     {.layers = 7,
      .width = 32,
      .heads = 2,
      .kv_heads = 1,
      .head_dim = 16,
      .ffn = 40,
      .vocab = TOKENS,
      .context = 64,
      .window = 9}},
};
#define CASES (sizeof cases / sizeof cases[0])

/* Element i of a row of the table; one block of q8_0 is all zero. */
static float value_of(int row, int64_t i)
{
    float value;
    rng_normals(9, (uint64_t)row, (uint64_t)i, 1, &value);
    return i >= 32 && i < 64 ? 0 : 0.3f * value;
}

typedef struct {
    ModelSpec spec;
    Model shapes;
    WeightFolder *weights;
    char *folder;
    HfModel model;
} Made;

static int give_values(void *user, const SafeEntry *entry, size_t offset, void *to, size_t bytes)
{
    const Made *m = user;
    int row = 0;
    while (strcmp(m->shapes.params.rows[row].name, entry->name) != 0) {
        row++;
    }
    for (size_t i = 0; i < bytes / 4; i++) {
        ((float *)to)[i] = value_of(row, (int64_t)(offset / 4 + i));
    }
    return 0;
}

static void make(Made *m, const Case *k, bool trained)
{
    *m = (Made){.folder = mem_format("%s/made", exchange_folder)};
    assert_int_equal(spec_resolve(k->preset, &k->o, 0, &m->spec), 0);
    model_init(&m->shapes, &m->spec, DT_F32, 1);
    assert_int_equal(io_make_folders(m->folder), 0);
    char *file = io_join(m->folder, "model.safetensors"),
         *json = io_join(m->folder, "tokenizer.json");
    const ParamTable *table = &m->shapes.params;
    SafeEntry *entries = mem_zalloc((size_t)table->count, sizeof *entries);
    for (int r = 0; r < table->count; r++) {
        entries[r] = (SafeEntry){table->rows[r].name, weight_shape(&table->rows[r], false, DT_F32)};
    }
    SafeSource source = {give_values, m};
    assert_int_equal(safetensors_write(file, entries, table->count, NULL, &source, NULL), 0);
    Tokenizer *tokenizer = small_tokenizer();
    assert_int_equal(tokenizer_write_json(tokenizer, json), 0);
    tokenizer_free(tokenizer);
    exchange_write(m->folder, "state.json", "{}"); /* a checkpoint's, not read here */
    assert_int_equal(weight_folder_open(m->folder, &m->weights), 0);
    m->model = (HfModel){m->weights, &m->spec, m->folder, trained};
    free(entries);
    free(file);
    free(json);
}

static void unmake(Made *m)
{
    weight_folder_close(m->weights);
    model_free(&m->shapes);
    assert_int_equal(io_remove_tree(m->folder), 0);
    free(m->folder);
}

static Gguf *exported(const Made *m, GgufType type)
{
    char *path = io_join(exchange_folder, "x.gguf");
    unlink(path);
    if (gguf_export(&m->model, type, path) != 0) {
        fail_msg("%s", err_message());
    }
    Gguf *g = read_gguf(path);
    exchange_expect(gguf_export(&m->model, type, path), "x.gguf: exists");
    free(path);
    return g;
}

/* --- values --- */

/* Rows of the table by their names here; %d is the layer. gemma: where it is not llama's. */
static const struct {
    const char *gguf, *gpt2, *llama, *gemma;
} names[] = {
    {"token_embd", "wte", "model.embed_tokens", NULL},
    {"position_embd", "wpe", "-", NULL},
    {"output_norm", "ln_f", "model.norm", NULL},
    {"output", "lm_head", "lm_head", NULL},
    {"blk.%d.attn_norm", "h.%d.ln_1", "model.layers.%d.input_layernorm", NULL},
    {"blk.%d.attn_qkv", "h.%d.attn.qkv", "-", NULL},
    {"blk.%d.attn_q", "-", "model.layers.%d.self_attn.q_proj", NULL},
    {"blk.%d.attn_k", "-", "model.layers.%d.self_attn.k_proj", NULL},
    {"blk.%d.attn_v", "-", "model.layers.%d.self_attn.v_proj", NULL},
    {"blk.%d.attn_output", "h.%d.attn.proj", "model.layers.%d.self_attn.o_proj", NULL},
    {"blk.%d.attn_q_norm", "-", "model.layers.%d.self_attn.q_norm", NULL},
    {"blk.%d.attn_k_norm", "-", "model.layers.%d.self_attn.k_norm", NULL},
    {"blk.%d.post_attention_norm", "-", "-", "model.layers.%d.post_attention_layernorm"},
    {"blk.%d.ffn_norm", "h.%d.ln_2", "model.layers.%d.post_attention_layernorm",
     "model.layers.%d.pre_feedforward_layernorm"},
    {"blk.%d.post_ffw_norm", "-", "-", "model.layers.%d.post_feedforward_layernorm"},
    {"blk.%d.ffn_gate", "-", "model.layers.%d.mlp.gate_proj", NULL},
    {"blk.%d.ffn_up", "h.%d.mlp.fc", "model.layers.%d.mlp.up_proj", NULL},
    {"blk.%d.ffn_down", "h.%d.mlp.proj", "model.layers.%d.mlp.down_proj", NULL},
};

/* The tensor of a row of the table; NULL: the file has none. */
static const Listed *tensor_of(const Gguf *g, const Param *row, const ModelSpec *s)
{
    const char *const suffixes[] = {".weight", ".bias"};
    for (size_t i = 0; i < 2 * sizeof names / sizeof names[0]; i++) {
        char own[96], there[96];
        const char *suffix = suffixes[i % 2];
        bool gemma = s->post_norm && names[i / 2].gemma != NULL;
        const char *format = s->names == NAMES_GPT2 ? names[i / 2].gpt2
                             : gemma                ? names[i / 2].gemma
                                                    : names[i / 2].llama;
        snprintf(own, sizeof own, format, row->layer);
        strcat(own, suffix);
        if (strcmp(own, row->name) == 0) {
            snprintf(there, sizeof there, names[i / 2].gguf, row->layer);
            return listed_of(g, strcat(there, suffix));
        }
    }
    return NULL;
}

static float half_at(const uint8_t *at, bool brain)
{
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return brain ? f32_from_bf16(half) : f32_from_f16(half);
}

/* The value as stored is one that is nearest. `to`: element of the tensor, `expected` its value. */
static void check_value(const Gguf *g, const Listed *t, int64_t to, float expected)
{
    const uint8_t *data = (const uint8_t *)g->bytes + g->data + t->offset;
    float found;
    double allowed = 0;
    if (t->type == 0) {
        memcpy(&found, data + 4 * to, sizeof found);
    } else if (t->type == 1 || t->type == 30) {
        found = half_at(data + 2 * to, t->type == 30);
        allowed = fmax(fabs((double)expected) * (t->type == 1 ? 0x1p-11 : 0x1p-8), 0x1p-25);
    } else {
        assert_int_equal(t->type, 8);
        const uint8_t *block = data + to / 32 * 34;
        double step = half_at(block, false);
        found = (float)(step * (int8_t)block[2 + to % 32]);
        allowed = step * (0.5 + 127 * 0x1p-11) + 1e-7;
    }
    if (!(fabs((double)found - (double)expected) <= allowed)) {
        fail_msg("%s, element %lld: %.9g, not %.9g", t->name, (long long)to, (double)found,
                 (double)expected);
    }
}

/* Where element i of a row of the table is. llama.cpp turns neighbours 2p and 2p + 1 of a head of
 * this model, pacer p and p + D/2. */
static int64_t place_of(const Made *m, const char *arch, const Listed *t, int64_t i)
{
    bool turned = strcmp(arch, "llama") == 0 &&
                  (strstr(t->name, "attn_q.") != NULL || strstr(t->name, "attn_k.") != NULL);
    if (!turned) {
        return i;
    }
    int64_t columns = t->dims == 2 ? (int64_t)t->dim[0] : 1, width = m->spec.head_dim;
    int64_t row = i / columns, head = row / width, inside = row % width;
    int64_t pair = inside % (width / 2), side = inside / (width / 2);
    return (head * width + 2 * pair + side) * columns + i % columns;
}

static int expected_type(const Listed *t, GgufType type)
{
    static const int types[] = {0, 1, 30, 8};
    if (t->dims == 1 || strcmp(t->name, "position_embd.weight") == 0) {
        return 0;
    }
    return type == GGUF_Q8_0 && t->dim[0] % 32 != 0 ? 1 : types[type];
}

static size_t bytes_of(const Listed *t)
{
    size_t count = (size_t)(t->dim[0] * t->dim[1]);
    return t->type == 0 ? 4 * count : t->type == 8 ? count / 32 * 34 : 2 * count;
}

static void check_tensors(const Gguf *g, const Made *m, const Case *k, GgufType type)
{
    const ParamTable *table = &m->shapes.params;
    bool factors = m->spec.rope_scaling == ROPE_LLAMA3;
    assert_int_equal(g->tensor_count, table->count + factors);
    size_t end = 0;
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        const Listed *t = tensor_of(g, row, &m->spec);
        if (t == NULL) {
            fail_msg("%s is missing", row->name);
        }
        assert_int_equal(t->dims, row->rank);
        assert_int_equal(t->dim[0], row->dim[row->rank - 1]);
        assert_int_equal(t->dim[1], row->rank == 2 ? row->dim[0] : 1);
        assert_int_equal(t->type, expected_type(t, type));
        assert_true(g->data + t->offset + bytes_of(t) <= g->size);
        end = t->offset + bytes_of(t) > end ? t->offset + bytes_of(t) : end;
        for (int64_t i = 0; i < row->count; i++) {
            check_value(g, t, place_of(m, k->arch, t, i), value_of(r, i));
        }
    }
    assert_int_equal(g->size, g->data + (end + 31) / 32 * 32);
}

/* By what each pair's angle is divided, from wavelengths as Llama 3 has it. */
static void check_factors(const Gguf *g, const ModelSpec *s)
{
    const Listed *t = listed_of(g, "rope_freqs.weight");
    assert_true(t != NULL && t->dims == 1 && t->type == 0);
    assert_int_equal(t->dim[0], s->head_dim / 2);
    int kinds[3] = {0};
    for (int64_t i = 0; i < s->head_dim / 2; i++) {
        double length = 2 * acos(-1) * pow(s->rope_base, 2.0 * (double)i / (double)s->head_dim);
        double context = (double)s->rope_context, expected = 1;
        if (length > context / s->rope_low) {
            expected = s->rope_factor;
        } else if (length >= context / s->rope_high) {
            double smooth = (context / length - s->rope_low) / (s->rope_high - s->rope_low);
            expected = 1 / ((1 - smooth) / s->rope_factor + smooth);
        }
        kinds[expected == 1 ? 0 : expected == s->rope_factor ? 2 : 1]++;
        float found;
        memcpy(&found, g->bytes + g->data + t->offset + 4 * i, sizeof found);
        assert_true(fabs((double)found - expected) <= 1e-6 * expected);
    }
    assert_true(kinds[0] > 0 && kinds[1] > 0 && kinds[2] > 0);
}

/* --- fields --- */

static void check_fields(const Gguf *g, const Made *m, const Case *k)
{
    const ModelSpec *s = &m->spec;
    const struct {
        const char *name;
        int64_t value;
    } wholes[] = {{"block_count", s->layers},
                  {"context_length", s->context},
                  {"embedding_length", s->width},
                  {"feed_forward_length", s->ffn},
                  {"vocab_size", s->vocab},
                  {"attention.head_count", s->heads},
                  {"attention.head_count_kv", s->kv_heads},
                  {"attention.key_length", s->head_dim},
                  {"attention.value_length", s->head_dim}};
    char name[80];
    expect_text(g, "general.architecture", k->arch);
    assert_ptr_equal(field_of(g, "general.architecture"), &g->fields[0]);
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
        snprintf(name, sizeof name, "%s.%s", k->arch, wholes[i].name);
        expect_whole(g, name, wholes[i].value);
    }
    if (s->names == NAMES_GPT2) {
        expect_real(g, "gpt2.attention.layer_norm_epsilon", s->norm_eps);
        assert_null(field_of(g, "gpt2.rope.freq_base"));
        return;
    }
    snprintf(name, sizeof name, "%s.rope.freq_base", k->arch);
    expect_real(g, name, s->rope_base);
    snprintf(name, sizeof name, "%s.rope.dimension_count", k->arch);
    expect_whole(g, name, s->head_dim);
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", k->arch);
    expect_real(g, name, s->norm_eps);
    if (s->rope_scaling == ROPE_YARN) {
        expect_text(g, "llama.rope.scaling.type", "yarn");
        expect_real(g, "llama.rope.scaling.factor", 4);
        expect_whole(g, "llama.rope.scaling.original_context_length", 16);
        expect_real(g, "llama.rope.scaling.attn_factor", 1.25 / (1 + 0.1 * log(4)));
        expect_real(g, "llama.rope.scaling.yarn_beta_fast", 30);
        expect_real(g, "llama.rope.scaling.yarn_beta_slow", 1);
    } else if (s->rope_scaling == ROPE_LINEAR) {
        expect_text(g, "qwen2.rope.scaling.type", "linear");
        expect_real(g, "qwen2.rope.scaling.factor", 2);
    } else {
        assert_null(field_of(g, "llama.rope.scaling.type"));
    }
    if (s->window >= s->context) { /* changes nothing */
        assert_null(field_of(g, "llama.attention.sliding_window"));
    } else if (s->window > 0) {
        snprintf(name, sizeof name, "%s.attention.sliding_window", k->arch);
        expect_whole(g, name, strcmp(k->arch, "gemma2") == 0 ? 7 : 9);
    }
    if (strcmp(k->arch, "gemma2") == 0) {
        expect_real(g, "gemma2.attn_logit_softcapping", 50);
        expect_real(g, "gemma2.final_logit_softcapping", 30);
    } else if (strcmp(k->arch, "gemma3") == 0) {
        expect_real(g, "gemma3.rope.freq_base_swa", 10000);
    }
}

static void check_vocab(const Gguf *g, const Made *m)
{
    const Field *tokens = field_of(g, "tokenizer.ggml.tokens");
    const Field *types = field_of(g, "tokenizer.ggml.token_type");
    const Field *merges = field_of(g, "tokenizer.ggml.merges");
    expect_text(g, "tokenizer.ggml.model", "gpt2");
    expect_text(g, "tokenizer.ggml.pre", "gpt-2");
    assert_int_equal(tokens->count, m->spec.vocab);
    assert_int_equal(types->count, m->spec.vocab);
    assert_int_equal(merges->count, 10);
    assert_string_equal(tokens->texts[0], "<|endoftext|>");
    assert_string_equal(tokens->texts[1], "\xC4\x80"); /* byte 0 is U+0100 */
    assert_string_equal(tokens->texts['a' + 1], "a");
    assert_string_equal(tokens->texts[' ' + 1], "\xC4\xA0");
    assert_string_equal(tokens->texts[0xFF + 1], "\xC3\xBF");
    assert_string_equal(tokens->texts[259], "\xC4\xA0the");
    assert_string_equal(merges->texts[2], "\xC4\xA0t he");
    for (int64_t id = 0; id < m->spec.vocab; id++) {
        assert_int_equal(types->wholes[id], id == 0 ? 3 : id < TOKENS ? 1 : 5);
    }
    if (m->spec.vocab > TOKENS) {
        char unused[16];
        snprintf(unused, sizeof unused, "[PAD%d]", TOKENS);
        assert_string_equal(tokens->texts[TOKENS], unused);
    }
    expect_whole(g, "tokenizer.ggml.bos_token_id", 0);
    expect_whole(g, "tokenizer.ggml.eos_token_id", 0);
    assert_int_equal(field_of(g, "tokenizer.ggml.add_bos_token")->value, m->model.trained);
}

static void test_gguf__is_the_model_by_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        for (int type = GGUF_F32; type <= GGUF_Q8_0; type++) {
            Made m;
            make(&m, &cases[i], i % 2 == 0);
            Gguf *g = exported(&m, (GgufType)type);
            check_fields(g, &m, &cases[i]);
            check_vocab(g, &m);
            check_tensors(g, &m, &cases[i], (GgufType)type);
            if (m.spec.rope_scaling == ROPE_LLAMA3) {
                check_factors(g, &m.spec);
            }
            free_gguf(g);
            unmake(&m);
        }
    }
}

/* What tokenizer_config.json of an imported model says goes with it. */
static void test_gguf__takes_what_the_tokenizer_says(void **state)
{
    (void)state;
    Made m;
    make(&m, &cases[0], false);
    exchange_write(m.folder, "tokenizer_config.json",
                   "{\"bos_token\": {\"content\": \"<|endoftext|>\"}, \"add_bos_token\": true, "
                   "\"chat_template\": \"{{ x }}\"}");
    Gguf *g = exported(&m, GGUF_F32);
    assert_int_equal(field_of(g, "tokenizer.ggml.add_bos_token")->value, 1);
    expect_text(g, "tokenizer.chat_template", "{{ x }}");
    free_gguf(g);
    unmake(&m);
}

static void test_gguf__refuses_by_name(void **state)
{
    (void)state;
    const struct {
        const char *preset, *says;
        SpecOverrides o;
    } bad[] = {
        {"ttt-125m", "a ttt model", {.layers = 1, .width = 64, .heads = 4, .vocab = TOKENS}},
        {"llama-22m",
         "--ffn-kind geglu",
         {.layers = 1, .width = 64, .heads = 4, .vocab = TOKENS, .ffn_kind = 1 + FFN_GEGLU}},
        {"gpt2-124m",
         "--ffn-kind relu2",
         {.layers = 1, .width = 64, .heads = 4, .vocab = TOKENS, .ffn_kind = 1 + FFN_RELU2}},
        {"qwen3-0.6b",
         "--window 5",
         {.layers = 2, .width = 64, .heads = 4, .kv_heads = 2, .vocab = TOKENS, .window = 5}},
        {"mistral-7b",
         "llama models do not compute --window 5",
         {.layers = 2, .width = 64, .heads = 4, .kv_heads = 2, .vocab = TOKENS, .window = 5}},
        {"gemma-2-2b",
         "--full-every 3",
         {.layers = 3, .width = 64, .heads = 4, .vocab = TOKENS, .window = 5, .full_every = 3}},
        {"tiny", "has 267 tokens, the model 200", {.vocab = 200}},
    };
    static const char *const kinds[][2] = {{"nfkc_lower.json", "normalizer NFKC"},
                                           {"qwen2.json", "<mask> takes spaces around it"}};
    char *path = io_join(exchange_folder, "refused.gguf");
    Made m;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        make(&m, &(Case){bad[i].preset, "", bad[i].o}, true);
        exchange_expect(gguf_export(&m.model, GGUF_F32, path), bad[i].says);
        unmake(&m);
    }
    make(&m, &(Case){"tiny", "", {.vocab = 600}}, true);
    for (int i = 0; i < 2; i++) {
        char *kind = exchange_read(PACER_GOLD_DIR "/tokenizers", kinds[i][0]);
        exchange_write(m.folder, "tokenizer.json", kind);
        exchange_expect(gguf_export(&m.model, GGUF_F32, path), kinds[i][1]);
        free(kind);
    }
    exchange_write(m.folder, "tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}");
    exchange_expect(gguf_export(&m.model, GGUF_F32, path), "Unigram");
    m.model.tokenizer = exchange_folder;
    exchange_expect(gguf_export(&m.model, GGUF_F32, path), "has no tokenizer");
    unmake(&m);
    assert_false(io_exists(path));
    free(path);
}

/* --- halves --- */

static void test_gguf__halves_are_the_nearest(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        float value = f32_from_f16((uint16_t)half);
        if (isnan(value)) {
            assert_true(isnan(f32_from_f16(f16_from_f32(value))));
            continue;
        }
        assert_int_equal(f16_from_f32(value), half);
        if ((half & 0x7FFF) >= 0x7BFF) { /* the largest, and infinity */
            continue;
        }
        /* Half way to the next is exact in f32, and goes to the even one; beside it, to the
         * nearer. */
        float next = f32_from_f16((uint16_t)(half + 1)), middle = value + (next - value) / 2;
        assert_int_equal(f16_from_f32(middle), half + (half & 1));
        assert_int_equal(f16_from_f32(nextafterf(middle, value)), half);
        assert_int_equal(f16_from_f32(nextafterf(middle, next)), half + 1);
    }
    assert_int_equal(f16_from_f32(65519.996f), 0x7BFF);
    assert_int_equal(f16_from_f32(65520.0f), 0x7C00);
    assert_int_equal(f16_from_f32(-1e30f), 0xFC00);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf__is_the_model_by_definition),
        cmocka_unit_test(test_gguf__takes_what_the_tokenizer_says),
        cmocka_unit_test(test_gguf__refuses_by_name),
        cmocka_unit_test(test_gguf__halves_are_the_nearest),
    };
    return cmocka_run_group_tests(tests, exchange_make_folder, exchange_remove_folder);
}
