#pragma once
/* The fields of a model, one row each. The struct ModelSpec, the options that change a preset,
 * config.json in and out, what a checkpoint stores and a resume compares, run.json and what the
 * PyTorch peers are told all follow from this table; nothing else lists them.
 *
 * OPTION(kind, type, field, name, stored, words, most, gpt2, hf, commands, flags, help, also)
 * PRESET(kind, type, field, name, stored, words)
 *
 * An OPTION row can be set by the option --name; a PRESET row is as the preset has it.
 *   kind      WHOLE (int64_t), REAL (double), CHOICE (an enum) or FLAG (bool)
 *   name      of the option, and in run.json
 *   stored    in a checkpoint's state.json, where a choice is stored as its number
 *   words     names of the values 0, 1, ... of a choice; new ones go to the end
 *   most      largest value of a number
 *   gpt2, hf  name in config.json of a GPT-2, of any other model; NULL: it has none there
 *   commands, flags, help, also   of the option (config/table.c); with the flag NONE, the word none
 *             makes the field 0 */
#include <stdint.h>

#define MODEL_FIELDS(OPTION, PRESET)                                                               \
    PRESET(CHOICE, ParamNames, names, "names", "names", ("gpt2", "llama", "ttt", "gemma"))         \
    OPTION(WHOLE, int64_t, layers, "layers", "layers", (NULL), 10000, "n_layer",                   \
           "num_hidden_layers", STEP | MACHINE, 0, "blocks; 0: the preset's", NULL)                \
    OPTION(WHOLE, int64_t, width, "d-model", "d-model", (NULL), 1e6, "n_embd", "hidden_size",      \
           STEP | MACHINE, 0, "width of the residual stream; 0: the preset's", NULL)               \
    OPTION(WHOLE, int64_t, heads, "heads", "heads", (NULL), 100000, "n_head",                      \
           "num_attention_heads", STEP | KERNEL | MACHINE, 0, "query heads; 0: the preset's",      \
           ALSO({KERNEL, "query heads; 0: 12"}))                                                   \
    OPTION(WHOLE, int64_t, kv_heads, "kv-heads", "kv-heads", (NULL), 100000, NULL,                 \
           "num_key_value_heads", STEP | KERNEL | MACHINE, 0,                                      \
           "key and value heads; 0: the preset's, or as many as heads where heads is given",       \
           ALSO({KERNEL, "key and value heads; 0: as many as heads"}))                             \
    OPTION(WHOLE, int64_t, head_dim, "head-dim", "head-dim", (NULL), 1e6, NULL, "head_dim",        \
           STEP | KERNEL | MACHINE, LATER, "width of a head; 0: d-model / heads",                  \
           ALSO({KERNEL, "width of a head; 0: 64"}))                                               \
    OPTION(WHOLE, int64_t, ffn, "ffn", "ffn", (NULL), 10e6, "n_inner", "intermediate_size",        \
           STEP | MACHINE, 0, "width of the feed-forward layer; 0: the preset's", NULL)            \
    OPTION(WHOLE, int64_t, vocab, "vocab", "vocab", (NULL), 10e6, "vocab_size", "vocab_size",      \
           STEP | MACHINE | BIT(TOKENIZER_TRAIN), 0,                                               \
           "vocabulary; 0: the preset's, or the data's where the preset leaves it open",           \
           ALSO({BIT(TOKENIZER_TRAIN), "tokens of the vocabulary; 0: 10,000"}))                    \
    OPTION(WHOLE, int64_t, context, "context", "context", (NULL), 10e6, "n_positions",             \
           "max_position_embeddings", STEP | MACHINE, 0,                                           \
           "longest sequence the model can take; 0: the preset's", NULL)                           \
    /* the head uses the embedding's weights */                                                    \
    OPTION(FLAG, bool, tied, "tied", "tied", ("off", "on"), 0, "tie_word_embeddings",              \
           "tie_word_embeddings", STEP | MACHINE, 0,                                               \
           "whether the head uses the embedding's weights", NULL)                                  \
    /* of MIXER_TTT, which has as many key/value heads as heads */                                 \
    OPTION(CHOICE, TttKind, ttt, "ttt", "ttt", ("linear", "mlp"), 0, NULL, "ttt_layer_type",       \
           STEP | MACHINE, 0, "TTT models: the inner model that is trained along each sequence",   \
           NULL)                                                                                   \
    /* tokens of a mini-batch */                                                                   \
    OPTION(WHOLE, int64_t, mini, "mini-batch", "mini-batch", (NULL), 4096, NULL,                   \
           "mini_batch_size", STEP | MACHINE, 0,                                                   \
           "TTT models: tokens whose inner gradients are taken at one inner state; 0: the "        \
           "preset's",                                                                             \
           NULL)                                                                                   \
    OPTION(REAL, double, ttt_rate, "ttt-lr", "ttt-lr", (NULL), 1000, NULL, "ttt_base_lr",          \
           STEP | MACHINE, 0,                                                                      \
           "TTT models: inner base learning rate; 0: 1 for linear, 0.1 for mlp", NULL)             \
    OPTION(REAL, double, norm_eps, "norm-eps", "norm epsilon", (NULL), 1, "layer_norm_epsilon",    \
           "rms_norm_eps", STEP | MACHINE, LATER,                                                  \
           "added to the variance in norms; 0: the preset's", NULL)                                \
    /* 0: no rotary embedding */                                                                   \
    OPTION(REAL, double, rope_base, "rope-base", "rope base", (NULL), 1e12, NULL, "rope_theta",    \
           STEP | MACHINE, LATER, "base of the rotary positions' angles; 0: the preset's", NULL)   \
    /* how rotary angles are stretched for contexts longer than those first trained on */          \
    OPTION(CHOICE, RopeScaling, rope_scaling, "rope-scaling", "rope scaling",                      \
           ("none", "linear", "llama3", "yarn"), 0, NULL, NULL, STEP | MACHINE, LATER,             \
           "rotary angles: as they are, all divided by --rope-factor, or, as Llama 3 and YaRN "    \
           "have it, the slow ones only",                                                          \
           NULL)                                                                                   \
    OPTION(REAL, double, rope_factor, "rope-factor", "rope factor", (NULL), 1e6, NULL, NULL,       \
           STEP | MACHINE, LATER, "what rope-scaling divides angles by; 0: the preset's", NULL)    \
    /* of llama3 and yarn: turns in rope_context below which angles are stretched, above not */    \
    OPTION(REAL, double, rope_low, "rope-low", "rope low", (NULL), 1e6, NULL, NULL,                \
           STEP | MACHINE, LATER,                                                                  \
           "rope-scaling llama3, yarn: angles with fewer turns in rope-context are divided; 0: "   \
           "the preset's",                                                                         \
           NULL)                                                                                   \
    OPTION(REAL, double, rope_high, "rope-high", "rope high", (NULL), 1e6, NULL, NULL,             \
           STEP | MACHINE, LATER,                                                                  \
           "rope-scaling llama3, yarn: angles with more turns in rope-context stay; 0: the "       \
           "preset's",                                                                             \
           NULL)                                                                                   \
    OPTION(WHOLE, int64_t, rope_context, "rope-context", "rope context", (NULL), 10e6, NULL, NULL, \
           STEP | MACHINE, LATER,                                                                  \
           "rope-scaling llama3, yarn: context trained on before; 0: the preset's", NULL)          \
    /* 0: 1 + ln(rope_factor) / 10 */                                                              \
    OPTION(REAL, double, rope_gain, "rope-gain", "rope gain", (NULL), 1000, NULL, NULL,            \
           STEP | MACHINE, LATER,                                                                  \
           "rope-scaling yarn: what turned q and k are multiplied by; 0: 1 + ln(rope-factor) / "   \
           "10",                                                                                   \
           NULL)                                                                                   \
    OPTION(CHOICE, NormKind, norm, "norm", "norm", ("layer", "rms"), 0, NULL, NULL,                \
           STEP | MACHINE, LATER, "layer norm (mean and variance, with biases) or RMS norm", NULL) \
    OPTION(CHOICE, FfnKind, ffn_kind, "ffn-kind", "ffn kind",                                      \
           ("gelu", "swiglu", "geglu", "relu2"), 0, NULL, NULL, STEP | MACHINE, LATER,             \
           "activation of the feed-forward layer; swiglu and geglu have a gate beside it", NULL)   \
    /* on the maps that make q, k and v, where bias is not */                                      \
    OPTION(FLAG, bool, qkv_bias, "qkv-bias", "qkv bias", ("off", "on"), 0, NULL, NULL,             \
           STEP | MACHINE, LATER, "whether q, k and v have biases, as Qwen 2 has them", NULL)      \
    OPTION(FLAG, bool, qk_norm, "qk-norm", "qk norm", ("off", "on"), 0, NULL, NULL,                \
           STEP | MACHINE, LATER,                                                                  \
           "whether each head of q and k goes through an RMS norm, as Qwen 3 has it", NULL)        \
    /* keys that a query sees, the last ones, in some layers or all; 0: no layer has a window */   \
    OPTION(WHOLE, int64_t, window, "window", "window", (NULL), 10e6, NULL, NULL,                   \
           STEP | KERNEL | MACHINE, LATER | NONE,                                                  \
           "tokens that attention looks back on, its own included; 0: the preset's, none: all",    \
           ALSO({KERNEL, "keys that a query sees, itself included; 0: all before it"}))            \
    /* layers full_every, 2 full_every, ... counted from 1 see all; 0: none of them */             \
    OPTION(WHOLE, int64_t, full_every, "full-every", "full every", (NULL), 10000, NULL, NULL,      \
           STEP | MACHINE, LATER | NONE,                                                           \
           "every n-th layer has no window, counted from 1; 0: the preset's, none: all have it",   \
           NULL)                                                                                   \
    /* of layers with the window, whose angles are not scaled; 0: as all others */                 \
    OPTION(REAL, double, rope_local_base, "rope-local-base", "rope local base", (NULL), 1e12,      \
           NULL, NULL, STEP | MACHINE, LATER | NONE,                                               \
           "base of the rotary positions' angles in layers with the window; 0: the preset's, "     \
           "none: rope-base",                                                                      \
           NULL)                                                                                   \
    OPTION(REAL, double, score_scale, "score-scale", "score scale", (NULL), 1000, NULL, NULL,      \
           STEP | MACHINE, LATER | NONE,                                                           \
           "what q.k is multiplied by in attention; 0: the preset's, none: 1/sqrt(head-dim)",      \
           NULL)                                                                                   \
    OPTION(REAL, double, score_cap, "score-cap", "score cap", (NULL), 1e6, NULL, NULL,             \
           STEP | MACHINE, LATER | NONE,                                                           \
           "scores of attention become cap tanh(score / cap); 0: the preset's, none: no cap",      \
           NULL)                                                                                   \
    OPTION(FLAG, bool, post_norm, "post-norm", "post norm", ("off", "on"), 0, NULL, NULL,          \
           STEP | MACHINE, LATER,                                                                  \
           "whether norms are also behind attention and feed-forward, as Gemma 2 has them", NULL)  \
    OPTION(REAL, double, embed_scale, "embed-scale", "embed scale", (NULL), 1e6, NULL, NULL,       \
           STEP | MACHINE, LATER | NONE,                                                           \
           "what embeddings are multiplied by; 0: the preset's, for Gemma sqrt(d-model); none: "   \
           "nothing",                                                                              \
           NULL)                                                                                   \
    OPTION(REAL, double, logit_cap, "logit-cap", "logit cap", (NULL), 1e6, NULL, NULL,             \
           STEP | MACHINE, LATER | NONE,                                                           \
           "logits become cap tanh(logit / cap); 0: the preset's, none: no cap", NULL)             \
    /* on every linear map but the head; a gated feed-forward has them behind it only */           \
    PRESET(FLAG, bool, bias, "bias", "bias", ("off", "on"))                                        \
    /* a (context, width) table added to the embedding */                                          \
    PRESET(FLAG, bool, learned_positions, "learned-positions", "learned positions", ("off", "on")) \
    /* init residual projections with 0.02 / sqrt(2 layers) */                                     \
    PRESET(FLAG, bool, scaled_residual, "scaled-residual", "scaled residual", ("off", "on"))       \
    /* weight decay of norms, biases and inner parameters too */                                   \
    PRESET(FLAG, bool, decay_all, "decay-all", "decay all", ("off", "on"))                         \
    PRESET(CHOICE, MixerKind, mixer, "mixer", "mixer", ("attention", "ttt"))

