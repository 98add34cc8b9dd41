/* The page of a single run: its loss curve, and a table of what its run.json says. */
#include "report/report.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/reader.h"
#include "report/content.h"
#include "report/document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURVE_TITLE "Loss over the updates"
#define NOISE_TITLE "Gradient noise scale over the updates"

static void add_series(Plot *plot, const char *label, const CurveLine *line)
{
    PlotSeries *series = line->count > 0 ? plot_add_series(plot, label) : NULL;
    size_t kept[CURVE_SHOWN], count = curve_thin(line, CURVE_SHOWN, kept);
    for (size_t i = 0; i < count; i++) {
        const CurvePoint *point = &line->points[kept[i]];
        plot_add_point(series, (double)point->step, point->loss);
    }
}

Plot run_loss(const Curve *curve)
{
    Plot plot = {.kind = PLOT_LINES,
                 .title = mem_strdup(CURVE_TITLE),
                 .x_title = mem_strdup("update"),
                 .y_title = mem_strdup("loss (nats per token)")};
    add_series(&plot, "training", &curve->train);
    add_series(&plot, "validation", &curve->validation);
    if (plot.series_count == 2) {
        plot.series[1].markers = true;
    }
    return plot;
}

Plot run_noise(const Curve *curve)
{
    Plot plot = {.kind = PLOT_LINES,
                 .title = mem_strdup(NOISE_TITLE),
                 .x_title = mem_strdup("update"),
                 .y_title = mem_strdup("sequences")};
    add_series(&plot, "noise scale", &curve->noise);
    return plot;
}

char *run_noise_text(const cJSON *run)
{
    double scale = json_number(run, "summary.noise_scale");
    double error = json_number(run, "summary.noise_error");
    char spread[64] = "";
    if (isnan(scale)) {
        return NULL;
    }
    if (!isnan(error)) {
        snprintf(spread, sizeof spread, " ± %.2g", error);
    }
    bool gains = strcmp(json_text_or(run, "noise_source", ""), "norm gains") == 0;
    return mem_format(
        "Gradient noise scale of the last updates: %.3g%s sequences (%.3g tokens) per "
        "update. Batches above about that waste tokens.%s",
        scale, spread, json_number(run, "summary.noise_tokens"),
        gains ? " It is that of the norms' gains alone, from single sequences: an order of size. "
                "With --accum 2 it is measured over the whole gradient."
              : "");
}

/* False where none was measured, or it cannot be drawn. */
static bool draw_noise(const Curve *curve, const char *out)
{
    Plot plot = run_noise(curve);
    bool measured = plot_has_values(&plot);
    int code = measured ? plot_draw(&plot, out, "noise") : 0;
    if (code != 0) {
        log_warn("%s", err_message());
    }
    plot_free(&plot);
    return measured && code == 0;
}

static int draw(const Curve *curve, const char *out)
{
    Plot plot = run_loss(curve);
    int code = plot_has_values(&plot)
                   ? plot_draw(&plot, out, "loss")
                   : err_set(ERR_INPUT, "%s: no loss is recorded, so none is drawn", out);
    plot_free(&plot);
    return code;
}

typedef struct {
    const char *label, *path; /* in run.json */
    const char *format;       /* of a number; NULL: a text */
    double scale;
} Fact;

#define PREDICTED "config.expected-tok-s"
#define ALL_LEGS "summary.train_all_s" /* told where there are several */

static const Fact facts[] = {
    {"Model", "model.name", NULL, 0},
    {"Parameters", "model.parameters", "%.0f", 1},
    {"Data", "config.data", NULL, 0},
    {"Updates", "summary.steps", "%.0f", 1},
    {"Tokens", "summary.tokens", "%.0f", 1},
    {"Training loss at the end", "summary.train_loss", "%.4f", 1},
    {"Validation loss at the end", "summary.val_loss", "%.4f", 1},
    {"Tokens per second", "summary.tok_s", "%.0f", 1},
    {"Tokens per second predicted", PREDICTED, "%.0f", 1},
    {"Seconds in training steps", "summary.train_s", "%.1f", 1},
    {"Seconds in training steps, all legs", ALL_LEGS, "%.1f", 1},
    {"Seconds of wall time", "summary.wall_s", "%.1f", 1},
    {"Peak memory, MiB", "summary.peak_bytes", "%.1f", 1.0 / (1 << 20)},
    {"Processor", "machine.cpu", NULL, 0},
    {"Threads", "machine.ceiling_threads", "%.0f", 1},
    {"Started", "started", NULL, 0},
    {"Commit", "pacer.commit", NULL, 0},
    {"Status", "status", NULL, 0},
};
#define FACT_COUNT (sizeof facts / sizeof facts[0])

