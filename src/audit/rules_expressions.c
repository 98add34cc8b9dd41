/* Arithmetic that a text writes out: "(3.04 - 2.91) / 3.04 = 4.3 %", "228.09/989.4 = 23 %". Numbers
 * alone, with signs and brackets; what has a unit, a name or a power in it is left alone. */
#include "audit/paragraph.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct {
    const char *at, *end;
    int operators; /* + * / met */
    bool failed;
} Parser;

static void skip(Parser *parser)
{
    while (parser->at < parser->end && *parser->at == ' ') {
        parser->at++;
    }
}

/* Length of a sign of multiplication or division at the parser, 0; *divides tells which. */
static size_t factor_sign(const Parser *parser, bool *divides)
{
    const char *at = parser->at;
    *divides = false;
    if (parser->end - at >= 2 && at[0] == '\xc3' && (at[1] == '\x97' || at[1] == '\xb7')) {
        *divides = at[1] == '\xb7';
        return 2;
    }
    *divides = at < parser->end && *at == '/';
    return at < parser->end && strchr("*/xX", *at) != NULL ? 1 : 0;
}

static Number parse_sum(Parser *parser, int depth);

static const struct {
    const char *name;
    double (*apply)(double);
} functions[] = {{"ln", log}, {"exp", exp}, {"sqrt", sqrt}};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

static Number parse_atom(Parser *parser, int depth)
{
    Number number = {0};
    skip(parser);
    for (size_t i = 0; i < FUNCTIONS; i++) {
        size_t size = strlen(functions[i].name);
        if ((size_t)(parser->end - parser->at) > size && depth < 8 && parser->at[size] == '(' &&
            strncmp(parser->at, functions[i].name, size) == 0) {
            parser->at += size;
            parser->operators++;
            number = parse_atom(parser, depth + 1);
            parser->failed |= !(number.low > 0);
            return number_map(number, functions[i].apply);
        }
    }
    if (parser->at < parser->end && *parser->at == '(' && depth < 8) {
        parser->at++;
        number = parse_sum(parser, depth + 1);
        skip(parser);
        parser->failed |= parser->at >= parser->end || *parser->at != ')';
        parser->at += !parser->failed;
        return number;
    }
    size_t length = parser->at < parser->end && isdigit((unsigned char)*parser->at)
                        ? number_read(parser->at, false, &number)
                        : 0;
    bool times = number.unit == UNIT_TIMES; /* "8x4": the sign was taken for a unit */
    length -= times && length > 0 ? (parser->at[length - 1] == 'x' ? 1U : 2U) : 0;
    parser->failed |= length == 0 || number.range || number.open ||
                      (number.unit != UNIT_NONE && !times) || parser->at + length > parser->end;
    parser->at += parser->failed ? 0 : length;
    return number.counted || times ? number_exact(number.value) : number;
}

static Number parse_product(Parser *parser, int depth)
{
    Number value = parse_atom(parser, depth);
    for (;;) {
        bool divides;
        skip(parser);
        size_t sign = parser->failed ? 0 : factor_sign(parser, &divides);
        if (sign == 0) {
            return value;
        }
        parser->at += sign;
        parser->operators++;
        Number next = parse_atom(parser, depth);
        parser->failed |= !(next.value > 0);
        if (!parser->failed) {
            value = divides ? number_divide(value, next) : number_multiply(value, next);
        }
    }
}

static Number parse_sum(Parser *parser, int depth)
{
    Number value = parse_product(parser, depth);
    for (;;) {
        skip(parser);
        char sign = parser->at < parser->end && !parser->failed ? *parser->at : '\0';
        bool spaced = sign != '\0' && parser->at[-1] == ' ' && parser->at[1] == ' ';
        if ((sign != '+' && sign != '-') || !spaced) {
            return value;
        }
        parser->at++;
        parser->operators += sign == '+';
        Number next = parse_product(parser, depth);
        Number minus = {.value = -next.value, .low = -next.high, .high = -next.low};
        value = number_add(value, sign == '+' ? next : minus);
    }
}

/* Length of the name of a function that ends at `start`, its bracket behind it; 0. */
static int function_before(const char *text, int start)
{
    for (size_t i = 0; i < FUNCTIONS; i++) {
        int size = (int)strlen(functions[i].name);
        if (start >= size && text[start] == '(' &&
            strncmp(text + start - size, functions[i].name, (size_t)size) == 0 &&
            (start == size || !isalnum((unsigned char)text[start - size - 1]))) {
            return size;
        }
    }
    return 0;
}

/* Where the digits and signs that end before `end` begin. */
static int expression_start(const char *text, int end)
{
    int start = end;
    while (start > 0) {
        unsigned char c = (unsigned char)text[start - 1];
        bool cross =
            start >= 2 && (unsigned char)text[start - 2] == 0xc3 && (c == 0x97 || c == 0xb7);
        bool letter =
            (c == 'x' || c == 'X') && start >= 2 && strchr(" 0123456789", text[start - 2]) != NULL;
        int name = function_before(text, start);
        if (!cross && !letter && name == 0 && !isdigit(c) && strchr(" .,+-*/()", c) == NULL) {
            break;
        }
        start -= cross ? 2 : name > 0 ? name : 1;
    }
    /* Not into the end of a name ("A100", "1e-4"), a function, an exponent or a formula. */
    unsigned char before = start > 0 ? (unsigned char)text[start - 1] : ' ';
    bool glued = start > 0 && text[start] != ' ' &&
                 (isalnum(before) || before >= 0x80 || strchr("_^%$#\\:", before) != NULL);
    const char *formula = strchr(text, '\\');
    glued |= formula != NULL && formula < text + end;
    while (start < end && strchr(" .,)-", text[start]) != NULL) {
        start++;
    }
    return glued ? end : start;
}

