/* Products of few rows, y (N,O) = x (N,I) w^T + bias, and gelu of that: every weight is read once,
 * and reading it is what costs. A block has some outputs and all of I, in which each of its warps
 * has every WARPS-th piece; sums of the warps are added in their order. Sums of one output are
 * taken in the same order whatever N, O and the kernel's template: a row comes out the same
 * beside any others.
 *
 * More rows than a block takes are for other blocks, which find the weights in L2.
 *
 * bf16, on tensor cores: x is the left operand in tiles of 16 rows, w the right one in tiles of 8
 * outputs. The order of a sum is free, so that the fragments of two instructions, 32 elements of I,
 * are 16 bytes in a row of memory for each lane.
 *
 * f32, without them: a lane has 4 elements of I out of 128, of some outputs and up to 8 rows. */
#include "cuda/activation.cuh"
#include "cuda/device.cuh"
#include "cuda/few_rows.h"
#include "cuda/warp_sums.cuh"

#define WARPS 8
#define THREADS (WARPS * WARP)
#define TILE_OUTS 8
#define STEP_BF16 32 /* elements of I that a warp takes at once */
#define STEP_F32 (4 * WARP)
#define ROWS_BF16 32 /* of a block, at most */
#define ROWS_F32 8
#define MOST_INPUTS (1 << 30)
/* From so many outputs on blocks have more each, so that all are there at once, or rows of x are
 * read less often. */
#define SOME_OUTS 2048
#define MANY_OUTS 8192

struct FewRows {
    const void *x, *w, *bias; /* bias may be NULL */
    void *pre, *y;            /* pre may be NULL: then y is the sum itself, else gelu of it */
    int64_t outs;
    int inputs, rows;
};

/* Sum and bias to where they belong. */
template <typename T> __device__ static void put(const FewRows &p, int row, int64_t out, float sum)
{
    int64_t at = row * p.outs + out;
    if (p.pre != NULL) {
        static_cast<T *>(p.pre)[at] = from_f32<T>(sum);
        sum = act_value<T, ACT_GELU>(sum);
    }
    static_cast<T *>(p.y)[at] = from_f32<T>(sum);
}

/* Unchanged until it is used, so that nothing waits for it before. */
template <typename T> __device__ static T bias_of(const FewRows &p, int64_t out)
{
    return p.bias != NULL && out < p.outs ? static_cast<const T *>(p.bias)[out] : T{};
}

/* The weights and biases of the block's outputs, which lie in one piece. */
template <typename T> __device__ static void fetch(const FewRows &p, int64_t first, int64_t count)
{
    int64_t outs = p.outs - first < count ? p.outs - first : count;
    fetch_lines(static_cast<const T *>(p.w) + first * p.inputs,
                outs * p.inputs * (int64_t)sizeof(T));
    if (p.bias != NULL) {
        fetch_lines(static_cast<const T *>(p.bias) + first, outs * (int64_t)sizeof(T));
    }
}

/* 16 bytes at an element that is there, else zeros. No branch, so that many are on their way. */
template <typename T> __device__ static uint4 load_if(bool there, const T *from)
{
    uint4 raw;
    asm volatile("{\n"
                 ".reg .pred there;\n"
                 "setp.ne.s32 there, %5, 0;\n"
                 "mov.b32 %0, 0;\n"
                 "mov.b32 %1, 0;\n"
                 "mov.b32 %2, 0;\n"
                 "mov.b32 %3, 0;\n"
                 "@there ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 "}"
                 : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
                 : "l"(from), "r"((int)there));
    return raw;
}

