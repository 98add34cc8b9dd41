/* Numbers of one run against each other. A relation looks at one record and says whether the
 * stated number follows from the others; unsaid factors (ranks, accumulation) may be any whole
 * number. Rows of a table bear witness for each other: where most rows agree with a relation, the
 * others are wrong; where none does, the columns mean something else, and nothing is said. */
#include "audit/findings.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MANY 3 /* rows that would all be wrong are read wrongly */

typedef struct {
    const Fact *stated; /* the line of the finding is its line */
    bool agrees;
    char text[FINDING_SIZE - RUN_TEXT_SIZE];
} Outcome;

#define SAY(outcome, ...) snprintf((outcome)->text, sizeof(outcome)->text, __VA_ARGS__)

typedef bool Relation(const Evidence *evidence, int record, Outcome *outcome);

/* --- factors --- */

/* Numbers a quantity may have; `open`: or a whole multiple of them. */
typedef struct {
    Number items[4];
    int count;
    bool open;
} Readings;

static void read_as(Readings *readings, Number number)
{
    readings->items[readings->count++] = number;
}

static bool follows(const Readings *readings, Number value, double slack)
{
    for (int i = 0; i < readings->count; i++) {
        const Number *item = &readings->items[i];
        double times = floor(value.value / item->value + 0.5);
        if (number_agrees(*item, value, slack) ||
            (readings->open && times >= 2 &&
             number_agrees(number_multiply(*item, number_exact(times)), value, slack))) {
            return true;
        }
    }
    return false;
}

static Number counted(const Fact *fact)
{
    return fact->number.counted ? number_exact(fact->number.value) : fact->number;
}

/* Tokens of a step from batch, accumulation, sequence length and ranks. The batch may be that of a
 * rank or of all where its name does not say. */
static Readings step_tokens(const Evidence *evidence, int record, char *text, size_t size)
{
    Readings readings = {.count = 0};
    const Fact *seq = evidence_known(evidence, record, Q_SEQ);
    const Fact *all = evidence_known(evidence, record, Q_GLOBAL_BATCH);
    const Fact *local = evidence_known(evidence, record, Q_LOCAL_BATCH);
    const Fact *batch = evidence_known(evidence, record, Q_BATCH);
    const Fact *accum = evidence_known(evidence, record, Q_ACCUM);
    const Fact *ranks = evidence_known(evidence, record, Q_RANKS);
    const Fact *base = local != NULL ? local : batch;
    Number a = accum != NULL ? counted(accum) : number_exact(1);
    Number r = ranks != NULL ? counted(ranks) : number_exact(1);
    text[0] = '\0';
    if (seq == NULL || (all == NULL && base == NULL)) {
        return readings;
    }
    if (all != NULL) {
        read_as(&readings, number_multiply(counted(all), counted(seq)));
        snprintf(text, size, "%.10g x %.10g, global batch x sequence", all->number.value,
                 seq->number.value);
        return readings;
    }
    Number one = number_multiply(counted(base), counted(seq));
    Number whole = number_multiply(number_multiply(one, a), r);
    read_as(&readings, whole);
    if (local == NULL) {
        read_as(&readings, one);
        read_as(&readings, number_multiply(one, a));
        read_as(&readings, number_multiply(one, r));
    }
    if (evidence->split && r.value > 1) { /* any number of ranks may share a batch */
        readings = (Readings){.open = true};
        read_as(&readings, number_multiply(one, a));
        return readings;
    }
    readings.open = accum == NULL || ranks == NULL;
    if (accum == NULL && ranks != NULL && local != NULL &&
        evidence_own(evidence, record, Q_TOKENS_PER_STEP) != NULL) {
        readings.open = false; /* a stated product names its factors */
    }
    snprintf(text, size, "%.10g x %.10g x %.10g x %.10g, batch x accumulation x sequence x ranks",
             base->number.value, a.value, seq->number.value, r.value);
    return readings;
}

/* Tokens per second of all ranks. */
static Readings total_rate(const Evidence *evidence, int record, const Fact *rate)
{
    Readings readings = {.count = 0};
    double ranks = evidence_value(evidence, record, Q_RANKS);
    Number times = number_multiply(rate->number, number_exact(fmax(1, ranks)));
    if (rate->marks & MARK_PER_RANK) {
        read_as(&readings, times);
        readings.open = ranks == 0;
    } else {
        read_as(&readings, rate->number);
        if (!(rate->marks & MARK_TOTAL)) {
            read_as(&readings, times);
            readings.open = ranks == 0;
        }
    }
    return readings;
}

