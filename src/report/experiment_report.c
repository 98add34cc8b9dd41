/* The page of an experiment: what it tells is collected once, then written as Markdown, with
 * charts as files beside it, and as one HTML page that has style and charts in it. */
#include "report/report.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/chart.h"
#include "report/findings.h"
#include "report/page.h"
#include "report/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TABLES 64
#define MAX_CHARTS 64
#define MAX_CAUTIONS 160
#define MAX_FACTS 160

typedef struct {
    char *label, *value;
} Fact;

typedef struct {
    Chart chart;
    int table; /* that it stands beside: the first with a column that it draws; -1: none */
} PlacedChart;

typedef struct {
    Results results;
    const char *title, *about;
    Findings findings;
    Table tables[MAX_TABLES];
    int table_count;
    PlacedChart charts[MAX_CHARTS]; /* those that were drawn, as charts/NAME.svg and .png */
    int chart_count;
    char *cautions[MAX_CAUTIONS]; /* above everything else: sentences on what this report is not */
    int caution_count;
    Fact facts[MAX_FACTS]; /* how it was made */
    int fact_count;
} Content;

/* --- cautions and facts --- */

/* Takes text. */
static void add_caution(Content *content, char *text)
{
    if (content->caution_count < MAX_CAUTIONS) {
        content->cautions[content->caution_count++] = text;
    } else {
        free(text);
    }
}

static void add_cautions(Content *content)
{
    const Results *results = &content->results;
    int done = 0, shared = 0;
    for (int i = 0; i < results->count; i++) {
        done += results->runs[i].state == RUN_DONE;
        shared += result_is_oversubscribed(&results->runs[i]);
    }
    if (shared > 0) {
        add_caution(content, mem_format("oversubscribed: no measurement of scaling. In %d of %d "
                                        "runs several ranks were allowed to share a device.",
                                        shared, results->count));
    }
    if (json_is_true(results->json, "smoke")) {
        add_caution(
            content,
            mem_strdup("A smoke run: small sizes that only show that the experiment works."));
    }
    if (done < results->count) {
        add_caution(content, mem_format("%d of %d runs are done; the list of runs says what became "
                                        "of the others.",
                                        done, results->count));
    }
}

/* Takes value; NULL and "" are left out. */
static void add_fact(Content *content, const char *label, char *value)
{
    if (value != NULL && value[0] != '\0' && content->fact_count < MAX_FACTS) {
        content->facts[content->fact_count++] = (Fact){mem_strdup(label), value};
    } else {
        free(value);
    }
}

static void add_text(Content *content, const char *label, const cJSON *tree, const char *path)
{
    add_fact(content, label, mem_strdup(json_text_or(tree, path, "")));
}

static void add_machine(Content *content, const cJSON *machine)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, machine)
    {
        char label[64];
        const char *name = item->string != NULL ? item->string : "";
        size_t length = strlen(name);
        bool bytes = length > 6 && strcmp(name + length - 6, "_bytes") == 0;
        snprintf(label, sizeof label, "Machine: %.*s", (int)(bytes ? length - 6 : length), name);
        for (char *at = label; *at != '\0'; at++) {
            *at = *at == '_' ? ' ' : *at;
        }
        if (cJSON_IsString(item)) {
            add_fact(content, label, mem_strdup(item->valuestring));
        } else if (cJSON_IsNumber(item)) {
            add_fact(content, label,
                     mem_format(bytes ? "%.1f GiB" : "%.6g",
                                bytes ? item->valuedouble / (1 << 30) : item->valuedouble));
        }
    }
}

static bool same_text(const cJSON *a, const cJSON *b, const char *name)
{
    return strcmp(json_text_or(a, name, ""), json_text_or(b, name, "")) == 0;
}

