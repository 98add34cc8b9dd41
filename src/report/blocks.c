#include "report/blocks.h"

#include "base/mem.h"
#include "config/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_DIGITS 12 /* of steps, tokens and other places */
#define VALUE_DIGITS 6  /* of what is drawn there */

/* --- JSON --- */

/* A comma between two items. */
static void next(Page *json)
{
    char last = json->size > 0 ? json->text[json->size - 1] : '[';
    page_put(json, last == '[' || last == '{' || last == ':' ? "" : ",");
}

static void put_name(Page *json, const char *name)
{
    next(json);
    page_put(json, "\"%s\":", name);
}

static void put_text(Page *json, const char *name, const char *text)
{
    put_name(json, name);
    page_put_json(json, text);
}

static void put_bool(Page *json, const char *name, bool value)
{
    put_name(json, name);
    page_put(json, value ? "true" : "false");
}

static void open_list(Page *json, const char *name)
{
    put_name(json, name);
    page_put(json, "[");
}

static void put_item(Page *json, const char *text)
{
    next(json);
    page_put_json(json, text);
}

static void put_number(Page *json, double number, int digits)
{
    next(json);
    page_put_number(json, number, digits);
}

static void open_block(Page *json, const char *type)
{
    next(json);
    page_put(json, "{\"type\":\"%s\"", type);
}

/* --- text and tables --- */

void block_text(Page *json, const char *text)
{
    open_block(json, "text");
    put_text(json, "text", text);
    page_put(json, "}");
}

void block_heading(Page *json, const char *text)
{
    open_block(json, "heading");
    put_text(json, "text", text);
    page_put(json, "}");
}

void block_begin_details(Page *json, const char *title)
{
    open_block(json, "details");
    put_text(json, "title", title);
    open_list(json, "blocks");
}

void block_end_details(Page *json)
{
    page_put(json, "]}");
}

static void put_findings(Page *json, const Findings *findings, int from, int end)
{
    open_list(json, "findings");
    for (int i = from; i < end; i++) {
        const Finding *finding = &findings->items[i];
        next(json);
        page_put(json, "{");
        put_text(json, "text", finding->text.text);
        if (finding->evidence.size > 0) {
            put_text(json, "evidence", finding->evidence.text);
        }
        page_put(json, "}");
    }
    page_put(json, "]");
}

void block_findings(Page *json, const Findings *findings)
{
    if (findings->count == 0) {
        return;
    }
    open_block(json, "findings");
    put_findings(json, findings, 0, findings->shown);
    if (findings->results < findings->count) {
        Page cautions = {0};
        findings_put_cautions(findings, &cautions);
        put_text(json, "cautions", cautions.text);
        page_free(&cautions);
    }
    page_put(json, "}");
    if (findings->shown < findings->count) {
        block_begin_details(json, "More on findings and cautions");
        open_block(json, "findings");
        put_findings(json, findings, findings->shown, findings->count);
        page_put(json, "}");
        block_end_details(json);
    }
}

void block_table(Page *json, const Table *table)
{
    open_block(json, "table");
    put_text(json, "title", table->title != NULL ? table->title : "");
    open_list(json, "columns");
    for (int i = 0; i < table->columns; i++) {
        Unit kind = table->heads[i].unit; /* cells of others have their unit in them */
        const char *unit =
            kind == UNIT_LOSS || kind == UNIT_RATE ? metric_unit(&table->heads[i]) : NULL;
        next(json);
        page_put(json, "{");
        put_text(json, "title", table->heads[i].title);
        put_bool(json, "numeric", table->heads[i].unit != UNIT_TEXT);
        if (unit != NULL) {
            put_text(json, "unit", unit);
        }
        page_put(json, "}");
    }
    page_put(json, "]");
    open_list(json, "rows");
    for (int row = 0; row < table->rows; row++) {
        int first = row * table->columns;
        next(json);
        page_put(json, "{\"cells\":[");
        for (int i = 0; i < table->columns; i++) {
            put_item(json, table->cells[first + i]);
        }
        page_put(json, "],\"values\":[");
        for (int i = 0; i < table->columns; i++) {
            put_number(json, table->values[first + i], PLACE_DIGITS);
        }
        page_put(json, "]}");
    }
    page_put(json, "]");
    open_list(json, "notes");
    for (int i = 0; i < table->note_count; i++) {
        put_item(json, table->notes[i]);
    }
    page_put(json, "]}");
}

/* --- charts --- */

