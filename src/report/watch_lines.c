/* What lines of metrics.jsonl amount to. Points are thinned by joining neighbours whenever an
 * array is full, so that memory is bounded and no part of the run is favoured. A run that was
 * resumed writes steps again: the curve is cut back to them first, as a resume cuts the file. */
#include "base/clock.h"
#include "base/mem.h"
#include "report/watch_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEP 1e15 /* counts are exact below it */

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) && isfinite(item->valuedouble) ? item->valuedouble : NAN;
}

/* --- thinning --- */

static void halve_points(CurvePoint *points, size_t *count)
{
    *count /= 2;
    for (size_t i = 0; i < *count; i++) {
        points[i] = (CurvePoint){points[2 * i + 1].step,
                                 0.5 * (points[2 * i].loss + points[2 * i + 1].loss)};
    }
}

/* The mean of the lines that a point stands for, at the last of their steps. */
static void add_point(CurvePoint **points, size_t *count, WatchThinning *thinning, int64_t step,
                      double loss)
{
    if (*points == NULL) {
        *points = mem_zalloc(WATCH_POINTS, sizeof **points);
        thinning->lines = 1;
    }
    if (*count > 0 && thinning->filled < thinning->lines) {
        CurvePoint *last = &(*points)[*count - 1];
        last->loss += (loss - last->loss) / (double)++thinning->filled;
        last->step = step;
        return;
    }
    if (*count == WATCH_POINTS) {
        halve_points(*points, count);
        thinning->lines *= 2;
    }
    (*points)[(*count)++] = (CurvePoint){step, loss};
    thinning->filled = 1;
}

static void add_mark(WatchRun *run, const WatchLine *line)
{
    Curve *curve = &run->curve;
    if (curve->marks == NULL) {
        curve->marks = mem_zalloc(WATCH_POINTS, sizeof *curve->marks);
        run->marks.lines = 1;
    }
    CurveMark before = curve->mark_count > 0 ? curve->marks[curve->mark_count - 1] : (CurveMark){0};
    double spent = 1e-3 * line->ms * ((double)line->step - (double)before.step);
    CurveMark mark = {line->step, line->tokens, before.seconds + spent};
    if (curve->mark_count > 0 && run->marks.filled < run->marks.lines) {
        run->marks.filled++;
        curve->marks[curve->mark_count - 1] = mark;
        return;
    }
    if (curve->mark_count == WATCH_POINTS) {
        curve->mark_count /= 2;
        for (size_t i = 0; i < curve->mark_count; i++) {
            curve->marks[i] = curve->marks[2 * i + 1];
        }
        run->marks.lines *= 2;
    }
    curve->marks[curve->mark_count++] = mark;
    run->marks.filled = 1;
}

/* --- steps that come again --- */

static void cut_points(const CurvePoint *points, size_t *count, WatchThinning *thinning,
                       int64_t step)
{
    while (*count > 0 && points[*count - 1].step >= step) {
        (*count)--;
        thinning->filled = thinning->lines; /* the next line begins a point */
    }
}

static void cut_train(WatchRun *run, int64_t step)
{
    Curve *curve = &run->curve;
    cut_points(curve->train, &curve->train_count, &run->train, step);
    while (curve->mark_count > 0 && curve->marks[curve->mark_count - 1].step >= step) {
        curve->mark_count--;
        run->marks.filled = run->marks.lines;
    }
}

static void cut_validation(WatchRun *run, int64_t step)
{
    Curve *curve = &run->curve;
    size_t before = curve->validation_count;
    cut_points(curve->validation, &curve->validation_count, &run->validation, step);
    if (curve->validation_count == before) {
        return;
    }
    run->val_loss = run->best_val_loss = NAN;
    run->val_step = run->best_val_step = 0;
    for (size_t i = 0; i < curve->validation_count; i++) {
        run->val_loss = curve->validation[i].loss;
        run->val_step = curve->validation[i].step;
        if (!(run->best_val_loss <= run->val_loss)) {
            run->best_val_loss = run->val_loss;
            run->best_val_step = run->val_step;
        }
    }
}

/* --- lines --- */

