/* Codes in e4m3 for products, by rows and by columns at once, made by whoever has the values: a
 * copy, a norm, an activation, its gradient, the loss.
 *
 * A block has a tile of 128 rows and 64 columns. A thread makes 8 columns of 4 rows, writes the
 * rows' codes, and hands its 4 x 8 codes, turned to 8 words of 4 rows, to shared memory, from
 * which 16 codes of a column at a time are written. Words of a column lie at (row / 4) ^ (column
 * / 8 * 4): neither side meets a bank twice. The largest value goes to device memory by
 * atomicMax, whose result depends on no order; column sums end as one row of partial sums per
 * tile. */
#include "cuda/activation.cuh"

#include <cuda_fp8.h>

#define TILE_ROWS 128
#define TILE_COLUMNS 64
#define TILE_THREADS 256
#define TILE_WARPS (TILE_THREADS / WARP)
#define LANES 8                              /* columns of a thread: 16 bytes of bf16 */
#define ROWS_EACH 4                          /* rows of a thread */
#define PIECES (TILE_COLUMNS / LANES)        /* threads beside each other */
#define COLUMN_WORDS (TILE_ROWS / ROWS_EACH) /* of a column in shared memory */
#define RESCALE_THREADS 256

struct Output {
    uint8_t *rows, *columns; /* either may be NULL */
    int64_t count;           /* rows */
    int64_t width;           /* columns that a maker has of each of its outputs */
    int64_t whole;           /* columns of the matrix: outputs x width */
    int64_t stride;          /* from column to column */
    const float *scale;      /* SCALE_COUNT */
    float *largest;          /* NULL: not watched */
    float *partials;         /* (tiles of rows, whole), or NULL */
};

/* Makers. load fetches what make turns into 8 values of each output; columns are those of one
 * output. */

__device__ static uint4 piece_at(const Bf16 *from, int64_t index)
{
    return *reinterpret_cast<const uint4 *>(from + index);
}

struct Copy {
    static constexpr int outputs = 1;
    const Bf16 *x;
    int64_t width;
    struct Piece {
        uint4 x;
    };
    __device__ Piece load(int64_t row, int64_t column) const
    {
        return Piece{piece_at(x, row * width + column)};
    }
    __device__ void make(const Piece &p, int64_t, int64_t, float (&out)[1][LANES]) const
    {
        unpack<Bf16>(p.x, out[0]);
    }
};

struct CopyWide {
    static constexpr int outputs = 1;
    const float *x;
    int64_t width;
    struct Piece {
        uint4 x[2];
    };
    __device__ Piece load(int64_t row, int64_t column) const
    {
        const uint4 *from = reinterpret_cast<const uint4 *>(x + row * width + column);
        return Piece{{from[0], from[1]}};
    }
    __device__ void make(const Piece &p, int64_t, int64_t, float (&out)[1][LANES]) const
    {
        const uint32_t bits[LANES] = {p.x[0].x, p.x[0].y, p.x[0].z, p.x[0].w,
                                      p.x[1].x, p.x[1].y, p.x[1].z, p.x[1].w};
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            out[0][k] = __uint_as_float(bits[k]);
        }
    }
};

template <Activation A> struct Activate {
    static constexpr int outputs = 1;
    const Bf16 *x;
    int64_t width;
    struct Piece {
        uint4 x;
    };
    __device__ Piece load(int64_t row, int64_t column) const
    {
        return Piece{piece_at(x, row * width + column)};
    }
    __device__ void make(const Piece &p, int64_t, int64_t, float (&out)[1][LANES]) const
    {
        unpack<Bf16>(p.x, out[0]);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            out[0][k] = act_value<Bf16, A>(out[0][k]);
        }
    }
};

/* x (N,2F): gates, then values */
template <Activation A> struct Gate {
    static constexpr int outputs = 1;
    const Bf16 *x;
    int64_t width;
    struct Piece {
        uint4 gate, up;
    };
    __device__ Piece load(int64_t row, int64_t column) const
    {
        int64_t at = row * 2 * width + column;
        return Piece{piece_at(x, at), piece_at(x, at + width)};
    }
    __device__ void make(const Piece &p, int64_t, int64_t, float (&out)[1][LANES]) const
    {
        float gate[LANES];
        unpack<Bf16>(p.gate, gate);
        unpack<Bf16>(p.up, out[0]);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            out[0][k] *= act_value<Bf16, A>(gate[k]);
        }
    }
};

