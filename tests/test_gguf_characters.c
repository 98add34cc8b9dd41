/* Tokenizers over characters in GGUF: what is written is read back and applied to random texts as
 * llama.cpp does it, by text and score alone, and must give the encoder's ids; or it is refused. */
#include "exchange/gguf.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/exchange_files.h"
#include "support/gguf_file.h"
#include "text/encode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIGN "\xE2\x96\x81"
#define BYTES 3   /* id of <0x00> */
#define FIRST 259 /* id of the first character */

static Tokenizer *parsed(const char *json)
{
    Tokenizer *tokenizer;
    if (tokenizer_parse_json(json, strlen(json), "x.json", &tokenizer) != 0) {
        fail_msg("%s", err_message());
    }
    return tokenizer;
}

static Tokenizer *gold(const char *name)
{
    Tokenizer *tokenizer;
    char *path = mem_format("%s/tokenizers/%s.json", PACER_GOLD_DIR, name);
    assert_int_equal(tokenizer_open_copy(path, &tokenizer), 0);
    free(path);
    return tokenizer;
}

/* The fields as a file without tensors; NULL: refused. */
static Gguf *written(const Tokenizer *tokenizer, int64_t rows)
{
    char *text = NULL, *path = io_join(exchange_folder, "t.gguf");
    size_t size;
    GgufFields fields = {.to = open_memstream(&text, &size)};
    int code = gguf_put_characters(&fields, tokenizer, rows);
    assert_int_equal(fclose(fields.to), 0);
    Gguf *g = NULL;
    if (code == 0) {
        FILE *file = fopen(path, "wb");
        fwrite("GGUF", 1, 4, file);
        gguf_put_whole(file, 3, 4);
        gguf_put_whole(file, 0, 8);
        gguf_put_whole(file, fields.count, 8);
        fwrite(text, 1, size, file);
        assert_int_equal(fclose(file), 0);
        g = read_gguf(path);
    }
    free(text);
    free(path);
    return g;
}

static float score_of(const Field *scores, uint64_t id)
{
    uint32_t bits = (uint32_t)scores->wholes[id];
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

static int64_t id_of(const Field *tokens, const char *text, size_t size)
{
    for (uint64_t id = 0; id < tokens->count; id++) {
        if (strlen(tokens->texts[id]) == size && memcmp(tokens->texts[id], text, size) == 0) {
            return (int64_t)id;
        }
    }
    return -1;
}

/* Joins the neighbours whose text is the token of the highest score, the leftmost of several, until
 * none is a token; what is no token then is bytes. Returns how many ids. */
static size_t apply(const Gguf *g, const char *text, uint32_t *ids)
{
    const Field *tokens = field_of(g, "tokenizer.ggml.tokens");
    const Field *scores = field_of(g, "tokenizer.ggml.scores");
    char all[512] = "";
    if (field_of(g, "tokenizer.ggml.add_space_prefix")->value) {
        strcpy(all, SIGN);
    }
    for (; *text != 0; text++) {
        char one[2] = {*text, 0};
        strcat(all, *text == ' ' ? SIGN : one);
    }
    size_t ends[512], count = 0, made = 0;
    for (size_t at = 0; at < strlen(all);) {
        at++;
        while ((all[at] & 0xC0) == 0x80) {
            at++;
        }
        ends[count++] = at;
    }
    for (;;) {
        size_t best = count;
        float most = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            size_t from = i > 0 ? ends[i - 1] : 0;
            int64_t id = id_of(tokens, all + from, ends[i + 1] - from);
            if (id >= 0 && (best == count || score_of(scores, (uint64_t)id) > most)) {
                best = i;
                most = score_of(scores, (uint64_t)id);
            }
        }
        if (best == count) {
            break;
        }
        memmove(&ends[best], &ends[best + 1], (count - best - 1) * sizeof *ends);
        count--;
    }
    for (size_t i = 0, from = 0; i < count; from = ends[i++]) {
        int64_t id = id_of(tokens, all + from, ends[i] - from);
        for (size_t k = from; id < 0 && k < ends[i]; k++) {
            ids[made++] = BYTES + (uint8_t)all[k];
        }
        if (id >= 0) {
            ids[made++] = (uint32_t)id;
        }
    }
    return made;
}

