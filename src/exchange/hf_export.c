#include "exchange/hf_export.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "exchange/fresh_folder.h"
#include "exchange/hf_config.h"
#include "model/model.h"

#include <stdlib.h>

#define TOKENIZER_FILE "tokenizer.json"
#define TOKENIZER_CONFIG_FILE "tokenizer_config.json"
#define CHAT_TEMPLATE_FILE "chat_template.jinja"
#define TOKENIZER_LIMIT ((size_t)256 << 20)

/* --- tokenizer --- */

/* What goes with tokenizer.json, as it is. */
static const char *const companions[] = {TOKENIZER_CONFIG_FILE, CHAT_TEMPLATE_FILE};

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

int hf_bring_tokenizer(const char *from, const char *folder, Tokenizer **tokenizer)
{
    *tokenizer = NULL;
    bool whole = from != NULL && io_has(from, TOKENIZER_FILE);
    if (!whole && (from == NULL || !io_has(from, "vocab.json"))) {
        return 0;
    }
    char *source = io_join(from, TOKENIZER_FILE), *target = io_join(folder, TOKENIZER_FILE);
    int code = tokenizer_open(whole ? source : from, tokenizer);
    if (code == ERR_INPUT) {
        log_warn("the tokenizer is of a kind that pacer does not read, and is %s: %s",
                 whole ? "copied as it is" : "left out", err_message());
        code = whole ? copy_file(source, target) : 0;
    } else if (code == 0) {
        code = whole ? copy_file(source, target) : tokenizer_write_json(*tokenizer, target);
    }
    free(source);
    free(target);
    for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++) {
        if (code == 0 && io_has(from, companions[i])) {
            source = io_join(from, companions[i]);
            target = io_join(folder, companions[i]);
            code = copy_file(source, target);
            free(source);
            free(target);
        }
    }
    return code;
}

/* The name of the token that a post_processor's template begins with, in the tree; NULL: none. */
static const char *template_start(const cJSON *part)
{
    const cJSON *single = json_get(part, "single"), *item;
    const char *name = cJSON_IsArray(single) && single->child != NULL
                           ? json_text(single->child, "SpecialToken.id")
                           : NULL;
    cJSON_ArrayForEach(item, json_get(part, "processors"))
    {
        name = name != NULL ? name : template_start(item);
    }
    return name;
}

static bool template_token(const Tokenizer *tokenizer, uint32_t *id)
{
    const char *text = tokenizer->unused[UNUSED_POST_PROCESSOR];
    cJSON *tree = text != NULL ? json_parse(text, strlen(text), NULL) : NULL;
    const char *name = template_start(tree);
    bool found =
        name != NULL && tokenizer_find_added(tokenizer, (const uint8_t *)name, strlen(name), id);
    cJSON_Delete(tree);
    return found;
}

/* The folder's tokenizer_config.json; NULL: there is none that can be read. Caller frees. */
static cJSON *load_tokenizer_config(const char *folder)
{
    char *path = io_join(folder, TOKENIZER_CONFIG_FILE);
    cJSON *tree = NULL;
    if (io_exists(path) && json_load(path, &tree) != 0) {
        tree = NULL;
    }
    free(path);
    return tree;
}

/* The token under this name in it, as text or as an object with its content. */
static bool named_token(const cJSON *config, const char *name, const Tokenizer *tokenizer,
                        uint32_t *id)
{
    const cJSON *token = json_get(config, name);
    const char *text =
        cJSON_IsString(token) ? token->valuestring : json_text_or(token, "content", NULL);
    return text != NULL && tokenizer_find_added(tokenizer, (const uint8_t *)text, strlen(text), id);
}

/* Of an imported model. */
static bool find_first(const cJSON *config, const Tokenizer *tokenizer, uint32_t *id)
{
    const cJSON *added = json_get(config, "add_bos_token");
    return cJSON_IsBool(added)
               ? cJSON_IsTrue(added) && named_token(config, "bos_token", tokenizer, id)
               : template_token(tokenizer, id);
}

HfTextTokens hf_text_tokens(const char *folder, bool trained, const Tokenizer *tokenizer)
{
    HfTextTokens ids;
    uint32_t id;
    find_ids(tokenizer, &ids.begin, &ids.end);
    if (trained) {
        ids.begin = ids.first = ids.end;
        return ids;
    }
    cJSON *config = load_tokenizer_config(folder);
    ids.begin = named_token(config, "bos_token", tokenizer, &id) ? (int64_t)id : ids.begin;
    ids.end = named_token(config, "eos_token", tokenizer, &id) ? (int64_t)id : ids.end;
    ids.first = find_first(config, tokenizer, &id) ? (int64_t)id : -1;
    cJSON_Delete(config);
    return ids;
}

char *hf_chat_template(const char *folder)
{
    char *path = io_join(folder, CHAT_TEMPLATE_FILE), *copy = NULL;
    size_t size;
    if (!io_exists(path) || io_read_all(path, TOKENIZER_LIMIT, &copy, &size) != 0) {
        cJSON *config = load_tokenizer_config(folder);
        const char *text = json_text_or(config, "chat_template", NULL);
        copy = text != NULL ? mem_strdup(text) : NULL;
        cJSON_Delete(config);
    }
    free(path);
    return copy;
}

/* --- the folder --- */

/* Frees the tree. */
static int save(const char *folder, const char *name, cJSON *tree)
{
    char *path = io_join(folder, name);
    int code = json_save(path, tree);
    free(path);
    cJSON_Delete(tree);
    return code;
}

static void put_token(cJSON *object, const char *name, Token token)
{
    char *text = mem_format("%.*s", (int)token.size, (const char *)token.bytes);
    json_put_text(object, name, text);
    free(text);
}

/* What AutoTokenizer reads beside tokenizer.json. */
static cJSON *tokenizer_config(const Tokenizer *tokenizer, const HfModel *model, HfConfigExtra ids)
{
    cJSON *o = json_object();
    json_put_text(o, "tokenizer_class", "PreTrainedTokenizerFast");
    if (ids.begin >= 0 && ids.end >= 0) {
        put_token(o, "bos_token", tokenizer->tokens[ids.begin]);
        put_token(o, "eos_token", tokenizer->tokens[ids.end]);
        json_put_bool(o, "add_bos_token", model->trained);
    }
    json_put_whole(o, "model_max_length", model->spec->context);
    json_put_bool(o, "clean_up_tokenization_spaces", false);
    return o;
}

static int write_descriptions(const char *folder, const HfModel *model, DType dtype)
{
    HfConfigExtra extra = {.begin = -1, .end = -1, .dtype = dtype};
    Tokenizer *tokenizer;
    cJSON *config = NULL;
    int code = hf_bring_tokenizer(model->tokenizer, folder, &tokenizer);
    if (code == 0 && tokenizer != NULL) {
        HfTextTokens ids = hf_text_tokens(model->tokenizer, model->trained, tokenizer);
        extra.begin = ids.begin;
        extra.end = ids.end;
        if (model->trained || !io_has(folder, TOKENIZER_CONFIG_FILE)) {
            code = save(folder, TOKENIZER_CONFIG_FILE, tokenizer_config(tokenizer, model, extra));
        }
    }
    tokenizer_free(tokenizer);
    code = code != 0 ? code : hf_config(model->spec, extra, &config);
    code = code != 0 ? code : save(folder, "config.json", config);
    return code != 0 ? code : save(folder, "generation_config.json", hf_generation_config(extra));
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
