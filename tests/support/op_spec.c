#include "support/op_spec.h"

#include "base/assert.h"

#define NORM_EPS 1e-5
#define LOSS_SCALE 0.37
#define SCALE_BY 1.7
#define TTT_DRAWS 4 /* gradients of single numbers are sums in which errors cancel by luck */

/* Arguments that come in two forms (aux of attention, results of cast): the one that this case
 * has. */
static Tensor either(Tensor a, Tensor b)
{
    return tensor_given(a) ? a : b;
}

static HeadShape heads_with(const OpCase *k, Tensor starts)
{
    HeadShape shape = k->heads;
    shape.starts = starts;
    return shape;
}

static Norm norm_of(const OpCase *k, Tensor weight, Tensor bias)
{
    return (Norm){.kind = k->norm, .eps = NORM_EPS, .weight = weight, .bias = bias};
}

static void call_embed_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_embed_forward(c, t[0], t[1], t[2], t[3], k->seq, t[4]);
}

static void call_embed_backward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_embed_backward(c, t[0], t[1], t[2], t[3], t[4], t[5], k->seq, k->mode, k->mode2);
}

static void call_linear_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    (void)k;
    op_linear_forward(c, t[0], t[1], t[2], t[3]);
}

static void call_linear_backward_input(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_linear_backward_input(c, t[0], t[1], t[2], k->mode);
}

static void call_linear_backward_weight(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_linear_backward_weight(c, t[0], t[1], t[2], t[3], k->mode);
}

static void call_linear_gelu_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    (void)k;
    op_linear_gelu_forward(c, t[0], t[1], t[2], t[3], t[4]);
}

static void call_linear_gelu_backward_input(const OpCase *k, Ctx *c, const Tensor *t)
{
    (void)k;
    op_linear_gelu_backward_input(c, t[0], t[1], t[2], t[3]);
}

static void call_add(const OpCase *k, Ctx *c, const Tensor *t)
{
    (void)k;
    op_add(c, t[0], t[1], t[2]);
}

static void call_scale(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_scale(c, t[0], SCALE_BY, k->cap, t[1]);
}

static void call_norm_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_norm_forward(c, t[0], norm_of(k, t[1], t[2]), t[3], t[4]);
}

static void call_add_norm_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_add_norm_forward(c, t[0], t[1], norm_of(k, t[2], t[3]), t[4], t[5], t[6]);
}

static void call_norm_backward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_norm_backward(c, t[0], t[1], norm_of(k, t[2], t[3]), t[4], t[5], k->mode2, t[6], t[7],
                     k->mode);
}

/* stats of x; the norm's output goes to scratch. */
static void derive_norm_backward(const OpCase *k, Ctx *c, const Tensor *t)
{
    Tensor y = ctx_scratch(c, MEM_SCRATCH, t[1].dtype, k->rows, k->width);
    op_norm_forward(c, t[1], norm_of(k, t[2], t[3]), y, t[4]);
}

static void call_norm_pieces(const OpCase *k, Ctx *c, const Tensor *t)
{
    (void)k;
    op_norm_pieces(c, t[0], t[1], t[2], t[3]);
}

static void call_head_norm_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_head_norm_forward(c, t[0], k->heads, (HeadNorm){NORM_EPS, t[1], t[2]}, t[3]);
}

static void call_head_norm_backward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_head_norm_backward(c, t[0], t[1], k->heads, (HeadNorm){NORM_EPS, t[2], t[3]}, t[4], t[5],
                          t[6], k->mode);
}

static void call_rope(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_rope(c, t[0], heads_with(k, t[2]), t[1], k->flag);
}

static void call_attention_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_attention_forward(c, t[0], heads_with(k, t[4]), t[1], either(t[2], t[3]));
}

static void call_attention_backward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_attention_backward(c, t[0], t[1], t[2], either(t[3], t[4]), heads_with(k, t[6]), t[5]);
}

static void derive_attention_backward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_attention_forward(c, t[1], heads_with(k, t[6]), t[2], either(t[3], t[4]));
}

static void call_gated_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_gated_forward(c, k->act, t[0], t[1]);
}

static void call_gated_backward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_gated_backward(c, k->act, t[0], t[1], t[2]);
}

static void call_act_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_act_forward(c, k->act, t[0], t[1]);
}

static void call_act_backward(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_act_backward(c, k->act, t[0], t[1], t[2]);
}

