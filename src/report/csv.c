#include "report/csv.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "report/page.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 8

/* --- trees to leaves --- */

static int flatten(const cJSON *item, const char *name, int depth, FlatTake *take, void *context)
{
    bool nested = cJSON_IsObject(item) || cJSON_IsArray(item);
    if (!nested || depth == MAX_DEPTH) {
        return take(context, name, item);
    }
    int code = 0, index = 0;
    for (const cJSON *child = item->child; code == 0 && child != NULL; child = child->next) {
        const char *dot = name[0] != '\0' ? "." : "";
        char *inner = cJSON_IsObject(item) ? mem_format("%s%s%s", name, dot, child->string)
                                           : mem_format("%s%s%d", name, dot, index++);
        code = flatten(child, inner, depth + 1, take, context);
        free(inner);
    }
    return code;
}

int csv_flatten(const cJSON *tree, FlatTake *take, void *context)
{
    return tree != NULL ? flatten(tree, "", 0, take, context) : 0;
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

int csv_column(Csv *csv, const char *name)
{
    if (find_column(csv, name) >= 0) {
        return 0;
    }
    if (csv->count == CSV_MAX_COLUMNS) {
        return err_set(ERR_INPUT,
                       "more than %d different names; the record is damaged, or not pacer's",
                       CSV_MAX_COLUMNS);
    }
    csv->names = mem_realloc(csv->names, (size_t)csv->count + 1, sizeof *csv->names);
    csv->names[csv->count++] = mem_strdup(name);
    return 0;
}

static int add_column(void *csv, const char *name, const cJSON *leaf)
{
    (void)leaf;
    return csv_column(csv, name);
}

int csv_columns_of(Csv *csv, const cJSON *tree)
{
    return csv_flatten(tree, add_column, csv);
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

static int write_row(Csv *csv, char *const *cells)
{
    Page row = {0};
    for (int i = 0; i < csv->count; i++) {
        page_put(&row, "%s", i > 0 ? "," : "");
        if (cells[i] != NULL) {
            put_cell(&row, cells[i]);
        }
    }
    page_put_bytes(&row, "\n", 1);
    int code = output_put(csv->output, row.text, row.size);
    page_free(&row);
    return code;
}

int csv_open(Csv *csv, const char *folder, const char *name)
{
    char *path = io_join(folder, name);
    int code = output_open(path, &csv->output);
    free(path);
    if (code != 0) {
        csv->output = NULL;
        return code;
    }
    csv->cells = mem_zalloc((size_t)csv->count + 1, sizeof *csv->cells);
    csv->expected = 0;
    return write_row(csv, csv->names);
}

void csv_put_text(Csv *csv, const char *column, const char *text)
{
    int found = text != NULL ? find_column(csv, column) : -1;
    if (found >= 0) {
        free(csv->cells[found]);
        csv->cells[found] = mem_strdup(text);
    }
}

void csv_put(Csv *csv, const char *column, const cJSON *leaf)
{
    if (cJSON_IsString(leaf)) {
        csv_put_text(csv, column, leaf->valuestring);
    } else if (leaf != NULL && !cJSON_IsNull(leaf)) {
        char *printed = cJSON_PrintUnformatted(leaf);
        csv_put_text(csv, column, printed);
        cJSON_free(printed);
    }
}

static int put_leaf(void *csv, const char *name, const cJSON *leaf)
{
    csv_put(csv, name, leaf);
    return 0;
}

void csv_put_tree(Csv *csv, const cJSON *tree)
{
    csv_flatten(tree, put_leaf, csv);
}

int csv_end_row(Csv *csv)
{
    int code = write_row(csv, csv->cells);
    for (int i = 0; i < csv->count; i++) {
        free(csv->cells[i]);
        csv->cells[i] = NULL;
    }
    csv->expected = 0;
    return code;
}

int csv_close(Csv *csv, int code)
{
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
