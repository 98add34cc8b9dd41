#pragma once
#include "tensor/backend.h"

/* Every op in sequential f32 sums, as one would write it down first: the measure of how much error
 * is fair. f32 and bf16. Memory is the host's. */
Backend *op_naive_open(void);

/* The part of it in op_naive_ttt.c. */
void op_naive_fill_ttt(Ops *ops);

/* The part of it in op_naive_decode.c. */
void op_naive_fill_decode(Ops *ops);

/* The part of it in op_naive_updates.c. */
void op_naive_fill_updates(Ops *ops);
