/* What a sentence works out: "5x faster (27 ms vs 136 ms)", "27.7 GB -> 17.8 GB (-36 %)", "12 of
 * 4,000 (0.3 %)", "6 GB plus 14 GB, totaling 20 GB", "3 epochs of 1,250 steps per epoch, 3,750
 * steps", "loss 2.91 (perplexity 18.4)". */
#include "audit/paragraph.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char ratio_rule[] = "a ratio that is written out";

/* Whether a word stands right before a position, blanks and signs aside. */
static bool stands_before(const char *text, int start, const char *word)
{
    while (start > 0 && strchr(" ~$", text[start - 1]) != NULL) {
        start--;
    }
    int length = (int)strlen(word);
    return start >= length && strncasecmp(text + start - length, word, (size_t)length) == 0 &&
           (start == length || !isalnum((unsigned char)text[start - length - 1]));
}

static bool gap_has(const char *text, int from, int to, const char *what)
{
    const char *at = strcasestr(text + from, what);
    return at != NULL && at + strlen(what) <= text + to;
}

static bool is_plain(const Number *number)
{
    return !number->range && !number->open && number->value > 0;
}

/* --- ratios --- */

/* A word of change in the few words behind the number, or right before it. */
static bool speaks_of_change(const char *text, const ScanItem *number)
{
    static const char behind[] =
        " faster | slower | speedup | speed up | improvement | reduction | increase | drop | gain |"
        " decrease | saving | savings | lower | higher | less | advantage ";
    static const char *const before[] = {"reduction of", "increase of",    "decrease of", "drop of",
                                         "gain of",      "improvement of", "speedup of",  "by"};
    char after[PHRASE_SIZE];
    size_t length;
    snprintf(after, sizeof after, "%.36s", number->after);
    const char *at = phrase_find(after, behind, &length);
    bool changes = at != NULL && at - after < 24;
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        changes |= stands_before(text, number->start, before[i]);
    }
    return changes;
}

typedef enum { PAIR_NONE, PAIR_FROM_TO, PAIR_VERSUS, PAIR_ARROW } Pair;

/* How two numbers are put beside each other; of one unit, which the first may leave out. */
static Pair pair_at(const char *text, const ScanItem *items, int i, Number *a, Number *b)
{
    int gap = items[i + 1].start - items[i].end, from = items[i].end, to = items[i + 1].start;
    *a = items[i].number;
    *b = items[i + 1].number;
    double digits = b->value / (b->scale > 0 ? b->scale : 1);
    if (a->value < 100 * digits && digits < 100 * a->value) { /* "from 2 to 3 min" */
        number_apply_unit(a, b->unit, b->scale);
    }
    if (!is_plain(a) || !is_plain(b) || a->unit != b->unit || a->unit == UNIT_PERCENT ||
        a->unit == UNIT_TIMES || gap > 40) {
        return PAIR_NONE;
    }
    if (stands_before(text, items[i].start, "from") && stands_before(text, to, "to")) {
        return PAIR_FROM_TO;
    }
    if (gap_has(text, from, to, " vs ") || gap_has(text, from, to, " vs. ")) {
        return PAIR_VERSUS;
    }
    bool bare = true; /* nothing but an arrow */
    for (int k = from; k < to; k++) {
        bare &= !isalnum((unsigned char)text[k]) && text[k] != '|';
    }
    return bare && (gap_has(text, from, to, "\xe2\x86\x92") || gap_has(text, from, to, "->"))
               ? PAIR_ARROW
               : PAIR_NONE;
}

static bool is_change(const Number *n)
{
    return (n->unit == UNIT_TIMES || n->unit == UNIT_PERCENT) && !n->range && !n->open;
}

