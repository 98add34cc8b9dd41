#include "text/pretok_scan.h"

#include "text/unicode.h"

#include <stdbool.h>
#include <string.h>

/* Each scanner answers what the alternatives of its pattern, tried in order, would match at a
 * place. All patterns match every character of any text, so pieces follow each other without gaps,
 * and none looks behind its start: a piece depends on what follows alone.
 *
 * ASCII is handled by a table of kinds, and runs of ASCII letters eight bytes at a time:
 * most pieces of an English text end within one such step, without a branch per letter. */
#define CUT_LOOK_BACK ((size_t)64 << 10)
#define LANES(byte) (UINT64_C(0x0101010101010101) * (byte))
#define HIGH_BITS LANES(0x80)

enum { WIDE = 16 }; /* kind of a byte that is not ASCII: the character decides */

#define O CHAR_OTHER
#define U CHAR_UPPER
#define L CHAR_LOWER
#define N CHAR_NUMBER
#define S CHAR_SPACE
#define W8 WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE
static const uint8_t byte_kinds[256] = {
    O,  O,  O,  O,  O,  O,  O,  O,  O,  S,  S,  S,  S,  S,  O,  O,  /* 00: \t \n \v \f \r */
    O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  /* 10 */
    S,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  /* 20: space */
    N,  N,  N,  N,  N,  N,  N,  N,  N,  N,  O,  O,  O,  O,  O,  O,  /* 30 */
    O,  U,  U,  U,  U,  U,  U,  U,  U,  U,  U,  U,  U,  U,  U,  U,  /* 40 */
    U,  U,  U,  U,  U,  U,  U,  U,  U,  U,  U,  O,  O,  O,  O,  O,  /* 50 */
    O,  L,  L,  L,  L,  L,  L,  L,  L,  L,  L,  L,  L,  L,  L,  L,  /* 60 */
    L,  L,  L,  L,  L,  L,  L,  L,  L,  L,  L,  O,  O,  O,  O,  O,  /* 70 */
    W8, W8, W8, W8, W8, W8, W8, W8, W8, W8, W8, W8, W8, W8, W8, W8, /* 80 to ff */
};
#undef O
#undef U
#undef L
#undef N
#undef S
#undef W8

static inline bool is_newline(uint8_t byte)
{
    return byte == '\n' || byte == '\r';
}

/* Kind and length of the character at `at` < size. */
static inline int kind_at(const uint8_t *text, size_t size, size_t at, int *length)
{
    int kind = byte_kinds[text[at]];
    *length = 1;
    if (kind == WIDE) {
        kind = (int)unicode_kind(utf8_decode(text + at, size - at, length));
    }
    return kind;
}

static inline int class_at(const uint8_t *text, size_t size, size_t at, int *length)
{
    return kind_at(text, size, at, length) & CHAR_CLASS_BITS;
}

static inline uint64_t load_lanes(const uint8_t *text)
{
    uint64_t lanes;
    memcpy(&lanes, text, sizeof lanes);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    lanes = __builtin_bswap64(lanes);
#endif
    return lanes;
}

/* The high bit of each lane that is not a small ASCII letter, once the bits of `fold` are set in
 * it: LANES(0x20) makes capitals small. The sums stay within their lanes because their operands
 * are below 0x80 and at most 0x80. */
static inline uint64_t other_lanes(uint64_t lanes, uint64_t fold)
{
    uint64_t lower = (lanes | fold) & ~HIGH_BITS;
    uint64_t from_a = lower + LANES(0x80 - 'a');
    uint64_t past_z = lower + LANES(0x80 - 'z' - 1);
    return (~from_a | past_z | lanes) & HIGH_BITS;
}

/* End of the run of small ASCII letters at `at`, or of letters of either case: see other_lanes. */
static inline size_t skip_ascii(const uint8_t *text, size_t size, size_t at, uint8_t fold)
{
    while (size - at >= 8) {
        uint64_t others = other_lanes(load_lanes(text + at), LANES(fold));
        if (others != 0) {
            return at + (size_t)__builtin_ctzll(others) / 8;
        }
        at += 8;
    }
    while (at < size && (uint8_t)((text[at] | fold) - 'a') < 26) {
        at++;
    }
    return at;
}

/* End of the run of letters at `at`. */
static inline size_t skip_letters(const uint8_t *text, size_t size, size_t at)
{
    for (;;) {
        at = skip_ascii(text, size, at, 0x20);
        size_t ascii_end = at;
        while (at < size && text[at] >= 0x80) {
            int length;
            if (class_at(text, size, at, &length) != CHAR_LETTER) {
                return at;
            }
            at += (size_t)length;
        }
        if (at == ascii_end) {
            return at;
        }
    }
}

/* End of the run of characters of `class` at `at`, of at most `most` characters. */
static inline size_t skip_class(const uint8_t *text, size_t size, size_t at, int class, size_t most)
{
    int length;
    for (size_t i = 0; i < most && at < size && class_at(text, size, at, &length) == class; i++) {
        at += (size_t)length;
    }
    return at;
}

