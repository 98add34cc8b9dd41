#pragma once
/* What the tensor core kernels of test-time training share. A block has one head of one sequence at
 * a time and goes along its mini-batches; a mini-batch is a tile of 16 rows (attention_flash.cuh:
 * tiles, fragments, products), whose rows from its length on are padding: q = k = v = 0, rate 0,
 * output gradient 0.
 *
 * A warp owns some columns of every (16, D) result, as C fragments c[tile][i]: rows `half` = i /
 * 2 (lane/4 and eight below), columns 8 * tile + 2 (lane % 4) + i % 2 of the warp's.
 * ttt_rows.cuh has what takes whole rows: the norm and the inner gradient. */
#include "cuda/attention_flash.cuh"

#define TTT_ROWS 16 /* of a tile */

/* What the arguments of every kernel have in common. */
template <typename Args>
static void fill_common(Args &a, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope)
{
    typedef __nv_bfloat16 Element;
    a.x = (const Element *)x.data;
    a.index = (const Element *)w->index.data;
    a.rate_bias = (const Element *)w->rate_bias.data;
    a.gamma = (const Element *)w->gamma.data;
    a.beta = (const Element *)w->beta.data;
    a.w1 = (const Element *)w->w1.data;
    a.b1 = (const Element *)w->b1.data;
    a.rope = (const float *)rope.data;
    a.width = shape->width;
    a.batch = (int)shape->batch;
    a.seq = (int)shape->seq;
    a.heads = (int)shape->heads;
    a.mini = (int)shape->mini;
    a.steps = (int)ttt_steps(shape);
    a.rate = (float)(shape->base_rate / (double)shape->head_dim);
    a.eps = (float)shape->eps;
}

/* ---- Fragments ---- */

/* The transpose of an 8 x 8 matrix of bf16, of which a lane holds the pair at row lane/4, column
 * 2 (lane%4). */
static __device__ __forceinline__ uint32_t transpose_pairs(uint32_t x)
{
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(y) : "r"(x));
    return y;
}

/* Rounds c (16 x 16, two C fragments) and transposes it: t is the A fragment of the transpose,
 * and (t[j], t[j + 2]) is the B fragment of columns 8 j .. 8 j + 7 of c itself. */
static __device__ __forceinline__ void round_transposed(uint32_t (&t)[4], const float (&c)[2][4])
{
    t[0] = transpose_pairs(pack_pair(c[0][0], c[0][1]));
    t[1] = transpose_pairs(pack_pair(c[1][0], c[1][1]));
    t[2] = transpose_pairs(pack_pair(c[0][2], c[0][3]));
    t[3] = transpose_pairs(pack_pair(c[1][2], c[1][3]));
}

/* The A fragment of the transpose of the 16 x 16 matrix whose A fragment is a. */
static __device__ __forceinline__ void transpose_a(uint32_t (&t)[4], const uint32_t (&a)[4])
{
    t[0] = transpose_pairs(a[0]);
    t[1] = transpose_pairs(a[2]);
    t[2] = transpose_pairs(a[1]);
    t[3] = transpose_pairs(a[3]);
}

/* Clears what lies above the diagonal of two C fragments, a 16 x 16 matrix. */
static __device__ __forceinline__ void keep_lower(float (&c)[2][4])
{
    int lane = threadIdx.x % 32;
    int excess = lane % 4 * 2 - lane / 4; /* column less row of c[0][0] */
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            c[j][i] = excess + 8 * j + i % 2 - i / 2 * 8 > 0 ? 0.0f : c[j][i];
        }
    }
}

/* Rounds C fragments of 16 rows into columns [8 * chunk, 8 * (chunk + Tiles)) of a tile. */
template <int D, int Tiles>
static __device__ __forceinline__ void tile_put_columns(unsigned char *tile, int chunk,
                                                        const float (&c)[Tiles][4])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < Tiles; j++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            *reinterpret_cast<uint32_t *>(tile + tile_at<D>(lane / 4 + 8 * half, chunk + j) +
                                          lane % 4 * 4) =
                pack_pair(c[j][2 * half], c[j][2 * half + 1]);
        }
    }
}

/* The C fragments that these columns of a tile are, as pairs: pairs[tile][half]. */
template <int D, int Tiles>
static __device__ __forceinline__ void tile_get_pairs(uint32_t (&pairs)[Tiles][2],
                                                      const unsigned char *tile, int chunk)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < Tiles; j++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            pairs[j][half] = *reinterpret_cast<const uint32_t *>(
                tile + tile_at<D>(lane / 4 + 8 * half, chunk + j) + lane % 4 * 4);
        }
    }
}

template <int D, int Tiles>
static __device__ __forceinline__ void tile_get_columns(float (&c)[Tiles][4],
                                                        const unsigned char *tile, int chunk)
{
    uint32_t pairs[Tiles][2];
    tile_get_pairs<D, Tiles>(pairs, tile, chunk);
#pragma unroll
    for (int j = 0; j < Tiles; j++) {
        unpack_pair(pairs[j][0], c[j]);
        unpack_pair(pairs[j][1], c[j] + 2);
    }
}

/* Rounds C fragments into columns from `to` on of those of 16 rows, `stride` elements apart,
 * that are below `valid`. pairs: every pair starts at a multiple of 4 bytes. */
