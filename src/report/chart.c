#include "report/chart.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "metrics/peer_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SERIES 40
#define MAX_CATEGORIES 200
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
#define LABEL_SIZE 512
#define BINS 250 /* of a loss curve */

/* --- entries of experiment.json --- */

static int read_kind(const cJSON *entry, Chart *chart)
{
    static const char *const kinds[] = {"bars", "lines", "stack", "curves"};
    const char *kind = json_text(entry, "kind");
    for (int i = 0; kind != NULL && i < 4; i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            chart->kind = (ChartKind)i;
            return 0;
        }
    }
    return err_set(ERR_INPUT,
                   "chart %s: its kind is \"%.40s\", and not bars, lines, stack or curves",
                   chart->name, kind != NULL ? kind : "");
}

/* y: one name or a list of them. */
static int read_values(const cJSON *entry, Chart *chart)
{
    const cJSON *y = json_get(entry, "y");
    int count = 0;
    if (cJSON_IsString(y)) {
        chart->y[count++] = y->valuestring;
    }
    const cJSON *items = cJSON_IsArray(y) ? y->child : NULL;
    for (const cJSON *item = items; item != NULL; item = item->next) {
        if (count == 15 || !cJSON_IsString(item)) {
            return err_set(ERR_INPUT, "chart %s: y is not a list of up to 15 names", chart->name);
        }
        chart->y[count++] = item->valuestring;
    }
    if (count == 0 && chart->kind == CHART_CURVES) {
        chart->y[count++] = "train_loss";
    }
    return count > 0 ? 0 : err_set(ERR_INPUT, "chart %s: y names no quantity", chart->name);
}

static int check_curves(const Chart *chart)
{
    for (int i = 0; chart->y[i] != NULL; i++) {
        if (strcmp(chart->y[i], "train_loss") != 0 && strcmp(chart->y[i], "val_loss") != 0) {
            return err_set(ERR_INPUT, "chart %s: curves show train_loss and val_loss, not %.40s",
                           chart->name, chart->y[i]);
        }
    }
    bool known = strcmp(chart->x, "tokens") == 0 || strcmp(chart->x, "seconds") == 0 ||
                 strcmp(chart->x, "step") == 0;
    return known ? 0
                 : err_set(ERR_INPUT,
                           "chart %s: curves go over step, tokens or seconds, not over %.40s",
                           chart->name, chart->x);
}

static int check_metrics(const Chart *chart)
{
    Metric first, metric;
    int code = metric_find(chart->x, &metric);
    if (code == 0 && chart->kind == CHART_LINES && metric.unit == UNIT_TEXT) {
        return err_set(ERR_INPUT, "chart %s: %s is no number, and lines go over numbers",
                       chart->name, chart->x);
    }
    for (int i = 0; code == 0 && chart->y[i] != NULL; i++) {
        code = metric_find(chart->y[i], i == 0 ? &first : &metric);
        if (code == 0 && (i == 0 ? first : metric).unit == UNIT_TEXT) {
            return err_set(ERR_INPUT, "chart %s: %s is no number", chart->name, chart->y[i]);
        }
        if (code == 0 && i > 0 && metric.unit != first.unit) {
            return err_set(ERR_INPUT, "chart %s: %s and %s have no unit in common", chart->name,
                           chart->y[0], chart->y[i]);
        }
    }
    return code != 0 ? err_wrap(code, "chart %s", chart->name) : 0;
}

int chart_read(const cJSON *entry, Chart *chart)
{
    *chart = (Chart){.name = json_text(entry, "name"),
                     .title = json_text(entry, "title"),
                     .x = json_text(entry, "x"),
                     .series = json_text(entry, "series"),
                     .where = json_get(entry, "where"),
                     .log_x = json_is_true(entry, "logx"),
                     .log_y = json_is_true(entry, "logy"),
                     .ideal = json_is_true(entry, "ideal")};
    const char *name = chart->name;
    if (name == NULL || name[0] == '\0' || strlen(name) > 60 ||
        name[strspn(name, NAME_LETTERS)] != '\0') {
        return err_set(ERR_INPUT,
                       "a chart's name is \"%.60s\"; it needs one of letters, digits, - and _",
                       name != NULL ? name : "");
    }
    chart->title = chart->title != NULL ? chart->title : name;
    int code = read_kind(entry, chart);
    if (code == 0 && chart->x == NULL) {
        chart->x = chart->kind == CHART_CURVES ? "step" : "configuration";
    }
    code = code != 0 ? code : read_values(entry, chart);
    if (code == 0) {
        code = chart->kind == CHART_CURVES ? check_curves(chart) : check_metrics(chart);
    }
    Metric metric;
    if (code == 0 && chart->series != NULL && metric_find(chart->series, &metric) != 0) {
        code = err_wrap(ERR_INPUT, "chart %s", name);
    }
    return code;
}

