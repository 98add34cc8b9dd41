/* Trace events as Chrome's format has them: complete events (ph X) with beginning and length in
 * microseconds, on lanes of one process for each rank. Written one line per event, and a rank's
 * lanes go to the first one in pieces of fixed size, so neither the number of ranks nor the length
 * of a step costs memory.
 *
 * Ranks of one machine read the same clock, so their times can be compared as they are. Between
 * machines all that is known is that a step begins behind a barrier: the file's time begins
 * where the first rank of a machine left it, and machines are as far apart in the file as these
 * ranks were, which is about the way of a message. */
#include "analyse/profile.h"

#include "base/assert.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LANE_STEP, LANE_PARTS, LANE_OPS, LANE_HOST, LANE_COMM, LANE_COUNT };

#define PIECE_TEXT 65000

typedef struct {
    const ProfiledStep *step;
    ProfileCeilings ceilings;
    Comm *comm; /* NULL: one rank */
    int rank;
    const char *name, *label; /* of the rank's process; label NULL: none */
    int64_t origin_ns;        /* where the file's time begins by this rank's clock */
    int64_t written;          /* items before */
    Output *output;           /* of the first rank */
    size_t size;              /* of the piece under way; 0 sent: that was all */
    char text[PIECE_TEXT];
} Writer;

/* --- text --- */

/* A piece from one rank to all. */
static int pass_on(Writer *w, int from)
{
    int code = comm_broadcast(w->comm, &w->size, sizeof w->size, from);
    PACER_ASSERT(code != 0 || w->size <= PIECE_TEXT, "a piece of %zu bytes", w->size);
    return code != 0 ? code : comm_broadcast(w->comm, w->text, w->size, from);
}

static int flush(Writer *w)
{
    int code = w->rank == 0 ? output_put(w->output, w->text, w->size) : pass_on(w, w->rank);
    w->size = 0;
    return code;
}

static int put_text(Writer *w, const char *text)
{
    int code = 0;
    for (size_t left = strlen(text); left > 0 && code == 0;) {
        size_t room = PIECE_TEXT - w->size, taken = left < room ? left : room;
        memcpy(w->text + w->size, text, taken);
        w->size += taken;
        text += taken;
        left -= taken;
        code = w->size == PIECE_TEXT ? flush(w) : 0;
    }
    return code;
}

/* Takes item. */
static int put_item(Writer *w, cJSON *item)
{
    char *text = json_line(item);
    int code = put_text(w, w->written++ > 0 ? ",\n" : "\n");
    code = code != 0 ? code : put_text(w, text);
    free(text);
    cJSON_Delete(item);
    return code;
}

/* --- the lanes of a rank --- */

/* Takes args. */
static int put_metadata(Writer *w, const char *name, int lane, cJSON *args)
{
    cJSON *item = json_object();
    json_put_text(item, "ph", "M");
    json_put_text(item, "name", name);
    json_put_whole(item, "pid", w->rank);
    json_put_whole(item, "tid", lane);
    json_put_item(item, "args", args);
    return put_item(w, item);
}

static int put_name(Writer *w, const char *what, int lane, const char *name)
{
    cJSON *args = json_object();
    json_put_text(args, "name", name);
    return put_metadata(w, what, lane, args);
}

/* Takes args. */
static int put_span(Writer *w, int lane, const char *name, const char *category, int64_t start_ns,
                    int64_t end_ns, cJSON *args)
{
    cJSON *item = json_object();
    json_put_text(item, "ph", "X");
    json_put_text(item, "name", name);
    json_put_text(item, "cat", category);
    json_put_whole(item, "pid", w->rank);
    json_put_whole(item, "tid", lane);
    json_put_number(item, "ts", (double)(start_ns - w->origin_ns) / 1e3);
    json_put_number(item, "dur", (double)(end_ns - start_ns) / 1e3);
    json_put_item(item, "args", args);
    return put_item(w, item);
}

/* Which micro-step it belongs to, if to any. */
static void put_micro(cJSON *args, const TraceEvent *event)
{
    if (strcmp(event->call.part, "optimizer") != 0) {
        json_put_whole(args, "micro_step", event->run);
    }
}

