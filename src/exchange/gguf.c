#include "exchange/gguf.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/progress.h"
#include "exchange/hf_config.h"
#include "model/model.h"
#include "tensor/half.h"

#include <math.h>
#include <stdlib.h>

#define MAGIC "GGUF"
#define VERSION 3
#define ALIGNMENT 32 /* of tensors, the format's default */
#define BLOCK 32     /* values of a block of q8_0 */
#define QUANT_VERSION 2

/* What a file's tensors can be: the format's number, and bytes of `values` values. */
typedef struct {
    uint32_t number;
    int64_t values, bytes;
} Coding;

static const Coding codings[] = {[GGUF_F32] = {0, 1, 4},
                                 [GGUF_F16] = {1, 1, 2},
                                 [GGUF_BF16] = {30, 1, 2},
                                 [GGUF_Q8_0] = {8, BLOCK, BLOCK + 2}};

/* What llama.cpp calls a file whose matrices are so. */
static const int file_types[] = {[GGUF_F32] = 0, [GGUF_F16] = 1, [GGUF_BF16] = 32, [GGUF_Q8_0] = 7};

/* --- models --- */

/* A model_type of config.json and what computes it in llama.cpp. */
typedef struct {
    const char *type, *name;
    FfnKind ffn;
    bool neighbours; /* pairs of the rotary embedding are neighbours, where pacer's are half a head
                      * apart: rows of q and k change places */
    bool sandwich;   /* norms behind attention and feed-forward too */
    int64_t full_every; /* the layers without a window are so; 0: no layer has one */
    bool capped;        /* scores and logits are, whether or not a file says how */
} Architecture;

static const Architecture architectures[] = {
    {.type = "gpt2", .name = "gpt2", .ffn = FFN_GELU},
    {.type = "llama", .name = "llama", .ffn = FFN_SWIGLU, .neighbours = true},
    {.type = "mistral", .name = "llama", .ffn = FFN_SWIGLU, .neighbours = true},
    {.type = "qwen2", .name = "qwen2", .ffn = FFN_SWIGLU},
    {.type = "qwen3", .name = "qwen3", .ffn = FFN_SWIGLU},
    {.type = "gemma2",
     .name = "gemma2",
     .ffn = FFN_GEGLU,
     .sandwich = true,
     .full_every = 2,
     .capped = true},
    {.type = "gemma3_text", .name = "gemma3", .ffn = FFN_GEGLU, .sandwich = true, .full_every = 6},
};

/* The field of a model that llama.cpp's of this architecture have otherwise, or NULL: they take
 * windows by the pattern they know, or none at all (one as long as the context changes nothing),
 * and scale scores by the width of a head. */
static const char *other_field(const Architecture *arch, const ModelSpec *s)
{
    double plain = 1 / sqrt((double)s->head_dim);
    return s->ffn_kind != arch->ffn                                           ? "ffn-kind"
           : s->window > 0 && arch->full_every == 0 && s->window < s->context ? "window"
           : s->window > 0 && arch->full_every > 0 && s->full_every != arch->full_every
               ? "full-every"
           : arch->capped && s->score_cap == 0                                 ? "score-cap"
           : arch->capped && s->logit_cap == 0                                 ? "logit-cap"
           : s->score_scale > 0 && fabs(s->score_scale - plain) > 1e-6 * plain ? "score-scale"
                                                                               : NULL;
}

/* Names of tensors without ".weight" and ".bias", and in Hugging Face's also without what stands
 * before the block's own part; in a file, blk.N. stands before it. */
typedef struct {
    const char *hf, *gguf;
} TensorName;

static const TensorName known_tensors[] = {
    {"wte", "token_embd"},
    {"embed_tokens", "token_embd"},
    {"wpe", "position_embd"},
    {"ln_f", "output_norm"},
    {"norm", "output_norm"},
    {"lm_head", "output"},
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {NULL, NULL},
};

/* What Architecture.sandwich changes in it. */
static const TensorName sandwich_tensors[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {NULL, NULL},
};

static const char *find_name(const TensorName *names, const char *part, size_t length)
{
    while (names->hf != NULL &&
           (strlen(names->hf) != length || strncmp(names->hf, part, length) != 0)) {
        names++;
    }
    return names->gguf;
}

