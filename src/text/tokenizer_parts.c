#include "text/tokenizer_parts.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NESTED 8 /* sequences within sequences */
/* Hugging Face's Punctuation: that of ASCII, symbols included, and of Unicode. */
#define PUNCTUATION "[!-/:-@\\[-`{-~\\p{P}]"

/* The name of a part's type, for comparisons and messages. */
static const char *type_of(const cJSON *part)
{
    const cJSON *type = json_get(part, "type");
    return cJSON_IsString(type)    ? type->valuestring
           : json_is_nothing(part) ? "null"
                                   : "without a type";
}

bool part_is(const cJSON *part, const char *type)
{
    return cJSON_IsObject(part) && strcmp(type_of(part), type) == 0;
}

int part_flag(const cJSON *item, const char *key, bool otherwise, bool *flag)
{
    const cJSON *value = json_get(item, key);
    if (value != NULL && !cJSON_IsBool(value)) {
        return err_set(ERR_INPUT, "\"%s\" must be true or false", key);
    }
    *flag = value == NULL ? otherwise : cJSON_IsTrue(value);
    return 0;
}

/* A member that is text; NULL with an error set when it is none, or empty where it must not be. */
static const char *get_text(const cJSON *item, const char *key, bool may_be_empty)
{
    const cJSON *value = json_get(item, key);
    if (!cJSON_IsString(value) || (!may_be_empty && value->valuestring[0] == '\0')) {
        err_set(ERR_INPUT, "\"%s\" must be a string%s", key,
                may_be_empty ? "" : ", and not an empty one");
        return NULL;
    }
    return value->valuestring;
}

/* The text of a pattern that is one, and no regular expression. */
static const char *get_string_pattern(const cJSON *part)
{
    const cJSON *pattern = json_get(part, "pattern");
    if (json_get(pattern, "Regex") != NULL) {
        err_set(ERR_INPUT, "a pattern that is a Regex is not supported here; it must be a String");
        return NULL;
    }
    return get_text(pattern, "String", false);
}

/* A member that is one character. */
static int get_character(const cJSON *item, const char *key, uint32_t *character)
{
    const char *text = get_text(item, key, false);
    if (text == NULL) {
        return ERR_INPUT;
    }
    int length;
    *character = utf8_decode((const uint8_t *)text, strlen(text), &length);
    return (size_t)length == strlen(text)
               ? 0
               : err_set(ERR_INPUT, "\"%s\" must be one character, not \"%.20s\"", key, text);
}

/* What was met so far. */
typedef struct {
    Tokenizer *tokenizer;
    bool byte_level;  /* pre-tokenizer or decoder ByteLevel */
    bool in_alphabet; /* a pre-tokenizer behind ByteLevel sees its characters */
    bool fused;       /* a decoder has made one text of all tokens */
} Reading;

/* Calls `read` for the part, or for each part of a Sequence, whose list is called `list`. */
typedef int (*ReadPart)(Reading *reading, const cJSON *part);
static int for_each(Reading *r, const cJSON *part, const char *list, ReadPart read, int depth)
{
    if (!part_is(part, "Sequence")) {
        int code = read(r, part);
        return code != 0 ? err_wrap(code, "%.60s", type_of(part)) : 0;
    }
    const cJSON *items = json_get(part, list), *item;
    if (!cJSON_IsArray(items) || depth == MOST_NESTED) {
        return err_set(ERR_INPUT, "Sequence: %s",
                       depth == MOST_NESTED ? "too many of them within each other"
                                            : "has no list of its parts");
    }
    int code = 0;
    size_t index = 0;
    cJSON_ArrayForEach(item, items)
    {
        code = code != 0 ? code : for_each(r, item, list, read, depth + 1);
        if (code != 0) {
            return err_wrap(code, "%s[%zu]", list, index);
        }
        index++;
    }
    return code;
}

/* Keeps a part for what is written. */
static void keep(Tokenizer *t, int part, const cJSON *root)
{
    const cJSON *item = json_get(root, tokenizer_part_names[part]);
    free(t->parts[part]);
    t->parts[part] = json_is_nothing(item) ? mem_strdup("null") : json_line(item);
}

/* ---- Normalizer ---- */