/* --- names of series --- */

static const char *mark_of(const Results *results, int configuration)
{
    static const char *const marks[] = {
        [RESULT_OOM] = "OOM",         [RESULT_REFUSED] = "does not fit", [RESULT_FAILED] = "failed",
        [RESULT_TIMEOUT] = "timeout", [RESULT_STOPPED] = "stopped",
    };
    const char *mark = NULL;
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        if (run->configuration != configuration) {
            continue;
        }
        if (run->state == RESULT_DONE) {
            return "no value";
        }
        if ((size_t)run->state < sizeof marks / sizeof *marks && mark == NULL) {
            mark = marks[run->state];
        }
    }
    return mark;
}

/* A setting that no record tells of does not vary, and so is no reason to leave one out. */
static bool shows(const Chart *chart, const Results *results, int configuration)
{
    const Result *run = results_first(results, configuration);
    const cJSON *setting;
    cJSON_ArrayForEach(setting, chart->where)
    {
        char text[RESULT_SETTING_SIZE];
        if (run != NULL && setting->string != NULL &&
            result_setting(run, setting->string, text) != NULL &&
            !result_has_value(run, setting->string, setting)) {
            return false;
        }
    }
    return run != NULL;
}

/* --- names --- */

static void append(char text[LABEL_SIZE], const char *option, const char *value)
{
    size_t used = strlen(text);
    snprintf(text + used, LABEL_SIZE - used, "%s%.100s%s%.300s", used > 0 ? ", " : "", option,
             option[0] != '\0' ? " " : "", value);
}

/* Varying options that `where` does not settle, of axes that neither x nor series belong to. */
static void append_others(const Chart *chart, const Results *results, const Result *run,
                          char text[LABEL_SIZE])
{
    int x = chart->x != NULL ? results_axis_of(results, chart->x) : -1;
    int series = chart->series != NULL ? results_axis_of(results, chart->series) : -1;
    for (int axis = 0; axis < results->axis_count; axis++) {
        for (int i = 0; i < results->axes[axis].count && axis != x && axis != series; i++) {
            const char *option = results->axes[axis].options[i];
            char buffer[RESULT_SETTING_SIZE];
            const char *value = result_setting(run, option, buffer);
            if (value != NULL && json_get(chart->where, option) == NULL) {
                append(text, option, value);
            }
        }
    }
}

static bool names_configurations(const char *quantity)
{
    return quantity != NULL && strcmp(quantity, "configuration") == 0;
}

/* "flash" of a series that is a word, "ranks 4" of one that is a number; "" without a series.
 * Where peers take part, the program is in front, unless the chart shows labels, which say it
 * themselves. */
static void series_value(const Chart *chart, const Results *results, const Result *run,
                         char text[LABEL_SIZE])
{
    Metric metric;
    text[0] = '\0';
    if (results_have_peers(results) && !names_configurations(chart->x) &&
        !names_configurations(chart->series)) {
        append(text, "", peer_title(run->peer));
    }
    if (chart->series != NULL && metric_find(chart->series, &metric) == 0) {
        char value[LABEL_SIZE];
        metric_text(&metric, results, run, -1, value, sizeof value);
        append(text, metric.unit == UNIT_TEXT ? "" : chart->series, value);
    }
}

static char **series_names(const Chart *chart, const Results *results, char *const *places)
{
    size_t count = (size_t)results->configurations;
    char **names = mem_zalloc(count + 1, sizeof *names);
    char text[LABEL_SIZE];
    for (size_t i = 0; i < count; i++) {
        const Result *run = results_first(results, (int)i);
        text[0] = '\0';
        if (run != NULL) {
            series_value(chart, results, run, text);
        }
        names[i] = mem_strdup(text);
    }
    bool shared = false;
    for (size_t i = 0; i < count && !shared; i++) {
        for (size_t j = 0; j < i && !shared; j++) {
            shared = places[i] != NULL && places[j] != NULL && strcmp(places[i], places[j]) == 0 &&
                     strcmp(names[i], names[j]) == 0;
        }
    }
    for (size_t i = 0; i < count && shared; i++) {
        const Result *run = results_first(results, (int)i);
        if (run != NULL) {
            snprintf(text, sizeof text, "%s", names[i]);
            append_others(chart, results, run, text);
            free(names[i]);
            names[i] = mem_strdup(text);
        }
    }
    return names;
}