/* The model_type by which config.json describes it decides; what cannot be described there is
 * refused by that. */
static int find_architecture(const ModelSpec *spec, const Architecture **out)
{
    cJSON *config = NULL;
    HfConfigExtra extra = {.begin = -1, .end = -1};
    int code = hf_config(spec, extra, &config);
    if (code != 0) {
        return code;
    }
    const char *type = json_text_or(config, "model_type", "");
    *out = NULL;
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        if (strcmp(architectures[i].type, type) == 0) {
            *out = &architectures[i];
        }
    }
    if (*out == NULL) {
        code = err_set(ERR_INPUT,
                       "--format gguf: a %s model, for which llama.cpp has nothing the same; "
                       "--format hf writes it for Hugging Face",
                       type);
    } else if (other_field(*out, spec) != NULL) {
        const SpecField *field = spec_field_of(other_field(*out, spec));
        char value[SPEC_TEXT_SIZE];
        code = err_set(ERR_INPUT,
                       "--format gguf: llama.cpp's %s models do not compute --%s %s; "
                       "--format hf writes it for Hugging Face",
                       (*out)->name, field->name, spec_text(field, spec_value(spec, field), value));
    }
    cJSON_Delete(config);
    return code;
}

/* --- the head --- */

void gguf_put_whole(FILE *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        fputc((int)(value >> (8 * i) & 0xFF), to);
    }
}

void gguf_put_text(FILE *to, const void *text, size_t size)
{
    gguf_put_whole(to, size, 8);
    fwrite(text, 1, size, to);
}

/* Numbers of the types of fields. */
enum {
    FIELD_U32 = 4,
    FIELD_F32 = GGUF_F32_ELEMENT,
    FIELD_BOOL = 7,
    FIELD_TEXT = GGUF_TEXT,
    FIELD_ARRAY = 9
};

static void begin_field(GgufFields *fields, const char *name, int type)
{
    gguf_put_text(fields->to, name, strlen(name));
    gguf_put_whole(fields->to, (uint64_t)type, 4);
    fields->count++;
}

void gguf_field_whole(GgufFields *fields, const char *name, int64_t value)
{
    begin_field(fields, name, FIELD_U32);
    gguf_put_whole(fields->to, (uint64_t)value, 4);
}

void gguf_put_real(FILE *to, double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    gguf_put_whole(to, bits, 4);
}

void gguf_field_real(GgufFields *fields, const char *name, double value)
{
    begin_field(fields, name, FIELD_F32);
    gguf_put_real(fields->to, value);
}

void gguf_field_bool(GgufFields *fields, const char *name, bool value)
{
    begin_field(fields, name, FIELD_BOOL);
    gguf_put_whole(fields->to, value, 1);
}

void gguf_field_text(GgufFields *fields, const char *name, const char *value)
{
    begin_field(fields, name, FIELD_TEXT);
    gguf_put_text(fields->to, value, strlen(value));
}

void gguf_field_array(GgufFields *fields, const char *name, int type, uint64_t count)
{
    begin_field(fields, name, FIELD_ARRAY);
    gguf_put_whole(fields->to, (uint64_t)type, 4);
    gguf_put_whole(fields->to, count, 8);
}

/* "llama.block_count" and the like. */
static const char *own_name(const Architecture *arch, const char *name, char text[80])
{
    snprintf(text, 80, "%s.%s", arch->name, name);
    return text;
}

static void put_rope(GgufFields *fields, const Architecture *arch, const ModelSpec *s)
{
    char name[80];
    gguf_field_real(fields, own_name(arch, "rope.freq_base", name), s->rope_base);
    gguf_field_whole(fields, own_name(arch, "rope.dimension_count", name), s->head_dim);
    if (s->rope_scaling != ROPE_LINEAR && s->rope_scaling != ROPE_YARN) {
        return; /* Llama 3's factors are a tensor */
    }
    gguf_field_text(fields, own_name(arch, "rope.scaling.type", name),
                    s->rope_scaling == ROPE_YARN ? "yarn" : "linear");
    gguf_field_real(fields, own_name(arch, "rope.scaling.factor", name), s->rope_factor);
    if (s->rope_scaling == ROPE_YARN) {
        double plain = 1 + 0.1 * log(s->rope_factor); /* what it multiplies by of itself */
        gguf_field_whole(fields, own_name(arch, "rope.scaling.original_context_length", name),
                         s->rope_context);
        gguf_field_real(fields, own_name(arch, "rope.scaling.attn_factor", name),
                        s->rope_gain > 0 ? s->rope_gain / plain : 1);
        gguf_field_real(fields, own_name(arch, "rope.scaling.yarn_beta_fast", name), s->rope_high);
        gguf_field_real(fields, own_name(arch, "rope.scaling.yarn_beta_slow", name), s->rope_low);
    }
}

