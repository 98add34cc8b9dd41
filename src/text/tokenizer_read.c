/* Reading tokenizers: from what a user names to a tokenizer, the one that needs no file, GPT-2's
 * pair of files (vocab.json maps token names to ids, merges.txt has a merge per line), and what
 * these have in common with tokenizer.json. */
#include "text/tokenizer_internal.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WARNINGS 3 /* about ids that are not those of the file */
#define VERSION_LINE "#version"
#define MAX_FILE_BYTES ((size_t)512 << 20)
#define JSON_NAME "tokenizer.json"
#define VOCAB_NAME "vocab.json"
#define MERGES_NAME "merges.txt"

/* ---- Vocabulary and merges ---- */

/* True when the text has the escape of the character 0, which would end a C string early.
 * Backslashes stand only in strings, and each takes the next character with it. */
static bool has_escaped_zero(const char *text, size_t size)
{
    const char *end = text + size;
    for (const char *at = text; (at = memchr(at, '\\', (size_t)(end - at))) != NULL;) {
        if (end - at >= 6 && memcmp(at, "\\u0000", 6) == 0) {
            return true;
        }
        at += end - at >= 2 ? 2 : 1;
    }
    return false;
}

int written_parse(const char *text, size_t size, const char *path, cJSON **root)
{
    *root = NULL;
    if (memchr(text, 0, size) != NULL || has_escaped_zero(text, size)) {
        return err_set(ERR_INPUT, "%s: contains the character U+0000, which no token may have",
                       path);
    }
    JsonFault fault;
    *root = json_parse(text, size, &fault);
    return *root != NULL
               ? 0
               : err_set(ERR_INPUT, "%s:%d: not valid JSON (cut off, or not a tokenizer file?)",
                         path, fault.line);
}

bool written_number(const cJSON *item, uint32_t *number)
{
    int64_t value;
    if (!json_whole(item, UINT32_MAX, &value)) {
        return false;
    }
    *number = (uint32_t)value;
    return true;
}

static int by_content(const void *a, const void *b)
{
    return strcmp((*(WrittenAdded *const *)a)->content, (*(WrittenAdded *const *)b)->content);
}

/* The added tokens in the order of their contents, for bsearch; NULL when there are none. */
static WrittenAdded **sorted_by_content(WrittenAdded *added, size_t count)
{
    if (count == 0) {
        return NULL;
    }
    WrittenAdded **sorted = mem_alloc(count * sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &added[i];
    }
    qsort(sorted, count, sizeof *sorted, by_content);
    return sorted;
}

static int add_entry(Tokenizer *tokenizer, const cJSON *entry, uint32_t id, WrittenAdded *listed,
                     uint8_t *scratch)
{
    const char *name = entry->string;
    size_t length = strlen(name), size;
    bool written = alphabet_to_bytes(name, length, scratch, &size);
    if (listed != NULL) {
        if (listed->in_vocab) {
            return err_set(ERR_INPUT, "token \"%s\" is there twice",
                           token_shown(name, length).text);
        }
        listed->in_vocab = true;
        listed->vocab_id = id;
        if (written && size == 1 && length > 1) {
            return err_set(
                ERR_INPUT,
                "\"%s\" is an added token and in the byte alphabet byte 0x%02x; rename it", name,
                scratch[0]);
        }
        if (!written || size != length || memcmp(scratch, name, length) != 0) {
            return 0;
        }
    }
    if (!written) {
        return err_set(ERR_INPUT,
                       "\"%s\" is neither in the byte alphabet nor an added token; pacer reads "
                       "byte-level BPE only",
                       token_shown(name, length).text);
    }
    return tokenizer_add_token(tokenizer, id, scratch, size);
}

int written_add_vocab(Tokenizer *tokenizer, const cJSON *vocab, WrittenAdded *added,
                      size_t added_count, uint32_t *entries)
{
    WrittenAdded **sorted = sorted_by_content(added, added_count);
    size_t room = 0;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, vocab)
    {
        size_t length = strlen(entry->string);
        room = length > room ? length : room;
    }
    uint8_t *scratch = mem_alloc(room + 1);
    int code = 0;
    *entries = 0;
    cJSON_ArrayForEach(entry, vocab)
    {
        uint32_t id;
        if (!written_number(entry, &id)) {
            code = err_set(ERR_INPUT, "the id of \"%s\" is not a whole number from 0 on",
                           token_shown(entry->string, strlen(entry->string)).text);
        } else {
            WrittenAdded key = {.content = entry->string}, *key_at = &key, **found = NULL;
            if (sorted != NULL) {
                found = bsearch(&key_at, sorted, added_count, sizeof *sorted, by_content);
            }
            code = add_entry(tokenizer, entry, id, found != NULL ? *found : NULL, scratch);
        }
        if (code != 0) {
            err_wrap(code, "vocab");
            break;
        }
        ++*entries;
    }
    free(scratch);
    free(sorted);
    return code;
}

static int find_part(const Tokenizer *tokenizer, const char *name, size_t length, uint32_t *id)
{
    uint8_t small[256], *bytes = length > sizeof small ? mem_alloc(length) : small;
    size_t size;
    bool found = length > 0 && alphabet_to_bytes(name, length, bytes, &size) &&
                 tokenizer_find(tokenizer, bytes, size, id);
    if (bytes != small) {
        free(bytes);
    }
    return found ? 0
                 : err_set(ERR_INPUT, "\"%s\" is not in the vocabulary",
                           token_shown(name, length).text);
}

