/* Columns of one table against each other, where most rows show how they belong together: a ratio
 * of two columns, or of a row to the first; a number given twice; tokens that grow with the steps;
 * parts of a total; ranks that sum to it. */
#include "audit/findings.h"
#include "audit/scan.h"

#include <math.h>

#define SLACK 0.005

typedef struct {
    const Evidence *evidence;
    int first, end; /* records of the table */
    Quantity quantities[DOCUMENT_MAX_CELLS];
} Table;

/* The number of a row in a column; NULL: none, or of a row of sums. */
static const Fact *cell(const Table *table, int record, int column)
{
    const Record *at = &table->evidence->records[record];
    for (int i = at->first; i < at->first + at->count && !at->sum; i++) {
        const Fact *fact = &table->evidence->facts[i];
        if (fact->column == column && !fact->call && !fact->number.open && !fact->number.range) {
            return fact;
        }
    }
    return NULL;
}

/* --- ratios --- */

/* How a column of ratios may come about: column a over column b of the row, or over a of the
 * base. */
typedef struct {
    int a, b, base;
} Way;

static bool derive(const Table *table, int record, Way way, Number *ratio)
{
    const Fact *up = cell(table, record, way.a);
    const Fact *down = way.base >= 0 ? cell(table, way.base, way.a) : cell(table, record, way.b);
    if (up == NULL || down == NULL || !(up->number.value > 0) || !(down->number.value > 0) ||
        record == way.base) {
        return false;
    }
    bool time = quantity_is_time(table->quantities[way.a]) && way.base >= 0;
    *ratio =
        time ? number_divide(down->number, up->number) : number_divide(up->number, down->number);
    return true;
}

/* Rows that follow by a way and rows that do not; these are reported when asked. */
static void follow(const Table *table, int column, Way way, int *agree, int *disagree,
                   Findings *findings)
{
    *agree = *disagree = 0;
    for (int i = table->first; i < table->end; i++) {
        Number ratio;
        const Fact *stated = cell(table, i, column);
        if (stated == NULL || !derive(table, i, way, &ratio)) {
            continue;
        }
        bool good = number_agrees(ratio, stated->number, SLACK);
        *agree += good;
        *disagree += !good;
        if (!good && findings != NULL) {
            const Fact *other =
                way.base >= 0 ? cell(table, way.base, way.a) : cell(table, i, way.b);
            finding_about(findings, FINDING_DISAGREES,
                          "a ratio follows from the numbers beside it, as in the other rows",
                          stated->line, i, "%.4g is stated; %.6g and %.6g make %.4g",
                          stated->number.value, cell(table, i, way.a)->number.value,
                          other->number.value, ratio.value);
        }
    }
}

static bool can_be_compared(Quantity quantity)
{
    return quantity_is_time(quantity) || quantity == Q_TOKENS_PER_SECOND ||
           quantity == Q_SAMPLES_PER_SECOND || quantity == Q_FLOP_PER_SECOND;
}

static void check_ratios(const Table *table, int column, Findings *findings)
{
    Way best = {-1, -1, -1};
    int most = 0, wrong = 0, base = -1, ones = 0;
    for (int i = table->first; i < table->end && table->quantities[column] == Q_RATIO; i++) {
        const Fact *one = cell(table, i, column);
        if (one != NULL && fabs(one->number.value - 1) < 0.005) {
            base = i;
            ones++;
        }
    }
    for (int a = 0; a < DOCUMENT_MAX_CELLS; a++) {
        for (int b = 0; b < DOCUMENT_MAX_CELLS && can_be_compared(table->quantities[a]); b++) {
            bool pair = a != b && table->quantities[a] == table->quantities[b];
            Way way = {a, b, a == b && ones == 1 ? base : -1};
            int agree = 0, disagree = 0;
            if (pair || way.base >= 0) {
                follow(table, column, way, &agree, &disagree, NULL);
            }
            int needed = pair ? 2 * disagree : disagree;
            if (agree > most && agree >= needed && agree >= (pair ? 2 : 1)) {
                best = way;
                most = agree;
                wrong = disagree;
            }
        }
    }
    findings->compared += most + wrong;
    if (wrong > 0) {
        follow(table, column, best, &most, &wrong, findings);
    }
}

