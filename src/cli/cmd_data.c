#include "cli/commands.h"

#include "api/internal.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/show.h"
#include "base/signals.h"
#include "data/dataset.h"
#include "data/source.h"
#include "data/stories.h"
#include "text/decode.h"
#include "text/unicode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_TOKENS 1000
#define SAMPLE_BYTES 400
#define SAMPLE_IDS 16
#define RANDOM_VOCAB 256 /* to show builtin:random with */

static void print_split(const Split *split)
{
    char tokens[SHOW_COUNT_SIZE], documents[SHOW_COUNT_SIZE], bytes[SHOW_COUNT_SIZE],
        ratio[SHOW_COUNT_SIZE] = "-";
    if (split->text_bytes > 0) {
        snprintf(ratio, sizeof ratio, "%.4f", (double)split->tokens / (double)split->text_bytes);
    }
    escape_printf(stdout, "%-10s %15s %12s %15s %14s %7d\n", split->name,
                  show_count(split->tokens, true, tokens),
                  show_count(split->documents, split->documents > 0, documents),
                  show_count(split->text_bytes, split->text_bytes > 0, bytes), ratio,
                  split->shard_count);
    if (split->left_out > 0) {
        printf("%-10s %15s\n", "  counted",
               show_count(split->tokens - split->left_out, true, tokens));
    }
}

static void print_dataset(const Dataset *dataset)
{
    const Shard *first = &dataset->train.shards[0];
    char vocab[SHOW_COUNT_SIZE], least[SHOW_COUNT_SIZE];
    escape_printf(stdout, "data       %s (%s, uint%d)\n", dataset->source,
                  shard_format_name(first->format), first->token_bytes * 8);
    if (dataset->vocab > 0) {
        printf("vocabulary %s\n", show_count(dataset->vocab, true, vocab));
    } else {
        printf("vocabulary unknown, at least %s\n",
               show_count(dataset_least_vocab(dataset), true, least));
    }
    escape_printf(stdout, "tokenizer  %s\n",
                  dataset->tokenizer[0] != '\0' ? dataset->tokenizer : "unknown");
    printf("\n%-10s %15s %12s %15s %14s %7s\n", "split", "tokens", "documents", "text bytes",
           "tokens/byte", "shards");
    print_split(&dataset->train);
    if (dataset->validation.tokens > 0) {
        print_split(&dataset->validation);
    }
}

static void print_ids(const int32_t *tokens, uint64_t count)
{
    printf("\nfirst tokens of train:");
    for (uint64_t i = 0; i < count && i < SAMPLE_IDS; i++) {
        printf(" %d", tokens[i]);
    }
    printf("\n");
}

/* The beginning of train, decoded where the dataset has its tokenizer. */
static void print_sample(const Dataset *dataset)
{
    int32_t tokens[SAMPLE_TOKENS];
    uint64_t count = dataset->train.tokens < SAMPLE_TOKENS ? dataset->train.tokens : SAMPLE_TOKENS;
    split_read(&dataset->train, 0, count, tokens);
    Tokenizer *tokenizer;
    if (dataset_tokenizer(dataset, &tokenizer) != 0) {
        print_ids(tokens, count);
        if (dataset->tokenizer_path != NULL) {
            log_warn("%s", err_message());
        }
        return;
    }
    uint32_t ids[SAMPLE_TOKENS];
    for (uint64_t i = 0; i < count; i++) {
        ids[i] = (uint32_t)tokens[i];
    }
    ByteList text = {0};
    if (tokenizer_decode(tokenizer, ids, count, &text) != 0) {
        log_warn("%s: %s", dataset->source, err_message());
        print_ids(tokens, count);
    } else {
        size_t shown = text.size < SAMPLE_BYTES ? text.size : SAMPLE_BYTES;
        shown -= utf8_cut_off(text.bytes, shown);
        printf("\nbeginning of train:\n");
        escape_write(stdout, text.bytes, shown, true);
        printf("%s\n", shown < text.size || dataset->train.tokens > count ? " ..." : "");
    }
    byte_list_free(&text);
    tokenizer_free(tokenizer);
}

int cmd_data_info(Config *cfg)
{
    Dataset dataset;
    int code = dataset_open(&dataset, cfg->argv[0],
                            (DatasetOptions){.vocab = RANDOM_VOCAB, .verify = true});
    if (code == 0) {
        print_dataset(&dataset);
        print_sample(&dataset);
        dataset_close(&dataset);
    }
    return code;
}

int cmd_data_prepare(Config *cfg)
{
    Dataset dataset;
    signals_install();
    int code = api_prepare(cfg, cfg->argc, cfg->argv, &dataset);
    if (code == 0) {
        print_dataset(&dataset);
        bool counts = dataset.train.left_out < dataset.train.tokens;
        dataset_close(&dataset);
        fflush(stdout);
        char *out = escape_shell_path(cfg->out);
        if (counts) {
            log_info("ready: pacer train --data %s", out);
        } else {
            log_warn("nothing in %s counts in the loss, so train will refuse it: completions are "
                     "empty, or no message is the assistant's",
                     out);
        }
        free(out);
    }
    return code;
}

int cmd_data_stories(Config *cfg)
{
    signals_install();
    int code = stories_write(cfg->out, (uint64_t)cfg->bytes, text_source_seed(cfg),
                             config_threads(cfg), signals_pending);
    if (code == 0 && strcmp(cfg->out, "-") != 0) {
        log_info("wrote %s", cfg->out);
    }
    return code;
}
