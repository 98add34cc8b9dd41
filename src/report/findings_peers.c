/* pacer against the programs beside it. A peer's configuration is compared with the fastest of
 * pacer's that do the same work: equal in every option that means something to the peer. */
#include "report/findings_rules.h"

#include "base/mem.h"
#include "metrics/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Kernels are equal that keep the T x T probabilities, or do not: what kernel it has is up to
 * each program. */
static bool same_attention(const char *a, const char *b)
{
    return (strcmp(a, "naive") == 0) == (strcmp(b, "naive") == 0);
}

static bool same_work(const Results *results, const Result *own, const Result *peer)
{
    for (int axis = 0; axis < results->axis_count; axis++) {
        for (int i = 0; i < results->axes[axis].count; i++) {
            const char *option = results->axes[axis].options[i];
            char own_buffer[RESULT_SETTING_SIZE], peer_buffer[RESULT_SETTING_SIZE];
            const char *a = result_setting(own, option, own_buffer);
            const char *b = result_setting(peer, option, peer_buffer);
            bool kernel = strcmp(option, "attention") == 0;
            if (b != NULL && (a == NULL || !(kernel ? same_attention(a, b) : strcmp(a, b) == 0))) {
                return false;
            }
        }
    }
    return true;
}

/* pacer's fastest configuration of the same work; -1: none came to its end. */
static int counterpart(const Metric *speed, const Results *results, const Result *peer)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < results->configurations; i++) {
        const Result *own = results_first(results, i);
        if (own == NULL || own->peer[0] != '\0' || !same_work(results, own, peer)) {
            continue;
        }
        double mean = metric_sound_estimate(speed, results, i).mean;
        if (mean > most) {
            most = mean;
            best = i;
        }
    }
    return best;
}

/* Settings alone: the sentence says itself whose they are. */
static char *settings_of(const Results *results, int configuration)
{
    Result plain = *results_first(results, configuration);
    char text[400], *shown;
    plain.peer = "";
    result_label(results, &plain, text, sizeof text);
    shown = results->axis_count > 0 ? mem_format(" (%s)", text) : mem_strdup("");
    return shown;
}

static void compare(const Results *results, int own, int peer, Findings *findings)
{
    Metric speed = findings_metric("tok_s"), memory = findings_metric("peak_bytes");
    Metric update = findings_metric("step_p50_ms"); /* of few updates the first ones weigh much */
    double median = metric_sound_estimate(&update, results, peer).mean /
                    metric_sound_estimate(&update, results, own).mean;
    double mine = metric_sound_estimate(&speed, results, own).mean;
    double theirs = metric_sound_estimate(&speed, results, peer).mean;
    double share = metric_sound_estimate(&memory, results, own).mean /
                   metric_sound_estimate(&memory, results, peer).mean;
    Welch welch = findings_welch(&speed, results, peer, own);
    char *own_settings = settings_of(results, own), *peer_settings = settings_of(results, peer);
    char mine_text[FINDINGS_VALUE_SIZE], theirs_text[FINDINGS_VALUE_SIZE];
    char judgement[FINDINGS_JUDGEMENT_SIZE];
    Page text = {0}, evidence = {0};
    page_put(&text, "pacer%s is %.2f times as fast as %s%s, %s against %s", own_settings,
             mine / theirs, peer_title(results_first(results, peer)->peer), peer_settings,
             findings_value(&speed, mine, mine_text), findings_value(&speed, theirs, theirs_text));
    if (median > 0) {
        page_put(&text, " (%.2f times by the median update)", median);
    }
    if (share > 0) {
        page_put(&text, ", with %.0f %% of its memory", 100 * share);
    }
    page_put(&text, "; %s.", findings_judgement(&welch, judgement));
    findings_list(&evidence, &speed, results, (int[]){own, peer}, 2);
    if (share > 0) {
        findings_list(&evidence, &memory, results, (int[]){own, peer}, 2);
    }
    findings_add(findings, FINDING_RESULT, text.text, evidence.text);
    free(own_settings);
    free(peer_settings);
}

/* The first run of a configuration that ran out of memory; NULL: none did. */
static const Result *out_of_memory(const Results *results, int configuration)
{
    for (int i = 0; i < results->count; i++) {
        if (results->runs[i].configuration == configuration &&
            results->runs[i].state == RESULT_OOM) {
            return &results->runs[i];
        }
    }
    return NULL;
}

static void tell_of_memory(const Results *results, int own, const Result *peer, Findings *findings)
{
    Metric memory = findings_metric("peak_bytes");
    double bytes = own >= 0 ? metric_sound_estimate(&memory, results, own).mean : NAN;
    char *label = findings_label(results, peer->configuration), value[FINDINGS_VALUE_SIZE];
    Page text = {0};
    page_put(&text, "%s ran out of memory", label);
    if (!isnan(bytes)) {
        page_put(&text, "; pacer takes %s for the same", findings_value(&memory, bytes, value));
    }
    page_put(&text, ".");
    findings_add(findings, FINDING_RESULT, text.text, mem_strdup(peer->reason));
    free(label);
}

void rule_peers(const Results *results, Findings *findings)
{
    Metric speed = findings_metric("tok_s");
    for (int i = 0; i < results->configurations; i++) {
        const Result *peer = results_first(results, i);
        if (peer == NULL || peer->peer[0] == '\0') {
            continue;
        }
        int own = counterpart(&speed, results, peer);
        const Result *full = out_of_memory(results, i);
        if (full != NULL) {
            tell_of_memory(results, own, full, findings);
        } else if (own >= 0 && metric_sound_estimate(&speed, results, i).mean > 0) {
            compare(results, own, i, findings);
        }
    }
}

void rule_missing_peers(const Results *results, Findings *findings)
{
    const cJSON *peers = cJSON_GetObjectItemCaseSensitive(results->json, "peers");
    const char *note = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(peers, "note"));
    if (note != NULL) {
        findings_add(findings, FINDING_CAUTION, mem_format("%s.", note), NULL);
    }
}
