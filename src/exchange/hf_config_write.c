/* Writing config.json and generation_config.json. Fields that versions of transformers name
 * differently are written under every name (dtype and torch_dtype; rope_theta and
 * rope_parameters), with the same value. */
#include "exchange/hf_config.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

static void put(cJSON *object, const char *name, double value)
{
    cJSON_AddNumberToObject(object, name, value);
}

/* Marked as a real number, which some versions insist on. */
static void put_real(cJSON *object, const char *name, double value)
{
    char text[48];
    snprintf(text, sizeof text, "%.15g", value);
    if (strpbrk(text, ".e") == NULL) {
        snprintf(text, sizeof text, "%.15g.0", value);
    }
    cJSON_AddRawToObject(object, name, text);
}

static void put_id(cJSON *object, const char *name, int64_t id)
{
    if (id >= 0) {
        cJSON_AddNumberToObject(object, name, (double)id);
    } else {
        cJSON_AddNullToObject(object, name);
    }
}

static void put_gpt2(cJSON *o, const ModelSpec *s)
{
    put(o, "n_layer", (double)s->layers);
    put(o, "n_embd", (double)s->width);
    put(o, "n_head", (double)s->heads);
    put(o, "n_inner", (double)s->ffn);
    put(o, "n_positions", (double)s->context);
    put(o, "n_ctx", (double)s->context);
    put_real(o, "layer_norm_epsilon", s->norm_eps);
    cJSON_AddStringToObject(o, "activation_function", "gelu_new");
    cJSON_AddTrueToObject(o, "scale_attn_weights");
    cJSON_AddFalseToObject(o, "scale_attn_by_inverse_layer_idx");
    cJSON_AddFalseToObject(o, "reorder_and_upcast_attn");
    put_real(o, "attn_pdrop", 0);
    put_real(o, "embd_pdrop", 0);
    put_real(o, "resid_pdrop", 0);
}

static void put_llama(cJSON *o, const ModelSpec *s)
{
    put(o, "num_hidden_layers", (double)s->layers);
    put(o, "hidden_size", (double)s->width);
    put(o, "num_attention_heads", (double)s->heads);
    put(o, "num_key_value_heads", (double)s->kv_heads);
    put(o, "head_dim", (double)spec_head_dim(s));
    put(o, "intermediate_size", (double)s->ffn);
    put(o, "max_position_embeddings", (double)s->context);
    put_real(o, "rms_norm_eps", s->norm_eps);
    put_real(o, "rope_theta", s->rope_base);
    cJSON *rope = cJSON_AddObjectToObject(o, "rope_parameters");
    put_real(rope, "rope_theta", s->rope_base);
    cJSON_AddStringToObject(rope, "rope_type", "default");
    cJSON_AddStringToObject(o, "hidden_act", "silu");
    cJSON_AddFalseToObject(o, "attention_bias");
    cJSON_AddFalseToObject(o, "mlp_bias");
    put_real(o, "attention_dropout", 0);
}

static void put_ttt(cJSON *o, const ModelSpec *s)
{
    put_llama(o, s);
    cJSON_AddStringToObject(o, "ttt_layer_type", s->ttt == TTT_MLP ? "mlp" : "linear");
    put(o, "mini_batch_size", (double)s->mini);
    put_real(o, "ttt_base_lr", s->ttt_rate);
}

/* The tree as text, which is the caller's. */
static char *finish(cJSON *object)
{
    char *printed = cJSON_Print(object);
    mem_checked(printed, (size_t)cJSON_GetArraySize(object));
    char *text = mem_format("%s\n", printed);
    cJSON_free(printed);
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
    cJSON *o = cJSON_CreateObject();
    cJSON *architectures = cJSON_AddArrayToObject(o, "architectures");
    cJSON_AddItemToArray(architectures, cJSON_CreateString(families[s->names].architecture));
    cJSON_AddStringToObject(o, "model_type", families[s->names].type);
    put(o, "vocab_size", (double)s->vocab);
    families[s->names].write(o, s);
    cJSON_AddBoolToObject(o, "tie_word_embeddings", s->tied);
    put_id(o, "bos_token_id", extra.begin);
    put_id(o, "eos_token_id", extra.end);
    const char *dtype = extra.dtype == DT_BF16 ? "bfloat16" : "float32";
    cJSON_AddStringToObject(o, "dtype", dtype);
    cJSON_AddStringToObject(o, "torch_dtype", dtype);
    cJSON_AddTrueToObject(o, "use_cache");
    *text = finish(o);
    return 0;
}

char *hf_generation_text(HfConfigExtra extra)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddTrueToObject(o, "_from_model_config");
    if (extra.end >= 0) {
        put_id(o, "bos_token_id", extra.begin);
        put_id(o, "eos_token_id", extra.end);
        put_id(o, "pad_token_id", extra.end); /* so that batches can be filled up */
    }
    return finish(o);
}