static void add_facts(Content *content)
{
    const Results *results = &content->results;
    const cJSON *json = results->json, *machine = NULL;
    const char *recipe = json_text(json, "recipe");
    if (recipe != NULL) {
        char *word = escape_shell_path(recipe);
        add_fact(
            content, "Command",
            mem_format("pacer sweep %s%s", word, json_is_true(json, "smoke") ? " --smoke" : ""));
        free(word);
    }
    add_text(content, "Started", json, "started");
    add_text(content, "Last change", json, "updated");
    add_fact(content, "Version",
             mem_format("%.60s, commit %.60s", json_text_or(json, "pacer.version", "unknown"),
                        json_text_or(json, "pacer.commit", "unknown")));
    add_fact(content, "Runs",
             mem_format("%d of %d configurations%s", results->count, results->configurations,
                        results->count > results->configurations ? ", repeats interleaved" : ""));
    add_text(content, "PyTorch", json, "peers.version");
    bool differ = false;
    for (int i = 0; i < results->count; i++) {
        const cJSON *own = json_get(results->runs[i].run, "machine");
        if (own != NULL && machine != NULL) {
            bool peer = results->runs[i].peer[0] != '\0'; /* which words it in its own way */
            differ |=
                !same_text(own, machine, "host") ||
                (!peer && (!same_text(own, machine, "cpu") || !same_text(own, machine, "gpu")));
        }
        machine = machine != NULL ? machine : own;
    }
    if (differ) {
        add_caution(content, mem_strdup("Runs come from several machines, so their times do not "
                                        "compare; the machine below is that of the first run."));
    }
    add_machine(content, machine);
}

/* --- tables and charts --- */

static void add_tables(Content *content)
{
    const cJSON *entries = json_get(content->results.json, "tables"), *entry;
    cJSON *standard = NULL;
    if (!cJSON_IsArray(entries) || entries->child == NULL) {
        standard = cJSON_Parse("[{\"title\":\"Summary\",\"per\":\"configuration\",\"columns\":["
                               "\"configuration\",\"total_s\",\"tok_s\",\"train_loss\","
                               "\"val_loss\",\"peak_bytes\"]}]");
        entries = standard;
    }
    cJSON_ArrayForEach(entry, entries)
    {
        if (content->table_count == MAX_TABLES) {
            break;
        }
        if (table_make(&content->results, entry, &content->tables[content->table_count]) == 0) {
            content->table_count++;
        } else {
            log_warn("%s", err_message());
            add_caution(content, mem_format("A table is missing: %s.", err_message()));
        }
    }
    cJSON_Delete(standard);
}

static int table_of(const Content *content, const Chart *chart)
{
    for (int i = 0; i < content->table_count; i++) {
        const Table *table = &content->tables[i];
        for (int column = 0; column < table->columns; column++) {
            for (int y = 0; chart->y[y] != NULL; y++) {
                if (strcmp(table->heads[column].name, chart->y[y]) == 0) {
                    return i;
                }
            }
        }
    }
    return -1;
}

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

static int add_charts(Content *content, const char *out)
{
    char *folder = io_join(out, "charts");
    int code = io_make_folders(folder);
    const cJSON *entries = json_get(content->results.json, "charts");
    bool able = true;
    for (const cJSON *entry = cJSON_IsArray(entries) ? entries->child : NULL;
         code == 0 && entry != NULL && content->chart_count < MAX_CHARTS; entry = entry->next) {
        PlacedChart *placed = &content->charts[content->chart_count];
        bool drawn = false;
        int problem = chart_read(entry, &placed->chart);
        if (problem == 0) {
            remove_drawing(folder, placed->chart.name);
            problem = able ? chart_draw(&placed->chart, &content->results, folder, &drawn) : 0;
        }
        if (problem != 0) {
            log_warn("%s", err_message());
            add_caution(content, mem_format("A chart is missing: %s.", err_message()));
            able = able && problem != ERR_FAILED; /* gnuplot will not be there for the next one */
        }
        if (drawn) {
            placed->table = table_of(content, &placed->chart);
            content->chart_count++;
        }
    }
    free(folder);
    return code;
}

static void content_free(Content *content)
{
    for (int i = 0; i < content->table_count; i++) {
        table_free(&content->tables[i]);
    }
    for (int i = 0; i < content->caution_count; i++) {
        free(content->cautions[i]);
    }
    for (int i = 0; i < content->fact_count; i++) {
        free(content->facts[i].label);
        free(content->facts[i].value);
    }
    findings_free(&content->findings);
    results_free(&content->results);
    free(content);
}

static int content_make(Content *content, const char *dir, const char *out)
{
    int code = results_read(&content->results, dir);
    if (code != 0) {
        return code;
    }
    const cJSON *json = content->results.json;
    content->title = json_text_or(json, "title", json_text_or(json, "name", "Experiment"));
    content->about = json_text_or(json, "about", "");
    add_cautions(content);
    findings_make(&content->results, &content->findings);
    add_tables(content);
    code = add_charts(content, out);
    add_facts(content);
    return code;
}

