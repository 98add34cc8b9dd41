#pragma once
/* What the bf16 kernels of TTT_MLP share. A cluster of four blocks computes a pair (sequence,
 * head); block r of it has slice r of the hidden width 4 D: columns [r D, (r + 1) D) of W1 and the
 * same rows of W2. Sums over the hidden width are thus sums over the cluster: each block sends its
 * part to the shared memory of the others. For heads of 64 it is one block with four teams of warps
 * instead (ttt_mlp_block.cu, ttt_mlp_block_reverse.cu). A mini-batch is a tile of 16 rows; rows
 * beyond its end have q = k = v = 0 and lambda = 0.
 *
 * A block has D / 16 warps. Warp w has 16 columns of its own, [16 w, 16 w + 16), of a product
 * with D columns, be they of the slice or of the head. A state is kept transposed, as f32 C
 * fragments of 16 own columns by D, which rounded are B fragments as they lie in registers. Work
 * on whole rows, such as the inner norm, is done by the first four warps, four rows each, eight
 * lanes a row. */
#include "cuda/ttt_tile.cuh"
#include "cuda/wgmma.cuh"

#define MLP_SLICES 4
#define MLP_OWNED 4  /* rows of a tile that a block finishes: [4 r, 4 r + 4) */
#define MLP_SMALL 20 /* floats of a block's sums: 16 of tau, one of rate_bias, padding */

/* Kernels with clusters are for compute capability 9.0 and up; below, they are compiled empty. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define MLP_CLUSTERS 1
#else
#define MLP_CLUSTERS 0
#endif

typedef struct {
    const Bf16 *x, *dout;
    Bf16 *out, *dx;
    const Bf16 *index, *rate_bias, *gamma, *beta, *w1, *b1, *w2, *b2;
    const float *rope;
    int batch, seq, heads, mini, steps;
    int64_t width;
    float rate, eps;   /* base_rate / D */
    bool vectorise;    /* rows of x start at multiples of 16 bytes */
    bool vectorise_dx; /* and rows of dx at multiples of 4 */
    int first;         /* pair of the first cluster; pairs are numbered head * batch + sequence */
    unsigned char *records; /* of this launch's pairs, step by step: MlpRecord */
    float *partials;        /* of this launch's pairs: MlpPartial */
    float *small;           /* of all pairs: (pair, slice, MLP_SMALL) */
} MlpArgs;

/* What the backward pass has of a mini-batch: the state at its start as the products saw it, and
 * rows that took sums over the cluster. Tiles lie as in shared memory. */
template <int D> struct MlpRecord {
    unsigned char w1[MLP_SLICES][2 * D * D]; /* tiles: slice of W1, transposed */
    unsigned char w2[MLP_SLICES][2 * D * D]; /* slice of W2, transposed */
    float b1[MLP_SLICES][D];
    float z2[TTT_ROWS][D];
    float dzb2[TTT_ROWS][D];
    float p2[TTT_ROWS][TTT_ROWS];
    float4 stats[TTT_ROWS]; /* of z2: mean, 1 / sigma, mean of y, mean of y zh */
};

/* A pair's gradients, before they are summed over sequences. */
template <int D> struct MlpPartial {
    float w1[4 * D * D], w2[4 * D * D], b1[4 * D], b2[D];
    float norm[2 * MLP_SLICES][2]
              [D]; /* of gamma and beta: blocks of the re-scan, of the reverse scan */
};

template <int D> constexpr int mlp_threads = 2 * D;
template <int D>
constexpr int mlp_stride = D + 8; /* floats from row to row of a sum in shared memory */

/* ttt_mlp_forward.cu: the forward pass, or with records the re-scan for the backward pass, of
 * `pairs` pairs. */
void ttt_mlp_scan(const CudaBackend *backend, const MlpArgs &args, int head_dim, int pairs,
                  bool keep);
MlpArgs ttt_mlp_args(Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope);

/* ttt_mlp_block.cu: the same for heads of 64. */
void ttt_mlp_block_scan(const CudaBackend *backend, const MlpArgs &args, int pairs, bool keep);
int ttt_mlp_block_shared(); /* bytes of a block */

