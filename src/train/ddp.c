#include "train/ddp.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>

#define LINE 64 /* elements: parts of ranks begin at multiples of it, as parameters do */

const char *ddp_kind_name(DdpKind kind)
{
    static const char *const names[] = {DDP_CHOICES(CHOICE_WORD)};
    return names[kind];
}

static void add_bucket(Ddp *ddp, int64_t first, int64_t last)
{
    if (first >= last) {
        return;
    }
    if ((ddp->count & (ddp->count - 1)) == 0) { /* room for a power of two, which is used up */
        size_t room = ddp->count > 0 ? 2 * (size_t)ddp->count : 1;
        ddp->buckets = mem_realloc(ddp->buckets, room, sizeof *ddp->buckets);
    }
    Bucket *bucket = &ddp->buckets[ddp->count++];
    *bucket = (Bucket){.first = first, .count = last - first};
    if (ddp_is_sharded(ddp)) {
        int ranks = ddp->setup.ranks;
        bucket->part = bucket->count / (ranks * LINE) * LINE;
        bucket->own = ddp->owned;
        ddp->owned += bucket->count - (ranks - 1) * bucket->part;
    }
}

/* The decaying row before this one; -1: none. */
static int decayed_before(const ParamTable *table, int row)
{
    do {
        row--;
    } while (row >= 0 && !table->rows[row].decay);
    return row;
}

/* Head, layers from the last to the first, embeddings: a bucket is closed at the first boundary
 * between them that makes it large enough. Norms and biases, which lie behind all of these, are
 * complete at the very end. */
static void cut_by_layers(Ddp *ddp, const ParamTable *table)
{
    int64_t least = ddp->setup.bucket_bytes / (int64_t)sizeof(float), end = table->decayed;
    for (int row = decayed_before(table, table->count); row > 0;) {
        int before = decayed_before(table, row);
        int64_t begin = table->rows[row].offset;
        if (before >= 0 && table->rows[before].layer != table->rows[row].layer &&
            end - begin >= least) {
            add_bucket(ddp, begin, end);
            end = begin;
        }
        row = before;
    }
    add_bucket(ddp, 0, end);
    add_bucket(ddp, table->decayed, table->flat);
}

static void cut_by_rows(Ddp *ddp, const ParamTable *table)
{
    for (int row = table->count - 1; row >= 0; row--) {
        const Param *param = &table->rows[row];
        add_bucket(ddp, param->offset, param->offset + param->count);
    }
}

void ddp_init(Ddp *ddp, const DdpSetup *setup, const ParamTable *table)
{
    *ddp = (Ddp){.setup = *setup};
    if (setup->ranks > 1) {
        switch (setup->kind) {
        case DDP_NAIVE:
            cut_by_rows(ddp, table);
            break;
        case DDP_FLAT:
            add_bucket(ddp, 0, table->flat);
            break;
        case DDP_OVERLAP:
        case DDP_ZERO1:
            cut_by_layers(ddp, table);
            break;
        }
    }
    if (!ddp_is_sharded(ddp)) {
        ddp->owned = table->flat;
    }
}

void ddp_free(Ddp *ddp)
{
    free(ddp->buckets);
    *ddp = (Ddp){0};
}

static char *at(Tensor flat, int64_t offset)
{
    return (char *)flat.data + (size_t)offset * dtype_size(flat.dtype);
}

/* A bucket of `from` (flat): its sum over ranks, or this rank's part of that. */
static void sum_bucket(Ddp *ddp, int index, Tensor from)
{
    const DdpSetup *s = &ddp->setup;
    const Bucket *bucket = &ddp->buckets[index];
    channel_tag(ddp->channel, index);
    int64_t shared = bucket->first; /* from here on every rank gets the sum */
    if (ddp_is_sharded(ddp)) {
        int64_t mine = bucket->first + s->rank * bucket->part;
        shared += s->ranks * bucket->part;
        if (bucket->part > 0) {
            channel_reduce_scatter(ddp->channel, at(from, bucket->first), at(from, mine),
                                   bucket->part, from.dtype);
        }
    }
    int64_t left = bucket->first + bucket->count - shared;
    if (left > 0) {
        channel_all_reduce(ddp->channel, at(from, shared), left, from.dtype);
    }
}

/* Sends the next bucket; in bf16 from a rounded copy. */
static void send_next(Ddp *ddp)
{
    int index = ddp->sent++;
    const Bucket *bucket = &ddp->buckets[index];
    Tensor from = ddp->grad, own = tensor_rows(from, bucket->first, bucket->count);
    if (tensor_given(ddp->own_sq) && ddp->measures) {
        op_sum_squares(ddp->ctx, own, ddp->own_sq, index == 0 ? MODE_SET : MODE_ADD);
    }
    if (tensor_given(ddp->wire)) {
        from = ddp->wire;
        op_cast(ddp->ctx, own, tensor_rows(from, bucket->first, bucket->count));
    }
    if (ddp->channel != NULL) {
        sum_bucket(ddp, index, from);
    }
}

