#include "fuzz/tokenizer_check.h"
#include "fuzz/fuzz.h"
#include "fuzz/text_check.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "text/encode.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TEXT 512

/* Every token there is has bytes, and is found by them or shares them with the one that is. */
static void check_entries(const Tokenizer *tokenizer)
{
    for (uint32_t id = 0; id < tokenizer->vocab && id < 1024; id++) {
        Token token = tokenizer->tokens[id];
        uint32_t found;
        PACER_ASSERT(token.size == 0 || tokenizer_find(tokenizer, token.bytes, token.size, &found),
                     "token %u is not found by its bytes", id);
    }
}

void fuzz_tokenizer(Tokenizer *tokenizer, const uint8_t *text, size_t size)
{
    static const uint8_t fixed[] =
        "Hello, the <|endoftext|> world's 1234 caf\xc3\xa9s\r\n\n  \xff x";
    check_entries(tokenizer);
    Encoder *encoder = encoder_open(tokenizer);
    fuzz_ids(tokenizer, encoder, fixed, sizeof fixed - 1);
    fuzz_ids(tokenizer, encoder, text, size < MOST_TEXT ? size : MOST_TEXT);
    encoder_close(encoder);

    char *path = io_join(fuzz_folder(), "again.json");
    int code = tokenizer_write_json(tokenizer, path);
    PACER_ASSERT(code == 0, "cannot be written: %s", err_message());
    Tokenizer *again;
    code = tokenizer_open(path, &again);
    PACER_ASSERT(code == 0, "its own file is refused: %s", err_message());
    PACER_ASSERT(again->hash == tokenizer->hash, "another hash");
    tokenizer_free(again);
    tokenizer_free(tokenizer);
    free(path);
}