/* Length of 's 't 're 've 'm 'll 'd at the apostrophe, or 0. Without regard to case when `fold`:
 * then U+017F is an s too, as it is for Oniguruma and PCRE2. */
static inline size_t contraction(const uint8_t *text, size_t size, size_t at, bool fold)
{
    uint8_t lower = fold ? 0x20 : 0;
    if (size - at < 2) {
        return 0;
    }
    uint8_t first = text[at + 1] | lower;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
        return 2;
    }
    if (size - at < 3) {
        return 0;
    }
    uint8_t second = text[at + 2] | lower;
    if ((first == 'l' && second == 'l') || ((first == 'v' || first == 'r') && second == 'e')) {
        return 3;
    }
    return fold && text[at + 1] == 0xc5 && text[at + 2] == 0xbf ? 3 : 0;
}

/* \s+(?!\S)|\s+ at a white space: a run that something follows leaves its last character to that,
 * unless it has no other. With `newlines`, \s*[\r\n]+ goes before: up to the last of them; with
 * `keeps_end`, \s++$ before that. */
static size_t skip_spaces(const uint8_t *text, size_t size, size_t at, bool newlines,
                          bool keeps_end)
{
    size_t start = at, last = at, after_newline = 0;
    int length;
    while (at < size && class_at(text, size, at, &length) == CHAR_SPACE) {
        last = at;
        at += (size_t)length;
        if (is_newline(text[last])) {
            after_newline = at;
        }
    }
    if (newlines && after_newline > 0 && !(keeps_end && at == size)) {
        return after_newline;
    }
    return at == size || last == start ? at : last;
}

/* '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t scan_gpt2(const ScanRule *rule, const uint8_t *text, size_t size, size_t at)
{
    (void)rule;
    size_t from = at;
    int length;
    if (text[at] == ' ' && size - at > 1) {
        from++;
    } else if (text[at] == '\'') {
        size_t matched = contraction(text, size, at, false);
        if (matched > 0) {
            return at + matched;
        }
    }
    int class = class_at(text, size, from, &length);
    if (class == CHAR_LETTER) {
        return skip_letters(text, size, from + (size_t)length);
    }
    if (class == CHAR_SPACE) {
        return skip_spaces(text, size, at, false, false);
    }
    return skip_class(text, size, from + (size_t)length, class, SIZE_MAX);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+ with most_digits in the place of 3 and, with keeps_end, \s++$ before
 * \s*[\r\n]+. */
size_t scan_llama3(const ScanRule *rule, const uint8_t *text, size_t size, size_t at)
{
    int length, next_length;
    if (text[at] == '\'') {
        size_t matched = contraction(text, size, at, true);
        if (matched > 0) {
            return at + matched;
        }
    }
    int class = class_at(text, size, at, &length);
    size_t next = at + (size_t)length;
    if (class == CHAR_LETTER) {
        return skip_letters(text, size, next);
    }
    if (class == CHAR_NUMBER) {
        return skip_class(text, size, next, class, rule->most_digits - 1);
    }
    if (next < size && !is_newline(text[at])) {
        int next_class = class_at(text, size, next, &next_length);
        if (next_class == CHAR_LETTER) {
            return skip_letters(text, size, next + (size_t)next_length);
        }
        if (next_class == CHAR_OTHER && text[at] == ' ') {
            class = CHAR_OTHER;
        }
    }
    if (class == CHAR_SPACE) {
        return skip_spaces(text, size, at, true, rule->keeps_end);
    }
    next = skip_class(text, size, next, CHAR_OTHER, SIZE_MAX);
    while (next < size && is_newline(text[next])) {
        next++;
    }
    return next;
}

/* The longest run of [\p{Ll}\p{Lm}\p{Lo}\p{M}] at `at`. */
static size_t skip_small(const uint8_t *text, size_t size, size_t at)
{
    int length;
    for (;;) {
        at = skip_ascii(text, size, at, 0);
        if (at == size) {
            return at;
        }
        int kind = kind_at(text, size, at, &length);
        if (kind != CHAR_LOWER && kind != CHAR_LETTER && kind != CHAR_MARK) {
            return at;
        }
        at += (size_t)length;
    }
}

/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ at `at`: its end, or 0. The first
 * part takes all it can. Where no small letter follows, it gives back down to its last character
 * that is in the second class too, which then is the second part. *upper_end: end of the first
 * part at its longest, which is all capitals when the result is 0. */
static size_t cased_letters(const uint8_t *text, size_t size, size_t at, size_t *upper_end)
{
    size_t uncased_end = 0;
    for (int length; at < size; at += (size_t)length) {
        int kind = kind_at(text, size, at, &length);
        if (kind == CHAR_LOWER) {
            *upper_end = at;
            return skip_small(text, size, at + (size_t)length);
        }
        if (kind == CHAR_LETTER || kind == CHAR_MARK) {
            uncased_end = at + (size_t)length;
        } else if (kind != CHAR_UPPER) {
            break;
        }
    }
    *upper_end = at;
    return uncased_end;
}

