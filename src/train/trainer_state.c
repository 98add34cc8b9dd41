/* Master weights and moments between host memory and where they are kept: on this rank, or, with
 * zero1, on the rank that each piece belongs to. */
#include "train/trainer.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>

#define PIECE ((int64_t)1 << 20) /* elements of a parameter handled at a time */

static Tensor buffer_of(const Trainer *t, int which)
{
    return which == STATE_PARAMS ? t->optimizer.param : t->optimizer.state[which];
}

/* Weights in f32 are kept whole by every rank; anything else only by its keeper. */
static DdpPiece piece_of(const Trainer *t, int which, int64_t offset, int64_t end)
{
    bool whole = which == STATE_PARAMS && !tensor_given(t->optimizer.low);
    return whole ? (DdpPiece){offset, end - offset, offset, -1} : ddp_piece(&t->ddp, offset, end);
}

static bool is_kept_here(const Trainer *t, DdpPiece piece)
{
    return piece.keeper < 0 || piece.keeper == t->ddp.setup.rank;
}

/* The copy that the model reads, when it is of another type than the master's. */
static void write_low(Trainer *t, int64_t offset, int64_t count, const float *from)
{
    Backend *backend = t->backend;
    uint16_t *low = mem_alloc((size_t)PIECE * sizeof *low);
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t n = count - at < PIECE ? count - at : PIECE;
        for (int64_t i = 0; i < n; i++) {
            low[i] = bf16_from_f32(from[at + i]);
        }
        Tensor to = tensor_rows(t->optimizer.low, offset + at, n);
        backend->upload(backend, to.data, low, tensor_bytes(to));
        backend->sync(backend);
    }
    free(low);
}

void trainer_write_state(Trainer *t, int which, int64_t offset, int64_t count, const void *host)
{
    Backend *backend = t->backend;
    Tensor flat = buffer_of(t, which);
    size_t size = dtype_size(flat.dtype);
    for (int64_t at = offset, end = offset + count; at < end;) {
        DdpPiece piece = piece_of(t, which, at, end);
        if (is_kept_here(t, piece)) {
            Tensor to = tensor_rows(flat, piece.own, piece.count);
            backend->upload(backend, to.data, (const char *)host + (size_t)(at - offset) * size,
                            tensor_bytes(to));
        }
        at += piece.count;
    }
    if (which == STATE_PARAMS && tensor_given(t->optimizer.low)) {
        write_low(t, offset, count, host);
    }
    backend->sync(backend);
}

int trainer_read_state(Trainer *t, int which, int64_t offset, int64_t count, void *host)
{
    Tensor flat = buffer_of(t, which);
    size_t size = dtype_size(flat.dtype);
    int code = 0;
    PACER_ASSERT(which != STATE_PARAMS || !t->scattered, "weights of other ranks are missing");
    for (int64_t at = offset, end = offset + count; code == 0 && at < end;) {
        DdpPiece piece = piece_of(t, which, at, end);
        char *to = (char *)host + (size_t)(at - offset) * size;
        size_t bytes = (size_t)piece.count * size;
        if (is_kept_here(t, piece)) {
            t->backend->download(t->backend, to, tensor_rows(flat, piece.own, piece.count).data,
                                 bytes);
        }
        if (piece.keeper >= 0) {
            code = comm_broadcast(t->comm, to, bytes, piece.keeper);
        }
        at += piece.count;
    }
    return code;
}

void trainer_init_params(Trainer *t, uint64_t seed)
{
    const ParamTable *table = &t->model.params;
    PACER_ASSERT(t->optimizer.param.dtype == DT_F32, "master weights are %s",
                 dtype_name(t->optimizer.param.dtype));
    float *values = mem_alloc((size_t)PIECE * sizeof *values);
    for (int row = 0; row < table->count; row++) {
        const Param *param = &table->rows[row];
        for (int64_t at = 0; at < param->count; at += PIECE) {
            int64_t n = param->count - at < PIECE ? param->count - at : PIECE;
            params_init_values(table, row, seed, at, n, values);
            trainer_write_state(t, STATE_PARAMS, param->offset + at, n, values);
        }
    }
    free(values);
}

uint64_t trainer_checksum(Trainer *t)
{
    trainer_settle(t);
    op_checksum(&t->ctx, trainer_weights(t), t->checksum);
    uint32_t half[2];
    t->backend->download(t->backend, half, t->checksum.data, sizeof half);
    return (uint64_t)half[1] << 32 | half[0];
}
