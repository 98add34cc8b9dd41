/* Reading tokenizers: GPT-2's pair of files (vocab.json maps token names to ids, merges.txt has a
 * merge per line) and Hugging Face's tokenizer.json. Of the latter, what pacer would do otherwise
 * than Hugging Face is refused, but for what TOKENIZER_UNUSED names. */
#include "text/tokenizer.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WARNINGS 3 /* about ids that are not those of the file */
#define VERSION_LINE "#version"

/* ---- Vocabulary and merges ----
 *
 * Byte-level BPE writes token names in the byte alphabet, but for added tokens, which are plain
 * text. Where merges start from characters all of them are. */

/* An added token as a file lists it. */
typedef struct {
    const char *content;
    uint32_t id; /* as listed */
    AddedToken flags;
    bool in_vocab;     /* the vocabulary has its content as a name, */
    uint32_t vocab_id; /* with this id */
} WrittenAdded;

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

/* The JSON document. ERR_INPUT naming path and line when it is none, or has something that cJSON
 * would not hand over whole. cJSON_Delete releases it. */
static int parse_document(const char *text, size_t size, const char *path, cJSON **root)
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

/* A whole number from 0 on, at most UINT32_MAX. */
static bool get_number(const cJSON *item, uint32_t *number)
{
    int64_t value;
    if (!json_whole(item, UINT32_MAX, &value)) {
        return false;
    }
    *number = (uint32_t)value;
    return true;
}

static bool is_utf8(const char *text)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + strlen(text);
    int length = 1;
    for (; at < end && length > 0; at += length) {
        length = utf8_length(at, (size_t)(end - at));
    }
    return length > 0;
}

static int add_entry(Tokenizer *tokenizer, const cJSON *entry, uint32_t id, WrittenAdded *listed,
                     uint8_t *scratch)
{
    const char *name = entry->string;
    size_t length = strlen(name), size;
    if (tokenizer->characters) {
        if (listed != NULL) {
            listed->in_vocab = true;
            listed->vocab_id = id;
        }
        return is_utf8(name)
                   ? tokenizer_add_token(tokenizer, id, (const uint8_t *)name, length)
                   : err_set(ERR_INPUT, "\"%s\" is not UTF-8", token_shown(name, length).text);
    }
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
                       "\"%s\" is neither in the byte alphabet nor an added token, though the "
                       "pre_tokenizer is ByteLevel",
                       token_shown(name, length).text);
    }
    return tokenizer_add_token(tokenizer, id, scratch, size);
}

/* Adds the tokens of a vocabulary (an object of names and ids), and sets in_vocab and vocab_id
 * of the added tokens that are part of it; those whose name is no text in the byte alphabet are
 * left for add_listed. ERR_INPUT naming the entry; *entries: how many there are. */
static int add_vocab(Tokenizer *tokenizer, const cJSON *vocab, WrittenAdded *added,
                     size_t added_count, uint32_t *entries)
{
    WordTable *listed = word_table_open(0); /* 1 + the place in `added`, by content */
    for (size_t i = 0; i < added_count; i++) {
        *word_table_at(listed, (const uint8_t *)added[i].content, strlen(added[i].content)) = i + 1;
    }
    uint8_t *scratch = NULL;
    int code = 0;
    *entries = 0;
    for (const cJSON *entry = vocab->child; code == 0 && entry != NULL; entry = entry->next) {
        size_t length = strlen(entry->string);
        uint64_t place;
        uint32_t id;
        scratch = mem_realloc(scratch, length, 1);
        word_table_find(listed, (const uint8_t *)entry->string, length, length, &place);
        code = get_number(entry, &id)
                   ? add_entry(tokenizer, entry, id, place > 0 ? &added[place - 1] : NULL, scratch)
                   : err_set(ERR_INPUT, "the id of \"%s\" is not a whole number from 0 on",
                             token_shown(entry->string, length).text);
        ++*entries;
    }
    free(scratch);
    word_table_close(listed);
    return code != 0 ? err_wrap(code, "vocab") : 0;
}

