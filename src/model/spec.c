#include "model/spec.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

#define GPT2(label, n_layers, n_width, n_heads)                                        \
    {                                                                                  \
        .name = label, .names = NAMES_GPT2, .layers = n_layers, .width = n_width,      \
        .heads = n_heads, .kv_heads = n_heads, .ffn = 4 * (n_width), .vocab = 50257,   \
        .context = 1024, .norm = NORM_LAYER, .ffn_kind = FFN_GELU, .norm_eps = 1e-5,   \
        .learned_positions = true, .bias = true, .tied = true, .scaled_residual = true \
    }

#define LLAMA(label, n_layers, n_width, n_heads, n_ffn, n_vocab, n_context)               \
    {                                                                                     \
        .name = label, .names = NAMES_LLAMA, .layers = n_layers, .width = n_width,        \
        .heads = n_heads, .kv_heads = n_heads, .ffn = n_ffn, .vocab = n_vocab,            \
        .context = n_context, .norm = NORM_RMS, .ffn_kind = FFN_SWIGLU, .norm_eps = 1e-5, \
        .rope_base = 10000.0                                                              \
    }

#define TTT(label, n_layers, n_width, n_heads, n_ffn)                                              \
    {                                                                                              \
        .name = label, .names = NAMES_TTT, .layers = n_layers, .width = n_width, .heads = n_heads, \
        .kv_heads = n_heads, .ffn = n_ffn, .vocab = 50257, .context = 2048, .norm = NORM_RMS,      \
        .ffn_kind = FFN_SWIGLU, .norm_eps = 1e-6, .rope_base = 10000.0, .tied = true,              \
        .decay_all = true, .mixer = MIXER_TTT, .ttt = TTT_LINEAR, .mini = 16, .ttt_rate = 1.0      \
    }

static const ModelSpec presets[] = {
    LLAMA("tiny", 4, 128, 4, 344, 0, 128), LLAMA("llama-22m", 4, 512, 16, 1344, 10000, 256),
    GPT2("gpt2-124m", 12, 768, 12),        GPT2("gpt2-350m", 24, 1024, 16),
    GPT2("gpt2-774m", 36, 1280, 20),       GPT2("gpt2-1558m", 48, 1600, 25),
    TTT("ttt-125m", 12, 768, 12, 2048),    TTT("ttt-350m", 24, 1024, 16, 2736),
    TTT("ttt-760m", 24, 1536, 16, 4096),   TTT("ttt-1b", 24, 2048, 32, 5504),
};

static const char *const families[] = {[NAMES_GPT2] = "gpt2", "llama", "ttt", NULL};
static const char *const norms[] = {[NORM_LAYER] = "layer", [NORM_RMS] = "rms", NULL};
static const char *const ffns[] = {[FFN_GELU] = "gelu", [FFN_SWIGLU] = "swiglu", NULL};
static const char *const mixers[] = {[MIXER_ATTENTION] = "attention", [MIXER_TTT] = "ttt", NULL};
static const char *const ttts[] = {[TTT_LINEAR] = "linear", [TTT_MLP] = "mlp", NULL};
static const char *const switches[] = {"off", "on", NULL};
#define numbers NULL

static const SpecField fields[] = {
#define TYPE_OF(field)                     \
    _Generic(((ModelSpec *)0)->field, bool \
             : FIELD_FLAG, int64_t         \
             : FIELD_WHOLE, double         \
             : FIELD_REAL, default         \
             : FIELD_CHOICE)
#define X(type, field, key, option, words) \
    {key, option, TYPE_OF(field), offsetof(ModelSpec, field), words},
    MODEL_FIELDS(X)
#undef X
};

const SpecField *spec_fields(int *count)
{
    *count = (int)(sizeof fields / sizeof fields[0]);
    return fields;
}

const SpecField *spec_field_of(const char *option)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].option != NULL && strcmp(fields[i].option, option) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

