/* Speed-up and efficiency, recomputed. A step is done when its slowest rank is: with times per rank
 * the slowest counts, and a speed-up from their mean is a finding. Then what the ranks of one run
 * say about each other: stragglers, and communication of a rank that has nobody to talk to. */
#include "audit/findings.h"
#include "audit/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLACK 0.005
#define SUPERLINEAR 1.02

static const Quantity times[] = {Q_EPOCH_TIME, Q_TRAIN_TIME, Q_TOTAL_TIME, Q_STEP_TIME};
#define TIMES ((int)(sizeof times / sizeof times[0]))

/* Times of one kind of a run. */
typedef struct {
    const Fact *whole;   /* as stated for the run; NULL if not */
    const Fact *slowest; /* of its ranks; NULL with fewer than two */
    double mean;         /* of its ranks */
} RunTime;

static RunTime time_of(const Evidence *evidence, int run, Quantity quantity)
{
    RunTime time = {.whole = evidence_find(evidence, run, quantity, false)};
    int ranks = 0;
    double sum = 0;
    for (int i = evidence_first(evidence, run, quantity); evidence_is(evidence, i, run, quantity);
         i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->rank >= 0 && fact->point == 0 && !fact->mean) {
            bool slower = time.slowest == NULL || fact->number.value > time.slowest->number.value;
            time.slowest = slower ? fact : time.slowest;
            sum += fact->number.value;
            ranks++;
        }
    }
    time.mean = ranks > 0 ? sum / ranks : 0;
    time.slowest = ranks >= 2 ? time.slowest : NULL;
    return time;
}

/* The run that differs in the number of ranks alone and has the fewest; -1. What grows with ranks
 * (the global batch) may differ too. */
static int base_of(const Evidence *evidence, int run)
{
    int base = -1;
    double fewest = evidence_setting(evidence, run, Q_RANKS);
    for (int other = 0; other < evidence->run_count; other++) {
        double ranks = evidence_setting(evidence, other, Q_RANKS);
        bool same =
            strcmp(evidence->runs[other].identity.label, evidence->runs[run].identity.label) == 0;
        for (int q = 1; q < SETTING_COUNT && same; q++) {
            same = q == Q_RANKS || q == Q_GLOBAL_BATCH ||
                   evidence_setting(evidence, other, (Quantity)q) ==
                       evidence_setting(evidence, run, (Quantity)q);
        }
        if (same && ranks > 0 && ranks < fewest) {
            fewest = ranks;
            base = other;
        }
    }
    return base;
}

static Number ratio(const Fact *of, const Fact *to)
{
    return number_divide(of->number, to->number);
}

/* Throughput against throughput: true when it explains the stated value. */
static bool from_throughput(const Evidence *evidence, int run, int base, Number stated, bool *known)
{
    const Fact *mine = evidence_find(evidence, run, Q_TOKENS_PER_SECOND, false);
    const Fact *its = evidence_find(evidence, base, Q_TOKENS_PER_SECOND, false);
    *known = mine != NULL && its != NULL && its->number.value > 0;
    return *known && number_agrees(ratio(mine, its), stated, SLACK);
}

/* Compares a stated speed-up (already of the kind base / run) and says what is wrong with it. */
static void check_speedup(const Evidence *evidence, const Fact *stated, int base, Number value,
                          const char *rule, const char *what, Findings *findings)
{
    int run = stated->run;
    bool known;
    bool explained = from_throughput(evidence, run, base, value, &known);
    const Fact *slow = NULL, *from = NULL;
    bool by_mean = false, compared = known;
    for (int i = 0; i < TIMES && !explained; i++) {
        RunTime mine = time_of(evidence, run, times[i]), its = time_of(evidence, base, times[i]);
        const Fact *end = mine.slowest != NULL ? mine.slowest : mine.whole;
        const Fact *start = its.slowest != NULL ? its.slowest : its.whole;
        if (end == NULL || start == NULL || !(end->number.value > 0)) {
            continue;
        }
        compared = true;
        if (number_agrees(ratio(start, end), value, SLACK)) {
            /* Agreement with a mean elsewhere does not outweigh the ranks' own times. */
            explained = slow == NULL || mine.slowest != NULL;
        } else if (slow == NULL || (mine.slowest != NULL && !by_mean)) {
            slow = end;
            from = start;
            by_mean =
                mine.slowest != NULL &&
                number_agrees(number_divide(start->number, number_exact(mine.mean)), value, SLACK);
        }
    }
    findings->compared += compared;
    if (explained || slow == NULL || finding_said(findings, rule, run)) {
        return;
    }
    double derived = from->number.value / slow->number.value;
    double scale = stated->number.value / value.value;
    finding_about(findings, FINDING_DISAGREES, rule, stated->line, run,
                  "%s %.4g %s; from the slowest%s (%.6g s, line %d) against %.6g s (line %d) it is "
                  "%.3g",
                  what, stated->number.value,
                  by_mean ? "is from the mean of the ranks" : "does not follow from the times",
                  slow->rank >= 0 ? " rank" : " time", slow->number.value, slow->line,
                  from->number.value, from->line, derived * scale);
}

