#include "report/content.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/names.h"
#include "report/branches.h"
#include "report/duel.h"
#include "report/law_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TABLES 64
#define MAX_CHARTS 64

/* --- what this report is not --- */

void content_add_banner(Content *content, char *text)
{
    content->banners =
        mem_realloc(content->banners, (size_t)content->banner_count + 1, sizeof *content->banners);
    content->banners[content->banner_count++] = text;
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
        content_add_banner(content,
                           mem_strdup("Runs come from several machines, so their times do not "
                                      "compare; the machine below is that of the first run."));
    }
}

/* --- tables and charts --- */

/* Those of kinds of experiments that answer a question of their own. */
static void add_answers(Content *content)
{
    const Results *results = &content->results;
    char *problem = NULL;
    if (duel_is(results)) {
        Duel *duel = mem_zalloc(1, sizeof *duel);
        if (duel_judge(results, duel) == 0) {
            duel_table(duel, &content->tables[content->table_count++]);
        } else {
            log_warn("%s", err_message());
            problem = mem_format("The verdict is missing: %s", err_message());
        }
        free(duel);
    } else if (law_is(results)) {
        content->table_count +=
            law_tables(results, &content->tables[content->table_count], &problem);
    }
    content->table_count += branches_table(results, &content->tables[content->table_count]);
    if (problem != NULL) {
        content_add_banner(content, mem_format("%s.", problem));
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
    cJSON_ArrayForEach(entry, entries)
    {
        if (content->table_count == MAX_TABLES) {
            break;
        }
        if (table_make(&content->results, entry, &content->tables[content->table_count]) == 0) {
            content->table_count++;
        } else {
            log_warn("%s", err_message());
            content_add_banner(content, mem_format("A table is missing: %s.", err_message()));
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

static void add_charts(Content *content)
{
    const cJSON *entries = json_get(content->results.json, "charts");
    for (const cJSON *entry = cJSON_IsArray(entries) ? entries->child : NULL;
         entry != NULL && content->chart_count < MAX_CHARTS; entry = entry->next) {
        PlacedChart *placed = &content->charts[content->chart_count];
        if (chart_read(entry, &placed->chart) != 0) {
            log_warn("%s", err_message());
            content_add_banner(content, mem_format("A chart is missing: %s.", err_message()));
            continue;
        }
        placed->plot = chart_plot(&placed->chart, &content->results);
        placed->table = table_of(content, &placed->chart);
        content->chart_count++;
    }
}

/* --- runs, and how they were made --- */

static void list_runs(const Results *results, Table *table)
{
    table_begin(table, mem_strdup("Runs"), "Run|Configuration|#Repeat|State|#Seconds|Reason");
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        table_add_text(table, run->id);
        table_add_text(table, run->label);
        table_add_value(table, mem_format("%d", run->repeat + 1), run->repeat + 1);
        table_add_text(table, run_state_name(run->state));
        table_add_number(table, "%.1f", json_number(run->entry, "seconds"));
        table_add_text(table, run->reason);
    }
}

static void add_fact(Table *table, const char *label, const char *value)
{
    if (value[0] != '\0') {
        table_add_text(table, label);
        table_add_text(table, value);
    }
}

static void add_machine(Table *table, const cJSON *machine)
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
            add_fact(table, label, item->valuestring);
        } else if (cJSON_IsNumber(item)) {
            char number[64];
            snprintf(number, sizeof number, bytes ? "%.1f GiB" : "%.6g",
                     bytes ? item->valuedouble / (1 << 30) : item->valuedouble);
            add_fact(table, label, number);
        }
    }
}

static void list_facts(const Results *results, Table *table)
{
    const cJSON *json = results->json;
    const char *recipe = json_text(json, "recipe"), *told = json_text(json, "command");
    char text[160];
    table_begin(table, mem_strdup("How it was made"), "||");
    if (told != NULL) {
        add_fact(table, "Command", told);
    } else if (recipe != NULL) {
        char *word = escape_shell_path(recipe);
        char *command =
            mem_format("pacer sweep %s%s", word, json_is_true(json, "smoke") ? " --smoke" : "");
        add_fact(table, "Command", command);
        free(command);
        free(word);
    }
    add_fact(table, "Started", json_text_or(json, "started", ""));
    add_fact(table, "Last change", json_text_or(json, "updated", ""));
    snprintf(text, sizeof text, "%.60s, commit %.60s",
             json_text_or(json, "pacer.version", "unknown"),
             json_text_or(json, "pacer.commit", "unknown"));
    add_fact(table, "Version", text);
    snprintf(text, sizeof text, "%d of %d configurations%s", results->count,
             results->configurations,
             results->count > results->configurations ? ", repeats interleaved" : "");
    add_fact(table, "Runs", text);
    add_fact(table, "PyTorch", json_text_or(json, "peers.version", ""));
    add_machine(table, machine_of(results));
}

/* --- all of it --- */

int content_make(Content *content, const char *dir)
{
    *content = (Content){0};
    int code = results_read(&content->results, dir);
    if (code != 0) {
        return code;
    }
    const cJSON *json = content->results.json;
    content->title = json_text_or(json, "title", json_text_or(json, "name", "Experiment"));
    content->about = json_text_or(json, "about", "");
    content->tables = mem_zalloc(MAX_TABLES, sizeof *content->tables);
    content->charts = mem_zalloc(MAX_CHARTS, sizeof *content->charts);
    findings_make(&content->results, &content->findings);
    add_answers(content);
    add_tables(content);
    add_charts(content);
    compare_machines(content);
    list_runs(&content->results, &content->runs);
    list_facts(&content->results, &content->made);
    return 0;
}

void content_free(Content *content)
{
    for (int i = 0; i < content->table_count; i++) {
        table_free(&content->tables[i]);
    }
    for (int i = 0; i < content->chart_count; i++) {
        plot_free(&content->charts[i].plot);
    }
    mem_free_list(content->banners, (size_t)content->banner_count);
    free(content->tables);
    free(content->charts);
    table_free(&content->runs);
    table_free(&content->made);
    findings_free(&content->findings);
    results_free(&content->results);
}
