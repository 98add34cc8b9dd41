#pragma once
/* TTT-Linear on tensor cores: what forward and backward share. A block has D/16 warps; warp w owns
 * columns [16 w, 16 w + 16) of every (16, D) result, and of the state W (D, D) the same columns,
 * held transposed in f32 as C fragments w[t][i]: output column 16 w + lane/4 (+ 8 for i >= 2),
 * input 8 t + 2 (lane % 4) + i % 2. Rounded to bf16, they are the B fragments of W as they lie.
 *
 * A state as forward keeps it for backward, per sequence, head and mini-batch: W transposed, (D,
 * D) bf16, as the products of the mini-batch used it and with its chunks where a tile in shared
 * memory has them (tile_at), then b (D) f32. */
#include "cuda/ttt_rows.cuh"

typedef struct {
    const Bf16 *x, *index, *rate_bias, *gamma, *beta, *w1, *b1;
    const float *rope;
    const Bf16 *dout;
    Bf16 *out, *dx;
    unsigned char *states;  /* of sequences from `first` on, or NULL */
    unsigned char *records; /* of split chains: see record_bytes */
    unsigned *ready;        /* of split chains: of each chain, how many states, or gradients of
                             * states from its end on, are there; NULL: all of them */
    float *slots;           /* backward: (share, head) sums of parameter gradients */
    int64_t width;
    int batch, seq, heads, mini, steps;
    int first, count; /* sequences of this launch */
    int share;        /* sequences of a block of backward; where chains are split, mini-batches */
    float rate;       /* base_rate / D */
    float eps;
    bool x_wide, dout_wide;   /* every row of every head starts at a multiple of 16 bytes */
    bool out_pairs, dx_pairs; /* of 4 bytes */
    bool add;                 /* to the slots, rather than setting them */
} TttLinearArgs;

/* Bytes of a state, and floats of a slot: w1 transposed, b1, gamma, beta, 16 of tau, rate_bias,
 * padding. */
static __host__ __device__ constexpr int64_t state_bytes(int d)
{
    return 2 * (int64_t)d * d + 4 * d;
}

static __host__ __device__ constexpr int64_t slot_floats(int d)
{
    return (int64_t)d * d + 3 * d + 32;
}

/* Few chains, that is sequences and heads, are split (ttt_linear_chain.cuh): what depends on the
 * mini-batch before goes along the chain alone, the rest is done for many mini-batches at a time.
 * The reverse chain takes a record of each mini-batch, of what does not depend on the gradient that
 * it carries, and leaves in its place that gradient, laid out as a state. A record: tiles of k and
 * q, turned, and the fragments of a gradient; three times (16, D) f32; 16 rows; D f32. */
static __host__ __device__ constexpr int64_t record_bytes(int d)
{
    return 3 * 32 * d + 3 * 64 * d + 32 * TTT_ROWS + 4 * d;
}

/* Where the parts of a record lie. f32 fragments: a float4 per thread, then as many. rows: of each
 * inverse, mean y, mean y zh, rate; means of gamma^2 zh and gamma^2 zh^2. */
template <int D> struct Record {
    static constexpr int k = 0, q = 32 * D, dzb = 64 * D, zh = 96 * D, y = zh + 64 * D,
                         base = y + 64 * D, rows = base + 64 * D, sums = rows + 32 * TTT_ROWS;
    static_assert(sums + 4 * D == record_bytes(D) && record_bytes(D) % 16 == 0, "a record");
    static_assert(state_bytes(D) <= record_bytes(D), "a gradient fits the place of its record");
};

/* Mini-batches of a block that begins before the chain is at its end. */
#define SHARE_BESIDE 16

/* Mini-batches of a chain that a block takes where `resident` blocks fit a multiprocessor. */
static inline int64_t chain_share(const CudaBackend *backend, const TttShape *s, int resident,
                                  bool beside)
{
    if (beside) {
        return SHARE_BESIDE;
    }
    int64_t busy = (int64_t)resident * backend->processors, steps = ttt_steps(s);
    return ceil_div(steps, clamp_to(busy / (s->batch * s->heads), 1, steps));
}

/* Blocks per chain, none of them without a mini-batch. */
static inline int64_t chain_parts(const TttShape *s, int64_t share)
{
    return ceil_div(ttt_steps(s), share);
}

/* ttt_linear_chain.cu: along the chains. PACER_TTT_KERNEL in the environment, for tests and
 * comparisons: whole, never; split, always where it can be; passes, likewise but one pass after the
 * other. */
bool ttt_linear_splits(const CudaBackend *backend, const TttShape *shape);
/* Whether what takes the states, or their gradients, begins before the chains are at their ends. */
bool ttt_linear_beside(const CudaBackend *backend, const TttShape *shape);
/* The states of all mini-batches, along the chains. */
void ttt_linear_chain_scan(const CudaBackend *backend, int head_dim, const TttLinearArgs &args);