/* " since update N" for what a resumed run measured in its last leg alone, else "". */
static void since(const cJSON *run, const char *path, char text[64])
{
    static const char *const of_leg[] = {"summary.tok_s", "summary.train_s", "summary.wall_s"};
    const cJSON *legs = json_get(run, "legs");
    int count = cJSON_GetArraySize(legs);
    text[0] = '\0';
    for (size_t i = 0; count > 1 && i < sizeof of_leg / sizeof of_leg[0]; i++) {
        if (strcmp(path, of_leg[i]) == 0) {
            snprintf(text, 64, " since update %.0f",
                     json_number(cJSON_GetArrayItem(legs, count - 1), "step"));
        }
    }
}

/* Its value in a run, NULL when there is none. Caller frees. */
static char *value_of_fact(const cJSON *run, const Fact *fact)
{
    if (fact->format == NULL) {
        const char *text = json_text(run, fact->path);
        return text != NULL ? mem_strdup(text) : NULL;
    }
    double number = json_number(run, fact->path);
    if (strcmp(fact->path, ALL_LEGS) == 0 && cJSON_GetArraySize(json_get(run, "legs")) < 2) {
        return NULL;
    }
    if (strcmp(fact->path, PREDICTED) == 0) {
        double measured = json_number(run, "summary.tok_s");
        return number > 0 && measured > 0
                   ? mem_format("%.0f; measured: %+.1f %%", number, 100 * (measured / number - 1))
                   : NULL;
    }
    char text[64], leg[64];
    snprintf(text, sizeof text, fact->format, number * fact->scale);
    since(run, fact->path, leg);
    return isnan(number) ? NULL : mem_format("%s%s", text, leg);
}

void run_facts(const cJSON *run, Table *table)
{
    table_begin(table, mem_strdup("Summary"), "||");
    for (size_t i = 0; i < FACT_COUNT; i++) {
        char *value = value_of_fact(run, &facts[i]);
        if (value != NULL) {
            table_add_text(table, facts[i].label);
            table_add_cell(table, value);
        }
    }
}

static int write_markdown(const cJSON *run, bool drawn, bool noise, const char *out)
{
    Page page = {0};
    char *text = run_noise_text(run);
    page_put(&page, "# ");
    page_put_markdown(&page, json_text_or(run, "model.name", "run"));
    page_put(&page, "\n\n%s", drawn ? "![" CURVE_TITLE "](loss.png)\n\n" : "");
    if (text != NULL) {
        page_put_markdown(&page, text);
        page_put(&page, "\n\n%s", noise ? "![" NOISE_TITLE "](noise.png)\n\n" : "");
    }
    free(text);
    Table table;
    run_facts(run, &table);
    table_put(&table, &page);
    table_free(&table);
    char *path = io_join(out, "report.md");
    int code = io_write_atomic(path, page.text, page.size);
    free(path);
    page_free(&page);
    return code;
}

int run_report(const char *run_dir, const char *out)
{
    cJSON *run;
    Curve curve = {0};
    Page json = {0};
    int code = record_load(run_dir, RECORD_RUN, &run);
    code = code != 0 ? code : curve_read(&curve, run_dir, 0);
    code = code != 0 ? code : io_make_folders(out);
    code = code != 0 ? code : report_document(run_dir, &json);
    if (code == 0) {
        bool drawn = draw(&curve, out) == 0;
        if (!drawn) {
            log_warn("%s", err_message());
        }
        code = write_markdown(run, drawn, draw_noise(&curve, out), out);
        code = code != 0 ? code
                         : document_save_html(&json, json_text_or(run, "model.name", "run"), out);
    }
    page_free(&json);
    curve_free(&curve);
    cJSON_Delete(run);
    return code;
}