static void put_dimensions(GgufFields *fields, const Architecture *arch, const ModelSpec *s,
                           GgufType type)
{
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
    gguf_field_text(fields, "general.architecture", arch->name);
    gguf_field_text(fields, "general.type", "model");
    gguf_field_text(fields, "general.name", s->name);
    gguf_field_whole(fields, "general.file_type", file_types[type]);
    gguf_field_whole(fields, "general.quantization_version", QUANT_VERSION);
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
        gguf_field_whole(fields, own_name(arch, wholes[i].name, name), wholes[i].value);
    }
    bool rms = s->norm == NORM_RMS;
    gguf_field_real(
        fields,
        own_name(arch, rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
                 name),
        s->norm_eps);
    if (s->rope_base > 0) {
        put_rope(fields, arch, s);
    }
    bool windowed = s->window > 0 && arch->full_every > 0;
    if (arch->full_every > 0) { /* without the field some layers would have a window all the same */
        gguf_field_whole(fields, own_name(arch, "attention.sliding_window", name),
                         windowed ? s->window : s->context);
    }
    const struct {
        const char *name;
        double value; /* 0: none */
    } reals[] = {{"rope.freq_base_swa", windowed && s->rope_local_base > 0 ? s->rope_local_base
                                        : arch->full_every > 0             ? s->rope_base
                                                                           : 0},
                 {"attn_logit_softcapping", s->score_cap},
                 {"final_logit_softcapping", s->logit_cap}};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        if (reals[i].value > 0) {
            gguf_field_real(fields, own_name(arch, reals[i].name, name), reals[i].value);
        }
    }
}

/* --- tensors --- */

typedef struct {
    char name[80];
    GgufType type;
    int row;               /* of the table; -1: Llama 3's factors of rotary angles */
    int64_t rows, columns; /* rows 0: a vector of so many columns */
    int64_t heads;         /* whose rows change places; 0: none do */
    uint64_t offset;
} Placed;

typedef struct {
    const HfModel *model;
    const Architecture *arch;
    const ParamTable *table;
    GgufType type;
    Placed *tensors;
    int count;
} Plan;

static int64_t value_count(const Placed *t)
{
    return (t->rows > 0 ? t->rows : 1) * t->columns;
}

