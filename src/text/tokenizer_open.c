/* From what a user names to a tokenizer: the one that needs no file, a file, or a folder. */
#include "text/tokenizer.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)512 << 20)
#define JSON_NAME "tokenizer.json"
#define VOCAB_NAME "vocab.json"
#define MERGES_NAME "merges.txt"

static Tokenizer *bytes_tokenizer(void)
{
    Tokenizer *tokenizer = tokenizer_new();
    int code = tokenizer_set_pattern(tokenizer, PRETOK_GPT2);
    for (uint32_t i = 0; i < 256 && code == 0; i++) {
        uint8_t byte = (uint8_t)i;
        code = tokenizer_add_token(tokenizer, i, &byte, 1);
    }
    if (code == 0) {
        code = tokenizer_add_added(tokenizer, (AddedToken){.id = 256, .special = true},
                                   (const uint8_t *)TOKENIZER_END, sizeof TOKENIZER_END - 1);
    }
    code = code != 0 ? code : tokenizer_finish(tokenizer);
    PACER_ASSERT(code == 0, "the tokenizer of bytes: %s", err_message());
    return tokenizer;
}

static int open_gpt2(const char *vocab_path, const char *merges_path, Tokenizer **out)
{
    char *vocab = NULL, *merges = NULL;
    size_t vocab_size, merges_size;
    int code = io_read_all(vocab_path, MAX_FILE_BYTES, &vocab, &vocab_size);
    code = code != 0 ? code : io_read_all(merges_path, MAX_FILE_BYTES, &merges, &merges_size);
    if (code == 0) {
        code = tokenizer_parse_gpt2(vocab, vocab_size, vocab_path, merges, merges_size, merges_path,
                                    out);
    }
    free(vocab);
    free(merges);
    return code;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* The path with its last `cut` characters replaced. */
static char *with_end(const char *path, size_t cut, const char *end)
{
    return mem_format("%.*s%s", (int)(strlen(path) - cut), path, end);
}

/* One of GPT-2's files; `other` is the path that the second one would have. Frees `other`. */
static int open_pair(const char *path, char *other, bool path_is_vocab, Tokenizer **out)
{
    int code;
    if (io_exists(other)) {
        code = path_is_vocab ? open_gpt2(path, other, out) : open_gpt2(other, path, out);
    } else {
        code = err_set(ERR_INPUT,
                       "%s: the merges of GPT-2's " VOCAB_NAME " are in a " MERGES_NAME
                       " beside it, and %s is not there",
                       path, other);
    }
    free(other);
    return code;
}

/* True when the first value of the JSON object is a number: a map of tokens and ids, since a
 * tokenizer.json has none at its top. */
static bool looks_like_vocab(const char *text)
{
    text += strncmp(text, UTF8_MARK, UTF8_MARK_SIZE) == 0 ? UTF8_MARK_SIZE : 0;
    text += strspn(text, " \t\r\n");
    if (*text++ != '{') {
        return false;
    }
    text += strspn(text, " \t\r\n");
    if (*text++ != '"') {
        return false;
    }
    for (; *text != '"' && *text != '\0'; text++) {
        text += text[0] == '\\' && text[1] != '\0';
    }
    text += *text == '"';
    text += strspn(text, " \t\r\n:");
    return *text >= '0' && *text <= '9';
}

static int open_file(const char *path, Tokenizer **out)
{
    if (ends_with(path, VOCAB_NAME)) {
        return open_pair(path, with_end(path, sizeof VOCAB_NAME - 1, MERGES_NAME), true, out);
    }
    if (ends_with(path, MERGES_NAME)) {
        return open_pair(path, with_end(path, sizeof MERGES_NAME - 1, VOCAB_NAME), false, out);
    }
    char *text;
    size_t size;
    int code = io_read_all(path, MAX_FILE_BYTES, &text, &size);
    if (code != 0) {
        return code;
    }
    if (looks_like_vocab(text)) {
        const char *slash = strrchr(path, '/');
        char *merges = with_end(path, strlen(slash != NULL ? slash + 1 : path), MERGES_NAME);
        code = open_pair(path, merges, true, out);
    } else {
        code = tokenizer_parse_json(text, size, path, out);
    }
    free(text);
    return code;
}

static int open_folder(const char *folder, Tokenizer **out)
{
    const char *name = io_has(folder, JSON_NAME)                                   ? JSON_NAME
                       : io_has(folder, VOCAB_NAME) && io_has(folder, MERGES_NAME) ? VOCAB_NAME
                                                                                   : NULL;
    if (name == NULL) {
        return err_set(ERR_INPUT,
                       "%s: no tokenizer in this folder (neither " JSON_NAME " nor " VOCAB_NAME
                       " with " MERGES_NAME ")",
                       folder);
    }
    char *path = io_join(folder, name);
    int code = open_file(path, out);
    free(path);
    return code;
}

int tokenizer_open_copy(const char *source, Tokenizer **out)
{
    *out = NULL;
    if (strcmp(source, TOKENIZER_BYTES) == 0) {
        *out = bytes_tokenizer();
        return 0;
    }
    if (!io_exists(source)) {
        return err_set(ERR_INPUT,
                       "%s: no such file or folder; a tokenizer is \"" TOKENIZER_BYTES
                       "\", a " JSON_NAME ", a " VOCAB_NAME " with " MERGES_NAME
                       " beside it, or a folder with these",
                       source);
    }
    return io_is_folder(source) ? open_folder(source, out) : open_file(source, out);
}

int tokenizer_open(const char *source, Tokenizer **out)
{
    int code = tokenizer_open_copy(source, out);
    char *names = NULL;
    for (int i = 0; code == 0 && i < TOKENIZER_UNUSED; i++) {
        if ((*out)->unused_matter[i]) {
            char *longer = mem_format("%s%s%s", names != NULL ? names : "",
                                      names != NULL ? ", " : "", tokenizer_unused_names[i]);
            free(names);
            names = longer;
        }
    }
    if (names != NULL) {
        log_warn(
            "%s: not applied: %s. pacer neither cuts nor pads texts, and puts no tokens around "
            "them",
            source, names);
    }
    free(names);
    return code;
}

static bool find_added(const Tokenizer *tokenizer, const char *name, uint32_t *id)
{
    return tokenizer_find_added(tokenizer, (const uint8_t *)name, strlen(name), id);
}

int tokenizer_end(const Tokenizer *tokenizer, const char *name, uint32_t *id)
{
    static const char *const usual[] = {TOKENIZER_END, "<|end_of_text|>", "</s>", "<eos>"};
    if (name != NULL) {
        return find_added(tokenizer, name, id)
                   ? 0
                   : err_set(ERR_INPUT,
                             "the tokenizer has no added token \"%s\" to end documents with; name "
                             "one that it has",
                             name);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (find_added(tokenizer, usual[i], id)) {
            return 0;
        }
    }
    return err_set(ERR_INPUT, "the tokenizer has none of the usual tokens that end documents "
                              "(" TOKENIZER_END ", <|end_of_text|>, </s>, <eos>); name one of its "
                              "added tokens with --end, or train it with --special");
}
