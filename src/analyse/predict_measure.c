#include "analyse/predict_measure.h"

#include "analyse/one_rank.h"
#include "analyse/profile.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM 2
#define REPEATS_LEAST 3
#define REPEATS_MOST 15
#define STEP_SECONDS 15.0 /* after these no further repeat is begun */

/* Where the time of one traced step went, in seconds: first micro-step, before the backward
 * pass, backward pass, one cast, update; then when each layer's backward pass has ended, when
 * its forward pass begins, and when that of all layers has ended. */
enum { AT_MICRO, AT_BEFORE, AT_BACKWARD, AT_CAST, AT_UPDATE, AT_LAYERS };

typedef struct {
    Run run; /* that of one rank */
    OneRank one;
    int layers;
    double *samples;            /* (AT_LAYERS + 2 layers + 1, REPEATS_MOST) */
    double plain[REPEATS_MOST]; /* seconds of whole steps */
    int64_t repeats;
} Measurement;

static double *sample(Measurement *m, int which)
{
    return m->samples + (size_t)which * REPEATS_MOST;
}

static double seconds_between(int64_t from_ns, int64_t to_ns)
{
    return 1e-9 * (double)(to_ns - from_ns);
}

/* The last micro-step's section is the one before the update's. */
static void book(Measurement *m, const ProfiledStep *step)
{
    int64_t at = m->repeats, last = m->one.trainer.setup.accum - 1;
    int64_t micro_end = step->start_ns, begin = 0, end = 0, forward = 0;
    int begun = 0; /* layers */
    double casts = 0;
    for (int64_t i = 0; i < step->event_count; i++) {
        const TraceEvent *e = &step->events[i];
        if (e->run < last) {
            micro_end = e->end_ns;
        } else if (e->run == last && e->call.op == OP_CAST) {
            casts += seconds_between(e->start_ns, e->end_ns);
        } else if (e->run == last && strcmp(e->call.part, "forward") == 0) {
            forward = forward == 0 ? e->start_ns : forward;
            if (e->call.layer == begun || (begun == m->layers && e->call.layer < 0)) {
                sample(m, AT_LAYERS + m->layers + begun)[at] =
                    seconds_between(forward, e->start_ns);
                begun++;
            }
        } else if (e->run == last && strcmp(e->call.part, "backward") == 0) {
            begin = end == 0 ? e->start_ns : begin;
            end = e->end_ns;
            if (e->call.layer >= 0) {
                sample(m, AT_LAYERS + e->call.layer)[at] = seconds_between(begin, end);
            }
        }
    }
    sample(m, AT_MICRO)[at] = seconds_between(step->start_ns, micro_end);
    sample(m, AT_BEFORE)[at] = seconds_between(micro_end, begin);
    sample(m, AT_BACKWARD)[at] = seconds_between(begin, end);
    sample(m, AT_CAST)[at] = casts / 2;
    sample(m, AT_UPDATE)[at] = seconds_between(end, step->end_ns) - casts;
}

static double median(Measurement *m, int which)
{
    return clock_quantile(sample(m, which), (size_t)m->repeats, 0.5);
}

/* Medians of parts need not add up to the median of the whole: they are scaled to it. */
static LayerTimes layer_times(Measurement *m)
{
    double part[AT_LAYERS], sum = 0;
    for (int i = 0; i < AT_LAYERS; i++) {
        part[i] = median(m, i);
        sum += i == AT_CAST ? 2 * part[i] : part[i];
    }
    double scale = clock_quantile(m->plain, (size_t)m->repeats, 0.5) / sum;
    LayerTimes times = {.layers = m->layers,
                        .micro_s = scale * part[AT_MICRO],
                        .before_s = scale * part[AT_BEFORE],
                        .backward_s = scale * part[AT_BACKWARD],
                        .cast_s = scale * part[AT_CAST],
                        .update_s = scale * part[AT_UPDATE]};
    times.begins = mem_zalloc((size_t)m->layers + 1, sizeof *times.begins);
    times.ends = mem_zalloc((size_t)m->layers, sizeof *times.ends);
    for (int i = 0; i <= m->layers; i++) {
        times.begins[i] = scale * median(m, AT_LAYERS + m->layers + i);
    }
    for (int i = 0; i < m->layers; i++) {
        times.ends[i] = scale * median(m, AT_LAYERS + i);
    }
    return times;
}

