/* Steps are traced in turn with steps that are not, and the medians of the ops' times are scaled to
 * the median of the whole steps, unless these also wait for copies. A step that would take too
 * long, by itself or until its memory and weights are there, or more memory than there is, is made
 * with fewer layers: what a layer calls stays the same, and what is not the same is scaled. */
#include "analyse/fit_measure.h"

#include "analyse/one_rank.h"
#include "analyse/profile.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM 2
#define REPEATS_LEAST 3
#define REPEATS_MOST 15
#define LESSON_SECONDS 2.0 /* after these no further repeat is begun */
#define SLOWEST_STEP_S 3.0 /* of two micro-steps */
#define SLOWEST_OPEN_S 5.0 /* beside what libraries take, whatever the size */
#define LIBRARIES_OPEN_S 2.0
#define FEW_LAYERS 2
#define COPY_BYTES ((size_t)32 << 20)
#define COPY_REPEATS 7

typedef struct {
    const Config *cfg;
    FitFound *found;
    Run base;
    double open_byte_s; /* seconds a byte, on the device and away from it, before the first step */
} Search;

/* --- planning --- */

static int open_candidate(const Search *search, const FitCandidate *c, Config *cfg, Run *run)
{
    int code = fit_settings(search->cfg, &search->found->space, c, cfg);
    code = code != 0 ? code : run_resolve(cfg);
    code = code != 0 ? code : run_vary(&search->base, cfg, run);
    return code;
}

static int plan(void *user, FitCandidate *c)
{
    const Search *search = user;
    Config cfg;
    Run run = {0};
    int code = open_candidate(search, c, &cfg, &run);
    if (code == ERR_INPUT) {
        snprintf(c->why, sizeof c->why, "%s", err_message());
        code = 0;
    } else if (code == 0) {
        c->bytes = run.plan.total;
        c->host = run.plan.host;
        c->fits = run_has_room(&run);
        op_uses_find(&c->uses, &run.setup, run.backend);
    }
    run_close(&run);
    config_free(&cfg);
    return code;
}

/* --- measuring --- */

/* A block between the memories, from an idle device to an idle device. */
static double time_copy(Backend *backend, CopyQueue queue, void *here, void *away)
{
    double seconds[COPY_REPEATS];
    for (int i = -1; i < COPY_REPEATS; i++) { /* the first warms up */
        backend->sync(backend);
        double begun = clock_seconds();
        backend->copy(backend, queue, queue == COPY_OUT ? away : here,
                      queue == COPY_OUT ? here : away, COPY_BYTES);
        backend->join(backend, queue);
        backend->sync(backend);
        seconds[i < 0 ? 0 : i] = clock_seconds() - begun;
    }
    return clock_quantile(seconds, COPY_REPEATS, 0.5);
}

static int measure_copies(void *user, OpTimes *times)
{
    const Search *search = user;
    Backend *backend = search->base.backend;
    void *here = backend->alloc(backend, COPY_BYTES);
    void *away = backend->host_alloc(backend, COPY_BYTES);
    bool given = here != NULL && away != NULL;
    if (given) {
        backend->zero(backend, here, COPY_BYTES);
        memset(away, 0, COPY_BYTES);
    }
    for (int queue = 0; given && queue < COPY_QUEUES; queue++) {
        double seconds = time_copy(backend, (CopyQueue)queue, here, away);
        times->copy_rate[queue] = (double)COPY_BYTES / fmax(seconds, 1e-9);
        search->found->copy_rate[queue] = times->copy_rate[queue];
    }
    if (here != NULL) {
        backend->release(backend, here);
    }
    if (away != NULL) {
        backend->host_release(backend, away);
    }
    return given ? 0
                 : err_set(ERR_MEMORY,
                           "--fit: no %zu bytes on the device and in the host's memory to measure "
                           "copies with; give --offload none",
                           COPY_BYTES);
}

/* Times of the ops of repeated steps, by their place in the step. */
typedef struct {
    int64_t ops, repeats;
    TraceCall *calls; /* (ops) */
    double *seconds;  /* (ops, REPEATS_MOST) */
    double *whole;    /* (REPEATS_MOST): steps without a trace */
} Lesson;

static void book(Lesson *lesson, const Profile *profile)
{
    const ProfiledStep *step = &profile->fastest;
    if (lesson->repeats == 0) {
        lesson->ops = step->event_count;
        lesson->calls = mem_zalloc((size_t)lesson->ops, sizeof *lesson->calls);
        lesson->seconds = mem_zalloc((size_t)lesson->ops * REPEATS_MOST, sizeof *lesson->seconds);
        lesson->whole = mem_zalloc(REPEATS_MOST, sizeof *lesson->whole);
    }
    PACER_ASSERT(step->event_count == lesson->ops, "%lld ops, then %lld", (long long)lesson->ops,
                 (long long)step->event_count);
    for (int64_t i = 0; i < lesson->ops; i++) {
        const TraceEvent *event = &step->events[i];
        lesson->calls[i] = event->call;
        lesson->seconds[i * REPEATS_MOST + lesson->repeats] =
            1e-9 * (double)(event->end_ns - event->start_ns);
    }
    lesson->whole[lesson->repeats++] = profile->plain_s;
}

