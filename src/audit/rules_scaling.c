/* Speed-up, recomputed from the times or rates of its own table. A step is done when its slowest
 * rank is: with times per rank the slowest counts, and a speed-up from their mean is a finding.
 * Then what the ranks of one run say about each other. */
#include "audit/findings.h"
#include "audit/scan.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLACK 0.005
#define SUPERLINEAR 1.02
#define MANY 3

/* What a speed-up may be of; times first. */
static const Quantity bases[] = {Q_EPOCH_TIME,        Q_TRAIN_TIME,   Q_TOTAL_TIME,
                                 Q_STEP_TIME,         Q_COMPUTE_TIME, Q_TOKENS_PER_SECOND,
                                 Q_SAMPLES_PER_SECOND};
#define BASES ((int)(sizeof bases / sizeof bases[0]))

/* --- in a table --- */

typedef struct {
    int first, end; /* records of the table */
    const Evidence *evidence;
    Quantity stated; /* Q_SPEEDUP or Q_EFFICIENCY */
} Rows;

/* What a row states, a share of 1 or a factor. */
static const Fact *stated_of(const Rows *rows, int record, Number *value)
{
    const Record *at = &rows->evidence->records[record];
    const Fact *fact = at->sum ? NULL : evidence_own(rows->evidence, record, rows->stated);
    if (fact != NULL) {
        *value = rows->stated == Q_EFFICIENCY ? number_share(fact->number) : fact->number;
        if (rows->stated == Q_SPEEDUP && fact->number.unit == UNIT_PERCENT) {
            *value = number_add(*value, number_exact(1)); /* "25 % faster" */
        }
    }
    return fact;
}

/* Whether two rows differ in ranks alone, and in what grows with them. */
static bool are_of_one_series(const Rows *rows, int a, int b)
{
    const Evidence *evidence = rows->evidence;
    bool same = strcmp(evidence->records[a].label, evidence->records[b].label) == 0;
    for (int q = 1; q <= Q_LAST_SETTING && same; q++) {
        const Fact *left = evidence_own(evidence, a, (Quantity)q);
        const Fact *right = evidence_own(evidence, b, (Quantity)q);
        same = q == Q_RANKS || q == Q_GLOBAL_BATCH ||
               ((left != NULL) == (right != NULL) &&
                (left == NULL || left->number.value == right->number.value));
    }
    return same;
}

/* The row that states 1 in the series of a row, or of the table, or the one row that states
 * nothing; -1. */
static int base_of(const Rows *rows, int record)
{
    int base = -1, only = -1, ones = 0, silent = -1, silents = 0;
    for (int i = rows->first; i < rows->end; i++) {
        Number value;
        if (stated_of(rows, i, &value) == NULL) {
            silents += rows->evidence->records[i].count > 0;
            silent = rows->evidence->records[i].count > 0 ? i : silent;
        } else if (fabs(value.value - 1) < 0.005) {
            ones++;
            only = i;
            base = base < 0 && are_of_one_series(rows, record, i) ? i : base;
        }
    }
    bool first = ones == 0 && silents == 1 && silent == rows->first;
    return base >= 0 ? base : ones == 1 ? only : first ? silent : -1;
}

/* One way to come to the stated number: by a quantity, and, for an efficiency, of a problem that
 * grows with the ranks (weak) or does not. */
typedef struct {
    Quantity quantity;
    bool weak;
} Way;

/* The speed of a row by a way; where it has rates of all ranks and of each, the one that fits. */
static const Fact *speed_of(const Rows *rows, int record, Way way)
{
    const Fact *own = evidence_own(rows->evidence, record, way.quantity);
    unsigned mark = way.weak ? MARK_PER_RANK : MARK_TOTAL;
    return own != NULL ? own : evidence_marked(rows->evidence, record, way.quantity, mark);
}

/* What row `record` should state; false: something is not there. */
static bool derive(const Rows *rows, int record, int base, Way way, Number *ratio)
{
    const Evidence *evidence = rows->evidence;
    const Fact *mine = speed_of(rows, record, way), *its = speed_of(rows, base, way);
    if (mine == NULL || its == NULL || !(mine->number.value > 0) || !(its->number.value > 0) ||
        mine->number.unit != its->number.unit) {
        return false;
    }
    bool time = quantity_is_time(way.quantity);
    *ratio =
        time ? number_divide(its->number, mine->number) : number_divide(mine->number, its->number);
    if (rows->stated == Q_EFFICIENCY && !way.weak) {
        const Fact *ranks = evidence_own(evidence, record, Q_RANKS);
        const Fact *few = evidence_own(evidence, base, Q_RANKS);
        if (ranks == NULL || few == NULL) {
            return false;
        }
        *ratio = number_multiply(*ratio, number_exact(few->number.value / ranks->number.value));
    }
    return true;
}

