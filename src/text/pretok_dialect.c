#include "text/pretok_dialect.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACES                                                                         \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
    "\\x{202f}\\x{205f}\\x{3000}"
#define NO_SPACES                                                                           \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-"  \
    "\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}" \
    "\\x{3001}-\\x{10ffff}"
#define HEX "0-9A-Fa-f"
#define NO_HEX "\\x{0}-\\x{2f}\\x{3a}-\\x{40}\\x{47}-\\x{60}\\x{67}-\\x{10ffff}"
/* Alphabetic characters, some of which are symbols (circled letters), marks, decimal digits and
 * connectors; outside a class also what else Latin-1 has of numbers. */
#define WORD                                                                               \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-" \
    "\\x{1f169}\\x{1f170}-\\x{1f189}"
#define WORD_OUTSIDE WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define IS_WORD "[" WORD_OUTSIDE "]"
#define EDGE "(?<=" IS_WORD ")(?!" IS_WORD ")|(?<!" IS_WORD ")(?=" IS_WORD ")"

/* What stands for something else, outside a class and within one. NULL: cannot be written there. */
static const struct {
    const char *written, *outside, *inside;
} shorthands[] = {
    {"\\s", "[" SPACES "]", SPACES}, {"\\S", "[" NO_SPACES "]", NO_SPACES},
    {"\\h", "[" HEX "]", HEX},       {"\\H", "[" NO_HEX "]", NO_HEX},
    {"\\w", IS_WORD, WORD},          {"\\W", "[^" WORD_OUTSIDE "]", NULL},
    {"\\b", "(?:" EDGE ")", "\\b"}, /* there a backspace */
    {"\\B", "(?!" EDGE ")", "\\B"},  {"[:space:]", NULL, SPACES},
    {"[:^space:]", NULL, NO_SPACES}, {"[:word:]", NULL, WORD},
    {"[:^word:]", NULL, NULL},
};
#define SHORTHANDS (sizeof shorthands / sizeof *shorthands)

/* The row of what is written so; SHORTHANDS: none. */
static size_t find_shorthand(const char *at, size_t length)
{
    size_t i = 0;
    while (i < SHORTHANDS && (strlen(shorthands[i].written) != length ||
                              strncmp(at, shorthands[i].written, length) != 0)) {
        i++;
    }
    return i;
}

/* Length of an escape, with the braces or the literal text that belong to it. */
static size_t escape_length(const char *at)
{
    const char *end = NULL;
    if (at[1] == 'Q') {
        end = strstr(at, "\\E");
        return end != NULL ? (size_t)(end - at) + 2 : strlen(at);
    }
    if (at[2] == '{' && strchr("gkNopPx", at[1]) != NULL) {
        end = strchr(at, '}');
    }
    return end != NULL ? (size_t)(end - at) + 1 : at[1] == 'c' && at[2] != '\0' ? 3 : 2;
}

/* Length of what cannot be taken apart at `at`: an escape, the beginning of a class, a named class
 * within it, else a character. *in_class: whether what follows it is in a class. */
static size_t unit_length(const char *at, bool *in_class)
{
    const char *named = *in_class && at[0] == '[' && at[1] == ':' ? strstr(at, ":]") : NULL;
    if (at[0] == '\\' && at[1] != '\0') {
        return escape_length(at);
    }
    if (named != NULL) {
        return (size_t)(named - at) + 2;
    }
    size_t length = 1;
    if (!*in_class && at[0] == '[') {
        *in_class = true;
        length += at[1] == '^';
        length += at[length] == ']'; /* there it is a character */
    } else if (at[0] == ']') {
        *in_class = false;
    }
    return length;
}

/* Length of a quantifier in braces with + behind it, else 0. */
static size_t repeated_braces(const char *at)
{
    size_t length = at[0] == '{' ? 1 + strspn(at + 1, "0123456789,") : 0;
    return length > 1 && at[length] == '}' && at[length + 1] == '+' ? length + 1 : 0;
}

static int check_unit(const char *at, size_t length, bool inside, size_t offset)
{
    size_t braces = inside ? 0 : repeated_braces(at);
    if (braces > 0) {
        return err_set(
            ERR_INPUT,
            "the pre-token pattern has %.*s+ at byte %zu of it, which means one thing to "
            "Hugging Face tokenizers and another elsewhere; leave out the +, or write "
            "(?:...%.*s)+ where a repetition is meant",
            (int)braces, at, offset, (int)braces, at);
    }
    if (inside && length == 1 && (at[0] == '[' || (at[0] == '&' && at[1] == '&'))) {
        return err_set(ERR_INPUT,
                       "the pre-token pattern has a character class within another, or their "
                       "intersection, at byte %zu of it, which is not supported; write \\%c "
                       "if the character is meant",
                       offset, at[0]);
    }
    size_t row = inside ? find_shorthand(at, length) : SHORTHANDS;
    if (row < SHORTHANDS && shorthands[row].inside == NULL) {
        return err_set(ERR_INPUT,
                       "the pre-token pattern has %s in a character class at byte %zu of it, which "
                       "is not supported; write a class that begins with ^",
                       shorthands[row].written, offset);
    }
    return 0;
}

int dialect_check(const char *pattern)
{
    bool in_class = false;
    int code = 0;
    for (const char *at = pattern; code == 0 && *at != '\0';) {
        bool inside = in_class;
        size_t length = unit_length(at, &in_class);
        code = check_unit(at, length, inside, (size_t)(at - pattern));
        at += length;
    }
    return code;
}

bool dialect_has_circumflex(const char *pattern)
{
    bool in_class = false, found = false;
    for (const char *at = pattern; !found && *at != '\0';) {
        found = *at == '^';
        at += unit_length(at, &in_class);
    }
    return found;
}

char *dialect_spell_out(const char *pattern)
{
    char *out = NULL;
    size_t size;
    FILE *file = mem_checked(open_memstream(&out, &size), sizeof *file);
    bool in_class = false;
    for (const char *at = pattern; *at != '\0';) {
        bool inside = in_class;
        size_t length = unit_length(at, &in_class), row = find_shorthand(at, length);
        const char *meant = row == SHORTHANDS ? NULL
                            : inside          ? shorthands[row].inside
                                              : shorthands[row].outside;
        fwrite(meant != NULL ? meant : at, 1, meant != NULL ? strlen(meant) : length, file);
        at += length;
    }
    mem_checked(fclose(file) == 0 ? out : NULL, size);
    return out;
}
