#include "audit/grid.h"

#include "audit/evidence.h"
#include "audit/scan.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

const Cell *grid_at(const Grid *grid, int row, int column)
{
    const Cell *cell = &grid->cells[row * grid->columns + column];
    return cell->is ? cell : NULL;
}

/* The number of a cell that holds nothing else, its sign as it is written: "+10.7 %", "-2.5 %". */
static bool read_cell(const char *text, Number *number)
{
    static const char minus[] = "\xe2\x88\x92";
    static const char *const hour[] = {"/ hour", "/hour", "/ hr", "/hr", "/ h", "/h"};
    bool negative = strncmp(text, minus, 3) == 0;
    text += negative ? 3 : text[0] == '+';
    size_t length = number_read(text, false, number);
    if (length == 0 || number->open || number->range) {
        return false;
    }
    const char *rest = text + length + strspn(text + length, " *");
    for (size_t i = 0; i < sizeof hour / sizeof hour[0] && number->unit == UNIT_DOLLARS; i++) {
        rest = strcasecmp(rest, hour[i]) == 0 ? "" : rest;
    }
    if (negative) {
        double low = number->low;
        number->low = -number->high;
        number->high = -low;
        number->value = -number->value;
    }
    return *rest == '\0';
}

static RowKind kind_of(const char *label)
{
    static const char *const sums[] = {" total ",      " sum ",         " total step ",
                                       " step total ", " grand total ", " overall total "};
    static const char *const means[] = {" mean ", " average ", " avg "};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        if (strcmp(label, sums[i]) == 0) {
            return ROW_SUM;
        }
    }
    for (size_t i = 0; i < sizeof means / sizeof means[0]; i++) {
        if (strcmp(label, means[i]) == 0) {
            return ROW_MEAN;
        }
    }
    static const char *const parts[] = {" total ", " totals ", " subtotal ", " sum "};
    return scan_has_any(label, parts, sizeof parts / sizeof parts[0]) ? ROW_PART : ROW_PLAIN;
}

/* Words of comparison, also a Greek delta and the Chinese for difference. */
static bool is_comparing(const char *name)
{
    static const char *const words[] = {
        " ratio ",          " delta ",       " diff ",     " difference ", " change ",
        " improvement ",    " gain ",        " saving ",   " savings ",    " reduction ",
        " overhead ",       " increase ",    " decrease ", " speedup ",    " speed up ",
        " strong scaling ", " weak scaling "};
    return scan_has_any(name, words, sizeof words / sizeof words[0]) ||
           strstr(name, "\xce\x94") != NULL || strstr(name, "\xe5\xb7\xae\xe5\xbc\x82") != NULL;
}

bool grid_read(const Document *document, int header, Grid *grid)
{
    char copy[DOCUMENT_LINE_SIZE], *cells[DOCUMENT_MAX_CELLS];
    int end = document_table_end(document, header);
    *grid = (Grid){.document = document, .header = header};
    grid->columns = document_cells(document, &document->lines[header], copy, cells);
    if (end - header > TABLE_ROWS_MAX || end - header < 2) {
        return false;
    }
    size_t rows = (size_t)(end - header), columns = (size_t)grid->columns;
    grid->names = mem_zalloc(columns, sizeof *grid->names);
    grid->labels = mem_zalloc(rows, sizeof *grid->labels);
    grid->lines = mem_zalloc(rows, sizeof *grid->lines);
    grid->kinds = mem_zalloc(rows, sizeof *grid->kinds);
    grid->cells = mem_zalloc(rows * columns, sizeof *grid->cells);
    for (int i = 0; i < grid->columns; i++) {
        phrase_make(cells[i], strlen(cells[i]), grid->names[i]);
        grid->percent[i] = strchr(cells[i], '%') != NULL;
        grid->comparing[i] = i > 0 && is_comparing(cells[i]);
    }
    for (int line = header + 1; line < end; line++) {
        if (document->lines[line].kind == LINE_BLANK) {
            continue;
        }
        int count = document_cells(document, &document->lines[line], copy, cells);
        int row = grid->rows++;
        grid->lines[row] = line + 1;
        phrase_make(cells[0], strlen(cells[0]), grid->labels[row]);
        grid->kinds[row] = kind_of(grid->labels[row]);
        for (int i = 0; i < count && i < grid->columns; i++) {
            Cell *cell = &grid->cells[row * grid->columns + i];
            cell->is = read_cell(cells[i], &cell->number);
        }
    }
    return true;
}

void grid_free(Grid *grid)
{
    free(grid->names);
    free(grid->labels);
    free(grid->lines);
    free(grid->kinds);
    free(grid->cells);
}
