#include "model/block.h"

#include "model/linear.h"

#include <math.h>

/* Tensor names of a block in each scheme. */
typedef struct {
    const char *norm1, *norm2, *up, *down;
} BlockNames;

static const BlockNames block_names[] = {
    [NAMES_GPT2] = {"h.%d.ln_1", "h.%d.ln_2", "h.%d.mlp.fc", "h.%d.mlp.proj"},
    [NAMES_LLAMA] = {"model.layers.%d.input_layernorm", "model.layers.%d.post_attention_layernorm",
                     "model.layers.%d.mlp.up_proj", "model.layers.%d.mlp.down_proj"},
    [NAMES_TTT] = {"model.layers.%d.seq_norm", "model.layers.%d.ffn_norm",
                   "model.layers.%d.mlp.up_proj", "model.layers.%d.mlp.down_proj"},
};

void block_declare(const ModelSpec *s, const Mixer *mixer, ParamTable *table, int layer)
{
    const BlockNames *names = &block_names[s->names];
    double down_std = s->scaled_residual ? 0.02 / sqrt(2.0 * (double)s->layers) : 0;
    norm_declare(table, names->norm1, layer, s->norm, s->width);
    mixer->declare(s, table, layer);
    norm_declare(table, names->norm2, layer, s->norm, s->width);
    if (s->ffn_kind == FFN_SWIGLU) {
        Param row = {
            .rank = 2, .dim = {s->ffn, s->width}, .init = INIT_NORMAL, .std = 0.02, .decay = true};
        params_add(table, PARAM_ALIGNED, "model.layers.%d.mlp.gate_proj.weight", layer, row);
        params_add(table, PARAM_JOINED, "model.layers.%d.mlp.up_proj.weight", layer, row);
    } else {
        linear_declare(table, names->up, layer, s->ffn, s->width, 0, s->bias);
    }
    linear_declare(table, names->down, layer, s->width, s->ffn, down_std, s->bias);
}

int block_bind(Model *model, int layer, int row, ParamParts values, Tensor grads)
{
    const ModelSpec *s = &model->spec;
    const ParamTable *table = &model->params;
    Layer *l = &model->layers[layer];
    bool norm_bias = s->norm == NORM_LAYER;
    row = linear_bind(table, row, 1, norm_bias, values, grads, &l->norm1);
    row = model->mixer->bind(model, layer, row, values, grads);
    row = linear_bind(table, row, 1, norm_bias, values, grads, &l->norm2);
    row =
        linear_bind(table, row, s->ffn_kind == FFN_SWIGLU ? 2 : 1, s->bias, values, grads, &l->up);
    return linear_bind(table, row, 1, s->bias, values, grads, &l->down);
}

/* From the norm of the block's input onward; run again by backward when only inputs were kept.
 * r2 is where the stream after the mixer goes; none: pushed and kept. */
static void block_body(Ctx *c, Model *model, int layer, Tensor r2, Tensor h_out)
{
    const ModelSpec *s = &model->spec;
    const Layer *l = &model->layers[layer];
    BlockSaved *saved = &model->saved[layer];
    int64_t rows = saved->r1.dim[0];
    model->mixer->forward(c, model, layer, saved->n1, h_out);

    saved->r2 = tensor_given(r2) ? r2 : ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width);
    saved->n2 = ctx_save(c, MEM_NORM, model->act, rows, s->width);
    saved->stats2 = ctx_save(c, MEM_NORM, dtype_accumulate(model->act), rows, 2);
    op_add_norm_forward(c, saved->r1, h_out, linear_as_norm(s, &l->norm2), saved->r2, saved->n2,
                        saved->stats2);

    bool gated = s->ffn_kind == FFN_SWIGLU;
    saved->up = ctx_save(c, MEM_FFN, model->act, rows, gated ? 2 * s->ffn : s->ffn);
    saved->act = ctx_save(c, MEM_FFN, model->act, rows, s->ffn);
    if (gated) {
        linear_forward(c, &l->up, saved->n2, saved->up);
        op_swiglu_forward(c, saved->up, saved->act);
    } else {
        op_linear_gelu_forward(c, saved->n2, l->up.weight.value, l->up.bias.value, saved->up,
                               saved->act);
    }
    linear_forward(c, &l->down, saved->act, h_out);
}

