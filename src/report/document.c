#include "report/document.h"

#include "base/io.h"
#include "base/mem.h"
#include "report/blocks.h"
#include "report/content.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_document(Page *json, const char *title, const char *subtitle)
{
    page_put(json, "{\"title\":");
    page_put_json(json, title);
    if (subtitle[0] != '\0') {
        page_put(json, ",\"subtitle\":");
        page_put_json(json, subtitle);
    }
    page_put(json, ",\"blocks\":[");
}

static void close_document(Page *json)
{
    page_put(json, "]}");
}

/* --- an experiment --- */

static void put_charts(Page *json, const Content *content, int table)
{
    for (int i = 0; i < content->chart_count; i++) {
        PlacedChart *placed = &content->charts[i];
        if (placed->table == table && !chart_is_crowded(&placed->plot)) {
            block_plot(json, &placed->plot, placed->chart.name);
        }
    }
}

void content_document(const Content *content, Page *json)
{
    open_document(json, content->title, content->about);
    for (int i = 0; i < content->banner_count; i++) {
        block_text(json, content->banners[i]);
    }
    block_findings(json, &content->findings);
    for (int i = 0; i < content->table_count; i++) {
        put_charts(json, content, i);
        block_table(json, &content->tables[i]);
    }
    put_charts(json, content, -1);
    block_heading(json, "Runs");
    block_parallel(json, &content->results);
    block_curves(json, &content->results);
    block_table(json, &content->runs);
    block_begin_details(json, content->made.title);
    block_table(json, &content->made);
    block_end_details(json);
    close_document(json);
}

/* --- a run --- */

/* Bars of what a list of {name or kind: number} takes, the largest first. */
typedef struct {
    char *name;
    double value;
} Share;

/* As tables name the phase: "Data to the device". */
static char *phase_title(const char *phase)
{
    char name[64];
    Metric metric;
    snprintf(name, sizeof name, "%.40s_s", phase);
    return mem_strdup(metric_find(name, &metric) == 0 ? metric.title : phase);
}

static int by_value(const void *a, const void *b)
{
    double x = ((const Share *)a)->value, y = ((const Share *)b)->value;
    return (x < y) - (x > y);
}

static void put_shares(Page *json, const cJSON *list, const char *number, const char *name,
                       const char *title, const char *unit, double scale)
{
    size_t count = 0;
    const cJSON *item;
    Share *shares = mem_zalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *shares);
    cJSON_ArrayForEach(item, list)
    {
        const char *label = item->string != NULL ? item->string : json_text(item, "kind");
        double value = json_number(item, number);
        if (label != NULL && value > 0 && strcmp(label, "comm_hidden") != 0) {
            shares[count].value = value * scale;
            shares[count++].name = item->string != NULL ? phase_title(label) : mem_strdup(label);
        }
    }
    qsort(shares, count, sizeof *shares, by_value);
    Plot plot = {.kind = PLOT_BARS,
                 .title = mem_strdup(title),
                 .x_title = mem_strdup(""),
                 .y_title = mem_strdup(unit)};
    PlotSeries *series = plot_add_series(&plot, unit);
    for (size_t i = 0; i < count; i++) {
        plot_add_point(series, plot_category(&plot, shares[i].name), shares[i].value);
        free(shares[i].name);
    }
    block_plot(json, &plot, name);
    plot_free(&plot);
    free(shares);
}

static void put_checks(Page *json, const cJSON *checks)
{
    Table table;
    const cJSON *check;
    table_begin(&table, mem_strdup("Checks of the run by itself"),
                "Check|Verdict|Rule|#Expected|#Found");
    cJSON_ArrayForEach(check, checks)
    {
        table_add_text(&table, json_text_or(check, "name", ""));
        table_add_text(&table, json_text_or(check, "verdict", ""));
        table_add_text(&table, json_text_or(check, "rule", ""));
        table_add_number(&table, "%.6g", json_number(check, "expected"));
        table_add_number(&table, "%.6g", json_number(check, "found"));
    }
    if (table.rows > 0) {
        block_begin_details(json, "Checks");
        block_table(json, &table);
        block_end_details(json);
    }
    table_free(&table);
}

static void run_document(const Results *results, Page *json)
{
    const Result *run = &results->runs[0];
    Findings findings;
    Table facts;
    findings_make(results, &findings);
    run_facts(run->run, &facts);
    open_document(json, json_text_or(run->run, "model.name", "run"), results->dir);
    block_findings(json, &findings);
    Plot loss = run_loss(&run->curve);
    block_plot(json, &loss, "loss");
    plot_free(&loss);
    char *noise_text = run_noise_text(run->run);
    if (noise_text != NULL) {
        Plot noise = run_noise(&run->curve);
        block_text(json, noise_text);
        block_plot(json, &noise, "noise");
        plot_free(&noise);
    }
    free(noise_text);
    block_table(json, &facts);
    block_curves(json, results);
    put_shares(json, json_find(run->run, "summary.phases"), "exclusive_s", "phases",
               "Where the time went", "time (s)", 1);
    put_shares(json, json_get(run->run, "memory_plan"), "bytes", "memory", "Planned memory",
               "memory (MiB)", 1.0 / (1 << 20));
    put_checks(json, json_find(run->run, "summary.checks"));
    block_begin_details(json, "Options");
    block_options(json, run);
    block_end_details(json);
    close_document(json);
    table_free(&facts);
    findings_free(&findings);
}

int report_document(const char *dir, Page *json)
{
    Results results;
    bool experiment;
    int code = results_kind(dir, &experiment);
    if (code != 0) {
        return code;
    }
    if (experiment) {
        Content content;
        code = content_make(&content, dir);
        if (code == 0) {
            content_document(&content, json);
            content_free(&content);
        }
        return code;
    }
    code = results_read_any(&results, dir, &experiment);
    if (code == 0) {
        run_document(&results, json);
    }
    results_free(&results);
    return code;
}