/* --- twice --- */

static void check_twice(const Table *table, int a, int b, Findings *findings)
{
    int agree = 0, disagree = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = table->first; i < table->end; i++) {
            const Fact *left = cell(table, i, a), *right = cell(table, i, b);
            if (left == NULL || right == NULL || left->marks != right->marks) {
                continue;
            }
            bool good = number_agrees(left->number, right->number, 1e-9);
            agree += pass == 0 && good;
            disagree += pass == 0 && !good;
            if (pass == 1 && !good && agree >= 2 && agree >= 2 * disagree) {
                finding_about(findings, FINDING_DISAGREES, "two columns of the same number",
                              right->line, i, "%s is %.6g in one column and %.6g in another",
                              quantity_name(left->quantity), left->number.value,
                              right->number.value);
            }
        }
    }
    findings->compared += agree >= 2 ? agree : 0;
}

/* --- tokens that grow with the steps --- */

static double per_step(const Table *table, int record, const Fact **steps)
{
    const Fact *tokens = evidence_own(table->evidence, record, Q_TOKENS);
    *steps = evidence_own(table->evidence, record, Q_STEPS);
    *steps = *steps != NULL ? *steps : evidence_own(table->evidence, record, Q_STEP);
    bool known =
        tokens != NULL && *steps != NULL && (*steps)->number.value > 0 && tokens->number.value > 0;
    return known ? tokens->number.value / (*steps)->number.value : 0;
}

/* Checkpoints of one run have seen as many tokens per step, each of them. */
static void check_tokens(const Table *table, Findings *findings)
{
    const Fact *steps;
    for (int k = table->first; k < table->end; k++) {
        double one = per_step(table, k, &steps);
        int agree = 0, disagree = 0, far = -1;
        for (int i = table->first; i < table->end && one > 0; i++) {
            double other = per_step(table, i, &steps);
            bool good = fabs(other - one) < 0.02 * one;
            agree += other > 0 && good;
            disagree += other > 0 && !good;
            far = other > 0 && !good ? i : far;
        }
        if (agree >= 3 && disagree <= 1) {
            findings->compared += agree + disagree;
            if (disagree == 1) {
                double other = per_step(table, far, &steps);
                finding_about(
                    findings, FINDING_DISAGREES, "tokens = steps x tokens per step", steps->line,
                    far, "%.6g tokens in %.6g steps are %.4g per step; the other rows have %.4g",
                    other * steps->number.value, steps->number.value, other, one);
            }
            return;
        }
    }
}

/* --- parts of a total --- */

static void check_shares(const Table *table, int column, Findings *findings)
{
    static const char *const parts[] = {" phase ",     " component ", " stage ", " part ",
                                        " operation ", " kernel ",    " op ",    " section "};
    const Line *header =
        &table->evidence->document->lines[table->evidence->records[table->first].table - 1];
    double sum = 0;
    int rows = 0, line = 0;
    for (int i = table->first; i < table->end; i++) {
        const Fact *share = cell(table, i, column);
        if (share != NULL) {
            sum +=
                share->number.unit == UNIT_NONE ? share->number.value / 100 : share->number.value;
            line = share->line;
            rows++;
        }
    }
    if (rows >= 3 && scan_has_any(header->text, parts, sizeof parts / sizeof parts[0])) {
        findings->compared++;
        if (sum > 1.05) {
            finding_add(findings, FINDING_DISAGREES,
                        "phases sum to more than their total: they overlap or count twice", line,
                        "%d shares sum to %.4g %%", rows, 100 * sum);
        }
    }
}

/* Rates of the ranks sum to that of all, in a row "total"; or the row has their mean. */
static void check_rank_sum(const Table *table, Findings *findings)
{
    const Evidence *evidence = table->evidence;
    double sum = 0;
    int ranks = 0;
    bool several = false;
    const Fact *total = NULL;
    for (int k = table->first; k < table->end; k++) {
        const Record *row = &evidence->records[k];
        for (int i = row->first; i < row->first + row->count; i++) {
            const Fact *fact = &evidence->facts[i];
            if (fact->quantity == Q_TOKENS_PER_SECOND) {
                bool whole = row->sum || (row->kind == RECORD_SECTION && fact->rank < 0);
                several |= whole && total != NULL;
                total = whole ? fact : total;
                sum += whole ? 0 : fact->number.value;
                ranks += !whole && fact->rank >= 0;
            }
        }
    }
    if (total != NULL && ranks >= 2 && !several) {
        findings->compared++;
        double mean = sum / ranks, stated = total->number.value;
        if (fabs(stated - sum) > 0.02 * sum && fabs(stated - mean) > 0.02 * mean) {
            finding_add(findings, FINDING_DISAGREES, "rates of the ranks sum to that of all",
                        total->line, "%.6g tok/s are stated; the %d ranks sum to %.6g", stated,
                        ranks, sum);
        }
    }
}