static void check_stated(const Evidence *evidence, const Fact *fact, Findings *findings)
{
    double ranks = evidence_setting(evidence, fact->run, Q_RANKS);
    int base = ranks > 1 ? base_of(evidence, fact->run) : -1;
    if (base < 0) {
        return;
    }
    double more = ranks / evidence_setting(evidence, base, Q_RANKS);
    bool share = fact->quantity == Q_EFFICIENCY;
    Number value = fact->number;
    if (share && value.unit == UNIT_NONE && value.value > 2) {
        value = number_multiply(value, number_exact(0.01));
    }
    value = share ? number_multiply(value, number_exact(more)) : value;
    if (share) {
        /* Weak scaling keeps the time: its efficiency is base time over time. */
        RunTime mine = time_of(evidence, fact->run, Q_EPOCH_TIME);
        RunTime its = time_of(evidence, base, Q_EPOCH_TIME);
        const Fact *said = evidence_find(evidence, fact->run, Q_SPEEDUP, false);
        bool weak = mine.whole != NULL && its.whole != NULL &&
                    number_agrees(ratio(its.whole, mine.whole), fact->number, 0.02);
        if (weak || (said != NULL && number_agrees(said->number, value, 0.02))) {
            findings->compared++;
            return;
        }
    }
    check_speedup(evidence, fact, base, value,
                  share ? "efficiency = speed-up / ranks, from times"
                        : "speed-up = time of the base / time of the slowest rank",
                  share ? "efficiency" : "speed-up", findings);
    static const char rule[] =
        "faster than the ranks allow: cache effects, or a slow or differently "
        "measured base";
    if (value.low > more * SUPERLINEAR - 0.02 * more + 0.005 && value.value > more * 1.005 &&
        !finding_said(findings, rule, fact->run)) {
        finding_about(findings, FINDING_WARNING, rule, fact->line, fact->run,
                      "speed-up %.4g on %.4g times the ranks (%.4g %%)", value.value, more,
                      100 * value.value / more);
    }
}

static bool says_sublinear(const char *text)
{
    static const char *const words[] = {" sub linear ", " sublinear ", " diminishing returns ",
                                        " less than linear "};
    return scan_has_any(text, words, sizeof words / sizeof words[0]);
}

/* The first stated speed-up above its ranks; NULL. */
static const Fact *superlinear_fact(const Evidence *evidence)
{
    for (int i = 0; i < evidence->fact_count; i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->quantity == Q_SPEEDUP && fact->run > 0) {
            double ranks = evidence->runs[fact->run].identity.values[Q_RANKS];
            if (ranks > 1 && fact->number.value > ranks * SUPERLINEAR) {
                return fact;
            }
        }
    }
    return NULL;
}

static void check_words(const Evidence *evidence, Findings *findings)
{
    static const char rule[] = "words against numbers";
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    const Fact *above = superlinear_fact(evidence);
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        if (line->kind != LINE_TEXT || !says_sublinear(line->text)) {
            continue;
        }
        int count = scan_line(line->text, items);
        double ranks = 0, most = 0;
        for (int k = 0; k < count; k++) {
            Quantity after = quantity_find(&evidence->names, items[k].after, items[k].number.unit,
                                           PHRASE_AT_START, NULL);
            ranks = after == Q_RANKS ? fmax(ranks, items[k].number.value) : ranks;
            most = items[k].number.unit == UNIT_TIMES ? fmax(most, items[k].number.value) : most;
        }
        findings->compared++;
        if (ranks > 1 && most > ranks) {
            finding_add(findings, FINDING_DISAGREES, rule, i + 1, 0,
                        "the text says sub-linear beside a speed-up of %.4g on %.4g ranks", most,
                        ranks);
        } else if (above != NULL) {
            finding_add(findings, FINDING_DISAGREES, rule, i + 1, 0,
                        "the text says sub-linear; line %d has a speed-up of %.4g on %.4g ranks",
                        above->line, above->number.value,
                        evidence->runs[above->run].identity.values[Q_RANKS]);
        }
    }
}

