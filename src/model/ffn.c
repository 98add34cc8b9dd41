/* The feed-forward. Plain: one product, an activation, one product back. Gated: the first product
 * makes a gate and a value side by side (N,2F), of which act(gate) * value goes on; its two
 * matrices are joined in memory. */
#include "model/linear.h"

static const struct {
    Activation act;
    bool gated;
} kinds[] = {[FFN_GELU] = {ACT_GELU, false},
             [FFN_SWIGLU] = {ACT_SILU, true},
             [FFN_GEGLU] = {ACT_GELU, true},
             [FFN_RELU2] = {ACT_RELU2, false}};

static void declare(Model *model, int layer)
{
    const ModelSpec *s = &model->spec;
    const TensorNames *names = tensor_names(s);
    ParamTable *table = &model->params;
    Layer *l = &model->layers[layer];
    bool gated = kinds[s->ffn_kind].gated;
    if (gated) {
        linear_declare(table, &l->up, names->gate, layer, s->ffn, s->width, 0, false);
    }
    linear_declare(table, &l->up, names->up, layer, s->ffn, s->width, 0, s->bias && !gated);
    linear_declare(table, &l->down, names->down, layer, s->width, s->ffn, spec_out_std(s), s->bias);
}

static void forward(Ctx *c, Model *model, int layer, Tensor x, Tensor out)
{
    const Layer *l = &model->layers[layer];
    BlockSaved *saved = &model->saved[layer];
    int64_t rows = x.dim[0], width = model->spec.ffn;
    Activation act = kinds[model->spec.ffn_kind].act;
    bool gated = kinds[model->spec.ffn_kind].gated;
    saved->up = ctx_save(c, MEM_FFN, model->act, rows, gated ? 2 * width : width);
    saved->act = ctx_save(c, MEM_FFN, model->act, rows, width);
    if (gated) {
        linear_forward(c, &l->up, x, saved->up);
        op_gated_forward(c, act, saved->up, saved->act);
    } else if (act == ACT_GELU) {
        op_linear_gelu_forward(c, x, l->up.weight.value, l->up.bias.value, saved->up, saved->act);
    } else {
        linear_forward(c, &l->up, x, saved->up);
        op_act_forward(c, act, saved->up, saved->act);
    }
    linear_forward(c, &l->down, saved->act, out);
}

/* A weight's gradient is taken before the input's, which may then overwrite the activation. */
static void backward(Ctx *c, Model *model, int layer, Tensor dout, Tensor x, Mode mode)
{
    const Layer *l = &model->layers[layer];
    const BlockSaved *saved = &model->saved[layer];
    Activation act = kinds[model->spec.ffn_kind].act;
    Tensor dup = saved->act;
    linear_backward_weight(c, &l->down, saved->act, dout, mode);
    if (kinds[model->spec.ffn_kind].gated) {
        dup = saved->up;
        linear_backward_input(c, &l->down, dout, saved->act);
        op_gated_backward(c, act, saved->act, saved->up, dup);
    } else if (act == ACT_GELU) {
        op_linear_gelu_backward_input(c, dout, l->down.weight.value, saved->up, dup);
    } else {
        linear_backward_input(c, &l->down, dout, dup);
        op_act_backward(c, act, dup, saved->up, dup);
    }
    linear_backward_weight(c, &l->up, x, dup, mode);
    linear_backward_input(c, &l->up, dup, x);
}

const BlockPart part_ffn = {.declare = declare, .forward = forward, .backward = backward};
