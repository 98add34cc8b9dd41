/* How the flat buffer is cut into buckets, rooms and the pieces that ranks keep. */
#include "train/ddp.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>

#define ROOM_LINE (ARENA_ALIGN / 2) /* elements: rooms begin at multiples of it, as parameters do */

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
        bucket->part = bucket->count / (ddp->shards * DDP_LINE) * DDP_LINE;
        bucket->own = ddp->owned;
        ddp->owned += bucket->count - (ddp->shards - 1) * bucket->part;
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
 * between them that makes it large enough; with rooms also where layers begin and end. Norms and
 * biases, which lie behind all of these, are complete at the very end. */
static void cut_by_layers(Ddp *ddp, const ParamTable *table)
{
    int64_t least = ddp->setup.bucket_bytes / (int64_t)sizeof(float), end = table->decayed;
    for (int row = decayed_before(table, table->count); row > 0;) {
        int before = decayed_before(table, row);
        int64_t begin = table->rows[row].offset;
        int here = table->rows[row].layer, there = before >= 0 ? table->rows[before].layer : here;
        bool outside = ddp_has_rooms(&ddp->setup) && (here < 0) != (there < 0);
        if (here != there && (outside || end - begin >= least)) {
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

/* Rooms one behind the other: where one of this size begins. */
static int64_t take_room(int64_t *roomy, int64_t size)
{
    int64_t first = *roomy;
    *roomy += (size + ROOM_LINE - 1) / ROOM_LINE * ROOM_LINE;
    return first;
}

/* How the weights of each bucket travel, and where this rank has its part of them. */
static void choose_sent(Ddp *ddp, const ParamTable *table)
{
    for (int i = 0; i < ddp->count; i++) {
        ddp->buckets[i].kind = ddp->setup.codes ? SENT_CODES : SENT_PLAIN;
    }
    for (int row = 0; row < table->count; row++) {
        Bucket *bucket = &ddp->buckets[ddp_bucket_of(ddp, table->rows[row].offset)];
        bucket->kind = table->rows[row].coded ? bucket->kind : SENT_PLAIN;
    }
    for (int i = 0; i < ddp->count; i++) {
        Bucket *bucket = &ddp->buckets[i];
        DdpRoom *room = &ddp->rooms[bucket->room];
        int64_t *size = &room->weights_size[bucket->kind];
        bucket->kind_own = ddp->kept[bucket->kind];
        ddp->kept[bucket->kind] += bucket->count - (ddp->shards - 1) * bucket->part;
        *size = bucket->count > *size ? bucket->count : *size;
    }
    for (int i = 0; i < DDP_ROOMS; i++) {
        DdpRoom *room = &ddp->rooms[i];
        for (int k = 0; k < SENT_KINDS; k++) {
            room->weights_first[k] = take_room(&ddp->weights_roomy[k], room->weights_size[k]);
        }
    }
}

/* The room of each bucket, and how large they have to be. */
static void make_rooms(Ddp *ddp, const ParamTable *table)
{
    int turns = ddp->setup.offload ? ROOM_OUTSIDE - ROOM_LAYERS : 2;
    for (int i = 0; i < ddp->count; i++) {
        ddp->buckets[i].room = ROOM_SMALL;
    }
    for (int row = 0; row < table->count; row++) {
        const Param *param = &table->rows[row];
        int index = ddp_bucket_of(ddp, param->offset);
        if (param->offset < table->decayed && param->rank > 1) {
            ddp->buckets[index].room =
                param->layer < 0 ? ROOM_OUTSIDE : ROOM_LAYERS + index % turns;
        }
    }
    for (int i = 0; i < ddp->count; i++) {
        DdpRoom *room = &ddp->rooms[ddp->buckets[i].room];
        room->size = ddp->buckets[i].count > room->size ? ddp->buckets[i].count : room->size;
    }
    for (int i = 0; i < DDP_ROOMS; i++) {
        DdpRoom *room = &ddp->rooms[i];
        room->first = take_room(&ddp->roomy, room->size);
        room->sent = room->held = -1;
    }
}

void ddp_init(Ddp *ddp, const DdpSetup *setup, const ParamTable *table)
{
    *ddp = (Ddp){.setup = *setup, .shards = 1};
    if (ddp_cuts_state(setup)) {
        ddp->shards = setup->group > 0 ? setup->group : setup->ranks;
        ddp->shard = setup->rank % ddp->shards;
    }
    if (setup->ranks > 1) {
        if (setup->kind == DDP_NAIVE) {
            cut_by_rows(ddp, table);
        } else if (setup->kind == DDP_FLAT) {
            add_bucket(ddp, 0, table->flat);
        } else {
            cut_by_layers(ddp, table);
        }
    } else if (ddp_stores_grads(setup)) {
        cut_by_layers(ddp, table);
    }
    if (!ddp_is_sharded(ddp)) {
        ddp->owned = table->flat;
    }
    if (ddp_has_rooms(setup)) {
        make_rooms(ddp, table);
    }
    if (ddp_cuts_weights(setup)) {
        choose_sent(ddp, table);
    }
}

void ddp_free(Ddp *ddp)
{
    free(ddp->buckets);
    *ddp = (Ddp){0};
}

/* Sharded buckets lie from the back to the front, but for the last, which is behind them all
 * where there are norms and biases that do not decay. */
int ddp_bucket_of(const Ddp *ddp, int64_t offset)
{
    int last = ddp->count - 1;
    const Bucket *bucket = &ddp->buckets[last];
    int found = last;
    if (offset < bucket->first || offset >= bucket->first + bucket->count) {
        int low = 0, high = last; /* the first of them that does not lie behind it */
        while (low < high) {
            int middle = low + (high - low) / 2;
            if (ddp->buckets[middle].first > offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        found = low;
    }
    bucket = &ddp->buckets[found];
    PACER_ASSERT(offset >= bucket->first && offset < bucket->first + bucket->count,
                 "offset %lld is in no bucket", (long long)offset);
    return found;
}

int64_t ddp_uncut(const Ddp *ddp)
{
    int64_t count = 0;
    for (int i = 0; i < ddp->count && ddp_is_sharded(ddp); i++) {
        count += ddp->buckets[i].part == 0 ? ddp->buckets[i].count : 0;
    }
    return count;
}

DdpPiece ddp_piece(const Ddp *ddp, int64_t offset, int64_t end)
{
    if (!ddp_is_sharded(ddp)) {
        return (DdpPiece){offset, end - offset, offset, -1};
    }
    const Bucket *bucket = &ddp->buckets[ddp_bucket_of(ddp, offset)];
    int64_t into = offset - bucket->first, sharded = bucket->part * ddp->shards;
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
        int keeper = piece->keeper, shard = ddp->shard;
        if (ddp_keeps(ddp, *piece)) {
            return true;
        }
        const Bucket *bucket = &ddp->buckets[ddp_bucket_of(ddp, offset)];
        offset = bucket->first + (keeper < shard ? shard : ddp->shards) * bucket->part;
    }
    return false;
}
