/* Which learning rate is best: of those that an axis varies, and of a probe's. */
#include "report/findings.h"

#include "report/duel.h"
#include "report/scaling.h"

#include <math.h>
#include <string.h>

#define LISTED 8        /* rates in the sentence; all of them are in its numbers */
#define FEW_UPDATES 100 /* of a probe */

/* --- of an axis --- */

/* The best of a series of rates. */
typedef struct {
    int best, next; /* configurations; next: the second best */
    double rate;
    bool edge; /* the least or the greatest that was tried */
} BestRate;

static BestRate best_of(const Results *results, const Series *series)
{
    BestRate best = {-1, -1, 0, false};
    double least = INFINITY, second = INFINITY;
    for (int i = 0; i < series->count; i++) {
        double loss = findings_mean(results, series->configurations[i], "val_loss");
        if (loss < least) {
            best = (BestRate){series->configurations[i], best.best, series->values[i], false};
            second = least;
            least = loss;
        } else if (loss < second) {
            best.next = series->configurations[i];
            second = loss;
        }
    }
    best.edge = best.rate == series->values[0] || best.rate == series->values[series->count - 1];
    return best;
}

static void put_rate(Page *evidence, const Results *results, const BestRate *rate)
{
    page_put(evidence, "%s%s: %.4f nats", evidence->size > 0 ? "; " : "",
             findings_label(results, rate->best), findings_mean(results, rate->best, "val_loss"));
    if (rate->next >= 0) {
        Welch welch = findings_welch("val_loss", results, rate->next, rate->best);
        page_put(evidence, ", %.4f at the next best, lr %.3g",
                 findings_mean(results, rate->next, "val_loss"),
                 result_setting_number(results_first(results, rate->next), "lr"));
        page_put(evidence, "%s", welch.p >= WELCH_SIGNIFICANT ? " (within noise)" : "");
    }
}

/* Where an axis is of learning rates: the best one, for each of what else varies. */
void rule_best_rates(const Results *results, Findings *findings)
{
    SeriesList list;
    series_make(results, &list);
    Page text = {0}, evidence = {0};
    int told = 0, edges = 0;
    for (int i = 0; i < list.count && !duel_is(results); i++) {
        const Series *series = &list.items[i];
        BestRate rate = strcmp(series->option, "lr") == 0 ? best_of(results, series)
                                                          : (BestRate){.best = -1, .next = -1};
        if (rate.next < 0) {
            continue;
        }
        if (told < LISTED) {
            page_put(&text, "%s%.3g", told > 0 ? ", " : "", rate.rate);
        }
        if (told < LISTED && series->where[0] != '\0') {
            page_put(&text, " (%s)", findings_name(results, rate.best, series->axis).text);
        }
        put_rate(&evidence, results, &rate);
        edges += rate.edge;
        told++;
    }
    if (told > 0) {
        Finding *finding = findings_add(findings, FINDING_RESULT, RANK_QUALITY);
        page_put(&finding->text, "Of the learning rates tried the best is %s", text.text);
        if (told > LISTED) {
            page_put(&finding->text, ", and %d more", told - LISTED);
        }
        page_put(&finding->text, ".");
        page_put(&finding->evidence, "%s", evidence.text);
    }
    if (edges > 0) {
        Finding *finding = findings_add(findings, FINDING_CAUTION, 31);
        page_put(&finding->text, "%d of %d best learning rates %s at the edge", edges, told,
                 edges == 1 ? "lies" : "lie");
        page_put(&finding->evidence, "a better one may lie beyond: widen the axis");
    }
    page_free(&text);
    page_free(&evidence);
    series_free(&list);
}

/* --- of a probe --- */

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
        Finding *finding = findings_add(findings, FINDING_CAUTION, 30);
        page_put(&finding->text, "%d probe%s had under %d updates", few, few == 1 ? "" : "s",
                 FEW_UPDATES);
        page_put(&finding->evidence,
                 "%.0f updates for %s: its rate may suit the first of them only; more tokens in "
                 "lr-probe make it surer",
                 least, findings_label(results, worst));
    }
}

/* The configuration of the lowest validation loss among those that differ in the rate alone from
 * the first of them; -1: this is not the first, or none came to its end. */
static int best_rate(const Results *results, int first)
{
    const Result *own = results_first(results, first);
    int best = -1;
    double least = INFINITY;
    for (int i = 0; own != NULL && i < results->configurations; i++) {
        const Result *other = results_first(results, i);
        if (other == NULL || !results_equal_but(results, own, other, -1)) {
            continue;
        }
        double loss = findings_mean(results, i, "val_loss");
        if (i < first) {
            return -1;
        }
        best = loss < least ? i : best;
        least = fmin(least, loss);
    }
    return best;
}

bool results_are_probe(const Results *results)
{
    const Result *first = results_first(results, 0), *second = results_first(results, 1);
    return json_get(results->json, "lr_probe") != NULL && first != NULL && second != NULL &&
           results_equal_but(results, first, second, -1);
}

void rule_probe(const Results *results, Findings *findings)
{
    Finding *finding = NULL;
    int last = -1, count = 0;
    for (int i = 0; results_are_probe(results) && i < results->configurations; i++) {
        int best = best_rate(results, i);
        if (best < 0) {
            continue;
        }
        double rate = result_setting_number(results_first(results, best), "lr");
        if (finding == NULL) {
            finding = findings_add(findings, FINDING_RESULT, RANK_QUALITY);
            page_put(&finding->text, "The best learning rate is %.3g for %s", rate,
                     findings_name(results, best, -1).text);
        }
        page_put(&finding->evidence, "%s%s: %.3g with %.4f nats", count++ > 0 ? "; " : "",
                 findings_label(results, best), rate, findings_mean(results, best, "val_loss"));
        last = best;
    }
    if (count > 1) {
        page_put(&finding->text, " and %.3g for %s",
                 result_setting_number(results_first(results, last), "lr"),
                 findings_name(results, last, -1).text);
    }
    if (finding != NULL) {
        page_put(&finding->text, ".");
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
    if (edges > 0) {
        Finding *finding = findings_add(findings, FINDING_CAUTION, 31);
        page_put(&finding->text, "%d of %d probed learning rates %s at the edge", edges, chosen,
                 edges == 1 ? "lies" : "lie");
        page_put(&finding->evidence,
                 "first %s, the %s of %d factors, %s tokens each: a better rate may lie beyond, so "
                 "widen the factors of lr-probe",
                 first, side, count, amount.text);
    } else if (chosen > 0) {
        Finding *finding = findings_add(findings, FINDING_RESULT, RANK_DETAIL);
        page_put(&finding->text,
                 "Each learning rate is the best of a probe of %s tokens, none at its edge.",
                 amount.text);
        page_put(&finding->evidence, "%d factors of the rule's rate, in lr-probe", count);
    }
}
