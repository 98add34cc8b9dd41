#pragma once
/* A table as a grid of numbers, whatever they are called. */
#include "audit/document.h"
#include "audit/findings.h"

typedef struct {
    Number number; /* that it begins with */
    Number share;  /* in brackets behind it */
    bool is;       /* a number and nothing else */
    bool shared;
} Cell;

typedef enum { ROW_PLAIN, ROW_SUM, ROW_MEAN, ROW_PART /* of some of the rows */ } RowKind;

typedef struct {
    const Document *document;
    int header; /* its line */
    int rows, columns;
    Cell *cells; /* rows x columns */
    int *lines;  /* number of each row's line */
    bool turned; /* the columns were rows: lines are theirs */
    RowKind *kinds;
    bool *changes;                      /* the row compares others by its label */
    Number heads[DOCUMENT_MAX_CELLS];   /* first numbers of the columns' names; 0: none */
    char (*names)[PHRASE_SIZE];         /* of the columns */
    char (*labels)[PHRASE_SIZE];        /* first cells of the rows */
    bool percent[DOCUMENT_MAX_CELLS];   /* the column is of per cent by its name */
    bool comparing[DOCUMENT_MAX_CELLS]; /* it compares others by its name */
} Grid;

/* Reads the table whose header is line `header`; false: it is too large, or has no rows. */
bool grid_read(const Document *document, int header, Grid *grid);
void grid_free(Grid *grid);

/* Reads the list "- Weights: 4 GB" from line `first` on as a table of two columns; *end is the line
 * behind it. */
bool grid_read_list(const Document *document, int first, int *end, Grid *grid);

/* The table with rows for columns; false: it has too many. */
bool grid_turn(const Grid *grid, Grid *turned);

/* Parts of rules_grid: totals, proportions and shares of a table; the total of a list. */
void grid_check_totals(const Grid *grid, Findings *findings);
void grid_check_list(const Grid *grid, Findings *findings);

/* The number of the line that holds a cell. */
int grid_line(const Grid *grid, int row, int column);

/* The cell, NULL if it holds no number, or more than one. */
const Cell *grid_at(const Grid *grid, int row, int column);
