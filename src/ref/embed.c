#include "ref/ref.h"

#include "base/assert.h"

static int64_t token_at(Tensor ids, int64_t row, int64_t vocab)
{
    int64_t id = ref_index(ids, row);
    PACER_ASSERT(id >= 0 && id < vocab, "token %lld of row %lld, vocabulary %lld", (long long)id,
                 (long long)row, (long long)vocab);
    return id;
}

/* out (N,C) = table[ids] + positions[of the row] */
static void embed_forward(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor starts,
                          int64_t seq, Tensor out)
{
    (void)c;
    int64_t rows = out.dim[0], width = out.dim[1];
    for (int64_t n = 0; n < rows; n++) {
        int64_t id = token_at(ids, n, table.dim[0]);
        for (int64_t i = 0; i < width; i++) {
            double value = ref_get(table, id * width + i);
            if (tensor_given(positions)) {
                value += ref_get(positions, row_position(starts, n, seq) * width + i);
            }
            ref_put(out, n * width + i, value);
        }
    }
}

static void embed_step(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position,
                       Tensor out)
{
    Tensor row = positions;
    if (tensor_given(positions)) {
        int64_t at = ref_index(position, 0);
        PACER_ASSERT(at >= 0 && at < positions.dim[0], "position %lld of %lld", (long long)at,
                     (long long)positions.dim[0]);
        row = tensor_rows(positions, at, 1);
    }
    embed_forward(c, ids, table, row, TENSOR_NONE, 1, out);
}

/* dtable (V,C): the rows of one token are a run of `order`, [first, last). */
static void table_backward(Tensor ids, Tensor order, Tensor dout, Tensor dtable, Mode mode)
{
    int64_t rows = dout.dim[0], width = dout.dim[1], vocab = dtable.dim[0];
    int64_t first = 0;
    for (int64_t v = 0; v < vocab; v++) {
        int64_t last = first;
        while (last < rows && token_at(ids, ref_index(order, last), vocab) == v) {
            last++;
        }
        for (int64_t i = 0; i < width; i++) {
            double sum = 0;
            for (int64_t k = first; k < last; k++) {
                sum += ref_get(dout, ref_index(order, k) * width + i);
            }
            ref_store(dtable, v * width + i, sum, mode);
        }
        first = last;
    }
    PACER_ASSERT(first == rows, "order is not sorted by id at %lld", (long long)first);
}

/* dpositions (P,C): row t sums over the rows at that position; rows from seq on get nothing. */
static void positions_backward(Tensor dout, Tensor dpositions, Tensor starts, int64_t seq,
                               Mode mode)
{
    int64_t rows = dout.dim[0], width = dout.dim[1];
    for (int64_t t = 0; t < dpositions.dim[0]; t++) {
        for (int64_t i = 0; i < width; i++) {
            double sum = 0;
            for (int64_t n = 0; n < rows; n++) {
                sum += row_position(starts, n, seq) == t ? ref_get(dout, n * width + i) : 0;
            }
            ref_store(dpositions, t * width + i, sum, mode);
        }
    }
}

static void embed_backward(Ctx *c, Tensor ids, Tensor order, Tensor dout, Tensor dtable,
                           Tensor dpositions, Tensor starts, int64_t seq, Mode dtable_mode,
                           Mode dpositions_mode)
{
    (void)c;
    table_backward(ids, order, dout, dtable, dtable_mode);
    if (tensor_given(dpositions)) {
        positions_backward(dout, dpositions, starts, seq, dpositions_mode);
    }
}

void ref_fill_embed(Ops *ops)
{
    ops->embed_forward = embed_forward;
    ops->embed_step = embed_step;
    ops->embed_backward = embed_backward;
}
