#include "model/spec.h"

#include "base/assert.h"
#include "base/err.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE(label, n_layers, n_width, n_heads)                                                \
    .name = label, .layers = n_layers, .width = n_width, .heads = n_heads, .kv_heads = n_heads, \
    .head_dim = (n_width) / (n_heads)

#define GPT2(label, lr, batch, n_layers, n_width, n_heads) \
    {SHAPE(label, n_layers, n_width, n_heads),             \
     .names = NAMES_GPT2,                                  \
     .ffn = 4 * (n_width),                                 \
     .vocab = 50257,                                       \
     .context = 1024,                                      \
     .norm = NORM_LAYER,                                   \
     .ffn_kind = FFN_GELU,                                 \
     .norm_eps = 1e-5,                                     \
     .learned_positions = true,                            \
     .bias = true,                                         \
     .tied = true,                                         \
     .scaled_residual = true},

#define LLAMA3(times)                                                                 \
    .rope_scaling = ROPE_LLAMA3, .rope_factor = times, .rope_low = 1, .rope_high = 4, \
    .rope_context = 8192

#define GEMMA3 .window = 512, .full_every = 6, .rope_local_base = 1e4, .qk_norm = true

#define DECODER(label, n_layers, n_width, n_heads, n_kv, n_head, n_ffn, n_vocab, n_context, base, \
                eps)                                                                              \
    .name = label, .layers = n_layers, .width = n_width, .heads = n_heads, .kv_heads = n_kv,      \
    .head_dim = n_head, .ffn = n_ffn, .vocab = n_vocab, .context = n_context, .norm = NORM_RMS,   \
    .norm_eps = eps, .rope_base = base

#define HUB(label, lr, batch, layers, width, heads, kv, head, ffn, vocab, context, base, eps, \
            is_tied, ...)                                                                     \
    {DECODER(label, layers, width, heads, kv, head, ffn, vocab, context, base, eps),          \
     .names = NAMES_LLAMA, .ffn_kind = FFN_SWIGLU, .tied = is_tied, __VA_ARGS__},

#define GEMMA(label, lr, batch, layers, width, heads, kv, head, ffn, vocab, context, base, eps, \
              factor, ...)                                                                      \
    {DECODER(label, layers, width, heads, kv, head, ffn, vocab, context, base, eps),            \
     .names = NAMES_GEMMA,                                                                      \
     .ffn_kind = FFN_GEGLU,                                                                     \
     .tied = true,                                                                              \
     .post_norm = true,                                                                         \
     .embed_scale = factor,                                                                     \
     __VA_ARGS__},

#define LLAMA(label, lr, batch, layers, width, heads, ffn, vocab, context)                     \
    HUB(label, lr, batch, layers, width, heads, heads, (width) / (heads), ffn, vocab, context, \
        10000.0, 1e-5, false, )

#define TTT(label, lr, batch, n_layers, n_width, n_heads, n_ffn) \
    {SHAPE(label, n_layers, n_width, n_heads),                   \
     .names = NAMES_TTT,                                         \
     .ffn = n_ffn,                                               \
     .vocab = 50257,                                             \
     .context = 2048,                                            \
     .norm = NORM_RMS,                                           \
     .ffn_kind = FFN_SWIGLU,                                     \
     .norm_eps = 1e-6,                                           \
     .rope_base = 10000.0,                                       \
     .tied = true,                                               \
     .decay_all = true,                                          \
     .mixer = MIXER_TTT,                                         \
     .ttt = TTT_LINEAR,                                          \
     .mini = 16,                                                 \
     .ttt_rate = 1.0},

static const ModelSpec presets[] = {MODEL_PRESETS(LLAMA, HUB, GEMMA, GPT2, TTT)};

#define LIST(...) __VA_ARGS__
#define LATER 0 /* of the flags of an option, the one that matters here is NONE */
#define NONE 1
#define OPTION(of, type, field, n, s, w, m, g, h, commands, flags, help, also) \
    {.kind = FIELD_##of,                                                       \
     .name = n,                                                                \
     .stored = s,                                                              \
     .option = true,                                                           \
     .offset = offsetof(ModelSpec, field),                                     \
     .override = offsetof(SpecOverrides, field),                               \
     .words = (const char *const[]){LIST w, NULL},                             \
     .most = m,                                                                \
     .none = ((flags)&NONE) != 0,                                              \
     .gpt2 = g,                                                                \
     .hf = h},
