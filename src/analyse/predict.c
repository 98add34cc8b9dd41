/* Collectives are those of NCCL in outline. A ring passes every byte on ranks - 1 times per
 * direction of the sum: least traffic, latency that grows with the ranks. A pair of binary trees
 * needs two sweeps of log2(ranks) messages and sends twice the data. An all-reduce takes whichever
 * is faster; reduce-scatter and all-gather are rings. Where ranks span nodes, a node first sums
 * within itself, so that each of its ranks is left with a part of the sum; then ranks with the same
 * part sum it between nodes, and the node spreads the result.
 *
 * Not modelled: ranks that are slower than others, data that comes late, other traffic. */
#include "analyse/predict.h"

#include "base/assert.h"
#include "base/mem.h"
#include "config/config.h"

#include <math.h>
#include <stdlib.h>

/* Assumptions, not measurements; docs/guide/predict.md says where they come from. */
static const PredictLink links[] = {
    [CONFIG_LINK_NVLINK] = {"nvlink", 3e-6, 370e9, false},
    [CONFIG_LINK_PCIE] = {"pcie", 8e-6, 20e9, false},
    [CONFIG_LINK_IB400] = {"ib400", 6e-6, 46e9, false},
    [CONFIG_LINK_ETH100] = {"eth100", 25e-6, 11e9, true},
    [CONFIG_LINK_ETH10] = {"eth10", 40e-6, 1.1e9, true},
    [CONFIG_LINK_MEASURED] = {0},
};

const PredictLink *predict_link(int link)
{
    PACER_ASSERT(link >= 0 && link <= CONFIG_LINK_MEASURED, "link %d", link);
    return links[link].name != NULL ? &links[link] : NULL;
}

/* Half of a ring all-reduce. */
static double ring(PredictLink link, int ranks, double bytes)
{
    int others = ranks - 1;
    return others * link.latency_s + bytes * others / ranks / link.bytes_per_s;
}

static double all_reduce(PredictLink link, int ranks, double bytes)
{
    if (ranks <= 1) {
        return 0;
    }
    double tree = 2 * ceil(log2(ranks)) * link.latency_s + 2 * bytes / link.bytes_per_s;
    return fmin(2 * ring(link, ranks, bytes), tree);
}

/* The ranks of a node and the nodes of a job. */
typedef struct {
    int local, nodes;
    PredictLink across; /* for each of `local` ranks at the same time */
} Span;

static Span span_of(const PredictNetwork *network, int ranks)
{
    int local = ranks < network->per_node ? ranks : network->per_node;
    Span span = {local, (ranks + local - 1) / local, network->link};
    if (span.across.per_node) {
        span.across.bytes_per_s /= local;
    }
    return span;
}

double predict_all_reduce(const PredictNetwork *network, int ranks, double bytes)
{
    Span span = span_of(network, ranks);
    if (span.nodes == 1) {
        return all_reduce(network->node_link, ranks, bytes);
    }
    double within = span.local > 1 ? 2 * ring(network->node_link, span.local, bytes) : 0;
    return within + all_reduce(span.across, span.nodes, bytes / span.local);
}

double predict_reduce_scatter(const PredictNetwork *network, int ranks, double bytes)
{
    Span span = span_of(network, ranks);
    double within = span.local > 1 ? ring(network->node_link, span.local, bytes) : 0;
    return within + ring(span.across, span.nodes, bytes / span.local);
}

/* Least squares of (latency x messages + seconds per byte x traffic) / seconds - 1. */
PredictLink predict_fit(const LinkPoint *points, int count, int ranks)
{
    double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
    PACER_ASSERT(count >= 2 && ranks >= 2, "%d sizes, %d ranks", count, ranks);
    for (int i = 0; i < count; i++) {
        double x = 2.0 * (ranks - 1) / points[i].seconds;
        double y = 2.0 * (ranks - 1) / ranks * points[i].bytes / points[i].seconds;
        xx += x * x;
        xy += x * y;
        yy += y * y;
        x1 += x;
        y1 += y;
    }
    double determinant = xx * yy - xy * xy;
    double latency = (x1 * yy - y1 * xy) / determinant;
    double per_byte = (y1 * xx - x1 * xy) / determinant;
    if (!(latency >= 0 && per_byte > 0)) { /* noise: the best without a latency */
        latency = 0;
        per_byte = y1 / yy;
    }
    return (PredictLink){"measured", latency, 1 / per_byte, false};
}

