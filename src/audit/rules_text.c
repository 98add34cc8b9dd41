/* What a text works out itself, or says twice. Products that are spelled out come out: "[512, 256]
 * x 4 bytes = 524 KB", "2,048 tokens (128 x 16 x 8)"; so do ratios: "from 10 s to 2 s, 5x faster".
 * What a line says of a run is what the table says of it. */
#include "audit/findings.h"
#include "audit/scan.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- products --- */

#define PRODUCT_SLACK 0.01
#define GAP_SIZE 32 /* characters between two factors, at most */

static bool is_times(const char *text, int from, int to)
{
    int signs = 0;
    if (to - from > GAP_SIZE) {
        return false;
    }
    for (int i = from; i < to; i++) {
        unsigned char c = (unsigned char)text[i];
        bool cross = c == 0xc3 && (unsigned char)text[i + 1] == 0x97;
        bool letter = c == 'x' && text[i - 1] == ' ' && text[i + 1] == ' ';
        if (cross || letter || c == '*') {
            signs++;
            i += cross;
        } else if (!isalpha(c) && c != ' ' && c != ']' && c != '[') {
            return false;
        }
    }
    return signs == 1;
}

/* ", " inside brackets: a shape, whose product counts its elements. */
static bool is_shape_gap(const char *text, int from, int to)
{
    const char *close = strchr(text + to, ']'), *open = strchr(text + to, '[');
    return to - from == 2 && text[from] == ',' && close != NULL && (open == NULL || close < open) &&
           memchr(text, '[', (size_t)from) != NULL;
}

/* Only words and one sign of the given kind between two numbers. */
static bool gap_has_only(const char *text, int from, int to, char sign)
{
    int signs = 0;
    for (int i = from; i < to; i++) {
        signs += text[i] == sign;
        if (text[i] != sign && text[i] != ']' && text[i] != '[' && text[i] != ' ' &&
            !isalpha((unsigned char)text[i])) {
            return false;
        }
    }
    return signs == 1 && to - from <= 40;
}

/* Nothing is added, divided or raised to a power before and behind. */
static bool stands_alone(const char *text, int start, int end)
{
    static const char operators[] = "+-*/^.";
    while (start > 0 && strchr(" [", text[start - 1]) != NULL) {
        start--;
    }
    end += (int)strspn(text + end, " ");
    bool before = start > 0 && strchr(operators, text[start - 1]) != NULL;
    return !before && (text[end] == '\0' || strchr("+-*/^", text[end]) == NULL);
}

/* A count, "4 bytes", or "22.7M params": what a B alone means is not sure. */
static bool is_factor(const char *text, const ScanItem *item)
{
    bool worded = text[item->end] == ' ' && isalpha((unsigned char)text[item->end + 1]) &&
                  text[item->end + 2] != ' ';
    bool plain = item->number.unit == UNIT_NONE || item->number.unit == UNIT_BYTES;
    return !item->number.open && !item->number.range && plain &&
           (item->number.counted || item->number.unit == UNIT_BYTES || worded);
}

static void check_chain(const char *text, int line, const ScanItem *items, int first, int last,
                        int count, Findings *findings)
{
    const ScanItem *result = NULL;
    if (last + 1 < count && gap_has_only(text, items[last].end, items[last + 1].start, '=')) {
        result = &items[last + 1];
    } else if (first > 0 && gap_has_only(text, items[first - 1].end, items[first].start, '(') &&
               text[items[last].end + (int)strcspn(text + items[last].end, ")(0123456789")] ==
                   ')') {
        result = &items[first - 1];
    } else if (first > 0 && gap_has_only(text, items[first - 1].end, items[first].start, '=')) {
        result = &items[first - 1];
    }
    if (result == NULL || result->number.open || result->number.value <= 0 ||
        !stands_alone(text, items[first].start, items[last].end) ||
        !stands_alone(text, result->start, result->end)) {
        return;
    }
    Number product = number_exact(1);
    Unit unit = UNIT_NONE;
    for (int i = first; i <= last; i++) {
        Number factor = items[i].number;
        if (!is_factor(text, &items[i]) || (factor.unit == UNIT_BYTES && unit == UNIT_BYTES)) {
            return;
        }
        unit = factor.unit == UNIT_BYTES ? UNIT_BYTES : unit;
        product = number_multiply(product, factor.counted ? number_exact(factor.value) : factor);
    }
    if (result->number.unit != unit || (unit == UNIT_NONE && !result->number.counted)) {
        return; /* "80 * 4 = 320 Gbps" */
    }
    findings->compared++;
    /* MB may mean either million: 1024 x 1024 / 1,000,000 = 1.049. */
    double slack = result->number.unit == UNIT_BYTES ? 0.075 : PRODUCT_SLACK;
    if (!number_agrees(product, result->number, slack)) {
        finding_add(findings, FINDING_DISAGREES, "a product that is written out", line,
                    "%.10g is stated; %.*s makes %.10g", result->number.value,
                    items[last].end - items[first].start, text + items[first].start, product.value);
    }
}

static void check_products(const char *text, int line, const ScanItem *items, int count,
                           Findings *findings)
{
    for (int first = 0; first < count;) {
        int last = first;
        while (last + 1 < count && (is_times(text, items[last].end, items[last + 1].start) ||
                                    is_shape_gap(text, items[last].end, items[last + 1].start))) {
            last++;
        }
        if (last > first) {
            check_chain(text, line, items, first, last, count, findings);
        }
        first = last + 1;
    }
}

/* --- ratios --- */

