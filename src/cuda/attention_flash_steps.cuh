#pragma once
/* The steps that the bf16 flash kernels are made of, each by one warp. A warp owns 16 * RowTiles
 * rows of a sequence (queries in forward, queries or keys in backward) and walks over others.
 * Products of own with walked rows have the own rows as rows of the result, so that the result,
 * rounded to bf16, is an operand of the next product as it lies in registers. */
#include "cuda/attention_flash.cuh"

/* Own rows as operands, 16 columns of the head at a time: from a tile, or held in registers. */
template <int D, int RowTiles, bool Held> struct OwnRows {
    uint32_t tile;
    int first;
    uint32_t held[Held ? D / 16 : 1][RowTiles][4];

    __device__ __forceinline__ OwnRows(const unsigned char *at, int first_row)
        : tile(shared_address(at)), first(first_row)
    {
        if constexpr (Held) {
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
#pragma unroll
                for (int t = 0; t < RowTiles; t++) {
                    load_a<D>(held[d][t], tile, first + 16 * t, 2 * d);
                }
            }
        }
    }

    __device__ __forceinline__ void get(uint32_t (&a)[RowTiles][4], int d) const
    {
#pragma unroll
        for (int t = 0; t < RowTiles; t++) {
            if constexpr (Held) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    a[t][i] = held[d][t][i];
                }
            } else {
                load_a<D>(a[t], tile, first + 16 * t, 2 * d);
            }
        }
    }
};

template <int RowTiles, int Columns>
static __device__ __forceinline__ void clear(float (&c)[RowTiles][Columns / 8][4])
{
#pragma unroll
    for (int t = 0; t < RowTiles; t++) {
#pragma unroll
        for (int n = 0; n < Columns / 8; n++) {
            c[t][n][0] = c[t][n][1] = c[t][n][2] = c[t][n][3] = 0;
        }
    }
}

/* s (own, Walk) += own y^T, y being Walk rows of a tile from `row` on. */
template <int D, int RowTiles, int Walk, bool Held>
static __device__ __forceinline__ void own_by_walked(float (&s)[RowTiles][Walk / 8][4],
                                                     const OwnRows<D, RowTiles, Held> &own,
                                                     uint32_t y_tile, int row)
{
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        uint32_t x[RowTiles][4];
        own.get(x, d);
#pragma unroll
        for (int n = 0; n < Walk / 16; n++) {
            uint32_t y[4];
            load_b_rows<D>(y, y_tile, row + 16 * n, 2 * d);
#pragma unroll
            for (int t = 0; t < RowTiles; t++) {
                product(s[t][2 * n], x[t], y[0], y[1]);
                product(s[t][2 * n + 1], x[t], y[2], y[3]);
            }
        }
    }
}

/* sum (own, D) += p (own, Walk) y; p is rounded to bf16. */
template <int D, int RowTiles, int Walk>
static __device__ __forceinline__ void add_walked(float (&sum)[RowTiles][D / 8][4],
                                                  const float (&p)[RowTiles][Walk / 8][4],
                                                  uint32_t y_tile, int row)
{
#pragma unroll
    for (int j = 0; j < Walk / 16; j++) {
        uint32_t a[RowTiles][4];
#pragma unroll
        for (int t = 0; t < RowTiles; t++) {
            round_to_a(a[t], p[t][2 * j], p[t][2 * j + 1]);
        }
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            uint32_t y[4];
            load_b_columns<D>(y, y_tile, row + 16 * j, 2 * n);
#pragma unroll
            for (int t = 0; t < RowTiles; t++) {
                product(sum[t][2 * n], a[t], y[0], y[1]);
                product(sum[t][2 * n + 1], a[t], y[2], y[3]);
            }
        }
    }
}

/* Sets what lies beyond the diagonal to `value`: columns above their row or, Below, below it.
 * `ahead` is the position of the first column less that of the first row. */
