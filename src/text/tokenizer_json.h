#pragma once
/* The parts of a tokenizer.json around its model. */
#include "base/json.h"

/* Checks that normalizer, pre_tokenizer and decoder are those of byte-level BPE. *pattern: what
 * tokenizer_set_pattern takes, made for the caller to free. ERR_INPUT naming the part and its value
 * when they are not. */
int tokenizer_json_parts(const cJSON *root, char **pattern);