/* --- writers --- */

typedef void Escape(Page *page, const char *text);

/* Text between two pieces of markup. */
static void put_within(Page *page, Escape *escape, const char *before, const char *text,
                       const char *after)
{
    page_put(page, "%s", before);
    escape(page, text);
    page_put(page, "%s", after);
}

/* Seconds that a run took, "-" when they are not known. */
static const char *seconds_text(const Result *run, char text[32])
{
    double seconds = json_number(run->entry, "seconds");
    snprintf(text, 32, isnan(seconds) ? "-" : "%.1f", seconds);
    return text;
}

/* HTML */

static bool has_charts(const Content *content, int table)
{
    for (int i = 0; i < content->chart_count; i++) {
        if (content->charts[i].table == table) {
            return true;
        }
    }
    return false;
}

static void html_charts(Page *page, const Content *content, int table, const char *out)
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

static void html_contents(Page *page, const Content *content)
{
    page_put(page,
             "<nav aria-label=\"Contents\"><ul>\n<li><a href=\"#findings\">Findings</a></li>\n");
    for (int i = 0; i < content->table_count; i++) {
        page_put(page, "<li><a href=\"#table-%d\">", i + 1);
        put_within(page, page_put_html, "", content->tables[i].title, "</a></li>\n");
    }
    if (has_charts(content, -1)) {
        page_put(page, "<li><a href=\"#charts\">Charts</a></li>\n");
    }
    page_put(page, "<li><a href=\"#runs\">Runs</a></li>\n<li><a href=\"#made\">How it was made</a>"
                   "</li>\n</ul></nav>\n");
}

static void html_findings(Page *page, const Findings *findings)
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
        put_within(page, page_put_html, caution ? "<li class=\"caution\"><b>Caution:</b> " : "<li>",
                   finding->text, "");
        if (finding->evidence != NULL && finding->evidence[0] != '\0') {
            put_within(page, page_put_html, " <span class=\"evidence\">", finding->evidence,
                       "</span>");
        }
        page_put(page, "</li>\n");
    }
    page_put(page, "</ul>\n");
}

static void html_tables(Page *page, const Content *content, const char *out)
{
    for (int i = 0; i < content->table_count; i++) {
        page_put(page, "<section>\n<h2 id=\"table-%d\">", i + 1);
        put_within(page, page_put_html, "", content->tables[i].title, "</h2>\n");
        char *table = table_html(&content->tables[i]);
        page_put(page, "<div class=\"part\"><div class=\"scroll\" tabindex=\"0\">\n%s</div>\n",
                 table);
        free(table);
        html_charts(page, content, i, out);
        page_put(page, "</div>\n</section>\n");
    }
    if (has_charts(content, -1)) {
        page_put(page, "<section>\n<h2 id=\"charts\">Charts</h2>\n<div class=\"part\">\n");
        html_charts(page, content, -1, out);
        page_put(page, "</div>\n</section>\n");
    }
}

static void html_runs(Page *page, const Results *results)
{
    page_put(page,
             "<h2 id=\"runs\">Runs</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<tr>"
             "<th>Run</th><th>Configuration</th><th class=\"number\">Repeat</th><th>State</th>"
             "<th class=\"number\">Seconds</th><th>Reason</th></tr>\n");
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        char label[512], seconds[32];
        result_label(results, run, label, sizeof label);
        put_within(page, page_put_html, "<tr><td><code>", run->id, "</code></td>");
        put_within(page, page_put_html, "<td class=\"label\">", label, "</td>");
        bool open = run->state == RUN_WAITING || run->state == RUN_RUNNING;
        page_put(page, "<td class=\"number\">%d</td><td class=\"%s\">%s</td>", run->repeat + 1,
                 run->state == RUN_DONE ? "good"
                 : open                 ? "soft"
                                        : "bad",
                 run_state_name(run->state));
        page_put(page, "<td class=\"number\">%s</td>", seconds_text(run, seconds));
        put_within(page, page_put_html, "<td class=\"reason\">", run->reason, "</td></tr>\n");
    }
    page_put(page, "</table></div>\n");
}

