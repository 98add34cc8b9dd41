#include "report/experiment_content.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/metric_scaling.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TABLES 64
#define MAX_CHARTS 64

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const char *text_of(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(member(object, name));
}

__attribute__((format(printf, 2, 3))) static void add_caution(Content *content, const char *format,
                                                              ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    size_t count = (size_t)content->caution_count++;
    content->cautions = mem_realloc(content->cautions, count + 1, sizeof *content->cautions);
    content->cautions[count] = mem_checked(length >= 0 ? text : NULL, strlen(format));
}

static void add_fact(Content *content, const char *label, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        size_t count = (size_t)content->fact_count++;
        content->facts = mem_realloc(content->facts, count + 1, sizeof *content->facts);
        content->facts[count] = (ContentFact){mem_strdup(label), mem_strdup(value)};
    }
}

const char *content_seconds(const Result *run, char text[32])
{
    double seconds = results_number(run->entry, "seconds");
    snprintf(text, 32, isnan(seconds) ? "-" : "%.1f", seconds);
    return text;
}

/* --- cautions --- */

static void add_cautions(Content *content)
{
    const Results *results = &content->results;
    int done = 0, shared = 0;
    for (int i = 0; i < results->count; i++) {
        done += results->runs[i].state == RESULT_DONE;
        shared += result_is_oversubscribed(&results->runs[i]);
    }
    if (shared > 0) {
        add_caution(content,
                    "oversubscribed: no measurement of scaling. In %d of %d runs several ranks "
                    "were allowed to share a device.",
                    shared, results->count);
    }
    if (cJSON_IsTrue(member(results->json, "smoke"))) {
        add_caution(content, "A smoke run: sizes that only try the experiment out.");
    }
    if (done < results->count) {
        add_caution(content,
                    "%d of %d runs are done; the list of runs says what became of the others.",
                    done, results->count);
    }
}

/* --- facts --- */

static void add_machine(Content *content, const cJSON *machine)
{
    for (const cJSON *item = machine != NULL ? machine->child : NULL; item != NULL;
         item = item->next) {
        char text[64], label[64];
        const char *name = item->string != NULL ? item->string : "";
        size_t length = strlen(name);
        bool bytes = length > 6 && strcmp(name + length - 6, "_bytes") == 0;
        snprintf(label, sizeof label, "Machine: %.*s", (int)(bytes ? length - 6 : length), name);
        for (char *at = label; *at != '\0'; at++) {
            *at = *at == '_' ? ' ' : *at;
        }
        if (cJSON_IsString(item)) {
            add_fact(content, label, item->valuestring);
        } else if (cJSON_IsNumber(item)) {
            snprintf(text, sizeof text, bytes ? "%.1f GiB" : "%.6g",
                     bytes ? item->valuedouble / (1 << 30) : item->valuedouble);
            add_fact(content, label, text);
        }
    }
}

static bool same_text(const cJSON *a, const cJSON *b, const char *name)
{
    const char *x = text_of(a, name), *y = text_of(b, name);
    return x == y || (x != NULL && y != NULL && strcmp(x, y) == 0);
}

