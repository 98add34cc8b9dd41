/* The optimizer's passes over flat ranges, which may have more than 2^31 elements. The sum of
 * squares has two stages, each in an order that depends on the length and the device alone. */
#include "cuda/device.cuh"
#include "tensor/rounding.h"

#define FLAT_THREADS 256
#define SQUARES_FLIGHT 8 /* pieces that a thread has in flight */
#define SQUARES_BLOCKS 4 /* to a processor, all resident, so that they end together */
#define FOLD_THREADS 1024
#define UPDATE_ROUNDS 4

/* partials[blockIdx.x]: sum of squares of the pieces that the block takes. */
template <int LANES>
__global__ void __launch_bounds__(FLAT_THREADS, SQUARES_BLOCKS)
    square_sums(const float *x, int64_t count, float *partials)
{
    await_previous();
    int64_t pieces = count / LANES, step = (int64_t)gridDim.x * FLAT_THREADS;
    int64_t first = (int64_t)blockIdx.x * FLAT_THREADS + threadIdx.x;
    float sum[LANES] = {};
    add_many_lanes<SQUARES_FLIGHT, true>(x + first * LANES, step * LANES,
                                         steps_below(first, pieces, step), sum);
    int64_t rest = pieces * LANES + first;
    float total = rest < count ? x[rest] * x[rest] : 0;
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        total += sum[k];
    }
    total = block_sum(total);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = total;
    }
}

/* One block; out = or += sum of partials. */
__global__ void __launch_bounds__(FOLD_THREADS)
    fold_squares(const float *partials, int count, float *out, bool add)
{
    await_previous();
    float total = 0;
    for (int i = threadIdx.x; i < count; i += FOLD_THREADS) {
        total += partials[i];
    }
    total = block_sum(total);
    if (threadIdx.x == 0) {
        *out = add ? *out + total : total;
    }
}

/* Enough to fill the device, with at least one round of work for each. */
static unsigned square_blocks(const Ctx *c, Tensor x)
{
    int64_t rounds = ceil_div(tensor_count(x), 4 * FLAT_THREADS * SQUARES_FLIGHT);
    return (unsigned)clamp_to(rounds, 1, SQUARES_BLOCKS * (int64_t)cuda_of(c)->processors);
}

size_t cuda_sum_squares_ws(const Ctx *c, Tensor x)
{
    return (size_t)square_blocks(c, x) * sizeof(float);
}

void cuda_sum_squares(Ctx *c, Tensor x, Tensor out, Mode mode, void *ws)
{
    if (x.dtype != DT_F32) {
        cuda_fail("sum_squares", "the GPU sums f32 only", __FILE__, __LINE__);
    }
    const float *from = (const float *)x.data;
    float *partials = (float *)ws;
    int64_t count = tensor_count(x);
    cudaStream_t stream = cuda_of(c)->stream;
    unsigned blocks = square_blocks(c, x);
    if (aligned_16(from)) {
        cuda_start(square_sums<4>, blocks, FLAT_THREADS, 0, stream, from, count, partials);
    } else {
        cuda_start(square_sums<1>, blocks, FLAT_THREADS, 0, stream, from, count, partials);
    }
    CUDA_LAUNCHED("square_sums");
    cuda_start(fold_squares, 1, FOLD_THREADS, 0, stream, partials, (int)blocks, (float *)out.data,
               mode == MODE_ADD);
    CUDA_LAUNCHED("fold_squares");
}

/* A range of op_adamw or, without v, of op_sgd. State is float, or uint16_t for bf16; Master is
 * float, or uint16_t for what `low` lacks of it. */
template <typename State, typename Master> struct UpdateRange {
    Master *param;
    Bf16 *low; /* may be NULL where masters are whole */
    const float *grad;
    State *m, *v;
    const float *hyper, *norm_sq, *left_out; /* left_out may be NULL */
    float tokens;
    int64_t count;
    bool decay, as_is;
    int64_t index; /* of its first element, for random bits */
};

/* What all elements have in common. */
struct UpdateStep {
    float lr, beta1, beta2, rest1, rest2, eps, decay, correction1, correction2;
    float factor; /* of gradients: mean over tokens that count, and clipping */
    bool none;    /* no token counts */
    uint32_t key1, key2;
};

