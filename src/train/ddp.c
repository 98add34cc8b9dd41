#include "train/ddp.h"

#include "base/assert.h"
#include "tensor/offload.h"

const char *ddp_kind_name(DdpKind kind)
{
    static const char *const names[] = {DDP_CHOICES(CHOICE_WORD)};
    return names[kind];
}

static char *at(Tensor flat, int64_t offset)
{
    return (char *)flat.data + (size_t)offset * dtype_size(flat.dtype);
}

/* Where a bucket begins in what the backward pass writes. */
static int64_t place_of(const Ddp *ddp, const Bucket *bucket)
{
    return ddp->roomy > 0 ? ddp->rooms[bucket->room].first : bucket->first;
}

/* What is queued next is among the ranks that share one set of parts; those with the same part;
 * all. */
static void among_shards(Ddp *ddp)
{
    int first = ddp->setup.rank - ddp->shard;
    channel_among(ddp->channel, (RankGroup){first, 1, ddp->shards});
}

static void among_replicas(Ddp *ddp)
{
    int groups = ddp->setup.ranks / ddp->shards;
    channel_among(ddp->channel, (RankGroup){ddp->shard, ddp->shards, groups});
}

static void among_all(Ddp *ddp)
{
    channel_among(ddp->channel, (RankGroup){0, 1, ddp->setup.ranks});
}

/* Of a bucket that begins at `place` of `from`: its sum over ranks, or this rank's part of that.
 * over_groups: the groups have not the same yet. */
static void sum_bucket(Ddp *ddp, int index, Tensor from, int64_t place, bool over_groups)
{
    const Bucket *bucket = &ddp->buckets[index];
    channel_tag(ddp->channel, index);
    int64_t shared = place; /* from here on every rank gets the sum */
    if (ddp_is_sharded(ddp)) {
        int64_t mine = place + ddp->shard * bucket->part;
        shared += ddp->shards * bucket->part;
        among_shards(ddp);
        if (bucket->part > 0) {
            channel_reduce_scatter(ddp->channel, at(from, place), at(from, mine), bucket->part,
                                   from.dtype);
        }
        if (bucket->part > 0 && over_groups && ddp->shards < ddp->setup.ranks) {
            among_replicas(ddp);
            channel_all_reduce(ddp->channel, at(from, mine), bucket->part, from.dtype);
        }
    }
    int64_t left = place + bucket->count - shared;
    if (over_groups) {
        among_all(ddp);
    }
    if (left > 0) {
        channel_all_reduce(ddp->channel, at(from, shared), left, from.dtype);
    }
    among_all(ddp);
}

/* Elements that have been summed where the backward pass left them, to this rank's own. */
static void take(Ddp *ddp, int64_t place, int64_t own, int64_t count)
{
    if (count == 0) {
        return;
    }
    Tensor to = tensor_rows(ddp->own_grad, own, count), from = tensor_rows(ddp->grad, place, count);
    Tensor sent = tensor_given(ddp->wire) ? tensor_rows(ddp->wire, place, count) : from;
    if (ddp->first) {
        op_cast(ddp->ctx, sent, to);
        return;
    }
    if (tensor_given(ddp->wire)) {
        op_cast(ddp->ctx, sent, from);
    }
    op_add(ddp->ctx, to, from, to);
}

/* The room may be written again: what was sent from it has arrived and is added up. */
static void clear_room(Ddp *ddp, DdpRoom *room)
{
    if (room->sent < 0) {
        return;
    }
    const Bucket *bucket = &ddp->buckets[room->sent];
    int64_t shared = ddp->shards * bucket->part;
    ddp_wait_for(ddp, room->ticket);
    take(ddp, room->first + ddp->shard * bucket->part, bucket->own, bucket->part);
    take(ddp, room->first + shared, bucket->own + bucket->part, bucket->count - shared);
    room->sent = -1;
}

/* Of one rank: a bucket where the backward pass writes it, and where it is meanwhile. */
static Tensor in_room(const Ddp *ddp, int index)
{
    const Bucket *bucket = &ddp->buckets[index];
    return tensor_rows(ddp->grad, place_of(ddp, bucket), bucket->count);
}

