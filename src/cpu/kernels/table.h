#pragma once
/* The kernels of one instruction set, as backend.c picks them at run time: each puts what it has
 * over the slots of ops. v3 and v4 exist only where the build made them (PACER_ISA_X86). */
#include "tensor/ops.h"

void kernels_fill_base(Ops *ops);
void kernels_fill_v3(Ops *ops);
void kernels_fill_v4(Ops *ops);
