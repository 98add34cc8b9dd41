#include "report/report.h"

#include "base/err.h"
#include "base/mem.h"
#include "config/config.h"
#include "report/findings.h"
#include "report/scaling.h"

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
    table_begin(table, mem_format("%s against %s", b, a), "Configuration|Quantity");
    strcpy(table->heads[0].name, "configuration");
    table_add_column(table, a, true);
    table_add_column(table, b, true);
    table_add_column(table, "Difference", true);
    table_add_column(table, "Judgement", false);
}

static void add_row(Table *table, const char *const cells[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        table_add_text(table, cells[i]);
    }
}

/* --- rows --- */

static Phrase difference_text(const Metric *metric, double a, double b)
{
    return isnan(a) || isnan(b)        ? (Phrase){""}
           : metric->unit == UNIT_LOSS ? phrase("%+.4f", b - a)
           : a != 0                    ? phrase("%+.1f %%", 100 * (b / a - 1))
                                       : phrase(b == 0 ? "none" : "from nothing");
}

static void compare_metric(Comparison *both, const char *name, int in_a, int in_b,
                           const char *label)
{
    Metric metric = metric_named(name);
    Samples of_a = metric_samples(&metric, &both->a, in_a, true);
    Samples of_b = metric_samples(&metric, &both->b, in_b, true);
    if (of_a.count == 0 && of_b.count == 0) {
        return;
    }
    Estimate a = samples_estimate(&of_a), b = samples_estimate(&of_b);
    Welch welch = samples_welch(&of_a, &of_b);
    Phrase judgement = findings_judgement(&welch);
    char *a_text = estimate_text(&metric, a), *b_text = estimate_text(&metric, b);
    Phrase difference = difference_text(&metric, a.mean, b.mean);
    add_row(both->table, (const char *const[]){label, metric.title, a_text, b_text, difference.text,
                                               isnan(welch.difference) ? ""
                                               : isnan(welch.p)        ? "one run: cannot be judged"
                                                                       : judgement.text});
    free(a_text);
    free(b_text);
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
        const char *a = result_setting(&both->a.runs[0], options[i].name);
        const char *b = result_setting(&both->b.runs[0], options[i].name);
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
        if (!result->sound) {
            table_add_note(both->table,
                           mem_format("%s is %s%s: its numbers are left out.",
                                      i == 0 ? both->a.dir : both->b.dir,
                                      run_state_name(result->state),
                                      result->state == RUN_DONE ? " but its checks failed" : ""));
        }
    }
}

/* --- two experiments --- */

/* What is unknown of both runs agrees only in those of a peer, to which it means nothing. */
static bool agree_on(const Results *axes_of, const Result *a, const Result *b)
{
    for (int i = 0; i < axes_of->varying_count && a->peer[0] == '\0'; i++) {
        if (result_setting(a, axes_of->varying[i].option) == NULL) {
            return false;
        }
    }
    return results_equal_but(axes_of, a, b, -1);
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
    table_add_note(both->table, mem_format("Only in %s: %s.", results->dir, result->label));
}

static void compare_experiments(Comparison *both)
{
    bool *taken = mem_zalloc((size_t)both->b.configurations + 1, sizeof *taken);
    for (int i = 0; i < both->a.configurations; i++) {
        const Result *of_a = results_first(&both->a, i);
        int other = of_a != NULL ? match(both, of_a, taken) : -1;
        if (other >= 0) {
            taken[other] = true;
            compare_configurations(both, i, other, of_a->label);
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
        Page page = {0};
        page_put(&page, "# ");
        page_put_markdown(&page, table.title);
        page_put(&page, "\n\n");
        table_put(&table, &page);
        fputs(page.text, file);
        page_free(&page);
        table_free(&table);
    }
    return code;
}
