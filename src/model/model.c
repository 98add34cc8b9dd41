#include "model/model.h"

#include "base/assert.h"
#include "base/mem.h"
#include "model/block.h"
#include "model/linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Logits are made for as many rows at a time as fit in the backend's head_bytes: small enough to
 * be no burden beside the activations, large enough that the head's products run at full speed. */
#define HEAD_CHUNK_ROWS 128 /* chunks have a multiple of it */

/* Which parts each layer has. */
static void choose_parts(Model *model)
{
    static const BlockPart *const mixers[] = {
        [MIXER_ATTENTION] = &part_attention, [MIXER_TTT] = &part_ttt};
    const ModelSpec *s = &model->spec;
    model->layers = mem_zalloc((size_t)s->layers, sizeof *model->layers);
    for (int64_t l = 0; l < s->layers; l++) {
        model->layers[l].mixer = mixers[s->mixer];
        model->layers[l].ffn = ffn_part(s->ffn_kind);
    }
}

void model_init(Model *model, const ModelSpec *spec, DType act, int64_t row_align)
{
    *model = (Model){.spec = *spec, .act = act, .row_head = -1};
    choose_parts(model);
    ParamTable *table = &model->params;
    const TensorNames *names = tensor_names(spec);
    table->decay_all = spec->decay_all;
    linear_declare_vocab(table, names->embed, spec->vocab, spec->width, row_align);
    model->vocab_rows = spec->vocab + table->rows[0].spare_rows;
    if (spec->learned_positions) {
        linear_declare(table, names->positions, -1, spec->context, spec->width, 0, false);
    }
    for (int l = 0; l < spec->layers; l++) {
        block_declare(model, l);
    }
    norm_declare(table, names->final_norm, -1, spec->norm, spec->width);
    if (!spec->tied) {
        model->row_head = table->count;
        linear_declare_vocab(table, names->head, spec->vocab, spec->width, row_align);
    }
    params_place(table);
    model->saved = mem_zalloc((size_t)spec->layers, sizeof *model->saved);
}

void model_free(Model *model)
{
    params_free(&model->params);
    free(model->layers);
    free(model->saved);
    *model = (Model){0};
}

static void bind_rows(Model *model, ParamParts values, Tensor grads)
{
    const ModelSpec *s = &model->spec;
    const ParamTable *table = &model->params;
    int row = linear_bind(table, 0, 1, false, values, grads, &model->embed);
    if (s->learned_positions) {
        row = linear_bind(table, row, 1, false, values, grads, &model->positions);
    }
    for (int l = 0; l < s->layers; l++) {
        row = block_bind(model, l, row, values, grads);
    }
    row = linear_bind(table, row, 1, s->norm == NORM_LAYER, values, grads, &model->final_norm);
    model->head = model->embed;
    if (!s->tied) {
        row = linear_bind(table, row, 1, false, values, grads, &model->head);
    }
    PACER_ASSERT(row == table->count, "%d of %d parameters bound", row, table->count);
}

void model_bind(Model *model, Tensor values, Tensor grads, Tensor rope)
{
    const ParamTable *table = &model->params;
    PACER_ASSERT(values.dtype == model->act && values.dim[0] == table->flat, "%lld values for %lld",
                 (long long)values.dim[0], (long long)table->flat);
    bind_rows(model, params_parts(table, values), grads);
    model->rope = rope;
}

bool model_splits(const Model *model)
{
    return model->act == DT_F32 && model->spec.mixer != MIXER_TTT && !model->params.decay_all;
}

void model_bind_split(Model *model, Tensor matrices, Tensor others, Tensor rope)
{
    const ParamTable *table = &model->params;
    PACER_ASSERT(model_splits(model), "a model with %s layers is not split",
                 model->layers[0].mixer->name);
    PACER_ASSERT(matrices.dtype == DT_BF16 && matrices.dim[0] == table->decayed &&
                     others.dtype == model->act && others.dim[0] == table->flat - table->decayed,
                 "%lld and %lld values for %lld, %lld of them in matrices",
                 (long long)matrices.dim[0], (long long)others.dim[0], (long long)table->flat,
                 (long long)table->decayed);
    bind_rows(model, (ParamParts){matrices, others}, TENSOR_NONE);
    model->rope = rope;
}

