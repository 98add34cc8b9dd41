#pragma once
/* Shorthands over op_linear_* for a weight with its gradient and optional bias. */
#include "model/model.h"

/* Declares a (outputs, inputs) matrix named `name`.weight and, with bias, `name`.bias. std <= 0
 * means the common 0.02. */
void linear_declare(ParamTable *table, const char *name, int layer, int64_t outputs, int64_t inputs,
                    double std, bool bias);

/* A matrix right behind the row before it, without bias. */
void linear_declare_joined(ParamTable *table, const char *name, int layer, int64_t outputs,
                           int64_t inputs);

/* linear_declare for a table with a row for each token of the vocabulary, padded to whole multiples of
 * row_align rows (1: not). */
void linear_declare_vocab(ParamTable *table, const char *name, int64_t vocab, int64_t width,
                          int64_t row_align);

/* Declares a norm's weight (ones) and, for LayerNorm, bias (zeros). */
void norm_declare(ParamTable *table, const char *name, int layer, NormKind kind, int64_t width);

/* Binds `joined` weight rows starting at row as one matrix, and the bias row behind them if
 * there is one; returns the row behind. */
int linear_bind(const ParamTable *table, int row, int joined, bool bias, ParamParts values,
                Tensor grads, Linear *out);

Norm linear_as_norm(const ModelSpec *spec, const Linear *l);

void linear_forward(Ctx *c, const Linear *l, Tensor x, Tensor y);

/* Weight and bias gradients by mode. */
void linear_backward_weight(Ctx *c, const Linear *l, Tensor x, Tensor dy, Mode mode);

/* dx = dy w, assigned. */
void linear_backward_input(Ctx *c, const Linear *l, Tensor dy, Tensor dx);
