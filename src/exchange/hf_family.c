#include "exchange/hf_family.h"

#include <string.h>

#define SILU                \
    {                       \
        FFN_SWIGLU,         \
        {                   \
            "silu", "swish" \
        }                   \
    }
#define GELU                                \
    {                                       \
        FFN_GEGLU,                          \
        {                                   \
            "gelu_pytorch_tanh", "gelu_new" \
        }                                   \
    }

/* Of those that a model fits the first is written: a Mistral without a window as a Llama. */
const Family hf_families[] = {
    {.type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .preset = "gpt2-124m",
     .activation_field = "activation_function",
     .activations = {{FFN_GELU, {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}},
                     {FFN_RELU2, {"relu2"}}},
     .norm_eps = 1e-5,
     .tied = true},
    {.type = "llama",
     .architecture = "LlamaForCausalLM",
     .preset = "tiny",
     .activation_field = "hidden_act",
     .activations = {SILU, GELU},
     .context = 2048,
     .norm_eps = 1e-6,
     .rope_base = 10000},
    {.type = "mistral",
     .architecture = "MistralForCausalLM",
     .preset = "mistral-7b",
     .activation_field = "hidden_act",
     .activations = {SILU, GELU},
     .context = 131072,
     .kv_heads = 8,
     .norm_eps = 1e-6,
     .rope_base = 10000,
     .says = {"window"}},
    {.type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .preset = "qwen2.5-0.5b",
     .activation_field = "hidden_act",
     .activations = {SILU, GELU},
     .context = 32768,
     .norm_eps = 1e-6,
     .rope_base = 10000,
     .says = {"window", "full-every"},
     .window_switch = "use_sliding_window"},
    {.type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .preset = "qwen3-0.6b",
     .activation_field = "hidden_act",
     .activations = {SILU, GELU},
     .context = 32768,
     .head_dim = 128,
     .norm_eps = 1e-6,
     .rope_base = 10000,
     .says = {"window", "full-every"},
     .window_switch = "use_sliding_window"},
    {.type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .preset = "gemma-2-2b",
     .activation_field = "hidden_activation",
     .activations = {GELU, SILU},
     .context = 8192,
     .kv_heads = 4,
     .head_dim = 256,
     .norm_eps = 1e-6,
     .rope_base = 10000,
     .tied = true,
     .says = {"window", "full-every", "score-scale", "score-cap", "logit-cap", "embed-scale"},
     .full_every = 2},
    {.type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .preset = "gemma-3-1b",
     .activation_field = "hidden_activation",
     .activations = {GELU, SILU},
     .context = 131072,
     .kv_heads = 4,
     .head_dim = 256,
     .norm_eps = 1e-6,
     .rope_base = 1000000,
     .tied = true,
     .says = {"window", "full-every", "score-scale", "logit-cap", "embed-scale", "rope-local-base"},
     .full_every = 6,
     .pattern_field = "sliding_window_pattern"},
    {.type = "ttt",
     .architecture = "TTTForCausalLM",
     .preset = "ttt-125m",
     .activation_field = "hidden_act",
     .activations = {SILU},
     .context = 2048,
     .norm_eps = 1e-6,
     .rope_base = 10000},
};
const int hf_family_count = sizeof hf_families / sizeof hf_families[0];

bool hf_family_says(const Family *family, const char *option)
{
    for (int i = 0; family->says[i] != NULL; i++) {
        if (strcmp(family->says[i], option) == 0) {
            return true;
        }
    }
    return false;
}

double hf_family_initial(const Family *family, const ModelSpec *s, const SpecField *field)
{
    switch (field->offset) {
    case offsetof(ModelSpec, kv_heads):
        return (double)(family->kv_heads > 0 ? family->kv_heads : s->heads);
    case offsetof(ModelSpec, head_dim):
        return family->head_dim > 0                       ? (double)family->head_dim
               : s->heads > 0 && s->width % s->heads == 0 ? (double)(s->width / s->heads)
                                                          : 0;
    case offsetof(ModelSpec, ffn):
        return s->names == NAMES_GPT2 ? 4 * (double)s->width : 0;
    }
    return spec_value(s, field);
}

const char *hf_field_name(const Family *family, const SpecField *field)
{
    return spec_find(family->preset)->names == NAMES_GPT2 ? field->gpt2 : field->hf;
}
