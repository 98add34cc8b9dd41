/* The work of `pacer data prepare` and pacer_prepare: texts to a folder of shards. */
#include "data/prepare.h"

#include "api/internal.h"
#include "base/mem.h"
#include "data/instruct.h"

#include <stdlib.h>
#include <string.h>

/* The last part of the path: what a manifest calls the tokenizer. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

int api_prepare(const Config *cfg, int count, char **inputs, Dataset *dataset)
{
    Tokenizer *tokenizer;
    int code = tokenizer_open(cfg->tokenizer, &tokenizer);
    if (code != 0) {
        return code;
    }
    PrepareOptions options = {.out = cfg->out,
                              .source = text_source_options(cfg, count, inputs),
                              .tokenizer = tokenizer,
                              .tokenizer_name = base_name(cfg->tokenizer),
                              .val_fraction = cfg->val_fraction,
                              .shard_tokens = (uint64_t)cfg->shard_tokens,
                              .threads = config_threads(cfg)};
    char *chat = NULL;
    code = tokenizer_end(tokenizer, cfg->end[0] != '\0' ? cfg->end : NULL, &options.end);
    code = code != 0 ? code : chat_template_open(cfg->chat_template, tokenizer, &chat);
    options.source.chat = chat;
    code = code != 0 ? code : prepare_dataset(&options);
    code = code != 0 ? code : dataset_open(dataset, cfg->out, (DatasetOptions){0});
    free(chat);
    tokenizer_free(tokenizer);
    return code;
}

/* --- as a function of the library --- */

static void put_split(cJSON *numbers, const Split *split, const char *const names[4])
{
    json_put_whole(numbers, names[0], (int64_t)split->tokens);
    json_put_whole(numbers, names[1], (int64_t)split->documents);
    json_put_whole(numbers, names[2], (int64_t)split->text_bytes);
    json_put_whole(numbers, names[3], split->shard_count);
}

int pacer_prepare(const pacer_options *options, const char *const *texts, size_t count,
                  pacer_result **result)
{
    static const char *const train[] = {"train_tokens", "train_documents", "train_bytes",
                                        "train_shards"};
    static const char *const validation[] = {"val_tokens", "val_documents", "val_bytes",
                                             "val_shards"};
    Config cfg;
    Dataset dataset;
    int code = api_begin(options, COMMAND_DATA_PREPARE, result, &cfg);
    code = code != 0 ? code : api_prepare(&cfg, (int)count, (char **)texts, &dataset);
    if (code == 0 && result != NULL) {
        cJSON *numbers = json_object();
        json_put_whole(numbers, "vocab", (int64_t)dataset.vocab);
        put_split(numbers, &dataset.train, train);
        put_split(numbers, &dataset.validation, validation);
        *result = result_new(mem_strdup(cfg.out), numbers);
    }
    if (code == 0) {
        dataset_close(&dataset);
    }
    return api_end(&cfg, code);
}
