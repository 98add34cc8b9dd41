#include "audit/evidence.h"

#include "audit/scan.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int evidence_record(Evidence *evidence, const Record *record)
{
    if (evidence->record_count == EVIDENCE_MAX_RECORDS) {
        evidence->cut = true;
        return evidence->record_count - 1;
    }
    evidence->records =
        mem_double(evidence->records, (size_t)evidence->record_count, sizeof *record);
    evidence->records[evidence->record_count] = *record;
    return evidence->record_count++;
}

void evidence_add(Evidence *evidence, const Fact *fact)
{
    if (evidence->fact_count == EVIDENCE_MAX_FACTS) {
        evidence->cut = true;
        return;
    }
    evidence->facts = mem_double(evidence->facts, (size_t)evidence->fact_count, sizeof *fact);
    evidence->facts[evidence->fact_count] = *fact;
    evidence->facts[evidence->fact_count].order = evidence->fact_count;
    evidence->fact_count++;
}

void evidence_add_settings(Evidence *evidence, const double settings[Q_LAST_SETTING + 1], int line,
                           int record)
{
    for (int q = 1; q <= Q_LAST_SETTING; q++) {
        if (settings[q] > 0) {
            evidence_add(evidence, &(Fact){.quantity = (Quantity)q,
                                           .number = number_exact(settings[q]),
                                           .line = line,
                                           .record = record,
                                           .column = -1,
                                           .rank = -1,
                                           .moment = -1});
        }
    }
}

static int by_record(const void *left, const void *right)
{
    const Fact *a = left, *b = right;
    return a->record != b->record ? a->record - b->record : a->order - b->order;
}

static bool is_plain(const Fact *fact)
{
    return !fact->number.open && !fact->number.range;
}

/* Books a fact as the one of its quantity, one of a section before others, or as one of several. */
static void book(const Evidence *evidence, int one[Q_COUNT], int fact)
{
    const Fact *facts = evidence->facts;
    int *at = &one[facts[fact].quantity];
    if (*at == NO_FACT) {
        *at = fact;
    } else if (*at >= 0 && !number_agrees(facts[*at].number, facts[fact].number, 1e-9)) {
        *at = SEVERAL_FACTS;
    } else if (*at >= 0 && evidence->records[facts[*at].record].kind != RECORD_SECTION) {
        *at = fact;
    }
}

static void clear(int one[Q_COUNT])
{
    for (int q = 0; q < Q_COUNT; q++) {
        one[q] = NO_FACT;
    }
}

void evidence_finish(Evidence *evidence)
{
    if (evidence->fact_count > 0) {
        qsort(evidence->facts, (size_t)evidence->fact_count, sizeof *evidence->facts, by_record);
    }
    evidence->own = mem_zalloc((size_t)evidence->record_count, sizeof *evidence->own);
    int exact[Q_COUNT];
    clear(evidence->single);
    clear(exact);
    for (int i = 0; i < evidence->record_count; i++) {
        clear(evidence->own[i]);
        evidence->sections += evidence->records[i].kind == RECORD_SECTION;
    }
    for (int i = 0; i < evidence->fact_count; i++) {
        const Fact *fact = &evidence->facts[i];
        Record *record = &evidence->records[fact->record];
        record->first = record->count++ == 0 ? i : record->first;
        if (fact->rank >= 0 || fact->call) {
            continue;
        }
        if (is_plain(fact)) {
            book(evidence, evidence->own[fact->record], i);
        }
        /* A range or a bound says that there is more than one value; in a table, to its rows. */
        if (!record->supposed && (record->kind != RECORD_ROW || is_plain(fact))) {
            book(evidence, evidence->single, i);
            if (fact->number.counted) {
                book(evidence, exact, i);
            }
        }
    }
    if (evidence->single[Q_PARAMETERS] == SEVERAL_FACTS) { /* 125M is 124,298,064 */
        evidence->single[Q_PARAMETERS] = exact[Q_PARAMETERS];
    }
}

void evidence_free(Evidence *evidence)
{
    free(evidence->facts);
    free(evidence->records);
    free(evidence->own);
    *evidence = (Evidence){0};
}

const Fact *evidence_own(const Evidence *evidence, int record, Quantity quantity)
{
    int at = evidence->own[record][quantity];
    return at >= 0 ? &evidence->facts[at] : NULL;
}

