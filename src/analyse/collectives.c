#include "analyse/collectives.h"

#include "base/cache.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/signals.h"
#include "record/ceilings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *collective_name(Collective kind)
{
    static const char *const names[COLLECTIVES] = {"all-reduce", "reduce-scatter", "all-gather"};
    return names[kind];
}

double collective_bus_rate(Collective kind, CollectivePoint point, int ranks)
{
    double way = (ranks - 1) / (double)ranks;
    return collective_algorithm_rate(point) * (kind == ALL_REDUCE ? 2 * way : way);
}

/* --- tensors whose sums are exact --- */

/* Element i of rank r is a whole number that repeats in i with a prime period, so that whatever
 * lands in a wrong place shows. Sums over ranks stay exact in the element type. */
#define PERIOD 4093
#define STREAM 0xC011EC7

static uint64_t span_of(DType dtype, int ranks)
{
    uint64_t exact = dtype == DT_BF16 ? 256 : 1 << 24; /* all whole numbers up to it */
    uint64_t span = exact / (uint64_t)ranks;
    return span < 2 ? 2 : span > 1024 ? 1024 : span;
}

static void put_number(DType dtype, void *to, int64_t at, uint64_t number)
{
    float value = (float)number;
    if (dtype == DT_BF16) {
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        ((uint16_t *)to)[at] = (uint16_t)(bits >> 16); /* exact: at most 8 significant bits */
    } else {
        ((float *)to)[at] = value;
    }
}

/* Elements [first, first + count): those of `rank`, or with -1 the sums over all ranks. */
static void fill(const CollectiveTimer *t, int rank, int64_t first, int64_t count, void *to)
{
    int ranks = comm_ranks(t->comm);
    uint64_t span = span_of(t->dtype, ranks);
    int64_t fresh = count < PERIOD ? count : PERIOD;
    size_t size = dtype_size(t->dtype);
    for (int64_t i = 0; i < fresh; i++) {
        uint64_t place = (uint64_t)((first + i) % PERIOD), number = 0;
        for (int r = 0; r < ranks; r++) {
            number += rank < 0 || r == rank ? rng_below((uint64_t)r, STREAM, place, span) : 0;
        }
        put_number(t->dtype, to, i, number);
    }
    char *bytes = to;
    size_t done = (size_t)fresh * size, all = (size_t)count * size;
    for (; done < all;) {
        size_t more = done < all - done ? done : all - done;
        memcpy(bytes + done, bytes, more);
        done += more;
    }
}

/* --- timing --- */

int collectives_open(CollectiveTimer *t, Comm *comm, Backend *backend, DType dtype, size_t bytes,
                     int warm, int repeats)
{
    size_t least = dtype_size(dtype) * (size_t)comm_ranks(comm);
    bytes = bytes < least ? least : bytes - bytes % least;
    *t = (CollectiveTimer){.comm = comm,
                           .backend = backend,
                           .dtype = dtype,
                           .warm = warm,
                           .repeats = repeats,
                           .bytes = bytes};
    t->in = backend->alloc(backend, bytes);
    t->out = backend->alloc(backend, bytes);
    t->source = malloc(bytes);
    t->expected = malloc(bytes);
    t->is = malloc(bytes);
    int code = 0;
    if (t->in == NULL || t->out == NULL || t->source == NULL || t->expected == NULL ||
        t->is == NULL) {
        code = err_set(ERR_MEMORY,
                       "no memory for five tensors of %zu bytes on each rank: give a "
                       "smaller --bytes",
                       bytes);
    }
    code = comm_agree(comm, code);
    return code == 0 ? channel_open(comm, backend, &t->channel) : code;
}

void collectives_close(CollectiveTimer *t)
{
    if (t->channel != NULL) {
        channel_close(t->channel);
    }
    if (t->in != NULL) {
        t->backend->release(t->backend, t->in);
    }
    if (t->out != NULL) {
        t->backend->release(t->backend, t->out);
    }
    free(t->source);
    free(t->expected);
    free(t->is);
    *t = (CollectiveTimer){0};
}

/* What a collective reads and writes on this rank: elements of source and of the result, and the
 * first one's place in the whole tensor. */