/* Rows that follow by a way and rows that do not; these are reported when asked. */
static void follow(const Rows *rows, Way way, int *agree, int *disagree, Findings *findings)
{
    *agree = *disagree = 0;
    for (int i = rows->first; i < rows->end; i++) {
        Number value, ratio;
        const Fact *stated = stated_of(rows, i, &value);
        int base = stated != NULL ? base_of(rows, i) : -1;
        bool has_speedup = rows->stated == Q_EFFICIENCY &&
                           evidence_own(rows->evidence, i, Q_SPEEDUP) != NULL; /* compared there */
        if (base < 0 || base == i || has_speedup || !derive(rows, i, base, way, &ratio)) {
            continue;
        }
        bool good = number_agrees(ratio, value, SLACK);
        if (stated->number.unit == UNIT_PERCENT && rows->stated == Q_SPEEDUP) { /* of time saved */
            Number saved = number_exact(1 - stated->number.value);
            good |= number_agrees(number_divide(number_exact(1), ratio), saved, 0.01);
        }
        *agree += good;
        *disagree += !good;
        if (!good && findings != NULL) {
            const Fact *mine = speed_of(rows, i, way), *its = speed_of(rows, base, way);
            bool share = rows->stated == Q_EFFICIENCY;
            finding_about(findings, FINDING_DISAGREES,
                          share ? "efficiency = speed-up / ranks, from times"
                                : "speed-up = time of the base / time of the run",
                          stated->line, i,
                          "%s %s does not follow from the %s; %s (line %d) against %s (line %d) "
                          "make %s",
                          share ? "efficiency" : "speed-up", number_text(stated->number),
                          quantity_is_time(way.quantity) ? "times" : "rates",
                          number_text(mine->number), mine->line, number_text(its->number),
                          its->line, number_show(ratio.value, stated->number));
        }
    }
}

/* The way that explains most rows is what was meant; rows that it does not explain are wrong. A
 * table that no way explains is left alone, unless it is too small to tell and has one column
 * that can be meant. */
static void check_table(const Rows *rows, Findings *findings)
{
    Way best = {Q_NONE, false};
    int agree = 0, disagree = 0, candidates = 0;
    bool ranks = false;
    for (int i = rows->first; i < rows->end; i++) {
        ranks |= evidence_own(rows->evidence, i, Q_RANKS) != NULL;
    }
    for (int k = 0; k < 2 * BASES; k++) {
        Way way = {bases[k / 2], k % 2 == 1};
        int yes = 0, no = 0;
        if (!way.weak || rows->stated == Q_EFFICIENCY) {
            follow(rows, way, &yes, &no, NULL);
        }
        candidates += yes + no > 0 && !way.weak;
        if (yes + no > 0 && (best.quantity == Q_NONE || yes > agree)) {
            best = way;
            agree = yes;
            disagree = no;
        }
    }
    bool sure = agree > 0
                    ? agree >= disagree
                    : candidates == 1 && (ranks ? disagree < MANY : rows->end - rows->first == 2);
    findings->compared += sure ? agree + disagree : 0;
    if (sure && disagree > 0) {
        follow(rows, best, &agree, &disagree, findings);
    }
}

static void check_superlinear(const Rows *rows, Findings *findings)
{
    for (int i = rows->first; i < rows->end; i++) {
        Number value;
        const Fact *stated = stated_of(rows, i, &value);
        const Fact *ranks = evidence_own(rows->evidence, i, Q_RANKS);
        int base = stated != NULL && ranks != NULL ? base_of(rows, i) : -1;
        const Fact *its = base >= 0 ? evidence_own(rows->evidence, base, Q_RANKS) : NULL;
        double more = its != NULL ? ranks->number.value / its->number.value : 0;
        if (more > 1 && stated->number.low > more * (SUPERLINEAR - 0.02) + 0.005 &&
            stated->number.value > more * 1.005) {
            finding_about(findings, FINDING_WARNING,
                          "faster than the ranks allow: cache effects, or a slow or differently "
                          "measured base",
                          stated->line, i, "speed-up %.4g on %.4g times the ranks (%.4g %%)",
                          stated->number.value, more, 100 * stated->number.value / more);
        }
    }
}

/* --- against the ranks' own times --- */

/* Times of one kind of a run that a section is about. */
typedef struct {
    const Fact *whole;   /* as stated for the run; NULL if not */
    const Fact *slowest; /* of its ranks; NULL with fewer than two */
    double mean;         /* of its ranks */
} RunTime;

static RunTime time_of(const Evidence *evidence, int record, Quantity quantity)
{
    RunTime time = {.whole = evidence_own(evidence, record, quantity)};
    const Record *at = &evidence->records[record];
    int ranks = 0;
    double sum = 0;
    for (int i = at->first; i < at->first + at->count; i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->quantity == quantity && fact->rank >= 0 && !fact->call) {
            bool slower = time.slowest == NULL || fact->number.value > time.slowest->number.value;
            time.slowest = slower ? fact : time.slowest;
            sum += fact->number.value;
            ranks++;
        }
    }
    time.mean = ranks > 0 ? sum / ranks : 0;
    time.slowest = ranks >= 2 ? time.slowest : NULL;
    return time;
}

