/* The page of an experiment: what it tells is collected, then written as Markdown, with charts as
 * files beside it, and as one HTML page that has style and charts in it. */
#include "report/report.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/branches.h"
#include "report/chart.h"
#include "report/duel.h"
#include "report/findings.h"
#include "report/law_report.h"
#include "report/page.h"
#include "report/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TABLES 64
#define MAX_CHARTS 64

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
    Pages cautions; /* above everything else: sentences on what this report is not */
} Content;

/* --- cautions --- */

/* Takes text. */
static void add_caution(Content *content, char *text)
{
    pages_put(&content->cautions, text, "> **", "**\n\n", "<p class=\"banner\">", "</p>\n");
    free(text);
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

static bool same_text(const cJSON *a, const cJSON *b, const char *name)
{
    return strcmp(json_text_or(a, name, ""), json_text_or(b, name, "")) == 0;
}

/* That of the first run that names one. */
static const cJSON *machine_of(const Results *results)
{
    const cJSON *machine = NULL;
    for (int i = 0; i < results->count && machine == NULL; i++) {
        machine = json_get(results->runs[i].run, "machine");
    }
    return machine;
}

static void compare_machines(Content *content)
{
    const Results *results = &content->results;
    const cJSON *machine = machine_of(results);
    bool differ = false;
    for (int i = 0; i < results->count; i++) {
        const cJSON *own = json_get(results->runs[i].run, "machine");
        bool peer = results->runs[i].peer[0] != '\0'; /* which words it in its own way */
        differ |= own != NULL &&
                  (!same_text(own, machine, "host") ||
                   (!peer && (!same_text(own, machine, "cpu") || !same_text(own, machine, "gpu"))));
    }
    if (differ) {
        add_caution(content, mem_strdup("Runs come from several machines, so their times do not "
                                        "compare; the machine below is that of the first run."));
    }
}

/* --- tables and charts --- */

static void add_duel(Content *content)
{
    Duel *duel = mem_zalloc(1, sizeof *duel);
    if (!duel_is(&content->results)) {
        free(duel);
        return;
    }
    if (duel_judge(&content->results, duel) == 0) {
        duel_table(duel, &content->tables[content->table_count++]);
    } else {
        log_warn("%s", err_message());
        add_caution(content, mem_format("The verdict is missing: %s.", err_message()));
    }
    free(duel);
}

static void add_law(Content *content)
{
    char *problem = NULL;
    if (law_is(&content->results)) {
        content->table_count +=
            law_tables(&content->results, &content->tables[content->table_count], &problem);
    }
    if (problem != NULL) {
        add_caution(content, mem_format("%s.", problem));
    }
    free(problem);
}

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
    content->table_count += branches_table(&content->results, &content->tables[0]);
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
            for (int y = 0; y < chart->y_count; y++) {
                if (strcmp(table->heads[column].name, chart->y[y].name) == 0) {
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
    pages_free(&content->cautions);
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
    add_duel(content);
    add_law(content);
    add_tables(content);
    code = add_charts(content, out);
    compare_machines(content);
    return code;
}

/* --- pages --- */

static bool has_charts(const Content *content, int table)
{
    for (int i = 0; i < content->chart_count; i++) {
        if (content->charts[i].table == table) {
            return true;
        }
    }
    return false;
}

static void put_charts(Pages *pages, const Content *content, int table, const char *out)
{
    char *folder = io_join(out, "charts");
    for (int i = 0; i < content->chart_count; i++) {
        const Chart *chart = &content->charts[i].chart;
        if (content->charts[i].table == table &&
            pages_put_figure(pages, folder, "charts/", chart->name, chart->title) != 0) {
            log_warn("%s", err_message());
        }
    }
    free(folder);
}

static void put_contents(Page *html, const Content *content)
{
    page_put(html,
             "<nav aria-label=\"Contents\"><ul>\n<li><a href=\"#findings\">Findings</a></li>\n");
    for (int i = 0; i < content->table_count; i++) {
        page_put(html, "<li><a href=\"#table-%d\">", i + 1);
        page_put_html(html, content->tables[i].title);
        page_put(html, "</a></li>\n");
    }
    if (has_charts(content, -1)) {
        page_put(html, "<li><a href=\"#charts\">Charts</a></li>\n");
    }
    page_put(html, "<li><a href=\"#runs\">Runs</a></li>\n<li><a href=\"#made\">How it was made</a>"
                   "</li>\n</ul></nav>\n");
}

static void put_findings(Pages *pages, const Findings *findings)
{
    pages_mark(pages, "## Findings\n\n", "<h2 id=\"findings\">Findings</h2>\n");
    if (findings->count == 0) {
        pages_mark(pages, "No rule applied to these numbers.\n\n",
                   "<p>No rule applied to these numbers.</p>\n");
        return;
    }
    page_put(&pages->html, "<ul class=\"findings\">\n");
    for (int i = 0; i < findings->count; i++) {
        const Finding *finding = &findings->items[i];
        bool caution = finding->kind == FINDING_CAUTION;
        pages_put(pages, finding->text.text, caution ? "- **Caution:** " : "- ", "",
                  caution ? "<li class=\"caution\"><b>Caution:</b> " : "<li>", "");
        if (finding->evidence.size > 0) {
            pages_put(pages, finding->evidence.text, " (", ")", " <span class=\"evidence\">",
                      "</span>");
        }
        pages_mark(pages, "\n", "</li>\n");
    }
    pages_mark(pages, "\n", "</ul>\n");
}

static void put_tables(Pages *pages, const Content *content, const char *out)
{
    for (int i = 0; i < content->table_count; i++) {
        page_put(&pages->html, "<section>\n<h2 id=\"table-%d\">", i + 1);
        pages_put(pages, content->tables[i].title, "## ", "\n\n", "",
                  "</h2>\n<div class=\"part\"><div class=\"scroll\" tabindex=\"0\">\n");
        table_put(&content->tables[i], pages);
        pages_mark(pages, "\n", "</div>\n");
        put_charts(pages, content, i, out);
        page_put(&pages->html, "</div>\n</section>\n");
    }
    if (has_charts(content, -1)) {
        page_put(&pages->html, "<section>\n<h2 id=\"charts\">Charts</h2>\n<div class=\"part\">\n");
        put_charts(pages, content, -1, out);
        page_put(&pages->html, "</div>\n</section>\n");
    }
}

static void put_runs(Pages *pages, const Results *results)
{
    pages_mark(pages,
               "## Runs\n\n| Run | Configuration | Repeat | State | Seconds | Reason |\n"
               "| --- | --- | ---: | --- | ---: | --- |\n",
               "<h2 id=\"runs\">Runs</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<tr>"
               "<th>Run</th><th>Configuration</th><th class=\"number\">Repeat</th><th>State</th>"
               "<th class=\"number\">Seconds</th><th>Reason</th></tr>\n");
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        const char *state = run_state_name(run->state), *class = "bad";
        double number = json_number(run->entry, "seconds");
        char seconds[32];
        snprintf(seconds, sizeof seconds, isnan(number) ? "-" : "%.1f", number);
        if (run->state == RUN_DONE) {
            class = "good";
        } else if (run->state == RUN_WAITING || run->state == RUN_RUNNING) {
            class = "soft";
        }
        pages_put(pages, run->id, "| ", " | ", "<tr><td><code>", "</code></td>");
        pages_put(pages, run->label, "", "", "<td class=\"label\">", "</td>");
        page_put(&pages->markdown, " | %d | %s | %s", run->repeat + 1, state, seconds);
        page_put(&pages->html,
                 "<td class=\"number\">%d</td><td class=\"%s\">%s</td>"
                 "<td class=\"number\">%s</td>",
                 run->repeat + 1, class, state, seconds);
        pages_put(pages, run->reason, " | ", " |\n", "<td class=\"reason\">", "</td></tr>\n");
    }
    pages_mark(pages, "\n", "</table></div>\n");
}

/* A line of how it was made. */
static void put_fact(Pages *pages, const char *label, const char *value)
{
    if (value[0] != '\0') {
        pages_put(pages, label, "| ", " | ", "<tr><td>", "</td><td>");
        pages_put(pages, value, "", " |\n", "", "</td></tr>\n");
    }
}

static void put_machine(Pages *pages, const cJSON *machine)
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
            put_fact(pages, label, item->valuestring);
        } else if (cJSON_IsNumber(item)) {
            char number[64];
            snprintf(number, sizeof number, bytes ? "%.1f GiB" : "%.6g",
                     bytes ? item->valuedouble / (1 << 30) : item->valuedouble);
            put_fact(pages, label, number);
        }
    }
}

