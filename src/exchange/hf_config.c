/* config.json, in and out. A field that the model's table (model/fields.h) has a name for is read
 * and written by that name. What else decides what is computed must have the one value that
 * pacer's models compute with; a field that a file leaves out has the value that transformers
 * gives it. Other fields (dropout, token ids, names of classes) are not looked at. Fields that
 * versions of transformers name differently are written under every name (dtype and torch_dtype;
 * rope_theta and rope_parameters). */
#include "exchange/hf_config.h"

#include "base/assert.h"
#include "base/err.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNDERSTOOD "gpt2, llama, mistral, qwen2, and ttt as pacer exports it"

typedef struct {
    const char *type, *architecture;
    ParamNames names;
    const char *activation_field;
    struct {
        FfnKind kind;
        const char *names[4]; /* the first is written; transformers' default comes first */
    } activations[3];
    /* What a file that leaves them out means; 0: they must be there, or follow from others. */
    int64_t context;
    double norm_eps;
    bool tied;
    bool qkv_bias; /* always */
    /* A "sliding_window" that is not null counts only where the field of this name is true; NULL:
     * it counts. */
    const char *window_switch;
} Family;

static const Family families[] = {
    {.type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .names = NAMES_GPT2,
     .activation_field = "activation_function",
     .activations = {{FFN_GELU, {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}},
                     {FFN_RELU2, {"relu2"}}},
     .norm_eps = 1e-5,
     .tied = true},
    {.type = "llama",
     .architecture = "LlamaForCausalLM",
     .names = NAMES_LLAMA,
     .activation_field = "hidden_act",
     .activations = {{FFN_SWIGLU, {"silu", "swish"}},
                     {FFN_GEGLU, {"gelu_pytorch_tanh", "gelu_new"}}},
     .context = 2048,
     .norm_eps = 1e-6},
    {.type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .names = NAMES_LLAMA,
     .activation_field = "hidden_act",
     .activations = {{FFN_SWIGLU, {"silu", "swish"}}},
     .context = 32768,
     .norm_eps = 1e-6,
     .qkv_bias = true,
     .window_switch = "use_sliding_window"},
    {.type = "mistral", /* without a window it is a llama, and is written as one */
     .architecture = "MistralForCausalLM",
     .names = NAMES_LLAMA,
     .activation_field = "hidden_act",
     .activations = {{FFN_SWIGLU, {"silu", "swish"}}},
     .context = 131072,
     .norm_eps = 1e-6},
    {.type = "ttt",
     .architecture = "TTTForCausalLM",
     .names = NAMES_TTT,
     .activation_field = "hidden_act",
     .activations = {{FFN_SWIGLU, {"silu", "swish"}}},
     .context = 2048,
     .norm_eps = 1e-6},
};

static const char *file_name(const SpecField *field, ParamNames names)
{
    return names == NAMES_GPT2 ? field->gpt2 : field->hf;
}

/* A preset of the family: what config.json does not say is the same in all of them. */
static const ModelSpec *family_preset(ParamNames names)
{
    int i = 0;
    while (spec_preset(i)->names != names) {
        i++;
    }
    return spec_preset(i);
}

/* --- reading --- */

typedef struct {
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
        r->code = err_set(ERR_INPUT, "\"%s\" %s a whole number from 1 to %.0f", name,
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
        r->code = err_set(ERR_INPUT, "\"%s\" must be a number above 0, at most %g", name, most);
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
        r->code = err_set(ERR_INPUT, "\"%s\" must be true or false", name);
    }
    return item != NULL && cJSON_IsBool(item) ? cJSON_IsTrue(item) : initial;
}

/* The text's place among the names (NULL-terminated); 0 when it is missing, -1 when it is none. */
static int place_of(Reader *r, const cJSON *object, const char *field, const char *const *names)
{
    const cJSON *item = member(r, object, field);
    for (int i = 0; item != NULL && names[i] != NULL; i++) {
        if (cJSON_IsString(item) && strcmp(item->valuestring, names[i]) == 0) {
            return i;
        }
    }
    return item == NULL ? 0 : -1;
}

