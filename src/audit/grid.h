#pragma once
/* A table as a grid of numbers, whatever they are called. */
#include "audit/document.h"
#include "audit/quantity.h"

typedef struct {
    Number number;
    bool is; /* a number and nothing else */
} Cell;

typedef enum { ROW_PLAIN, ROW_SUM, ROW_MEAN, ROW_PART /* of some of the rows */ } RowKind;

typedef struct {
    const Document *document;
    int header; /* its line */
    int rows, columns;
    Cell *cells; /* rows x columns */
    int *lines;  /* number of each row's line */
    RowKind *kinds;
    char (*names)[PHRASE_SIZE];         /* of the columns */
    char (*labels)[PHRASE_SIZE];        /* first cells of the rows */
    bool percent[DOCUMENT_MAX_CELLS];   /* the column is of per cent by its name */
    bool comparing[DOCUMENT_MAX_CELLS]; /* it compares others by its name */
} Grid;

/* Reads the table whose header is line `header`; false: it is too large, or has no rows. */
bool grid_read(const Document *document, int header, Grid *grid);
void grid_free(Grid *grid);

/* The cell, NULL if it holds no number, or more than one. */
const Cell *grid_at(const Grid *grid, int row, int column);
