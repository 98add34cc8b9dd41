/* Parts of rules_grid: a row of totals sums the rows above it, columns are in proportion, shares of
 * one whole do not exceed it, and cells of two numbers. */
#include "audit/grid.h"
#include "audit/scan.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define SLACK 0.01
#define GB_SLACK 1.08

/* --- rows of totals and means --- */

typedef struct {
    Number sum;
    double least, most;
    int rows;
    bool whole;   /* every row has a number, of one unit */
    bool counted; /* these and the total are integers, none of them rounded */
} Column;

static Column column_above(const Grid *grid, int column, int from, int to)
{
    Column all = {.least = INFINITY, .most = -INFINITY, .whole = true, .counted = true};
    for (int row = from; row < to; row++) {
        const Cell *cell = grid_at(grid, row, column);
        const Cell *total = grid_at(grid, to, column);
        if (cell == NULL || cell->number.unit != total->number.unit || cell->number.value < 0) {
            all.whole = false;
            return all;
        }
        all.counted &=
            cell->number.counted && total->number.counted && fmod(total->number.value, 100) != 0;
        all.sum = number_add(all.sum, cell->number);
        all.least = fmin(all.least, cell->number.low);
        all.most = fmax(all.most, cell->number.high);
        all.rows++;
    }
    return all;
}

/* Whether some row is itself the sum of the others, or a part of one by its name. */
static bool is_nested(const Grid *grid, int column, int from, int to, double sum)
{
    static const char parts[] =
        " of which | trainable | including | subtotal | incl | active | max | peak ";
    for (int row = from; row < to; row++) {
        double value = grid_at(grid, row, column)->number.value;
        if (fabs(2 * value - sum) <= 0.01 * sum && to - from > 2) {
            return true;
        }
        if (scan_has_any(grid->labels[row], parts)) {
            return true;
        }
    }
    return false;
}

/* Whether a total below the sum is that of the rows that cannot go on beside others. */
static bool can_overlap(const Grid *grid, int column, int from, int to)
{
    static const char beside[] =
        " overlap| async| comm| data | copy | load| transfer| all reduce | allreduce ";
    double sum = 0;
    for (int row = from; row < to; row++) {
        bool aside = scan_has_any(grid->labels[row], beside);
        sum += aside ? 0 : grid_at(grid, row, column)->number.low;
    }
    return grid_at(grid, to, column)->number.high >= sum;
}

static bool is_additive(const Grid *grid, int column)
{
    return !scan_has_any(
        grid->names[column],
        " per | rate | loss | ppl | perplexity | score | acc | accuracy | avg | average | mean |"
        " speedup | ratio | efficiency | mfu | lr | seed | throughput | speed | median | max |"
        " min | peak | p50 | p99 | step | rank | f1 | std | power | best | epoch ");
}

static void check_total(const Grid *grid, int from, int to, Findings *findings)
{
    bool mean = grid->kinds[to] == ROW_MEAN;
    int agree = 0, disagree = 0, wrong = -1;
    double derived = 0;
    for (int column = 1; column < grid->columns; column++) {
        const Cell *total = grid_at(grid, to, column);
        if (total == NULL || to - from < 2 || (!mean && !is_additive(grid, column))) {
            continue;
        }
        Column all = column_above(grid, column, from, to);
        if (!all.whole) {
            continue;
        }
        Number sum = number_multiply(all.sum, number_exact(mean ? 1.0 / all.rows : 1));
        if (number_agrees(sum, total->number, all.counted && !mean ? 1e-9 : 0.005)) {
            agree++;
            continue;
        }
        double value = total->number.value, whole = all.sum.value, one = whole / all.rows;
        bool outside = total->number.high < all.least || total->number.low > all.most;
        bool other =
            !mean && (value <= all.most || fabs(value - one) < 0.02 * one || value > 2 * whole ||
                      value < 0.5 * whole || is_nested(grid, column, from, to, whole) ||
                      (value < whole && can_overlap(grid, column, from, to)));
        if (other || (mean && !outside)) {
            disagree += 2; /* it is something else */
            continue;
        }
        disagree++;
        wrong = column;
        derived = sum.value;
    }
    findings->compared += agree + (disagree == 1);
    if (disagree == 1) {
        finding_add(findings, FINDING_DISAGREES,
                    mean ? "a mean lies among its rows" : "a total is the sum of its rows",
                    grid->lines[to], "%s is stated; the %d rows above make %s",
                    number_text(grid_at(grid, to, wrong)->number), to - from,
                    number_show(derived, grid_at(grid, to, wrong)->number));
    }
}

/* "Total tokens" below "Russian tokens" and "Kazakh tokens": labels that end alike. */
static bool sums_its_kind(const Grid *grid, int from, int to)
{
    static const char counted[] = " tokens | rows | samples | examples | parameters | params |"
                                  " documents | sentences | files | records | words | images ";
    size_t size;
    const char *what = phrase_find(grid->labels[to], counted, &size);
    bool alike = what == grid->labels[to] + strlen(" total") && what[size] == '\0' &&
                 strncmp(grid->labels[to], " total ", 7) == 0 && to - from >= 2;
    for (int row = from; row < to && alike; row++) {
        size_t length = strlen(grid->labels[row]);
        alike = length > size && strcmp(grid->labels[row] + length - size, what) == 0;
    }
    return alike && grid->columns == 2;
}

