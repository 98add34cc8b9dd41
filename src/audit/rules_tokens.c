/* Tokens, steps, time and throughput are tied by multiplication. A batch that is not said to be of
 * one rank or of all may be either: a number that fits one reading is no finding. */
#include "audit/findings.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SLACK_COUNT 0.01 /* counts */
#define SLACK_RATE 0.05  /* throughput: what is timed differs a little */
#define SLACK_TIME 0.10  /* a run's whole time has start and end in it */

typedef struct {
    double values[4]; /* tokens per step, one per reading */
    int count;
    char words[128]; /* "16 x 128 x 8 (batch x seq x ranks)" */
} TokensPerStep;

static TokensPerStep tokens_per_step(const Evidence *evidence, int run)
{
    TokensPerStep tokens = {.count = 0};
    double seq = evidence_setting(evidence, run, Q_SEQ);
    double ranks = fmax(1, evidence_setting(evidence, run, Q_RANKS));
    double accum = fmax(1, evidence_setting(evidence, run, Q_ACCUM));
    double local = evidence_setting(evidence, run, Q_LOCAL_BATCH);
    double global = evidence_setting(evidence, run, Q_GLOBAL_BATCH);
    double batch = evidence_setting(evidence, run, Q_BATCH);
    if (seq == 0 || (local == 0 && global == 0 && batch == 0)) {
        return tokens;
    }
    if (local > 0 || (global == 0 && batch > 0)) {
        double one = local > 0 ? local : batch;
        tokens.values[tokens.count++] = one * accum * seq * ranks;
        snprintf(tokens.words, sizeof tokens.words,
                 "%.10g x %.10g x %.10g x %.10g, batch x accumulation x sequence x ranks", one,
                 accum, seq, ranks);
        if (local == 0) {
            tokens.values[tokens.count++] = one * seq;
            tokens.values[tokens.count++] = one * accum * seq;
            tokens.values[tokens.count++] = one * seq * ranks;
        }
    } else {
        tokens.values[tokens.count++] = global * seq;
        snprintf(tokens.words, sizeof tokens.words, "%.10g x %.10g, global batch x sequence",
                 global, seq);
    }
    return tokens;
}

/* Whether `found` agrees with `factor` times one of the readings. */
static bool fits_reading(const TokensPerStep *tokens, Number found, Number factor, double slack)
{
    for (int i = 0; i < tokens->count; i++) {
        Number expected = number_multiply(number_exact(tokens->values[i]), factor);
        if (number_agrees(expected, found, slack)) {
            return true;
        }
    }
    return false;
}

static void check_tokens_per_step(const Evidence *evidence, int run, Findings *findings)
{
    TokensPerStep tokens = tokens_per_step(evidence, run);
    const Fact *said = evidence_find(evidence, run, Q_TOKENS_PER_STEP, false);
    if (tokens.count > 0 && said != NULL) {
        findings->compared++;
        if (!fits_reading(&tokens, said->number, number_exact(1), SLACK_COUNT)) {
            finding_about(findings, FINDING_DISAGREES,
                          "tokens per step = batch x accumulation x sequence length x ranks",
                          said->line, run, "%.10g tokens per step are stated; %s, makes %.10g",
                          said->number.value, tokens.words, tokens.values[0]);
        }
    }
}

typedef struct {
    int run, line;
    double steps, expected, ratio;
} StepGap;

/* tokens = steps x tokens per step, over all runs: a ratio that hardly varies tells what the
 * "steps" are. */
static void check_steps(const Evidence *evidence, Findings *findings)
{
    StepGap *gaps = mem_zalloc((size_t)evidence->run_count, sizeof *gaps);
    int count = 0;
    double least = INFINITY, most = 0;
    for (int run = 0; run < evidence->run_count; run++) {
        TokensPerStep tokens = tokens_per_step(evidence, run);
        const Fact *steps = evidence_find(evidence, run, Q_STEPS, false);
        const Fact *total = evidence_find(evidence, run, Q_TOKENS, true);
        if (tokens.count == 0 || steps == NULL || total == NULL || steps->number.value < 1) {
            continue;
        }
        findings->compared++;
        /* A last partial batch may be dropped or padded: one step either way. */
        Number around = steps->number;
        around.low -= 1;
        around.high += 1;
        if (!fits_reading(&tokens, total->number, around, SLACK_COUNT)) {
            double expected = total->number.value / tokens.values[0];
            gaps[count] = (StepGap){run, steps->line, steps->number.value, expected,
                                    expected / steps->number.value};
            least = fmin(least, gaps[count].ratio);
            most = fmax(most, gaps[count].ratio);
            count++;
        }
    }
    bool rows = count >= 3 && least > 2 && most < 1.5 * least;
    for (int i = 0; i < count; i++) {
        char guess[120] = "";
        if (rows) {
            snprintf(guess, sizeof guess,
                     "; the ratio is %.3g to %.3g in all %d runs, so these look like logged rows, "
                     "not updates",
                     least, most, count);
        }
        finding_about(findings, FINDING_DISAGREES, "tokens = steps x tokens per step", gaps[i].line,
                      gaps[i].run, "%.10g steps are stated; the tokens need %.10g (%.3g x)%s",
                      gaps[i].steps, gaps[i].expected, gaps[i].ratio, i == 0 ? guess : "");
    }
    free(gaps);
}

