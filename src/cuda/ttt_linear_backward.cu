/* Backward of TTT-Linear on tensor cores: the kernel over sequences, the sum of parameter
 * gradients, and launches. A block adds what its sequences give to the parameters' gradients
 * into a slot of its own, and a second kernel sums the slots, in an order that the shape and the
 * GPU's size fix. Where forward kept no states, they are made again for some sequences at a
 * time. */
#include "cuda/ttt_linear_backward.cuh"

#include "base/assert.h"

/* States that are made again at a time, unless more are needed to keep the GPU busy. */
#define CHUNK_BYTES ((int64_t)256 << 20)

/* Blocks on a multiprocessor, limited by registers and shared memory. */
static constexpr int resident_blocks(int head_dim)
{
    return head_dim == 32 ? 4 : head_dim == 64 ? 3 : head_dim == 96 ? 2 : 1;
}

/* The end of the block; columns: as add_columns left it; shared: D floats that nobody uses any
 * more. */
template <int D>
static __device__ __forceinline__ void slot_put_sums(float *slot, const float4 *columns,
                                                     float *shared, const LaneSums &sums, int mini,
                                                     int warp, bool add)
{
    constexpr int warps = D / 16;
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        float4 all = columns[k * 2 * D + threadIdx.x];
        const float values[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float s = values[i];
            s += __shfl_xor_sync(~0u, s, 4);
            s += __shfl_xor_sync(~0u, s, 8);
            s += __shfl_xor_sync(~0u, s, 16);
            if (lane < 4) {
                int column = 16 * warp + i / 2 * 8 + lane * 2 + i % 2;
                slot_put(slot + D * D + (k + 1) * D + column, s, add);
            }
        }
    }
    float last = warp_sum(sums.last), rate_bias = warp_sum(sums.rate_bias);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = lane / 4 + 8 * half;
        float of_row = quad_sum(sums.tau[half]); /* of whole rows, in warp 0 */
        float s = of_row + (row == mini - 1 ? last : 0.0f);
        if (lane % 4 == 0) {
            shared[row * warps + warp] = s;
        }
    }
    __syncthreads();
    if (threadIdx.x < TTT_ROWS) {
        float s = 0;
        for (int w = 0; w < warps; w++) {
            s += shared[threadIdx.x * warps + w];
        }
        slot_put(slot + D * D + 3 * D + threadIdx.x, s, add);
    }
    if (threadIdx.x == 0) {
        slot_put(slot + D * D + 3 * D + TTT_ROWS, rate_bias, add);
    }
}

/* Given: a block has a share of the mini-batches of one sequence and head, whose gradients of
 * states are in the records. */
