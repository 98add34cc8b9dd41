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

void linear_declare_bias(ParamTable *table, Linear *l, const char *name, int layer, int64_t outputs)
{
    declare_part(table, &l->bias, name, "bias", layer,
                 (Param){.rank = 1, .dim = {outputs}, .init = INIT_ZERO});
}

void linear_declare(ParamTable *table, Linear *l, const char *name, int layer, int64_t outputs,
                    int64_t inputs, double std, bool bias)
{
    Param weight = {.rank = 2, .dim = {outputs, inputs}, .init = INIT_NORMAL, .decay = true};
    weight.std = std > 0 ? std : INIT_STD;
    weight.matrix = l->product = layer >= 0;
    declare_part(table, &l->weight, name, "weight", layer, weight);
    if (bias) {
        linear_declare_bias(table, l, name, layer, outputs);
    }
}

void norm_declare(ParamTable *table, Linear *norm, const char *name, int layer, NormKind kind,
                  int64_t width)
{
    declare_part(table, &norm->weight, name, "weight", layer,
                 (Param){.rank = 1, .dim = {width}, .init = INIT_ONE});
    if (kind == NORM_LAYER) {
        linear_declare_bias(table, norm, name, layer, width);
    }
}

Norm linear_as_norm(const ModelSpec *spec, const Linear *l)
{
    return (Norm){spec->norm, spec->norm_eps, l->weight.value, l->bias.value};
}

enum { SCALES_INPUT, SCALES_SLOPE };

/* With room for neither layout yet. */
static Quant quant_of(const Linear *l, int scales, int64_t rows)
{
    return (Quant){.stride = rows, .scale = l->scales[scales][0], .largest = l->scales[scales][1]};
}

Tensor part_room(Ctx *c, const Model *model, Keep from, MemKind kind, Tensor shape)
{
    bool remade = model_remakes(model, from);
    return arena_push(remade ? &c->scratch : &c->saved, remade ? MEM_SCRATCH : kind, shape.dtype,
                      shape.rank, shape.dim);
}

Operand linear_input(Ctx *c, const Model *model, const Linear *l, Keep from, MemKind kind,
                     int64_t rows, bool product)
{
    int64_t width = l->weight.value.dim[1];
    if (!linear_is_quantised(l)) {
        Tensor shape = tensor_2d(NULL, model->act, rows, width);
        return (Operand){.plain = part_room(c, model, from, kind, shape)};
    }
    Quant codes = quant_of(l, SCALES_INPUT, rows);
    bool wanted = model->keep != KEEP_NOTHING && (model->again || !model_remakes(model, from));
    if (product) {
        codes.rows = ctx_scratch(c, MEM_SCRATCH, DT_E4M3, rows, width);
    }
    if (wanted) {
        codes.columns = part_room(c, model, from, kind, tensor_2d(NULL, DT_E4M3, width, rows));
    }
    return (Operand){.codes = codes};
}

Operand linear_operand(Ctx *c, const Model *model, const Linear *l, Keep from, MemKind kind,
                       Tensor x, bool product)
{
    if (!linear_is_quantised(l)) {
        return (Operand){.plain = x};
    }
    Operand made = linear_input(c, model, l, from, kind, x.dim[0], product);
    op_quantise(c, x, made.codes, TENSOR_NONE, MODE_SET);
    return made;
}

Quant linear_slope(Ctx *c, const Linear *l, int64_t rows)
{
    int64_t width = l->weight.value.dim[0];
    Quant codes = quant_of(l, SCALES_SLOPE, rows);
    codes.rows = ctx_scratch(c, MEM_SCRATCH, DT_E4M3, rows, width);
    codes.columns = ctx_scratch(c, MEM_SCRATCH, DT_E4M3, width, rows);
    return codes;
}

Operand operand_rows(Operand x, int64_t first, int64_t count)
{
    if (tensor_given(x.plain)) {
        x.plain = tensor_rows(x.plain, first, count);
    }
    x.codes = quant_rows(x.codes, first, count);
    return x;
}

void linear_forward(Ctx *c, const Linear *l, Operand x, Tensor y)
{
    if (linear_is_quantised(l)) {
        op_quant_forward(c, x.codes, l->codes, l->bias.value, y);
    } else {
        op_linear_forward(c, x.plain, l->weight.value, l->bias.value, y);
    }
}

void linear_backward_codes(Ctx *c, const Linear *l, Operand x, Quant dy, Tensor dx, Mode mode)
{
    op_quant_backward_weight(c, x.codes, dy, l->weight.grad, mode);
    op_quant_backward_input(c, dy, l->codes, dx, MODE_SET);
}

void linear_backward(Ctx *c, const Linear *l, Operand x, Tensor dy, Tensor dx, Mode mode)
{
    if (linear_is_quantised(l)) {
        ArenaMark mark = arena_mark(&c->scratch);
        Quant codes = linear_slope(c, l, dy.dim[0]);
        op_quantise(c, dy, codes, l->bias.grad, mode);
        linear_backward_codes(c, l, x, codes, dx, mode);
        arena_release(&c->scratch, mark);
    } else {
        op_linear_backward_weight(c, x.plain, dy, l->weight.grad, l->bias.grad, mode);
        op_linear_backward_input(c, dy, l->weight.value, dx, MODE_SET);
    }
}

void norm_operand(Ctx *c, Norm norm, Tensor x, Tensor h, Tensor r, Operand y, Tensor stats)
{
    if (!tensor_given(y.plain)) {
        op_quant_norm(c, x, h, norm, r, y.codes, stats);
    } else if (tensor_given(h)) {
        op_add_norm_forward(c, x, h, norm, r, y.plain, stats);
    } else {
        op_norm_forward(c, x, norm, y.plain, stats);
    }
}
