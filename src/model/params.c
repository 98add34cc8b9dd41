#include "model/params.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_ELEMENTS (ARENA_ALIGN / 2) /* whole alignment for bf16, the smallest type */

void params_free(ParamTable *table)
{
    free(table->rows);
    *table = (ParamTable){0};
}

int params_add(ParamTable *table, ParamPlace place, const char *name, int layer, Param row)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity > 0 ? 2 * table->capacity : 64;
        table->rows = mem_realloc(table->rows, (size_t)table->capacity, sizeof *table->rows);
    }
    const char *mark = strstr(name, "%d");
    if (mark != NULL) {
        snprintf(row.name, sizeof row.name, "%.*s%d%s", (int)(mark - name), name, layer, mark + 2);
    } else {
        snprintf(row.name, sizeof row.name, "%s", name);
    }
    row.layer = layer;
    row.count = 1;
    for (int i = 0; i < row.rank; i++) {
        row.count *= row.dim[i];
    }
    row.place = place;
    row.decay = row.decay || table->decay_all;
    row.std = row.init == INIT_ONE ? 1 : row.std;
    row.growth = 1;
    PACER_ASSERT(place == PARAM_ALIGNED || row.decay == table->rows[table->count - 1].decay,
                 "parameter %s decays unlike the one it is joined to", row.name);
    table->parameters += row.count;
    table->rows[table->count] = row;
    return table->count++;
}

static void place_rows(ParamTable *table, bool decay)
{
    for (int i = 0; i < table->count; i++) {
        Param *row = &table->rows[i];
        if (row->decay != decay) {
            continue;
        }
        if (row->place == PARAM_ALIGNED) {
            table->flat = (table->flat + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
        }
        row->offset = table->flat;
        table->flat += row->count + row->spare_rows * (row->count / row->dim[0]);
    }
}

void params_place(ParamTable *table)
{
    table->flat = 0;
    place_rows(table, true);
    table->flat = (table->flat + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
    table->decayed = table->flat;
    place_rows(table, false);
}

ParamParts params_parts(const ParamTable *table, Tensor flat)
{
    return (ParamParts){
        .decayed = tensor_rows(flat, 0, table->decayed),
        .others = tensor_rows(flat, table->decayed, table->flat - table->decayed),
    };
}

Tensor params_view(const ParamTable *table, ParamParts parts, int first, int joined)
{
    const Param *row = &table->rows[first];
    Tensor buffer = row->decay ? parts.decayed : parts.others;
    Tensor view = {.dtype = buffer.dtype, .rank = row->rank};
    for (int i = first; i < first + joined; i++) {
        PACER_ASSERT(i == first || table->rows[i].offset ==
                                       table->rows[i - 1].offset + table->rows[i - 1].count,
                     "parameter %s is not joined to the one before", table->rows[i].name);
        view.dim[0] += table->rows[i].dim[0] + table->rows[i].spare_rows;
    }
    for (int i = 1; i < row->rank; i++) {
        view.dim[i] = row->dim[i];
    }
    int64_t at = row->offset - (row->decay ? parts.first : table->decayed);
    if (buffer.data != NULL && at < buffer.dim[0]) {
        view.data = (char *)buffer.data + (size_t)at * dtype_size(buffer.dtype);
    }
    return view;
}

void params_init_values(const ParamTable *table, int row, uint64_t seed, int64_t first, int64_t n,
                        float *out)
{
    const Param *param = &table->rows[row];
    int64_t piece = 1 << 14;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < n; at += piece) {
        int64_t count = n - at < piece ? n - at : piece;
        if (param->init == INIT_NORMAL) {
            rng_normals(seed, (uint64_t)row, (uint64_t)(first + at), (uint64_t)count, out + at);
        }
        for (int64_t i = at; i < at + count; i++) {
            out[i] = param->init == INIT_NORMAL ? out[i] * (float)param->std
                                                : (param->init == INIT_ONE ? (float)param->std : 0);
        }
    }
}

int params_first(const ParamTable *table, int layer)
{
    int row = 0;
    while (row < table->count && table->rows[row].layer != layer) {
        row++;
    }
    return row;
}

int params_first_decayed(const ParamTable *table, int layer)
{
    for (int row = 0; row < table->count; row++) {
        if (table->rows[row].layer == layer && table->rows[row].decay) {
            return row;
        }
    }
    PACER_ASSERT(false, "layer %d has no matrices", layer);
    return -1;
}

#define LAYER "model.layers.%d."
#define LLAMA_NAMES                                                                            \
    .embed = "model.embed_tokens", .final_norm = "model.norm", .head = "lm_head",              \
    .norm1 = LAYER "input_layernorm", .q = LAYER "self_attn.q_proj",                           \
    .k = LAYER "self_attn.k_proj", .v = LAYER "self_attn.v_proj",                              \
    .q_norm = LAYER "self_attn.q_norm", .k_norm = LAYER "self_attn.k_norm",                    \
    .out = LAYER "self_attn.o_proj", .gate = LAYER "mlp.gate_proj", .up = LAYER "mlp.up_proj", \
    .down = LAYER "mlp.down_proj"

const TensorNames *tensor_names(const ModelSpec *spec)
{
    static const TensorNames schemes[] = {
        [NAMES_GPT2] = {.embed = "wte",
                        .positions = "wpe",
                        .final_norm = "ln_f",
                        .head = "lm_head",
                        .norm1 = "h.%d.ln_1",
                        .post1 = "h.%d.attn.post_norm",
                        .norm2 = "h.%d.ln_2",
                        .post2 = "h.%d.mlp.post_norm",
                        .qkv = "h.%d.attn.qkv",
                        .q_norm = "h.%d.attn.q_norm",
                        .k_norm = "h.%d.attn.k_norm",
                        .out = "h.%d.attn.proj",
                        .gate = "h.%d.mlp.gate",
                        .up = "h.%d.mlp.fc",
                        .down = "h.%d.mlp.proj"},
        [NAMES_LLAMA] = {LLAMA_NAMES, .post1 = LAYER "self_attn.post_norm",
                         .norm2 = LAYER "post_attention_layernorm", .post2 = LAYER "mlp.post_norm"},
        [NAMES_GEMMA] = {LLAMA_NAMES, .post1 = LAYER "post_attention_layernorm",
                         .norm2 = LAYER "pre_feedforward_layernorm",
                         .post2 = LAYER "post_feedforward_layernorm"},
        [NAMES_TTT] = {.embed = "model.embed_tokens",
                       .final_norm = "model.norm",
                       .head = "lm_head",
                       .norm1 = LAYER "seq_norm",
                       .post1 = LAYER "seq_modeling_block.branch_norm",
                       .norm2 = LAYER "ffn_norm",
                       .post2 = LAYER "mlp.branch_norm",
                       .gate = LAYER "mlp.gate_proj",
                       .up = LAYER "mlp.up_proj",
                       .down = LAYER "mlp.down_proj"},
    };
    return &schemes[spec->names];
}
