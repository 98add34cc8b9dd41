/* Writing config.json and generation_config.json. Fields that versions of transformers name
 * differently are written under every name (dtype and torch_dtype; rope_theta and
 * rope_parameters), with the same value. */
#include "exchange/hf_config.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* Marked as a real number, which some versions insist on. */
static void put_real(cJSON *object, const char *name, double value)
{
    char text[48];
    snprintf(text, sizeof text, "%.15g", value);
    if (strpbrk(text, ".e") == NULL) {
        snprintf(text, sizeof text, "%.15g.0", value);
    }
    json_put_raw(object, name, text);
}

static void put_id(cJSON *object, const char *name, int64_t id)
{
    json_put_or_null(object, name, (Value){id >= 0, (double)id});
}

static void put_gpt2(cJSON *o, const ModelSpec *s)
{
    json_put_whole(o, "n_layer", s->layers);
    json_put_whole(o, "n_embd", s->width);
    json_put_whole(o, "n_head", s->heads);
    json_put_whole(o, "n_inner", s->ffn);
    json_put_whole(o, "n_positions", s->context);
    json_put_whole(o, "n_ctx", s->context);
    put_real(o, "layer_norm_epsilon", s->norm_eps);
    json_put_text(o, "activation_function", "gelu_new");
    json_put_bool(o, "scale_attn_weights", true);
    json_put_bool(o, "scale_attn_by_inverse_layer_idx", false);
    json_put_bool(o, "reorder_and_upcast_attn", false);
    put_real(o, "attn_pdrop", 0);
    put_real(o, "embd_pdrop", 0);
    put_real(o, "resid_pdrop", 0);
}

static void put_llama(cJSON *o, const ModelSpec *s)
{
    json_put_whole(o, "num_hidden_layers", s->layers);
    json_put_whole(o, "hidden_size", s->width);
    json_put_whole(o, "num_attention_heads", s->heads);
    json_put_whole(o, "num_key_value_heads", s->kv_heads);
    json_put_whole(o, "head_dim", spec_head_dim(s));
    json_put_whole(o, "intermediate_size", s->ffn);
    json_put_whole(o, "max_position_embeddings", s->context);
    put_real(o, "rms_norm_eps", s->norm_eps);
    put_real(o, "rope_theta", s->rope_base);
    cJSON *rope = json_put_object(o, "rope_parameters");
    put_real(rope, "rope_theta", s->rope_base);
    json_put_text(rope, "rope_type", "default");
    json_put_text(o, "hidden_act", "silu");
    json_put_bool(o, "attention_bias", false);
    json_put_bool(o, "mlp_bias", false);
    put_real(o, "attention_dropout", 0);
}

static void put_ttt(cJSON *o, const ModelSpec *s)
{
    put_llama(o, s);
    json_put_text(o, "ttt_layer_type", s->ttt == TTT_MLP ? "mlp" : "linear");
    json_put_whole(o, "mini_batch_size", s->mini);
    put_real(o, "ttt_base_lr", s->ttt_rate);
}

/* The tree as text, which is the caller's. */
static char *finish(cJSON *object)
{
    char *text = json_print(object);
    cJSON_Delete(object);
    return text;
}

int hf_config_text(const ModelSpec *s, HfConfigExtra extra, char **text)
{
    static const struct {
        const char *type, *architecture;
        void (*write)(cJSON *o, const ModelSpec *s);
    } families[] = {[NAMES_GPT2] = {"gpt2", "GPT2LMHeadModel", put_gpt2},
                    [NAMES_LLAMA] = {"llama", "LlamaForCausalLM", put_llama},
                    [NAMES_TTT] = {"ttt", "TTTForCausalLM", put_ttt}};
    *text = NULL;
    if (s->names == NAMES_GPT2 && s->kv_heads != s->heads) {
        return err_set(
            ERR_INPUT,
            "a GPT-2 model with %lld key/value heads for %lld heads: transformers' GPT-2 "
            "has as many, so there is no config.json for it",
            (long long)s->kv_heads, (long long)s->heads);
    }
    cJSON *o = json_object();
    cJSON *architectures = json_put_array(o, "architectures");
    json_append_text(architectures, families[s->names].architecture);
    json_put_text(o, "model_type", families[s->names].type);
    json_put_whole(o, "vocab_size", s->vocab);
    families[s->names].write(o, s);
    json_put_bool(o, "tie_word_embeddings", s->tied);
    put_id(o, "bos_token_id", extra.begin);
    put_id(o, "eos_token_id", extra.end);
    const char *dtype = extra.dtype == DT_BF16 ? "bfloat16" : "float32";
    json_put_text(o, "dtype", dtype);
    json_put_text(o, "torch_dtype", dtype);
    json_put_bool(o, "use_cache", true);
    *text = finish(o);
    return 0;
}

char *hf_generation_text(HfConfigExtra extra)
{
    cJSON *o = json_object();
    json_put_bool(o, "_from_model_config", true);
    if (extra.end >= 0) {
        put_id(o, "bos_token_id", extra.begin);
        put_id(o, "eos_token_id", extra.end);
        put_id(o, "pad_token_id", extra.end); /* so that batches can be filled up */
    }
    return finish(o);
}
