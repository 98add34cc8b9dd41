/* What a text says twice: of a run's log and by one of its ranks, in a line and in the row of its
 * run, in a sentence and in the row that it names. */
#include "audit/findings.h"
#include "audit/scan.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char twice[] = "the same number twice, with two values";

static void report_twice(const Fact *first, const Fact *second, Findings *findings)
{
    char rank[40] = "";
    double gap = fabs(first->number.value - second->number.value) /
                 fmax(fabs(first->number.value), fabs(second->number.value));
    if (second->rank >= 0) {
        snprintf(rank, sizeof rank, " (said by rank %d)", second->rank);
    }
    /* A rank's own share of the data explains a small difference. */
    finding_about(findings, second->rank >= 0 && gap < 0.05 ? FINDING_WARNING : FINDING_DISAGREES,
                  twice, second->line, second->record, "%s is %s here and %s in line %d%s",
                  quantity_name(second->quantity), number_text(second->number),
                  number_text(first->number), first->line, rank);
}

/* The loss of a run's log, and the same loss said again by one rank. */
static void check_log(const Evidence *evidence, int record, Findings *findings)
{
    static const Quantity losses[] = {Q_TRAIN_LOSS, Q_VAL_LOSS};
    const Record *at = &evidence->records[record];
    for (int k = 0; k < 2 && evidence_names(evidence, record, record); k++) {
        const Fact *first = NULL, *second = NULL;
        int ranks = 0;
        for (int i = at->first; i < at->first + at->count; i++) {
            const Fact *fact = &evidence->facts[i];
            if (fact->quantity == losses[k]) {
                ranks += fact->rank >= 0;
                first = fact->rank < 0 && first == NULL ? fact : first;
                second = fact->rank >= 0 ? fact : second;
            }
        }
        if (first != NULL && ranks == 1) {
            findings->compared++;
            if (!number_agrees(first->number, second->number, 1e-9)) {
                report_twice(first, second, findings);
            }
        }
    }
}

/* What a number of a line may be in a table: a validation loss that is called neither final nor
 * best may be either. */
static bool is_in_row(const Evidence *evidence, int row, const Fact *said, const Fact **other)
{
    static const Quantity kinds[] = {Q_VAL_LOSS, Q_FINAL_VAL_LOSS, Q_BEST_VAL_LOSS};
    *other = evidence_own(evidence, row, said->quantity);
    bool agrees = *other != NULL && number_agrees((*other)->number, said->number, 1e-9);
    for (int k = 0; k < 3 && said->quantity == Q_VAL_LOSS && !agrees; k++) {
        const Fact *kind = evidence_own(evidence, row, kinds[k]);
        agrees = kind != NULL && number_agrees(kind->number, said->number, 1e-9);
        *other = *other == NULL ? kind : *other;
    }
    return agrees;
}

/* A line about a run against the one row of the document about it. */
static void check_quote(const Evidence *evidence, int line, Findings *findings)
{
    static const Quantity quoted[] = {Q_STEPS,      Q_TOKENS_PER_SECOND, Q_SPEEDUP,
                                      Q_VAL_LOSS,   Q_FINAL_VAL_LOSS,    Q_BEST_VAL_LOSS,
                                      Q_TRAIN_TIME, Q_EPOCH_TIME};
    for (size_t k = 0; k < sizeof quoted / sizeof quoted[0]; k++) {
        const Fact *said = evidence_own(evidence, line, quoted[k]), *found = NULL, *other;
        int rows = 0;
        bool agrees = false;
        for (int i = 0; i < evidence->record_count && said != NULL; i++) {
            if (evidence->records[i].kind == RECORD_ROW && evidence_names(evidence, line, i)) {
                agrees |= is_in_row(evidence, i, said, &other);
                rows += other != NULL;
                found = other != NULL ? other : found;
            }
        }
        if (rows == 1) {
            findings->compared++;
            if (!agrees) {
                report_twice(found, said, findings);
            }
        }
    }
}

/* The quantity whose name ends the phrase, "shampoo reaches a val loss": the longest. */
static Quantity ends_in_name(const Names *names, const char *phrase, Unit unit)
{
    unsigned marks;
    for (const char *at = phrase; *at != '\0' && at[1] != '\0'; at = strchrnul(at + 1, ' ')) {
        Quantity found = quantity_match(names, at, unit, &marks);
        if (found != Q_NONE) {
            return found;
        }
    }
    return Q_NONE;
}

/* Whether the number is that of some row. */
static bool is_in_table(const Evidence *evidence, Quantity quantity, const Number *number)
{
    for (int i = 0; i < evidence->record_count; i++) {
        const Fact *own = evidence_own(evidence, i, quantity);
        if (evidence->records[i].kind == RECORD_ROW && own != NULL &&
            number_agrees(own->number, *number, 1e-9)) {
            return true;
        }
    }
    return false;
}

