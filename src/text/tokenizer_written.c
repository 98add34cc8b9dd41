#include "text/tokenizer_written.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WARNINGS 3 /* about ids that are not those of the file */

/* True when the text has the escape of the character 0, which would end a C string early.
 * Backslashes stand only in strings, and each takes the next character with it. */
static bool has_escaped_zero(const char *text, size_t size)
{
    const char *end = text + size;
    for (const char *at = text; (at = memchr(at, '\\', (size_t)(end - at))) != NULL;) {
        if (end - at >= 6 && memcmp(at, "\\u0000", 6) == 0) {
            return true;
        }
        at += end - at >= 2 ? 2 : 1;
    }
    return false;
}

int written_parse(const char *text, size_t size, const char *path, cJSON **root)
{
    *root = NULL;
    if (memchr(text, 0, size) != NULL || has_escaped_zero(text, size)) {
        return err_set(ERR_INPUT, "%s: contains the character U+0000, which no token may have",
                       path);
    }
    JsonFault fault;
    *root = json_parse(text, size, &fault);
    return *root != NULL
               ? 0
               : err_set(ERR_INPUT, "%s:%d: not valid JSON (cut off, or not a tokenizer file?)",
                         path, fault.line);
}

bool written_number(const cJSON *item, uint32_t *number)
{
    int64_t value;
    if (!json_whole(item, UINT32_MAX, &value)) {
        return false;
    }
    *number = (uint32_t)value;
    return true;
}

static int by_content(const void *a, const void *b)
{
    return strcmp((*(WrittenAdded *const *)a)->content, (*(WrittenAdded *const *)b)->content);
}

/* The added tokens in the order of their contents, for bsearch; NULL when there are none. */
static WrittenAdded **sorted_by_content(WrittenAdded *added, size_t count)
{
    if (count == 0) {
        return NULL;
    }
    WrittenAdded **sorted = mem_alloc(count * sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &added[i];
    }
    qsort(sorted, count, sizeof *sorted, by_content);
    return sorted;
}

static int add_entry(Tokenizer *tokenizer, const cJSON *entry, uint32_t id, WrittenAdded *listed,
                     uint8_t *scratch)
{
    const char *name = entry->string;
    size_t length = strlen(name), size;
    bool written = alphabet_to_bytes(name, length, scratch, &size);
    if (listed != NULL) {
        if (listed->in_vocab) {
            return err_set(ERR_INPUT, "token \"%s\" is there twice",
                           token_shown(name, length).text);
        }
        listed->in_vocab = true;
        listed->vocab_id = id;
        if (written && size == 1 && length > 1) {
            return err_set(
                ERR_INPUT,
                "\"%s\" is an added token and in the byte alphabet byte 0x%02x; rename it", name,
                scratch[0]);
        }
        if (!written || size != length || memcmp(scratch, name, length) != 0) {
            return 0;
        }
    }
    if (!written) {
        return err_set(ERR_INPUT,
                       "\"%s\" is neither in the byte alphabet nor an added token; pacer reads "
                       "byte-level BPE only",
                       token_shown(name, length).text);
    }
    return tokenizer_add_token(tokenizer, id, scratch, size);
}

int written_add_vocab(Tokenizer *tokenizer, const cJSON *vocab, WrittenAdded *added,
                      size_t added_count, uint32_t *entries)
{
    WrittenAdded **sorted = sorted_by_content(added, added_count);
    size_t room = 0;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, vocab)
    {
        size_t length = strlen(entry->string);
        room = length > room ? length : room;
    }
    uint8_t *scratch = mem_alloc(room + 1);
    int code = 0;
    *entries = 0;
    cJSON_ArrayForEach(entry, vocab)
    {
        uint32_t id;
        if (!written_number(entry, &id)) {
            code = err_set(ERR_INPUT, "the id of \"%s\" is not a whole number from 0 on",
                           token_shown(entry->string, strlen(entry->string)).text);
        } else {
            WrittenAdded key = {.content = entry->string}, *key_at = &key, **found = NULL;
            if (sorted != NULL) {
                found = bsearch(&key_at, sorted, added_count, sizeof *sorted, by_content);
            }
            code = add_entry(tokenizer, entry, id, found != NULL ? *found : NULL, scratch);
        }
        if (code != 0) {
            err_wrap(code, "vocab");
            break;
        }
        ++*entries;
    }
    free(scratch);
    free(sorted);
    return code;
}

static int find_part(const Tokenizer *tokenizer, const char *name, size_t length, uint32_t *id)
{
    uint8_t small[256], *bytes = length > sizeof small ? mem_alloc(length) : small;
    size_t size;
    bool found = length > 0 && alphabet_to_bytes(name, length, bytes, &size) &&
                 tokenizer_find(tokenizer, bytes, size, id);
    if (bytes != small) {
        free(bytes);
    }
    return found ? 0
                 : err_set(ERR_INPUT, "\"%s\" is not in the vocabulary",
                           token_shown(name, length).text);
}

int written_add_merge(Tokenizer *tokenizer, const char *left, size_t left_length, const char *right,
                      size_t right_length)
{
    uint32_t left_id, right_id;
    int code = find_part(tokenizer, left, left_length, &left_id);
    code = code != 0 ? code : find_part(tokenizer, right, right_length, &right_id);
    return code != 0 ? code : tokenizer_add_merge(tokenizer, left_id, right_id);
}

int written_add_merge_line(Tokenizer *tokenizer, const char *line, size_t length)
{
    const char *space = memchr(line, ' ', length);
    size_t left = space == NULL ? 0 : (size_t)(space - line);
    if (space == NULL || left == 0 || left + 1 == length ||
        memchr(space + 1, ' ', length - left - 1) != NULL) {
        return err_set(ERR_INPUT, "\"%s\" is not two tokens with a space between",
                       token_shown(line, length).text);
    }
    return written_add_merge(tokenizer, line, left, space + 1, length - left - 1);
}

int written_add_added(Tokenizer *tokenizer, const WrittenAdded *added, size_t added_count,
                      uint32_t entries, const char *path)
{
    int code = 0, warnings = 0;
    uint32_t next = entries;
    for (size_t i = 0; i < added_count && code == 0; i++) {
        const WrittenAdded *token = &added[i];
        uint32_t id = token->in_vocab ? token->vocab_id : next++;
        if (id != token->id && warnings++ < MOST_WARNINGS) {
            log_warn("%s: added token \"%s\" gets id %" PRIu32 ", as in Hugging Face tokenizers, "
                     "not the %" PRIu32 " of the file",
                     path, token_shown(token->content, strlen(token->content)).text, id, token->id);
        }
        code = tokenizer_add_added(
            tokenizer,
            (AddedToken){.id = id, .special = token->special, .normalized = token->normalized},
            (const uint8_t *)token->content, strlen(token->content));
    }
    return code;
}