static void refuse_name(Reader *r, const cJSON *object, const char *field, const char *instead)
{
    const cJSON *item = member(r, object, field);
    if (r->code == 0) {
        r->code = err_set(ERR_INPUT, "\"%s\" is %.60s, which pacer's models do not compute; %s is",
                          field, cJSON_IsString(item) ? item->valuestring : "not a name", instead);
    }
}

static int choice(Reader *r, const cJSON *object, const char *field, const char *const *names)
{
    int place = place_of(r, object, field, names);
    if (place < 0) {
        refuse_name(r, object, field, names[0]);
    }
    return place < 0 ? 0 : place;
}

static void require_truth(Reader *r, const char *name, bool value)
{
    if (truth(r, name, value) != value && r->code == 0) {
        r->code = err_set(ERR_INPUT, "\"%s\" is %s, which pacer's models do not compute", name,
                          value ? "false" : "true");
    }
}

static void require_absent(Reader *r, const char *name)
{
    const cJSON *item = member(r, r->root, name);
    if (item != NULL && !cJSON_IsFalse(item)) {
        r->code = err_set(ERR_INPUT, "has \"%s\", which pacer's models do not compute", name);
    }
}

/* "layer_types", where it is there, names nothing but attention over the whole sequence. */
static void require_full_attention(Reader *r)
{
    static const char *const kinds[] = {"full_attention", NULL};
    const cJSON *types = member(r, r->root, "layer_types"), *item;
    cJSON_ArrayForEach(item, types)
    {
        if (r->code == 0 && (!cJSON_IsString(item) || strcmp(item->valuestring, kinds[0]) != 0)) {
            r->code = err_set(
                ERR_INPUT, "\"layer_types\" has %.60s, which pacer's models do not compute; %s is",
                cJSON_IsString(item) ? item->valuestring : "what is no name", kinds[0]);
        }
    }
}

static void require_whole_heads(Reader *r, const cJSON *object)
{
    if (real(r, object, "partial_rotary_factor", 1, 1) != 1 && r->code == 0) {
        r->code = err_set(ERR_INPUT,
                          "\"partial_rotary_factor\" is not 1: pacer's models turn whole heads");
    }
}

static double needed(Reader *r, const cJSON *object, const char *name, double most)
{
    double value = real(r, object, name, 0, most);
    if (r->code == 0 && value == 0) {
        r->code = err_set(ERR_INPUT, "\"%s\" of the scaled rotary positions is missing", name);
    }
    return value;
}

/* How angles are scaled: by the object's type, under either of its names. */
static void read_scaling(Reader *r, const cJSON *rope, ModelSpec *s)
{
    static const char *const types[] = {"default", "linear", "llama3", "yarn", NULL};
    const char *name = member(r, rope, "rope_type") != NULL ? "rope_type" : "type";
    int type = choice(r, rope, name, types);
    s->rope_scaling = type > 0 ? (RopeScaling)type : s->rope_scaling;
    if (type > 0) {
        s->rope_factor = needed(r, rope, "factor", 1e6);
    }
    if (type == ROPE_LLAMA3) {
        s->rope_low = needed(r, rope, "low_freq_factor", 1e6);
        s->rope_high = needed(r, rope, "high_freq_factor", 1e6);
        s->rope_context = (int64_t)needed(r, rope, "original_max_position_embeddings", 10e6);
    } else if (type == ROPE_YARN) {
        s->rope_low = real(r, rope, "beta_slow", 1, 1e6);
        s->rope_high = real(r, rope, "beta_fast", 32, 1e6);
        s->rope_context =
            (int64_t)real(r, rope, "original_max_position_embeddings", (double)s->context, 10e6);
        s->rope_gain = real(r, rope, "attention_factor", 0, 1000);
        const char *const others[] = {"mscale", "mscale_all_dim", "truncate"};
        for (int i = 0; i < 3; i++) {
            const cJSON *item = member(r, rope, others[i]);
            if (item != NULL && !cJSON_IsTrue(item)) {
                r->code = err_set(
                    ERR_INPUT, "\"%s\" of the scaled rotary positions is not computed", others[i]);
            }
        }
    }
}

