/* Reading config.json. Fields that decide what is computed are either read, or must have the one
 * value that pacer's models compute with; fields that a file leaves out have the value that
 * transformers gives them. Other fields (dropout, token ids, names of classes) are not looked
 * at. */
#include "exchange/hf_config.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNDERSTOOD "gpt2, llama, and ttt as pacer exports it"

typedef struct {
    const char *path;
    const cJSON *root;
    int code; /* the first failure; later questions then do nothing */
} Reader;

static const cJSON *member(Reader *r, const cJSON *object, const char *name)
{
    const cJSON *item = json_get(object, name);
    return r->code != 0 || cJSON_IsNull(item) ? NULL : item;
}

/* A whole number from 1 to most. A field that is missing has the value `initial`; 0: it must be
 * there. */
static int64_t whole(Reader *r, const char *name, int64_t initial, double most)
{
    const cJSON *item = member(r, r->root, name);
    if (r->code != 0 || (item == NULL && initial > 0)) {
        return initial;
    }
    double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(value >= 1 && value <= most) || value != floor(value)) {
        r->code = err_set(ERR_INPUT, "%s: \"%s\" %s a whole number from 1 to %.0f", r->path, name,
                          item == NULL ? "is missing; it must be" : "must be", most);
        return 0;
    }
    return (int64_t)value;
}

/* A number in (0, most], kept to 15 digits as options are. */
static double real(Reader *r, const cJSON *object, const char *name, double initial, double most)
{
    const cJSON *item = member(r, object, name);
    if (item == NULL) {
        return initial;
    }
    double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(value > 0 && value <= most)) {
        r->code = err_set(ERR_INPUT, "%s: \"%s\" must be a number above 0, at most %g", r->path,
                          name, most);
        return initial;
    }
    char digits[40];
    snprintf(digits, sizeof digits, "%.15g", value);
    return strtod(digits, NULL);
}

static bool truth(Reader *r, const char *name, bool initial)
{
    const cJSON *item = member(r, r->root, name);
    if (item != NULL && !cJSON_IsBool(item)) {
        r->code = err_set(ERR_INPUT, "%s: \"%s\" must be true or false", r->path, name);
    }
    return item != NULL && cJSON_IsBool(item) ? cJSON_IsTrue(item) : initial;
}

static void require_truth(Reader *r, const char *name, bool value)
{
    if (truth(r, name, value) != value && r->code == 0) {
        r->code = err_set(ERR_INPUT, "%s: \"%s\" is %s, which pacer's models do not compute",
                          r->path, name, value ? "false" : "true");
    }
}

static void require_absent(Reader *r, const cJSON *object, const char *name)
{
    const cJSON *item = member(r, object, name);
    if (item != NULL && !cJSON_IsFalse(item)) {
        r->code = err_set(ERR_INPUT, "%s: has \"%s\", which pacer's models do not compute", r->path,
                          name);
    }
}

/* The text is one of the names (NULL-terminated), or missing. */
static void require_name(Reader *r, const cJSON *object, const char *field,
                         const char *const *names)
{
    const cJSON *item = member(r, object, field);
    if (item == NULL) {
        return;
    }
    for (int i = 0; names[i] != NULL; i++) {
        if (cJSON_IsString(item) && strcmp(item->valuestring, names[i]) == 0) {
            return;
        }
    }
    r->code =
        err_set(ERR_INPUT, "%s: \"%s\" is %.60s, which pacer's models do not compute; %s is",
                r->path, field, cJSON_IsString(item) ? item->valuestring : "not a name", names[0]);
}

