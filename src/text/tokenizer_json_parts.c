/* Hugging Face's tokenizer.json describes a pipeline of parts, each of one of many types.
 * Byte-level BPE needs few of them: no normalizer, a pre-tokenizer that splits with a regular
 * expression and then writes bytes in the byte alphabet, and the decoder that undoes this. All
 * else is refused by name, because text would become other tokens without notice. */
#include "text/tokenizer_json.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/pretok.h"

#include <stdio.h>
#include <string.h>

#define ALLOWED_SPLIT \
    "ByteLevel, or a Sequence of Split (a Regex, Isolated) and ByteLevel (use_regex false)"

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

int tokenizer_json_parts(const cJSON *root, char **pattern)
{
    *pattern = NULL;
    int code = check_normalizer(json_get(root, "normalizer"));
    code = code != 0 ? code : check_decoder(json_get(root, "decoder"));
    return code != 0 ? code : read_pre_tokenizer(json_get(root, "pre_tokenizer"), pattern);
}
