/* Facts, scopes and runs: storage, and which scope is which run. Scopes that say most are settled
 * first, so that "batch 64" finds the one run of batch 64, or is left alone where several fit. */
#include "audit/evidence.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SCOPES 20000

int evidence_scope(Evidence *evidence, const Scope *scope)
{
    if (evidence->scope_count == MAX_SCOPES) {
        evidence->cut = true;
        return 0;
    }
    if (evidence->scope_count == evidence->scope_capacity) {
        evidence->scope_capacity = evidence->scope_capacity > 0 ? 2 * evidence->scope_capacity : 64;
        evidence->scopes = mem_realloc(evidence->scopes, (size_t)evidence->scope_capacity,
                                       sizeof *evidence->scopes);
    }
    evidence->scopes[evidence->scope_count] = *scope;
    return evidence->scope_count++;
}

void evidence_add(Evidence *evidence, const Fact *fact)
{
    if (evidence->fact_count == EVIDENCE_MAX_FACTS) {
        evidence->cut = true;
        return;
    }
    if (evidence->fact_count == evidence->fact_capacity) {
        evidence->fact_capacity = evidence->fact_capacity > 0 ? 2 * evidence->fact_capacity : 256;
        evidence->facts =
            mem_realloc(evidence->facts, (size_t)evidence->fact_capacity, sizeof *evidence->facts);
    }
    evidence->facts[evidence->fact_count] = *fact;
    evidence->facts[evidence->fact_count].order = evidence->fact_count;
    evidence->fact_count++;
}

int identity_settings(const Identity *identity)
{
    int said = 0;
    for (int q = 1; q < SETTING_COUNT; q++) {
        said += identity->values[q] != 0;
    }
    return said;
}

/* A "batch" that is not said to be local or global may be either. */
static bool batch_fits(const Identity *run, double batch)
{
    return run->values[Q_BATCH] == batch || run->values[Q_LOCAL_BATCH] == batch ||
           run->values[Q_GLOBAL_BATCH] == batch;
}

/* Whether the run has every setting that the identity says. */
static bool fits(const Identity *run, const Identity *identity)
{
    for (int q = 1; q < SETTING_COUNT; q++) {
        double value = identity->values[q];
        if (value != 0 && run->values[q] != value && !(q == Q_BATCH && batch_fits(run, value))) {
            return false;
        }
    }
    return run->label[0] == '\0' || identity->label[0] == '\0' ||
           strcmp(run->label, identity->label) == 0;
}

static int new_run(Evidence *evidence, const Scope *scope)
{
    if (evidence->run_count == EVIDENCE_MAX_RUNS) {
        evidence->cut = true;
        return -1;
    }
    evidence->runs[evidence->run_count] = (Run){scope->identity, scope->line};
    return evidence->run_count++;
}

/* Whether both say the same settings, no more and no less. */
static bool equal(const Identity *run, const Identity *identity)
{
    return identity_settings(run) == identity_settings(identity) && fits(run, identity);
}

/* The run a scope names: the one with exactly its settings, else the only one that has them among
 * others. `taken[run]` is the table that has a row for it. */
static int settle(Evidence *evidence, const Scope *scope, int *taken)
{
    int exact = -1, found = -1, count = 0;
    bool said = identity_settings(&scope->identity) > 0;
    if (!said && scope->table == 0) {
        return 0;
    }
    for (int run = 0; run < evidence->run_count && said; run++) {
        const Identity *identity = &evidence->runs[run].identity;
        bool free_row = scope->table == 0 || taken[run] != scope->table;
        if (free_row && fits(identity, &scope->identity)) {
            exact = exact < 0 && equal(identity, &scope->identity) ? run : exact;
            found = run;
            count++;
        }
    }
    if (exact >= 0) {
        found = exact;
    } else if (count != 1) {
        found = scope->prose ? -1 : new_run(evidence, scope);
    }
    if (found >= 0 && scope->table > 0) {
        taken[found] = scope->table;
    }
    return found;
}

static int by_run(const void *left, const void *right)
{
    const Fact *a = left, *b = right;
    return a->run != b->run             ? a->run - b->run
           : a->quantity != b->quantity ? (int)a->quantity - (int)b->quantity
                                        : a->order - b->order;
}

