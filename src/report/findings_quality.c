/* What batch size does to the loss. Runs of different batch sizes are compared where all of them
 * have been: at the tokens, and at the seconds of training, that the shortest one reached. */
#include "report/findings.h"

#include "base/mem.h"
#include "record/checks.h"
#include "report/law_report.h"
#include "report/scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAST_UPDATE 1.02 /* runs of equal tokens end within an update of each other */
#define LARGE_GAP 0.05   /* of the validation loss */
#define LATE_LINES 5     /* of a curve, to judge its end by */
#define RISEN 1.01       /* last over best validation loss */

/* Of one configuration: its best validation losses by the common point, one a run. */
typedef struct {
    int configuration;
    double global_batch, mean;
    Samples losses;
} Contender;

/* Equal in everything that has nothing to do with batch size. */
static bool comparable(const Results *results, const Result *a, const Result *b)
{
    static const char *const names[] = {"batch", "accum", "global-batch", "ranks", "lr"};
    for (int i = 0; i < results->varying_count; i++) {
        bool about_batches = false;
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            about_batches |= results_axis_of(results, names[k]) == results->varying[i].axis;
        }
        if (!about_batches && !result_same_setting(a, b, results->varying[i].option)) {
            return false;
        }
    }
    return true;
}

static double reach_of(const Result *result, CurvePlace *progress)
{
    const Curve *curve = &result->curve;
    return curve->validation.count > 0
               ? progress(curve, curve->validation.points[curve->validation.count - 1].step)
               : NAN;
}

static double best_by(const Result *result, CurvePlace *progress, double limit)
{
    double best = NAN;
    for (size_t i = 0; i < result->curve.validation.count; i++) {
        const CurvePoint *point = &result->curve.validation.points[i];
        if (progress(&result->curve, point->step) <= limit) {
            best = fmin(best, point->loss); /* fmin passes over NAN */
        }
    }
    return best;
}

/* The point that every sound run beside `first` has reached; NAN when there is none. */
static double common_point(const Results *results, const Result *first, CurvePlace *progress)
{
    double point = NAN;
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        if (result->sound && comparable(results, first, result)) {
            point = fmin(point, reach_of(result, progress));
        }
    }
    return point;
}

static bool gather(const Results *results, int configuration, CurvePlace *progress, double limit,
                   Contender *contender)
{
    Samples *losses = &contender->losses;
    *contender = (Contender){.configuration = configuration};
    for (const Result *run = NULL; (run = results_next(results, configuration, run)) != NULL;) {
        double loss = run->sound ? best_by(run, progress, limit) : NAN;
        samples_add(losses, loss);
        if (!isnan(loss)) {
            contender->global_batch = findings_number(results, run, -1, "global_batch");
        }
    }
    contender->mean = samples_estimate(losses).mean;
    return losses->count > 0 && contender->global_batch > 0;
}

/* The lowest mean loss, among those of another batch size than `except` when that is not NULL. */
static const Contender *lowest(const Contender *all, int count, const Contender *except)
{
    const Contender *best = NULL;
    for (int i = 0; i < count; i++) {
        if (except != NULL && all[i].global_batch == except->global_batch) {
            continue;
        }
        best = best == NULL || all[i].mean < best->mean ? &all[i] : best;
    }
    return best;
}

/* Where batch sizes are compared. */
typedef struct {
    const char *by;       /* for the sentence: "tokens", "time" */
    const char *quantity; /* that the point is one of */
    CurvePlace *progress;
} Ground;

static const Ground grounds[] = {{"tokens", "tokens", curve_tokens},
                                 {"time", "training_s", curve_seconds}};
#define GROUNDS 2

/* What was found on one of them. */
typedef struct {
    double point;
    Contender *all;
    int count;
    const Contender *best, *next; /* NULL: nothing to compare */
    Welch welch;
} Verdict;

