/* The flash kernels in f32: the same walk over blocks as the bf16 ones (attention_flash_forward.cu,
 * attention_flash_backward.cu), with plain multiply-adds, for any head dim up to 128 and any
 * alignment.
 *
 * A block of 128 threads owns 32 rows and walks over 32 rows at a time. Thread (y, x), x < 8,
 * has own rows 2y and 2y + 1: of their products with walked rows those with rows x, x + 8, x +
 * 16, x + 24, and of sums over the head dim the columns 4x .. 4x + 3 of every 32. The eight
 * threads of a row are neighbours in a warp. */
#include "cuda/attention_flash.cuh"

#define ROWS 32
#define THREADS 128
#define CHUNKS 4          /* of 32 columns of a head */
#define SQUARE (ROWS + 1) /* pitch of a (ROWS, ROWS) matrix */

typedef struct {
    const float *qkv, *out, *dout;
    float *result, *lse, *delta;
    int batch, seq, heads, kv_heads, dim;
    int blocks; /* of rows of a sequence */
    /* of a tile: dim rounded up to 8, and 4 more so that rows start in different banks */
    int pitch;
    float scale;
    Sight sight;
} Args;

/* Fills a (ROWS, pitch) tile; rows from `valid` on and columns from `dim` on become zero. */
static __device__ void load_rows(float *tile, const float *from, int64_t stride, int valid,
                                 const Args &a)
{
    for (int row = threadIdx.x / 32; row < ROWS; row += THREADS / 32) {
        for (int d = threadIdx.x % 32; d < a.pitch - 4; d += 32) {
            tile[row * a.pitch + d] = row < valid && d < a.dim ? from[row * stride + d] : 0.0f;
        }
    }
}

/* s[r][j] = row 2y + r of `own` by row x + 8j of `walked` */
static __device__ __forceinline__ void multiply_rows(float (&s)[2][4], const float *own,
                                                     const float *walked, const Args &a)
{
    int x = threadIdx.x % 8, y = threadIdx.x / 8;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        s[0][j] = s[1][j] = 0;
    }
    for (int d = 0; d < a.pitch - 4; d += 4) {
        float4 u[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            u[r] = *reinterpret_cast<const float4 *>(own + (2 * y + r) * a.pitch + d);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float4 w = *reinterpret_cast<const float4 *>(walked + (x + 8 * j) * a.pitch + d);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                s[r][j] = fmaf(u[r].x, w.x, s[r][j]);
                s[r][j] = fmaf(u[r].y, w.y, s[r][j]);
                s[r][j] = fmaf(u[r].z, w.z, s[r][j]);
                s[r][j] = fmaf(u[r].w, w.w, s[r][j]);
            }
        }
    }
}

/* sum (own rows, head dim) += p (own rows, walked rows) walked */
static __device__ __forceinline__ void add_rows(float (&sum)[2][CHUNKS][4], const float *p,
                                                const float *walked, const Args &a)
{
    int x = threadIdx.x % 8, y = threadIdx.x / 8;
    for (int j = 0; j < ROWS; j++) {
        float weight[2] = {p[2 * y * SQUARE + j], p[(2 * y + 1) * SQUARE + j]};
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int d = 4 * x + 32 * i;
            if (d < a.pitch - 4) {
                float4 w = *reinterpret_cast<const float4 *>(walked + j * a.pitch + d);
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    sum[r][i][0] = fmaf(weight[r], w.x, sum[r][i][0]);
                    sum[r][i][1] = fmaf(weight[r], w.y, sum[r][i][1]);
                    sum[r][i][2] = fmaf(weight[r], w.z, sum[r][i][2]);
                    sum[r][i][3] = fmaf(weight[r], w.w, sum[r][i][3]);
                }
            }
        }
    }
}

static __device__ __forceinline__ void clear(float (&sum)[2][CHUNKS][4])
{
#pragma unroll
    for (int i = 0; i < 2 * CHUNKS * 4; i++) {
        sum[i / (CHUNKS * 4)][i / 4 % CHUNKS][i % 4] = 0;
    }
}

