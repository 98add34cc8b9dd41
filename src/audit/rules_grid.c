/* A table as a grid of numbers, whatever they are called. Where a column's name says that it
 * compares others (ratio, delta, saving) most of its rows show how. A row that alone does not
 * follow is wrong. */
#include "audit/grid.h"
#include "audit/scan.h"

#include <math.h>
#include <string.h>

#define SLACK 0.01
#define PAIRS_MAX 24 /* columns that are tried against each other */

/* a / b, b / a (of the base), a - b, (a - b) / b, a / b in per cent; of columns a and b of the row,
 * or of column a of the row and of the base; a share is of the row of the total. */
typedef enum { FORM_RATIO, FORM_INVERSE, FORM_DIFFERENCE, FORM_CHANGE, FORM_SHARE } Form;

typedef struct {
    int a, b, base; /* base: a row; -1 */
    Form form;
    Unit unit; /* of what is stated: x, %, UNIT_NONE: another or none */
} Way;

static Number magnitude(Number number)
{
    bool negative = number.value < 0;
    double low = negative ? -number.high : number.low, high = negative ? -number.low : number.high;
    return (Number){.value = fabs(number.value), .low = low, .high = high, .unit = number.unit};
}

/* The unit of what a cell states, as far as it tells the form. */
static Unit kind_of(const Cell *cell)
{
    Unit unit = cell->number.unit;
    return unit == UNIT_TIMES || unit == UNIT_PERCENT ? unit : UNIT_NONE;
}

/* A number that is stated beside what it should be by a way. */
typedef struct {
    const Number *stated, *a, *b;
    Number value, derived; /* without signs */
    bool direct, good;     /* it follows in that form; or in one that is as good */
} Match;

static bool match(const Grid *grid, int row, int column, Way way, Match *found)
{
    const Cell *left = grid_at(grid, row, way.a), *stated = grid_at(grid, row, column);
    const Cell *right = way.base >= 0 ? grid_at(grid, way.base, way.a) : grid_at(grid, row, way.b);
    if (left == NULL || right == NULL || stated == NULL || row == way.base ||
        grid->kinds[row] == ROW_SUM || grid->kinds[row] == ROW_MEAN ||
        kind_of(stated) != way.unit || !(left->number.value > 0) || !(right->number.value > 0) ||
        left->number.unit != right->number.unit) {
        return false;
    }
    const Number *a = &left->number, *b = &right->number;
    *found = (Match){.stated = &stated->number, .a = a, .b = b};
    Number ratio = number_divide(*a, *b), inverse = number_divide(*b, *a);
    Number difference = magnitude(
        (Number){.value = a->value - b->value, .low = a->low - b->high, .high = a->high - b->low});
    Number change = number_multiply(difference, number_exact(1 / b->value));
    Number value = found->value = magnitude(stated->number);
    bool share = way.unit == UNIT_PERCENT; /* a bare one under "%" is a number of per cent */
    if (grid->percent[column] && way.unit == UNIT_NONE) {
        value = found->value = number_multiply(value, number_exact(0.01));
        share = true;
    }
    switch (way.form) {
    case FORM_RATIO: /* 2x is better, whichever is larger */
        found->derived = way.base < 0 && ratio.value < 1 && value.value > 1 ? inverse : ratio;
        found->good = way.base < 0 && number_agrees(inverse, value, SLACK);
        break;
    case FORM_INVERSE:
        found->derived = inverse;
        break;
    case FORM_DIFFERENCE: /* "2,194 MiB | 2,559 MiB | +365" leaves the unit out */
        found->derived = difference;
        found->good = value.unit == UNIT_NONE &&
                      number_agrees(number_multiply(value, number_exact(number_scale(*a))),
                                    difference, SLACK);
        break;
    case FORM_CHANGE: /* of the other number, or in points of per cent */
        found->derived = change;
        found->good =
            number_agrees(number_multiply(difference, number_exact(1 / a->value)), value, SLACK) ||
            (a->unit == UNIT_PERCENT && number_agrees(difference, value, SLACK));
        break;
    case FORM_SHARE:
        found->derived = ratio;
        break;
    }
    bool unlike = way.form == FORM_DIFFERENCE && value.unit != UNIT_NONE && value.unit != a->unit;
    found->direct = !unlike && number_agrees(found->derived, value, SLACK);
    found->good |= found->direct;
    bool signs = stated->number.value > 0 || way.form == FORM_DIFFERENCE || way.form == FORM_CHANGE;
    return signs && (way.form >= FORM_CHANGE) == share &&
           (way.form != FORM_SHARE || a->value <= b->value) &&
           !(way.unit == UNIT_TIMES && way.form > FORM_INVERSE);
}

/* Rows that follow by a way, those of them to three digits, and rows that follow by no form of it;
 * these are reported when asked. */
