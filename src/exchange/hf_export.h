#pragma once
/* A model as a Hugging Face folder: config.json, safetensors, tokenizer.json with
 * tokenizer_config.json, and generation_config.json. */
#include "exchange/weight_folder.h"
#include "text/tokenizer.h"

typedef struct {
    const WeightFolder *weights;
    const ModelSpec *spec;
    const char
        *tokenizer; /* folder with tokenizer.json, or vocab.json and merges.txt, if it has any */
    bool trained;   /* by pacer, whose documents begin with the token that ends them */
} HfModel;

typedef struct {
    DType dtype;         /* DT_F32 or DT_BF16 */
    int64_t shard_bytes; /* several files above it */
} HfExport;

/* ERR_INPUT when `out` exists and is no empty folder, or the model cannot be described. */
int hf_export(const HfModel *model, HfExport options, const char *out);

/* Brings the tokenizer that `from` holds, if any, into `folder` as tokenizer.json: a copy of
 * that file, so that nothing in it is lost, or one made from vocab.json and merges.txt; with
 * tokenizer_config.json and chat_template.jinja. One that pacer cannot read is copied with a
 * warning. *tokenizer is for the caller to free; NULL: there is none that pacer reads. */
int hf_bring_tokenizer(const char *from, const char *folder, Tokenizer **tokenizer);

/* Ids of the tokens that begin and end a text and of the one that comes before every text, -1:
 * none. Where pacer trained the model all are the one that ends documents. Else the folder's
 * tokenizer_config.json says, or where it says nothing of the first the template of the tokenizer's
 * post_processor. */
typedef struct {
    int64_t begin, end, first;
} HfTextTokens;
HfTextTokens hf_text_tokens(const char *folder, bool trained, const Tokenizer *tokenizer);

/* The folder's chat_template.jinja, or "chat_template" of its tokenizer_config.json; NULL: none.
 * Caller frees. */
char *hf_chat_template(const char *folder);