/* Rotary positions are described by rope_theta with rope_scaling (null, or an object), or, in
 * newer files, by one object rope_parameters. */
static void read_rope(Reader *r, ModelSpec *s)
{
    const char *const objects[] = {"rope_scaling", "rope_parameters"};
    for (int i = 0; i < 2; i++) {
        const cJSON *rope = member(r, r->root, objects[i]);
        if (rope == NULL) {
            continue;
        }
        if (!cJSON_IsObject(rope)) {
            r->code = err_set(ERR_INPUT, "\"%s\" must be an object or null", objects[i]);
            return;
        }
        read_scaling(r, rope, s);
        require_whole_heads(r, rope);
        s->rope_base = real(r, rope, "rope_theta", s->rope_base, 1e12);
    }
    require_whole_heads(r, r->root);
}

static void read_activation(Reader *r, const Family *family, ModelSpec *s)
{
    for (int i = 0; family->activations[i].names[0] != NULL; i++) {
        if (place_of(r, r->root, family->activation_field, family->activations[i].names) >= 0) {
            s->ffn_kind = family->activations[i].kind;
            return;
        }
    }
    refuse_name(r, r->root, family->activation_field, family->activations[0].names[0]);
}

/* What follows from fields that come before it in the table. */
static double initial_value(const Family *family, const ModelSpec *s, const SpecField *field)
{
    switch (field->offset) {
    case offsetof(ModelSpec, kv_heads):
        return (double)s->heads;
    case offsetof(ModelSpec, head_dim):
        return s->heads > 0 && s->width % s->heads == 0 ? (double)(s->width / s->heads) : 0;
    case offsetof(ModelSpec, ffn):
        return family->names == NAMES_GPT2 ? 4 * (double)s->width : 0;
    }
    return spec_value(s, field);
}

static void read_field(Reader *r, const Family *family, const SpecField *field, ModelSpec *s)
{
    const char *name = file_name(field, family->names);
    double initial = initial_value(family, s, field);
    if (name == NULL || !spec_has(s, field)) {
        spec_set(s, field, initial);
    } else if (field->kind == FIELD_WHOLE) {
        spec_set(s, field, (double)whole(r, name, (int64_t)initial, field->most));
    } else if (field->kind == FIELD_REAL) {
        spec_set(s, field, real(r, r->root, name, initial, field->most));
    } else if (field->kind == FIELD_FLAG) {
        spec_set(s, field, truth(r, name, initial != 0));
    } else {
        spec_set(s, field, choice(r, r->root, name, field->words));
    }
}

static void read_family(Reader *r, const Family *family, ModelSpec *s)
{
    *s = *family_preset(family->names);
    s->layers = s->width = s->heads = s->vocab = 0;
    s->context = family->context;
    s->norm_eps = family->norm_eps;
    s->tied = family->tied;
    s->qkv_bias = family->qkv_bias;
    require_absent(r, "quantization_config");
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        read_field(r, family, field, s);
    }
    read_activation(r, family, s);
    if (s->rope_base > 0) {
        read_rope(r, s);
    }
    require_truth(r, "scale_attn_weights", true);
    require_truth(r, "scale_attn_by_inverse_layer_idx", false);
    require_truth(r, "add_cross_attention", false);
    require_truth(r, "attention_bias", false);
    require_truth(r, "mlp_bias", false);
    require_full_attention(r);
    if (family->window_switch == NULL || truth(r, family->window_switch, false)) {
        require_absent(r, "sliding_window");
    }
}

static int differences(const ModelSpec *a, const ModelSpec *b)
{
    int count = 0;
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        count += spec_value(a, field) != spec_value(b, field);
    }
    return count;
}

/* The name of the preset that it differs least from. */
static void name_nearest(ModelSpec *s)
{
    const ModelSpec *nearest = family_preset(s->names);
    for (int i = 0; spec_preset(i) != NULL; i++) {
        const ModelSpec *preset = spec_preset(i);
        if (preset->names == s->names && differences(s, preset) < differences(s, nearest)) {
            nearest = preset;
        }
    }
    snprintf(s->name, sizeof s->name, "%s", nearest->name);
}