Tensor model_rope_shape(const Model *model)
{
    const ModelSpec *s = &model->spec;
    if (s->rope_base <= 0) {
        return TENSOR_NONE;
    }
    int64_t positions = s->mixer == MIXER_TTT ? s->mini : s->context;
    return tensor_2d(NULL, dtype_accumulate(model->act), positions, s->head_dim);
}

void model_fill_rope(const Model *model, Tensor host_rope)
{
    int64_t width = model->spec.head_dim, half = width / 2;
    for (int64_t t = 0; t < host_rope.dim[0]; t++) {
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)t * pow(model->spec.rope_base, -2.0 * (double)i / (double)width);
            if (host_rope.dtype == DT_F64) {
                double *row = (double *)host_rope.data + t * width;
                row[i] = cos(angle);
                row[half + i] = sin(angle);
            } else {
                float *row = (float *)host_rope.data + t * width;
                row[i] = (float)cos(angle);
                row[half + i] = (float)sin(angle);
            }
        }
    }
}

/* Tells of the parameters from `row` on that belong to this layer; they lie in forward order, so
 * the next to be told is the one that is returned. */
static int need_layer(Ctx *c, const Model *model, int row, int layer)
{
    const ParamTable *table = &model->params;
    for (; row < table->count && table->rows[row].layer == layer; row++) {
        if (c->need != NULL && !c->dry) {
            c->need(c->need_user, table->rows[row].offset, table->rows[row].count);
        }
    }
    return row;
}

void model_forward(Ctx *c, Model *model, DeviceBatch batch, Keep keep)
{
    const ModelSpec *s = &model->spec;
    int64_t rows = batch.batch * batch.seq;
    PACER_ASSERT(batch.seq <= s->context, "%lld tokens, context %lld", (long long)batch.seq,
                 (long long)s->context);
    model->batch = batch;
    model->keep = keep;
    model->pass_mark = arena_mark(&c->saved);
    Tensor x = ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width);
    model->h = ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width);
    model->carry = x;
    if (keep == KEEP_INPUTS) {
        model->carry = ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width);
    }
    int row = need_layer(c, model, 0, CTX_NO_LAYER);
    if (model_steps(model)) {
        op_embed_step(c, batch.ids, model->embed.weight.value, model->positions.weight.value,
                      model->decode.position, x);
    } else {
        op_embed_forward(c, batch.ids, model->embed.weight.value, model->positions.weight.value,
                         batch.seq, x);
    }
    for (int l = 0; l < s->layers; l++) {
        c->layer = l;
        row = need_layer(c, model, row, l);
        block_forward(c, model, l, &x, l > 0 ? model->h : TENSOR_NONE, model->h);
    }
    c->layer = CTX_NO_LAYER;
    row = need_layer(c, model, row, CTX_NO_LAYER); /* final norm and head: a tied one is there */
    PACER_ASSERT(row == model->params.count, "%d of %d parameters", row, model->params.count);
    model->rf =
        keep == KEEP_ALL ? ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width) : model->carry;
    model->nf = ctx_save(c, MEM_NORM, model->act, rows, s->width);
    model->statsf = ctx_save(c, MEM_NORM, dtype_accumulate(model->act), rows, 2);
    op_add_norm_forward(c, x, model->h, linear_as_norm(s, &model->final_norm), model->rf, model->nf,
                        model->statsf);
}

static int64_t head_chunk_rows(const Ctx *c, const Model *model, int64_t rows)
{
    int64_t fit =
        (int64_t)c->backend->head_bytes / (model->vocab_rows * (int64_t)dtype_size(model->act));
    fit = fit < HEAD_CHUNK_ROWS ? HEAD_CHUNK_ROWS : fit;
    if (fit >= rows) {
        return rows;
    }
    /* Chunks of about equal size: the last one is not a sliver. */
    int64_t chunks = (rows + fit - 1) / fit, each = (rows + chunks - 1) / chunks;
    return (each + HEAD_CHUNK_ROWS - 1) / HEAD_CHUNK_ROWS * HEAD_CHUNK_ROWS;
}

/* Gradients of the decaying rows of this layer and behind it are complete: they lie in forward
 * order. The head counts as the layer behind the last. */
static void ready_from(Ctx *c, const Model *model, int layer)
{
    if (c->ready != NULL && !c->dry) {
        const ParamTable *table = &model->params;
        int row = layer < model->spec.layers ? params_first_decayed(table, layer) : model->row_head;
        c->ready(c->ready_user, table->rows[row].offset);
    }
}

