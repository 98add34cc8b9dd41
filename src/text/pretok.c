#include "text/pretok.h"

#include "base/assert.h"
#include "base/mem.h"
#include "text/pretok_internal.h"

#include <stdlib.h>
#include <string.h>

#define LLAMA_PATTERN(contractions, digits)               \
    contractions "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2_PATTERN(contractions) \
    contractions "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

typedef struct {
    const char *name;
    const char *regexes[2]; /* spellings of the same; pretok_regex gives the first */
    int most_digits;        /* of scan_llama3; 0: scan_gpt2 */
} Known;

static const Known known_patterns[] = {
    {PRETOK_GPT2,
     {GPT2_PATTERN("'s|'t|'re|'ve|'m|'ll|'d"), GPT2_PATTERN("'(?:[sdmt]|ll|ve|re)")},
     0},
    {PRETOK_LLAMA3,
     {LLAMA_PATTERN("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "\\p{N}{1,3}"),
      LLAMA_PATTERN("'(?i:[sdmt]|ll|ve|re)", "\\p{N}{1,3}")},
     3},
    {PRETOK_QWEN2,
     {LLAMA_PATTERN("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "\\p{N}"),
      LLAMA_PATTERN("'(?i:[sdmt]|ll|ve|re)", "\\p{N}")},
     1},
};

struct Pretok {
    const Known *known; /* NULL: the pattern is `regex` */
    char *pattern;      /* owned; NULL when known */
    Regex *regex;
};

static const Known *find_known(const char *pattern)
{
    for (size_t i = 0; i < sizeof known_patterns / sizeof known_patterns[0]; i++) {
        const Known *known = &known_patterns[i];
        if (strcmp(pattern, known->name) == 0 || strcmp(pattern, known->regexes[0]) == 0 ||
            strcmp(pattern, known->regexes[1]) == 0) {
            return known;
        }
    }
    return NULL;
}

int pretok_open(const char *pattern, Pretok **out)
{
    *out = NULL;
    const Known *known = find_known(pattern);
    Regex *regex = NULL;
    int code = known != NULL ? 0 : regex_open(pattern, &regex);
    if (code != 0) {
        return code;
    }
    Pretok *pretok = mem_zalloc(1, sizeof *pretok);
    pretok->known = known;
    pretok->pattern = known != NULL ? NULL : mem_strdup(pattern);
    pretok->regex = regex;
    *out = pretok;
    return 0;
}

void pretok_close(Pretok *pretok)
{
    if (pretok != NULL) {
        regex_close(pretok->regex);
        free(pretok->pattern);
        free(pretok);
    }
}

const char *pretok_regex(const Pretok *pretok)
{
    return pretok->known != NULL ? pretok->known->regexes[0] : pretok->pattern;
}

const char *pretok_name(const Pretok *pretok)
{
    return pretok->known != NULL ? pretok->known->name : "regex";
}

struct PretokWalk {
    int most_digits;  /* Known's */
    RegexWalk *regex; /* NULL when the pattern has a scanner */
    const uint8_t *text;
    size_t size, at;
    uint64_t invalid;
};

PretokWalk *pretok_walk_open(const Pretok *pretok)
{
    PretokWalk *walk = mem_zalloc(1, sizeof *walk);
    if (pretok->known != NULL) {
        walk->most_digits = pretok->known->most_digits;
    } else {
        walk->regex = regex_walk_open(pretok->regex);
    }
    return walk;
}

void pretok_walk_close(PretokWalk *walk)
{
    if (walk != NULL) {
        regex_walk_close(walk->regex);
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
    if (walk->regex != NULL) {
        regex_walk_begin(walk->regex, text, size, invalid);
    }
}

bool pretok_walk_next(PretokWalk *walk, size_t *end)
{
    if (walk->at >= walk->size) {
        return false;
    }
    size_t next = walk->at;
    if (walk->regex != NULL) {
        regex_walk_next(walk->regex, &next);
    } else if (walk->most_digits > 0) {
        next = scan_llama3(walk->text, walk->size, walk->at, walk->most_digits);
    } else {
        next = scan_gpt2(walk->text, walk->size, walk->at);
    }
    PACER_ASSERT(next > walk->at && next <= walk->size, "piece from %zu to %zu of %zu", walk->at,
                 next, walk->size);
    walk->at = next;
    *end = next;
    return true;
}

uint64_t pretok_walk_invalid(const PretokWalk *walk)
{
    return walk->invalid;
}

size_t pretok_walk_cut(PretokWalk *walk, const uint8_t *text, size_t size)
{
    return walk->regex != NULL ? regex_walk_cut(walk->regex, text, size) : scan_cut(text, size);
}
