#pragma once
/* What a warpgroup does with its 64 queries in attention_flash_hopper.cu: the steps of Queries
 * in attention_flash_steps.cuh, on fragments of a warpgroup (wgmma.cuh), with a tile of KEYS
 * keys at a time. */
#include "cuda/attention_flash_steps.cuh"
#include "cuda/attention_flash_ring.cuh"

#include <type_traits>

/* Keys of a tile that a step deals with: all, or one half of which no query of the warpgroup sees
 * the other. The results are the same bits: what is not seen weighs zero. */
enum Part { WHOLE, LOWER, UPPER };

/* Where they begin and end, in fragments of scores. */
static __host__ __device__ constexpr int part_first(Part part)
{
    return part == UPPER ? KEYS / 4 : 0;
}

static __host__ __device__ constexpr int part_end(Part part)
{
    return part == LOWER ? KEYS / 4 : KEYS / 2;
}

typedef float HalfScores[KEYS / 4];

template <Part P> static __device__ __forceinline__ HalfScores &half_of(float (&s)[KEYS / 2])
{
    return *reinterpret_cast<HalfScores *>(s + part_first(P));
}

template <Part P> static __device__ __forceinline__ void pin_part(float (&s)[KEYS / 2])
{
    if constexpr (P == WHOLE) {
        pin(s);
    } else {
        pin(half_of<P>(s));
    }
}

/* What a warpgroup knows of its 64 queries; see Queries in attention_flash_steps.cuh. */
template <int D> struct GroupQueries {
    float o[D / 2], m[2], l[2];
    uint32_t p[KEYS / 16][4]; /* weights of a tile, rounded: A fragments */

    __device__ __forceinline__ GroupQueries()
    {
        clear();
    }

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < D / 2; i++) {
            o[i] = 0;
        }
        m[0] = m[1] = -INFINITY;
        l[0] = l[1] = 0;
    }

    /* Scores of keys beyond their query become -infinity, in the half that begins at the
     * warpgroup's first query. */
    template <Part P> static __device__ __forceinline__ void mask_diagonal(float (&s)[KEYS / 2])
    {
        int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32;
        int excess = lane % 4 * 2 - warp * 16 - lane / 4; /* key less query of the half's first */
        HalfScores &of = half_of<P>(s);
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            if (excess + i / 4 * 8 + i % 2 - i / 2 % 2 * 8 > 0) {
                of[i] = -INFINITY;
            }
        }
    }

    /* The same of keys before the first that their query sees. key, query: the first of each;
     * clear: every query sees this key and those behind it. */
    template <Part P>
    static __device__ __forceinline__ void mask_before(float (&s)[KEYS / 2], const Sight &sight,
                                                       int batch, int key, int query, int clear)
    {
        int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32;
        int before[2]; /* keys from that of s[0] on that a query does not see */
#pragma unroll
        for (int half = 0; half < 2; half++) {
            before[half] =
                sight.first(batch, query + warp * 16 + lane / 4 + 8 * half) - key - lane % 4 * 2;
        }
        auto mask = [&](auto first) {
#pragma unroll
            for (int i = first; i < first + KEYS / 4; i++) {
                if (i / 4 * 8 + i % 2 < before[i / 2 % 2]) {
                    s[i] = -INFINITY;
                }
            }
        };
        if constexpr (P != UPPER) {
            mask(std::integral_constant<int, 0>());
        }
        if (P == UPPER || (P == WHOLE && key + KEYS / 2 < clear)) {
            mask(std::integral_constant<int, KEYS / 4>());
        }
    }

    /* Turns scores into exp(score - m). True, for a whole warp, when o has to shrink by the
     * factors. */
    template <Part P>
    __device__ __forceinline__ bool weigh(float (&s)[KEYS / 2], float factor, float (&shrink)[2])
    {
        float largest[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            largest[half] = m[half];
#pragma unroll
            for (int n = part_first(P) / 4; n < part_end(P) / 4; n++) {
                largest[half] =
                    fmaxf(largest[half], fmaxf(s[4 * n + 2 * half], s[4 * n + 2 * half + 1]));
            }
            largest[half] = quad_max(largest[half]);
        }
        bool rises = fmaxf(largest[0] - m[0], largest[1] - m[1]) * factor > LAG;
        rises = __any_sync(~0u, rises);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float old = m[half];
            m[half] = rises ? largest[half] : old;
            shrink[half] = exp2_fast((old - m[half]) * factor);
            l[half] *= shrink[half];
        }
        float offset[2] = {m[0] * factor, m[1] * factor}, sum[2][2] = {{0, 0}, {0, 0}};
#pragma unroll
        for (int i = part_first(P); i < part_end(P); i++) {
            int half = i / 2 % 2;
            s[i] = exp2_fast(fmaf(s[i], factor, -offset[half]));
            sum[half][i % 2] += s[i];
        }
        l[0] += sum[0][0] + sum[0][1];
        l[1] += sum[1][0] + sum[1][1];
        return rises;
    }

    template <Part P> __device__ __forceinline__ void round_weights(const float (&s)[KEYS / 2])
    {
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            bool of_part = 2 * i >= part_first(P) && 2 * i < part_end(P);
            p[i / 4][i % 4] = of_part ? pack_pair(s[2 * i], s[2 * i + 1]) : 0;
        }
    }

    /* Writes the log-sum-exp and the outputs of rows below `valid`; lse and out are the
     * warpgroup's first row's. */
    __device__ __forceinline__ void finish(float *lse, Bf16 *out, int64_t stride, int valid,
                                           float scale)
    {
        int lane = threadIdx.x % 32, row = threadIdx.x % WARPGROUP / 32 * 16 + lane / 4;
        float inverse[2];
#pragma unroll
        for (int half = 0; half < 2; half++, row += 8) {
            float sum = quad_sum(l[half]);
            inverse[half] = 1.0f / sum;
            if (lane % 4 == 0 && row < valid) {
                lse[row] = fmaf(m[half], scale, logf(sum));
            }
        }
        rows_store(o, inverse, out, stride, valid);
    }
};

/* Starts s (64, keys of the part) = q k^T. */
template <int D, int Groups, Part P>
static __device__ __forceinline__ void scores_begin(float (&s)[KEYS / 2], uint32_t q, uint32_t k_at)
{
    uint32_t k = panel_descriptor(k_at + (P == UPPER ? KEYS / 2 * PANEL_ROW : 0), 0);
    auto begin = [&](auto &of) {
        products_begin();
        product_rows<false>(of, q, k);
#pragma unroll
        for (int d = 1; d < D / 16; d++) {
            product_rows<true>(of, q + columns_step(d, 64 * Groups), k + columns_step(d, KEYS));
        }
        products_commit();
    };
    if constexpr (P == WHOLE) {
        begin(s);
    } else {
        begin(half_of<P>(s));
    }
}

/* Starts o += p v. */
template <int D, Part P>
static __device__ __forceinline__ void values_begin(GroupQueries<D> &queries, uint32_t v_at)
{
    uint32_t v = panel_descriptor(v_at, KEYS * PANEL_ROW);
    products_begin();
#pragma unroll
    for (int j = part_first(P) / 8; j < part_end(P) / 8; j++) {
        product_columns(queries.o, queries.p[j], v + rows_step(j));
    }
    products_commit();
}
