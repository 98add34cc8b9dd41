/* Runs of one table over batch sizes: steps that are rows of a log, timers that cannot be right,
 * and what changes between neighbours. */
#include "audit/findings.h"
#include "audit/scan.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DROP 2.5 /* a fall of throughput between neighbours */

typedef struct {
    int record;
    double size;
} Point;

static int by_size(const void *left, const void *right)
{
    const Point *a = left, *b = right;
    return a->size != b->size ? (a->size > b->size) - (a->size < b->size) : a->record - b->record;
}

/* Whether two rows differ in batch and accumulation alone. */
static bool same_but_batch(const Evidence *evidence, int a, int b)
{
    static const Quantity others[] = {Q_SEQ, Q_RANKS, Q_LR};
    bool same = strcmp(evidence->records[a].label, evidence->records[b].label) == 0;
    for (int i = 0; i < 3; i++) {
        same = same &&
               evidence_value(evidence, a, others[i]) == evidence_value(evidence, b, others[i]);
    }
    return same;
}

/* --- steps that are rows of a log --- */

/* Runs over the same tokens with fewer steps than these need, all of them. */
static void check_steps(const Evidence *evidence, const Point *points, int count,
                        Findings *findings)
{
    double low = INFINITY, high = 0, least = INFINITY, most = 0;
    int runs = 0;
    double *ratios = mem_zalloc((size_t)count + 1, sizeof *ratios);
    for (int i = 0; i < count; i++) {
        int record = points[i].record;
        const Fact *steps = evidence_own(evidence, record, Q_STEPS);
        const Fact *tokens = evidence_known(evidence, record, Q_TOKENS);
        double seq = evidence_value(evidence, record, Q_SEQ);
        if (steps == NULL || tokens == NULL || !(seq > 0) || !(steps->number.value > 0)) {
            continue;
        }
        double work = steps->number.value * points[i].size;
        ratios[i] = tokens->number.value / (work * seq);
        low = fmin(low, ratios[i]);
        high = fmax(high, ratios[i]);
        least = fmin(least, work);
        most = fmax(most, work);
        runs++;
    }
    bool sweep = runs >= 3 && most < 1.5 * least && points[count - 1].size >= 4 * points[0].size;
    for (int i = 0, said = 0; i < count && sweep && low > 2; i++) {
        if (ratios[i] > 0) {
            const Fact *steps = evidence_own(evidence, points[i].record, Q_STEPS);
            char all[120] = "";
            if (said++ == 0) {
                snprintf(all, sizeof all,
                         "; the ratio is %.3g to %.3g in all %d runs, so these look like logged "
                         "rows, not updates",
                         low, high, runs);
            }
            findings->compared++;
            finding_about(
                findings, FINDING_DISAGREES, "tokens = steps x tokens per step", steps->line,
                points[i].record, "%.10g steps are stated; the tokens need %.10g (%.3g x)%s",
                steps->number.value, round(ratios[i] * steps->number.value), ratios[i], all);
        }
    }
    free(ratios);
}

/* --- timers that do not wait --- */

static const Fact *per_call(const Evidence *evidence, int record, Quantity quantity)
{
    const Record *at = &evidence->records[record];
    for (int i = at->first; i < at->first + at->count; i++) {
        if (evidence->facts[i].quantity == quantity && evidence->facts[i].call) {
            return &evidence->facts[i];
        }
    }
    return NULL;
}

/* Forward and loss both work on every token of the batch. When one grows with it and the other does
 * not, the first only measures how long it takes to hand work to the device. */
static void check_waiting(const Evidence *evidence, Point small, Point large, Findings *findings)
{
    const Fact *forward = per_call(evidence, large.record, Q_FORWARD_TIME);
    const Fact *loss = per_call(evidence, large.record, Q_LOSS_TIME);
    const Fact *forward_small = per_call(evidence, small.record, Q_FORWARD_TIME);
    const Fact *loss_small = per_call(evidence, small.record, Q_LOSS_TIME);
    if (forward == NULL || loss == NULL || forward_small == NULL || loss_small == NULL) {
        return;
    }
    findings->compared++;
    double work = large.size / small.size;
    double forward_grows = forward->number.high / fmax(forward_small->number.low, 1e-12);
    double loss_grows = loss->number.low / fmax(loss_small->number.high, 1e-12);
    if (work >= 4 && forward_grows < work / 4 && loss_grows > 4 * forward_grows) {
        finding_add(findings, FINDING_DISAGREES,
                    "forward and loss grow with the batch alike: timers that do not wait for "
                    "the device charge one with the other's work",
                    loss->line,
                    "from batch %.6g to %.6g loss grows from %.4g to %.4g ms a call, forward "
                    "only from %.4g to %.4g ms",
                    small.size, large.size, 1e3 * loss_small->number.value,
                    1e3 * loss->number.value, 1e3 * forward_small->number.value,
                    1e3 * forward->number.value);
    }
}

