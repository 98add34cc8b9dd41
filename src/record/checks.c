/* The list of checks, and two groups of them: what the summary of a run says against itself and
 * the configuration, and what a comparison of several runs must not claim. Every comparison is
 * written so that NaN is a failure: a bound must be seen to hold. */
#include "record/checks.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- the list --- */

static const CheckRow rows[] = {
    /* The summary against itself and the configuration. */
    {"tokens", CHECK_COUNTED,
     "tokens = steps x batch x accum x seq x ranks, or the sum over a ramp"},
    {"throughput", CHECK_COUNTED, "tok_s x train_s = tokens of that time, within 1 %"},
    {"first_loss", CHECK_UNUSUAL, "first loss = ln(vocabulary), within 10 %"},
    {"phases", CHECK_COUNTED,
     "exclusive phases + unattributed = wall time of the first rank, within 2 %"},
    {"unattributed", CHECK_TIMED, "seconds outside every phase, at most 2 % of the wall time"},
    {"phase_numbers", CHECK_COUNTED,
     "phases with exclusive > total, mean x count unlike total, or p50 <= p95 <= p99 <= max "
     "broken"},
    {"parts", CHECK_COUNTED, "train_s + val_s + init_s, at most wall_s"},
    {"timer_overhead", CHECK_TIMED, "share of the wall time spent on timing, at most 1 %"},
    {"step_quantiles", CHECK_COUNTED, "step_p50_ms <= step_p95_ms <= step_max_ms"},
    {"step_times", CHECK_TIMED, "train_s / steps, at most step_max_ms + 5 %"},
    {"step_spread", CHECK_TIMED,
     "(p95 - p50) / p50 of step times; above, one figure of speed means little"},
    {"mfu", CHECK_TIMED,
     "share of the measured ceiling, at most 1; above it, the ceiling was measured while the "
     "machine was busy"},
    {"mfu_peak", CHECK_TIMED, "share of the device's stated peak, at most 1"},
    {"flops", CHECK_COUNTED,
     "mfu_measured x ceiling x train_s = FLOP per update x steps (of the first size), within 1 %"},
    {"memory", CHECK_COUNTED, "peak bytes, at most those planned"},
    {"allocated", CHECK_COUNTED, "peak bytes, at most those allocated"},
    {"memory_plan", CHECK_COUNTED, "rows of the memory plan sum to planned_bytes"},
    /* The ranks. */
    {"ranks", CHECK_COUNTED, "every rank of the run has a file of its own"},
    {"rank_phases", CHECK_COUNTED,
     "exclusive phases + unattributed = wall time of each rank, within 2 %"},
    {"rank_memory", CHECK_COUNTED,
     "peak bytes of each rank, at most planned and allocated; both the sums of their categories"},
    {"slowest_wall", CHECK_TIMED, "wall_s of the run is that of its slowest rank, within 5 %"},
    {"slowest_train", CHECK_TIMED,
     "train_s, which tok_s is over, at least the steps of the slowest rank less 5 %"},
    {"stragglers", CHECK_TIMED, "busy seconds of a rank, at most 1.1 x the median of all"},
    {"shared_device", CHECK_UNUSUAL,
     "a device for each rank; ranks that share one are no scaling measurement"},
    {"throttled", CHECK_TIMED, "share of readings with the GPU's clocks held down, at most 5 %"},
    {"gpu_alone", CHECK_TIMED, "other processes on the GPU"},
    {"gpu_memory", CHECK_TIMED, "bytes used or allocated, at most those of the GPU"},
    /* The lines of metrics.jsonl. */
    {"line_steps", CHECK_COUNTED, "steps rise strictly from line to line"},
    {"line_tokens", CHECK_COUNTED,
     "tokens of each line = step x tokens per step, or by the ramp, since the last resume"},
    {"line_rate", CHECK_COUNTED, "ms x tok_s = tokens per step on each line, within 0.1 %"},
    {"last_line", CHECK_COUNTED, "step of the last line = steps of the summary"},
    {"line_time", CHECK_COUNTED,
     "ms x steps over all lines = train_s, within 1 % (at most, with several ranks)"},
    {"train_loss", CHECK_COUNTED, "train_loss = loss of the last line"},
    {"val_loss", CHECK_COUNTED, "val_loss = that of the last evaluation"},
    {"best_val_loss", CHECK_COUNTED, "best_val_loss = the least of all evaluations"},
    {"stored", CHECK_COUNTED,
     "verdicts in run.json that its numbers give again; else it was changed, or is wrong"},
    /* Several runs. */
    {"learning_rates", CHECK_UNUSUAL,
     "batch sizes compared under at least two learning rates; one alone favours the size that it "
     "suits"},
};

const CheckRow *checks_rows(size_t *count)
{
    *count = sizeof rows / sizeof rows[0];
    return rows;
}

static const CheckRow *row_of(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    PACER_ASSERT(false, "no check is called %s", name);
    return NULL;
}

