#include "report/csv.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "report/page.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 8

/* --- trees to leaves --- */

static void flatten(Csv *csv, const cJSON *item, const char *name, int depth, CsvTake *take)
{
    bool nested = cJSON_IsObject(item) || cJSON_IsArray(item);
    if (!nested || depth == MAX_DEPTH) {
        take(csv, name, item);
        return;
    }
    int index = 0;
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        const char *dot = name[0] != '\0' ? "." : "";
        char *inner = cJSON_IsObject(item) ? mem_format("%s%s%s", name, dot, child->string)
                                           : mem_format("%s%s%d", name, dot, index++);
        flatten(csv, child, inner, depth + 1, take);
        free(inner);
    }
}

void csv_flatten(Csv *csv, const cJSON *tree, CsvTake *take)
{
    if (tree != NULL) {
        flatten(csv, tree, "", 0, take);
    }
}

/* --- columns --- */

static int find_column(Csv *csv, const char *name)
{
    for (int i = 0; i < csv->count; i++) {
        int column = (csv->expected + i) % csv->count;
        if (strcmp(csv->names[column], name) == 0) {
            csv->expected = (column + 1) % csv->count;
            return column;
        }
    }
    return -1;
}

void csv_column(Csv *csv, const char *name)
{
    if (csv->code != 0 || find_column(csv, name) >= 0) {
        return;
    }
    if (csv->count == CSV_MAX_COLUMNS) {
        csv->code = err_set(ERR_INPUT,
                            "more than %d different names; the record is damaged, or not pacer's",
                            CSV_MAX_COLUMNS);
        return;
    }
    csv->names = mem_realloc(csv->names, (size_t)csv->count + 1, sizeof *csv->names);
    csv->names[csv->count++] = mem_strdup(name);
}

/* --- rows --- */

/* -1.5 or +2e-3; not hexadecimal, and no word such as -inf. */
static bool is_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return end != text && *end == '\0' && text[strspn(text, "+-.0123456789eE")] == '\0';
}

/* Spreadsheets compute what begins so, unless an apostrophe stands before it. */
static bool is_formula(const char *text)
{
    return text[0] != '\0' && strchr("=+-@\t\r\n", text[0]) != NULL && !is_number(text);
}

/* Quotes what would otherwise end the cell, a quote doubled. */
static void put_cell(Page *row, const char *text)
{
    const char *quote = text[strcspn(text, ",\"\r\n")] != '\0' ? "\"" : "";
    page_put(row, "%s%s", quote, is_formula(text) ? "'" : "");
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            page_put(row, "\"");
        }
        page_put_bytes(row, text, 1);
    }
    page_put(row, "%s", quote);
}

static void write_row(Csv *csv, char *const *cells)
{
    Page row = {0};
    for (int i = 0; i < csv->count; i++) {
        page_put(&row, "%s", i > 0 ? "," : "");
        if (cells[i] != NULL) {
            put_cell(&row, cells[i]);
        }
    }
    page_put_bytes(&row, "\n", 1);
    csv->code = output_put(csv->output, row.text, row.size);
    page_free(&row);
}

void csv_open(Csv *csv, const char *folder, const char *name)
{
    if (csv->code != 0) {
        return;
    }
    char *path = io_join(folder, name);
    csv->code = output_open(path, &csv->output);
    free(path);
    if (csv->code == 0) {
        csv->cells = mem_zalloc((size_t)csv->count, sizeof *csv->cells);
        csv->expected = 0;
        write_row(csv, csv->names);
    } else {
        csv->output = NULL;
    }
}

void csv_put_text(Csv *csv, const char *column, const char *text)
{
    if (csv->output == NULL) {
        csv_column(csv, column);
        return;
    }
    int found = text != NULL ? find_column(csv, column) : -1;
    if (found >= 0) {
        mem_set_text(&csv->cells[found], text);
    }
}

void csv_put(Csv *csv, const char *column, const cJSON *leaf)
{
    bool printed = leaf != NULL && !cJSON_IsString(leaf) && !cJSON_IsNull(leaf);
    char *text = printed ? cJSON_PrintUnformatted(leaf) : NULL;
    csv_put_text(csv, column, printed ? text : cJSON_GetStringValue(leaf));
    cJSON_free(text);
}

void csv_put_tree(Csv *csv, const cJSON *tree)
{
    csv_flatten(csv, tree, csv_put);
}

void csv_end_row(Csv *csv)
{
    if (csv->output != NULL && csv->code == 0) {
        write_row(csv, csv->cells);
    }
    for (int i = 0; csv->output != NULL && i < csv->count; i++) {
        free(csv->cells[i]);
        csv->cells[i] = NULL;
    }
    csv->expected = 0;
}

int csv_close(Csv *csv)
{
    int code = csv->code;
    if (csv->output != NULL && code == 0) {
        code = output_commit(csv->output);
    } else {
        output_abandon(csv->output);
    }
    for (int i = 0; i < csv->count; i++) {
        free(csv->names[i]);
        if (csv->cells != NULL) {
            free(csv->cells[i]);
        }
    }
    free(csv->names);
    free(csv->cells);
    *csv = (Csv){0};
    return code;
}