const Fact *evidence_marked(const Evidence *evidence, int record, Quantity quantity, unsigned mark)
{
    const Record *at = &evidence->records[record];
    const Fact *found = NULL;
    for (int i = at->first; i < at->first + at->count; i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->quantity != quantity || (fact->marks & ~(unsigned)MARK_MEAN) != mark ||
            fact->rank >= 0 || fact->moment >= 0 || !is_plain(fact)) {
            continue;
        }
        if (found != NULL && !number_agrees(found->number, fact->number, 1e-9)) {
            return NULL;
        }
        found = fact;
    }
    return found;
}

/* The booking of the record or of the nearest section around it that has one. */
static int around(const Evidence *evidence, int record, Quantity quantity)
{
    int at = NO_FACT;
    for (int r = record; r >= 0 && at == NO_FACT; r = evidence->records[r].around) {
        at = evidence->own[r][quantity];
    }
    return at;
}

const Fact *evidence_around(const Evidence *evidence, int record, Quantity quantity)
{
    int at = around(evidence, record, quantity);
    return at >= 0 ? &evidence->facts[at] : NULL;
}

const Fact *evidence_known(const Evidence *evidence, int record, Quantity quantity)
{
    int at = around(evidence, record, quantity);
    if (at == NO_FACT && evidence->sections <= SECTIONS_MAX) {
        at = evidence->single[quantity];
    }
    const Fact *fact = at >= 0 ? &evidence->facts[at] : NULL;
    bool stated =
        fact != NULL && is_plain(fact) &&
        (fact->record == record || evidence->records[fact->record].kind == RECORD_SECTION);
    return stated ? fact : NULL;
}

double evidence_value(const Evidence *evidence, int record, Quantity quantity)
{
    const Fact *fact = evidence_known(evidence, record, quantity);
    return fact != NULL ? fact->number.value : 0;
}

double evidence_batch(const Evidence *evidence, int record)
{
    static const Quantity kinds[] = {Q_BATCH, Q_LOCAL_BATCH, Q_GLOBAL_BATCH};
    for (int i = 0; i < 3; i++) {
        const Fact *fact = evidence_own(evidence, record, kinds[i]);
        if (fact != NULL) {
            return fact->number.value;
        }
    }
    return 0;
}

int evidence_table_end(const Evidence *evidence, int first)
{
    int end = first + 1, table = evidence->records[first].table;
    while (table > 0 && end < evidence->record_count && evidence->records[end].table == table) {
        end++;
    }
    return end;
}

bool evidence_names(const Evidence *evidence, int a, int b)
{
    int named = 0;
    for (int q = 1; q <= Q_LAST_SETTING; q++) {
        const Fact *mine = evidence_own(evidence, a, (Quantity)q);
        const Fact *its = evidence_own(evidence, b, (Quantity)q);
        if (mine != NULL && (its == NULL || mine->number.value != its->number.value)) {
            return false;
        }
        named += mine != NULL;
    }
    return named > 0;
}

bool evidence_has_any(const Evidence *evidence, const char *words)
{
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        if (line->kind != LINE_BLANK && scan_has_any(line->text, words)) {
            return true;
        }
    }
    return false;
}

const char *evidence_text(const Evidence *evidence, int record, char text[RUN_TEXT_SIZE])
{
    static const char *const forms[Q_LAST_SETTING + 1] = {[Q_BATCH] = "batch %.10g",
                                                          [Q_LOCAL_BATCH] = "local batch %.10g",
                                                          [Q_GLOBAL_BATCH] = "global batch %.10g",
                                                          [Q_ACCUM] = "accumulation %.10g",
                                                          [Q_SEQ] = "sequence length %.10g",
                                                          [Q_RANKS] = "ranks %.10g",
                                                          [Q_LR] = "lr %.10g"};
    size_t used = 0;
    text[0] = '\0';
    for (int q = 1; q <= Q_LAST_SETTING; q++) {
        const Fact *fact = NULL;
        for (int at = record; at >= 0 && fact == NULL; at = evidence->records[at].around) {
            fact = evidence_own(evidence, at, (Quantity)q);
        }
        if (fact != NULL && used < RUN_TEXT_SIZE - 40) {
            used += (size_t)snprintf(text + used, RUN_TEXT_SIZE - used, "%s", used > 0 ? ", " : "");
            used +=
                (size_t)snprintf(text + used, RUN_TEXT_SIZE - used, forms[q], fact->number.value);
        }
    }
    if (used == 0) {
        snprintf(text, RUN_TEXT_SIZE, "%s", evidence->records[record].label);
    }
    return text;
}