static Tensor at_home(const Ddp *ddp, int index)
{
    const Bucket *bucket = &ddp->buckets[index];
    return tensor_rows(ddp->own_grad, bucket->first, bucket->count);
}

static void join(Ddp *ddp, CopyQueue queue)
{
    if (ddp->setup.offload) {
        offload_join(ddp->ctx, queue);
    }
}

/* What is copied between the two: a room of bf16, where that is another type. */
static Tensor copied(const Ddp *ddp, int index)
{
    const Bucket *bucket = &ddp->buckets[index];
    return tensor_given(ddp->wire) ? tensor_rows(ddp->wire, place_of(ddp, bucket), bucket->count)
                                   : in_room(ddp, index);
}

/* What earlier micro-steps left is on its way, unless it is there or there is none; false: it is
 * not. */
static bool load_bucket(Ddp *ddp, int index)
{
    DdpRoom *room = &ddp->rooms[ddp->buckets[index].room];
    bool comes = !ddp->first && room->sent != index;
    if (comes && ddp->setup.offload) {
        offload_in(ddp->ctx, at_home(ddp, index), copied(ddp, index));
    }
    room->sent = index;
    return comes;
}

/* It has come. */
static void unpack_bucket(Ddp *ddp, int index)
{
    if (ddp->setup.low) {
        Tensor from = ddp->setup.offload ? copied(ddp, index) : at_home(ddp, index);
        op_cast(ddp->ctx, from, in_room(ddp, index));
    }
}

/* The first bucket of each room, while the forward pass runs. */
static void load_first(Ddp *ddp)
{
    ddp->coming = -1;
    for (int i = 0; i < DDP_ROOMS; i++) {
        ddp->rooms[i].sent = -1;
    }
    for (int i = 0; i < ddp->count; i++) {
        if (ddp->rooms[ddp->buckets[i].room].sent < 0) {
            load_bucket(ddp, i);
        }
    }
}

/* By chance: op_sgd without momentum makes its state the gradient, and rounds it. What it
 * multiplies by 0 is made a number first, where the gradient is one; and the room has no further
 * use. */
static void round_bucket(Ddp *ddp, int index)
{
    Tensor from = in_room(ddp, index);
    Tensor to = ddp->setup.offload ? copied(ddp, index) : at_home(ddp, index);
    op_cast(ddp->ctx, from, to);
    op_sgd(ddp->ctx, (UpdateArgs){.param = from,
                                  .grad = from,
                                  .state = {to},
                                  .index = ddp->buckets[index].first,
                                  .hyper = ddp->rounding,
                                  .norm_sq = ddp->norm_sq,
                                  .tokens = 1});
}

/* A complete bucket leaves while the pass fills the next one, and the one behind that comes: into
 * the room that the bucket before this one has left. */
static void store_bucket(Ddp *ddp, int index)
{
    Ctx *c = ddp->ctx;
    int next = index + 1, behind = index + 2;
    op_sum_squares(c, in_room(ddp, index), ddp->norm_sq, index == 0 ? MODE_SET : MODE_ADD);
    if (ddp->setup.low) {
        round_bucket(ddp, index);
    }
    if (ddp->setup.offload) {
        offload_join(c, COPY_OUT);
        offload_out(c, copied(ddp, index), at_home(ddp, index));
    }
    if (ddp->coming == next || (next < ddp->count && load_bucket(ddp, next))) {
        join(ddp, COPY_IN);
        unpack_bucket(ddp, next);
    }
    bool early = behind < ddp->count && ddp->buckets[behind].room != ddp->buckets[index].room;
    ddp->coming = early && load_bucket(ddp, behind) ? behind : -1;
}

