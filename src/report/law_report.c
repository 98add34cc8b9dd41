#include "report/law_report.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/findings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREDICTION "prediction.json"
#define SEED 1 /* of the bootstrap: the same records give the same intervals */

bool law_is(const Results *results)
{
    return cJSON_IsObject(json_get(results->json, "law"));
}

/* --- from runs to a fit --- */

static bool is_largest(const Result *run)
{
    return json_is_true(run->entry, "largest");
}

/* Older records have the FLOP of an update alone, recomputation included. */
static double flops_of(const Result *run)
{
    double token = json_number(run->run, "model.flops_token");
    return !isnan(token)
               ? token * json_number(run->run, "summary.tokens")
               : json_number(run->run, "model.flops_update") *
                     json_number(run->run, "summary.steps") * result_setting_number(run, "ranks");
}

static bool point_of(const Result *run, LawPoint *point)
{
    *point = (LawPoint){json_number(run->run, "model.parameters"),
                        json_number(run->run, "summary.tokens"),
                        json_number(run->run, "summary.val_loss"), flops_of(run)};
    return run->state == RUN_DONE && point->parameters > 0 && point->tokens > 0 &&
           point->loss > 0 && point->flops > 0;
}

static int collect(const Results *results, LawPoint *points)
{
    int count = 0;
    for (int i = 0; i < results->count && count < LAW_MOST; i++) {
        count += !is_largest(&results->runs[i]) && point_of(&results->runs[i], &points[count]);
    }
    return count;
}

/* XXH3 over sizes, tokens and losses, in the order of the runs. */
static void digest_of(const LawPoint *points, int count, char text[32])
{
    Page page = {0};
    for (int i = 0; i < count; i++) {
        page_put(&page, "%.17g %.17g %.17g\n", points[i].parameters, points[i].tokens,
                 points[i].loss);
    }
    snprintf(text, 32, "%016" PRIx64, io_hash(page.text, page.size));
    page_free(&page);
}

typedef struct {
    LawPoint points[LAW_MOST];
    int count;
    char digest[32];
    LawFit fit;
} Fitted;

/* NULL, and *problem (caller frees) why: too few runs. */
static Fitted *fit_results(const Results *results, char **problem)
{
    Fitted *f = mem_zalloc(1, sizeof *f);
    f->count = collect(results, f->points);
    *problem = NULL;
    if (f->count > 0) {
        digest_of(f->points, f->count, f->digest);
    }
    if (f->count < LAW_LEAST || !law_fit(&f->fit, f->points, f->count, SEED)) {
        *problem =
            mem_format("No law can be fitted: %d runs with a loss; it takes %d, of three "
                       "sizes and three numbers of tokens at least: give more dials, budgets "
                       "or repeats",
                       f->count, LAW_LEAST);
        free(f);
        return NULL;
    }
    return f;
}

/* --- whether the grid holds its minima --- */

/* Mean loss over repeats of the configuration; NAN: a run is missing, or it is the largest. */
static double mean_loss(const Results *results, int configuration, LawPoint *point)
{
    Mean mean = {0};
    for (const Result *run = NULL; (run = results_next(results, configuration, run)) != NULL;) {
        if (is_largest(run) || !point_of(run, point)) {
            return NAN;
        }
        mean_add(&mean, point->loss);
    }
    return mean_value(mean);
}

/* What is wrong with the sizes of a budget, added to the page: an optimum at the end of a range
 * tells nothing about the other side, and a law through such ranges extrapolates from one side. */
static void note_open_budget(const Results *results, double budget, Page *page)
{
    double least = INFINITY, best = NAN, low = INFINITY, high = 0;
    for (int i = 0; i < results->configurations; i++) {
        const Result *run = results_first(results, i);
        LawPoint point;
        double loss = run != NULL && json_number(run->entry, "budget") == budget
                          ? mean_loss(results, i, &point)
                          : NAN;
        if (!isnan(loss)) {
            low = fmin(low, point.parameters);
            high = fmax(high, point.parameters);
            best = loss < least ? point.parameters : best;
            least = fmin(least, loss);
        }
    }
    if (!(best > low && best < high)) {
        page_put(page, "%s%g FLOP (the %s size is best)", page->size > 0 ? ", " : "", budget,
                 best <= low ? "least" : "greatest");
    }
}