static int put_op(Writer *w, const TraceEvent *event)
{
    const TraceCall *call = &event->call;
    double seconds = 1e-9 * (double)(event->end_ns - event->start_ns);
    cJSON *args = json_object();
    char shape[OP_SHAPE_TEXT_SIZE];
    json_put_text(args, "shape", op_shape_text(call->shape, shape));
    put_micro(args, event);
    if (call->layer != CTX_NO_LAYER) {
        json_put_whole(args, "layer", call->layer);
    }
    json_put_number(args, "flops", call->flops);
    json_put_number(args, "bytes", call->bytes);
    /* No rate where the clock is too coarse to see time pass. */
    if (seconds > 0) {
        ProfileShare share = profile_share(w->ceilings, call->flops, call->bytes, seconds);
        json_put_number(args, "TFLOP/s", call->flops / seconds * 1e-12);
        json_put_number(args, "GB/s", call->bytes / seconds * 1e-9);
        json_put_number(args, "share_of_ceiling", share.share);
        json_put_text(args, "ceiling", share.name);
    }
    return put_span(w, LANE_OPS, op_name(call->op), call->part, event->start_ns, event->end_ns,
                    args);
}

static bool same_part(const TraceEvent *a, const TraceEvent *b)
{
    return a->run == b->run && strcmp(a->call.part, b->call.part) == 0;
}

/* Each part from the beginning of its first op to the end of its last, and the ops themselves. */
static int put_events(Writer *w)
{
    const ProfiledStep *s = w->step;
    int code = 0;
    for (int64_t first = 0, next; first < s->event_count && code == 0; first = next) {
        const TraceEvent *event = &s->events[first];
        cJSON *args = json_object();
        for (next = first + 1; next < s->event_count && same_part(event, &s->events[next]);) {
            next++;
        }
        put_micro(args, event);
        json_put_whole(args, "ops", next - first);
        code = put_span(w, LANE_PARTS, event->call.part, "part", event->start_ns,
                        s->events[next - 1].end_ns, args);
        for (int64_t i = first; i < next && code == 0; i++) {
            code = put_op(w, &s->events[i]);
        }
    }
    return code;
}

static int put_host(Writer *w)
{
    int code = 0;
    for (int64_t i = 0; i < w->step->host_count && code == 0; i++) {
        const ProfileSpan *span = &w->step->host[i];
        cJSON *args = json_object();
        if (span->micro >= 0) {
            json_put_whole(args, "micro_step", span->micro);
        }
        code = put_span(w, LANE_HOST, span->name, "host", span->start_ns, span->end_ns, args);
    }
    return code;
}

/* Nanoseconds of a collective that the step waited for. */
static int64_t exposed_ns(const ProfiledStep *s, const ChannelSpan *collective)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < s->comm_count; i++) {
        const ChannelSpan *wait = &s->comm[i];
        int64_t from = wait->start_ns, to = wait->end_ns;
        from = from > collective->start_ns ? from : collective->start_ns;
        to = to < collective->end_ns ? to : collective->end_ns;
        sum += wait->is_wait && to > from ? to - from : 0;
    }
    return sum;
}

static int put_collective(Writer *w, const ChannelSpan *span)
{
    int64_t length = span->end_ns - span->start_ns;
    cJSON *args = json_object();
    if (span->tag != DDP_NO_BUCKET) {
        json_put_whole(args, "bucket", span->tag);
    }
    json_put_number(args, "bytes", span->bytes);
    if (length > 0) {
        json_put_number(args, "GB/s", span->bytes / (double)length);
    }
    json_put_number(args, "exposed_us", (double)exposed_ns(w->step, span) / 1e3);
    return put_span(w, LANE_COMM, span->name, "communication", span->start_ns, span->end_ns, args);
}

/* Collectives on a lane of their own; where the step stalled for them, among its parts. */
static int put_communication(Writer *w)
{
    int code = 0;
    for (int64_t i = 0; i < w->step->comm_count && code == 0; i++) {
        const ChannelSpan *span = &w->step->comm[i];
        code = span->is_wait ? put_span(w, LANE_PARTS, "waiting", "exposed communication",
                                        span->start_ns, span->end_ns, json_object())
                             : put_collective(w, span);
    }
    return code;
}

/* Everything of this rank. */
static int put_lanes(Writer *w)
{
    static const char *const names[] = {[LANE_STEP] = "step",
                                        [LANE_PARTS] = "parts of the step",
                                        [LANE_OPS] = "ops",
                                        [LANE_HOST] = "host: data, launches, waiting",
                                        [LANE_COMM] = "communication"};
    const ProfiledStep *s = w->step;
    int code = put_name(w, "process_name", 0, w->name),
        count = w->comm != NULL ? LANE_COUNT : LANE_COMM;
    if (code == 0 && w->label != NULL) {
        cJSON *args = json_object();
        json_put_text(args, "labels", w->label);
        code = put_metadata(w, "process_labels", 0, args);
    }
    for (int lane = 0; lane < count && code == 0; lane++) {
        code = put_name(w, "thread_name", lane, names[lane]);
        if (code == 0) {
            cJSON *args = json_object();
            json_put_whole(args, "sort_index", lane);
            code = put_metadata(w, "thread_sort_index", lane, args);
        }
    }
    if (code == 0) {
        cJSON *args = json_object();
        if (w->comm != NULL) {
            json_put_number(args, "comm_s", s->comm_times.busy_s);
            json_put_number(args, "exposed_s", s->comm_times.exposed_s);
            json_put_number(args, "hidden_s", channel_hidden(&s->comm_times));
        }
        code = put_span(w, LANE_STEP, "step", "step", s->start_ns, s->end_ns, args);
    }
    code = code == 0 ? put_events(w) : code;
    code = code == 0 ? put_host(w) : code;
    return code == 0 ? put_communication(w) : code;
}