/* Writes own rows below `valid`, row 2y + r times factor[r]. */
static __device__ __forceinline__ void store_rows(const float (&sum)[2][CHUNKS][4],
                                                  const float (&factor)[2], float *to,
                                                  int64_t stride, int valid, const Args &a)
{
    int x = threadIdx.x % 8, y = threadIdx.x / 8;
#pragma unroll
    for (int i = 0; i < 2 * CHUNKS * 4; i++) {
        int r = i / (CHUNKS * 4), chunk = i / 4 % CHUNKS, d = 4 * x + 32 * chunk + i % 4;
        if (2 * y + r < valid && d < a.dim) {
            to[(2 * y + r) * stride + d] = sum[r][chunk][i % 4] * factor[r];
        }
    }
}

/* A scaled score under its cap, cap * *share. */
static __device__ __forceinline__ float capped(float score, const Sight &sight, float *share)
{
    *share = tanhf(score * sight.inverse);
    return sight.cap * *share;
}

template <bool Bounded>
static __global__ void __launch_bounds__(THREADS) flash_forward_f32_kernel(Args a)
{
    extern __shared__ __align__(16) float memory[];
    float *q_tile = memory, *k_tile = q_tile + ROWS * a.pitch, *v_tile = k_tile + ROWS * a.pitch;
    float *p = v_tile + ROWS * a.pitch;
    int x = threadIdx.x % 8, y = threadIdx.x / 8;
    int head = blockIdx.x / a.blocks, h = head % a.heads, b = head / a.heads;
    int q0 = (a.blocks - 1 - (int)blockIdx.x % a.blocks) * ROWS;
    int64_t width = (int64_t)(a.heads + 2 * a.kv_heads) * a.dim, first_row = (int64_t)b * a.seq;
    const float *k =
        a.qkv + first_row * width + (int64_t)(a.heads + h / (a.heads / a.kv_heads)) * a.dim;
    const float *v = k + (int64_t)a.kv_heads * a.dim;
    int valid = min(ROWS, a.seq - q0);

    load_rows(q_tile, a.qkv + (first_row + q0) * width + (int64_t)h * a.dim, width, valid, a);
    constexpr float none = Bounded ? UNSEEN : -INFINITY;
    float o[2][CHUNKS][4], m[2] = {none, none}, l[2] = {0, 0};
    clear(o);
    for (int k0 = Bounded ? a.sight.first(b, q0) / ROWS * ROWS : 0; k0 <= q0; k0 += ROWS) {
        __syncthreads();
        load_rows(k_tile, k + k0 * width, width, a.seq - k0, a);
        load_rows(v_tile, v + k0 * width, width, a.seq - k0, a);
        __syncthreads();
        float s[2][4];
        multiply_rows(s, q_tile, k_tile, a);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float largest = m[r], sum = 0;
            int query = q0 + 2 * y + r, first = Bounded ? a.sight.first(b, query) : 0;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int key = k0 + x + 8 * j;
                s[r][j] *= a.scale;
                if (Bounded && a.sight.cap > 0) {
                    float share;
                    s[r][j] = capped(s[r][j], a.sight, &share);
                }
                s[r][j] = key <= query && key >= first ? s[r][j] : -INFINITY;
                largest = fmaxf(largest, s[r][j]);
            }
            for (int step = 1; step < 8; step *= 2) {
                largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float value = expf(s[r][j] - largest);
                p[(2 * y + r) * SQUARE + x + 8 * j] = value;
                sum += value;
            }
            for (int step = 1; step < 8; step *= 2) {
                sum += __shfl_xor_sync(~0u, sum, step);
            }
            float shrink = expf(m[r] - largest);
            m[r] = largest;
            l[r] = l[r] * shrink + sum;
#pragma unroll
            for (int i = 0; i < CHUNKS * 4; i++) {
                o[r][i / 4][i % 4] *= shrink;
            }
        }
        __syncwarp();
        add_rows(o, p, v_tile, a);
        __syncwarp();
    }
    float inverse[2] = {1.0f / l[0], 1.0f / l[1]};
    for (int r = 0; r < 2; r++) {
        if (x == 0 && 2 * y + r < valid) {
            a.lse[(int64_t)head * a.seq + q0 + 2 * y + r] = m[r] + logf(l[r]);
        }
    }
    int64_t out_width = (int64_t)a.heads * a.dim;
    store_rows(o, inverse, a.result + (first_row + q0) * out_width + (int64_t)h * a.dim, out_width,
               valid, a);
}

