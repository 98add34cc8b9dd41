/* A tokenizer over characters with byte fallback (Llama 2, Mistral, Gemma) in GGUF, as llama.cpp
 * has those of SentencePiece: a score per token instead of merges with ranks.
 *
 * llama.cpp joins the neighbours whose text is the token of the highest score, of several the
 * leftmost, whatever merges there are. A merge inside what becomes a token does not depend on what
 * is around it, so a token is only ever made by the last merge of its own text alone, in either
 * way. With minus the rank of that merge as its score, both ways give the same tokens of every text
 * exactly if they make each token of its own text by the same merge, or neither does. That is
 * checked of every token. */
#include "exchange/gguf.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST 1024 /* bytes of a token whose merges are tried */
#define NONE UINT32_MAX

/* How a text becomes one token, if it does. */
typedef struct {
    size_t left; /* bytes of the left side of the last merge; 0: it does not */
    uint32_t rank;
} Made;

typedef struct {
    const Tokenizer *tokenizer;
    Made *made; /* by id; by the tokenizer's merges */
} Vocab;

static bool has(Token token, const char *text)
{
    return memmem(token.bytes, token.size, text, strlen(text)) != NULL;
}

static ShownToken shown(Token token)
{
    return token_shown(token.bytes, token.size);
}

/* --- merges and scores --- */

/* A neighbour of a text that is being merged, from its start to the next one's. */
typedef struct {
    size_t start;
    uint32_t id; /* NONE: no token */
} Symbol;

/* The priority of joining two neighbours, least first, and the token they become; false: they are
 * not joined. */
typedef bool (*Joins)(const Vocab *vocab, const Symbol *left, size_t end, const uint8_t *bytes,
                      uint32_t *priority, uint32_t *id);

static bool joins_by_merge(const Vocab *vocab, const Symbol *left, size_t end, const uint8_t *bytes,
                           uint32_t *priority, uint32_t *id)
{
    (void)end;
    (void)bytes;
    return left[0].id != NONE && left[1].id != NONE &&
           tokenizer_merge_of(vocab->tokenizer, left[0].id, left[1].id, priority, id);
}

static uint32_t priority_of(const Vocab *vocab, uint32_t id)
{
    return vocab->made[id].left > 0 ? vocab->made[id].rank
                                    : (uint32_t)vocab->tokenizer->merge_count;
}

static bool joins_by_score(const Vocab *vocab, const Symbol *left, size_t end, const uint8_t *bytes,
                           uint32_t *priority, uint32_t *id)
{
    if (!tokenizer_find(vocab->tokenizer, bytes + left->start, end - left->start, id)) {
        return false;
    }
    *priority = priority_of(vocab, *id);
    return true;
}

static Made merge_alone(const Vocab *vocab, Token token, Joins joins)
{
    Symbol symbols[LONGEST + 1];
    size_t count = 0;
    for (size_t at = 0; at < token.size; count++) {
        size_t length = (size_t)utf8_length(token.bytes + at, token.size - at);
        length = length > 0 ? length : 1;
        symbols[count].start = at;
        if (!tokenizer_find(vocab->tokenizer, token.bytes + at, length, &symbols[count].id)) {
            symbols[count].id = NONE;
        }
        at += length;
    }
    symbols[count].start = token.size;
    Made made = {0};
    while (count > 1) {
        size_t best = count;
        uint32_t least = NONE, result = NONE;
        for (size_t i = 0; i + 1 < count; i++) {
            uint32_t priority, id;
            if (joins(vocab, &symbols[i], symbols[i + 2].start, token.bytes, &priority, &id) &&
                priority < least) {
                best = i;
                least = priority;
                result = id;
            }
        }
        if (best == count) {
            return (Made){0};
        }
        made = (Made){symbols[best + 1].start - symbols[best].start, least};
        symbols[best].id = result;
        memmove(&symbols[best + 1], &symbols[best + 2], (count - best - 1) * sizeof *symbols);
        count--;
    }
    return made;
}

static bool is_character(Token token)
{
    return (size_t)utf8_length(token.bytes, token.size) == token.size;
}