static void rate_against_step(const Evidence *evidence, const Fact *rate, const Fact *time,
                              Findings *findings)
{
    TokensPerStep tokens = tokens_per_step(evidence, rate->run);
    const Fact *said = evidence_find(evidence, rate->run, Q_TOKENS_PER_STEP, false);
    Number product = number_multiply(rate->number, time->number);
    if (tokens.count == 0 && said == NULL) {
        return;
    }
    findings->compared++;
    double expected = tokens.count > 0 ? tokens.values[0] : said->number.value;
    bool good = tokens.count > 0 ? fits_reading(&tokens, product, number_exact(1), SLACK_RATE)
                                 : number_agrees(product, said->number, SLACK_RATE);
    if (!good) {
        double factor = product.value / expected;
        finding_about(findings, FINDING_DISAGREES,
                      "tokens per second x step time = tokens per step", rate->line, rate->run,
                      "%.6g tok/s x %.6g s per step (line %d) = %.6g tokens, but a step has %.6g "
                      "(%.2g times %s)",
                      rate->number.value, time->number.value, time->line, product.value, expected,
                      factor > 1 ? factor : 1 / factor, factor > 1 ? "fewer" : "more");
    }
}

/* The run's own two numbers, and those of every row or line of a log. */
static void check_rate_of_steps(const Evidence *evidence, int run, Findings *findings)
{
    const Fact *rate = evidence_find(evidence, run, Q_TOKENS_PER_SECOND, false);
    const Fact *time = evidence_find(evidence, run, Q_STEP_TIME, false);
    if (rate != NULL && time != NULL) {
        rate_against_step(evidence, rate, time, findings);
        return;
    }
    int j = evidence_first(evidence, run, Q_STEP_TIME);
    for (int i = evidence_first(evidence, run, Q_TOKENS_PER_SECOND);
         evidence_is(evidence, i, run, Q_TOKENS_PER_SECOND); i++) {
        const Fact *fact = &evidence->facts[i];
        while (evidence_is(evidence, j, run, Q_STEP_TIME) && evidence->facts[j].line < fact->line) {
            j++;
        }
        if (evidence_is(evidence, j, run, Q_STEP_TIME) && fact->point > 0 &&
            evidence->facts[j].point == fact->point) {
            rate_against_step(evidence, fact, &evidence->facts[j], findings);
        }
    }
}

/* Throughput x time against all tokens: any of the stated times may be the one meant. */
static void check_rate_of_run(const Evidence *evidence, int run, Findings *findings)
{
    static const Quantity times[] = {Q_TRAIN_TIME, Q_TOTAL_TIME, Q_EPOCH_TIME};
    const Fact *rate = evidence_find(evidence, run, Q_TOKENS_PER_SECOND, false);
    const Fact *tokens = evidence_find(evidence, run, Q_TOKENS, true), *used = NULL;
    bool good = false;
    for (int i = 0; i < 3 && rate != NULL && tokens != NULL; i++) {
        const Fact *time = evidence_find(evidence, run, times[i], false);
        if (time != NULL) {
            Number product = number_multiply(rate->number, time->number);
            good = good || number_agrees(product, tokens->number, SLACK_TIME);
            used = used == NULL ? time : used;
        }
    }
    if (used != NULL) {
        findings->compared++;
        if (!good) {
            finding_about(
                findings, FINDING_DISAGREES, "tokens per second x time = tokens", rate->line, run,
                "%.6g tok/s x %.6g s (%s, line %d) = %.4g tokens; %.4g are stated (line "
                "%d)",
                rate->number.value, used->number.value, quantity_name(used->quantity), used->line,
                rate->number.value * used->number.value, tokens->number.value, tokens->line);
        }
    }
}

static void check_rank_sum(const Evidence *evidence, int run, Findings *findings)
{
    const Fact *total = evidence_find(evidence, run, Q_TOKENS_PER_SECOND, false);
    double ranks = evidence_setting(evidence, run, Q_RANKS);
    Number sum = number_exact(0);
    int count = 0;
    for (int i = evidence_first(evidence, run, Q_TOKENS_PER_SECOND);
         evidence_is(evidence, i, run, Q_TOKENS_PER_SECOND); i++) {
        if (evidence->facts[i].rank >= 0 && evidence->facts[i].point == 0) {
            sum = number_add(sum, evidence->facts[i].number);
            count++;
        }
    }
    if (total != NULL && count >= 2 && count == (int)ranks) {
        findings->compared++;
        Number mean = number_divide(sum, number_exact(count));
        if (!number_agrees(sum, total->number, SLACK_RATE) &&
            !number_agrees(mean, total->number, SLACK_RATE)) {
            finding_about(findings, FINDING_DISAGREES, "throughput = sum over ranks", total->line,
                          run, "%.6g tok/s are stated; the %d ranks sum to %.6g",
                          total->number.value, count, sum.value);
        }
    }
}

