#include "api/tokenizer.h"

#include "api/internal.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>

pacer_tokenizer *tokenizer_handle(Tokenizer *tokenizer, bool owned)
{
    pacer_tokenizer *handle = mem_zalloc(1, sizeof *handle);
    *handle = (pacer_tokenizer){tokenizer, encoder_open(tokenizer), owned};
    return handle;
}

int pacer_tokenizer_open(const char *path, pacer_tokenizer **out)
{
    api_enter();
    *out = NULL;
    Tokenizer *tokenizer;
    int code = tokenizer_open(path, &tokenizer);
    if (code == 0) {
        *out = tokenizer_handle(tokenizer, true);
    }
    return code;
}

void pacer_tokenizer_close(pacer_tokenizer *handle)
{
    if (handle != NULL) {
        encoder_close(handle->encoder);
        if (handle->owned) {
            tokenizer_free(handle->tokenizer);
        }
        free(handle);
    }
}

int64_t pacer_tokenizer_vocab(const pacer_tokenizer *handle)
{
    return tokenizer_vocab(handle->tokenizer);
}

int pacer_tokenize(pacer_tokenizer *handle, const char *text, size_t size, int32_t **ids,
                   size_t *count)
{
    TokenList list = {0};
    encoder_run(handle->encoder, (const uint8_t *)text, size, &list);
    /* Ids are below TOKENIZER_MAX_VOCAB: the same bits as int32_t. */
    *ids = list.ids != NULL ? (int32_t *)list.ids : mem_alloc(sizeof **ids);
    *count = list.count;
    return 0;
}

int pacer_detokenize(pacer_tokenizer *handle, const int32_t *ids, size_t count, char **text,
                     size_t *size)
{
    ByteList bytes = {0};
    int code = tokenizer_decode(handle->tokenizer, (const uint32_t *)ids, count, &bytes);
    if (code != 0) {
        byte_list_free(&bytes);
        *text = NULL;
        return code;
    }
    bytes.bytes = mem_realloc(bytes.bytes, bytes.size + 1, 1);
    bytes.bytes[bytes.size] = '\0';
    *text = (char *)bytes.bytes;
    *size = bytes.size;
    return 0;
}