static int refuse_token(Token token, Made here, Made there)
{
    ShownToken whole = shown(token);
    if (here.left == 0 || there.left == 0) {
        return err_set(ERR_INPUT,
                       "--format gguf: token %s is made by %s; llama.cpp, which has no merges, "
                       "would %s it",
                       whole.text, here.left == 0 ? "no merge" : "merges",
                       here.left == 0 ? "make" : "not make");
    }
    ShownToken left = token_shown(token.bytes, here.left);
    ShownToken other = token_shown(token.bytes, there.left);
    return err_set(ERR_INPUT,
                   "--format gguf: the merges make token %s from %s on; llama.cpp, which has one "
                   "rank for all merges of a token, would make it from %s on",
                   whole.text, left.text, other.text);
}

static int check_merges(const Vocab *vocab)
{
    const Tokenizer *t = vocab->tokenizer;
    uint8_t byte;
    for (size_t i = 0; i < t->merge_count; i++) {
        Token sides[] = {t->tokens[t->merges[i].left], t->tokens[t->merges[i].right]};
        for (int s = 0; s < 2; s++) {
            if (token_is_byte(sides[s].bytes, sides[s].size, &byte)) {
                return err_set(ERR_INPUT, "--format gguf: a merge of %s; llama.cpp merges no bytes",
                               shown(sides[s]).text);
            }
        }
    }
    for (uint32_t id = 0; id < t->vocab; id++) {
        Token token = t->tokens[id];
        if (token.size > LONGEST) {
            return err_set(ERR_INPUT, "--format gguf: token %u has %u bytes, more than %d", id,
                           token.size, LONGEST);
        }
        if (token.size > 0 && !is_character(token)) {
            vocab->made[id] = merge_alone(vocab, token, joins_by_merge);
        }
    }
    for (uint32_t id = 0; id < t->vocab; id++) {
        Token token = t->tokens[id];
        /* no text between has the text of an added token, nor a space */
        bool never = gguf_is_found_first(t, id) && !has(token, GGUF_SIGN);
        if (token.size == 0 || never || has(token, " ") || is_character(token)) {
            continue;
        }
        Made here = vocab->made[id], there = merge_alone(vocab, token, joins_by_score);
        if (here.left != there.left) {
            return refuse_token(token, here, there);
        }
        if (here.left == 0 && t->ignore_merges && gguf_token_type(t, id) == TOKEN_NORMAL) {
            return err_set(ERR_INPUT, "--format gguf: ignore_merges, with token %s by no merge",
                           shown(token).text);
        }
    }
    return 0;
}

/* --- texts --- */

/* Whether llama.cpp puts a space before texts. It writes spaces as GGUF_SIGN, and that is all. */
static int check_normalizer(const Tokenizer *t, bool *prefix)
{
    bool replaced = false;
    *prefix = false;
    for (size_t i = 0; i < t->normalizer.count; i++) {
        const NormalizeStep *step = &t->normalizer.steps[i];
        if (step->kind == NORMALIZE_REPLACE && !replaced && strcmp(step->from, " ") == 0 &&
            strcmp(step->to, GGUF_SIGN) == 0) {
            replaced = true;
        } else if (step->kind == NORMALIZE_PREPEND && !*prefix &&
                   (strcmp(step->to, GGUF_SIGN) == 0 ||
                    (!replaced && strcmp(step->to, " ") == 0))) {
            *prefix = true;
        } else {
            return gguf_refuse_normalizer(step->kind);
        }
    }
    const SplitStep *meta = splits_metaspace(&t->splits);
    uint8_t sign[4];
    if (meta != NULL && (utf8_encode(meta->sign, sign) != 3 || memcmp(sign, GGUF_SIGN, 3) != 0)) {
        return err_set(ERR_INPUT, "--format gguf: Metaspace writes spaces as another sign than %s",
                       GGUF_SIGN);
    }
    if (!replaced && meta == NULL) {
        return err_set(ERR_INPUT,
                       "--format gguf: the tokenizer leaves spaces as they are; llama.cpp writes "
                       "them as %s",
                       GGUF_SIGN);
    }
    return 0;
}

