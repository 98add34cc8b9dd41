/* Attention without a matrix of probabilities. The forward takes a block of queries through the
 * keys that it sees, up to the diagonal, a tile at a time, and keeps per query the greatest score
 * so far, the sum of exponentials relative to it, and the sum of values weighted by them; when the
 * greatest score grows, both sums are scaled down to match. aux is the log-sum-exp of the scores,
 * (T) per head, from which backward computes the probabilities of a block again. */
#include "cpu/kernels/attention.h"

#include <float.h>

/* The forward's block of queries by tile of keys; multiples of MR and PANEL. */
#define TILE_ROWS 48
#define TILE_KEYS 96

typedef struct {
    float *q, *out;  /* (TILE_ROWS, width) */
    float *scores;   /* (TILE_ROWS, TILE_KEYS), then exponentials */
    float *sums;     /* (TILE_ROWS, VEC_LANES), each lane's sum of exponentials */
    float *greatest; /* (TILE_ROWS), and a vector more, as the last group may read so far */
} Space;

static Space space_of(const Layout *l, float *base, int64_t *used)
{
    *used = 0;
    Space s;
    s.q = take(base, used, TILE_ROWS * l->width);
    s.out = take(base, used, TILE_ROWS * l->width);
    s.scores = take(base, used, TILE_ROWS * TILE_KEYS);
    s.sums = take(base, used, TILE_ROWS * VEC_LANES);
    s.greatest = take(base, used, TILE_ROWS + VEC_LANES);
    return s;
}

static int64_t forward_floats(const Layout *l)
{
    int64_t used;
    space_of(l, NULL, &used);
    return used;
}

static int64_t aux_bytes(const Layout *l)
{
    return l->seq * (int64_t)sizeof(float);
}

/* Scores of the MR queries from `row` on become exponentials; their sums so far are rescaled. */
static void take_tile(const Layout *l, int64_t row, int64_t keys, const Space *s)
{
    float *scores = s->scores + row * TILE_KEYS, *greatest = s->greatest + row;
    float rescale[MR + VEC_LANES];
    for (int r = 0; r < MR; r++) {
        Vec most = vec_load(scores + r * TILE_KEYS);
        for (int64_t j = VEC_LANES; j < keys; j += VEC_LANES) {
            most = vec_max(most, vec_load(scores + r * TILE_KEYS + j));
        }
        rescale[r] = vec_greatest(most);
    }
    for (int r = 0; r < MR; r += VEC_LANES) {
        Vec before = vec_load(greatest + r), now = vec_max(before, vec_load(rescale + r));
        vec_store_part(greatest + r, now, lesser(VEC_LANES, MR - r));
        vec_store(rescale + r, vec_exp(before - now));
    }
    for (int r = 0; r < MR; r++) {
        Vec sum = {0};
        for (int64_t j = 0; j < keys; j += VEC_LANES) {
            Vec e = vec_exp(vec_load(scores + r * TILE_KEYS + j) - greatest[r]);
            vec_store(scores + r * TILE_KEYS + j, e);
            sum += e;
        }
        float *sums = s->sums + (row + r) * VEC_LANES, *out = s->out + (row + r) * l->width;
        vec_store(sums, vec_fma(vec_load(sums), vec_set(rescale[r]), sum));
        if (rescale[r] != 1.0f) {
            for (int64_t d = 0; d < l->width; d += VEC_LANES) {
                vec_store(out + d, rescale[r] * vec_load(out + d));
            }
        }
    }
}

/* The natural logarithm of a sum of exponentials, x >= 1: x = 2^n m with m within a factor sqrt(2)
 * of 1, and log m = 2 artanh(s), s = (m - 1) / (m + 1), from its series. */
VEC_INLINE Vec logarithm(Vec x)
{
    VecInt exponent = ((VecInt)x - 0x3f3504f3) & -0x800000;
    Vec m = (Vec)((VecInt)x - exponent), n = __builtin_convertvector(exponent >> 23, Vec);
    Vec s = (m - 1.0f) / (m + 1.0f), z = s * s;
    Vec series = vec_fma(z, vec_set(2.0f / 9), vec_set(2.0f / 7));
    series = vec_fma(z, series, vec_set(2.0f / 5));
    series = vec_fma(z, series, vec_set(2.0f / 3));
    return vec_fma(n, vec_set(0.693147181f), vec_fma(z * s, series, s + s));
}

