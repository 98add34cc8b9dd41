/* The optimizer's passes over flat f32 ranges, which may have more than 2^31 elements. The sum
 * of squares has two stages, each in an order that depends on the length and the device alone. */
#include "cuda/device.cuh"

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
        square_sums<4><<<blocks, FLAT_THREADS, 0, stream>>>(from, count, partials);
    } else {
        square_sums<1><<<blocks, FLAT_THREADS, 0, stream>>>(from, count, partials);
    }
    CUDA_LAUNCHED("square_sums");
    fold_squares<<<1, FOLD_THREADS, 0, stream>>>(partials, (int)blocks, (float *)out.data,
                                                 mode == MODE_ADD);
    CUDA_LAUNCHED("fold_squares");
}

/* A range of op_adamw or, without v, of op_sgd. */
struct UpdateRange {
    float *param;
    Bf16 *low; /* may be NULL */
    const float *grad;
    float *m, *v;
    const float *hyper, *norm_sq, *left_out; /* left_out may be NULL */
    float tokens;
    int64_t count;
    bool decay;
};

/* What all elements have in common. */
struct UpdateStep {
    float lr, beta1, beta2, rest1, rest2, eps, decay, correction1, correction2;
    float factor; /* of gradients: mean over tokens that count, and clipping */
};

__device__ static UpdateStep read_step(const UpdateRange &args)
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
    float clip = args.hyper[HYPER_CLIP];
    float left_out = args.left_out != NULL ? *args.left_out : 0, mean = 1;
    if (left_out > 0) {
        mean = left_out < args.tokens ? args.tokens / (args.tokens - left_out) : 0;
    }
    float norm = mean * sqrtf(*args.norm_sq);
    step.factor = mean * (clip > 0 ? fminf(1, clip / (norm + 1e-6f)) : 1);
    return step;
}

/* One update of LANES elements from `at` on; see op_adamw and op_sgd. */
template <bool Adaptive, int LANES>
__device__ static void update(const UpdateRange &args, const UpdateStep &step, int64_t at)
{
    float p[LANES], g[LANES], m[LANES], v[LANES];
    load_lanes(args.grad + at, g);
    load_lanes(args.param + at, p);
    load_lanes(args.m + at, m);
    if constexpr (Adaptive) {
        load_lanes(args.v + at, v);
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
    }
    store_lanes(args.m + at, m);
    if constexpr (Adaptive) {
        store_lanes(args.v + at, v);
    }
    store_lanes(args.param + at, p);
    if (args.low != NULL) {
        store_lanes(args.low + at, p);
    }
}

/* A block has UPDATE_ROUNDS pieces per thread; the first also takes the elements that fill no
 * piece. */
template <bool Adaptive, int LANES>
__global__ void __launch_bounds__(FLAT_THREADS, 4) update_range(UpdateRange args)
{
    UpdateStep step = read_step(args);
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

template <bool Adaptive, int LANES>
static void launch_update(cudaStream_t stream, UpdateRange range)
{
    int64_t blocks = ceil_div(range.count / LANES, FLAT_THREADS * UPDATE_ROUNDS);
    update_range<Adaptive, LANES>
        <<<(unsigned)clamp_to(blocks, 1, INT32_MAX), FLAT_THREADS, 0, stream>>>(range);
    CUDA_LAUNCHED("update_range");
}

template <bool Adaptive> static void update_all(Ctx *c, const UpdateArgs &args)
{
    if (args.param.dtype != DT_F32) {
        cuda_fail("update", "the GPU updates f32 only", __FILE__, __LINE__);
    }
    UpdateRange range;
    range.param = (float *)args.param.data;
    range.low = tensor_given(args.low) ? (Bf16 *)args.low.data : NULL;
    range.grad = (const float *)args.grad.data;
    range.m = (float *)args.state[0].data;
    range.v = Adaptive ? (float *)args.state[1].data : NULL;
    range.hyper = (const float *)args.hyper.data;
    range.norm_sq = (const float *)args.norm_sq.data;
    range.left_out = (const float *)args.left_out.data;
    range.tokens = (float)args.tokens;
    range.count = tensor_count(args.param);
    range.decay = args.decay;
    cudaStream_t stream = cuda_of(c)->stream;
    if (aligned_16(range.param, range.low, range.grad, range.m, range.v)) {
        launch_update<Adaptive, 4>(stream, range);
    } else {
        launch_update<Adaptive, 1>(stream, range);
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
