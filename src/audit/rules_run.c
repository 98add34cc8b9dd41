/* Numbers of one run against each other. Rows of a table bear witness for each other: where most
 * rows agree with a relation, the others are wrong; where none does, the columns mean something
 * else, and nothing is said. */
#include "audit/relations.h"
#include "base/mem.h"

#include <stdlib.h>

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
    /* Numbers of a sentence are about one thing only where money and time are concerned. */
    bool table = records[first].table > 0;
    bool prose = records[first].kind == RECORD_LINE && !rule->in_prose;
    bool witnessed = table ? agree >= 2 && agree >= 2 * disagree : !prose;
    witnessed |= table && end - first <= 2 && agree + disagree == end - first && agree <= disagree;
    findings->compared += agree + (witnessed ? disagree : 0);
    bool speaks = witnessed || (rule->alone && !prose);
    for (int i = first; i < end && speaks; i++) {
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
