#include "report/branches.h"

#include "base/io.h"
#include "base/mem.h"
#include "report/duel.h"
#include "report/findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Validation loss at the end, or else the training loss; NAN unless the run is done. */
static double loss_of(const Result *run)
{
    double loss = json_number(run->run, "summary.val_loss");
    loss = isnan(loss) ? json_number(run->run, "summary.train_loss") : loss;
    return run->sound ? loss : NAN;
}

static double batch_of(const Results *results, const Result *run)
{
    Metric batch = metric_named("global_batch");
    return metric_value(&batch, results, run, -1);
}

static int by_place(const void *a, const void *b)
{
    const BranchRow *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at)
                          : (x->batch > y->batch) - (x->batch < y->batch);
}

/* The run of a place in a repeat; NULL: none. */
static const Result *find_run(const Results *results, double at, double batch, int repeat)
{
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        if (run->repeat == repeat && result_setting_number(run, "branch-at") == at &&
            batch_of(results, run) == batch) {
            return run;
        }
    }
    return NULL;
}

/* Means over repeats; the difference is taken within each repeat, whose branches began alike. */
static void fill_row(const Results *results, const BranchRow *first, BranchRow *row)
{
    Samples loss = {0}, difference = {0};
    int repeats = 0;
    for (int i = 0; i < results->count; i++) {
        repeats = results->runs[i].repeat >= repeats ? results->runs[i].repeat + 1 : repeats;
    }
    for (int repeat = 0; repeat < repeats; repeat++) {
        const Result *own = find_run(results, row->at, row->batch, repeat);
        const Result *other = find_run(results, row->at, first->batch, repeat);
        const char *why = own != NULL ? json_text_or(own->run, "message", own->reason) : "";
        row->diverged |= own != NULL && duel_diverged(own->state, why);
        double value = own != NULL ? loss_of(own) : NAN;
        double against = other != NULL ? loss_of(other) : NAN;
        samples_add(&loss, value);
        samples_add(&difference, value - against);
    }
    row->loss = samples_estimate(&loss);
    row->difference = samples_estimate(&difference);
}

BranchLimit branch_limit(const BranchRow *rows, int count, double tolerance)
{
    double smallest = rows[0].batch;
    BranchLimit limit = {rows[0].at, smallest, smallest, smallest, smallest};
    bool mean = true, sure = true, possible = true, known = true;
    for (int i = 1; i < count; i++) {
        Estimate d = rows[i].difference;
        bool lost = rows[i].diverged && rows[0].loss.count > 0;
        if (!lost && d.count == 0) {
            continue;
        }
        mean = mean && !lost && d.mean <= tolerance;
        sure = sure && !lost && d.mean + d.half <= tolerance;
        possible = possible && !lost && d.mean - d.half <= tolerance;
        known = known && (lost || !isnan(d.half));
        limit.largest = rows[i].batch;
        limit.batch = mean ? rows[i].batch : limit.batch;
        limit.least = sure ? rows[i].batch : limit.least;
        limit.most = possible ? rows[i].batch : limit.most;
    }
    if (limit.largest == smallest) {
        limit.batch = NAN;
    }
    if (!known || isnan(limit.batch)) {
        limit.least = limit.most = NAN;
    }
    return limit;
}

/* The noise scale of the trunk at an update, mean over its repeats; NAN: not measured. */
static double trunk_noise(const Results *trunk, double at)
{
    Mean mean = {0};
    for (int i = 0; i < trunk->count; i++) {
        const CurveLine *line = &trunk->runs[i].curve.noise;
        double found = NAN;
        for (size_t k = 0; k < line->count && (double)line->points[k].step <= at; k++) {
            found = line->points[k].loss;
        }
        mean_add(&mean, found);
    }
    return mean_value(mean);
}

static char *text_of(Estimate estimate, const char *format)
{
    char mean[32], half[32];
    snprintf(mean, sizeof mean, format, estimate.mean);
    snprintf(half, sizeof half, "%.4f", estimate.half);
    return estimate.count == 0    ? mem_strdup("-")
           : isnan(estimate.half) ? mem_strdup(mean)
                                  : mem_format("%s ± %s", mean, half);
}