/* The one section about the run of a row; -1. */
static int section_of(const Evidence *evidence, int row)
{
    int found = -1;
    for (int i = 0; i < evidence->record_count; i++) {
        if (evidence->records[i].kind == RECORD_SECTION && evidence_names(evidence, i, row) &&
            evidence_names(evidence, row, i)) {
            if (found >= 0) {
                return -1;
            }
            found = i;
        }
    }
    return found;
}

static void check_slowest(const Rows *rows, int record, Findings *findings)
{
    const Evidence *evidence = rows->evidence;
    Number value;
    const Fact *stated = stated_of(rows, record, &value);
    int base = stated != NULL ? base_of(rows, record) : -1;
    int mine = base >= 0 && base != record ? section_of(evidence, record) : -1;
    int its = mine >= 0 ? section_of(evidence, base) : -1;
    for (int k = 0; k < BASES && its >= 0 && quantity_is_time(bases[k]); k++) {
        RunTime run = time_of(evidence, mine, bases[k]), start = time_of(evidence, its, bases[k]);
        const Fact *from = start.slowest != NULL ? start.slowest : start.whole;
        if (run.slowest == NULL || from == NULL) {
            continue;
        }
        findings->compared++;
        Number derived = number_divide(from->number, run.slowest->number);
        bool by_mean = number_agrees(number_divide(from->number, number_exact(run.mean)),
                                     stated->number, SLACK);
        if (by_mean && !number_agrees(derived, stated->number, SLACK)) {
            finding_about(
                findings, FINDING_DISAGREES,
                "speed-up = time of the base / time of the slowest rank", stated->line, record,
                "speed-up %.4g is from the mean of the ranks; from the slowest rank (%.6g "
                "s, line %d) against %.6g s (line %d) it is %.3g",
                stated->number.value, run.slowest->number.value, run.slowest->line,
                from->number.value, from->line, derived.value);
        }
        return;
    }
}

/* --- ranks of one run --- */

#define STRAGGLER 1.1
#define RANKS_MAX 1024

static int by_value(const void *left, const void *right)
{
    const Fact *a = *(const Fact *const *)left, *b = *(const Fact *const *)right;
    return (a->number.value > b->number.value) - (a->number.value < b->number.value);
}

static bool mentions_stragglers(const Evidence *evidence)
{
    return evidence_has_any(
        evidence,
        " straggler | stragglers | imbalance | imbalanced | slowest rank | slow rank | skew ");
}

static void check_stragglers(const Evidence *evidence, int record, Findings *findings)
{
    static const Quantity of_ranks[] = {Q_EPOCH_TIME, Q_TRAIN_TIME, Q_TOTAL_TIME, Q_STEP_TIME,
                                        Q_COMPUTE_TIME};
    const Record *at = &evidence->records[record];
    bool of_run = false; /* the heading names its settings: the log of one run */
    for (int i = at->first; i < at->first + at->count; i++) {
        of_run |=
            evidence->facts[i].line == at->line && quantity_is_setting(evidence->facts[i].quantity);
    }
    if (!of_run) {
        return;
    }
    for (size_t k = 0; k < sizeof of_ranks / sizeof of_ranks[0]; k++) {
        const Fact *facts[RANKS_MAX];
        int ranks = 0;
        for (int i = at->first; i < at->first + at->count && ranks < RANKS_MAX; i++) {
            const Fact *fact = &evidence->facts[i];
            if (fact->quantity == of_ranks[k] && fact->rank >= 0 && !fact->call) {
                facts[ranks++] = fact;
            }
        }
        if (ranks < 2) {
            continue;
        }
        qsort(facts, (size_t)ranks, sizeof facts[0], by_value);
        findings->compared++;
        const Fact *slowest = facts[ranks - 1], *median = facts[(ranks - 1) / 2];
        double factor = slowest->number.value / median->number.value;
        if (median->number.value > 0 && factor > STRAGGLER) {
            finding_about(
                findings, FINDING_WARNING,
                mentions_stragglers(evidence)
                    ? "a rank is slower than its peers, which wait for it"
                    : "a rank is slower than its peers, which wait for it; the text does not "
                      "mention it",
                slowest->line, record,
                "rank %d takes %.6g s, %.3g times the %.6g s of its peers (line %d)", slowest->rank,
                slowest->number.value, factor, median->number.value, median->line);
        }
        return;
    }
}

void rules_scaling(const Evidence *evidence, Findings *findings)
{
    for (int i = 0; i < evidence->record_count;) {
        Rows rows = {.first = i, .end = evidence_table_end(evidence, i), .evidence = evidence};
        if (evidence->records[i].table > 0 && !evidence->records[i].supposed &&
            rows.end - i <= TABLE_ROWS_MAX) {
            rows.stated = Q_EFFICIENCY;
            check_table(&rows, findings);
            rows.stated = Q_SPEEDUP;
            check_table(&rows, findings);
            check_superlinear(&rows, findings);
            for (int k = rows.first; k < rows.end; k++) {
                check_slowest(&rows, k, findings);
            }
        } else if (evidence->records[i].table == 0 && !evidence->records[i].supposed) {
            check_stragglers(evidence, i, findings);
        }
        i = rows.end;
    }
}