static void compare(const Gguf *g, const Tokenizer *tokenizer, const char *text)
{
    uint32_t ids[1024];
    size_t count = apply(g, text, ids);
    Encoder *encoder = encoder_open(tokenizer);
    TokenList list = {0};
    encoder_run(encoder, (const uint8_t *)text, strlen(text), &list);
    if (count != list.count || memcmp(ids, list.ids, count * sizeof *ids) != 0) {
        fail_msg("\"%s\" has other ids", text);
    }
    token_list_free(&list);
    encoder_close(encoder);
}

/* --- random merges --- */

static void append(char **list, const char *comma, const char *text)
{
    char *longer = mem_format("%s%s%s", *list, (*list)[0] != 0 ? comma : "", text);
    free(*list);
    *list = longer;
}

static const char *const letters[] = {"a", "b", "c", SIGN, "\xC3\xA9"}; /* the last has no token */
enum { LETTERS = 4, MOST = 16 };

/* Random merges over the letters, and now and then a token that no merge makes. */
static char *random_merges(uint64_t seed, char tokens[MOST][32], int *count)
{
    char *merges = mem_strdup("");
    uint64_t draw = 0;
    *count = LETTERS;
    for (int i = 0; i < LETTERS; i++) {
        strcpy(tokens[i], letters[i]);
    }
    for (int m = 0; m < 10; m++) {
        const char *left = tokens[rng_below(seed, 1, draw++, (uint64_t)*count)];
        const char *right = tokens[rng_below(seed, 1, draw++, (uint64_t)*count)];
        char both[32], pair[80];
        snprintf(both, sizeof both, "%.15s%.15s", left, right);
        snprintf(pair, sizeof pair, "[\"%s\", \"%s\"]", left, right);
        if (strlen(both) > 10 || strstr(merges, pair) != NULL) {
            continue;
        }
        int known = 0;
        while (known < *count && strcmp(tokens[known], both) != 0) {
            known++;
        }
        append(&merges, ", ", pair);
        if (known == *count) {
            strcpy(tokens[(*count)++], both);
        }
    }
    if (rng_below(seed, 1, draw, 4) == 0) {
        strcpy(tokens[(*count)++], "abcabcabcab"); /* longer than what merges make */
    }
    return merges;
}

static Tokenizer *random_tokenizer(uint64_t seed)
{
    char tokens[MOST][32], row[64], *vocab = mem_strdup("");
    int count;
    char *merges = random_merges(seed, tokens, &count);
    append(&vocab, ", ", "\"<unk>\": 0, \"<s>\": 1, \"</s>\": 2");
    for (int i = 0; i < 256; i++) {
        snprintf(row, sizeof row, "\"<0x%02X>\": %d", (unsigned)i, BYTES + i);
        append(&vocab, ", ", row);
    }
    for (int i = 0; i < count; i++) {
        snprintf(row, sizeof row, "\"%.31s\": %d", tokens[i], FIRST + i);
        append(&vocab, ", ", row);
    }
    char *json = mem_format("{\"added_tokens\": [{\"id\": 0, \"content\": \"<unk>\", \"special\": "
                            "true, \"normalized\": false}], \"normalizer\": {\"type\": \"Replace\","
                            " \"pattern\": {\"String\": \" \"}, \"content\": \"" SIGN "\"}, "
                            "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": "
                            "\"ByteFallback\"}, {\"type\": \"Fuse\"}]}, \"model\": {\"type\": "
                            "\"BPE\", \"unk_token\": \"<unk>\", \"fuse_unk\": true, "
                            "\"byte_fallback\": true, \"vocab\": {%s}, \"merges\": [%s]}}",
                            vocab, merges);
    Tokenizer *tokenizer = parsed(json);
    free(json);
    free(vocab);
    free(merges);
    return tokenizer;
}

static void random_text(uint64_t seed, uint64_t number, char text[64])
{
    uint64_t length = 1 + rng_below(seed, 2 + number, 0, 14);
    text[0] = 0;
    for (uint64_t i = 1; i <= length; i++) {
        uint64_t letter = rng_below(seed, 2 + number, i, 21) % (LETTERS + 1);
        strcat(text, letter == 3 ? " " : letters[letter]);
    }
}

static void test_gguf_characters__give_the_same_ids_or_are_refused(void **state)
{
    (void)state;
    int same = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        Tokenizer *tokenizer = random_tokenizer(seed);
        Gguf *g = written(tokenizer, tokenizer->vocab + 2);
        same += g != NULL;
        refused += g == NULL;
        for (uint64_t i = 0; g != NULL && i < 60; i++) {
            char text[64];
            random_text(seed, i, text);
            compare(g, tokenizer, text);
        }
        if (g != NULL) {
            free_gguf(g);
        }
        tokenizer_free(tokenizer);
    }
    assert_true(same > 80 && refused > 10);
}