static int read_normalizer(Reading *r, const cJSON *part)
{
    static const struct {
        const char *type;
        NormalizeKind kind;
    } known[] = {{"NFC", NORMALIZE_NFC},
                 {"NFD", NORMALIZE_NFD},
                 {"NFKC", NORMALIZE_NFKC},
                 {"NFKD", NORMALIZE_NFKD},
                 {"Lowercase", NORMALIZE_LOWERCASE},
                 {"Prepend", NORMALIZE_PREPEND},
                 {"Replace", NORMALIZE_REPLACE}};
    size_t i = 0;
    while (i < sizeof known / sizeof *known && !part_is(part, known[i].type)) {
        i++;
    }
    if (i == sizeof known / sizeof *known) {
        return err_set(ERR_INPUT, "not supported; pacer knows NFC, NFD, NFKC, NFKD, Lowercase, "
                                  "Prepend, Replace and Sequences of them");
    }
    const char *from = NULL, *to = NULL;
    if (known[i].kind == NORMALIZE_PREPEND) {
        to = get_text(part, "prepend", true);
    } else if (known[i].kind == NORMALIZE_REPLACE) {
        from = get_string_pattern(part);
        to = from != NULL ? get_text(part, "content", true) : NULL;
    }
    if (known[i].kind >= NORMALIZE_PREPEND && to == NULL) {
        return ERR_INPUT;
    }
    normalizer_add(&r->tokenizer->normalizer, known[i].kind, from, to);
    return 0;
}

/* ---- Pre-tokenizer ---- */

static int add_pattern(Tokenizer *t, const char *pattern, SplitBehavior behavior, bool inverted)
{
    SplitStep step = {.kind = STEP_SPLIT, .behavior = behavior, .inverted = inverted};
    int code = pretok_open(pattern, &step.pretok);
    if (code == 0) {
        splits_add(&t->splits, step);
    }
    return code;
}

/* *removed: what is matched (or with `invert` what is not) is left out of the text. */
static int get_behavior(const cJSON *part, SplitBehavior *behavior, bool *removed)
{
    static const struct {
        const char *name;
        SplitBehavior behavior;
    } known[] = {{"Isolated", SPLIT_ISOLATED},
                 {"Contiguous", SPLIT_CONTIGUOUS},
                 {"MergedWithPrevious", SPLIT_WITH_PREVIOUS},
                 {"MergedWithNext", SPLIT_WITH_NEXT}};
    const char *name = json_text_or(part, "behavior", "Isolated");
    *removed = strcmp(name, "Removed") == 0;
    *behavior = SPLIT_ISOLATED;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) == 0) {
            *behavior = known[i].behavior;
            return 0;
        }
    }
    return *removed ? 0
                    : err_set(ERR_INPUT,
                              "behavior %.60s is not supported; pacer knows Isolated, Contiguous, "
                              "MergedWithPrevious and MergedWithNext",
                              name);
}

/* The text as a regular expression that matches it. */
static char *quoted(const char *text)
{
    char *regex = mem_alloc(2 * strlen(text) + 1), *out = regex;
    for (; *text != '\0'; text++) {
        if (strchr("\\^$.|?*+()[]{}-#&~", *text) != NULL) {
            *out++ = '\\';
        }
        *out++ = *text;
    }
    *out = '\0';
    return regex;
}

static int read_split(Tokenizer *t, const cJSON *part)
{
    const cJSON *pattern = json_get(part, "pattern"), *regex = json_get(pattern, "Regex");
    const char *string = regex != NULL ? NULL : get_string_pattern(part);
    SplitBehavior behavior;
    bool inverted, removed;
    if (regex != NULL ? !cJSON_IsString(regex) : string == NULL) {
        return err_set(ERR_INPUT, "pattern must be a Regex or a String, and not empty");
    }
    int code = get_behavior(part, &behavior, &removed);
    code = code != 0 ? code : part_flag(part, "invert", false, &inverted);
    if (code != 0) {
        return code;
    }
    /* What is no match is removed: nothing, where every text is all matches. */
    if (removed && !(inverted && string == NULL && pretok_is_gapless(regex->valuestring))) {
        return err_set(ERR_INPUT, "behavior Removed is not supported: pacer leaves out no text");
    }
    if (string != NULL && t->splits.count == 0 && normalizer_removes(&t->normalizer, string)) {
        return 0; /* never matches */
    }
    /* In a file it is a regular expression, and no name of pacer's. */
    const char *text = regex != NULL ? regex->valuestring : NULL;
    char *given = text == NULL                 ? quoted(string)
                  : pretok_reads_as_name(text) ? mem_format("(?:%s)", text)
                                               : mem_strdup(text);
    char *meant = text == NULL && pretok_reads_as_name(given) ? mem_format("(?:%s)", given)
                                                              : mem_strdup(given);
    code = add_pattern(t, meant, behavior, inverted && !removed);
    free(given);
    free(meant);
    return code;
}