static int find_part(const Tokenizer *tokenizer, const char *name, size_t length, uint32_t *id)
{
    if (tokenizer->characters) {
        return tokenizer_find(tokenizer, (const uint8_t *)name, length, id)
                   ? 0
                   : err_set(ERR_INPUT, "\"%s\" is not in the vocabulary",
                             token_shown(name, length).text);
    }
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

static int add_merge(Tokenizer *tokenizer, const char *left, size_t left_length, const char *right,
                     size_t right_length)
{
    uint32_t left_id, right_id;
    int code = find_part(tokenizer, left, left_length, &left_id);
    code = code != 0 ? code : find_part(tokenizer, right, right_length, &right_id);
    return code != 0 ? code : tokenizer_add_merge(tokenizer, left_id, right_id);
}

/* "left right" as one text. */
static int add_merge_line(Tokenizer *tokenizer, const char *line, size_t length)
{
    const char *space = memchr(line, ' ', length);
    size_t left = space == NULL ? 0 : (size_t)(space - line);
    if (space == NULL || left == 0 || left + 1 == length ||
        memchr(space + 1, ' ', length - left - 1) != NULL) {
        return err_set(ERR_INPUT, "\"%s\" is not two tokens with a space between",
                       token_shown(line, length).text);
    }
    return add_merge(tokenizer, line, left, space + 1, length - left - 1);
}

/* Adds the added tokens under the ids that Hugging Face gives them: that of the vocabulary, else
 * those from the number of its entries on in the order of the file, whatever ids the file says. */
static int add_listed(Tokenizer *tokenizer, const WrittenAdded *added, size_t added_count,
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
        AddedToken flags = token->flags;
        flags.id = id;
        code = tokenizer_add_added(tokenizer, flags, (const uint8_t *)token->content,
                                   strlen(token->content));
    }
    return code;
}

/* ---- GPT-2's files ---- */

static int add_merge_lines(Tokenizer *tokenizer, const char *text, size_t size, const char *path)
{
    const char *end = text + size;
    size_t line = 1;
    bool marked = size >= UTF8_MARK_SIZE && memcmp(text, UTF8_MARK, UTF8_MARK_SIZE) == 0;
    for (const char *at = text + (marked ? UTF8_MARK_SIZE : 0); at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        size_t length = (size_t)(stop - at);
        length -= length > 0 && at[length - 1] == '\r';
        bool is_version = line == 1 && length >= sizeof VERSION_LINE - 1 &&
                          memcmp(at, VERSION_LINE, sizeof VERSION_LINE - 1) == 0;
        if (length > 0 && !is_version) {
            int code = add_merge_line(tokenizer, at, length);
            if (code != 0) {
                return err_wrap(code, "%s:%zu", path, line);
            }
        }
        at = stop + 1;
    }
    return 0;
}

/* Gives a tokenizer to the caller, or frees it after an error. */
static int hand_over(Tokenizer *tokenizer, int code, Tokenizer **out)
{
    *out = code == 0 ? tokenizer : NULL;
    if (code != 0) {
        tokenizer_free(tokenizer);
    }
    return code;
}

static int build_gpt2(Tokenizer *tokenizer, const cJSON *vocab, const char *vocab_path,
                      const char *merges, size_t merges_size, const char *merges_path)
{
    if (!cJSON_IsObject(vocab)) {
        return err_set(ERR_INPUT, "%s: must be an object of tokens and their ids", vocab_path);
    }
    WrittenAdded end = {.content = TOKENIZER_END, .flags = {.special = true}};
    uint32_t entries;
    int code = add_vocab(tokenizer, vocab, &end, 1, &entries);
    end.id = end.vocab_id;
    code = code != 0 ? err_wrap(code, "%s", vocab_path)
                     : add_merge_lines(tokenizer, merges, merges_size, merges_path);
    if (code != 0) {
        return code;
    }
    code = end.in_vocab ? add_listed(tokenizer, &end, 1, entries, vocab_path) : 0;
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
    int code = parse_document(vocab, vocab_size, vocab_path, &root);
    if (code != 0) {
        return code;
    }
    Tokenizer *tokenizer = tokenizer_new();
    code = build_gpt2(tokenizer, root, vocab_path, merges, merges_size, merges_path);
    cJSON_Delete(root);
    return hand_over(tokenizer, code, out);
}

