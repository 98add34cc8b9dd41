#include "support/preparation.h"

#include "base/rng.h"
#include "support/capture.h"
#include "support/small_tokenizer.h"

#include <stdlib.h>
#include <unistd.h>

Tokenizer *tokenizers[2];
const char *const tokenizer_names[2] = {"bytes", "small.json"};
const uint32_t tokenizer_ends[2] = {256, 0};

int open_tokenizers(void **state)
{
    (void)state;
    tokenizers[1] = small_tokenizer();
    return tokenizer_open(TOKENIZER_BYTES, &tokenizers[0]);
}

int close_tokenizers(void **state)
{
    (void)state;
    tokenizer_free(tokenizers[0]);
    tokenizer_free(tokenizers[1]);
    return 0;
}

Text random_text(uint64_t seed, int documents)
{
    static const char *const words[] = {
        " the", " world", " hinder", "\n\n", "therein", " \xc3\xa9t\xc3\xa9", " will", ". "};
    Text text = {0};
    for (int d = 0; d < documents; d++) {
        size_t size = 1 + (size_t)rng_below(seed, (uint64_t)d, 0, d % 10 == 9 ? 5000 : 300);
        for (size_t goal = text.size + size, i = 1; text.size < goal; i += 2) {
            uint64_t draw = rng_below(seed, (uint64_t)d, i, 10);
            char byte = (char)(1 + rng_below(seed, (uint64_t)d, i + 1, 255));
            draw < 8 ? text_add_line(&text, words[draw]) : text_add(&text, &byte, 1);
        }
        text_add_line(&text, d % 2 == 0 ? "\n<|endoftext|>\n" : "<|endoftext|>");
    }
    return text;
}

PrepareOptions preparation(const char *out, const char *const *inputs, int count, int which)
{
    return (PrepareOptions){.out = out,
                            .source = {.inputs = inputs, .input_count = count},
                            .tokenizer = tokenizers[which],
                            .tokenizer_name = tokenizer_names[which],
                            .end = tokenizer_ends[which],
                            .val_fraction = 0.2,
                            .shard_tokens = PREPARATION_SHARD,
                            .threads = 2};
}

int prepare_quietly(const PrepareOptions *options, char **said)
{
    capture_begin(STDERR_FILENO);
    int code = prepare_dataset(options);
    char *text = capture_end();
    if (said != NULL) {
        *said = text;
    } else {
        free(text);
    }
    return code;
}
