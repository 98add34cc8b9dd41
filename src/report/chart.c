#include "report/chart.h"

#include "base/log.h"
#include "base/mem.h"
#include "record/names.h"
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SERIES 40
#define MAX_CATEGORIES 200
#define FAR_APART 4  /* the end of the longest curve over that of the shortest */
#define GROUP_FROM 7 /* configurations: fewer bars are read as a list */
#define GROUP_MOST 8 /* bars of one group */

/* --- what is shown, where, and under which name --- */

/* A configuration, or one of its ranks (-1: all of them together), at a place along x. */
typedef struct {
    int configuration, rank;
    char *place, *name;
} Slot;

typedef struct {
    Slot *items;
    int count;
} Slots;

/* A configuration that is not drawn because it has no run that is done: what happened instead;
 * NULL: nothing yet. */
static const char *mark_of(const Results *results, int configuration)
{
    static const char *const marks[] = {
        [RUN_OOM] = "OOM",         [RUN_REFUSED] = "does not fit", [RUN_FAILED] = "failed",
        [RUN_TIMEOUT] = "timeout", [RUN_STOPPED] = "stopped",
    };
    const char *mark = NULL;
    for (const Result *run = NULL; (run = results_next(results, configuration, run)) != NULL;) {
        if (run->state == RUN_DONE) {
            return "no value";
        }
        mark = mark == NULL ? marks[run->state] : mark;
    }
    return mark;
}

/* Whether a configuration has runs, and they have the settings that the chart asks for. A setting
 * that no record tells of does not vary, and so is no reason to leave one out. */
static bool shows(const Chart *chart, const Results *results, int configuration)
{
    const Result *run = results_first(results, configuration);
    const cJSON *setting;
    cJSON_ArrayForEach(setting, chart->where)
    {
        if (run != NULL && setting->string != NULL &&
            result_setting(run, setting->string) != NULL &&
            !result_has_value(run, setting->string, setting)) {
            return false;
        }
    }
    return run != NULL;
}

static void append(Page *text, const char *option, const char *value)
{
    page_put(text, "%s%s%s%s", text->size > 0 ? ", " : "", option, option[0] != '\0' ? " " : "",
             value);
}

static bool is_configuration(const Metric *metric)
{
    return strcmp(metric->name, "configuration") == 0;
}

/* "flash" of a series that is a word, "ranks 4" of one that is a number; "" without a series.
 * Where peers take part, the program is in front, unless the chart shows labels, which say it
 * themselves. With `whole`, then every varying option that `where` does not settle, of axes that
 * neither x nor series belong to. */
static char *name_of(const Chart *chart, const Results *results, int configuration, bool whole)
{
    const Result *run = results_first(results, configuration);
    Page text = {0};
    const Metric *by = &chart->series;
    if (results_have_peers(results) && !is_configuration(&chart->x) && !is_configuration(by)) {
        append(&text, "", peer_title(run->peer));
    }
    if (by->name[0] != '\0') {
        char *value = metric_text(by, results, run, -1);
        append(&text, by->unit == UNIT_TEXT ? "" : by->name, value);
        free(value);
    }
    int x = results_axis_of(results, chart->x.name), series = results_axis_of(results, by->name);
    for (int i = 0; i < results->varying_count && whole; i++) {
        const Varying *varying = &results->varying[i];
        const char *setting = result_setting(run, varying->option);
        if (varying->axis != x && varying->axis != series && setting != NULL &&
            json_get(chart->where, varying->option) == NULL) {
            append(&text, varying->option, setting);
        }
    }
    return page_end(&text);
}