template <Activation A> struct ActivateBackward {
    static constexpr int outputs = 1;
    const Bf16 *dy, *x;
    int64_t width;
    struct Piece {
        uint4 dy, x;
    };
    __device__ Piece load(int64_t row, int64_t column) const
    {
        int64_t at = row * width + column;
        return Piece{piece_at(dy, at), piece_at(x, at)};
    }
    __device__ void make(const Piece &p, int64_t, int64_t, float (&out)[1][LANES]) const
    {
        float value[LANES];
        unpack<Bf16>(p.dy, out[0]);
        unpack<Bf16>(p.x, value);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            out[0][k] *= act_slope<Bf16, A>(value[k]);
        }
    }
};

/* Two outputs: by the gates, by the values. */
template <Activation A> struct GateBackward {
    static constexpr int outputs = 2;
    const Bf16 *dy, *x;
    int64_t width;
    struct Piece {
        uint4 dy, gate, up;
    };
    __device__ Piece load(int64_t row, int64_t column) const
    {
        int64_t at = row * 2 * width + column;
        return Piece{piece_at(dy, row * width + column), piece_at(x, at), piece_at(x, at + width)};
    }
    __device__ void make(const Piece &p, int64_t, int64_t, float (&out)[2][LANES]) const
    {
        float slope[LANES];
        unpack<Bf16>(p.dy, slope);
        unpack<Bf16>(p.gate, out[0]);
        unpack<Bf16>(p.up, out[1]);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            gated_slope<Bf16, A>(slope[k], &out[0][k], &out[1][k]);
        }
    }
};

struct Normalise {
    static constexpr int outputs = 1;
    const Bf16 *x, *weight, *bias; /* bias may be NULL */
    const float *stats;            /* (rows, 2) */
    int64_t width;
    struct Piece {
        uint4 x;
        float2 stats;
    };
    __device__ Piece load(int64_t row, int64_t column) const
    {
        return Piece{piece_at(x, row * width + column),
                     reinterpret_cast<const float2 *>(stats)[row]};
    }
    __device__ void make(const Piece &p, int64_t, int64_t column, float (&out)[1][LANES]) const
    {
        float scale[LANES], shift[LANES] = {};
        unpack<Bf16>(p.x, out[0]);
        load_lanes(weight + column, scale);
        if (bias != NULL) {
            load_lanes(bias + column, shift);
        }
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            out[0][k] = (out[0][k] - p.stats.x) * p.stats.y * scale[k] + shift[k];
        }
    }
};

/* Gradient of the loss by logits. */
template <bool CAPPED> struct LossSlope {
    static constexpr int outputs = 1;
    const Bf16 *logits;
    const float *tallies; /* (rows, 2): largest logit, 1 / sum of exponentials above it */
    const int32_t *targets;
    int64_t width;
    int classes;
    float cap, scale;
    struct Piece {
        uint4 logits;
        float2 tally;
        int target;
    };
    __device__ Piece load(int64_t row, int64_t column) const
    {
        return Piece{piece_at(logits, row * width + column),
                     reinterpret_cast<const float2 *>(tallies)[row], targets[row]};
    }
    __device__ void make(const Piece &p, int64_t, int64_t column, float (&out)[1][LANES]) const
    {
        unpack<Bf16>(p.logits, out[0]);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            float z = capped<CAPPED>(out[0][k], cap);
            float share = exp_above<Bf16>(z, p.tally.x) * p.tally.y;
            share -= column + k == p.target ? 1.0f : 0.0f;
            out[0][k] = column + k < classes ? bent<CAPPED>(share * scale, z, cap) : 0;
        }
    }
};

__device__ static uint32_t code_pair(float first, float second)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, __NV_E4M3);
}

/* The same byte of four words, one behind the other: a 4 x 4 matrix of bytes turned. */
__device__ static void turn_bytes(const uint32_t (&from)[4], uint32_t *to)
{
    uint32_t low01 = __byte_perm(from[0], from[1], 0x5140);
    uint32_t low23 = __byte_perm(from[2], from[3], 0x5140);
    uint32_t high01 = __byte_perm(from[0], from[1], 0x7362);
    uint32_t high23 = __byte_perm(from[2], from[3], 0x7362);
    to[0] = __byte_perm(low01, low23, 0x5410);
    to[1] = __byte_perm(low01, low23, 0x7632);
    to[2] = __byte_perm(high01, high23, 0x5410);
    to[3] = __byte_perm(high01, high23, 0x7632);
}