/* Sends the next bucket; in bf16 from a rounded copy. */
static void send_next(Ddp *ddp)
{
    int index = ddp->sent++;
    const Bucket *bucket = &ddp->buckets[index];
    int64_t place = place_of(ddp, bucket);
    Tensor from = ddp->grad, own = tensor_rows(from, place, bucket->count);
    if (tensor_given(ddp->own_sq) && ddp->measures) {
        op_sum_squares(ddp->ctx, own, ddp->own_sq, index == 0 ? MODE_SET : MODE_ADD);
    }
    if (ddp_stores_grads(&ddp->setup)) {
        store_bucket(ddp, index);
        return;
    }
    if (tensor_given(ddp->wire)) {
        from = ddp->wire;
        op_cast(ddp->ctx, own, tensor_rows(from, place, bucket->count));
    }
    if (ddp->channel != NULL) {
        sum_bucket(ddp, index, from, place, true);
    }
    if (ddp->roomy > 0) {
        DdpRoom *room = &ddp->rooms[bucket->room];
        PACER_ASSERT(room->sent < 0, "bucket %d is still in the room of bucket %d", room->sent,
                     index);
        room->sent = index;
        room->ticket = ddp->channel != NULL ? channel_ticket(ddp->channel) : 0;
        if (ddp->sent < ddp->count) { /* the pass writes the next one from here on */
            clear_room(ddp, &ddp->rooms[ddp->buckets[ddp->sent].room]);
        }
    }
}

void ddp_begin(Ddp *ddp, Ctx *c, bool first, bool last)
{
    ddp->ctx = c;
    ddp->sent = 0;
    ddp->first = first;
    ddp->last = last;
    if (ddp_stores_grads(&ddp->setup)) {
        load_first(ddp);
    }
}

void ddp_arrive(Ddp *ddp)
{
    join(ddp, COPY_IN);
    for (int i = 0; i < DDP_ROOMS && ddp_stores_grads(&ddp->setup) && !ddp->first; i++) {
        if (ddp->rooms[i].sent >= 0) {
            unpack_bucket(ddp, ddp->rooms[i].sent);
        }
    }
}

void ddp_ready(Ddp *ddp, int64_t from)
{
    bool early = ddp->setup.kind >= DDP_OVERLAP || ddp_stores_grads(&ddp->setup);
    while (early && ddp->sent < ddp->count && ddp->buckets[ddp->sent].first >= from) {
        send_next(ddp);
    }
}

void ddp_end(Ddp *ddp)
{
    if (ddp->count == 0) {
        return;
    }
    while (ddp->sent < ddp->count) {
        send_next(ddp);
        if (ddp->setup.kind == DDP_NAIVE) {
            ddp_wait(ddp);
        }
    }
    if (ddp_stores_grads(&ddp->setup)) {
        join(ddp, COPY_OUT);
        return;
    }
    if (tensor_given(ddp->own_sq) && ddp->last) {
        ddp_sum(ddp, ddp->own_sq);
    }
    ddp_wait(ddp);
    for (int i = 0; i < DDP_ROOMS && ddp->roomy > 0; i++) {
        clear_room(ddp, &ddp->rooms[i]);
    }
    if (tensor_given(ddp->wire) && ddp->roomy == 0) {
        op_cast(ddp->ctx, ddp->wire, ddp->grad);
    }
}

void ddp_sum(Ddp *ddp, Tensor values)
{
    if (ddp->channel != NULL) {
        channel_tag(ddp->channel, DDP_NO_BUCKET);
        channel_all_reduce(ddp->channel, values.data, tensor_count(values), values.dtype);
    }
}

void ddp_sum_shards(Ddp *ddp, Tensor values)
{
    if (ddp->channel != NULL) {
        among_shards(ddp);
        ddp_sum(ddp, values);
        among_all(ddp);
    }
}

void ddp_wait(Ddp *ddp)
{
    if (ddp->channel != NULL) {
        ddp_wait_for(ddp, channel_ticket(ddp->channel));
    }
}

/* A bucket is sent in three calls and waited for; it is gathered, for the forward pass and for the
 * backward pass, and waited for each time; its steps are gathered and sent once more; then the sums
 * of loss, norm and own_sq and the waits for everything. */
int64_t ddp_spans(const Ddp *ddp, int64_t accum)
{
    int64_t passes = ddp_cuts_grads(&ddp->setup) ? accum : 1;
    return (8 * passes + 8) * (int64_t)ddp->count + 11 + passes;
}

