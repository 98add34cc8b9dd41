#pragma once
/* The f32 matrix product of the libraries that pacer was built with, called by pacer's own threads:
 * oneDNN where it was found, else the CBLAS. The machine's ceiling (record/machine.h) is measured
 * with the same function that training calls. */
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

/* Its name, version and, of OpenBLAS, kernels into text. */
void sgemm_library(char *text, size_t size);

/* OpenBLAS chooses its kernels when it is loaded, and takes a processor that is newer than itself
 * for an old one. The kernels that it has and this processor would be served better by, as
 * OPENBLAS_CORETYPE names them; NULL: what it chose is right, or it is no OpenBLAS. */
const char *sgemm_better_core(void);

/* Warns where products on so many threads suffer from kernels that are not the better ones, unless
 * OPENBLAS_CORETYPE is set: a library cannot choose them any more. */
void sgemm_warn(int threads);

/* Whether the CBLAS started threads of its own, which pacer has no use for. */
bool sgemm_starts_threads(void);

/* sgemm_library is to say that pacer, not OpenBLAS, chose the kernels. */
void sgemm_core_was_chosen(void);
