/* What a text works out itself, or says twice. Products that are spelled out come out: "[512, 256]
 * x 4 bytes = 524 KB", "2,048 tokens (128 x 16 x 8)"; so do ratios: "from 10 s to 2 s, 5x faster".
 * What a line says of a run is what the table says of it. */
#include "audit/paragraph.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* --- paragraphs --- */

int paragraph_line(const Paragraph *paragraph, int offset)
{
    int line = 0;
    while (line + 1 < paragraph->lines && paragraph->starts[line + 1] <= (size_t)offset) {
        line++;
    }
    return paragraph->first + line;
}

/* The paragraph from line `at` on, or the one line of a table or of code; returns the index of the
 * line behind it. */
static int paragraph_read(const Document *document, int at, Paragraph *paragraph)
{
    size_t used = 0;
    paragraph->lines = 0;
    paragraph->first = at + 1;
    paragraph->kind = document->lines[at].kind;
    paragraph->code = document->lines[at].code;
    bool goes_on = true;
    for (; at < document->count && goes_on && paragraph->lines < 64; at++) {
        const Line *line = &document->lines[at];
        size_t length = strlen(line->text);
        bool fresh = line->item || line->code || line->kind != LINE_TEXT;
        if (paragraph->lines > 0 && (fresh || used + length + 2 > sizeof paragraph->text)) {
            break;
        }
        paragraph->starts[paragraph->lines++] = used;
        length =
            length < sizeof paragraph->text - 2 - used ? length : sizeof paragraph->text - 2 - used;
        memcpy(paragraph->text + used, line->text, length);
        used += length;
        goes_on =
            line->kind == LINE_TEXT && !line->code && length > 0 && line->text[length - 1] != ':';
        paragraph->text[used++] = ' ';
    }
    paragraph->text[used > 0 ? used - 1 : 0] = '\0';
    paragraph->count = scan_line(paragraph->text, paragraph->items);
    return at;
}

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
        bool letter = (c == 'x' || c == 'X') && text[i - 1] == ' ' && text[i + 1] == ' ';
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
    bool named = start > 0 && text[start - 1] == '='; /* "bs=4 x accum=128 x 8" */
    while (start > 0 && (strchr(" [", text[start - 1]) != NULL ||
                         (named && (isalnum((unsigned char)text[start - 1]) ||
                                    strchr("=_", text[start - 1]) != NULL)))) {
        start--;
    }
    end += (int)strspn(text + end, " ");
    bool before = start > 0 && (strchr(operators, text[start - 1]) != NULL ||
                                (unsigned char)text[start - 1] >= 0x80);
    before |= text[end] == ',' && isdigit((unsigned char)text[end + 1]); /* "2,0971,520" */
    return !before && (unsigned char)text[end] < 0x80 &&
           (text[end] == '\0' || strchr("+-*/^", text[end]) == NULL);
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

/* In brackets behind a number only what makes batches is surely its product; else factors are
 * numbers alone, or of a batch as a whole: "500 steps x batch 16" leaves something out. */
static const char batch_words[] =
    "tokens|token|batch|sequences|seqs|seq|gpus|gpu|samples|ranks|x|accum|nodes|bytes|params|"
    "accumulation|steps";
static const char factor_words[] =
    "bytes|x|local|batch|size|micro|of|fsdp|ranks|number|gpus|data|dp|grad|accumulation";