static void put_series(Page *json, const PlotSeries *series)
{
    next(json);
    page_put(json, "{");
    put_text(json, "label", series->label);
    put_name(json, "colour");
    page_put(json, "%d", series->colour);
    put_bool(json, "dashed", series->dashed);
    put_bool(json, "markers", series->markers);
    put_bool(json, "peer", series->peer);
    open_list(json, "points");
    for (size_t i = 0; i < series->count; i++) {
        const PlotPoint *point = &series->points[i];
        if (!isfinite(point->x)) {
            continue;
        }
        next(json);
        page_put(json, "[");
        put_number(json, point->x, PLACE_DIGITS);
        put_number(json, point->y, VALUE_DIGITS);
        put_number(json, point->half, VALUE_DIGITS);
        if (point->mark != NULL && !isfinite(point->y)) {
            put_item(json, point->mark);
        }
        page_put(json, "]");
    }
    page_put(json, "]}");
}

void block_plot(Page *json, Plot *plot, const char *name)
{
    static const char *const kinds[] = {
        [PLOT_LINES] = "lines", [PLOT_BARS] = "bars", [PLOT_STACK] = "stack"};
    plot_prepare(plot);
    if (!plot_has_values(plot)) {
        return;
    }
    open_block(json, "chart");
    put_text(json, "name", name);
    put_text(json, "kind", kinds[plot->kind]);
    put_text(json, "title", plot->title);
    put_text(json, "x_title", plot->x_title);
    put_text(json, "y_title", plot->y_title);
    put_bool(json, "log_x", plot->log_x);
    put_bool(json, "log_y", plot->log_y);
    put_bool(json, "from_zero", plot->from_zero || plot->kind != PLOT_LINES);
    put_bool(json, "percent", plot->percent);
    open_list(json, "categories");
    for (int i = 0; i < plot->category_count; i++) {
        put_item(json, plot->categories[i]);
    }
    page_put(json, "]");
    open_list(json, "series");
    for (int i = 0; i < plot->series_count; i++) {
        put_series(json, &plot->series[i]);
    }
    page_put(json, "]");
    double from;
    if (plot_flat_end(plot, &from)) {
        put_name(json, "end");
        page_put(json, "{\"from\":");
        page_put_number(json, from, PLACE_DIGITS);
        page_put(json, "}");
    }
    page_put(json, "}");
}

/* --- curves --- */

/* Operations of all ranks up to a step; NAN: not recorded. */
static double flops_at(const Result *run, int64_t step)
{
    double token = json_number(run->run, "model.flops_token"),
           ranks = result_setting_number(run, "ranks");
    return !isnan(token) ? token * curve_tokens(&run->curve, step)
                         : json_number(run->run, "model.flops_update") *
                               (isnan(ranks) ? 1 : ranks) * (double)step;
}

static void put_line(Page *json, const char *name, const Result *run, const CurveLine *line,
                     size_t most)
{
    static const char *const places[] = {"step", "tokens", "seconds", "flop", "loss"};
    size_t *kept = mem_alloc((most + 1) * sizeof *kept), count = curve_thin(line, most, kept);
    put_name(json, name);
    page_put(json, "{");
    for (int place = 0; place < 5; place++) {
        open_list(json, places[place]);
        for (size_t i = 0; i < count; i++) {
            const CurvePoint *point = &line->points[kept[i]];
            double value = place == 0   ? (double)point->step
                           : place == 1 ? curve_tokens(&run->curve, point->step)
                           : place == 2 ? curve_seconds(&run->curve, point->step)
                           : place == 3 ? flops_at(run, point->step)
                                        : point->loss;
            put_number(json, value, place < 2 ? PLACE_DIGITS : VALUE_DIGITS);
        }
        page_put(json, "]");
    }
    page_put(json, "}");
    free(kept);
}

static bool has_curve(const Result *run)
{
    return run->curve.train.count + run->curve.validation.count > 0;
}

void block_curves(Page *json, const Results *results)
{
    int count = 0;
    for (int i = 0; i < results->count; i++) {
        count += has_curve(&results->runs[i]);
    }
    if (count == 0) {
        return;
    }
    size_t most = BLOCK_POINTS / (size_t)count;
    most = most > CURVE_SHOWN ? CURVE_SHOWN : most;
    most = most < BLOCK_LEAST_POINTS ? BLOCK_LEAST_POINTS : most;
    open_block(json, "curves");
    open_list(json, "runs");
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        bool repeats = results->count > results->configurations;
        if (!has_curve(run)) {
            continue;
        }
        char *label = repeats ? mem_format("%s, repeat %d", run->label, run->repeat + 1)
                              : mem_strdup(run->label);
        next(json);
        page_put(json, "{");
        put_text(json, "id", run->id);
        put_text(json, "label", label);
        put_text(json, "group", run->label);
        put_line(json, "points", run, &run->curve.train, most);
        put_line(json, "validation", run, &run->curve.validation, most);
        page_put(json, "}");
        free(label);
    }
    page_put(json, "]}");
}

