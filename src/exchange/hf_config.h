#pragma once
/* config.json of a Hugging Face folder, to and from a ModelSpec. Reading refuses, by the name of
 * the field, whatever would make the model compute something else than pacer's models do. */
#include "model/spec.h"

/* path is what messages name. *out has the name of the preset it differs least from. */
int hf_config_parse(const char *text, size_t size, const char *path, ModelSpec *out);

typedef struct {
    int64_t begin, end; /* ids of the tokens that begin and end a text; -1: none */
    DType dtype;        /* of the stored tensors */
} HfConfigExtra;

/* The file's text; caller frees with free. ERR_INPUT, naming the option, for a model that
 * transformers has no class for: a GPT-2 with fewer key/value heads, say. */
int hf_config_text(const ModelSpec *spec, HfConfigExtra extra, char **text);

/* generation_config.json; caller frees. */
char *hf_generation_text(HfConfigExtra extra);