/* delta (B,H,T) = rowsum(dout * out), a warp per (row, head). */
static __global__ void __launch_bounds__(THREADS) flash_delta_f32_kernel(Args a)
{
    int64_t item = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
    if (item >= (int64_t)a.batch * a.seq * a.heads) {
        return;
    }
    float sum = 0;
    for (int d = threadIdx.x % 32; d < a.dim; d += 32) {
        sum = fmaf(a.out[item * a.dim + d], a.dout[item * a.dim + d], sum);
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    int64_t row = item / a.heads, h = item % a.heads, b = row / a.seq, t = row % a.seq;
    if (threadIdx.x % 32 == 0) {
        a.delta[(b * a.heads + h) * a.seq + t] = sum;
    }
}

/* Keys: blocks own keys and walk over the queries that see them (dK, dV); else the reverse (dQ). */
template <bool Keys, bool Bounded>
static __global__ void __launch_bounds__(THREADS) flash_backward_f32_kernel(Args a)
{
    extern __shared__ __align__(16) float memory[];
    int tile = ROWS * a.pitch;
    float *own = memory, *own2 = own + tile, *walked = own2 + tile, *walked2 = walked + tile;
    float *p = walked2 + tile, *ds = p + ROWS * SQUARE;
    int x = threadIdx.x % 8, y = threadIdx.x / 8;
    int group = a.heads / a.kv_heads, owners = Keys ? a.kv_heads : a.heads;
    int block = blockIdx.x % a.blocks, owner = blockIdx.x / a.blocks % owners;
    int64_t b = blockIdx.x / a.blocks / owners;
    int own0 = (Keys ? block : a.blocks - 1 - block) * ROWS, valid = min(ROWS, a.seq - own0);
    int h0 = Keys ? owner * group : owner, kv = Keys ? owner : owner / group;
    int64_t width = (int64_t)(a.heads + 2 * a.kv_heads) * a.dim;
    int64_t out_width = (int64_t)a.heads * a.dim;
    int64_t k_column = (int64_t)(a.heads + kv) * a.dim;
    int64_t v_column = k_column + (int64_t)a.kv_heads * a.dim;
    const float *rows = a.qkv + b * a.seq * width, *dout_rows = a.dout + b * a.seq * out_width;

    const float *own_rows = rows + own0 * width;
    load_rows(own, own_rows + (Keys ? k_column : (int64_t)h0 * a.dim), width, valid, a);
    if (Keys) {
        load_rows(own2, own_rows + v_column, width, valid, a);
    } else {
        load_rows(own2, dout_rows + own0 * out_width + (int64_t)h0 * a.dim, out_width, valid, a);
    }
    float sum[2][CHUNKS][4], sum_v[2][CHUNKS][4];
    clear(sum);
    clear(sum_v);
    int first = Keys ? block : 0, end = Keys ? a.blocks : own0 / ROWS + 1; /* blocks of the walk */
    if constexpr (Bounded && Keys) {
        end = a.sight.last((int)b, own0 + ROWS - 1) / ROWS + 1;
    } else if constexpr (Bounded) {
        first = a.sight.first((int)b, own0) / ROWS;
    }
    int per_head = end - first;
    for (int i = 0; i < (Keys ? per_head * group : per_head); i++) {
        int row0 = (first + (Keys ? i % per_head : i)) * ROWS, h = Keys ? h0 + i / per_head : h0;
        int left = a.seq - row0;
        const float *from = rows + row0 * width;
        const float *lse = a.lse + (b * a.heads + h) * a.seq;
        const float *delta = a.delta + (b * a.heads + h) * a.seq;
        __syncthreads();
        load_rows(walked, from + (Keys ? (int64_t)h * a.dim : k_column), width, left, a);
        if (Keys) {
            load_rows(walked2, dout_rows + row0 * out_width + (int64_t)h * a.dim, out_width, left,
                      a);
        } else {
            load_rows(walked2, from + v_column, width, left, a);
        }
        __syncthreads();
        float s[2][4], dp[2][4];
        multiply_rows(s, own, walked, a);
        multiply_rows(dp, own2, walked2, a);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            int r = e / 4, j = e % 4, at = (2 * y + r) * SQUARE + x + 8 * j;
            int own_row = own0 + 2 * y + r, walked_row = row0 + x + 8 * j;
            int query = Keys ? walked_row : own_row, key = Keys ? own_row : walked_row;
            bool seen = key <= query && query < a.seq;
            float score = s[r][j] * a.scale, share = 0; /* of the cap */
            if constexpr (Bounded) {
                seen = seen && key >= a.sight.first((int)b, query);
                if (a.sight.cap > 0) {
                    score = capped(score, a.sight, &share);
                }
            }
            float value = seen ? expf(score - lse[query]) : 0;
            p[at] = value;
            ds[at] = seen ? value * (dp[r][j] - delta[query]) : 0;
            if constexpr (Bounded) {
                ds[at] *= 1.0f - share * share;
            }
        }
        __syncwarp();
        add_rows(sum, ds, walked, a);
        if (Keys) {
            add_rows(sum_v, p, walked2, a);
        }
        __syncwarp();
    }
    float *to = a.result + (b * a.seq + own0) * width;
    store_rows(sum, {a.scale, a.scale}, to + (Keys ? k_column : (int64_t)h0 * a.dim), width, valid,
               a);
    if (Keys) {
        store_rows(sum_v, {1.0f, 1.0f}, to + v_column, width, valid, a);
    }
}

