/* Loss curves. A long curve is thinned: steps are cut into at most BINS spans, and a span's
 * point is the mean of its losses, which also takes the noise of single batches out. Repeats of
 * a configuration have their spans in common. */
#include "report/chart_data.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BINS 250

typedef struct {
    double loss, place;
    int count;
} Bin;

static double place_of(const Chart *chart, const Curve *curve, int64_t step)
{
    return strcmp(chart->x, "tokens") == 0    ? curve_tokens(curve, step)
           : strcmp(chart->x, "seconds") == 0 ? curve_seconds(curve, step)
                                              : (double)step;
}

static const CurvePoint *points_of(const Curve *curve, bool validation, size_t *count)
{
    *count = validation ? curve->validation_count : curve->train_count;
    return validation ? curve->validation : curve->train;
}

/* Means of one run's spans into the configuration's sums. */
static void add_run(const Chart *chart, const Curve *curve, bool validation, int64_t last,
                    Bin sums[BINS])
{
    Bin own[BINS] = {0};
    size_t count;
    const CurvePoint *points = points_of(curve, validation, &count);
    for (size_t i = 0; i < count; i++) {
        double place = place_of(chart, curve, points[i].step);
        double share = (double)points[i].step / ((double)last + 1);
        if (!isfinite(place) || !isfinite(points[i].loss) || !(share >= 0 && share < 1)) {
            continue;
        }
        Bin *bin = &own[(int)(share * BINS)];
        bin->loss += points[i].loss;
        bin->place += place;
        bin->count++;
    }
    for (int i = 0; i < BINS; i++) {
        if (own[i].count > 0) {
            sums[i].loss += own[i].loss / own[i].count;
            sums[i].place += own[i].place / own[i].count;
            sums[i].count++;
        }
    }
}

/* Runs that are done; where there is none, those that got somewhere. */
static bool takes_part(const Result *run, int configuration, bool any_done)
{
    return run->configuration == configuration && (!any_done || run->state == RESULT_DONE);
}

static void add_curve(const Chart *chart, const Results *results, int configuration,
                      bool validation, const char *name, int colour, Plot *plot)
{
    bool any_done = false;
    int64_t last = 0;
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        any_done |= run->configuration == configuration && run->state == RESULT_DONE;
    }
    for (int i = 0; i < results->count; i++) {
        size_t count;
        const CurvePoint *points = points_of(&results->runs[i].curve, validation, &count);
        if (takes_part(&results->runs[i], configuration, any_done) && count > 0 &&
            points[count - 1].step > last) {
            last = points[count - 1].step;
        }
    }
    if (last == 0) {
        return;
    }
    Bin sums[BINS] = {0};
    for (int i = 0; i < results->count; i++) {
        if (takes_part(&results->runs[i], configuration, any_done)) {
            add_run(chart, &results->runs[i].curve, validation, last, sums);
        }
    }
    const char *mark = any_done ? NULL : chart_mark(results, configuration);
    char *label = mem_format("%s%s%s%s", name, mark != NULL ? " (" : "", mark != NULL ? mark : "",
                             mark != NULL ? ")" : "");
    PlotSeries *series = plot_add_series(plot, label);
    free(label);
    series->colour = colour;
    for (int i = 0; i < BINS; i++) {
        if (sums[i].count > 0) {
            plot_add_point(series, sums[i].place / sums[i].count, sums[i].loss / sums[i].count);
        }
    }
    series->markers = series->count < 12;
}

void chart_collect_curves(const Chart *chart, const Results *results, Plot *plot)
{
    bool training = false, validation = false;
    for (int i = 0; i < 16 && chart->y[i] != NULL; i++) {
        validation |= strcmp(chart->y[i], "val_loss") == 0;
        training |= strcmp(chart->y[i], "val_loss") != 0;
    }
    /* All curves share one place, so that each configuration gets a name of its own. */
    int count = results->configurations, colour = 0;
    char **places = mem_zalloc((size_t)count + 1, sizeof *places);
    for (int i = 0; i < count; i++) {
        places[i] = chart_shows(chart, results, i) ? "" : NULL;
    }
    Chart unplaced = *chart;
    unplaced.x = NULL;
    char **names = chart_series_names(&unplaced, results, places);
    for (int i = 0; i < count; i++) {
        const char *name = names[i][0] != '\0' ? names[i] : "loss";
        bool shown = places[i] != NULL;
        if (training && shown) {
            add_curve(chart, results, i, false, name, colour, plot);
        }
        if (validation && shown) {
            char *label = mem_format("%s%s", name, training ? ", validation" : "");
            int before = plot->series_count;
            add_curve(chart, results, i, true, label, colour, plot);
            if (plot->series_count > before) {
                plot->series[before].dashed = training;
            }
            free(label);
        }
        colour += shown;
        free(names[i]);
    }
    free(names);
    free(places);
    plot->x_title = mem_strdup(strcmp(chart->x, "tokens") == 0    ? "tokens"
                               : strcmp(chart->x, "seconds") == 0 ? "seconds in training"
                                                                  : "update");
    plot->y_title = mem_strdup(training == validation ? "loss (nats per token)"
                               : training             ? "training loss (nats per token)"
                                                      : "validation loss (nats per token)");
}