static int read_root(Reader *r, ModelSpec *out)
{
    const cJSON *type = member(r, r->root, "model_type");
    if (!cJSON_IsObject(r->root) || !cJSON_IsString(type)) {
        return err_set(
            ERR_INPUT,
            "has no \"model_type\", so it describes no model; those understood: " UNDERSTOOD);
    }
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(type->valuestring, families[i].type) == 0) {
            read_family(r, &families[i], out);
            if (r->code != 0) {
                return r->code;
            }
            name_nearest(out);
            return spec_check(out);
        }
    }
    return err_set(ERR_INPUT, "a model of type \"%.60s\"; those understood: " UNDERSTOOD,
                   type->valuestring);
}

int hf_config_parse(const char *text, size_t size, const char *path, ModelSpec *out)
{
    *out = (ModelSpec){0};
    cJSON *root = json_parse(text, size, NULL);
    if (root == NULL) {
        return err_set(ERR_INPUT, "%s: is not JSON", path);
    }
    int code = read_root(&(Reader){.root = root}, out);
    cJSON_Delete(root);
    if (code != 0) {
        *out = (ModelSpec){0};
        err_wrap(code, "%s", path);
    }
    return code;
}

/* --- writing --- */

/* Marked as a real number, which some versions insist on. */
static void put_real(cJSON *object, const char *name, double value)
{
    char text[48];
    snprintf(text, sizeof text, "%.15g", value);
    if (strpbrk(text, ".e") == NULL) {
        snprintf(text, sizeof text, "%.15g.0", value);
    }
    json_put_raw(object, name, text);
}

static void put_id(cJSON *object, const char *name, int64_t id)
{
    json_put_or_null(object, name, (Value){id >= 0, (double)id});
}

static void put_field(cJSON *o, const char *name, const SpecField *field, double value)
{
    if (field->kind == FIELD_WHOLE) {
        json_put_number(o, name, value);
    } else if (field->kind == FIELD_REAL) {
        put_real(o, name, value);
    } else if (field->kind == FIELD_FLAG) {
        json_put_bool(o, name, value != 0);
    } else {
        json_put_text(o, name, field->words[(int)value]);
    }
}

/* ERR_INPUT for a model that the family's class in transformers cannot be. */
static int put_fields(cJSON *o, const Family *family, const ModelSpec *s)
{
    const ModelSpec *preset = family_preset(family->names);
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        const char *name = file_name(field, family->names);
        double value = spec_value(s, field);
        bool derived = field->offset == offsetof(ModelSpec, kv_heads) ||
                       field->offset == offsetof(ModelSpec, head_dim);
        bool aside = field->offset == offsetof(ModelSpec, ffn_kind) ||
                     field->offset == offsetof(ModelSpec, qkv_bias) ||
                     strncmp(field->name, "rope-", 5) == 0; /* written by themselves */
        double fixed = derived ? initial_value(family, s, field) : spec_value(preset, field);
        if (name != NULL && spec_has(s, field)) {
            put_field(o, name, field, value);
        } else if (name == NULL && value != fixed && !aside) {
            char own[SPEC_TEXT_SIZE], theirs[SPEC_TEXT_SIZE];
            return err_set(ERR_INPUT,
                           "a model with --%s %s: %s of transformers has %s, so there is no "
                           "config.json for it",
                           field->name, spec_text(field, value, own), family->architecture,
                           spec_text(field, fixed, theirs));
        }
    }
    return 0;
}

static int put_activation(cJSON *o, const Family *family, const ModelSpec *s)
{
    for (int i = 0; family->activations[i].names[0] != NULL; i++) {
        if (family->activations[i].kind == s->ffn_kind) {
            json_put_text(o, family->activation_field, family->activations[i].names[0]);
            return 0;
        }
    }
    char kind[SPEC_TEXT_SIZE];
    return err_set(ERR_INPUT,
                   "a model with --ffn-kind %s: %s of transformers has no such feed-forward layer, "
                   "so there is no config.json for it",
                   spec_text(spec_field_of("ffn-kind"), s->ffn_kind, kind), family->architecture);
}