/* Sums over the block of columns that 4 lanes and all warps share, in a fixed order. */
template <int OUTPUTS>
__device__ static void write_sums(const Output &out, float (&sums)[OUTPUTS][LANES],
                                  float (*of_warp)[OUTPUTS * TILE_COLUMNS], int64_t first_column)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) {
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            float sum = sums[o][k];
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, PIECES);
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2 * PIECES);
            if (lane < PIECES) {
                of_warp[warp][o * TILE_COLUMNS + lane * LANES + k] = sum;
            }
        }
    }
    __syncthreads();
    int at = threadIdx.x, o = at / TILE_COLUMNS;
    int64_t column = first_column + at % TILE_COLUMNS;
    if (at < OUTPUTS * TILE_COLUMNS && column < out.width) {
        float sum = 0;
        for (int w = 0; w < TILE_WARPS; w++) {
            sum += of_warp[w][at];
        }
        out.partials[blockIdx.y * out.whole + o * out.width + column] = sum;
    }
}

/* Grid of (tiles of columns, tiles of rows). */
template <typename Maker>
__global__ void __launch_bounds__(TILE_THREADS) make_codes(Maker maker, Output out)
{
    await_previous();
    constexpr int outputs = Maker::outputs;
    __shared__ __align__(16) uint32_t tile[outputs][TILE_COLUMNS * COLUMN_WORDS];
    __shared__ float of_warp[TILE_WARPS][outputs * TILE_COLUMNS];
    __shared__ unsigned top_of_block;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int piece = lane % PIECES, word = warp * (WARP / PIECES) + lane / PIECES;
    int64_t first_row = (int64_t)blockIdx.y * TILE_ROWS, row = first_row + word * ROWS_EACH;
    int64_t first_column = (int64_t)blockIdx.x * TILE_COLUMNS;
    int64_t column = first_column + piece * LANES;
    float factor = out.scale[SCALE_FACTOR];
    if (threadIdx.x == 0) {
        top_of_block = 0;
    }
    typename Maker::Piece fetched[ROWS_EACH];
#pragma unroll
    for (int j = 0; j < ROWS_EACH; j++) {
        if (row + j < out.count && column < out.width) {
            fetched[j] = maker.load(row + j, column);
        }
    }
    uint32_t low[outputs][ROWS_EACH] = {}, high[outputs][ROWS_EACH] = {};
    float sums[outputs][LANES] = {};
    unsigned top = 0; /* bits of a size: ordered like sizes, a NaN above all */
#pragma unroll
    for (int j = 0; j < ROWS_EACH; j++) {
        if (row + j >= out.count || column >= out.width) {
            continue;
        }
        float value[outputs][LANES];
        maker.make(fetched[j], row + j, column, value);
#pragma unroll
        for (int o = 0; o < outputs; o++) {
#pragma unroll
            for (int k = 0; k < LANES; k++) {
                float v = __bfloat162float(__float2bfloat16_rn(value[o][k]));
                top = max(top, __float_as_uint(v) & 0x7FFFFFFFu);
                sums[o][k] += v;
                value[o][k] = v * factor;
            }
            const float *v = value[o];
            low[o][j] = code_pair(v[0], v[1]) | code_pair(v[2], v[3]) << 16;
            high[o][j] = code_pair(v[4], v[5]) | code_pair(v[6], v[7]) << 16;
            if (out.rows != NULL) {
                int64_t at = (row + j) * out.whole + o * out.width + column;
                *reinterpret_cast<uint2 *>(out.rows + at) = make_uint2(low[o][j], high[o][j]);
            }
        }
    }
    __syncthreads(); /* top_of_block is 0 */
    top = __reduce_max_sync(0xFFFFFFFFu, top);
    if (lane == 0 && out.largest != NULL) {
        atomicMax(&top_of_block, top);
    }
    if (out.columns != NULL) {
#pragma unroll
        for (int o = 0; o < outputs; o++) {
            uint32_t turned[LANES];
            turn_bytes(low[o], turned);
            turn_bytes(high[o], turned + 4);
#pragma unroll
            for (int k = 0; k < LANES; k++) {
                int c = piece * LANES + k;
                tile[o][c * COLUMN_WORDS + (word ^ (piece * 4))] = turned[k];
            }
        }
    }
    if (out.partials != NULL) {
        write_sums(out, sums, of_warp, first_column);
    }
    __syncthreads();
    unsigned *largest = reinterpret_cast<unsigned *>(out.largest);
    if (threadIdx.x == 0 && largest != NULL &&
        top_of_block > *reinterpret_cast<volatile unsigned *>(largest)) {
        atomicMax(largest, top_of_block);
    }
    if (out.columns == NULL) {
        return;
    }
    constexpr int quads = COLUMN_WORDS / 4; /* 16 rows each */
#pragma unroll
    for (int o = 0; o < outputs; o++) {
#pragma unroll
        for (int i = 0; i < TILE_COLUMNS * quads / TILE_THREADS; i++) {
            int at = threadIdx.x + i * TILE_THREADS, c = at / quads, quad = at % quads;
            int64_t to = first_column + c, from_row = first_row + quad * 16;
            if (to < out.width && from_row < out.count) {
                uint4 codes = *reinterpret_cast<const uint4 *>(
                    &tile[o][c * COLUMN_WORDS + ((quad * 4) ^ (c / LANES * 4))]);
                *reinterpret_cast<uint4 *>(out.columns + (o * out.width + to) * out.stride +
                                           from_row) = codes;
            }
        }
    }
}

