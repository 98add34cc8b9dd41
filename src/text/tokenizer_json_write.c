/* Writing Hugging Face's tokenizer.json: one token and one merge per line, so that a person can
 * read it and two of them can be compared. Merges are written as "left right", which every
 * version of Hugging Face tokenizers reads. */
#include "text/tokenizer_internal.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "text/unicode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *text;
    size_t size, capacity;
} Text;

static void put(Text *text, const void *bytes, size_t size)
{
    if (size > text->capacity - text->size) {
        text->capacity = 2 * (text->size + size) + 4096;
        text->text = mem_realloc(text->text, text->capacity, 1);
    }
    memcpy(text->text + text->size, bytes, size);
    text->size += size;
}

static void put_text(Text *text, const char *string)
{
    put(text, string, strlen(string));
}

static void put_number(Text *text, uint32_t number)
{
    char digits[16];
    put(text, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu32, number));
}

/* UTF-8 inside a JSON string: quotes, backslashes and control characters are escaped. */
static void put_escaped(Text *text, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char escape[8];
        if (bytes[i] == '"' || bytes[i] == '\\') {
            put_text(text, bytes[i] == '"' ? "\\\"" : "\\\\");
        } else if (bytes[i] < 0x20) {
            put(text, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", bytes[i]));
        } else {
            put(text, &bytes[i], 1);
        }
    }
}

/* A token in the byte alphabet, which has quotes and backslashes but no control characters. */
static void put_alphabet(Text *text, const Tokenizer *tokenizer, uint32_t id)
{
    size_t size;
    const uint8_t *bytes = tokenizer_bytes(tokenizer, id, &size);
    for (size_t i = 0; i < size; i++) {
        uint8_t character[4];
        put_escaped(text, character, (size_t)utf8_encode(byte_character(bytes[i]), character));
    }
}

static void put_plain(Text *text, const Tokenizer *tokenizer, uint32_t id)
{
    size_t size;
    const uint8_t *bytes = tokenizer_bytes(tokenizer, id, &size);
    put_escaped(text, bytes, size);
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = ((const AddedToken *)b)->id;
    return (x > y) - (x < y);
}

static bool is_added(const Tokenizer *tokenizer, uint32_t id)
{
    size_t count = tokenizer_added_count(tokenizer);
    return count > 0 &&
           bsearch(&id, tokenizer_added(tokenizer), count, sizeof(AddedToken), by_id) != NULL;
}

/* Added tokens are plain text in the file, so they must be UTF-8 without U+0000. The rest of the
 * vocabulary is in the byte alphabet, and one text cannot name two tokens. */
static int check_added(const Tokenizer *tokenizer, uint32_t id)
{
    size_t size, at = 0, other_size;
    const uint8_t *bytes = tokenizer_bytes(tokenizer, id, &size);
    while (at < size && bytes[at] != 0 && utf8_length(bytes + at, size - at) > 0) {
        at += (size_t)utf8_length(bytes + at, size - at);
    }
    if (at < size) {
        return err_set(ERR_INPUT, "added token \"%s\" is no text that JSON can hold (UTF-8)",
                       token_shown(bytes, size).text);
    }
    uint8_t *other = mem_alloc(size);
    uint32_t other_id;
    bool clash = alphabet_to_bytes((const char *)bytes, size, other, &other_size) &&
                 tokenizer_find(tokenizer, other, other_size, &other_id) && other_id != id;
    free(other);
    return clash ? err_set(ERR_INPUT,
                           "added token \"%s\" is spelled like token %" PRIu32
                           " in the byte alphabet of the file; choose another text",
                           token_shown(bytes, size).text, other_id)
                 : 0;
}

/* A token that merges make is written in the byte alphabet, and an added one in plain text; one
 * that is both must be spelled the same. */
static int check_merged(const Tokenizer *tokenizer, uint32_t id)
{
    size_t size;
    const uint8_t *bytes = tokenizer_bytes(tokenizer, id, &size);
    for (size_t at = 0; at < size; at++) {
        if (bytes[at] >= 0x80 || byte_character(bytes[at]) != bytes[at]) {
            return err_set(ERR_INPUT,
                           "added token \"%s\" is made by merges too, which the file cannot say",
                           token_shown(bytes, size).text);
        }
    }
    return 0;
}

static int check_expressible(const Tokenizer *tokenizer)
{
    int code = 0;
    for (size_t i = 0; i < tokenizer_added_count(tokenizer) && code == 0; i++) {
        code = check_added(tokenizer, tokenizer_added(tokenizer)[i].id);
    }
    const Merge *merges = tokenizer_merges(tokenizer);
    for (size_t i = 0; i < tokenizer_merge_count(tokenizer) && code == 0; i++) {
        if (is_added(tokenizer, merges[i].result)) {
            code = check_merged(tokenizer, merges[i].result);
        }
    }
    return code;
}