void grid_check_list(const Grid *grid, Findings *findings)
{
    int from = 0;
    bool parts = false;
    for (int row = 0; row < grid->rows; row++) {
        if (grid->kinds[row] == ROW_PART && !sums_its_kind(grid, from, row)) {
            parts = true;
        } else if (grid->kinds[row] != ROW_PLAIN) {
            if (!parts) {
                check_total(grid, from, row, findings);
            }
            from = row + 1;
            parts = false;
        }
    }
}

/* --- columns in proportion --- */

/* A price per hour and a cost, bytes per parameter and bytes: rows of one amount, b / a. With a
 * product that the name of a column has, "17.8B in" beside tok/s, it is a x b. */
static void check_proportion(const Grid *grid, int a, int b, const Number *product,
                             Findings *findings)
{
    for (int k = 0; k < (product != NULL ? 1 : grid->rows); k++) {
        int agree = 0, disagree = 0, far = -1;
        const Cell *left = grid_at(grid, k, a), *right = grid_at(grid, k, b);
        bool known = left != NULL && right != NULL && left->number.value > 0;
        Number one = product != NULL ? *product
                     : known ? number_divide(right->number, number_exact(left->number.value))
                             : number_exact(0);
        for (int row = 0; row < grid->rows && one.value > 0; row++) {
            const Cell *x = grid_at(grid, row, a), *y = grid_at(grid, row, b);
            if (x != NULL && y != NULL && x->number.value > 0 &&
                (product == NULL || y->number.unit == UNIT_SECONDS)) {
                Number other = product != NULL
                                   ? number_multiply(x->number, y->number)
                                   : number_divide(y->number, number_exact(x->number.value));
                bool good = number_agrees(one, other, SLACK);
                agree += good;
                disagree += !good;
                far = good ? far : row;
            }
        }
        if (agree >= 2 && agree >= 2 * disagree && disagree <= 1) {
            findings->compared += agree + disagree;
            if (disagree == 1 && !finding_said(findings, grid->lines[far])) {
                const Cell *x = grid_at(grid, far, a), *y = grid_at(grid, far, b);
                double needed =
                    product != NULL ? one.value / x->number.value : one.value * x->number.value;
                finding_add(findings, FINDING_DISAGREES,
                            product != NULL ? "tokens per second x time = tokens"
                                            : "two columns are in proportion",
                            grid->lines[far], "%s is stated; by %s it is %s",
                            number_text(y->number), number_text(x->number),
                            number_show(needed, y->number));
            }
            return;
        }
    }
}

