#pragma once
#include "api/tokenizer.h"
#include "model/generate.h"
#include "use/loaded.h"

struct pacer_model {
    LoadedModel loaded;
    pacer_tokenizer *tokenizer; /* of the model; NULL: it has none */
    Generator generator;        /* of one text, once one was begun */
    bool begun;
};
