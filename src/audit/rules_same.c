/* One quantity of one run has one value. Numbers agree when the intervals they were rounded from
 * meet. A validation loss that is called neither final nor best may be either. */
#include "audit/findings.h"

#include <math.h>
#include <stdio.h>

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

static void report(const Evidence *evidence, const Fact *first, const Fact *second,
                   Findings *findings)
{
    char name[FINDING_RUN_SIZE], rank[40] = "";
    double gap = fabs(first->number.value - second->number.value) /
                 fmax(fabs(first->number.value), fabs(second->number.value));
    bool of_rank = second->rank >= 0 || first->rank >= 0;
    if (of_rank) {
        snprintf(rank, sizeof rank, " (said by rank %d)",
                 second->rank >= 0 ? second->rank : first->rank);
    }
    /* A rank's own share of the data explains a small difference. */
    finding_add(findings, of_rank && gap < 0.05 ? FINDING_WARNING : FINDING_DISAGREES, rule,
                second->line, first->run, "%s%s is %.6g here and %.6g in line %d%s",
                finding_run(evidence, first->run, name), quantity_name(first->quantity),
                second->number.value, first->number.value, first->line, rank);
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
            report(evidence, first, fact, findings);
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
            report(evidence, final != NULL ? final : best, first, findings);
        }
    }
    if (final != NULL && best != NULL && best->number.low > final->number.high) {
        char name[FINDING_RUN_SIZE];
        finding_add(findings, FINDING_DISAGREES, "the best loss is at most the final one",
                    best->line, run, "%sbest %.6g, final %.6g (line %d)",
                    finding_run(evidence, run, name), best->number.value, final->number.value,
                    final->line);
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
