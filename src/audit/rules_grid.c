/* A table as a grid of numbers, whatever they are called. Where a column's name says that it
 * compares others (ratio, delta, saving) most of its rows show how; a row of totals sums the rows
 * above it; shares of one whole do not exceed it. A row that alone does not follow is wrong. */
#include "audit/findings.h"
#include "audit/grid.h"
#include "audit/scan.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define SLACK 0.01
#define PAIRS_MAX 24 /* columns that are tried against each other */
#define GB_SLACK 1.08

static bool name_has(const Grid *grid, int column, const char *const *words, size_t count)
{
    return scan_has_any(grid->names[column], words, count);
}

/* --- columns that compare others --- */

/* a / b, a - b, (a - b) / b; of columns a and b of the row, or of column a of the row and of the
 * base. */
typedef enum { FORM_RATIO, FORM_DIFFERENCE, FORM_CHANGE, FORM_COUNT } Form;

typedef struct {
    int a, b, base; /* base: a row; -1 */
    Form form;
} Way;

static bool derive(const Grid *grid, int row, Way way, Number *derived)
{
    const Cell *left = grid_at(grid, row, way.a);
    const Cell *right = way.base >= 0 ? grid_at(grid, way.base, way.a) : grid_at(grid, row, way.b);
    if (left == NULL || right == NULL || row == way.base || !(left->number.value > 0) ||
        !(right->number.value > 0) || left->number.unit != right->number.unit) {
        return false;
    }
    const Number *a = &left->number, *b = &right->number;
    Number difference = {
        .value = a->value - b->value, .low = a->low - b->high, .high = a->high - b->low};
    switch (way.form) {
    case FORM_RATIO:
        *derived = number_divide(*a, *b);
        break;
    case FORM_DIFFERENCE:
        *derived = difference;
        derived->unit = a->unit;
        break;
    case FORM_CHANGE:
    case FORM_COUNT:
        *derived = number_multiply(difference, number_exact(1 / b->value));
        break;
    }
    return true;
}

static Number magnitude(Number number)
{
    bool negative = number.value < 0;
    double low = negative ? -number.high : number.low, high = negative ? -number.low : number.high;
    return (Number){.value = fabs(number.value), .low = low, .high = high, .unit = number.unit};
}

/* Whether a stated number can be of the form. A bare one under "%" is a number of per cent. */
static bool fits(const Number *stated, Form form, bool percent, Number *value)
{
    *value = magnitude(*stated);
    switch (form) {
    case FORM_RATIO:
        return stated->unit == UNIT_TIMES || (stated->unit == UNIT_NONE && !percent);
    case FORM_DIFFERENCE:
        return stated->unit != UNIT_TIMES && stated->unit != UNIT_PERCENT && !percent;
    case FORM_CHANGE:
    case FORM_COUNT:
        break;
    }
    if (percent && stated->unit == UNIT_NONE) {
        *value = number_multiply(*value, number_exact(0.01));
    }
    return percent || stated->unit == UNIT_PERCENT;
}

/* "2,194 MiB | 2,559 MiB | +365": the difference in the unit of the two. */
static bool leaves_unit_out(Number stated, Number derived)
{
    static const double scales[] = {1e-3, 60, 3600, 1e3, 1024, 1e6, 1048576, 1e9, 1073741824, 1e12};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0] && stated.unit == UNIT_NONE; i++) {
        if (number_agrees(number_multiply(stated, number_exact(scales[i])), derived, SLACK)) {
            return true;
        }
    }
    return false;
}

/* Rows that follow by a way, those of them to three digits, and rows that do not; these are
 * reported when asked. */