/* What takes the place of a preset's fields. 0 keeps the preset's; a choice or a switch is
 * 1 + its value, a number below 0 makes the field 0. */
typedef struct {
#define OVERRIDE_WHOLE int64_t
#define OVERRIDE_REAL double
#define OVERRIDE_CHOICE int
#define OVERRIDE_FLAG int
#define OPTION(kind, type, field, ...) OVERRIDE_##kind field;
#define PRESET(...)
    MODEL_FIELDS(OPTION, PRESET)
#undef OPTION
#undef PRESET
} SpecOverrides;

/* Every preset by its family, with its dimensions and what a run of it starts with unless told:
 * the learning rate (of AdamW) and the sequences of a batch, found by sweeps
 * (docs/results/rates.md); those of published models are of the GPT-2 nearest in size.
 *
 * LLAMA(name, lr, batch, layers, width, heads, ffn, vocab, context); vocab 0: the data's
 * HUB(name, lr, batch, layers, width, heads, kv_heads, head_dim, ffn, vocab, context, rope_base,
 *     norm_eps, tied, more): published models; more: other fields
 * GEMMA: the same with Gemma's names, GeGLU and norms behind each part, tied; embed_scale for tied
 * GPT2(name, lr, batch, layers, width, heads)
 * TTT(name, lr, batch, layers, width, heads, ffn) */
