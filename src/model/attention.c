/* Causal self-attention: one product makes packed q, k, v; heads of q and k may go through a norm;
 * rotary positions turn q and k in place; attention; one product back to the stream. Token by
 * token, keys and values of earlier tokens come from a cache. GPT-2 stores q, k, v as one matrix;
 * Llama stores three, joined in memory, so that both run the same code.
 *
 * With a norm the product's result is what backward needs and is kept; what attention reads is made
 * in scratch, and once more by backward. */
#include "model/linear.h"

enum { LINEAR_QKV, LINEAR_OUT, LINEAR_Q_NORM, LINEAR_K_NORM };
enum { SAVED_QKV, SAVED_OUT, SAVED_AUX };

static void declare(Model *model, int layer)
{
    const ModelSpec *s = &model->spec;
    ParamTable *table = &model->params;
    Linear *linears = model->layers[layer].mixing, *qkv = &linears[LINEAR_QKV];
    int64_t inner = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const TensorNames *names = tensor_names(s);
    if (names->qkv != NULL) {
        linear_declare(table, qkv, names->qkv, layer, inner + 2 * kv, s->width, 0,
                       s->bias || s->qkv_bias);
        table->rows[qkv->weight.first].second = inner;
        table->rows[qkv->weight.first].third = inner + kv;
    } else {
        linear_declare(table, qkv, names->q, layer, inner, s->width, 0, false);
        linear_declare(table, qkv, names->k, layer, kv, s->width, 0, false);
        linear_declare(table, qkv, names->v, layer, kv, s->width, 0, false);
        if (s->bias || s->qkv_bias) {
            linear_declare_bias(table, qkv, names->q, layer, inner);
            linear_declare_bias(table, qkv, names->k, layer, kv);
            linear_declare_bias(table, qkv, names->v, layer, kv);
        }
    }
    if (s->qk_norm) {
        norm_declare(table, &linears[LINEAR_Q_NORM], names->q_norm, layer, NORM_RMS, s->head_dim);
        norm_declare(table, &linears[LINEAR_K_NORM], names->k_norm, layer, NORM_RMS, s->head_dim);
    }
    linear_declare(table, &linears[LINEAR_OUT], names->out, layer, s->width, inner, spec_out_std(s),
                   s->bias);
}

static HeadShape shape_of(const Model *model, int layer)
{
    const DeviceBatch *batch = &model->batch;
    HeadShape shape = spec_head_shape(&model->spec, layer, batch->batch, batch->seq);
    shape.starts = batch->starts;
    return shape;
}

static HeadNorm head_norm(const Model *model, int layer)
{
    const Linear *linears = model->layers[layer].mixing;
    return (HeadNorm){model->spec.norm_eps, linears[LINEAR_Q_NORM].weight.value,
                      linears[LINEAR_K_NORM].weight.value};
}

/* The heads with their norms: qkv itself where there are none or nothing is kept, else scratch. */
static Tensor norm_heads(Ctx *c, const Model *model, int layer, HeadShape shape, Tensor qkv)
{
    if (!model->spec.qk_norm) {
        return qkv;
    }
    Tensor out = model->keep == KEEP_NOTHING
                     ? qkv
                     : ctx_scratch(c, MEM_SCRATCH, model->act, qkv.dim[0], qkv.dim[1]);
    op_head_norm_forward(c, qkv, shape, head_norm(model, layer), out);
    return out;
}

static void turn(Ctx *c, const Model *model, int layer, HeadShape shape, Tensor qkv, bool inverse)
{
    if (tensor_given(model->rope)) {
        op_rope(c, qkv, shape, model_rope(model, layer), inverse);
    }
}

/* Whether attention turns heads on its way; shape then says by what. Not where keys are kept. */
static bool inside_attention(const Ctx *c, const Model *model, int layer, HeadShape *shape)
{
    if (!tensor_given(model->rope) || model->decode.filling ||
        !op_attention_turns(c, *shape, model->act)) {
        return false;
    }
    shape->turns = model_rope(model, layer);
    return true;
}

/* The keys and values of a pass, for the sequences that are to go on from it. */
static void fill_state(Ctx *c, const Model *model, int layer, Tensor qkv)
{
    const Decode *decode = &model->decode;
    if (decode->filling) {
        Tensor state = model_decode_state(model, layer);
        op_attention_fill(c, qkv, shape_of(model, layer),
                          tensor_rows(state, decode->fill_first, decode->fill_count));
    }
}