static void follow(const Grid *grid, int column, Way way, int *agree, int *sure, int *disagree,
                   Findings *findings)
{
    *agree = *sure = *disagree = 0;
    for (int row = 0; row < grid->rows; row++) {
        const Cell *stated = grid_at(grid, row, column);
        Number derived, value;
        if (stated == NULL || grid->kinds[row] != ROW_PLAIN || !derive(grid, row, way, &derived) ||
            !fits(&stated->number, way.form, grid->percent[column], &value)) {
            continue;
        }
        bool unlike = way.form == FORM_DIFFERENCE && stated->number.unit != UNIT_NONE &&
                      stated->number.unit != derived.unit;
        derived = way.form == FORM_RATIO ? derived : magnitude(derived);
        bool good = !unlike && number_agrees(derived, value, SLACK);
        if (way.form == FORM_DIFFERENCE && !good && leaves_unit_out(value, derived)) {
            continue;
        }
        if (way.form == FORM_RATIO && way.base < 0) { /* 2x is better, whichever is larger */
            good |= number_agrees(number_divide(number_exact(1), derived), value, SLACK);
        }
        /* What many numbers would round to bears no witness. */
        bool trivial = value.high - value.low > 0.15 * value.value ||
                       derived.high - derived.low > 0.3 * derived.value ||
                       (way.form == FORM_RATIO && fabs(value.value - 1) < 0.005);
        bool sharp =
            value.high - value.low < 0.01 * value.value && number_agrees(derived, value, 1e-3);
        *agree += good && !trivial;
        *sure += good && !trivial && sharp;
        *disagree += !good;
        if (!good && findings != NULL) {
            const Cell *other =
                way.base >= 0 ? grid_at(grid, way.base, way.a) : grid_at(grid, row, way.b);
            double shown = way.form == FORM_CHANGE ? 100 : 1;
            bool inverse = way.form == FORM_RATIO && way.base < 0 && derived.value < 1;
            derived = inverse ? number_divide(number_exact(1), derived) : derived;
            finding_add(findings, FINDING_DISAGREES,
                        "a column follows from the numbers beside it, as in the other rows",
                        grid->lines[row], "%.4g%s is stated; %.6g and %.6g make %.4g%s",
                        shown * value.value, shown > 1 ? " %" : "",
                        grid_at(grid, row, way.a)->number.value, other->number.value,
                        shown * derived.value, shown > 1 ? " %" : "");
        }
    }
}

/* The one row to which a column compares: it says 1, or nothing; -1. */
static int base_of(const Grid *grid, int column)
{
    int base = -1, count = 0;
    for (int row = 0; row < grid->rows; row++) {
        const Cell *cell = grid_at(grid, row, column);
        if (cell == NULL ||
            (cell->number.unit != UNIT_PERCENT && fabs(cell->number.value - 1) < 0.005)) {
            base = row;
            count++;
        }
    }
    return count == 1 ? base : -1;
}

static void check_comparing(const Grid *grid, int column, Findings *findings)
{
    Way best = {.base = -1};
    int most = 0, wrong = 0, base = base_of(grid, column);
    int columns = grid->columns < PAIRS_MAX ? grid->columns : PAIRS_MAX;
    for (int a = 0; a < columns; a++) {
        for (int b = 0; b < columns && a != column; b++) {
            for (int form = 0; form < FORM_COUNT && b != column; form++) {
                Way way = {a, b, a == b ? base : -1, (Form)form};
                int agree = 0, sure = 0, disagree = 0;
                if (a != b || base >= 0) {
                    follow(grid, column, way, &agree, &sure, &disagree, NULL);
                }
                bool clear = a != b               ? agree >= 2 && agree >= 2 * disagree
                             : form == FORM_RATIO ? sure > 0 && agree >= disagree
                                                  : agree >= 3 && disagree <= 1;
                if (agree > most && clear) {
                    best = way;
                    most = agree;
                    wrong = disagree;
                }
            }
        }
    }
    findings->compared += most + wrong;
    if (wrong > 0) {
        int sure;
        follow(grid, column, best, &most, &sure, &wrong, findings);
    }
}

/* --- rows of totals and means --- */

typedef struct {
    double sum, low, high, least, most;
    int rows;
    bool whole; /* every row has a number, of one unit */
} Column;

static Column column_above(const Grid *grid, int column, int from, int to)
{
    Column all = {.least = INFINITY, .most = -INFINITY, .whole = true};
    for (int row = from; row < to; row++) {
        const Cell *cell = grid_at(grid, row, column);
        const Cell *total = grid_at(grid, to, column);
        if (cell == NULL || cell->number.unit != total->number.unit || cell->number.value < 0) {
            all.whole = false;
            return all;
        }
        all.sum += cell->number.value;
        all.low += cell->number.low;
        all.high += cell->number.high;
        all.least = fmin(all.least, cell->number.low);
        all.most = fmax(all.most, cell->number.high);
        all.rows++;
    }
    return all;
}

