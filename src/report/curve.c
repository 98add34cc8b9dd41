#include "report/curve.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "record/reader.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void add(CurvePoint **points, size_t *count, int64_t step, double loss)
{
    if ((*count & (*count - 1)) == 0) { /* full at powers of two */
        *points = mem_realloc(*points, *count == 0 ? 1 : 2 * *count, sizeof **points);
    }
    (*points)[(*count)++] = (CurvePoint){step, loss};
}

/* A line's `ms` is the mean of the steps since the line before. */
static void add_mark(Curve *curve, const cJSON *line, int64_t step)
{
    size_t count = curve->mark_count;
    CurveMark last = count > 0 ? curve->marks[count - 1] : (CurveMark){0};
    if ((count & (count - 1)) == 0) {
        curve->marks = mem_realloc(curve->marks, count == 0 ? 1 : 2 * count, sizeof *curve->marks);
    }
    double spent = 1e-3 * json_number(line, "ms") * ((double)step - (double)last.step);
    curve->marks[curve->mark_count++] =
        (CurveMark){step, json_number(line, "tokens"), last.seconds + spent};
}

static int add_line(void *context, const cJSON *line, const char *where, long number)
{
    (void)number;
    Curve *curve = context;
    double number_of_step = json_number(line, "step");
    if (!(number_of_step >= 0 && number_of_step <= JSON_WHOLE_MAX)) {
        return err_set(ERR_INPUT, "%s: not a line of a run's record", where);
    }
    int64_t step = (int64_t)number_of_step;
    const cJSON *loss = json_get(line, "loss"), *validation = json_get(line, "val_loss");
    if (cJSON_IsNumber(loss)) {
        add(&curve->train, &curve->train_count, step, loss->valuedouble);
    }
    if (validation == NULL) {
        add_mark(curve, line, step);
    } else if (cJSON_IsNumber(validation)) {
        add(&curve->validation, &curve->validation_count, step, validation->valuedouble);
    }
    return 0;
}

int curve_read(Curve *curve, const char *run_dir)
{
    *curve = (Curve){0};
    int code = lines_read(run_dir, add_line, curve, NULL);
    if (code != 0) {
        curve_free(curve);
    }
    return code;
}

void curve_free(Curve *curve)
{
    free(curve->train);
    free(curve->validation);
    free(curve->marks);
    *curve = (Curve){0};
}

/* The mark at or behind the step, and the one before it; false when there is none. */
static bool marks_around(const Curve *curve, int64_t step, CurveMark *before, CurveMark *after)
{
    size_t low = 0, high = curve->mark_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (curve->marks[middle].step < step) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == curve->mark_count) {
        return false;
    }
    *before = low > 0 ? curve->marks[low - 1] : (CurveMark){0};
    *after = curve->marks[low];
    return true;
}

static double between(double from, double to, const CurveMark *before, const CurveMark *after,
                      int64_t step)
{
    if (step == after->step || after->step <= before->step) {
        return to;
    }
    return from +
           (to - from) * (double)(step - before->step) / (double)(after->step - before->step);
}

double curve_tokens(const Curve *curve, int64_t step)
{
    CurveMark before, after;
    return marks_around(curve, step, &before, &after)
               ? between(before.tokens, after.tokens, &before, &after, step)
               : NAN;
}

double curve_seconds(const Curve *curve, int64_t step)
{
    CurveMark before, after;
    return marks_around(curve, step, &before, &after)
               ? between(before.seconds, after.seconds, &before, &after, step)
               : NAN;
}

double curve_step(const Curve *curve, int64_t step)
{
    (void)curve;
    return (double)step;
}

static const CurvePoint *points_of(const Curve *curve, bool validation, size_t *count)
{
    *count = validation ? curve->validation_count : curve->train_count;
    return validation ? curve->validation : curve->train;
}

int64_t curve_last(const Curve *curve, bool validation)
{
    size_t count;
    const CurvePoint *points = points_of(curve, validation, &count);
    return count > 0 ? points[count - 1].step : 0;
}

void curve_bin(const Curve *curve, bool validation, CurvePlace *place, int64_t last,
               CurveBin sums[CURVE_BINS])
{
    CurveBin own[CURVE_BINS] = {0};
    size_t count;
    const CurvePoint *points = points_of(curve, validation, &count);
    for (size_t i = 0; i < count; i++) {
        double at = place(curve, points[i].step);
        double share = (double)points[i].step / ((double)last + 1);
        if (isfinite(at) && isfinite(points[i].loss) && share >= 0 && share < 1) {
            CurveBin *bin = &own[(int)(share * CURVE_BINS)];
            bin->loss += points[i].loss;
            bin->place += at;
            bin->count++;
        }
    }
    for (int i = 0; i < CURVE_BINS; i++) {
        if (own[i].count > 0) {
            sums[i].loss += own[i].loss / own[i].count;
            sums[i].place += own[i].place / own[i].count;
            sums[i].count++;
        }
    }
}
