#pragma once
/* `pacer tokenizer encode` and `decode`: files or pipes of any size, to ids and back. */
#include "config/config.h"

/* `input`: a file, or "-" for standard input. */
int tokenizer_encode_file(const Config *cfg, const char *input);
int tokenizer_decode_file(const Config *cfg, const char *input);
