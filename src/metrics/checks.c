/* Every comparison is written so that NaN is a failure: a bound must be seen to hold. */
#include "metrics/checks.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>

static void add(Checks *checks, const char *name, CheckVerdict verdict, double expected,
                double found, const char *rule)
{
    PACER_ASSERT(checks->count < CHECKS_MAX, "%d checks", checks->count);
    checks->items[checks->count++] = (Check){name, verdict, expected, found, rule};
}

/* Whether found lies within a share `slack` of expected. */
static bool near(double expected, double found, double slack)
{
    return fabs(found - expected) <= slack * fabs(expected);
}

static void check_tokens(const Summary *s, const CheckInput *in, Checks *checks)
{
    if (s->steps.known && s->tokens.known) {
        double expected = (double)in->tokens_before + (s->steps.number - (double)in->steps_before) *
                                                          (double)in->batch * (double)in->accum *
                                                          (double)in->seq * (double)in->ranks;
        CheckVerdict verdict = s->tokens.number == expected ? CHECK_PASS : CHECK_FAIL;
        add(checks, "tokens", verdict, expected, s->tokens.number,
            "tokens = steps x batch x accum x seq x ranks");
    }
}

static void check_throughput(const Summary *s, const CheckInput *in, Checks *checks)
{
    if (s->tok_s.known && s->train_s.known && in->timed_tokens.known) {
        double expected = in->timed_tokens.number;
        double found = s->tok_s.number * s->train_s.number;
        CheckVerdict verdict =
            near(expected, found, CHECK_THROUGHPUT_SLACK) ? CHECK_PASS : CHECK_FAIL;
        add(checks, "throughput", verdict, expected, found,
            "tok_s x train_s = tokens of that time, within 1 %");
    }
}

/* A model that knows nothing spreads its guess over the vocabulary. Far from that, the weights are
 * badly scaled or the loss is wrong; both happen on purpose, so only NaN and infinity fail. */
static void check_first_loss(const CheckInput *in, Checks *checks)
{
    if (in->first_loss.known && in->vocab > 1) {
        double expected = log((double)in->vocab), found = in->first_loss.number;
        CheckVerdict verdict = !isfinite(found)                                ? CHECK_FAIL
                               : near(expected, found, CHECK_FIRST_LOSS_SLACK) ? CHECK_PASS
                                                                               : CHECK_WARN;
        add(checks, "first_loss", verdict, expected, found,
            "first loss = ln(vocabulary), within 10 %");
    }
}

static void check_phases(const Summary *s, Checks *checks)
{
    if (s->phases != NULL && s->wall_s.known) {
        double wall = s->wall_s.number, sum = 0;
        for (int i = 0; i < PHASE_COUNT; i++) {
            sum += s->phases->phases[i].exclusive_s;
        }
        CheckVerdict verdict = near(wall, sum, CHECK_PHASES_SLACK)        ? CHECK_PASS
                               : fabs(wall - sum) <= CHECK_PHASES_SHORT_S ? CHECK_WARN
                                                                          : CHECK_FAIL;
        add(checks, "phases", verdict, wall, sum, "phases sum to the wall time, within 2 %");
    }
}

static void check_mfu(const Summary *s, Checks *checks)
{
    if (s->mfu_measured.known) {
        double found = s->mfu_measured.number;
        CheckVerdict verdict = found >= 0 && found <= 1                    ? CHECK_PASS
                               : found > 1 && found <= 1 + CHECK_MFU_NOISE ? CHECK_WARN
                                                                           : CHECK_FAIL;
        add(checks, "mfu", verdict, 1, found, "share of the measured ceiling, at most 1");
    }
}

static void check_memory(const Summary *s, Checks *checks)
{
    if (s->peak_bytes.known && s->planned_bytes.known) {
        bool within = s->peak_bytes.number <= s->planned_bytes.number;
        add(checks, "memory", within ? CHECK_PASS : CHECK_FAIL, s->planned_bytes.number,
            s->peak_bytes.number, "peak bytes, at most those planned");
    }
}

void checks_run(const Summary *summary, const CheckInput *input, Checks *checks)
{
    *checks = (Checks){0};
    check_tokens(summary, input, checks);
    check_throughput(summary, input, checks);
    check_first_loss(input, checks);
    check_phases(summary, checks);
    check_mfu(summary, checks);
    check_memory(summary, checks);
}

const char *check_verdict_name(CheckVerdict verdict)
{
    static const char *const names[] = {"pass", "warn", "fail"};
    return names[verdict];
}

CheckVerdict checks_worst(const Checks *checks)
{
    CheckVerdict worst = CHECK_PASS;
    for (int i = 0; i < checks->count; i++) {
        worst = checks->items[i].verdict > worst ? checks->items[i].verdict : worst;
    }
    return worst;
}

int checks_status(const Checks *checks)
{
    char failed[CHECKS_MAX * 32] = "";
    int used = 0;
    for (int i = 0; i < checks->count; i++) {
        if (checks->items[i].verdict == CHECK_FAIL) {
            used += snprintf(failed + used, sizeof failed - (size_t)used, "%s%s",
                             used > 0 ? ", " : "", checks->items[i].name);
        }
    }
    return used == 0 ? 0 : err_set(ERR_CHECK, "self-check failed: %s", failed);
}

const char *check_line(const Check *check, char text[CHECK_LINE_SIZE])
{
    snprintf(text, CHECK_LINE_SIZE, "check %s: %s: %.10g expected, %.10g found (%s)", check->name,
             check_verdict_name(check->verdict), check->expected, check->found, check->rule);
    return text;
}

void checks_log(const Checks *checks)
{
    for (int i = 0; i < checks->count; i++) {
        char text[CHECK_LINE_SIZE];
        check_line(&checks->items[i], text);
        switch (checks->items[i].verdict) {
        case CHECK_PASS:
            log_info("%s", text);
            break;
        case CHECK_WARN:
            log_warn("%s", text);
            break;
        case CHECK_FAIL:
            log_error("%s", text);
            break;
        }
    }
}

cJSON *checks_json(const Checks *checks)
{
    cJSON *array = json_array();
    for (int i = 0; i < checks->count; i++) {
        const Check *check = &checks->items[i];
        cJSON *item = json_object();
        json_put_text(item, "name", check->name);
        json_put_text(item, "verdict", check_verdict_name(check->verdict));
        json_put(item, "expected", value_of(check->expected));
        json_put(item, "found", value_of(check->found));
        json_put_text(item, "rule", check->rule);
        cJSON_AddItemToArray(array, item);
    }
    return array;
}