/* The record's own fact with a unit where its kind has one. */
static const Fact *measured(const Evidence *evidence, int record, Quantity quantity)
{
    const Fact *fact = evidence_own(evidence, record, quantity);
    bool bare = fact != NULL && quantity_is_time(quantity) && fact->number.unit == UNIT_NONE;
    return bare || (fact != NULL && !(fact->number.value > 0)) ? NULL : fact;
}

/* --- tokens --- */

static bool tokens_per_step(const Evidence *evidence, int record, Outcome *outcome)
{
    char text[120];
    Readings readings = step_tokens(evidence, record, text, sizeof text);
    outcome->stated = measured(evidence, record, Q_TOKENS_PER_STEP);
    if (outcome->stated == NULL || readings.count == 0) {
        return false;
    }
    outcome->agrees = follows(&readings, outcome->stated->number, 0.005);
    SAY(outcome, "%.10g tokens per step are stated; %s, makes %.10g", outcome->stated->number.value,
        text, readings.items[0].value);
    return true;
}

static bool global_batch(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *local = evidence_own(evidence, record, Q_LOCAL_BATCH);
    const Fact *ranks = evidence_own(evidence, record, Q_RANKS);
    const Fact *accum = evidence_known(evidence, record, Q_ACCUM);
    outcome->stated = measured(evidence, record, Q_GLOBAL_BATCH);
    if (outcome->stated == NULL || local == NULL || ranks == NULL) {
        return false;
    }
    Readings readings = {.open = accum == NULL || evidence->split};
    Number one = evidence->split ? counted(local) : number_multiply(counted(local), counted(ranks));
    read_as(&readings, accum != NULL ? number_multiply(one, counted(accum)) : one);
    outcome->agrees = follows(&readings, counted(outcome->stated), 1e-9);
    SAY(outcome, "global batch %.10g is stated; %.10g x %.10g ranks%s makes %.10g",
        outcome->stated->number.value, local->number.value, ranks->number.value,
        accum != NULL ? " x accumulation" : "", readings.items[0].value);
    return true;
}

/* Tokens per step as stated, or as they follow. */
static Readings known_step_tokens(const Evidence *evidence, int record)
{
    char text[120];
    const Fact *stated = measured(evidence, record, Q_TOKENS_PER_STEP);
    Readings readings = step_tokens(evidence, record, text, sizeof text);
    if (stated != NULL) {
        readings.open = false;
        readings.count -= readings.count == 4;
        read_as(&readings, stated->number);
    }
    return readings;
}

static bool tokens_of_steps(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *tokens = measured(evidence, record, Q_TOKENS);
    Readings step = known_step_tokens(evidence, record);
    outcome->stated = measured(evidence, record, Q_STEPS);
    if (outcome->stated == NULL || tokens == NULL || step.count == 0) {
        return false;
    }
    Number need = number_divide(tokens->number, step.items[0]);
    Number product = number_divide(tokens->number, outcome->stated->number);
    outcome->agrees = follows(&step, product, 0.02);
    SAY(outcome, "%.10g steps are stated; the %.6g tokens need %.6g", outcome->stated->number.value,
        tokens->number.value, need.value);
    return true;
}

static bool rate_of_step(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *time = measured(evidence, record, Q_STEP_TIME);
    Readings step = known_step_tokens(evidence, record);
    outcome->stated = measured(evidence, record, Q_TOKENS_PER_SECOND);
    if (outcome->stated == NULL || time == NULL || step.count == 0 ||
        (outcome->stated->marks & MARK_PEAK)) {
        return false;
    }
    Readings rate = total_rate(evidence, record, outcome->stated);
    for (int i = 0; i < rate.count; i++) {
        Number tokens = number_multiply(rate.items[i], time->number);
        outcome->agrees |=
            follows(&step, tokens, 0.05) || (rate.open && tokens.value < step.items[0].value);
    }
    double tokens = rate.items[0].value * time->number.value, stated = step.items[0].value;
    double off = fmax(tokens / stated, stated / tokens);
    SAY(outcome,
        "%.6g tok/s x %.6g s per step (line %d) = %.6g tokens, but a step has %.6g (%.3g "
        "times %s)",
        outcome->stated->number.value, time->number.value, time->line, tokens, stated, off,
        tokens > stated ? "fewer" : "more");
    return true;
}

