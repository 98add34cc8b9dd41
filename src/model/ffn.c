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

/* What lies between the products: up and act. */
static void inside(Ctx *c, Model *model, int layer, Operand x)
{
    const Layer *l = &model->layers[layer];
    BlockSaved *saved = &model->saved[layer];
    int64_t rows = model->batch.batch * model->batch.seq, width = model->spec.ffn;
    Activation act = kinds[model->spec.ffn_kind].act;
    bool gated = kinds[model->spec.ffn_kind].gated;
    bool from_input = !model->again || model_remakes(model, KEEP_NO_FFN);
    bool product = !model->again || (model_remakes(model, KEEP_INPUTS) && model->spec.post_norm);
    if (model->again && !model_remakes(model, KEEP_NO_ACTS)) {
        return;
    }
    if (from_input) {
        saved->up = part_room(c, model, KEEP_NO_FFN, MEM_FFN,
                              tensor_2d(NULL, model->act, rows, gated ? 2 * width : width));
    }
    saved->act = linear_input(c, model, &l->down, KEEP_NO_ACTS, MEM_FFN, rows, product);
    Tensor plain = saved->act.plain;
    if (from_input && act == ACT_GELU && !gated && tensor_given(plain) &&
        !linear_is_quantised(&l->up)) {
        op_linear_gelu_forward(c, x.plain, l->up.weight.value, l->up.bias.value, saved->up, plain);
        return;
    }
    if (from_input) {
        linear_forward(c, &l->up, x, saved->up);
    }
    if (!tensor_given(plain)) {
        op_quant_act(c, act, gated, saved->up, saved->act.codes);
    } else if (gated) {
        op_gated_forward(c, act, saved->up, plain);
    } else {
        op_act_forward(c, act, saved->up, plain);
    }
}

static void last(Ctx *c, Model *model, int layer, Tensor out)
{
    linear_forward(c, &model->layers[layer].down, model->saved[layer].act, out);
}

/* A weight's gradient is taken before the input's, which may then overwrite the activation. */
static void backward(Ctx *c, Model *model, int layer, Tensor dout, Operand x, Tensor dx, Mode mode)
{
    const Layer *l = &model->layers[layer];
    const BlockSaved *saved = &model->saved[layer];
    Activation act = kinds[model->spec.ffn_kind].act;
    bool gated = kinds[model->spec.ffn_kind].gated;
    bool down_coded = linear_is_quantised(&l->down), up_coded = linear_is_quantised(&l->up);
    ArenaMark mark = arena_mark(&c->scratch);
    Tensor dact = saved->act.plain; /* and, without a gate, what becomes of it before the act */
    if (down_coded) {
        dact = ctx_scratch(c, MEM_SCRATCH, model->act, dout.dim[0], model->spec.ffn);
    }
    if (act == ACT_GELU && !gated && !down_coded && !up_coded) {
        op_linear_backward_weight(c, dact, dout, l->down.weight.grad, l->down.bias.grad, mode);
        op_linear_gelu_backward_input(c, dout, l->down.weight.value, saved->up, dact);
        linear_backward(c, &l->up, x, dact, dx, mode);
    } else {
        linear_backward(c, &l->down, saved->act, dout, dact, mode);
        if (up_coded) {
            Quant dup = linear_slope(c, &l->up, dout.dim[0]);
            op_quant_act_backward(c, act, gated, dact, saved->up, dup, l->up.bias.grad, mode);
            linear_backward_codes(c, &l->up, x, dup, dx, mode);
        } else if (gated) {
            op_gated_backward(c, act, dact, saved->up, saved->up);
            linear_backward(c, &l->up, x, saved->up, dx, mode);
        } else {
            op_act_backward(c, act, dact, saved->up, dact);
            linear_backward(c, &l->up, x, dact, dx, mode);
        }
    }
    arena_release(&c->scratch, mark);
}

const BlockPart part_ffn = {
    .declare = declare, .inside = inside, .last = last, .backward = backward};
