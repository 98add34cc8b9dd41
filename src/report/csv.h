#pragma once
/* A CSV file from JSON: columns are known before the first row, cells are found by the name of
 * their column. Until csv_open, what is put makes columns; from then on, cells. Quoting follows
 * RFC 4180; lines end with a newline alone; text that a spreadsheet would compute gets an
 * apostrophe before it. The file appears under its name when it is complete. */
#include "base/output.h"

#include <cjson/cJSON.h>

#define CSV_MAX_COLUMNS 4096

typedef struct {
    char **names; /* of the columns */
    char **cells; /* of the row that is being filled; NULL: empty */
    int count;
    int expected; /* column that is looked at first: rows have their names in one order */
    Output *output;
    int code; /* of the first error, after which nothing is done */
} Csv;        /* zeroed: no columns */

/* Adds the column unless it is there. ERR_INPUT above CSV_MAX_COLUMNS. */
void csv_column(Csv *csv, const char *name);

/* Begins the file with the line of the columns' names. */
void csv_open(Csv *csv, const char *folder, const char *name);

/* Cells of the row; a column that is not there is passed over, so is text NULL. A JSON number
 * keeps all its digits, null is empty. */
void csv_put_text(Csv *csv, const char *column, const char *text);
void csv_put(Csv *csv, const char *column, const cJSON *leaf);
void csv_put_tree(Csv *csv, const cJSON *tree); /* each leaf: "memory.categories.0.kind" */
void csv_end_row(Csv *csv);

/* Completes the file, or leaves none after an error, whose code it returns; frees. */
int csv_close(Csv *csv);

/* Calls take for every leaf with its dotted name: text, number, boolean, null, and whatever is
 * nested deeper than records are. */
typedef void CsvTake(Csv *csv, const char *name, const cJSON *leaf);
void csv_flatten(Csv *csv, const cJSON *tree, CsvTake *take);