/* --- parallel coordinates --- */

#define MOST_AXES 12

/* Axes that differ between configurations: what varies (words by their order of appearance are
 * left to tables), then what came of it. */
static int parallel_axes(const Results *results, Metric axes[MOST_AXES])
{
    static const char *const outcomes[] = {"tok_s", "peak_bytes", "train_loss", "val_loss",
                                           "total_s"};
    int count = 0, axis = -1;
    for (int i = 0; i < results->varying_count && count < MOST_AXES - 5; i++) {
        const Varying *varying = &results->varying[i];
        Metric metric;
        bool numbers = varying->axis != axis && metric_find(varying->option, &metric) == 0 &&
                       metric.unit != UNIT_TEXT;
        double first = numbers ? metric_value(&metric, results, &results->runs[0], -1) : NAN;
        bool differ = false;
        for (int k = 0; k < results->count && numbers; k++) {
            differ |= metric_value(&metric, results, &results->runs[k], -1) != first;
        }
        if (differ) {
            axes[count++] = metric;
            axis = varying->axis; /* those zipped with it say the same */
        }
    }
    int varied = count;
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        Metric metric = metric_named(outcomes[i]);
        int known = 0;
        for (int k = 0; k < results->configurations && known < 2; k++) {
            known += metric_estimate(&metric, results, k).count > 0;
        }
        if (known == 2) {
            axes[count++] = metric;
        }
    }
    return results->varying_count > 0 && count > varied ? count : 0;
}

/* Values of which the largest is ten times the smallest or more are told apart by their ratios. */
static bool spans_decades(const Metric *metric, const Results *results)
{
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < results->configurations; i++) {
        double value = metric_estimate(metric, results, i).mean;
        least = isnan(value) ? least : fmin(least, value);
        most = isnan(value) ? most : fmax(most, value);
    }
    return least > 0 && most >= 10 * least;
}

void block_parallel(Page *json, const Results *results)
{
    Metric axes[MOST_AXES];
    int count = results->configurations > 1 ? parallel_axes(results, axes) : 0;
    if (count < 2) {
        return;
    }
    open_block(json, "parallel");
    open_list(json, "axes");
    for (int i = 0; i < count; i++) {
        char *title = metric_axis_title(&axes[i]);
        next(json);
        page_put(json, "{");
        put_text(json, "title", title);
        put_bool(json, "log", spans_decades(&axes[i], results));
        page_put(json, "}");
        free(title);
    }
    page_put(json, "]");
    open_list(json, "lines");
    for (int k = 0; k < results->configurations; k++) {
        const Result *first = results_first(results, k);
        if (first == NULL) {
            continue;
        }
        next(json);
        page_put(json, "{");
        put_text(json, "label", first->label);
        open_list(json, "values");
        for (int i = 0; i < count; i++) {
            double mean = metric_estimate(&axes[i], results, k).mean;
            put_number(json,
                       isnan(mean) && results_axis_of(results, axes[i].name) >= 0
                           ? metric_value(&axes[i], results, first, -1)
                           : mean,
                       VALUE_DIGITS);
        }
        page_put(json, "]}");
    }
    page_put(json, "]}");
}

/* --- options --- */

/* By the record's list; records of 0.1 have none, and tell only what is not the default. */
static bool was_given(const Result *run, const Option *option)
{
    const cJSON *given = json_get(run->run, "given");
    const char *value = result_setting(run, option->name);
    if (given == NULL) {
        return value != NULL && option->initial != NULL && strcmp(value, option->initial) != 0;
    }
    return json_lists(given, option->name);
}

void block_options(Page *json, const Result *run)
{
    const Option *options = config_options();
    open_block(json, "options");
    open_list(json, "columns");
    put_item(json, run->label);
    page_put(json, "]");
    open_list(json, "rows");
    for (int first = 1; first >= 0; first--) {
        for (size_t k = 0; options[k].name != NULL; k++) {
            const char *value = result_setting(run, options[k].name);
            if (value != NULL && was_given(run, &options[k]) == first) {
                next(json);
                page_put(json, "{");
                put_text(json, "name", options[k].name);
                open_list(json, "values");
                put_item(json, value);
                page_put(json, "]");
                put_bool(json, "differs", first == 1);
                page_put(json, "}");
            }
        }
    }
    page_put(json, "]}");
}
