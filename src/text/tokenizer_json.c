/* Reading Hugging Face's tokenizer.json. What pacer would do otherwise than Hugging Face is
 * refused, with three exceptions that do not concern the ids of a text: post_processor (pacer
 * adds no tokens around a text), truncation and padding (pacer makes its own batches). */
#include "text/tokenizer_internal.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALLOWED_SPLIT \
    "ByteLevel, or a Sequence of Split (a Regex, Isolated) and ByteLevel (use_regex false)"

/* ---- Parts around the model ----
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
    if (!cJSON_IsString(behavior) || strcmp(behavior->valuestring, "Isolated") != 0) {
        return err_set(ERR_INPUT,
                       "pre_tokenizer Split: behavior %.60s is not supported; it must be Isolated",
                       cJSON_IsString(behavior) ? behavior->valuestring : "null");
    }
    const cJSON *invert = json_get(split, "invert");
    if (invert != NULL && !cJSON_IsFalse(invert)) {
        return err_set(ERR_INPUT,
                       "pre_tokenizer Split: invert true is not supported; it must be false");
    }
    /* A regular expression that spells one of pacer's names is not meant as the name. */
    const char *text = regex->valuestring;
    bool is_name = strcmp(text, PRETOK_GPT2) == 0 || strcmp(text, PRETOK_LLAMA3) == 0 ||
                   strcmp(text, PRETOK_QWEN2) == 0;
    *pattern = mem_format(is_name ? "(?:%s)" : "%s", text);
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

/* Checks that normalizer, pre_tokenizer and decoder are those of byte-level BPE. *pattern: what
 * tokenizer_set_pattern takes, made for the caller to free. */
static int read_parts(const cJSON *root, char **pattern)
{
    *pattern = NULL;
    int code = check_normalizer(json_get(root, "normalizer"));
    code = code != 0 ? code : check_decoder(json_get(root, "decoder"));
    return code != 0 ? code : read_pre_tokenizer(json_get(root, "pre_tokenizer"), pattern);
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

/* ---- Added tokens ---- */

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
    if (code == 0 && !written_number(json_get(item, "id"), &token->id)) {
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

/* ---- The model ---- */

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
static int add_merge(Tokenizer *tokenizer, const cJSON *item)
{
    if (cJSON_IsString(item)) {
        return written_add_merge_line(tokenizer, item->valuestring, strlen(item->valuestring));
    }
    const cJSON *left = cJSON_IsArray(item) ? item->child : NULL;
    const cJSON *right = left != NULL ? left->next : NULL;
    if (right == NULL || right->next != NULL || !cJSON_IsString(left) || !cJSON_IsString(right)) {
        return err_set(ERR_INPUT, "neither \"left right\" nor [\"left\", \"right\"]");
    }
    return written_add_merge(tokenizer, left->valuestring, strlen(left->valuestring),
                             right->valuestring, strlen(right->valuestring));
}

static int add_merges(Tokenizer *tokenizer, const cJSON *merges)
{
    size_t index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, merges)
    {
        int code = add_merge(tokenizer, item);
        if (code != 0) {
            return err_wrap(code, "merges[%zu]", index);
        }
        index++;
    }
    return 0;
}

static void warn_of_ignored(const cJSON *root, const char *path)
{
    bool truncation = !json_is_nothing(json_get(root, "truncation"));
    bool padding = !json_is_nothing(json_get(root, "padding"));
    if (truncation || padding) {
        log_warn("%s: pacer makes its own batches and does not heed %s%s%s", path,
                 truncation ? "truncation" : "", truncation && padding ? " and " : "",
                 padding ? "padding" : "");
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
    code = code != 0 ? code : read_parts(root, &pattern);
    code = code != 0 ? code : tokenizer_set_pattern(tokenizer, pattern);
    code = code != 0 ? code : get_flag(model, "ignore_merges", false, &ignore_merges);
    code = code != 0 ? code : read_added_list(json_get(root, "added_tokens"), &added, &added_count);
    code = code != 0 ? code
                     : written_add_vocab(tokenizer, json_get(model, "vocab"), added, added_count,
                                         &entries);
    code = code != 0 ? code : add_merges(tokenizer, json_get(model, "merges"));
    code = code != 0 ? code : written_add_added(tokenizer, added, added_count, entries, path);
    if (code == 0) {
        tokenizer_set_ignore_merges(tokenizer, ignore_merges);
        code = tokenizer_finish(tokenizer);
    }
    if (code == 0) {
        warn_of_ignored(root, path);
    }
    free(added);
    free(pattern);
    return code;
}

int tokenizer_parse_json(const char *text, size_t size, const char *path, Tokenizer **out)
{
    *out = NULL;
    cJSON *root;
    int code = written_parse(text, size, path, &root);
    if (code != 0) {
        return code;
    }
    Tokenizer *tokenizer = tokenizer_new();
    code = read_root(tokenizer, root, path);
    cJSON_Delete(root);
    if (code != 0) {
        tokenizer_free(tokenizer);
        return err_wrap(code, "%s", path);
    }
    *out = tokenizer;
    return 0;
}
