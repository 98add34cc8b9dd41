/* Test-time training in the place of attention: one product makes packed q, k, v and the token
 * rates; the inner model is trained along the sequence and applied to q (op_ttt_forward), with
 * rotary positions inside a mini-batch; a LayerNorm over all heads; one product back to the
 * stream. The matrices of q, k, v and rates are joined in memory, with zero rows behind them
 * that make the packed rows start on good boundaries. */
#include "model/linear.h"

enum { LINEAR_IN, LINEAR_OUT, LINEAR_NORM };
enum { SAVED_PACKED, SAVED_MIXED, SAVED_STATES, SAVED_STATS };
enum {
    INNER_INDEX,
    INNER_RATE_BIAS,
    INNER_GAMMA,
    INNER_BETA,
    INNER_W1,
    INNER_B1,
    INNER_W2,
    INNER_B2
};

#define LAYER_NAME "model.layers.%d.seq_modeling_block."

static void declare_input(Model *model, int layer)
{
    const ModelSpec *s = &model->spec;
    ParamTable *table = &model->params;
    Weight *in = &model->layers[layer].mixing[LINEAR_IN].weight;
    model->layers[layer].mixing[LINEAR_IN].product = true;
    Param row = {.rank = 2,
                 .dim = {s->width, s->width},
                 .init = INIT_NORMAL,
                 .std = INIT_STD,
                 .decay = true,
                 .matrix = true};
    weight_declare(table, in, LAYER_NAME "q_proj.weight", layer, row);
    weight_declare(table, in, LAYER_NAME "k_proj.weight", layer, row);
    weight_declare(table, in, LAYER_NAME "v_proj.weight", layer, row);
    row.matrix = false;
    row.rank = 3;
    row.dim[0] = s->heads;
    row.dim[1] = 1;
    row.dim[2] = s->width;
    row.spare_rows = spec_ttt_shape(s, 1, 1).width - 3 * s->width - s->heads;
    weight_declare(table, in, LAYER_NAME "learnable_ttt_lr_weight", layer, row);
}

/* In the order of INNER_*. */
static void declare_inner(Model *model, int layer)
{
    const ModelSpec *s = &model->spec;
    int64_t h = s->heads, d = s->head_dim;
    TttShape shape = spec_ttt_shape(s, 1, 1);
    int64_t f = ttt_inner(&shape);
    const struct {
        const char *name;
        int rank;
        int64_t dim[3];
        InitRule init;
    } rows[] = {{LAYER_NAME "learnable_token_idx", 1, {s->mini}, INIT_ZERO},
                {LAYER_NAME "learnable_ttt_lr_bias", 2, {h, 1}, INIT_ZERO},
                {LAYER_NAME "ttt_norm_weight", 2, {h, d}, INIT_ONE},
                {LAYER_NAME "ttt_norm_bias", 2, {h, d}, INIT_ZERO},
                {LAYER_NAME "W1", 3, {h, d, f}, INIT_NORMAL},
                {LAYER_NAME "b1", 3, {h, 1, f}, INIT_ZERO},
                {LAYER_NAME "W2", 3, {h, f, d}, INIT_NORMAL},
                {LAYER_NAME "b2", 3, {h, 1, d}, INIT_ZERO}};
    int count = s->ttt == TTT_MLP ? INNER_B2 + 1 : INNER_B1 + 1;
    for (int i = 0; i < count; i++) {
        Param row = {.rank = rows[i].rank, .init = rows[i].init, .std = INIT_STD, .decay = true};
        memcpy(row.dim, rows[i].dim, sizeof row.dim);
        weight_declare(&model->params, &model->layers[layer].inner[i], rows[i].name, layer, row);
    }
}

static void declare(Model *model, int layer)
{
    int64_t width = model->spec.width;
    ParamTable *table = &model->params;
    Linear *linears = model->layers[layer].mixing;
    declare_input(model, layer);
    declare_inner(model, layer);
    norm_declare(table, &linears[LINEAR_NORM], LAYER_NAME "post_norm", layer, NORM_LAYER, width);
    linear_declare(table, &linears[LINEAR_OUT], LAYER_NAME "o_proj", layer, width, width, 0, false);
}

static TttShape shape_of(const Model *model)
{
    return spec_ttt_shape(&model->spec, model->batch.batch, model->batch.seq);
}

#define INNER(l, part)                                           \
    ((TttWeights){.index = (l)->inner[INNER_INDEX].part,         \
                  .rate_bias = (l)->inner[INNER_RATE_BIAS].part, \
                  .gamma = (l)->inner[INNER_GAMMA].part,         \
                  .beta = (l)->inner[INNER_BETA].part,           \
                  .w1 = (l)->inner[INNER_W1].part,               \
                  .b1 = (l)->inner[INNER_B1].part,               \
                  .w2 = (l)->inner[INNER_W2].part,               \
                  .b2 = (l)->inner[INNER_B2].part})

static Norm post_norm(const Model *model, const Layer *l)
{
    const Linear *norm = &l->mixing[LINEAR_NORM];
    return (Norm){NORM_LAYER, model->spec.norm_eps, norm->weight.value, norm->bias.value};
}