/* ---- tokenizer.json ----
 *
 * A tokenizer.json describes a pipeline of parts (tokenizer_parts.h) around a model. */

static int read_added(const cJSON *item, WrittenAdded *token)
{
    const cJSON *content = json_get(item, "content");
    if (!cJSON_IsString(content) || !is_utf8(content->valuestring)) {
        return err_set(ERR_INPUT, "\"content\" must be a string");
    }
    *token = (WrittenAdded){.content = content->valuestring};
    AddedToken *flags = &token->flags;
    int code = part_flag(item, "single_word", false, &flags->single_word);
    code = code != 0 ? code : part_flag(item, "lstrip", false, &flags->lstrip);
    code = code != 0 ? code : part_flag(item, "rstrip", false, &flags->rstrip);
    if (code == 0 && !get_number(json_get(item, "id"), &token->id)) {
        code = err_set(ERR_INPUT, "\"id\" must be a whole number from 0 on");
    }
    code = code != 0 ? code : part_flag(item, "special", false, &flags->special);
    code = code != 0 ? code : part_flag(item, "normalized", !flags->special, &flags->normalized);
    return code != 0
               ? err_wrap(code, "\"%s\"", token_shown(token->content, strlen(token->content)).text)
               : 0;
}

/* The list, as an array that the caller frees; its contents belong to the JSON document. An empty
 * token is never found in a text, and Hugging Face leaves it out too. */
static int read_added_list(const cJSON *list, WrittenAdded **added, size_t *count)
{
    *added = NULL;
    *count = 0;
    if (json_is_nothing(list)) {
        return 0;
    }
    if (!cJSON_IsArray(list)) {
        return err_set(ERR_INPUT, "added_tokens must be a list");
    }
    size_t index = 0, capacity = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        *added = mem_grow(*added, *count, &capacity, sizeof **added);
        int code = read_added(item, &(*added)[*count]);
        if (code != 0) {
            return err_wrap(code, "added_tokens[%zu]", index);
        }
        *count += (*added)[*count].content[0] != '\0';
        index++;
    }
    return 0;
}

static int check_model(const cJSON *model)
{
    if (!cJSON_IsObject(model)) {
        return err_set(ERR_INPUT, "no \"model\"; this is not a tokenizer.json");
    }
    const cJSON *type = json_get(model, "type");
    if (type != NULL && (!cJSON_IsString(type) || strcmp(type->valuestring, "BPE") != 0)) {
        return err_set(ERR_INPUT, "model type %.60s is not supported; pacer reads BPE",
                       cJSON_IsString(type) ? type->valuestring : "null");
    }
    const cJSON *dropout = json_get(model, "dropout");
    if (!json_is_nothing(dropout) && !(cJSON_IsNumber(dropout) && dropout->valuedouble == 0)) {
        return err_set(ERR_INPUT, "model dropout %g is not supported; it must be null",
                       cJSON_IsNumber(dropout) ? dropout->valuedouble : 1.0);
    }
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        const cJSON *value = json_get(model, empty[i]);
        if (!json_is_nothing(value) && !(cJSON_IsString(value) && value->valuestring[0] == '\0')) {
            return err_set(ERR_INPUT, "model %s \"%.60s\" is not supported; it must be null",
                           empty[i], cJSON_IsString(value) ? value->valuestring : "?");
        }
    }
    if (!cJSON_IsObject(json_get(model, "vocab")) || !cJSON_IsArray(json_get(model, "merges"))) {
        return err_set(ERR_INPUT, "model must have \"vocab\" (an object) and \"merges\" (a list)");
    }
    return 0;
}

/* "left right", or ["left", "right"]. */
static int add_merge_item(Tokenizer *tokenizer, const cJSON *item)
{
    if (cJSON_IsString(item)) {
        return add_merge_line(tokenizer, item->valuestring, strlen(item->valuestring));
    }
    const cJSON *left = cJSON_IsArray(item) ? item->child : NULL;
    const cJSON *right = left != NULL ? left->next : NULL;
    if (right == NULL || right->next != NULL || !cJSON_IsString(left) || !cJSON_IsString(right)) {
        return err_set(ERR_INPUT, "neither \"left right\" nor [\"left\", \"right\"]");
    }
    return add_merge(tokenizer, left->valuestring, strlen(left->valuestring), right->valuestring,
                     strlen(right->valuestring));
}