/* Letters and digits alone: "ZeRO-2" and "ZERO2" are one name. */
static void squeeze(const char *text, char out[PHRASE_SIZE])
{
    size_t used = 0;
    for (; *text != '\0' && used < PHRASE_SIZE - 1; text++) {
        if (isalnum((unsigned char)*text)) {
            out[used++] = (char)tolower((unsigned char)*text);
        }
    }
    out[used] = '\0';
}

/* Whether the label stands in the sentence as whole words, joined in any way. */
static bool has_label(const char *sentence, const char *label)
{
    char wanted[PHRASE_SIZE], words[PHRASE_SIZE];
    squeeze(label, wanted);
    phrase_make(sentence, strlen(sentence), words);
    for (const char *start = words; *start == ' ' && start[1] != '\0';
         start = strchrnul(start + 1, ' ')) {
        const char *at = start + 1, *to = wanted;
        for (; *to != '\0' && (*at == ' ' || *at == *to); at++) {
            to += *at != ' ';
        }
        if (*to == '\0' && *at == ' ') {
            return true;
        }
    }
    return false;
}

/* The one row of the document whose label stands in the sentence, and whose settings are not others
 * than the sentence's; -1. */
static int row_of(const Evidence *evidence, const char *sentence, bool *set)
{
    double settings[Q_LAST_SETTING + 1] = {0};
    char label[PHRASE_SIZE];
    unsigned marks;
    *set = evidence_label(&evidence->names, sentence, settings);
    int found = -1;
    for (int i = 0; i < evidence->record_count; i++) {
        const Record *record = &evidence->records[i];
        phrase_make(record->label, strlen(record->label), label);
        bool other = record->kind != RECORD_ROW || record->sum || strlen(record->label) < 3 ||
                     phrase_is_idle(label, &marks); /* "Training" stands in any sentence */
        for (int q = 1; q <= Q_LAST_SETTING && !other; q++) {
            const Fact *own = evidence_own(evidence, i, (Quantity)q);
            other = own != NULL && settings[q] > 0 && own->number.value != settings[q];
        }
        if (!other && has_label(sentence, record->label)) {
            if (found >= 0) {
                return -1;
            }
            found = i;
        }
    }
    return found;
}

/* A sentence about one row of a table, which it names by its label: one number that is not the
 * row's, nor another's, beside nothing else or beside numbers that are. */
void quote_check_sentence(const Evidence *evidence, const char *sentence, int line,
                          Findings *findings)
{
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    int count = scan_line(sentence, items), agree = 0, disagree = 0;
    bool results = evidence->record_count <= TABLE_ROWS_MAX; /* else every sentence by every row */
    bool set = false; /* the sentence names settings of the row */
    int row = results && count > 0 && count <= 4 ? row_of(evidence, sentence, &set) : -1;
    const Fact *own = NULL;
    Number said = {0};
    for (int k = 0; k < count && row >= 0; k++) {
        const Number *number = &items[k].number;
        Quantity quantity = ends_in_name(&evidence->names, items[k].before, number->unit);
        quantity = number->unit == UNIT_TOKENS_PER_SECOND ? Q_TOKENS_PER_SECOND : quantity;
        /* "53 steps (5,004 tokens)": words of the last number */
        bool taken = k > 0 && strcmp(items[k - 1].after, items[k].before) == 0;
        const Fact *fact =
            quantity > Q_STEP && !taken ? evidence_own(evidence, row, quantity) : NULL;
        if (fact == NULL || fact->number.unit != number->unit || number->range || number->open) {
            continue;
        }
        bool known = is_in_table(evidence, quantity, number);
        agree += known;
        disagree += !known;
        own = known ? own : fact;
        said = known ? said : *number;
    }
    findings->compared += agree + disagree;
    if (disagree == 1 && (agree > 0 || count == 1 || set)) {
        finding_add(findings, FINDING_DISAGREES, twice, line,
                    "%s of %s is %s here and %s in line %d", quantity_name(own->quantity),
                    evidence->records[row].label, number_text(said), number_text(own->number),
                    own->line);
    }
}

void rules_quotes(const Evidence *evidence, Findings *findings)
{
    int quotes = 0;
    for (int i = 0; i < evidence->record_count; i++) {
        const Record *record = &evidence->records[i];
        if (record->kind == RECORD_SECTION) {
            check_log(evidence, i, findings);
        } else if (record->kind == RECORD_LINE && !record->supposed && quotes++ < 1000) {
            check_quote(evidence, i, findings);
        }
    }
}