/* "4.42 h" for 4:42 h: the same digits read by the clock. */
static bool is_clock(Number stated, Number needed)
{
    double hours = stated.value / 3600, minutes = round((hours - floor(hours)) * 100);
    double clock = 3600 * floor(hours) + 60 * minutes;
    return minutes < 60 && minutes > 0 && fabs(clock - stated.value) > 30 &&
           number_agrees(number_exact(clock), needed, 0.01);
}

static bool rate_of_run(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *train = measured(evidence, record, Q_TRAIN_TIME);
    const Fact *whole = measured(evidence, record, Q_TOTAL_TIME);
    const Fact *gpu = measured(evidence, record, Q_GPU_TIME);
    const Fact *rate = measured(evidence, record, Q_TOKENS_PER_SECOND);
    const Fact *tokens = evidence_known(evidence, record, Q_TOKENS);
    const Fact *time = gpu != NULL ? gpu : train != NULL ? train : whole;
    if (rate == NULL || time == NULL || tokens == NULL || (rate->marks & MARK_PEAK) ||
        !(tokens->number.value > 0)) {
        return false;
    }
    Readings readings = total_rate(evidence, record, rate);
    if (gpu != NULL) { /* of one GPU */
        double ranks = evidence_value(evidence, record, Q_RANKS);
        readings = (Readings){.count = 0};
        read_as(&readings, rate->number);
        if (!(rate->marks & MARK_PER_RANK) && ranks > 1) {
            read_as(&readings, number_divide(rate->number, number_exact(ranks)));
        } else if (!(rate->marks & MARK_PER_RANK)) {
            return false;
        }
    }
    outcome->stated = time;
    for (int i = 0; i < readings.count; i++) {
        Number need = number_divide(tokens->number, readings.items[i]);
        double ranks = floor(need.value / time->number.value + 0.5);
        need = number_divide(need, number_exact(readings.open && ranks > 1 ? ranks : 1));
        /* Less time than the rate allows cannot be; more may have gone into something else. */
        bool longer = time->number.value > need.value &&
                      time->number.value < (time == whole ? 1.6 : 1.1) * need.value;
        outcome->agrees |= longer || number_agrees(need, time->number, 0.03);
    }
    Number need = number_divide(tokens->number, readings.items[0]);
    SAY(outcome, "%.6g tok/s x %.6g s = %.4g tokens; %.4g are stated (line %d)%s",
        readings.items[0].value, time->number.value, readings.items[0].value * time->number.value,
        tokens->number.value, tokens->line,
        is_clock(time->number, need) ? "; read by the clock (h:mm) the time agrees" : "");
    return true;
}

/* --- epochs --- */

static bool product_of(const Evidence *evidence, int record, Quantity stated, Quantity a,
                       Quantity b, double slack, Outcome *outcome, double *off)
{
    const Fact *left = measured(evidence, record, a), *right = measured(evidence, record, b);
    outcome->stated = measured(evidence, record, stated);
    if (outcome->stated == NULL || left == NULL || right == NULL) {
        return false;
    }
    Number product = number_multiply(counted(left), counted(right));
    outcome->agrees = number_agrees(product, outcome->stated->number, slack);
    *off = product.value / outcome->stated->number.value;
    SAY(outcome, "%s %.10g is stated; %.10g x %.10g (%s x %s) makes %.10g", quantity_name(stated),
        outcome->stated->number.value, left->number.value, right->number.value, quantity_name(a),
        quantity_name(b), product.value);
    return true;
}

static bool steps_of_epochs(const Evidence *evidence, int record, Outcome *outcome)
{
    double off;
    return product_of(evidence, record, Q_STEPS, Q_EPOCHS, Q_STEPS_PER_EPOCH, 0.01, outcome, &off);
}