static void inside(Ctx *c, Model *model, int layer, Operand x)
{
    const ModelSpec *s = &model->spec;
    const Linear *linears = model->layers[layer].mixing;
    Tensor *saved = model->saved[layer].mixer;
    HeadShape shape = shape_of(model, layer);
    int64_t rows = shape.batch * shape.seq;
    Keep from = KEEP_NO_MIXERS;
    if (model->again && !model_remakes(model, from)) {
        return;
    }
    Tensor qkv = part_room(c, model, from, MEM_MIXER,
                           tensor_2d(NULL, model->act, rows, packed_width(shape)));
    Tensor mixed = part_room(c, model, from, MEM_MIXER,
                             tensor_2d(NULL, model->act, rows, s->heads * s->head_dim));
    Tensor aux = TENSOR_NONE;
    if (!model_steps(model)) {
        aux =
            part_room(c, model, from, MEM_ATTENTION, op_attention_aux_shape(c, shape, model->act));
    }
    linear_forward(c, &linears[LINEAR_QKV], x, qkv);
    ArenaMark mark = arena_mark(&c->scratch);
    Tensor heads = norm_heads(c, model, layer, shape, qkv);
    if (model_steps(model)) {
        op_attention_step(c, heads, shape, model_rope(model, layer), model->decode.position,
                          model_decode_state(model, layer), mixed);
    } else {
        if (!inside_attention(c, model, layer, &shape)) {
            turn(c, model, layer, shape, heads, false);
        }
        fill_state(c, model, layer, heads);
        op_attention_forward(c, heads, shape, mixed, aux);
    }
    arena_release(&c->scratch, mark);
    model->saved[layer].mixed =
        linear_operand(c, model, &linears[LINEAR_OUT], from, MEM_MIXER, mixed,
                       !model->again || model_remakes(model, KEEP_INPUTS));
    saved[SAVED_QKV] = qkv;
    saved[SAVED_OUT] = mixed;
    saved[SAVED_AUX] = aux;
}

static void last(Ctx *c, Model *model, int layer, Tensor out)
{
    linear_forward(c, &model->layers[layer].mixing[LINEAR_OUT], model->saved[layer].mixed, out);
}

static void backward(Ctx *c, Model *model, int layer, Tensor dout, Operand x, Tensor dx, Mode mode)
{
    const Linear *linears = model->layers[layer].mixing;
    const Tensor *saved = model->saved[layer].mixer;
    Tensor qkv = saved[SAVED_QKV], mixed = saved[SAVED_OUT];
    HeadShape shape = shape_of(model, layer);
    ArenaMark mark = arena_mark(&c->scratch);
    Tensor dmixed = ctx_scratch(c, MEM_SCRATCH, model->act, mixed.dim[0], mixed.dim[1]);
    Tensor dqkv = ctx_scratch(c, MEM_SCRATCH, model->act, qkv.dim[0], qkv.dim[1]);
    linear_backward(c, &linears[LINEAR_OUT], model->saved[layer].mixed, dout, dmixed, mode);
    Tensor heads = norm_heads(c, model, layer, shape, qkv);
    bool turned = inside_attention(c, model, layer, &shape);
    if (model->spec.qk_norm && !turned) {
        turn(c, model, layer, shape, heads, false);
    }
    op_attention_backward(c, dmixed, heads, mixed, saved[SAVED_AUX], shape, dqkv);
    if (!turned) {
        turn(c, model, layer, shape, dqkv, true);
    }
    if (model->spec.qk_norm) {
        op_head_norm_backward(c, dqkv, qkv, shape, head_norm(model, layer), dqkv,
                              linears[LINEAR_Q_NORM].weight.grad,
                              linears[LINEAR_K_NORM].weight.grad, mode);
    }
    linear_backward(c, &linears[LINEAR_QKV], x, dqkv, dx, mode);
    arena_release(&c->scratch, mark);
}

/* The cache of op_attention_step; what lies behind a sequence's tokens in it is never read. */
static Tensor decode_shape(const Model *model, int64_t sequences)
{
    const ModelSpec *s = &model->spec;
    return (Tensor){.dtype = model->act,
                    .rank = 3,
                    .dim = {sequences, 2 * s->kv_heads * s->context, s->head_dim}};
}

const BlockPart part_attention = {.declare = declare,
                                  .inside = inside,
                                  .last = last,
                                  .backward = backward,
                                  .decode_shape = decode_shape,
                                  .keeps_tokens = true};