static void write_html(const Content *content, const char *out, Page *page)
{
    page_open(page, content->title);
    if (content->about[0] != '\0') {
        put_within(page, page_put_html, "<p>", content->about, "</p>\n");
    }
    for (int i = 0; i < content->caution_count; i++) {
        put_within(page, page_put_html, "<p class=\"banner\">", content->cautions[i], "</p>\n");
    }
    html_contents(page, content);
    html_findings(page, &content->findings);
    html_tables(page, content, out);
    html_runs(page, &content->results);
    page_put(page, "<h2 id=\"made\">How it was made</h2>\n<div class=\"scroll\"><table>\n");
    for (int i = 0; i < content->fact_count; i++) {
        put_within(page, page_put_html, "<tr><td>", content->facts[i].label, "</td><td>");
        put_within(page, page_put_html, "", content->facts[i].value, "</td></tr>\n");
    }
    page_put(page, "</table></div>\n");
    page_close(page);
}

/* Markdown */

static void markdown_charts(Page *page, const Content *content, int table)
{
    for (int i = 0; i < content->chart_count; i++) {
        if (content->charts[i].table == table) {
            put_within(page, page_put_markdown, "![", content->charts[i].chart.title, "](charts/");
            page_put(page, "%s.png)\n\n", content->charts[i].chart.name);
        }
    }
}

static void markdown_findings(Page *page, const Findings *findings)
{
    page_put(page, "## Findings\n\n");
    for (int i = 0; i < findings->count; i++) {
        const Finding *finding = &findings->items[i];
        put_within(page, page_put_markdown,
                   finding->kind == FINDING_CAUTION ? "- **Caution:** " : "- ", finding->text, "");
        if (finding->evidence != NULL && finding->evidence[0] != '\0') {
            put_within(page, page_put_markdown, " (", finding->evidence, ")");
        }
        page_put(page, "\n");
    }
    page_put(page, findings->count == 0 ? "No rule applied to these numbers.\n\n" : "\n");
}

static void markdown_runs(Page *page, const Results *results)
{
    page_put(page, "## Runs\n\n| Run | Configuration | Repeat | State | Seconds | Reason |\n"
                   "| --- | --- | ---: | --- | ---: | --- |\n");
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        char label[512], seconds[32];
        result_label(results, run, label, sizeof label);
        put_within(page, page_put_markdown, "| ", run->id, " | ");
        put_within(page, page_put_markdown, "", label, "");
        page_put(page, " | %d | %s | %s", run->repeat + 1, run_state_name(run->state),
                 seconds_text(run, seconds));
        put_within(page, page_put_markdown, " | ", run->reason, " |\n");
    }
    page_put(page, "\n");
}

static void write_markdown(const Content *content, Page *page)
{
    put_within(page, page_put_markdown, "# ", content->title, "\n\n");
    if (content->about[0] != '\0') {
        put_within(page, page_put_markdown, "", content->about, "\n\n");
    }
    for (int i = 0; i < content->caution_count; i++) {
        put_within(page, page_put_markdown, "> **", content->cautions[i], "**\n\n");
    }
    markdown_findings(page, &content->findings);
    for (int i = 0; i < content->table_count; i++) {
        put_within(page, page_put_markdown, "## ", content->tables[i].title, "\n\n");
        char *table = table_markdown(&content->tables[i]);
        page_put(page, "%s\n", table);
        free(table);
        markdown_charts(page, content, i);
    }
    markdown_charts(page, content, -1);
    markdown_runs(page, &content->results);
    page_put(page, "## How it was made\n\n| | |\n| --- | --- |\n");
    for (int i = 0; i < content->fact_count; i++) {
        put_within(page, page_put_markdown, "| ", content->facts[i].label, " | ");
        put_within(page, page_put_markdown, "", content->facts[i].value, " |\n");
    }
}

int experiment_report(const char *dir, const char *out)
{
    Content *content = mem_zalloc(1, sizeof *content);
    int code = content_make(content, dir, out);
    if (code == 0) {
        Page markdown = {0}, html = {0};
        write_markdown(content, &markdown);
        write_html(content, out, &html);
        code = page_save(&markdown, out, "report.md");
        code = code != 0 ? code : page_save(&html, out, "report.html");
        page_free(&html);
    }
    content_free(content);
    return code;
}
