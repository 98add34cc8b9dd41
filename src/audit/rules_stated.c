/* What a text says twice or works out itself. One quantity of one run has one value: numbers agree
 * when the intervals they were rounded from meet, and a validation loss that is called neither
 * final nor best may be either. Products that are spelled out come out: "[512, 256] x 4 bytes =
 * 524 KB", "2,048 tokens (128 x 16 x 8)". */
#include "audit/findings.h"
#include "audit/scan.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- the same twice --- */

static const char rule[] = "the same number twice, with two values";

static const Quantity once[] = {
    Q_STEPS,         Q_TOKENS_PER_SECOND,  Q_SPEEDUP,      Q_TOTAL_TIME,     Q_WORKER_TIME,
    Q_EPOCH_TIME,    Q_TRAIN_TIME,         Q_COMPUTE_TIME, Q_FORWARD_TIME,   Q_BACKWARD_TIME,
    Q_LOSS_TIME,     Q_COMMUNICATION_TIME, Q_TRAIN_LOSS,   Q_VAL_LOSS,       Q_FINAL_VAL_LOSS,
    Q_BEST_VAL_LOSS, Q_DATA_TIME,          Q_MOVE_TIME,    Q_VALIDATION_TIME};

/* Lists of the document itself are about many things; only what is called final or best is one. */
static bool is_once(Quantity quantity, int run)
{
    return run > 0 || quantity == Q_FINAL_VAL_LOSS || quantity == Q_BEST_VAL_LOSS;
}

static bool comparable(const Fact *fact)
{
    return fact->point == 0 && !fact->mean && !fact->number.open && !fact->number.range;
}

static bool same_moment(const Fact *a, const Fact *b, bool one_moment)
{
    return a->moment == b->moment || (one_moment && (a->moment < 0 || b->moment < 0));
}

static bool agrees(const Fact *a, const Fact *b)
{
    return number_agrees(a->number, b->number, 1e-9);
}

/* Whether a validation loss is the run's final or best one. */
static bool is_final_or_best(const Evidence *evidence, const Fact *fact)
{
    static const Quantity kinds[] = {Q_FINAL_VAL_LOSS, Q_BEST_VAL_LOSS, Q_VAL_LOSS};
    for (int k = 0; k < 3 && fact->quantity == Q_VAL_LOSS; k++) {
        const Fact *other = evidence_find(evidence, fact->run, kinds[k], false);
        if (other != NULL && other != fact && agrees(other, fact)) {
            return true;
        }
    }
    return false;
}

static void report(const Fact *first, const Fact *second, Findings *findings)
{
    char rank[40] = "";
    double gap = fabs(first->number.value - second->number.value) /
                 fmax(fabs(first->number.value), fabs(second->number.value));
    bool of_rank = second->rank >= 0 || first->rank >= 0;
    if (of_rank) {
        snprintf(rank, sizeof rank, " (said by rank %d)",
                 second->rank >= 0 ? second->rank : first->rank);
    }
    /* A rank's own share of the data explains a small difference. */
    finding_about(findings, of_rank && gap < 0.05 ? FINDING_WARNING : FINDING_DISAGREES, rule,
                  second->line, first->run, "%s is %.6g here and %.6g in line %d%s",
                  quantity_name(first->quantity), second->number.value, first->number.value,
                  first->line, rank);
}

static void check_quantity(const Evidence *evidence, int run, Quantity quantity, Findings *findings)
{
    const Fact *first = NULL;
    bool one_moment = true;
    int ranks = 0, moment = -1, begin = evidence_first(evidence, run, quantity);
    for (int i = begin; evidence_is(evidence, i, run, quantity); i++) {
        const Fact *fact = &evidence->facts[i];
        ranks += fact->rank >= 0;
        one_moment = one_moment && (moment < 0 || fact->moment < 0 || moment == fact->moment);
        moment = fact->moment >= 0 ? fact->moment : moment;
        if (first == NULL && comparable(fact) && fact->rank < 0) {
            first = fact;
        }
    }
    bool loss = quantity == Q_TRAIN_LOSS || quantity == Q_VAL_LOSS;
    for (int i = begin; first != NULL && evidence_is(evidence, i, run, quantity); i++) {
        const Fact *fact = &evidence->facts[i];
        bool whole = fact->rank < 0 || (loss && ranks == 1);
        if (fact == first || !comparable(fact) || !whole || !same_moment(first, fact, one_moment)) {
            continue;
        }
        findings->compared++;
        if (!agrees(first, fact) && !is_final_or_best(evidence, fact)) {
            report(first, fact, findings);
        }
    }
}

