/* Losses, shares, phases and bytes of one run. */
#include "audit/relations.h"

#include <math.h>

/* --- loss --- */

static bool exp_of_loss(const Evidence *evidence, int record, Quantity perplexity,
                        const Quantity *losses, int count, Outcome *outcome)
{
    outcome->stated = relation_measured(evidence, record, perplexity);
    bool applies = false;
    for (int i = 0; i < count && outcome->stated != NULL; i++) {
        const Fact *loss = relation_measured(evidence, record, losses[i]);
        if (loss != NULL && loss->number.value < 50 && !(loss->marks & MARK_MEAN)) {
            Number power = number_map(loss->number, exp);
            outcome->agrees |= number_agrees(power, outcome->stated->number, 0.002);
            applies = true;
            SAY(outcome, "perplexity %.6g is stated; exp(%.6g) = %.6g",
                outcome->stated->number.value, loss->number.value, power.value);
        }
    }
    return applies;
}

static bool perplexity(const Evidence *evidence, int record, Outcome *outcome)
{
    static const Quantity losses[] = {Q_LOSS},
                          own[] = {Q_VAL_LOSS, Q_FINAL_VAL_LOSS, Q_BEST_VAL_LOSS};
    return exp_of_loss(evidence, record, Q_VAL_PERPLEXITY, own, 3, outcome) ||
           exp_of_loss(evidence, record, Q_PERPLEXITY, losses, 1, outcome);
}

static bool best_and_final(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *final = relation_measured(evidence, record, Q_FINAL_VAL_LOSS);
    outcome->stated = relation_measured(evidence, record, Q_BEST_VAL_LOSS);
    if (outcome->stated == NULL || final == NULL) {
        return false;
    }
    outcome->agrees = outcome->stated->number.low <= final->number.high;
    SAY(outcome, "best %.6g, final %.6g (line %d)", outcome->stated->number.value,
        final->number.value, final->line);
    return true;
}

/* --- efficiency --- */

static bool efficiency(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *speedup = relation_measured(evidence, record, Q_SPEEDUP);
    const Fact *ranks = evidence_own(evidence, record, Q_RANKS);
    outcome->stated = relation_measured(evidence, record, Q_EFFICIENCY);
    if (outcome->stated == NULL || speedup == NULL || ranks == NULL) {
        return false;
    }
    Number share = number_share(outcome->stated->number);
    /* The row whose speed-up is 1 is the base; without one it may be any power of two. */
    const Record *at = &evidence->records[record];
    double base = 0;
    for (int i = record; at->table > 0 && i >= 0 && evidence->records[i].table == at->table; i--) {
        const Fact *one = evidence_own(evidence, i, Q_SPEEDUP);
        if (one != NULL && fabs(one->number.value - 1) < 0.005) {
            base = evidence_value(evidence, i, Q_RANKS);
        }
    }
    Number more = number_divide(speedup->number, share); /* times the ranks of the base */
    double least = base > 0 ? base : 1, most = base > 0 ? base : ranks->number.value;
    for (double few = least; few <= most; few *= 2) {
        outcome->agrees |= number_agrees(more, number_exact(ranks->number.value / few), 0.005);
    }
    SAY(outcome, "efficiency %.4g %% is stated; speed-up %.4g on %.6g times the ranks is %.4g %%",
        100 * share.value, speedup->number.value, ranks->number.value / least,
        100 * speedup->number.value * least / ranks->number.value);
    return true;
}

static bool mfu_of_flop(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *work = relation_measured(evidence, record, Q_FLOP_PER_SECOND);
    outcome->stated = relation_measured(evidence, record, Q_MFU);
    int rows = 0; /* two rows may be of two devices, of which one is not known */
    for (int i = record - 2; i <= record + 2; i++) {
        rows += i >= 0 && i < evidence->record_count &&
                evidence->records[i].table == evidence->records[record].table;
    }
    if (outcome->stated == NULL || work == NULL || evidence->peak == 0 || rows < 3 ||
        evidence->records[record].table == 0) {
        return false;
    }
    Number share = number_share(outcome->stated->number);
    Number derived = number_divide(work->number, number_exact(evidence->peak));
    double ranks = evidence_value(evidence, record, Q_RANKS);
    outcome->agrees = number_agrees(derived, share, 0.02) ||
                      (ranks > 1 && !(work->marks & MARK_PER_RANK) &&
                       number_agrees(number_divide(derived, number_exact(ranks)), share, 0.02));
    SAY(outcome, "MFU %.4g %% is stated; %.6g TFLOP/s of the peak of %.6g are %.4g %%",
        100 * share.value, work->number.value / 1e12, evidence->peak / 1e12, 100 * derived.value);
    return true;
}

/* 6 FLOP per parameter and token against the peak of the one device that is named. Attention,
 * recomputation and other peaks make up to half or twice of it; between that and agreement there
 * is no word. */
static bool mfu_of_rate(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *rate = relation_measured(evidence, record, Q_TOKENS_PER_SECOND);
    const Fact *parameters = evidence_known(evidence, record, Q_PARAMETERS);
    const Fact *seq = evidence_known(evidence, record, Q_SEQ);
    outcome->stated = relation_measured(evidence, record, Q_MFU);
    if (outcome->stated == NULL || rate == NULL || parameters == NULL || evidence->peak == 0 ||
        !(rate->marks & MARK_PER_RANK) || parameters->number.value < 1e8 ||
        evidence->records[record].table == 0 || (seq != NULL && seq->number.value > 4096)) {
        return false;
    }
    double share = number_share(outcome->stated->number).value;
    double derived = 6 * parameters->number.value * rate->number.value / evidence->peak;
    double off = share / derived;
    outcome->agrees = off > 0.9 && off < 1.4;
    SAY(outcome, "MFU %.4g %% is stated; 6 x %.4g parameters x %.6g tok/s are %.3g %% of the peak",
        100 * share, parameters->number.value, rate->number.value, 100 * derived);
    return outcome->agrees || off > 1.9 || off < 0.45;
}