static Args arguments(Tensor qkv, HeadShape s, Tensor result, Tensor lse)
{
    Args a = {};
    a.qkv = (const float *)qkv.data;
    a.result = (float *)result.data;
    a.lse = (float *)lse.data;
    a.batch = (int)s.batch;
    a.seq = (int)s.seq;
    a.heads = (int)s.heads;
    a.kv_heads = (int)s.kv_heads;
    a.dim = (int)s.head_dim;
    a.blocks = (a.seq + ROWS - 1) / ROWS;
    a.pitch = (a.dim + 7) / 8 * 8 + 4;
    a.scale = (float)score_scale(s);
    a.sight = sight_of(s);
    return a;
}

/* Shared memory of a kernel with so many tiles and (ROWS, ROWS) matrices. */
static int shared_bytes(const Args &a, int tiles, int squares)
{
    return (tiles * ROWS * a.pitch + squares * ROWS * SQUARE) * (int)sizeof(float);
}

void flash_forward_f32(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor lse)
{
    Args a = arguments(qkv, shape, out, lse);
    flash_launch("flash_forward_f32",
                 cuda_bounded(shape) ? flash_forward_f32_kernel<true>
                                     : flash_forward_f32_kernel<false>,
                 (int64_t)a.batch * a.heads * a.blocks, THREADS, shared_bytes(a, 3, 1),
                 cuda_of(c)->stream, a);
}

void flash_backward_f32(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor lse, HeadShape shape,
                        Tensor dqkv, float *delta)
{
    cudaStream_t stream = cuda_of(c)->stream;
    Args a = arguments(qkv, shape, dqkv, lse);
    a.out = (const float *)out.data;
    a.dout = (const float *)dout.data;
    a.delta = delta;
    int64_t items = (int64_t)a.batch * a.seq * a.heads, blocks = (int64_t)a.batch * a.blocks;
    int shared = shared_bytes(a, 4, 2);
    flash_launch("flash_delta_f32", flash_delta_f32_kernel, (items * 32 + THREADS - 1) / THREADS,
                 THREADS, 0, stream, a);
    bool bounded = cuda_bounded(shape);
    flash_launch("flash_backward_f32, keys",
                 bounded ? flash_backward_f32_kernel<true, true>
                         : flash_backward_f32_kernel<true, false>,
                 blocks * a.kv_heads, THREADS, shared, stream, a);
    flash_launch("flash_backward_f32, queries",
                 bounded ? flash_backward_f32_kernel<false, true>
                         : flash_backward_f32_kernel<false, false>,
                 blocks * a.heads, THREADS, shared, stream, a);
}
