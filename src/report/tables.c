#include "report/tables.h"

#include "base/err.h"
#include "base/mem.h"
#include "report/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_MOST 599       /* bytes of a text, such as the reason of a failure */
#define DASH "\xe2\x80\x93" /* en dash */
#define PLUS_MINUS "\xc2\xb1"

typedef enum { PER_CONFIGURATION, PER_RUN, PER_RANK } RowKind;

/* --- the entry --- */

static int read_kind(const cJSON *entry, const char *title, RowKind *kind)
{
    static const char *const names[] = {"configuration", "run", "rank"};
    const cJSON *per = json_get(entry, "per");
    *kind = PER_CONFIGURATION;
    if (per == NULL) {
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        if (cJSON_IsString(per) && strcmp(per->valuestring, names[i]) == 0) {
            *kind = (RowKind)i;
            return 0;
        }
    }
    return err_set(ERR_INPUT, "table \"%s\": \"per\" is not configuration, run or rank", title);
}

/* Rows of several programs need to say which, unless a column does already. */
static bool lacks_program(const Results *results, const cJSON *columns)
{
    const cJSON *column;
    cJSON_ArrayForEach(column, columns)
    {
        const char *name = cJSON_GetStringValue(column);
        if (name != NULL && (strcmp(name, "program") == 0 || strcmp(name, "configuration") == 0)) {
            return false;
        }
    }
    return results_have_peers(results);
}

static int read_columns(const Results *results, const cJSON *entry, const char *title, Table *table)
{
    const cJSON *columns = json_get(entry, "columns"), *column;
    int count = cJSON_GetArraySize(columns);
    if (!cJSON_IsArray(columns) || count < 1 || count > TABLE_MAX_COLUMNS) {
        return err_set(ERR_INPUT, "table \"%s\": \"columns\" is not a list of 1 to %d names", title,
                       TABLE_MAX_COLUMNS);
    }
    table->heads = mem_zalloc((size_t)count + 1, sizeof *table->heads);
    if (lacks_program(results, columns)) {
        metric_find("program", &table->heads[table->columns++]);
    }
    cJSON_ArrayForEach(column, columns)
    {
        if (!cJSON_IsString(column)) {
            return err_set(ERR_INPUT, "table \"%s\": a column is no name", title);
        }
        int code = metric_find(column->valuestring, &table->heads[table->columns++]);
        if (code != 0) {
            return err_wrap(code, "table \"%s\"", title);
        }
    }
    return 0;
}

/* --- cells --- */

void table_add_column(Table *table, const char *title, bool numeric)
{
    table->heads = mem_realloc(table->heads, (size_t)table->columns + 1, sizeof *table->heads);
    Metric *head = &table->heads[table->columns++];
    *head = (Metric){.unit = numeric ? UNIT_RATIO : UNIT_TEXT};
    snprintf(head->title, sizeof head->title, "%s", title);
}

void table_begin(Table *table, char *title, const char *columns)
{
    *table = (Table){.title = title};
    while (*columns != '\0') {
        bool numeric = *columns == '#';
        size_t length = strcspn(columns += numeric, "|");
        char *head = mem_format("%.*s", (int)length, columns);
        table_add_column(table, head, numeric);
        free(head);
        columns += length + (columns[length] == '|');
    }
}

void table_add_cell(Table *table, char *text)
{
    table_add_value(table, text, NAN);
}

void table_add_text(Table *table, const char *text)
{
    table_add_value(table, mem_strdup(text), NAN);
}

void table_add_number(Table *table, const char *format, double value)
{
    char text[64] = "";
    if (!isnan(value)) {
        snprintf(text, sizeof text, format, value); // NOLINT(clang-diagnostic-format-nonliteral)
    }
    table_add_value(table, mem_strdup(text), value);
}

void table_add_value(Table *table, char *text, double value)
{
    size_t count = (size_t)table->cell_count;
    table->cells = mem_double(table->cells, count, sizeof *table->cells);
    table->values = mem_double(table->values, count, sizeof *table->values);
    table->cells[count] = text[0] != '\0' ? mem_format("%.*s", CELL_MOST, text) : mem_strdup(DASH);
    table->values[count] = value;
    table->cell_count++;
    table->rows = table->cell_count / table->columns;
    free(text);
}

void table_add_note(Table *table, char *text)
{
    for (int i = 0; i < table->note_count; i++) {
        if (strcmp(table->notes[i], text) == 0) {
            free(text);
            return;
        }
    }
    table->notes = mem_realloc(table->notes, (size_t)table->note_count + 1, sizeof *table->notes);
    table->notes[table->note_count++] = text;
}

/* "done", or "2 done, 1 failed". */
static char *states_text(const Results *results, int configuration)
{
    int counts[RUN_STATE_COUNT] = {0}, all = 0;
    for (const Result *run = NULL; (run = results_next(results, configuration, run)) != NULL;) {
        counts[run->state]++;
        all++;
    }
    Page text = {0};
    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        const char *name = run_state_name((RunState)state);
        if (counts[state] == all) {
            page_put(&text, "%s", name);
        } else if (counts[state] > 0) {
            page_put(&text, "%s%d %s", text.size > 0 ? ", " : "", counts[state], name);
        }
    }
    return text.text;
}

char *estimate_text(const Metric *metric, Estimate estimate)
{
    bool spread = estimate.half > 0;
    return mem_format("%s%s%s", unit_format(metric->unit, estimate.mean).text,
                      spread ? " " PLUS_MINUS " " : "",
                      spread ? unit_format(metric->unit, estimate.half).text : "");
}

