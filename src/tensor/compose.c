#include "tensor/compose.h"

void compose_linear_gelu_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y)
{
    op_linear_forward(c, x, w, bias, pre);
    op_act_forward(c, ACT_GELU, pre, y);
}

void compose_linear_gelu_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor pre, Tensor dpre)
{
    ArenaMark mark = arena_mark(&c->scratch);
    Tensor dact = ctx_scratch(c, MEM_SCRATCH, pre.dtype, pre.dim[0], pre.dim[1]);
    op_linear_backward_input(c, dy, w, dact, MODE_SET);
    op_act_backward(c, ACT_GELU, dact, pre, dpre);
    arena_release(&c->scratch, mark);
}

void compose_add_norm_forward(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y,
                              Tensor stats)
{
    op_add(c, x, h, r);
    op_norm_forward(c, r, norm, y, stats);
}
