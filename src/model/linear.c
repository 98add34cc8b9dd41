#include "model/linear.h"

#include <stdio.h>

void weight_declare(ParamTable *table, Weight *weight, const char *name, int layer, Param row)
{
    ParamPlace place = weight->rows == 0 ? PARAM_ALIGNED : PARAM_JOINED;
    int index = params_add(table, place, name, layer, row);
    weight->first = weight->rows == 0 ? index : weight->first;
    weight->rows++;
}

static void declare_part(ParamTable *table, Weight *weight, const char *name, const char *part,
                         int layer, Param row)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", name, part);
    weight_declare(table, weight, full, layer, row);
}

void linear_declare(ParamTable *table, Linear *l, const char *name, int layer, int64_t outputs,
                    int64_t inputs, double std, bool bias)
{
    Param weight = {.rank = 2, .dim = {outputs, inputs}, .init = INIT_NORMAL, .decay = true};
    weight.std = std > 0 ? std : INIT_STD;
    declare_part(table, &l->weight, name, "weight", layer, weight);
    if (bias) {
        declare_part(table, &l->bias, name, "bias", layer,
                     (Param){.rank = 1, .dim = {outputs}, .init = INIT_ZERO});
    }
}

void norm_declare(ParamTable *table, Linear *norm, const char *name, int layer, NormKind kind,
                  int64_t width)
{
    declare_part(table, &norm->weight, name, "weight", layer,
                 (Param){.rank = 1, .dim = {width}, .init = INIT_ONE});
    if (kind == NORM_LAYER) {
        declare_part(table, &norm->bias, name, "bias", layer,
                     (Param){.rank = 1, .dim = {width}, .init = INIT_ZERO});
    }
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
