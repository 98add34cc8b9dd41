/* config.json read. A field that the model's table (model/fields.h) has a name for is read by that
 * name. What else decides what is computed must have the one value that pacer's models compute
 * with; a field that a file leaves out has the value that transformers gives it. Other fields
 * (dropout, token ids, names of classes) are not looked at. */
#include "exchange/hf_config.h"

#include "base/err.h"
#include "base/mem.h"
#include "exchange/hf_family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNDERSTOOD \
    "gpt2, llama, mistral, qwen2, qwen3, gemma2, gemma3_text, and ttt as pacer exports it"

#define GLOBAL_ROPE "full_attention"
#define LOCAL_ROPE "sliding_attention"

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
    return spec_real(value);
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

/* Which layers have the window, by "layer_types" where it is there. Those that `sliding` has
 * already are the family's own. */
static void read_layer_types(Reader *r, const ModelSpec *s, bool *sliding)
{
    static const char *const kinds[] = {"full_attention", "sliding_attention"};
    const cJSON *types = member(r, r->root, "layer_types"), *item;
    int64_t layer = 0;
    if (types != NULL && cJSON_GetArraySize(types) != s->layers) {
        r->code = err_set(ERR_INPUT, "\"layer_types\" must be a list with a name for each layer");
    }
    cJSON_ArrayForEach(item, types)
    {
        const char *kind = cJSON_IsString(item) ? item->valuestring : "what is no name";
        if (r->code == 0 && strcmp(kind, kinds[0]) != 0 && strcmp(kind, kinds[1]) != 0) {
            r->code = err_set(ERR_INPUT,
                              "\"layer_types\" has %.60s, which pacer's models do not compute; %s "
                              "and %s are",
                              kind, kinds[0], kinds[1]);
        }
        if (r->code == 0) {
            sliding[layer++] = strcmp(kind, kinds[1]) == 0;
        }
    }
}

/* The window's fields from which layers have it: none, all, or all but every n-th. */
static void set_pattern(Reader *r, const Family *family, const bool *sliding, int64_t window,
                        ModelSpec *s)
{
    int64_t first_full = 0, count = 0;
    for (int64_t l = 0; l < s->layers; l++) {
        first_full = count == l && sliding[l] ? l + 1 : first_full;
        count += sliding[l];
    }
    int64_t every = first_full + 1;
    for (int64_t l = 0; l < s->layers && r->code == 0 && count > 0; l++) {
        if (sliding[l] != ((l + 1) % every != 0) ||
            (count < s->layers && !hf_family_says(family, "full-every"))) {
            r->code = err_set(ERR_INPUT,
                              "\"%s\" gives layers windows in an order that pacer's models do not "
                              "have: all of them, none, or all but every n-th",
                              member(r, r->root, "layer_types") != NULL ? "layer_types"
                                                                        : "max_window_layers");
        }
    }
    if (r->code == 0 && count > 0 && window == 0) {
        r->code = err_set(ERR_INPUT, "\"sliding_window\" is missing for layers that have one");
    }
    bool all = count == s->layers;
    s->window = count > 0 ? window : 0;
    s->full_every = count == 0                       ? 0
                    : !all                           ? every
                    : family->full_every > s->layers ? family->full_every
                                                     : 0;
}

static void read_window(Reader *r, const Family *family, ModelSpec *s)
{
    bool *sliding = mem_zalloc((size_t)s->layers + 1, sizeof *sliding);
    int64_t window = 0, first = 0, every = family->full_every;
    if (!hf_family_says(family, "window")) {
        require_absent(r, "sliding_window");
    } else if (family->window_switch == NULL || truth(r, family->window_switch, false)) {
        bool none = cJSON_IsNull(json_get(r->root, "sliding_window"));
        window = none ? 0 : whole(r, "sliding_window", HF_WINDOW, 10e6);
    }
    if (family->pattern_field != NULL) {
        every = whole(r, family->pattern_field, every, 10000);
    }
    if (family->window_switch != NULL) { /* its last layers, from one on, have the window */
        const cJSON *item = member(r, r->root, "max_window_layers");
        first = cJSON_IsNumber(item) ? (int64_t)item->valuedouble : 28;
    }
    for (int64_t l = 0; l < s->layers; l++) {
        sliding[l] = window > 0 && l >= first && (every == 0 || (l + 1) % every != 0);
    }
    read_layer_types(r, s, sliding);
    set_pattern(r, family, sliding, window, s);
    free(sliding);
}

/* A cap on scores or logits: a number, or null for none. */
static double read_cap(Reader *r, const Family *family, const char *option, const char *name,
                       double initial)
{
    if (!hf_family_says(family, option)) {
        require_absent(r, name);
    }
    return cJSON_IsNull(json_get(r->root, name)) ? 0 : real(r, r->root, name, initial, 1e6);
}

