/* What the ranks of one run say about each other: stragglers, and communication of a rank that has
 * nobody to talk to. */
#include "audit/findings.h"
#include "audit/scan.h"

#include <stdlib.h>

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
    static const Quantity times[] = {Q_EPOCH_TIME, Q_TRAIN_TIME, Q_TOTAL_TIME, Q_STEP_TIME,
                                     Q_COMPUTE_TIME};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        const Fact *facts[RANKS_MAX];
        int count = facts_of_ranks(evidence, run, times[i], facts);
        if (count < 2) {
            continue;
        }
        findings->compared++;
        const Fact *slowest = facts[count - 1], *median = facts[(count - 1) / 2];
        double factor = slowest->number.value / median->number.value;
        if (median->number.value > 0 && factor > STRAGGLER) {
            char name[FINDING_RUN_SIZE];
            finding_add(findings, FINDING_WARNING,
                        mentioned ? "a rank is slower than its peers, which wait for it"
                                  : "a rank is slower than its peers, which wait for it; the text "
                                    "does not mention it",
                        slowest->line, run,
                        "%srank %d takes %.6g s, %.3g times the %.6g s of its peers (line %d)",
                        finding_run(evidence, run, name), slowest->rank, slowest->number.value,
                        factor, median->number.value, median->line);
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
            char name[FINDING_RUN_SIZE];
            finding_add(findings, FINDING_DISAGREES,
                        "one rank has nobody to communicate with: the timer holds something else",
                        time->line, run, "%s%.6g s of communication; 0 expected",
                        finding_run(evidence, run, name), time->number.value);
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