static void check_change(const Paragraph *paragraph, const ScanItem *stated, Number a, Number b,
                         Findings *findings)
{
    const Number *n = &stated->number;
    Number up = number_divide(b, a), down = number_divide(a, b);
    /* "300x" is rounded, "35x" may be cut off. */
    bool coarse = n->unit == UNIT_TIMES && n->value >= 10 && fmod(n->value, 1) == 0;
    double slack = !coarse ? 0.01 : fmod(n->value, 10) == 0 ? 0.08 : 1 / n->value;
    double share = fabs(n->value), half = fabs(n->high - n->low) / 2 + 0.01 * share;
    bool good = n->unit == UNIT_TIMES
                    ? number_agrees(up, *n, slack) || number_agrees(down, *n, slack)
                    : fabs(fabs(up.value - 1) - share) <= half + (up.high - up.low) / 2 ||
                          fabs(fabs(down.value - 1) - share) <= half + (down.high - down.low) / 2;
    findings->compared++;
    if (!good) {
        finding_add(
            findings, FINDING_DISAGREES, ratio_rule, paragraph_line(paragraph, stated->start),
            "from %s to %s is %.4g times or %+.3g %%; %s is stated", number_text(a), number_text(b),
            fmax(up.value, down.value), 100 * (up.value - 1), number_text(*n));
    }
}

/* Whether what stands between a pair and its change goes on about it: "18.9 GB per GPU, a reduction
 * of 48 %" does, "640 dims, reducing FLOPs by 30 %" does not. */
static bool goes_on_about(const char *text, int from, int to)
{
    return words_are_among(
        text + from, (size_t)(to - from),
        "a|an|the|of|by|is|that|s|this|which|or|about|roughly|nearly|almost|i|e|per|step|steps|"
        "iteration|epoch|gpu|gpus|token|tokens|sec|second|seconds|total|overall|giving|in|"
        "yielding|gain|drop|increase|decrease|speedup|saving|another|means|reduction|improvement|"
        "samples|memory|for");
}

/* The number behind the pair i that says how much it changes; NULL. */
static const ScanItem *change_behind(const Paragraph *paragraph, int i, Pair pair)
{
    const char *text = paragraph->text;
    const ScanItem *n = &paragraph->items[i + 2];
    int from = paragraph->items[i + 1].end, to = n->start;
    if (i + 2 >= paragraph->count || !is_change(&n->number) || to - from > 60 ||
        memchr(text + from, '|', (size_t)(to - from)) != NULL) {
        return NULL;
    }
    int open = to;
    while (open > from && strchr(" ~+-", text[open - 1]) != NULL) {
        open--;
    }
    bool minus = open - 3 >= from && memcmp(text + open - 3, "\xe2\x88\x92", 3) == 0;
    open -= minus ? 3 : 0;
    bool bracketed = open > from && text[open - 1] == '(' && open - from <= 3;
    if (pair == PAIR_ARROW && !bracketed && open > from && text[open - 1] == '(') {
        /* what is left of a unit, or one short word: "74.6 -> 89.9 GB/s (+20.5 %)" */
        int word = from + (text[from] == ' ');
        word += (int)strcspn(text + word, " (,.;");
        bracketed = word - from <= 8 && word == open - 2 && text[word] == ' ';
    }
    bool signs = strchr("+-", text[to - 1]) != NULL || minus;
    const char *stop = memchr(text + from, '.', (size_t)(to - from));
    bool goes_on =
        stop == NULL || strncmp(stop, ". That", 6) == 0 || strncmp(stop, ". This is", 9) == 0;
    bool changes = speaks_of_change(text, n);
    switch (pair) {
    case PAIR_FROM_TO:
        return goes_on && (changes || signs) && goes_on_about(text, from, to) ? n : NULL;
    case PAIR_ARROW:
        return bracketed && (changes || (signs && text[n->end] == ')')) ? n : NULL;
    case PAIR_VERSUS:
    case PAIR_NONE:
        break;
    }
    return NULL;
}