/* --- phases --- */

static const Quantity loop_phases[] = {Q_DATA_TIME, Q_MOVE_TIME, Q_COMPUTE_TIME,
                                       Q_COMMUNICATION_TIME};
static const Quantity step_phases[] = {Q_FORWARD_TIME,      Q_BACKWARD_TIME, Q_LOSS_TIME,
                                       Q_OPTIMIZER_TIME,    Q_DATA_TIME,     Q_MOVE_TIME,
                                       Q_COMMUNICATION_TIME};

/* What may go on beside the computation, and so does not add to its time. */
static bool can_overlap(Quantity phase)
{
    return phase == Q_DATA_TIME || phase == Q_MOVE_TIME || phase == Q_COMMUNICATION_TIME;
}

/* The sum of the phases that are stated, and the innermost total around them; 0 phases: nothing
 * to compare. `all`: those that make a step are there. */
static int phases(const Evidence *evidence, int record, bool overlapping, Number *sum,
                  const Fact **total, bool *all)
{
    static const Quantity totals[] = {Q_TRAIN_TIME, Q_EPOCH_TIME, Q_STEP_TIME, Q_TOTAL_TIME};
    bool loop = evidence_own(evidence, record, Q_COMPUTE_TIME) != NULL;
    const Quantity *kinds = loop ? loop_phases : step_phases;
    size_t size = loop ? sizeof loop_phases : sizeof step_phases;
    int count = 0;
    *sum = number_exact(0);
    for (size_t i = 0; i < size / sizeof kinds[0]; i++) {
        const Fact *fact = evidence_own(evidence, record, kinds[i]);
        if (fact != NULL && (overlapping || !can_overlap(kinds[i]))) {
            *sum = number_add(*sum, fact->number);
            count++;
        }
    }
    *total = NULL;
    for (int i = 0; i < 4 && *total == NULL; i++) {
        *total = evidence_own(evidence, record, totals[i]);
    }
    *all = loop ? count >= 3
                : evidence_own(evidence, record, Q_FORWARD_TIME) != NULL &&
                      evidence_own(evidence, record, Q_BACKWARD_TIME) != NULL && count >= 3;
    return *total != NULL && (*total)->number.value > 0 ? count : 0;
}

static bool phases_missing(const Evidence *evidence, int record, Outcome *outcome)
{
    Number sum;
    bool all;
    int count = phases(evidence, record, true, &sum, &outcome->stated, &all);
    if (count < 2 || !all) {
        return false;
    }
    double total = outcome->stated->number.value;
    outcome->agrees = sum.high >= 0.9 * outcome->stated->number.low;
    SAY(outcome, "%d phases sum to %.6g s of %.6g s %s (%.0f %%); %.6g s are unaccounted for",
        count, sum.value, total, quantity_name(outcome->stated->quantity), 100 * sum.value / total,
        total - sum.value);
    return true;
}

static bool phases_overfull(const Evidence *evidence, int record, Outcome *outcome)
{
    Number sum;
    bool all;
    int count = phases(evidence, record, false, &sum, &outcome->stated, &all);
    if (count == 0) {
        return false;
    }
    outcome->agrees = sum.low <= 1.05 * outcome->stated->number.high;
    SAY(outcome, "%d phase%s sum%s to %.6g s, the total is %.6g s (%.0f %%)", count,
        count == 1 ? "" : "s", count == 1 ? "s" : "", sum.value, outcome->stated->number.value,
        100 * sum.value / outcome->stated->number.value);
    return true;
}

/* --- bytes of the optimizer --- */

static bool optimizer_bytes(const Evidence *evidence, int record, Outcome *outcome)
{
    /* Two moments of the weights' type; in fewer bits; of f32 beside 2-byte weights; with a
     * copy. */
    static const double factors[] = {2, 1, 0.5, 4, 6};
    const Fact *weights = relation_measured(evidence, record, Q_PARAMETER_BYTES);
    const Fact *count = evidence_known(evidence, record, Q_PARAMETERS);
    outcome->stated = relation_measured(evidence, record, Q_OPTIMIZER_BYTES);
    if (outcome->stated == NULL || weights == NULL ||
        evidence->records[record].kind != RECORD_SECTION) {
        return false; /* in tables it may be split over ranks */
    }
    bool wide = count != NULL && weights->number.value > 3.5 * count->number.value;
    for (int i = 0; i < (wide ? 3 : 5); i++) {
        outcome->agrees |= number_agrees(number_multiply(weights->number, number_exact(factors[i])),
                                         outcome->stated->number, 0.05);
    }
    SAY(outcome, "optimizer state %.4g MB is stated; 2 x %.4g MB of parameters (line %d) = %.4g MB",
        outcome->stated->number.value / 1e6, weights->number.value / 1e6, weights->line,
        2 * weights->number.value / 1e6);
    return true;
}

const Rule rules_of_parts[] = {
    {"perplexity = exp(loss)", perplexity, false, false},
    {"the best loss is at most the final one", best_and_final, true, false},
    {"efficiency = speed-up / ranks", efficiency, false, false},
    {"MFU = FLOP/s / peak", mfu_of_flop, false, false},
    {"MFU = 6 x parameters x tokens per second / peak", mfu_of_rate, false, false},
    {"phases sum to their total: the rest has no timer", phases_missing, true, false},
    {"phases sum to more than their total: they overlap or count twice", phases_overfull, true,
     false},
    {"Adam keeps two numbers per parameter", optimizer_bytes, false, false},
    {NULL, NULL, false, false},
};
