#include "use/loaded.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "devices/devices.h"
#include "train/model_source.h"
#include "train/setup.h"

#include <stdlib.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)

/* --- weights --- */

/* Gives the tensor zeroed memory: padding between parameters and behind the vocabulary is never
 * written. */
static int allocate(LoadedModel *loaded, Tensor *tensor, void **block)
{
    Backend *backend = loaded->backend;
    size_t bytes = tensor_bytes(*tensor), most = backend->available(backend);
    *block = most == 0 || bytes <= most ? backend->alloc(backend, bytes) : NULL;
    if (*block == NULL) {
        return err_set(ERR_MEMORY, "%s: no room for %.1f MiB of weights in %s, %.1f are free%s",
                       loaded->path, (double)bytes / MIB, dtype_name(tensor->dtype),
                       (double)most / MIB, tensor->dtype == DT_F32 ? "; try --dtype bf16" : "");
    }
    tensor->data = *block;
    backend->zero(backend, *block, bytes);
    return 0;
}

static void upload_row(void *user, const Param *row, float *values)
{
    const LoadedModel *loaded = user;
    Backend *backend = loaded->backend;
    int64_t matrices = tensor_count(loaded->weights);
    Tensor to = row->offset < matrices
                    ? tensor_rows(loaded->weights, row->offset, row->count)
                    : tensor_rows(loaded->others, row->offset - matrices, row->count);
    /* In the place of the f32 values: never behind what is yet to be read. */
    for (int64_t i = 0; to.dtype == DT_BF16 && i < row->count; i++) {
        uint16_t half = bf16_from_f32(values[i]);
        memcpy((char *)values + (size_t)i * sizeof half, &half, sizeof half);
    }
    backend->upload(backend, to.data, values, tensor_bytes(to));
    backend->sync(backend);
}

/* split: the matrices in bf16 under a model that computes in f32. */
static int place_weights(LoadedModel *loaded, const ModelSource *source, bool split)
{
    Model *model = &loaded->model;
    const ParamTable *table = &model->params;
    Tensor rope = model_rope_shape(model);
    loaded->weights =
        tensor_1d(NULL, split ? DT_BF16 : model->act, split ? table->decayed : table->flat);
    int code = allocate(loaded, &loaded->weights, &loaded->blocks[0]);
    if (split) {
        loaded->others = tensor_1d(NULL, DT_F32, table->flat - table->decayed);
        code = code != 0 ? code : allocate(loaded, &loaded->others, &loaded->blocks[1]);
    }
    code = code != 0 ? code : model_source_rows(source, table, upload_row, loaded);
    if (code == 0 && tensor_given(rope)) {
        code = allocate(loaded, &rope, &loaded->blocks[2]);
        if (code == 0) {
            rope_upload(model, loaded->backend, rope);
        }
    }
    if (code == 0 && split) {
        model_bind_split(model, loaded->weights, loaded->others, rope);
    } else if (code == 0) {
        model_bind(model, loaded->weights, TENSOR_NONE, rope);
    }
    return code;
}

/* --- tokenizer --- */

/* A tokenizer of the model's own that pacer cannot read is no reason to refuse the model: what
 * needs none goes on. */
static int open_tokenizer(LoadedModel *loaded, const ModelSource *from, const Config *cfg)
{
    if (config_is_set(cfg, "tokenizer")) {
        int code = tokenizer_open(cfg->tokenizer, &loaded->tokenizer);
        if (code != 0) {
            return err_wrap(code, "--tokenizer");
        }
    } else {
        /* A tokenizer.json, or the folder with GPT-2's two files. */
        const char *folder = model_source_tokenizer(from);
        char *source = io_has(folder, "tokenizer.json") ? io_join(folder, "tokenizer.json")
                       : io_has(folder, "vocab.json")   ? mem_strdup(folder)
                                                        : NULL;
        if (source != NULL && tokenizer_open_copy(source, &loaded->tokenizer) != 0) {
            log_warn("the model's tokenizer is left out: %s", err_message());
        }
        free(source);
    }
    if (loaded->tokenizer == NULL) {
        return 0;
    }
    int64_t known = loaded->tokenizer->vocab, vocab = loaded->model.spec.vocab;
    if (known > vocab) {
        return err_set(ERR_INPUT,
                       "the tokenizer has %lld tokens and %s a vocabulary of %lld: give the one "
                       "that the model was trained with as --tokenizer",
                       (long long)known, loaded->path, (long long)vocab);
    }
    HfTextTokens ids = model_source_text_tokens(from, loaded->tokenizer);
    loaded->first = ids.first;
    loaded->end = ids.end;
    if (vocab - known > vocab / 10) {
        log_warn("the tokenizer has %lld tokens, the model a vocabulary of %lld: is it the one "
                 "that the model was trained with?",
                 (long long)known, (long long)vocab);
    }
    return 0;
}

/* --- all of it --- */

static int open_parts(LoadedModel *loaded, const ModelSource *source, const Config *cfg,
                      const Comm *comm)
{
    bool low = cfg->dtype == CONFIG_DTYPE_BF16;
    bool split = low && device_of((DeviceId)cfg->device)->bf16_weights;
    int code = backend_open(cfg, comm, &loaded->backend);
    if (code == 0) {
        int64_t align = loaded->backend->row_align;
        model_init(&loaded->model, &source->spec, low && !split ? DT_BF16 : DT_F32,
                   align > 0 ? align : 1);
        code = weight_folder_check(source->weights, &source->spec, &loaded->model.params);
    }
    if (code == 0 && split && !model_splits(&loaded->model)) {
        code = err_set(ERR_INPUT,
                       "--dtype bf16: on the CPU this is for models with attention; a TTT model "
                       "takes f32 there");
    }
    code = code != 0 ? code : open_tokenizer(loaded, source, cfg);
    return code != 0 ? code : place_weights(loaded, source, split);
}

int loaded_open(LoadedModel *loaded, const char *path, Config *cfg, const Comm *comm)
{
    ModelSource source;
    *loaded = (LoadedModel){0};
    device_resolve(cfg);
    int code = dtype_refuse_fp8(cfg, "using a model");
    if (code != 0) {
        return code;
    }
    code = model_source_open(&source, path);
    if (code == 0) {
        loaded->path = mem_strdup(source.path);
        loaded->run = source.run != NULL ? mem_strdup(source.run) : NULL;
        loaded->step = source.step;
        config_copy(&loaded->config, &source.config);
        code = open_parts(loaded, &source, cfg, comm);
    }
    model_source_close(&source);
    if (code != 0) {
        loaded_close(loaded);
    }
    return code;
}

void loaded_close(LoadedModel *loaded)
{
    model_free(&loaded->model);
    for (size_t i = 0; i < sizeof loaded->blocks / sizeof loaded->blocks[0]; i++) {
        if (loaded->blocks[i] != NULL) {
            loaded->backend->release(loaded->backend, loaded->blocks[i]);
        }
    }
    if (loaded->backend != NULL) {
        loaded->backend->close(loaded->backend);
    }
    tokenizer_free(loaded->tokenizer);
    config_free(&loaded->config);
    free(loaded->path);
    free(loaded->run);
    *loaded = (LoadedModel){0};
}