/* The number before the pair i: "5.6x faster (27.2 ms vs 177.8 ms)", or at the start of a row. */
static const ScanItem *change_before(const Paragraph *paragraph, int i, Pair pair)
{
    const char *text = paragraph->text;
    const ScanItem *n = &paragraph->items[i == 0 ? 0 : i - 1];
    int from = n->end, open = paragraph->items[i].start;
    while (open > from && strchr(" ~", text[open - 1]) != NULL) {
        open--;
    }
    bool bracketed = open > from && text[open - 1] == '(' && open - from < 100 &&
                     text[paragraph->items[i + 1].end] == ')';
    if (i > 0 && bracketed && pair == PAIR_VERSUS && n->number.unit == UNIT_TIMES &&
        is_change(&n->number) && speaks_of_change(text, n) &&
        strcspn(text + from, ",;") >= (size_t)(open - from)) {
        return n;
    }
    n = paragraph->items;
    int changes = 0; /* in the row, which must be about this pair alone */
    for (int k = 0; k < paragraph->count; k++) {
        changes += is_change(&paragraph->items[k].number);
    }
    bool row = paragraph->kind == LINE_TABLE_ROW && i > 0 && changes == 1 &&
               paragraph->count <= i + 3 && strchr(text + n->end, '|') != NULL;
    return row && is_change(&n->number) && speaks_of_change(text, n) &&
                   (pair == PAIR_FROM_TO || pair == PAIR_VERSUS)
               ? n
               : NULL;
}

/* "161M (2.1 % of 7.7B)": nothing else between the three. */
static bool is_share_of(const char *text, const ScanItem *items)
{
    int from = items[0].end + (text[items[0].end] == ' ');
    return items[1].start == from + 1 && text[from] == '(' &&
           items[1].number.unit == UNIT_PERCENT && items[2].start - items[1].end <= 5 &&
           stands_before(text, items[2].start, "of") && text[items[2].end] == ')' &&
           items[0].number.unit == items[2].number.unit;
}

/* "294,912 of 163,332,096 (0.18 %)". */
static bool is_part_of(const char *text, const ScanItem *items)
{
    const Number *a = &items[0].number, *b = &items[1].number;
    int from = items[0].end, to = items[1].start, behind = items[1].end, open = items[2].start;
    bool divided = to - from <= 3 && memchr(text + from, '/', (size_t)(to - from)) != NULL;
    bool worded =
        to - from <= 40 && (stands_before(text, to, "of") || stands_before(text, to, "vs"));
    while (open > behind && strchr(" ~", text[open - 1]) != NULL) {
        open--;
    }
    bool bracketed = open > behind && text[open - 1] == '(' && open - behind <= 24 &&
                     gap_has(text, behind, open, "/") == false;
    char next = text[items[2].end];
    return a->counted && b->counted && items[2].number.unit == UNIT_PERCENT && b->value >= 1000 &&
           bracketed && (divided || worded) && items[0].glue != '/' && (next == ')' || next == ',');
}

static void check_part(const Paragraph *paragraph, int i, Findings *findings)
{
    /* Progress is of batches, of which the last may be short. */
    static const char moments[] = " epoch | epochs | batch | step | eta | iter | loss ";
    const ScanItem *items = &paragraph->items[i];
    bool inside = is_share_of(paragraph->text, items);
    const Number *a = &items[0].number, *b = &items[inside ? 2 : 1].number;
    const Number *p = &items[inside ? 1 : 2].number;
    if ((!inside && !is_part_of(paragraph->text, items)) || !is_plain(a) || !is_plain(b) ||
        !is_plain(p) || a->value > b->value || scan_has_any(paragraph->text, moments)) {
        return;
    }
    Number share = number_divide(*a, *b);
    double half = (p->high - p->low + share.high - share.low) / 2 + 0.01 * p->value;
    findings->compared++;
    bool good = fabs(share.value - p->value) <= half || fabs(1 - share.value - p->value) <= half ||
                fabs(1 / share.value - 1 - p->value) <= half;
    if (!good) {
        finding_add(findings, FINDING_DISAGREES, ratio_rule,
                    paragraph_line(paragraph, items[2].start), "%s of %s is %s; %s is stated",
                    number_text(*a), number_text(*b), number_show(share.value, *p),
                    number_text(*p));
    }
}

