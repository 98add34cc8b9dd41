#include "base/show.h"
#include "cli/commands.h"
#include "model/model.h"

#include <stdio.h>

int cmd_models(Config *cfg)
{
    (void)cfg;
    printf("%-12s %15s %7s %8s %6s %6s %8s %8s %8s %6s  %s\n", "model", "parameters", "layers",
           "d-model", "heads", "ffn", "vocab", "context", "lr", "batch", "made of");
    for (int i = 0; spec_preset(i) != NULL; i++) {
        ModelSpec spec = *spec_preset(i);
        bool open = spec.vocab == 0; /* shown for byte tokens */
        spec.vocab = open ? 257 : spec.vocab;
        Model model;
        model_init(&model, &spec, DT_F32, 1);
        char count[SHOW_COUNT_SIZE], vocab[32], ffn[SPEC_TEXT_SIZE];
        snprintf(vocab, sizeof vocab, open ? "data's" : "%lld", (long long)spec.vocab);
        const ModelStart *start = config_start(spec.name);
        printf("%-12s %15s %7lld %8lld %6lld %6lld %8s %8lld %8g %6lld  %s, %s%s%s%s%s%s\n",
               spec.name, show_count((uint64_t)model.params.parameters, true, count),
               (long long)spec.layers, (long long)spec.width, (long long)spec.heads,
               (long long)spec.ffn, vocab, (long long)spec.context, start->lr,
               (long long)start->batch, spec.norm == NORM_RMS ? "RMSNorm" : "LayerNorm",
               spec_text(spec_field_of("ffn-kind"), spec.ffn_kind, ffn),
               spec.mixer == MIXER_TTT ? ", TTT-Linear or TTT-MLP"
               : spec.rope_base <= 0   ? ", learned positions"
               : spec.rope_scaling > 0 ? ", scaled RoPE"
                                       : ", RoPE",
               spec.window > 0 ? ", window" : "", spec.qkv_bias ? ", biases of q, k, v" : "",
               spec.qk_norm ? ", norms of q, k" : "", spec.tied ? ", tied" : "");
        model_free(&model);
    }
    printf("\nlr and batch are what training takes unless told; parameters of tiny are for byte "
           "tokens (vocabulary 257).\nEvery dimension can be overridden:\n"
           "  pacer plan --model llama-22m --layers 8 --d-model 768 --heads 12 --ffn 2048\n");
    return 0;
}