static void follow(const Grid *grid, int column, Way way, int *agree, int *sure, int *disagree,
                   Findings *findings)
{
    static const Number share = {.unit = UNIT_PERCENT, .scale = 0.01};
    *agree = *sure = *disagree = 0;
    for (int row = 0; row < grid->rows; row++) {
        Match it, other;
        if (!match(grid, row, column, way, &it)) {
            continue;
        }
        Way ways = way;
        for (ways.form = FORM_RATIO; ways.form <= FORM_SHARE; ways.form++) {
            it.good |= match(grid, row, column, ways, &other) && other.good;
        }
        const Number *value = &it.value, *derived = &it.derived;
        /* What many numbers would round to bears no witness. */
        bool close = derived->high - derived->low <= 0.3 * derived->value ||
                     (value->low <= derived->value && derived->value <= value->high);
        bool trivial = value->high - value->low > 0.15 * value->value || !close ||
                       (way.form <= FORM_INVERSE && fabs(value->value - 1) < 0.005);
        bool sharp =
            value->high - value->low < 0.01 * value->value && number_agrees(*derived, *value, 1e-3);
        *agree += it.direct && !trivial;
        *sure += it.direct && !trivial && sharp;
        *disagree += !it.good;
        int line = grid_line(grid, row, column);
        if (!it.good && findings != NULL && !finding_said(findings, line)) {
            finding_add(findings, FINDING_DISAGREES,
                        "a column follows from the numbers beside it, as in the other rows", line,
                        "%s is stated; %s and %s make %s", number_text(*it.stated),
                        number_text(*it.a), number_text(*it.b),
                        number_show(derived->value, way.form >= FORM_CHANGE       ? share
                                                    : way.form == FORM_DIFFERENCE ? *it.a
                                                                                  : *it.stated));
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

static void check_comparing(const Grid *grid, int column, Unit unit, Findings *findings)
{
    /* Nothing is compared by a setting; "steps to loss 3.28" beside a speed-up leaves no doubt. */
    static const char settings[] = " gpu | gpus | nodes | ranks | devices | cards | chips | "
                                   "workers | world size | batch | bs ";
    static const char targets[] = " steps to | tokens to | epochs to | iterations to | hours to ";
    Way best = {.base = -1};
    int most = 0, wrong = 0, total = -1, one = base_of(grid, column);
    for (int row = 0; row < grid->rows; row++) {
        total = grid->kinds[row] == ROW_SUM ? row : total;
    }
    int columns = grid->columns < PAIRS_MAX ? grid->columns : PAIRS_MAX;
    int least = columns > 12 ? 5 : grid->turned ? 3 : 2; /* for what chance may bring about */
    for (int a = 0; a < columns; a++) {
        bool sets = scan_has_any(grid->names[a], settings);
        for (int b = 0; b < columns && a != column; b++) {
            for (int form = 0; form <= FORM_SHARE && b != column; form++) {
                int base = form == FORM_SHARE ? total : one;
                Way way = {a, b, a == b ? base : -1, (Form)form, unit};
                int agree = 0, sure = 0, disagree = 0;
                if (a != b ? form != FORM_INVERSE : base >= 0 && !sets) {
                    follow(grid, column, way, &agree, &sure, &disagree, NULL);
                }
                bool aim = form == FORM_INVERSE && scan_has_any(grid->names[a], targets);
                bool clear = a != b ? agree >= least && agree >= least * disagree
                                    : agree >= 3 && disagree <= 1;
                clear |= a == b && (form == FORM_RATIO ? sure > 0 : aim) && agree >= disagree;
                if (clear && (agree > most || (agree == most && disagree < wrong))) {
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

static void check_comparisons(const Grid *grid, Findings *findings)
{
    for (int column = 1; column < grid->columns; column++) {
        if (grid->comparing[column]) {
            check_comparing(grid, column, UNIT_NONE, findings);
            check_comparing(grid, column, UNIT_TIMES, findings);
            check_comparing(grid, column, UNIT_PERCENT, findings);
        }
    }
}

void rules_grid(const Evidence *evidence, Findings *findings)
{
    const Document *document = evidence->document;
    for (int i = 0, end; i < document->count; i++) {
        Grid grid, turned;
        if (document->lines[i].item && grid_read_list(document, i, &end, &grid)) {
            grid_check_list(&grid, findings);
            i = end - 1;
        } else if (document->lines[i].kind == LINE_TABLE_HEADER && grid_read(document, i, &grid)) {
            check_comparisons(&grid, findings);
            if (grid_turn(&grid, &turned)) {
                check_comparisons(&turned, findings);
                grid_free(&turned);
            }
            grid_check_totals(&grid, findings);
        } else {
            continue;
        }
        grid_free(&grid);
    }
}
