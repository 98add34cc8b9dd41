#pragma once
/* The inside of attention. attention.c packs, shares the work among threads and runs the backward;
 * a method says how the forward of one head is done and where backward finds probabilities. */
#include "cpu/kernels/attention_tile.h"
#include "cpu/kernels/isa.h"

/* Backward works on blocks of BLOCK_ROWS queries by BLOCK_KEYS keys: multiples of MR and PANEL. */
#define BLOCK_ROWS 48
#define BLOCK_KEYS 48

/* Sizes and strides of one call, in floats. */
typedef struct {
    int64_t seq, depth, width;      /* T, D, and D in whole vectors */
    int64_t heads, kv_heads, group; /* H, G, H / G */
    int64_t qkv_row, out_row;
    float scale; /* 1 / sqrt(D) */
} Layout;

typedef struct {
    /* What aux holds per query head, and the workspace of forward_head. */
    int64_t (*aux_floats)(const Layout *l);
    int64_t (*forward_floats)(const Layout *l);

    /* out (T, D) and aux of one query head from q (T, D), the keys in panels and v (T, width).
     * Rows of q lie qkv_row apart, those of out out_row. */
    void (*forward_head)(const Layout *l, const float *q, const float *k_panels, const float *v,
                         float *out, float *aux, float *space);

    /* p (BLOCK_ROWS, BLOCK_KEYS) = probabilities of queries [query, query + queries) with keys
     * [key, key + keys), 0 past the diagonal; q (queries in MR, width) are these queries. Rows are
     * written in groups of MR, each up to the last key that the group reaches, in whole vectors. */
    void (*probabilities)(const Layout *l, const float *aux, int64_t query, int64_t queries,
                          int64_t key, int64_t keys, const float *q, const float *k_panels,
                          float *p);
} AttentionMethod;

extern const AttentionMethod PACER_ISA_NAME(attention_flash), PACER_ISA_NAME(attention_naive);

/* How many of keys [key, key + keys) the MR queries from `query` on reach; may be negative. */
static inline int64_t keys_reached(int64_t query, int64_t key, int64_t keys)
{
    return lesser(query + MR - key, keys);
}

/* out (rows, keys) = factor * a (rows, width) times keys [key, key + keys). Row r belongs to query
 * `query` + r and goes as far as its group of MR reaches. MR divides rows, PANEL divides key. */
static inline void multiply_keys(const Layout *l, float factor, const float *a, int64_t query,
                                 int64_t rows, const float *panels, int64_t key, int64_t keys,
                                 float *out, int64_t out_row)
{
    for (int64_t j = 0; j < keys; j += PANEL) {
        for (int64_t row = 0; row < rows; row += MR) {
            product_panel(keys_reached(query + row, key, keys) - j, l->depth, factor,
                          a + row * l->width, l->width, panels + (key + j) * l->depth,
                          out + row * out_row + j, out_row);
        }
    }
}

/* Scores of MR queries, the first of which is `ahead` keys past the first key, become -infinity
 * for the keys past each query, up to `keys` in whole vectors. */
static inline void hide_future(float *scores, int64_t row_stride, int64_t ahead, int64_t keys)
{
    if (ahead + 1 >= round_up(keys, VEC_LANES)) {
        return;
    }
    VecInt lane;
    for (int i = 0; i < VEC_LANES; i++) {
        lane[i] = i;
    }
    for (int64_t r = 0; r < MR; r++) {
        int64_t seen = ahead + r + 1;
        for (int64_t j = seen / VEC_LANES * VEC_LANES; j < keys; j += VEC_LANES) {
            float *at = scores + r * row_stride + j;
            VecInt visible = lane < (int32_t)(seen - j);
            vec_store(at, vec_select(visible, vec_load(at), vec_set(-INFINITY)));
        }
    }
}
