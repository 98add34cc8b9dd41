/* Numbers of one run against each other. Rows of a table bear witness for each other: where most
 * rows agree with a relation, the others are wrong; where none does, the columns mean something
 * else, and nothing is said. */
#include "audit/relations.h"
#include "base/mem.h"

#include <stdlib.h>

#define MANY 3 /* rows that would all be wrong are read wrongly */

const Fact *relation_measured(const Evidence *evidence, int record, Quantity quantity)
{
    const Fact *fact = evidence_own(evidence, record, quantity);
    bool bare = fact != NULL && quantity_is_time(quantity) && fact->number.unit == UNIT_NONE;
    return bare || (fact != NULL && !(fact->number.value > 0)) ? NULL : fact;
}

/* Whether the rule has already spoken of this run, in a table or list elsewhere. */
static bool is_said(const Findings *findings, const char *rule, int record)
{
    for (int i = 0; i < findings->count; i++) {
        const Finding *finding = &findings->items[i];
        if (finding->rule == rule && evidence_names(findings->evidence, record, finding->record) &&
            evidence_names(findings->evidence, finding->record, record)) {
            return true;
        }
    }
    return false;
}

/* One rule over the records from `first` on that belong together; returns the first behind them. */
static int apply(const Evidence *evidence, const Rule *rule, int first, Findings *findings)
{
    const Record *records = evidence->records;
    int end = evidence_table_end(evidence, first), agree = 0, disagree = 0;
    Outcome *outcomes = mem_zalloc((size_t)(end - first), sizeof *outcomes);
    for (int i = first; i < end; i++) {
        Outcome *outcome = &outcomes[i - first];
        if (records[i].supposed || records[i].sum || !rule->check(evidence, i, outcome)) {
            outcome->stated = NULL;
            continue;
        }
        agree += outcome->agrees;
        disagree += !outcome->agrees;
    }
    bool witnessed = agree >= disagree || (agree == 0 && disagree < MANY);
    findings->compared += agree + (witnessed || rule->alone ? disagree : 0);
    for (int i = first; i < end && (witnessed || rule->alone); i++) {
        const Outcome *outcome = &outcomes[i - first];
        if (outcome->stated != NULL && !outcome->agrees &&
            (records[i].table > 0 || !is_said(findings, rule->rule, i))) {
            finding_about(findings, FINDING_DISAGREES, rule->rule, outcome->stated->line, i, "%s",
                          outcome->text);
        }
    }
    free(outcomes);
    return end;
}

void rules_run(const Evidence *evidence, Findings *findings)
{
    static const Rule *const all[] = {rules_of_tokens, rules_of_parts};
    for (int k = 0; k < 2; k++) {
        for (const Rule *rule = all[k]; rule->rule != NULL; rule++) {
            for (int i = 0; i < evidence->record_count;) {
                i = apply(evidence, rule, i, findings);
            }
        }
    }
}
