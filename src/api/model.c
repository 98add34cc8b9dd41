/* A tokenizer; and a trained model: opening it, what it is, its logits, import and export. */
#include "api/internal.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/signals.h"
#include "train/model_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- tokenizer --- */

static pacer_tokenizer *tokenizer_handle(Tokenizer *tokenizer, bool owned)
{
    pacer_tokenizer *handle = mem_zalloc(1, sizeof *handle);
    *handle = (pacer_tokenizer){tokenizer, encoder_open(tokenizer), owned};
    return handle;
}

int pacer_tokenizer_open(const char *path, pacer_tokenizer **out)
{
    api_enter();
    *out = NULL;
    Tokenizer *tokenizer;
    int code = tokenizer_open(path, &tokenizer);
    if (code == 0) {
        *out = tokenizer_handle(tokenizer, true);
    }
    return code;
}

void pacer_tokenizer_close(pacer_tokenizer *handle)
{
    if (handle != NULL) {
        encoder_close(handle->encoder);
        if (handle->owned) {
            tokenizer_free(handle->tokenizer);
        }
        free(handle);
    }
}

int64_t pacer_tokenizer_vocab(const pacer_tokenizer *handle)
{
    return handle->tokenizer->vocab;
}

int pacer_tokenize(pacer_tokenizer *handle, const char *text, size_t size, int32_t **ids,
                   size_t *count)
{
    TokenList list = {0};
    encoder_run(handle->encoder, (const uint8_t *)text, size, &list);
    /* Ids are below TOKENIZER_MAX_VOCAB: the same bits as int32_t. */
    *ids = list.ids != NULL ? (int32_t *)list.ids : mem_alloc(sizeof **ids);
    *count = list.count;
    return 0;
}

int pacer_detokenize(pacer_tokenizer *handle, const int32_t *ids, size_t count, char **text,
                     size_t *size)
{
    ByteList bytes = {0};
    int code = tokenizer_decode(handle->tokenizer, (const uint32_t *)ids, count, &bytes);
    if (code != 0) {
        byte_list_free(&bytes);
        *text = NULL;
        return code;
    }
    bytes.bytes = mem_realloc(bytes.bytes, bytes.size + 1, 1);
    bytes.bytes[bytes.size] = '\0';
    *text = (char *)bytes.bytes;
    *size = bytes.size;
    return 0;
}

/* --- model --- */

int pacer_model_open(const char *path, const pacer_options *options, pacer_model **out)
{
    api_enter();
    *out = NULL;
    bool eval = options != NULL && options->config.command == COMMAND_EVAL;
    pacer_model *model = mem_zalloc(1, sizeof *model);
    Config cfg;
    signals_shield();
    int code = api_config(options, eval ? COMMAND_EVAL : COMMAND_GENERATE, &cfg);
    code = code != 0 ? code : loaded_open(&model->loaded, path, &cfg, NULL);
    signals_unshield();
    config_free(&cfg);
    if (code != 0) {
        free(model);
        return code;
    }
    if (model->loaded.tokenizer != NULL) {
        model->tokenizer = tokenizer_handle(model->loaded.tokenizer, false);
    }
    *out = model;
    return 0;
}

void pacer_model_close(pacer_model *model)
{
    if (model != NULL) {
        generator_close(&model->generator);
        evaluator_close(&model->batches);
        pacer_tokenizer_close(model->tokenizer);
        loaded_close(&model->loaded);
        free(model);
    }
}

double pacer_model_number(const pacer_model *model, const char *name)
{
    const SpecField *field = spec_field_of(name);
    if (field != NULL) {
        const ModelSpec *spec = &model->loaded.model.spec;
        return spec_has(spec, field) ? spec_value(spec, field) : NAN;
    }
    if (strcmp(name, "parameters") == 0) {
        return (double)model->loaded.model.params.parameters;
    }
    return strcmp(name, "step") == 0 && model->loaded.step >= 0 ? (double)model->loaded.step : NAN;
}

pacer_tokenizer *pacer_model_tokenizer(pacer_model *model)
{
    return model->tokenizer;
}

/* --- token by token --- */

static int check_tokens(const pacer_model *model, const int32_t *tokens, size_t count)
{
    int64_t vocab = model->loaded.model.spec.vocab;
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= vocab) {
            return err_set(ERR_INPUT, "token %zu is %" PRId32 "; the model's are 0 to %" PRId64, i,
                           tokens[i], vocab - 1);
        }
    }
    return 0;
}