/* Added tokens that are not part of the vocabulary have no id of their own in Hugging Face: they
 * get those that follow the number of entries. True when that gives the ids they have; otherwise
 * they must be written as part of the vocabulary. */
static bool apart_follow(const Tokenizer *tokenizer)
{
    uint32_t next = 0; /* entries */
    for (uint32_t id = 0; id < tokenizer_vocab(tokenizer); id++) {
        size_t size;
        next += tokenizer_bytes(tokenizer, id, &size) != NULL && !tokenizer_is_apart(tokenizer, id);
    }
    const AddedToken *added = tokenizer_added(tokenizer);
    for (size_t i = 0; i < tokenizer_added_count(tokenizer); i++) {
        if (tokenizer_is_apart(tokenizer, added[i].id) && added[i].id != next++) {
            return false;
        }
    }
    return true;
}

static void put_added(Text *text, const Tokenizer *tokenizer)
{
    const AddedToken *added = tokenizer_added(tokenizer);
    size_t count = tokenizer_added_count(tokenizer);
    put_text(text, "  \"added_tokens\": [");
    for (size_t i = 0; i < count; i++) {
        put_text(text, i == 0 ? "\n    {\"id\": " : ",\n    {\"id\": ");
        put_number(text, added[i].id);
        put_text(text, ", \"content\": \"");
        put_plain(text, tokenizer, added[i].id);
        put_text(text, "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false");
        put_text(text, added[i].normalized ? ", \"normalized\": true" : ", \"normalized\": false");
        put_text(text, added[i].special ? ", \"special\": true}" : ", \"special\": false}");
    }
    put_text(text, count > 0 ? "\n  ],\n" : "],\n");
}

static void put_pre_tokenizer(Text *text, const Pretok *pretok)
{
    if (strcmp(pretok_name(pretok), PRETOK_GPT2) == 0) {
        put_text(text,
                 "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                 "\"trim_offsets\": true, \"use_regex\": true},\n");
        return;
    }
    const char *regex = pretok_regex(pretok);
    put_text(text, "  \"pre_tokenizer\": {\n    \"type\": \"Sequence\",\n    \"pretokenizers\": [\n"
                   "      {\"type\": \"Split\", \"pattern\": {\"Regex\": \"");
    put_escaped(text, (const uint8_t *)regex, strlen(regex));
    put_text(text, "\"}, \"behavior\": \"Isolated\", \"invert\": false},\n"
                   "      {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                   "\"trim_offsets\": true, \"use_regex\": false}\n    ]\n  },\n");
}

static void put_vocab(Text *text, const Tokenizer *tokenizer)
{
    bool leave_apart = apart_follow(tokenizer);
    const char *before = "\n      \"";
    put_text(text, "    \"vocab\": {");
    for (uint32_t id = 0; id < tokenizer_vocab(tokenizer); id++) {
        size_t size;
        if (tokenizer_bytes(tokenizer, id, &size) == NULL ||
            (leave_apart && tokenizer_is_apart(tokenizer, id))) {
            continue;
        }
        put_text(text, before);
        if (is_added(tokenizer, id)) {
            put_plain(text, tokenizer, id);
        } else {
            put_alphabet(text, tokenizer, id);
        }
        put_text(text, "\": ");
        put_number(text, id);
        before = ",\n      \"";
    }
    put_text(text, "\n    },\n");
}

static void put_merges(Text *text, const Tokenizer *tokenizer)
{
    const Merge *merges = tokenizer_merges(tokenizer);
    size_t count = tokenizer_merge_count(tokenizer);
    put_text(text, "    \"merges\": [");
    for (size_t i = 0; i < count; i++) {
        put_text(text, i == 0 ? "\n      \"" : ",\n      \"");
        put_alphabet(text, tokenizer, merges[i].left);
        put_text(text, " ");
        put_alphabet(text, tokenizer, merges[i].right);
        put_text(text, "\"");
    }
    put_text(text, count > 0 ? "\n    ]\n" : "]\n");
}

int tokenizer_write_json(const Tokenizer *tokenizer, const char *path)
{
    int code = check_expressible(tokenizer);
    if (code != 0) {
        return err_wrap(code, "%s: cannot write the tokenizer", path);
    }
    Text text = {0};
    put_text(&text, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    put_added(&text, tokenizer);
    put_text(&text, "  \"normalizer\": null,\n");
    put_pre_tokenizer(&text, tokenizer_pretok(tokenizer));
    put_text(&text, "  \"post_processor\": null,\n"
                    "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                    "\"trim_offsets\": true, \"use_regex\": true},\n"
                    "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                    "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                    "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                    "    \"byte_fallback\": false,\n");
    put_text(&text, tokenizer_ignore_merges(tokenizer) ? "    \"ignore_merges\": true,\n"
                                                       : "    \"ignore_merges\": false,\n");
    put_vocab(&text, tokenizer);
    put_merges(&text, tokenizer);
    put_text(&text, "  }\n}\n");
    code = io_write_atomic(path, text.text, text.size);
    free(text.text);
    return code;
}
