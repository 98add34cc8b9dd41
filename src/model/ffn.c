/* Feed-forward parts. Plain: one product, an activation, one product back. Gated: the first product
 * makes a gate and a value side by side (N,2F), of which act(gate) * value goes on; its two
 * matrices are joined in memory. */
#include "model/linear.h"

#include <math.h>

static const BlockPart part_plain, part_gated;

static const struct {
    const BlockPart *part;
    Activation act;
} kinds[] = {[FFN_GELU] = {&part_plain, ACT_GELU},
             [FFN_SWIGLU] = {&part_gated, ACT_SILU},
             [FFN_GEGLU] = {&part_gated, ACT_GELU},
             [FFN_RELU2] = {&part_plain, ACT_RELU2}};

const BlockPart *ffn_part(FfnKind kind)
{
    return kinds[kind].part;
}

static void declare_down(const ModelSpec *s, ParamTable *table, int layer)
{
    double std = s->scaled_residual ? 0.02 / sqrt(2.0 * (double)s->layers) : 0;
    linear_declare(table, tensor_names(s)->down, layer, s->width, s->ffn, std, s->bias);
}

/* --- plain --- */

static void plain_declare(const ModelSpec *s, ParamTable *table, int layer)
{
    linear_declare(table, tensor_names(s)->up, layer, s->ffn, s->width, 0, s->bias);
    declare_down(s, table, layer);
}

static int plain_bind(Model *model, int layer, int row, ParamParts values, Tensor grads)
{
    Layer *l = &model->layers[layer];
    row = linear_bind(&model->params, row, 1, model->spec.bias, values, grads, &l->up);
    return linear_bind(&model->params, row, 1, model->spec.bias, values, grads, &l->down);
}

static void push(Ctx *c, Model *model, int layer, int64_t rows, int64_t up_width)
{
    BlockSaved *saved = &model->saved[layer];
    saved->up = ctx_save(c, MEM_FFN, model->act, rows, up_width);
    saved->act = ctx_save(c, MEM_FFN, model->act, rows, model->spec.ffn);
}

static void plain_forward(Ctx *c, Model *model, int layer, Tensor x, Tensor out)
{
    const Layer *l = &model->layers[layer];
    const BlockSaved *saved = &model->saved[layer];
    Activation act = kinds[model->spec.ffn_kind].act;
    push(c, model, layer, x.dim[0], model->spec.ffn);
    if (act == ACT_GELU) {
        op_linear_gelu_forward(c, x, l->up.weight.value, l->up.bias.value, saved->up, saved->act);
    } else {
        linear_forward(c, &l->up, x, saved->up);
        op_act_forward(c, act, saved->up, saved->act);
    }
    linear_forward(c, &l->down, saved->act, out);
}

/* A weight's gradient is taken before the input's, which may then overwrite the activation. */
static void plain_backward(Ctx *c, Model *model, int layer, Tensor dout, Tensor x, Mode mode)
{
    const Layer *l = &model->layers[layer];
    const BlockSaved *saved = &model->saved[layer];
    Activation act = kinds[model->spec.ffn_kind].act;
    linear_backward_weight(c, &l->down, saved->act, dout, mode);
    if (act == ACT_GELU) {
        op_linear_gelu_backward_input(c, dout, l->down.weight.value, saved->up, saved->act);
    } else {
        linear_backward_input(c, &l->down, dout, saved->act);
        op_act_backward(c, act, saved->act, saved->up, saved->act);
    }
    linear_backward_weight(c, &l->up, x, saved->act, mode);
    linear_backward_input(c, &l->up, saved->act, x);
}

/* --- gated --- */

static void gated_declare(const ModelSpec *s, ParamTable *table, int layer)
{
    linear_declare(table, tensor_names(s)->gate, layer, s->ffn, s->width, 0, false);
    linear_declare_joined(table, tensor_names(s)->up, layer, s->ffn, s->width);
    declare_down(s, table, layer);
}

static int gated_bind(Model *model, int layer, int row, ParamParts values, Tensor grads)
{
    Layer *l = &model->layers[layer];
    row = linear_bind(&model->params, row, 2, false, values, grads, &l->up);
    return linear_bind(&model->params, row, 1, model->spec.bias, values, grads, &l->down);
}

static void gated_forward(Ctx *c, Model *model, int layer, Tensor x, Tensor out)
{
    const Layer *l = &model->layers[layer];
    const BlockSaved *saved = &model->saved[layer];
    push(c, model, layer, x.dim[0], 2 * model->spec.ffn);
    linear_forward(c, &l->up, x, saved->up);
    op_gated_forward(c, kinds[model->spec.ffn_kind].act, saved->up, saved->act);
    linear_forward(c, &l->down, saved->act, out);
}

static void gated_backward(Ctx *c, Model *model, int layer, Tensor dout, Tensor x, Mode mode)
{
    const Layer *l = &model->layers[layer];
    const BlockSaved *saved = &model->saved[layer];
    linear_backward_weight(c, &l->down, saved->act, dout, mode);
    linear_backward_input(c, &l->down, dout, saved->act);
    op_gated_backward(c, kinds[model->spec.ffn_kind].act, saved->act, saved->up, saved->up);
    linear_backward_weight(c, &l->up, x, saved->up, mode);
    linear_backward_input(c, &l->up, saved->up, x);
}

static const BlockPart part_plain = {.name = "plain feed-forward",
                                     .declare = plain_declare,
                                     .bind = plain_bind,
                                     .forward = plain_forward,
                                     .backward = plain_backward};

static const BlockPart part_gated = {.name = "gated feed-forward",
                                     .declare = gated_declare,
                                     .bind = gated_bind,
                                     .forward = gated_forward,
                                     .backward = gated_backward};