void checks_put(Checks *checks, const char *name, CheckVerdict verdict, double expected,
                double found, const char *subject)
{
    const CheckRow *row = row_of(name);
    PACER_ASSERT(checks->count < CHECKS_MAX, "%d checks", checks->count);
    if (verdict == CHECK_PASS && !(isfinite(expected) && isfinite(found))) {
        verdict = CHECK_FAIL; /* an infinite limit is none */
    }
    if (verdict == CHECK_FAIL && row->kind == CHECK_TIMED) {
        verdict = CHECK_WARN;
    }
    Check *check = &checks->items[checks->count++];
    *check = (Check){row->name, verdict, expected, found, row->rule, ""};
    snprintf(check->subject, sizeof check->subject, "%s", subject != NULL ? subject : "");
}

void checks_add(Checks *checks, const char *name, bool holds, double expected, double found,
                const char *subject)
{
    bool mild = row_of(name)->kind == CHECK_UNUSUAL && isfinite(expected) && isfinite(found);
    checks_put(checks, name,
               holds  ? CHECK_PASS
               : mild ? CHECK_WARN
                      : CHECK_FAIL,
               expected, found, subject);
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

const Check *checks_find(const Checks *checks, const char *name)
{
    for (int i = 0; i < checks->count; i++) {
        if (strcmp(checks->items[i].name, name) == 0) {
            return &checks->items[i];
        }
    }
    return NULL;
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
    bool named = check->subject[0] != '\0';
    snprintf(text, CHECK_LINE_SIZE, "check %s%s%s: %s: %.10g expected, %.10g found (%s)",
             check->name, named ? ", " : "", check->subject, check_verdict_name(check->verdict),
             check->expected, check->found, check->rule);
    return text;
}

void checks_log(const Checks *checks)
{
    int worse = 0;
    for (int i = 0; i < checks->count; i++) {
        const Check *check = &checks->items[i];
        char text[CHECK_LINE_SIZE];
        check_line(check, text);
        if (check->verdict != CHECK_PASS) {
            (check->verdict == CHECK_WARN ? log_warn : log_error)("%s", text);
            worse++;
        }
    }
    log_info("%d checks, %d passed", checks->count, checks->count - worse);
}

cJSON *checks_json(const Checks *checks)
{
    cJSON *array = json_array();
    for (int i = 0; i < checks->count; i++) {
        const Check *check = &checks->items[i];
        cJSON *item = json_object();
        json_put_text(item, "name", check->name);
        json_put_text(item, "verdict", check_verdict_name(check->verdict));
        json_put_number(item, "expected", check->expected);
        json_put_number(item, "found", check->found);
        json_put_text(item, "rule", check->rule);
        json_put_text(item, "subject", check->subject[0] != '\0' ? check->subject : NULL);
        json_append(array, item);
    }
    return array;
}

/* --- the summary --- */

void checks_agree(Checks *checks, const char *name, Value expected, Value found, double slack)
{
    if (expected.known && found.known) {
        bool near = fabs(found.number - expected.number) <= slack * fabs(expected.number);
        checks_add(checks, name, near, expected.number, found.number, NULL);
    }
}

/* A number from 0 to the limit but for a share of it; left out when one is missing. */
static void at_most(Checks *checks, const char *name, Value limit, Value found, double slack)
{
    if (limit.known && found.known) {
        bool within = found.number >= 0 && found.number <= limit.number * (1 + slack);
        checks_add(checks, name, within, limit.number, found.number, NULL);
    }
}

static Value product(Value one, Value other)
{
    return (Value){one.known && other.known, one.number * other.number};
}

/* Whether low <= high but for rounding; a nanosecond for times near nothing. */
static bool in_order(double low, double high)
{
    return low <= high + CHECK_ROUNDING * fabs(high) + 1e-9;
}

static bool phase_agrees(const PhaseReport *phase, bool complete)
{
    if (!(phase->exclusive_s >= 0) || !in_order(phase->exclusive_s, phase->total_s)) {
        return false;
    }
    if (phase->count <= 0) {
        return phase->count == 0 && (!complete || phase->total_s == 0);
    }
    double finished = phase->mean_s * (double)phase->count;
    return in_order(finished, phase->total_s) &&
           (!complete || in_order(phase->total_s, finished)) && phase->p50_s >= 0 &&
           in_order(phase->p50_s, phase->p95_s) && in_order(phase->p95_s, phase->p99_s) &&
           in_order(phase->p99_s, phase->max_s) && in_order(phase->mean_s, phase->max_s);
}

const char *check_phase_numbers(const TimerReport *report, bool complete)
{
    for (int i = 0; i < PHASE_COUNT; i++) {
        if (!phase_agrees(&report->phases[i], complete)) {
            return phase_name((Phase)i);
        }
    }
    return report->unattributed_s >= 0 ? NULL : "unattributed";
}

double check_phase_sum(const TimerReport *report)
{
    double sum = report->unattributed_s;
    for (int i = 0; i < PHASE_COUNT; i++) {
        sum += report->phases[i].exclusive_s;
    }
    return sum;
}

static void check_phases(const Summary *s, const CheckInput *in, Checks *checks)
{
    const TimerReport *phases = s->phases;
    if (phases != NULL && s->wall_s.known) {
        double wall = s->wall_s.number, rest = phases->unattributed_s,
               limit = 1 + CHECK_PHASES_SLACK;
        double sum =
            check_phase_sum(phases) + (in->other_phases.known ? in->other_phases.number : 0);
        /* Of several ranks these are the first one's phases, which has a wall time of its own, and
         * the wall time is that of the slowest. */
        double own = in->ranks > 1 ? phases->wall_s : wall;
        bool good = isnan(own)
                        ? sum <= wall * limit
                        : fabs(sum - own) <= CHECK_PHASES_SLACK * fabs(own) && own <= wall * limit;
        checks_add(checks, "phases", good, fmin(own, wall), sum, NULL);
        checks_add(checks, "unattributed", rest <= CHECK_PHASES_SLACK * wall,
                   CHECK_PHASES_SLACK * wall, rest, NULL);
    }
    if (phases != NULL) {
        const char *wrong = check_phase_numbers(phases, in->complete);
        checks_add(checks, "phase_numbers", wrong == NULL, 0, wrong != NULL, wrong);
    }
}

static void check_step_times(const Summary *s, Value steps, Checks *checks)
{
    if (!s->step_p50_ms.known || !s->step_p95_ms.known) {
        return;
    }
    double p50 = s->step_p50_ms.number, p95 = s->step_p95_ms.number, max = s->step_max_ms.number;
    if (s->step_max_ms.known) {
        bool holds = p50 >= 0 && in_order(p50, p95) && in_order(p95, max);
        checks_add(checks, "step_quantiles", holds, max, p95, NULL);
    }
    /* The steps of the first rank, and the training of the slowest. */
    Value mean = {s->train_s.known && steps.known && steps.number > 0,
                  1e3 * s->train_s.number / steps.number};
    at_most(checks, "step_times", s->step_max_ms, mean, CHECK_STEP_SLACK);
    if (steps.known && steps.number >= CHECK_SPREAD_STEPS) {
        double spread = (p95 - p50) / p50;
        checks_add(checks, "step_spread", spread <= CHECK_STEP_SPREAD, CHECK_STEP_SPREAD, spread,
                   NULL);
    }
}

void checks_run(const Summary *s, const CheckInput *in, Checks *checks)
{
    Value steps = {s->steps.known, s->steps.number - (double)in->steps_before}; /* of the session */
    double update = (double)in->batch * (double)in->accum * (double)in->seq * (double)in->ranks;
    Value tokens = {steps.known && in->seq > 0, (double)in->tokens_before + steps.number * update};
    Value updates = steps; /* of the first size */
    if (in->ramp) {
        tokens =
            (Value){in->timed_tokens.known, (double)in->tokens_before + in->timed_tokens.number};
        updates = (Value){in->timed_tokens.known && update > 0, in->timed_tokens.number / update};
    }
    *checks = (Checks){0};
    checks_agree(checks, "tokens", tokens, s->tokens, 0);
    checks_agree(checks, "throughput", in->timed_tokens, product(s->tok_s, s->train_s),
                 CHECK_THROUGHPUT_SLACK);
    /* A model that knows nothing spreads its guess over the vocabulary. Far from that, the weights
     * are badly scaled or the loss is wrong; both happen on purpose, so only NaN and infinity
     * fail. */
    checks_agree(checks, "first_loss", (Value){in->vocab > 1, log((double)in->vocab)},
                 in->first_loss, CHECK_FIRST_LOSS_SLACK);
    check_phases(s, in, checks);
    if (s->wall_s.known && s->train_s.known && s->val_s.known && s->init_s.known) {
        double train = s->train_s.number, val = s->val_s.number, init = s->init_s.number;
        bool within = fmin(train, fmin(val, init)) >= 0 &&
                      train + val + init <= s->wall_s.number * (1 + CHECK_ROUNDING);
        checks_add(checks, "parts", within, s->wall_s.number, train + val + init, NULL);
    }
    at_most(checks, "timer_overhead", value_of(CHECK_TIMER_COST), s->timer_overhead, 0);
    check_step_times(s, steps, checks);
    at_most(checks, "mfu", value_of(1), s->mfu_measured, 0);
    at_most(checks, "mfu_peak", value_of(1), s->mfu_peak, 0);
    checks_agree(checks, "flops", product(in->flops_update, updates),
                 product(product(s->mfu_measured, in->ceiling), s->train_s),
                 CHECK_THROUGHPUT_SLACK);
    at_most(checks, "memory", s->planned_bytes, s->peak_bytes, 0);
    at_most(checks, "allocated", s->allocated_bytes, s->peak_bytes, 0);
    checks_agree(checks, "memory_plan", s->planned_bytes, in->plan_bytes, 0);
}

/* --- several runs --- */

void checks_confounded_rates(const double *batches, const double *rates, int n, Checks *checks)
{
    bool one_batch = true, one_rate = true;
    for (int i = 1; i < n; i++) {
        one_batch = one_batch && batches[i] == batches[0];
        one_rate = one_rate && rates[i] == rates[0];
    }
    if (n > 1 && !one_batch) {
        checks_add(checks, "learning_rates", !one_rate, 2, one_rate ? 1 : 2, NULL);
    }
}
