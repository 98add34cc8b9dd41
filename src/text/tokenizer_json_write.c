/* Writing Hugging Face's tokenizer.json: one token and one merge per line, so that a person can
 * read it and two of them can be compared. Merges are written as "left right", which every
 * version of Hugging Face tokenizers reads. */
#include "text/tokenizer.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/output.h"
#include "text/unicode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FILE_BYTES ((size_t)512 << 20)

/* UTF-8 inside a JSON string: quotes, backslashes and control characters are escaped. */
static void put_escaped(FILE *out, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] < 0x20) {
            fprintf(out, "\\u%04x", bytes[i]);
            continue;
        }
        if (bytes[i] == '"' || bytes[i] == '\\') {
            fputc('\\', out);
        }
        fputc(bytes[i], out);
    }
}

/* A token of the vocabulary that is not added: as it is where merges start from characters, else in
 * the byte alphabet, which has quotes and backslashes but no control characters. */
static void put_token(FILE *out, const Tokenizer *tokenizer, Token token)
{
    if (tokenizer->characters) {
        put_escaped(out, token.bytes, token.size);
        return;
    }
    for (size_t i = 0; i < token.size; i++) {
        uint8_t character[4];
        put_escaped(out, character, (size_t)utf8_encode(byte_character(token.bytes[i]), character));
    }
}

/* Added tokens are plain text in the file, so they must be UTF-8 without U+0000. The rest of the
 * vocabulary is in the byte alphabet, and one text cannot name two tokens. */
