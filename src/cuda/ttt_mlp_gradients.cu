/* TTT_MLP backward in bf16, around its two scans: pairs (sequence, head) are taken in chunks, so
 * that their records fit a workspace of bounded size, and the parameters' gradients are summed
 * over sequences, in order. */
#include "cuda/ttt_mlp.cuh"

#define WANTED_BYTES ((int64_t)256 << 20) /* of a chunk, if that keeps the device busy */
#define MOST_BYTES ((int64_t)1 << 30)     /* else */
#define SUM_THREADS 256
#define SMALL_THREADS 128

typedef struct {
    float *index, *rate_bias, *gamma, *beta, *w1, *b1, *w2, *b2;
    bool add;
} MlpGrads;

/* Element `at` of a pair's partial gradients, in the order w1, w2, b1, b2, gamma, beta. */
template <int D> __device__ static float partial_element(const MlpPartial<D> &p, int at)
{
    constexpr int plain = 8 * D * D + 5 * D;
    if (at < plain) {
        return p.w1[at]; /* w1, w2, b1, b2 follow one another */
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 2 * MLP_SLICES; i++) {
        sum += p.norm[i][(at - plain) / D][(at - plain) % D];
    }
    return sum;
}

/* Adds a chunk's partial gradients of one head, sequence by sequence. Sets for the head's first
 * sequences, unless grads.add. */
template <int D>
__global__ void __launch_bounds__(SUM_THREADS) mlp_sum(MlpArgs a, MlpGrads g, int pairs)
{
    const MlpPartial<D> *partials = reinterpret_cast<const MlpPartial<D> *>(a.partials);
    int at = blockIdx.x * SUM_THREADS + threadIdx.x, head = a.first / a.batch + blockIdx.y;
    if (at >= 8 * D * D + 7 * D) {
        return;
    }
    int from = max(head * a.batch, a.first), to = min((head + 1) * a.batch, a.first + pairs);
    float sum = 0;
    int p = from;
    for (; p + 4 <= to; p += 4) {
        float value[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            value[i] = partial_element<D>(partials[p + i - a.first], at);
        }
        sum += value[0];
        sum += value[1];
        sum += value[2];
        sum += value[3];
    }
    for (; p < to; p++) {
        sum += partial_element<D>(partials[p - a.first], at);
    }
    struct {
        float *to;
        int count;
    } const parts[] = {{g.w1, 4 * D * D}, {g.w2, 4 * D * D}, {g.b1, 4 * D},
                       {g.b2, D},         {g.gamma, D},      {g.beta, D}};
    float *out = NULL;
    int rest = at;
#pragma unroll
    for (int i = 0; i < 6; i++) {
        if (rest >= 0 && rest < parts[i].count) {
            out = parts[i].to + (int64_t)head * parts[i].count + rest;
        }
        rest -= parts[i].count;
    }
    *out = g.add || from > head * a.batch ? *out + sum : sum;
}

/* Blocks below `mini` sum the gradient of index, each of one position, the others that of
 * rate_bias, each of one head. */
__global__ void __launch_bounds__(SMALL_THREADS) mlp_sum_small(MlpArgs a, MlpGrads g)
{
    bool of_index = (int)blockIdx.x < a.mini;
    int i = of_index ? blockIdx.x : blockIdx.x - a.mini;
    int64_t count = (int64_t)a.batch * MLP_SLICES * (of_index ? a.heads : 1);
    const float *from = a.small + (of_index ? i : i * count * MLP_SMALL + TTT_ROWS);
    float sum = 0;
    for (int64_t j = threadIdx.x; j < count; j += SMALL_THREADS) {
        sum += from[j * MLP_SMALL];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        if (of_index && 1.0f / (i + 1) + to_f32(a.index[i]) < 0) {
            sum = 0;
        }
        float *to = (of_index ? g.index : g.rate_bias) + i;
        *to = g.add ? *to + sum : sum;
    }
}

/* ---- Launches ---- */