static Verdict judge(const Results *results, const Result *first, CurvePlace *progress)
{
    Verdict verdict = {.point = common_point(results, first, progress)};
    verdict.all = mem_zalloc((size_t)results->configurations, sizeof *verdict.all);
    for (int i = 0; i < results->configurations && verdict.point > 0; i++) {
        const Result *result = results_first(results, i);
        if (result != NULL && comparable(results, first, result) &&
            gather(results, i, progress, verdict.point * LAST_UPDATE,
                   &verdict.all[verdict.count])) {
            verdict.count++;
        }
    }
    const Contender *best = lowest(verdict.all, verdict.count, NULL);
    const Contender *next = best != NULL ? lowest(verdict.all, verdict.count, best) : NULL;
    if (next != NULL) {
        verdict.best = best;
        verdict.next = next;
        verdict.welch = samples_welch(&best->losses, &next->losses);
    }
    return verdict;
}

static void put_verdict(Page *text, const Results *results, const Ground *ground,
                        const Verdict *verdict, bool named)
{
    if (named) {
        page_put(text, "%s ", findings_name(results, verdict->best->configuration, -1).text);
    }
    bool first = ground == &grounds[0];
    page_put(text, "at equal %s (%.4f%s after %s%s", ground->by, verdict->best->mean,
             first ? " nats" : "", findings_value(ground->quantity, verdict->point).text,
             first ? " tokens" : "");
    if (verdict->welch.p >= WELCH_SIGNIFICANT) {
        page_put(text, "; %s within noise",
                 findings_name(results, verdict->next->configuration, -1).text);
    }
    page_put(text, ")");
}

static void put_contenders(Page *evidence, const Results *results, const Ground *ground,
                           const Verdict *verdict)
{
    page_put(evidence, "%sat equal %s, %s: ", evidence->size > 0 ? "; " : "", ground->by,
             findings_judgement(&verdict->welch).text);
    for (int i = 0; i < verdict->count && i < 24; i++) {
        const Contender *own = &verdict->all[i];
        page_put(evidence, "%s%s: %.4f nats (%d run%s)", i > 0 ? ", " : "",
                 findings_label(results, own->configuration), own->mean, own->losses.count,
                 own->losses.count == 1 ? "" : "s");
    }
}

/* One sentence on the configurations that compare with `first`. */
static void tell(const Results *results, const Result *first, Findings *findings)
{
    Verdict verdicts[GROUNDS];
    int known = 0, at = 0;
    double ratio = 1;
    for (int i = 0; i < GROUNDS; i++) {
        verdicts[i] = judge(results, first, grounds[i].progress);
        if (verdicts[i].best != NULL) {
            at = known++ == 0 ? i : at;
            ratio = fmax(ratio, verdicts[i].next->mean / verdicts[i].best->mean);
        }
    }
    if (known > 0) {
        const Verdict *one = &verdicts[at];
        bool same =
            known == 2 && verdicts[0].best->configuration == verdicts[1].best->configuration;
        Finding *finding =
            findings_add(findings, FINDING_RESULT, findings_rank(RANK_QUALITY, ratio, &one->welch));
        page_put(&finding->text, "For the lowest validation loss use ");
        put_verdict(&finding->text, results, &grounds[at], one, true);
        if (known == 2) {
            page_put(&finding->text, " and ");
            put_verdict(&finding->text, results, &grounds[1], &verdicts[1], !same);
        }
        page_put(&finding->text, ".");
        for (int i = 0; i < GROUNDS; i++) {
            if (verdicts[i].best != NULL) {
                put_contenders(&finding->evidence, results, &grounds[i], &verdicts[i]);
            }
        }
    }
    for (int i = 0; i < GROUNDS; i++) {
        free(verdicts[i].all);
    }
}

/* Whether the experiment is about batch sizes: ranks alone change the global batch too, but those
 * who vary them ask for speed. Branches are judged against the smallest (branches.c). */
static bool varies_batches(const Results *results)
{
    if (results_axis_of(results, "branch-at") >= 0) {
        return false;
    }
    return results_axis_of(results, "batch") >= 0 || results_axis_of(results, "accum") >= 0 ||
           results_axis_of(results, "global-batch") >= 0;
}

void rule_batch_quality(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->configurations && varies_batches(results); i++) {
        const Result *first = results_first(results, i);
        bool told = first == NULL;
        for (int k = 0; k < i && !told; k++) {
            const Result *earlier = results_first(results, k);
            told = earlier != NULL && comparable(results, earlier, first);
        }
        if (!told) {
            tell(results, first, findings);
        }
    }
}