#define PRESET(of, type, field, n, s, w)   \
    {.kind = FIELD_##of,                   \
     .name = n,                            \
     .stored = s,                          \
     .offset = offsetof(ModelSpec, field), \
     .words = (const char *const[]){LIST w, NULL}},
const SpecField spec_fields[] = {MODEL_FIELDS(OPTION, PRESET){.name = NULL}};

const SpecField *spec_field_of(const char *option)
{
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        if (field->option && strcmp(field->name, option) == 0) {
            return field;
        }
    }
    return NULL;
}

static double get(SpecKind kind, const void *at)
{
    switch (kind) {
    case FIELD_WHOLE:
        return (double)*(const int64_t *)at;
    case FIELD_REAL:
        return *(const double *)at;
    case FIELD_FLAG:
        return *(const bool *)at;
    case FIELD_CHOICE:
        break;
    }
    return *(const int *)at;
}

static void put(SpecKind kind, void *at, double value)
{
    switch (kind) {
    case FIELD_WHOLE:
        *(int64_t *)at = (int64_t)value;
        break;
    case FIELD_REAL:
        *(double *)at = value;
        break;
    case FIELD_FLAG:
        *(bool *)at = value != 0;
        break;
    case FIELD_CHOICE:
        *(int *)at = (int)value;
        break;
    }
}

double spec_value(const ModelSpec *spec, const SpecField *field)
{
    return get(field->kind, (const char *)spec + field->offset);
}

void spec_set(ModelSpec *spec, const SpecField *field, double value)
{
    put(field->kind, (char *)spec + field->offset, value);
}

/* The override of a switch is an int like that of a choice: 1 + its value. */
static SpecKind override_kind(const SpecField *field)
{
    return field->kind == FIELD_FLAG ? FIELD_CHOICE : field->kind;
}

double spec_override(const SpecOverrides *overrides, const SpecField *field)
{
    SpecKind kind = override_kind(field);
    double value = get(kind, (const char *)overrides + field->override);
    return value > 0 ? value - (kind == FIELD_CHOICE) : value < 0 ? 0 : NAN;
}

static void set_override(SpecOverrides *overrides, const SpecField *field, double value)
{
    SpecKind kind = override_kind(field);
    double stored = kind == FIELD_CHOICE ? 1 + value : value == 0 ? -1 : value;
    put(kind, (char *)overrides + field->override, stored);
}

bool spec_has(const ModelSpec *spec, const SpecField *field)
{
    switch (field->offset) {
    case offsetof(ModelSpec, ttt):
    case offsetof(ModelSpec, mini):
    case offsetof(ModelSpec, ttt_rate):
        return spec->mixer == MIXER_TTT;
    case offsetof(ModelSpec, rope_base):
        return spec->rope_base > 0;
    case offsetof(ModelSpec, rope_scaling):
        return spec->rope_base > 0 && spec->mixer != MIXER_TTT;
    case offsetof(ModelSpec, rope_factor):
        return spec->rope_scaling != ROPE_PLAIN;
    case offsetof(ModelSpec, rope_low):
    case offsetof(ModelSpec, rope_high):
    case offsetof(ModelSpec, rope_context):
        return spec->rope_scaling >= ROPE_LLAMA3;
    case offsetof(ModelSpec, rope_gain):
        return spec->rope_scaling == ROPE_YARN;
    case offsetof(ModelSpec, full_every):
        return spec->window > 0;
    case offsetof(ModelSpec, rope_local_base):
        return spec->rope_base > 0 && spec->window > 0;
    case offsetof(ModelSpec, qkv_bias):
    case offsetof(ModelSpec, qk_norm):
    case offsetof(ModelSpec, window):
    case offsetof(ModelSpec, score_scale):
    case offsetof(ModelSpec, score_cap):
        return spec->mixer == MIXER_ATTENTION;
    }
    return true;
}

const char *spec_text(const SpecField *field, double value, char text[SPEC_TEXT_SIZE])
{
    int words = 0;
    while (field->words[words] != NULL) {
        words++;
    }
    if (value >= 0 && value < words) {
        snprintf(text, SPEC_TEXT_SIZE, "%s", field->words[(int)value]);
    } else if (value == 0 && field->none) {
        snprintf(text, SPEC_TEXT_SIZE, "none");
    } else {
        snprintf(text, SPEC_TEXT_SIZE, "%.15g", value);
    }
    return text;
}