/* Whether some row is itself the sum of the others, or a part of one by its name. */
static bool is_nested(const Grid *grid, int column, int from, int to, double sum)
{
    static const char *const parts[] = {" of which ", " trainable ", " including ", " subtotal ",
                                        " incl ",     " active ",    " max ",       " peak "};
    for (int row = from; row < to; row++) {
        double value = grid_at(grid, row, column)->number.value;
        if (fabs(2 * value - sum) <= 0.01 * sum && to - from > 2) {
            return true;
        }
        if (scan_has_any(grid->labels[row], parts, sizeof parts / sizeof parts[0])) {
            return true;
        }
    }
    return false;
}

/* Whether a total below the sum is that of the rows that cannot go on beside others. */
static bool can_overlap(const Grid *grid, int column, int from, int to)
{
    static const char *const beside[] = {" overlap",  " async",       " comm",
                                         " data ",    " copy ",       " load",
                                         " transfer", " all reduce ", " allreduce "};
    double sum = 0;
    for (int row = from; row < to; row++) {
        bool aside = scan_has_any(grid->labels[row], beside, sizeof beside / sizeof beside[0]);
        sum += aside ? 0 : grid_at(grid, row, column)->number.low;
    }
    return grid_at(grid, to, column)->number.high >= sum;
}

static bool is_additive(const Grid *grid, int column)
{
    static const char *const words[] = {
        " per ",   " rate ",       " loss ", " ppl ",     " perplexity ", " score ",
        " acc ",   " accuracy ",   " avg ",  " average ", " mean ",       " speedup ",
        " ratio ", " efficiency ", " mfu ",  " lr ",      " seed ",       " throughput ",
        " speed ", " median ",     " max ",  " min ",     " peak ",       " p50 ",
        " p99 ",   " step ",       " rank ", " f1 ",      " std ",        " power ",
        " best ",  " epoch "};
    return !name_has(grid, column, words, sizeof words / sizeof words[0]);
}

static void check_total(const Grid *grid, int from, int to, Findings *findings)
{
    static const char rule[] = "a total is the sum of its rows";
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
        double scale = mean ? 1.0 / all.rows : 1;
        Number sum = {.value = scale * all.sum, .low = scale * all.low, .high = scale * all.high};
        if (number_agrees(sum, total->number, 0.005)) {
            agree++;
            continue;
        }
        double value = total->number.value, one = all.sum / all.rows;
        bool outside = total->number.high < all.least || total->number.low > all.most;
        bool other =
            !mean && (value <= all.most || fabs(value - one) < 0.02 * one || value > 2 * all.sum ||
                      value < 0.5 * all.sum || is_nested(grid, column, from, to, all.sum) ||
                      (value < all.sum && can_overlap(grid, column, from, to)));
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
        finding_add(findings, FINDING_DISAGREES, mean ? "a mean lies among its rows" : rule,
                    grid->lines[to], "%.10g is stated; the %d rows above make %.10g",
                    grid_at(grid, to, wrong)->number.value, to - from, derived);
    }
}

