/* The report of an experiment: Markdown with charts as files beside it, and one HTML file. */
#include "report/report.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/content.h"
#include "report/document.h"

#include <stdio.h>
#include <stdlib.h>

/* --- charts as files --- */

/* An older drawing must not stand in for one that failed. */
static void remove_drawing(const char *folder, const char *name)
{
    static const char *const endings[] = {"svg", "png"};
    for (int i = 0; i < 2; i++) {
        char *path = mem_format("%s/%s.%s", folder, name, endings[i]);
        remove(path);
        free(path);
    }
}

/* drawn[i]: there is charts/NAME.svg and .png of the i-th chart. */
static int draw_charts(Content *content, const char *out, bool *drawn)
{
    char *folder = io_join(out, "charts");
    int code = io_make_folders(folder);
    bool able = true;
    for (int i = 0; code == 0 && i < content->chart_count; i++) {
        PlacedChart *placed = &content->charts[i];
        remove_drawing(folder, placed->chart.name);
        int problem = able ? chart_draw(&placed->chart, &placed->plot, folder, &drawn[i]) : 0;
        if (problem != 0) {
            log_warn("%s", err_message());
            content_add_banner(content, mem_format("A chart is missing: %s.", err_message()));
            able = able && problem != ERR_FAILED; /* gnuplot will not be there for the next one */
        }
    }
    free(folder);
    return code;
}

/* --- Markdown --- */

static void put(Page *page, const char *before, const char *text, const char *behind)
{
    page_put(page, "%s", before);
    page_put_markdown(page, text);
    page_put(page, "%s", behind);
}

static void put_charts(Page *page, const Content *content, int table, const bool *drawn)
{
    for (int i = 0; i < content->chart_count; i++) {
        const Chart *chart = &content->charts[i].chart;
        if (content->charts[i].table == table && drawn[i]) {
            put(page, "![", chart->title, "](charts/");
            page_put(page, "%s.png)\n\n", chart->name);
        }
    }
}

static void put_evidence(Page *page, const Findings *findings)
{
    bool any = findings->shown < findings->count;
    for (int i = 0; i < findings->shown; i++) {
        any |= findings->items[i].evidence.size > 0;
    }
    if (!any) {
        return;
    }
    page_put(page, "<details><summary>The numbers behind them</summary>\n\n");
    for (int i = 0; i < findings->count; i++) {
        const Finding *finding = &findings->items[i];
        if (i < findings->shown) {
            page_put(page, "%d. ", i + 1);
            put(page, "", finding->evidence.text, "\n");
        } else {
            put(page, "- ", finding->text.text, finding->evidence.size > 0 ? " (" : "\n");
            put(page, "", finding->evidence.text, finding->evidence.size > 0 ? ")\n" : "");
        }
    }
    page_put(page, "\n</details>\n\n");
}

static void put_findings(Page *page, const Findings *findings)
{
    page_put(page, "## Findings\n\n");
    if (findings->count == 0) {
        page_put(page, "No rule applied to these numbers.\n\n");
        return;
    }
    for (int i = 0; i < findings->shown; i++) {
        page_put(page, "%d. ", i + 1);
        put(page, "", findings->items[i].text.text, "\n");
    }
    page_put(page, findings->shown > 0 ? "\n" : "");
    if (findings->results < findings->count) {
        Page cautions = {0};
        findings_put_cautions(findings, &cautions);
        put(page, "**Caution:** ", cautions.text, "\n\n");
        page_free(&cautions);
    }
    put_evidence(page, findings);
}

static void put_table(Page *page, const Table *table)
{
    put(page, "## ", table->title, "\n\n");
    table_put(table, page);
    page_put(page, "\n");
}

static void put_markdown(Page *page, const Content *content, const bool *drawn)
{
    put(page, "# ", content->title, "\n\n");
    if (content->about[0] != '\0') {
        put(page, "", content->about, "\n\n");
    }
    for (int i = 0; i < content->banner_count; i++) {
        put(page, "> **", content->banners[i], "**\n\n");
    }
    put_findings(page, &content->findings);
    for (int i = 0; i < content->table_count; i++) {
        put_table(page, &content->tables[i]);
        put_charts(page, content, i, drawn);
    }
    put_charts(page, content, -1, drawn);
    put_table(page, &content->runs);
    put_table(page, &content->made);
}

int experiment_report(const char *dir, const char *out)
{
    Content content;
    int code = content_make(&content, dir);
    if (code != 0) {
        return code;
    }
    bool *drawn = mem_zalloc((size_t)content.chart_count + 1, sizeof *drawn);
    code = draw_charts(&content, out, drawn);
    Page markdown = {0}, json = {0};
    if (code == 0) {
        put_markdown(&markdown, &content, drawn);
        content_document(&content, &json);
        char *path = io_join(out, "report.md");
        code = io_write_atomic(path, markdown.text, markdown.size);
        code = code != 0 ? code : document_save_html(&json, content.title, out);
        free(path);
    }
    page_free(&markdown);
    page_free(&json);
    free(drawn);
    content_free(&content);
    return code;
}