void predict_times_free(PredictTimes *times)
{
    free(times->ready);
    free(times->needed);
    *times = (PredictTimes){0};
}

void layer_times_free(LayerTimes *times)
{
    free(times->begins);
    free(times->ends);
    *times = (LayerTimes){0};
}

void layer_times_stretch(LayerTimes *t, int layers, double weights)
{
    int had = t->layers, more = layers - had;
    PACER_ASSERT(had >= 2 && more >= 0, "%d layers of %d", layers, had);
    double forward = (t->begins[had] - t->begins[0]) / had;
    double backward = (t->ends[0] - t->ends[had - 1]) / (had - 1);
    double begin = t->begins[0], end = t->ends[had - 1];
    t->begins = mem_realloc(t->begins, (size_t)layers + 1, sizeof *t->begins);
    t->ends = mem_realloc(t->ends, (size_t)layers, sizeof *t->ends);
    for (int i = 0; i < layers; i++) {
        t->begins[i] = begin + i * forward;
        t->ends[i] = end + (layers - 1 - i) * backward;
    }
    t->begins[layers] = begin + layers * forward;
    t->micro_s += t->micro_s > 0 ? more * (forward + backward) : 0;
    t->before_s += more * forward;
    t->backward_s += more * backward;
    t->cast_s *= weights;
    t->update_s *= weights;
    t->layers = layers;
}

PredictSchedule predict_schedule(const PredictMessage *messages, int count, double compute_s,
                                 double contention)
{
    PredictSchedule s = {0};
    double now = 0, computed = 0, left = count > 0 ? messages[0].comm_s : 0;
    for (int next = 0; next < count || computed < compute_s;) {
        bool computing = computed < compute_s;
        bool sending = next < count && (messages[next].ready_s <= computed || !computing);
        double speed = computing ? 1 - contention : 1; /* of what is sent */
        if (!sending) {                                /* until a message is ready, or the end */
            double until = next < count ? fmin(messages[next].ready_s, compute_s) : compute_s;
            now += until - computed;
            computed = until;
        } else if (computing && (compute_s - computed) * speed < left) {
            double lasts = compute_s - computed;
            now += lasts;
            s.hidden_s += lasts * speed;
            left -= lasts * speed;
            computed = compute_s;
        } else {
            double lasts = left > 0 ? left / speed : 0;
            now += lasts;
            s.hidden_s += computing ? left : 0;
            computed += computing ? lasts : 0;
            next++;
            left = next < count ? messages[next].comm_s : 0;
        }
        if (computing && computed >= compute_s) {
            s.computed_s = now;
        }
    }
    s.end_s = now;
    return s;
}

/* When the computation has left a bucket, without casts. Norms and biases, which lie behind all
 * others, look ready at once: they are, as in ddp.c, the last to be sent, and so wait for those
 * before them. */
static double ready_at(const PredictModel *model, const Bucket *bucket)
{
    const PredictTimes *times = &model->times;
    for (int i = 0; i < times->ready_count; i++) {
        if (bucket->first >= times->ready[i].from) {
            return times->ready[i].at_s;
        }
    }
    return times->backward_s;
}

/* Groups that keep the same sum a part between nodes, whichever way they lie. */
static double bucket_comm(const PredictModel *model, const Ddp *ddp, const Bucket *bucket)
{
    int ranks = ddp->setup.ranks, groups = ranks / ddp->shards;
    double size = (double)dtype_size(model->wire), sharded = (double)(bucket->part * ddp->shards);
    double rest = (double)bucket->count - sharded, seconds = 0;
    if (sharded > 0) {
        seconds += predict_reduce_scatter(&model->network, ddp->shards, sharded * size);
        Span span = span_of(&model->network, ranks);
        PredictLink link = span.nodes > 1 ? span.across : model->network.node_link;
        seconds += groups > 1 ? all_reduce(link, groups, (double)bucket->part * size) : 0;
    }
    return rest > 0 ? seconds + predict_all_reduce(&model->network, ranks, rest * size) : seconds;
}

/* Backward pass and gradients of all ranks. A bucket is rounded by the computation before it is
 * sent. The loss goes ahead of all. */
