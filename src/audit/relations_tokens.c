/* Tokens, time and money of one run. Unsaid factors (ranks, accumulation) may be any whole
 * number. */
#include "audit/relations.h"

#include <math.h>

#define SEQUENCES_MAX 65536 /* of a batch; what is larger counts tokens */

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

/* Tokens of a step from batch, accumulation, sequence length and ranks; sequences, where the length
 * is 1. The batch may be that of a rank or of all where its name does not say. */
static Readings step_work(const Evidence *evidence, int record, const Fact *seq, char *text,
                          size_t size)
{
    Readings readings = {.count = 0};
    const Fact *accum = evidence_known(evidence, record, Q_ACCUM);
    const Fact *ranks = evidence_known(evidence, record, Q_RANKS);
    /* Of the kinds of batch the one that is said nearest. */
    const Fact *all = evidence_around(evidence, record, Q_GLOBAL_BATCH);
    const Fact *local = evidence_around(evidence, record, Q_LOCAL_BATCH);
    const Fact *batch = evidence_around(evidence, record, Q_BATCH);
    if (all == NULL && local == NULL && batch == NULL) {
        all = evidence_known(evidence, record, Q_GLOBAL_BATCH);
        local = evidence_known(evidence, record, Q_LOCAL_BATCH);
        batch = evidence_known(evidence, record, Q_BATCH);
    }
    const Fact *base = local != NULL ? local : batch;
    Number a = accum != NULL ? counted(accum) : number_exact(1);
    Number r = ranks != NULL ? counted(ranks) : number_exact(1);
    text[0] = '\0';
    const Fact *of = all != NULL ? all : base;
    if (seq == NULL || of == NULL || !(seq->number.value > 0) || !(of->number.value > 0) ||
        of->number.value > SEQUENCES_MAX) {
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
        evidence->records[record].kind == RECORD_SECTION &&
        evidence_own(evidence, record, Q_TOKENS_PER_STEP) != NULL) {
        readings.open = false; /* a stated product names its factors */
    }
    snprintf(text, size, "%.10g x %.10g x %.10g x %.10g, batch x accumulation x sequence x ranks",
             base->number.value, a.value, seq->number.value, r.value);
    return readings;
}

static Readings step_tokens(const Evidence *evidence, int record, char *text, size_t size)
{
    return step_work(evidence, record, evidence_known(evidence, record, Q_SEQ), text, size);
}

static Readings step_samples(const Evidence *evidence, int record)
{
    static const Fact one = {.number = {.value = 1, .low = 1, .high = 1, .counted = true}};
    char text[120];
    return step_work(evidence, record, &one, text, sizeof text);
}

/* Tokens, or samples, per second of all ranks. */
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

/* --- tokens --- */

static bool tokens_per_step(const Evidence *evidence, int record, Outcome *outcome)
{
    char text[120];
    Readings readings = step_tokens(evidence, record, text, sizeof text);
    outcome->stated = relation_measured(evidence, record, Q_TOKENS_PER_STEP);
    if (outcome->stated == NULL || readings.count == 0) {
        return false;
    }
    /* 64K may be 65536. */
    static const double thousands[] = {1, 1.024, 1.048576};
    for (int i = 0; i < (outcome->stated->number.counted ? 1 : 3); i++) {
        Number stated = number_multiply(outcome->stated->number, number_exact(thousands[i]));
        outcome->agrees |= follows(&readings, stated, 0.005);
    }
    SAY(outcome, "%.10g tokens per step are stated; %s, makes %.10g", outcome->stated->number.value,
        text, readings.items[0].value);
    return true;
}

static bool global_batch(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *local = evidence_own(evidence, record, Q_LOCAL_BATCH);
    const Fact *ranks = evidence_own(evidence, record, Q_RANKS);
    const Fact *accum = evidence_known(evidence, record, Q_ACCUM);
    outcome->stated = relation_measured(evidence, record, Q_GLOBAL_BATCH);
    if (outcome->stated == NULL || local == NULL || ranks == NULL ||
        outcome->stated->number.value > SEQUENCES_MAX) {
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
    const Fact *stated = relation_measured(evidence, record, Q_TOKENS_PER_STEP);
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
    const Fact *tokens = relation_measured(evidence, record, Q_TOKENS);
    Readings step = known_step_tokens(evidence, record);
    outcome->stated = relation_measured(evidence, record, Q_STEPS);
    if (outcome->stated == NULL || tokens == NULL || step.count == 0 ||
        tokens->number.value < outcome->stated->number.value) { /* those of a batch */
        return false;
    }
    Number need = number_divide(tokens->number, step.items[0]);
    Number product = number_divide(tokens->number, outcome->stated->number);
    outcome->agrees = follows(&step, product, 0.02);
    SAY(outcome, "%.10g steps are stated; the %.6g tokens need %.6g", outcome->stated->number.value,
        tokens->number.value, need.value);
    return true;
}

static bool rate_by_step(const Evidence *evidence, int record, Quantity quantity, Readings step,
                         Outcome *outcome)
{
    const Fact *time = relation_measured(evidence, record, Q_STEP_TIME);
    bool tokens_counted = quantity == Q_TOKENS_PER_SECOND;
    outcome->stated = relation_measured(evidence, record, quantity);
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
        "%.6g %s/s x %.6g s per step (line %d) = %.6g %s, but a step has %.6g (%.3g times %s)",
        outcome->stated->number.value, tokens_counted ? "tok" : "samples", time->number.value,
        time->line, tokens, tokens_counted ? "tokens" : "samples", stated, off,
        tokens > stated ? "fewer" : "more");
    return true;
}