/* value: the number behind the text, NAN where there is none. */
static char *configuration_cell(Table *table, const Metric *head, const Results *results,
                                const Result *first, double *value)
{
    int configuration = first->configuration;
    const Result *run = first;
    if (strcmp(head->name, "state") == 0) {
        return states_text(results, configuration);
    }
    if (strcmp(head->name, "reason") == 0) {
        while (run != NULL && run->reason[0] == '\0') {
            run = results_next(results, configuration, run);
        }
        return mem_strdup(run != NULL ? run->reason : "");
    }
    if (head->unit == UNIT_TEXT || results_axis_of(results, head->name) >= 0) {
        *value = metric_value(head, results, first, -1);
        return metric_text(head, results, first, -1);
    }
    Estimate estimate = metric_estimate(head, results, configuration);
    *value = estimate.mean;
    if (strcmp(head->name, "repeat") == 0) {
        *value = estimate.count;
        return mem_format("%d", estimate.count); /* how many there are */
    }
    if (estimate.half > 0) {
        table_add_note(table, mem_strdup(PLUS_MINUS " is half of the 95 % confidence interval of "
                                                    "the mean over the repeats that are done "
                                                    "(Student's t)."));
    }
    char *text = estimate_text(head, estimate);
    /* What is planned and predicted is known of runs that never ended, too. */
    static const char *const known_before[] = {"planned_bytes", "predicted_s", NULL};
    bool ahead = metric_is_one_of(head->name, known_before);
    for (; ahead && run != NULL && text[0] == '\0';
         run = results_next(results, configuration, run)) {
        free(text);
        text = metric_text(head, results, run, -1);
        *value = metric_value(head, results, run, -1);
    }
    return text;
}

/* A row of a run (rank -1), one of its ranks, or its configuration. */
static void put_row(Table *table, const Results *results, RowKind kind, const Result *result,
                    int rank)
{
    for (int column = 0; column < table->columns; column++) {
        const Metric *head = &table->heads[column];
        int of = head->per_rank ? rank : -1; /* what no rank has of its own is the same for all */
        double value = NAN;
        char *text;
        if (kind == PER_CONFIGURATION) {
            text = configuration_cell(table, head, results, result, &value);
        } else {
            text = metric_text(head, results, result, of);
            value = metric_value(head, results, result, of);
        }
        table_add_value(table, text, value);
    }
}

static bool is_about_scaling(const Table *table)
{
    static const char *const names[] = {"speedup", "speedup_mean", "efficiency", "amdahl", NULL};
    int column = 0;
    while (column < table->columns && !metric_is_one_of(table->heads[column].name, names)) {
        column++;
    }
    return column < table->columns;
}

static void add_cautions(Table *table, const Results *results)
{
    char *shared = is_about_scaling(table) ? results_oversubscribed(results) : NULL;
    if (shared != NULL) {
        table_add_note(table,
                       mem_format("%s: ranks shared a device, no measurement of scaling.", shared));
    }
    free(shared);
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        if (result->state == RUN_DONE && !result->sound) {
            table_add_note(table, mem_format("%s, repeat %d: checks of the run itself failed.",
                                             result->label, result->repeat + 1));
        }
    }
}

int table_make(const Results *results, const cJSON *entry, Table *table)
{
    *table = (Table){0};
    const char *title = json_text(entry, "title");
    table->title = mem_strdup(title != NULL ? title : "");
    RowKind kind;
    int code = read_kind(entry, table->title, &kind);
    code = code != 0 ? code : read_columns(results, entry, table->title, table);
    if (code != 0) {
        table_free(table);
        return code;
    }
    for (int i = 0; kind == PER_CONFIGURATION && i < results->configurations; i++) {
        const Result *first = results_first(results, i);
        if (first != NULL) {
            put_row(table, results, kind, first, -1);
        }
    }
    for (int i = 0; kind != PER_CONFIGURATION && i < results->count; i++) {
        const Result *run = &results->runs[i];
        for (int rank = 0; kind == PER_RANK && rank < run->rank_count; rank++) {
            if (run->ranks[rank] != NULL) {
                put_row(table, results, kind, run, rank);
            }
        }
        if (kind == PER_RUN) {
            put_row(table, results, kind, run, -1);
        }
    }
    add_cautions(table, results);
    return 0;
}

void table_free(Table *table)
{
    mem_free_list(table->cells, (size_t)table->cell_count);
    mem_free_list(table->notes, (size_t)table->note_count);
    free(table->values);
    free(table->heads);
    free(table->title);
    *table = (Table){0};
}

/* --- Markdown --- */

void table_put(const Table *table, Page *markdown)
{
    for (int column = 0; column < table->columns; column++) {
        page_put(markdown, "| ");
        page_put_markdown(markdown, table->heads[column].title);
        page_put(markdown, " ");
    }
    page_put(markdown, "|\n");
    for (int column = 0; column < table->columns; column++) {
        page_put(markdown, "| %s ", table->heads[column].unit != UNIT_TEXT ? "---:" : "---");
    }
    page_put(markdown, "|\n");
    for (int cell = 0; cell < table->rows * table->columns; cell++) {
        page_put(markdown, "| ");
        page_put_markdown(markdown, table->cells[cell]);
        page_put(markdown, (cell + 1) % table->columns == 0 ? " |\n" : " ");
    }
    for (int i = 0; i < table->note_count; i++) {
        page_put(markdown, "\n");
        page_put_markdown(markdown, table->notes[i]);
        page_put(markdown, "\n");
    }
}
