#pragma once
/* TTT-Linear on tensor cores: what forward and backward share. A block has D/16 warps; warp w owns
 * columns [16 w, 16 w + 16) of every (16, D) result, and of the state W (D, D) the same columns,
 * held transposed in f32 as C fragments w[t][i]: output column 16 w + lane/4 (+ 8 for i >= 2),
 * input 8 t + 2 (lane % 4) + i % 2. Rounded to bf16, they are the B fragments of W as they lie.
 *
 * A state as forward keeps it for backward, per sequence, head and mini-batch: W transposed, (D,
 * D) bf16, as the products of the mini-batch used it, then b (D) f32. */
#include "cuda/ttt_rows.cuh"

typedef struct {
    const Bf16 *x, *index, *rate_bias, *gamma, *beta, *w1, *b1;
    const float *rope;
    const Bf16 *dout;
    Bf16 *out, *dx;
    unsigned char *states; /* of sequences from `first` on, or NULL */
    float *slots;          /* backward: (share, head) sums of parameter gradients */
    int64_t width;
    int batch, seq, heads, mini, steps;
    int first, count; /* sequences of this launch */
    int share;        /* sequences that a block of backward does one after the other */
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