static int check_added(const Tokenizer *tokenizer, uint32_t id)
{
    const uint8_t *bytes = tokenizer->tokens[id].bytes;
    size_t size = tokenizer->tokens[id].size, at = 0, other_size;
    while (at < size && bytes[at] != 0 && utf8_length(bytes + at, size - at) > 0) {
        at += (size_t)utf8_length(bytes + at, size - at);
    }
    if (at < size) {
        return err_set(ERR_INPUT, "added token \"%s\" is no text that JSON can hold (UTF-8)",
                       token_shown(bytes, size).text);
    }
    if (tokenizer->characters) {
        return 0;
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
static int check_merged(Token token)
{
    for (size_t at = 0; at < token.size; at++) {
        if (token.bytes[at] >= 0x80 || byte_character(token.bytes[at]) != token.bytes[at]) {
            return err_set(ERR_INPUT,
                           "added token \"%s\" is made by merges too, which the file cannot say",
                           token_shown(token.bytes, token.size).text);
        }
    }
    return 0;
}

static int check_expressible(const Tokenizer *tokenizer)
{
    int code = 0;
    for (size_t i = 0; i < tokenizer->added_count && code == 0; i++) {
        code = check_added(tokenizer, tokenizer->added[i].id);
    }
    const Merge *merges = tokenizer->merges;
    size_t count = tokenizer->characters ? 0 : tokenizer->merge_count;
    for (size_t i = 0; i < count && code == 0; i++) {
        if (tokenizer_added_of(tokenizer, merges[i].result) != NULL) {
            code = check_merged(tokenizer->tokens[merges[i].result]);
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
    for (uint32_t id = 0; id < tokenizer->vocab; id++) {
        next += tokenizer->tokens[id].size > 0;
    }
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        next -= tokenizer->added[i].apart;
    }
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        if (tokenizer->added[i].apart && tokenizer->added[i].id != next++) {
            return false;
        }
    }
    return true;
}

static void put_unused(FILE *out, const Tokenizer *tokenizer, int part)
{
    const char *json = tokenizer->unused[part];
    fprintf(out, "  \"%s\": %s,\n", tokenizer_unused_names[part], json != NULL ? json : "null");
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void put_added(FILE *out, const Tokenizer *tokenizer)
{
    size_t count = tokenizer->added_count;
    fputs("  \"added_tokens\": [", out);
    for (size_t i = 0; i < count; i++) {
        const AddedToken *added = &tokenizer->added[i];
        fprintf(out, "%s\n    {\"id\": %" PRIu32 ", \"content\": \"", i == 0 ? "" : ",", added->id);
        Token token = tokenizer->tokens[added->id];
        put_escaped(out, token.bytes, token.size);
        fprintf(out,
                "\", \"single_word\": %s, \"lstrip\": %s, \"rstrip\": %s, "
                "\"normalized\": %s, \"special\": %s}",
                truth(added->single_word), truth(added->lstrip), truth(added->rstrip),
                truth(added->normalized), truth(added->special));
    }
    fputs(count > 0 ? "\n  ],\n" : "],\n", out);
}

/* A part as it was read; false when it is that of plain byte-level BPE. */
static bool put_part(FILE *out, const Tokenizer *tokenizer, int part)
{
    const char *json = tokenizer->parts[part];
    if (json != NULL) {
        fprintf(out, "  \"%s\": %s,\n", tokenizer_part_names[part], json);
    }
    return json != NULL;
}

static void put_pre_tokenizer(FILE *out, const Pretok *pretok)
{
    if (strcmp(pretok_name(pretok), PRETOK_GPT2) == 0) {
        fputs("  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
              "\"trim_offsets\": true, \"use_regex\": true},\n",
              out);
        return;
    }
    const char *regex = pretok_regex(pretok);
    fputs("  \"pre_tokenizer\": {\n    \"type\": \"Sequence\",\n    \"pretokenizers\": [\n"
          "      {\"type\": \"Split\", \"pattern\": {\"Regex\": \"",
          out);
    put_escaped(out, (const uint8_t *)regex, strlen(regex));
    fputs("\"}, \"behavior\": \"Isolated\", \"invert\": false},\n"
          "      {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
          "\"trim_offsets\": true, \"use_regex\": false}\n    ]\n  },\n",
          out);
}

static void put_vocab(FILE *out, const Tokenizer *tokenizer)
{
    bool leave_apart = apart_follow(tokenizer);
    const char *before = "\n      \"";
    fputs("    \"vocab\": {", out);
    for (uint32_t id = 0; id < tokenizer->vocab; id++) {
        Token token = tokenizer->tokens[id];
        const AddedToken *added = tokenizer_added_of(tokenizer, id);
        if (token.size == 0 || (added != NULL && added->apart && leave_apart)) {
            continue;
        }
        fputs(before, out);
        if (added != NULL) {
            put_escaped(out, token.bytes, token.size);
        } else {
            put_token(out, tokenizer, token);
        }
        fprintf(out, "\": %" PRIu32, id);
        before = ",\n      \"";
    }
    fputs("\n    },\n", out);
}

static void put_merges(FILE *out, const Tokenizer *tokenizer)
{
    const Merge *merges = tokenizer->merges;
    const Token *tokens = tokenizer->tokens;
    size_t count = tokenizer->merge_count;
    bool listed = false; /* a space may be part of a token, which only the newer form can say */
    for (size_t i = 0; tokenizer->characters && i < count && !listed; i++) {
        Token made = tokens[merges[i].result];
        listed = memchr(made.bytes, ' ', made.size) != NULL;
    }
    fputs("    \"merges\": [", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s\n      %s\"", i == 0 ? "" : ",", listed ? "[" : "");
        put_token(out, tokenizer, tokens[merges[i].left]);
        fputs(listed ? "\", \"" : " ", out);
        put_token(out, tokenizer, tokens[merges[i].right]);
        fputs(listed ? "\"]" : "\"", out);
    }
    fputs(count > 0 ? "\n    ]\n" : "]\n", out);
}

static void put_unknown(FILE *out, const Tokenizer *tokenizer)
{
    if (tokenizer->unknown == UINT32_MAX) {
        fputs("null", out);
        return;
    }
    Token token = tokenizer->tokens[tokenizer->unknown];
    fputc('"', out);
    put_escaped(out, token.bytes, token.size);
    fputc('"', out);
}

/* The file's text; caller frees. */
static char *print_json(const Tokenizer *tokenizer, size_t *size)
{
    char *text = NULL;
    FILE *out = mem_checked(open_memstream(&text, size), sizeof *out);
    fputs("{\n  \"version\": \"1.0\",\n", out);
    put_unused(out, tokenizer, UNUSED_TRUNCATION);
    put_unused(out, tokenizer, UNUSED_PADDING);
    put_added(out, tokenizer);
    if (!put_part(out, tokenizer, PART_NORMALIZER)) {
        fputs("  \"normalizer\": null,\n", out);
    }
    if (!put_part(out, tokenizer, PART_PRE_TOKENIZER)) {
        put_pre_tokenizer(out, tokenizer->pretok);
    }
    put_unused(out, tokenizer, UNUSED_POST_PROCESSOR);
    if (!put_part(out, tokenizer, PART_DECODER)) {
        fputs("  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
              "\"trim_offsets\": true, \"use_regex\": true},\n",
              out);
    }
    fputs("  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": ",
          out);
    put_unknown(out, tokenizer);
    fprintf(out,
            ",\n    \"continuing_subword_prefix\": null,\n"
            "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": %s,\n"
            "    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
            truth(tokenizer->fuse_unknown), truth(tokenizer->byte_fallback),
            truth(tokenizer->ignore_merges));
    put_vocab(out, tokenizer);
    put_merges(out, tokenizer);
    fputs("  }\n}\n", out);
    return mem_checked(fclose(out) == 0 ? text : NULL, *size);
}

int tokenizer_write_json(const Tokenizer *tokenizer, const char *path)
{
    int code = check_expressible(tokenizer);
    if (code != 0) {
        return err_wrap(code, "%s: cannot write the tokenizer", path);
    }
    size_t size;
    char *text = print_json(tokenizer, &size);
    Output *output;
    code = output_open(path, &output);
    if (code == 0) {
        output_put(output, text, size);
        code = output_commit(output);
    }
    free(text);
    return code;
}

/* True when the text is what would be written of the tokenizer in it. */
static bool is_own(const char *text, size_t size, const char *path)
{
    Tokenizer *tokenizer;
    if (tokenizer_parse_json(text, size, path, &tokenizer) != 0) {
        return false;
    }
    size_t printed;
    char *again = print_json(tokenizer, &printed);
    bool own = printed == size && memcmp(text, again, size) == 0;
    free(again);
    tokenizer_free(tokenizer);
    return own;
}

static int check_old(const char *path)
{
    char *text;
    size_t size;
    int code = io_read_all(path, MAX_FILE_BYTES, &text, &size);
    if (code != 0) {
        return code;
    }
    if (size > 0 && !is_own(text, size, path)) {
        code = err_set(ERR_INPUT,
                       "%s: exists, and is no tokenizer that pacer made; choose another --out, or "
                       "remove it",
                       path);
    }
    free(text);
    return code;
}

int tokenizer_check_target(const char *path)
{
    struct stat info;
    if (io_is_folder(path)) {
        return err_set(ERR_INPUT, "%s: is a folder; name a file", path);
    }
    if (strcmp(path, "-") == 0) {
        return 0;
    }
    if (stat(path, &info) == 0) {
        return S_ISREG(info.st_mode) ? check_old(path) : 0;
    }
    return io_check_parent(path);
}
