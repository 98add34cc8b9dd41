#pragma once
/* The f32 matrix product of the library that pacer was built with: oneDNN where it was found,
 * else the CBLAS. The machine's ceiling (record/machine.h) is measured with the same function
 * that training calls. */
#include "tensor/ops.h"

/* out (m,n) = a b, or += with MODE_ADD, row-major; a is (m,k), or (k,m) when transposed, b is
 * (k,n), or (n,k) when transposed; rows of out lie out_stride elements apart. Same bits for the
 * same shape and number of threads. Not to be called from inside a parallel region. */
void sgemm(int threads, bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
           const float *a, const float *b, float *out, int64_t out_stride, Mode mode);

/* The product of n x n matrices as training in dtype does it, f32 or bf16, sums in f32, for
 * measuring. space: as many bytes as product_space says, which may be 0. */
void product_square(int threads, DType dtype, void *space, int64_t n, const void *a, const void *b,
                    float *out);
size_t product_space(int threads, DType dtype);

/* Its name and version into text. */
void sgemm_library(char *text, size_t size);
