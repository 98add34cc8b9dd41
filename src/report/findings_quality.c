/* What batch size does to the loss. Runs of different batch sizes are compared where all of them
 * have been: at the tokens, and at the seconds of training, that the shortest one reached. */
#include "report/findings.h"

#include "base/mem.h"
#include "record/checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEW_UPDATES 100  /* of a probe */
#define LAST_UPDATE 1.02 /* runs of equal tokens end within an update of each other */
#define LARGE_GAP 0.05   /* of the validation loss */
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
        if (result_is_sound(result) && comparable(results, first, result)) {
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
        double loss = result_is_sound(run) ? best_by(run, progress, limit) : NAN;
        if (!isnan(loss) && losses->count < METRIC_MAX_SAMPLES) {
            losses->values[losses->count++] = loss;
            contender->global_batch = findings_number(results, run, -1, "global_batch");
        }
    }
    contender->mean = estimate_of(losses->values, losses->count).mean;
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

static void tell(const Results *results, const Contender *all, int count, const char *where,
                 Findings *findings)
{
    const Contender *best = lowest(all, count, NULL);
    const Contender *next = best != NULL ? lowest(all, count, best) : NULL;
    if (next == NULL) {
        return;
    }
    Welch welch = welch_test(best->losses.values, best->losses.count, next->losses.values,
                             next->losses.count);
    Finding *finding = findings_add(findings, FINDING_RESULT);
    page_put(&finding->text,
             "At equal %s the best validation loss is that of global batch %.15g (%s), %.4f nats; "
             "the next batch size, %.15g, has %.4f; %s.",
             where, best->global_batch, findings_label(results, best->configuration), best->mean,
             next->global_batch, next->mean, findings_judgement(&welch).text);
    for (int i = 0; i < count && i < 24; i++) {
        page_put(&finding->evidence, "%s%s: %.4f nats (%d run%s)", i > 0 ? "; " : "",
                 findings_label(results, all[i].configuration), all[i].mean, all[i].losses.count,
                 all[i].losses.count == 1 ? "" : "s");
    }
}

static void compare_at(const Results *results, const Result *first, CurvePlace *progress,
                       const char *unit, Findings *findings)
{
    double point = common_point(results, first, progress);
    if (!(point > 0)) {
        return;
    }
    Contender *all = mem_zalloc((size_t)results->configurations, sizeof *all);
    int count = 0;
    for (int i = 0; i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        if (result != NULL && comparable(results, first, result) &&
            gather(results, i, progress, point * LAST_UPDATE, &all[count])) {
            count++;
        }
    }
    const char *name = strcmp(unit, "tokens") == 0 ? "tokens" : "training_s";
    char *where = mem_format("%s (%s)", unit, findings_value(name, point).text);
    tell(results, all, count, where, findings);
    free(where);
    free(all);
}

void rule_batch_quality(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->configurations; i++) {
        const Result *first = results_first(results, i);
        bool told = first == NULL;
        for (int k = 0; k < i && !told; k++) {
            const Result *earlier = results_first(results, k);
            told = earlier != NULL && comparable(results, earlier, first);
        }
        if (!told) {
            compare_at(results, first, curve_tokens, "tokens", findings);
            compare_at(results, first, curve_seconds, "time of training", findings);
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
    if (check != NULL && check->verdict != CHECK_PASS) {
        Finding *finding = findings_add(findings, FINDING_CAUTION);
        page_put(&finding->text,
                 "All batch sizes were trained at one learning rate, %.6g, which suits one of them "
                 "best: differences in loss confound batch size and learning rate.",
                 rates[0]);
        page_put(&finding->evidence, "%d runs; an lr-rule would tell them apart", count);
    }
    free(checks);
    free(batches);
    free(rates);
}

/* Of few updates the first ones decide, in which a rate that is too high for later ones may do
 * best. */
static void tell_of_short_probes(const Results *results, double tokens, Findings *findings)
{
    int few = 0, worst = -1;
    double least = FEW_UPDATES;
    for (int i = 0; i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        bool probed = result != NULL && !isnan(json_number(result->entry, "lr_factor"));
        double updates = ceil(tokens / findings_mean(results, i, "tokens_update"));
        few += probed && updates < FEW_UPDATES;
        if (probed && updates < least) {
            least = updates;
            worst = i;
        }
    }
    if (few > 0) {
        Finding *finding = findings_add(findings, FINDING_CAUTION);
        page_put(&finding->text,
                 "The learning rate of %d configuration%s comes from a probe of few updates, %.0f "
                 "for %s: it may suit the first of them only.",
                 few, few == 1 ? "" : "s", least, findings_label(results, worst));
        page_put(&finding->evidence, "more tokens in lr-probe make it surer; %d updates are wanted",
                 FEW_UPDATES);
    }
}

/* A rate that a probe chose at the edge of what it tried may not be the best one. */
void rule_probed_rates(const Results *results, Findings *findings)
{
    const cJSON *probe = json_get(results->json, "lr_probe");
    const cJSON *factors = json_get(probe, "factors");
    int count = cJSON_GetArraySize(factors), edges = 0, chosen = 0;
    const char *first = "", *side = "";
    for (int i = 0; count > 1 && i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        double factor = result != NULL ? json_number(result->entry, "lr_factor") : NAN;
        chosen += !isnan(factor);
        bool low = factor == 0, high = factor == count - 1;
        if ((low || high) && edges++ == 0) {
            first = result->label;
            side = low ? "lowest" : "highest";
        }
    }
    double tokens = json_number(probe, "tokens");
    Phrase amount = findings_value("tokens", tokens);
    tell_of_short_probes(results, tokens, findings);
    Finding *finding =
        chosen > 0 ? findings_add(findings, edges > 0 ? FINDING_CAUTION : FINDING_RESULT) : NULL;
    if (edges > 0) {
        page_put(&finding->text,
                 "The learning rate of %d of %d configurations, first %s, is the %s that the probe "
                 "tried: a better one may lie beyond.",
                 edges, chosen, first, side);
        page_put(&finding->evidence, "%d factors, %s tokens each, in lr-probe; widen the factors",
                 count, amount.text);
    } else if (chosen > 0) {
        page_put(&finding->text,
                 "Each configuration has the learning rate that was best for it in a probe of %s "
                 "tokens, and none at the edge of what was tried.",
                 amount.text);
        page_put(&finding->evidence, "%d factors of the rule's rate, in lr-probe", count);
    }
}

/* --- generalisation --- */

void rule_gap(const Results *results, Findings *findings)
{
    int worst = -1;
    double most = 0;
    for (int i = 0; i < results->configurations; i++) {
        double mean = findings_mean(results, i, "gap");
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
    Finding *finding = findings_add(findings, FINDING_RESULT);
    page_put(&finding->text,
             "The largest gap between validation and training loss is %.4f nats (%s: %.4f and %.4f "
             "at the last update)",
             most, findings_label(results, worst), val,
             findings_mean(results, worst, "train_loss"));
    if (val > RISEN * least) {
        page_put(&finding->text, "; its validation loss had been down to %.4f and rose again",
                 least);
    }
    page_put(&finding->text, ".");
    findings_list(&finding->evidence, "gap", results, NULL, results->configurations);
}