int pacer_model_begin(pacer_model *model, const int32_t *tokens, size_t count)
{
    if (count == 0) {
        return err_set(ERR_INPUT, "a text begins with one token at least");
    }
    int code = check_tokens(model, tokens, count);
    if (code == 0 && !model->begun) {
        code =
            generator_open(&model->generator, &model->loaded.model, model->loaded.backend, 1, true);
        model->begun = code == 0;
    }
    if (code == 0) {
        sigset_t before;
        signals_block(&before);
        generator_begin(&model->generator, tokens, (int64_t)count);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    return code;
}

static int check_begun(const pacer_model *model)
{
    return model->begun ? 0 : err_set(ERR_INPUT, "no text was begun: call pacer_model_begin first");
}

int pacer_model_append(pacer_model *model, int32_t token)
{
    int code = check_begun(model);
    code = code != 0 ? code : check_tokens(model, &token, 1);
    if (code == 0) {
        sigset_t before;
        signals_block(&before);
        generator_append(&model->generator, &token);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    return code;
}

int pacer_model_logits(pacer_model *model, const float **logits, size_t *count)
{
    int code = check_begun(model);
    if (code == 0) {
        *logits = generator_logits(&model->generator, 0);
        *count = (size_t)model->loaded.model.spec.vocab;
    }
    return code;
}

/* --- batches --- */

#define PASS_TOKENS 8192 /* of a batch that go through the model together, or one text */

/* Memory for passes over texts of this length; a batch that is larger goes through it in parts. */
static int open_batches(pacer_model *model, int64_t batch, int64_t seq)
{
    ModelSpec *spec = &model->loaded.model.spec;
    if (seq > spec->context && spec->mixer == MIXER_TTT) {
        spec->context = seq; /* nothing in the model depends on it */
    }
    if (seq > spec->context) {
        return err_set(ERR_INPUT, "texts of %" PRId64 " tokens: the model's context is %" PRId64,
                       seq, spec->context);
    }
    int64_t most = PASS_TOKENS / seq > 1 ? PASS_TOKENS / seq : 1;
    most = batch < most ? batch : most;
    if (model->batches_of[0] == most && model->batches_of[1] == seq) {
        return 0;
    }
    EvaluatorSetup setup = {.model = &model->loaded.model,
                            .backend = model->loaded.backend,
                            .batch = most,
                            .seq = seq,
                            .fit = true};
    evaluator_close(&model->batches);
    int code = evaluator_open(&model->batches, &setup);
    model->batches_of[0] = code == 0 ? most : 0;
    model->batches_of[1] = seq;
    return code;
}

int pacer_model_forward(pacer_model *model, const int32_t *tokens, size_t batch, size_t seq,
                        float *logits)
{
    api_enter();
    size_t vocab = (size_t)model->loaded.model.spec.vocab, rows, all;
    if (batch == 0 || seq == 0 || __builtin_mul_overflow(batch, seq, &rows) ||
        __builtin_mul_overflow(rows, vocab * sizeof *logits, &all) || all > PTRDIFF_MAX) {
        return err_set(ERR_INPUT, "a batch of %zu texts of %zu tokens cannot be", batch, seq);
    }
    int code = check_tokens(model, tokens, rows);
    signals_shield();
    code = code != 0 ? code : open_batches(model, (int64_t)batch, (int64_t)seq);
    for (size_t first = 0; code == 0 && first < batch;) {
        size_t part = (size_t)model->batches.setup.batch;
        part = part < batch - first ? part : batch - first;
        code = evaluator_logits(&model->batches, tokens + first * seq, (int64_t)part,
                                logits + first * seq * vocab);
        first += part;
    }
    signals_unshield();
    return code;
}

/* --- from and for Hugging Face --- */

int pacer_import(const char *folder, const pacer_options *options)
{
    Config cfg;
    int code = api_begin(options, COMMAND_IMPORT, NULL, &cfg);
    return api_end(&cfg, code != 0 ? code : import_model(folder, cfg.out));
}

int pacer_export(const char *model, const pacer_options *options)
{
    Config cfg;
    int code = api_begin(options, COMMAND_EXPORT, NULL, &cfg);
    if (code == 0 && (cfg.format == CONFIG_FORMAT_CSV || cfg.format == CONFIG_FORMAT_TENSORBOARD)) {
        code = err_set(ERR_INPUT, "pacer_export is for models, whose format is hf or gguf; `pacer "
                                  "export` writes records as csv or tensorboard");
    }
    return api_end(&cfg, code != 0 ? code : export_model(&cfg, model));
}
