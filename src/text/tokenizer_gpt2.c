/* GPT-2's pair of files: vocab.json maps token names to ids, merges.txt has a merge per line. */
#include "text/tokenizer_written.h"

#include "base/err.h"

#include <string.h>

#define VERSION_LINE "#version"

static int add_merge_lines(Tokenizer *tokenizer, const char *text, size_t size, const char *path)
{
    const char *end = text + size;
    size_t line = 1;
    for (const char *at = text; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        size_t length = (size_t)(stop - at);
        length -= length > 0 && at[length - 1] == '\r';
        bool is_version = line == 1 && length >= sizeof VERSION_LINE - 1 &&
                          memcmp(at, VERSION_LINE, sizeof VERSION_LINE - 1) == 0;
        if (length > 0 && !is_version) {
            int code = written_add_merge_line(tokenizer, at, length);
            if (code != 0) {
                return err_wrap(code, "%s:%zu", path, line);
            }
        }
        at = stop + 1;
    }
    return 0;
}

static int build(Tokenizer *tokenizer, const cJSON *vocab, const char *vocab_path,
                 const char *merges, size_t merges_size, const char *merges_path)
{
    if (!cJSON_IsObject(vocab)) {
        return err_set(ERR_INPUT, "%s: must be an object of tokens and their ids", vocab_path);
    }
    WrittenAdded end = {.content = TOKENIZER_END, .special = true};
    uint32_t entries;
    int code = written_add_vocab(tokenizer, vocab, &end, 1, &entries);
    end.id = end.vocab_id;
    code = code != 0 ? err_wrap(code, "%s", vocab_path)
                     : add_merge_lines(tokenizer, merges, merges_size, merges_path);
    if (code != 0) {
        return code;
    }
    code = end.in_vocab ? written_add_added(tokenizer, &end, 1, entries, vocab_path) : 0;
    code = code != 0 ? code : tokenizer_set_pattern(tokenizer, PRETOK_GPT2);
    code = code != 0 ? code : tokenizer_finish(tokenizer);
    return code != 0 ? err_wrap(code, "%s", vocab_path) : 0;
}

int tokenizer_parse_gpt2(const char *vocab, size_t vocab_size, const char *vocab_path,
                         const char *merges, size_t merges_size, const char *merges_path,
                         Tokenizer **out)
{
    *out = NULL;
    cJSON *root;
    int code = written_parse(vocab, vocab_size, vocab_path, &root);
    if (code != 0) {
        return code;
    }
    Tokenizer *tokenizer = tokenizer_new();
    code = build(tokenizer, root, vocab_path, merges, merges_size, merges_path);
    cJSON_Delete(root);
    if (code != 0) {
        tokenizer_free(tokenizer);
        return code;
    }
    *out = tokenizer;
    return 0;
}