double spec_value(const ModelSpec *spec, const SpecField *field)
{
    const char *at = (const char *)spec + field->offset;
    switch (field->type) {
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

const char *spec_text(const SpecField *field, double value, char text[SPEC_TEXT_SIZE])
{
    int words = 0;
    while (field->words != NULL && field->words[words] != NULL) {
        words++;
    }
    if (value >= 0 && value < words) {
        snprintf(text, SPEC_TEXT_SIZE, "%s", field->words[(int)value]);
    } else {
        snprintf(text, SPEC_TEXT_SIZE, "%.15g", value);
    }
    return text;
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

static void replace(int64_t *value, int64_t override)
{
    if (override > 0) {
        *value = override;
    }
}

/* The inner model of a TTT layer; ERR_INPUT for a model that has none. */
static int override_ttt(const SpecOverrides *o, ModelSpec *out)
{
    const char *option = o->ttt > 0 ? "--ttt" : o->mini > 0 ? "--mini-batch" : "--ttt-lr";
    if (out->mixer != MIXER_TTT) {
        if (o->ttt > 0 || o->mini > 0 || o->ttt_rate > 0) {
            return err_set(ERR_INPUT, "%s: --model %s has no TTT layers; ttt-125m is one that does",
                           option, out->name);
        }
        return 0;
    }
    out->ttt = o->ttt > 0 ? (TttKind)(o->ttt - 1) : out->ttt;
    replace(&out->mini, o->mini);
    out->ttt_rate = o->ttt_rate > 0 ? o->ttt_rate : out->ttt == TTT_MLP ? 0.1 : 1.0;
    return 0;
}

int spec_resolve(const char *name, const SpecOverrides *o, int64_t data_vocab, ModelSpec *out)
{
    const ModelSpec *preset = spec_find(name);
    if (preset == NULL) {
        return err_set(ERR_INPUT, "--model %s: no such model; `pacer models` lists them", name);
    }
    *out = *preset;
    replace(&out->layers, o->layers);
    replace(&out->width, o->width);
    replace(&out->heads, o->heads);
    /* A new number of heads brings its own key/value heads unless they are given too. */
    if (o->heads > 0) {
        out->kv_heads = o->heads;
    }
    replace(&out->kv_heads, o->kv_heads);
    replace(&out->ffn, o->ffn);
    replace(&out->vocab, data_vocab > 0 && out->vocab == 0 ? data_vocab : 0);
    replace(&out->vocab, o->vocab);
    replace(&out->context, o->context);
    if (o->tied >= 0) {
        out->tied = o->tied != 0;
    }
    out->norm_eps = o->norm_eps > 0 ? o->norm_eps : out->norm_eps;
    if (o->rope_base > 0 && out->rope_base == 0) {
        return err_set(ERR_INPUT, "--rope-base: model %s has no rotary positions; leave it out",
                       name);
    }
    out->rope_base = o->rope_base > 0 ? o->rope_base : out->rope_base;
    int code = override_ttt(o, out);
    return code != 0 ? code : spec_check(out);
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
    if (s->width % s->heads != 0) {
        return err_set(ERR_INPUT, "--d-model %lld is not a multiple of --heads %lld",
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
    if (s->rope_base > 0 && spec_head_dim(s) % 2 != 0) {
        return err_set(
            ERR_INPUT,
            "--d-model %lld / --heads %lld gives an odd head width, which rotary positions "
            "cannot use",
            (long long)s->width, (long long)s->heads);
    }
    return 0;
}

/* Rows of packed q, k, v and rates are whole multiples of this many elements, so that they start on
 * boundaries that fast loads need. */
#define TTT_ROW_ALIGN 16

TttShape spec_ttt_shape(const ModelSpec *s, int64_t batch, int64_t seq)
{
    int64_t used = 3 * s->width + s->heads;
    return (TttShape){.kind = s->ttt,
                      .batch = batch,
                      .seq = seq,
                      .heads = s->heads,
                      .head_dim = spec_head_dim(s),
                      .mini = s->mini,
                      .width = (used + TTT_ROW_ALIGN - 1) / TTT_ROW_ALIGN * TTT_ROW_ALIGN,
                      .base_rate = s->ttt_rate,
                      .eps = s->norm_eps};
}