void sentence_check_ratios(const Paragraph *paragraph, Findings *findings)
{
    for (int i = 0; i + 1 < paragraph->count; i++) {
        Number a, b;
        Pair pair = pair_at(paragraph->text, paragraph->items, i, &a, &b);
        const ScanItem *n = pair != PAIR_NONE ? change_behind(paragraph, i, pair) : NULL;
        n = pair != PAIR_NONE && n == NULL ? change_before(paragraph, i, pair) : n;
        if (n != NULL) {
            check_change(paragraph, n, a, b, findings);
        }
        if (i + 2 < paragraph->count) {
            check_part(paragraph, i, findings);
        }
    }
}

/* --- sums --- */

/* "6 GB for parameters, plus 14 GB for the optimizer, totaling 20 GB". */
static void check_plus(const Paragraph *paragraph, int i, Findings *findings)
{
    const char *text = paragraph->text;
    const ScanItem *items = paragraph->items;
    const Number *a = &items[i].number, *b = &items[i + 1].number, *c = &items[i + 2].number;
    int first = items[i].end, second = items[i + 1].end;
    int plus = items[i + 1].start, total = items[i + 2].start;
    bool words = plus - first < 80 && total - second < 80 && gap_has(text, first, plus, " plus ") &&
                 (gap_has(text, second, total, " totaling ") ||
                  gap_has(text, second, total, " totalling ") ||
                  gap_has(text, second, total, " for a total of "));
    if (!words || gap_has(text, first, total, ". ") || !is_plain(a) || !is_plain(b) ||
        !is_plain(c) || a->unit != b->unit || b->unit != c->unit || a->unit == UNIT_PERCENT) {
        return;
    }
    Number sum = number_add(*a, *b);
    findings->compared++;
    if (!number_agrees(sum, *c, 0.02)) {
        finding_add(findings, FINDING_DISAGREES, "a sum that is written out",
                    paragraph_line(paragraph, total), "%s and %s make %s; %s is stated",
                    number_text(*a), number_text(*b), number_show(sum.value, *c), number_text(*c));
    }
}

/* Three numbers of a sentence, each known by the words behind it; the third is the product. */
typedef struct {
    const char *rule;
    const char *words[3]; /* alternatives between bars */
    bool equated;         /* "=" stands before the product */
} Product;

static const Product products[] = {
    {"steps = epochs x steps per epoch",
     {" epochs ", " steps per epoch ",
      " optimizer steps in total | total steps | steps in total | total optimizer steps | training "
      "steps in total | total training steps "},
     false},
    {"tokens = steps x tokens per step",
     {" steps ", " tokens per step | tokens per optimizer step | tokens per batch ", " tokens "},
     true},
};

static bool is_followed_by(const char *text, const ScanItem *item, const char *words)
{
    char after[PHRASE_SIZE];
    phrase_make(text + item->end, 40, after);
    const char *word;
    for (size_t length; next_word(&words, &word, &length);) {
        if (strncmp(after, word, length) == 0) {
            return is_plain(&item->number) && item->number.unit == UNIT_NONE;
        }
    }
    return false;
}

/* "3 epochs with 1,250 steps per epoch, 3,750 optimizer steps in total"; "131,072 tokens per step;
 * 3,814 steps = 499,908,608 tokens". */
static void check_product(const Paragraph *paragraph, const Product *product, Findings *findings)
{
    const ScanItem *of[3] = {NULL, NULL, NULL};
    int counts[3] = {0, 0, 0};
    for (int i = 0; i < paragraph->count; i++) {
        const ScanItem *item = &paragraph->items[i];
        int kind = is_followed_by(paragraph->text, item, product->words[1])   ? 1
                   : is_followed_by(paragraph->text, item, product->words[0]) ? 0
                   : is_followed_by(paragraph->text, item, product->words[2]) ? 2
                                                                              : -1;
        if (kind >= 0) {
            of[kind] = item;
            counts[kind]++;
        }
    }
    if (counts[0] != 1 || counts[1] != 1 || counts[2] != 1 || of[2]->end - of[0]->start > 200 ||
        (product->equated && of[2]->glue != '=')) {
        return;
    }
    Number a = of[0]->number, b = of[1]->number;
    Number made = number_multiply(a.counted ? number_exact(a.value) : a,
                                  b.counted ? number_exact(b.value) : b);
    findings->compared++;
    if (!number_agrees(made, of[2]->number, 0.01)) {
        finding_add(findings, FINDING_DISAGREES, product->rule,
                    paragraph_line(paragraph, of[2]->start), "%s x %s makes %s; %s is stated",
                    number_text(of[0]->number), number_text(of[1]->number),
                    number_show(made.value, of[2]->number), number_text(of[2]->number));
    }
}