/* Under the names of both ages. */
static void put_rope(cJSON *o, const ModelSpec *s)
{
    static const char *const types[] = {[ROPE_PLAIN] = "default",
                                        [ROPE_LINEAR] = "linear",
                                        [ROPE_LLAMA3] = "llama3",
                                        [ROPE_YARN] = "yarn"};
    const char *const objects[] = {"rope_parameters", "rope_scaling"};
    for (int i = 0; i < (s->rope_scaling == ROPE_PLAIN ? 1 : 2); i++) {
        cJSON *rope = json_put_object(o, objects[i]);
        put_real(rope, "rope_theta", s->rope_base);
        json_put_text(rope, "rope_type", types[s->rope_scaling]);
        if (s->rope_scaling != ROPE_PLAIN) {
            put_real(rope, "factor", s->rope_factor);
        }
        if (s->rope_scaling == ROPE_LLAMA3) {
            put_real(rope, "low_freq_factor", s->rope_low);
            put_real(rope, "high_freq_factor", s->rope_high);
            json_put_whole(rope, "original_max_position_embeddings", s->rope_context);
        } else if (s->rope_scaling == ROPE_YARN) {
            put_real(rope, "beta_slow", s->rope_low);
            put_real(rope, "beta_fast", s->rope_high);
            json_put_whole(rope, "original_max_position_embeddings", s->rope_context);
            if (s->rope_gain > 0) {
                put_real(rope, "attention_factor", s->rope_gain);
            }
        }
    }
}

int hf_config(const ModelSpec *s, HfConfigExtra extra, cJSON **out)
{
    const Family *family = families;
    while (family->names != s->names || family->qkv_bias != (s->qkv_bias && !s->bias)) {
        family++;
        if (family == families + sizeof families / sizeof families[0]) {
            return err_set(ERR_INPUT,
                           "a model with --qkv-bias on and these names of tensors: no class of "
                           "transformers has them, so there is no config.json for it");
        }
    }
    *out = NULL;
    cJSON *o = json_object();
    json_append_text(json_put_array(o, "architectures"), family->architecture);
    json_put_text(o, "model_type", family->type);
    int code = put_fields(o, family, s);
    code = code != 0 ? code : put_activation(o, family, s);
    if (code != 0) {
        cJSON_Delete(o);
        return code;
    }
    if (s->names == NAMES_GPT2) {
        json_put_whole(o, "n_ctx", s->context);
        json_put_bool(o, "scale_attn_weights", true);
        json_put_bool(o, "scale_attn_by_inverse_layer_idx", false);
        json_put_bool(o, "reorder_and_upcast_attn", false);
        put_real(o, "attn_pdrop", 0);
        put_real(o, "embd_pdrop", 0);
        put_real(o, "resid_pdrop", 0);
    } else {
        put_rope(o, s);
        json_put_bool(o, "attention_bias", false);
        json_put_bool(o, "mlp_bias", false);
        put_real(o, "attention_dropout", 0);
    }
    put_id(o, "bos_token_id", extra.begin);
    put_id(o, "eos_token_id", extra.end);
    const char *dtype = extra.dtype == DT_BF16 ? "bfloat16" : "float32";
    json_put_text(o, "dtype", dtype);
    json_put_text(o, "torch_dtype", dtype);
    json_put_bool(o, "use_cache", true);
    *out = o;
    return 0;
}

cJSON *hf_generation_config(HfConfigExtra extra)
{
    cJSON *o = json_object();
    json_put_bool(o, "_from_model_config", true);
    if (extra.end >= 0) {
        put_id(o, "bos_token_id", extra.begin);
        put_id(o, "eos_token_id", extra.end);
        put_id(o, "pad_token_id", extra.end); /* so that batches can be filled up */
    }
    return o;
}
