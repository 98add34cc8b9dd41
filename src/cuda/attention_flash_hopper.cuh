#pragma once
/* What a warpgroup does with its 64 queries in attention_flash_hopper.cu: the steps of Queries
 * in attention_flash_steps.cuh, on fragments of a warpgroup (wgmma.cuh), with a tile of KEYS
 * keys at a time. */
#include "cuda/attention_flash_steps.cuh"
#include "cuda/attention_flash_ring.cuh"

/* What a warpgroup knows of its 64 queries; see Queries in attention_flash_steps.cuh. */
template <int D> struct GroupQueries {
    float o[D / 2], m[2], l[2];
    uint32_t p[KEYS / 16][4]; /* weights of a tile, rounded: A fragments */

    __device__ __forceinline__ GroupQueries()
    {
#pragma unroll
        for (int i = 0; i < D / 2; i++) {
            o[i] = 0;
        }
        m[0] = m[1] = -INFINITY;
        l[0] = l[1] = 0;
    }

    /* Scores of keys beyond their query become -infinity. ahead: first key less the warpgroup's
     * first query. */
    static __device__ __forceinline__ void mask(float (&s)[KEYS / 2], int ahead)
    {
        int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32;
        int excess = ahead + lane % 4 * 2 - warp * 16 - lane / 4; /* key less query of s[0] */
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
            if (excess + i / 4 * 8 + i % 2 - i / 2 % 2 * 8 > 0) {
                s[i] = -INFINITY;
            }
        }
    }

    /* The same of keys before the first that their query sees. key, query: the first of each. */
    static __device__ __forceinline__ void mask_before(float (&s)[KEYS / 2], const Sight &sight,
                                                       int batch, int key, int query)
    {
        int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32;
        int before[2]; /* keys from that of s[0] on that a query does not see */
#pragma unroll
        for (int half = 0; half < 2; half++) {
            before[half] =
                sight.first(batch, query + warp * 16 + lane / 4 + 8 * half) - key - lane % 4 * 2;
        }
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
            if (i / 4 * 8 + i % 2 < before[i / 2 % 2]) {
                s[i] = -INFINITY;
            }
        }
    }

    /* Turns scores into exp(score - m). True, for a whole warp, when o has to shrink by the
     * factors. */
    __device__ __forceinline__ bool weigh(float (&s)[KEYS / 2], float factor, float (&shrink)[2])
    {
        float largest[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            largest[half] = m[half];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
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
        for (int i = 0; i < KEYS / 2; i++) {
            int half = i / 2 % 2;
            s[i] = exp2_fast(fmaf(s[i], factor, -offset[half]));
            sum[half][i % 2] += s[i];
        }
        l[0] += sum[0][0] + sum[0][1];
        l[1] += sum[1][0] + sum[1][1];
        return rises;
    }

    __device__ __forceinline__ void round_weights(const float (&s)[KEYS / 2])
    {
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            p[i / 4][i % 4] = pack_pair(s[2 * i], s[2 * i + 1]);
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

/* Starts s (64, KEYS) = q k^T. */
template <int D, int Groups>
static __device__ __forceinline__ void scores_begin(float (&s)[KEYS / 2], uint32_t q, uint32_t k_at)
{
    uint32_t k = panel_descriptor(k_at, 0);
    products_begin();
    product_rows<false>(s, q, k);
#pragma unroll
    for (int d = 1; d < D / 16; d++) {
        product_rows<true>(s, q + columns_step(d, 64 * Groups), k + columns_step(d, KEYS));
    }
    products_commit();
}

/* Starts o += p v. */
template <int D>
static __device__ __forceinline__ void values_begin(GroupQueries<D> &queries, uint32_t v_at)
{
    uint32_t v = panel_descriptor(v_at, KEYS * PANEL_ROW);
    products_begin();
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
        product_columns(queries.o, queries.p[j], v + rows_step(j));
    }
    products_commit();
}