static bool stands_before(const char *text, int start, const char *word)
{
    while (start > 0 && strchr(" ~$", text[start - 1]) != NULL) {
        start--;
    }
    int length = (int)strlen(word);
    return start >= length && strncasecmp(text + start - length, word, (size_t)length) == 0 &&
           (start == length || !isalnum((unsigned char)text[start - length - 1]));
}

static bool speaks_of_change(const char *text, int from, int to)
{
    static const char *const words[] = {
        " faster ",   " improvement ", " speedup ", " speed up ", " reduction ", " increase ",
        " decrease ", " lower ",       " higher ",  " smaller ",  " less ",      " more ",
        " drop ",     " gain ",        " better ",  " saving ",   " savings ",   " slower "};
    char part[160];
    size_t length = (size_t)(to - from) < sizeof part - 1 ? (size_t)(to - from) : sizeof part - 1;
    memcpy(part, text + from, length);
    part[length] = '\0';
    return scan_has_any(part, words, sizeof words / sizeof words[0]);
}

/* "from A to B, N times": three numbers in a row, and a word of change. */
static void check_change(const char *text, int line, const ScanItem *items, int count,
                         Findings *findings)
{
    for (int i = 0; i + 2 < count; i++) {
        const Number *a = &items[i].number, *b = &items[i + 1].number, *n = &items[i + 2].number;
        bool change = n->unit == UNIT_TIMES || n->unit == UNIT_PERCENT;
        int end = items[i + 2].end + (int)strcspn(text + items[i + 2].end, ".;,");
        if (!stands_before(text, items[i].start, "from") ||
            !stands_before(text, items[i + 1].start, "to") || !change || a->unit != b->unit ||
            a->unit == UNIT_PERCENT || !(a->value > 0) || !(b->value > 0) || n->range || n->open ||
            a->range || b->range || items[i + 2].start - items[i + 1].end > 60 ||
            memchr(text + items[i + 1].end, '.', (size_t)(items[i + 2].start - items[i + 1].end)) ||
            !speaks_of_change(text, items[i + 1].end, end)) {
            continue;
        }
        Number up = number_divide(*b, *a), down = number_divide(*a, *b);
        double share = fabs(n->value), half = (n->high - n->low) / 2 + 0.01 * share;
        bool good =
            n->unit == UNIT_TIMES
                ? number_agrees(up, *n, 0.01) || number_agrees(down, *n, 0.01)
                : fabs(fabs(up.value - 1) - share) <= half + (up.high - up.low) / 2 ||
                      fabs(fabs(down.value - 1) - share) <= half + (down.high - down.low) / 2;
        findings->compared++;
        if (!good) {
            finding_add(findings, FINDING_DISAGREES, "a ratio that is written out", line,
                        "from %.6g to %.6g is %.4g times or %+.3g %%; %.4g%s is stated", a->value,
                        b->value, fmax(up.value, down.value), 100 * (up.value - 1),
                        n->unit == UNIT_TIMES ? n->value : 100 * n->value,
                        n->unit == UNIT_TIMES ? " times" : " %");
        }
    }
}

/* --- words against numbers --- */

/* The first stated speed-up above its ranks; NULL. */
static const Fact *superlinear_fact(const Evidence *evidence)
{
    for (int i = 0; i < evidence->fact_count; i++) {
        const Fact *fact = &evidence->facts[i];
        const Fact *ranks = evidence_own(evidence, fact->record, Q_RANKS);
        if (fact->quantity == Q_SPEEDUP && ranks != NULL && ranks->number.value > 1 &&
            fact->number.value > ranks->number.value * 1.02) {
            return fact;
        }
    }
    return NULL;
}

static void check_sublinear(const Evidence *evidence, const char *text, int line,
                            const ScanItem *items, int count, Findings *findings)
{
    static const char *const words[] = {" sub linear ", " sublinear ", " diminishing returns ",
                                        " less than linear "};
    static const char rule[] = "words against numbers";
    if (!scan_has_any(text, words, sizeof words / sizeof words[0])) {
        return;
    }
    const Fact *above = superlinear_fact(evidence);
    double ranks = 0, most = 0;
    for (int k = 0; k < count; k++) {
        size_t length;
        Quantity after =
            quantity_begins(&evidence->names, items[k].after, items[k].number.unit, &length);
        ranks = after == Q_RANKS ? fmax(ranks, items[k].number.value) : ranks;
        most = items[k].number.unit == UNIT_TIMES ? fmax(most, items[k].number.value) : most;
    }
    findings->compared++;
    if (ranks > 1 && most > ranks) {
        finding_add(findings, FINDING_DISAGREES, rule, line,
                    "the text says sub-linear beside a speed-up of %.4g on %.4g ranks", most,
                    ranks);
    } else if (above != NULL) {
        finding_add(findings, FINDING_DISAGREES, rule, line,
                    "the text says sub-linear; line %d has a speed-up of %.4g on %.4g ranks",
                    above->line, above->number.value,
                    evidence_value(evidence, above->record, Q_RANKS));
    }
}

/* --- the same twice --- */

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
                  twice, second->line, second->record, "%s is %.6g here and %.6g in line %d%s",
                  quantity_name(second->quantity), second->number.value, first->number.value,
                  first->line, rank);
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

void rules_text(const Evidence *evidence, Findings *findings)
{
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        if (line->kind == LINE_TEXT && !(line->code && strstr(line->text, "==") != NULL)) {
            int count = scan_line(line->text, items);
            check_products(line->text, i + 1, items, count, findings);
            check_change(line->text, i + 1, items, count, findings);
            check_sublinear(evidence, line->text, i + 1, items, count, findings);
        }
    }
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
