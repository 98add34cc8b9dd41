#pragma once
/* Fused ops made of plain ones: what an op does when the backend leaves its fused slot empty,
 * and the truth that the fused kernel is tested against. Arguments as in ops.h. */
#include "tensor/ctx.h"

void compose_linear_gelu_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y);
void compose_linear_gelu_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor pre, Tensor dpre);
void compose_add_norm_forward(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y,
                              Tensor stats);