/* Two configurations at one place that are not told apart. */
static bool is_shared(const Slots *slots)
{
    for (int i = 0; i < slots->count; i++) {
        for (int j = 0; j < i; j++) {
            const Slot *a = &slots->items[i], *b = &slots->items[j];
            if (a->configuration != b->configuration && strcmp(a->place, b->place) == 0 &&
                strcmp(a->name, b->name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Most ranks that a done run of the configuration has records of. */
static int ranks_of(const Results *results, int configuration)
{
    int most = 0;
    for (const Result *run = NULL; (run = results_next(results, configuration, run)) != NULL;) {
        most = run->state == RUN_DONE && run->rank_count > most ? run->rank_count : most;
    }
    return most;
}

static bool by_rank(const Chart *chart)
{
    return strcmp(chart->x.name, "rank") == 0;
}

/* --- bars grouped by an axis --- */

/* The settings of an axis, or of all others with the program in front. */
static char *settings_text(const Results *results, const Result *run, int axis, bool others)
{
    Page text = {0};
    if (others && results_have_peers(results)) {
        append(&text, "", peer_title(run->peer));
    }
    for (int i = 0; i < results->varying_count; i++) {
        const Varying *varying = &results->varying[i];
        const char *setting = result_setting(run, varying->option);
        if ((varying->axis == axis) != others && setting != NULL && !varying->implied) {
            append(&text, varying->option, setting);
        }
    }
    return page_end(&text);
}

static int distinct(const Slots *slots, bool places)
{
    int count = 0;
    for (int i = 0; i < slots->count; i++) {
        int k = 0;
        while (k < i && strcmp(places ? slots->items[i].place : slots->items[i].name,
                               places ? slots->items[k].place : slots->items[k].name) != 0) {
            k++;
        }
        count += k == i;
    }
    return count;
}

static void rename_slots(Slots *slots, const Results *results, int axis)
{
    for (int i = 0; i < slots->count; i++) {
        Slot *slot = &slots->items[i];
        const Result *run = results_first(results, slot->configuration);
        free(slot->place);
        free(slot->name);
        slot->place = settings_text(results, run, axis, false);
        slot->name = settings_text(results, run, axis, true);
    }
}

/* A long list of bars, or one with peers, is told as groups: by the axis that needs the least room
 * for them, bars of a group by all other settings. */
static void group(const Chart *chart, const Results *results, Slots *slots)
{
    bool list = chart->kind == PLOT_BARS && is_configuration(&chart->x) &&
                chart->series.name[0] == '\0' && chart->y_count == 1;
    if (!list || (slots->count < GROUP_FROM && !results_have_peers(results))) {
        return;
    }
    int best = -1, least = 0, axis = -1;
    for (int i = 0; i < results->varying_count; i++) {
        if (results->varying[i].axis == axis) {
            continue;
        }
        axis = results->varying[i].axis;
        rename_slots(slots, results, axis);
        int places = distinct(slots, true), names = distinct(slots, false);
        bool fits = names > 1 && names <= GROUP_MOST && places > 1;
        if (fits && (best < 0 || places * names < least)) {
            best = axis;
            least = places * names;
        }
    }
    if (best >= 0) {
        rename_slots(slots, results, best);
        return;
    }
    for (int i = 0; i < slots->count; i++) { /* the list it was */
        Slot *slot = &slots->items[i];
        free(slot->place);
        free(slot->name);
        slot->place = mem_strdup(results_first(results, slot->configuration)->label);
        slot->name = mem_strdup("");
    }
}

/* Loss curves share one place, so that each configuration gets a name of its own. */
static Slots make_slots(const Chart *chart, const Results *results)
{
    Slots slots = {0};
    for (int i = 0; i < results->configurations; i++) {
        int ranks = by_rank(chart) ? ranks_of(results, i) : 1;
        for (int k = 0; k < ranks && shows(chart, results, i); k++) {
            char *place = by_rank(chart) ? mem_format("rank %d", k)
                          : chart->along != NULL
                              ? mem_strdup("")
                              : metric_text(&chart->x, results, results_first(results, i), -1);
            slots.items = mem_realloc(slots.items, (size_t)slots.count + 1, sizeof *slots.items);
            slots.items[slots.count++] =
                (Slot){i, by_rank(chart) ? k : -1, place, name_of(chart, results, i, false)};
        }
    }
    bool shared = is_shared(&slots);
    for (int i = 0; i < slots.count && shared; i++) {
        free(slots.items[i].name);
        slots.items[i].name = name_of(chart, results, slots.items[i].configuration, true);
    }
    group(chart, results, &slots);
    return slots;
}

static void free_slots(Slots *slots)
{
    for (int i = 0; i < slots->count; i++) {
        free(slots->items[i].place);
        free(slots->items[i].name);
    }
    free(slots->items);
}

/* --- bars, lines and stacks --- */

static Estimate slot_estimate(const Metric *metric, const Results *results, const Slot *slot)
{
    if (slot->rank < 0) {
        return metric_estimate(metric, results, slot->configuration);
    }
    Mean mean = {0};
    const Result *run = NULL;
    while ((run = results_next(results, slot->configuration, run)) != NULL) {
        bool done = run->state == RUN_DONE;
        mean_add(&mean, done ? metric_value(metric, results, run, slot->rank) : NAN);
    }
    return (Estimate){mean_value(mean), NAN, mean.count};
}

/* x of a line: of a setting, known also of runs that failed, or a mean of what was measured. */
static double place_number(const Metric *x, const Results *results, const Slot *slot)
{
    if (slot->rank >= 0) {
        return slot->rank;
    }
    Estimate estimate = metric_estimate(x, results, slot->configuration);
    return estimate.count > 0
               ? estimate.mean
               : metric_value(x, results, results_first(results, slot->configuration), -1);
}

static PlotSeries *find_series(Plot *plot, const char *label)
{
    for (int i = 0; i < plot->series_count; i++) {
        if (strcmp(plot->series[i].label, label) == 0) {
            return &plot->series[i];
        }
    }
    return plot_add_series(plot, label);
}

/* --- the axis of values --- */

static void set_unit(const Metric *y, int count, Plot *plot)
{
    double most = 0;
    for (int i = 0; i < plot->series_count; i++) {
        for (size_t j = 0; j < plot->series[i].count; j++) {
            double value = plot->series[i].points[j].y;
            most = isfinite(value) ? fmax(most, value) : most;
        }
    }
    const char *unit = NULL;
    switch (y->unit) {
    case UNIT_BYTES:
        plot->y_scale = most >= 1 << 30 ? 1.0 / (1 << 30) : 1.0 / (1 << 20);
        unit = most >= 1 << 30 ? "GiB" : "MiB";
        break;
    case UNIT_SECONDS:
        plot->y_scale = most < 0.5 ? 1000 : 1;
        unit = most < 0.5 ? "ms" : "s";
        break;
    case UNIT_PERCENT:
        plot->y_scale = 100;
        plot->percent = true;
        unit = "%";
        break;
    default:
        break;
    }
    if (count > 1) { /* the series have the names, the axis has what they share */
        plot->y_title = y->unit == UNIT_SECONDS        ? mem_format("time (%s)", unit)
                        : y->unit == UNIT_BYTES        ? mem_format("memory (%s)", unit)
                        : y->unit == UNIT_MILLISECONDS ? mem_strdup("time (ms)")
                        : y->unit == UNIT_RATE         ? mem_strdup("tokens/s")
                        : y->unit == UNIT_LOSS         ? mem_strdup("loss (nats)")
                                                       : mem_strdup("");
    } else if (unit != NULL) {
        plot->y_title = mem_format("%s (%s)", y->title, unit);
    } else {
        plot->y_title = metric_axis_title(y);
    }
    plot->from_zero = y->unit != UNIT_LOSS;
}

static int compare_points(const void *a, const void *b)
{
    const PlotPoint *x = a, *y = b;
    return (x->x > y->x) - (x->x < y->x);
}

static void sort_lines(Plot *plot)
{
    for (int i = 0; i < plot->series_count; i++) {
        if (plot->series[i].count > 0) {
            qsort(plot->series[i].points, plot->series[i].count, sizeof(PlotPoint), compare_points);
        }
        plot->series[i].markers = true;
    }
}

/* What the value would be if it grew with x from the first series' first point on; a share stays
 * what it is. */
static void add_ideal(const Metric *y, Plot *plot)
{
    const PlotPoint *start = NULL;
    double last = -INFINITY;
    for (int i = 0; i < plot->series_count; i++) {
        for (size_t j = 0; j < plot->series[i].count; j++) {
            const PlotPoint *point = &plot->series[i].points[j];
            if (isfinite(point->y) && point->x > 0) {
                start = start == NULL ? point : start;
                last = fmax(last, point->x);
            }
        }
    }
    if (start == NULL || !(last > start->x)) {
        return;
    }
    PlotPoint first = *start;
    PlotSeries *ideal = plot_add_series(plot, "ideal");
    ideal->dashed = true;
    ideal->colour = -1;
    for (int i = 0; i <= 32; i++) { /* enough points for a curve on a half-logarithmic plot */
        double x = first.x * pow(last / first.x, i / 32.0);
        plot_add_point(ideal, x, y->unit == UNIT_PERCENT ? 1 : first.y * x / first.x);
    }
}

static void collect(const Chart *chart, const Results *results, Plot *plot)
{
    const Metric *x = &chart->x, *y = chart->y;
    int parts = chart->y_count;
    Slots slots = make_slots(chart, results);
    bool stack = chart->kind == PLOT_STACK, lines = chart->kind == PLOT_LINES;
    for (int i = 0; i < slots.count; i++) {
        const Slot *slot = &slots.items[i];
        const char *name = slot->name;
        char *category = mem_format("%s%s%s", slot->place[0] != '\0' ? slot->place : "-",
                                    stack && name[0] != '\0' ? ", " : "", stack ? name : "");
        double at = lines ? place_number(x, results, slot) : plot_category(plot, category);
        for (int part = 0; part < parts; part++) {
            bool named = !stack && name[0] != '\0', titled = !named || parts > 1;
            char *label = mem_format("%s%s%s", named ? name : "", named && titled ? ", " : "",
                                     titled ? y[part].title : "");
            Estimate estimate = slot_estimate(&y[part], results, slot);
            PlotSeries *series = find_series(plot, label);
            series->peer = results_first(results, slot->configuration)->peer[0] != '\0' && !stack;
            PlotPoint *point = plot_add_point(series, at, estimate.mean);
            point->half = estimate.half;
            point->mark = estimate.count > 0 ? NULL : mark_of(results, slot->configuration);
            free(label);
        }
        free(category);
    }
    free_slots(&slots);
    if (lines) {
        sort_lines(plot);
    }
    if (lines && chart->ideal) {
        add_ideal(&y[0], plot);
    }
    set_unit(&y[0], parts, plot);
    plot->x_title = is_configuration(x) || by_rank(chart) ? mem_strdup("") : metric_axis_title(x);
}

/* --- loss curves --- */

static void add_curve(const Chart *chart, const Results *results, int configuration,
                      bool validation, const char *name, int colour, Plot *plot)
{
    /* Runs that are done; where there is none, those that got somewhere. */
    bool any_done = results_in_state(results, configuration, RUN_DONE) != NULL;
    const Result *run = NULL;
    int64_t last = 0;
    while ((run = results_next(results, configuration, run)) != NULL) {
        const CurveLine *line = validation ? &run->curve.validation : &run->curve.train;
        int64_t own = line->count > 0 ? line->points[line->count - 1].step : 0;
        last = (!any_done || run->state == RUN_DONE) && own > last ? own : last;
    }
    if (last == 0) {
        return;
    }
    CurveBin sums[CURVE_BINS] = {0};
    while ((run = results_next(results, configuration, run)) != NULL) {
        if (!any_done || run->state == RUN_DONE) {
            const CurveLine *line = validation ? &run->curve.validation : &run->curve.train;
            curve_bin(&run->curve, line, chart->along, last, sums);
        }
    }
    const char *mark = any_done ? NULL : mark_of(results, configuration);
    char *label = mem_format("%s%s%s%s", name, mark != NULL ? " (" : "", mark != NULL ? mark : "",
                             mark != NULL ? ")" : "");
    PlotSeries *series = plot_add_series(plot, label);
    free(label);
    series->colour = colour;
    series->peer = results_first(results, configuration)->peer[0] != '\0';
    for (int i = 0; i < CURVE_BINS; i++) {
        if (sums[i].count > 0) {
            PlotPoint *point =
                plot_add_point(series, sums[i].place / sums[i].count, sums[i].loss / sums[i].count);
            point->half = curve_bin_spread(&sums[i]);
        }
    }
    series->markers = series->count < 12;
}

/* Curves that end at very different places are only seen together over a logarithm. */
static bool ends_far_apart(const Plot *plot)
{
    double least = INFINITY, most = 0;
    for (int i = 0; i < plot->series_count; i++) {
        const PlotSeries *series = &plot->series[i];
        double end = series->count > 0 ? series->points[series->count - 1].x : NAN;
        least = fmin(least, end);
        most = fmax(most, end);
    }
    return least > 0 && most > FAR_APART * least;
}

static void collect_curves(const Chart *chart, const Results *results, Plot *plot)
{
    bool training = false, validation = false;
    for (int i = 0; i < chart->y_count; i++) {
        validation |= strcmp(chart->y[i].name, "val_loss") == 0;
        training |= strcmp(chart->y[i].name, "val_loss") != 0;
    }
    Slots slots = make_slots(chart, results);
    for (int i = 0; i < slots.count; i++) {
        const Slot *slot = &slots.items[i];
        const char *name = slot->name[0] != '\0' ? slot->name : "loss";
        if (training) {
            add_curve(chart, results, slot->configuration, false, name, i, plot);
        }
        if (validation) {
            char *label = mem_format("%s%s", name, training ? ", validation" : "");
            int before = plot->series_count;
            add_curve(chart, results, slot->configuration, true, label, i, plot);
            if (plot->series_count > before) {
                plot->series[before].dashed = training;
            }
            free(label);
        }
    }
    free_slots(&slots);
    plot->log_x |= ends_far_apart(plot);
    plot->x_title = mem_strdup(chart->along == curve_tokens    ? "tokens"
                               : chart->along == curve_seconds ? "seconds in training"
                                                               : "update");
    plot->y_title = mem_strdup(training == validation ? "loss (nats per token)"
                               : training             ? "training loss (nats per token)"
                                                      : "validation loss (nats per token)");
}

Plot chart_plot(const Chart *chart, const Results *results)
{
    Plot plot = {.kind = chart->kind,
                 .title = mem_strdup(chart->title),
                 .log_x = chart->log_x && chart->kind == PLOT_LINES,
                 .log_y = chart->log_y && chart->kind != PLOT_STACK};
    if (chart->along != NULL) {
        collect_curves(chart, results, &plot);
    } else {
        collect(chart, results, &plot);
    }
    return plot;
}

bool chart_is_crowded(const Plot *plot)
{
    return plot->series_count > MAX_SERIES || plot->category_count > MAX_CATEGORIES;
}

int chart_draw(const Chart *chart, Plot *plot, const char *folder, bool *drawn)
{
    int code = 0;
    *drawn = false;
    if (chart_is_crowded(plot)) {
        log_warn("chart %s: %d series and %d categories are too many to draw (%d and %d are not)",
                 chart->name, plot->series_count, plot->category_count, MAX_SERIES, MAX_CATEGORIES);
    } else if (plot_has_values(plot)) {
        code = plot_draw(plot, folder, chart->name);
        *drawn = code == 0;
    }
    return code;
}
