#pragma once
/* Tables of an experiment: what an entry of experiment.json's "tables" asks for, as cells of
 * plain text. */
#include "report/metric.h"
#include "report/page.h"

#define TABLE_MAX_COLUMNS 64

typedef struct {
    char *title;
    int columns, rows, cell_count;
    Metric *heads;  /* of the columns; those that are no text are aligned to the right */
    char **cells;   /* row-major, rows x columns, plain text; a dash where a value is missing */
    double *values; /* of the cells, to sort by; NAN: text, or missing */
    char **notes;   /* below the table, such as what is no measurement of scaling; plain text */
    int note_count;
} Table;

/* A row per configuration (mean, and +- half of the 95 % confidence interval with two repeats or
 * more), run or rank. ERR_INPUT naming the table and what is wrong with its entry; nothing is to
 * be freed then. */
int table_make(const Results *results, const cJSON *entry, Table *table);

/* A table made by hand: its title, which it takes, and columns, "Run|#Repeat|State", those of
 * numbers with a sign in front; then cells, row by row, which take text but for table_add_text.
 * table_add_note leaves out what is there already. */
void table_begin(Table *table, char *title, const char *columns);
void table_add_column(Table *table, const char *title, bool numeric);
void table_add_cell(Table *table, char *text);
void table_add_text(Table *table, const char *text);
void table_add_value(Table *table, char *text, double value);          /* a cell of a number */
void table_add_number(Table *table, const char *format, double value); /* NAN: missing */
void table_add_note(Table *table, char *text);

/* "1.25 k +- 0.02 k", or the mean alone. Caller frees. */
char *estimate_text(const Metric *metric, Estimate estimate);

void table_free(Table *table); /* a no-op on a zeroed one */

/* As Markdown, without the title. */
void table_put(const Table *table, Page *markdown);
