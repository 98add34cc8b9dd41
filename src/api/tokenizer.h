#pragma once
/* A tokenizer together with the encoder that remembers pieces it has met. */
#include "text/encode.h"

#include <pacer.h>

struct pacer_tokenizer {
    Tokenizer *tokenizer;
    Encoder *encoder;
    bool owned; /* the tokenizer; else it is a model's */
};

pacer_tokenizer *tokenizer_handle(Tokenizer *tokenizer, bool owned); /* pacer_tokenizer_close */