/* Opening brackets without their partners belong to the sentence: "(2 x 3 = 6)". */
static int drop_open(const char *text, int start, int end)
{
    int depth = 0;
    for (int i = start; i < end; i++) {
        depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    }
    while (depth > 0 && start < end && strchr("( ", text[start]) != NULL) {
        depth -= text[start++] == '(';
    }
    return start;
}

/* Whether what stands before is part of the same: "2 tables x 128 + projection (128 x 1024) = ". */
static bool is_last_term(const char *text, int start, int end)
{
    int at = start, close = start, depth = 0;
    do { /* to the partner of a bracket that begins it */
        depth += text[close] == '(' ? 1 : text[close] == ')' ? -1 : 0;
        close++;
    } while (depth > 0 && close < end);
    bool bracketed = text[start] == '(' && close + (int)strspn(text + close, " ") >= end;
    while (at > 0 && text[at - 1] == ' ') {
        at--;
    }
    bool named = bracketed && at > 0 && isalnum((unsigned char)text[at - 1]);
    for (; at > 0 && start - at < 80 && strchr(".,;:=|(", text[at - 1]) == NULL; at--) {
        named |= strchr("+*/", text[at - 1]) != NULL ||
                 (at >= 2 && memcmp(text + at - 2, "\xc3\x97", 2) == 0);
    }
    return named;
}

static bool is_counted_word(const char *text)
{
    size_t length = 0;
    while (isalpha((unsigned char)text[length])) {
        length++;
    }
    return length == 0 ||
           (word_is_one_of(text, length, "tokens|samples|sequences|steps|gpus|params|parameters") &&
            !isdigit((unsigned char)text[length]) && text[length] != '/');
}

static void check_expression(const Paragraph *paragraph, int equals, int behind, bool about,
                             Findings *findings)
{
    const char *text = paragraph->text;
    int start = expression_start(text, equals);
    start = drop_open(text, start, equals);
    if (is_last_term(text, start, equals)) {
        return;
    }
    Parser parser = {.at = text + start, .end = text + equals};
    Number derived = parse_sum(&parser, 0), stated;
    skip(&parser);
    behind += (int)strspn(text + behind, " ~");
    size_t length =
        isdigit((unsigned char)text[behind]) ? number_read(text + behind, about, &stated) : 0;
    if (parser.failed || parser.at != parser.end || parser.operators == 0 || length == 0 ||
        stated.open || stated.range || !(stated.value > 0) || !(derived.value > 0) ||
        (stated.unit != UNIT_NONE && stated.unit != UNIT_PERCENT && stated.unit != UNIT_TIMES)) {
        return;
    }
    const char *rest = text + behind + length;
    bool goes_on = strncmp(rest, "\xc3\x97", 2) == 0 || *rest == '^' || *rest == '_';
    rest += strspn(rest, " ");
    bool wide = strncmp(rest, "\xef\xbc", 2) == 0 || strncmp(rest, "\xe3\x80", 2) == 0; /* ")" */
    if (goes_on || (*rest != '\0' && strchr("*/+-^x\\", *rest) != NULL) ||
        ((unsigned char)*rest >= 0x80 && !wide) ||
        (stated.unit == UNIT_NONE && !is_counted_word(rest)) ||
        (*rest == ',' && isdigit((unsigned char)rest[1]))) {
        return;
    }
    /* 64K may be 65,536, and 4.3 % may be of a number that was multiplied by 100. */
    static const double thousands[] = {1, 1.024, 1.048576, 1.073741824};
    double slack = about ? 0.05 : 0.01;
    bool good = false;
    bool letter = isalpha((unsigned char)text[behind + (int)length - 1]);
    for (int k = 0; k < (letter ? 4 : 1); k++) {
        Number read = number_multiply(stated, number_exact(thousands[k]));
        good |= number_agrees(derived, read, slack);
    }
    good |= stated.unit == UNIT_PERCENT &&
            number_agrees(derived, number_multiply(stated, number_exact(100)), slack);
    if (length > 4 && text[behind + (int)length - 4] == '.') { /* "83.306" for 83,306 */
        good |= number_agrees(derived, number_multiply(stated, number_exact(1e3)), 1e-9);
    }
    good |= stated.unit == UNIT_TIMES && /* "2/12 = 6x less" */
            number_agrees(number_divide(number_exact(1), derived), stated, slack);
    findings->compared++;
    int line = paragraph_line(paragraph, behind);
    if (!good && !finding_said(findings, line)) {
        finding_add(findings, FINDING_DISAGREES, "arithmetic that is written out", line,
                    "%.*s makes %s; %s is stated", equals - start, text + start,
                    number_show(derived.value, derived.value < 2 ? stated : derived),
                    number_text(stated));
    }
}

void sentence_check_expressions(const Paragraph *paragraph, Findings *findings)
{
    const char *text = paragraph->text;
    for (int i = 1; text[i] != '\0'; i++) {
        int about = strncmp(text + i, "\xe2\x89\x88", 3) == 0 ? 3
                    : strncmp(text + i, "~=", 2) == 0         ? 2
                                                              : 0;
        bool equals = text[i] == '=' && text[i + 1] != '=' && strchr("=<>!~:", text[i - 1]) == NULL;
        if (about > 0 || equals) {
            bool tilde = text[i + 1 + (int)strspn(text + i + 1, " ")] == '~';
            check_expression(paragraph, i, i + (equals ? 1 : about), about > 0 || tilde, findings);
        }
    }
}