static bool rate_of_step(const Evidence *evidence, int record, Outcome *outcome)
{
    return rate_by_step(evidence, record, Q_TOKENS_PER_SECOND, known_step_tokens(evidence, record),
                        outcome);
}

static bool samples_of_step(const Evidence *evidence, int record, Outcome *outcome)
{
    return rate_by_step(evidence, record, Q_SAMPLES_PER_SECOND, step_samples(evidence, record),
                        outcome);
}

/* What all ranks do in a second is what each does, times their number. */
static bool rate_of_ranks(const Evidence *evidence, int record, Outcome *outcome)
{
    static const Quantity rates[] = {Q_TOKENS_PER_SECOND, Q_SAMPLES_PER_SECOND};
    const Fact *ranks = evidence_own(evidence, record, Q_RANKS);
    for (int i = 0; i < 2 && ranks != NULL; i++) {
        const Fact *all = evidence_marked(evidence, record, rates[i], MARK_TOTAL);
        outcome->stated = evidence_marked(evidence, record, rates[i], MARK_PER_RANK);
        if (all != NULL && outcome->stated != NULL && outcome->stated->number.value > 0) {
            Number product = number_multiply(counted(ranks), outcome->stated->number);
            outcome->agrees = number_agrees(product, all->number, 0.02);
            SAY(outcome, "%s per rank x %.10g ranks makes %s; %s are stated (line %d)",
                number_text(outcome->stated->number), ranks->number.value,
                number_show(product.value, all->number), number_text(all->number), all->line);
            return true;
        }
    }
    return false;
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
    const Fact *train = relation_measured(evidence, record, Q_TRAIN_TIME);
    const Fact *whole = relation_measured(evidence, record, Q_TOTAL_TIME);
    const Fact *gpu = relation_measured(evidence, record, Q_GPU_TIME);
    const Fact *rate = relation_measured(evidence, record, Q_TOKENS_PER_SECOND);
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
    const Fact *left = relation_measured(evidence, record, a),
               *right = relation_measured(evidence, record, b);
    outcome->stated = relation_measured(evidence, record, stated);
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
    const Fact *steps = relation_measured(evidence, record, Q_STEPS_PER_EPOCH);
    bool applies = product_of(evidence, record, Q_SAMPLES_PER_EPOCH, Q_STEPS_PER_EPOCH,
                              Q_GLOBAL_BATCH, 1e-9, outcome, &off);
    if (applies) { /* the last step may be short */
        outcome->agrees |= off > 1 && off < 1 + 1 / fmax(1, steps->number.value - 1);
    }
    return applies;
}

/* More steps than the samples of an epoch allow; there may be fewer, of a part of them. */
static bool steps_of_samples(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *samples = relation_measured(evidence, record, Q_SAMPLES);
    const Fact *batch = relation_measured(evidence, record, Q_GLOBAL_BATCH);
    outcome->stated = relation_measured(evidence, record, Q_STEPS_PER_EPOCH);
    if (samples == NULL || batch == NULL || outcome->stated == NULL || !batch->number.counted) {
        return false;
    }
    Number steps = number_divide(samples->number, counted(batch));
    double times = outcome->stated->number.value / steps.value; /* a whole number: micro-steps */
    outcome->agrees = outcome->stated->number.value <= 1.01 * steps.high + 1 ||
                      fabs(times - round(times)) < 0.02 * times;
    SAY(outcome, "%.10g steps per epoch are stated; %.10g samples / %.10g make %.6g",
        outcome->stated->number.value, samples->number.value, batch->number.value, steps.value);
    return true;
}

/* --- GPU time and money --- */

static bool gpu_time(const Evidence *evidence, int record, Outcome *outcome)
{
    const Fact *ranks = evidence_own(evidence, record, Q_RANKS);
    const Fact *time = relation_measured(evidence, record, Q_TRAIN_TIME);
    time = time != NULL ? time : relation_measured(evidence, record, Q_TOTAL_TIME);
    outcome->stated = relation_measured(evidence, record, Q_GPU_TIME);
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
    const Fact *time = relation_measured(evidence, record, Q_GPU_TIME);
    outcome->stated = relation_measured(evidence, record, Q_COST);
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

const Rule rules_of_tokens[] = {
    {"tokens per step = batch x accumulation x sequence length x ranks", tokens_per_step, false,
     false},
    {"global batch = local batch x accumulation x ranks", global_batch, false, false},
    {"tokens = steps x tokens per step", tokens_of_steps, false, false},
    {"tokens per second x step time = tokens per step", rate_of_step, false, false},
    {"samples per second x step time = batch", samples_of_step, false, false},
    {"rate of all = rate of a rank x ranks", rate_of_ranks, false, false},
    {"tokens per second x time = tokens", rate_of_run, false, true},
    {"steps = epochs x steps per epoch", steps_of_epochs, false, false},
    {"time = epochs x time of an epoch", time_of_epochs, false, false},
    {"samples per epoch = steps per epoch x global batch", samples_of_epoch, false, false},
    {"steps per epoch = samples / global batch", steps_of_samples, false, false},
    {"GPU hours = GPUs x hours", gpu_time, false, true},
    {"cost = GPU hours x price of an hour", cost, false, true},
    {NULL, NULL, false, false},
};
