/* How pacer compares with its peers. A peer's configuration is compared with the fastest of pacer's
 * that do the same work: equal in every option that means something to the peer. */
#include "report/findings.h"

#include "record/names.h"

#include <math.h>
#include <string.h>

#define MOST_PEERS 8

/* Kernels are equal that keep the T x T probabilities, or do not: what kernel it has is up to
 * each program. */
static bool same_attention(const char *a, const char *b)
{
    return (strcmp(a, "naive") == 0) == (strcmp(b, "naive") == 0);
}

static bool does_the_same(const Results *results, const Result *own, const Result *peer)
{
    for (int i = 0; i < results->varying_count; i++) {
        const char *option = results->varying[i].option;
        const char *a = result_setting(own, option), *b = result_setting(peer, option);
        bool kernel = strcmp(option, "attention") == 0;
        if (b != NULL && (a == NULL || !(kernel ? same_attention(a, b) : strcmp(a, b) == 0))) {
            return false;
        }
    }
    return true;
}

/* pacer's fastest configuration of the same work; -1: none came to its end. */
static int counterpart(const Results *results, const Result *peer)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < results->configurations; i++) {
        const Result *own = results_first(results, i);
        if (own == NULL || own->peer[0] != '\0' || !does_the_same(results, own, peer)) {
            continue;
        }
        double mean = findings_mean(results, i, "tok_s");
        if (mean > most) {
            most = mean;
            best = i;
        }
    }
    return best;
}

/* A program, by its fastest configuration that pacer has a counterpart of. */
typedef struct {
    const char *program;
    int own, peer; /* configurations */
    double speed, ratio, memory;
    Welch welch;
} Match;

static Match match_of(const Results *results, int peer, int own)
{
    double theirs = findings_mean(results, peer, "tok_s");
    return (Match){.program = results_first(results, peer)->peer,
                   .own = own,
                   .peer = peer,
                   .speed = theirs,
                   .ratio = findings_mean(results, own, "tok_s") / theirs,
                   .memory = findings_mean(results, own, "peak_bytes") /
                             findings_mean(results, peer, "peak_bytes"),
                   .welch = findings_welch("tok_s", results, peer, own)};
}

static void put_match(Page *evidence, const Results *results, const Match *match)
{
    double median = findings_mean(results, match->peer, "step_p50_ms") /
                    findings_mean(results, match->own, "step_p50_ms");
    page_put(evidence, "%s%s against %s: %.2f times, %s against %s", evidence->size > 0 ? "; " : "",
             findings_name(results, match->own, -1).text, findings_label(results, match->peer),
             match->ratio, unit_format(UNIT_RATE, match->ratio * match->speed).text,
             findings_value("tok_s", match->speed).text);
    if (median > 0) {
        page_put(evidence, ", %.2f times by the median update", median);
    }
    if (match->memory > 0) {
        page_put(evidence, ", %.0f %% of the memory", 100 * match->memory);
    }
    page_put(evidence, ", %s", findings_judgement(&match->welch).text);
}

/* One sentence on all programs, the fastest of them first. */
static void tell(const Results *results, const Match *best, int count, Findings *findings)
{
    bool memory = true;
    double least = INFINITY;
    for (int i = 0; i < count; i++) {
        memory = memory && best[i].memory > 0;
        least = fmin(least, best[i].ratio);
    }
    Finding *finding =
        findings_add(findings, FINDING_RESULT, findings_rank(RANK_PEERS, least, &best[0].welch));
    page_put(&finding->text, "pacer is ");
    for (int i = 0; i < count; i++) {
        page_put(&finding->text, "%s%.2f times as fast as %s%s",
                 i == 0           ? ""
                 : i == count - 1 ? " and "
                                  : ", ",
                 best[i].ratio, peer_title(best[i].program),
                 best[i].welch.p >= WELCH_SIGNIFICANT ? " (within noise)" : "");
    }
    page_put(&finding->text, "%s", results->varying_count > 0 ? " at their best" : "");
    for (int i = 0; i < count && memory; i++) {
        page_put(&finding->text, "%s%.0f %%",
                 i == 0           ? ", with "
                 : i == count - 1 ? " and "
                                  : ", ",
                 100 * best[i].memory);
    }
    page_put(&finding->text, "%s.", memory ? " of the memory" : "");
    for (int i = 0; i < results->configurations; i++) {
        const Result *peer = results_first(results, i);
        int own = peer != NULL && peer->peer[0] != '\0' ? counterpart(results, peer) : -1;
        if (own >= 0 && findings_mean(results, i, "tok_s") > 0) {
            Match match = match_of(results, i, own);
            put_match(&finding->evidence, results, &match);
        }
    }
}

/* Keeps the fastest configuration of each program, programs by falling speed. */
static int keep(Match *best, int count, const Match *match)
{
    int at = 0;
    while (at < count && strcmp(best[at].program, match->program) != 0) {
        at++;
    }
    if (at == MOST_PEERS || (at < count && best[at].speed >= match->speed)) {
        return count;
    }
    count += at == count;
    for (; at > 0 && best[at - 1].speed < match->speed; at--) {
        best[at] = best[at - 1];
    }
    best[at] = *match;
    return count;
}

static void tell_of_memory(const Results *results, int own, const Result *peer, Findings *findings)
{
    double bytes = own >= 0 ? findings_mean(results, own, "peak_bytes") : NAN;
    Finding *finding = findings_add(findings, FINDING_RESULT, RANK_LIMIT);
    page_put(&finding->text, "%s at %s runs out of memory", peer_title(peer->peer),
             findings_name(results, peer->configuration, -1).text);
    if (!isnan(bytes)) {
        page_put(&finding->text, ", where pacer takes %s",
                 findings_value("peak_bytes", bytes).text);
    }
    page_put(&finding->text, ".");
    page_put(&finding->evidence, "%s", peer->reason);
}

void rule_peers(const Results *results, Findings *findings)
{
    Match best[MOST_PEERS];
    int count = 0;
    for (int i = 0; i < results->configurations; i++) {
        const Result *peer = results_first(results, i);
        if (peer == NULL || peer->peer[0] == '\0') {
            continue;
        }
        int own = counterpart(results, peer);
        const Result *full = results_in_state(results, i, RUN_OOM);
        if (full != NULL) {
            tell_of_memory(results, own, full, findings);
        } else if (own >= 0 && findings_mean(results, i, "tok_s") > 0) {
            Match match = match_of(results, i, own);
            count = keep(best, count, &match);
        }
    }
    if (count > 0) {
        tell(results, best, count, findings);
    }
}
