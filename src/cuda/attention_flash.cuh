#pragma once
/* What the flash kernels share: tiles in shared memory, the tensor core product m16n8k16 with its
 * fragments, and the arguments of a launch.
 *
 * Fragments, for lane l of a warp (PTX's layouts):
 *   C (16 x 8, f32): c0 c1 at row l/4, columns 2(l%4) + 0,1; c2 c3 eight rows below.
 *   A (16 x 16): a0 a1 a2 a3 hold (rows 0-7, k 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15), a
 *   pair at row
 *     l/4 and k 2(l%4) each. Two neighbouring C fragments, rounded, thus are an A fragment.
 *   B (16 x 8): b0 b1 hold k 0-7 and 8-15, a pair at column l/4 and k 2(l%4).
 * A tile is (rows, D) bf16, row by row; the 16-byte chunks of a row are permuted by the row's
 * number so that eight rows of one chunk, which is what ldmatrix reads at a time, lie in
 * different banks. */
#include "cuda/attention_sight.cuh"

#define FLASH_WARPS 4
#define FLASH_THREADS (32 * FLASH_WARPS)
#define LOG2_E 1.4426950408889634f
/* The largest score so far of a query that has seen no key: of a bounded walk the first may be
 * beyond its sight. Unlike infinities it can be subtracted from itself. */
#define UNSEEN -1e30f

typedef struct {
    const Bf16 *qkv, *out, *dout; /* out and dout for backward only */
    Bf16 *result;                 /* out of forward, dqkv of backward */
    float *lse, *delta;           /* (B,H,T): read in backward; delta = rowsum(dout * out) */
    int batch, seq, heads, kv_heads;
    int blocks;         /* of rows of a sequence, per head */
    float scale;        /* of scores */
    const float *turns; /* (>= seq, D): cosines and sines to turn q and k by; NULL: they are */
    bool vectorise;     /* every row of every tensor starts at a multiple of 16 bytes */
    bool bounded; /* take the variant that minds the sight; the plain one is causal, no more */
    Sight sight;
} FlashArgs;

/* attention_flash_whole.cu: short sequences of narrow heads; backward needs no delta. */
bool flash_whole_covers(const CudaBackend *backend, HeadShape s, bool vectorise);
void flash_whole_forward(const CudaBackend *backend, const FlashArgs &args);
void flash_whole_backward(const CudaBackend *backend, const FlashArgs &args);

/* attention_flash_hopper.cu: forward on Hopper, where the program was compiled for sm_90a. */
bool flash_hopper_covers(const CudaBackend *backend, HeadShape s, bool vectorise);
void flash_hopper_forward(const CudaBackend *backend, const FlashArgs &args, int head_dim);

/* attention_flash_hopper_backward.cu: the same for backward; ws has as many bytes as asked for. */
bool flash_hopper_backward_covers(const CudaBackend *backend, HeadShape s, bool vectorise);
size_t flash_hopper_backward_ws(HeadShape s);
void flash_hopper_backward(const CudaBackend *backend, const FlashArgs &args, int head_dim,
                           void *ws);

/* f32, attention_flash_f32.cu; any head dim up to 128. */
void flash_forward_f32(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor lse);
void flash_backward_f32(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor lse, HeadShape shape,
                        Tensor dqkv, float *delta);

/* Bytes from the start of a tile of head dim D to a chunk. With D = 32 or 96 two rows share the
 * banks that one row of D = 64 takes. */
template <int D> __host__ __device__ constexpr uint32_t tile_at(int row, int chunk)
{
    return D % 64 == 0 ? row * (2 * D) + ((chunk ^ (row & 7)) << 4)
                       : row * (2 * D) + ((chunk ^ ((row >> 1) & 3)) << 4);
}

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Starts to copy 16 or 4 bytes, zeros when `valid` is false; `from` is an address of the tensor
 * in any case. */
static __device__ __forceinline__ void copy_async_16(uint32_t to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
}

static __device__ __forceinline__ void copy_async_4(uint32_t to, const void *from, bool valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from),
                 "r"(valid ? 4 : 0)
                 : "memory");
}

static __device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

/* Waits until at most `Pending` of the newest groups are under way. */
template <int Pending> static __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}

static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

/* tanh(x / (2 log2(e))), to about 1e-7. The instruction for it is off by 5e-4, which a cap of 50
 * would make an error of 2 % in a weight. */
