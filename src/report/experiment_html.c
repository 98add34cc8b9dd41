/* One page that needs no other file: style and charts are in it, links go to its own parts. */
#include "report/experiment_content.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Text between two pieces of markup. */
static void put_within(Page *page, const char *before, const char *text, const char *after)
{
    page_put(page, "%s", before);
    page_put_html(page, text);
    page_put(page, "%s", after);
}

static bool has_charts(const Content *content, int table)
{
    for (int i = 0; i < content->chart_count; i++) {
        if (content->charts[i].table == table) {
            return true;
        }
    }
    return false;
}

static void put_charts(Page *page, const Content *content, int table, const char *out)
{
    for (int i = 0; i < content->chart_count; i++) {
        if (content->charts[i].table != table) {
            continue;
        }
        char *path = mem_format("%s/charts/%s.svg", out, content->charts[i].chart.name);
        if (page_put_figure(page, path, content->charts[i].chart.title) != 0) {
            log_warn("%s", err_message());
        }
        free(path);
    }
}

static void put_contents(Page *page, const Content *content)
{
    page_put(page,
             "<nav aria-label=\"Contents\"><ul>\n<li><a href=\"#findings\">Findings</a></li>\n");
    for (int i = 0; i < content->table_count; i++) {
        page_put(page, "<li><a href=\"#table-%d\">", i + 1);
        put_within(page, "", content->tables[i].title, "</a></li>\n");
    }
    if (has_charts(content, -1)) {
        page_put(page, "<li><a href=\"#charts\">Charts</a></li>\n");
    }
    page_put(page, "<li><a href=\"#runs\">Runs</a></li>\n<li><a href=\"#made\">How it was made</a>"
                   "</li>\n</ul></nav>\n");
}

static void put_findings(Page *page, const Findings *findings)
{
    page_put(page, "<h2 id=\"findings\">Findings</h2>\n");
    if (findings->count == 0) {
        page_put(page, "<p>No rule applied to these numbers.</p>\n");
        return;
    }
    page_put(page, "<ul class=\"findings\">\n");
    for (int i = 0; i < findings->count; i++) {
        const Finding *finding = &findings->items[i];
        bool caution = finding->kind == FINDING_CAUTION;
        put_within(page, caution ? "<li class=\"caution\"><b>Caution:</b> " : "<li>", finding->text,
                   "");
        if (finding->evidence != NULL && finding->evidence[0] != '\0') {
            put_within(page, " <span class=\"evidence\">", finding->evidence, "</span>");
        }
        page_put(page, "</li>\n");
    }
    page_put(page, "</ul>\n");
}

static void put_tables(Page *page, const Content *content, const char *out)
{
    for (int i = 0; i < content->table_count; i++) {
        page_put(page, "<section>\n<h2 id=\"table-%d\">", i + 1);
        put_within(page, "", content->tables[i].title, "</h2>\n");
        char *table = table_html(&content->tables[i]);
        page_put(page, "<div class=\"part\"><div class=\"scroll\" tabindex=\"0\">\n%s</div>\n",
                 table);
        free(table);
        put_charts(page, content, i, out);
        page_put(page, "</div>\n</section>\n");
    }
    if (has_charts(content, -1)) {
        page_put(page, "<section>\n<h2 id=\"charts\">Charts</h2>\n<div class=\"part\">\n");
        put_charts(page, content, -1, out);
        page_put(page, "</div>\n</section>\n");
    }
}

static void put_runs(Page *page, const Results *results)
{
    page_put(page,
             "<h2 id=\"runs\">Runs</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<tr>"
             "<th>Run</th><th>Configuration</th><th class=\"number\">Repeat</th><th>State</th>"
             "<th class=\"number\">Seconds</th><th>Reason</th></tr>\n");
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        char label[512], seconds[32];
        result_label(results, run, label, sizeof label);
        put_within(page, "<tr><td><code>", run->id, "</code></td>");
        put_within(page, "<td class=\"label\">", label, "</td>");
        bool open = run->state == RESULT_WAITING || run->state == RESULT_RUNNING;
        page_put(page, "<td class=\"number\">%d</td><td class=\"%s\">%s</td>", run->repeat + 1,
                 run->state == RESULT_DONE ? "good"
                 : open                    ? "soft"
                                           : "bad",
                 result_state_name(run->state));
        page_put(page, "<td class=\"number\">%s</td>", content_seconds(run, seconds));
        put_within(page, "<td class=\"reason\">", run->reason, "</td></tr>\n");
    }
    page_put(page, "</table></div>\n");
}

void content_html(const Content *content, const char *out, Page *page)
{
    page_open(page, content->title);
    if (content->about[0] != '\0') {
        put_within(page, "<p>", content->about, "</p>\n");
    }
    for (int i = 0; i < content->caution_count; i++) {
        put_within(page, "<p class=\"banner\">", content->cautions[i], "</p>\n");
    }
    put_contents(page, content);
    put_findings(page, &content->findings);
    put_tables(page, content, out);
    put_runs(page, &content->results);
    page_put(page, "<h2 id=\"made\">How it was made</h2>\n<div class=\"scroll\"><table>\n");
    for (int i = 0; i < content->fact_count; i++) {
        put_within(page, "<tr><td>", content->facts[i].label, "</td><td>");
        put_within(page, "", content->facts[i].value, "</td></tr>\n");
    }
    page_put(page, "</table></div>\n");
    page_close(page);
}