static PredictSchedule backward(const PredictModel *model, const Ddp *ddp)
{
    bool early = ddp->setup.kind >= DDP_OVERLAP;
    int ranks = ddp->setup.ranks;
    const PredictTimes *times = &model->times;
    PredictMessage *messages = mem_zalloc((size_t)ddp->count + 1, sizeof *messages);
    messages[0].comm_s = predict_all_reduce(&model->network, ranks, sizeof(float));
    double casts = 0, computing = times->backward_s + times->cast_s;
    for (int i = 0; i < ddp->count; i++) {
        const Bucket *bucket = &ddp->buckets[i];
        casts += times->cast_s * (double)bucket->count / (double)model->table->flat;
        messages[i + 1].ready_s = early ? ready_at(model, bucket) + casts : computing;
        messages[i + 1].comm_s = bucket_comm(model, ddp, bucket);
    }
    PredictSchedule s = predict_schedule(messages, ddp->count + 1, computing, model->contention);
    free(messages);
    return s;
}

/* When a forward pass first reads a bucket. Norms and biases, which lie behind all others, at
 * once. */
static double needed_at(const PredictModel *model, const Bucket *bucket)
{
    const PredictTimes *times = &model->times;
    double at = 0;
    for (int i = 0; i < times->needed_count && bucket->first < model->table->decayed; i++) {
        at = bucket->first >= times->needed[i].from ? times->needed[i].at_s : at;
    }
    return at;
}

static double gather_comm(const PredictModel *model, const Ddp *ddp, const Bucket *bucket)
{
    DType type = bucket->kind == SENT_CODES ? DT_E4M3 : model->weights;
    double bytes = (double)(bucket->part * ddp->shards) * (double)dtype_size(type);
    return bytes > 0 ? predict_reduce_scatter(&model->network, ddp->shards, bytes) : 0;
}

/* zero1, zero2: the weights come back beside the next forward pass, one bucket after the other as
 * it needs them. */
static void gather(const PredictModel *model, const Ddp *ddp, Prediction *p)
{
    double computed = 0, asked = 0, sent = 0; /* sent: what has arrived of all that is asked for */
    double speed = 1 - model->contention, exposed = 0;
    for (int i = ddp->count - 1; i >= 0; i--) {
        const Bucket *bucket = &ddp->buckets[i];
        double needed = model->at_once ? 0 : fmax(needed_at(model, bucket), computed);
        asked += gather_comm(model, ddp, bucket);
        sent += (needed - computed) * speed;
        computed = needed;
        if (sent < asked) {
            exposed += asked - sent;
            sent = asked;
        }
    }
    p->step_s += exposed;
    p->exposed_s += exposed;
    p->hidden_s += asked - exposed;
}

/* Messages one after the other beside a computation that waits for some of them. */
typedef struct {
    double speed;       /* of messages beside the computation */
    double asked, sent; /* seconds of messages: all so far; those that have arrived */
    double exposed;
} Lane;

static void lane_compute(Lane *lane, double seconds)
{
    lane->sent = fmin(lane->asked, lane->sent + fmax(seconds, 0) * lane->speed);
}

static void lane_wait(Lane *lane, double asked)
{
    if (lane->sent < asked) {
        lane->exposed += asked - lane->sent;
        lane->sent = asked;
    }
}

/* zero3: a pass has asked for bucket i's weights, at which place of the lane; it asks for what
 * rooms do not hold. */
typedef struct {
    double asked[DDP_ROOMS];
    int held[DDP_ROOMS];
} Rooms;

static void rooms_fetch(Rooms *rooms, Lane *lane, const PredictModel *model, const Ddp *ddp, int i)
{
    int room = ddp->buckets[i].room;
    if (rooms->held[room] != i) {
        lane->asked += gather_comm(model, ddp, &ddp->buckets[i]);
        rooms->asked[room] = lane->asked;
        rooms->held[room] = i;
    }
}

/* zero3: needs bucket i, and has the next one come meanwhile. */
static void rooms_need(Rooms *rooms, Lane *lane, const PredictModel *model, const Ddp *ddp, int i,
                       int next)
{
    rooms_fetch(rooms, lane, model, ddp, i);
    if (next >= 0 && next < ddp->count) {
        rooms_fetch(rooms, lane, model, ddp, next);
    }
    lane_wait(lane, rooms->asked[ddp->buckets[i].room]);
}

/* zero3: the forward pass, loss included. first: of an update, so that no room holds anything. */
static void roomy_forward(const PredictModel *model, const Ddp *ddp, bool first, Rooms *rooms,
                          Lane *lane)
{
    int last = ddp->count - 1;
    bool small = ddp->buckets[last].room == ROOM_SMALL;
    for (int i = 0; i < DDP_ROOMS && first; i++) {
        rooms->held[i] = -1;
    }
    if (small) {
        rooms_need(rooms, lane, model, ddp, last, -1);
    }
    for (int i = small ? last - 1 : last; i >= 0; i--) {
        double end = i > 0 ? needed_at(model, &ddp->buckets[i - 1]) : model->times.before_s;
        rooms_need(rooms, lane, model, ddp, i, i - 1);
        lane_compute(lane, end - needed_at(model, &ddp->buckets[i]));
    }
}