/* ttt_linear_reverse.cu: along the chains from their ends; records become gradients of states. Sets
 * w1 and b1 of the first slots, one per chain. */
int ttt_linear_reverse_shared(int head_dim); /* bytes of a block */
void ttt_linear_chain_reverse(const CudaBackend *backend, int head_dim, const TttLinearArgs &args);

/* Bytes of the counters of `ready`. */
static inline size_t ready_bytes(const TttShape *s)
{
    return (size_t)ceil_div(s->batch * s->heads * (int64_t)sizeof(unsigned), 256) * 256;
}

/* Launches a kernel behind that of the chains. Where it takes what they make while they make it,
 * it begins once all of them have begun, so that none is kept waiting for a processor by blocks
 * that wait for it. */
template <typename Kernel>
static inline void launch_behind_chains(const char *name, Kernel kernel, int64_t blocks,
                                        int threads, int shared, cudaStream_t stream,
                                        const TttLinearArgs &args)
{
    if (args.ready == NULL) {
        flash_launch(name, kernel, blocks, threads, shared, stream, args);
        return;
    }
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared));
    cuda_start(kernel, (unsigned)blocks, (unsigned)threads, (size_t)shared, stream, args);
    CUDA_LAUNCHED(name);
}

/* Until a chain is so far; by one thread, others behind a barrier of the block. */
static __device__ __forceinline__ void await_chain(const unsigned *ready, int count)
{
    unsigned now;
    for (;;) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(now) : "l"(ready) : "memory");
        if (now >= (unsigned)count) {
            return;
        }
        __nanosleep(200);
    }
}

/* The end of a block that a chain's end is for: the kernel of the chains is at its end, and with
 * the block's kernel so is it. */
static __device__ __forceinline__ void await_chains_kernel()
{
    await_kernels_before();
}

/* ttt_linear_parallel.cu: from the states the outputs; from the states and dout the records. */
void ttt_linear_chain_output(const CudaBackend *backend, const TttShape *shape, TttLinearArgs args);
void ttt_linear_chain_prepare(const CudaBackend *backend, const TttShape *shape,
                              TttLinearArgs args);

/* ttt_linear_forward.cu */
TttLinearArgs ttt_linear_args(Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope);
bool ttt_linear_covers(const CudaBackend *backend, const TttShape *shape, DType dtype);
/* Only the states of sequences [first, first + count). */
void ttt_linear_scan(const CudaBackend *backend, int head_dim, const TttLinearArgs &args);

/* ttt_linear_backward.cu */
int ttt_linear_backward_shared(int head_dim); /* bytes of a block */
void ttt_linear_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                         Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                         void *ws);
size_t ttt_linear_backward_ws(const Ctx *c, const TttShape *shape, DType dtype);

/* A head's constants in shared memory, from where lanes read them when they need them: registers
 * are scarce. */
template <int D> struct alignas(16) HeadConstants {
    float gamma[D], beta[D];
    float tau[TTT_ROWS]; /* 0 from the mini-batch's length on */
    float rate_bias;

    /* By all threads of the block, 2 D; complete after a barrier. */
    __device__ __forceinline__ void load(const TttLinearArgs &a, int head)
    {
        int i = threadIdx.x;
        if (i < D) {
            gamma[i] = to_f32(a.gamma[head * D + i]);
            beta[i] = to_f32(a.beta[head * D + i]);
        }
        if (i == 0) {
            rate_bias = to_f32(a.rate_bias[head]);
        }
        if (i < TTT_ROWS) {
            tau[i] = i < a.mini ? position_factor(i, a.index[i]) : 0.0f;
        }
    }
};

/* Values of the lane's columns. */
static __device__ __forceinline__ void get_columns(float (&to)[2][2], const float *of_head,
                                                   int warp)
{
    const float *from = of_head + 16 * warp + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float2 pair = *reinterpret_cast<const float2 *>(from + 8 * j);
        to[j][0] = pair.x;
        to[j][1] = pair.y;
    }
}

/* Starts to copy 16 rows of D into a tile, a 16-byte chunk per thread of a block of 2 D; rows
 * from `valid` on become zero. */
template <int D>
static __device__ __forceinline__ void chunk_load(unsigned char *tile, const Bf16 *from,
                                                  int64_t stride, int valid, bool vectorise)
{
    int row = threadIdx.x / (D / 8), chunk = threadIdx.x % (D / 8);
    bool inside = row < valid;
    const Bf16 *at = from + (inside ? row : 0) * stride + chunk * 8;
    unsigned char *to = tile + tile_at<D>(row, chunk);
    if (vectorise) {
        copy_async_16(shared_address(to), at, inside);
    } else {
#pragma unroll 1
        for (int i = 0; i < 8; i++) {
            reinterpret_cast<Bf16 *>(to)[i] = inside ? at[i] : __float2bfloat16(0.0f);
        }
    }
}

/* Turns the thread's own chunk by its rotary position, once its copy is complete; rope is (16,
 * D). */