enum { STEP, TOKENS, LOSS, LR, GRAD_NORM, TOK_S, MS, VAL_LOSS, FIELDS };
static const char *const names[FIELDS] = {"step",      "tokens", "loss", "lr",
                                          "grad_norm", "tok_s",  "ms",   "val_loss"};

typedef struct {
    double values[FIELDS]; /* NAN: missing, null, or not a number */
    bool present[FIELDS];
} Fields;

static bool parse(const char *line, size_t size, Fields *fields)
{
    cJSON *object = cJSON_ParseWithLength(line, size);
    for (int i = 0; i < FIELDS; i++) {
        fields->values[i] = number_of(object, names[i]);
        fields->present[i] = cJSON_GetObjectItemCaseSensitive(object, names[i]) != NULL;
    }
    bool good = cJSON_IsObject(object);
    cJSON_Delete(object);
    return good;
}

static void add_step(WatchRun *run, const Fields *fields, int64_t step)
{
    const double *values = fields->values;
    WatchLine line = {step,          values[TOKENS], values[LOSS], values[LR], values[GRAD_NORM],
                      values[TOK_S], values[MS]};
    if (step <= run->last.step) {
        cut_train(run, step);
        cut_validation(run, step);
    }
    const Curve *curve = &run->curve;
    int64_t before = curve->mark_count > 0 ? curve->marks[curve->mark_count - 1].step : 0;
    size_t at = run->recent++ % WATCH_RECENT;
    run->recent_tok_s[at] = line.tok_s;
    run->recent_ms[at] = line.ms;
    run->recent_gap_s[at] = 1e-3 * line.ms * (double)(step - before);
    add_mark(run, &line);
    if (isfinite(line.loss)) {
        add_point(&run->curve.train, &run->curve.train_count, &run->train, step, line.loss);
    } else {
        run->not_finite += fields->present[LOSS];
    }
    run->last = line;
}

static void add_evaluation(WatchRun *run, double loss, int64_t step)
{
    cut_train(run, step + 1);
    cut_validation(run, step);
    run->val_loss = loss;
    run->val_step = step;
    if (!isfinite(loss)) {
        return;
    }
    add_point(&run->curve.validation, &run->curve.validation_count, &run->validation, step, loss);
    if (!(run->best_val_loss <= loss)) {
        run->best_val_loss = loss;
        run->best_val_step = step;
    }
}

bool watch_add_line(WatchRun *run, const char *line, size_t size)
{
    Fields fields;
    bool good = parse(line, size, &fields);
    double step = fields.values[STEP];
    if (!good || !(step >= 0 && step <= MAX_STEP)) {
        return false;
    }
    if (fields.present[VAL_LOSS]) {
        add_evaluation(run, fields.values[VAL_LOSS], (int64_t)step);
    } else {
        add_step(run, &fields, (int64_t)step);
    }
    return true;
}

/* --- what follows --- */

static double median(const double *ring, size_t seen)
{
    double known[WATCH_RECENT];
    size_t count = 0, held = seen < WATCH_RECENT ? seen : WATCH_RECENT;
    for (size_t i = 0; i < held; i++) {
        if (isfinite(ring[i])) {
            known[count++] = ring[i];
        }
    }
    return clock_quantile(known, count, 0.5);
}

double watch_median_tok_s(const WatchRun *run)
{
    return median(run->recent_tok_s, run->recent);
}

double watch_median_ms(const WatchRun *run)
{
    return median(run->recent_ms, run->recent);
}

double watch_median_gap(const WatchRun *run)
{
    return median(run->recent_gap_s, run->recent);
}

double watch_pace_ms(const WatchRun *run)
{
    double sum = 0;
    size_t held = run->recent < WATCH_RECENT ? run->recent : WATCH_RECENT, count = 0;
    for (size_t i = 1; i <= held && i <= WATCH_PACE; i++) {
        double ms = run->recent_ms[(run->recent - i) % WATCH_RECENT];
        sum += isfinite(ms) ? ms : 0;
        count += isfinite(ms);
    }
    return count > 0 ? sum / (double)count : NAN;
}
