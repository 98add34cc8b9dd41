#pragma once
/* Every file of this folder is compiled once per instruction set, with PACER_ISA set to base, v3 or
 * v4 (x86-64 levels; only base elsewhere). All its functions are static but one, which puts them
 * into a table of operations and carries the instruction set in its name: norm_fill_v4. Most are
 * compiled once more for activations in bf16, as bf16 (PACER_ELEM_BF16; vec.h: Elem). */
#include "tensor/ops.h"

#ifndef PACER_ISA
#define PACER_ISA base
#endif

#define PACER_ISA_PASTE(name, isa) name##_##isa
#define PACER_ISA_EXPAND(name, isa) PACER_ISA_PASTE(name, isa)
#define PACER_ISA_NAME(name) PACER_ISA_EXPAND(name, PACER_ISA)

void PACER_ISA_NAME(attention_fill)(Ops *ops);
void PACER_ISA_NAME(bits_fill)(Ops *ops);
void PACER_ISA_NAME(decode_fill)(Ops *ops);
void PACER_ISA_NAME(embed_fill)(Ops *ops);
void PACER_ISA_NAME(few_rows_fill)(Ops *ops);
void PACER_ISA_NAME(loss_fill)(Ops *ops);
void PACER_ISA_NAME(mlp_fill)(Ops *ops);
void PACER_ISA_NAME(norm_fill)(Ops *ops);
void PACER_ISA_NAME(optim_fill)(Ops *ops);
void PACER_ISA_NAME(rope_fill)(Ops *ops);
void PACER_ISA_NAME(ttt_fill)(Ops *ops);
void PACER_ISA_NAME(ttt_backward_fill)(Ops *ops);
