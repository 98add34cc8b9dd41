/* Updates of what is in memory of the host. Its ranges come in pieces, through three rooms of the
 * device's memory taken in turns: while a piece is updated in one, the next comes into another and
 * the one before leaves the third. Elements are updated each by itself, so the bits are those of
 * whole ranges. */
#include "optim/optimizer.h"

#include "tensor/offload.h"

#define ROOMS 3
enum { BUFFER_PARAM, BUFFER_GRAD, BUFFER_STATES, BUFFERS = BUFFER_STATES + OPTIMIZER_STATES };

typedef struct {
    int range;
    int64_t from, count; /* of its elements */
} Piece;

typedef struct {
    Tensor buffers[BUFFERS]; /* (piece) each; none: it is on the device */
    Tensor low; /* (piece) bf16: gradients as they come; they are f32 in their buffer */
} Room;

/* The one behind it; false: there is none. */
static bool next_piece(const Optimizer *o, bool last, Piece *piece)
{
    piece->from += piece->count;
    while (piece->range < o->range_count &&
           (piece->from == o->ranges[piece->range].count ||
            optimizer_update_of(o, &o->ranges[piece->range], last) == NULL)) {
        *piece = (Piece){.range = piece->range + 1};
    }
    if (piece->range == o->range_count) {
        return false;
    }
    int64_t left = o->ranges[piece->range].count - piece->from;
    piece->count = left < o->piece ? left : o->piece;
    return true;
}

static UpdateArgs args_of(const Optimizer *o, Piece piece, bool last)
{
    return optimizer_args(o, &o->ranges[piece.range], piece.from, piece.count, last);
}

static Tensor *place_in(UpdateArgs *args, int buffer)
{
    return buffer == BUFFER_PARAM  ? &args->param
           : buffer == BUFFER_GRAD ? &args->grad
                                   : &args->state[buffer - BUFFER_STATES];
}

static bool is_away(const Optimizer *o, int buffer, bool last)
{
    return buffer == BUFFER_PARAM ? o->host_param
           : buffer == BUFFER_GRAD
               ? o->host_grad || o->grad.dtype == DT_BF16
               : o->host_states && !last && tensor_given(o->state[buffer - BUFFER_STATES]);
}

static Tensor room_of(Ctx *c, DType dtype, int64_t count)
{
    Tensor flat = ctx_scratch(c, MEM_SCRATCH, dtype, 1, count);
    return tensor_1d(flat.data, flat.dtype, count);
}

/* As much as the longest piece takes. */
static void make_rooms(Ctx *c, const Optimizer *o, bool last, Room rooms[ROOMS])
{
    const DType dtypes[BUFFERS] = {o->param.dtype, o->norm_sq.dtype, o->state[0].dtype,
                                   o->state[1].dtype};
    bool low = o->grad.dtype == DT_BF16;
    int64_t most = 0;
    for (Piece piece = {0}; next_piece(o, last, &piece);) {
        most = piece.count > most ? piece.count : most;
    }
    for (int i = 0; i < ROOMS; i++) {
        rooms[i] = (Room){0};
        for (int k = 0; k < BUFFERS; k++) {
            rooms[i].buffers[k] = is_away(o, k, last) ? room_of(c, dtypes[k], most) : TENSOR_NONE;
        }
        rooms[i].low = low && o->host_grad ? room_of(c, DT_BF16, most) : TENSOR_NONE;
    }
}

/* Where the piece is while it is updated: what of it is in memory of the host, in the room. */
static UpdateArgs staged(UpdateArgs args, const Room *room)
{
    int64_t count = tensor_count(args.param);
    for (int k = 0; k < BUFFERS; k++) {
        Tensor *place = place_in(&args, k);
        if (tensor_given(*place) && tensor_given(room->buffers[k])) {
            *place = tensor_rows(room->buffers[k], 0, count);
        }
    }
    return args;
}

/* Between the two places of a piece. Gradients go back where they have become something else. */
static void carry(Ctx *c, CopyQueue queue, UpdateArgs home, const Room *room, bool grad)
{
    UpdateArgs here = staged(home, room);
    for (int k = 0; k < BUFFERS; k++) {
        Tensor far = *place_in(&home, k), near = *place_in(&here, k);
        if (!tensor_given(far) || !tensor_given(room->buffers[k]) || (k == BUFFER_GRAD && !grad)) {
            continue;
        }
        if (k == BUFFER_GRAD && far.dtype == DT_BF16) {
            if (!tensor_given(room->low)) {
                continue;
            }
            near = tensor_rows(room->low, 0, tensor_count(far));
        }
        if (queue == COPY_IN) {
            offload_in(c, far, near);
        } else {
            offload_out(c, near, far);
        }
    }
}

/* The next piece comes into the room that the piece before the last one left: that this has left is
 * waited for before the last one is updated, since when its room is free. */
void optimizer_pass_offloaded(Ctx *c, const Optimizer *o, bool last)
{
    ArenaMark mark = arena_mark(&c->scratch);
    Room rooms[ROOMS];
    Piece piece = {0};
    make_rooms(c, o, last, rooms);
    offload_join(c, COPY_OUT); /* of matrices that were shaped */
    bool more = next_piece(o, last, &piece);
    if (more) {
        carry(c, COPY_IN, args_of(o, piece, last), &rooms[0], true);
    }
    for (int turn = 0; more; turn = (turn + 1) % ROOMS) {
        const OptimizerRange *range = &o->ranges[piece.range];
        UpdateArgs home = args_of(o, piece, last);
        offload_join(c, COPY_IN);
        Piece next = piece;
        more = next_piece(o, last, &next);
        if (more) {
            carry(c, COPY_IN, args_of(o, next, last), &rooms[(turn + 1) % ROOMS], true);
        }
        UpdateArgs here = staged(home, &rooms[turn]);
        if (home.grad.dtype == DT_BF16) {
            Tensor low = tensor_given(rooms[turn].low) ? rooms[turn].low : home.grad;
            op_cast(c, tensor_rows(low, 0, tensor_count(home.grad)), here.grad);
        }
        optimizer_update_of(o, range, last)(c, o, o->classes[range->class].hyper, here);
        offload_join(c, COPY_OUT);
        bool shaped = !last && o->classes[range->class].rule->shape != NULL;
        carry(c, COPY_OUT, home, &rooms[turn], shaped);
        piece = next;
    }
    offload_join(c, COPY_OUT);
    arena_release(&c->scratch, mark);
}