static void put_facts(Pages *pages, const Results *results)
{
    const cJSON *json = results->json;
    const char *recipe = json_text(json, "recipe"), *told = json_text(json, "command");
    char text[160];
    pages_mark(pages, "## How it was made\n\n| | |\n| --- | --- |\n",
               "<h2 id=\"made\">How it was made</h2>\n<div class=\"scroll\"><table>\n");
    if (told != NULL) {
        put_fact(pages, "Command", told);
    } else if (recipe != NULL) {
        char *word = escape_shell_path(recipe);
        char *command =
            mem_format("pacer sweep %s%s", word, json_is_true(json, "smoke") ? " --smoke" : "");
        put_fact(pages, "Command", command);
        free(command);
        free(word);
    }
    put_fact(pages, "Started", json_text_or(json, "started", ""));
    put_fact(pages, "Last change", json_text_or(json, "updated", ""));
    snprintf(text, sizeof text, "%.60s, commit %.60s",
             json_text_or(json, "pacer.version", "unknown"),
             json_text_or(json, "pacer.commit", "unknown"));
    put_fact(pages, "Version", text);
    snprintf(text, sizeof text, "%d of %d configurations%s", results->count,
             results->configurations,
             results->count > results->configurations ? ", repeats interleaved" : "");
    put_fact(pages, "Runs", text);
    put_fact(pages, "PyTorch", json_text_or(json, "peers.version", ""));
    put_machine(pages, machine_of(results));
    page_put(&pages->html, "</table></div>\n");
}

int experiment_report(const char *dir, const char *out)
{
    Content *content = mem_zalloc(1, sizeof *content);
    pages_mark(&content->cautions, "", "");
    int code = content_make(content, dir, out);
    if (code == 0) {
        Pages pages = {0};
        pages_open(&pages, content->title);
        if (content->about[0] != '\0') {
            pages_put(&pages, content->about, "", "\n\n", "<p>", "</p>\n");
        }
        pages_mark(&pages, content->cautions.markdown.text, content->cautions.html.text);
        put_contents(&pages.html, content);
        put_findings(&pages, &content->findings);
        put_tables(&pages, content, out);
        put_runs(&pages, &content->results);
        put_facts(&pages, &content->results);
        code = pages_save(&pages, out);
    }
    content_free(content);
    return code;
}