static int64_t pair_bytes(const TttShape *s)
{
    return s->head_dim == 64
               ? ttt_steps(s) * (int64_t)sizeof(MlpRecord<64>) + (int64_t)sizeof(MlpPartial<64>)
               : ttt_steps(s) * (int64_t)sizeof(MlpRecord<96>) + (int64_t)sizeof(MlpPartial<96>);
}

static int64_t small_bytes(const TttShape *s)
{
    return ceil_div(s->batch * s->heads * MLP_SLICES * MLP_SMALL * (int64_t)sizeof(float), 128) *
           128;
}

/* Pairs of a chunk: as many as fit the wanted bytes, or as the device takes at once; whole
 * rounds of them. */
static int chunk_pairs(const CudaBackend *backend, const TttShape *s)
{
    int64_t all = s->batch * s->heads, bytes = pair_bytes(s);
    int blocks = s->head_dim == 64 ? 1 : MLP_SLICES; /* of a pair */
    int64_t round = clamp_to(backend->processors / blocks, 1, all);
    int64_t pairs = clamp_to(WANTED_BYTES / bytes, 1, all);
    if (pairs < round) {
        pairs = clamp_to(MOST_BYTES / bytes, 1, round);
    } else if (pairs < all) {
        pairs = pairs / round * round;
    }
    return (int)pairs;
}

size_t ttt_mlp_backward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    const CudaBackend *backend = cuda_of(c);
    (void)dtype;
    return (size_t)(small_bytes(shape) + chunk_pairs(backend, shape) * pair_bytes(shape) + 128);
}

template <int D>
static void launch_sum(const CudaBackend *backend, const MlpArgs &args, const MlpGrads &grads,
                       int pairs)
{
    int heads = (args.first + pairs - 1) / args.batch - args.first / args.batch + 1;
    dim3 grid((unsigned)ceil_div(8 * D * D + 7 * D, SUM_THREADS), (unsigned)heads);
    mlp_sum<D><<<grid, SUM_THREADS, 0, backend->stream>>>(args, grads, pairs);
    CUDA_LAUNCHED("mlp_sum");
}

void ttt_mlp_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                      Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                      void *ws)
{
    (void)states;
    const CudaBackend *backend = cuda_of(c);
    int d = (int)shape->head_dim, all = (int)(shape->batch * shape->heads);
    int chunk = chunk_pairs(backend, shape);
    MlpGrads g = {
        (float *)grads->index.data, (float *)grads->rate_bias.data, (float *)grads->gamma.data,
        (float *)grads->beta.data,  (float *)grads->w1.data,        (float *)grads->b1.data,
        (float *)grads->w2.data,    (float *)grads->b2.data,        mode == MODE_ADD};
    unsigned char *base =
        reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(ws) + 127) / 128 * 128);
    MlpArgs args = ttt_mlp_args(x, shape, w, rope);
    args.dout = (const Bf16 *)dout.data;
    args.dx = (Bf16 *)dx.data;
    args.vectorise_dx = reinterpret_cast<uintptr_t>(dx.data) % 4 == 0 && shape->width % 2 == 0;
    args.small = (float *)base;
    args.records = base + small_bytes(shape);
    args.partials =
        (float *)(args.records + (pair_bytes(shape) - (d == 64 ? (int64_t)sizeof(MlpPartial<64>)
                                                               : (int64_t)sizeof(MlpPartial<96>))) *
                                     chunk);
    for (args.first = 0; args.first < all; args.first += chunk) {
        int pairs = all - args.first < chunk ? all - args.first : chunk;
        ttt_mlp_scan(backend, args, d, pairs, true);
        ttt_mlp_reverse(backend, args, d, pairs);
        d == 64 ? launch_sum<64>(backend, args, g, pairs) : launch_sum<96>(backend, args, g, pairs);
    }
    mlp_sum_small<<<(unsigned)(args.mini + args.heads), SMALL_THREADS, 0, backend->stream>>>(args,
                                                                                             g);
    CUDA_LAUNCHED("mlp_sum_small");
}