/* NULL, or at which budgets the best size is not inside the grid. Caller frees. */
static char *open_budgets(const Results *results)
{
    Page page = {0};
    const cJSON *budget;
    cJSON_ArrayForEach(budget, json_get(json_get(results->json, "law"), "budgets"))
    {
        note_open_budget(results, budget->valuedouble, &page);
    }
    char *text =
        page.size > 0
            ? mem_format("the minimum is not inside the grid at %s; give the law %s", page.text,
                         strstr(page.text, "least") != NULL
                             ? "smaller dials (or a smaller head-dim), or larger budgets"
                             : "larger dials, or smaller budgets")
            : NULL;
    page_free(&page);
    return text;
}

/* --- the prediction --- */

static void put_estimate(cJSON *object, const char *name, LawEstimate estimate)
{
    cJSON *item = json_put_object(object, name);
    json_put_number(item, "value", estimate.value);
    json_put_number(item, "low", estimate.low);
    json_put_number(item, "high", estimate.high);
}

static const char *const term_names[LAW_TERMS] = {"E", "A", "B", "alpha", "beta"};

static cJSON *prediction_json(const Fitted *f, const LawTarget *target)
{
    cJSON *tree = json_object();
    char now[CLOCK_STAMP_SIZE];
    clock_stamp(now);
    json_put_whole(tree, "format", 1);
    json_put_text(tree, "written", now);
    json_put_text(tree, "run", target->id);
    json_put_bool(tree, "run_was_begun", target->begun);
    json_put_number(tree, "parameters", target->parameters);
    json_put_number(tree, "tokens", target->tokens);
    json_put_number(tree, "flops", target->flops);
    put_estimate(tree, "loss", law_predict(&f->fit, target->parameters, target->tokens));
    LawEstimate loss, size = law_best_size(&f->fit, target->flops, &loss);
    put_estimate(tree, "best_parameters", size);
    put_estimate(tree, "best_loss", loss);
    cJSON *terms = json_put_object(tree, "terms");
    for (int k = 0; k < LAW_TERMS; k++) {
        put_estimate(terms, term_names[k], law_term(&f->fit, k));
    }
    json_put_whole(tree, "points", f->count);
    json_put_text(tree, "digest", f->digest);
    return tree;
}

static bool has_interval(const Fitted *f, const LawTarget *target)
{
    LawEstimate loss = law_predict(&f->fit, target->parameters, target->tokens);
    return isfinite(loss.low) && isfinite(loss.high);
}

int law_register(const Results *results, const LawTarget *target, bool *registered, char **text)
{
    char *path = io_join(results->dir, PREDICTION), *problem = NULL;
    cJSON *tree = NULL;
    Fitted *f = fit_results(results, &problem);
    int code = json_load_optional(path, &tree);
    if (code == 0 && tree == NULL && f != NULL) {
        problem = open_budgets(results);
    }
    if (code == 0 && tree == NULL && problem == NULL && !has_interval(f, target)) {
        problem =
            mem_strdup("the runs of single budgets cannot be left out, so nothing says how far "
                       "the law can be trusted; give the law more budgets, dials or repeats");
    }
    if (code == 0 && tree == NULL && problem == NULL) {
        tree = prediction_json(f, target);
        code = json_save(path, tree);
    }
    *registered = code == 0 && tree != NULL;
    if (*registered) {
        bool same = f != NULL && strcmp(json_text_or(tree, "digest", ""), f->digest) == 0;
        *text = mem_format("predicted at %s: a loss of %.4f (95 %% interval %.4f to %.4f)%s",
                           json_text_or(tree, "written", "?"), json_number(tree, "loss.value"),
                           json_number(tree, "loss.low"), json_number(tree, "loss.high"),
                           same ? "" : "; the runs are no longer those that it was made from");
    } else if (code == 0) {
        *text = problem;
        problem = NULL;
    }
    free(problem);
    cJSON_Delete(tree);
    free(path);
    free(f);
    return code;
}

/* --- tables --- */

static void add_estimate(Table *table, const char *format, LawEstimate estimate)
{
    double values[] = {estimate.value, estimate.low, estimate.high};
    for (int i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof text, format,
                 values[i]); // NOLINT(clang-diagnostic-format-nonliteral)
        table_add_text(table, isfinite(values[i]) ? text : "-");
    }
}