static void put_point(Table *table, const BranchRow *rows, int count, double tolerance,
                      double noise)
{
    BranchLimit limit = branch_limit(rows, count, tolerance);
    for (int i = 0; i < count; i++) {
        Estimate d = rows[i].difference;
        const char *verdict = rows[i].diverged                  ? "diverged"
                              : i == 0                          ? "smallest"
                              : d.count == 0                    ? "-"
                              : isnan(d.half)                   ? "one repeat alone"
                              : d.mean + d.half <= tolerance    ? "no loss"
                              : !(d.mean - d.half <= tolerance) ? "loss"
                                                                : "not told";
        table_add_cell(table, mem_format("%.0f", rows[i].at));
        table_add_cell(table, mem_format("%.0f", rows[i].batch));
        table_add_cell(table, mem_format("%.0f", rows[i].tokens));
        table_add_cell(table, text_of(rows[i].loss, "%.4f"));
        table_add_cell(table, i == 0 ? mem_strdup("0") : text_of(d, "%+.4f"));
        table_add_text(table, verdict);
    }
    if (isnan(limit.batch)) {
        table_add_note(table, mem_format("At update %.0f nothing can be compared with the smallest "
                                         "batch, %.0f sequences; the runs below say why.",
                                         limit.at, rows[0].batch));
        return;
    }
    char sure[96] = "", scale[96] = "";
    if (!isnan(limit.least)) {
        snprintf(sure, sizeof sure, " (from %.0f for sure to %.0f that cannot be ruled out)",
                 limit.least, limit.most);
    }
    if (!isnan(noise)) {
        snprintf(scale, sizeof scale, " The noise scale there was %.3g sequences.", noise);
    }
    table_add_note(table, mem_format("At update %.0f the largest batch without loss is %.0f "
                                     "sequences%s%s, at a tolerance of %g nats and equal tokens.%s",
                                     limit.at, limit.batch,
                                     limit.batch == limit.largest ? ", the largest tried" : "",
                                     sure, tolerance, scale));
}

/* Of all points, ascending; each with its estimates. Caller frees. */
static BranchRow *make_rows(const Results *results, int *count)
{
    BranchRow *rows = mem_zalloc((size_t)results->configurations + 1, sizeof *rows);
    *count = 0;
    for (int i = 0; i < results->configurations; i++) {
        const Result *run = results_first(results, i);
        double at = run != NULL ? result_setting_number(run, "branch-at") : NAN;
        double batch = run != NULL ? batch_of(results, run) : NAN;
        if (!isnan(at) && !isnan(batch)) {
            rows[(*count)++] = (BranchRow){
                .at = at, .batch = batch, .tokens = batch * result_setting_number(run, "seq")};
        }
    }
    qsort(rows, (size_t)*count, sizeof *rows, by_place);
    for (int first = 0, i = 0; i < *count; i++) {
        first = rows[i].at == rows[first].at ? first : i;
        fill_row(results, &rows[first], &rows[i]);
    }
    return rows;
}

/* Behind the rows of the same point. */
static int next_point(const BranchRow *rows, int count, int first)
{
    int next = first;
    while (next < count && rows[next].at == rows[first].at) {
        next++;
    }
    return next;
}

static double tolerance_of(const Results *results)
{
    double tolerance = json_number(results->json, "tolerance");
    return isnan(tolerance) ? BRANCH_TOLERANCE : tolerance;
}

bool branches_table(const Results *results, Table *table)
{
    if (results_axis_of(results, "branch-at") < 0) {
        return false;
    }
    int count;
    BranchRow *rows = make_rows(results, &count);
    table_begin(
        table, mem_strdup("Largest batch without loss"),
        "#Branched at update|#Batch|#Tokens per update|#Loss|#Against the smallest|Verdict");
    Results trunk = {0};
    char *folder = io_join(results->dir, "trunk");
    bool has_trunk = results_is_experiment(folder) && results_read(&trunk, folder) == 0;
    for (int first = 0, next; first < count; first = next) {
        next = next_point(rows, count, first);
        put_point(table, rows + first, next - first, tolerance_of(results),
                  has_trunk ? trunk_noise(&trunk, rows[first].at) : NAN);
    }
    results_free(&trunk);
    free(folder);
    free(rows);
    return true;
}

void rule_branches(const Results *results, Findings *findings)
{
    if (results_axis_of(results, "branch-at") < 0) {
        return;
    }
    int count, told = 0;
    BranchRow *rows = make_rows(results, &count);
    Page text = {0}, evidence = {0};
    for (int first = 0, next; first < count; first = next) {
        next = next_point(rows, count, first);
        BranchLimit limit = branch_limit(rows + first, next - first, tolerance_of(results));
        if (isnan(limit.batch)) {
            continue;
        }
        page_put(&text, "%s%.0f%s%s at update %.0f", told > 0 ? ", " : "", limit.batch,
                 told > 0 ? "" : " sequences",
                 limit.batch == limit.largest ? " (the largest tried)" : "", limit.at);
        page_put(&evidence, "%sat update %.0f: ", told++ > 0 ? "; " : "", limit.at);
        if (isnan(limit.least)) {
            page_put(&evidence, "one repeat alone, so no interval");
        } else {
            page_put(&evidence, "%.0f for sure, up to %.0f not ruled out", limit.least, limit.most);
        }
    }
    if (told > 0) {
        Finding *finding = findings_add(findings, FINDING_RESULT, RANK_ANSWER);
        page_put(&finding->text,
                 "The largest batch that costs at most %g nats at equal tokens: %s.",
                 tolerance_of(results), text.text);
        page_put(&finding->evidence, "%s", evidence.text);
    }
    page_free(&text);
    page_free(&evidence);
    free(rows);
}