/* sum (16 rows, 8 outputs) += 16 rows of a times 8 of b, over 16 elements. */
__device__ static void multiply(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* HALVES halves of a tile of rows, OUT_TILES tiles of outputs; DEPTH pieces of I are on their way
 * at once. A multiprocessor has room for RESIDENT blocks. */
template <int HALVES, int OUT_TILES, int DEPTH, int RESIDENT>
__global__ void __launch_bounds__(THREADS, RESIDENT) few_rows_bf16(FewRows p)
{
    constexpr int outs = OUT_TILES * TILE_OUTS, tiles = (HALVES + 1) / 2, rows = HALVES * 8;
    __shared__ float of_warps[WARPS][rows][outs];
    int warp = threadIdx.x / WARP, group = threadIdx.x % WARP / 4, quad = threadIdx.x % 4;
    int first_row = blockIdx.y * ROWS_BF16;
    int64_t first_out = (int64_t)blockIdx.x * outs;
    let_next_begin();
    fetch<Bf16>(p, first_out, outs);
    await_kernels_before();

    Bf16 bias = bias_of<Bf16>(p, first_out + threadIdx.x % outs);
    float sum[tiles][OUT_TILES][4] = {};
    int steps = (p.inputs + STEP_BF16 - 1) / STEP_BF16;
    for (int step = warp; step < steps; step += WARPS * DEPTH) {
        uint4 w[DEPTH][OUT_TILES], x[DEPTH][2 * tiles] = {};
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            int at = (step + d * WARPS) * STEP_BF16 + quad * 8;
#pragma unroll
            for (int n = 0; n < OUT_TILES; n++) {
                int64_t out = first_out + n * TILE_OUTS + group;
                w[d][n] = load_if(at < p.inputs && out < p.outs,
                                  static_cast<const Bf16 *>(p.w) + out * p.inputs + at);
            }
#pragma unroll
            for (int m = 0; m < HALVES; m++) {
                int row = first_row + m * 8 + group;
                x[d][m] = load_if(at < p.inputs && row < p.rows,
                                  static_cast<const Bf16 *>(p.x) + (int64_t)row * p.inputs + at);
            }
        }
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
#pragma unroll
            for (int m = 0; m < tiles; m++) {
                const uint4 &top = x[d][2 * m], &low = x[d][2 * m + 1];
#pragma unroll
                for (int n = 0; n < OUT_TILES; n++) {
                    multiply(sum[m][n], top.x, low.x, top.y, low.y, w[d][n].x, w[d][n].y);
                    multiply(sum[m][n], top.z, low.z, top.w, low.w, w[d][n].z, w[d][n].w);
                }
            }
        }
    }
#pragma unroll
    for (int m = 0; m < tiles; m++) {
#pragma unroll
        for (int n = 0; n < OUT_TILES; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int half = 2 * m + i / 2;
                if (half < HALVES) {
                    of_warps[warp][half * 8 + group][n * TILE_OUTS + quad * 2 + i % 2] =
                        sum[m][n][i];
                }
            }
        }
    }
    __syncthreads();
    int column = threadIdx.x % outs;
    for (int row = threadIdx.x / outs; row < rows && first_row + row < p.rows;
         row += THREADS / outs) {
        float all = of_warps[0][row][column];
#pragma unroll
        for (int other = 1; other < WARPS; other++) {
            all += of_warps[other][row][column];
        }
        if (first_out + column < p.outs) {
            put<Bf16>(p, first_row + row, first_out + column, all + to_f32(bias));
        }
    }
}

/* ROWS rows from ROWS_F32 times blockIdx.y on, OUTS outputs; DEPTH pieces of weights are on their
 * way at once. ROWS * OUTS is a power of 2 up to 32. */
template <int ROWS, int OUTS, int DEPTH>
__global__ void __launch_bounds__(THREADS, 2) few_rows_f32(FewRows p)
{
    constexpr int count = ROWS * OUTS;
    __shared__ float of_warps[WARPS][count];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, first_row = blockIdx.y * ROWS_F32;
    int64_t first_out = (int64_t)blockIdx.x * OUTS;
    let_next_begin();
    fetch<float>(p, first_out, OUTS);
    await_kernels_before();

    int row = first_row + threadIdx.x % ROWS;
    int64_t out = first_out + threadIdx.x / ROWS;
    float bias = bias_of<float>(p, threadIdx.x < count ? out : p.outs);
    float sum[count] = {}; /* (OUTS, ROWS) */
    int steps = (p.inputs + STEP_F32 - 1) / STEP_F32;
    for (int step = warp; step < steps; step += WARPS * DEPTH) {
        uint4 w[DEPTH][OUTS];
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            int at = (step + d * WARPS) * STEP_F32 + lane * 4;
#pragma unroll
            for (int o = 0; o < OUTS; o++) {
                w[d][o] =
                    load_if(at < p.inputs && first_out + o < p.outs,
                            static_cast<const float *>(p.w) + (first_out + o) * p.inputs + at);
            }
        }
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            int at = (step + d * WARPS) * STEP_F32 + lane * 4;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float x[4], weight[4];
                unpack<float>(load_if(at < p.inputs && first_row + r < p.rows,
                                      static_cast<const float *>(p.x) +
                                          (int64_t)(first_row + r) * p.inputs + at),
                              x);
#pragma unroll
                for (int o = 0; o < OUTS; o++) {
                    unpack<float>(w[d][o], weight);
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        sum[o * ROWS + r] = fmaf(x[k], weight[k], sum[o * ROWS + r]);
                    }
                }
            }
        }
    }
    float mine = warp_sum_of(sum);
    if (lane % (WARP / count) == 0) {
        of_warps[warp][lane / (WARP / count)] = mine;
    }
    __syncthreads();
    if (threadIdx.x < count && row < p.rows && out < p.outs) {
        float all = of_warps[0][threadIdx.x];
#pragma unroll
        for (int other = 1; other < WARPS; other++) {
            all += of_warps[other][threadIdx.x];
        }
        put<float>(p, row, out, all + bias);
    }
}