#define MODEL_PRESETS(LLAMA, HUB, GEMMA, GPT2, TTT)                                             \
    LLAMA("tiny", 3e-3, 32, 4, 128, 4, 344, 0, 128)                                             \
    LLAMA("llama-22m", 1e-3, 8, 4, 512, 16, 1344, 10000, 256)                                   \
    HUB("smollm2-135m", 6e-4, 8, 30, 576, 9, 3, 64, 1536, 49152, 8192, 1e5, 1e-5, true, )       \
    HUB("smollm2-360m", 3e-4, 8, 32, 960, 15, 5, 64, 2560, 49152, 8192, 1e5, 1e-5, true, )      \
    HUB("smollm2-1.7b", 1e-4, 8, 24, 2048, 32, 32, 64, 8192, 49152, 8192, 130000, 1e-5, true, ) \
    HUB("qwen2.5-0.5b", 3e-4, 8, 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e6, 1e-6, true,      \
        .qkv_bias = true)                                                                       \
    HUB("qwen2.5-1.5b", 1e-4, 8, 28, 1536, 12, 2, 128, 8960, 151936, 131072, 1e6, 1e-6, true,   \
        .qkv_bias = true)                                                                       \
    HUB("qwen2.5-3b", 1e-4, 8, 36, 2048, 16, 2, 128, 11008, 151936, 32768, 1e6, 1e-6, true,     \
        .qkv_bias = true)                                                                       \
    HUB("llama-3.2-1b", 1e-4, 8, 16, 2048, 32, 8, 64, 8192, 128256, 131072, 5e5, 1e-5, true,    \
        LLAMA3(32))                                                                             \
    HUB("llama-3.2-3b", 1e-4, 8, 28, 3072, 24, 8, 128, 8192, 128256, 131072, 5e5, 1e-5, true,   \
        LLAMA3(32))                                                                             \
    HUB("qwen3-0.6b", 2e-4, 8, 28, 1024, 16, 8, 128, 3072, 151936, 40960, 1e6, 1e-6, true,      \
        .qk_norm = true)                                                                        \
    HUB("mistral-7b", 1e-4, 8, 32, 4096, 32, 8, 128, 14336, 32768, 32768, 1e6, 1e-5, false, )   \
    GEMMA("gemma-2-2b", 1e-4, 8, 26, 2304, 8, 4, 256, 9216, 256000, 8192, 1e4, 1e-6, 48,        \
          .window = 4096, .full_every = 2, .score_cap = 50, .logit_cap = 30)                    \
    GEMMA("gemma-3-270m", 3e-4, 8, 18, 640, 4, 1, 256, 2048, 262144, 32768, 1e6, 1e-6,          \
          25.298221281347, GEMMA3)                                                              \
    GEMMA("gemma-3-1b", 2e-4, 8, 26, 1152, 4, 1, 256, 6912, 262144, 32768, 1e6, 1e-6,           \
          33.9411254969543, GEMMA3)                                                             \
    GPT2("gpt2-124m", 6e-4, 8, 12, 768, 12)                                                     \
    GPT2("gpt2-350m", 3e-4, 8, 24, 1024, 16)                                                    \
    GPT2("gpt2-774m", 2e-4, 8, 36, 1280, 20)                                                    \
    GPT2("gpt2-1558m", 1e-4, 8, 48, 1600, 25)                                                   \
    TTT("ttt-125m", 6e-4, 8, 12, 768, 12, 2048)                                                 \
    TTT("ttt-350m", 4e-4, 8, 24, 1024, 16, 2736)                                                \
    TTT("ttt-760m", 2e-4, 8, 24, 1536, 16, 4096)                                                \
    TTT("ttt-1b", 1.5e-4, 8, 24, 2048, 32, 5504)