static void read_gpt2(Reader *r, ModelSpec *s)
{
    static const char *const gelus[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", NULL};
    s->layers = whole(r, "n_layer", 0, 10000);
    s->width = whole(r, "n_embd", 0, 1e6);
    s->heads = s->kv_heads = whole(r, "n_head", 0, 100000);
    s->ffn = whole(r, "n_inner", 4 * s->width, 10e6);
    s->vocab = whole(r, "vocab_size", 0, 10e6);
    s->context = whole(r, "n_positions", 0, 10e6);
    s->norm_eps = real(r, r->root, "layer_norm_epsilon", 1e-5, 1);
    s->tied = truth(r, "tie_word_embeddings", true);
    require_name(r, r->root, "activation_function", gelus);
    require_truth(r, "scale_attn_weights", true);
    require_truth(r, "scale_attn_by_inverse_layer_idx", false);
    require_truth(r, "add_cross_attention", false);
}

/* Rotary positions are described by rope_theta with rope_scaling (null, or an object), or, in
 * newer files, by one object rope_parameters. */
static void read_rope(Reader *r, ModelSpec *s)
{
    static const char *const plain[] = {"default", NULL};
    const char *const objects[] = {"rope_scaling", "rope_parameters"};
    s->rope_base = real(r, r->root, "rope_theta", 10000.0, 1e12);
    for (int i = 0; i < 2; i++) {
        const cJSON *rope = member(r, r->root, objects[i]);
        if (rope == NULL) {
            continue;
        }
        if (!cJSON_IsObject(rope)) {
            r->code =
                err_set(ERR_INPUT, "%s: \"%s\" must be an object or null", r->path, objects[i]);
            return;
        }
        require_name(r, rope, "rope_type", plain);
        require_name(r, rope, "type", plain);
        if (real(r, rope, "partial_rotary_factor", 1, 1) != 1 && r->code == 0) {
            r->code = err_set(ERR_INPUT,
                              "%s: \"partial_rotary_factor\" is not 1: pacer's models turn whole "
                              "heads",
                              r->path);
        }
        s->rope_base = real(r, rope, "rope_theta", s->rope_base, 1e12);
    }
    if (real(r, r->root, "partial_rotary_factor", 1, 1) != 1 && r->code == 0) {
        r->code = err_set(ERR_INPUT,
                          "%s: \"partial_rotary_factor\" is not 1: pacer's models turn whole heads",
                          r->path);
    }
}

static void read_llama(Reader *r, ModelSpec *s)
{
    static const char *const silus[] = {"silu", "swish", NULL};
    s->layers = whole(r, "num_hidden_layers", 0, 10000);
    s->width = whole(r, "hidden_size", 0, 1e6);
    s->heads = whole(r, "num_attention_heads", 0, 100000);
    s->kv_heads = whole(r, "num_key_value_heads", s->heads, 100000);
    s->ffn = whole(r, "intermediate_size", 0, 10e6);
    s->vocab = whole(r, "vocab_size", 0, 10e6);
    s->context = whole(r, "max_position_embeddings", 2048, 10e6);
    s->norm_eps = real(r, r->root, "rms_norm_eps", 1e-6, 1);
    s->tied = truth(r, "tie_word_embeddings", false);
    read_rope(r, s);
    require_name(r, r->root, "hidden_act", silus);
    require_truth(r, "attention_bias", false);
    require_truth(r, "mlp_bias", false);
    require_absent(r, r->root, "sliding_window");
    int64_t inner = whole(r, "head_dim", s->heads > 0 ? s->width / s->heads : 1, 1e6);
    if (r->code == 0 && inner * s->heads != s->width) {
        r->code = err_set(ERR_INPUT,
                          "%s: \"head_dim\" is %lld; pacer's models have hidden_size / "
                          "num_attention_heads, which would be %lld / %lld",
                          r->path, (long long)inner, (long long)s->width, (long long)s->heads);
    }
}

static void read_ttt(Reader *r, ModelSpec *s)
{
    static const char *const kinds[] = {"linear", "mlp", NULL};
    read_llama(r, s);
    require_name(r, r->root, "ttt_layer_type", kinds);
    const cJSON *kind = member(r, r->root, "ttt_layer_type");
    s->ttt = kind != NULL && strcmp(kind->valuestring, "mlp") == 0 ? TTT_MLP : TTT_LINEAR;
    s->mini = whole(r, "mini_batch_size", 16, 4096);
    s->ttt_rate = real(r, r->root, "ttt_base_lr", 1.0, 1000);
}

/* --- the preset --- */

static int differences(const ModelSpec *a, const ModelSpec *b)
{
    return (a->layers != b->layers) + (a->width != b->width) + (a->heads != b->heads) +
           (a->kv_heads != b->kv_heads) + (a->ffn != b->ffn) + (a->vocab != b->vocab) +
           (a->context != b->context) + (a->tied != b->tied) + (a->norm_eps != b->norm_eps) +
           (a->rope_base != b->rope_base) + (a->ttt != b->ttt) + (a->mini != b->mini) +
           (a->ttt_rate != b->ttt_rate);
}

/* Takes name and everything that config.json does not say from the preset that is nearest. */
static void settle_preset(ModelSpec *s)
{
    const ModelSpec *nearest = NULL;
    for (int i = 0; spec_preset(i) != NULL; i++) {
        const ModelSpec *preset = spec_preset(i);
        if (preset->names == s->names &&
            (nearest == NULL || differences(s, preset) < differences(s, nearest))) {
            nearest = preset;
        }
    }
    ModelSpec whole_spec = *nearest;
    whole_spec.layers = s->layers;
    whole_spec.width = s->width;
    whole_spec.heads = s->heads;
    whole_spec.kv_heads = s->kv_heads;
    whole_spec.ffn = s->ffn;
    whole_spec.vocab = s->vocab;
    whole_spec.context = s->context;
    whole_spec.tied = s->tied;
    whole_spec.norm_eps = s->norm_eps;
    whole_spec.rope_base = s->rope_base;
    whole_spec.ttt = s->ttt;
    whole_spec.mini = s->mini;
    whole_spec.ttt_rate = s->ttt_rate;
    *s = whole_spec;
}

/* --- the whole file --- */

static int read_root(Reader *r, ModelSpec *out)
{
    static const struct {
        const char *type;
        ParamNames names;
        void (*read)(Reader *r, ModelSpec *s);
    } families[] = {{"gpt2", NAMES_GPT2, read_gpt2},
                    {"llama", NAMES_LLAMA, read_llama},
                    {"ttt", NAMES_TTT, read_ttt}};
    const cJSON *type = member(r, r->root, "model_type");
    if (!cJSON_IsObject(r->root) || !cJSON_IsString(type)) {
        return err_set(
            ERR_INPUT,
            "%s: has no \"model_type\", so it describes no model; those understood: " UNDERSTOOD,
            r->path);
    }
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(type->valuestring, families[i].type) == 0) {
            *out = (ModelSpec){.names = families[i].names};
            require_absent(r, r->root, "quantization_config");
            families[i].read(r, out);
            if (r->code != 0) {
                return r->code;
            }
            settle_preset(out);
            int code = spec_check(out);
            return code != 0 ? err_wrap(code, "%s", r->path) : 0;
        }
    }
    return err_set(ERR_INPUT, "%s: a model of type \"%.60s\"; those understood: " UNDERSTOOD,
                   r->path, type->valuestring);
}

int hf_config_parse(const char *text, size_t size, const char *path, ModelSpec *out)
{
    *out = (ModelSpec){0};
    Reader r = {.path = path, .root = NULL};
    cJSON *root = json_parse(text, size, NULL);
    if (root == NULL) {
        return err_set(ERR_INPUT, "%s: is not JSON", path);
    }
    r.root = root;
    int code = read_root(&r, out);
    cJSON_Delete(root);
    if (code != 0) {
        *out = (ModelSpec){0};
    }
    return code;
}