static bool time_of_epochs(const Evidence *evidence, int record, Outcome *outcome)
{
    double off;
    if (product_of(evidence, record, Q_TRAIN_TIME, Q_EPOCHS, Q_EPOCH_TIME, 0.03, outcome, &off)) {
        return true;
    }
    if (product_of(evidence, record, Q_TOTAL_TIME, Q_EPOCHS, Q_EPOCH_TIME, 0.01, outcome, &off)) {
        outcome->agrees |= off < 1 && off > 0.5; /* the whole has more in it */
        return true;
    }
    return false;
}

static bool samples_of_epoch(const Evidence *evidence, int record, Outcome *outcome)
{
    double off;
    const Fact *steps = measured(evidence, record, Q_STEPS_PER_EPOCH);
    bool applies = product_of(evidence, record, Q_SAMPLES_PER_EPOCH, Q_STEPS_PER_EPOCH,
                              Q_GLOBAL_BATCH, 1e-9, outcome, &off);
    if (applies) { /* the last step may be short */
        outcome->agrees |= off > 1 && off < 1 + 1 / fmax(1, steps->number.value - 1);
    }
    return applies;
}

/* --- GPU time and money --- */

static bool gpu_time(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *ranks = evidence_own(evidence, record, Q_RANKS);
    const Fact *time = measured(evidence, record, Q_TRAIN_TIME);
    time = time != NULL ? time : measured(evidence, record, Q_TOTAL_TIME);
    outcome->stated = measured(evidence, record, Q_GPU_TIME);
    if (outcome->stated == NULL || ranks == NULL || time == NULL) {
        return false;
    }
    Number product = number_multiply(counted(ranks), time->number);
    outcome->agrees = number_agrees(product, outcome->stated->number, 0.03);
    SAY(outcome, "%.6g GPU hours are stated; %.6g GPUs x %.6g h makes %.6g%s",
        outcome->stated->number.value / 3600, ranks->number.value, time->number.value / 3600,
        product.value / 3600,
        is_clock(time->number, number_divide(outcome->stated->number, counted(ranks)))
            ? "; read by the clock (h:mm) the time agrees"
            : "");
    return true;
}

static bool cost(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *price = evidence_known(evidence, record, Q_PRICE);
    const Fact *time = measured(evidence, record, Q_GPU_TIME);
    outcome->stated = measured(evidence, record, Q_COST);
    if (outcome->stated == NULL || price == NULL || time == NULL) {
        return false;
    }
    Number product =
        number_multiply(price->number, number_divide(time->number, number_exact(3600)));
    outcome->agrees = number_agrees(product, outcome->stated->number, 0.02);
    SAY(outcome, "$%.6g is stated; %.6g GPU hours x $%.4g makes $%.6g",
        outcome->stated->number.value, time->number.value / 3600, price->number.value,
        product.value);
    return true;
}

/* --- loss --- */