/* The parts of one bucket from all ranks, (part) each, to where it begins; queued. */
static void gather_bucket(Ddp *ddp, int index, void *mine, void *whole, DType dtype)
{
    channel_tag(ddp->channel, index);
    among_shards(ddp);
    channel_all_gather(ddp->channel, mine, whole, ddp->buckets[index].part, dtype);
    among_all(ddp);
}

/* A bucket of values (flat), of which this rank's part is there. */
static void gather_in_place(Ddp *ddp, int index, Tensor values)
{
    const Bucket *bucket = &ddp->buckets[index];
    if (bucket->part > 0) {
        gather_bucket(ddp, index, at(values, bucket->first + ddp->shard * bucket->part),
                      at(values, bucket->first), values.dtype);
    }
}

/* A bucket, of which this rank has what begins at `first` of own, into `room` (count). */
static void gather_into_room(Ddp *ddp, Ctx *c, int index, Tensor own, int64_t first, Tensor room)
{
    const Bucket *bucket = &ddp->buckets[index];
    int64_t shared = ddp->shards * bucket->part, rest = bucket->count - shared;
    if (rest > 0) {
        op_cast(c, tensor_rows(own, first + bucket->part, rest), tensor_rows(room, shared, rest));
    }
    if (bucket->part > 0 && ddp->channel != NULL) {
        gather_bucket(ddp, index, at(own, first), room.data, own.dtype);
    }
}

static bool holds(const Bucket *bucket, int64_t first, int64_t end)
{
    return first < bucket->first + bucket->count && bucket->first < end;
}

/* Of one rank: a bucket comes into its room, and the next that is asked for, the one in memory
 * behind it, is on its way from here on. */
static Tensor bring_bucket(Ddp *ddp, Ctx *c, int index)
{
    if (ddp->coming != index) {
        offload_in(c, at_home(ddp, index), in_room(ddp, index));
    }
    offload_join(c, COPY_IN);
    ddp->coming = index > 0 && ddp->buckets[index - 1].room < ROOM_OUTSIDE ? index - 1 : -1;
    if (ddp->coming >= 0) {
        offload_in(c, at_home(ddp, ddp->coming), in_room(ddp, ddp->coming));
    }
    return in_room(ddp, index);
}

Tensor ddp_gather_parts(Ddp *ddp, Ctx *c, int64_t first, int64_t end, int64_t *at)
{
    Tensor whole = ddp->grad;
    *at = 0;
    if (ddp->setup.offload) {
        int index = ddp_bucket_of(ddp, first);
        *at = ddp->buckets[index].first;
        return bring_bucket(ddp, c, index);
    }
    if (ddp->roomy > 0) {
        int index = ddp_bucket_of(ddp, first);
        const Bucket *bucket = &ddp->buckets[index];
        whole = tensor_rows(ddp->grad, place_of(ddp, bucket), bucket->count);
        gather_into_room(ddp, c, index, ddp->own_grad, bucket->own, whole);
        *at = bucket->first;
    }
    for (int i = 0; ddp->roomy == 0 && ddp->channel != NULL && i < ddp->count; i++) {
        if (holds(&ddp->buckets[i], first, end)) {
            gather_in_place(ddp, i, ddp->grad);
        }
    }
    ddp_wait(ddp);
    return whole;
}

void ddp_sum_parts(Ddp *ddp, Ctx *c, int64_t first, int64_t end)
{
    if (ddp->setup.offload) {
        int index = ddp_bucket_of(ddp, first);
        offload_join(c, COPY_OUT); /* of the one before, whose room the one behind the next takes */
        offload_out(c, in_room(ddp, index), at_home(ddp, index));
        return;
    }
    for (int i = 0; i < ddp->count; i++) {
        const Bucket *bucket = &ddp->buckets[i];
        if (ddp->channel != NULL && holds(bucket, first, end)) {
            sum_bucket(ddp, i, ddp->grad, place_of(ddp, bucket), false);
        }
    }
    ddp_wait(ddp);
    if (ddp->roomy > 0) {
        const Bucket *bucket = &ddp->buckets[ddp_bucket_of(ddp, first)];
        int64_t place = place_of(ddp, bucket), shared = ddp->shards * bucket->part;
        int64_t from[] = {place + ddp->shard * bucket->part, place + shared};
        int64_t to[] = {bucket->own, bucket->own + bucket->part};
        int64_t count[] = {bucket->part, bucket->count - shared};
        for (int i = 0; i < 2; i++) {
            if (count[i] > 0) {
                op_cast(c, tensor_rows(ddp->grad, from[i], count[i]),
                        tensor_rows(ddp->own_grad, to[i], count[i]));
            }
        }
    }
}

