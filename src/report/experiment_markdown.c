/* The same content as the page, for places that show Markdown; charts are PNG files beside it. */
#include "report/experiment_content.h"

#include <stdlib.h>

static void put_within(Page *page, const char *before, const char *text, const char *after)
{
    page_put(page, "%s", before);
    page_put_markdown(page, text);
    page_put(page, "%s", after);
}

static void put_charts(Page *page, const Content *content, int table)
{
    for (int i = 0; i < content->chart_count; i++) {
        if (content->charts[i].table == table) {
            put_within(page, "![", content->charts[i].chart.title, "](charts/");
            page_put(page, "%s.png)\n\n", content->charts[i].chart.name);
        }
    }
}

static void put_findings(Page *page, const Findings *findings)
{
    page_put(page, "## Findings\n\n");
    for (int i = 0; i < findings->count; i++) {
        const Finding *finding = &findings->items[i];
        put_within(page, finding->kind == FINDING_CAUTION ? "- **Caution:** " : "- ", finding->text,
                   "");
        if (finding->evidence != NULL && finding->evidence[0] != '\0') {
            put_within(page, " (", finding->evidence, ")");
        }
        page_put(page, "\n");
    }
    page_put(page, findings->count == 0 ? "No rule applied to these numbers.\n\n" : "\n");
}

static void put_runs(Page *page, const Results *results)
{
    page_put(page, "## Runs\n\n| Run | Configuration | Repeat | State | Seconds | Reason |\n"
                   "| --- | --- | ---: | --- | ---: | --- |\n");
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        char label[512], seconds[32];
        result_label(results, run, label, sizeof label);
        put_within(page, "| ", run->id, " | ");
        put_within(page, "", label, "");
        page_put(page, " | %d | %s | %s", run->repeat + 1, result_state_name(run->state),
                 content_seconds(run, seconds));
        put_within(page, " | ", run->reason, " |\n");
    }
    page_put(page, "\n");
}

void content_markdown(const Content *content, Page *page)
{
    put_within(page, "# ", content->title, "\n\n");
    if (content->about[0] != '\0') {
        put_within(page, "", content->about, "\n\n");
    }
    for (int i = 0; i < content->caution_count; i++) {
        put_within(page, "> **", content->cautions[i], "**\n\n");
    }
    put_findings(page, &content->findings);
    for (int i = 0; i < content->table_count; i++) {
        put_within(page, "## ", content->tables[i].title, "\n\n");
        char *table = table_markdown(&content->tables[i]);
        page_put(page, "%s\n", table);
        free(table);
        put_charts(page, content, i);
    }
    put_charts(page, content, -1);
    put_runs(page, &content->results);
    page_put(page, "## How it was made\n\n| | |\n| --- | --- |\n");
    for (int i = 0; i < content->fact_count; i++) {
        put_within(page, "| ", content->facts[i].label, " | ");
        put_within(page, "", content->facts[i].value, " |\n");
    }
}