static uint64_t byte_count(const Placed *t)
{
    const Coding *coding = &codings[t->type];
    return (uint64_t)(value_count(t) / coding->values * coding->bytes);
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The name of a row of the table in the file. */
static int name_tensor(const Plan *plan, const Param *row, Placed *t)
{
    HfName hf = hf_name(plan->model->spec->names, row->name);
    const char *prefix = hf_prefix(plan->model->spec->names), *part = hf.name;
    part += strncmp(part, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    if (row->layer >= 0) { /* "h.3." or "layers.3." */
        part = strchr(part, '.');
        part = part != NULL ? strchr(part + 1, '.') : NULL;
        part = part != NULL ? part + 1 : "";
    }
    const char *suffix = strrchr(part, '.');
    size_t length = suffix != NULL ? (size_t)(suffix - part) : strlen(part);
    const char *name = plan->arch->sandwich ? find_name(sandwich_tensors, part, length) : NULL;
    name = name != NULL ? name : find_name(known_tensors, part, length);
    if (name == NULL || suffix == NULL) {
        return err_set(ERR_INPUT, "--format gguf: llama.cpp's %s models have no tensor like %s",
                       plan->arch->name, hf.name);
    }
    char block[24] = "";
    if (row->layer >= 0) {
        snprintf(block, sizeof block, "blk.%d.", row->layer);
    }
    snprintf(t->name, sizeof t->name, "%s%s%s", block, name, suffix);
    bool q = strcmp(name, "attn_q") == 0, k = strcmp(name, "attn_k") == 0;
    const ModelSpec *s = plan->model->spec;
    t->heads = !plan->arch->neighbours ? 0 : q ? s->heads : k ? s->kv_heads : 0;
    return 0;
}

static GgufType type_of(const Plan *plan, const Placed *t)
{
    if (t->rows == 0 || strcmp(t->name, "position_embd.weight") == 0) {
        return GGUF_F32;
    }
    return plan->type == GGUF_Q8_0 && t->columns % BLOCK != 0 ? GGUF_F16 : plan->type;
}

static int place_tensors(Plan *plan)
{
    const ModelSpec *s = plan->model->spec;
    int code = 0;
    plan->tensors = mem_zalloc((size_t)plan->table->count + 1, sizeof *plan->tensors);
    if (s->rope_scaling == ROPE_LLAMA3) {
        plan->tensors[plan->count++] =
            (Placed){.name = "rope_freqs.weight", .row = -1, .columns = s->head_dim / 2};
    }
    for (int r = 0; code == 0 && r < plan->table->count; r++) {
        const Param *row = &plan->table->rows[r];
        Placed *t = &plan->tensors[plan->count++];
        t->row = r;
        t->rows = row->rank == 1 ? 0 : row->dim[0];
        t->columns = row->rank == 1 ? row->dim[0] : row->dim[1];
        code = name_tensor(plan, row, t);
        t->type = type_of(plan, t);
    }
    for (int i = 1; i < plan->count; i++) {
        const Placed *before = &plan->tensors[i - 1];
        plan->tensors[i].offset = aligned(before->offset + byte_count(before));
    }
    return code;
}

/* Everything before the tensors, filled up to where they begin; caller frees. */
static int make_head(const Plan *plan, char **head, size_t *size)
{
    char *text = NULL;
    size_t length;
    GgufFields fields = {.to = mem_checked(open_memstream(&text, &length), sizeof(FILE))};
    put_dimensions(&fields, plan->arch, plan->model->spec, plan->type);
    int code = gguf_put_vocab(&fields, plan->model);
    mem_checked(fclose(fields.to) == 0 ? text : NULL, 1);
    FILE *to = mem_checked(open_memstream(head, size), sizeof *to);
    fwrite(MAGIC, 1, strlen(MAGIC), to);
    gguf_put_whole(to, VERSION, 4);
    gguf_put_whole(to, (uint64_t)plan->count, 8);
    gguf_put_whole(to, fields.count, 8);
    fwrite(text, 1, length, to);
    for (int i = 0; i < plan->count; i++) {
        const Placed *t = &plan->tensors[i];
        gguf_put_text(to, t->name, strlen(t->name));
        gguf_put_whole(to, t->rows > 0 ? 2 : 1, 4);
        gguf_put_whole(to, (uint64_t)t->columns, 8); /* the innermost dimension first */
        if (t->rows > 0) {
            gguf_put_whole(to, (uint64_t)t->rows, 8);
        }
        gguf_put_whole(to, codings[t->type].number, 4);
        gguf_put_whole(to, t->offset, 8);
    }
    for (long at = ftell(to); at % ALIGNMENT != 0; at++) {
        fputc(0, to);
    }
    mem_checked(fclose(to) == 0 ? *head : NULL, 1);
    free(text);
    return code;
}

/* --- values --- */

/* A block: the largest magnitude is 127 steps. The step is kept in f16, but values are divided by
 * it as it was before. */
static void encode_block(const float *from, uint8_t *to)
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++) {
        most = fmaxf(most, fabsf(from[i]));
    }
    float step = most / 127, per = step > 0 ? 1 / step : 0;
    uint16_t half = f16_from_f32(step);
    memcpy(to, &half, sizeof half);
    for (int i = 0; i < BLOCK; i++) {
        to[2 + i] = (uint8_t)(int8_t)roundf(from[i] * per);
    }
}

