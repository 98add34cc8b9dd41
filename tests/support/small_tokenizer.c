#include "support/small_tokenizer.h"

#include "base/assert.h"
#include "base/err.h"

#include <string.h>

static uint32_t id_of(const Tokenizer *tokenizer, const char *text)
{
    uint32_t id = 0;
    bool found = tokenizer_find(tokenizer, (const uint8_t *)text, strlen(text), &id);
    PACER_ASSERT(found, "%s", text);
    return id;
}

Tokenizer *small_tokenizer(void)
{
    static const char *const pairs[][2] = {{"h", "e"}, {" ", "t"},   {" t", "he"}, {"i", "n"},
                                           {"e", "r"}, {"\n", "\n"}, {"o", "r"},   {" ", "w"},
                                           {"l", "l"}, {" w", "or"}};
    Tokenizer *tokenizer = tokenizer_new();
    int code = 0;
    for (uint32_t byte = 0; code == 0 && byte < 256; byte++) {
        uint8_t bytes[1] = {(uint8_t)byte};
        code = tokenizer_add_token(tokenizer, byte + 1, bytes, 1);
    }
    for (uint32_t i = 0; code == 0 && i < sizeof pairs / sizeof *pairs; i++) {
        const char *left = pairs[i][0], *right = pairs[i][1];
        char both[8] = "";
        strcat(strcat(both, left), right);
        code = tokenizer_add_token(tokenizer, 257 + i, (const uint8_t *)both, strlen(both));
        code = code != 0 ? code
                         : tokenizer_add_merge(tokenizer, id_of(tokenizer, left),
                                               id_of(tokenizer, right));
    }
    AddedToken end = {.id = 0, .special = true};
    code = code != 0 ? code
                     : tokenizer_add_added(tokenizer, end, (const uint8_t *)TOKENIZER_END,
                                           strlen(TOKENIZER_END));
    code = code != 0 ? code : tokenizer_set_pattern(tokenizer, PRETOK_GPT2);
    code = code != 0 ? code : tokenizer_finish(tokenizer);
    PACER_ASSERT(code == 0, "%s", err_message());
    return tokenizer;
}
