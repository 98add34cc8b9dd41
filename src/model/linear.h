#pragma once
/* Weights with their gradients and optional bias: their rows of the table, and shorthands over
 * op_linear_*. */
#include "model/model.h"

#define INIT_STD 0.02 /* of most matrices */

/* Adds a row to the table for the weight. Where it has one already the new row is joined to it:
 * both are then one matrix. */
void weight_declare(ParamTable *table, Weight *weight, const char *name, int layer, Param row);

/* Declares a (outputs, inputs) matrix named `name`.weight and, with bias, `name`.bias. std <= 0
 * means INIT_STD. */
void linear_declare(ParamTable *table, Linear *linear, const char *name, int layer, int64_t outputs,
                    int64_t inputs, double std, bool bias);

/* Declares a norm's weight (ones) and, for LayerNorm, bias (zeros). */
void norm_declare(ParamTable *table, Linear *norm, const char *name, int layer, NormKind kind,
                  int64_t width);

Norm linear_as_norm(const ModelSpec *spec, const Linear *l);

void linear_forward(Ctx *c, const Linear *l, Tensor x, Tensor y);

/* Weight and bias gradients by mode. */
void linear_backward_weight(Ctx *c, const Linear *l, Tensor x, Tensor dy, Mode mode);

/* dx = dy w, assigned. */
void linear_backward_input(Ctx *c, const Linear *l, Tensor dy, Tensor dx);