/* --- neighbours --- */

static const Fact *first_of(const Evidence *evidence, int record, Quantity a, Quantity b)
{
    const Fact *fact = evidence_own(evidence, record, a);
    return fact != NULL ? fact : evidence_own(evidence, record, b);
}

/* The line that speaks of this batch as worse; 0. */
static int line_of_blame(const Evidence *evidence, double batch)
{
    static const char words[] =
        " degrades | degraded | degradation | regression | regresses | slower | worse | slows |"
        " slowdown ";
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        bool blames = line->kind == LINE_TEXT && scan_has_any(line->text, words);
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
    const Fact *outer = first_of(evidence, large.record, Q_TOTAL_TIME, Q_WORKER_TIME);
    const Fact *outer_small = first_of(evidence, small.record, Q_TOTAL_TIME, Q_WORKER_TIME);
    const Fact *inner = first_of(evidence, large.record, Q_EPOCH_TIME, Q_TRAIN_TIME);
    const Fact *inner_small = first_of(evidence, small.record, Q_EPOCH_TIME, Q_TRAIN_TIME);
    if (outer == NULL || outer_small == NULL || inner == NULL || inner_small == NULL) {
        return;
    }
    findings->compared++;
    if (outer->number.low > 1.05 * outer_small->number.high &&
        inner->number.high < inner_small->number.low) {
        const Fact *worker = evidence_own(evidence, large.record, Q_WORKER_TIME);
        const Fact *worker_small = evidence_own(evidence, small.record, Q_WORKER_TIME);
        bool both = worker != NULL && worker_small != NULL;
        double outside = (both ? worker : outer)->number.value - inner->number.value;
        double outside_small =
            (both ? worker_small : outer_small)->number.value - inner_small->number.value;
        int blame = line_of_blame(evidence, large.size);
        finding_add(
            findings, blame > 0 ? FINDING_DISAGREES : FINDING_WARNING,
            "a longer run whose training got faster: the difference is set-up, not training",
            blame > 0 ? blame : outer->line,
            "from batch %.6g to %.6g the whole takes %.6g instead of %.6g s (line %d), the "
            "%s %.6g instead of %.6g s; outside it are %.4g s against %.4g s",
            small.size, large.size, outer->number.value, outer_small->number.value, outer->line,
            quantity_name(inner->quantity), inner->number.value, inner_small->number.value, outside,
            outside_small);
    }
}