typedef struct {
    int64_t taken, taken_from, made, made_from;
} Extent;

static Extent extent_of(const CollectiveTimer *t, Collective kind, int64_t count)
{
    int64_t part = count / comm_ranks(t->comm), own = part * comm_rank(t->comm);
    switch (kind) {
    case REDUCE_SCATTER:
        return (Extent){count, 0, part, own};
    case ALL_GATHER:
        return (Extent){part, own, count, 0};
    default:
        return (Extent){count, 0, count, 0};
    }
}

static void prepare(CollectiveTimer *t, Collective kind, int64_t count)
{
    Extent e = extent_of(t, kind, count);
    fill(t, comm_rank(t->comm), e.taken_from, e.taken, t->source);
    if (kind != ALL_GATHER) {
        fill(t, -1, e.made_from, e.made, t->expected);
        return;
    }
    for (int r = 0; r < comm_ranks(t->comm); r++) {
        int64_t part = e.taken;
        fill(t, r, r * part, part, (char *)t->expected + r * part * (int64_t)dtype_size(t->dtype));
    }
}

static void queue(CollectiveTimer *t, Collective kind, int64_t count)
{
    int64_t part = count / comm_ranks(t->comm);
    switch (kind) {
    case REDUCE_SCATTER:
        channel_reduce_scatter(t->channel, t->in, t->out, part, t->dtype);
        break;
    case ALL_GATHER:
        channel_all_gather(t->channel, t->in, t->out, part, t->dtype);
        break;
    default:
        channel_all_reduce(t->channel, t->out, count, t->dtype);
    }
}

static int64_t count_wrong(const CollectiveTimer *t, int64_t count)
{
    size_t size = dtype_size(t->dtype), bytes = (size_t)count * size;
    const char *is = t->is, *should = t->expected;
    int64_t wrong = 0;
    if (memcmp(is, should, bytes) == 0) {
        return 0;
    }
    for (size_t at = 0; at < bytes; at += size) {
        wrong += memcmp(is + at, should + at, size) != 0;
    }
    return wrong;
}

static int once(CollectiveTimer *t, Collective kind, int64_t count, double *seconds, double *wrong)
{
    Backend *backend = t->backend;
    Extent e = extent_of(t, kind, count);
    size_t size = dtype_size(t->dtype), made = (size_t)e.made * size;
    if (kind == ALL_REDUCE) {
        backend->upload(backend, t->out, t->source, made);
    } else {
        backend->upload(backend, t->in, t->source, (size_t)e.taken * size);
        backend->zero(backend, t->out, made);
    }
    backend->sync(backend);
    int code = comm_barrier(t->comm, "timing a collective");
    if (code != 0) {
        return code;
    }
    double started = clock_seconds();
    queue(t, kind, count);
    channel_wait(t->channel);
    backend->sync(backend);
    *seconds = clock_seconds() - started;
    backend->download(backend, t->is, t->out, made);
    *wrong += (double)count_wrong(t, e.made);
    return 0;
}

int collectives_time(CollectiveTimer *t, Collective kind, size_t bytes, CollectivePoint *point)
{
    int ranks = comm_ranks(t->comm);
    size_t size = dtype_size(t->dtype);
    bytes = bytes < t->bytes ? bytes : t->bytes;
    int64_t part = (int64_t)(bytes / size / (size_t)ranks), count = (part > 0 ? part : 1) * ranks;
    double *samples = mem_zalloc((size_t)t->repeats, sizeof *samples), seconds = 0, wrong = 0;
    int code = 0;
    prepare(t, kind, count);
    for (int i = -t->warm; i < t->repeats && code == 0; i++) {
        code = once(t, kind, count, &seconds, &wrong);
        samples[i < 0 ? 0 : i] = seconds;
    }
    seconds = clock_quantile(samples, (size_t)t->repeats, 0.5);
    free(samples);
    code = comm_agree(t->comm, code == 0 ? signals_check() : code);
    code = code == 0 ? comm_max(t->comm, &seconds, 1) : code;
    code = code == 0 ? comm_sum(t->comm, &wrong, 1) : code;
    *point = (CollectivePoint){.bytes = (double)count * (double)size,
                               .count = count,
                               .seconds = seconds,
                               .wrong = (int64_t)wrong};
    return code;
}