template <int OUTS>
static void launch(const CudaBackend *backend, const FewRows &p, unsigned groups,
                   void (*kernel)(FewRows))
{
    dim3 blocks((unsigned)ceil_div(p.outs, OUTS), groups);
    cuda_start(kernel, blocks, THREADS, 0, backend->stream, p);
}

static void launch_bf16(const CudaBackend *backend, const FewRows &p)
{
    unsigned groups = (unsigned)ceil_div(p.rows, ROWS_BF16);
    if (p.rows <= 8 && p.outs < SOME_OUTS) {
        launch<TILE_OUTS>(backend, p, 1, few_rows_bf16<1, 1, 6, 3>);
    } else if (p.rows <= 8 && p.outs < MANY_OUTS) {
        launch<2 * TILE_OUTS>(backend, p, 1, few_rows_bf16<1, 2, 4, 3>);
    } else if (p.rows <= 8) {
        launch<4 * TILE_OUTS>(backend, p, 1, few_rows_bf16<1, 4, 3, 2>);
    } else if (p.rows <= 16 && p.outs < MANY_OUTS) {
        launch<TILE_OUTS>(backend, p, 1, few_rows_bf16<2, 1, 4, 3>);
    } else if (p.rows <= 16) {
        launch<4 * TILE_OUTS>(backend, p, 1, few_rows_bf16<2, 4, 3, 2>);
    } else if (p.outs < MANY_OUTS) {
        launch<TILE_OUTS>(backend, p, groups, few_rows_bf16<4, 1, 3, 2>);
    } else {
        launch<4 * TILE_OUTS>(backend, p, groups, few_rows_bf16<4, 4, 2, 2>);
    }
}

static void launch_f32(const CudaBackend *backend, const FewRows &p)
{
    if (p.rows == 1 && p.outs < SOME_OUTS) {
        launch<4>(backend, p, 1, few_rows_f32<1, 4, 3>);
    } else if (p.rows == 1) {
        launch<8>(backend, p, 1, few_rows_f32<1, 8, 1>);
    } else if (p.rows == 2 && p.outs >= SOME_OUTS) {
        launch<8>(backend, p, 1, few_rows_f32<2, 8, 1>);
    } else if (p.rows <= 4) {
        launch<4>(backend, p, 1, few_rows_f32<4, 4, 2>);
    } else {
        launch<4>(backend, p, (unsigned)ceil_div(p.rows, ROWS_F32), few_rows_f32<8, 4, 1>);
    }
}

bool cuda_few_rows(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y)
{
    const CudaBackend *backend = cuda_of(c);
    bool narrow = x.dtype == DT_BF16;
    int64_t lanes = narrow ? wide_lanes<Bf16> : wide_lanes<float>;
    if (x.dim[0] > CUDA_FEW_ROWS || !(narrow || x.dtype == DT_F32) || x.dim[1] % lanes != 0 ||
        x.dim[1] > MOST_INPUTS || !aligned_16(x.data, w.data)) {
        return false;
    }
    FewRows p = {};
    p.x = x.data;
    p.w = w.data;
    p.bias = tensor_given(bias) ? bias.data : NULL;
    p.pre = tensor_given(pre) ? pre.data : NULL;
    p.y = y.data;
    p.outs = w.dim[0];
    p.inputs = (int)x.dim[1];
    p.rows = (int)x.dim[0];
    if (narrow) {
        launch_bf16(backend, p);
    } else {
        launch_f32(backend, p);
    }
    CUDA_LAUNCHED("few_rows");
    return true;
}