/* a = b x c for facts and settings of one row. */
static void check_product(int run, const Fact *left, double b, double c, const char *rule,
                          Findings *findings)
{
    if (left != NULL && b > 0 && c > 0) {
        findings->compared++;
        if (!number_agrees(left->number, number_exact(b * c), SLACK_COUNT)) {
            finding_about(findings, FINDING_DISAGREES, rule, left->line, run,
                          "%.10g is stated; %.10g x %.10g = %.10g", left->number.value, b, c,
                          b * c);
        }
    }
}

static double value_of_fact(const Fact *fact)
{
    return fact != NULL ? fact->number.value : 0;
}

static void check_batches(const Evidence *evidence, int run, Findings *findings)
{
    const double *own = evidence->runs[run].identity.values;
    double ranks = evidence_setting(evidence, run, Q_RANKS);
    double accum = fmax(1, evidence_setting(evidence, run, Q_ACCUM));
    if (own[Q_GLOBAL_BATCH] > 0 && own[Q_LOCAL_BATCH] > 0 && ranks > 0) {
        findings->compared++;
        double made = own[Q_LOCAL_BATCH] * ranks * accum;
        if (own[Q_GLOBAL_BATCH] != made) {
            finding_add(findings, FINDING_DISAGREES,
                        "global batch = local batch x ranks x accumulation",
                        evidence->runs[run].line, run,
                        "global batch %.10g is stated; %.10g x %.10g x %.10g = %.10g",
                        own[Q_GLOBAL_BATCH], own[Q_LOCAL_BATCH], ranks, accum, made);
        }
    }
    check_product(run, evidence_find(evidence, run, Q_SAMPLES_PER_EPOCH, false),
                  value_of_fact(evidence_find(evidence, run, Q_STEPS_PER_EPOCH, true)),
                  own[Q_GLOBAL_BATCH], "samples per epoch = steps per epoch x global batch",
                  findings);
    check_product(run, evidence_find(evidence, run, Q_TOTAL_TIME, false),
                  value_of_fact(evidence_find(evidence, run, Q_EPOCH_TIME, false)),
                  evidence_find(evidence, run, Q_EPOCHS, false) != NULL
                      ? value_of_fact(evidence_find(evidence, run, Q_EPOCHS, false))
                      : 0,
                  "wall time = epochs x time per epoch", findings);
}

/* Where no sequence length is stated, throughput, time and samples imply one; it must be the same
 * for every run. */
static void check_implied_length(const Evidence *evidence, Findings *findings)
{
    const Fact *first = NULL;
    double length = 0;
    int count = 0;
    for (int run = 0; run < evidence->run_count; run++) {
        const Fact *rate = evidence_find(evidence, run, Q_TOKENS_PER_SECOND, false);
        const Fact *time = evidence_find(evidence, run, Q_EPOCH_TIME, false);
        const Fact *samples = evidence_find(evidence, run, Q_SAMPLES_PER_EPOCH, false);
        if (rate == NULL || time == NULL || samples == NULL || samples->number.value <= 0 ||
            evidence_setting(evidence, run, Q_SEQ) > 0) {
            continue;
        }
        double implied = rate->number.value * time->number.value / samples->number.value;
        findings->compared += first != NULL;
        count++;
        if (first == NULL) {
            first = rate;
            length = implied;
        } else if (!(fabs(implied - length) <= 0.02 * length)) {
            finding_about(findings, FINDING_DISAGREES,
                          "tokens per second x epoch time / samples = one sequence length",
                          rate->line, run, "implies %.4g tokens per sequence; line %d implies %.4g",
                          implied, first->line, length);
        }
    }
    if (count >= 2 &&
        !finding_said(findings, "tokens per second x epoch time / samples = one sequence length",
                      0)) {
        finding_add(findings, FINDING_NOTE, "the sequence length is not stated", first->line, 0,
                    "%d runs imply about %.4g tokens per sequence", count, length);
    }
}

void rules_tokens(const Evidence *evidence, Findings *findings)
{
    check_steps(evidence, findings);
    for (int run = 0; run < evidence->run_count; run++) {
        check_tokens_per_step(evidence, run, findings);
        check_rate_of_steps(evidence, run, findings);
        check_rate_of_run(evidence, run, findings);
        check_rank_sum(evidence, run, findings);
        check_batches(evidence, run, findings);
    }
    check_implied_length(evidence, findings);
}