/* zero2, zero3: the backward pass, which leaves nothing under way. A room is written again once
 * what was sent from it has arrived. */
static void roomy_backward(const PredictModel *model, const Ddp *ddp, Rooms *rooms, Lane *lane)
{
    const PredictTimes *times = &model->times;
    double sent[DDP_ROOMS] = {0}, before = 0;
    for (int i = 0; i < ddp->count; i++) {
        const Bucket *bucket = &ddp->buckets[i];
        bool layers = bucket->room < ROOM_OUTSIDE;
        double ready =
            fmax(bucket->room == ROOM_SMALL ? times->backward_s : ready_at(model, bucket), before);
        lane_wait(lane, sent[bucket->room]);
        if (rooms != NULL && layers) {
            bool next = i + 1 < ddp->count && ddp->buckets[i + 1].room < ROOM_OUTSIDE;
            rooms_need(rooms, lane, model, ddp, i, next ? i + 1 : -1);
        }
        double cast = times->cast_s * (double)bucket->count / (double)model->table->flat;
        lane_compute(lane, ready - before + cast);
        before = ready;
        lane->asked += bucket_comm(model, ddp, bucket);
        sent[bucket->room] = lane->asked;
    }
    lane_wait(lane, lane->asked);
}

/* zero2, zero3: what all micro-steps of an update send, and wait for. */
static void roomy_passes(const PredictModel *model, const Ddp *ddp, int64_t accum, Prediction *p)
{
    bool weights = ddp_cuts_weights(&ddp->setup);
    Rooms rooms = {0};
    Lane lane = {.speed = 1 - model->contention};
    for (int64_t micro = 0; micro < accum; micro++) {
        if (weights) {
            roomy_forward(model, ddp, micro == 0, &rooms, &lane);
        }
        if (micro + 1 == accum) { /* loss */
            lane.asked += predict_all_reduce(&model->network, ddp->setup.ranks, sizeof(float));
        }
        roomy_backward(model, ddp, weights ? &rooms : NULL, &lane);
    }
    p->step_s += lane.exposed + 2 * (double)accum * model->times.cast_s;
    p->exposed_s += lane.exposed;
    p->hidden_s += lane.asked - lane.exposed;
}

static double alone(const PredictTimes *times, int64_t accum)
{
    return (double)(accum - 1) * times->micro_s + times->before_s + times->backward_s +
           times->update_s;
}

Prediction predict_step(const PredictModel *model, int ranks, int64_t accum, int64_t alone_accum)
{
    const PredictTimes *times = &model->times;
    Prediction p = {.ranks = ranks, .accum = accum, .step_s = alone(times, accum)};
    if (ranks > 1) {
        DdpSetup setup = model->ddp;
        setup.rank = 0;
        setup.ranks = ranks;
        setup.group = setup.group > 0 && ranks % setup.group == 0 ? setup.group : 0;
        Ddp ddp;
        ddp_init(&ddp, &setup, model->table);
        double update = times->update_s, norm = 0;
        if (ddp_is_sharded(&ddp)) {
            update *= (double)ddp.owned / (double)model->table->flat;
            norm = predict_all_reduce(&model->network, ddp.shards, sizeof(float));
        }
        p.step_s += update - times->update_s + norm;
        p.exposed_s = norm;
        if (ddp_cuts_grads(&setup)) {
            roomy_passes(model, &ddp, accum, &p);
        } else {
            PredictSchedule s = backward(model, &ddp);
            p.step_s += s.end_s - times->backward_s + times->cast_s;
            p.exposed_s += s.end_s - s.computed_s;
            p.hidden_s = s.hidden_s;
        }
        if (ddp_is_sharded(&ddp) && !ddp_cuts_weights(&setup)) {
            gather(model, &ddp, &p);
        }
        ddp_free(&ddp);
    }
    double tokens = (double)model->tokens;
    double one = tokens * (double)alone_accum / alone(times, alone_accum);
    p.tokens_per_s = tokens * (double)accum * ranks / p.step_s;
    p.efficiency = p.tokens_per_s / (one * ranks);
    return p;
}