/* What scores, embeddings and logits are multiplied by and held below. */
static void read_scales(Reader *r, const Family *family, ModelSpec *s)
{
    s->score_cap = read_cap(r, family, "score-cap", "attn_logit_softcapping", s->score_cap);
    s->logit_cap = read_cap(r, family, "logit-cap", "final_logit_softcapping", s->logit_cap);
    if (hf_family_says(family, "score-scale")) {
        double scalar = real(r, r->root, "query_pre_attn_scalar", 256, 1e6);
        s->score_scale = scalar == (double)s->head_dim ? 0 : spec_real(1 / sqrt(scalar));
    } else {
        require_absent(r, "query_pre_attn_scalar");
    }
    if (hf_family_says(family, "embed-scale")) {
        s->embed_scale = spec_real(sqrt((double)s->width));
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
    s->rope_scaling = member(r, rope, name) != NULL ? (RopeScaling)type : s->rope_scaling;
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

/* An object for each kind of layer: those with the window have a base of their own and no more. The
 * other's. */
static const cJSON *read_local_rope(Reader *r, const cJSON *rope, ModelSpec *s)
{
    static const char *const plain[] = {"default", NULL};
    const cJSON *local = member(r, rope, LOCAL_ROPE);
    choice(r, local, "rope_type", plain);
    require_whole_heads(r, local);
    s->rope_local_base = real(r, local, "rope_theta", s->rope_local_base, 1e12);
    return member(r, rope, GLOBAL_ROPE);
}

/* An object, or NULL where it is missing or empty. */
static const cJSON *rope_object(Reader *r, const char *name)
{
    const cJSON *rope = member(r, r->root, name);
    if (rope != NULL && !cJSON_IsObject(rope)) {
        r->code = err_set(ERR_INPUT, "\"%s\" must be an object or null", name);
    }
    return rope != NULL && rope->child != NULL ? rope : NULL;
}

static void read_angles(Reader *r, const cJSON *rope, ModelSpec *s)
{
    read_scaling(r, rope, s);
    require_whole_heads(r, rope);
    s->rope_base = real(r, rope, "rope_theta", s->rope_base, 1e12);
}

/* Rotary positions are described by rope_theta with rope_scaling (null, or an object), or, in
 * newer files, by one object rope_parameters, or one in it for each kind of layer. Where both are
 * there rope_scaling counts, as in transformers. */
static void read_rope(Reader *r, const Family *family, ModelSpec *s)
{
    const cJSON *older = rope_object(r, "rope_scaling");
    const cJSON *rope = rope_object(r, "rope_parameters");
    bool two = hf_family_says(family, "rope-local-base");
    bool nested = member(r, rope, GLOBAL_ROPE) != NULL || member(r, rope, LOCAL_ROPE) != NULL;
    if (rope != NULL && nested != two && r->code == 0) {
        r->code = err_set(ERR_INPUT, "\"rope_parameters\" %s",
                          two ? "must have \"" GLOBAL_ROPE "\" and \"" LOCAL_ROPE "\""
                              : "differ among layers, which pacer's models of this type do not "
                                "compute");
    }
    if (two && member(r, older, "type") != NULL && member(r, older, "rope_type") == NULL) {
        r->code = err_set(ERR_INPUT,
                          "\"type\" in \"rope_scaling\" is read by some versions of transformers "
                          "and not by others: name it \"rope_type\" if positions are scaled, or "
                          "leave \"rope_scaling\" out");
    }
    if (two) {
        s->rope_local_base = real(r, r->root, "rope_local_base_freq", s->rope_local_base, 1e12);
        rope = read_local_rope(r, rope, s);
    }
    if (two || older == NULL) {
        read_angles(r, rope, s);
    }
    read_angles(r, older, s);
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

static void read_field(Reader *r, const Family *family, const SpecField *field, ModelSpec *s)
{
    const char *name = hf_field_name(family, field);
    double initial = hf_family_initial(family, s, field);
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
    *s = *spec_find(family->preset);
    s->layers = s->width = s->heads = s->vocab = 0;
    s->context = family->context;
    s->norm_eps = family->norm_eps;
    s->tied = family->tied;
    s->rope_base = family->rope_base;
    require_absent(r, "quantization_config");
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        read_field(r, family, field, s);
    }
    read_activation(r, family, s);
    if (s->rope_base > 0) {
        read_rope(r, family, s);
    }
    require_truth(r, "scale_attn_weights", true);
    require_truth(r, "scale_attn_by_inverse_layer_idx", false);
    require_truth(r, "add_cross_attention", false);
    require_truth(r, "is_causal", true);
    require_truth(r, "attention_bias", false);
    require_truth(r, "mlp_bias", false);
    require_truth(r, "use_bidirectional_attention", false);
    read_window(r, family, s);
    read_scales(r, family, s);
}

static int differences(const ModelSpec *a, const ModelSpec *b)
{
    int count = 0;
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        count += spec_value(a, field) != spec_value(b, field);
    }
    return count;
}

/* The name of the preset that it differs least from; of the family's own where none is nearer. */
static void name_nearest(ModelSpec *s)
{
    const ModelSpec *nearest = spec_find(s->name);
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
    for (int i = 0; i < hf_family_count; i++) {
        if (strcmp(type->valuestring, hf_families[i].type) == 0) {
            read_family(r, &hf_families[i], out);
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