static void add_facts(Content *content)
{
    const Results *results = &content->results;
    const cJSON *json = results->json, *pacer = member(json, "pacer"), *machine = NULL;
    const char *recipe = text_of(json, "recipe");
    bool smoke = cJSON_IsTrue(member(json, "smoke")), differ = false;
    if (recipe != NULL) {
        char *word = escape_shell_path(recipe);
        char *command = mem_format("pacer sweep %s%s", word, smoke ? " --smoke" : "");
        add_fact(content, "Command", command);
        free(word);
        free(command);
    }
    add_fact(content, "Started", text_of(json, "started"));
    add_fact(content, "Last change", text_of(json, "updated"));
    char text[160];
    snprintf(text, sizeof text, "%.60s, commit %.60s",
             text_of(pacer, "version") != NULL ? text_of(pacer, "version") : "unknown",
             text_of(pacer, "commit") != NULL ? text_of(pacer, "commit") : "unknown");
    add_fact(content, "Version", text);
    snprintf(text, sizeof text, "%d of %d configurations, in turn", results->count,
             results->configurations);
    add_fact(content, "Runs", text);
    add_fact(content, "PyTorch", text_of(member(json, "peers"), "version"));
    for (int i = 0; i < results->count; i++) {
        const cJSON *own = member(results->runs[i].run, "machine");
        if (own != NULL && machine != NULL) {
            bool peer = results->runs[i].peer[0] != '\0'; /* which words it in its own way */
            differ |=
                !same_text(own, machine, "host") ||
                (!peer && (!same_text(own, machine, "cpu") || !same_text(own, machine, "gpu")));
        }
        machine = machine != NULL ? machine : own;
    }
    if (differ) {
        add_caution(content, "Runs come from several machines, so their times do not compare; the "
                             "machine below is that of the first run.");
    }
    add_machine(content, machine);
}

/* --- tables and charts --- */

static void add_tables(Content *content)
{
    const cJSON *entries = member(content->results.json, "tables");
    cJSON *standard = NULL;
    if (!cJSON_IsArray(entries) || entries->child == NULL) {
        standard = cJSON_Parse("[{\"title\":\"Summary\",\"per\":\"configuration\",\"columns\":["
                               "\"configuration\",\"total_s\",\"tok_s\",\"train_loss\","
                               "\"val_loss\",\"peak_bytes\"]}]");
        entries = standard;
    }
    content->tables = mem_zalloc(MAX_TABLES, sizeof *content->tables);
    for (const cJSON *entry = entries != NULL ? entries->child : NULL;
         entry != NULL && content->table_count < MAX_TABLES; entry = entry->next) {
        if (table_make(&content->results, entry, &content->tables[content->table_count]) == 0) {
            content->table_count++;
        } else {
            log_warn("%s", err_message());
            add_caution(content, "A table is missing: %s.", err_message());
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
    content->charts = mem_zalloc(MAX_CHARTS, sizeof *content->charts);
    const cJSON *entries = member(content->results.json, "charts");
    bool able = true;
    for (const cJSON *entry = cJSON_IsArray(entries) ? entries->child : NULL;
         code == 0 && entry != NULL && content->chart_count < MAX_CHARTS; entry = entry->next) {
        ContentChart *chart = &content->charts[content->chart_count];
        bool drawn = false;
        int problem = chart_read(entry, &chart->chart);
        if (problem == 0) {
            remove_drawing(folder, chart->chart.name);
            problem = able ? chart_draw(&chart->chart, &content->results, folder, &drawn) : 0;
        }
        if (problem != 0) {
            log_warn("%s", err_message());
            add_caution(content, "A chart is missing: %s.", err_message());
            able = able && problem != ERR_FAILED; /* gnuplot will not be there for the next one */
        }
        if (drawn) {
            chart->table = table_of(content, &chart->chart);
            content->chart_count++;
        }
    }
    free(folder);
    return code;
}

int content_make(Content *content, const char *dir, const char *out)
{
    *content = (Content){0};
    int code = results_read(&content->results, dir);
    if (code != 0) {
        return code;
    }
    const cJSON *json = content->results.json;
    const char *title = text_of(json, "title"), *name = text_of(json, "name");
    const char *about = text_of(json, "about");
    content->title = title != NULL ? title : name != NULL ? name : "Experiment";
    content->about = about != NULL ? about : "";
    add_cautions(content);
    findings_make(&content->results, &content->findings);
    add_tables(content);
    code = add_charts(content, out);
    add_facts(content);
    if (code != 0) {
        content_free(content);
    }
    return code;
}

void content_free(Content *content)
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
    free(content->tables);
    free(content->charts);
    free(content->cautions);
    free(content->facts);
    findings_free(&content->findings);
    results_free(&content->results);
    *content = (Content){0};
}
