/* A tokenizer in GGUF. A byte-level one: tokens in the byte alphabet of tokenizer.json, added ones
 * as they are, merges, and the name by which llama.cpp knows the pattern that cuts text. One over
 * characters: gguf_characters.c. */
#include "exchange/gguf.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/unicode.h"

#include <stdlib.h>

/* llama.cpp's name of a pattern, which also says whether a piece that is a token needs no
 * merges. */
static const struct {
    const char *pattern;
    bool ignore_merges;
    const char *name;
} patterns[] = {
    {PRETOK_GPT2, false, "gpt-2"},   {PRETOK_LLAMA3, true, "llama-bpe"},
    {PRETOK_LLAMA3, false, "dbrx"},  {PRETOK_QWEN2, false, "qwen2"},
    {PRETOK_O200K, false, "gpt-4o"}, {PRETOK_TEKKEN, true, "tekken"},
};

/* Without merges all tokens of a text are bytes, however it is cut. */
static int find_pattern(const Tokenizer *tokenizer, const char **name)
{
    const char *pattern = tokenizer->pretok != NULL ? pretok_name(tokenizer->pretok) : "none";
    *name = patterns[0].name;
    if (tokenizer->merge_count == 0) {
        return 0;
    }
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        if (strcmp(patterns[i].pattern, pattern) == 0 &&
            patterns[i].ignore_merges == tokenizer->ignore_merges) {
            *name = patterns[i].name;
            return 0;
        }
    }
    return err_set(ERR_INPUT,
                   "--format gguf: llama.cpp has no name for the tokenizer's way to cut text: "
                   "pattern %s, ignore_merges %s",
                   pattern, tokenizer->ignore_merges ? "true" : "false");
}

static void put_alphabet(FILE *to, Token token)
{
    for (size_t i = 0; i < token.size; i++) {
        uint8_t character[4];
        fwrite(character, 1, (size_t)utf8_encode(byte_character(token.bytes[i]), character), to);
    }
}

/* Tokens with a blank between them, as a text of the file. */
static void put_measured(FILE *to, const Token *tokens, int count)
{
    char *text = NULL;
    size_t size;
    FILE *inner = mem_checked(open_memstream(&text, &size), sizeof *inner);
    for (int i = 0; i < count; i++) {
        fputs(i > 0 ? " " : "", inner);
        put_alphabet(inner, tokens[i]);
    }
    mem_checked(fclose(inner) == 0 ? text : NULL, 1);
    gguf_put_text(to, text, size);
    free(text);
}

/* Ids without a token, in the tokenizer or behind it, are rows of the embedding all the same. */
static void put_tokens(GgufFields *fields, const Tokenizer *tokenizer, int64_t vocab)
{
    gguf_field_array(fields, "tokenizer.ggml.tokens", GGUF_TEXT, (uint64_t)vocab);
    for (int64_t id = 0; id < vocab; id++) {
        Token token = id < tokenizer->vocab ? tokenizer->tokens[id] : (Token){0};
        char unused[32];
        snprintf(unused, sizeof unused, "[PAD%lld]", (long long)id);
        if (token.size == 0) {
            gguf_put_text(fields->to, unused, strlen(unused));
        } else if (tokenizer_added_of(tokenizer, (uint32_t)id) != NULL) {
            gguf_put_text(fields->to, token.bytes, token.size);
        } else {
            put_measured(fields->to, &token, 1);
        }
    }
    gguf_field_array(fields, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)vocab);
    for (int64_t id = 0; id < vocab; id++) {
        gguf_put_whole(fields->to, (uint64_t)gguf_token_type(tokenizer, (uint32_t)id), 4);
    }
}

static void put_merges(GgufFields *fields, const Tokenizer *tokenizer)
{
    gguf_field_array(fields, "tokenizer.ggml.merges", GGUF_TEXT, tokenizer->merge_count);
    for (size_t i = 0; i < tokenizer->merge_count; i++) {
        const Merge *merge = &tokenizer->merges[i];
        const Token both[] = {tokenizer->tokens[merge->left], tokenizer->tokens[merge->right]};
        put_measured(fields->to, both, 2);
    }
}

/* llama.cpp takes text as it is. That of NFC, which Qwen's have, mostly is in it already. */
static int check_normalizer(const Tokenizer *tokenizer)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < tokenizer->normalizer.count; i++) {
        NormalizeKind kind = tokenizer->normalizer.steps[i].kind;
        code = kind != NORMALIZE_NFC ? gguf_refuse_normalizer(kind) : 0;
    }
    if (code == 0 && tokenizer->normalizer.count > 0) {
        log_warn("llama.cpp does not apply the tokenizer's normalizer NFC: ids of a text that is "
                 "not in it differ");
    }
    return code;
}

static int put_bytes(GgufFields *fields, const Tokenizer *tokenizer, int64_t rows)
{
    const char *pattern;
    int code = find_pattern(tokenizer, &pattern);
    code = code != 0 ? code : check_normalizer(tokenizer);
    code = code != 0 ? code : gguf_check_added(tokenizer);
    if (code != 0) {
        return code;
    }
    gguf_field_text(fields, "tokenizer.ggml.model", "gpt2");
    gguf_field_text(fields, "tokenizer.ggml.pre", pattern);
    put_tokens(fields, tokenizer, rows);
    put_merges(fields, tokenizer);
    return 0;
}

static int put_all(GgufFields *fields, const HfModel *model, const Tokenizer *tokenizer)
{
    int64_t rows = model->spec->vocab;
    if (tokenizer->vocab > rows) {
        return err_set(ERR_INPUT,
                       "--format gguf: the tokenizer of %s has %u tokens, the model %lld",
                       model->tokenizer, tokenizer->vocab, (long long)rows);
    }
    int code = tokenizer->characters ? gguf_put_characters(fields, tokenizer, rows)
                                     : put_bytes(fields, tokenizer, rows);
    if (code != 0) {
        return code;
    }
    HfTextTokens ids = hf_text_tokens(model->tokenizer, model->trained, tokenizer);
    if (ids.begin >= 0) {
        gguf_field_whole(fields, "tokenizer.ggml.bos_token_id", ids.begin);
    }
    if (ids.end >= 0) {
        gguf_field_whole(fields, "tokenizer.ggml.eos_token_id", ids.end);
    }
    gguf_field_bool(fields, "tokenizer.ggml.add_bos_token", ids.first >= 0);
    gguf_field_bool(fields, "tokenizer.ggml.add_eos_token", false);
    char *chat = hf_chat_template(model->tokenizer);
    if (chat != NULL) {
        gguf_field_text(fields, "tokenizer.chat_template", chat);
    }
    free(chat);
    return 0;
}

int gguf_put_vocab(GgufFields *fields, const HfModel *model)
{
    const char *from = model->tokenizer;
    if (from == NULL || (!io_has(from, "tokenizer.json") && !io_has(from, "vocab.json"))) {
        return err_set(
            ERR_INPUT,
            "--format gguf: the model has no tokenizer, which the file has to carry; put "
            "its tokenizer.json into %s",
            from != NULL ? from : "the model's folder");
    }
    Tokenizer *tokenizer;
    int code = tokenizer_open(from, &tokenizer);
    if (code != 0) {
        return err_wrap(code, "--format gguf writes the model's tokenizer");
    }
    code = put_all(fields, model, tokenizer);
    tokenizer_free(tokenizer);
    return code;
}
