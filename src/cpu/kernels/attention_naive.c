/* Attention as it is usually written down: the forward stores all probabilities, backward reads
 * them. aux is (T,T) per head, zero where a query does not see. It is the baseline to compare the
 * tiled method with, so its products are the same; only the matrix makes the difference. */
#include "cpu/kernels/attention.h"

/* The columns of a block of scores: all keys. */
static int64_t columns_of(const Layout *l)
{
    return round_up(l->seq, PANEL);
}

static int64_t forward_floats(const Layout *l)
{
    return BLOCK_ROWS * (2 * l->width + columns_of(l));
}

static int64_t aux_bytes(const Layout *l)
{
    return l->seq * l->seq * (int64_t)sizeof(Elem);
}

/* scores (keys in whole vectors) become probabilities. */
static void softmax(float *scores, int64_t keys)
{
    Vec most = vec_load(scores);
    for (int64_t j = VEC_LANES; j < keys; j += VEC_LANES) {
        most = vec_max(most, vec_load(scores + j));
    }
    float greatest = vec_greatest(most);
    Vec sum = {0};
    for (int64_t j = 0; j < keys; j += VEC_LANES) {
        Vec e = vec_exp(vec_load(scores + j) - greatest);
        vec_store(scores + j, e);
        sum += e;
    }
    float factor = 1.0f / vec_sum(sum);
    for (int64_t j = 0; j < keys; j += VEC_LANES) {
        vec_store(scores + j, factor * vec_load(scores + j));
    }
}

static void forward_head(const Layout *l, const Elem *q, const float *k_panels, const float *v,
                         Elem *out, void *aux, float *space)
{
    int64_t columns = columns_of(l);
    float *q_block = space, *out_block = q_block + BLOCK_ROWS * l->width;
    float *p_block = out_block + BLOCK_ROWS * l->width;
    for (int64_t query = 0; query < l->seq; query += BLOCK_ROWS) {
        int64_t queries = lesser(BLOCK_ROWS, l->seq - query), rows = round_up(queries, MR);
        int64_t key = first_key(l, query) / PANEL * PANEL, keys = query + queries - key;
        pack_rows(q + query * l->qkv_row, l->qkv_row, queries, l->depth, rows, l->width, q_block);
        memset(out_block, 0, (size_t)(rows * l->width) * sizeof *out_block);
        multiply_keys(l, l->scale, q_block, query, rows, k_panels, key, keys, p_block, columns);
        for (int64_t row = 0; row < rows; row += MR) {
            float *p = p_block + row * columns;
            int64_t reached = keys_reached(l, query + row, key, keys);
            if (l->cap > 0) {
                cap_scores(l, p, NULL, columns, reached);
            }
            hide_unseen(l, p, columns, query + row, key, reached);
            for (int64_t r = 0; r < MR; r++) {
                softmax(p + r * columns, reached);
            }
            product_rows(l->width, reached, p, columns, v + key * l->width,
                         out_block + row * l->width);
            for (int64_t r = 0; r < MR && row + r < queries; r++) {
                Elem *to = (Elem *)aux + (query + row + r) * l->seq, *end = to + key + reached;
                memset(to, 0, (size_t)key * sizeof *to);
                unpack_rows(p + r * columns, 1, columns, 1.0f, reached, to + key, reached);
                memset(end, 0, (size_t)(l->seq - key - reached) * sizeof *to);
            }
        }
        unpack_rows(out_block, queries, l->width, 1.0f, l->depth, out + query * l->out_row,
                    l->out_row);
    }
}

static void probabilities(const Layout *l, const void *aux, int64_t query, int64_t queries,
                          int64_t key, int64_t keys, const float *q, const float *k_panels,
                          float *p, float *slopes)
{
    int64_t rows = round_up(queries, MR);
    if (l->cap > 0) { /* from the scores, which p has for now */
        multiply_keys(l, l->scale, q, query, rows, k_panels, key, keys, p, BLOCK_KEYS);
    }
    for (int64_t row = 0; row < rows && l->cap > 0; row += MR) {
        int64_t reached = keys_reached(l, query + row, key, keys), at = row * BLOCK_KEYS;
        cap_scores(l, p + at, slopes + at, BLOCK_KEYS, reached);
    }
    for (int64_t row = 0; row < rows; row++) {
        int64_t reached = keys_reached(l, query + row / MR * MR, key, keys);
        for (int64_t j = 0; j < reached; j += VEC_LANES) {
            Vec value = {0};
            if (row < queries) {
                const Elem *from = (const Elem *)aux + (query + row) * l->seq + key;
                value = elem_load_within(from, j, reached);
            }
            vec_store(p + row * BLOCK_KEYS + j, value);
        }
    }
}

const AttentionMethod PACER_ISA_NAME(attention_naive) = {
    .aux_bytes = aux_bytes,
    .forward_floats = forward_floats,
    .forward_head = forward_head,
    .probabilities = probabilities,
};