/* --- one file --- */

#define SAME_CLOCK_NS 1000000000LL /* ranks that leave a barrier further apart have two clocks */

/* Which clock a rank reads, and when its step began by it. */
typedef struct {
    char host[64], boot[40];
    uint64_t space; /* time namespace */
    int64_t start_ns;
} RankClock;

static RankClock describe_clock(const Comm *comm, int64_t start_ns)
{
    RankClock clock = {.start_ns = start_ns};
    snprintf(clock.host, sizeof clock.host, "%s", comm_host(comm));
    if (io_read_start("/proc/sys/kernel/random/boot_id", clock.boot, sizeof clock.boot) == 0) {
        snprintf(clock.boot, sizeof clock.boot, "of rank %d", comm_rank(comm));
    }
    struct stat space;
    clock.space = stat("/proc/self/ns/time", &space) == 0 ? (uint64_t)space.st_ino : 0;
    return clock;
}

static bool same_clock(const RankClock *a, const RankClock *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->boot, b->boot) == 0 && a->space == b->space &&
           llabs(a->start_ns - b->start_ns) < SAME_CLOCK_NS;
}

/* Where the file's time begins by this rank's clock. */
static int find_origin(Comm *comm, int64_t start_ns, int64_t *origin_ns)
{
    int ranks = comm_ranks(comm);
    RankClock mine = describe_clock(comm, start_ns);
    RankClock *all = mem_zalloc((size_t)ranks, sizeof *all);
    int code = comm_gather(comm, &mine, sizeof mine, all);
    if (code != 0) {
        return code; /* a message may still come into it */
    }
    *origin_ns = start_ns;
    for (int i = 0; i < ranks; i++) {
        if (same_clock(&all[i], &mine) && all[i].start_ns < *origin_ns) {
            *origin_ns = all[i].start_ns;
        }
    }
    free(all);
    return 0;
}

/* The lanes of this rank to the first. */
static int send_lanes(Writer *w)
{
    int code = put_lanes(w);
    if (code == 0 && w->size > 0) {
        code = flush(w);
    }
    return code == 0 ? flush(w) : code;
}

/* The other end. An output that fails does not stop the rank that sends. */
static int take_lanes(Writer *w, int from, bool writes)
{
    int code = 0, written = 0;
    do {
        code = pass_on(w, from);
        if (code == 0 && writes && written == 0) {
            written = output_put(w->output, w->text, w->size);
        }
    } while (code == 0 && w->size > 0);
    return code != 0 ? code : written;
}

int profile_write(const Profile *profile, ProfileCeilings ceilings, ProfileRanks ranks,
                  Output *output)
{
    Comm *comm = ranks.comm;
    int rank = comm != NULL ? comm_rank(comm) : 0, count = comm != NULL ? comm_ranks(comm) : 1;
    int64_t origin_ns = profile->fastest.start_ns;
    int code = comm != NULL ? find_origin(comm, origin_ns, &origin_ns) : 0;
    if (code != 0) {
        return code;
    }
    char *name = comm != NULL ? mem_format("rank %d (%s, %s)", rank, comm_host(comm), ranks.device)
                              : mem_strdup(ranks.title);
    Writer *w = mem_alloc(sizeof *w);
    *w = (Writer){.step = &profile->fastest,
                  .ceilings = ceilings,
                  .comm = comm,
                  .rank = rank,
                  .name = name,
                  .label = comm != NULL ? ranks.title : NULL,
                  .origin_ns = origin_ns,
                  .written = rank,
                  .output = output};
    if (rank == 0) {
        code = put_text(w, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
        code = code == 0 ? put_lanes(w) : code;
        code = code == 0 ? flush(w) : code;
    }
    for (int from = 1; from < count; from++) {
        int passed = from == rank ? send_lanes(w) : take_lanes(w, from, rank == 0 && code == 0);
        code = code == 0 ? passed : code;
    }
    if (rank == 0 && code == 0) {
        code = put_text(w, "\n]}\n");
        code = code == 0 ? flush(w) : code;
    }
    free(w);
    free(name);
    return comm_agree(comm, code);
}