/* out (queries, D) and lse (queries) of a block whose sums are complete. */
static void finish_block(const Layout *l, int64_t queries, Elem *out, float *lse, const Space *s)
{
    float sums[TILE_ROWS + VEC_LANES];
    for (int64_t row = 0; row < queries; row++) {
        sums[row] = vec_sum(vec_load(s->sums + row * VEC_LANES));
        unpack_rows(s->out + row * l->width, 1, l->width, 1.0f / sums[row], l->depth,
                    out + row * l->out_row, l->out_row);
    }
    for (int64_t row = 0; row < queries; row += VEC_LANES) {
        int64_t lanes = lesser(VEC_LANES, queries - row);
        Vec log_sum = logarithm(vec_load_part(sums + row, lanes));
        vec_store_part(lse + row, vec_load(s->greatest + row) + log_sum, lanes);
    }
}

static void forward_head(const Layout *l, const Elem *q, const float *k_panels, const float *v,
                         Elem *out, void *aux, float *space)
{
    float *lse = aux;
    int64_t used;
    Space s = space_of(l, space, &used);
    for (int64_t query = 0; query < l->seq; query += TILE_ROWS) {
        int64_t queries = lesser(TILE_ROWS, l->seq - query), rows = round_up(queries, MR);
        pack_rows(q + query * l->qkv_row, l->qkv_row, queries, l->depth, rows, l->width, s.q);
        memset(s.out, 0, (size_t)(rows * l->width) * sizeof *s.out);
        memset(s.sums, 0, (size_t)(rows * VEC_LANES) * sizeof *s.sums);
        for (int64_t row = 0; row < TILE_ROWS + VEC_LANES; row++) {
            s.greatest[row] = -FLT_MAX; /* finite: a row may see nothing of its first tile */
        }
        int64_t first = first_key(l, query) / PANEL * PANEL;
        for (int64_t key = first; key < query + queries; key += TILE_KEYS) {
            int64_t keys = lesser(TILE_KEYS, query + queries - key);
            multiply_keys(l, l->scale, s.q, query, rows, k_panels, key, keys, s.scores, TILE_KEYS);
            for (int64_t row = 0; row < rows; row += MR) {
                int64_t reached = keys_reached(l, query + row, key, keys);
                if (reached > 0) {
                    float *scores = s.scores + row * TILE_KEYS;
                    if (l->cap > 0) {
                        cap_scores(l, scores, NULL, TILE_KEYS, reached);
                    }
                    hide_unseen(l, scores, TILE_KEYS, query + row, key, reached);
                    take_tile(l, row, reached, &s);
                    product_rows(l->width, reached, scores, TILE_KEYS, v + key * l->width,
                                 s.out + row * l->width);
                }
            }
        }
        finish_block(l, queries, out + query * l->out_row, lse + query, &s);
    }
}

static void probabilities(const Layout *l, const void *aux, int64_t query, int64_t queries,
                          int64_t key, int64_t keys, const float *q, const float *k_panels,
                          float *p, float *slopes)
{
    const float *lse = aux;
    int64_t rows = round_up(queries, MR);
    multiply_keys(l, l->scale, q, query, rows, k_panels, key, keys, p, BLOCK_KEYS);
    for (int64_t row = 0; row < rows; row += MR) {
        int64_t reached = keys_reached(l, query + row, key, keys), at = row * BLOCK_KEYS;
        if (l->cap > 0) {
            cap_scores(l, p + at, slopes + at, BLOCK_KEYS, reached);
        }
        hide_unseen(l, p + at, BLOCK_KEYS, query + row, key, reached);
        for (int64_t r = row; r < row + MR; r++) {
            float shift = r < queries ? lse[query + r] : 0.0f;
            for (int64_t j = r * BLOCK_KEYS; j < r * BLOCK_KEYS + reached; j += VEC_LANES) {
                vec_store(p + j, vec_exp(vec_load(p + j) - shift));
            }
        }
    }
}

const AttentionMethod PACER_ISA_NAME(attention_flash) = {
    .aux_bytes = aux_bytes,
    .forward_floats = forward_floats,
    .forward_head = forward_head,
    .probabilities = probabilities,
};