template <int D, bool Given>
static __global__ void __launch_bounds__(2 * D, resident_blocks(D))
    linear_backward(const TttLinearArgs a)
{
    typedef BackwardShared<D, Given> Layout;
    typedef Behind<D, Layout, true, Given> Loads;
    extern __shared__ __align__(128) unsigned char shared[];
    int warp = threadIdx.x / 32;
    int head = blockIdx.x % a.heads, block = blockIdx.x / a.heads;
    int begin = Given ? block % a.count : block * a.share;
    int end = Given ? begin + 1 : min(begin + a.share, a.count);
    int from = Given ? (a.steps - 1 - block / a.count * a.share) / a.share * a.share : 0;
    int inner = a.heads * D, padding = (int)(a.width - 3 * inner - a.heads);
    HeadConstants<D> &constants = *reinterpret_cast<HeadConstants<D> *>(shared + Layout::constants);
    LaneSums sums = {};
    float4 *columns = reinterpret_cast<float4 *>(shared + Layout::columns);
    Loads loads;
    if (begin >= end) {
        return;
    }
    rope_load<D, 2 * D>(reinterpret_cast<float *>(shared + Layout::rope), a.rope,
                        min(a.mini, a.seq));
    constants.load(a, head);
    columns[threadIdx.x] = columns[2 * D + threadIdx.x] = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int local = begin; local < end; local++) {
        int token = (a.first + local) * a.seq;
        int state = (local * a.heads + head) * a.steps; /* the first of the sequence */
        float dw[D / 8][4], db[2][2] = {};
#pragma unroll
        for (int t = 0; t < D / 8; t++) {
            dw[t][0] = dw[t][1] = dw[t][2] = dw[t][3] = 0;
        }
        if (Given && a.ready != NULL && threadIdx.x == 0) {
            await_chain(a.ready + local * a.heads + head, a.steps - from);
        }
        __syncthreads(); /* the rotary table, and the sequence before is done with the tiles */
        int step = (Given ? min(from + a.share, a.steps) : a.steps) - 1;
        auto fetch = [&](int of, int set) {
            loads.fetch(a, token, a.states + (state + of) * state_bytes(D),
                        Given ? a.records + (state + of) * record_bytes(D) : NULL, head, of, shared,
                        set);
        };
        fetch(step, step % 2);
        if constexpr (!Given) {
            put_slice<D>(shared + Layout::dw, dw, warp);
        }
        loads.put(a, constants.rate_bias, shared, step % 2);
        __syncthreads();
#pragma unroll 1
        for (; step >= from; step--) {
            int set = step % 2;
            int valid = min(a.mini, a.seq - step * a.mini);
            Bf16 *rows = a.dx + (int64_t)(token + step * a.mini) * a.width + head * D;
            backward_step<D, Given>(
                a, shared, set, dw, db, sums, head, rows, valid,
                [&]() {
                    if (step > from) {
                        fetch(step - 1, set ^ 1);
                    }
                },
                [&]() {
                    if (step > from) {
                        loads.put(a, constants.rate_bias, shared, set ^ 1);
                    }
                });
            if (head == a.heads - 1) {
                for (int i = threadIdx.x; i < valid * padding; i += 2 * D) {
                    rows[i / padding * a.width + 3 * inner - head * D + a.heads + i % padding] =
                        __float2bfloat16_rn(0.0f);
                }
            }
        }
        if constexpr (!Given) {
            slot_put_state<D>(a.slots + blockIdx.x * slot_floats(D), dw, db, warp,
                              a.add || local > begin);
        }
    }
    slot_put_sums<D>(a.slots + blockIdx.x * slot_floats(D), columns,
                     reinterpret_cast<float *>(shared + Layout::inner), sums, a.mini, warp, a.add);
    if (Given && a.ready != NULL && from == 0) {
        await_chains_kernel();
    }
}

/* ---- The sum of slots ---- */

typedef struct {
    const float *slots; /* (count, heads) */
    const Bf16 *index_value;
    float *w1, *b1, *gamma, *beta, *index, *rate_bias;
    int count;  /* of slots per head */
    int states; /* those of them that have w1 and b1, the first */
    int heads, head_dim, mini;
    bool add;
} FoldArgs;

#define FOLD_THREADS 256

/* A thread per element of a head's gradients, and in the last block a warp per element of index. */
static __global__ void __launch_bounds__(FOLD_THREADS) linear_fold(const FoldArgs a)
{
    int d = a.head_dim, size = d * d + 3 * d + 1; /* of a head: with rate_bias, without tau */
    int64_t stride = slot_floats(d);
    if (blockIdx.x + 1 == gridDim.x) {
        for (int i = threadIdx.x / WARP; i < a.mini; i += FOLD_THREADS / WARP) {
            float sum = 0;
#pragma unroll 8
            for (int k = threadIdx.x % WARP; k < a.count * a.heads; k += WARP) {
                sum += a.slots[k * stride + d * d + 3 * d + i];
            }
            sum = warp_sum(sum);
            if (threadIdx.x % WARP == 0) {
                bool moves = 1.0f / (float)(i + 1) + to_f32(a.index_value[i]) >= 0;
                slot_put(a.index + i, moves ? sum : 0.0f, a.add);
            }
        }
        return;
    }
    int64_t i = (int64_t)blockIdx.x * FOLD_THREADS + threadIdx.x;
    if (i >= (int64_t)a.heads * size) {
        return;
    }
    int head = (int)(i / size), at = (int)(i % size);
    int rest = at - d * d; /* among b1, gamma, beta, rate_bias */
    const float *from = a.slots + head * stride + (rest < 3 * d ? at : at + TTT_ROWS);
    float sum = 0;
#pragma unroll 8
    for (int k = 0; k < (rest < d ? a.states : a.count); k++) {
        sum += from[k * a.heads * stride];
    }
    if (rest < 0) {
        slot_put(a.w1 + ((int64_t)head * d + at % d) * d + at / d, sum, a.add);
    } else if (rest < 3 * d) {
        float *to = rest < d ? a.b1 : rest < 2 * d ? a.gamma : a.beta;
        slot_put(to + head * d + rest % d, sum, a.add);
    } else {
        slot_put(a.rate_bias + head, sum, a.add);
    }
}

