#include "report/report.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/mem.h"
#include "config/config.h"
#include "report/findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 6

typedef struct {
    Results a, b;
    Table *table;
} Comparison;

/* --- the table --- */

static void begin(Table *table, const char *a, const char *b)
{
    *table = (Table){.title = mem_format("%s against %s", b, a)};
    table_add_column(table, "Configuration", false);
    strcpy(table->heads[0].name, "configuration");
    table_add_column(table, "Quantity", false);
    table_add_column(table, a, true);
    table_add_column(table, b, true);
    table_add_column(table, "Difference", true);
    table_add_column(table, "Judgement", false);
}

static void add_row(Table *table, const char *const cells[COLUMNS])
{
    table_add_row(table);
    for (int i = 0; i < COLUMNS; i++) {
        table_set(table, i, cells[i]);
    }
}

/* --- rows --- */

static void difference_text(const Metric *metric, double a, double b, char *text, size_t size)
{
    text[0] = '\0';
    if (isnan(a) || isnan(b)) {
        return;
    }
    if (metric->unit == UNIT_LOSS) {
        snprintf(text, size, "%+.4f", b - a);
    } else if (a != 0) {
        snprintf(text, size, "%+.1f %%", 100 * (b / a - 1));
    } else {
        snprintf(text, size, b == 0 ? "none" : "from nothing");
    }
}

static void compare_metric(Comparison *both, const char *name, int in_a, int in_b,
                           const char *label)
{
    Metric metric = findings_metric(name);
    double of_a[METRIC_MAX_SAMPLES], of_b[METRIC_MAX_SAMPLES];
    int a_count = metric_samples(&metric, &both->a, in_a, of_a, METRIC_MAX_SAMPLES);
    int b_count = metric_samples(&metric, &both->b, in_b, of_b, METRIC_MAX_SAMPLES);
    if (a_count == 0 && b_count == 0) {
        return;
    }
    Estimate a = estimate_of(of_a, a_count), b = estimate_of(of_b, b_count);
    char heading[64], a_text[160], b_text[160], difference[64],
        judgement[FINDINGS_JUDGEMENT_SIZE] = "";
    metric_heading(&metric, heading);
    estimate_text(&metric, a, a_text, sizeof a_text);
    estimate_text(&metric, b, b_text, sizeof b_text);
    difference_text(&metric, a.mean, b.mean, difference, sizeof difference);
    if (a_count > 0 && b_count > 0) {
        Welch welch = welch_test(of_a, a_count, of_b, b_count);
        if (isnan(welch.p)) {
            snprintf(judgement, sizeof judgement, "one run: cannot be judged");
        } else {
            findings_judgement(&welch, judgement);
        }
    }
    add_row(both->table,
            (const char *const[]){label, heading, a_text, b_text, difference, judgement});
}

static void compare_configurations(Comparison *both, int in_a, int in_b, const char *label)
{
    static const char *const names[] = {
        "tok_s",          "total_s",     "training_s",  "validation_s", "compute_s",
        "comm_exposed_s", "step_p50_ms", "step_p95_ms", "train_loss",   "val_loss",
        "best_val_loss",  "peak_bytes",  "mfu_measured"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        compare_metric(both, names[i], in_a, in_b, label);
    }
}

/* --- two runs --- */

static void compare_options(Comparison *both)
{
    const Option *options = config_options();
    for (size_t i = 0; options[i].name != NULL; i++) {
        char a_buffer[RESULT_SETTING_SIZE], b_buffer[RESULT_SETTING_SIZE];
        const char *a = result_setting(&both->a.runs[0], options[i].name, a_buffer);
        const char *b = result_setting(&both->b.runs[0], options[i].name, b_buffer);
        a = a != NULL ? a : "";
        b = b != NULL ? b : "";
        if (strcmp(a, b) != 0 && strcmp(options[i].name, "out") != 0) {
            add_row(both->table, (const char *const[]){"option", options[i].name, a, b, "", ""});
        }
    }
}

