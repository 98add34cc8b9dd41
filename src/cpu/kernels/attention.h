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
    float scale, cap;      /* cap 0: none */
    int64_t window;        /* keys that a query sees at most */
    const int32_t *starts; /* (T) of the sequence at hand, or NULL: 0 */
} Layout;

typedef struct {
    /* What aux holds per query head, and the workspace of forward_head. */
    int64_t (*aux_bytes)(const Layout *l);
    int64_t (*forward_floats)(const Layout *l);

    /* out (T, D) and aux of one query head from q (T, D), the keys in panels and v (T, width).
     * Rows of q lie qkv_row apart, those of out out_row. */
    void (*forward_head)(const Layout *l, const Elem *q, const float *k_panels, const float *v,
                         Elem *out, void *aux, float *space);

    /* p (BLOCK_ROWS, BLOCK_KEYS) = probabilities of queries [query, query + queries) with keys
     * [key, key + keys), 0 where a query does not see; q (queries in MR, width) are these queries.
     * Rows are written in groups of MR, each up to the last key that the group reaches, in whole
     * vectors, and not at all where it reaches none. slopes, likewise, of a layout with a cap: the
     * cap's slope at each score, any number where a query does not see. */
    void (*probabilities)(const Layout *l, const void *aux, int64_t query, int64_t queries,
                          int64_t key, int64_t keys, const float *q, const float *k_panels,
                          float *p, float *slopes);
} AttentionMethod;

extern const AttentionMethod PACER_ISA_NAME(attention_flash), PACER_ISA_NAME(attention_naive);

/* The first key that a query sees, a later one for a later query. Queries past the sequence, which
 * fill up a group, count as its last. */
static inline int64_t first_key(const Layout *l, int64_t query)
{
    int64_t last = lesser(query, l->seq - 1), outside = last + 1 - l->window;
    int64_t start = l->starts != NULL ? l->starts[last] : 0;
    return outside > start ? outside : start;
}

/* How many of keys [key, key + keys) the MR queries from `query` on reach; 0 or less: none. */
static inline int64_t keys_reached(const Layout *l, int64_t query, int64_t key, int64_t keys)
{
    return first_key(l, query) < key + keys ? lesser(query + MR - key, keys) : 0;
}

/* out (rows, keys) = factor * a (rows, width) times keys [key, key + keys). Row r belongs to query
 * `query` + r and goes as far as its group of MR reaches. MR divides rows, PANEL divides key. */
static inline void multiply_keys(const Layout *l, float factor, const float *a, int64_t query,
                                 int64_t rows, const float *panels, int64_t key, int64_t keys,
                                 float *out, int64_t out_row)
{
    for (int64_t j = 0; j < keys; j += PANEL) {
        for (int64_t row = 0; row < rows; row += MR) {
            product_panel(keys_reached(l, query + row, key, keys) - j, l->depth, factor,
                          a + row * l->width, l->width, panels + (key + j) * l->depth,
                          out + row * out_row + j, out_row);
        }
    }
}

/* scores (MR, keys in whole vectors) of the queries from `query` on and the keys from `key` on
 * become -infinity where a query does not see. */
static inline void hide_unseen(const Layout *l, float *scores, int64_t row_stride, int64_t query,
                               int64_t key, int64_t keys)
{
    if (query + 1 >= key + round_up(keys, VEC_LANES) && first_key(l, query + MR - 1) <= key) {
        return;
    }
    VecInt lane;
    for (int i = 0; i < VEC_LANES; i++) {
        lane[i] = i;
    }
    for (int64_t r = 0; r < MR; r++) {
        int64_t first = first_key(l, query + r) - key, end = query + r + 1 - key;
        for (int64_t j = 0; j < keys; j += VEC_LANES) {
            if (j < first || j + VEC_LANES > end) {
                float *at = scores + r * row_stride + j;
                VecInt seen = (lane >= (int32_t)(first - j)) & (lane < (int32_t)(end - j));
                vec_store(at, vec_select(seen, vec_load(at), vec_set(-INFINITY)));
            }
        }
    }
}

/* scores (MR, keys in whole vectors) become cap tanh(score / cap); slopes, unless NULL, the slope
 * there. */
static inline void cap_scores(const Layout *l, float *scores, float *slopes, int64_t row_stride,
                              int64_t keys)
{
    for (int64_t r = 0; r < MR; r++) {
        for (int64_t j = r * row_stride; j < r * row_stride + keys; j += VEC_LANES) {
            Vec share = vec_tanh(vec_load(scores + j) / l->cap);
            vec_store(scores + j, l->cap * share);
            if (slopes != NULL) {
                vec_store(slopes + j, 1.0f - share * share);
            }
        }
    }
}
