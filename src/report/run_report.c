#include "report/results.h"
#include "report/run_report.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/json.h"
#include "metrics/record.h"
#include "report/plot.h"
#include "report/curve.h"
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the chart --- */

static void add_series(Plot *plot, const char *label, const CurvePoint *points, size_t count)
{
    PlotSeries *series = count > 0 ? plot_add_series(plot, label) : NULL;
    for (size_t i = 0; i < count; i++) {
        plot_add_point(series, (double)points[i].step, points[i].loss);
    }
}

static int draw(const Curve *curve, const char *out)
{
    Plot plot = {.kind = PLOT_LINES,
                 .title = mem_strdup("Loss over the updates"),
                 .x_title = mem_strdup("update"),
                 .y_title = mem_strdup("loss (nats per token)")};
    add_series(&plot, "training", curve->train, curve->train_count);
    add_series(&plot, "validation", curve->validation, curve->validation_count);
    if (plot.series_count == 2) {
        plot.series[1].markers = true;
    }
    int code = plot_has_values(&plot)
                   ? plot_draw(&plot, out, "loss")
                   : err_set(ERR_INPUT, "%s: no loss is recorded, so none is drawn", out);
    plot_free(&plot);
    return code;
}

/* --- the pages --- */

typedef struct {
    const char *label, *value; /* the value is owned */
} Fact;

#define MAX_FACTS 24
typedef struct {
    Fact facts[MAX_FACTS];
    int count;
} Facts;

static void add_fact(Facts *facts, const char *label, char *value)
{
    if (value != NULL) {
        facts->facts[facts->count++] = (Fact){label, value};
    }
}

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static char *text_of(const cJSON *object, const char *name)
{
    const cJSON *item = member(object, name);
    return cJSON_IsString(item) ? mem_strdup(item->valuestring) : NULL;
}

static char *number_of(const cJSON *object, const char *name, double scale, const char *format)
{
    const cJSON *item = member(object, name);
    if (!cJSON_IsNumber(item)) {
        return NULL;
    }
    char text[64];
    snprintf(text, sizeof text, format, item->valuedouble * scale);
    return mem_strdup(text);
}

static void collect(const cJSON *run, Facts *facts)
{
    const cJSON *model = member(run, "model"), *machine = member(run, "machine");
    const cJSON *summary = member(run, "summary"), *config = member(run, "config");
    add_fact(facts, "Model", text_of(model, "name"));
    add_fact(facts, "Parameters", number_of(model, "parameters", 1, "%.0f"));
    add_fact(facts, "Data", text_of(config, "data"));
    add_fact(facts, "Updates", number_of(summary, "steps", 1, "%.0f"));
    add_fact(facts, "Tokens", number_of(summary, "tokens", 1, "%.0f"));
    add_fact(facts, "Training loss at the end", number_of(summary, "train_loss", 1, "%.4f"));
    add_fact(facts, "Validation loss at the end", number_of(summary, "val_loss", 1, "%.4f"));
    add_fact(facts, "Tokens per second", number_of(summary, "tok_s", 1, "%.0f"));
    double expected = results_number(config, "expected-tok-s");
    double measured = results_number(summary, "tok_s");
    if (expected > 0 && measured > 0) {
        add_fact(
            facts, "Tokens per second predicted",
            mem_format("%.0f: measured %+.1f %% of it", expected, 100 * (measured / expected - 1)));
    }
    add_fact(facts, "Seconds in training steps", number_of(summary, "train_s", 1, "%.1f"));
    add_fact(facts, "Seconds in all", number_of(summary, "wall_s", 1, "%.1f"));
    add_fact(facts, "Peak memory planned and used, MiB",
             number_of(summary, "peak_bytes", 1.0 / (1 << 20), "%.1f"));
    add_fact(facts, "Processor", text_of(machine, "cpu"));
    add_fact(facts, "Threads", number_of(machine, "ceiling_threads", 1, "%.0f"));
    add_fact(facts, "Started", text_of(run, "started"));
    add_fact(facts, "Commit", text_of(member(run, "pacer"), "commit"));
    add_fact(facts, "Status", text_of(run, "status"));
}

static int write_markdown(const Facts *facts, bool drawn, const char *out)
{
    Page page = {0};
    page_put(&page, "# ");
    page_put_markdown(&page, facts->count > 0 ? facts->facts[0].value : "run");
    page_put(&page, "\n\n");
    page_put(&page, "%s| | |\n| --- | --- |\n",
             drawn ? "![Loss over the steps](loss.png)\n\n" : "");
    for (int i = 0; i < facts->count; i++) {
        page_put(&page, "| %s | ", facts->facts[i].label);
        page_put_markdown(&page, facts->facts[i].value);
        page_put(&page, " |\n");
    }
    return page_save(&page, out, "report.md");
}

static int write_html(const Facts *facts, bool drawn, const char *out)
{
    Page page = {0};
    page_open(&page, facts->count > 0 ? facts->facts[0].value : "run");
    int code = 0;
    if (drawn) {
        char *svg = io_join(out, "loss.svg");
        code = page_put_figure(&page, svg, "Loss over the updates");
        free(svg);
    }
    page_put(&page, "<table>\n");
    for (int i = 0; i < facts->count; i++) {
        page_put(&page, "<tr><td>%s</td><td>", facts->facts[i].label);
        page_put_html(&page, facts->facts[i].value);
        page_put(&page, "</td></tr>\n");
    }
    page_put(&page, "</table>\n");
    page_close(&page);
    if (code != 0) {
        page_free(&page);
        return code;
    }
    return page_save(&page, out, "report.html");
}

int run_report(const char *run_dir, const char *out)
{
    char *path = io_join(run_dir, "run.json");
    cJSON *run = NULL;
    Curve curve = {0};
    int code = json_load(path, &run);
    code = code != 0 ? code : json_read_format(path, run, "schema", RECORD_SCHEMA);
    free(path);
    code = code != 0 ? code : curve_read(&curve, run_dir);
    code = code != 0 ? code : io_make_folders(out);
    if (code == 0) {
        Facts facts = {.count = 0};
        collect(run, &facts);
        bool drawn = draw(&curve, out) == 0;
        if (!drawn) {
            log_warn("%s", err_message());
        }
        code = write_markdown(&facts, drawn, out);
        code = code != 0 ? code : write_html(&facts, drawn, out);
        for (int i = 0; i < facts.count; i++) {
            free((char *)facts.facts[i].value);
        }
    }
    curve_free(&curve);
    cJSON_Delete(run);
    return code;
}