/* ttt_mlp_backward.cu: the reverse scan behind it; for heads of 64 ttt_mlp_block_reverse.cu. */
void ttt_mlp_reverse(const CudaBackend *backend, const MlpArgs &args, int head_dim, int pairs);
int ttt_mlp_reverse_shared(int head_dim); /* bytes of a block */
void ttt_mlp_block_reverse(const CudaBackend *backend, const MlpArgs &args, int pairs);
int ttt_mlp_block_reverse_shared();

/* ttt_mlp_gradients.cu: both, chunk by chunk, and the sums over sequences. */
void ttt_mlp_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                      Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                      void *ws);
size_t ttt_mlp_backward_ws(const Ctx *c, const TttShape *shape, DType dtype);

/* ---- Clusters ---- */

/* The address in the shared memory of block `rank` of the cluster that `address` is in this
 * one's. */
static __device__ __forceinline__ uint32_t cluster_map(uint32_t address, int rank)
{
    uint32_t mapped = 0;
#if MLP_CLUSTERS
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(mapped) : "r"(address), "r"(rank));
#endif
    return mapped;
}

/* Store to another block's shared memory, by addresses mapped to it; the bytes count for
 * `barrier` there, and are seen by who has waited for it. */
static __device__ __forceinline__ void cluster_send(uint32_t address, float value, uint32_t barrier)
{
#if MLP_CLUSTERS
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];\n" ::"r"(
            address),
        "f"(value), "r"(barrier)
        : "memory");
#endif
}

static __device__ __forceinline__ void cluster_send_quad(uint32_t address, float4 value,
                                                         uint32_t barrier)
{
#if MLP_CLUSTERS
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], "
                 "{%1,%2,%3,%4}, [%5];\n" ::"r"(address),
                 "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
                 : "memory");
#endif
}

/* Every thread of the cluster arrives, then waits. cluster_arrive: what was stored before is
 * seen after waiting. cluster_arrive_read: it says no more than that what was read before has
 * been read. */
static __device__ __forceinline__ void cluster_arrive()
{
#if MLP_CLUSTERS
    asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
#endif
}

static __device__ __forceinline__ void cluster_arrive_read()
{
#if MLP_CLUSTERS
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
#endif
}

static __device__ __forceinline__ void cluster_wait()
{
#if MLP_CLUSTERS
    asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#endif
}

/* Waits for the end of phase `phase` of a barrier that counts bytes; thread 0 then has the next
 * phase expect as many again. */
static __device__ __forceinline__ void receive(uint32_t barrier, int phase, uint32_t bytes)
{
    barrier_wait(barrier, phase % 2);
    if (threadIdx.x == 0) {
        barrier_arrive_expect(barrier, bytes);
    }
}

/* In a block of teams: every thread of a team arrives, then waits. */
static __device__ __forceinline__ void team_wait(int team)
{
    numbered_wait(1 + team, mlp_threads<64>);
}

/* ---- Fragments ---- */

/* The shared address of a tile, for use in one mini-batch: the compiler does not see that it is
 * the same in the next, else it would keep an address of every fragment of every tile in
 * registers all the time. */
static __device__ __forceinline__ uint32_t tile_address(const void *tile)
{
    uint32_t address = shared_address(tile);
    asm volatile("" : "+r"(address));
    return address;
}

/* 16 rows by 16 columns as C fragments. Rounded: round_to_a makes its A fragment a, of which
 * (a0, a2) and (a1, a3) are the B fragments of its transpose; round_transposed see ttt_tile.cuh. */
typedef float Square[2][4];

static __device__ __forceinline__ void set_all(Square &c, float value)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        c[i / 4][i % 4] = value;
    }
}

/* c += a b, b by its transposed fragment. */
static __device__ __forceinline__ void add_square(Square &c, const uint32_t (&a)[4],
                                                  const uint32_t (&t)[4])
{
    product(c[0], a, t[0], t[2]);
    product(c[1], a, t[1], t[3]);
}

/* c += a b, b being the own columns of a tile of 16 rows. */
template <int D>
static __device__ __forceinline__ void add_by_rows16(Square &c, const uint32_t (&a)[4],
                                                     uint32_t tile, int warp)
{
    uint32_t b[4];
    load_b_columns<D>(b, tile, 0, 2 * warp);
    product(c[0], a, b[0], b[1]);
    product(c[1], a, b[2], b[3]);
}