static void push_first_norm(Ctx *c, Model *model, BlockSaved *saved)
{
    int64_t rows = saved->r1.dim[0];
    saved->n1 = ctx_save(c, MEM_NORM, model->act, rows, model->spec.width);
    saved->stats1 = ctx_save(c, MEM_NORM, dtype_accumulate(model->act), rows, 2);
}

void block_forward(Ctx *c, Model *model, int layer, Tensor *x, Tensor h, Tensor h_out)
{
    const ModelSpec *s = &model->spec;
    BlockSaved *saved = &model->saved[layer];
    Norm norm1 = linear_as_norm(s, &model->layers[layer].norm1);
    Keep keep = model->keep;
    saved->mark = arena_mark(&c->saved);
    saved->r1 = *x;
    if (tensor_given(h) && keep != KEEP_NOTHING) {
        saved->r1 = ctx_save(c, MEM_RESIDUAL, model->act, x->dim[0], s->width);
    }
    ArenaMark inside = arena_mark(&c->saved);
    push_first_norm(c, model, saved);
    if (tensor_given(h)) {
        op_add_norm_forward(c, *x, h, norm1, saved->r1, saved->n1, saved->stats1);
    } else {
        op_norm_forward(c, saved->r1, norm1, saved->n1, saved->stats1);
    }
    block_body(c, model, layer, keep == KEEP_ALL ? TENSOR_NONE : model->carry, h_out);
    *x = saved->r2;
    if (keep != KEEP_ALL) {
        arena_release(&c->saved, inside);
    }
}

/* Runs the block's forward again from its kept input; the branch it makes is thrown away. */
static void block_recompute(Ctx *c, Model *model, int layer)
{
    BlockSaved *saved = &model->saved[layer];
    const ModelSpec *s = &model->spec;
    ArenaMark mark = arena_mark(&c->scratch);
    Tensor branch = ctx_scratch(c, MEM_SCRATCH, model->act, saved->r1.dim[0], s->width);
    push_first_norm(c, model, saved);
    op_norm_forward(c, saved->r1, linear_as_norm(s, &model->layers[layer].norm1), saved->n1,
                    saved->stats1);
    block_body(c, model, layer, TENSOR_NONE, branch);
    arena_release(&c->scratch, mark);
}

void block_backward(Ctx *c, Model *model, int layer, Tensor dres, Mode mode)
{
    const ModelSpec *s = &model->spec;
    const Layer *l = &model->layers[layer];
    BlockSaved *saved = &model->saved[layer];
    if (model->keep == KEEP_INPUTS) {
        block_recompute(c, model, layer);
    }
    /* A weight's gradient is taken before the input's, which may then overwrite the activation. */
    linear_backward_weight(c, &l->down, saved->act, dres, mode);
    Tensor dup = s->ffn_kind == FFN_SWIGLU ? saved->up : saved->act;
    if (s->ffn_kind == FFN_SWIGLU) {
        linear_backward_input(c, &l->down, dres, saved->act);
        op_swiglu_backward(c, saved->act, saved->up, dup);
    } else {
        op_linear_gelu_backward_input(c, dres, l->down.weight.value, saved->up, dup);
    }
    linear_backward_weight(c, &l->up, saved->n2, dup, mode);
    linear_backward_input(c, &l->up, dup, saved->n2);
    op_norm_backward(c, saved->n2, saved->r2, linear_as_norm(s, &l->norm2), saved->stats2, dres,
                     MODE_ADD, l->norm2.weight.grad, l->norm2.bias.grad, mode);

    model->mixer->backward(c, model, layer, dres, saved->n1, mode);
    op_norm_backward(c, saved->n1, saved->r1, linear_as_norm(s, &l->norm1), saved->stats1, dres,
                     MODE_ADD, l->norm1.weight.grad, l->norm1.bias.grad, mode);
    arena_release(&c->saved, saved->mark);
}