static void check_chain(const Paragraph *paragraph, int first, int last, Findings *findings)
{
    const char *text = paragraph->text;
    const ScanItem *items = paragraph->items;
    int count = paragraph->count;
    const ScanItem *result = NULL;
    bool shape = text[items[first].end] == ',';
    int next = items[last].end + (int)strspn(text + items[last].end, "] ");
    if (shape && text[next] != '=' && items[last].number.unit != UNIT_BYTES) {
        return;
    }
    if (last + 1 < count && gap_has_only(text, items[last].end, items[last + 1].start, '=')) {
        result = &items[last + 1];
    } else if (first > 0 && gap_has_only(text, items[first - 1].end, items[first].start, '(') &&
               words_are_among(text + items[first].start,
                               (size_t)(items[last].end - items[first].start), batch_words) &&
               text[items[last].end + (int)strcspn(text + items[last].end, ")(0123456789")] ==
                   ')') {
        result = &items[first - 1];
    } else if (first > 0 && !shape &&
               gap_has_only(text, items[first - 1].end, items[first].start, '=')) {
        result = &items[first - 1];
    }
    bool worded = result == &items[last + 1] &&
                  !words_are_among(text + items[first].end,
                                   (size_t)(items[last].end - items[first].end), factor_words);
    if (result == NULL || worded || result->number.open || result->number.value <= 0 ||
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
    for (int i = first; i <= last; i++) {
        if (items[i].number.value == result->number.value) {
            return; /* "with MBS=2 (8*2)" */
        }
    }
    static const char counts[] = " tokens | parameters | params | samples | sequences | elements ";
    bool counted = result->number.counted || scan_has_any(result->after, counts);
    if (result->number.unit != unit || (unit == UNIT_NONE && !counted)) {
        return; /* "80 * 4 = 320 Gbps" */
    }
    double times = result->number.value / product.value; /* FLOPs or bytes of a shape's elements */
    bool summed = first + 1 == last &&
                  items[first].number.value + items[last].number.value == result->number.value;
    if (shape && (summed || (times > 1 && times <= 64 && times == rint(times)))) {
        return;
    }
    findings->compared++;
    /* MB may mean either million: 1024 x 1024 / 1,000,000 = 1.049. */
    double slack =
        result->number.unit == UNIT_BYTES || result->number.letter != '\0' ? 0.075 : PRODUCT_SLACK;
    if (!number_agrees(product, result->number, slack)) {
        finding_add(findings, FINDING_DISAGREES, "a product that is written out",
                    paragraph_line(paragraph, result->start), "%s is stated; %.*s makes %s",
                    number_text(result->number), items[last].end - items[first].start,
                    text + items[first].start, number_show(product.value, result->number));
    }
}

static void check_products(const Paragraph *paragraph, Findings *findings)
{
    const char *text = paragraph->text;
    const ScanItem *items = paragraph->items;
    int count = paragraph->count;
    for (int first = 0; first < count;) {
        int last = first;
        while (last + 1 < count && (is_times(text, items[last].end, items[last + 1].start) ||
                                    is_shape_gap(text, items[last].end, items[last + 1].start))) {
            last++;
        }
        if (last > first) {
            check_chain(paragraph, first, last, findings);
        }
        first = last + 1;
    }
}

/* --- words against numbers --- */

static void check_sublinear(const Evidence *evidence, const Paragraph *paragraph,
                            Findings *findings)
{
    const char *text = paragraph->text;
    const ScanItem *items = paragraph->items;
    static const char *const words[] = {"sub-linear", "sublinear", "sub linear",
                                        "diminishing returns", "less than linear"};
    static const char faster[] = " speedup | speed up | faster ";
    static const char rule[] = "words against numbers";
    const char *said = NULL;
    int length = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0] && said == NULL; i++) {
        said = strcasestr(text, words[i]);
        length = (int)strlen(words[i]);
    }
    if (said == NULL) {
        return;
    }
    const Finding *above = NULL; /* of a speed-up above its ranks, the first */
    for (int i = findings->count - 1; i >= 0; i--) {
        bool it = strncmp(findings->items[i].rule, "faster than the ranks", 21) == 0;
        above = it ? &findings->items[i] : above;
    }
    double ranks = 0, most = 0;
    for (int k = 0; k < paragraph->count; k++) {
        size_t size;
        const Number *number = &items[k].number;
        bool times = number->unit == UNIT_TIMES; /* a speed-up, or devices: "8x H100" */
        bool speedup = times && scan_has_any(items[k].after, faster);
        bool devices = times || quantity_begins(&evidence->names, items[k].after, number->unit,
                                                &size) == Q_RANKS;
        most = speedup ? fmax(most, number->value) : most;
        ranks = devices && !speedup ? fmax(ranks, number->value) : ranks;
    }
    findings->compared++;
    int line = paragraph_line(paragraph, (int)(said - text));
    if (ranks > 1 && most > ranks) {
        finding_add(findings, FINDING_DISAGREES, rule, line,
                    "the text says %.*s beside a speed-up of %.4g on %.4g ranks", length, said,
                    most, ranks);
    } else if (above != NULL) {
        finding_add(findings, FINDING_DISAGREES, rule, line,
                    "the text says %.*s; line %d has a speed-up above the number of ranks", length,
                    said, above->line);
    }
}

static void check_sentences(const Evidence *evidence, const Paragraph *paragraph,
                            Findings *findings)
{
    char sentence[DOCUMENT_LINE_SIZE];
    for (const char *at = paragraph->text; *at != '\0';) {
        const char *end = strstr(at, ". ");
        size_t length = end != NULL ? (size_t)(end - at) + 1 : strlen(at);
        memcpy(sentence, at, length);
        sentence[length] = '\0';
        size_t digits = strcspn(sentence, "0123456789");
        quote_check_sentence(evidence, sentence,
                             paragraph_line(paragraph, (int)(at - paragraph->text) + (int)digits),
                             findings);
        at += length + (at[length] == ' ');
    }
}

void rules_text(const Evidence *evidence, Findings *findings)
{
    static _Thread_local Paragraph paragraph;
    const Document *document = evidence->document;
    Perplexities perplexities = {.agree = 0};
    for (int i = 0; i < document->count;) {
        const Line *line = &document->lines[i];
        bool code = line->code && strstr(line->text, "==") != NULL;
        if ((line->kind != LINE_TEXT && line->kind != LINE_TABLE_ROW) || code) {
            i++;
            continue;
        }
        i = paragraph_read(document, i, &paragraph);
        check_products(&paragraph, findings);
        sentence_check_ratios(&paragraph, findings);
        sentence_check_expressions(&paragraph, findings);
        sentence_check_sums(&paragraph, findings);
        if (line->kind == LINE_TEXT) {
            sentence_note_perplexity(&paragraph, &perplexities);
            check_sublinear(evidence, &paragraph, findings);
        }
        if (line->kind == LINE_TEXT && !line->code) {
            check_sentences(evidence, &paragraph, findings);
        }
    }
    sentence_check_perplexities(&perplexities, findings);
}
