/* Tokenizers of every kind against Hugging Face's: ids, texts, what is written, where texts are
 * cut. gold/make_tokenizers.py made what is compared with. */
#include "text/decode.h"
#include "text/encode_stream.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOLDER PACER_GOLD_DIR "/tokenizers"

static cJSON *cases;

static int open_cases(void **state)
{
    (void)state;
    return json_load(FOLDER "/cases.json", &cases);
}

static int close_cases(void **state)
{
    (void)state;
    cJSON_Delete(cases);
    return 0;
}

static Tokenizer *open_kind(const char *name)
{
    char *path = mem_format(FOLDER "/%s.json", name);
    Tokenizer *tokenizer;
    if (tokenizer_open_copy(path, &tokenizer) != 0) {
        fail_msg("%s", err_message());
    }
    free(path);
    return tokenizer;
}

static TokenList read_ids(const cJSON *list)
{
    TokenList ids = {0};
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        uint32_t id = (uint32_t)item->valuedouble;
        token_list_add(&ids, &id, 1);
    }
    return ids;
}

static bool are_same(const TokenList *a, const TokenList *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->ids, b->ids, a->count * sizeof *a->ids) == 0);
}

static void check_text(const char *kind, const Tokenizer *tokenizer, const TokenList *ids,
                       bool skip_special, const char *expected)
{
    ByteList text = {0};
    Decoding decoding = decoding_begin(tokenizer, skip_special, false);
    /* token by token, as generated text comes */
    for (size_t i = 0; i < ids->count; i++) {
        assert_int_equal(decoding_add(&decoding, ids->ids + i, 1, &text), 0);
    }
    if (text.size != strlen(expected) ||
        (text.size > 0 && memcmp(text.bytes, expected, text.size) != 0)) {
        fail_msg("%s: \"%.*s\" instead of \"%s\"", kind, (int)text.size, (char *)text.bytes,
                 expected);
    }
    byte_list_free(&text);
}

static void check_ids(const cJSON *kind, Encoder *encoder, const Tokenizer *tokenizer)
{
    const cJSON *text = json_get(cases, "texts")->child, *back = json_get(kind, "back")->child,
                *list;
    cJSON_ArrayForEach(list, json_get(kind, "ids"))
    {
        TokenList expected = read_ids(list), ids = {0};
        encoder_run(encoder, (const uint8_t *)text->valuestring, strlen(text->valuestring), &ids);
        if (!are_same(&ids, &expected)) {
            fail_msg("%s: other ids of \"%s\"", kind->string, text->valuestring);
        }
        check_text(kind->string, tokenizer, &ids, true, back->valuestring);
        token_list_free(&expected);
        token_list_free(&ids);
        text = text->next;
        back = back->next;
    }
    assert_null(text);
}

static void test_tokenizer_kinds__ids_and_texts(void **state)
{
    (void)state;
    const cJSON *kind, *drawn;
    cJSON_ArrayForEach(kind, json_get(cases, "kinds"))
    {
        Tokenizer *tokenizer = open_kind(kind->string);
        Encoder *encoder = encoder_open(tokenizer);
        check_ids(kind, encoder, tokenizer);
        cJSON_ArrayForEach(drawn, json_get(kind, "drawn"))
        {
            TokenList ids = read_ids(json_get(drawn, "ids"));
            check_text(kind->string, tokenizer, &ids, false, json_text(drawn, "with"));
            check_text(kind->string, tokenizer, &ids, true, json_text(drawn, "without"));
            token_list_free(&ids);
        }
        encoder_close(encoder);
        tokenizer_free(tokenizer);
    }
}

/* The copy in a dataset or a run is the same tokenizer. */
static void test_tokenizer_kinds__what_is_written_is_the_same(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "tokenizer.json");
    const cJSON *kind;
    cJSON_ArrayForEach(kind, json_get(cases, "kinds"))
    {
        Tokenizer *tokenizer = open_kind(kind->string), *again;
        assert_int_equal(tokenizer_write_json(tokenizer, path), 0);
        assert_int_equal(tokenizer_open_copy(path, &again), 0);
        assert_true(again->hash == tokenizer->hash);
        assert_int_equal(tokenizer_check_target(path), 0); /* known as pacer's own */
        Encoder *encoder = encoder_open(again);
        check_ids(kind, encoder, again);
        encoder_close(encoder);
        tokenizer_free(again);
        tokenizer_free(tokenizer);
    }
    free(path);
    data_files_remove(folder);
}