/* ---- Launches ---- */

typedef struct {
    int64_t sequences; /* of a launch */
    int64_t share;     /* of them in a block */
    int64_t blocks;    /* per head */
    size_t slot_bytes, record_bytes, state_bytes, ready_bytes;
} Plan;

/* Where chains are split: slots of the blocks behind the reverse chains, records, states, and
 * counters of the scan and of the reverse chains. */
static Plan split_plan_of(const CudaBackend *backend, const TttShape *s, bool again)
{
    Plan p = {};
    int d = (int)s->head_dim;
    int64_t minis = s->batch * s->heads * ttt_steps(s);
    p.sequences = s->batch;
    p.share = chain_share(backend, s, resident_blocks(d), ttt_linear_beside(backend, s));
    p.blocks = chain_parts(s, p.share) * s->batch;
    p.slot_bytes = (size_t)(p.blocks * s->heads * slot_floats(d)) * sizeof(float);
    p.record_bytes = (size_t)(minis * record_bytes(d));
    p.state_bytes = again ? (size_t)(minis * state_bytes(d)) : 0;
    p.ready_bytes = ready_bytes(s);
    return p;
}

/* All blocks of a launch are on the GPU at once, if sequences suffice, and have about as many of
 * them each. */
static Plan plan_of(const CudaBackend *backend, const TttShape *s, bool again)
{
    Plan p = {};
    int d = (int)s->head_dim;
    int64_t busy = (int64_t)resident_blocks(d) * backend->processors;
    int64_t of_pair = ttt_steps(s) * state_bytes(d);
    int64_t pairs = CHUNK_BYTES / of_pair > busy ? CHUNK_BYTES / of_pair : busy;
    int64_t fit = again ? clamp_to(ceil_div(pairs, s->heads), 1, s->batch) : s->batch;
    p.sequences = ceil_div(s->batch, ceil_div(s->batch, fit));
    p.share = ceil_div(p.sequences, clamp_to(busy / s->heads, 1, p.sequences));
    p.blocks = ceil_div(p.sequences, p.share);
    p.slot_bytes = (size_t)(p.blocks * s->heads * slot_floats(d)) * sizeof(float);
    p.state_bytes = again ? (size_t)(p.sequences * s->heads * of_pair) : 0;
    return p;
}

int ttt_linear_backward_shared(int head_dim)
{
    return head_dim == 32   ? BackwardShared<32, false>::bytes
           : head_dim == 64 ? BackwardShared<64, false>::bytes
           : head_dim == 96 ? BackwardShared<96, false>::bytes
                            : BackwardShared<128, false>::bytes;
}

size_t ttt_linear_backward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    (void)dtype;
    const CudaBackend *backend = cuda_of(c);
    Plan p = ttt_linear_splits(backend, shape) ? split_plan_of(backend, shape, !c->ttt_keep)
                                               : plan_of(backend, shape, !c->ttt_keep);
    return 2 * p.ready_bytes + p.slot_bytes + p.record_bytes + p.state_bytes;
}

template <int D, bool Given>
static void launch(const CudaBackend *backend, int64_t blocks, const TttLinearArgs &args)
{
    launch_behind_chains("ttt_linear_backward", linear_backward<D, Given>, blocks, 2 * D,
                         BackwardShared<D, Given>::bytes, backend->stream, args);
}