template <typename Range> __device__ static UpdateStep read_step(const Range &args)
{
    UpdateStep step;
    step.lr = args.hyper[HYPER_LR];
    step.beta1 = args.hyper[HYPER_BETA1];
    step.beta2 = args.hyper[HYPER_BETA2];
    step.rest1 = args.hyper[HYPER_REST1];
    step.rest2 = args.hyper[HYPER_REST2];
    step.eps = args.hyper[HYPER_EPS];
    step.decay = args.decay ? args.hyper[HYPER_DECAY] : 0;
    step.correction1 = 1 / args.hyper[HYPER_CORRECTION1];
    step.correction2 = 1 / args.hyper[HYPER_CORRECTION2];
    step.key1 = (uint32_t)args.hyper[HYPER_KEY1];
    step.key2 = (uint32_t)args.hyper[HYPER_KEY2];
    float clip = args.hyper[HYPER_CLIP];
    float left_out = args.left_out != NULL ? *args.left_out : 0, mean = 1;
    step.none = left_out > 0 && !(left_out < args.tokens);
    if (left_out > 0 && !args.as_is) {
        mean = args.tokens / (args.tokens - left_out);
    }
    float norm = mean * sqrtf(*args.norm_sq);
    step.factor = mean * (clip > 0 ? fminf(1, clip / (norm + 1e-6f)) : 1);
    return step;
}

/* LANES numbers of 16 bits, one or four: 8 bytes at a multiple of 8. */
template <int LANES> __device__ static void load_halves(const uint16_t *from, uint32_t (&to)[LANES])
{
    if constexpr (LANES == 1) {
        to[0] = *from;
    } else {
        static_assert(LANES == 4, "8 bytes");
        uint2 words = *reinterpret_cast<const uint2 *>(from);
        to[0] = words.x & 0xFFFF;
        to[1] = words.x >> 16;
        to[2] = words.y & 0xFFFF;
        to[3] = words.y >> 16;
    }
}

template <int LANES>
__device__ static void store_halves(uint16_t *to, const uint32_t (&from)[LANES])
{
    if constexpr (LANES == 1) {
        *to = (uint16_t)from[0];
    } else {
        static_assert(LANES == 4, "8 bytes");
        *reinterpret_cast<uint2 *>(to) =
            make_uint2(from[0] | from[1] << 16, from[2] | from[3] << 16);
    }
}

template <int LANES> __device__ static void load_state(const float *from, float (&to)[LANES])
{
    load_lanes(from, to);
}

template <int LANES> __device__ static void load_state(const uint16_t *from, float (&to)[LANES])
{
    uint32_t halves[LANES];
    load_halves(from, halves);
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        to[k] = __uint_as_float(halves[k] << 16);
    }
}

template <int LANES>
__device__ static void store_state(float *to, const float (&from)[LANES], const uint32_t (&)[LANES],
                                   int)
{
    store_lanes(to, from);
}

/* Rounded by 16 of the random bits, from `shift` on. */
template <int LANES>
__device__ static void store_state(uint16_t *to, const float (&from)[LANES],
                                   const uint32_t (&random)[LANES], int shift)
{
    uint32_t halves[LANES];
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        halves[k] = bf16_by_chance(__float_as_uint(from[k]), random[k] >> shift & 0xFFFF);
    }
    store_halves(to, halves);
}

template <int LANES>
__device__ static void load_master(const float *param, const Bf16 *, int64_t at, float (&to)[LANES])
{
    load_lanes(param + at, to);
}

template <int LANES>
__device__ static void load_master(const uint16_t *param, const Bf16 *low, int64_t at,
                                   float (&to)[LANES])
{
    uint32_t rest[LANES], upper[LANES];
    load_halves(param + at, rest);
    load_halves(reinterpret_cast<const uint16_t *>(low) + at, upper);
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        to[k] = __uint_as_float(master_join((uint16_t)upper[k], (uint16_t)rest[k]));
    }
}

template <int LANES>
__device__ static void store_master(float *param, Bf16 *low, int64_t at, const float (&from)[LANES])
{
    store_lanes(param + at, from);
    if (low != NULL) {
        store_lanes(low + at, from);
    }
}

template <int LANES>
__device__ static void store_master(uint16_t *param, Bf16 *low, int64_t at,
                                    const float (&from)[LANES])
{
    uint32_t rest[LANES], upper[LANES];
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        SplitMaster split = master_split(__float_as_uint(from[k]));
        rest[k] = split.rest;
        upper[k] = split.low;
    }
    store_halves(param + at, rest);
    store_halves(reinterpret_cast<uint16_t *>(low) + at, upper);
}