template <int RowTiles, int Columns, bool Below>
static __device__ __forceinline__ void mask(float (&s)[RowTiles][Columns / 8][4], int ahead,
                                            float value)
{
    int lane = threadIdx.x % 32;
    int excess = ahead + lane % 4 * 2 - lane / 4; /* column less row of s[0][0][0] */
#pragma unroll
    for (int t = 0; t < RowTiles; t++) {
#pragma unroll
        for (int n = 0; n < Columns / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int e = excess + 8 * n + i % 2 - 16 * t - i / 2 * 8;
                if (Below ? e < 0 : e > 0) {
                    s[t][n][i] = value;
                }
            }
        }
    }
}

/* What a warp of a bounded kernel meets. Own queries: keys from `edge` on, and from `clear` on they
 * are seen by all of the warp's queries. Own keys: queries up to `edge`, and up to `clear` they see
 * all of the warp's keys that are not beyond them. */
struct Reach {
    int batch, own, edge, clear; /* own: the warp's first row */
};

template <bool Keys>
static __device__ __forceinline__ Reach reach_of(const Sight &sight, int batch, int own, int rows)
{
    int end = own + rows - 1;
    return Keys ? Reach{batch, own, sight.last(batch, end), sight.last(batch, own)}
                : Reach{batch, own, sight.first(batch, own), sight.first(batch, end)};
}

/* Sets the elements of keys before the first that their query sees to `value`. Keys: rows are keys,
 * columns queries; else the reverse. own, walked: positions of the first row and column. */