static void compare_runs(Comparison *both)
{
    compare_options(both);
    compare_configurations(both, 0, 0, "run");
    for (int i = 0; i < 2; i++) {
        const Result *result = i == 0 ? &both->a.runs[0] : &both->b.runs[0];
        if (!result_is_sound(result)) {
            table_add_note(both->table,
                           mem_format("%s is %s%s: its numbers are left out.",
                                      i == 0 ? both->a.dir : both->b.dir,
                                      run_state_name(result->state),
                                      result->state == RUN_DONE ? " but its checks failed" : ""));
        }
    }
}

/* --- two experiments --- */

/* An option that means nothing to a peer is in none of its runs. */
static bool both_lack(const Result *a, const Result *b, const char *option)
{
    char text[RESULT_SETTING_SIZE];
    return a->peer[0] != '\0' && result_setting(a, option, text) == NULL &&
           result_setting(b, option, text) == NULL;
}

static bool agree_on(const Results *axes_of, const Result *a, const Result *b)
{
    if (strcmp(a->peer, b->peer) != 0) {
        return false;
    }
    for (int axis = 0; axis < axes_of->axis_count; axis++) {
        for (int i = 0; i < axes_of->axes[axis].count; i++) {
            const char *option = axes_of->axes[axis].options[i];
            if (!result_settings_equal(a, b, option) && !both_lack(a, b, option)) {
                return false;
            }
        }
    }
    return true;
}

/* The first configuration of b that matches; -1: none. */
static int match(const Comparison *both, const Result *of_a, const bool *taken)
{
    for (int i = 0; i < both->b.configurations; i++) {
        const Result *of_b = results_first(&both->b, i);
        if (of_b != NULL && !taken[i] && agree_on(&both->a, of_a, of_b) &&
            agree_on(&both->b, of_a, of_b)) {
            return i;
        }
    }
    return -1;
}

static void note_alone(Comparison *both, const Results *results, const Result *result)
{
    char label[300];
    result_label(results, result, label, sizeof label);
    table_add_note(both->table, mem_format("Only in %s: %s.", results->dir, label));
}

static void compare_experiments(Comparison *both)
{
    bool *taken = mem_zalloc((size_t)both->b.configurations + 1, sizeof *taken);
    for (int i = 0; i < both->a.configurations; i++) {
        const Result *of_a = results_first(&both->a, i);
        int other = of_a != NULL ? match(both, of_a, taken) : -1;
        char label[300];
        if (other >= 0) {
            taken[other] = true;
            result_label(&both->a, of_a, label, sizeof label);
            compare_configurations(both, i, other, label);
        } else if (of_a != NULL) {
            note_alone(both, &both->a, of_a);
        }
    }
    for (int i = 0; i < both->b.configurations; i++) {
        const Result *of_b = results_first(&both->b, i);
        if (of_b != NULL && !taken[i]) {
            note_alone(both, &both->b, of_b);
        }
    }
    free(taken);
}

/* --- either --- */

int compare_make(const char *a, const char *b, Table *table)
{
    *table = (Table){0};
    if (results_is_experiment(a) != results_is_experiment(b)) {
        return err_set(
            ERR_INPUT,
            "%s and %s: one is an experiment and the other is not; give two experiments, "
            "or two run directories",
            a, b);
    }
    Comparison both = {.table = table};
    bool experiment;
    int code = results_read_any(&both.a, a, &experiment);
    code = code != 0 ? code : results_read_any(&both.b, b, &experiment);
    if (code == 0) {
        begin(table, a, b);
        if (experiment) {
            compare_experiments(&both);
        } else {
            compare_runs(&both);
        }
    }
    results_free(&both.a);
    results_free(&both.b);
    return code;
}

int compare_report(const char *a, const char *b, FILE *file)
{
    Table table;
    int code = compare_make(a, b, &table);
    if (code == 0) {
        char *text = table_markdown(&table);
        char *title = escape_markdown(table.title);
        fprintf(file, "# %s\n\n%s", title, text);
        free(title);
        free(text);
        table_free(&table);
    }
    return code;
}