static void call_xent(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_xent(c, t[0], op_case_classes(k), k->cap, t[1], t[2], LOSS_SCALE, k->option);
}

static void call_sum(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_sum(c, t[0], LOSS_SCALE, t[1], k->mode);
}

static void call_sum_squares(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_sum_squares(c, t[0], t[1], k->mode);
}

/* Of which some do not count. */
#define UPDATE_TOKENS 24.0
/* Numbers of elements, which random bits are of: beyond 32 bits after the first three. */
#define UPDATE_INDEX (((int64_t)1 << 32) - 3)

static void call_adamw(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_adamw(c, (UpdateArgs){.param = t[0],
                             .low = t[1],
                             .grad = t[2],
                             .state = {t[3], t[4]},
                             .hyper = t[5],
                             .norm_sq = t[6],
                             .left_out = t[7],
                             .index = UPDATE_INDEX,
                             .tokens = UPDATE_TOKENS,
                             .decay = k->flag});
}

static void call_sgd(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_sgd(c, (UpdateArgs){.param = t[0],
                           .low = t[1],
                           .grad = t[2],
                           .state = {t[3]},
                           .hyper = t[4],
                           .norm_sq = t[5],
                           .left_out = t[6],
                           .index = UPDATE_INDEX,
                           .tokens = UPDATE_TOKENS,
                           .decay = k->flag});
}

static void call_cast(const OpCase *k, Ctx *c, const Tensor *t)
{
    (void)k;
    op_cast(c, t[0], either(t[1], t[2]));
}

static void call_checksum(const OpCase *k, Ctx *c, const Tensor *t)
{
    (void)k;
    op_checksum(c, t[0], t[1]);
}

/* index, rate_bias, gamma, beta, w1, b1, w2, b2 from t on; the names of TTT_PARAMETERS below. */
#define TTT_PARAMETER_COUNT 8

static TttWeights ttt_weights(const Tensor *t)
{
    return (TttWeights){t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]};
}

static void call_ttt_forward(const OpCase *k, Ctx *c, const Tensor *t)
{
    TttWeights w = ttt_weights(t + 1);
    op_ttt_forward(c, t[0], &k->ttt, &w, t[9], t[10], TENSOR_NONE);
}

/* What the forward keeps differs from backend to backend, so each runs its own first. */
static void call_ttt_backward(const OpCase *k, Ctx *c, const Tensor *t)
{
    TttWeights w = ttt_weights(t + 2), grads = ttt_weights(t + 12);
    ArenaMark saved = arena_mark(&c->saved), scratch = arena_mark(&c->scratch);
    Tensor states = op_ttt_states(c, &k->ttt, t[1].dtype);
    Tensor out = ctx_scratch(c, MEM_SCRATCH, t[0].dtype, t[0].dim[0], t[0].dim[1]);
    op_ttt_forward(c, t[1], &k->ttt, &w, t[10], out, states);
    arena_release(&c->scratch, scratch);
    op_ttt_backward(c, t[0], t[1], &k->ttt, &w, t[10], states, t[11], &grads, k->mode);
    arena_release(&c->saved, saved);
}

static void call_ttt_start(const OpCase *k, Ctx *c, const Tensor *t)
{
    TttWeights w = ttt_weights(t);
    op_ttt_start(c, &k->ttt, &w, t[TTT_PARAMETER_COUNT]);
}

static void call_ttt_step(const OpCase *k, Ctx *c, const Tensor *t)
{
    TttWeights w = ttt_weights(t + 1);
    op_ttt_step(c, t[0], &k->ttt, &w, t[9], t[10], t[11], t[12]);
}

static void call_embed_step(const OpCase *k, Ctx *c, const Tensor *t)
{
    (void)k;
    op_embed_step(c, t[0], t[1], t[2], t[3], t[4]);
}

static void call_attention_fill(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_attention_fill(c, t[0], k->heads, t[1]);
}

static void call_attention_step(const OpCase *k, Ctx *c, const Tensor *t)
{
    op_attention_step(c, t[0], k->heads, t[1], t[2], t[3], t[4]);
}

/* clang-format off */
#define ARG(text, dims, ...) {.name = text, .shape = dims, __VA_ARGS__}

#define STARTS(dims, given) \
    ARG("starts", dims, .type = TYPE_I32, .fill = FILL_STARTS, .when = given)

