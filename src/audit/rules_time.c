/* Where the time went: phases against their total, timers that cannot be right, and what changes
 * between neighbouring sizes of a sweep. */
#include "audit/findings.h"
#include "audit/scan.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

#define COVERED 0.90  /* a smaller share under timers is worth a finding */
#define OVERFULL 1.05 /* phases that overlap */
#define DROP 2.5      /* a fall of throughput between neighbours */

static const Quantity loop_phases[] = {Q_DATA_TIME, Q_MOVE_TIME, Q_COMPUTE_TIME,
                                       Q_COMMUNICATION_TIME};
static const Quantity step_phases[] = {Q_FORWARD_TIME,      Q_BACKWARD_TIME, Q_LOSS_TIME,
                                       Q_OPTIMIZER_TIME,    Q_DATA_TIME,     Q_MOVE_TIME,
                                       Q_COMMUNICATION_TIME};

/* --- phases --- */

static void check_phases(const Evidence *evidence, int run, Findings *findings)
{
    static const Quantity totals[] = {Q_TRAIN_TIME, Q_EPOCH_TIME, Q_STEP_TIME, Q_TOTAL_TIME};
    bool loop = evidence_find(evidence, run, Q_COMPUTE_TIME, false) != NULL;
    const Quantity *phases = loop ? loop_phases : step_phases;
    size_t size = loop ? sizeof loop_phases : sizeof step_phases;
    Number sum = number_exact(0);
    int count = 0;
    for (size_t i = 0; i < size / sizeof phases[0]; i++) {
        const Fact *fact = evidence_find(evidence, run, phases[i], false);
        if (fact != NULL) {
            sum = number_add(sum, fact->number);
            count++;
        }
    }
    const Fact *total = NULL;
    for (int i = 0; i < 4 && total == NULL; i++) {
        total = evidence_find(evidence, run, totals[i], false);
    }
    bool enough = loop ? count >= 3
                       : count >= 2 && evidence_find(evidence, run, Q_BACKWARD_TIME, false) != NULL;
    if (total == NULL || !enough || !(total->number.value > 0)) {
        return;
    }
    findings->compared++;
    double share = sum.value / total->number.value;
    if (sum.high < COVERED * total->number.low) {
        finding_about(findings, FINDING_DISAGREES,
                      "phases sum to their total: the rest has no timer", total->line, run,
                      "%d phases sum to %.6g s of %.6g s %s (%.0f %%); %.6g s are unaccounted for",
                      count, sum.value, total->number.value, quantity_name(total->quantity),
                      100 * share, total->number.value - sum.value);
    } else if (sum.low > OVERFULL * total->number.high) {
        finding_about(findings, FINDING_WARNING,
                      "phases sum to more than their total: they overlap or count twice",
                      total->line, run, "%d phases sum to %.6g s, the total is %.6g s (%.0f %%)",
                      count, sum.value, total->number.value, 100 * share);
    }
}

/* --- runs as a sweep over the batch --- */

typedef struct {
    int run;
    double size;
} Point;

static int by_size(const void *left, const void *right)
{
    const Point *a = left, *b = right;
    return a->size != b->size ? (a->size > b->size) - (a->size < b->size) : a->run - b->run;
}

/* Whether two runs differ in batch and accumulation alone. */
static bool same_but_batch(const Evidence *evidence, int a, int b)
{
    const double *left = evidence->runs[a].identity.values;
    const double *right = evidence->runs[b].identity.values;
    return left[Q_SEQ] == right[Q_SEQ] && left[Q_RANKS] == right[Q_RANKS] &&
           left[Q_LR] == right[Q_LR];
}

/* Runs with a batch of their own, smallest first. Caller frees. */
static Point *sweep(const Evidence *evidence, int *count)
{
    Point *points = mem_zalloc((size_t)evidence->run_count, sizeof *points);
    *count = 0;
    for (int run = 1; run < evidence->run_count; run++) {
        if (evidence_batch(evidence, run) > 0) {
            points[(*count)++] = (Point){run, evidence_batch(evidence, run)};
        }
    }
    qsort(points, (size_t)*count, sizeof *points, by_size);
    return points;
}

/* --- timers that do not wait --- */

/* Seconds of one call of a phase: as stated, or the total over as many calls as backward had. */
static const Fact *per_call(const Evidence *evidence, int run, Quantity quantity)
{
    for (int i = evidence_first(evidence, run, quantity); evidence_is(evidence, i, run, quantity);
         i++) {
        if (evidence->facts[i].mean && evidence->facts[i].rank < 0) {
            return &evidence->facts[i];
        }
    }
    return NULL;
}

/* Forward and loss both work on every token of the batch. When one grows with it and the other does
 * not, the first only measures how long it takes to hand work to the device. */
static void check_waiting(const Evidence *evidence, const Point *points, int count,
                          Findings *findings)
{
    for (int last = count - 1; last > 0; last--) {
        const Fact *forward = per_call(evidence, points[last].run, Q_FORWARD_TIME);
        const Fact *loss = per_call(evidence, points[last].run, Q_LOSS_TIME);
        const Fact *forward_small = per_call(evidence, points[0].run, Q_FORWARD_TIME);
        const Fact *loss_small = per_call(evidence, points[0].run, Q_LOSS_TIME);
        if (forward == NULL || loss == NULL || forward_small == NULL || loss_small == NULL) {
            continue;
        }
        findings->compared++;
        double work = points[last].size / points[0].size;
        double forward_grows = forward->number.high / fmax(forward_small->number.low, 1e-12);
        double loss_grows = loss->number.low / fmax(loss_small->number.high, 1e-12);
        if (work >= 4 && forward_grows < work / 4 && loss_grows > 4 * forward_grows) {
            finding_add(findings, FINDING_DISAGREES,
                        "forward and loss grow with the batch alike: timers that do not wait for "
                        "the device charge one with the other's work",
                        loss->line, points[last].run,
                        "from batch %.6g to %.6g loss grows from %.4g to %.4g ms a call, forward "
                        "only from %.4g to %.4g ms",
                        points[0].size, points[last].size, 1e3 * loss_small->number.value,
                        1e3 * loss->number.value, 1e3 * forward_small->number.value,
                        1e3 * forward->number.value);
        }
        return;
    }
}