void sentence_check_sums(const Paragraph *paragraph, Findings *findings)
{
    for (int i = 0; i + 2 < paragraph->count; i++) {
        check_plus(paragraph, i, findings);
    }
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        check_product(paragraph, &products[i], findings);
    }
}

/* --- loss and perplexity --- */

/* The word before the last one, which must be `last`: " val " of " the val loss "; "" when there
 * is none, NULL when the last is another. */
static const char *word_before(const char *phrase, const char *last, char word[32])
{
    size_t length = strlen(phrase), size = strlen(last);
    if (length < size || strcmp(phrase + length - size, last) != 0) {
        return NULL;
    }
    size_t end = length - size, start = end;
    while (start > 0 && phrase[start - 1] != ' ') {
        start--;
    }
    snprintf(word, 32, "%.*s", (int)(end - start < 31 ? end - start : 31), phrase + start);
    return word;
}

/* Which split a word names: 1 training, 2 validation, 3 test, 0 none; -1: a loss of another
 * kind. */
static int split_of(const char *word)
{
    static const char *const splits[] = {"final|nll|lm|a|the|entropy", "train|training",
                                         "val|valid|eval|validation|dev|evaluation", "test"};
    for (int i = 0; i < 4 && word[0] != '\0'; i++) {
        if (word_is_one_of(word, strlen(word), splits[i])) {
            return i;
        }
    }
    return word[0] == '\0' ? 0 : -1;
}

void sentence_note_perplexity(const Paragraph *paragraph, Perplexities *all)
{
    for (int i = 0; i + 1 < paragraph->count; i++) {
        const ScanItem *loss = &paragraph->items[i], *ppl = &paragraph->items[i + 1];
        char left[32], right[32];
        const char *of = word_before(loss->before, " loss ", left);
        const char *its = word_before(ppl->before, " perplexity ", right);
        its = its != NULL ? its : word_before(ppl->before, " ppl ", right);
        bool bare = of == NULL && !loss->number.counted && /* "3.44 (ppl=31.2)" */
                    strncmp(paragraph->text + loss->end, " (ppl", 5) == 0;
        if ((of == NULL && !bare) || its == NULL || ppl->start - loss->end > 40) {
            continue;
        }
        bool alone = loss->glue == '=' && loss->start > 6 && /* "loss=2.87" */
                     paragraph->text[loss->start - 6] == ' ';
        int split = alone || bare ? 0 : split_of(of), other = split_of(its);
        bool fits = split >= 0 && other >= 0 && (other == 0 || split == other);
        const Number *a = &loss->number, *b = &ppl->number;
        if (!fits || !is_plain(a) || !is_plain(b) || a->unit != UNIT_NONE || b->unit != UNIT_NONE ||
            a->value > 20) {
            continue;
        }
        bool good = number_agrees(number_map(*a, exp), *b, 0.01) ||
                    number_agrees(number_map(*a, exp2), *b, 0.01); /* some count in bits */
        all->agree += good;
        all->disagree += !good;
        all->bare |= !good && bare;
        if (!good && all->disagree == 1) {
            all->first.line = paragraph_line(paragraph, ppl->start);
            snprintf(all->first.text, sizeof all->first.text,
                     "perplexity %.6g is stated; exp(%.6g) = %.6g", b->value, a->value,
                     exp(a->value));
        }
    }
}

void sentence_check_perplexities(const Perplexities *all, Findings *findings)
{
    bool sure = all->disagree == 1 && ((all->agree == 0 && !all->bare) || all->agree >= 2);
    findings->compared += all->agree + sure;
    if (sure) {
        finding_add(findings, FINDING_DISAGREES, "perplexity = exp(loss)", all->first.line, "%s",
                    all->first.text);
    }
}
