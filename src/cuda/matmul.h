#pragma once
/* Matrix products through cuBLASLt. A product is described row-major; matmul_run finds or makes
 * the plan for it (descriptors and a chosen algorithm, matmul_plan.c, matmul_tune.c) and puts it
 * on the backend's stream. The slots of the op table and cuda_gemm are in matmul.c. */
#include "cuda/internal.h"

#include <cublasLt.h>

/* A Gemm and what happens to its result on the way out. */
typedef struct {
    Gemm gemm;
    cublasLtEpilogue_t epilogue;
    void *bias; /* (n) of the output's type, or NULL; BGRADB writes (m) sums there */
    void *aux;  /* (m,n) of the output's type, contiguous; NULL unless the epilogue has one */
} Product;

/* Takes cuBLASLt's workspace and the staging block from the device; ends the program when it
 * cannot. */
Matmul *matmul_open(CudaBackend *backend);
void matmul_close(Matmul *matmul); /* NULL is fine */

/* False when cuBLASLt has no algorithm for the product; nothing has then been done. A product
 * with the epilogue BGRADB runs only where its algorithm was chosen by timing. */
bool matmul_run(Matmul *matmul, const Product *product);

/* Whether matmul_run has not met a product like this one yet. */
bool matmul_is_new(Matmul *matmul, const Product *product);

/* Milliseconds of the product, when this process has timed its algorithms (now or before); else
 * 0. */
float matmul_timed(Matmul *matmul, const Product *product);

/* The same, but an algorithm that the cache has chosen is timed on the spot. Not while the
 * stream is being captured. 0 when there is no algorithm. */
float matmul_time(Matmul *matmul, const Product *product);

/* From now on, and in later processes, matmul_run answers false for this product: something else
 * is faster. */
void matmul_give_up(Matmul *matmul, const Product *product);

/* Device memory for results on their way between two kernels of one op. */
#define MATMUL_STAGING_BYTES ((size_t)32 << 20)
void *matmul_staging(Matmul *matmul);
