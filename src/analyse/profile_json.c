/* Trace events as Chrome's format has them: complete events (ph X) with beginning and length in
 * microseconds, on lanes of one process for each rank. Written one line per event, so that a
 * step of many micro-steps needs no more memory. */
#include "analyse/profile_lanes.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { LANE_STEP, LANE_PARTS, LANE_OPS, LANE_HOST, LANE_COMM, LANE_COUNT };

typedef struct {
    const ProfiledStep *step;
    ProfileCeilings ceilings;
    ProfileLanes lanes;
    ProfileSink sink;
    int64_t written;
} Writer;

/* Takes item. */
static int put_item(Writer *w, cJSON *item)
{
    const char *between = w->written++ > 0 ? ",\n" : "\n";
    char *text = json_line(item);
    int code = w->sink.put(w->sink.user, between, strlen(between));
    code = code != 0 ? code : w->sink.put(w->sink.user, text, strlen(text));
    free(text);
    cJSON_Delete(item);
    return code;
}

/* Takes args. */
static int put_metadata(Writer *w, const char *name, int lane, cJSON *args)
{
    cJSON *item = json_object();
    json_put_text(item, "ph", "M");
    json_put_text(item, "name", name);
    json_put_whole(item, "pid", w->lanes.rank);
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

static int put_order(Writer *w, int lane)
{
    cJSON *args = json_object();
    json_put_whole(args, "sort_index", lane);
    return put_metadata(w, "thread_sort_index", lane, args);
}

/* Takes args. */
static int put_span(Writer *w, int lane, const char *name, const char *category, int64_t start_ns,
                    int64_t end_ns, cJSON *args)
{
    cJSON *item = json_object();
    json_put_text(item, "ph", "X");
    json_put_text(item, "name", name);
    json_put_text(item, "cat", category);
    json_put_whole(item, "pid", w->lanes.rank);
    json_put_whole(item, "tid", lane);
    json_put_number(item, "ts", (double)(start_ns - w->lanes.origin_ns) / 1e3);
    json_put_number(item, "dur", (double)(end_ns - start_ns) / 1e3);
    json_put_item(item, "args", args);
    return put_item(w, item);
}

static bool is_update(const TraceEvent *event)
{
    return strcmp(event->call.part, "optimizer") == 0;
}

static void put_micro(cJSON *args, const TraceEvent *event)
{
    if (!is_update(event)) {
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

static int put_step(Writer *w)
{
    const ProfiledStep *s = w->step;
    cJSON *args = json_object();
    if (w->lanes.has_comm) {
        json_put_number(args, "comm_s", s->comm_times.busy_s);
        json_put_number(args, "exposed_s", s->comm_times.exposed_s);
        json_put_number(args, "hidden_s", channel_hidden(&s->comm_times));
    }
    return put_span(w, LANE_STEP, "step", "step", s->start_ns, s->end_ns, args);
}

static int put_process(Writer *w)
{
    int code = put_name(w, "process_name", 0, w->lanes.name);
    if (code == 0 && w->lanes.label != NULL) {
        cJSON *args = json_object();
        json_put_text(args, "labels", w->lanes.label);
        code = put_metadata(w, "process_labels", 0, args);
    }
    return code;
}

static int put_lanes(Writer *w)
{
    static const char *const names[] = {[LANE_STEP] = "step",
                                        [LANE_PARTS] = "parts of the step",
                                        [LANE_OPS] = "ops",
                                        [LANE_HOST] = "host: data, launches, waiting",
                                        [LANE_COMM] = "communication"};
    int code = put_process(w), count = w->lanes.has_comm ? LANE_COUNT : LANE_COMM;
    for (int lane = 0; lane < count && code == 0; lane++) {
        code = put_name(w, "thread_name", lane, names[lane]);
        code = code == 0 ? put_order(w, lane) : code;
    }
    return code;
}

int profile_put_head(ProfileSink sink)
{
    static const char text[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    return sink.put(sink.user, text, strlen(text));
}

int profile_put_tail(ProfileSink sink)
{
    static const char text[] = "\n]}\n";
    return sink.put(sink.user, text, strlen(text));
}

int profile_put_lanes(const Profile *profile, ProfileCeilings ceilings, ProfileLanes lanes,
                      ProfileSink sink)
{
    Writer w = {.step = &profile->fastest,
                .ceilings = ceilings,
                .lanes = lanes,
                .sink = sink,
                .written = lanes.first ? 0 : 1};
    int code = put_lanes(&w);
    code = code == 0 ? put_step(&w) : code;
    code = code == 0 ? put_events(&w) : code;
    code = code == 0 ? put_host(&w) : code;
    return code == 0 ? put_communication(&w) : code;
}

int profile_put_output(void *output, const char *text, size_t size)
{
    return output_put(output, text, size);
}

int profile_write(const Profile *profile, ProfileCeilings ceilings, int rank, const char *title,
                  Output *output)
{
    ProfileSink sink = {profile_put_output, output};
    int code = profile_put_head(sink);
    if (code == 0) {
        ProfileLanes lanes = {
            .rank = rank, .name = title, .origin_ns = profile->fastest.start_ns, .first = true};
        code = profile_put_lanes(profile, ceilings, lanes, sink);
    }
    return code == 0 ? profile_put_tail(sink) : code;
}