static void check_proportions(const Grid *grid, Findings *findings)
{
    static const struct {
        const char *each, *all; /* "": tokens are in the name */
    } pairs[] = {{" hourly ", " cost "},       {" per hour ", " cost "},
                 {" bytes per param", " gb "}, {" bytes per param", " memory "},
                 {" tok per s", ""},           {" tokens per s", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        for (int a = 0; a < grid->columns; a++) {
            for (int b = 0; b < grid->columns && strstr(grid->names[a], pairs[i].each); b++) {
                const Number *head = pairs[i].all[0] == '\0' ? &grid->heads[b] : NULL;
                bool tokens = head == NULL || (head->value >= 1e6 && head->letter != '\0');
                if (a != b && tokens && strstr(grid->names[b], pairs[i].all) != NULL) {
                    check_proportion(grid, a, b, head, findings);
                }
            }
        }
    }
}

/* --- shares of a whole --- */

/* The one row of the total that a row is a share of: "Total rows" for "Russian rows"; -1. */
static int total_of(const Grid *grid, int row)
{
    int total = -1;
    size_t length = strlen(grid->labels[row]);
    const char *last = length > 2 ? memrchr(grid->labels[row], ' ', length - 1) : NULL;
    for (int i = 0; i < grid->rows && last != NULL; i++) {
        if (strncmp(grid->labels[i], " total ", 7) == 0 && i != row &&
            (grid->kinds[i] == ROW_SUM || strstr(grid->labels[i], last) != NULL)) {
            total = total == -1 ? i : -2;
        }
    }
    return total;
}

/* "Russian rows | 2,943,757 (11.8%)" beside "Total rows | 24,883,808". */
static void check_marked_shares(const Grid *grid, int column, Findings *findings)
{
    int agree = 0, disagree = 0, line = 0;
    const Cell *part = NULL, *whole = NULL; /* that disagree */
    for (int row = 0; row < grid->rows; row++) {
        const Cell *cell = &grid->cells[row * grid->columns + column];
        int total = cell->shared ? total_of(grid, row) : -1;
        const Cell *all = total >= 0 ? &grid->cells[total * grid->columns + column] : NULL;
        if (all != NULL && all->number.value > 0 && all->number.unit == cell->number.unit) {
            bool good = number_agrees(number_divide(cell->number, all->number), cell->share, SLACK);
            agree += good;
            disagree += !good;
            part = good ? part : cell;
            whole = good ? whole : all;
            line = good ? line : grid->lines[row];
        }
    }
    findings->compared += agree >= 2 && disagree <= 1 ? agree + disagree : 0;
    if (agree >= 2 && disagree == 1) {
        finding_add(findings, FINDING_DISAGREES, "a share is of its total", line,
                    "%s is stated; %s of %s is %s", number_text(part->share),
                    number_text(part->number), number_text(whole->number),
                    number_show(part->number.value / whole->number.value, part->share));
    }
}

static void check_shares(const Grid *grid, int column, Findings *findings)
{
    static const char parts[] =
        " phase | component | stage | part | operation | kernel | op | section | source | dataset |"
        " subset | domain | corpus | data ";
    double sum = 0;
    int rows = 0, line = 0;
    for (int row = 0; row < grid->rows; row++) {
        const Cell *cell = grid_at(grid, row, column);
        if (cell != NULL && grid->kinds[row] == ROW_PLAIN) {
            bool bare = cell->number.unit == UNIT_NONE;
            sum += bare ? cell->number.value / 100 : cell->number.value;
            line = grid->lines[row];
            rows++;
        }
    }
    if (rows >= 3 && scan_has_any(grid->names[0], parts)) {
        findings->compared++;
        if (sum > 1.05) {
            finding_add(findings, FINDING_DISAGREES,
                        "phases sum to more than their total: they overlap or count twice", line,
                        "%d shares sum to %.4g %%", rows, 100 * sum);
        }
    }
}

/* --- cells of two numbers --- */

typedef struct {
    int within, above; /* cells of memory used and had */
    int line;          /* of the last above */
    Number used, had;
} Memory;

/* "114 GB / 141 GB" of memory: used, of what there is. "2.65 h (2:39 h)": one time twice. */
static void check_pair(const Grid *grid, int row, int column, const char *text, Memory *found,
                       Findings *findings)
{
    static const char memory[] = " memory | vram | mem ";
    Number first, second;
    size_t length = number_read(text, false, &first);
    const char *rest = text + length + strspn(text + length, " ");
    if (length == 0 || first.range || first.open) {
        return;
    }
    size_t clock = *rest == '(' ? number_read_clock(rest + 1, &second) : 0;
    if (clock > 0 && first.unit == UNIT_SECONDS && strcmp(rest + 1 + clock, ")") == 0) {
        findings->compared++;
        if (!number_agrees(first, second, SLACK)) {
            finding_add(findings, FINDING_DISAGREES, "one time, by the clock and as a decimal",
                        grid->lines[row], "%s and %s", number_text(first), number_text(second));
        }
    } else if (*rest == '/' && first.unit == UNIT_BYTES) {
        rest += 1 + strspn(rest + 1, " ");
        size_t end = number_read(rest, false, &second);
        bool whole = end > 0 && rest[end + strspn(rest + end, " ")] == '\0';
        bool named =
            scan_has_any(grid->names[column], memory) || scan_has_any(grid->labels[row], memory);
        if (whole && named && second.unit == UNIT_BYTES) {
            bool above = first.low > GB_SLACK * second.high;
            int within = found->within + !above, times = found->above + above;
            *found = above ? (Memory){within, times, grid->lines[row], first, second} : *found;
            found->within = within;
        }
    }
}

static void check_cells(const Grid *grid, Findings *findings)
{
    char copy[DOCUMENT_LINE_SIZE], *cells[DOCUMENT_MAX_CELLS];
    Memory memory = {.line = 0};
    for (int row = 0; row < grid->rows; row++) {
        const Line *line = &grid->document->lines[grid->lines[row] - 1];
        int count = document_cells(grid->document, line, copy, cells);
        for (int i = 1; i < count && i < grid->columns; i++) {
            if (isdigit((unsigned char)cells[i][0]) || cells[i][0] == '~') {
                check_pair(grid, row, i, cells[i], &memory, findings);
            }
        }
    }
    findings->compared += memory.within > 0 ? memory.within + memory.above : 0;
    if (memory.within > 0 && memory.above == 1) { /* else it may be of two things */
        finding_add(findings, FINDING_DISAGREES,
                    "memory allocated is at most what the device has; more is in system memory",
                    memory.line, "%s of %s", number_text(memory.used), number_text(memory.had));
    }
}

void grid_check_totals(const Grid *grid, Findings *findings)
{
    static const char shares[] =
        " share | proportion | percentage | fraction | mix | of total | of step | of time |"
        " of the step ";
    for (int column = 1; column < grid->columns; column++) {
        check_marked_shares(grid, column, findings);
        if (scan_has_any(grid->names[column], shares)) {
            check_shares(grid, column, findings);
        }
    }
    grid_check_list(grid, findings);
    check_proportions(grid, findings);
    check_cells(grid, findings);
}