/* ---- Cuts ---- */

static uint64_t drawn_so_far;

static size_t draw(size_t below)
{
    return (size_t)rng_below(7, 0, drawn_so_far++, below);
}

/* Parts of the texts, whole characters or not. */
static ByteList draw_text(size_t most)
{
    ByteList text = {0};
    const cJSON *texts = json_get(cases, "texts");
    int count = cJSON_GetArraySize(texts);
    while (text.size < most) {
        const char *from = cJSON_GetArrayItem(texts, (int)draw((size_t)count))->valuestring;
        size_t size = strlen(from), start = draw(4) == 0 ? draw(size + 1) : 0;
        size_t end = draw(4) == 0 ? start + draw(size - start + 1) : size;
        byte_list_add(&text, from + start, end - start);
        byte_list_add(&text, draw(3) == 0 ? "a b" : " ", 1 + draw(2));
    }
    return text;
}

/* Whatever follows a cut, the parts have the ids of the whole. */
static void test_tokenizer_kinds__cuts_change_nothing(void **state)
{
    (void)state;
    static const char *const uncut[] = {"falcon", "merged", "nfkd", "nfd", "words"};
    const cJSON *kind;
    cJSON_ArrayForEach(kind, json_get(cases, "kinds"))
    {
        Tokenizer *tokenizer = open_kind(kind->string);
        Encoder *encoder = encoder_open(tokenizer);
        int cuts = 0;
        for (int i = 0; i < 200; i++) {
            ByteList text = draw_text(1 + draw(300));
            size_t cut = encoder_cut(encoder, text.bytes, 1 + draw(text.size));
            TokenList whole = {0}, parts = {0};
            encoder_run(encoder, text.bytes, text.size, &whole);
            encoder_run_part(encoder, text.bytes, cut, true, &parts);
            encoder_run_part(encoder, text.bytes + cut, text.size - cut, cut == 0, &parts);
            if (!are_same(&whole, &parts)) {
                fail_msg("%s: cut at %zu of \"%.*s\"", kind->string, cut, (int)text.size,
                         (char *)text.bytes);
            }
            cuts += cut > 0;
            token_list_free(&whole);
            token_list_free(&parts);
            byte_list_free(&text);
        }
        bool may_be_uncut = false;
        for (size_t i = 0; i < sizeof uncut / sizeof *uncut; i++) {
            may_be_uncut = may_be_uncut || strcmp(uncut[i], kind->string) == 0;
        }
        if (cuts < 30 && !may_be_uncut) {
            fail_msg("%s: only %d cuts", kind->string, cuts);
        }
        encoder_close(encoder);
        tokenizer_free(tokenizer);
    }
}

static int receive(void *context, uint64_t tag, const uint32_t *ids, size_t count, uint64_t bytes,
                   bool ends)
{
    (void)tag;
    (void)bytes;
    (void)ends;
    token_list_add(context, ids, count);
    return 0;
}

/* Documents longer than a round, in pieces, with several threads. */
static void test_tokenizer_kinds__streams_give_the_same_ids(void **state)
{
    (void)state;
    static const char *const streamed[] = {"roberta", "qwen2",     "llama2_flags",
                                           "mistral", "metaspace", "smollm2"};
    for (size_t k = 0; k < sizeof streamed / sizeof *streamed; k++) {
        Tokenizer *tokenizer = open_kind(streamed[k]);
        Encoder *encoder = encoder_open(tokenizer);
        TokenList whole = {0}, parts = {0};
        EncodeStream *stream = encode_stream_open(tokenizer, 2, receive, &parts);
        for (size_t document = 0; document < 3; document++) {
            ByteList text = draw_text(document == 1 ? 2500000 : 1000);
            encoder_run(encoder, text.bytes, text.size, &whole);
            rounds_begin(stream->rounds, document);
            for (size_t at = 0, part; at < text.size; at += part) {
                part = 1 + draw(100000);
                part = part < text.size - at ? part : text.size - at;
                assert_int_equal(rounds_put(stream->rounds, text.bytes + at, part), 0);
            }
            assert_int_equal(rounds_end(stream->rounds), 0);
            byte_list_free(&text);
        }
        assert_int_equal(rounds_flush(stream->rounds), 0);
        assert_true(are_same(&whole, &parts));
        encode_stream_close(stream);
        token_list_free(&whole);
        token_list_free(&parts);
        encoder_close(encoder);
        tokenizer_free(tokenizer);
    }
}

/* ---- Bytes that are not UTF-8 ---- */

