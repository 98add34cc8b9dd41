#include "report/curve.h"

#include "base/mem.h"
#include "record/reader.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Whether an array is as long as it may be; then an entry stands for twice as many lines. */
static bool is_full(const Curve *curve, size_t count, CurveThinning *thinning)
{
    bool full = curve->most > 0 && count == curve->most;
    if (full) {
        thinning->lines = thinning->lines > 0 ? 2 * thinning->lines : 2;
    }
    return full;
}

void curve_add(const Curve *curve, CurveLine *line, int64_t step, double loss)
{
    CurveThinning *thinning = &line->thinning;
    if (line->count > 0 && thinning->filled < thinning->lines) {
        CurvePoint *last = &line->points[line->count - 1];
        last->loss += (loss - last->loss) / (double)++thinning->filled;
        last->step = step;
        return;
    }
    if (is_full(curve, line->count, thinning)) {
        line->count /= 2;
        for (size_t i = 0; i < line->count; i++) {
            const CurvePoint *a = &line->points[2 * i], *b = a + 1;
            line->points[i] = (CurvePoint){b->step, 0.5 * (a->loss + b->loss)};
        }
    }
    thinning->filled = 1;
    line->points = mem_double(line->points, line->count, sizeof *line->points);
    line->points[line->count++] = (CurvePoint){step, loss};
}

void curve_add_mark(Curve *curve, int64_t step, double tokens, double ms)
{
    size_t count = curve->mark_count;
    CurveThinning *thinning = &curve->mark_thinning;
    CurveMark last = count > 0 ? curve->marks[count - 1] : (CurveMark){0};
    double spent = 1e-3 * ms * ((double)step - (double)last.step);
    if (count > 0 && thinning->filled < thinning->lines) {
        thinning->filled++;
        count--;
    } else {
        if (is_full(curve, count, thinning)) {
            count /= 2;
            for (size_t i = 0; i < count; i++) {
                curve->marks[i] = curve->marks[2 * i + 1];
            }
        }
        thinning->filled = 1;
        curve->marks = mem_double(curve->marks, count, sizeof *curve->marks);
    }
    curve->marks[count] = (CurveMark){step, tokens, last.seconds + spent};
    curve->mark_count = count + 1;
}

void curve_cut(CurveLine *line, int64_t step)
{
    while (line->count > 0 && line->points[line->count - 1].step >= step) {
        line->count--;
        line->thinning.filled = line->thinning.lines; /* the next line begins a point */
    }
}

void curve_cut_marks(Curve *curve, int64_t step)
{
    while (curve->mark_count > 0 && curve->marks[curve->mark_count - 1].step >= step) {
        curve->mark_count--;
        curve->mark_thinning.filled = curve->mark_thinning.lines;
    }
}

static void add_line(void *context, const LineNumbers *line)
{
    Curve *curve = context;
    int64_t step = (int64_t)line->step;
    if (!isnan(line->loss)) {
        curve_add(curve, &curve->train, step, line->loss);
    }
    if (!isnan(line->noise_scale)) {
        curve_add(curve, &curve->noise, step, line->noise_scale);
    }
    if (!line->evaluation) {
        curve_add_mark(curve, step, line->tokens, line->ms);
    } else if (!isnan(line->val_loss)) {
        curve_add(curve, &curve->validation, step, line->val_loss);
    }
}

int curve_read(Curve *curve, const char *run_dir, size_t most)
{
    *curve = (Curve){.most = most};
    int code = lines_scan(run_dir, add_line, curve);
    if (code != 0) {
        curve_free(curve);
    }
    return code;
}

void curve_free(Curve *curve)
{
    free(curve->train.points);
    free(curve->validation.points);
    free(curve->noise.points);
    free(curve->marks);
    *curve = (Curve){0};
}

/* On the straight line between the marks around the step. */
static double at_step(const Curve *curve, int64_t step, bool seconds)
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
        return NAN;
    }
    CurveMark before = low > 0 ? curve->marks[low - 1] : (CurveMark){0}, after = curve->marks[low];
    double from = seconds ? before.seconds : before.tokens;
    double to = seconds ? after.seconds : after.tokens;
    if (step == after.step || after.step <= before.step) {
        return to;
    }
    return from + (to - from) * (double)(step - before.step) / (double)(after.step - before.step);
}

double curve_tokens(const Curve *curve, int64_t step)
{
    return at_step(curve, step, false);
}

double curve_seconds(const Curve *curve, int64_t step)
{
    return at_step(curve, step, true);
}

double curve_step(const Curve *curve, int64_t step)
{
    (void)curve;
    return (double)step;
}

void curve_bin(const Curve *curve, const CurveLine *line, CurvePlace *place, int64_t last,
               CurveBin sums[CURVE_BINS])
{
    CurveBin own[CURVE_BINS] = {0};
    for (size_t i = 0; i < line->count; i++) {
        const CurvePoint *point = &line->points[i];
        double at = place(curve, point->step);
        double share = (double)point->step / ((double)last + 1);
        if (isfinite(at) && isfinite(point->loss) && share >= 0 && share < 1) {
            CurveBin *bin = &own[(int)(share * CURVE_BINS)];
            bin->loss += point->loss;
            bin->place += at;
            bin->count++;
        }
    }
    for (int i = 0; i < CURVE_BINS; i++) {
        if (own[i].count > 0) {
            double mean = own[i].loss / own[i].count;
            sums[i].loss += mean;
            sums[i].square += mean * mean;
            sums[i].place += own[i].place / own[i].count;
            sums[i].count++;
        }
    }
}

double curve_bin_spread(const CurveBin *bin)
{
    double mean = bin->loss / bin->count;
    double variance = (bin->square - bin->count * mean * mean) / (bin->count - 1);
    return bin->count > 1 ? sqrt(fmax(variance, 0)) : NAN;
}

size_t curve_thin(const CurveLine *line, size_t most, size_t *kept)
{
    size_t count = 0, inner = line->count > 2 ? line->count - 2 : 0;
    if (line->count <= most || most < 4) {
        for (; count < line->count && count < most; count++) {
            kept[count] = count;
        }
        return count;
    }
    size_t spans = (most - 2) / 2;
    kept[count++] = 0;
    for (size_t i = 0; i < spans; i++) {
        size_t from = 1 + i * inner / spans, end = 1 + (i + 1) * inner / spans;
        size_t low = from, high = from;
        for (size_t j = from; j < end; j++) {
            low = line->points[j].loss < line->points[low].loss ? j : low;
            high = line->points[j].loss > line->points[high].loss ? j : high;
        }
        kept[count++] = low < high ? low : high;
        if (low != high) {
            kept[count++] = low < high ? high : low;
        }
    }
    kept[count++] = line->count - 1;
    return count;
}