static void encode(GgufType type, const float *from, int64_t count, uint8_t *to)
{
    for (int64_t i = 0; i < count; i += codings[type].values, to += codings[type].bytes) {
        uint16_t half = type == GGUF_F16    ? f16_from_f32(from[i])
                        : type == GGUF_BF16 ? bf16_from_f32(from[i])
                                            : 0;
        if (type == GGUF_F32) {
            memcpy(to, &from[i], sizeof *from);
        } else if (type == GGUF_Q8_0) {
            encode_block(from + i, to);
        } else {
            memcpy(to, &half, sizeof half);
        }
    }
}

/* Row r of the file is this one of the table: the halves of a head that the rotary embedding turns
 * together are put side by side. */
static int64_t source_row(const Placed *t, int64_t rows, int64_t r)
{
    if (t->heads == 0) {
        return r;
    }
    int64_t width = rows / t->heads, inside = r % width;
    return r - inside + inside % 2 * (width / 2) + inside / 2;
}

/* Llama 3: what each pair's angle is divided by. */
static void fill_factors(const ModelSpec *s, float *values)
{
    for (int64_t i = 0; i < s->head_dim / 2; i++) {
        ModelSpec plain = *s;
        plain.rope_scaling = ROPE_PLAIN;
        values[i] = (float)(model_rope_angle(&plain, i, false) / model_rope_angle(s, i, false));
    }
}

static int write_tensor(const Plan *plan, const Placed *t, Output *output)
{
    int64_t count = value_count(t), unit = t->rows > 0 ? t->columns : 1, rows = count / unit;
    bool whole = t->heads == 0 && t->rows == 0;
    unit = whole ? count : unit; /* a vector at once, unless its elements change places */
    rows = whole ? 1 : rows;
    size_t room = (size_t)(unit / codings[t->type].values * codings[t->type].bytes);
    float *values = mem_try_aligned((size_t)count * sizeof *values);
    if (values == NULL) {
        return err_set(ERR_MEMORY, "no memory for the %.1f MB of %s", (double)count * 4e-6,
                       t->name);
    }
    int code = 0;
    if (t->row < 0) {
        fill_factors(plan->model->spec, values);
    } else {
        code = weight_folder_read(plan->model->weights, plan->table, t->row, false, values);
    }
    uint8_t *encoded = mem_alloc(room);
    for (int64_t r = 0; code == 0 && r < rows; r++) {
        encode(t->type, values + source_row(t, rows, r) * unit, unit, encoded);
        code = output_put(output, encoded, room);
    }
    static const uint8_t zeros[ALIGNMENT];
    size_t spare = (size_t)(aligned(byte_count(t)) - byte_count(t));
    code = code != 0 ? code : output_put(output, zeros, spare);
    free(encoded);
    free(values);
    return code;
}

static int write_file(const Plan *plan, const char *head, size_t size, const char *out)
{
    Output *output;
    int code = output_open(out, &output);
    if (code != 0) {
        return err_wrap(code, "--out");
    }
    const Placed *last = &plan->tensors[plan->count - 1];
    uint64_t all = last->offset + byte_count(last);
    Progress progress = progress_begin("writing");
    code = output_put(output, head, size);
    for (int i = 0; code == 0 && i < plan->count; i++) {
        progress_say(&progress, plan->tensors[i].offset, all);
        code = write_tensor(plan, &plan->tensors[i], output);
    }
    if (code == 0) {
        return output_commit(output);
    }
    char *why = mem_strdup(err_message());
    output_abandon(output);
    err_set(code, "%s", why);
    free(why);
    return code;
}

int gguf_export(const HfModel *model, GgufType type, const char *out)
{
    if (io_exists(out)) {
        return err_set(ERR_INPUT, "--out %s: exists; name a new file, or remove it", out);
    }
    Model shapes;
    model_init(&shapes, model->spec, DT_F32, 1);
    Plan plan = {.model = model, .table = &shapes.params, .type = type};
    char *head = NULL;
    size_t size;
    int code = find_architecture(model->spec, &plan.arch);
    code = code != 0 ? code : weight_folder_check(model->weights, model->spec, &shapes.params);
    code = code != 0 ? code : place_tensors(&plan);
    code = code != 0 ? code : make_head(&plan, &head, &size);
    code = code != 0 ? code : write_file(&plan, head, size, out);
    free(head);
    free(plan.tensors);
    model_free(&shapes);
    return code;
}
