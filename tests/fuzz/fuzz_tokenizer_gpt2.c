/* GPT-2's vocab.json and merges.txt. The input is one behind the other; merges begin where a line
 * starts with #version. */
#include "fuzz/fuzz.h"
#include "fuzz/tokenizer_check.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define MARK "\n#version"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_setup(LOG_ERROR, 0, 1);
    const uint8_t *mark = size > 0 ? memmem(data, size, MARK, sizeof MARK - 1) : NULL;
    size_t vocab_size = mark != NULL ? (size_t)(mark - data) + 1 : size;
    /* Blocks of exactly their size, so that reading past either end is seen. */
    char *vocab = mem_alloc(vocab_size), *merges = mem_alloc(size - vocab_size);
    if (size > 0) {
        memcpy(vocab, data, vocab_size);
        memcpy(merges, data + vocab_size, size - vocab_size);
    }
    Tokenizer *tokenizer;
    fuzz_forget();
    int code = tokenizer_parse_gpt2(vocab, vocab_size, "vocab.json", merges, size - vocab_size,
                                    "merges.txt", &tokenizer);
    fuzz_expect(code);
    PACER_ASSERT((code == 0) == (tokenizer != NULL), "code %d with a tokenizer or without", code);
    if (code == 0) {
        fuzz_tokenizer(tokenizer, data, size);
    }
    free(merges);
    free(vocab);
    return 0;
}
