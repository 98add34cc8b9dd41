#pragma once
/* The CPU backend's own view of itself, for the files of src/cpu and for reports. Its operations
 * are for f32 and, where the processor has products for it, for bf16; those of other element types
 * are the reference's (Backend.other_ops). */
#include "cpu/bf16/product.h"
#include "tensor/ctx.h"

/* Room for a block of rows of a product whose result goes where one of the fused op's inputs is, or
 * of rows of bf16 weights made f32: large enough that packing the weights again for each block
 * hardly shows. */
#define CPU_BLOCK_BYTES ((size_t)8 << 20)

typedef struct {
    Backend backend; /* first, so that a Backend of this kind is a CpuBackend */
    Ops ref, low;    /* low: for bf16 */
    const char *isa;
    void *block;  /* CPU_BLOCK_BYTES */
    void *packed; /* what products in bf16 need (bf16/product.h); NULL: there are none */
} CpuBackend;

static inline const CpuBackend *cpu_backend(const Ctx *c)
{
    return (const CpuBackend *)c->backend;
}

/* "base", "v3" or "v4": the instruction set that cpu_backend_open chose. */
const char *cpu_backend_isa(const Backend *backend);

/* What the processor has, whatever PACER_SIMD says: 0, 1 (v3: AVX2) or 2 (v4: AVX-512). */
int cpu_level(void);

/* The kernels of one instruction set (kernels/table.c), each put over its slot of ops. v3 and v4
 * exist only where the build made them (PACER_ISA_X86). */
void kernels_fill_base(Ops *ops);
void kernels_fill_v3(Ops *ops);
void kernels_fill_v4(Ops *ops);
void kernels_fill_bf16(Ops *ops); /* for bf16; only where the build made them (PACER_ISA_BF16) */

/* What this build, processor and kernel have for products in bf16, best first, NULL after the
 * last. */
const BfEngine *const *cpu_bf16_engines(void);

/* Why this machine or build does not compute in bf16, and what to do; NULL: it does. */
const char *cpu_no_bf16(void);

/* The matrix products (matmul.c). */
void matmul_fill(Ops *ops);

/* Up to this many rows a linear map is made by a kernel that reads the weights once
 * (kernels/few_rows.c). */
#define CPU_FEW_ROWS 32

/* linear_forward of more rows, by the library's product, or by tiles. */
void matmul_linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y);