/* With byte-level BPE, and where bytes are a fallback, they come back. */
static void test_tokenizer_kinds__any_bytes_come_back(void **state)
{
    (void)state;
    static const char *const exact[] = {"gpt2",      "llama3", "smollm2",
                                        "deepseek3", "falcon", "gemma"};
    for (size_t k = 0; k < sizeof exact / sizeof *exact; k++) {
        Tokenizer *tokenizer = open_kind(exact[k]);
        Encoder *encoder = encoder_open(tokenizer);
        for (int i = 0; i < 50; i++) {
            uint8_t text[300];
            size_t size = draw(sizeof text);
            for (size_t j = 0; j < size; j++) {
                text[j] = (uint8_t)draw(256);
            }
            TokenList ids = {0};
            ByteList back = {0};
            encoder_run(encoder, text, size, &ids);
            assert_int_equal(tokenizer_decode(tokenizer, ids.ids, ids.count, &back), 0);
            assert_int_equal(back.size, size);
            assert_true(size == 0 || memcmp(back.bytes, text, size) == 0);
            token_list_free(&ids);
            byte_list_free(&back);
        }
        encoder_close(encoder);
        tokenizer_free(tokenizer);
    }
}

/* Merges of characters: a decoder and a way for characters without a token must be there. */
static void test_tokenizer_kinds__characters_are_checked(void **state)
{
    (void)state;
    static const char base[] = "{\"decoder\": %s, \"model\": {\"type\": \"BPE\", %s\"vocab\": "
                               "{\"<unk>\": 0, \"a\": 1, \"b\": 2, \"ab\": 3}, \"merges\": "
                               "[\"a b\"]}}";
#define REPLACE(from, to) \
    "{\"type\": \"Replace\", \"pattern\": {" from "}, \"content\": \"" to "\"}"
#define FUSE "{\"type\": \"Fuse\"}"
#define STRIP(start, stop) \
    "{\"type\": \"Strip\", \"content\": \" \", \"start\": " start ", \"stop\": " stop "}"
#define DECODERS(parts) "{\"type\": \"Sequence\", \"decoders\": [" parts "]}"
    static const char *const refused[][3] = {
        {"null", "\"unk_token\": \"<unk>\", ", "decoder null"},
        {FUSE, "", "characters without a token would be lost"},
        {FUSE, "\"byte_fallback\": true, ", "characters without a token would be lost"},
        {FUSE, "\"unk_token\": \"<none>\", ", "unk_token"},
        {FUSE, "\"unk_token\": 3, ", "unk_token"},
        {"{\"type\": \"ByteLevel\"}", "\"unk_token\": \"<unk>\", ", "decoder: ByteLevel"},
        {STRIP("1", "0"), "\"unk_token\": \"<unk>\", ", "Strip: must follow Fuse"},
        {DECODERS(FUSE ", " STRIP("1", "1")), "\"unk_token\": \"<unk>\", ", "stop must be 0"},
        {DECODERS(FUSE ", " STRIP("-1", "0")), "\"unk_token\": \"<unk>\", ", "\"start\""},
        {DECODERS(FUSE ", " REPLACE("\"String\": \"a\"", "b")), "\"unk_token\": \"<unk>\", ",
         "decoders[1]: Replace: must come before"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *text = mem_format(base, refused[i][0], refused[i][1]);
        Tokenizer *none;
        assert_int_equal(tokenizer_parse_json(text, strlen(text), "some.json", &none), ERR_INPUT);
        assert_says("some.json");
        assert_says(refused[i][2]);
        free(text);
    }
    char *text = mem_format(base, FUSE, "\"unk_token\": \"<unk>\", ");
    Tokenizer *tokenizer;
    assert_int_equal(tokenizer_parse_json(text, strlen(text), "some.json", &tokenizer), 0);
    assert_true(tokenizer->characters);
    assert_int_equal(tokenizer->unknown, 0);
    tokenizer_free(tokenizer);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_kinds__ids_and_texts),
        cmocka_unit_test(test_tokenizer_kinds__what_is_written_is_the_same),
        cmocka_unit_test(test_tokenizer_kinds__cuts_change_nothing),
        cmocka_unit_test(test_tokenizer_kinds__streams_give_the_same_ids),
        cmocka_unit_test(test_tokenizer_kinds__any_bytes_come_back),
        cmocka_unit_test(test_tokenizer_kinds__characters_are_checked),
    };
    return cmocka_run_group_tests(tests, open_cases, close_cases);
}