struct cJSON *spec_json(const ModelSpec *spec)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", spec->name);
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        double value = spec_value(spec, field);
        if (!spec_has(spec, field)) {
            continue;
        }
        if (field->kind == FIELD_FLAG) {
            cJSON_AddBoolToObject(object, field->name, value != 0);
        } else if (field->kind == FIELD_CHOICE) {
            cJSON_AddStringToObject(object, field->name, field->words[(int)value]);
        } else {
            cJSON_AddNumberToObject(object, field->name, value);
        }
    }
    return object;
}

const ModelSpec *spec_preset(int index)
{
    int count = (int)(sizeof presets / sizeof presets[0]);
    return index >= 0 && index < count ? &presets[index] : NULL;
}

const ModelSpec *spec_find(const char *name)
{
    for (int i = 0; spec_preset(i) != NULL; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            return &presets[i];
        }
    }
    return NULL;
}

double spec_real(double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.15g", value);
    return strtod(digits, NULL);
}

/* What follows from new values of other fields unless it is given too. */
static void derive(const SpecOverrides *o, ModelSpec *out)
{
    if (o->heads > 0 && o->kv_heads == 0) {
        out->kv_heads = o->heads;
    }
    if ((o->heads > 0 || o->width > 0) && o->head_dim == 0) {
        out->head_dim = out->width % out->heads == 0 ? out->width / out->heads : 0;
    }
    if (out->embed_scale > 0 && o->width > 0 && o->embed_scale == 0) {
        out->embed_scale = spec_real(sqrt((double)out->width));
    }
    if (out->mixer == MIXER_TTT && o->ttt_rate == 0) {
        out->ttt_rate = out->ttt == TTT_MLP ? 0.1 : 1.0;
    }
}

/* What a model lacks that does not have the field. */
static const char *missing_part(const ModelSpec *spec, const SpecField *field)
{
    bool local = field->offset == offsetof(ModelSpec, rope_local_base);
    bool scaled = strncmp(field->name, "rope-", 5) == 0 && spec->rope_base > 0 && !local &&
                  field->offset != offsetof(ModelSpec, rope_scaling);
    bool of_window = field->offset == offsetof(ModelSpec, full_every) ||
                     (local && spec->rope_base > 0 && spec->mixer == MIXER_ATTENTION);
    return of_window ? "window that it would change; give --window too"
           : scaled  ? "scaled rotary positions that it would change; give --rope-scaling too"
           : strncmp(field->name, "rope-", 5) == 0 ? "rotary positions like that; leave it out"
           : strncmp(field->name, "ttt", 3) == 0 || field->offset == offsetof(ModelSpec, mini)
               ? "TTT layers; ttt-125m is one that does"
               : "attention; leave it out";
}

static int apply(const char *name, const SpecOverrides *o, int64_t data_vocab, ModelSpec *out)
{
    const ModelSpec *preset = spec_find(name);
    if (preset == NULL) {
        return err_set(ERR_INPUT, "--model %s: no such model; `pacer models` lists them", name);
    }
    *out = *preset;
    out->vocab = out->vocab == 0 ? data_vocab : out->vocab;
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        double value = field->option ? spec_override(o, field) : NAN;
        if (isnan(value)) {
            continue;
        }
        if (!spec_has(out, field)) {
            return err_set(ERR_INPUT, "--%s: --model %s has no %s", field->name, name,
                           missing_part(out, field));
        }
        spec_set(out, field, value);
    }
    derive(o, out);
    return 0;
}

static void fill(int64_t *field, int64_t value)
{
    *field = *field != 0 ? *field : value;
}

#define DIAL_HEAD 64 /* width of a head unless given, which suits the kernels of a GPU */

void spec_dial(const char *name, int64_t dial, SpecOverrides *o)
{
    const ModelSpec *preset = spec_find(name);
    if (dial == 0 || preset == NULL) {
        return;
    }
    double asked = spec_override(o, spec_field_of("ffn-kind"));
    FfnKind kind = isnan(asked) ? preset->ffn_kind : (FfnKind)asked;
    bool gated = kind == FFN_SWIGLU || kind == FFN_GEGLU;
    int64_t head = o->head_dim != 0 ? o->head_dim : DIAL_HEAD;
    fill(&o->layers, dial);
    fill(&o->heads, dial);
    fill(&o->width, dial * head);
    int64_t ffn = gated ? (8 * o->width + 2) / 3 : 4 * o->width;
    fill(&o->ffn, (ffn + head - 1) / head * head);
}

int spec_resolve(const char *name, const SpecOverrides *o, int64_t data_vocab, ModelSpec *out)
{
    int code = apply(name, o, data_vocab, out);
    return code != 0 ? code : spec_check(out);
}

