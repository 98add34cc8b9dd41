#pragma once
/* Products of few rows, by kernels of their own (few_rows.cu). */
#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/internal.h"

#define CUDA_FEW_ROWS 32 /* up to so many */

/* y (N,O) = x (N,I) w^T + bias, or where pre (N,O) is given that is the sum and y gelu of it. Not
 * in place. False where nothing was done: too many rows, or rows that begin at no multiple of 16
 * bytes. */
bool cuda_few_rows(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y);

#ifdef __cplusplus
}
#endif
