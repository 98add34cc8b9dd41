#pragma once
/* Normalizer, pre-tokenizer and decoder of a tokenizer.json. Each is a part with a "type", or a
 * Sequence of them. A type or a setting that pacer does not have is refused by name, because text
 * would become other tokens without notice. */
#include "base/json.h"
#include "text/tokenizer.h"

/* Reads all three into the tokenizer. */
int tokenizer_read_parts(Tokenizer *tokenizer, const cJSON *root);

bool part_is(const cJSON *part, const char *type);

/* A member that is true or false; `otherwise` when there is none. */
int part_flag(const cJSON *item, const char *key, bool otherwise, bool *flag);
