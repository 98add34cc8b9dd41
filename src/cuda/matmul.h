#pragma once
/* Matrix products through cuBLASLt. A product is described row-major; matmul_run finds or makes the plan
 * for it (descriptors and a chosen algorithm, matmul_plan.c, matmul_tune.c) and puts it on the backend's
 * stream. The slots of the op table and cuda_gemm are in matmul.c. */
#include "cuda/internal.h"

#include <cublasLt.h>

/* A Gemm and what happens to its result on the way out. */
typedef struct {
    Gemm gemm;
    cublasLtEpilogue_t epilogue;
    const void *bias; /* (n) of the output's type; NULL unless the epilogue has a bias */
    void *aux;        /* (m,n) of the output's type, contiguous; NULL unless the epilogue has one */
} Product;

/* Takes cuBLASLt's workspace and the staging block from the device; ends the program when it cannot. */
Matmul *matmul_open(CudaBackend *backend);
void matmul_close(Matmul *matmul); /* NULL is fine */

/* False when cuBLASLt has no algorithm for the product; nothing has then been done. */
bool matmul_run(Matmul *matmul, const Product *product);

/* Device memory for results on their way between two kernels of one op. */
#define MATMUL_STAGING_BYTES ((size_t)32 << 20)
void *matmul_staging(Matmul *matmul);