static int make_steps(OneRank *one, Lesson *lesson)
{
    double begun = clock_seconds();
    char what[64];
    Progress progress = progress_begin(what);
    int code = 0;
    while (code == 0 && lesson->repeats < REPEATS_MOST &&
           (lesson->repeats < REPEATS_LEAST || clock_seconds() - begun < LESSON_SECONDS)) {
        Profile profile = {0};
        ProfileOptions options = {
            .warm = lesson->repeats == 0 ? WARM : 1, .repeats = 1, .progress = &progress};
        snprintf(what, sizeof what, "measuring steps of batch %lld, repeat %lld",
                 (long long)one->trainer.setup.batch, (long long)lesson->repeats + 1);
        code = profile_measure(&profile, &one->trainer, one->prefetch, options);
        if (code == 0) {
            book(lesson, &profile);
        }
        profile_free(&profile);
    }
    return code;
}

static OpKind kind_of(const TraceCall *call)
{
    return (OpKind){call->op, strcmp(call->part, "backward") == 0, call->shape, call->flops,
                    call->bytes};
}

/* Means of each kind's medians, which together make the median of a whole step, unless it copies;
 * and the step's uses. */
static void average(Lesson *lesson, bool copies, OpTimes *own, OpUses *uses)
{
    size_t repeats = (size_t)lesson->repeats;
    double sum = 0;
    for (int64_t i = 0; i < lesson->ops; i++) {
        double *samples = lesson->seconds + i * REPEATS_MOST;
        samples[0] = clock_quantile(samples, repeats, 0.5);
        sum += samples[0];
    }
    double scale = sum > 0 && !copies ? clock_quantile(lesson->whole, repeats, 0.5) / sum : 1;
    for (int64_t i = 0; i < lesson->ops; i++) {
        OpKind kind = kind_of(&lesson->calls[i]);
        const OpTime *before = op_times_find(own, &kind);
        double seconds = scale * lesson->seconds[i * REPEATS_MOST];
        op_times_put(own, kind, seconds + (before != NULL ? before->seconds : 0));
        op_uses_add(uses, 0, kind, 1);
    }
    for (int i = 0; i < uses->count; i++) { /* in the same order */
        own->items[i].seconds /= op_use_calls(&uses->items[i]);
    }
}

/* What is known of a kind stays: settings are then compared by the same times. Where that is most
 * of the step, the rest is taken by the speed that the machine had before. */
static void conclude(FitFound *found, Lesson *lesson, bool copies, OpTimes *times)
{
    OpTimes own = {0};
    OpUses uses = {0};
    double then = 0, now = 0, all = 0;
    average(lesson, copies, &own, &uses);
    for (int i = 0; i < own.count; i++) {
        const OpTime *known = op_times_find(times, &own.items[i].kind);
        double calls = op_use_calls(&uses.items[i]), seconds = own.items[i].seconds;
        bool has = known != NULL && !isnan(known->seconds);
        all += calls * seconds;
        then += has ? calls * known->seconds : 0;
        now += has ? calls * seconds : 0;
    }
    double speed = now > all / 2 ? then / now : 1;
    for (int i = 0; i < own.count; i++) {
        const OpTime *known = op_times_find(times, &own.items[i].kind);
        if (known == NULL || isnan(known->seconds)) {
            op_times_put(times, own.items[i].kind, speed * own.items[i].seconds);
        }
    }
    op_times_free(&own);
    op_uses_free(&uses);
    found->spread = fmax(found->spread, clock_spread(lesson->whole, (size_t)lesson->repeats));
    found->steps += (int)lesson->repeats;
}

static double bytes_of(const Run *run)
{
    return (double)run->plan.total + (double)run->plan.host;
}

static int measure(Search *search, const Run *run, OpTimes *times)
{
    OneRank *one = mem_zalloc(1, sizeof *one);
    Lesson lesson = {0};
    double begun = clock_seconds();
    int code = one_rank_open(one, run);
    search->open_byte_s = fmax(clock_seconds() - begun - LIBRARIES_OPEN_S, 0) / bytes_of(run);
    code = code != 0 ? code : make_steps(one, &lesson);
    one_rank_close(one);
    if (code == 0) {
        bool copies = run->plan.copied[COPY_OUT] + run->plan.copied[COPY_IN] > 0;
        conclude(search->found, &lesson, copies, times);
    }
    free(lesson.calls);
    free(lesson.seconds);
    free(lesson.whole);
    free(one);
    return code;
}