/* --- the link --- */

MeasuredLink link_fit(const CollectivePoint *points, int count, int ranks)
{
    MeasuredLink out = {.ranks = ranks};
    LinkPoint *all = mem_zalloc((size_t)count, sizeof *all);
    for (int i = 0; i < count; i++) {
        all[i] = (LinkPoint){points[i].bytes, points[i].seconds};
    }
    out.link = predict_fit(all, count, ranks);
    PredictNetwork network = {.link = out.link, .per_node = 1};
    for (int i = 0; i < count; i++) {
        double predicted = predict_all_reduce(&network, ranks, all[i].bytes);
        out.error = fmax(out.error, fabs(predicted / all[i].seconds - 1));
    }
    free(all);
    clock_stamp(out.date);
    return out;
}

int link_measure(Comm *comm, Backend *backend, MeasuredLink *link)
{
    enum { SIZES = 7, WARM = 1, REPEATS = 15 };
    const size_t most = (size_t)64 << 20; /* each size is a quarter of the next */
    CollectivePoint points[SIZES];
    CollectiveTimer timer;
    int code = collectives_open(&timer, comm, backend, DT_F32, most, WARM, REPEATS);
    for (int i = 0; i < SIZES && code == 0; i++) {
        code = collectives_time(&timer, ALL_REDUCE, most >> 2 * (SIZES - 1 - i), &points[i]);
        if (code == 0 && points[i].wrong > 0) {
            code = err_set(ERR_CHECK,
                           "an all-reduce of %.0f bytes between the ranks was wrong in "
                           "%lld elements",
                           points[i].bytes, (long long)points[i].wrong);
        }
    }
    collectives_close(&timer);
    if (code == 0) {
        *link = link_fit(points, SIZES, comm_ranks(comm));
    }
    return code;
}

static char *link_path(const Backend *backend, CeilingKey *key)
{
    Machine machine;
    machine_describe(&machine, NULL);
    ceilings_key(key, &machine, backend);
    if (backend->device == NULL) {
        /* Without cores and BLAS, which differ between one of several ranks and who plans alone. */
        *key = (CeilingKey){.host = ""}; /* all bytes of it count */
        snprintf(key->host, sizeof key->host, "%s", machine.host);
        snprintf(key->device, sizeof key->device, "%s", machine.cpu);
    }
    return ceilings_path("link", key);
}

int link_store(const MeasuredLink *link, const Backend *backend)
{
    CeilingKey key;
    char *path = link_path(backend, &key);
    if (path == NULL) {
        return 0;
    }
    cJSON *tree = json_object();
    json_put_text(tree, "host", key.host);
    json_put_text(tree, "device", key.device);
    json_put_text(tree, "date", link->date);
    json_put_whole(tree, "ranks", link->ranks);
    json_put_number(tree, "latency_s", link->link.latency_s);
    json_put_number(tree, "bytes_s", link->link.bytes_per_s);
    json_put_number(tree, "error", link->error);
    int code = cache_make_folder(path);
    code = code == 0 ? json_save(path, tree) : code;
    cJSON_Delete(tree);
    free(path);
    return code;
}

bool link_find(MeasuredLink *link, const Backend *backend)
{
    CeilingKey key;
    cJSON *tree = NULL;
    char *path = link_path(backend, &key);
    *link = (MeasuredLink){.link = {.name = "measured"}};
    if (path != NULL && io_exists(path) && json_load(path, &tree) == 0) {
        link->link.latency_s = json_number(tree, "latency_s");
        link->link.bytes_per_s = json_number(tree, "bytes_s");
        link->error = json_number(tree, "error");
        link->ranks = (int)json_number(tree, "ranks");
        snprintf(link->date, sizeof link->date, "%s", json_text_or(tree, "date", ""));
    }
    cJSON_Delete(tree);
    free(path);
    return link->link.latency_s >= 0 && link->link.bytes_per_s > 0 && link->ranks > 1;
}