/* --- learning rate --- */

void rule_learning_rate(const Results *results, Findings *findings)
{
    /* In tokens: longer sequences, and fewer of them, make the same update. */
    size_t most = (size_t)results->count + 1;
    double *batches = mem_zalloc(most, sizeof *batches), *rates = mem_zalloc(most, sizeof *rates);
    int count = 0;
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        double own_batch = findings_number(results, result, -1, "tokens_update");
        double own_rate = findings_number(results, result, -1, "lr");
        if (result->state == RUN_DONE && !isnan(own_batch) && !isnan(own_rate)) {
            batches[count] = own_batch;
            rates[count++] = own_rate;
        }
    }
    Checks *checks = mem_zalloc(1, sizeof *checks);
    checks_confounded_rates(batches, rates, count, checks);
    const Check *check = checks_find(checks, "learning_rates");
    if (check != NULL && check->verdict != CHECK_PASS && varies_batches(results)) {
        Finding *finding = findings_add(findings, FINDING_CAUTION, 48);
        page_put(&finding->text,
                 "one learning rate (%.6g) for all batch sizes: losses confound the two", rates[0]);
        page_put(&finding->evidence,
                 "it suits one of them best; an lr-rule or lr-probe tells them apart (%d runs)",
                 count);
    }
    free(checks);
    free(batches);
    free(rates);
}

/* --- generalisation --- */

/* The training loss over the last tenth of the run, where there are lines enough: that of a single
 * update is noise. */
static double late_loss(const Result *run)
{
    const CurveLine *line = &run->curve.train;
    double last = line->count > 0 ? (double)line->points[line->count - 1].step : 0;
    Mean mean = {0};
    for (size_t i = line->count; i > 0 && (double)line->points[i - 1].step > 0.9 * last; i--) {
        mean_add(&mean, line->points[i - 1].loss);
    }
    return mean.count >= LATE_LINES ? mean_value(mean)
                                    : json_number(run->run, "summary.train_loss");
}

/* Mean over the sound runs; NAN where there is none. */
static double late_mean(const Results *results, int configuration)
{
    Mean mean = {0};
    for (const Result *run = NULL; (run = results_next(results, configuration, run)) != NULL;) {
        mean_add(&mean, run->sound ? late_loss(run) : NAN);
    }
    return mean_value(mean);
}

/* Of the validation loss over the training loss at the end; NAN where there is none, or repeats say
 * that it may be nothing. */
static double late_gap(const Results *results, int configuration)
{
    Samples gaps = {.count = 0};
    for (const Result *run = NULL; (run = results_next(results, configuration, run)) != NULL;) {
        double gap = json_number(run->run, "summary.val_loss") - late_loss(run);
        samples_add(&gaps, run->sound ? gap : NAN);
    }
    Estimate estimate = samples_estimate(&gaps);
    return estimate.mean < estimate.half ? NAN : estimate.mean;
}

void rule_gap(const Results *results, Findings *findings)
{
    int worst = -1;
    double most = 0;
    /* The runs of a law are short at large sizes by design. */
    for (int i = 0; i < results->configurations && !law_is(results); i++) {
        double mean = late_gap(results, i);
        if (mean > most) {
            most = mean;
            worst = i;
        }
    }
    double val = worst >= 0 ? findings_mean(results, worst, "val_loss") : NAN;
    if (!(most > LARGE_GAP * val)) {
        return;
    }
    double least = findings_mean(results, worst, "best_val_loss");
    Finding *finding = findings_add(findings, FINDING_RESULT,
                                    findings_rank(RANK_DETAIL, val / (val - most), NULL));
    page_put(&finding->text, "%s overfits: validation loss %.4f against %.4f in training",
             findings_name(results, worst, -1).text, val, late_mean(results, worst));
    if (val > RISEN * least) {
        page_put(&finding->text, ", up from %.4f", least);
    }
    page_put(&finding->text, "; stop earlier or add data.");
    findings_list(&finding->evidence, "gap", results, NULL, results->configurations);
}