/* The two alternatives for words at a character that is neither number nor line break: their
 * match's end without a suffix, or 0. A character that is no letter comes first if it can: when
 * the first alternative fails behind a mark, it still matches the mark alone, before the second
 * is tried. */
static size_t cased_word(const uint8_t *text, size_t size, size_t at)
{
    int length, kind = kind_at(text, size, at, &length);
    bool letter = (kind & CHAR_CLASS_BITS) == CHAR_LETTER;
    size_t from = letter ? at : at + (size_t)length, upper_end;
    size_t end = cased_letters(text, size, from, &upper_end);
    if (end > 0) {
        return end;
    }
    if (kind == CHAR_MARK) {
        return from;
    }
    return upper_end > from ? upper_end : 0;
}

/* [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+SUFFIX|
 * [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*SUFFIX|
 * \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ with most_digits in the place of 3
 * and, with suffixes, (?i:'s|'t|'re|'ve|'m|'ll|'d)? in that of SUFFIX. */
size_t scan_cased(const ScanRule *rule, const uint8_t *text, size_t size, size_t at)
{
    int length, class = class_at(text, size, at, &length);
    size_t next = at + (size_t)length;
    if (class == CHAR_NUMBER) {
        return skip_class(text, size, next, class, rule->most_digits - 1);
    }
    size_t word = is_newline(text[at]) ? 0 : cased_word(text, size, at);
    if (word > 0) {
        bool suffix = rule->suffixes && word < size && text[word] == '\'';
        return suffix ? word + contraction(text, size, word, true) : word;
    }
    bool before_other =
        text[at] == ' ' && next < size && class_at(text, size, next, &length) == CHAR_OTHER;
    if (class == CHAR_SPACE && !before_other) {
        return skip_spaces(text, size, at, true, false);
    }
    next = skip_class(text, size, next, CHAR_OTHER, SIZE_MAX);
    while (next < size && (is_newline(text[next]) || text[next] == '/')) {
        next++;
    }
    return next;
}

bool scan_is_number(const uint8_t *text, size_t size)
{
    int length;
    return class_at(text, size, 0, &length) == CHAR_NUMBER;
}

/* \p{N}{1,most_digits}, or what lies between two matches. */
size_t scan_numbers(const ScanRule *rule, const uint8_t *text, size_t size, size_t at)
{
    if (scan_is_number(text + at, size - at)) {
        return skip_class(text, size, at, CHAR_NUMBER, rule->most_digits);
    }
    for (int length; at < size && class_at(text, size, at, &length) != CHAR_NUMBER;) {
        at += (size_t)length;
    }
    return at;
}

size_t scan_numbers_cut(const uint8_t *text, size_t size)
{
    size_t lowest = size > CUT_LOOK_BACK ? size - CUT_LOOK_BACK : 1;
    for (size_t cut = size - utf8_cut_off(text, size); cut-- > lowest;) {
        if ((text[cut] & 0xc0) != 0x80 && text[cut - 1] < 0x80 &&
            scan_is_number(text + cut, size - cut) != scan_is_number(text + cut - 1, 1)) {
            return cut;
        }
    }
    return 0;
}

static bool goes_on_behind_letter(uint32_t character)
{
    CharKind kind = unicode_kind(character);
    return (kind & CHAR_CLASS_BITS) == CHAR_LETTER || kind == CHAR_MARK || character == '\'';
}

bool scan_parts(uint32_t letter, uint32_t next)
{
    return unicode_class(letter) == CHAR_LETTER && !goes_on_behind_letter(next);
}

/* A letter followed by neither a letter nor a mark nor an apostrophe ends a piece in every pattern
 * above, whatever is around them: letters are matched by words and contractions alone, which go on
 * with nothing else. */
size_t scan_cut(const uint8_t *text, size_t size)
{
    size_t lowest = size > CUT_LOOK_BACK ? size - CUT_LOOK_BACK : 1;
    for (size_t cut = size; cut-- > lowest;) {
        int length = utf8_length(text + cut, size - cut);
        if (length == 0 || goes_on_behind_letter(utf8_decode(text + cut, size - cut, &length))) {
            continue;
        }
        size_t start = cut - 1;
        while (start > 0 && cut - start < 4 && (text[start] & 0xc0) == 0x80) {
            start--;
        }
        uint32_t before = utf8_decode(text + start, cut - start, &length);
        if (start + (size_t)length == cut && unicode_class(before) == CHAR_LETTER) {
            return cut;
        }
    }
    return 0;
}

uint64_t scan_invalid(const uint8_t *text, size_t size)
{
    uint64_t invalid = 0;
    size_t at = 0;
    while (at < size) {
        if (text[at] >= 0x80) {
            int length = utf8_length(text + at, size - at);
            invalid += length == 0;
            at += length == 0 ? 1 : (size_t)length;
            continue;
        }
        at++;
        while (size - at >= 32 && ((load_lanes(text + at) | load_lanes(text + at + 8) |
                                    load_lanes(text + at + 16) | load_lanes(text + at + 24)) &
                                   HIGH_BITS) == 0) {
            at += 32;
        }
    }
    return invalid;
}
