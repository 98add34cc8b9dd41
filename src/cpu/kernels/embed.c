/* Embeddings. The backward gives each thread a range of tokens, whose rows of the table nobody else
 * writes; ranges are cut so that rows to write and rows to add are shared evenly. */
#include "cpu/cpu.h"

#include "base/assert.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"

/* to (width) = row `token` of table + row `position` of positions, if there are any; both of the
 * type of to, or both bf16. */
static void put_row(Tensor table, int64_t token, Tensor positions, int64_t position, Elem *to)
{
    PACER_ASSERT(token >= 0 && token < table.dim[0], "token %lld, vocabulary %lld",
                 (long long)token, (long long)table.dim[0]);
    int64_t width = table.dim[1], at = token * width;
    bool add = tensor_given(positions);
    if (table.dtype == DT_BF16) {
        const uint16_t *from = (const uint16_t *)table.data + at;
        const uint16_t *other = add ? (const uint16_t *)positions.data + position * width : NULL;
        for (int64_t i = 0; i < width; i += VEC_LANES) {
            int64_t count = lesser(VEC_LANES, width - i);
            Vec sum = vec_load_bf16_part(from + i, count);
            sum += add ? vec_load_bf16_part(other + i, count) : (Vec){0};
            elem_store_part(to + i, sum, count);
        }
        return;
    }
    const Elem *from = (const Elem *)table.data + at;
    if (add) {
        elem_add_rows(from, (const Elem *)positions.data + position * width, to, width);
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
                (Elem *)out.data + row * width);
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
static void table_backward(const Sorted *s, Span tokens, const Elem *dout, float *dtable,
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
        if (s->every) {
            memset(to, 0, bytes);
        }
        for (; at < end && s->ids[s->order[at]] == token; at++) {
            elem_add_into(dout + s->order[at] * width, to, width);
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
    const Elem *from = (const Elem *)dout.data + columns.first;
    float *to = (float *)dpositions.data + columns.first;
    for (int64_t t = 0; mode == MODE_SET && t < dpositions.dim[0]; t++) {
        memset(to + t * width, 0, (size_t)count * sizeof *to);
    }
    for (int64_t row = 0; row < dout.dim[0]; row++) {
        elem_add_into(from + row * width, to + row_position(starts, row, seq) * width, count);
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
