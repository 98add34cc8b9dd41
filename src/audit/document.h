#pragma once
/* A file as lines that know what they are: a heading, a row of a table, text or nothing. CSV files
 * are one table, and tables in HTML are as those with bars. Sizes are bounded: lines longer than
 * DOCUMENT_LINE_SIZE and lines past DOCUMENT_MAX_LINES are cut off. */
#include <stdbool.h>

#define DOCUMENT_MAX_BYTES (16 << 20)
#define DOCUMENT_MAX_LINES 200000
#define DOCUMENT_LINE_SIZE 4096
#define DOCUMENT_MAX_CELLS 64

typedef enum { LINE_BLANK, LINE_HEADING, LINE_TABLE_HEADER, LINE_TABLE_ROW, LINE_TEXT } LineKind;

typedef struct {
    char *text; /* of the document, without marks, bullets, links, footnotes, time stamps */
    LineKind kind;
    int level;   /* of a heading, from 1 */
    bool item;   /* a bullet or a numbered line */
    int indent;  /* of a bullet: blanks before it */
    bool code;   /* between fences */
    bool joined; /* blank, within a table: a row may take several lines */
} Line;

typedef struct {
    char *text; /* the file; lines point into it */
    Line *lines;
    int count;      /* line i has number i + 1 */
    char delimiter; /* of its tables: '|', or of a CSV file */
    bool cut;       /* more lines than were read */
} Document;

int document_read(const char *path, Document *document);
void document_free(Document *document);

/* The line behind the table whose header is line `header`. */
int document_table_end(const Document *document, int header);

/* Splits a copy of a table row into trimmed cells, quotes removed. Returns their number. */
int document_cells(const Document *document, const Line *line, char copy[DOCUMENT_LINE_SIZE],
                   char *cells[DOCUMENT_MAX_CELLS]);
