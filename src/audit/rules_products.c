/* Products that a text spells out: "[512, 256] x 4 bytes = 524 KB", "2,048 tokens (128 x 16 x
 * 8)". */
#include "audit/findings.h"
#include "audit/scan.h"

#include <ctype.h>
#include <string.h>

#define SLACK 0.01
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

static void check_chain(const char *text, int line, const ScanItem *items, int first, int last,
                        int count, Findings *findings)
{
    const ScanItem *result = NULL;
    if (last + 1 < count && gap_has_only(text, items[last].end, items[last + 1].start, '=')) {
        result = &items[last + 1];
    } else if (first > 0 && gap_has_only(text, items[first - 1].end, items[first].start, '(')) {
        result = &items[first - 1];
    } else if (first > 0 && gap_has_only(text, items[first - 1].end, items[first].start, '=')) {
        result = &items[first - 1];
    }
    if (result == NULL || result->number.open || result->number.unit == UNIT_PERCENT) {
        return;
    }
    Number product = number_exact(1);
    for (int i = first; i <= last; i++) {
        Number factor = items[i].number;
        product = number_multiply(product, factor.counted ? number_exact(factor.value) : factor);
    }
    findings->compared++;
    /* MB may mean either million: 1024 x 1024 / 1,000,000 = 1.049. */
    double slack = result->number.unit == UNIT_BYTES ? 0.075 : SLACK;
    if (!number_agrees(product, result->number, slack)) {
        finding_add(findings, FINDING_DISAGREES, "a product that is written out", line, 0,
                    "%.10g is stated; %.*s makes %.10g", result->number.value,
                    items[last].end - items[first].start, text + items[first].start, product.value);
    }
}

void rules_products(const Evidence *evidence, Findings *findings)
{
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        bool sign = strstr(line->text, "\xc3\x97") != NULL || strstr(line->text, " x ") != NULL ||
                    strstr(line->text, " * ") != NULL || strchr(line->text, '[') != NULL;
        if (line->kind != LINE_TEXT || !sign) {
            continue;
        }
        int count = scan_line(line->text, items);
        for (int first = 0; first < count;) {
            int last = first;
            while (last + 1 < count &&
                   (is_times(line->text, items[last].end, items[last + 1].start) ||
                    is_shape_gap(line->text, items[last].end, items[last + 1].start))) {
                last++;
            }
            if (last > first) {
                check_chain(line->text, i + 1, items, first, last, count, findings);
            }
            first = last + 1;
        }
    }
}