/* Tokens per second as stated, or tokens over time; 0 when neither is known. */
static double throughput(const Evidence *evidence, int record, int *line)
{
    const Fact *rate = evidence_own(evidence, record, Q_TOKENS_PER_SECOND);
    const Fact *tokens = evidence_known(evidence, record, Q_TOKENS);
    const Fact *time = first_of(evidence, record, Q_TRAIN_TIME, Q_TOTAL_TIME);
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

static void check_drop(const Evidence *evidence, Point small, Point large, Findings *findings)
{
    int line_small = 0, line = 0;
    double before = throughput(evidence, small.record, &line_small);
    double after = throughput(evidence, large.record, &line);
    if (!(before > 0 && after > 0)) {
        return;
    }
    findings->compared++;
    if (after * DROP < before) {
        bool over = false;
        for (int i = 0; i < findings->count; i++) {
            over |= strncmp(findings->items[i].rule, "memory allocated", 16) == 0;
        }
        finding_add(
            findings, FINDING_WARNING, "throughput falls by several times between neighbours", line,
            "batch %.6g runs at %.0f tok/s, batch %.6g at %.0f (line %d): %.3g times less%s",
            large.size, after, small.size, before, line_small, before / after,
            over ? ". More memory is allocated than the device has, so spilling to system "
                   "memory is the likelier cause than compilation (a guess)"
                 : ". Memory near the device's limit spills to system memory on some "
                   "systems (a guess)");
    }
}

/* --- one learning rate for all --- */

static bool has_loss(const Evidence *evidence, int record)
{
    return first_of(evidence, record, Q_VAL_LOSS, Q_FINAL_VAL_LOSS) != NULL ||
           evidence_own(evidence, record, Q_BEST_VAL_LOSS) != NULL;
}

static void check_one_rate(const Evidence *evidence, const Point *points, int count,
                           Findings *findings)
{
    double rate = evidence_value(evidence, points[0].record, Q_LR);
    bool one = count >= 3 && points[count - 1].size >= 4 * points[0].size && rate > 0;
    int judged = 0;
    for (int i = 0; i < count && one; i++) {
        judged += has_loss(evidence, points[i].record);
        one = evidence_value(evidence, points[i].record, Q_LR) == rate;
    }
    if (one && judged >= 3) {
        double most = points[count - 1].size;
        for (int i = count - 1; i > 0 && !has_loss(evidence, points[i].record); i--) {
            most = points[i - 1].size; /* a run without a loss did not take place */
        }
        finding_add(findings, FINDING_WARNING,
                    "batches are compared at one learning rate: part of the difference is that the "
                    "rate is tuned for at most one of them",
                    evidence->records[points[0].record].line,
                    "learning rate %.4g for all batches from %.6g to %.6g", rate, points[0].size,
                    most);
    }
}

/* --- the sequence length that a table implies --- */

static void note_sequence(const Evidence *evidence, int first, int end, Findings *findings)
{
    double low = INFINITY, high = 0;
    int rows = 0;
    for (int i = first; i < end; i++) {
        const Fact *rate = evidence_own(evidence, i, Q_TOKENS_PER_SECOND);
        const Fact *time = evidence_own(evidence, i, Q_EPOCH_TIME);
        const Fact *samples = evidence_own(evidence, i, Q_SAMPLES_PER_EPOCH);
        if (rate != NULL && time != NULL && samples != NULL && samples->number.value > 0 &&
            evidence_known(evidence, i, Q_SEQ) == NULL) {
            double implied = rate->number.value * time->number.value / samples->number.value;
            low = fmin(low, implied);
            high = fmax(high, implied);
            rows++;
        }
    }
    if (rows >= 3 && high < 1.01 * low) {
        findings->compared += rows;
        finding_add(findings, FINDING_NOTE, "the sequence length is not stated",
                    evidence->records[first].line, "%d runs imply about %.0f tokens per sequence",
                    rows, sqrt(low * high));
    }
}

static void check_table(const Evidence *evidence, int first, int end, Findings *findings)
{
    Point *points = mem_zalloc((size_t)(end - first), sizeof *points);
    int count = 0;
    for (int i = first; i < end; i++) {
        double batch = evidence_batch(evidence, i);
        bool alike = count == 0 || same_but_batch(evidence, points[0].record, i);
        if (batch > 0 && !evidence->records[i].sum && !evidence->records[i].point && alike) {
            points[count++] = (Point){i, batch};
        }
    }
    qsort(points, (size_t)count, sizeof *points, by_size);
    if (count > 1) {
        check_steps(evidence, points, count, findings);
        check_waiting(evidence, points[0], points[count - 1], findings);
        check_one_rate(evidence, points, count, findings);
    }
    for (int i = 1; i < count; i++) {
        if (points[i].size > points[i - 1].size) {
            check_setup(evidence, points[i - 1], points[i], findings);
            check_drop(evidence, points[i - 1], points[i], findings);
        }
    }
    free(points);
}

void rules_sweep(const Evidence *evidence, Findings *findings)
{
    for (int i = 0; i < evidence->record_count;) {
        int end = evidence_table_end(evidence, i), table = evidence->records[i].table;
        if (table > 0 && !evidence->records[i].supposed && end - i <= TABLE_ROWS_MAX) {
            check_table(evidence, i, end, findings);
            note_sequence(evidence, i, end, findings);
        }
        i = end;
    }
}
