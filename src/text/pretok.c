#define PCRE2_CODE_UNIT_WIDTH 8

#include "text/pretok.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "text/pretok_dialect.h"
#include "text/pretok_scan.h"
#include "text/unicode.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* ---- Patterns ---- */

#define GPT2_PATTERN(contractions) \
    contractions "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA_PATTERN(contractions, digits)               \
    contractions "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K_PATTERN(digits)                                      \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|" digits \
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"
#define CASED_PATTERN(suffix, digits)                                                            \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"   \
    "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{" \
    "Lo}\\p{M}]*" suffix "|" digits                                                              \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef struct {
    const char *name;       /* NULL: none */
    const char *regexes[4]; /* spellings of the same, NULL behind the last */
    ScanRule rule;
} Known;

/* Possessive spellings are tiktoken's. The quantifiers mean the same without their second + where
 * what follows cannot begin with what they match. {1,3}+ is the exception: Oniguruma has no
 * possessive braces and repeats, so that row, which is tiktoken's cl100k as Hugging Face tokenizers
 * reads it, takes all digits. */
static const Known known_patterns[] = {
    {PRETOK_GPT2,
     {GPT2_PATTERN("'s|'t|'re|'ve|'m|'ll|'d"), GPT2_PATTERN("'(?:[sdmt]|ll|ve|re)"),
      "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s"},
     {.scan = scan_gpt2}},
    {PRETOK_LLAMA3,
     {LLAMA_PATTERN("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "\\p{N}{1,3}"),
      LLAMA_PATTERN("'(?i:[sdmt]|ll|ve|re)", "\\p{N}{1,3}"),
      "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
     {.scan = scan_llama3, .most_digits = 3}},
    {PRETOK_QWEN2,
     {LLAMA_PATTERN("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "\\p{N}"),
      LLAMA_PATTERN("'(?i:[sdmt]|ll|ve|re)", "\\p{N}")},
     {.scan = scan_llama3, .most_digits = 1}},
    {PRETOK_CL100K,
     {CL100K_PATTERN("\\p{N}{1,3}")},
     {.scan = scan_llama3, .most_digits = 3, .keeps_end = true}},
    {NULL,
     {CL100K_PATTERN("\\p{N}{1,3}+")},
     {.scan = scan_llama3, .most_digits = SCAN_ALL_DIGITS, .keeps_end = true}},
    {PRETOK_O200K,
     {CASED_PATTERN("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\p{N}{1,3}")},
     {.scan = scan_cased, .most_digits = 3, .suffixes = true}},
    {PRETOK_TEKKEN, {CASED_PATTERN("", "\\p{N}")}, {.scan = scan_cased, .most_digits = 1}},
    {NULL, {"\\p{N}"}, {.scan = scan_numbers, .most_digits = 1, .gaps = true}},
    {NULL, {"\\p{N}{1,3}"}, {.scan = scan_numbers, .most_digits = 3, .gaps = true}},
};
#define KNOWN_COUNT (sizeof known_patterns / sizeof known_patterns[0])

struct Pretok {
    char *pattern;      /* as given, or the first spelling of a name */
    const Known *known; /* NULL: the pattern is compiled */
    pcre2_code *code;
    bool looks_behind;
};

/* ---- Patterns without a scanner ----
 *
 * These go through PCRE2 and its just-in-time compiler where that works.
 * Letters and numbers are then those of the installed PCRE2, by its version of Unicode. White space
 * is the scanners', and \w, ^ and $ are Oniguruma's (pretok_dialect.h).
 *
 * The subject that PCRE2 sees is the text itself, or a copy with U+FFFD in the place of every byte
 * that is not UTF-8. Positions in a copy are mapped back by walking along both. Because the subject
 * is known to be valid, PCRE2 never checks it, which would take the length of the text for every
 * match.
 *
 * A match that takes too long or too much memory fails. What follows up to the next white space is
 * then one piece: every text has pieces and every walk ends, however evil the pattern is. */
#define MAX_PATTERN_BYTES ((size_t)64 << 10)
#define MATCH_LIMIT 10000000u             /* steps of one match */
#define HEAP_LIMIT_KIB (256u << 10)       /* memory of one match */
#define JIT_STACK_BYTES ((size_t)8 << 20) /* then the interpreter takes over */
#define CUT_WINDOW ((size_t)8 << 10)      /* bytes before the end where a cut is looked for */
#define CUT_TRIES 8

/* PCRE2's own words, for a message. */
static int compile_error(int code, size_t offset)
{
    PCRE2_UCHAR words[256];
    pcre2_get_error_message(code, words, sizeof words);
    return err_set(ERR_INPUT, "the pre-token pattern does not compile: %s (at byte %zu of it)",
                   (const char *)words, offset);
}

static int compile(const char *pattern, pcre2_code **out)
{
    pcre2_compile_context *context =
        mem_checked(pcre2_compile_context_create(NULL), sizeof(pcre2_compile_context *));
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code;
    size_t offset;
    *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
                         &offset, context);
    pcre2_compile_context_free(context);
    if (*out == NULL && code == PCRE2_ERROR_HEAP_FAILED) {
        mem_checked(NULL, strlen(pattern));
    }
    return *out != NULL ? 0 : compile_error(code, offset);
}

/* The compiled pattern of a Pretok that has no scanner. */
static int open_regex(Pretok *pretok)
{
    const char *pattern = pretok->pattern;
    if (strlen(pattern) > MAX_PATTERN_BYTES) {
        return err_set(ERR_INPUT, "the pre-token pattern has %zu bytes; %zu are allowed",
                       strlen(pattern), MAX_PATTERN_BYTES);
    }
    int code = dialect_check(pattern);
    code = code != 0 ? code : compile(pattern, &pretok->code); /* for errors at the right place */
    if (code == 0) {
        pcre2_code_free(pretok->code);
        char *spelled = dialect_spell_out(pattern);
        code = compile(spelled, &pretok->code);
        free(spelled);
    }
    if (code != 0) {
        return code;
    }
    /* Where this fails (no executable memory, a build without it) PCRE2 interprets the pattern. */
    pcre2_jit_compile(pretok->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    uint32_t behind = 0;
    pcre2_pattern_info(pretok->code, PCRE2_INFO_MAXLOOKBEHIND, &behind);
    pretok->looks_behind = behind > 0 || dialect_has_circumflex(pattern);

    pcre2_match_data *data =
        mem_checked(pcre2_match_data_create(1, NULL), sizeof(pcre2_match_data *));
    bool empty = pcre2_match(pretok->code, (PCRE2_SPTR) "", 0, 0, 0, data, NULL) >= 0;
    pcre2_match_data_free(data);
    return empty ? err_set(ERR_INPUT, "the pre-token pattern matches the empty string; "
                                      "use + where it has *")
                 : 0;
}

/* What PCRE2 sees of a text. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    uint8_t *copy; /* holds the bytes when they are not the text's own */
} Subject;

static Subject subject_of(const uint8_t *text, size_t size, uint64_t invalid)
{
    if (invalid == 0) {
        return (Subject){text, size, NULL};
    }
    uint8_t *copy = mem_alloc(size + 2 * (size_t)invalid);
    size_t used = 0;
    for (size_t at = 0; at < size;) {
        int length;
        uint32_t character = utf8_decode(text + at, size - at, &length);
        used += (size_t)utf8_encode(character, copy + used);
        at += (size_t)length;
    }
    return (Subject){copy, used, copy};
}

/* A walk over a subject. A match that lies ahead of the piece's start is kept for the next piece.
 */
typedef struct {
    size_t at;           /* where the next piece starts */
    size_t ahead;        /* end of the match that starts there, or 0 when it is not known yet */
    const uint8_t *text; /* the text behind a copy, and the position in it of */
    size_t text_size, text_at;
    size_t mapped; /* this position in the copy */
} Position;

struct PretokWalk {
    const Pretok *pretok;
    const uint8_t *text;
    size_t size, at;
    uint64_t invalid;
    bool matched; /* the last piece */
    /* Of a pattern without a scanner; zeroed for others. */
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* NULL without just-in-time compiler */
    Subject subject;
    Position position;
};

typedef enum { SEARCH_FOUND, SEARCH_NONE, SEARCH_UNDECIDED, SEARCH_FAILED } Search;

/* The first match in the subject that starts at `from` or later. With PCRE2_PARTIAL_HARD in options
 * SEARCH_UNDECIDED says that the end of the subject had a part in the answer. */
static Search search(PretokWalk *walk, Subject subject, size_t from, uint32_t options,
                     size_t *start, size_t *end)
{
    options |= PCRE2_NO_UTF_CHECK;
    int code = pcre2_match(walk->pretok->code, subject.bytes, subject.size, from, options,
                           walk->data, walk->context);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT) {
        code = pcre2_match(walk->pretok->code, subject.bytes, subject.size, from,
                           options | PCRE2_NO_JIT, walk->data, walk->context);
    }
    if (code == PCRE2_ERROR_NOMATCH || code == PCRE2_ERROR_PARTIAL) {
        return code == PCRE2_ERROR_NOMATCH ? SEARCH_NONE : SEARCH_UNDECIDED;
    }
    const size_t *span = pcre2_get_ovector_pointer(walk->data);
    *start = span[0];
    *end = span[1];
    /* \K in a lookahead can bend a match over itself. */
    return code < 0 || *start < from || *end < *start ? SEARCH_FAILED : SEARCH_FOUND;
}

static size_t after_character(Subject subject, size_t at)
{
    int length = utf8_length(subject.bytes + at, subject.size - at);
    return at + (size_t)length;
}

static size_t next_space(Subject subject, size_t at)
{
    int length;
    do {
        at = after_character(subject, at);
    } while (at < subject.size && unicode_class(utf8_decode(subject.bytes + at, subject.size - at,
                                                            &length)) != CHAR_SPACE);
    return at;
}

/* The piece that starts at position->at < subject.size: its end is the position's next start.
 * SEARCH_FOUND: it is a match. SEARCH_NONE: it lies between matches. Else the position has not
 * moved. A match of nothing is no piece, but ends the one before it; the search goes on behind the
 * character that follows, as in Hugging Face's find_matches. */
static Search next_piece(PretokWalk *walk, Subject subject, uint32_t options, Position *position)
{
    size_t at = position->at, start = at, end = position->ahead;
    Search result = SEARCH_FOUND;
    if (position->ahead == 0) {
        size_t from = at;
        do {
            result = search(walk, subject, from, options, &start, &end);
            if (result != SEARCH_FOUND || end > at) {
                break;
            }
            from = after_character(subject, from);
        } while (true);
    }
    position->ahead = 0;
    if (result == SEARCH_UNDECIDED || (result == SEARCH_NONE && options != 0)) {
        return SEARCH_UNDECIDED;
    }
    if (result == SEARCH_FAILED) {
        return result;
    }
    if (result == SEARCH_NONE) {
        position->at = subject.size;
    } else if (start > at) {
        position->at = start;
        position->ahead = end > start ? end : 0;
        result = SEARCH_NONE;
    } else {
        position->at = end;
    }
    return result;
}

/* The position in the text of position->at. */
static size_t map_back(Position *position, Subject subject)
{
    if (subject.copy == NULL) {
        return position->at;
    }
    while (position->mapped < position->at) {
        size_t left = position->text_size - position->text_at;
        int length = utf8_length(position->text + position->text_at, left);
        position->mapped += length == 0 ? 3 : (size_t)length;
        position->text_at += length == 0 ? 1 : (size_t)length;
    }
    return position->text_at;
}

/* End of the piece at walk->at. */
static size_t next_match(PretokWalk *walk)
{
    Position *position = &walk->position;
    Search result = next_piece(walk, walk->subject, 0, position);
    walk->matched = result == SEARCH_FOUND;
    if (result == SEARCH_FAILED) {
        position->at = next_space(walk->subject, position->at);
    }
    return map_back(position, walk->subject);
}

/* Whether the pieces from `from` to the cut are the same when the text ends at the cut. */
static bool cut_holds(PretokWalk *walk, Subject subject, Position from, size_t cut)
{
    Subject part = {subject.bytes, cut, subject.copy};
    Position whole = from, alone = from;
    while (whole.at < cut) {
        if (next_piece(walk, subject, PCRE2_PARTIAL_HARD, &whole) > SEARCH_NONE ||
            alone.at >= cut || next_piece(walk, part, 0, &alone) > SEARCH_NONE ||
            alone.at != whole.at) {
            return false;
        }
    }
    return whole.at == cut;
}

/* A cut is the end of a match. Two things have to hold: the pieces up to it do not depend on what
 * follows the text, and they stay when nothing follows the cut (a lookahead may have gone past it).
 * Pieces that are decided when the subject ends some way before the text does, without having
 * touched that end, have both for any cut behind it. For the few pieces from there on both are
 * tried. */
static size_t match_cut(PretokWalk *walk, const uint8_t *text, size_t size)
{
    size -= utf8_cut_off(text, size); /* more bytes could make it anything */
    if (size == 0 || walk->pretok->looks_behind) {
        return 0;
    }
    Subject subject = subject_of(text, size, scan_invalid(text, size));
    Subject early = subject;
    early.size = subject.size > CUT_WINDOW ? subject.size - CUT_WINDOW : 0;
    while (early.size > 0 && (subject.bytes[early.size] & 0xc0) == 0x80) {
        early.size--;
    }
    Position certain = {.text = text, .text_size = size}, position;
    while (certain.at < early.size) {
        position = certain;
        if (next_piece(walk, early, PCRE2_PARTIAL_HARD, &position) > SEARCH_NONE) {
            break;
        }
        certain = position;
    }
    size_t ends[CUT_TRIES], count = 0; /* the last matches that end behind early.size */
    position = certain;
    while (position.at < subject.size) {
        Search result = next_piece(walk, subject, PCRE2_PARTIAL_HARD, &position);
        if (result > SEARCH_NONE) {
            break;
        }
        if (result == SEARCH_FOUND && position.at >= early.size) {
            ends[count++ % CUT_TRIES] = position.at;
        }
    }
    size_t cut = 0;
    for (size_t i = 0; i < CUT_TRIES && i < count && cut == 0; i++) {
        size_t end = ends[(count - 1 - i) % CUT_TRIES];
        if (cut_holds(walk, subject, certain, end)) {
            certain.at = end;
            cut = map_back(&certain, subject);
        }
    }
    free(subject.copy);
    return cut;
}

/* ---- Walks ---- */

const char *pretok_names(size_t i)
{
    for (size_t row = 0; row < KNOWN_COUNT; row++) {
        if (known_patterns[row].name != NULL && i-- == 0) {
            return known_patterns[row].name;
        }
    }
    return NULL;
}

bool pretok_reads_as_name(const char *text)
{
    size_t length =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return length > 0 && text[length] == '\0';
}

static bool is_known(const Known *known, const char *pattern)
{
    bool same = known->name != NULL && strcmp(pattern, known->name) == 0;
    for (size_t i = 0; !same && known->regexes[i] != NULL; i++) {
        same = strcmp(pattern, known->regexes[i]) == 0;
    }
    return same;
}

static const Known *find_known(const char *pattern)
{
    const Known *known = known_patterns, *end = known + KNOWN_COUNT;
    while (known < end && !is_known(known, pattern)) {
        known++;
    }
    return known < end ? known : NULL;
}

static bool is_gapless(const Known *known)
{
    return known != NULL && !known->rule.gaps;
}

bool pretok_is_gapless(const char *pattern)
{
    return is_gapless(find_known(pattern));
}

bool pretok_parts_words(const Pretok *pretok)
{
    return is_gapless(pretok->known);
}

bool pretok_is_class(const Pretok *pretok)
{
    return pretok->known != NULL && pretok->known->rule.gaps;
}

int pretok_open(const char *pattern, Pretok **out)
{
    Pretok *pretok = mem_zalloc(1, sizeof *pretok);
    bool named = pretok_reads_as_name(pattern);
    pretok->known = find_known(pattern);
    pretok->pattern =
        mem_strdup(named && pretok->known != NULL ? pretok->known->regexes[0] : pattern);
    int code = 0;
    if (pretok->known == NULL && named) {
        code = err_set(ERR_INPUT,
                       "there is no pattern \"%.60s\", but " PRETOK_LISTED
                       "; a regular expression of one word is written as (?:%.60s)",
                       pattern, pattern);
    } else if (pretok->known == NULL) {
        code = open_regex(pretok);
    }
    if (code != 0) {
        pretok_close(pretok);
    }
    *out = code == 0 ? pretok : NULL;
    return code;
}

void pretok_close(Pretok *pretok)
{
    if (pretok != NULL) {
        pcre2_code_free(pretok->code);
        free(pretok->pattern);
        free(pretok);
    }
}

const char *pretok_regex(const Pretok *pretok)
{
    return pretok->pattern;
}

const char *pretok_identity(const Pretok *pretok)
{
    return pretok->known != NULL ? pretok->known->regexes[0] : pretok->pattern;
}

const char *pretok_name(const Pretok *pretok)
{
    bool named = pretok->known != NULL && pretok->known->name != NULL;
    return named ? pretok->known->name : "regex";
}

PretokWalk *pretok_walk_open(const Pretok *pretok)
{
    PretokWalk *walk = mem_zalloc(1, sizeof *walk);
    walk->pretok = pretok;
    if (pretok->known == NULL) {
        /* Groups are of no interest. */
        walk->data = mem_checked(pcre2_match_data_create(1, NULL), sizeof walk->data);
        walk->context = mem_checked(pcre2_match_context_create(NULL), sizeof walk->context);
        pcre2_set_match_limit(walk->context, MATCH_LIMIT);
        pcre2_set_heap_limit(walk->context, HEAP_LIMIT_KIB);
        walk->stack = pcre2_jit_stack_create((size_t)32 << 10, JIT_STACK_BYTES, NULL);
        if (walk->stack != NULL) {
            pcre2_jit_stack_assign(walk->context, NULL, walk->stack);
        }
    }
    return walk;
}

void pretok_walk_close(PretokWalk *walk)
{
    if (walk != NULL) {
        pcre2_jit_stack_free(walk->stack);
        pcre2_match_context_free(walk->context);
        pcre2_match_data_free(walk->data);
        free(walk->subject.copy);
        free(walk);
    }
}

void pretok_walk_begin(PretokWalk *walk, const uint8_t *text, size_t size)
{
    uint64_t invalid = scan_invalid(text, size);
    walk->text = text;
    walk->size = size;
    walk->at = 0;
    walk->invalid += invalid;
    if (walk->pretok->known == NULL) {
        free(walk->subject.copy);
        walk->subject = subject_of(text, size, invalid);
        walk->position = (Position){.text = text, .text_size = size};
    }
}

bool pretok_walk_next(PretokWalk *walk, size_t *end)
{
    if (walk->at >= walk->size) {
        return false;
    }
    const Known *known = walk->pretok->known;
    walk->matched = known == NULL || !known->rule.gaps ||
                    scan_is_number(walk->text + walk->at, walk->size - walk->at);
    size_t next = known == NULL ? next_match(walk)
                                : known->rule.scan(&known->rule, walk->text, walk->size, walk->at);
    PACER_ASSERT(next > walk->at && next <= walk->size, "piece from %zu to %zu of %zu", walk->at,
                 next, walk->size);
    walk->at = next;
    *end = next;
    return true;
}

bool pretok_walk_matched(const PretokWalk *walk)
{
    return walk->matched;
}

uint64_t pretok_walk_invalid(const PretokWalk *walk)
{
    return walk->invalid;
}

size_t pretok_walk_cut(PretokWalk *walk, const uint8_t *text, size_t size)
{
    const Known *known = walk->pretok->known;
    return known == NULL      ? match_cut(walk, text, size)
           : known->rule.gaps ? scan_numbers_cut(text, size)
                              : scan_cut(text, size);
}
