#include "cli/commands.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/bytes.h"
#include "data/dataset.h"
#include "data/prepare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_TOKENS 400
#define SAMPLE_IDS 16
#define RANDOM_VOCAB 256 /* to show builtin:random with */

/* 1234567 as "1,234,567"; 0 as "-" where it stands for unknown. */
#define COUNT_SIZE 32
static const char *count_text(uint64_t count, bool known, char text[COUNT_SIZE])
{
    char digits[COUNT_SIZE];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count), used = 0;
    for (int i = 0; known && i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return known ? text : "-";
}

static void print_split(const Split *split)
{
    char tokens[COUNT_SIZE], documents[COUNT_SIZE], bytes[COUNT_SIZE], ratio[COUNT_SIZE] = "-";
    if (split->text_bytes > 0) {
        snprintf(ratio, sizeof ratio, "%.4f", (double)split->tokens / (double)split->text_bytes);
    }
    printf("%-10s %15s %12s %15s %14s %7d\n", split->name, count_text(split->tokens, true, tokens),
           count_text(split->documents, split->documents > 0, documents),
           count_text(split->text_bytes, split->text_bytes > 0, bytes), ratio, split->shard_count);
}

static void print_dataset(const Dataset *dataset)
{
    const Shard *first = &dataset->train.shards[0];
    char vocab[COUNT_SIZE], least[COUNT_SIZE];
    printf("data       %s (%s, uint%d)\n", dataset->source, shard_format_name(first->format),
           first->token_bytes * 8);
    if (dataset->vocab > 0) {
        printf("vocabulary %s\n", count_text(dataset->vocab, true, vocab));
    } else {
        printf("vocabulary unknown, at least %s\n",
               count_text(dataset_least_vocab(dataset), true, least));
    }
    printf("tokenizer  %s\n", dataset->tokenizer[0] != '\0' ? dataset->tokenizer : "unknown");
    printf("\n%-10s %15s %12s %15s %14s %7s\n", "split", "tokens", "documents", "text bytes",
           "tokens/byte", "shards");
    print_split(&dataset->train);
    if (dataset->validation.tokens > 0) {
        print_split(&dataset->validation);
    }
}

/* Length of the UTF-8 character at text, or 0 where it is none (RFC 3629). */
static int utf8_length(const uint8_t *text, size_t left)
{
    int length = text[0] < 0x80   ? 1
                 : text[0] < 0xc2 ? 0
                 : text[0] < 0xe0 ? 2
                 : text[0] < 0xf0 ? 3
                 : text[0] < 0xf5 ? 4
                                  : 0;
    if (length == 0 || (size_t)length > left) {
        return 0;
    }
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    bool outside = (text[0] == 0xed && text[1] > 0x9f) || (text[0] == 0xf4 && text[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

/* Text for a terminal: what is no UTF-8 and control characters appear as \xNN. */
static void print_text(const uint8_t *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        int length = utf8_length(text + at, size - at);
        bool control = text[at] < 0x20 ? text[at] != '\n' && text[at] != '\t' : text[at] == 0x7f;
        if (length == 0 || control || (length == 2 && text[at] == 0xc2 && text[at + 1] < 0xa0)) {
            printf("\\x%02x", text[at]);
            at++;
        } else {
            fwrite(text + at, 1, (size_t)length, stdout);
            at += (size_t)length;
        }
    }
}

static void print_sample(const Dataset *dataset)
{
    int32_t tokens[SAMPLE_TOKENS];
    bool bytes = dataset->tokenizer_hash == bytes_tokenizer_hash();
    uint64_t limit = bytes ? SAMPLE_TOKENS : SAMPLE_IDS;
    uint64_t count = dataset->train.tokens < limit ? dataset->train.tokens : limit;
    split_read(&dataset->train, 0, count, tokens);
    if (!bytes) {
        printf("\nfirst tokens of train:");
        for (uint64_t i = 0; i < count; i++) {
            printf(" %d", tokens[i]);
        }
        printf("\n");
        return;
    }
    printf("\nbeginning of train:\n");
    uint8_t text[SAMPLE_TOKENS];
    size_t used = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (tokens[i] == (int32_t)BYTES_END) {
            print_text(text, used);
            printf(BYTES_SEPARATOR "\n");
            used = 0;
        } else {
            text[used++] = (uint8_t)tokens[i];
        }
    }
    /* A character cut by the end of the sample is left out. */
    for (size_t back = 1; back <= 3 && back <= used; back++) {
        if (text[used - back] >= 0xc0 && utf8_length(text + used - back, back) == 0) {
            used -= back;
            break;
        }
    }
    print_text(text, used);
    printf("%s\n", dataset->train.tokens > count ? " ..." : "");
}

static int info(Config *cfg, const char *data)
{
    (void)cfg;
    Dataset dataset;
    int code =
        dataset_open(&dataset, data, (DatasetOptions){.vocab = RANDOM_VOCAB, .verify = true});
    if (code == 0) {
        print_dataset(&dataset);
        print_sample(&dataset);
        dataset_close(&dataset);
    }
    return code;
}

static int prepare(Config *cfg, int argc, char **argv)
{
    PrepareOptions options = {.out = cfg->out,
                              .files = (const char *const *)argv,
                              .file_count = argc,
                              .tokenizer = cfg->tokenizer,
                              .val_fraction = cfg->val_fraction,
                              .shard_tokens = (uint64_t)cfg->shard_tokens};
    int code = prepare_dataset(&options);
    Dataset dataset;
    code = code != 0 ? code : dataset_open(&dataset, cfg->out, (DatasetOptions){0});
    if (code == 0) {
        print_dataset(&dataset);
        dataset_close(&dataset);
        log_info("ready: pacer train --data %s", cfg->out);
    }
    return code;
}

int cmd_data(Config *cfg, int argc, char **argv)
{
    if (cfg->command == COMMAND_DATA_PREPARE) {
        return prepare(cfg, argc, argv);
    }
    PACER_ASSERT(cfg->command == COMMAND_DATA_INFO, "command %d", (int)cfg->command);
    if (argc != 1) {
        return err_set(ERR_INPUT, "pacer data info takes one dataset, not %d", argc);
    }
    return info(cfg, argv[0]);
}