/* c += rows B, own columns; rows is a tile of 16 rows, B a tile of D rows. */
template <int D>
static __device__ __forceinline__ void add_product(Square &c, uint32_t rows, uint32_t tile,
                                                   int warp)
{
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[4], b[4];
        load_a<D>(a, rows, 0, 2 * k);
        load_b_columns<D>(b, tile, 16 * k, 2 * warp);
        product(c[0], a, b[0], b[1]);
        product(c[1], a, b[2], b[3]);
    }
}

/* c += rows B^T, own columns, which are rows of the tile B. */
template <int D>
static __device__ __forceinline__ void add_product_transposed(Square &c, uint32_t rows,
                                                              uint32_t tile, int row)
{
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[4], b[4];
        load_a<D>(a, rows, 0, 2 * k);
        load_b_rows<D>(b, tile, row, 2 * k);
        product(c[0], a, b[0], b[1]);
        product(c[1], a, b[2], b[3]);
    }
}

/* c += rows S, own columns; `state` holds the own columns of S, transposed. */
template <int D>
static __device__ __forceinline__ void add_product_state(Square &c, uint32_t rows,
                                                         const float (&state)[D / 8][4])
{
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        const float(&l)[4] = state[2 * k], (&h)[4] = state[2 * k + 1];
        uint32_t a[4];
        load_a<D>(a, rows, 0, 2 * k);
        product(c[0], a, pack_pair(l[0], l[1]), pack_pair(h[0], h[1]));
        product(c[1], a, pack_pair(l[2], l[3]), pack_pair(h[2], h[3]));
    }
}

/* state += factor a B, B a tile of 16 rows; a is 16 own columns by 16 rows of a mini-batch. */
template <int D>
static __device__ __forceinline__ void add_outer(float (&state)[D / 8][4], const uint32_t (&a)[4],
                                                 uint32_t tile, float factor)
{
#pragma unroll
    for (int n = 0; n < D / 16; n++) {
        uint32_t b[4];
        Square c;
        set_all(c, 0);
        load_b_columns<D>(b, tile, 0, 2 * n);
        product(c[0], a, b[0], b[1]);
        product(c[1], a, b[2], b[3]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            state[2 * n + i / 4][i % 4] += factor * c[i / 4][i % 4];
        }
    }
}

/* state += a B */
template <int D>
static __device__ __forceinline__ void add_outer(float (&state)[D / 8][4], const uint32_t (&a)[4],
                                                 uint32_t tile)
{
#pragma unroll
    for (int n = 0; n < D / 16; n++) {
        uint32_t b[4];
        load_b_columns<D>(b, tile, 0, 2 * n);
        product(state[2 * n], a, b[0], b[1]);
        product(state[2 * n + 1], a, b[2], b[3]);
    }
}

/* The A fragment of the transposed own columns of a tile of 16 rows. */
template <int D>
static __device__ __forceinline__ void load_own_transposed(uint32_t (&a)[4], uint32_t tile,
                                                           int warp)
{
    load_transposed(a, lane_along<D>(tile, 0, 2 * warp));
}

/* Own columns into a tile of 16 rows, and out of it. */
template <int D>
static __device__ __forceinline__ void put_own(unsigned char *tile, const Square &c, int warp)
{
    tile_put_columns<D, 2>(tile, 2 * warp, c);
}

template <int D>
static __device__ __forceinline__ void get_own(Square &c, const unsigned char *tile, int warp)
{
    tile_get_columns<D, 2>(c, tile, 2 * warp);
}

/* c = b in every row. */
static __device__ __forceinline__ void set_rows(Square &c, const float (&b)[2][2])
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        c[i / 4][i % 4] = b[i / 4][i % 2];
    }
}

/* A value for the row of element i of a Square, of two for its upper and lower rows. */
#define MLP_ROW(pair, i) ((pair)[(i) % 4 / 2])
#define MLP_AT(c, i) ((c)[(i) / 4][(i) % 4])

