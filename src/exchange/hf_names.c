/* Names of parameters in files of transformers. */
#include "exchange/hf_config.h"

#include <stdio.h>
#include <string.h>

/* GPT-2's linear maps inside the blocks: other names, and matrices the other way round, because
 * its layers multiply from the right. */
static const struct {
    const char *own, *theirs;
} gpt2_parts[] = {{".attn.qkv.", ".attn.c_attn."},
                  {".attn.proj.", ".attn.c_proj."},
                  {".mlp.fc.", ".mlp.c_fc."},
                  {".mlp.proj.", ".mlp.c_proj."}};

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), length = strlen(end);
    return size >= length && strcmp(text + size - length, end) == 0;
}

const char *hf_prefix(ParamNames names)
{
    return names == NAMES_GPT2 ? "transformer." : "model.";
}

const char *hf_embedding_row(ParamNames names)
{
    return names == NAMES_GPT2 ? "wte.weight" : "model.embed_tokens.weight";
}

HfName hf_name(ParamNames names, const char *row)
{
    HfName out = {.transposed = false};
    out.less = names == NAMES_GEMMA && ends_with(row, "norm.weight") ? 1 : 0;
    if (names != NAMES_GPT2 || strcmp(row, HF_HEAD_ROW) == 0) {
        snprintf(out.name, sizeof out.name, "%s", row);
        return out;
    }
    for (size_t i = 0; i < sizeof gpt2_parts / sizeof gpt2_parts[0]; i++) {
        const char *at = strstr(row, gpt2_parts[i].own);
        if (at != NULL) {
            const char *rest = at + strlen(gpt2_parts[i].own);
            snprintf(out.name, sizeof out.name, "%s%.*s%s%s", hf_prefix(names), (int)(at - row),
                     row, gpt2_parts[i].theirs, rest);
            out.transposed = strcmp(rest, "weight") == 0;
            return out;
        }
    }
    snprintf(out.name, sizeof out.name, "%s%s", hf_prefix(names), row);
    return out;
}

bool hf_is_computed(const char *name)
{
    return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias") ||
           ends_with(name, ".rotary_emb.inv_freq");
}
