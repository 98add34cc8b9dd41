#include "audit/scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Words that may stand between a name and its number. */
static const char fillers[] =
    "is|was|of|about|around|at|to|from|the|only|just|reached|reaches|a|an|approximately|roughly|"
    "takes|mean|avg|gives|gave|are|achieved|with|and|nearly|almost";
static const char about_words[] = "about|around|approximately|roughly|nearly|almost|approx";
/* Letters that make a setting together with the digits glued to them: b64, bs16, g4. */
static const struct {
    const char *letters, *phrase;
} prefixes[] = {{"b", " batch "},   {"bs", " batch "}, {"g", " gpus "},
                {"gpus", " gpus "}, {"seq", " seq "},  {"ctx", " ctx "}};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Takes the last word off a phrase when it is one of `words`; returns whether it was. */
static bool drop_last(char *phrase, const char *words, bool keep)
{
    size_t length = strlen(phrase), start = length - 1;
    if (length < 3) {
        return false;
    }
    while (start > 0 && phrase[start - 1] != ' ') {
        start--;
    }
    bool found = word_is_one_of(phrase + start, length - 1 - start, words);
    if (found && !keep) {
        phrase[start] = '\0';
    }
    return found;
}

/* Length of a break between phrases at text, 0 if there is none. */
static size_t break_at(const char *text)
{
    if (*text == ',' || *text == ';' || *text == ')' || *text == '|' || *text == ']' ||
        *text == '#') {
        return 1;
    }
    if ((*text == '.' || *text == '!' || *text == '?') && (text[1] == ' ' || text[1] == '\0')) {
        return 1;
    }
    static const char *const arrows[] = {"\xe2\x86\x92", "\xe2\x86\x90", "\xe2\x80\x94", "->",
                                         "\xc3\x97"};
    for (size_t i = 0; i < sizeof arrows / sizeof arrows[0]; i++) {
        if (strncmp(text, arrows[i], strlen(arrows[i])) == 0) {
            return strlen(arrows[i]);
        }
    }
    return 0;
}

static size_t prefix_length(const char *word, const char **phrase)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t length = strlen(prefixes[i].letters);
        *phrase = prefixes[i].phrase;
        if (strncmp(word, prefixes[i].letters, length) == 0 &&
            isdigit((unsigned char)word[length])) {
            size_t end = length + strspn(word + length, "0123456789");
            return is_word(word[end]) && word[end] != '_' ? 0 : length;
        }
    }
    return 0;
}

static char glue_before(const char *text, int from, int start)
{
    char glue = ' ';
    for (int i = start - 1; i >= from && !is_word(text[i]) && (unsigned char)text[i] < 0x80; i--) {
        glue =
            text[i] == '=' || text[i] == ':' || text[i] == '(' || text[i] == '/' ? text[i] : glue;
    }
    return glue;
}

static void fill_before(const char *text, int from, int start, ScanItem *item)
{
    phrase_make(text + from, (size_t)(start - from), item->before);
    item->glue = glue_before(text, from, start);
    while (drop_last(item->before, fillers, false)) {}
}

static bool says_about(const char *text, int from, int start)
{
    char phrase[PHRASE_SIZE];
    int begin = start - from > 40 ? start - 40 : from;
    phrase_make(text + begin, (size_t)(start - begin), phrase);
    bool sign = start >= 3 && memcmp(text + start - 3, "\xe2\x89\x88", 3) == 0;
    return sign || drop_last(phrase, about_words, true);
}

static void fill_after(const char *text, ScanItem *item)
{
    int end = item->end;
    while (text[end] != '\0' && end < item->end + 60 && break_at(text + end) == 0 &&
           strchr("(:=~", text[end]) == NULL && (unsigned char)text[end] < 0x80 &&
           !(isdigit((unsigned char)text[end]) && !is_word(text[end - 1]))) {
        end++;
    }
    bool key = text[end] == ':' || text[end] == '='; /* of what follows */
    phrase_make(text + item->end, key ? 0 : (size_t)(end - item->end), item->after);
}

int scan_line(const char *text, ScanItem items[SCAN_MAX_ITEMS])
{
    int count = 0, from = 0, depth = 0;
    for (int at = 0; text[at] != '\0' && count < SCAN_MAX_ITEMS;) {
        size_t gap = break_at(text + at);
        unsigned char c = (unsigned char)text[at];
        char last = at > 0 ? text[at - 1] : ' ';
        bool sign = (c == '~' || (c == '-' && strchr(" ([=:", last) != NULL)) &&
                    (isdigit((unsigned char)text[at + 1]) || text[at + 1] == '~');
        if (isdigit(c) || sign) {
            ScanItem *item = &items[count];
            size_t length = number_read(text + at, says_about(text, from, at), &item->number);
            if (length > 0) {
                item->start = at;
                item->end = at + (int)length;
                item->in_parentheses = depth > 0;
                fill_before(text, from, at, item);
                count++;
                at += (int)length;
                from = at;
                continue;
            }
            do { /* a date, a version: skipped as a whole */
                at++;
            } while (is_word(text[at]) ||
                     ((text[at] == ':' || text[at] == '.' || text[at] == '-') &&
                      isdigit((unsigned char)text[at + 1])));
        } else if (isalpha(c)) {
            const char *phrase;
            size_t prefix = is_word(last) && last != '_' ? 0 : prefix_length(text + at, &phrase);
            if (prefix > 0) {
                ScanItem *item = &items[count++];
                char *end;
                double value = strtod(text + at + prefix, &end);
                item->number = number_exact(value);
                item->number.counted = true;
                item->start = at;
                item->end = (int)(end - text);
                item->in_parentheses = depth > 0;
                item->glue = '=';
                strcpy(item->before, phrase);
                at = from = item->end;
                continue;
            }
            while (is_word(text[at]) && text[at] != '_') {
                at++;
            }
        } else if (gap > 0) {
            depth -= c == ')' && depth > 0;
            bool key = c == ')' && text[at + 1] == ':'; /* "time (ms): 12" */
            at += (int)gap;
            from = key ? from : at;
        } else {
            depth += c == '(';
            at++;
            if (c >= 0x80) { /* letters outside ASCII keep digits glued to them: no number */
                while ((unsigned char)text[at] >= 0x80) {
                    at++;
                }
                bool sign_before = strncmp(text + (at >= 3 ? at - 3 : 0), "\xe2\x89\x88", 3) == 0 ||
                                   strncmp(text + (at >= 3 ? at - 3 : 0), "\xe2\x88\x92", 3) == 0 ||
                                   strncmp(text + (at >= 2 ? at - 2 : 0), "\xc3\x97", 2) == 0;
                while (!sign_before && is_word(text[at])) {
                    at++;
                }
                from = sign_before ? from : at; /* words of other scripts end a phrase */
            }
        }
    }
    for (int i = 0; i < count; i++) {
        fill_after(text, &items[i]);
    }
    return count;
}

bool scan_has_any(const char *text, const char *words)
{
    char phrase[PHRASE_SIZE];
    size_t size, length = strlen(text), step = PHRASE_SIZE - 64;
    for (size_t at = 0; at < length; at += step) {
        phrase_make(text + at, length - at, phrase);
        if (phrase_find(phrase, words, &size) != NULL) {
            return true;
        }
    }
    return false;
}