template <int Tiles>
static __device__ __forceinline__ void store_columns(Bf16 *to, int64_t stride, int valid,
                                                     const float (&c)[Tiles][4], bool pairs)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = lane / 4 + 8 * half;
        if (row < valid) {
            Bf16 *at = to + row * stride + lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < Tiles; j++) {
                if (pairs) {
                    *reinterpret_cast<uint32_t *>(at + 8 * j) =
                        pack_pair(c[j][2 * half], c[j][2 * half + 1]);
                } else {
                    at[8 * j] = __float2bfloat16_rn(c[j][2 * half]);
                    at[8 * j + 1] = __float2bfloat16_rn(c[j][2 * half + 1]);
                }
            }
        }
    }
}

/* Sums of c over the 16 rows, per column of the lane's; the same in all lanes that have the
 * column. */
template <int Tiles>
static __device__ __forceinline__ void column_sums(float (&sum)[Tiles][2],
                                                   const float (&c)[Tiles][4])
{
#pragma unroll
    for (int j = 0; j < Tiles; j++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float s = c[j][i] + c[j][i + 2];
            s += __shfl_xor_sync(~0u, s, 4);
            s += __shfl_xor_sync(~0u, s, 8);
            sum[j][i] = s + __shfl_xor_sync(~0u, s, 16);
        }
    }
}

/* ---- Rows of the packed input, turned by their rotary position on the way ---- */

/* Copies the table of D/2 cosines and D/2 sines per position into shared memory, (16, D); rows
 * that the table need not have turn by nothing. */
template <int D, int Threads>
static __device__ __forceinline__ void rope_load(float *to, const float *table, int rows)
{
    for (int i = threadIdx.x; i < TTT_ROWS * D; i += Threads) {
        to[i] = i / D < rows ? table[i] : i % D < D / 2 ? 1.0f : 0.0f;
    }
}

/* A pair of neighbouring channels, turned. */
static __device__ __forceinline__ uint32_t turned_pair(uint32_t word, float cosine, float sine)
{
    float x[2];
    unpack_pair(word, x);
    return pack_pair(x[0] * cosine - x[1] * sine, x[1] * cosine + x[0] * sine);
}

/* 16 rows of D on their way from global memory to a tile through registers: 16-byte chunks, one
 * per thread when the block has 2 D threads. */
template <int D, int Threads> struct RowFetch {
    static constexpr int chunks = D / 8, count = (TTT_ROWS * chunks + Threads - 1) / Threads;
    uint4 raw[count];

    /* Rows from `valid` on become zero. */
    __device__ __forceinline__ void fetch(const Bf16 *from, int64_t stride, int valid,
                                          bool vectorise)
    {
#pragma unroll
        for (int c = 0; c < count; c++) {
            int i = threadIdx.x + c * Threads, row = i / chunks;
            raw[c] = make_uint4(0, 0, 0, 0);
            if (row < valid) {
                const Bf16 *at = from + row * stride + i % chunks * 8;
                if (vectorise) {
                    raw[c] = *reinterpret_cast<const uint4 *>(at);
                } else {
                    const unsigned short *bits = reinterpret_cast<const unsigned short *>(at);
                    raw[c] = make_uint4(
                        bits[0] | (uint32_t)bits[1] << 16, bits[2] | (uint32_t)bits[3] << 16,
                        bits[4] | (uint32_t)bits[5] << 16, bits[6] | (uint32_t)bits[7] << 16);
                }
            }
        }
    }

    /* Turned by their positions; rope is (16, D) in shared memory. */
    __device__ __forceinline__ void put_turned(unsigned char *tile, const float *rope) const
    {
#pragma unroll
        for (int c = 0; c < count; c++) {
            int i = threadIdx.x + c * Threads, row = i / chunks, chunk = i % chunks;
            if (row < TTT_ROWS) {
                const float *table = rope + row * D + chunk * 4;
                float4 cosine = *reinterpret_cast<const float4 *>(table);
                float4 sine = *reinterpret_cast<const float4 *>(table + D / 2);
                *reinterpret_cast<uint4 *>(tile + tile_at<D>(row, chunk)) =
                    make_uint4(turned_pair(raw[c].x, cosine.x, sine.x),
                               turned_pair(raw[c].y, cosine.y, sine.y),
                               turned_pair(raw[c].z, cosine.z, sine.z),
                               turned_pair(raw[c].w, cosine.w, sine.w));
            }
        }
    }
};

/* Turns C fragments back, whose first column is `column` of the head. */
template <int D, int Tiles>
static __device__ __forceinline__ void turn_back(float (&c)[Tiles][4], const float *rope,
                                                 int column)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < Tiles; j++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float *table = rope + (lane / 4 + 8 * half) * D + column / 2 + 4 * j + lane % 4;
            float cosine = table[0], sine = table[D / 2];
            float a = c[j][2 * half], b = c[j][2 * half + 1];
            c[j][2 * half] = a * cosine + b * sine;
            c[j][2 * half + 1] = b * cosine - a * sine;
        }
    }
}

/* tau of ttt.h for position i, from its parameter. */
static __device__ __forceinline__ float position_factor(int i, Bf16 index)
{
    return fmaxf(0.0f, 1.0f / (float)(i + 1) + to_f32(index));
}