/* A validation loss without a kind, where the run has kinds only. */
static void check_kinds(const Evidence *evidence, int run, Findings *findings)
{
    const Fact *final = evidence_find(evidence, run, Q_FINAL_VAL_LOSS, false);
    const Fact *best = evidence_find(evidence, run, Q_BEST_VAL_LOSS, false);
    if (run == 0 || (final == NULL && best == NULL)) {
        return;
    }
    const Fact *first = evidence_find(evidence, run, Q_VAL_LOSS, false);
    if (first != NULL && comparable(first)) {
        findings->compared++;
        if (!is_final_or_best(evidence, first)) {
            report(final != NULL ? final : best, first, findings);
        }
    }
    if (final != NULL && best != NULL && best->number.low > final->number.high) {
        finding_about(findings, FINDING_DISAGREES, "the best loss is at most the final one",
                      best->line, run, "best %.6g, final %.6g (line %d)", best->number.value,
                      final->number.value, final->line);
    }
}

void rules_same(const Evidence *evidence, Findings *findings)
{
    for (int run = 0; run < evidence->run_count; run++) {
        for (size_t k = 0; k < sizeof once / sizeof once[0]; k++) {
            if (is_once(once[k], run)) {
                check_quantity(evidence, run, once[k], findings);
            }
        }
        check_kinds(evidence, run, findings);
    }
}

/* --- products --- */

#define PRODUCT_SLACK 0.01
#define GAP_SIZE 32 /* characters between two factors, at most */

static bool is_times(const char *text, int from, int to)
{
    int signs = 0;
    if (to - from > GAP_SIZE) {
        return false;
    }
    for (int i = from; i < to; i++) {
        unsigned char c = (unsigned char)text[i];
        bool cross = c == 0xc3 && (unsigned char)text[i + 1] == 0x97;
        bool letter = c == 'x' && text[i - 1] == ' ' && text[i + 1] == ' ';
        if (cross || letter || c == '*') {
            signs++;
            i += cross;
        } else if (!isalpha(c) && c != ' ' && c != ']' && c != '[') {
            return false;
        }
    }
    return signs == 1;
}

/* ", " inside brackets: a shape, whose product counts its elements. */
static bool is_shape_gap(const char *text, int from, int to)
{
    const char *close = strchr(text + to, ']'), *open = strchr(text + to, '[');
    return to - from == 2 && text[from] == ',' && close != NULL && (open == NULL || close < open) &&
           memchr(text, '[', (size_t)from) != NULL;
}

/* Only words and one sign of the given kind between two numbers. */
static bool gap_has_only(const char *text, int from, int to, char sign)
{
    int signs = 0;
    for (int i = from; i < to; i++) {
        signs += text[i] == sign;
        if (text[i] != sign && text[i] != ']' && text[i] != '[' && text[i] != ' ' &&
            !isalpha((unsigned char)text[i])) {
            return false;
        }
    }
    return signs == 1 && to - from <= 40;
}

static void check_chain(const char *text, int line, const ScanItem *items, int first, int last,
                        int count, Findings *findings)
{
    const ScanItem *result = NULL;
    if (last + 1 < count && gap_has_only(text, items[last].end, items[last + 1].start, '=')) {
        result = &items[last + 1];
    } else if (first > 0 && gap_has_only(text, items[first - 1].end, items[first].start, '(')) {
        result = &items[first - 1];
    } else if (first > 0 && gap_has_only(text, items[first - 1].end, items[first].start, '=')) {
        result = &items[first - 1];
    }
    if (result == NULL || result->number.open || result->number.unit == UNIT_PERCENT) {
        return;
    }
    Number product = number_exact(1);
    for (int i = first; i <= last; i++) {
        Number factor = items[i].number;
        product = number_multiply(product, factor.counted ? number_exact(factor.value) : factor);
    }
    findings->compared++;
    /* MB may mean either million: 1024 x 1024 / 1,000,000 = 1.049. */
    double slack = result->number.unit == UNIT_BYTES ? 0.075 : PRODUCT_SLACK;
    if (!number_agrees(product, result->number, slack)) {
        finding_add(findings, FINDING_DISAGREES, "a product that is written out", line, 0,
                    "%.10g is stated; %.*s makes %.10g", result->number.value,
                    items[last].end - items[first].start, text + items[first].start, product.value);
    }
}

void rules_products(const Evidence *evidence, Findings *findings)
{
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        bool sign = strstr(line->text, "\xc3\x97") != NULL || strstr(line->text, " x ") != NULL ||
                    strstr(line->text, " * ") != NULL || strchr(line->text, '[') != NULL;
        if (line->kind != LINE_TEXT || !sign) {
            continue;
        }
        int count = scan_line(line->text, items);
        for (int first = 0; first < count;) {
            int last = first;
            while (last + 1 < count &&
                   (is_times(line->text, items[last].end, items[last + 1].start) ||
                    is_shape_gap(line->text, items[last].end, items[last + 1].start))) {
                last++;
            }
            if (last > first) {
                check_chain(line->text, i + 1, items, first, last, count, findings);
            }
            first = last + 1;
        }
    }
}