template <int D>
static __device__ __forceinline__ void chunk_turn(unsigned char *tile, const float *rope)
{
    int row = threadIdx.x / (D / 8), chunk = threadIdx.x % (D / 8);
    float4 cosine = *reinterpret_cast<const float4 *>(rope + row * D + chunk * 4);
    float4 sine = *reinterpret_cast<const float4 *>(rope + row * D + chunk * 4 + D / 2);
    uint4 *at = reinterpret_cast<uint4 *>(tile + tile_at<D>(row, chunk)), raw = *at;
    *at = make_uint4(turned_pair(raw.x, cosine.x, sine.x), turned_pair(raw.y, cosine.y, sine.y),
                     turned_pair(raw.z, cosine.z, sine.z), turned_pair(raw.w, cosine.w, sine.w));
}

/* The learning rate of a row and its derivative by the row's s, by the first 16 threads. */
struct RateFetch {
    float s; /* minus infinity in padding: rate 0 */

    __device__ __forceinline__ void fetch(const Bf16 *from, int64_t stride, int valid)
    {
        s = (int)threadIdx.x < valid ? to_f32(from[threadIdx.x * stride]) : -INFINITY;
    }

    __device__ __forceinline__ void put(float *rates, float *slopes, float base, float bias) const
    {
        if (threadIdx.x < TTT_ROWS) {
            float rate = base * sigmoid_for<Bf16>(s + bias);
            rates[threadIdx.x] = rate;
            if (slopes != NULL) {
                slopes[threadIdx.x] = rate * sigmoid_for<Bf16>(-s - bias);
            }
        }
    }
};

/* a - b of the warp's columns of two tiles. */
template <int D>
static __device__ __forceinline__ void difference(float (&c)[2][4], const unsigned char *a,
                                                  const unsigned char *b, int warp)
{
    float other[2][4];
    tile_get_columns<D, 2>(c, a, 2 * warp);
    tile_get_columns<D, 2>(other, b, 2 * warp);
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            c[j][i] -= other[j][i];
        }
    }
}

/* c: its columns' values in both rows. */
static __device__ __forceinline__ void set_rows(float (&c)[2][4], const float (&value)[2][2])
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            c[j][i] = value[j][i % 2];
        }
    }
}

static __device__ __forceinline__ void set_all(float (&c)[2][4], float value)
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            c[j][i] = value;
        }
    }
}

/* B fragments of inputs 16 k .. 16 k + 15 of a transposed slice: (b0, b1) of its first eight
 * columns, (b2, b3) of the others. */
template <int D>
static __device__ __forceinline__ void slice_to_b(uint32_t (&b)[4], const float (&slice)[D / 8][4],
                                                  int k)
{
    b[0] = pack_pair(slice[2 * k][0], slice[2 * k][1]);
    b[1] = pack_pair(slice[2 * k + 1][0], slice[2 * k + 1][1]);
    b[2] = pack_pair(slice[2 * k][2], slice[2 * k][3]);
    b[3] = pack_pair(slice[2 * k + 1][2], slice[2 * k + 1][3]);
}

/* c += a times the 16 columns of b. */
static __device__ __forceinline__ void product_16(float (&c)[2][4], const uint32_t (&a)[4],
                                                  const uint32_t (&b)[4])
{
    product(c[0], a, b[0], b[1]);
    product(c[1], a, b[2], b[3]);
}

/* slice += a times the rows of a tile: a is the A fragment of a transposed (16, 16), the tile
 * (16, D). */
template <int D>
static __device__ __forceinline__ void add_to_slice(float (&slice)[D / 8][4],
                                                    const uint32_t (&a)[4], uint32_t tile)
{
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t columns[4];
        load_b_columns<D>(columns, tile, 0, 2 * k);
        product(slice[2 * k], a, columns[0], columns[1]);
        product(slice[2 * k + 1], a, columns[2], columns[3]);
    }
}

/* ---- Slots ---- */

/* Adds to, or sets, a float of the block's slot. */
static __device__ __forceinline__ void slot_put(float *to, float value, bool add)
{
    *to = add ? *to + value : value;
}

/* The end of a sequence: its gradient of the state that it started from. */
template <int D>
static __device__ __forceinline__ void slot_put_state(float *slot, const float (&dw)[D / 8][4],
                                                      const float (&db)[2][2], int warp, bool add)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int t = 0; t < D / 8; t++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = 16 * warp + lane / 4 + 8 * half;
            float2 *to = reinterpret_cast<float2 *>(slot + row * D + 8 * t + lane % 4 * 2);
            float2 value = make_float2(dw[t][2 * half], dw[t][2 * half + 1]);
            if (add) {
                value.x += to->x;
                value.y += to->y;
            }
            *to = value;
        }
    }
    if (lane < 4) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            slot_put(slot + D * D + 16 * warp + i / 2 * 8 + lane * 2 + i % 2, db[i / 2][i % 2],
                     add);
        }
    }
}