static void add_counts(Table *table, LawEstimate estimate)
{
    double values[] = {estimate.value, estimate.low, estimate.high};
    for (int i = 0; i < 3; i++) {
        table_add_text(table, isfinite(values[i]) ? unit_format(UNIT_COUNT, values[i]).text : "-");
    }
}

static void terms_table(const Fitted *f, Table *table)
{
    table_begin(table, mem_strdup("Scaling law"),
                "L(N, D) = E + A / N^alpha + B / D^beta|#Estimate|#low|#high");
    for (int k = 0; k < LAW_TERMS; k++) {
        table_add_text(table, term_names[k]);
        add_estimate(table, "%.4g", law_term(&f->fit, k));
    }
    table_add_note(table, mem_format("By %d runs, whose losses scatter about the law by %.2g %%; "
                                     "95 %% intervals by bootstrap. N: parameters, D: tokens.",
                                     f->count, 100 * f->fit.noise));
    for (int k = LAW_ALPHA; k <= LAW_BETA; k++) {
        if (!law_tells(&f->fit, k)) {
            table_add_note(table,
                           mem_format("These runs do not tell %s: nothing follows about the effect "
                                      "of %s, nor about the best size. Wider ranges would.",
                                      term_names[k],
                                      k == LAW_ALPHA ? "the size" : "the number of tokens"));
        }
    }
}

static void add_size(const Fitted *f, double flops, Table *table)
{
    LawEstimate loss, size = law_best_size(&f->fit, flops, &loss);
    table_add_cell(table, mem_format("%.3g", flops));
    add_counts(table, size);
    table_add_text(table, unit_format(UNIT_COUNT, law_tokens(&f->fit, size.value, flops)).text);
    table_add_cell(table, mem_format("%.4f", loss.value));
}

static void sizes_table(const Results *results, const Fitted *f, Table *table)
{
    table_begin(table, mem_strdup("Best size for a budget"),
                "#FLOP|#Best size|#low|#high|#Tokens|#Loss");
    const cJSON *law = json_get(results->json, "law"), *budget;
    cJSON_ArrayForEach(budget, json_get(law, "budgets"))
    {
        add_size(f, budget->valuedouble, table);
    }
    double largest = json_number(law, "largest.flops");
    if (largest > 0) {
        add_size(f, largest, table);
    }
    table_add_note(table, mem_format("Sizes of %s to %s parameters were tried; what lies outside "
                                     "is an extrapolation.",
                                     unit_format(UNIT_COUNT, f->fit.sizes[0]).text,
                                     unit_format(UNIT_COUNT, f->fit.sizes[1]).text));
}

static cJSON *load_prediction(const Results *results)
{
    char *path = io_join(results->dir, PREDICTION);
    cJSON *tree = NULL;
    if (json_load_optional(path, &tree) != 0) {
        log_warn("%s", err_message());
    }
    free(path);
    return tree;
}

/* Loss of the largest run; NAN: it is not done. */
static double what_came(const Results *results)
{
    Mean mean = {0};
    for (int i = 0; i < results->count; i++) {
        LawPoint point;
        if (is_largest(&results->runs[i]) && point_of(&results->runs[i], &point)) {
            mean_add(&mean, point.loss);
        }
    }
    return mean_value(mean);
}

static void prediction_table(const Results *results, const Fitted *f, const cJSON *tree,
                             Table *table)
{
    table_begin(table, mem_strdup("The largest run"),
                "#Parameters|#Tokens|#Predicted loss|#low|#high|#What came");
    double came = what_came(results);
    LawEstimate loss = {json_number(tree, "loss.value"), json_number(tree, "loss.low"),
                        json_number(tree, "loss.high")};
    table_add_text(table, unit_format(UNIT_COUNT, json_number(tree, "parameters")).text);
    table_add_text(table, unit_format(UNIT_COUNT, json_number(tree, "tokens")).text);
    add_estimate(table, "%.4f", loss);
    table_add_cell(table, isnan(came) ? mem_strdup("-") : mem_format("%.4f", came));
    table_add_note(table,
                   mem_format("Written down at %s, before the run, from %.0f runs (digest "
                              "%s).",
                              json_text_or(tree, "written", "?"), json_number(tree, "points"),
                              json_text_or(tree, "digest", "?")));
    if (json_is_true(tree, "run_was_begun")) {
        table_add_note(table, mem_strdup("The run had been begun by then: this is no prediction."));
    }
    if (strcmp(json_text_or(tree, "digest", ""), f->digest) != 0) {
        table_add_note(table, mem_strdup("The runs above are no longer those it was made from."));
    }
}

