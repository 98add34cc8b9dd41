/* Columns of one table against each other, where most rows show how they belong together: a number
 * given twice; what is the same in all rows, tokens of a step for one; ranks that sum to the
 * whole. */
#include "audit/findings.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

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
                              right->line, i, "%s is %s in one column and %s in another",
                              quantity_name(left->quantity), number_text(left->number),
                              number_text(right->number));
            }
        }
    }
    findings->compared += agree >= 2 ? agree : 0;
}

/* --- what is the same in all rows --- */

/* What a row or a line makes of its numbers, tokens of a step for one. */
typedef struct {
    Number number;
    int line;
} Point;

typedef struct {
    const char *rule, *what;
    int least;  /* points that must agree */
    bool whole; /* a power of two times as much is as good: other ranks */
} Steady;

static int by_value(const void *left, const void *right)
{
    double a = ((const Point *)left)->number.value, b = ((const Point *)right)->number.value;
    return (a > b) - (a < b);
}

static bool is_usual(const Point *point, const Number *usual, bool whole)
{
    double scale = whole ? exp2(round(log2(point->number.value / usual->value))) : 1;
    return number_agrees(number_multiply(*usual, number_exact(scale)), point->number, 0.02);
}

/* All points but one have one value, and that one is wrong. */
static void check_steady(const Steady *steady, Point *points, int count, Findings *findings)
{
    int agree = 0, far = -1;
    qsort(points, (size_t)count, sizeof *points, by_value);
    for (int i = 0; i < count; i++) {
        bool good = is_usual(&points[i], &points[count / 2].number, steady->whole);
        agree += good;
        far = good ? far : i;
    }
    if (agree < steady->least || count - agree > 1) {
        return;
    }
    findings->compared += count;
    if (far >= 0 && !finding_said(findings, points[far].line)) {
        finding_add(findings, FINDING_DISAGREES, steady->rule, points[far].line,
                    "%.6g %s; the others have %.6g", points[far].number.value, steady->what,
                    points[count / 2].number.value);
    }
}

static const Steady step_tokens = {"tokens per second x step time = tokens per step",
                                   "tokens are made by time and rate", 4, true};
static const Steady step_samples = {"samples per second x step time = batch",
                                    "samples are made by time and rate", 4, true};
static const Steady tokens_per_step = {"tokens = steps x tokens per step", "tokens per step follow",
                                       3, false};
static const Steady run_tokens = {"tokens per second x time = tokens",
                                  "of the tokens are made by time and rate", 4, false};

/* a x b / c of a row's own numbers; Q_NONE: 1. Its value is 0 where one is missing. */
static Number make(const Table *table, int record, Quantity a, Quantity b, Quantity c)
{
    const Quantity of[] = {a, b, c};
    Number made = number_exact(1);
    for (int i = 0; i < 3; i++) {
        const Fact *fact = of[i] != Q_NONE ? evidence_own(table->evidence, record, of[i]) : NULL;
        if (of[i] != Q_NONE && (fact == NULL || !(fact->number.value > 0))) {
            return number_exact(0);
        }
        if (fact != NULL) {
            made = i < 2 ? number_multiply(made, fact->number) : number_divide(made, fact->number);
        }
    }
    return made;
}

/* Checkpoints of one run have seen as many tokens per step; runs whose batch is not said do as much
 * work in a step; a rate over the whole is that of the tokens and the time. */
static void check_rows(const Table *table, Findings *findings)
{
    static const struct {
        const Steady *steady;
        Quantity a, b, c;
        bool unsaid; /* only where the rows do not say their batch */
    } kinds[] = {{&tokens_per_step, Q_TOKENS, Q_NONE, Q_STEPS, false},
                 {&tokens_per_step, Q_TOKENS, Q_NONE, Q_STEP, false},
                 {&step_tokens, Q_TOKENS_PER_SECOND, Q_STEP_TIME, Q_NONE, true},
                 {&step_samples, Q_SAMPLES_PER_SECOND, Q_STEP_TIME, Q_NONE, true},
                 {&run_tokens, Q_TOKENS_PER_SECOND, Q_TRAIN_TIME, Q_TOKENS, false},
                 {&run_tokens, Q_TOKENS_PER_SECOND, Q_TOTAL_TIME, Q_TOKENS, false}};
    Point *points = mem_zalloc((size_t)(table->end - table->first), sizeof *points);
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        int count = 0;
        for (int i = table->first; i < table->end; i++) {
            const Record *row = &table->evidence->records[i];
            Number number = make(table, i, kinds[kind].a, kinds[kind].b, kinds[kind].c);
            bool said = evidence_batch(table->evidence, i) > 0 ||
                        evidence_own(table->evidence, i, Q_SEQ) != NULL;
            if (number.value > 0 && !row->sum && !(kinds[kind].unsaid && said)) {
                points[count++] = (Point){number, row->line};
            }
        }
        check_steady(kinds[kind].steady, points, count, findings);
    }
    free(points);
}

/* --- ranks --- */

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

/* The two numbers of the line that fact i stands in, whose product is the tokens, or samples, of a
 * step; 0 if one is missing. */
static Number step_of_line(const Evidence *evidence, const Record *at, int i, Quantity kind,
                           double *seconds)
{
    Number time = number_exact(0), rate = time;
    int line = evidence->facts[i].line;
    for (; i < at->first + at->count && evidence->facts[i].line == line; i++) {
        const Fact *fact = &evidence->facts[i];
        bool bare = fact->quantity == Q_TOTAL_TIME && time.value == 0; /* "time 12 ms" */
        time = bare || (fact->quantity == Q_STEP_TIME && !fact->call) ? fact->number : time;
        rate = fact->quantity == kind ? fact->number : rate;
    }
    *seconds = time.value;
    return number_multiply(time, rate);
}

/* Steps of one log have as many tokens, by the time and the rate of their lines. A step that takes
 * its own time beside a rate that is a mean over steps says nothing, so it is left out. */
static void check_log(const Evidence *evidence, int record, Quantity kind, Findings *findings)
{
    const Record *at = &evidence->records[record];
    Point *points = mem_zalloc((size_t)at->count + 1, sizeof *points);
    int count = 0;
    double usual_time = 0; /* of the line before */
    for (int i = at->first, last = 0; i < at->first + at->count; i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->line != last && fact->moment >= 0 && fact->step) {
            double time;
            points[count] = (Point){step_of_line(evidence, at, i, kind, &time), fact->line};
            bool known = points[count].number.value > 0;
            bool usual = usual_time == 0 || fabs(time - usual_time) < 0.25 * usual_time;
            usual_time = known ? time : usual_time;
            count += known && usual;
        }
        last = fact->line;
    }
    check_steady(kind == Q_TOKENS_PER_SECOND ? &step_tokens : &step_samples, points, count,
                 findings);
    free(points);
}

static void check_table(const Table *table, Findings *findings)
{
    for (int a = 0; a < DOCUMENT_MAX_CELLS; a++) {
        Quantity quantity = table->quantities[a];
        for (int b = a + 1; b < DOCUMENT_MAX_CELLS && quantity > Q_STEP; b++) {
            if (table->quantities[b] == quantity) {
                check_twice(table, a, b, findings);
            }
        }
    }
    check_rows(table, findings);
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
            check_log(evidence, i, Q_TOKENS_PER_SECOND, findings);
            check_log(evidence, i, Q_SAMPLES_PER_SECOND, findings);
        }
        i = table.end;
    }
}