void evidence_resolve(Evidence *evidence)
{
    evidence->runs = mem_zalloc(EVIDENCE_MAX_RUNS, sizeof *evidence->runs);
    int *taken = mem_zalloc(EVIDENCE_MAX_RUNS, sizeof *taken);
    evidence->run_count = 1;
    evidence->runs[0] = (Run){evidence->scopes[0].identity, 1};
    evidence->scopes[0].run = 0;
    for (int prose = 0; prose <= 1; prose++) {
        for (int said = SETTING_COUNT; said >= 0; said--) {
            for (int i = 1; i < evidence->scope_count; i++) {
                Scope *scope = &evidence->scopes[i];
                if (scope->prose == prose && identity_settings(&scope->identity) == said) {
                    scope->run = settle(evidence, scope, taken);
                }
            }
        }
    }
    free(taken);
    for (int i = 0; i < evidence->fact_count; i++) {
        evidence->facts[i].run = evidence->scopes[evidence->facts[i].scope].run;
    }
    if (evidence->fact_count > 0) {
        qsort(evidence->facts, (size_t)evidence->fact_count, sizeof *evidence->facts, by_run);
    }
}

void evidence_free(Evidence *evidence)
{
    free(evidence->facts);
    free(evidence->scopes);
    free(evidence->runs);
    *evidence = (Evidence){0};
}

double evidence_setting(const Evidence *evidence, int run, Quantity setting)
{
    double own = evidence->runs[run].identity.values[setting];
    return own != 0 ? own : evidence->runs[0].identity.values[setting];
}

int evidence_first(const Evidence *evidence, int run, Quantity quantity)
{
    int low = 0, high = evidence->fact_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const Fact *fact = &evidence->facts[middle];
        bool before = fact->run < run || (fact->run == run && fact->quantity < quantity);
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low;
}

bool evidence_is(const Evidence *evidence, int at, int run, Quantity quantity)
{
    return at < evidence->fact_count && evidence->facts[at].run == run &&
           evidence->facts[at].quantity == quantity;
}

const Fact *evidence_find(const Evidence *evidence, int run, Quantity quantity, bool document)
{
    const Fact *best = NULL;
    for (int i = evidence_first(evidence, run, quantity); evidence_is(evidence, i, run, quantity);
         i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->rank < 0 && fact->point == 0 && !fact->mean && !fact->number.open) {
            if (!fact->prose) {
                return fact;
            }
            best = best == NULL ? fact : best;
        }
    }
    return best != NULL || !document || run == 0 ? best
                                                 : evidence_find(evidence, 0, quantity, false);
}

double evidence_batch(const Evidence *evidence, int run)
{
    const double *own = evidence->runs[run].identity.values;
    return own[Q_BATCH] > 0         ? own[Q_BATCH]
           : own[Q_LOCAL_BATCH] > 0 ? own[Q_LOCAL_BATCH]
                                    : own[Q_GLOBAL_BATCH];
}

const char *evidence_run_text(const Evidence *evidence, int run, char text[RUN_TEXT_SIZE])
{
    static const char *const forms[SETTING_COUNT] = {[Q_BATCH] = "batch %.10g",
                                                     [Q_LOCAL_BATCH] = "local batch %.10g",
                                                     [Q_GLOBAL_BATCH] = "global batch %.10g",
                                                     [Q_ACCUM] = "accumulation %.10g",
                                                     [Q_SEQ] = "sequence length %.10g",
                                                     [Q_RANKS] = "ranks %.10g",
                                                     [Q_LR] = "lr %.10g"};
    const Identity *identity = &evidence->runs[run].identity;
    size_t used = 0;
    text[0] = '\0';
    for (int q = 1; q < SETTING_COUNT && run > 0; q++) {
        bool twice = q == Q_BATCH && identity->values[q] == identity->values[Q_LOCAL_BATCH];
        if (identity->values[q] != 0 && !twice && used < RUN_TEXT_SIZE - 40) {
            used += (size_t)snprintf(text + used, RUN_TEXT_SIZE - used, "%s", used > 0 ? ", " : "");
            used +=
                (size_t)snprintf(text + used, RUN_TEXT_SIZE - used, forms[q], identity->values[q]);
        }
    }
    if (used == 0) {
        snprintf(text, RUN_TEXT_SIZE, "%s", run > 0 ? identity->label : "");
    }
    return text;
}