/* "use_regex" is missing in old files, where it was always on. */
static int read_byte_level(Reading *r, const cJSON *part)
{
    Tokenizer *t = r->tokenizer;
    bool prefix, regex;
    if (r->byte_level) {
        return err_set(ERR_INPUT, "is there twice");
    }
    r->byte_level = true;
    if (json_get(part, "add_prefix_space") == NULL) {
        return err_set(ERR_INPUT, "has no \"add_prefix_space\"");
    }
    int code = part_flag(part, "add_prefix_space", false, &prefix);
    code = code != 0 ? code : part_flag(part, "use_regex", true, &regex);
    if (code == 0 && prefix) {
        splits_add(&t->splits, (SplitStep){.kind = STEP_SPACE});
    }
    return code == 0 && regex ? add_pattern(t, PRETOK_GPT2, SPLIT_ISOLATED, false) : code;
}

static int read_metaspace(Tokenizer *t, const cJSON *part)
{
    static const char *const schemes[] = {
        [PREPEND_NEVER] = "never", [PREPEND_FIRST] = "first", [PREPEND_ALWAYS] = "always"};
    SplitStep step = {.kind = STEP_METASPACE};
    const char *scheme = json_text_or(part, "prepend_scheme", schemes[PREPEND_ALWAYS]);
    bool prefix;
    int code = get_character(part, "replacement", &step.sign);
    code = code != 0 ? code : part_flag(part, "add_prefix_space", true, &prefix);
    code = code != 0 ? code : part_flag(part, "split", true, &step.parts);
    while (code == 0 && step.scheme <= PREPEND_ALWAYS &&
           strcmp(scheme, schemes[step.scheme]) != 0) {
        step.scheme++;
    }
    if (code == 0 && (step.scheme > PREPEND_ALWAYS || (!prefix && step.scheme != PREPEND_NEVER))) {
        code = err_set(ERR_INPUT, "prepend_scheme %.60s is not supported%s", scheme,
                       prefix ? "; pacer knows never, first and always"
                              : " with add_prefix_space false");
    }
    if (code == 0) {
        splits_add(&t->splits, step);
    }
    return code;
}

static int read_pre_tokenizer(Reading *r, const cJSON *part)
{
    Tokenizer *t = r->tokenizer;
    SplitBehavior behavior = SPLIT_ISOLATED;
    bool flag = false;
    int code = 0;
    if (part_is(part, "ByteLevel")) {
        return read_byte_level(r, part);
    }
    if (r->byte_level && !r->in_alphabet) {
        splits_add(&t->splits, (SplitStep){.kind = STEP_ALPHABET});
        r->in_alphabet = true;
    }
    if (part_is(part, "Split")) {
        return read_split(t, part);
    }
    if (part_is(part, "Metaspace")) {
        return r->in_alphabet ? err_set(ERR_INPUT, "is not supported behind ByteLevel")
                              : read_metaspace(t, part);
    }
    if (part_is(part, "Digits")) {
        code = part_flag(part, "individual_digits", false, &flag);
        behavior = flag ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        return code != 0 ? code : add_pattern(t, "\\p{N}", behavior, false);
    }
    if (part_is(part, "Punctuation")) {
        code = get_behavior(part, &behavior, &flag);
        code =
            code == 0 && flag
                ? err_set(ERR_INPUT, "behavior Removed is not supported: pacer leaves out no text")
                : code;
        return code != 0 ? code : add_pattern(t, PUNCTUATION, behavior, false);
    }
    return err_set(ERR_INPUT, "not supported; pacer knows ByteLevel, Split, Digits, Punctuation, "
                              "Metaspace and Sequences of them");
}

/* ---- Decoder ---- */

static int read_strip(Reading *r, const cJSON *part)
{
    Decoder *decoder = &r->tokenizer->decoder;
    int64_t start, stop;
    int code = get_character(part, "content", &decoder->stripped);
    if (code == 0 && (!json_whole(json_get(part, "start"), UINT32_MAX, &start) ||
                      !json_whole(json_get(part, "stop"), UINT32_MAX, &stop))) {
        code = err_set(ERR_INPUT, "\"start\" and \"stop\" must be whole numbers from 0 on");
    }
    if (code == 0 && (stop != 0 || !r->fused || decoder->strip > 0)) {
        code = err_set(ERR_INPUT, "%s",
                       stop != 0 ? "stop must be 0" : "must follow Fuse, and be the only one");
    }
    decoder->strip = code == 0 ? (uint32_t)start : 0;
    return code;
}

