#include "text/decode.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void decoder_add(Decoder *decoder, const char *from, const char *to, bool first_only)
{
    decoder->steps = mem_realloc(decoder->steps, decoder->count + 1, sizeof *decoder->steps);
    decoder->steps[decoder->count++] = (DecodeStep){mem_strdup(from), mem_strdup(to), first_only};
}

void decoder_free(Decoder *decoder)
{
    for (size_t i = 0; i < decoder->count; i++) {
        free(decoder->steps[i].from);
        free(decoder->steps[i].to);
    }
    free(decoder->steps);
    *decoder = (Decoder){0};
}

bool token_is_byte(const uint8_t *bytes, size_t size, uint8_t *byte)
{
    if (size != 6 || memcmp(bytes, "<0x", 3) != 0 || bytes[5] != '>' || !isxdigit(bytes[3]) ||
        !isxdigit(bytes[4])) {
        return false;
    }
    const char digits[] = {(char)bytes[3], (char)bytes[4], '\0'};
    *byte = (uint8_t)strtoul(digits, NULL, 16);
    return true;
}

/* Appends the text of a token. An added one that is `normalized` is its normalized text. */
static void add_token_text(const Tokenizer *t, uint32_t id, bool first, ByteList *out)
{
    const Decoder *decoder = &t->decoder;
    const AddedToken *added = tokenizer_added_of(t, id);
    const uint8_t *bytes = t->tokens[id].bytes;
    size_t size = t->tokens[id].size;
    NormalizeRoom room = {0};
    if (added != NULL && added->normalized) {
        bytes = normalizer_run(&t->normalizer, &room, bytes, &size, true);
    }
    ByteList lists[2] = {{0}};
    for (size_t i = 0; i < decoder->count; i++) {
        const DecodeStep *step = &decoder->steps[i];
        if (step->first_only && !first) {
            continue;
        }
        ByteList *next = &lists[i % 2];
        size_t from = strlen(step->from);
        next->size = 0;
        byte_list_extend(next, 0);
        for (size_t at = 0; at < size;) {
            bool same = size - at >= from && memcmp(bytes + at, step->from, from) == 0;
            byte_list_add(next, same ? (const void *)step->to : bytes + at,
                          same ? strlen(step->to) : 1);
            at += same ? from : 1;
        }
        bytes = next->bytes;
        size = next->size;
    }
    uint8_t byte;
    bool is_byte = decoder->byte_fallback && token_is_byte(bytes, size, &byte);
    byte_list_add(out, is_byte ? &byte : bytes, is_byte ? 1 : size);
    byte_list_free(&lists[0]);
    byte_list_free(&lists[1]);
    normalize_room_free(&room);
}

void tokenizer_make_texts(Tokenizer *tokenizer)
{
    Tokenizer *t = tokenizer;
    ByteList all = {0};
    t->texts = mem_zalloc(t->vocab + (size_t)1, sizeof *t->texts);
    for (uint32_t id = 0; id < t->vocab; id++) {
        size_t from = all.size;
        if (t->tokens[id].size > 0) {
            add_token_text(t, id, false, &all);
        }
        t->texts[id].size = (uint32_t)(all.size - from);
    }
    t->text_bytes = byte_list_extend(&all, 0) - all.size;
    const uint8_t *at = t->text_bytes;
    for (uint32_t id = 0; id < t->vocab; id++) {
        t->texts[id].bytes = at;
        at += t->texts[id].size;
    }
}

Decoding decoding_begin(const Tokenizer *tokenizer, bool skip_special, bool begun)
{
    return (Decoding){tokenizer, skip_special, begun, begun ? 0 : tokenizer->decoder.strip};
}

/* Leaves out what the decoder strips from the beginning of a text. */
static void strip_start(Decoding *d, ByteList *out, size_t from)
{
    uint8_t character[4];
    size_t length = (size_t)utf8_encode(d->tokenizer->decoder.stripped, character), at = from;
    while (d->strip > 0 && out->size - at >= length &&
           memcmp(out->bytes + at, character, length) == 0) {
        at += length;
        d->strip--;
    }
    if (at < out->size) {
        d->strip = 0;
    }
    memmove(out->bytes + from, out->bytes + at, out->size - at);
    out->size -= at - from;
}

static void add_text(Decoding *d, uint32_t id, ByteList *out)
{
    const Tokenizer *t = d->tokenizer;
    size_t size, from = out->size;
    const uint8_t *text = tokenizer_bytes(t, id, &size);
    if (!d->begun && t->decoder.first_differs) {
        add_token_text(t, id, true, out);
    } else {
        byte_list_add(out, text, size);
    }
    d->begun = true;
    if (d->strip > 0) {
        strip_start(d, out, from);
    }
}

int decoding_add(Decoding *decoding, const uint32_t *ids, size_t count, ByteList *out)
{
    const Tokenizer *t = decoding->tokenizer;
    for (size_t i = 0; i < count; i++) {
        size_t size;
        if (tokenizer_bytes(t, ids[i], &size) == NULL) {
            return err_set(ERR_INPUT,
                           "token %zu is %" PRIu32 ", which this tokenizer does not have (its "
                           "vocabulary has %" PRIu32 " entries)",
                           i, ids[i], t->vocab);
        }
        const AddedToken *added = decoding->skip_special ? tokenizer_added_of(t, ids[i]) : NULL;
        if (added == NULL || !added->special) {
            add_text(decoding, ids[i], out);
        }
    }
    return 0;
}

int tokenizer_decode(const Tokenizer *tokenizer, const uint32_t *ids, size_t count, ByteList *out)
{
    Decoding decoding = decoding_begin(tokenizer, false, false);
    return decoding_add(&decoding, ids, count, out);
}
