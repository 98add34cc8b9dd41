#include "model/block.h"

#include "model/linear.h"

void block_declare(Model *model, int layer)
{
    const ModelSpec *s = &model->spec;
    const Layer *l = &model->layers[layer];
    ParamTable *table = &model->params;
    norm_declare(table, tensor_names(s)->norm1, layer, s->norm, s->width);
    l->mixer->declare(s, table, layer);
    norm_declare(table, tensor_names(s)->norm2, layer, s->norm, s->width);
    l->ffn->declare(s, table, layer);
}

int block_bind(Model *model, int layer, int row, ParamParts values, Tensor grads)
{
    const ParamTable *table = &model->params;
    Layer *l = &model->layers[layer];
    bool norm_bias = model->spec.norm == NORM_LAYER;
    row = linear_bind(table, row, 1, norm_bias, values, grads, &l->norm1);
    row = l->mixer->bind(model, layer, row, values, grads);
    row = linear_bind(table, row, 1, norm_bias, values, grads, &l->norm2);
    return l->ffn->bind(model, layer, row, values, grads);
}

/* From the norm of the block's input onward; run again by backward when only inputs were kept.
 * r2 is where the stream after the mixer goes; none: pushed and kept. */
static void block_body(Ctx *c, Model *model, int layer, Tensor r2, Tensor h_out)
{
    const ModelSpec *s = &model->spec;
    const Layer *l = &model->layers[layer];
    BlockSaved *saved = &model->saved[layer];
    int64_t rows = saved->r1.dim[0];
    l->mixer->forward(c, model, layer, saved->n1, h_out);

    saved->r2 = tensor_given(r2) ? r2 : ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width);
    saved->n2 = ctx_save(c, MEM_NORM, model->act, rows, s->width);
    saved->stats2 = ctx_save(c, MEM_NORM, dtype_accumulate(model->act), rows, 2);
    op_add_norm_forward(c, saved->r1, h_out, linear_as_norm(s, &l->norm2), saved->r2, saved->n2,
                        saved->stats2);

    l->ffn->forward(c, model, layer, saved->n2, h_out);
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
    l->ffn->backward(c, model, layer, dres, saved->n2, mode);
    op_norm_backward(c, saved->n2, saved->r2, linear_as_norm(s, &l->norm2), saved->stats2, dres,
                     MODE_ADD, l->norm2.weight.grad, l->norm2.bias.grad, mode);

    l->mixer->backward(c, model, layer, dres, saved->n1, mode);
    op_norm_backward(c, saved->n1, saved->r1, linear_as_norm(s, &l->norm1), saved->stats1, dres,
                     MODE_ADD, l->norm1.weight.grad, l->norm1.bias.grad, mode);
    arena_release(&c->saved, saved->mark);
}