static void fold(const CudaBackend *backend, const TttShape *shape, const TttLinearArgs &args,
                 int64_t count, int64_t states, const TttWeights *grads, Mode mode)
{
    FoldArgs f = {};
    f.slots = args.slots;
    f.index_value = args.index;
    f.w1 = (float *)grads->w1.data;
    f.b1 = (float *)grads->b1.data;
    f.gamma = (float *)grads->gamma.data;
    f.beta = (float *)grads->beta.data;
    f.index = (float *)grads->index.data;
    f.rate_bias = (float *)grads->rate_bias.data;
    f.count = (int)count;
    f.states = (int)states;
    f.heads = args.heads;
    f.head_dim = (int)shape->head_dim;
    f.mini = args.mini;
    f.add = mode == MODE_ADD;
    int64_t d = shape->head_dim, elements = shape->heads * (d * d + 3 * d + 1);
    linear_fold<<<(unsigned)(ceil_div(elements, FOLD_THREADS) + 1), FOLD_THREADS, 0,
                  backend->stream>>>(f);
    CUDA_LAUNCHED("ttt_linear_fold");
}

void ttt_linear_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                         Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                         void *ws)
{
    const CudaBackend *backend = cuda_of(c);
    bool again = !c->ttt_keep, split = ttt_linear_splits(backend, shape);
    Plan p = split ? split_plan_of(backend, shape, again) : plan_of(backend, shape, again);
    int d = (int)shape->head_dim;
    PACER_ASSERT(again || tensor_given(states), "the states that forward kept are missing");
    TttLinearArgs args = ttt_linear_args(x, shape, w, rope);
    args.dout = (const Bf16 *)dout.data;
    args.dx = (Bf16 *)dx.data;
    args.dout_wide = aligned_16(args.dout);
    args.dx_pairs = (uintptr_t)dx.data % 4 == 0 && args.width % 2 == 0;
    unsigned *ready = (unsigned *)ws;
    args.slots = (float *)((unsigned char *)ws + 2 * p.ready_bytes);
    args.records = (unsigned char *)args.slots + p.slot_bytes;
    args.states = again ? args.records + p.record_bytes : (unsigned char *)states.data;
    args.share = (int)p.share;
    PACER_ASSERT(aligned_16(args.states, args.slots), "workspace misses 16-byte alignment");
    if (split) {
        bool beside = ttt_linear_beside(backend, shape);
        if (beside) {
            CUDA_CHECK(cudaMemsetAsync(ready, 0, 2 * p.ready_bytes, backend->stream));
        }
        if (again) {
            args.ready = beside ? ready : NULL;
            ttt_linear_chain_scan(backend, d, args);
        }
        ttt_linear_chain_prepare(backend, shape, args);
        args.ready = beside ? ready + p.ready_bytes / sizeof *ready : NULL;
        ttt_linear_chain_reverse(backend, d, args);
        int64_t blocks = p.blocks * shape->heads;
        d == 32   ? launch<32, true>(backend, blocks, args)
        : d == 64 ? launch<64, true>(backend, blocks, args)
                  : launch<96, true>(backend, blocks, args);
        fold(backend, shape, args, p.blocks, shape->batch, grads, mode);
        return;
    }
    for (int64_t first = 0; first < shape->batch; first += p.sequences) {
        args.first = (int)first;
        args.count = (int)(shape->batch - first < p.sequences ? shape->batch - first : p.sequences);
        args.add = first > 0;
        if (again) {
            ttt_linear_scan(backend, d, args);
        }
        switch (d) {
        case 32:
            launch<32, false>(backend, p.blocks * shape->heads, args);
            break;
        case 64:
            launch<64, false>(backend, p.blocks * shape->heads, args);
            break;
        case 96:
            launch<96, false>(backend, p.blocks * shape->heads, args);
            break;
        default:
            launch<128, false>(backend, p.blocks * shape->heads, args);
            break;
        }
    }
    fold(backend, shape, args, p.blocks, p.blocks, grads, mode);
}
