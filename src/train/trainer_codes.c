/* Codes in e4m3 of a trainer's weights. A rank that has all weights makes all codes, once per
 * update. With zero3 each rank finds the largest values, which scales follow, in its own part.
 * Where codes travel it makes those of its part, by rows; their columns are made for the backward
 * pass where they arrive. Else codes are made of the weights that arrive. Both go on a desk that
 * layers share. */
#include "train/trainer.h"

#define SPREAD 64                       /* of codes that are no matrix: see DDP_LINE */
#define MOST_AT_ONCE ((int64_t)1 << 26) /* elements of an op, which a device's grid can count */

/* Where a map's weight begins in the flat buffer. */
static int64_t offset_of(const Trainer *t, const Linear *l)
{
    return t->model.params.rows[l->weight.first].offset;
}

static const Bucket *bucket_of(const Trainer *t, const Linear *l)
{
    return &t->ddp.buckets[ddp_bucket_of(&t->ddp, offset_of(t, l))];
}

static bool travels(const Trainer *t, const Linear *l)
{
    return bucket_of(t, l)->kind == SENT_CODES;
}

static int layer_of(const Trainer *t, const Linear *l)
{
    return t->model.params.rows[l->weight.first].layer;
}

/* Places on the desk, taken in forward order. */
typedef struct {
    Trainer *trainer;
    int layer;    /* of the last one */
    int64_t used; /* by this layer */
} Placing;

/* Where so many codes of a map go, behind those of its layer before it. */
static int64_t take_place(Placing *placing, const Linear *l, int64_t codes)
{
    int layer = layer_of(placing->trainer, l);
    int64_t at = layer == placing->layer ? placing->used : 0;
    placing->layer = layer;
    placing->used = at + codes;
    return at;
}

/* Codes of a map that the desk has: all of them, or, where codes travel, their columns. */
static int64_t on_desk(const Trainer *t, const Linear *l)
{
    return tensor_count(l->weight.value) * (travels(t, l) ? 1 : 2);
}

static void place_on_desk(void *user, const Linear *l, uint8_t **rows, uint8_t **columns)
{
    Placing *placing = user;
    const Trainer *t = placing->trainer;
    int64_t count = tensor_count(l->weight.value), at = take_place(placing, l, on_desk(t, l));
    uint8_t *desk = (placing->layer < 0 ? t->desk.head : t->desk.layer).data;
    if (desk == NULL) {
        return;
    }
    *rows = desk + at;
    *columns = desk + at + count;
    if (travels(t, l)) {
        const Bucket *bucket = bucket_of(t, l);
        *rows = (uint8_t *)ddp_weights(&t->ddp, bucket).data + offset_of(t, l) - bucket->first;
        *columns = desk + at;
    }
}

#define NO_LAYER_YET (-2)

static void lay_out_desk(Trainer *t)
{
    int64_t layer = 0, head = 0, i = 0;
    Placing placing = {t, NO_LAYER_YET, 0};
    for (const Linear *l; (l = model_coded(&t->model, &i)) != NULL;) {
        take_place(&placing, l, on_desk(t, l));
        int64_t *most = placing.layer < 0 ? &head : &layer;
        *most = placing.used > *most ? placing.used : *most;
    }
    t->desk.layer = arena_push(&t->work.state, MEM_PARAMS, DT_E4M3, 1, &layer);
    t->desk.head = arena_push(&t->work.state, MEM_PARAMS, DT_E4M3, 1, &head);
    trainer_clear_desk(t);
}

void trainer_lay_out_codes(Trainer *t)
{
    if (!t->model.quantised) {
        return;
    }
    const DdpSetup *ddp = &t->setup.ddp;
    int ranks = ddp->ranks > 1 ? ddp->ranks : 1;
    int64_t scales = model_quant_scales(&t->model);
    t->quant.scales =
        arena_push(&t->work.state, MEM_CONSTANTS, DT_F32, 2, (int64_t[]){scales, SCALE_COUNT});
    t->quant.largest =
        arena_push(&t->work.state, MEM_CONSTANTS, DT_F32, 2, (int64_t[]){scales, ranks});
    t->quant.part = ranks > 1 ? ddp->rank : 0;
    Placing placing = {t, NO_LAYER_YET, 0};
    if (ddp_cuts_weights(ddp)) {
        lay_out_desk(t);
        t->quant.place = place_on_desk;
        t->quant.place_user = &placing;
    } else {
        int64_t codes = model_quant_codes(&t->model);
        t->quant.codes = arena_push(&t->work.state, MEM_PARAMS, DT_E4M3, 1, &codes);
    }
    t->quant.masters = t->low_end < t->model.params.decayed ? t->optimizer.param : TENSOR_NONE;
    t->quant.host_masters = t->optimizer.host_param;
    model_bind_quant(&t->model, t->quant);
    t->quant.place_user = NULL;
}

/* Of a map's weight, the largest values of a piece that is this rank's, and its codes where these
 * travel: from the masters, of which nothing else is left. */