/* Over the eight lanes of a row. */
static __device__ __forceinline__ float row_sum(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    x += __shfl_xor_sync(~0u, x, 2);
    return x + __shfl_xor_sync(~0u, x, 4);
}

/* A pair of neighbouring columns of a row of a tile. */
template <int D>
static __device__ __forceinline__ void get_pair(float (&to)[2], const unsigned char *tile, int row,
                                                int column)
{
    unpack_pair(
        *reinterpret_cast<const uint32_t *>(tile + tile_at<D>(row, column / 8) + column % 8 * 2),
        to);
}

template <int D>
static __device__ __forceinline__ void put_pair(unsigned char *tile, int row, int column, float a,
                                                float b)
{
    *reinterpret_cast<uint32_t *>(tile + tile_at<D>(row, column / 8) + column % 8 * 2) =
        pack_pair(a, b);
}

/* A state into a tile of D rows, own columns as rows. */
template <int D>
static __device__ __forceinline__ void put_state(unsigned char *tile, const float (&s)[D / 8][4],
                                                 int warp)
{
    tile_put<D>(tile, 16 * warp, s, 1, 1);
}

/* Regroups the own columns of a Square for stores of 16 bytes: neighbouring lanes swap halves of
 * their rows, so that a lane has four columns of one row, of columns 0-7 in left and of 8-15 in
 * right. */
struct RowQuads {
    float4 left, right;
    int row, column; /* of left */

    __device__ __forceinline__ explicit RowQuads(const Square &c)
    {
        int lane = threadIdx.x % 32;
        bool odd = lane % 2;
        row = lane / 4 + (odd ? 8 : 0);
        column = lane % 4 / 2 * 4;
        float4 both[2];
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float x = __shfl_xor_sync(~0u, odd ? c[n][0] : c[n][2], 1);
            float y = __shfl_xor_sync(~0u, odd ? c[n][1] : c[n][3], 1);
            both[n] =
                odd ? make_float4(x, y, c[n][2], c[n][3]) : make_float4(c[n][0], c[n][1], x, y);
        }
        left = both[0];
        right = both[1];
    }
};

/* Sends a block's part of a sum, own columns of 16 rows, to recv[this block] of every block;
 * barrier: of this block, like that of the others. */
template <int D>
static __device__ __forceinline__ void send_to_all(float (*recv)[TTT_ROWS][mlp_stride<D>], int rank,
                                                   const Square &c, int warp, uint32_t barrier)
{
    RowQuads quads(c);
    uint32_t at = shared_address(&recv[rank][quads.row][16 * warp + quads.column]);
#pragma unroll
    for (int to = 0; to < MLP_SLICES; to++) {
        uint32_t there = cluster_map(at, to), counter = cluster_map(barrier, to);
        cluster_send_quad(there, quads.left, counter);
        cluster_send_quad(there + 32, quads.right, counter);
    }
}

/* Own columns of 16 rows as f32. */
template <int Stride>
static __device__ __forceinline__ void put_part(float (*rows)[Stride], const Square &c, int column)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            *reinterpret_cast<float2 *>(&rows[lane / 4 + 8 * half][column + 8 * j + lane % 4 * 2]) =
                make_float2(c[j][2 * half], c[j][2 * half + 1]);
        }
    }
}

/* Copies recv[this block], which all threads have put in place behind writes_ready and a barrier of
 * the block, to the same place in every other block. By the first threads. */
template <int D>
static __device__ __forceinline__ void copy_to_others(float (*recv)[TTT_ROWS][mlp_stride<D>],
                                                      int rank, uint32_t barrier)
{
#if MLP_CLUSTERS
    int to = threadIdx.x;
    if (to < MLP_SLICES && to != rank) {
        uint32_t from = shared_address(&recv[rank][0][0]);
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];\n" ::"r"(cluster_map(from, to)),
                     "r"(from), "r"((uint32_t)sizeof recv[0]), "r"(cluster_map(barrier, to))
                     : "memory");
    }
#endif
}