static int add_merges(Tokenizer *tokenizer, const cJSON *merges)
{
    size_t index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, merges)
    {
        int code = add_merge_item(tokenizer, item);
        if (code != 0) {
            return err_wrap(code, "merges[%zu]", index);
        }
        index++;
    }
    return 0;
}

/* True for the post_processor ByteLevel, or a Sequence of it alone: they change offsets, no
 * tokens. */
static bool is_without_effect(const cJSON *part)
{
    const cJSON *list = json_get(part, "processors"), *item;
    bool alone = part_is(part, "ByteLevel") || (part_is(part, "Sequence") && cJSON_IsArray(list));
    cJSON_ArrayForEach(item, list)
    {
        alone = alone && part_is(item, "ByteLevel");
    }
    return alone;
}

static void keep_unused(Tokenizer *tokenizer, const cJSON *root)
{
    for (int i = 0; i < TOKENIZER_UNUSED; i++) {
        const cJSON *part = json_get(root, tokenizer_unused_names[i]);
        tokenizer->unused[i] = json_is_nothing(part) ? NULL : json_line(part);
        tokenizer->unused_matter[i] = !json_is_nothing(part) && !is_without_effect(part);
    }
}

static int read_settings(Tokenizer *tokenizer, const cJSON *model)
{
    const struct {
        const char *key;
        bool *flag;
    } settings[] = {{"ignore_merges", &tokenizer->ignore_merges},
                    {"byte_fallback", &tokenizer->byte_fallback},
                    {"fuse_unk", &tokenizer->fuse_unknown}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (!json_is_nothing(json_get(model, settings[i].key))) {
            int code = part_flag(model, settings[i].key, false, settings[i].flag);
            if (code != 0) {
                return err_wrap(code, "model");
            }
        }
    }
    if (!tokenizer->characters) { /* every character has tokens */
        tokenizer->byte_fallback = tokenizer->fuse_unknown = false;
    }
    return 0;
}

/* The token of characters that have none. */
static int find_unknown(Tokenizer *tokenizer, const cJSON *model)
{
    const cJSON *name = json_get(model, "unk_token");
    if (!tokenizer->characters || json_is_nothing(name)) {
        return 0;
    }
    if (!cJSON_IsString(name) || !tokenizer_find(tokenizer, (const uint8_t *)name->valuestring,
                                                 strlen(name->valuestring), &tokenizer->unknown)) {
        return err_set(ERR_INPUT, "model: unk_token must be a string that the vocabulary has");
    }
    return 0;
}

static int read_root(Tokenizer *tokenizer, const cJSON *root, const char *path)
{
    const cJSON *model = json_get(root, "model");
    int code = check_model(model);
    WrittenAdded *added = NULL;
    size_t added_count = 0;
    uint32_t entries = 0;
    code = code != 0 ? code : tokenizer_read_parts(tokenizer, root);
    code = code != 0 ? code : read_settings(tokenizer, model);
    code = code != 0 ? code : read_added_list(json_get(root, "added_tokens"), &added, &added_count);
    code = code != 0 ? code
                     : add_vocab(tokenizer, json_get(model, "vocab"), added, added_count, &entries);
    code = code != 0 ? code : find_unknown(tokenizer, model);
    code = code != 0 ? code : add_merges(tokenizer, json_get(model, "merges"));
    code = code != 0 ? code : add_listed(tokenizer, added, added_count, entries, path);
    code = code != 0 ? code : tokenizer_finish(tokenizer);
    keep_unused(tokenizer, root);
    free(added);
    return code;
}

int tokenizer_parse_json(const char *text, size_t size, const char *path, Tokenizer **out)
{
    *out = NULL;
    cJSON *root;
    int code = parse_document(text, size, path, &root);
    if (code != 0) {
        return code;
    }
    Tokenizer *tokenizer = tokenizer_new();
    code = read_root(tokenizer, root, path);
    cJSON_Delete(root);
    return hand_over(tokenizer, code != 0 ? err_wrap(code, "%s", path) : 0, out);
}