static int64_t row_tiles(int64_t rows)
{
    return ceil_div(rows, TILE_ROWS);
}

template <typename Maker> static void launch_codes(Ctx *c, Maker maker, Output out)
{
    dim3 grid((unsigned)ceil_div(out.width, TILE_COLUMNS), (unsigned)row_tiles(out.count));
    cuda_start(make_codes<Maker>, grid, TILE_THREADS, 0, cuda_of(c)->stream, maker, out);
    CUDA_LAUNCHED("make_codes");
}

/* outputs: that the maker has, side by side. sums: partial sums, or NULL. */
static Output output_of(Ctx *c, Quant q, int64_t rows, int64_t width, int outputs, void *sums)
{
    Output out = {};
    out.rows = tensor_given(q.rows) ? (uint8_t *)q.rows.data : NULL;
    out.columns = tensor_given(q.columns) ? (uint8_t *)q.columns.data : NULL;
    out.count = rows;
    out.width = width;
    out.whole = outputs * width;
    out.stride = q.stride;
    out.scale = (const float *)q.scale.data;
    out.largest = c->watching && tensor_given(q.largest) ? (float *)q.largest.data : NULL;
    out.partials = (float *)sums;
    return out;
}

static const Bf16 *bf16_of(Tensor t)
{
    if (tensor_given(t) && t.dtype != DT_BF16) {
        cuda_fail("codes", "the GPU makes them from bf16 only", __FILE__, __LINE__);
    }
    return tensor_given(t) ? (const Bf16 *)t.data : NULL;
}

static void fold_sums(Ctx *c, Tensor dbias, Mode mode, int64_t rows, void *ws)
{
    if (tensor_given(dbias)) {
        cuda_fold_partials(cuda_of(c)->stream, (const float *)ws, (int)row_tiles(rows),
                           dbias.dim[0], (float *)dbias.data, NULL, mode);
    }
}

size_t cuda_quantise_ws(const Ctx *, Tensor x, Tensor dbias)
{
    return tensor_given(dbias) ? (size_t)(row_tiles(x.dim[0]) * x.dim[1]) * sizeof(float) : 0;
}

void cuda_quantise(Ctx *c, Tensor x, Quant q, Tensor dbias, Mode mode, void *ws)
{
    int64_t rows = x.dim[0], width = x.dim[1];
    Output out = output_of(c, q, rows, width, 1, tensor_given(dbias) ? ws : NULL);
    if (x.dtype == DT_F32) {
        launch_codes(c, CopyWide{(const float *)x.data, width}, out);
    } else {
        launch_codes(c, Copy{bf16_of(x), width}, out);
    }
    fold_sums(c, dbias, mode, rows, ws);
}

void cuda_quant_norm(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Quant y, Tensor stats)
{
    int64_t rows = x.dim[0], width = x.dim[1];
    cuda_norm_stats(c, x, h, norm, r, stats);
    Normalise maker = {bf16_of(tensor_given(h) ? r : x), bf16_of(norm.weight), bf16_of(norm.bias),
                       (const float *)stats.data, width};
    launch_codes(c, maker, output_of(c, y, rows, width, 1, NULL));
}