/* Sends rows to recv[this block] of the blocks that finish them. Stride is that of recv's rows. */
template <int Stride>
static __device__ __forceinline__ void send_to_owners(float (*recv)[MLP_OWNED][Stride], int rank,
                                                      const Square &c, int first_column,
                                                      uint32_t barrier)
{
    RowQuads quads(c);
    int owner = quads.row / MLP_OWNED;
    uint32_t counter = cluster_map(barrier, owner);
    uint32_t at = cluster_map(
        shared_address(&recv[rank][quads.row % MLP_OWNED][first_column + quads.column]), owner);
    cluster_send_quad(at, quads.left, counter);
    cluster_send_quad(at + 32, quads.right, counter);
}

/* ---- The activation ---- */

/* gelu in the tanh form, x s with s = sigmoid(2 u), u = a (x + b x^3); with its derivatives. */
struct Gelu {
    float value, slope, bend;

    __device__ __forceinline__ explicit Gelu(float x)
    {
        const float a = 0.7978845608028654f, b = 0.044715f;
        float square = x * x;
        float s = sigmoid_for<Bf16>(2 * a * (x + b * x * square));
        float u1 = a * (1 + 3 * b * square), decay = 2 * s * (1 - s);
        value = x * s;
        slope = s + x * decay * u1;
        /* x u2 / 2 = 3 a b x^2 = u1 - a; tanh(u) = 2 s - 1 */
        bend = 2 * decay * (2 * u1 - a - x * (2 * s - 1) * u1 * u1);
    }
};

/* ---- Tokens ---- */

/* Brings the mini-batches of a pair into tiles; what is fetched waits in registers until it is
 * placed. */
template <int D> struct MlpTokens {
    int head, sequence;
    float s;
    RowFetch<D, mlp_threads<D>> q, k, v;
    bool rate_valid;

    __device__ __forceinline__ MlpTokens(int of_head, int of_sequence)
        : head(of_head), sequence(of_sequence)
    {
    }

    __device__ __forceinline__ void fetch(const MlpArgs &a, int step)
    {
        int first = step * a.mini, count = min(a.mini, a.seq - first), part = a.heads * D;
        const Bf16 *at = a.x + ((int64_t)sequence * a.seq + first) * a.width + head * D;
        q.fetch(at, a.width, count, a.vectorise);
        k.fetch(at + part, a.width, count, a.vectorise);
        v.fetch(at + 2 * part, a.width, count, a.vectorise);
        rate_valid = (int)threadIdx.x < count;
        s = 0;
        if (rate_valid) {
            s = to_f32(at[threadIdx.x * a.width + 3 * part - head * D + head]) +
                to_f32(a.rate_bias[head]);
        }
    }

    /* rope is (16, D) in shared memory. gate is sigmoid(s + rate_bias), lambda = rate * gate, 0
     * in rows beyond the end. */
    __device__ __forceinline__ void place(unsigned char *q_tile, unsigned char *k_tile,
                                          unsigned char *v_tile, const float *rope, float *lambda,
                                          float *gate, float rate) const
    {
        q.put_turned(q_tile, rope);
        k.put_turned(k_tile, rope);
        *reinterpret_cast<uint4 *>(
            v_tile + tile_at<D>(threadIdx.x / (D / 8), threadIdx.x % (D / 8))) = v.raw[0];
        if (threadIdx.x < TTT_ROWS) {
            float open = 1 / (1 + expf(-s));
            lambda[threadIdx.x] = rate_valid ? rate * open : 0;
            gate[threadIdx.x] = open;
        }
    }
};

/* tau of the rows of a tile, 0 beyond the mini-batch; by the first 16 threads. */
static __device__ __forceinline__ void set_tau(float *tau, const MlpArgs &a)
{
    int i = threadIdx.x;
    if (i < TTT_ROWS) {
        tau[i] = i < a.mini ? position_factor(i, a.index[i]) : 0;
    }
}

/* ---- Launches ---- */

/* Launches `pairs` clusters. */
template <int D, typename Kernel>
static inline void mlp_launch(const char *name, Kernel kernel, int pairs, size_t shared,
                              cudaStream_t stream, const MlpArgs &args)
{
    CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared));
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = MLP_SLICES;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)pairs * MLP_SLICES);
    config.blockDim = dim3(mlp_threads<D>);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, args));
    CUDA_LAUNCHED(name);
}