/* With so many layers; whether it fits here and will not take too long, as far as is known. */
static bool set_layers(const Search *search, Run *run, int64_t layers, const OpTimes *times)
{
    run->setup.spec.layers = layers;
    trainer_plan(&run->setup, run->backend, &run->plan);
    size_t free_bytes = run->backend->available(run->backend);
    if (!run_has_room(run) || (free_bytes > 0 && run->plan.total > free_bytes)) {
        return false;
    }
    OpUses uses = {0};
    op_uses_find(&uses, &run->setup, run->backend);
    double expected = op_times_sum(times, &uses).seconds;
    op_uses_free(&uses);
    return expected <= SLOWEST_STEP_S && search->open_byte_s * bytes_of(run) <= SLOWEST_OPEN_S;
}

/* One rank that keeps everything, with two micro-steps at most: a first one, and another. */
static int learn(void *user, const FitCandidate *c, OpTimes *times)
{
    Search *search = user;
    Config cfg;
    Run run = {0};
    int code = open_candidate(search, c, &cfg, &run);
    if (code == 0) {
        TrainerSetup *s = &run.setup;
        int64_t layers = s->spec.layers;
        bool few = layers > FEW_LAYERS;
        s->accum = s->accum > 1 ? 2 : 1;
        s->noise = s->ddp.ranks > 1 ? NOISE_NONE : s->noise;
        s->ddp = (DdpSetup){.kind = DDP_FLAT, .ranks = 1, .bucket_bytes = s->ddp.bucket_bytes};
        s->save_copy = false;
        bool first = times->count == 0 && few; /* how long all layers take is not known yet */
        if (first && set_layers(search, &run, FEW_LAYERS, times)) {
            code = measure(search, &run, times);
        }
        bool known = !first || times->count > 0;
        if (code == 0 && known && set_layers(search, &run, layers, times)) {
            if (first) { /* a step of all layers knows all of it, and better */
                times->count = 0;
            }
            code = measure(search, &run, times);
        } else if (code == 0) {
            search->found->reduced = true;
            bool again = !first && few && set_layers(search, &run, FEW_LAYERS, times);
            code = again ? measure(search, &run, times) : 0;
        }
    }
    run_close(&run);
    config_free(&cfg);
    return code;
}

/* --- the whole --- */

/* On the device and data of the smallest candidate, on which the others are planned. */
static int open_base(Search *search, int local_ranks, Config *cfg)
{
    FitFound *found = search->found;
    FitCandidate first = {.batch = found->space.batches[0]};
    for (int i = 0; i < found->space.axis_count; i++) {
        first.value[i] = found->space.axes[i].plain;
    }
    int code = fit_settings(search->cfg, &found->space, &first, cfg);
    if (code == 0 && cfg->data[0] == '\0') {
        code = config_set(cfg, "data", "builtin:random");
    }
    code = code != 0 ? code : run_resolve(cfg);
    code = code != 0 ? code : run_open(&search->base, cfg, NULL, DATA_REQUIRED);
    if (code != 0) {
        return code;
    }
    Run *base = &search->base;
    base->local_ranks = local_ranks;
    found->spec = base->setup.spec;
    found->seq = base->setup.seq;
    found->dtype = base->setup.dtype;
    found->limit = run_memory_limit(base);
    found->program = base->program;
    snprintf(found->device, sizeof found->device, "%s",
             base->backend->device != NULL ? base->backend->device : "the processor");
    return 0;
}

/* A device that has no other memory leaves nothing to choose there. */
static int narrow(const Search *search)
{
    const Option *offload = config_find("offload");
    const Backend *backend = search->base.backend;
    if (backend->copy != NULL) {
        return 0;
    }
    fit_leave_out(&search->found->space, offload->name);
    return !config_fit_names(search->cfg, offload)
               ? 0
               : err_set(ERR_INPUT,
                         "--fit-also %s: --device %s computes in the host's memory and has no "
                         "other; leave it out",
                         offload->name, backend->name);
}

int fit_find(const Config *cfg, int local_ranks, FitFound *found)
{
    *found = (FitFound){.ranks = cfg->ranks, .fit = {.best = -1, .smallest = -1}};
    int code = fit_space(cfg, &found->space);
    if (code != 0) {
        return code;
    }
    Config own;
    Search search = {.cfg = cfg, .found = found};
    FitMachine machine = {plan, measure_copies, learn, &search};
    code = open_base(&search, local_ranks, &own);
    code = code != 0 ? code : narrow(&search);
    code = code != 0 ? code : fit_search(&found->space, &machine, &found->fit);
    run_close(&search.base);
    config_free(&own);
    return code;
}

void fit_found_free(FitFound *found)
{
    fit_free(&found->fit);
    *found = (FitFound){0};
}

double fit_rate(const FitFound *found, const FitCandidate *c)
{
    double tokens = (double)(found->space.sequences * found->ranks) * (double)found->seq;
    return c->time.seconds > 0 ? tokens / c->time.seconds : 0;
}