static void free_names(char **names, int count)
{
    for (int i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

/* "Forward" of "Forward (s)": the unit stands at the axis. */
static void bare_title(const Metric *metric, char text[64])
{
    snprintf(text, 64, "%s", metric->title);
    char *unit = strrchr(text, '(');
    if (unit != NULL && unit > text + 1 && text[strlen(text) - 1] == ')') {
        unit[-1] = '\0';
    }
}

/* --- places and values --- */

/* A configuration, or one of its ranks (-1: all of them together). */
typedef struct {
    int configuration, rank;
} Slot;

static bool by_rank(const Chart *chart)
{
    return chart->x != NULL && strcmp(chart->x, "rank") == 0;
}

/* Most ranks that a done run of the configuration has records of. */
static int ranks_of(const Results *results, int configuration)
{
    int most = 0;
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        bool counts = run->configuration == configuration && run->state == RESULT_DONE;
        most = counts && run->rank_count > most ? run->rank_count : most;
    }
    return most;
}

static Slot *make_slots(const Chart *chart, const Results *results, int *count)
{
    size_t total = 0, used = 0;
    for (int i = 0; i < results->configurations; i++) {
        total += by_rank(chart) ? (size_t)ranks_of(results, i) : 1;
    }
    Slot *slots = mem_zalloc(total + 1, sizeof *slots);
    for (int i = 0; i < results->configurations; i++) {
        if (!shows(chart, results, i)) {
            continue;
        }
        int ranks = by_rank(chart) ? ranks_of(results, i) : 0;
        if (!by_rank(chart)) {
            slots[used++] = (Slot){i, -1};
        }
        for (int rank = 0; rank < ranks; rank++) {
            slots[used++] = (Slot){i, rank};
        }
    }
    *count = (int)used;
    return slots;
}

static Estimate slot_estimate(const Metric *metric, const Results *results, Slot slot)
{
    if (slot.rank < 0) {
        return metric_estimate(metric, results, slot.configuration);
    }
    Estimate estimate = {.mean = 0, .half = NAN};
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        if (run->configuration == slot.configuration && run->state == RESULT_DONE) {
            double value = metric_value(metric, results, run, slot.rank);
            estimate.mean += isnan(value) ? 0 : value;
            estimate.count += !isnan(value);
        }
    }
    estimate.mean = estimate.count > 0 ? estimate.mean / estimate.count : NAN;
    return estimate;
}

static void place_text(const Metric *x, const Results *results, Slot slot, char text[LABEL_SIZE])
{
    if (slot.rank >= 0) {
        snprintf(text, LABEL_SIZE, "rank %d", slot.rank);
        return;
    }
    metric_text(x, results, results_first(results, slot.configuration), -1, text, LABEL_SIZE);
    if (text[0] == '\0') {
        snprintf(text, LABEL_SIZE, "-");
    }
}

/* x of a line: of a setting, known also of runs that failed, or a mean of what was measured. */
static double place_number(const Metric *x, const Results *results, Slot slot)
{
    if (slot.rank >= 0) {
        return slot.rank;
    }
    Estimate estimate = metric_estimate(x, results, slot.configuration);
    return estimate.count > 0
               ? estimate.mean
               : metric_value(x, results, results_first(results, slot.configuration), -1);
}

