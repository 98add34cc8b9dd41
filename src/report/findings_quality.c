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
    double losses[METRIC_MAX_SAMPLES];
    int count;
} Contender;

static bool is_about_batches(const Results *results, int axis)
{
    static const char *const names[] = {"batch", "accum", "global-batch", "ranks", "lr"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (results_axis_of(results, names[i]) == axis) {
            return true;
        }
    }
    return false;
}

/* Equal in everything that has nothing to do with batch size. */
static bool comparable(const Results *results, const Result *a, const Result *b)
{
    for (int axis = 0; axis < results->axis_count; axis++) {
        for (int i = 0; i < results->axes[axis].count && !is_about_batches(results, axis); i++) {
            const char *option = results->axes[axis].options[i];
            if (!result_settings_equal(a, b, option)) {
                return false;
            }
        }
    }
    return true;
}

static double reach_of(const Result *result, CurvePlace *progress)
{
    const Curve *curve = &result->curve;
    return curve->validation_count > 0
               ? progress(curve, curve->validation[curve->validation_count - 1].step)
               : NAN;
}

static double best_by(const Result *result, CurvePlace *progress, double limit)
{
    double best = NAN;
    for (size_t i = 0; i < result->curve.validation_count; i++) {
        const CurvePoint *point = &result->curve.validation[i];
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
    Metric batch = findings_metric("global_batch");
    *contender = (Contender){.configuration = configuration};
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        if (result->configuration != configuration || !result_is_sound(result) ||
            contender->count == METRIC_MAX_SAMPLES) {
            continue;
        }
        double loss = best_by(result, progress, limit);
        if (!isnan(loss)) {
            contender->losses[contender->count++] = loss;
            contender->global_batch = metric_value(&batch, results, result, -1);
        }
    }
    contender->mean = estimate_of(contender->losses, contender->count).mean;
    return contender->count > 0 && contender->global_batch > 0;
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
    Welch welch = welch_test(best->losses, best->count, next->losses, next->count);
    char judgement[FINDINGS_JUDGEMENT_SIZE];
    Page evidence = {0};
    for (int i = 0; i < count && i < 24; i++) {
        char label[FINDINGS_LABEL_SIZE];
        findings_label(results, all[i].configuration, label);
        page_put(&evidence, "%s%s: %.4f nats (%d run%s)", i > 0 ? "; " : "", label, all[i].mean,
                 all[i].count, all[i].count == 1 ? "" : "s");
    }
    char winner[FINDINGS_LABEL_SIZE];
    findings_label(results, best->configuration, winner);
    findings_add(
        findings, FINDING_RESULT,
        mem_format("At equal %s the best validation loss is that of global batch %.15g (%s), "
                   "%.4f nats; the next batch size, %.15g, has %.4f; %s.",
                   where, best->global_batch, winner, best->mean, next->global_batch, next->mean,
                   findings_judgement(&welch, judgement)),
        evidence.text);
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
    char value[FINDINGS_VALUE_SIZE];
    char *where = mem_format("%s (%s)", unit, findings_value(name, point, value));
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
    Metric batch = findings_metric("tokens_update"), rate = findings_metric("lr");
    size_t most = (size_t)results->count + 1;
    double *batches = mem_zalloc(most, sizeof *batches), *rates = mem_zalloc(most, sizeof *rates);
    int count = 0;
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        double own_batch = metric_value(&batch, results, result, -1);
        double own_rate = metric_value(&rate, results, result, -1);
        if (result->state == RUN_DONE && !isnan(own_batch) && !isnan(own_rate)) {
            batches[count] = own_batch;
            rates[count++] = own_rate;
        }
    }
    Checks *checks = mem_zalloc(1, sizeof *checks);
    checks_confounded_rates(batches, rates, count, checks);
    const Check *check = checks_find(checks, "learning_rates");
    if (check != NULL && check->verdict != CHECK_PASS) {
        findings_add(
            findings, FINDING_CAUTION,
            mem_format(
                "All batch sizes were trained at one learning rate, %.6g, which suits "
                "one of them best: differences in loss confound batch size and learning rate.",
                rates[0]),
            mem_format("%d runs; an lr-rule would tell them apart", count));
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
        char label[FINDINGS_LABEL_SIZE];
        findings_label(results, worst, label);
        findings_add(findings, FINDING_CAUTION,
                     mem_format("The learning rate of %d configuration%s comes from a probe of few "
                                "updates, %.0f for %s: it may suit the first of them only.",
                                few, few == 1 ? "" : "s", least, label),
                     mem_format("more tokens in lr-probe make it surer; %d updates are wanted",
                                FEW_UPDATES));
    }
}

/* A rate that a probe chose at the edge of what it tried may not be the best one. */
void rule_probed_rates(const Results *results, Findings *findings)
{
    const cJSON *probe = json_get(results->json, "lr_probe");
    const cJSON *factors = json_get(probe, "factors");
    int count = cJSON_GetArraySize(factors), edges = 0, chosen = 0;
    char first[256] = "";
    const char *side = "";
    for (int i = 0; count > 1 && i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        double factor = result != NULL ? json_number(result->entry, "lr_factor") : NAN;
        chosen += !isnan(factor);
        bool low = factor == 0, high = factor == count - 1;
        if ((low || high) && edges++ == 0) {
            result_label(results, result, first, sizeof first);
            side = low ? "lowest" : "highest";
        }
    }
    char amount[FINDINGS_VALUE_SIZE];
    findings_value("tokens", json_number(probe, "tokens"), amount);
    tell_of_short_probes(results, json_number(probe, "tokens"), findings);
    if (edges > 0) {
        findings_add(findings, FINDING_CAUTION,
                     mem_format("The learning rate of %d of %d configurations, first %s, is the %s "
                                "that the probe tried: a better one may lie beyond.",
                                edges, chosen, first, side),
                     mem_format("%d factors, %s tokens each, in lr-probe; widen the factors", count,
                                amount));
    } else if (chosen > 0) {
        findings_add(
            findings, FINDING_RESULT,
            mem_format("Each configuration has the learning rate that was best for it in a "
                       "probe of %s tokens, and none at the edge of what was tried.",
                       amount),
            mem_format("%d factors of the rule's rate, in lr-probe", count));
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
    Page text = {0}, evidence = {0};
    char label[FINDINGS_LABEL_SIZE];
    findings_label(results, worst, label);
    page_put(&text,
             "The largest gap between validation and training loss is %.4f nats (%s: %.4f and %.4f "
             "at the last update)",
             most, label, val, findings_mean(results, worst, "train_loss"));
    if (val > RISEN * least) {
        page_put(&text, "; its validation loss had been down to %.4f and rose again", least);
    }
    page_put(&text, ".");
    findings_list(&evidence, "gap", results, NULL, results->configurations);
    findings_add(findings, FINDING_RESULT, text.text, evidence.text);
}