static __device__ __forceinline__ float tanh_fast(float x)
{
    return 1.0f - __fdividef(2.0f, exp2_fast(x) + 1.0f);
}

/* What scores are times when weights are made of them: capped ones are final. */
template <bool Bounded> static __device__ __forceinline__ float score_unit(const FlashArgs &a)
{
    return Bounded && a.sight.cap > 0 ? 1.0f : a.scale;
}

/* Starts to fill a tile of `count` rows from rows `stride` elements apart; rows from `valid` on
 * become zero. By all threads of the block; complete after copy_wait and a barrier. */
template <int D, int Threads = FLASH_THREADS>
static __device__ __forceinline__ void tile_load(unsigned char *tile, int count, const Bf16 *from,
                                                 int64_t stride, int valid, bool vectorise)
{
    constexpr int chunks = D / 8, step = Threads / chunks; /* rows that all threads copy at once */
    uint32_t base = shared_address(tile);
    if (vectorise && Threads % chunks == 0 && step % 8 == 0) {
        /* From step to step a thread's addresses move by a constant. */
        int row = threadIdx.x / chunks, chunk = threadIdx.x % chunks;
        const Bf16 *at = from + row * stride + chunk * 8;
        uint32_t to = base + tile_at<D>(row, chunk);
#pragma unroll 4
        for (; row < count; row += step) {
            copy_async_16(to, row < valid ? at : from, row < valid);
            at += step * stride;
            to += step * (2 * D);
        }
    } else if (vectorise) {
#pragma unroll 4
        for (int i = threadIdx.x; i < count * chunks; i += Threads) {
            int row = i / chunks, chunk = i % chunks;
            bool inside = row < valid;
            copy_async_16(base + tile_at<D>(row, chunk),
                          from + (inside ? row : 0) * stride + chunk * 8, inside);
        }
    } else {
#pragma unroll 1
        for (int i = threadIdx.x; i < count * D; i += Threads) {
            int row = i / D, column = i % D;
            *reinterpret_cast<Bf16 *>(tile + tile_at<D>(row, column / 8) + column % 8 * 2) =
                row < valid ? from[row * stride + column] : __float2bfloat16(0.0f);
        }
    }
}

/* Writes rows [first, first + Rows) of a tile to those of the rows at `to` that are below
 * `valid`. By one warp. */
template <int D, int Rows>
static __device__ __forceinline__ void tile_store(const unsigned char *tile, int first, Bf16 *to,
                                                  int64_t stride, int valid, bool vectorise)
{
    constexpr int chunks = D / 8;
    int lane = threadIdx.x % 32;
    if (vectorise) {
#pragma unroll 4
        for (int i = lane; i < Rows * chunks; i += 32) {
            int row = first + i / chunks, chunk = i % chunks;
            if (row < valid) {
                *reinterpret_cast<uint4 *>(to + row * stride + chunk * 8) =
                    *reinterpret_cast<const uint4 *>(tile + tile_at<D>(row, chunk));
            }
        }
    } else {
#pragma unroll 1
        for (int i = lane; i < Rows * D; i += 32) {
            int row = first + i / D, column = i % D;
            if (row < valid) {
                to[row * stride + column] = *reinterpret_cast<const Bf16 *>(
                    tile + tile_at<D>(row, column / 8) + column % 8 * 2);
            }
        }
    }
}

/* Puts C fragments of 16 rows from `row` on into a tile, its upper and lower eight rows times
 * factors. */
template <int D>
static __device__ __forceinline__ void tile_put(unsigned char *tile, int row,
                                                const float (&c)[D / 8][4], float upper,
                                                float lower)
{
    int lane = threadIdx.x % 32;
    row += lane / 4;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        *reinterpret_cast<uint32_t *>(tile + tile_at<D>(row, n) + lane % 4 * 4) =
            pack_pair(c[n][0] * upper, c[n][1] * upper);
        *reinterpret_cast<uint32_t *>(tile + tile_at<D>(row + 8, n) + lane % 4 * 4) =
            pack_pair(c[n][2] * lower, c[n][3] * lower);
    }
}