/* The inner model along the sequences: packed, mixed and states. */
static void train_inner(Ctx *c, Model *model, int layer, Operand x)
{
    const Layer *l = &model->layers[layer];
    Tensor *saved = model->saved[layer].mixer;
    TttShape shape = shape_of(model);
    TttWeights weights = INNER(l, value);
    int64_t rows = model->batch.batch * model->batch.seq, width = model->spec.width;
    Keep from = KEEP_NO_MIXERS;
    bool read = model->keep != KEEP_NOTHING && (model->again || !model_remakes(model, from));
    Tensor states = read ? op_ttt_states_shape(c, &shape, model->act) : TENSOR_NONE;
    saved[SAVED_PACKED] =
        part_room(c, model, from, MEM_MIXER, tensor_2d(NULL, model->act, rows, shape.width));
    saved[SAVED_MIXED] =
        part_room(c, model, from, MEM_MIXER, tensor_2d(NULL, model->act, rows, width));
    saved[SAVED_STATES] =
        tensor_given(states) ? part_room(c, model, from, MEM_ATTENTION, states) : TENSOR_NONE;
    linear_forward(c, &l->mixing[LINEAR_IN], x, saved[SAVED_PACKED]);
    if (model_steps(model)) {
        op_ttt_step(c, saved[SAVED_PACKED], &shape, &weights, model->rope, model->decode.position,
                    model_decode_state(model, layer), saved[SAVED_MIXED]);
    } else {
        op_ttt_forward(c, saved[SAVED_PACKED], &shape, &weights, model->rope, saved[SAVED_MIXED],
                       saved[SAVED_STATES]);
    }
}

static void norm_inner(Ctx *c, Model *model, int layer, bool product)
{
    const Layer *l = &model->layers[layer];
    const Tensor *saved = model->saved[layer].mixer;
    Operand *normed = &model->saved[layer].mixed;
    *normed = linear_input(c, model, &l->mixing[LINEAR_OUT], KEEP_NO_NORMS, MEM_MIXER,
                           saved[SAVED_MIXED].dim[0], product);
    norm_operand(c, post_norm(model, l), saved[SAVED_MIXED], TENSOR_NONE, TENSOR_NONE, *normed,
                 saved[SAVED_STATS]);
}

static void inside(Ctx *c, Model *model, int layer, Operand x)
{
    bool whole = !model->again || model_remakes(model, KEEP_INPUTS);
    int64_t rows = model->batch.batch * model->batch.seq;
    if (whole) {
        model->saved[layer].mixer[SAVED_STATS] =
            part_room(c, model, KEEP_INPUTS, MEM_NORM,
                      tensor_2d(NULL, dtype_accumulate(model->act), rows, 2));
    }
    if (whole || model_remakes(model, KEEP_NO_MIXERS)) {
        train_inner(c, model, layer, x);
    }
    if (whole || model_remakes(model, KEEP_NO_NORMS)) {
        norm_inner(c, model, layer, whole);
    }
}

static void last(Ctx *c, Model *model, int layer, Tensor out)
{
    linear_forward(c, &model->layers[layer].mixing[LINEAR_OUT], model->saved[layer].mixed, out);
}

static void backward(Ctx *c, Model *model, int layer, Tensor dout, Operand x, Tensor dx, Mode mode)
{
    const Layer *l = &model->layers[layer];
    const Tensor *saved = model->saved[layer].mixer;
    const Linear *norm = &l->mixing[LINEAR_NORM];
    TttShape shape = shape_of(model);
    TttWeights weights = INNER(l, value), grads = INNER(l, grad);
    ArenaMark mark = arena_mark(&c->scratch);
    Tensor dmixed = ctx_scratch(c, MEM_SCRATCH, model->act, dout.dim[0], model->spec.width);
    Tensor dpacked = ctx_scratch(c, MEM_SCRATCH, model->act, dout.dim[0], shape.width);
    linear_backward(c, &l->mixing[LINEAR_OUT], model->saved[layer].mixed, dout, dmixed, mode);
    op_norm_backward(c, dmixed, saved[SAVED_MIXED], post_norm(model, l), saved[SAVED_STATS], dmixed,
                     MODE_SET, norm->weight.grad, norm->bias.grad, mode);
    op_ttt_backward(c, dmixed, saved[SAVED_PACKED], &shape, &weights, model->rope,
                    saved[SAVED_STATES], dpacked, &grads, mode);
    linear_backward(c, &l->mixing[LINEAR_IN], x, dpacked, dx, mode);
    arena_release(&c->scratch, mark);
}

static Tensor decode_shape(const Model *model, int64_t sequences)
{
    TttShape shape = spec_ttt_shape(&model->spec, sequences, 1);
    return tensor_2d(NULL, dtype_accumulate(model->act), sequences * shape.heads,
                     2 * ttt_state(&shape));
}

static void decode_start(Ctx *c, Model *model, int layer, Tensor state)
{
    const Layer *l = &model->layers[layer];
    TttShape shape = spec_ttt_shape(&model->spec, model->decode.sequences, 1);
    TttWeights weights = INNER(l, value);
    op_ttt_start(c, &shape, &weights, state);
}

const BlockPart part_ttt = {.declare = declare,
                            .inside = inside,
                            .last = last,
                            .backward = backward,
                            .decode_shape = decode_shape,
                            .decode_start = decode_start};
