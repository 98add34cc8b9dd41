/* Embeddings. The backward gives each thread a range of tokens, whose rows of the table nobody else
 * writes; ranges are cut so that rows to write and rows to add are shared evenly. */
#include "cpu/cpu.h"

#include "base/assert.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"

/* to (count) = or += from. */
static void put_bf16(const uint16_t *from, float *to, int64_t count, Mode mode)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        to[i] = f32_from_bf16(from[i]) + (mode == MODE_ADD ? to[i] : 0.0f);
    }
}

/* to (width) = row `token` of table + row `position` of positions, if there are any; both f32 or
 * both bf16. */
static void put_row(Tensor table, int64_t token, Tensor positions, int64_t position, float *to)
{
    PACER_ASSERT(token >= 0 && token < table.dim[0], "token %lld, vocabulary %lld",
                 (long long)token, (long long)table.dim[0]);
    int64_t width = table.dim[1], at = token * width;
    bool add = tensor_given(positions);
    if (table.dtype == DT_BF16) {
        put_bf16((const uint16_t *)table.data + at, to, width, MODE_SET);
        if (add) {
            put_bf16((const uint16_t *)positions.data + position * width, to, width, MODE_ADD);
        }
        return;
    }
    const float *from = (const float *)table.data + at;
    if (add) {
        vec_add_rows(from, (const float *)positions.data + position * width, to, width);
    } else {
        memcpy(to, from, (size_t)width * sizeof *to);
    }
}

static void embed_forward(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor starts,
                          int64_t seq, Tensor out)
{
    int64_t rows = out.dim[0], width = out.dim[1];
    const int32_t *tokens = ids.data;
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        put_row(table, tokens[row], positions, row_position(starts, row, seq),
                (float *)out.data + row * width);
    }
}

/* Rows in the order of their tokens. */
typedef struct {
    const int32_t *ids, *order;
    int64_t rows, vocab;
    bool every; /* every row of the table is written, not only those of tokens that occur */
} Sorted;

/* How many rows have a token below `token`. */
static int64_t rows_below(const Sorted *s, int64_t token)
{
    int64_t low = 0, high = s->rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (s->ids[s->order[middle]] < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The token where part `part` of `parts` begins: the first with its share of the work below. */
static int64_t first_token(const Sorted *s, int parts, int part)
{
    int64_t work = s->rows + (s->every ? s->vocab : 0);
    int64_t before = work / parts * part;
    int64_t low = 0, high = s->vocab;
    while (part < parts && low < high) {
        int64_t middle = low + (high - low) / 2;
        if (rows_below(s, middle) + (s->every ? middle : 0) < before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return part < parts ? low : s->vocab;
}

/* dtable rows of a range of tokens: all of them, or those that occur. */
static void table_backward(const Sorted *s, Span tokens, const float *dout, float *dtable,
                           int64_t width)
{
    int64_t at = rows_below(s, tokens.first), end = rows_below(s, tokens.last);
    size_t bytes = (size_t)width * sizeof *dtable;
    for (int64_t token = tokens.first; token < tokens.last; token++) {
        if (!s->every) {
            if (at == end) {
                break;
            }
            token = s->ids[s->order[at]];
        }
        float *to = dtable + token * width;
        bool empty = s->every;
        for (; at < end && s->ids[s->order[at]] == token; at++) {
            const float *from = dout + s->order[at] * width;
            if (empty) {
                memcpy(to, from, bytes);
                empty = false;
            } else {
                vec_add_rows(from, to, to, width);
            }
        }
        if (empty) {
            memset(to, 0, bytes);
        }
    }
    PACER_ASSERT(at == end, "order is not sorted by id at %lld", (long long)at);
}

/* dpositions (P,C): row t = or += the rows at that position, columns [columns.first, .last) of
 * them. */
static void positions_backward(Tensor dout, Tensor dpositions, Tensor starts, int64_t seq,
                               Mode mode, Span columns)
{
    int64_t width = dout.dim[1], count = columns.last - columns.first;
    const float *from = (const float *)dout.data + columns.first;
    float *to = (float *)dpositions.data + columns.first;
    for (int64_t t = 0; mode == MODE_SET && t < dpositions.dim[0]; t++) {
        memset(to + t * width, 0, (size_t)count * sizeof *to);
    }
    for (int64_t row = 0; row < dout.dim[0]; row++) {
        float *sum = to + row_position(starts, row, seq) * width;
        vec_add_rows(from + row * width, sum, sum, count);
    }
}

static void embed_backward(Ctx *c, Tensor ids, Tensor order, Tensor dout, Tensor dtable,
                           Tensor dpositions, Tensor starts, int64_t seq, Mode dtable_mode,
                           Mode dpositions_mode)
{
    int64_t width = dout.dim[1], vocab = dtable.dim[0];
    Sorted s = {ids.data, order.data, dout.dim[0], vocab, dtable_mode == MODE_SET};
    PACER_ASSERT(rows_below(&s, 0) == 0 && rows_below(&s, vocab) == s.rows,
                 "a token outside the vocabulary of %lld", (long long)vocab);
    int parts = threads_for(c, (s.rows + (s.every ? vocab : 0)) * width);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span tokens = {first_token(&s, parts, part), first_token(&s, parts, part + 1)};
        table_backward(&s, tokens, dout.data, dtable.data, width);
    }
    if (tensor_given(dpositions)) {
        int threads = threads_for(c, s.rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int part = 0; part < threads; part++) {
            positions_backward(dout, dpositions, starts, seq, dpositions_mode,
                               span_of_floats(width, threads, part));
        }
    }
}

void PACER_ISA_NAME(embed_fill)(Ops *ops)
{
    ops->embed_forward = embed_forward;
    ops->embed_backward = embed_backward;
}
