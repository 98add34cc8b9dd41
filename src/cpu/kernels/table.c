#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"

void PACER_ISA_NAME(kernels_fill)(Ops *ops)
{
    PACER_ISA_NAME(attention_fill)(ops);
    PACER_ISA_NAME(decode_fill)(ops);
    PACER_ISA_NAME(embed_fill)(ops);
    PACER_ISA_NAME(few_rows_fill)(ops);
    PACER_ISA_NAME(loss_fill)(ops);
    PACER_ISA_NAME(mlp_fill)(ops);
    PACER_ISA_NAME(norm_fill)(ops);
    PACER_ISA_NAME(rope_fill)(ops);
#ifndef PACER_ELEM_BF16
    PACER_ISA_NAME(bits_fill)(ops);
    PACER_ISA_NAME(optim_fill)(ops);
    PACER_ISA_NAME(ttt_fill)(ops);
    PACER_ISA_NAME(ttt_backward_fill)(ops);
#endif
}