/* --- what Llama 2's and Gemma's are written as --- */

static void test_gguf_characters__are_what_llama_cpp_reads(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2", "gemma"};
    static const char *const texts[] = {"Hello  world", " the err\n\n", "\xE6\x97\xA5 1 \xC3\xA9",
                                        "<0x41> x", "a\x01z"};
    for (int i = 0; i < 2; i++) {
        Tokenizer *tokenizer = gold(names[i]);
        Gguf *g = written(tokenizer, 610);
        assert_non_null(g);
        const Field *tokens = field_of(g, "tokenizer.ggml.tokens");
        const Field *types = field_of(g, "tokenizer.ggml.token_type");
        assert_string_equal(field_of(g, "tokenizer.ggml.model")->text, "llama");
        assert_int_equal(field_of(g, "tokenizer.ggml.add_space_prefix")->value, i == 0);
        assert_int_equal(field_of(g, "tokenizer.ggml.remove_extra_whitespaces")->value, 0);
        assert_int_equal(field_of(g, "tokenizer.ggml.unknown_token_id")->value, 0);
        assert_int_equal(tokens->count, 610);
        for (uint64_t id = 0; id < 610; id++) {
            assert_int_equal(types->wholes[id], id == 0      ? 2
                                                : id < 3     ? 3
                                                : id < FIRST ? 6
                                                : id < 607   ? 1
                                                             : 5);
        }
        assert_string_equal(tokens->texts[3 + 0x0A], "<0x0A>");
        assert_string_equal(tokens->texts[608], "[PAD 608]");
        int64_t first = id_of(tokens, SIGN "f", 4), third = id_of(tokens, "ar", 2);
        const Field *scores = field_of(g, "tokenizer.ggml.scores");
        assert_true(first > 0 && score_of(scores, (uint64_t)first) == 0);
        assert_true(third > 0 && score_of(scores, (uint64_t)third) == -2);
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
            compare(g, tokenizer, texts[t]);
        }
        free_gguf(g);
        tokenizer_free(tokenizer);
    }
}

static void expect_refused(Tokenizer *tokenizer, const char *says)
{
    char *text = NULL;
    size_t size;
    GgufFields fields = {.to = open_memstream(&text, &size)};
    int code = gguf_put_characters(&fields, tokenizer, tokenizer->vocab);
    assert_int_equal(fclose(fields.to), 0);
    exchange_expect(code, says);
    free(text);
    tokenizer_free(tokenizer);
}

/* Llama 2's with a part of its text replaced. */
static Tokenizer *changed(const char *from, const char *to)
{
    char *path = mem_strdup(PACER_GOLD_DIR "/tokenizers/llama2.json"), *json, *at;
    size_t size;
    assert_int_equal(io_read_all(path, 1 << 24, &json, &size), 0);
    at = strstr(json, from);
    assert_non_null(at);
    char *text = mem_format("%.*s%s%s", (int)(at - json), json, to, at + strlen(from));
    Tokenizer *tokenizer = parsed(text);
    free(text);
    free(json);
    free(path);
    return tokenizer;
}

static void test_gguf_characters__refuse_by_name(void **state)
{
    (void)state;
    expect_refused(gold("metaspace"), "no token <0x00>");
    expect_refused(gold("llama2_flags"), "<mask> takes spaces around it");
    expect_refused(changed("\"normalizers\":[", "\"normalizers\":[{\"type\": \"NFKC\"}, "),
                   "normalizer NFKC");
    expect_refused(changed("\"normalizers\":[", "\"normalizers\":[{\"type\": \"Lowercase\"}, "),
                   "normalizer Lowercase");
    expect_refused(changed("\"pre_tokenizer\":null",
                           "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": "
                           "\"[0-9]\"}, \"behavior\": \"Isolated\", \"invert\": false}"),
                   "does not cut text");
    expect_refused(changed("\"normalized\":false", "\"normalized\": true"),
                   "<unk> is found in normalized text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_characters__give_the_same_ids_or_are_refused),
        cmocka_unit_test(test_gguf_characters__are_what_llama_cpp_reads),
        cmocka_unit_test(test_gguf_characters__refuse_by_name),
    };
    return cmocka_run_group_tests(tests, exchange_make_folder, exchange_remove_folder);
}