int written_add_merge(Tokenizer *tokenizer, const char *left, size_t left_length, const char *right,
                      size_t right_length)
{
    uint32_t left_id, right_id;
    int code = find_part(tokenizer, left, left_length, &left_id);
    code = code != 0 ? code : find_part(tokenizer, right, right_length, &right_id);
    return code != 0 ? code : tokenizer_add_merge(tokenizer, left_id, right_id);
}

int written_add_merge_line(Tokenizer *tokenizer, const char *line, size_t length)
{
    const char *space = memchr(line, ' ', length);
    size_t left = space == NULL ? 0 : (size_t)(space - line);
    if (space == NULL || left == 0 || left + 1 == length ||
        memchr(space + 1, ' ', length - left - 1) != NULL) {
        return err_set(ERR_INPUT, "\"%s\" is not two tokens with a space between",
                       token_shown(line, length).text);
    }
    return written_add_merge(tokenizer, line, left, space + 1, length - left - 1);
}

int written_add_added(Tokenizer *tokenizer, const WrittenAdded *added, size_t added_count,
                      uint32_t entries, const char *path)
{
    int code = 0, warnings = 0;
    uint32_t next = entries;
    for (size_t i = 0; i < added_count && code == 0; i++) {
        const WrittenAdded *token = &added[i];
        uint32_t id = token->in_vocab ? token->vocab_id : next++;
        if (id != token->id && warnings++ < MOST_WARNINGS) {
            log_warn("%s: added token \"%s\" gets id %" PRIu32 ", as in Hugging Face tokenizers, "
                     "not the %" PRIu32 " of the file",
                     path, token_shown(token->content, strlen(token->content)).text, id, token->id);
        }
        code = tokenizer_add_added(
            tokenizer,
            (AddedToken){.id = id, .special = token->special, .normalized = token->normalized},
            (const uint8_t *)token->content, strlen(token->content));
    }
    return code;
}

/* ---- GPT-2's files ---- */

static int add_merge_lines(Tokenizer *tokenizer, const char *text, size_t size, const char *path)
{
    const char *end = text + size;
    size_t line = 1;
    for (const char *at = text; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        size_t length = (size_t)(stop - at);
        length -= length > 0 && at[length - 1] == '\r';
        bool is_version = line == 1 && length >= sizeof VERSION_LINE - 1 &&
                          memcmp(at, VERSION_LINE, sizeof VERSION_LINE - 1) == 0;
        if (length > 0 && !is_version) {
            int code = written_add_merge_line(tokenizer, at, length);
            if (code != 0) {
                return err_wrap(code, "%s:%zu", path, line);
            }
        }
        at = stop + 1;
    }
    return 0;
}

static int build_gpt2(Tokenizer *tokenizer, const cJSON *vocab, const char *vocab_path,
                      const char *merges, size_t merges_size, const char *merges_path)
{
    if (!cJSON_IsObject(vocab)) {
        return err_set(ERR_INPUT, "%s: must be an object of tokens and their ids", vocab_path);
    }
    WrittenAdded end = {.content = TOKENIZER_END, .special = true};
    uint32_t entries;
    int code = written_add_vocab(tokenizer, vocab, &end, 1, &entries);
    end.id = end.vocab_id;
    code = code != 0 ? err_wrap(code, "%s", vocab_path)
                     : add_merge_lines(tokenizer, merges, merges_size, merges_path);
    if (code != 0) {
        return code;
    }
    code = end.in_vocab ? written_add_added(tokenizer, &end, 1, entries, vocab_path) : 0;
    code = code != 0 ? code : tokenizer_set_pattern(tokenizer, PRETOK_GPT2);
    code = code != 0 ? code : tokenizer_finish(tokenizer);
    return code != 0 ? err_wrap(code, "%s", vocab_path) : 0;
}

int tokenizer_parse_gpt2(const char *vocab, size_t vocab_size, const char *vocab_path,
                         const char *merges, size_t merges_size, const char *merges_path,
                         Tokenizer **out)
{
    *out = NULL;
    cJSON *root;
    int code = written_parse(vocab, vocab_size, vocab_path, &root);
    if (code != 0) {
        return code;
    }
    Tokenizer *tokenizer = tokenizer_new();
    code = build_gpt2(tokenizer, root, vocab_path, merges, merges_size, merges_path);
    cJSON_Delete(root);
    if (code != 0) {
        tokenizer_free(tokenizer);
        return code;
    }
    *out = tokenizer;
    return 0;
}

/* ---- What a user names ---- */

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
    char *json = io_join(folder, JSON_NAME), *vocab = io_join(folder, VOCAB_NAME),
         *merges = io_join(folder, MERGES_NAME);
    int code;
    if (io_exists(json)) {
        code = open_file(json, out);
    } else if (io_exists(vocab) && io_exists(merges)) {
        code = open_gpt2(vocab, merges, out);
    } else {
        code = err_set(ERR_INPUT,
                       "%s: no tokenizer in this folder (neither " JSON_NAME " nor " VOCAB_NAME
                       " with " MERGES_NAME ")",
                       folder);
    }
    free(json);
    free(vocab);
    free(merges);
    return code;
}

int tokenizer_open(const char *source, Tokenizer **out)
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