template <typename T, Activation A>
static void codes_of_act(Ctx *c, bool gated, Tensor x, Quant y, int64_t width)
{
    const T *from = bf16_of(x);
    Output out = output_of(c, y, x.dim[0], width, 1, NULL);
    if (gated) {
        launch_codes(c, Gate<A>{from, width}, out);
    } else {
        launch_codes(c, Activate<A>{from, width}, out);
    }
}

void cuda_quant_act(Ctx *c, Activation act, bool gated, Tensor x, Quant y)
{
    int64_t width = gated ? x.dim[1] / 2 : x.dim[1];
    FOR_ACT(act, Bf16, codes_of_act, c, gated, x, y, width)
}

template <typename T, Activation A>
static void codes_of_slope(Ctx *c, bool gated, Tensor dy, Tensor x, Quant dx, void *sums)
{
    const T *slope = bf16_of(dy), *from = bf16_of(x);
    int64_t rows = dy.dim[0], width = dy.dim[1];
    if (gated) {
        launch_codes(c, GateBackward<A>{slope, from, width},
                     output_of(c, dx, rows, width, 2, sums));
    } else {
        launch_codes(c, ActivateBackward<A>{slope, from, width},
                     output_of(c, dx, rows, width, 1, sums));
    }
}

void cuda_quant_act_backward(Ctx *c, Activation act, bool gated, Tensor dy, Tensor x, Quant dx,
                             Tensor dbias, Mode mode, void *ws)
{
    void *sums = tensor_given(dbias) ? ws : NULL;
    FOR_ACT(act, Bf16, codes_of_slope, c, gated, dy, x, dx, sums)
    fold_sums(c, dbias, mode, dy.dim[0], ws);
}

size_t cuda_quant_xent_ws(const Ctx *, Tensor logits)
{
    return (size_t)logits.dim[0] * 2 * sizeof(float);
}

template <bool CAPPED>
static void codes_of_loss(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets,
                          double scale, Quant dlogits, const void *tallies)
{
    LossSlope<CAPPED> maker = {};
    maker.logits = bf16_of(logits);
    maker.tallies = (const float *)tallies;
    maker.targets = (const int32_t *)targets.data;
    maker.width = logits.dim[1];
    maker.classes = (int)classes;
    maker.cap = (float)cap;
    maker.scale = (float)scale;
    launch_codes(c, maker, output_of(c, dlogits, logits.dim[0], logits.dim[1], 1, NULL));
}

void cuda_quant_xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets,
                     Tensor losses, double scale, Quant dlogits, void *ws)
{
    cuda_xent_tallies(c, logits, classes, cap, targets, losses, (float *)ws);
    (cap > 0 ? codes_of_loss<true> : codes_of_loss<false>)(c, logits, classes, cap, targets, scale,
                                                           dlogits, ws);
}

__global__ void __launch_bounds__(RESCALE_THREADS)
    rescale(float *scales, unsigned *largest, int count, int parts)
{
    await_previous();
    int i = blockIdx.x * RESCALE_THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    float *scale = scales + i * SCALE_COUNT;
    unsigned top = 0; /* as in make_codes: a NaN is above all */
    for (int part = 0; part < parts; part++) {
        top = max(top, largest[i * parts + part]);
        largest[i * parts + part] = 0;
    }
    float now = __uint_as_float(top), held = scale[SCALE_HELD];
    bool fit = isfinite(now) && isfinite(held);
    if (now != 0) {
        held = fmaxf(now, held * SCALE_DECAY);
    }
    if (!fit) {
        held = scale[SCALE_FACTOR] = scale[SCALE_INVERSE] = NAN;
    } else if (held > 0) {
        int exponent; /* held = part 2^exponent, part in [0.5, 1); 448 is 0.875 2^9 */
        float part = frexpf(held, &exponent);
        int power = 9 - SCALE_ROOM - exponent - (part > 0.875f);
        power = min(max(power, -SCALE_MOST), SCALE_MOST);
        scale[SCALE_FACTOR] = ldexpf(1, power);
        scale[SCALE_INVERSE] = ldexpf(1, -power);
    }
    scale[SCALE_HELD] = held;
}

void cuda_rescale(Ctx *c, Tensor scales, Tensor largest)
{
    int count = (int)largest.dim[0];
    unsigned blocks = (unsigned)ceil_div(count, RESCALE_THREADS);
    cuda_start(rescale, blocks, RESCALE_THREADS, 0, cuda_of(c)->stream, (float *)scales.data,
               (unsigned *)largest.data, count, (int)largest.dim[1]);
    CUDA_LAUNCHED("rescale");
}