void ddp_begin(Ddp *ddp, Ctx *c)
{
    ddp->ctx = c;
    ddp->sent = 0;
}

void ddp_ready(Ddp *ddp, int64_t from)
{
    bool early = ddp->setup.kind == DDP_OVERLAP || ddp->setup.kind == DDP_ZERO1;
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
    if (tensor_given(ddp->own_sq)) {
        ddp_sum(ddp, ddp->own_sq);
    }
    ddp_wait(ddp);
    if (tensor_given(ddp->wire)) {
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

void ddp_wait(Ddp *ddp)
{
    if (ddp->channel != NULL) {
        channel_wait(ddp->channel);
    }
}

/* A bucket is sent in two calls; it is gathered in one and waited for, or naive and waited for; its
 * steps are gathered and sent once more; then the sums of loss, norm and own_sq and the waits for
 * everything. */
int64_t ddp_spans(const Ddp *ddp)
{
    return 7 * (int64_t)ddp->count + 11;
}

/* The parts of one bucket of values (flat), from all ranks to all; queued. */
static void gather_bucket(Ddp *ddp, int index, Tensor values)
{
    const Bucket *bucket = &ddp->buckets[index];
    int64_t mine = bucket->first + ddp->setup.rank * bucket->part;
    channel_tag(ddp->channel, index);
    channel_all_gather(ddp->channel, at(values, mine), at(values, bucket->first), bucket->part,
                       values.dtype);
}

static bool holds(const Bucket *bucket, int64_t first, int64_t end)
{
    return first < bucket->first + bucket->count && bucket->first < end;
}

void ddp_gather_parts(Ddp *ddp, Tensor values, int64_t first, int64_t end)
{
    for (int i = 0; ddp->channel != NULL && i < ddp->count; i++) {
        if (ddp->buckets[i].part > 0 && holds(&ddp->buckets[i], first, end)) {
            gather_bucket(ddp, i, values);
        }
    }
    ddp_wait(ddp);
}

void ddp_sum_parts(Ddp *ddp, Tensor values, int64_t first, int64_t end)
{
    for (int i = 0; ddp->channel != NULL && i < ddp->count; i++) {
        if (holds(&ddp->buckets[i], first, end)) {
            sum_bucket(ddp, i, values);
        }
    }
    ddp_wait(ddp);
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
            gather_bucket(ddp, i, weights);
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
    channel_wait_for(ddp->channel, ticket);
    ddp->arrived = ticket;
}

/* Sharded buckets lie from the back to the front, but for the last, which is behind them all. */
static const Bucket *bucket_of(const Ddp *ddp, int64_t offset)
{
    const Bucket *bucket = &ddp->buckets[ddp->count - 1];
    if (offset < bucket->first || offset >= bucket->first + bucket->count) {
        int low = 0, high = ddp->count - 1; /* the first of them that does not lie behind it */
        while (low < high) {
            int middle = low + (high - low) / 2;
            if (ddp->buckets[middle].first > offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        bucket = &ddp->buckets[low];
    }
    PACER_ASSERT(offset >= bucket->first && offset < bucket->first + bucket->count,
                 "offset %lld is in no bucket", (long long)offset);
    return bucket;
}

DdpPiece ddp_piece(const Ddp *ddp, int64_t offset, int64_t end)
{
    if (!ddp_is_sharded(ddp)) {
        return (DdpPiece){offset, end - offset, offset, -1};
    }
    const Bucket *bucket = bucket_of(ddp, offset);
    int64_t into = offset - bucket->first, sharded = bucket->part * ddp->setup.ranks;
    DdpPiece piece = {.offset = offset, .keeper = -1};
    int64_t limit = bucket->first + bucket->count;
    if (into < sharded) {
        piece.keeper = (int)(into / bucket->part);
        piece.own = bucket->own + into % bucket->part;
        limit = bucket->first + (piece.keeper + 1) * bucket->part;
    } else {
        piece.own = bucket->own + bucket->part + into - sharded;
    }
    piece.count = (end < limit ? end : limit) - offset;
    return piece;
}

bool ddp_own_piece(const Ddp *ddp, int64_t offset, int64_t end, DdpPiece *piece)
{
    while (offset < end) {
        *piece = ddp_piece(ddp, offset, end);
        int keeper = piece->keeper, rank = ddp->setup.rank;
        if (keeper < 0 || keeper == rank) {
            return true;
        }
        const Bucket *bucket = bucket_of(ddp, offset);
        offset = bucket->first + (keeper < rank ? rank : ddp->setup.ranks) * bucket->part;
    }
    return false;
}
