/* Hugging Face's tokenizer.json. */
#include "fuzz/fuzz.h"
#include "fuzz/tokenizer_check.h"

#include "base/assert.h"
#include "base/log.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_setup(LOG_ERROR, 0, 1);
    Tokenizer *tokenizer;
    fuzz_forget();
    int code = tokenizer_parse_json((const char *)data, size, "tokenizer.json", &tokenizer);
    fuzz_expect(code);
    PACER_ASSERT((code == 0) == (tokenizer != NULL), "code %d with a tokenizer or without", code);
    if (code == 0) {
        fuzz_tokenizer(tokenizer, data, size);
    }
    return 0;
}