static bool exp_of_loss(const Evidence *evidence, int record, Quantity perplexity,
                        const Quantity *losses, int count, Outcome *outcome)
{
    outcome->stated = measured(evidence, record, perplexity);
    bool applies = false;
    for (int i = 0; i < count && outcome->stated != NULL; i++) {
        const Fact *loss = measured(evidence, record, losses[i]);
        if (loss != NULL && loss->number.value < 50) {
            Number power = {.value = exp(loss->number.value),
                            .low = exp(loss->number.low),
                            .high = exp(loss->number.high)};
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
    const Fact *final = measured(evidence, record, Q_FINAL_VAL_LOSS);
    outcome->stated = measured(evidence, record, Q_BEST_VAL_LOSS);
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
    const Fact *speedup = measured(evidence, record, Q_SPEEDUP);
    const Fact *ranks = evidence_own(evidence, record, Q_RANKS);
    outcome->stated = measured(evidence, record, Q_EFFICIENCY);
    if (outcome->stated == NULL || speedup == NULL || ranks == NULL) {
        return false;
    }
    Number share = outcome->stated->number;
    if (share.unit == UNIT_NONE && share.value > 2) {
        share = number_multiply(share, number_exact(0.01));
    }
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
    const Fact *work = measured(evidence, record, Q_FLOP_PER_SECOND);
    outcome->stated = measured(evidence, record, Q_MFU);
    if (outcome->stated == NULL || work == NULL || evidence->peak == 0) {
        return false;
    }
    Number share = outcome->stated->number;
    if (share.unit == UNIT_NONE && share.value > 2) {
        share = number_multiply(share, number_exact(0.01));
    }
    Number derived = number_divide(work->number, number_exact(evidence->peak));
    double ranks = evidence_value(evidence, record, Q_RANKS);
    outcome->agrees = number_agrees(derived, share, 0.02) ||
                      (ranks > 1 && !(work->marks & MARK_PER_RANK) &&
                       number_agrees(number_divide(derived, number_exact(ranks)), share, 0.02));
    SAY(outcome, "MFU %.4g %% is stated; %.6g TFLOP/s of the peak of %.6g are %.4g %%",
        100 * share.value, work->number.value / 1e12, evidence->peak / 1e12, 100 * derived.value);
    return true;
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
    const Fact *weights = measured(evidence, record, Q_PARAMETER_BYTES);
    const Fact *count = evidence_known(evidence, record, Q_PARAMETERS);
    outcome->stated = measured(evidence, record, Q_OPTIMIZER_BYTES);
    if (outcome->stated == NULL || weights == NULL) {
        return false;
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

/* --- all of them --- */

typedef struct {
    const char *rule;
    Relation *check;
    bool alone; /* a row needs no other row's witness */
} Rule;

static const Rule rules[] = {
    {"tokens per step = batch x accumulation x sequence length x ranks", tokens_per_step, false},
    {"global batch = local batch x accumulation x ranks", global_batch, false},
    {"tokens = steps x tokens per step", tokens_of_steps, false},
    {"tokens per second x step time = tokens per step", rate_of_step, false},
    {"tokens per second x time = tokens", rate_of_run, false},
    {"steps = epochs x steps per epoch", steps_of_epochs, false},
    {"time = epochs x time of an epoch", time_of_epochs, false},
    {"samples per epoch = steps per epoch x global batch", samples_of_epoch, false},
    {"GPU hours = GPUs x hours", gpu_time, false},
    {"cost = GPU hours x price of an hour", cost, false},
    {"perplexity = exp(loss)", perplexity, false},
    {"the best loss is at most the final one", best_and_final, true},
    {"efficiency = speed-up / ranks", efficiency, false},
    {"MFU = FLOP/s / peak", mfu_of_flop, false},
    {"phases sum to their total: the rest has no timer", phases_missing, true},
    {"phases sum to more than their total: they overlap or count twice", phases_overfull, true},
    {"Adam keeps two numbers per parameter", optimizer_bytes, false},
};

/* Whether the rule has already spoken of this run, in a table or list elsewhere. */
static bool is_said(const Findings *findings, const char *rule, int record)
{
    for (int i = 0; i < findings->count; i++) {
        const Finding *finding = &findings->items[i];
        if (finding->rule == rule && evidence_names(findings->evidence, record, finding->record) &&
            evidence_names(findings->evidence, finding->record, record)) {
            return true;
        }
    }
    return false;
}

/* One rule over the records from `first` on that belong together; returns the first behind them. */
static int apply(const Evidence *evidence, const Rule *rule, int first, Findings *findings)
{
    const Record *records = evidence->records;
    int end = evidence_table_end(evidence, first), agree = 0, disagree = 0;
    Outcome *outcomes = mem_zalloc((size_t)(end - first), sizeof *outcomes);
    for (int i = first; i < end; i++) {
        Outcome *outcome = &outcomes[i - first];
        if (records[i].supposed || records[i].sum || !rule->check(evidence, i, outcome)) {
            outcome->stated = NULL;
            continue;
        }
        agree += outcome->agrees;
        disagree += !outcome->agrees;
    }
    bool witnessed = agree >= disagree || (agree == 0 && disagree < MANY);
    findings->compared += agree + (witnessed || rule->alone ? disagree : 0);
    for (int i = first; i < end && (witnessed || rule->alone); i++) {
        const Outcome *outcome = &outcomes[i - first];
        if (outcome->stated != NULL && !outcome->agrees &&
            (records[i].table > 0 || !is_said(findings, rule->rule, i))) {
            finding_about(findings, FINDING_DISAGREES, rule->rule, outcome->stated->line, i, "%s",
                          outcome->text);
        }
    }
    free(outcomes);
    return end;
}

void rules_run(const Evidence *evidence, Findings *findings)
{
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
        for (int i = 0; i < evidence->record_count;) {
            i = apply(evidence, &rules[k], i, findings);
        }
    }
}
