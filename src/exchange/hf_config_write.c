/* config.json written. Fields that versions of transformers name differently are written under
 * every name (dtype and torch_dtype; rope_theta and rope_parameters). */
#include "exchange/hf_config.h"

#include "base/err.h"
#include "exchange/hf_family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* Whether code below writes the field. */
static bool is_aside(const Family *family, const SpecField *field)
{
    bool of_rope = strncmp(field->name, "rope-", 5) == 0 &&
                   field->offset != offsetof(ModelSpec, rope_local_base);
    return of_rope || field->offset == offsetof(ModelSpec, ffn_kind) ||
           hf_family_says(family, field->name);
}

/* ERR_INPUT for a model that the family's class in transformers cannot be. */
static int put_fields(cJSON *o, const Family *family, const ModelSpec *s)
{
    const ModelSpec *preset = spec_find(family->preset);
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        const char *name = hf_field_name(family, field);
        double value = spec_value(s, field);
        bool derived = field->offset == offsetof(ModelSpec, kv_heads) ||
                       field->offset == offsetof(ModelSpec, head_dim);
        double fixed = derived ? hf_family_initial(family, s, field) : spec_value(preset, field);
        if (!spec_has(s, field)) {
            continue;
        }
        if (name != NULL) {
            put_field(o, name, field, value);
        } else if (value != fixed && !is_aside(family, field)) {
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

/* Windows: of every layer by name, and as older versions have it. A family whose layers have some
 * unless told gets told that none has: no layer by name, and a window as long as the context. */
static void put_window(cJSON *o, const Family *family, const ModelSpec *s)
{
    bool none = s->window == 0;
    if (!hf_family_says(family, "window") || (none && family->full_every == 0)) {
        return;
    }
    json_put_whole(o, "sliding_window", none ? s->context : s->window);
    if (family->window_switch != NULL) {
        json_put_bool(o, family->window_switch, true);
        json_put_whole(o, "max_window_layers", 0);
    }
    if (family->pattern_field != NULL) {
        json_put_whole(o, family->pattern_field,
                       none                ? 1
                       : s->full_every > 0 ? s->full_every
                                           : s->layers + 1);
    }
    if (hf_family_says(family, "full-every")) {
        cJSON *types = json_put_array(o, "layer_types");
        for (int l = 0; l < s->layers; l++) {
            json_append_text(types, spec_windowed(s, l) ? "sliding_attention" : "full_attention");
        }
    }
}

static void put_cap(cJSON *o, const char *name, double cap)
{
    if (cap > 0) {
        put_real(o, name, cap);
    } else {
        json_put_or_null(o, name, (Value){false, 0});
    }
}

/* Scores are multiplied by 1 / sqrt(query_pre_attn_scalar), a whole number, embeddings by
 * sqrt(hidden_size), which no file says. */
static int put_scales(cJSON *o, const Family *family, const ModelSpec *s)
{
    if (hf_family_says(family, "score-cap")) {
        put_cap(o, "attn_logit_softcapping", s->score_cap);
    }
    if (hf_family_says(family, "logit-cap")) {
        put_cap(o, "final_logit_softcapping", s->logit_cap);
    }
    if (hf_family_says(family, "score-scale")) {
        double scalar =
            s->score_scale > 0 ? 1 / (s->score_scale * s->score_scale) : (double)s->head_dim;
        if (fabs(scalar - round(scalar)) > 1e-9 * scalar) {
            return err_set(
                ERR_INPUT,
                "a model with --score-scale %.15g: %s of transformers has 1 / sqrt(n) of "
                "a whole n, so there is no config.json for it",
                s->score_scale, family->architecture);
        }
        json_put_number(o, "query_pre_attn_scalar", round(scalar));
    }
    double factor = spec_real(sqrt((double)s->width));
    char text[SPEC_TEXT_SIZE];
    if (hf_family_says(family, "embed-scale") && s->embed_scale != factor) {
        return err_set(ERR_INPUT,
                       "a model with --embed-scale %s: %s of transformers has sqrt(d-model), "
                       "%.15g, so there is no config.json for it",
                       spec_text(spec_field_of("embed-scale"), s->embed_scale, text),
                       family->architecture, factor);
    }
    if (hf_family_says(family, "rope-local-base") && s->window > 0 && s->rope_local_base == 0 &&
        s->rope_scaling != ROPE_PLAIN) {
        return err_set(ERR_INPUT,
                       "a model with --rope-local-base none: %s of transformers does not scale the "
                       "angles of layers with a window, so there is no config.json for it",
                       family->architecture);
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

static void fill_rope(cJSON *rope, const ModelSpec *s)
{
    static const char *const types[] = {[ROPE_PLAIN] = "default",
                                        [ROPE_LINEAR] = "linear",
                                        [ROPE_LLAMA3] = "llama3",
                                        [ROPE_YARN] = "yarn"};
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

/* Under the names of both ages. */
static void put_rope(cJSON *o, const Family *family, const ModelSpec *s)
{
    cJSON *rope = json_put_object(o, "rope_parameters");
    if (hf_family_says(family, "rope-local-base")) {
        cJSON *local = json_put_object(rope, "sliding_attention");
        double base = s->rope_local_base > 0 ? s->rope_local_base : s->rope_base;
        put_real(local, "rope_theta", base);
        json_put_text(local, "rope_type", "default");
        put_real(o, "rope_local_base_freq", base);
        rope = json_put_object(rope, "full_attention");
    }
    fill_rope(rope, s);
    if (s->rope_scaling != ROPE_PLAIN) {
        fill_rope(json_put_object(o, "rope_scaling"), s);
    }
}

/* Of those that can be this model the first. */
static const Family *find_family(const ModelSpec *s)
{
    for (int i = 0; i < hf_family_count; i++) {
        const ModelSpec *preset = spec_find(hf_families[i].preset);
        if (preset->names == s->names && preset->qkv_bias == (s->qkv_bias && !s->bias) &&
            preset->qk_norm == s->qk_norm &&
            (s->window == 0 || hf_family_says(&hf_families[i], "window"))) {
            return &hf_families[i];
        }
    }
    return NULL;
}

int hf_config(const ModelSpec *s, HfConfigExtra extra, cJSON **out)
{
    const Family *family = find_family(s);
    *out = NULL;
    if (family == NULL) {
        return err_set(ERR_INPUT,
                       "no class of transformers has these names of tensors with --qkv-bias %s, "
                       "--qk-norm %s and --window %lld, so there is no config.json for it",
                       s->qkv_bias ? "on" : "off", s->qk_norm ? "on" : "off", (long long)s->window);
    }
    cJSON *o = json_object();
    json_append_text(json_put_array(o, "architectures"), family->architecture);
    json_put_text(o, "model_type", family->type);
    int code = put_fields(o, family, s);
    code = code != 0 ? code : put_activation(o, family, s);
    code = code != 0 ? code : put_scales(o, family, s);
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
        put_rope(o, family, s);
        put_window(o, family, s);
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