void rules_scaling(const Evidence *evidence, Findings *findings)
{
    for (int i = 0; i < evidence->fact_count; i++) {
        const Fact *fact = &evidence->facts[i];
        bool stated = fact->quantity == Q_SPEEDUP || fact->quantity == Q_EFFICIENCY;
        if (stated && fact->run >= 0 && fact->rank < 0 && fact->point == 0 && !fact->number.open) {
            check_stated(evidence, fact, findings);
        }
    }
    check_words(evidence, findings);
}

/* --- ranks of one run --- */

#define STRAGGLER 1.1
#define RANKS_MAX 1024

static int by_value(const void *left, const void *right)
{
    const Fact *a = *(const Fact *const *)left, *b = *(const Fact *const *)right;
    return (a->number.value > b->number.value) - (a->number.value < b->number.value);
}

/* The ranks' facts of one kind, fastest first; returns their number. */
static int facts_of_ranks(const Evidence *evidence, int run, Quantity quantity,
                          const Fact *facts[RANKS_MAX])
{
    int count = 0;
    for (int i = evidence_first(evidence, run, quantity);
         evidence_is(evidence, i, run, quantity) && count < RANKS_MAX; i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->rank >= 0 && fact->point == 0 && !fact->mean) {
            facts[count++] = fact;
        }
    }
    qsort(facts, (size_t)count, sizeof facts[0], by_value);
    return count;
}

static bool mentions_stragglers(const Evidence *evidence)
{
    static const char *const words[] = {" straggler ",  " stragglers ",   " imbalance ",
                                        " imbalanced ", " slowest rank ", " slow rank ",
                                        " skew "};
    for (int i = 0; i < evidence->document->count; i++) {
        if (evidence->document->lines[i].kind == LINE_TEXT &&
            scan_has_any(evidence->document->lines[i].text, words,
                         sizeof words / sizeof words[0])) {
            return true;
        }
    }
    return false;
}

static void check_stragglers(const Evidence *evidence, int run, bool mentioned, Findings *findings)
{
    static const Quantity of_ranks[] = {Q_EPOCH_TIME, Q_TRAIN_TIME, Q_TOTAL_TIME, Q_STEP_TIME,
                                        Q_COMPUTE_TIME};
    for (size_t i = 0; i < sizeof of_ranks / sizeof of_ranks[0]; i++) {
        const Fact *facts[RANKS_MAX];
        int count = facts_of_ranks(evidence, run, of_ranks[i], facts);
        if (count < 2) {
            continue;
        }
        findings->compared++;
        const Fact *slowest = facts[count - 1], *median = facts[(count - 1) / 2];
        double factor = slowest->number.value / median->number.value;
        if (median->number.value > 0 && factor > STRAGGLER) {
            finding_about(
                findings, FINDING_WARNING,
                mentioned ? "a rank is slower than its peers, which wait for it"
                          : "a rank is slower than its peers, which wait for it; the text "
                            "does not mention it",
                slowest->line, run,
                "rank %d takes %.6g s, %.3g times the %.6g s of its peers (line %d)", slowest->rank,
                slowest->number.value, factor, median->number.value, median->line);
        }
        return;
    }
}

static void check_lone_communication(const Evidence *evidence, int run, Findings *findings)
{
    const Fact *time = evidence_find(evidence, run, Q_COMMUNICATION_TIME, false);
    if (time != NULL && evidence_setting(evidence, run, Q_RANKS) == 1) {
        findings->compared++;
        if (time->number.low > 0) {
            finding_about(findings, FINDING_DISAGREES,
                          "one rank has nobody to communicate with: the timer holds something else",
                          time->line, run, "%.6g s of communication; 0 expected",
                          time->number.value);
        }
    }
}

void rules_ranks(const Evidence *evidence, Findings *findings)
{
    bool mentioned = mentions_stragglers(evidence);
    for (int run = 0; run < evidence->run_count; run++) {
        check_stragglers(evidence, run, mentioned, findings);
        check_lone_communication(evidence, run, findings);
    }
}