/* --- lines of a log --- */

/* The two numbers of the line that fact i stands in, whose product is the tokens of a step; 0 if
 * one is missing. */
static double step_of_line(const Evidence *evidence, const Record *at, int i)
{
    double time = 0, rate = 0;
    int line = evidence->facts[i].line;
    for (; i < at->first + at->count && evidence->facts[i].line == line; i++) {
        const Fact *fact = &evidence->facts[i];
        time = fact->quantity == Q_STEP_TIME && !fact->call ? fact->number.value : time;
        rate = fact->quantity == Q_TOKENS_PER_SECOND ? fact->number.value : rate;
    }
    return time * rate;
}

/* Steps of one log have as many tokens, by the time and the rate of their lines. */
static void check_log(const Evidence *evidence, int record, Findings *findings)
{
    const Record *at = &evidence->records[record];
    double usual = 0;
    for (int pass = 0, agree = 0, lines = 0; pass < 2; pass++) {
        for (int i = at->first, last = 0; i < at->first + at->count; i++) {
            const Fact *fact = &evidence->facts[i];
            double tokens = fact->line != last && fact->moment >= 0 && fact->step
                                ? step_of_line(evidence, at, i)
                                : 0;
            last = fact->line;
            if (!(tokens > 0)) {
                continue;
            }
            usual = usual > 0 ? usual : tokens;
            bool good = fabs(tokens - usual) < 0.02 * usual;
            agree += pass == 0 && good;
            lines += pass == 0;
            if (pass == 1 && !good && agree >= 3 && agree >= 4 * (lines - agree)) {
                finding_add(findings, FINDING_DISAGREES,
                            "tokens per second x step time = tokens per step", fact->line,
                            "time and rate make %.6g tokens; the other lines have %.6g", tokens,
                            usual);
            }
        }
        findings->compared += pass == 0 && agree >= 3 ? agree : 0;
    }
}

static void check_table(const Table *table, Findings *findings)
{
    for (int a = 0; a < DOCUMENT_MAX_CELLS; a++) {
        Quantity quantity = table->quantities[a];
        if (quantity == Q_RATIO || quantity == Q_SPEEDUP) {
            check_ratios(table, a, findings);
        } else if (quantity == Q_SHARE) {
            check_shares(table, a, findings);
        }
        for (int b = a + 1; b < DOCUMENT_MAX_CELLS && quantity > Q_STEP; b++) {
            if (table->quantities[b] == quantity && quantity != Q_RATIO) {
                check_twice(table, a, b, findings);
            }
        }
    }
    check_tokens(table, findings);
    check_rank_sum(table, findings);
}

void rules_columns(const Evidence *evidence, Findings *findings)
{
    for (int i = 0; i < evidence->record_count;) {
        Table table = {.evidence = evidence, .first = i, .end = evidence_table_end(evidence, i)};
        const Record *record = &evidence->records[i];
        for (int k = i; k < table.end; k++) {
            const Record *row = &evidence->records[k];
            for (int f = row->first; f < row->first + row->count; f++) {
                const Fact *fact = &evidence->facts[f];
                if (fact->column >= 0 && fact->column < DOCUMENT_MAX_CELLS) {
                    table.quantities[fact->column] = fact->quantity;
                }
            }
        }
        if (record->table > 0 && !record->supposed && table.end - i <= TABLE_ROWS_MAX) {
            check_table(&table, findings);
        } else if (record->kind == RECORD_SECTION && !record->supposed) {
            check_rank_sum(&table, findings);
            check_log(evidence, i, findings);
        }
        i = table.end;
    }
}
