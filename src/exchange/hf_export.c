#include "exchange/hf_export.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "exchange/fresh_folder.h"
#include "exchange/hf_config.h"
#include "model/model.h"
#include "text/tokenizer.h"

#include <stdlib.h>

#define TOKENIZER_FILE "tokenizer.json"
#define TOKENIZER_LIMIT ((size_t)256 << 20)

/* --- tokenizer --- */

static int copy_file(const char *from, const char *to)
{
    char *bytes;
    size_t size;
    int code = io_read_all(from, TOKENIZER_LIMIT, &bytes, &size);
    if (code == 0) {
        code = io_write_atomic(to, bytes, size);
        free(bytes);
    }
    return code;
}

/* The token that begins a text where there is one, else the one that ends it. */
static void find_ids(const Tokenizer *tokenizer, int64_t *begin, int64_t *end)
{
    static const char *const names[] = {"<|begin_of_text|>", "<s>", "<bos>"};
    uint32_t id;
    *end = tokenizer_end(tokenizer, NULL, &id) == 0 ? (int64_t)id : -1;
    *begin = *end;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (tokenizer_find_added(tokenizer, (const uint8_t *)names[i], strlen(names[i]), &id)) {
            *begin = (int64_t)id;
            return;
        }
    }
}

int hf_bring_tokenizer(const char *from, const char *folder, bool *found, int64_t *begin,
                       int64_t *end)
{
    *found = false;
    *begin = *end = -1;
    bool whole = from != NULL && io_has(from, TOKENIZER_FILE);
    if (!whole && (from == NULL || !io_has(from, "vocab.json"))) {
        return 0;
    }
    char *source = io_join(from, TOKENIZER_FILE), *target = io_join(folder, TOKENIZER_FILE);
    Tokenizer *tokenizer = NULL;
    int code = tokenizer_open(whole ? source : from, &tokenizer);
    *found = code == 0;
    if (code == ERR_INPUT) {
        log_warn("the tokenizer is of a kind that pacer does not read, and is %s: %s",
                 whole ? "copied as it is" : "left out", err_message());
        code = whole ? copy_file(source, target) : 0;
    } else if (code == 0) {
        find_ids(tokenizer, begin, end);
        code = whole ? copy_file(source, target) : tokenizer_write_json(tokenizer, target);
    }
    tokenizer_free(tokenizer);
    free(source);
    free(target);
    return code;
}

/* The text of a token, for the names of tokenizer_config.json; NULL: none. Caller frees. */
static char *token_text(const Tokenizer *tokenizer, int64_t id)
{
    size_t size;
    const uint8_t *bytes = id >= 0 ? tokenizer_bytes(tokenizer, (uint32_t)id, &size) : NULL;
    return bytes != NULL ? mem_format("%.*s", (int)size, (const char *)bytes) : NULL;
}

static int write_text(const char *folder, const char *name, const char *text)
{
    char *path = io_join(folder, name);
    int code = io_write_atomic(path, text, strlen(text));
    free(path);
    return code;
}

/* What AutoTokenizer reads beside tokenizer.json. */
static int write_tokenizer_config(const char *folder, const ModelSpec *spec, HfConfigExtra ids)
{
    char *path = io_join(folder, TOKENIZER_FILE);
    Tokenizer *tokenizer;
    int code = tokenizer_open(path, &tokenizer);
    free(path);
    if (code != 0) {
        return code;
    }
    cJSON *o = json_object();
    char *begin = token_text(tokenizer, ids.begin), *end = token_text(tokenizer, ids.end);
    json_put_text(o, "tokenizer_class", "PreTrainedTokenizerFast");
    if (begin != NULL && end != NULL) {
        json_put_text(o, "bos_token", begin);
        json_put_text(o, "eos_token", end);
    }
    json_put_whole(o, "model_max_length", spec->context);
    json_put_bool(o, "clean_up_tokenization_spaces", false);
    char *text = json_print(o);
    code = write_text(folder, "tokenizer_config.json", text);
    free(text);
    tokenizer_free(tokenizer);
    cJSON_Delete(o);
    free(begin);
    free(end);
    return code;
}

/* --- the folder --- */

static int write_descriptions(const char *folder, const HfModel *model, DType dtype)
{
    HfConfigExtra extra = {.dtype = dtype};
    bool found;
    char *config = NULL;
    int code = hf_bring_tokenizer(model->tokenizer, folder, &found, &extra.begin, &extra.end);
    if (code == 0 && found) {
        code = write_tokenizer_config(folder, model->spec, extra);
    }
    code = code != 0 ? code : hf_config_text(model->spec, extra, &config);
    code = code != 0 ? code : write_text(folder, "config.json", config);
    free(config);
    if (code == 0) {
        char *generation = hf_generation_text(extra);
        code = write_text(folder, "generation_config.json", generation);
        free(generation);
    }
    return code;
}

int hf_export(const HfModel *model, HfExport options, const char *out)
{
    Model shapes;
    FreshFolder folder;
    model_init(&shapes, model->spec, DT_F32, 1);
    int code = weight_folder_check(model->weights, model->spec, &shapes.params);
    code = code != 0 ? code : fresh_folder_open(&folder, out);
    if (code == 0) {
        WeightLayout layout = {true, options.dtype, options.shard_bytes};
        code = write_descriptions(folder.partial, model, options.dtype);
        code = code != 0 ? code
                         : weight_write(folder.partial, model->weights, model->spec, &shapes.params,
                                        layout, NULL);
        code = fresh_folder_end(&folder, code);
    }
    model_free(&shapes);
    return code;
}
