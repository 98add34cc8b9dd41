#include "report/document.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "record/reader.h"
#include "report/results.h"

#include <stdlib.h>
#include <string.h>

int report_document(const char *dir, Page *json)
{
    Results results;
    bool experiment;
    int code = results_read_any(&results, dir, &experiment);
    if (code != 0) {
        return code;
    }
    cJSON *document = json_object();
    json_put_text(document, "title", json_text_or(results.json, "title", dir));
    json_put_text(document, "subtitle", json_text(results.json, "about"));
    cJSON *blocks = json_put_array(document, "blocks"), *table = json_object();
    json_append(blocks, table);
    json_put_text(table, "type", "table");
    json_put_text(table, "title", "Runs");
    static const char *const titles[] = {"run", "state", "loss", "validation", "tokens/s"};
    static const char *const paths[] = {"", "", "summary.train_loss", "summary.val_loss",
                                        "summary.tok_s"};
    cJSON *columns = json_put_array(table, "columns"), *rows = json_put_array(table, "rows");
    for (int i = 0; i < 5; i++) {
        cJSON *column = json_object();
        json_put_text(column, "title", titles[i]);
        json_put_bool(column, "numeric", i >= 2);
        json_append(columns, column);
    }
    for (int r = 0; r < results.count; r++) {
        cJSON *row = json_object(), *cells = json_put_array(row, "cells");
        cJSON *values = json_put_array(row, "values");
        json_append_text(cells, results.runs[r].label != NULL ? results.runs[r].label : "");
        json_append_text(cells, run_state_words(results.runs[r].state));
        json_append(values, cJSON_CreateNull());
        json_append(values, cJSON_CreateNull());
        for (int i = 2; i < 5; i++) {
            double value = json_number(results.runs[r].run, paths[i]);
            char text[32];
            snprintf(text, sizeof text, "%.5g", value);
            json_append_text(cells, value == value ? text : "");
            json_append(values, value == value ? cJSON_CreateNumber(value) : cJSON_CreateNull());
        }
        json_append(rows, row);
    }
    char *line = json_line(document), *safe = escape_json(line);
    page_put_bytes(json, safe, strlen(safe));
    free(safe);
    free(line);
    cJSON_Delete(document);
    results_free(&results);
    return 0;
}