/* One update of LANES elements from `at` on; see op_adamw and op_sgd. */
template <bool Adaptive, int LANES, typename State, typename Master>
__device__ static void update(const UpdateRange<State, Master> &args, const UpdateStep &step,
                              int64_t at)
{
    float p[LANES], g[LANES], m[LANES], v[LANES];
    uint32_t random[LANES] = {};
    load_lanes(args.grad + at, g);
    load_master(args.param, args.low, at, p);
    load_state(args.m + at, m);
    if constexpr (Adaptive) {
        load_state(args.v + at, v);
    }
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        g[k] *= step.factor;
        if constexpr (Adaptive) {
            m[k] = step.beta1 * m[k] + step.rest1 * g[k];
            v[k] = step.beta2 * v[k] + step.rest2 * g[k] * g[k];
            p[k] -= step.lr * step.decay * p[k];
            p[k] -=
                step.lr * (m[k] * step.correction1) / (sqrtf(v[k] * step.correction2) + step.eps);
        } else {
            m[k] = step.beta1 * m[k] + g[k];
            p[k] -= step.lr * (m[k] + step.decay * p[k]);
        }
        if constexpr (sizeof(State) == 2) {
            random[k] = rounding_bits(step.key1, step.key2, (uint64_t)(args.index + at + k));
        }
    }
    store_state(args.m + at, m, random, 0);
    if constexpr (Adaptive) {
        store_state(args.v + at, v, random, 16);
    }
    store_master(args.param, args.low, at, p);
}

/* A block has UPDATE_ROUNDS pieces per thread; the first also takes the elements that fill no
 * piece. */
template <bool Adaptive, int LANES, typename State, typename Master>
__global__ void __launch_bounds__(FLAT_THREADS, 4) update_range(UpdateRange<State, Master> args)
{
    await_previous();
    UpdateStep step = read_step(args);
    if (step.none) {
        return;
    }
    int64_t pieces = args.count / LANES;
    int64_t first = (int64_t)blockIdx.x * (FLAT_THREADS * UPDATE_ROUNDS) + threadIdx.x;
    int64_t last = min(first + FLAT_THREADS * UPDATE_ROUNDS, pieces);
    for (int64_t i = first; i < last; i += FLAT_THREADS) {
        update<Adaptive, LANES>(args, step, i * LANES);
    }
    int64_t rest = pieces * LANES + threadIdx.x;
    if (blockIdx.x == 0 && rest < args.count) {
        update<Adaptive, 1>(args, step, rest);
    }
}

template <bool Adaptive, int LANES, typename State, typename Master>
static void launch_update(cudaStream_t stream, UpdateRange<State, Master> range)
{
    int64_t blocks = ceil_div(range.count / LANES, FLAT_THREADS * UPDATE_ROUNDS);
    cuda_start(update_range<Adaptive, LANES, State, Master>,
               (unsigned)clamp_to(blocks, 1, INT32_MAX), FLAT_THREADS, 0, stream, range);
    CUDA_LAUNCHED("update_range");
}

template <bool Adaptive, typename State, typename Master>
static void update_typed(Ctx *c, const UpdateArgs &args)
{
    UpdateRange<State, Master> range;
    range.param = (Master *)args.param.data;
    range.low = tensor_given(args.low) ? (Bf16 *)args.low.data : NULL;
    range.grad = (const float *)args.grad.data;
    range.m = (State *)args.state[0].data;
    range.v = Adaptive ? (State *)args.state[1].data : NULL;
    range.hyper = (const float *)args.hyper.data;
    range.norm_sq = (const float *)args.norm_sq.data;
    range.left_out = (const float *)args.left_out.data;
    range.tokens = (float)args.tokens;
    range.count = tensor_count(args.param);
    range.decay = args.decay;
    range.as_is = args.as_is;
    range.index = args.index;
    cudaStream_t stream = cuda_of(c)->stream;
    if (aligned_16(range.param, range.low, range.grad, range.m, range.v)) {
        launch_update<Adaptive, 4>(stream, range);
    } else {
        launch_update<Adaptive, 1>(stream, range);
    }
}

template <bool Adaptive> static void update_all(Ctx *c, const UpdateArgs &args)
{
    if (args.grad.dtype != DT_F32) {
        cuda_fail("update", "the GPU updates f32 only", __FILE__, __LINE__);
    }
    bool low = args.state[0].dtype == DT_BF16, split = args.param.dtype == DT_REST;
    if (split) {
        low ? update_typed<Adaptive, uint16_t, uint16_t>(c, args)
            : update_typed<Adaptive, float, uint16_t>(c, args);
    } else {
        low ? update_typed<Adaptive, uint16_t, float>(c, args)
            : update_typed<Adaptive, float, float>(c, args);
    }
}

void cuda_adamw(Ctx *c, UpdateArgs args)
{
    update_all<true>(c, args);
}

void cuda_sgd(Ctx *c, UpdateArgs args)
{
    update_all<false>(c, args);
}