static int find_category(Plot *plot, const char *label)
{
    for (int i = 0; i < plot->category_count; i++) {
        if (strcmp(plot->categories[i], label) == 0) {
            return i;
        }
    }
    plot_add_category(plot, label);
    return plot->category_count - 1;
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
    char title[64];
    bare_title(y, title);
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
    static const char *const common[] = {
        [UNIT_COUNT] = "",        [UNIT_SECONDS] = "seconds",        [UNIT_BYTES] = "memory",
        [UNIT_RATE] = "tokens/s", [UNIT_LOSS] = "loss (nats)",       [UNIT_PERCENT] = "",
        [UNIT_RATIO] = "",        [UNIT_MILLISECONDS] = "time (ms)", [UNIT_TEXT] = "",
    };
    if (count > 1) { /* the series have the names, the axis has what they share */
        plot->y_title = y->unit == UNIT_SECONDS ? mem_format("time (%s)", unit)
                        : y->unit == UNIT_BYTES ? mem_format("memory (%s)", unit)
                                                : mem_strdup(common[y->unit]);
    } else if (unit != NULL) {
        plot->y_title = mem_format("%s (%s)", title, unit);
    } else {
        plot->y_title = mem_strdup(y->title);
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
    Metric x, y[16];
    int parts = 0, count;
    metric_find(chart->x, &x);
    while (parts < 16 && chart->y[parts] != NULL) {
        metric_find(chart->y[parts], &y[parts]);
        parts++;
    }
    Slot *slots = make_slots(chart, results, &count);
    char **places = mem_zalloc((size_t)results->configurations + 1, sizeof *places);
    char text[LABEL_SIZE], label[LABEL_SIZE];
    for (int i = 0; i < count; i++) {
        char **place = &places[slots[i].configuration];
        place_text(&x, results, slots[i], text);
        *place = *place == NULL ? mem_strdup(text) : *place;
    }
    char **names = series_names(chart, results, places);
    bool stack = chart->kind == CHART_STACK;
    for (int i = 0; i < count; i++) {
        const char *name = names[slots[i].configuration];
        place_text(&x, results, slots[i], text);
        if (stack && name[0] != '\0') {
            append(text, "", name);
        }
        double at = chart->kind == CHART_LINES ? place_number(&x, results, slots[i])
                                               : find_category(plot, text);
        for (int part = 0; part < parts; part++) {
            char title[64];
            bare_title(&y[part], title);
            snprintf(label, sizeof label, "%s", stack ? "" : name);
            if (stack || parts > 1 || label[0] == '\0') {
                append(label, "", title);
            }
            Estimate estimate = slot_estimate(&y[part], results, slots[i]);
            PlotPoint *point = plot_add_point(find_series(plot, label), at,
                                              estimate.count > 0 ? estimate.mean : NAN);
            point->half = estimate.half;
            point->mark = estimate.count > 0 ? NULL : mark_of(results, slots[i].configuration);
        }
    }
    free_names(places, results->configurations);
    free_names(names, results->configurations);
    free(slots);
    if (chart->kind == CHART_LINES) {
        sort_lines(plot);
    }
    if (chart->kind == CHART_LINES && chart->ideal) {
        add_ideal(&y[0], plot);
    }
    set_unit(&y[0], parts, plot);
    bool named = strcmp(chart->x, "configuration") == 0 || by_rank(chart);
    plot->x_title = mem_strdup(named ? "" : x.title);
}

/* --- loss curves --- */

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
    const char *mark = any_done ? NULL : mark_of(results, configuration);
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

static void collect_curves(const Chart *chart, const Results *results, Plot *plot)
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
        places[i] = shows(chart, results, i) ? "" : NULL;
    }
    Chart unplaced = *chart;
    unplaced.x = NULL;
    char **names = series_names(&unplaced, results, places);
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

Plot chart_plot(const Chart *chart, const Results *results)
{
    static const PlotKind kinds[] = {[CHART_BARS] = PLOT_BARS,
                                     [CHART_LINES] = PLOT_LINES,
                                     [CHART_STACK] = PLOT_STACK,
                                     [CHART_CURVES] = PLOT_LINES};
    Plot plot = {.kind = kinds[chart->kind],
                 .title = mem_strdup(chart->title),
                 .log_x = chart->log_x && chart->kind != CHART_BARS && chart->kind != CHART_STACK,
                 .log_y = chart->log_y && chart->kind != CHART_STACK};
    if (chart->kind == CHART_CURVES) {
        collect_curves(chart, results, &plot);
    } else {
        collect(chart, results, &plot);
    }
    return plot;
}

int chart_draw(const Chart *chart, const Results *results, const char *folder, bool *drawn)
{
    Plot plot = chart_plot(chart, results);
    int code = 0;
    *drawn = false;
    if (plot.series_count > MAX_SERIES || plot.category_count > MAX_CATEGORIES) {
        log_warn("chart %s: %d series and %d categories are too many to draw (%d and %d are not)",
                 chart->name, plot.series_count, plot.category_count, MAX_SERIES, MAX_CATEGORIES);
    } else if (plot_has_values(&plot)) {
        code = plot_draw(&plot, folder, chart->name);
        *drawn = code == 0;
    }
    plot_free(&plot);
    return code;
}
