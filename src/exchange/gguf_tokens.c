/* Tokens as llama.cpp has them, of vocabularies of both sorts. */
#include "base/err.h"
#include "base/utf8.h"
#include "exchange/gguf.h"

#include <string.h>

static bool has_sign(Token token)
{
    return memmem(token.bytes, token.size, GGUF_SIGN, strlen(GGUF_SIGN)) != NULL;
}

static ShownToken shown(Token token)
{
    return token_shown(token.bytes, token.size);
}

/* What llama.cpp takes it for. Texts of control, unknown and user tokens are found in a text first,
 * as those of added tokens are. It writes user tokens as they are, so one of the vocabulary that
 * stands for spaces is a normal one, which its merges find too. */
int gguf_token_type(const Tokenizer *t, uint32_t id)
{
    uint8_t byte;
    if (id >= t->vocab || t->tokens[id].size == 0) {
        return TOKEN_UNUSED;
    }
    Token token = t->tokens[id];
    const AddedToken *added = tokenizer_added_of(t, id);
    if (added != NULL) {
        return id == t->unknown                                    ? TOKEN_UNKNOWN
               : added->special                                    ? TOKEN_CONTROL
               : t->characters && !added->apart && has_sign(token) ? TOKEN_NORMAL
                                                                   : TOKEN_USER;
    }
    return t->characters && token_is_byte(token.bytes, token.size, &byte) ? TOKEN_BYTE
                                                                          : TOKEN_NORMAL;
}

bool gguf_is_found_first(const Tokenizer *t, uint32_t id)
{
    int type = gguf_token_type(t, id);
    return type == TOKEN_UNKNOWN || type == TOKEN_CONTROL || type == TOKEN_USER;
}

static bool is_run(Token token)
{
    int first = utf8_length(token.bytes, token.size);
    size_t length = first > 0 ? (size_t)first : 1;
    for (size_t i = length; i < token.size; i++) {
        if (token.bytes[i] != token.bytes[i - length]) {
            return false;
        }
    }
    return token.size % length == 0;
}

/* Bytes that can be the end of `a` and the beginning of `b` at once, less than all of either. */
static bool overlap(Token a, Token b)
{
    size_t most = a.size < b.size ? a.size : b.size;
    for (size_t w = 1; w < most; w++) {
        if (memcmp(a.bytes + a.size - w, b.bytes, w) == 0) {
            return true;
        }
    }
    return false;
}

/* llama.cpp finds the longest ones first; Hugging Face those that are not `normalized`, each kind
 * from left to right and of several the longest. */
static bool found_otherwise(const Tokenizer *t, const AddedToken *first, const AddedToken *second)
{
    Token a = t->tokens[first->id], b = t->tokens[second->id];
    if (first->normalized == second->normalized) {
        bool runs = is_run(a) && is_run(b);
        return !runs && overlap(a, b) && a.size <= b.size;
    }
    bool plain_is_longer = second->normalized ? a.size > b.size : b.size > a.size;
    bool inside = memmem(a.bytes, a.size, b.bytes, b.size) != NULL ||
                  memmem(b.bytes, b.size, a.bytes, a.size) != NULL;
    return (overlap(a, b) || inside) && !plain_is_longer;
}

int gguf_check_added(const Tokenizer *t)
{
    NormalizeRoom room = {0};
    int code = 0;
    for (size_t i = 0; code == 0 && i < t->added_count; i++) {
        const AddedToken *added = &t->added[i];
        Token token = t->tokens[added->id];
        uint32_t id = added->id;
        size_t size = token.size;
        const uint8_t *text = normalizer_run(&t->normalizer, &room, token.bytes, &size, true);
        const char *why =
            t->characters && tokenizer_find(t, token.bytes, token.size, &id) && id != added->id
                ? "has the text of another"
            : !gguf_is_found_first(t, added->id) ? NULL
            : added->single_word                 ? "is a single_word"
            : added->lstrip || added->rstrip     ? "takes spaces around it"
            : added->normalized && (size != token.size || (t->characters && has_sign(token)) ||
                                    memcmp(text, token.bytes, size) != 0)
                ? "is found in normalized text"
                : NULL;
        if (why != NULL) {
            code = err_set(ERR_INPUT, "--format gguf: added token %s %s, which llama.cpp's is not",
                           shown(token).text, why);
        }
        for (size_t j = 0; code == 0 && why == NULL && j < t->added_count; j++) {
            const AddedToken *other = &t->added[j];
            if (i != j && gguf_is_found_first(t, added->id) && gguf_is_found_first(t, other->id) &&
                found_otherwise(t, added, other)) {
                code = err_set(ERR_INPUT,
                               "--format gguf: added tokens %s and %s overlap, and llama.cpp finds "
                               "the longer one first",
                               shown(token).text, shown(t->tokens[other->id]).text);
            }
        }
    }
    normalize_room_free(&room);
    return code;
}

int gguf_refuse_normalizer(NormalizeKind kind)
{
    static const char *const names[] = {[NORMALIZE_NFC] = "NFC",
                                        [NORMALIZE_NFD] = "NFD",
                                        [NORMALIZE_NFKC] = "NFKC",
                                        [NORMALIZE_NFKD] = "NFKD",
                                        [NORMALIZE_LOWERCASE] = "Lowercase",
                                        [NORMALIZE_PREPEND] = "Prepend",
                                        [NORMALIZE_REPLACE] = "Replace"};
    return err_set(ERR_INPUT,
                   "--format gguf: llama.cpp does not apply the tokenizer's normalizer %s",
                   names[kind]);
}