/* --- neighbours --- */

static const Fact *first_of(const Evidence *evidence, int run, Quantity a, Quantity b)
{
    const Fact *fact = evidence_find(evidence, run, a, false);
    return fact != NULL ? fact : evidence_find(evidence, run, b, false);
}

/* Whether a line speaks of this batch as worse. */
static int line_of_blame(const Evidence *evidence, double batch)
{
    static const char *const words[] = {" degrades ",   " degraded ",  " degradation ",
                                        " regression ", " regresses ", " slower ",
                                        " worse ",      " slows ",     " slowdown "};
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        bool blames = line->kind == LINE_TEXT &&
                      scan_has_any(line->text, words, sizeof words / sizeof words[0]);
        int count = blames ? scan_line(line->text, items) : 0;
        for (int k = 0; k < count; k++) {
            if (items[k].number.value == batch) {
                return i + 1;
            }
        }
    }
    return 0;
}

static void check_setup(const Evidence *evidence, Point small, Point large, Findings *findings)
{
    const Fact *outer = first_of(evidence, large.run, Q_TOTAL_TIME, Q_WORKER_TIME);
    const Fact *outer_small = first_of(evidence, small.run, Q_TOTAL_TIME, Q_WORKER_TIME);
    const Fact *inner = first_of(evidence, large.run, Q_EPOCH_TIME, Q_TRAIN_TIME);
    const Fact *inner_small = first_of(evidence, small.run, Q_EPOCH_TIME, Q_TRAIN_TIME);
    if (outer == NULL || outer_small == NULL || inner == NULL || inner_small == NULL) {
        return;
    }
    findings->compared++;
    if (outer->number.low > 1.05 * outer_small->number.high &&
        inner->number.high < inner_small->number.low) {
        const Fact *worker = evidence_find(evidence, large.run, Q_WORKER_TIME, false);
        const Fact *worker_small = evidence_find(evidence, small.run, Q_WORKER_TIME, false);
        bool both = worker != NULL && worker_small != NULL;
        double outside = (both ? worker : outer)->number.value - inner->number.value;
        double outside_small =
            (both ? worker_small : outer_small)->number.value - inner_small->number.value;
        int blame = line_of_blame(evidence, large.size);
        finding_add(
            findings, blame > 0 ? FINDING_DISAGREES : FINDING_WARNING,
            "a longer run whose training got faster: the difference is set-up, not training",
            blame > 0 ? blame : outer->line, large.run,
            "from batch %.6g to %.6g the whole takes %.6g instead of %.6g s (line %d), the "
            "%s %.6g instead of %.6g s; outside it are %.4g s against %.4g s",
            small.size, large.size, outer->number.value, outer_small->number.value, outer->line,
            quantity_name(inner->quantity), inner->number.value, inner_small->number.value, outside,
            outside_small);
    }
}

/* Tokens per second as stated, or tokens over time; 0 when neither is known. */
static double throughput(const Evidence *evidence, int run, int *line)
{
    const Fact *rate = evidence_find(evidence, run, Q_TOKENS_PER_SECOND, false);
    const Fact *tokens = evidence_find(evidence, run, Q_TOKENS, true);
    const Fact *time = first_of(evidence, run, Q_TRAIN_TIME, Q_TOTAL_TIME);
    if (rate != NULL) {
        *line = rate->line;
        return rate->number.value;
    }
    if (tokens != NULL && time != NULL && time->number.value > 0) {
        *line = time->line;
        return tokens->number.value / time->number.value;
    }
    return 0;
}

static bool memory_is_over(const Findings *findings)
{
    for (int i = 0; i < findings->count; i++) {
        if (findings->items[i].run == FINDING_RUN_OF_MEMORY) {
            return true;
        }
    }
    return false;
}

static void check_drop(const Evidence *evidence, Point small, Point large, Findings *findings)
{
    int line_small = 0, line = 0;
    double before = throughput(evidence, small.run, &line_small);
    double after = throughput(evidence, large.run, &line);
    if (!(before > 0 && after > 0)) {
        return;
    }
    findings->compared++;
    if (after * DROP < before) {
        bool over = memory_is_over(findings);
        finding_add(
            findings, FINDING_WARNING, "throughput falls by several times between neighbours", line,
            large.run,
            "batch %.6g runs at %.0f tok/s, batch %.6g at %.0f (line %d): %.3g times less%s",
            large.size, after, small.size, before, line_small, before / after,
            over ? ". More memory is allocated than the device has, so spilling to system "
                   "memory is the likelier cause than compilation (a guess)"
                 : ". Memory near the device's limit spills to system memory on some "
                   "systems (a guess)");
    }
}

void rules_time(const Evidence *evidence, Findings *findings)
{
    for (int run = 0; run < evidence->run_count; run++) {
        check_phases(evidence, run, findings);
    }
    int count;
    Point *points = sweep(evidence, &count);
    check_waiting(evidence, points, count, findings);
    for (int i = 1; i < count; i++) {
        if (points[i].size > points[i - 1].size &&
            same_but_batch(evidence, points[i - 1].run, points[i].run)) {
            check_setup(evidence, points[i - 1], points[i], findings);
            check_drop(evidence, points[i - 1], points[i], findings);
        }
    }
    free(points);
}