#define TTT_PARAMETERS \
    ARG("index", "M", .fill = FILL_TTT_INDEX), \
    ARG("rate_bias", "H", .fill = FILL_SMALL), \
    ARG("gamma", "HD", .fill = FILL_NEAR_ONE), \
    ARG("beta", "HD", .fill = FILL_SMALL), \
    ARG("w1", "HDF", .fill = FILL_TTT_WEIGHT), \
    ARG("b1", "HF", .fill = FILL_SMALL), \
    ARG("w2", "HFD", .fill = FILL_TTT_WEIGHT, .when = WHEN_TTT_MLP), \
    ARG("b2", "HD", .fill = FILL_SMALL, .when = WHEN_TTT_MLP)

#define TTT_GRADIENT(name, dims, ...) \
    ARG(name, dims, .use = USE_BY_MODE, .type = TYPE_ACC, __VA_ARGS__)

static const OpSpec specs[OP_COUNT] = {
    [OP_EMBED_FORWARD] = {
        .arg = {ARG("ids", "N", .type = TYPE_I32, .fill = FILL_IDS),
                ARG("table", "OC"),
                ARG("positions", "PC", .when = WHEN_OPTION),
                STARTS("N", WHEN_FLAG),
                ARG("out", "NC", .use = USE_OUT)},
        .varies = VARY_OPTION | VARY_FLAG,
        .call = call_embed_forward},
    [OP_EMBED_BACKWARD] = {
        .arg = {ARG("ids", "N", .type = TYPE_I32, .fill = FILL_IDS),
                ARG("order", "N", .type = TYPE_I32, .fill = FILL_ORDER),
                ARG("dout", "NC"),
                ARG("dtable", "OC", .use = USE_BY_MODE, .type = TYPE_ACC),
                ARG("dpositions", "PC", .use = USE_BY_MODE2, .type = TYPE_ACC,
                    .when = WHEN_OPTION),
                STARTS("N", WHEN_FLAG)},
        .varies = VARY_OPTION | VARY_FLAG | VARY_MODE | VARY_MODE2,
        .call = call_embed_backward},
    [OP_LINEAR_FORWARD] = {
        .arg = {ARG("x", "NC"),
                ARG("w", "OC"),
                ARG("bias", "O", .when = WHEN_OPTION),
                ARG("y", "NO", .use = USE_OUT)},
        .varies = VARY_OPTION,
        .call = call_linear_forward},
    [OP_LINEAR_BACKWARD_INPUT] = {
        .arg = {ARG("dy", "NO"),
                ARG("w", "OC"),
                ARG("dx", "NC", .use = USE_BY_MODE)},
        .varies = VARY_MODE,
        .call = call_linear_backward_input},
    [OP_LINEAR_BACKWARD_WEIGHT] = {
        .arg = {ARG("x", "NC"),
                ARG("dy", "NO"),
                ARG("dw", "OC", .use = USE_BY_MODE, .type = TYPE_ACC),
                ARG("dbias", "O", .use = USE_BY_MODE, .type = TYPE_ACC, .when = WHEN_OPTION)},
        .varies = VARY_OPTION | VARY_MODE,
        .call = call_linear_backward_weight},
    [OP_LINEAR_GELU_FORWARD] = {
        .arg = {ARG("x", "NC"),
                ARG("w", "OC"),
                ARG("bias", "O", .when = WHEN_OPTION),
                ARG("pre", "NO", .use = USE_OUT),
                ARG("y", "NO", .use = USE_OUT)},
        .varies = VARY_OPTION,
        .call = call_linear_gelu_forward},
    [OP_LINEAR_GELU_BACKWARD_INPUT] = {
        .arg = {ARG("dy", "NO"),
                ARG("w", "OC"),
                ARG("pre", "NC"),
                ARG("dpre", "NC", .use = USE_OUT)},
        .alias = {{3, 2}},
        .call = call_linear_gelu_backward_input},
    [OP_ADD] = {
        .arg = {ARG("a", "NC"),
                ARG("b", "NC"),
                ARG("out", "NC", .use = USE_OUT)},
        .alias = {{2, 0}, {2, 1}},
        .call = call_add},
    [OP_SCALE] = {
        .arg = {ARG("x", "NC"),
                ARG("out", "NC", .use = USE_OUT)},
        .varies = VARY_CAP,
        .alias = {{1, 0}},
        .call = call_scale},
    [OP_NORM_FORWARD] = {
        .arg = {ARG("x", "NC"),
                ARG("weight", "C", .fill = FILL_NEAR_ONE),
                ARG("bias", "C", .when = WHEN_LAYER_NORM),
                ARG("y", "NC", .use = USE_OUT),
                ARG("stats", "N2", .use = USE_OUT, .type = TYPE_ACC)},
        .varies = VARY_NORM,
        .call = call_norm_forward},
    [OP_ADD_NORM_FORWARD] = {
        .arg = {ARG("x", "NC"),
                ARG("h", "NC"),
                ARG("weight", "C", .fill = FILL_NEAR_ONE),
                ARG("bias", "C", .when = WHEN_LAYER_NORM),
                ARG("r", "NC", .use = USE_OUT),
                ARG("y", "NC", .use = USE_OUT),
                ARG("stats", "N2", .use = USE_OUT, .type = TYPE_ACC)},
        .varies = VARY_NORM,
        .alias = {{4, 0}, {4, 1}},
        .call = call_add_norm_forward},
    [OP_NORM_BACKWARD] = {
        .arg = {ARG("dy", "NC"),
                ARG("x", "NC"),
                ARG("weight", "C", .fill = FILL_NEAR_ONE),
                ARG("bias", "C", .when = WHEN_LAYER_NORM),
                ARG("stats", "N2", .type = TYPE_ACC, .fill = FILL_DERIVED),
                ARG("dx", "NC", .use = USE_BY_MODE2),
                ARG("dweight", "C", .use = USE_BY_MODE, .type = TYPE_ACC),
                ARG("dbias", "C", .use = USE_BY_MODE, .type = TYPE_ACC, .when = WHEN_LAYER_NORM)},
        .varies = VARY_NORM | VARY_MODE | VARY_MODE2,
        .alias = {{5, 0}},
        .call = call_norm_backward,
        .derive = derive_norm_backward},
    [OP_NORM_PIECES] = {
        .arg = {ARG("dy", "RA"),
                ARG("x", "RA"),
                ARG("stats", "R2", .type = TYPE_ACC, .fill = FILL_POSITIVE),
                ARG("dweights", "BA", .use = USE_OUT, .type = TYPE_ACC)},
        .call = call_norm_pieces},
    [OP_HEAD_NORM_FORWARD] = {
        .arg = {ARG("qkv", "RQ"),
                ARG("q", "D", .fill = FILL_NEAR_ONE),
                ARG("k", "D", .fill = FILL_NEAR_ONE),
                ARG("out", "RQ", .use = USE_OUT)},
        .alias = {{3, 0}},
        .call = call_head_norm_forward},
    [OP_HEAD_NORM_BACKWARD] = {
        .arg = {ARG("dout", "RQ"),
                ARG("qkv", "RQ"),
                ARG("q", "D", .fill = FILL_NEAR_ONE),
                ARG("k", "D", .fill = FILL_NEAR_ONE),
                ARG("dqkv", "RQ", .use = USE_OUT),
                ARG("dq", "D", .use = USE_BY_MODE, .type = TYPE_ACC),
                ARG("dk", "D", .use = USE_BY_MODE, .type = TYPE_ACC)},
        .varies = VARY_MODE,
        .alias = {{4, 0}},
        .call = call_head_norm_backward},
    [OP_ROPE] = {
        .arg = {ARG("qkv", "RQ", .use = USE_UPDATE),
                ARG("table", "SD", .type = TYPE_ACC, .fill = FILL_ROPE),
                STARTS("R", WHEN_STARTS)},
        .varies = VARY_FLAG,
        .call = call_rope},
    [OP_ATTENTION_FORWARD] = {
        .arg = {ARG("qkv", "RQ"),
                ARG("out", "RA", .use = USE_OUT),
                ARG("aux", "BHTT", .use = USE_OUT, .when = WHEN_NAIVE),
                ARG("aux", "BHT", .use = USE_OUT, .type = TYPE_ACC, .when = WHEN_FLASH),
                STARTS("R", WHEN_STARTS)},
        .varies = VARY_ATTENTION,
        .call = call_attention_forward},
    [OP_ATTENTION_BACKWARD] = {
        .arg = {ARG("dout", "RA"),
                ARG("qkv", "RQ"),
                ARG("out", "RA", .fill = FILL_DERIVED),
                ARG("aux", "BHTT", .fill = FILL_DERIVED, .when = WHEN_NAIVE),
                ARG("aux", "BHT", .type = TYPE_ACC, .fill = FILL_DERIVED, .when = WHEN_FLASH),
                ARG("dqkv", "RQ", .use = USE_OUT),
                STARTS("R", WHEN_STARTS)},
        .varies = VARY_ATTENTION,
        .call = call_attention_backward,
        .derive = derive_attention_backward},
    [OP_GATED_FORWARD] = {
        .arg = {ARG("gate_up", "NU"),
                ARG("y", "NC", .use = USE_OUT)},
        .varies = VARY_GELU | VARY_RELU2,
        .call = call_gated_forward},
    [OP_GATED_BACKWARD] = {
        .arg = {ARG("dy", "NC"),
                ARG("gate_up", "NU"),
                ARG("dgate_up", "NU", .use = USE_OUT)},
        .alias = {{2, 1}},
        .varies = VARY_GELU | VARY_RELU2,
        .call = call_gated_backward},
    [OP_ACT_FORWARD] = {
        .arg = {ARG("x", "NC"),
                ARG("y", "NC", .use = USE_OUT)},
        .varies = VARY_GELU | VARY_RELU2,
        .call = call_act_forward},
    [OP_ACT_BACKWARD] = {
        .arg = {ARG("dy", "NC"),
                ARG("x", "NC"),
                ARG("dx", "NC", .use = USE_OUT)},
        .alias = {{2, 0}, {2, 1}},
        .varies = VARY_GELU | VARY_RELU2,
        .call = call_act_backward},
    [OP_XENT] = {
        .arg = {ARG("logits", "NO", .use = USE_UPDATE, .fill = FILL_LOGITS),
                ARG("targets", "N", .type = TYPE_I32, .fill = FILL_TARGETS),
                ARG("losses", "N", .use = USE_OUT, .type = TYPE_ACC)},
        .varies = VARY_OPTION | VARY_FLAG | VARY_CAP,
        .call = call_xent},
    [OP_SUM] = {
        .arg = {ARG("x", "N", .type = TYPE_ACC, .fill = FILL_POSITIVE),
                ARG("out", "1", .use = USE_BY_MODE, .type = TYPE_ACC, .fill = FILL_POSITIVE)},
        .varies = VARY_MODE,
        .call = call_sum},
    [OP_SUM_SQUARES] = {
        .arg = {ARG("x", "N", .type = TYPE_ACC),
                ARG("out", "1", .use = USE_BY_MODE, .type = TYPE_ACC, .fill = FILL_POSITIVE)},
        .varies = VARY_MODE,
        .call = call_sum_squares},
    [OP_ADAMW] = {
        .arg = {ARG("param", "N", .use = USE_UPDATE, .type = TYPE_ACC),
                ARG("low", "N", .use = USE_OUT, .type = TYPE_BF16, .when = WHEN_OPTION),
                ARG("grad", "N", .type = TYPE_ACC),
                ARG("m", "N", .use = USE_UPDATE, .type = TYPE_STATE),
                ARG("v", "N", .use = USE_UPDATE, .type = TYPE_STATE, .fill = FILL_POSITIVE),
                ARG("hyper", "Y", .type = TYPE_F32, .fill = FILL_HYPER),
                ARG("norm_sq", "1", .type = TYPE_ACC, .fill = FILL_NORM_SQ),
                ARG("left_out", "1", .type = TYPE_ACC, .when = WHEN_OPTION,
                    .fill = FILL_POSITIVE)},
        .varies = VARY_OPTION | VARY_FLAG | VARY_HALVES,
        .call = call_adamw},
    [OP_SGD] = {
        .arg = {ARG("param", "N", .use = USE_UPDATE, .type = TYPE_ACC),
                ARG("low", "N", .use = USE_OUT, .type = TYPE_BF16, .when = WHEN_OPTION),
                ARG("grad", "N", .type = TYPE_ACC),
                ARG("m", "N", .use = USE_UPDATE, .type = TYPE_STATE),
                ARG("hyper", "Y", .type = TYPE_F32, .fill = FILL_HYPER),
                ARG("norm_sq", "1", .type = TYPE_ACC, .fill = FILL_NORM_SQ),
                ARG("left_out", "1", .type = TYPE_ACC, .when = WHEN_OPTION,
                    .fill = FILL_POSITIVE)},
        .varies = VARY_OPTION | VARY_FLAG | VARY_HALVES,
        .call = call_sgd},
    [OP_CAST] = {
        .arg = {ARG("from", "N"),
                ARG("to", "N", .use = USE_OUT, .type = TYPE_BF16, .when = WHEN_OPTION),
                ARG("to", "N", .use = USE_OUT, .type = TYPE_F32, .when = WHEN_NO_OPTION)},
        .varies = VARY_OPTION,
        .call = call_cast},
    [OP_CHECKSUM] = {
        .arg = {ARG("x", "N", .type = TYPE_I32, .fill = FILL_BITS),
                ARG("out", "2", .use = USE_OUT, .type = TYPE_I32)},
        .call = call_checksum},
    [OP_TTT_FORWARD] = {
        .arg = {ARG("x", "RW", .fill = FILL_TTT_INPUT),
                TTT_PARAMETERS,
                ARG("rope", "KD", .type = TYPE_ACC, .fill = FILL_ROPE),
                ARG("out", "RA", .use = USE_OUT)},
        .draws = TTT_DRAWS,
        .call = call_ttt_forward},
    [OP_TTT_BACKWARD] = {
        .arg = {ARG("dout", "RA"),
                ARG("x", "RW", .fill = FILL_TTT_INPUT),
                TTT_PARAMETERS,
                ARG("rope", "KD", .type = TYPE_ACC, .fill = FILL_ROPE),
                ARG("dx", "RW", .use = USE_OUT),
                TTT_GRADIENT("dindex", "M", .fill = FILL_SMALL),
                TTT_GRADIENT("drate_bias", "H", .fill = FILL_SMALL),
                TTT_GRADIENT("dgamma", "HD", .fill = FILL_NORMAL),
                TTT_GRADIENT("dbeta", "HD", .fill = FILL_NORMAL),
                TTT_GRADIENT("dw1", "HDF", .fill = FILL_NORMAL),
                TTT_GRADIENT("db1", "HF", .fill = FILL_NORMAL),
                TTT_GRADIENT("dw2", "HFD", .when = WHEN_TTT_MLP),
                TTT_GRADIENT("db2", "HD", .when = WHEN_TTT_MLP)},
        .varies = VARY_MODE,
        .draws = TTT_DRAWS,
        .call = call_ttt_backward},
    [OP_TTT_START] = {
        .arg = {TTT_PARAMETERS,
                ARG("state", "EZ", .use = USE_OUT, .type = TYPE_ACC)},
        .call = call_ttt_start},
    [OP_TTT_STEP] = {
        .arg = {ARG("x", "BW", .fill = FILL_TTT_INPUT),
                TTT_PARAMETERS,
                ARG("rope", "KD", .type = TYPE_ACC, .fill = FILL_ROPE),
                ARG("position", "1", .type = TYPE_I32, .fill = FILL_TTT_POSITION),
                ARG("state", "EZ", .use = USE_UPDATE, .type = TYPE_ACC, .fill = FILL_TTT_STATE),
                ARG("out", "BA", .use = USE_OUT)},
        .draws = TTT_DRAWS,
        .call = call_ttt_step},
    [OP_EMBED_STEP] = {
        .arg = {ARG("ids", "N", .type = TYPE_I32, .fill = FILL_IDS),
                ARG("table", "OC"),
                ARG("positions", "PC", .when = WHEN_OPTION),
                ARG("position", "1", .type = TYPE_I32, .fill = FILL_POSITION),
                ARG("out", "NC", .use = USE_OUT)},
        .varies = VARY_OPTION,
        .call = call_embed_step},
    [OP_ATTENTION_FILL] = {
        .arg = {ARG("qkv", "RQ"),
                ARG("cache", "JXD", .use = USE_UPDATE)},
        .call = call_attention_fill},
    [OP_ATTENTION_STEP] = {
        .arg = {ARG("qkv", "BQ", .use = USE_SPENT),
                ARG("rope", "LD", .type = TYPE_ACC, .fill = FILL_ROPE, .when = WHEN_OPTION),
                ARG("position", "1", .type = TYPE_I32, .fill = FILL_POSITION),
                ARG("cache", "JXD", .use = USE_UPDATE),
                ARG("out", "BA", .use = USE_OUT)},
        .varies = VARY_OPTION,
        .call = call_attention_step},
};
/* clang-format on */

const OpSpec *op_spec(OpId op)
{
    PACER_ASSERT(specs[op].call != NULL, "no spec of %s", op_name(op));
    return &specs[op];
}