static void look_at_piece(Trainer *t, const Linear *l, DdpPiece piece)
{
    const Bucket *bucket = bucket_of(t, l);
    Tensor own = bucket->kind == SENT_CODES
                     ? tensor_rows(t->optimizer.param, piece.own, piece.count)
                     : tensor_rows(t->optimizer.low, trainer_low_at(t, piece), piece.count);
    Quant q = {.scale = l->codes.scale, .largest = l->codes.largest};
    int64_t rows = piece.count / SPREAD;
    if (bucket->kind == SENT_CODES) {
        Tensor codes = tensor_rows(t->ddp.own_weights[SENT_CODES],
                                   bucket->kind_own + piece.own - bucket->own, piece.count);
        q.rows = tensor_2d(codes.data, codes.dtype, rows, SPREAD);
    }
    op_quantise(&t->ctx, tensor_2d(own.data, own.dtype, rows, SPREAD), q, TENSOR_NONE, MODE_SET);
}

static void look_at_own(Trainer *t, const Linear *l)
{
    int64_t first = offset_of(t, l), end = first + tensor_count(l->weight.value);
    for (DdpPiece piece; ddp_own_piece(&t->ddp, first, end, &piece); first += piece.count) {
        first = piece.offset;
        piece.count = piece.count < MOST_AT_ONCE ? piece.count : MOST_AT_ONCE;
        look_at_piece(t, l, piece);
    }
}

/* All codes from the weights that are here, or, of weights that come in parts, what scales will
 * follow, and what is sent. */
static void look_at_weights(Trainer *t)
{
    if (!ddp_cuts_weights(&t->setup.ddp)) {
        model_quantise(&t->ctx, &t->model);
        return;
    }
    int64_t i = 0;
    for (const Linear *l; (l = model_coded(&t->model, &i)) != NULL;) {
        look_at_own(t, l);
    }
}

/* The first `count` scales, from what ranks have seen. apart: not all have seen the same. */
static void follow(Trainer *t, int64_t count, bool apart)
{
    Tensor largest = tensor_rows(t->quant.largest, 0, count);
    if (apart) {
        ddp_sum(&t->ddp, largest);
        ddp_wait(&t->ddp);
    }
    op_rescale(&t->ctx, tensor_rows(t->quant.scales, 0, count), largest);
}

/* Scales of the weights come first, where they are not known: from the weights themselves. */
void trainer_make_codes(Trainer *t)
{
    if (!t->codes_behind || t->ctx.dry) {
        return;
    }
    if (!t->scaled) {
        look_at_weights(t);
        follow(t, model_quant_weights(&t->model), ddp_cuts_weights(&t->setup.ddp));
        t->scaled = true;
    }
    look_at_weights(t);
    t->codes_behind = false;
}

void trainer_rescale(Trainer *t)
{
    if (!t->model.quantised) {
        return;
    }
    follow(t, t->quant.scales.dim[0], t->setup.ddp.ranks > 1);
    bool comes = ddp_is_sharded(&t->ddp) && t->ddp.channel != NULL;
    if (!comes || ddp_cuts_weights(&t->setup.ddp)) { /* else they are not here yet */
        look_at_weights(t);
    }
}

void trainer_clear_desk(Trainer *t)
{
    t->desk.held = -1;
    t->desk.head_held = false;
}

/* Whether the desk has to be filled for a map whose layer has arrived. Of what travels as codes a
 * forward pass needs no more, unless its head is followed at once by its gradient. */
static bool is_waited_for(const Trainer *t, const Linear *l, int layer)
{
    return layer < 0 || t->back || !travels(t, l);
}

/* Whether the maps of `layer`, or the head, go onto the desk now; they are there from here on. */
static bool begin_unpacking(Trainer *t, const Linear *first, int layer, int64_t offset)
{
    Desk *desk = &t->desk;
    if (first == NULL || !is_waited_for(t, first, layer)) {
        return false;
    }
    if (layer >= 0) {
        bool held = desk->held == layer;
        desk->held = layer;
        return !held;
    }
    bool comes = !desk->head_held && offset_of(t, first) == offset;
    desk->head_held = desk->head_held || comes;
    return comes;
}

/* A layer's weights are all in one bucket. */
void trainer_unpack(Trainer *t, int64_t offset)
{
    int layer = t->ctx.layer;
    if (!t->model.quantised || !ddp_cuts_weights(&t->setup.ddp) ||
        t->ddp.buckets[ddp_bucket_of(&t->ddp, offset)].room == ROOM_SMALL) {
        return;
    }
    int64_t i = model_coded_first(&t->model, layer);
    const Linear *l = model_coded(&t->model, &i);
    bool begins = begin_unpacking(t, l, layer, offset);
    for (; begins && l != NULL && layer_of(t, l) == layer; l = model_coded(&t->model, &i)) {
        Quant codes = l->codes;
        codes.largest = TENSOR_NONE; /* each rank has seen its part of them */
        if (travels(t, l)) {
            op_quant_turn(&t->ctx, codes);
        } else {
            op_quantise(&t->ctx, l->weight.value, codes, TENSOR_NONE, MODE_SET);
        }
    }
}