/* By the places of the whole model's parameters. */
static void conclude(const Model *model, const LayerTimes *t, PredictTimes *times)
{
    *times = (PredictTimes){.micro_s = t->micro_s,
                            .before_s = t->before_s,
                            .backward_s = t->backward_s,
                            .cast_s = t->cast_s,
                            .update_s = t->update_s};
    int64_t head = model->row_head >= 0 ? model->params.rows[model->row_head].offset : -1;
    times->ready = mem_zalloc((size_t)t->layers + 1, sizeof *times->ready);
    times->needed = mem_zalloc((size_t)t->layers + 1, sizeof *times->needed);
    if (head >= 0) { /* complete with the loss */
        times->ready[times->ready_count++].from = head;
    }
    for (int layer = t->layers - 1; layer >= 0; layer--) {
        int row = params_first_decayed(&model->params, layer);
        times->ready[times->ready_count++] =
            (PredictReady){model->params.rows[row].offset, fmin(t->ends[layer], times->backward_s)};
    }
    for (int layer = 0; layer < t->layers; layer++) {
        int row = params_first_decayed(&model->params, layer);
        times->needed[times->needed_count++] =
            (PredictReady){model->params.rows[row].offset, t->begins[layer]};
    }
    if (head >= 0) {
        times->needed[times->needed_count++] = (PredictReady){head, t->begins[t->layers]};
    }
}

static int repeat(Measurement *m, Comm *comm)
{
    double started = clock_seconds(), spent = 0;
    char what[96];
    Progress progress = progress_begin(what);
    int code = 0;
    while (code == 0 && m->repeats < REPEATS_MOST &&
           (m->repeats < REPEATS_LEAST || spent < STEP_SECONDS)) {
        Profile profile = {0};
        ProfileOptions options = {
            .warm = m->repeats == 0 ? WARM : 0, .repeats = 1, .progress = &progress};
        snprintf(what, sizeof what, "measuring one rank's step, repeat %lld of %d to %d",
                 (long long)m->repeats + 1, REPEATS_LEAST, REPEATS_MOST);
        code = profile_measure(&profile, &m->one.trainer, m->one.prefetch, options);
        if (code == 0) {
            m->plain[m->repeats] = profile.plain_s;
            book(m, &profile.fastest);
            m->repeats++;
            spent = clock_seconds() - started;
            code = comm != NULL ? comm_max(comm, &spent, 1) : 0;
        }
        profile_free(&profile);
    }
    return code;
}

/* The most layers, two at least, of which one rank can keep everything; 0: not even these. */
static int64_t layers_that_fit(const Run *run)
{
    TrainerSetup setup = run->setup;
    TrainPlan plan;
    int64_t most = setup.spec.layers, low = 0, high = most + 1; /* low fits, high does not */
    size_t room = run_room(run);
    for (int64_t layers = most; high - low > 1; layers = (low + high) / 2) {
        setup.spec.layers = layers;
        trainer_plan(&setup, run->backend, &plan);
        low = plan.total <= room ? layers : low;
        high = plan.total <= room ? high : layers;
    }
    return low >= 2 || low == most ? low : 0;
}

/* One rank that keeps everything. With gradients that are rounded on their way it believes in a
 * second one, so that the rounding is measured; there is no channel, and nothing is sent. */
static int open_measurement(Measurement *m, const Run *run, int64_t accum)
{
    m->run = *run;
    TrainerSetup *setup = &m->run.setup;
    DType wire = setup->ddp.wire;
    setup->accum = accum > 1 ? 2 : 1;
    setup->ddp = (DdpSetup){.kind = DDP_FLAT, .ranks = wire == DT_BF16 ? 2 : 1, .wire = wire};
    int64_t layers = layers_that_fit(&m->run);
    setup->spec.layers = layers > 0 ? layers : setup->spec.layers;
    trainer_plan(setup, m->run.backend, &m->run.plan);
    int code = run_check_fits(&m->run);
    if (code != 0) {
        return err_wrap(code, "a prediction measures a step of one rank that keeps all of at least "
                              "two layers");
    }
    code = one_rank_open(&m->one, &m->run);
    if (code != 0) {
        return code;
    }
    m->layers = (int)setup->spec.layers;
    m->samples =
        mem_zalloc((size_t)(AT_LAYERS + 2 * m->layers + 1) * REPEATS_MOST, sizeof *m->samples);
    return code;
}

int predict_measure_step(const Run *run, Comm *comm, int64_t accum, PredictTimes *times,
                         PredictMeasured *measured)
{
    Measurement *m = mem_zalloc(1, sizeof *m);
    int code = open_measurement(m, run, accum);
    code = code != 0 ? code : repeat(m, comm);
    if (code == 0) {
        const TrainerSetup *s = &run->setup;
        int64_t align = run->backend->row_align;
        Model whole;
        model_init(&whole, &s->spec, s->dtype, align > 0 ? align : 1);
        LayerTimes by_layer = layer_times(m);
        if (m->layers < (int)s->spec.layers) {
            layer_times_stretch(&by_layer, (int)s->spec.layers,
                                (double)whole.params.flat /
                                    (double)m->one.trainer.model.params.flat);
        }
        conclude(&whole, &by_layer, times);
        *measured = (PredictMeasured){m->repeats, m->layers};
        layer_times_free(&by_layer);
        model_free(&whole);
    }
    one_rank_close(&m->one);
    free(m->samples);
    free(m);
    return code;
}
