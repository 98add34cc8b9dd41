#pragma once
/* What forward and backward on Hopper share: tiles that a loading thread copies into a ring of
 * stages while warpgroups compute, and how these write rows of results. */
#include "cuda/attention_flash.cuh"
#include "cuda/wgmma.cuh"

#include <cudaTypedefs.h>

#define KEYS 128    /* of a tile */
#define BOX_ROWS 64 /* that one tensor copy brings */

/* A place in the sequence of tiles that pass through a ring. */
template <int Stages> struct Place {
    uint32_t count = 0;

    __device__ __forceinline__ int stage(int ahead = 0) const
    {
        return (count + ahead) % Stages;
    }

    __device__ __forceinline__ uint32_t parity(int ahead = 0) const
    {
        return (count + ahead) / Stages % 2;
    }
};

/* Starts to copy rows of one head, D columns from `column` on, to panels one after the other.
 * The bytes count for `barrier`, which has been told of them. By one thread, which has few
 * registers. */
template <int D>
static __device__ __forceinline__ void head_load(uint32_t to, int rows, const CUtensorMap *map,
                                                 int column, int row, int batch, uint32_t barrier)
{
#pragma unroll 1
    for (int panel = 0; panel < D / PANEL_COLUMNS; panel++) {
#pragma unroll 1
        for (int r = 0; r < rows; r += BOX_ROWS) {
            box_load(to + (panel * rows + r) * PANEL_ROW, map, column + panel * PANEL_COLUMNS,
                     max(row + r, 0), batch, barrier);
        }
    }
}

/* One arrival for each warp, when all of its threads are here. */
static __device__ __forceinline__ void warp_arrive(uint32_t barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        barrier_arrive(barrier);
    }
}

/* What the lane that arrives for the warp reads; every lane has it. */
static __device__ __forceinline__ int warp_read(const volatile int *word)
{
    int value = threadIdx.x % 32 == 0 ? *word : 0;
    return __shfl_sync(0xffffffffu, value, 0);
}

/* word[i] of lane q becomes word[q] of lane i, for four neighbouring lanes. */
static __device__ __forceinline__ void quad_transpose(uint32_t (&word)[4])
{
    int lane = threadIdx.x % 4;
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
        bool upper = (lane & bit) != 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if ((i & bit) == 0) {
                uint32_t other = __shfl_xor_sync(~0u, upper ? word[i] : word[i | bit], bit);
                word[i] = upper ? other : word[i];
                word[i | bit] = upper ? word[i | bit] : other;
            }
        }
    }
}

/* Writes a warpgroup's fragments c (64, Count * 2), times a factor for each half of 16 rows, to
 * rows at `to` that are below `valid`. */
template <int Count>
static __device__ __forceinline__ void rows_store(const float (&c)[Count], const float (&factor)[2],
                                                  Bf16 *to, int64_t stride, int valid)
{
    int lane = threadIdx.x % 32, row = threadIdx.x % WARPGROUP / 32 * 16 + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; half++, row += 8) {
#pragma unroll
        for (int n = 0; n < Count / 4; n += 4) { /* 32 columns: 16 bytes for each lane of four */
            uint32_t word[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int at = 4 * (n + i) + 2 * half;
                word[i] = pack_pair(c[at] * factor[half], c[at + 1] * factor[half]);
            }
            quad_transpose(word);
            if (row < valid) {
                *reinterpret_cast<uint4 *>(to + row * stride + 8 * (n + lane % 4)) =
                    make_uint4(word[0], word[1], word[2], word[3]);
            }
        }
    }
}

/* ---- On the host ---- */

/* The driver's function that describes tensors; NULL when it is too old for it. */
static inline PFN_cuTensorMapEncodeTiled_v12000 find_tensor_encoder()
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                          12000, cudaEnableDefault, &found);
    return status == cudaSuccess && found == cudaDriverEntryPointSuccess
               ? (PFN_cuTensorMapEncodeTiled_v12000)function
               : NULL;
}

static inline PFN_cuTensorMapEncodeTiled_v12000 tensor_encoder()
{
    static PFN_cuTensorMapEncodeTiled_v12000 function = find_tensor_encoder();
    return function;
}

/* A tensor (batch, seq, width), of which copies bring boxes of one panel's columns and BOX_ROWS
 * rows. */
static inline CUtensorMap tensor_map(const Bf16 *tensor, int64_t width, int64_t seq, int64_t batch)
{
    CUtensorMap map;
    cuuint64_t sizes[3] = {(cuuint64_t)width, (cuuint64_t)seq, (cuuint64_t)batch};
    cuuint64_t strides[2] = {(cuuint64_t)(2 * width), (cuuint64_t)(2 * width * seq)}; /* bytes */
    cuuint32_t box[3] = {PANEL_COLUMNS, BOX_ROWS, 1}, every[3] = {1, 1, 1};
    CUresult status =
        tensor_encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, (void *)tensor, sizes, strides,
                         box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        cuda_fail("cuTensorMapEncodeTiled", "it does not take the tensor", __FILE__, __LINE__);
    }
    return map;
}

/* Whether this GPU got the code of `kernel` for sm_90a, which alone has static shared memory,
 * and has `shared` bytes more for it. */
template <typename Kernel>
static inline bool has_hopper_code(const CudaBackend *backend, Kernel kernel, int shared)
{
    cudaFuncAttributes attributes;
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    return attributes.sharedSizeBytes > 0 &&
           shared + (int)attributes.sharedSizeBytes <= backend->shared_bytes;
}
