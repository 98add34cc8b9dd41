#pragma once
/* Weights with their gradients and optional bias: their rows of the table, and shorthands over
 * op_linear_*. */
#include "model/model.h"

#define INIT_STD 0.02 /* of most matrices */

/* Adds a row to the table for the weight. Where it has one already the new row is joined to it:
 * both are then one matrix. */
void weight_declare(ParamTable *table, Weight *weight, const char *name, int layer, Param row);

/* Declares a (outputs, inputs) matrix named `name`.weight and, with bias, `name`.bias. std <= 0
 * means INIT_STD. Inside a layer it has products. */
void linear_declare(ParamTable *table, Linear *linear, const char *name, int layer, int64_t outputs,
                    int64_t inputs, double std, bool bias);

/* Only the bias, `name`.bias of so many outputs: joined to those that the map has. */
void linear_declare_bias(ParamTable *table, Linear *linear, const char *name, int layer,
                         int64_t outputs);

/* Declares a norm's weight (ones) and, for LayerNorm, bias (zeros). */
void norm_declare(ParamTable *table, Linear *norm, const char *name, int layer, NormKind kind,
                  int64_t width);

Norm linear_as_norm(const ModelSpec *spec, const Linear *l);

static inline bool linear_is_quantised(const Linear *l)
{
    return quant_given(l->codes);
}

/* Whether the pass does not keep, but makes again in backward, what `from` and those of Keep behind
 * it do not keep. */
static inline bool model_remakes(const Model *model, Keep from)
{
    return (model->keep == KEEP_NOTHING ? model->like : model->keep) >= from;
}

/* Room for such a tensor, like `shape`: on c->saved, or where it is made again on c->scratch, in
 * both passes. */
Tensor part_room(Ctx *c, const Model *model, Keep from, MemKind kind, Tensor shape);

/* Room for the map's input of so many rows, which is kept before `from`: plain; or codes, their
 * columns for backward, their rows on c->scratch for the map's product, where that is run. */
Operand linear_input(Ctx *c, const Model *model, const Linear *l, Keep from, MemKind kind,
                     int64_t rows, bool product);

/* The same of an x (N,I) that is there: x itself, or its codes. */
Operand linear_operand(Ctx *c, const Model *model, const Linear *l, Keep from, MemKind kind,
                       Tensor x, bool product);

/* Room on c->scratch for the codes of the gradient by the map's output. */
Quant linear_slope(Ctx *c, const Linear *l, int64_t rows);

Operand operand_rows(Operand x, int64_t first, int64_t count);

void linear_forward(Ctx *c, const Linear *l, Operand x, Tensor y);

/* Weight and bias gradients by mode, then dx (N,I) = dy w, assigned; dx may be x.plain. */
void linear_backward(Ctx *c, const Linear *l, Operand x, Tensor dy, Tensor dx, Mode mode);

/* The same from codes; the bias has its gradient already. */
void linear_backward_codes(Ctx *c, const Linear *l, Operand x, Quant dy, Tensor dx, Mode mode);

/* y = norm(x), or with h given r = x + h, y = norm(r). */
void norm_operand(Ctx *c, Norm norm, Tensor x, Tensor h, Tensor r, Operand y, Tensor stats);