/* The address that each lane gives to load the four 8 x 8 matrices of the 16 x 16 part of a tile
 * at (row, chunk), row a multiple of 8, chunk even: lane_row and lane_chunk are the lane's place
 * in the part. Under those conditions the permutation depends on lane_row alone and on the chunk
 * by a constant, so that the compiler keeps few addresses. */
template <int D>
static __device__ __forceinline__ uint32_t lane_address(uint32_t tile, int row, int chunk,
                                                        int lane_row, int lane_chunk)
{
    constexpr int permuted = D % 64 == 0 ? 7 : 3; /* bits of a chunk's number */
    return (tile_at<D>(lane_row, lane_chunk) ^ ((chunk & permuted) << 4)) +
           (tile + row * (2 * D) + (chunk & ~permuted) * 16);
}

/* The second matrix is that of the next eight rows. */
template <int D>
static __device__ __forceinline__ uint32_t lane_across(uint32_t tile, int row, int chunk)
{
    int lane = threadIdx.x % 32;
    return lane_address<D>(tile, row, chunk, lane % 16, lane / 16);
}

/* The second matrix is that of the next chunk. */
template <int D>
static __device__ __forceinline__ uint32_t lane_along(uint32_t tile, int row, int chunk)
{
    int lane = threadIdx.x % 32;
    return lane_address<D>(tile, row, chunk, lane % 8 + lane / 16 * 8, lane / 8 % 2);
}

static __device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

static __device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/* A fragment of tile[row.., 16 columns from chunk]. */
template <int D>
static __device__ __forceinline__ void load_a(uint32_t (&a)[4], uint32_t tile, int row, int chunk)
{
    load_matrices(a, lane_across<D>(tile, row, chunk));
}

/* B fragments of the transpose of tile[row.., 16 columns from chunk]: the tile's columns are k,
 * its first eight rows are the columns of fragment (b0, b1), the next eight those of (b2, b3). */
template <int D>
static __device__ __forceinline__ void load_b_rows(uint32_t (&b)[4], uint32_t tile, int row,
                                                   int chunk)
{
    load_matrices(b, lane_along<D>(tile, row, chunk));
}

/* B fragments of tile[row.., 16 columns from chunk] itself: the tile's rows are k, its first
 * eight columns those of (b0, b1), the next eight those of (b2, b3). */
template <int D>
static __device__ __forceinline__ void load_b_columns(uint32_t (&b)[4], uint32_t tile, int row,
                                                      int chunk)
{
    load_transposed(b, lane_across<D>(tile, row, chunk));
}

/* c += a b */
static __device__ __forceinline__ void product(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The A fragment that two neighbouring C fragments are. */
static __device__ __forceinline__ void round_to_a(uint32_t (&a)[4], const float (&left)[4],
                                                  const float (&right)[4])
{
    a[0] = pack_pair(left[0], left[1]);
    a[1] = pack_pair(left[2], left[3]);
    a[2] = pack_pair(right[0], right[1]);
    a[3] = pack_pair(right[2], right[3]);
}

/* Reductions over the four lanes that share a row of a C fragment. */
static __device__ __forceinline__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

static __device__ __forceinline__ float quad_sum(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/* ---- Launches ---- */

static inline FlashArgs flash_args(HeadShape s)
{
    FlashArgs a = {};
    a.batch = (int)s.batch;
    a.seq = (int)s.seq;
    a.heads = (int)s.heads;
    a.kv_heads = (int)s.kv_heads;
    a.scale = (float)score_scale(s);
    a.bounded = cuda_bounded(s);
    a.sight = sight_of(s);
    a.turns = (const float *)s.turns.data;
    return a;
}

/* A block of `kernel` may have `shared` bytes of shared memory, of which processors set aside as
 * much as they can, so that several blocks fit. */
template <typename Kernel> static inline void flash_allow(Kernel kernel, int shared)
{
    if (shared > 0) {
        CUDA_CHECK(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
        CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                        cudaSharedmemCarveoutMaxShared));
    }
}

/* Launches `kernel` with `blocks` blocks and `shared` bytes of shared memory each. */
template <typename Kernel, typename Args>
static inline void flash_launch(const char *name, Kernel kernel, int64_t blocks, int threads,
                                int shared, cudaStream_t stream, const Args &args)
{
    flash_allow(kernel, shared);
    kernel<<<(unsigned)blocks, threads, shared, stream>>>(args);
    CUDA_LAUNCHED(name);
}