/* Pieces, which llama.cpp does not know: there must be one, or no merge across its ends. */
static int check_splits(const Tokenizer *t, bool *prefix)
{
    const SplitStep *meta = splits_metaspace(&t->splits);
    bool blind = t->pretok == NULL && t->splits.count == 1 && meta == NULL &&
                 t->splits.steps[0].kind == STEP_SPLIT && !t->splits.steps[0].inverted &&
                 strcmp(pretok_name(t->splits.steps[0].pretok), " ") == 0 &&
                 normalizer_removes(&t->normalizer, " ");
    if (t->pretok != NULL || t->splits.count > 1 || (t->splits.count == 1 && !blind && !meta)) {
        return err_set(ERR_INPUT, "--format gguf: llama.cpp does not cut text as the pre_tokenizer "
                                  "of this tokenizer does");
    }
    for (uint32_t id = 0; meta != NULL && meta->parts && id < t->vocab; id++) {
        Token token = t->tokens[id];
        if (token.size > 1 && gguf_token_type(t, id) == TOKEN_NORMAL &&
            memmem(token.bytes + 1, token.size - 1, GGUF_SIGN, strlen(GGUF_SIGN)) != NULL) {
            return err_set(ERR_INPUT,
                           "--format gguf: Metaspace splits before %s, but token %s has it inside; "
                           "llama.cpp does not split",
                           GGUF_SIGN, shown(token).text);
        }
    }
    if (meta != NULL && meta->scheme != PREPEND_NEVER && !*prefix) {
        *prefix = true;
        log_warn("llama.cpp puts a space before every text%s, also before one that begins with a "
                 "space; this tokenizer's Metaspace does not, so ids of such texts differ",
                 meta->scheme == PREPEND_FIRST ? " and behind every special token" : "");
    }
    return 0;
}

/* --- fields --- */

static void put_fields(GgufFields *fields, const Vocab *vocab, int64_t rows, bool prefix)
{
    const Tokenizer *t = vocab->tokenizer;
    gguf_field_text(fields, "tokenizer.ggml.model", "llama");
    gguf_field_text(fields, "tokenizer.ggml.pre", "default");
    gguf_field_array(fields, "tokenizer.ggml.tokens", GGUF_TEXT, (uint64_t)rows);
    for (int64_t id = 0; id < rows; id++) {
        char unused[32]; /* with a space, which no text has by then: nothing is merged to it */
        snprintf(unused, sizeof unused, "[PAD %lld]", (long long)id);
        Token token = id < t->vocab ? t->tokens[id] : (Token){0};
        gguf_put_text(fields->to, token.size > 0 ? (const char *)token.bytes : unused,
                      token.size > 0 ? token.size : strlen(unused));
    }
    gguf_field_array(fields, "tokenizer.ggml.scores", GGUF_F32_ELEMENT, (uint64_t)rows);
    for (int64_t id = 0; id < rows; id++) {
        gguf_put_real(fields->to,
                      -(double)(id < t->vocab ? priority_of(vocab, (uint32_t)id) : t->merge_count));
    }
    gguf_field_array(fields, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)rows);
    for (int64_t id = 0; id < rows; id++) {
        gguf_put_whole(fields->to, (uint64_t)gguf_token_type(t, (uint32_t)id), 4);
    }
    if (t->unknown != NONE) {
        gguf_field_whole(fields, "tokenizer.ggml.unknown_token_id", t->unknown);
    }
    gguf_field_bool(fields, "tokenizer.ggml.add_space_prefix", prefix);
    gguf_field_bool(fields, "tokenizer.ggml.remove_extra_whitespaces", false);
}

static int check_bytes(const Tokenizer *t)
{
    for (int byte = 0; byte < 256; byte++) {
        if (t->byte_ids[byte] == NONE) {
            return err_set(ERR_INPUT,
                           "--format gguf: the tokenizer has no token <0x%02X>; llama.cpp writes "
                           "characters without a token as bytes",
                           (unsigned)byte);
        }
    }
    return 0;
}

int gguf_put_characters(GgufFields *fields, const Tokenizer *tokenizer, int64_t rows)
{
    Vocab vocab = {tokenizer, mem_zalloc(tokenizer->vocab, sizeof(Made))};
    bool prefix;
    int code = check_bytes(tokenizer);
    code = code != 0 ? code : check_normalizer(tokenizer, &prefix);
    code = code != 0 ? code : gguf_check_added(tokenizer);
    code = code != 0 ? code : check_merges(&vocab);
    code = code != 0 ? code : check_splits(tokenizer, &prefix);
    if (code == 0) {
        put_fields(fields, &vocab, rows, prefix);
    }
    free(vocab.made);
    return code;
}