void ddp_gather(Ddp *ddp, Tensor weights)
{
    if (ddp->channel == NULL || !ddp_is_sharded(ddp)) {
        return;
    }
    /* Gradients are complete in the order of the buckets; weights are needed the other way
     * round. Norms and biases, which many layers need, go first. */
    for (int i = ddp->count - 1; i >= 0; i--) {
        Bucket *bucket = &ddp->buckets[i];
        if (bucket->part > 0) {
            gather_in_place(ddp, i, weights);
            bucket->ticket = channel_ticket(ddp->channel);
        }
    }
}

int64_t ddp_awaited(const Ddp *ddp, int64_t offset, int64_t count)
{
    int64_t last = 0;
    for (int i = 0; i < ddp->count; i++) {
        const Bucket *bucket = &ddp->buckets[i];
        bool held = holds(bucket, offset, offset + count);
        last = held && bucket->ticket > last ? bucket->ticket : last;
    }
    return last > ddp->arrived ? last : 0;
}

void ddp_wait_for(Ddp *ddp, int64_t ticket)
{
    if (ddp->channel == NULL || ticket <= ddp->arrived) {
        return;
    }
    if (ddp->stalls != NULL) {
        ddp->stalls(ddp->stalls_user, true);
    }
    channel_wait_for(ddp->channel, ticket);
    ddp->arrived = ticket;
    if (ddp->stalls != NULL) {
        ddp->stalls(ddp->stalls_user, false);
    }
}

void ddp_drop(Ddp *ddp)
{
    for (int i = 0; i < DDP_ROOMS; i++) {
        ddp->rooms[i].held = -1;
    }
}

/* Of layers the first ones; of embedding and head, what came last. */
void ddp_passed(Ddp *ddp)
{
    ddp_drop(ddp);
    for (int i = 0; i < ddp->count && ddp_cuts_weights(&ddp->setup); i++) {
        DdpRoom *room = &ddp->rooms[ddp->buckets[i].room];
        room->held = ddp->buckets[i].room == ROOM_OUTSIDE && room->held >= 0 ? room->held : i;
    }
}

Tensor ddp_weights(const Ddp *ddp, const Bucket *bucket)
{
    int64_t first = ddp->rooms[bucket->room].weights_first[bucket->kind];
    return tensor_rows(ddp->weights[bucket->kind], first, bucket->count);
}

static void fetch_bucket(Ddp *ddp, Ctx *c, int index)
{
    Bucket *bucket = &ddp->buckets[index];
    DdpRoom *room = &ddp->rooms[bucket->room];
    if (room->held == index) {
        return;
    }
    gather_into_room(ddp, c, index, ddp->own_weights[bucket->kind], bucket->kind_own,
                     ddp_weights(ddp, bucket));
    bucket->ticket = ddp->channel != NULL ? channel_ticket(ddp->channel) : 0;
    room->held = index;
}

/* A backward pass begins with layers, and does not read embeddings. */
void ddp_fetch(Ddp *ddp, Ctx *c, int64_t offset, bool back)
{
    int index = ddp_bucket_of(ddp, offset), next = back ? index + 1 : index - 1;
    fetch_bucket(ddp, c, index);
    bool small = ddp->buckets[index].room == ROOM_SMALL;
    if (!small && next >= 0 && next < ddp->count &&
        !(back && ddp->buckets[next].room >= ROOM_OUTSIDE)) {
        fetch_bucket(ddp, c, next);
    }
}