void model_head(Ctx *c, Model *model, Tensor losses, double scale, bool gradient, Mode mode)
{
    int64_t rows = model->nf.dim[0], chunk = head_chunk_rows(c, model, rows);
    ArenaMark mark = arena_mark(&c->scratch);
    Tensor buffer = ctx_scratch(c, MEM_HEAD, model->act, chunk, model->vocab_rows);
    OpStat before[OP_COUNT];
    for (int64_t first = 0; first < rows; first += chunk) {
        int64_t count = rows - first < chunk ? rows - first : chunk;
        memcpy(before, c->stats, sizeof before);
        Tensor x = tensor_rows(model->nf, first, count), logits = tensor_rows(buffer, 0, count);
        linear_forward(c, &model->head, x, logits);
        op_xent(c, logits, model->spec.vocab, tensor_rows(model->batch.targets, first, count),
                tensor_rows(losses, first, count), scale, gradient);
        if (gradient) {
            linear_backward_weight(c, &model->head, x, logits, first == 0 ? mode : MODE_ADD);
            linear_backward_input(c, &model->head, logits, x);
        }
        /* Between the first chunk and the last one all are alike: a dry run counts them by one. */
        int64_t alike = (rows - 1) / chunk - 2;
        if (c->dry && c->note == NULL && first == chunk && alike > 0) {
            ctx_repeat(c, before, alike);
            first += alike * chunk;
        }
    }
    arena_release(&c->scratch, mark);
    if (gradient && model->row_head >= 0) {
        ready_from(c, model, (int)model->spec.layers);
    }
}

void model_backward(Ctx *c, Model *model, Mode mode)
{
    const ModelSpec *s = &model->spec;
    const Linear *norm = &model->final_norm;
    Tensor dres = model->h;
    op_norm_backward(c, model->nf, model->rf, linear_as_norm(s, norm), model->statsf, dres,
                     MODE_SET, norm->weight.grad, norm->bias.grad, mode);
    for (int l = (int)s->layers - 1; l >= 0; l--) {
        c->layer = l;
        block_backward(c, model, l, dres, mode);
        ready_from(c, model, l);
    }
    c->layer = CTX_NO_LAYER;
    /* A tied table already holds the head's part of its gradient. */
    op_embed_backward(c, model->batch.ids, model->batch.order, dres, model->embed.weight.grad,
                      model->positions.weight.grad, model->batch.seq, s->tied ? MODE_ADD : mode,
                      mode);
}

void model_logits(Ctx *c, Model *model, int64_t first, Tensor logits)
{
    linear_forward(c, &model->head, tensor_rows(model->nf, first, logits.dim[0]), logits);
}

void model_end(Ctx *c, Model *model)
{
    arena_release(&c->saved, model->pass_mark);
}

void model_evaluate(Ctx *c, Model *model, DeviceBatch batch, Tensor losses, Tensor mean)
{
    model_forward(c, model, batch, KEEP_NOTHING);
    model_head(c, model, losses, 0, false, MODE_SET);
    op_sum(c, losses, 1.0 / (double)(batch.batch * batch.seq), mean, MODE_SET);
    model_end(c, model);
}

Tensor model_decode_shape(const Model *model, int64_t sequences)
{
    Tensor shape = model->layers[0].mixer->decode_shape(model, sequences);
    shape.dim[0] *= model->spec.layers;
    return shape;
}

Tensor model_decode_state(const Model *model, int layer)
{
    int64_t rows = model->decode.states.dim[0] / model->spec.layers;
    return tensor_rows(model->decode.states, layer * rows, rows);
}

void model_decode_start(Ctx *c, Model *model, Decode decode)
{
    model->decode = decode;
    for (int l = 0; l < model->spec.layers; l++) {
        const BlockPart *mixer = model->layers[l].mixer;
        if (mixer->decode_start != NULL) {
            mixer->decode_start(c, model, l, model_decode_state(model, l));
        }
    }
}

int64_t model_pass_length(const Backend *backend, int64_t count, int64_t most)
{
    int64_t length = backend->few_shapes ? 16 : count;
    while (length < count) {
        length = (length & (length - 1)) == 0 ? length / 2 * 3 : length / 3 * 4;
    }
    return length < most ? length : most;
}