static int read_replace(Reading *r, const cJSON *part)
{
    Decoder *decoder = &r->tokenizer->decoder;
    const char *from = get_string_pattern(part);
    const char *to = from != NULL ? get_text(part, "content", true) : NULL;
    if (to == NULL) {
        return ERR_INPUT;
    }
    if (r->fused || decoder->byte_fallback) {
        return err_set(ERR_INPUT, "must come before ByteFallback and Fuse");
    }
    decoder_add(decoder, from, to, false);
    return 0;
}

/* In the first token of a text the sign is nothing, unless none is put there. */
static int read_metaspace_decoder(Reading *r, const cJSON *part)
{
    Decoder *decoder = &r->tokenizer->decoder;
    uint32_t character;
    char sign[5] = "";
    int code = get_character(part, "replacement", &character);
    if (code == 0 && (r->fused || decoder->byte_fallback)) {
        code = err_set(ERR_INPUT, "must come before ByteFallback and Fuse");
    }
    if (code != 0) {
        return code;
    }
    utf8_encode(character, (uint8_t *)sign);
    if (strcmp(json_text_or(part, "prepend_scheme", "always"), "never") != 0) {
        decoder_add(decoder, sign, "", true);
        decoder->first_differs = true;
    }
    decoder_add(decoder, sign, " ", false);
    return 0;
}

static int read_decoder(Reading *r, const cJSON *part)
{
    Tokenizer *t = r->tokenizer;
    if (part_is(part, "Fuse")) {
        r->fused = true;
        return 0;
    }
    if (!t->characters && part_is(part, "ByteLevel") && !r->byte_level) {
        r->byte_level = true;
        return 0;
    }
    if (!t->characters) {
        return err_set(ERR_INPUT, "not supported with byte-level BPE, whose decoder is ByteLevel");
    }
    if (part_is(part, "ByteFallback") && !r->fused) {
        t->decoder.byte_fallback = true;
        return 0;
    }
    return part_is(part, "Replace") ? read_replace(r, part)
           : part_is(part, "Strip") ? read_strip(r, part)
           : part_is(part, "Metaspace")
               ? read_metaspace_decoder(r, part)
               : err_set(ERR_INPUT, "not supported here; pacer knows Replace, "
                                    "ByteFallback, Fuse, Strip and Metaspace, and "
                                    "with byte-level BPE ByteLevel");
}

/* ---- All three ---- */

/* One pattern and bytes: what most tokenizers have, and what is written without the part itself. */
static bool is_plain(const Splits *splits)
{
    return splits->count == 1 && splits->steps->kind == STEP_SPLIT &&
           splits->steps->behavior == SPLIT_ISOLATED;
}

static int read_part(Reading *r, const cJSON *root, int part, const char *list, ReadPart read)
{
    const cJSON *item = json_get(root, tokenizer_part_names[part]);
    int code = json_is_nothing(item) ? 0 : for_each(r, item, list, read, 0);
    return code != 0 ? err_wrap(code, "%s", tokenizer_part_names[part]) : 0;
}

int tokenizer_read_parts(Tokenizer *tokenizer, const cJSON *root)
{
    Tokenizer *t = tokenizer;
    Reading r = {.tokenizer = t}, decoder = {.tokenizer = t};
    int code = read_part(&r, root, PART_NORMALIZER, "normalizers", read_normalizer);
    code = code != 0 ? code
                     : read_part(&r, root, PART_PRE_TOKENIZER, "pretokenizers", read_pre_tokenizer);
    t->characters = !r.byte_level;
    code = code != 0 ? code : read_part(&decoder, root, PART_DECODER, "decoders", read_decoder);
    if (code != 0) {
        return code;
    }
    if (t->characters && json_is_nothing(json_get(root, tokenizer_part_names[PART_DECODER]))) {
        return err_set(ERR_INPUT,
                       "decoder null is not supported with pre_tokenizer %.60s: tokens "
                       "would not become the text again",
                       type_of(json_get(root, tokenizer_part_names[PART_PRE_TOKENIZER])));
    }
    if (t->normalizer.count > 0) {
        keep(t, PART_NORMALIZER, root);
    }
    if (!t->characters && is_plain(&t->splits)) {
        t->pretok = t->splits.steps->pretok;
        t->splits.steps->pretok = NULL;
        splits_free(&t->splits);
    } else {
        keep(t, PART_PRE_TOKENIZER, root);
    }
    if (t->characters) {
        keep(t, PART_DECODER, root);
    }
    return 0;
}