void spec_overrides(const ModelSpec *spec, SpecOverrides *out)
{
    ModelSpec made;
    *out = (SpecOverrides){0};
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        int code = apply(spec->name, out, 0, &made);
        double value = spec_value(spec, field);
        PACER_ASSERT(code == 0, "%s is no preset", spec->name);
        if (field->option && spec_has(spec, field) && value != spec_value(&made, field)) {
            set_override(out, field, value);
        }
    }
}

int spec_check(const ModelSpec *s)
{
    if (s->vocab == 0) {
        return err_set(ERR_INPUT,
                       "--model %s takes its vocabulary from the data: give --data or --vocab",
                       s->name);
    }
    if (s->layers < 1 || s->width < 1 || s->heads < 1 || s->kv_heads < 1 || s->ffn < 1 ||
        s->vocab < 2 || s->context < 1) {
        return err_set(ERR_INPUT,
                       "--model %s: every dimension must be at least 1, the vocabulary 2", s->name);
    }
    if (s->head_dim == 0) {
        return err_set(ERR_INPUT,
                       "--d-model %lld is not a multiple of --heads %lld; change one, or give "
                       "--head-dim",
                       (long long)s->width, (long long)s->heads);
    }
    if (s->heads % s->kv_heads != 0) {
        return err_set(ERR_INPUT, "--heads %lld is not a multiple of --kv-heads %lld",
                       (long long)s->heads, (long long)s->kv_heads);
    }
    if (s->mixer == MIXER_TTT && s->kv_heads != s->heads) {
        return err_set(ERR_INPUT,
                       "--kv-heads %lld: TTT layers have a key and a value per head; "
                       "leave it out",
                       (long long)s->kv_heads);
    }
    if (s->mixer == MIXER_TTT && s->heads * s->head_dim != s->width) {
        return err_set(ERR_INPUT,
                       "--head-dim %lld: the heads of TTT layers make up d-model, %lld; leave it "
                       "out",
                       (long long)s->head_dim, (long long)s->width);
    }
    if (s->rope_scaling != ROPE_PLAIN && !(s->rope_factor >= 1)) {
        return err_set(ERR_INPUT, "--rope-scaling divides angles: give --rope-factor, 1 or more");
    }
    if (s->rope_scaling >= ROPE_LLAMA3 &&
        !(s->rope_context > 0 && s->rope_low > 0 && s->rope_high > s->rope_low)) {
        return err_set(
            ERR_INPUT,
            "--rope-scaling llama3 and yarn also need --rope-context, and --rope-low below "
            "--rope-high (Llama 3 has 8192, 1 and 4; YaRN 1 and 32)");
    }
    if (s->rope_base > 0 && s->head_dim % 2 != 0) {
        return err_set(
            ERR_INPUT,
            "--head-dim %lld (--d-model %lld / --heads %lld unless given) is odd: rotary "
            "positions turn pairs",
            (long long)s->head_dim, (long long)s->width, (long long)s->heads);
    }
    return 0;
}

#define SEQ_MOST 2048

int64_t spec_seq(const ModelSpec *s)
{
    return s->context < SEQ_MOST ? s->context : SEQ_MOST;
}

double spec_out_std(const ModelSpec *s)
{
    return s->scaled_residual ? 0.02 / sqrt(2.0 * (double)s->layers) : 0;
}

/* Rows of packed q, k, v and rates are whole multiples of this many elements, so that they start on
 * boundaries that fast loads need. */
#define TTT_ROW_ALIGN 16

bool spec_windowed(const ModelSpec *s, int layer)
{
    return s->window > 0 && (s->full_every == 0 || (layer + 1) % s->full_every != 0);
}

HeadShape spec_head_shape(const ModelSpec *s, int layer, int64_t batch, int64_t seq)
{
    HeadShape shape = head_shape(batch, seq, s->heads, s->kv_heads, s->head_dim);
    shape.window = spec_windowed(s, layer) ? s->window : 0;
    shape.scale = s->score_scale;
    shape.cap = s->score_cap;
    return shape;
}

TttShape spec_ttt_shape(const ModelSpec *s, int64_t batch, int64_t seq)
{
    int64_t used = 3 * s->width + s->heads;
    return (TttShape){.kind = s->ttt,
                      .batch = batch,
                      .seq = seq,
                      .heads = s->heads,
                      .head_dim = s->head_dim,
                      .mini = s->mini,
                      .width = (used + TTT_ROW_ALIGN - 1) / TTT_ROW_ALIGN * TTT_ROW_ALIGN,
                      .base_rate = s->ttt_rate,
                      .eps = s->norm_eps};
}
