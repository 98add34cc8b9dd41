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

int grid_line(const Grid *grid, int row, int column)
{
    return grid->lines[grid->turned ? column : row];
}

/* Words behind a change that do not make it another: "9.1x fewer", "-13 % (better)"; `first`: the
 * first of them says that it is a speed-up. */
static bool is_remark(const char *rest, const Number *number, bool *first)
{
    static const char others[] = " abs | absolute | pp | points | point | pts | peak | per ";
    char phrase[PHRASE_SIZE];
    size_t length;
    phrase_make(rest, strlen(rest), phrase);
    *first = phrase_find(phrase, " vs | faster | slower | speedup | speed up ", &length) == phrase;
    return (number->unit == UNIT_TIMES || number->unit == UNIT_PERCENT) &&
           strpbrk(rest, "0123456789") == NULL && !scan_has_any(rest, others);
}

/* The number of a cell that holds nothing else, its sign as it is written: "+10.7 %", "-2.5 %".
 * *rest is what stands behind it. */
static bool read_number(const char *text, Number *number, const char **rest)
{
    bool negative = strncmp(text, "\xe2\x88\x92", 3) == 0 || strncmp(text, "\xe2\x80\x93", 3) == 0;
    text += negative ? 3 : text[0] == '+';
    size_t length = number_read(text, false, number);
    if (length == 0 || number->open || number->range) {
        return false;
    }
    *rest = text + length + strspn(text + length, " *");
    if (number->unit == UNIT_DOLLARS &&
        word_is_one_of(*rest, strlen(*rest), "/ hour|/hour|/ hr|/hr|/ h|/h")) {
        *rest = "";
    }
    if (negative) {
        double low = number->low;
        number->low = -number->high;
        number->high = -low;
        number->value = -number->value;
    }
    return true;
}

/* The share in brackets behind a number: "2,943,757 (2.9M, 11.8%)". */
static bool read_share(const char *rest, Number *share)
{
    const char *last = strrchr(rest, ',');
    last = last != NULL ? last + 1 + strspn(last + 1, " ") : rest + (*rest == '(');
    size_t end = *rest == '(' ? number_read(last, false, share) : 0;
    return end > 0 && share->unit == UNIT_PERCENT && !share->range && !share->open &&
           strcmp(last + end, ")") == 0;
}

/* Reads a cell of a column; *remarks counts those that say in words that they are speed-ups. */
static void read_cell(const char *text, bool comparing, Cell *cell, int *remarks)
{
    const char *rest;
    bool first = false;
    if (read_number(text, &cell->number, &rest)) {
        cell->shared = read_share(rest, &cell->share);
        bool error = strncmp(rest, "\xc2\xb1", 2) == 0; /* "0.2477 +- 0.0186" */
        bool remark = is_remark(rest, &cell->number, &first);
        cell->is = *rest == '\0' || error || (remark && (comparing || first));
        *remarks += *rest != '\0' && remark && first;
    }
}

static RowKind kind_of(const char *label)
{
    static const char sums[] =
        " total | sum | total step | step total | grand total | overall total ";
    size_t length = strlen(label);
    return word_is_one_of(label, length, sums)                        ? ROW_SUM
           : word_is_one_of(label, length, " mean | average | avg ")  ? ROW_MEAN
           : scan_has_any(label, " total | totals | subtotal | sum ") ? ROW_PART
                                                                      : ROW_PLAIN;
}

/* Words of comparison, also a Greek delta, the Chinese for difference and its Romance names. */
static bool is_comparing(const char *name)
{
    static const char words[] =
        " ratio | delta | diff | difference | change | improvement | gain | saving | savings |"
        " reduction | overhead | increase | decrease | speedup | speed up | margin | percent |"
        " percentage | share | fraction | proportion | of total | strong scaling | weak scaling ";
    return scan_has_any(name, words) || strcmp(name, "%") == 0 || strstr(name, "iferen") != NULL ||
           strstr(name, "\xce\x94") != NULL || strstr(name, "\xe5\xb7\xae\xe5\xbc\x82") != NULL;
}

static void allocate(Grid *grid, size_t rows)
{
    size_t columns = (size_t)grid->columns;
    grid->names = mem_zalloc(columns, sizeof *grid->names);
    grid->labels = mem_zalloc(rows, sizeof *grid->labels);
    grid->lines = mem_zalloc(rows + columns, sizeof *grid->lines);
    grid->kinds = mem_zalloc(rows, sizeof *grid->kinds);
    grid->changes = mem_zalloc(rows, sizeof *grid->changes);
    grid->cells = mem_zalloc(rows * columns, sizeof *grid->cells);
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
    allocate(grid, (size_t)(end - header));
    int remarks[DOCUMENT_MAX_CELLS] = {0};
    for (int i = 0; i < grid->columns; i++) {
        const char *digits = cells[i] + strcspn(cells[i], "0123456789");
        if (number_read(digits, false, &grid->heads[i]) == 0) {
            grid->heads[i].value = 0;
        }
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
        grid->changes[row] = is_comparing(cells[0]);
        for (int i = 0; i < count && i < grid->columns; i++) {
            read_cell(cells[i], grid->comparing[i] || grid->changes[row],
                      &grid->cells[row * grid->columns + i], &remarks[i]);
        }
    }
    for (int i = 1; i < grid->columns; i++) {
        grid->comparing[i] |= remarks[i] >= 2;
    }
    return true;
}

bool grid_read_list(const Document *document, int first, int *end, Grid *grid)
{
    const Line *lines = document->lines;
    *grid = (Grid){.document = document, .header = first, .columns = 2};
    for (*end = first; *end < document->count && lines[*end].item && *end - first < 100;) {
        ++*end;
    }
    if (*end - first < 3) {
        return false;
    }
    allocate(grid, (size_t)(*end - first));
    for (int i = first; i < *end; i++) {
        const char *text = lines[i].text, *colon = strchr(text, ':'), *rest = "";
        Cell *cell = &grid->cells[2 * grid->rows + 1];
        grid->lines[grid->rows] = i + 1;
        if (colon != NULL && lines[i].indent == lines[first].indent) {
            const char *value = colon + 1 + strspn(colon + 1, " ");
            size_t key = strcspn(text, ":(");
            phrase_make(text, key, grid->labels[grid->rows]);
            grid->kinds[grid->rows] = kind_of(grid->labels[grid->rows]);
            cell->is = read_number(value, &cell->number, &rest) && strchr("(", *rest) != NULL &&
                       (cell->number.unit == UNIT_BYTES || cell->number.unit == UNIT_SECONDS ||
                        cell->number.unit == UNIT_DOLLARS);
        }
        grid->rows++;
    }
    return true;
}

bool grid_turn(const Grid *grid, Grid *turned)
{
    *turned = (Grid){.document = grid->document, .header = grid->header, .turned = true};
    turned->columns = grid->rows + 1;
    turned->rows = grid->columns - 1;
    if (turned->columns > DOCUMENT_MAX_CELLS) {
        return false;
    }
    allocate(turned, (size_t)grid->columns);
    for (int row = 0; row < grid->rows; row++) {
        memcpy(turned->names[row + 1], grid->labels[row], PHRASE_SIZE);
        turned->lines[row + 1] = grid->lines[row];
        turned->comparing[row + 1] = grid->changes[row];
        for (int i = 1; i < grid->columns; i++) {
            turned->cells[(i - 1) * turned->columns + row + 1] =
                grid->cells[row * grid->columns + i];
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
    free(grid->changes);
    free(grid->cells);
}