template <int RowTiles, int Columns, bool Keys>
static __device__ __forceinline__ void mask_before(float (&s)[RowTiles][Columns / 8][4],
                                                   const Sight &sight, int batch, int own,
                                                   int walked, float value)
{
    int lane = threadIdx.x % 32, row = own + lane / 4, column = walked + lane % 4 * 2;
    if constexpr (Keys) {
#pragma unroll
        for (int j = 0; j < Columns / 4; j++) {
            int first = sight.first(batch, column + j / 2 * 8 + j % 2);
#pragma unroll
            for (int i = 0; i < 2 * RowTiles; i++) {
                if (row + 8 * i < first) {
                    s[i / 2][j / 2][i % 2 * 2 + j % 2] = value;
                }
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < 2 * RowTiles; i++) {
            int first = sight.first(batch, row + 8 * i);
#pragma unroll
            for (int j = 0; j < Columns / 4; j++) {
                if (column + j / 2 * 8 + j % 2 < first) {
                    s[i / 2][j / 2][i % 2 * 2 + j % 2] = value;
                }
            }
        }
    }
}

/* ---- Forward ---- */

/* What a warp knows of its queries: the sum o of exp(score - m) v, and per row of a tile (lane/4
 * and eight below) m and this lane's part l of the sum of exp(score - m). m is a score as large
 * as any seen so far, or smaller by at most LAG: following each small rise of the largest score
 * would cost more than it gives. */
#define LAG 4.0f /* in powers of two */

template <int D, int RowTiles, bool Bounded = false> struct Queries {
    float o[RowTiles][D / 8][4], m[RowTiles][2], l[RowTiles][2];

    __device__ __forceinline__ Queries()
    {
        clear<RowTiles, D>(o);
#pragma unroll
        for (int t = 0; t < RowTiles; t++) {
            m[t][0] = m[t][1] = Bounded ? UNSEEN : -INFINITY;
            l[t][0] = l[t][1] = 0;
        }
    }

    /* Takes Walk keys and values from row `row` of tiles on. ahead: position of the first key
     * less that of the first query. Unless Bounded, the keys of the first call are seen by every
     * query, and sight and reach are not read. factor: log2(e) score_unit. */
    template <int Walk, bool Held>
    __device__ __forceinline__ void see(const OwnRows<D, RowTiles, Held> &q, uint32_t k_tile,
                                        uint32_t v_tile, int row, int ahead, float factor,
                                        const Sight &sight, const Reach &reach)
    {
        float s[RowTiles][Walk / 8][4];
        clear<RowTiles, Walk>(s);
        own_by_walked<D, RowTiles, Walk>(s, q, k_tile, row);
        if (Bounded && sight.cap > 0) {
#pragma unroll
            for (int i = 0; i < RowTiles * Walk / 2; i++) {
                float &score = s[i / (Walk / 2)][i / 4 % (Walk / 8)][i % 4];
                score = sight.cap * tanh_fast(score * sight.bend);
            }
        }
        if (ahead + Walk - 1 > 0) {
            mask<RowTiles, Walk, false>(s, ahead, -INFINITY);
        }
        if (Bounded && reach.own + ahead < reach.clear) {
            mask_before<RowTiles, Walk, false>(s, sight, reach.batch, reach.own, reach.own + ahead,
                                               -INFINITY);
        }
#pragma unroll
        for (int t = 0; t < RowTiles; t++) {
            weigh<Walk>(s[t], t, factor);
        }
        add_walked<D, RowTiles, Walk>(o, s, v_tile, row);
    }

    /* Turns scores of row tile t into exp(score - m). */
    template <int Walk>
    __device__ __forceinline__ void weigh(float (&s)[Walk / 8][4], int t, float factor)
    {
        float largest[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            largest[half] = m[t][half];
#pragma unroll
            for (int n = 0; n < Walk / 8; n++) {
                largest[half] = fmaxf(largest[half], fmaxf(s[n][2 * half], s[n][2 * half + 1]));
            }
            largest[half] = quad_max(largest[half]);
        }
        bool rises = fmaxf(largest[0] - m[t][0], largest[1] - m[t][1]) * factor > LAG;
        if (__any_sync(~0u, rises)) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float shrink = exp2_fast((m[t][half] - largest[half]) * factor);
                m[t][half] = largest[half];
                l[t][half] *= shrink;
#pragma unroll
                for (int n = 0; n < D / 8; n++) {
                    o[t][n][2 * half] *= shrink;
                    o[t][n][2 * half + 1] *= shrink;
                }
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float offset = m[t][half] * factor;
#pragma unroll
            for (int n = 0; n < Walk / 8; n++) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    s[n][i] = exp2_fast(fmaf(s[n][i], factor, -offset));
                    l[t][half] += s[n][i];
                }
            }
        }
    }

    /* Writes the outputs into rows of `tile` from `row` on, which are the warp's alone, and the
     * log-sum-exp of rows below `valid` to lse. */
    __device__ __forceinline__ void finish(unsigned char *tile, int row, float *lse, int valid,
                                           float scale)
    {
        int lane = threadIdx.x % 32;
        __syncwarp();
#pragma unroll
        for (int t = 0; t < RowTiles; t++) {
            float inverse[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float sum = quad_sum(l[t][half]);
                int at = row + 16 * t + lane / 4 + 8 * half;
                inverse[half] = 1.0f / sum;
                if (lane % 4 == 0 && at < valid) {
                    lse[at] = fmaf(m[t][half], scale, logf(sum));
                }
            }
            tile_put<D>(tile, row + 16 * t, o[t], inverse[0], inverse[1]);
        }
        __syncwarp();
    }
};

/* ---- Backward ---- */

/* lse * log2(e) and delta of own rows of a C fragment, when these are queries. */
template <int RowTiles> struct RowStatistics {
    float lse[RowTiles][2], delta[RowTiles][2];

    /* From arrays that hold `valid` rows, the warp's from `row` on. */
    __device__ __forceinline__ RowStatistics(const float *lse_of, const float *delta_of, int row,
                                             int valid)
    {
#pragma unroll
        for (int i = 0; i < 2 * RowTiles; i++) {
            int at = row + 8 * i + threadIdx.x % 32 / 4;
            lse[i / 2][i % 2] = at < valid ? lse_of[at] * LOG2_E : 0;
            delta[i / 2][i % 2] = at < valid ? delta_of[at] : 0;
        }
    }
};