static void check_totals(const Grid *grid, Findings *findings)
{
    int from = 0;
    bool parts = false;
    for (int row = 0; row < grid->rows; row++) {
        if (grid->kinds[row] == ROW_PART) {
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

/* A price per hour and a cost, bytes per parameter and bytes: rows of one amount. */
static void check_proportion(const Grid *grid, int a, int b, Findings *findings)
{
    for (int k = 0; k < grid->rows; k++) {
        int agree = 0, disagree = 0, far = -1;
        const Cell *left = grid_at(grid, k, a), *right = grid_at(grid, k, b);
        bool known = left != NULL && right != NULL && left->number.value > 0;
        Number one = known ? number_divide(right->number, number_exact(left->number.value))
                           : number_exact(0);
        for (int row = 0; row < grid->rows && one.value > 0; row++) {
            const Cell *x = grid_at(grid, row, a), *y = grid_at(grid, row, b);
            if (x != NULL && y != NULL && x->number.value > 0) {
                Number other = number_divide(y->number, number_exact(x->number.value));
                bool good = number_agrees(one, other, SLACK);
                agree += good;
                disagree += !good;
                far = good ? far : row;
            }
        }
        if (agree >= 2 && agree >= 2 * disagree && disagree <= 1) {
            findings->compared += agree + disagree;
            if (disagree == 1) {
                finding_add(findings, FINDING_DISAGREES, "two columns are in proportion",
                            grid->lines[far], "%.6g is stated; in proportion to %.6g it is %.6g",
                            grid_at(grid, far, b)->number.value,
                            grid_at(grid, far, a)->number.value,
                            one.value * grid_at(grid, far, a)->number.value);
            }
            return;
        }
    }
}

static void check_proportions(const Grid *grid, Findings *findings)
{
    static const struct {
        const char *each, *all;
    } pairs[] = {{" hourly ", " cost "},
                 {" per hour ", " cost "},
                 {" bytes per param", " gb "},
                 {" bytes per param", " memory "}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        for (int a = 0; a < grid->columns; a++) {
            for (int b = 0; b < grid->columns && strstr(grid->names[a], pairs[i].each); b++) {
                if (a != b && strstr(grid->names[b], pairs[i].all) != NULL) {
                    check_proportion(grid, a, b, findings);
                }
            }
        }
    }
}

/* --- shares of a whole --- */

static void check_shares(const Grid *grid, int column, Findings *findings)
{
    static const char *const parts[] = {
        " phase ",   " component ", " stage ",   " part ",   " operation ", " kernel ", " op ",
        " section ", " source ",    " dataset ", " subset ", " domain ",    " corpus ", " data "};
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
    if (rows >= 3 && name_has(grid, 0, parts, sizeof parts / sizeof parts[0])) {
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
    double used, had;
} Memory;

/* "114 GB / 141 GB" of memory: used, of what there is. "2.65 h (2:39 h)": one time twice. */
static void check_pair(const Grid *grid, int row, int column, const char *text, Memory *found,
                       Findings *findings)
{
    static const char *const memory[] = {" memory ", " vram ", " mem "};
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
                        grid->lines[row], "%.6g s and %.6g s", first.value, second.value);
        }
    } else if (*rest == '/' && first.unit == UNIT_BYTES) {
        rest += 1 + strspn(rest + 1, " ");
        size_t end = number_read(rest, false, &second);
        bool whole = end > 0 && rest[end + strspn(rest + end, " ")] == '\0';
        bool named =
            name_has(grid, column, memory, 3) || scan_has_any(grid->labels[row], memory, 3);
        if (whole && named && second.unit == UNIT_BYTES) {
            bool above = first.low > GB_SLACK * second.high;
            found->within += !above;
            if (above) {
                found->above++;
                found->line = grid->lines[row];
                found->used = first.value;
                found->had = second.value;
            }
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
    if (memory.within > 0) { /* else it may be of two things */
        findings->compared += memory.within + memory.above;
        if (memory.above == 1) {
            finding_add(findings, FINDING_DISAGREES,
                        "memory allocated is at most what the device has; more is in system memory",
                        memory.line, "%.4g GB of %.4g GB", memory.used / 1e9, memory.had / 1e9);
        }
    }
}

void rules_grid(const Evidence *evidence, Findings *findings)
{
    static const char *const shares[] = {" share ",    " proportion ", " percentage ",
                                         " fraction ", " mix ",        " of total ",
                                         " of step ",  " of time ",    " of the step "};
    for (int i = 0; i < evidence->document->count; i++) {
        Grid grid;
        if (evidence->document->lines[i].kind != LINE_TABLE_HEADER) {
            continue;
        }
        if (grid_read(evidence->document, i, &grid)) {
            for (int column = 1; column < grid.columns; column++) {
                if (grid.comparing[column]) {
                    check_comparing(&grid, column, findings);
                }
                if (name_has(&grid, column, shares, sizeof shares / sizeof shares[0])) {
                    check_shares(&grid, column, findings);
                }
            }
            check_totals(&grid, findings);
            check_proportions(&grid, findings);
            check_cells(&grid, findings);
        }
        grid_free(&grid);
    }
}
