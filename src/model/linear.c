#include "model/linear.h"

#include <stdio.h>

#define INIT_STD 0.02

static void declare(ParamTable *table, ParamPlace place, const char *name, const char *part,
                    int layer, Param row)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", name, part);
    params_add(table, place, full, layer, row);
}

void linear_declare(ParamTable *table, const char *name, int layer, int64_t outputs, int64_t inputs,
                    double std, bool bias)
{
    Param weight = {.rank = 2, .dim = {outputs, inputs}, .init = INIT_NORMAL, .decay = true};
    weight.std = std > 0 ? std : INIT_STD;
    declare(table, PARAM_ALIGNED, name, "weight", layer, weight);
    if (bias) {
        declare(table, PARAM_ALIGNED, name, "bias", layer,
                (Param){.rank = 1, .dim = {outputs}, .init = INIT_ZERO});
    }
}

void linear_declare_joined(ParamTable *table, const char *name, int layer, int64_t outputs,
                           int64_t inputs)
{
    declare(table, PARAM_JOINED, name, "weight", layer,
            (Param){.rank = 2,
                    .dim = {outputs, inputs},
                    .init = INIT_NORMAL,
                    .std = INIT_STD,
                    .decay = true});
}

void linear_declare_vocab(ParamTable *table, const char *name, int64_t vocab, int64_t width,
                          int64_t row_align)
{
    declare(table, PARAM_ALIGNED, name, "weight", -1,
            (Param){.rank = 2,
                    .dim = {vocab, width},
                    .spare_rows = (row_align - vocab % row_align) % row_align,
                    .init = INIT_NORMAL,
                    .std = INIT_STD,
                    .decay = true});
}

void norm_declare(ParamTable *table, const char *name, int layer, NormKind kind, int64_t width)
{
    declare(table, PARAM_ALIGNED, name, "weight", layer,
            (Param){.rank = 1, .dim = {width}, .init = INIT_ONE});
    if (kind == NORM_LAYER) {
        declare(table, PARAM_ALIGNED, name, "bias", layer,
                (Param){.rank = 1, .dim = {width}, .init = INIT_ZERO});
    }
}

static Weight view(const ParamTable *table, int row, int joined, ParamParts values, Tensor grads)
{
    Weight weight = {.value = params_view_parts(table, values, row, joined)};
    if (tensor_given(grads)) {
        weight.grad = params_view(table, grads, row, joined);
    }
    return weight;
}

int linear_bind(const ParamTable *table, int row, int joined, bool bias, ParamParts values,
                Tensor grads, Linear *out)
{
    *out = (Linear){.weight = view(table, row, joined, values, grads)};
    row += joined;
    if (bias) {
        out->bias = view(table, row, 1, values, grads);
        row++;
    }
    return row;
}

Norm linear_as_norm(const ModelSpec *spec, const Linear *l)
{
    return (Norm){spec->norm, spec->norm_eps, l->weight.value, l->bias.value};
}

void linear_forward(Ctx *c, const Linear *l, Tensor x, Tensor y)
{
    op_linear_forward(c, x, l->weight.value, l->bias.value, y);
}

void linear_backward_weight(Ctx *c, const Linear *l, Tensor x, Tensor dy, Mode mode)
{
    op_linear_backward_weight(c, x, dy, l->weight.grad, l->bias.grad, mode);
}

void linear_backward_input(Ctx *c, const Linear *l, Tensor dy, Tensor dx)
{
    op_linear_backward_input(c, dy, l->weight.value, dx, MODE_SET);
}