int law_tables(const Results *results, Table tables[LAW_TABLES], char **problem)
{
    Fitted *f = fit_results(results, problem);
    if (f == NULL) {
        return 0;
    }
    cJSON *prediction = load_prediction(results);
    char *open = open_budgets(results);
    terms_table(f, &tables[0]);
    if (open != NULL) {
        table_add_note(&tables[0], mem_format("Unsafe: %s.", open));
        free(open);
    }
    sizes_table(results, f, &tables[1]);
    if (prediction != NULL) {
        prediction_table(results, f, prediction, &tables[2]);
    }
    int count = prediction != NULL ? 3 : 2;
    cJSON_Delete(prediction);
    free(f);
    return count;
}

/* Of the greatest budget. */
static double greatest_budget(const cJSON *law)
{
    double most = fmax(json_number(law, "largest.flops"), 0);
    const cJSON *budget;
    cJSON_ArrayForEach(budget, json_get(law, "budgets"))
    {
        most = fmax(most, budget->valuedouble);
    }
    return most;
}

/* The size that is best for it, or why the runs do not tell. */
static void find_size(const Results *results, Findings *findings)
{
    char *problem = NULL, *open = NULL;
    Fitted *f = fit_results(results, &problem);
    if (f == NULL) {
        page_put(&findings_add(findings, FINDING_CAUTION, 55)->text, "no law can be fitted");
    } else if ((open = open_budgets(results)) != NULL || !law_tells(&f->fit, LAW_ALPHA) ||
               !law_tells(&f->fit, LAW_BETA)) {
        Finding *finding = findings_add(findings, FINDING_CAUTION, 55);
        page_put(&finding->text, "these runs do not tell the best size for a budget");
        page_put(&finding->evidence, "%s",
                 open != NULL ? open
                              : "an exponent of the law is at the end of its range; give the law a "
                                "wider range of dials and budgets");
    } else {
        double flops = greatest_budget(json_get(results->json, "law"));
        LawEstimate loss, size = law_best_size(&f->fit, flops, &loss);
        bool beyond = size.value < f->fit.sizes[0] || size.value > f->fit.sizes[1];
        Finding *finding = findings_add(findings, FINDING_RESULT, RANK_ANSWER);
        page_put(&finding->text,
                 "For %.3g FLOP train %s parameters (95 %% interval %s to %s) on %s tokens%s.",
                 flops, unit_format(UNIT_COUNT, size.value).text,
                 unit_format(UNIT_COUNT, size.low).text, unit_format(UNIT_COUNT, size.high).text,
                 unit_format(UNIT_COUNT, law_tokens(&f->fit, size.value, flops)).text,
                 beyond ? ", an extrapolation" : "");
        page_put(&finding->evidence,
                 "the law of %d runs of %s to %s parameters; it gives %.4f nats there", f->count,
                 unit_format(UNIT_COUNT, f->fit.sizes[0]).text,
                 unit_format(UNIT_COUNT, f->fit.sizes[1]).text, loss.value);
    }
    free(open);
    free(problem);
    free(f);
}

void rule_law(const Results *results, Findings *findings)
{
    if (!law_is(results)) {
        return;
    }
    cJSON *tree = load_prediction(results);
    double came = what_came(results), low = json_number(tree, "loss.low"),
           high = json_number(tree, "loss.high");
    bool predicted = isfinite(low) && isfinite(high) && !json_is_true(tree, "run_was_begun");
    if (predicted && !isnan(came)) {
        bool held = came >= low && came <= high;
        Finding *finding = findings_add(findings, FINDING_RESULT, RANK_ANSWER);
        page_put(&finding->text,
                 "The largest run came to %.4f nats; %.4f (95 %% interval %.4f to %.4f) had been "
                 "predicted from the smaller ones: the prediction %s.",
                 came, json_number(tree, "loss.value"), low, high,
                 held ? "held" : "failed, so fit larger runs before you rely on the law");
        page_put(&finding->evidence, "written down at %s, before the run, from %.0f runs",
                 json_text_or(tree, "written", "?"), json_number(tree, "points"));
    }
    cJSON_Delete(tree);
    find_size(results, findings);
}
