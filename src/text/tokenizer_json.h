#pragma once
/* The parts of a tokenizer.json around its model. */
#include <cjson/cJSON.h>
#include <stdbool.h>

static inline const cJSON *json_get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static inline bool json_is_nothing(const cJSON *item)
{
    return item == NULL || cJSON_IsNull(item);
}

/* Checks that normalizer, pre_tokenizer and decoder are those of byte-level BPE. *pattern: what
 * tokenizer_set_pattern takes, made for the caller to free. ERR_INPUT naming the part and its value
 * when they are not. */
int tokenizer_json_parts(const cJSON *root, char **pattern);
