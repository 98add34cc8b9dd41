/* Reading tokenizers: GPT-2's pair of files (vocab.json maps token names to ids, merges.txt has a
 * merge per line) and Hugging Face's tokenizer.json. Of the latter, what pacer would do otherwise
 * than Hugging Face is refused, but for what TOKENIZER_UNUSED names. */
#include "text/tokenizer.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/unicode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WARNINGS 3 /* about ids that are not those of the file */
#define VERSION_LINE "#version"
#define ALLOWED_SPLIT \
    "ByteLevel, or a Sequence of Split (a Regex, Isolated) and ByteLevel (use_regex false)"

/* ---- Vocabulary and merges ----
 *
 * Both formats write token names in the byte alphabet, but for added tokens, which are plain
 * text. */

/* An added token as a file lists it. */
typedef struct {
    const char *content;
    uint32_t id; /* as listed */
    bool special, normalized;
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
    WrittenAdded end = {.content = TOKENIZER_END, .special = true};
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
 * A tokenizer.json describes a pipeline of parts, each of one of many types.
 * Byte-level BPE needs few of them: no normalizer, a pre-tokenizer that splits with a regular
 * expression and then writes bytes in the byte alphabet, and the decoder that undoes this. All
 * else is refused by name, because text would become other tokens without notice. */

/* The name of a part's type, for comparisons and messages. */
static const char *type_of(const cJSON *part)
{
    const cJSON *type = json_get(part, "type");
    return cJSON_IsString(type)    ? type->valuestring
           : json_is_nothing(part) ? "null"
                                   : "without a type";
}

static bool is_type(const cJSON *part, const char *type)
{
    return cJSON_IsObject(part) && strcmp(type_of(part), type) == 0;
}

static int check_normalizer(const cJSON *normalizer)
{
    const cJSON *list = json_get(normalizer, "normalizers");
    if (json_is_nothing(normalizer) ||
        (is_type(normalizer, "Sequence") && cJSON_IsArray(list) && list->child == NULL)) {
        return 0;
    }
    const cJSON *part =
        is_type(normalizer, "Sequence") && cJSON_IsArray(list) ? list->child : normalizer;
    return err_set(ERR_INPUT,
                   "normalizer %.60s is not supported; pacer takes text as it is (normalizer null)",
                   type_of(part));
}

static int check_decoder(const cJSON *decoder)
{
    if (json_is_nothing(decoder) || is_type(decoder, "ByteLevel")) {
        return 0;
    }
    return err_set(ERR_INPUT, "decoder %.60s is not supported; it must be ByteLevel",
                   type_of(decoder));
}

/* "use_regex" is missing in old files, where it was always on. */
static int check_byte_level(const cJSON *part, bool uses_regex)
{
    const cJSON *prefix = json_get(part, "add_prefix_space"), *regex = json_get(part, "use_regex");
    if (!cJSON_IsFalse(prefix)) {
        return err_set(ERR_INPUT, "pre_tokenizer ByteLevel with add_prefix_space true is not "
                                  "supported; make the tokenizer with add_prefix_space false");
    }
    if ((regex == NULL || cJSON_IsTrue(regex)) != uses_regex) {
        return err_set(ERR_INPUT,
                       "pre_tokenizer ByteLevel with use_regex %s is not supported here; pacer "
                       "knows " ALLOWED_SPLIT,
                       uses_regex ? "false" : "true");
    }
    return 0;
}

static int read_split(const cJSON *split, char **pattern)
{
    const cJSON *regex = json_get(json_get(split, "pattern"), "Regex"),
                *behavior = json_get(split, "behavior");
    if (!cJSON_IsString(regex)) {
        return err_set(ERR_INPUT, "pre_tokenizer Split: pattern must be a Regex, not a String");
    }
    const char *text = regex->valuestring,
               *keeps = cJSON_IsString(behavior) ? behavior->valuestring : "null";
    const cJSON *invert = json_get(split, "invert");
    bool inverted = invert != NULL && !cJSON_IsFalse(invert);
    /* What is no match is removed: nothing, where every text is all matches. */
    bool removes_nothing = strcmp(keeps, "Removed") == 0 && inverted && pretok_has_scanner(text);
    if (strcmp(keeps, "Isolated") != 0 && !removes_nothing) {
        return err_set(ERR_INPUT,
                       "pre_tokenizer Split: behavior %.60s is not supported; it must be Isolated",
                       keeps);
    }
    if (inverted && !removes_nothing) {
        return err_set(ERR_INPUT,
                       "pre_tokenizer Split: invert true is not supported; it must be false");
    }
    /* In a file it is a regular expression, and no name of pacer's. */
    *pattern = mem_format(pretok_reads_as_name(text) ? "(?:%s)" : "%s", text);
    return 0;
}

static int refuse_pre_tokenizer(const cJSON *part)
{
    char names[256] = "";
    size_t used = 0;
    const cJSON *list = json_get(part, "pretokenizers"), *item;
    if (is_type(part, "Sequence") && cJSON_IsArray(list)) {
        cJSON_ArrayForEach(item, list)
        {
            if (used < sizeof names) {
                used += (size_t)snprintf(names + used, sizeof names - used, "%s%.60s",
                                         used == 0 ? " of " : ", ", type_of(item));
            }
        }
    }
    return err_set(ERR_INPUT, "pre_tokenizer %.60s%s is not supported; pacer knows " ALLOWED_SPLIT,
                   type_of(part), names);
}

/* *pattern: what tokenizer_set_pattern takes; caller frees. */
static int read_pre_tokenizer(const cJSON *part, char **pattern)
{
    const cJSON *first = part, *second = NULL, *list = json_get(part, "pretokenizers");
    if (is_type(part, "Sequence") && cJSON_IsArray(list)) {
        first = list->child;
        second = first != NULL ? first->next : NULL;
    }
    if (first != NULL && second == NULL && is_type(first, "ByteLevel")) {
        *pattern = mem_strdup(PRETOK_GPT2);
        return check_byte_level(first, true);
    }
    if (second != NULL && second->next == NULL && is_type(first, "Split") &&
        is_type(second, "ByteLevel")) {
        int code = check_byte_level(second, false);
        return code != 0 ? code : read_split(first, pattern);
    }
    return refuse_pre_tokenizer(part);
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

static int get_flag(const cJSON *item, const char *key, bool otherwise, bool *flag)
{
    const cJSON *value = json_get(item, key);
    if (value != NULL && !cJSON_IsBool(value)) {
        return err_set(ERR_INPUT, "\"%s\" must be true or false", key);
    }
    *flag = value == NULL ? otherwise : cJSON_IsTrue(value);
    return 0;
}

static int read_added(const cJSON *item, WrittenAdded *token)
{
    const cJSON *content = json_get(item, "content");
    if (!cJSON_IsString(content) || !is_utf8(content->valuestring)) {
        return err_set(ERR_INPUT, "\"content\" must be a string");
    }
    *token = (WrittenAdded){.content = content->valuestring};
    static const char *const refused[] = {"single_word", "lstrip", "rstrip"};
    int code = 0;
    for (size_t i = 0; i < sizeof refused / sizeof *refused && code == 0; i++) {
        bool set;
        code = get_flag(item, refused[i], false, &set);
        if (code == 0 && set) {
            code = err_set(ERR_INPUT, "%s true is not supported; it must be false", refused[i]);
        }
    }
    if (code == 0 && !get_number(json_get(item, "id"), &token->id)) {
        code = err_set(ERR_INPUT, "\"id\" must be a whole number from 0 on");
    }
    code = code != 0 ? code : get_flag(item, "special", false, &token->special);
    code = code != 0 ? code : get_flag(item, "normalized", !token->special, &token->normalized);
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
    const cJSON *fallback = json_get(model, "byte_fallback");
    if (!json_is_nothing(fallback) && !cJSON_IsFalse(fallback)) {
        return err_set(ERR_INPUT, "model byte_fallback true is not supported; pacer reads "
                                  "byte-level BPE, where every byte is a token");
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
    bool alone = is_type(part, "ByteLevel") || (is_type(part, "Sequence") && cJSON_IsArray(list));
    cJSON_ArrayForEach(item, list)
    {
        alone = alone && is_type(item, "ByteLevel");
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

static int read_root(Tokenizer *tokenizer, const cJSON *root, const char *path)
{
    const cJSON *model = json_get(root, "model");
    int code = check_model(model);
    char *pattern = NULL;
    WrittenAdded *added = NULL;
    size_t added_count = 0;
    uint32_t entries = 0;
    bool ignore_merges = false;
    code = code != 0 ? code : check_normalizer(json_get(root, "normalizer"));
    code = code != 0 ? code : check_decoder(json_get(root, "decoder"));
    code = code != 0 ? code : read_pre_tokenizer(json_get(root, "pre_tokenizer"), &pattern);
    code = code != 0 ? code : tokenizer_set_pattern(tokenizer, pattern);
    code = code != 0 ? code : get_flag(model, "ignore_merges", false, &ignore_merges);
    code = code != 0 ? code : read_added_list(json_get(root, "added_tokens"), &added, &added_count);
    code = code != 0 ? code
                     : add_vocab(tokenizer, json_get(model, "vocab"), added, added_count, &entries);
    code = code != 0 ? code : add_merges(tokenizer, json_get(model, "merges"));
    code = code != 0 ? code : add_listed(tokenizer, added, added_count, entries, path);
    if (code == 0) {
        tokenizer->ignore_merges = ignore_merges;
        code = tokenizer_finish(tokenizer);
    }
    keep_unused(tokenizer, root);
    free(added);
    free(pattern);
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
