/* The list of verdicts: to the log, to the record, to the exit status. */
#include "metrics/checks.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const CheckRow rows[] = {
    /* The summary against itself and the configuration. */
    {"tokens", CHECK_COUNTED},
    {"throughput", CHECK_COUNTED},
    {"first_loss", CHECK_COUNTED},
    {"phases", CHECK_COUNTED},
    {"unattributed", CHECK_TIMED},
    {"phase_numbers", CHECK_COUNTED},
    {"parts", CHECK_COUNTED},
    {"timer_overhead", CHECK_TIMED},
    {"step_quantiles", CHECK_COUNTED},
    {"step_times", CHECK_TIMED},
    {"step_spread", CHECK_TIMED},
    {"mfu", CHECK_TIMED},
    {"mfu_peak", CHECK_TIMED},
    {"flops", CHECK_COUNTED},
    {"memory", CHECK_COUNTED},
    {"allocated", CHECK_COUNTED},
    {"memory_plan", CHECK_COUNTED},
    /* The ranks. */
    {"ranks", CHECK_COUNTED},
    {"rank_phases", CHECK_COUNTED},
    {"rank_memory", CHECK_COUNTED},
    {"slowest_wall", CHECK_TIMED},
    {"slowest_train", CHECK_TIMED},
    {"stragglers", CHECK_TIMED},
    {"shared_device", CHECK_COUNTED},
    {"throttled", CHECK_TIMED},
    {"gpu_alone", CHECK_TIMED},
    {"gpu_memory", CHECK_TIMED},
    /* The lines of metrics.jsonl. */
    {"line_steps", CHECK_COUNTED},
    {"line_tokens", CHECK_COUNTED},
    {"line_rate", CHECK_COUNTED},
    {"last_line", CHECK_COUNTED},
    {"line_time", CHECK_COUNTED},
    {"train_loss", CHECK_COUNTED},
    {"val_loss", CHECK_COUNTED},
    {"best_val_loss", CHECK_COUNTED},
    {"stored", CHECK_COUNTED},
    /* Several runs. */
    {"speedup", CHECK_TIMED},
    {"learning_rates", CHECK_COUNTED},
};

const CheckRow *checks_rows(size_t *count)
{
    *count = sizeof rows / sizeof rows[0];
    return rows;
}

static CheckKind kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].kind;
        }
    }
    PACER_ASSERT(false, "no check is called %s", name);
    return CHECK_COUNTED;
}

void checks_add(Checks *checks, const char *name, CheckVerdict verdict, double expected,
                double found, const char *rule, const char *subject)
{
    PACER_ASSERT(checks->count < CHECKS_MAX, "%d checks", checks->count);
    if (verdict == CHECK_PASS && !(isfinite(expected) && isfinite(found))) {
        verdict = CHECK_FAIL; /* an infinite limit is none */
    }
    if (verdict == CHECK_FAIL && kind_of(name) == CHECK_TIMED) {
        verdict = CHECK_WARN;
    }
    Check *check = &checks->items[checks->count++];
    *check = (Check){name, verdict, expected, found, rule, ""};
    if (subject != NULL) {
        snprintf(check->subject, sizeof check->subject, "%s", subject);
    }
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