/* One step of backward, with P = exp(S - lse), dS = P (dP - delta), where S = scale x y^T and
 * dP = dx dy^T for own rows x, dx and Walk walked rows y, dy from `row` of their tiles on. Of
 * scores that are capped, S = cap tanh(scale x y^T / cap), dS = P (dP - delta) (1 - (S / cap)^2).
 * Keys: own rows are keys and values, walked ones queries and dout: sum (dk) += dS y, sum_v += P
 * dy, and lse and delta point to the walked rows' statistics. Otherwise own rows are queries and
 * dout: sum (dq) += dS y, and the statistics are `own`. ahead: position of the first walked row
 * less that of the first own row. Unless Bounded, sight and reach are not read. */
template <int Walk, bool Keys, bool Bounded, int D, int RowTiles, bool Held>
static __device__ __forceinline__ void gradient_step(
    float (&sum)[RowTiles][D / 8][4], float (&sum_v)[Keys ? RowTiles : 1][D / 8][4],
    const OwnRows<D, RowTiles, Held> &x, const OwnRows<D, RowTiles, Held> &dx, uint32_t y_tile,
    uint32_t dy_tile, int row, int ahead, const float *lse, const float *delta,
    const RowStatistics<RowTiles> &own, float factor, const Sight &sight, const Reach &reach)
{
    float p[RowTiles][Walk / 8][4], ds[RowTiles][Walk / 8][4];
    int column = threadIdx.x % 4 * 2; /* of a C fragment */
    clear<RowTiles, Walk>(p);
#pragma unroll
    for (int n = 0; n < Walk / 8; n++) { /* dP - delta */
        float2 of_column = {0, 0};
        if (Keys) {
            of_column = *reinterpret_cast<const float2 *>(delta + 8 * n + column);
        }
#pragma unroll
        for (int t = 0; t < RowTiles; t++) {
            ds[t][n][0] = -(Keys ? of_column.x : own.delta[t][0]);
            ds[t][n][1] = -(Keys ? of_column.y : own.delta[t][0]);
            ds[t][n][2] = -(Keys ? of_column.x : own.delta[t][1]);
            ds[t][n][3] = -(Keys ? of_column.y : own.delta[t][1]);
        }
    }
    own_by_walked<D, RowTiles, Walk>(p, x, y_tile, row);
    own_by_walked<D, RowTiles, Walk>(ds, dx, dy_tile, row);
    if (Bounded && sight.cap > 0) {
#pragma unroll
        for (int i = 0; i < RowTiles * Walk / 2; i++) {
            float &score = p[i / (Walk / 2)][i / 4 % (Walk / 8)][i % 4];
            float share = tanh_fast(score * sight.bend);
            ds[i / (Walk / 2)][i / 4 % (Walk / 8)][i % 4] *= 1.0f - share * share;
            score = sight.cap * share;
        }
    }
#pragma unroll
    for (int n = 0; n < Walk / 8; n++) {
        float2 of_column = {0, 0};
        if (Keys) {
            of_column = *reinterpret_cast<const float2 *>(lse + 8 * n + column);
            of_column.x *= LOG2_E;
            of_column.y *= LOG2_E;
        }
#pragma unroll
        for (int t = 0; t < RowTiles; t++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float l = !Keys ? own.lse[t][i / 2] : i % 2 == 0 ? of_column.x : of_column.y;
                p[t][n][i] = exp2_fast(fmaf(p[t][n][i], factor, -l));
            }
        }
    }
    if (Keys ? ahead < 16 * RowTiles - 1 : ahead + Walk - 1 > 0) {
        mask<RowTiles, Walk, Keys>(p, ahead, 0);
    }
    int walked = reach.own + ahead;
    if (Bounded && (Keys ? walked + Walk - 1 > reach.clear : walked < reach.clear)) {
        mask_before<RowTiles, Walk, Keys>(p, sight, reach.batch, reach.own, walked, 0);
    }
#pragma unroll
    for (int t = 0; t < RowTiles; t++) {
#pragma unroll
        for (int n = 0; n < Walk / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                ds[t][n][i] *= p[t][n][i];
            }
        }
    }
    if constexpr (Keys) {
        add_walked<D, RowTiles, Walk>(sum_v, p, dy_tile, row);
    }
    add_walked<D, RowTiles, Walk>(sum, ds, y_tile, row);
}
