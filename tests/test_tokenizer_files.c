/* tokenizer.json and GPT-2's files: what is read, what is refused and how, and what is written. */
#include "text/tokenizer.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MUTATIONS 1500

#define BYTE_LEVEL(prefix, regex)                                                    \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " prefix ", \"trim_offsets\": " \
    "true, \"use_regex\": " regex "}"
#define SPLIT(pattern, behavior, invert)                                          \
    "{\"type\": \"Split\", \"pattern\": {" pattern "}, \"behavior\": \"" behavior \
    "\", \"invert\": " invert "}"
#define SEQUENCE(parts) "{\"type\": \"Sequence\", \"pretokenizers\": [" parts "]}"
#define NORMALIZERS(parts) "{\"type\": \"Sequence\", \"normalizers\": [" parts "]}"
#define REPLACE(pattern, content) \
    "{\"type\": \"Replace\", \"pattern\": {" pattern "}, \"content\": \"" content "\"}"
#define DIGITS "\"Regex\": \"[0-9]+|[^0-9]\\\\S*\""
/* Patterns of OpenAI's, as JSON. */
#define CL100K_OLD                                                                       \
    "\"Regex\": \"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" \
    "\\\\p{N}{1,3}| "                                                                    \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\""
#define CL100K_NEW(braces)                                                                         \
    "\"Regex\": \"'(?i:[sdmt]|ll|ve|re)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?+\\\\p{L}++|\\\\p{N}" braces \
    "| "                                                                                           \
    "?[^\\\\s\\\\p{L}\\\\p{N}]++[\\\\r\\\\n]*+|\\\\s++$|\\\\s*[\\\\r\\\\n]|\\\\s+(?!\\\\S)|"       \
    "\\\\s\""
#define O200K_WORD(first, second)                                                        \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]" first \
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]" second "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
#define O200K                                                         \
    "\"Regex\": \"" O200K_WORD("*", "+")                              \
        O200K_WORD("+", "*") "\\\\p{N}{1,3}| "                        \
                             "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/" \
                             "]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\""
#define FLAGS "\"single_word\": false, \"lstrip\": false, \"rstrip\": false"
#define SPECIAL(id, text)                                \
    "{\"id\": " id ", \"content\": \"" text "\", " FLAGS \
    ", \"normalized\": false, \"special\": true}"

/* A tokenizer.json in pieces; NULL stands for the usual piece. */
typedef struct {
    const char *added, *normalizer, *pre_tokenizer, *decoder;
    const char *around; /* members that do not concern tokens */
    const char *model;  /* members of the model before vocab */
    const char *vocab;  /* entries behind the 256 bytes, each with a comma before it */
    const char *merges;
} Pieces;

static const char *or_else(const char *text, const char *usual)
{
    return text != NULL ? text : usual;
}

/* Entries of the bytes: byte i has id i, its name written as an escape. */
static char *byte_entries(void)
{
    char *text = mem_zalloc(256, 24), *at = text;
    for (unsigned i = 0; i < 256; i++) {
        at += sprintf(at, "%s\"\\u%04x\": %u", i == 0 ? "" : ", ", byte_character((uint8_t)i), i);
    }
    return text;
}

static char *document(Pieces p)
{
    char *bytes = byte_entries();
    char *text = mem_format(
        "{\"version\": \"1.0\", %s\"added_tokens\": [%s], \"normalizer\": %s, \"pre_tokenizer\": "
        "%s, "
        "\"decoder\": %s, \"model\": {%s\"vocab\": {%s%s}, \"merges\": [%s]}}",
        or_else(p.around, "\"truncation\": null, \"padding\": null, \"post_processor\": null, "),
        or_else(p.added, SPECIAL("259", "<|endoftext|>")), or_else(p.normalizer, "null"),
        or_else(p.pre_tokenizer, BYTE_LEVEL("false", "true")),
        or_else(p.decoder, BYTE_LEVEL("true", "true")),
        or_else(p.model, "\"type\": \"BPE\", \"dropout\": null, "), bytes,
        or_else(p.vocab, ", \"ab\": 256, \"\\u0120a\": 257, \"\\u0120ab\": 258"),
        or_else(p.merges, "\"a b\", \"\\u0120 a\", \"\\u0120a b\""));
    free(bytes);
    return text;
}

static Tokenizer *accept(Pieces pieces)
{
    char *text = document(pieces);
    Tokenizer *tokenizer;
    if (tokenizer_parse_json(text, strlen(text), "some.json", &tokenizer) != 0) {
        fail_msg("%s", err_message());
    }
    free(text);
    return tokenizer;
}

static void accept_same(Pieces pieces, uint64_t hash)
{
    Tokenizer *tokenizer = accept(pieces);
    assert_true(tokenizer->hash == hash);
    tokenizer_free(tokenizer);
}

static void refuse_text(const char *text, size_t size, const char *says)
{
    Tokenizer *tokenizer;
    assert_int_equal(tokenizer_parse_json(text, size, "some.json", &tokenizer), ERR_INPUT);
    assert_null(tokenizer);
    assert_says("some.json");
    assert_says(says);
}

static void refuse(Pieces pieces, const char *says)
{
    char *text = document(pieces);
    refuse_text(text, strlen(text), says);
    free(text);
}

static void assert_token(const Tokenizer *tokenizer, uint32_t id, const char *bytes)
{
    size_t size;
    const uint8_t *stored = tokenizer_bytes(tokenizer, id, &size);
    assert_non_null(stored);
    assert_int_equal(size, strlen(bytes));
    assert_memory_equal(stored, bytes, size);
}

static void test_tokenizer_files__json_is_read(void **state)
{
    (void)state;
    Tokenizer *tokenizer = accept((Pieces){0});
    assert_int_equal(tokenizer->vocab, 260);
    assert_token(tokenizer, 256, "ab");
    assert_token(tokenizer, 258, " ab");
    assert_token(tokenizer, 259, "<|endoftext|>");
    for (uint32_t i = 0; i < 256; i++) {
        assert_int_equal(tokenizer->byte_ids[i], i);
    }
    assert_int_equal(tokenizer->merge_count, 3);
    const Merge *merges = tokenizer->merges;
    assert_int_equal(merges[0].left, 'a');
    assert_int_equal(merges[2].left, 257);
    assert_int_equal(merges[2].right, 'b');
    assert_int_equal(merges[2].result, 258);
    const AddedToken *added = tokenizer->added;
    assert_int_equal(tokenizer->added_count, 1);
    assert_int_equal(added->id, 259);
    assert_true(added->special);
    assert_false(added->normalized);
    assert_string_equal(pretok_name(tokenizer->pretok), "gpt2");
    assert_false(tokenizer->ignore_merges);
    uint32_t end;
    assert_int_equal(tokenizer_end(tokenizer, NULL, &end), 0);
    assert_int_equal(end, 259);
    tokenizer_free(tokenizer);
}

/* Spellings that mean the same. */
static void test_tokenizer_files__json_variations_are_read(void **state)
{
    (void)state;
    Tokenizer *tokenizer = accept((Pieces){0});
    uint64_t hash = tokenizer->hash;
    tokenizer_free(tokenizer);
    accept_same((Pieces){.model = ""}, hash); /* old files have no type */
    accept_same((Pieces){.model = "\"type\": \"BPE\", \"dropout\": 0.0, \"unk_token\": \"<unk>\", "
                                  "\"continuing_subword_prefix\": \"\", \"end_of_word_suffix\": "
                                  "null, \"fuse_unk\": true, \"byte_fallback\": false, "
                                  "\"ignore_merges\": false, "},
                hash);
    accept_same((Pieces){.merges = "[\"a\", \"b\"], [\"\\u0120\", \"a\"], [\"\\u0120a\", \"b\"]"},
                hash);
    accept_same((Pieces){.merges = "\"\\u0120a b\", \"a b\", \"\\u0120 a\", \"\\u0120a b\""}, hash);
    accept_same((Pieces){.vocab = ", \"\\u0120ab\": 258, \"Ġa\": 257, \"\\u0061b\": 256"}, hash);
    accept_same((Pieces){.normalizer = "{\"type\": \"Sequence\", \"normalizers\": []}"}, hash);
    accept_same((Pieces){.decoder = "null"}, hash);
    accept_same((Pieces){.pre_tokenizer = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"},
                hash);
    accept_same((Pieces){.pre_tokenizer = SEQUENCE(BYTE_LEVEL("false", "true"))}, hash);
    accept_same((Pieces){.around = "\"truncation\": {\"max_length\": 5}, \"padding\": {}, "
                                   "\"post_processor\": {\"type\": \"TemplateProcessing\"}, "},
                hash);
    accept_same((Pieces){.added = SPECIAL("259", "") ", " SPECIAL("259", "<|endoftext|>")}, hash);
    /* An added token may be part of the vocabulary; its id there is the one that counts. */
    static const char *const in_vocab =
        ", \"ab\": 256, \"\\u0120a\": 257, \"\\u0120ab\": 258, \"<|endoftext|>\": 259";
    accept_same((Pieces){.vocab = in_vocab}, hash);
    accept_same((Pieces){.vocab = in_vocab, .added = SPECIAL("7", "<|endoftext|>")}, hash);
    /* One that is not gets the next id, whatever the file says. */
    accept_same((Pieces){.added = SPECIAL("300", "<|endoftext|>")}, hash);

    tokenizer = accept((Pieces){.model = "\"ignore_merges\": true, "});
    assert_true(tokenizer->ignore_merges);
    tokenizer_free(tokenizer);
}

static void test_tokenizer_files__patterns_are_read(void **state)
{
    (void)state;
    Tokenizer *tokenizer =
        accept((Pieces){.pre_tokenizer = SEQUENCE(
                            SPLIT(DIGITS, "Isolated", "false") ", " BYTE_LEVEL("false", "false"))});
    assert_string_equal(pretok_name(tokenizer->pretok), "regex");
    assert_string_equal(pretok_regex(tokenizer->pretok), "[0-9]+|[^0-9]\\S*");
    tokenizer_free(tokenizer);
    /* Not a name of pacer's, but these four characters. */
    tokenizer = accept(
        (Pieces){.pre_tokenizer = SEQUENCE(SPLIT("\"Regex\": \"gpt2\"", "Isolated",
                                                 "false") ", " BYTE_LEVEL("false", "false"))});
    assert_string_equal(pretok_name(tokenizer->pretok), "regex");
    tokenizer_free(tokenizer);
    /* What lies between matches is removed: with this pattern nothing does. */
    tokenizer =
        accept((Pieces){.pre_tokenizer = SEQUENCE(SPLIT(
                            CL100K_OLD, "Removed", "true") ", " BYTE_LEVEL("false", "false"))});
    assert_string_equal(pretok_name(tokenizer->pretok), PRETOK_LLAMA3);
    tokenizer_free(tokenizer);
}

static char *written(const Tokenizer *tokenizer)
{
    char *text, *folder = data_files_folder(), *path = io_join(folder, "tokenizer.json");
    size_t size;
    assert_int_equal(tokenizer_write_json(tokenizer, path), 0);
    assert_int_equal(io_read_all(path, 1 << 20, &text, &size), 0);
    free(path);
    data_files_remove(folder);
    return text;
}

/* In the spelling of the file, and what pacer does not apply too. */
static void test_tokenizer_files__what_is_read_is_written_again(void **state)
{
    (void)state;
    static const char *const regexes[] = {CL100K_OLD, CL100K_NEW("{1,3}"), CL100K_NEW("{1,3}+"),
                                          O200K, DIGITS};
    static const char around[] =
        "\"truncation\":{\"max_length\":5},\"padding\":{\"x\":[1,2.5,null]},"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":\"\xc3\xa9\"},";
    for (size_t i = 0; i < sizeof regexes / sizeof *regexes; i++) {
        char *split =
            mem_format(SEQUENCE(SPLIT("%s", "Isolated", "false") ", " BYTE_LEVEL("false", "false")),
                       regexes[i]);
        Tokenizer *tokenizer = accept((Pieces){.pre_tokenizer = split, .around = around});
        char *first = written(tokenizer);
        assert_non_null(strstr(first, regexes[i]));
        assert_non_null(strstr(first, "\"truncation\": {\"max_length\":5}"));
        assert_non_null(strstr(first, "\"padding\": {\"x\":[1,2.5,null]}"));
        assert_non_null(strstr(first, "\"single\":\"\xc3\xa9\""));
        Tokenizer *again;
        assert_int_equal(tokenizer_parse_json(first, strlen(first), "x", &again), 0);
        assert_int_equal(again->hash, tokenizer->hash);
        char *second = written(again);
        assert_string_equal(first, second);
        free(second);
        free(first);
        free(split);
        tokenizer_free(again);
        tokenizer_free(tokenizer);
    }
}

static void test_tokenizer_files__added_tokens_are_plain_text(void **state)
{
    (void)state;
    Tokenizer *tokenizer = accept((Pieces){
        .added = SPECIAL("256", "a b") ", " SPECIAL(
            "257", "\\u00e9\\u2603") ", "
                                     "{\"id\": 500, \"content\": \"  \", " FLAGS
                                     ", \"normalized\": true, \"special\": false}, " SPECIAL("258",
                                                                                             "ab"),
        .vocab = ", \"a b\": 256, \"é☃\": 257, \"ab\": 258, \"ĠĠ\": 300",
        .merges = "\"a b\", \"Ġ Ġ\""});
    assert_token(tokenizer, 256, "a b");
    assert_token(tokenizer, 257, "é☃");
    assert_token(tokenizer, 258, "ab");
    assert_token(tokenizer, 300, "  ");
    assert_token(tokenizer, 260, "  "); /* the number of entries, as Hugging Face counts */
    assert_int_equal(tokenizer->added_count, 4);
    const AddedToken *last = &tokenizer->added[3];
    assert_int_equal(last->id, 260);
    assert_true(last->normalized);
    assert_false(last->special);
    assert_int_equal(tokenizer->merges[0].result, 258);
    assert_int_equal(tokenizer->merges[1].result, 300);
    tokenizer_free(tokenizer);
}

static void test_tokenizer_files__unsupported_parts_are_named(void **state)
{
    (void)state;
    refuse((Pieces){.model = "\"type\": \"WordPiece\", "}, "model type WordPiece");
    refuse((Pieces){.model = "\"type\": \"Unigram\", "}, "model type Unigram");
    refuse((Pieces){.model = "\"type\": null, "}, "model type null");
    refuse((Pieces){.model = "\"dropout\": 0.1, "}, "dropout 0.1");
    refuse((Pieces){.model = "\"continuing_subword_prefix\": \"##\", "},
           "continuing_subword_prefix \"##\"");
    refuse((Pieces){.model = "\"end_of_word_suffix\": \"</w>\", "}, "end_of_word_suffix \"</w>\"");
    refuse((Pieces){.model = "\"byte_fallback\": 1, "}, "model: \"byte_fallback\"");
    refuse((Pieces){.model = "\"ignore_merges\": 1, "}, "ignore_merges");
    refuse((Pieces){.normalizer = "{\"type\": \"BertNormalizer\"}"}, "normalizer: BertNormalizer");
    refuse((Pieces){.normalizer = NORMALIZERS("{\"type\": \"NFC\"}, {\"type\": \"Nmt\"}")},
           "normalizer: normalizers[1]: Nmt");
    refuse((Pieces){.normalizer = "{}"}, "normalizer: without a type");
    refuse((Pieces){.normalizer = "5"}, "normalizer: without a type");
    refuse((Pieces){.normalizer = "{\"type\": \"Prepend\"}"}, "Prepend: \"prepend\"");
    refuse((Pieces){.normalizer = "{\"type\": \"Replace\", \"content\": \"\"}"}, "\"String\"");
    refuse((Pieces){.normalizer = REPLACE("\"String\": \"\"", "x")}, "\"String\"");
    refuse((Pieces){.normalizer = REPLACE("\"Regex\": \" +\"", "x")}, "Replace: a pattern that is");
    refuse((Pieces){.normalizer = "{\"type\": \"Sequence\"}"}, "Sequence: has no list");
    refuse((Pieces){.decoder = "{\"type\": \"Metaspace\"}"}, "decoder: Metaspace");
    refuse((Pieces){.decoder = "{\"type\": \"WordPiece\"}"}, "decoder: WordPiece");
    refuse((Pieces){.pre_tokenizer = "null"}, "decoder: ByteLevel");
    refuse((Pieces){.pre_tokenizer = "{\"type\": \"Whitespace\"}"}, "pre_tokenizer: Whitespace");
    refuse((Pieces){.pre_tokenizer = "{\"type\": \"ByteLevel\"}"}, "\"add_prefix_space\"");
    refuse((Pieces){.pre_tokenizer = BYTE_LEVEL("1", "true")}, "\"add_prefix_space\"");
    refuse((Pieces){.pre_tokenizer = BYTE_LEVEL("false", "null")}, "\"use_regex\"");
    refuse((Pieces){.pre_tokenizer = SEQUENCE("{\"type\": \"Digits\", \"individual_digits\": 1}")},
           "pretokenizers[0]: Digits: \"individual_digits\"");
    refuse((Pieces){.pre_tokenizer =
                        SEQUENCE(BYTE_LEVEL("false", "true") ", " BYTE_LEVEL("false", "true"))},
           "pretokenizers[1]: ByteLevel: is there twice");
    refuse((Pieces){.pre_tokenizer =
                        "{\"type\": \"Metaspace\", \"replacement\": \"ab\", \"split\": true}"},
           "\"replacement\" must be one character");
    refuse((Pieces){.pre_tokenizer =
                        SEQUENCE(BYTE_LEVEL("false", "false") ", {\"type\": \"Metaspace\", "
                                                              "\"replacement\": \"_\"}")},
           "Metaspace: is not supported behind ByteLevel");
    refuse((Pieces){.pre_tokenizer = "{\"type\": \"Metaspace\", \"replacement\": \"_\", "
                                     "\"prepend_scheme\": \"last\"}"},
           "prepend_scheme last");
#define REFUSE_SPLIT(split, says) \
    refuse((Pieces){.pre_tokenizer = SEQUENCE(split ", " BYTE_LEVEL("false", "false"))}, says)
    REFUSE_SPLIT(SPLIT("\"String\": \"\"", "Isolated", "false"), "Split: pattern");
    REFUSE_SPLIT(SPLIT("\"Regex\": 5", "Isolated", "false"), "Split: pattern");
    REFUSE_SPLIT(SPLIT("\"Regex\": \"(\"", "Isolated", "false"), "does not compile");
    REFUSE_SPLIT(SPLIT(DIGITS, "Removed", "true"), "behavior Removed");
    REFUSE_SPLIT(SPLIT(DIGITS, "Sideways", "false"), "behavior Sideways");
    REFUSE_SPLIT(SPLIT(DIGITS, "Isolated", "7"), "\"invert\"");
    char deep[400] = "null";
    for (int i = 0; i < 10; i++) {
        char *deeper = mem_format("{\"type\": \"Sequence\", \"normalizers\": [%s]}", deep);
        snprintf(deep, sizeof deep, "%s", deeper);
        free(deeper);
    }
    refuse((Pieces){.normalizer = deep}, "too many of them within each other");
}

static void test_tokenizer_files__wrong_content_is_named(void **state)
{
    (void)state;
    refuse((Pieces){.vocab = ", \"ab\": 255"}, "vocab: tokens \"\\xff\" and \"ab\"");
    refuse((Pieces){.vocab = ", \"ab\": 256, \"ab\": 257"}, "\"ab\" is there twice");
    refuse((Pieces){.vocab = ", \"<|endoftext|>\": 256, \"<|endoftext|>\": 257"},
           "\"<|endoftext|>\" is there twice");
    refuse((Pieces){.vocab = ", \"ab\": -1"}, "the id of \"ab\"");
    refuse((Pieces){.vocab = ", \"ab\": 256.5"}, "the id of \"ab\"");
    refuse((Pieces){.vocab = ", \"ab\": 1e300"}, "the id of \"ab\"");
    refuse((Pieces){.vocab = ", \"ab\": \"256\""}, "the id of \"ab\"");
    refuse((Pieces){.vocab = ", \"ab\": 10000000"}, "ids go up to 9999999");
    refuse((Pieces){.vocab = ", \"\": 256"}, "is empty");
    refuse((Pieces){.vocab = ", \"a b\": 256"}, "\"a b\" is neither in the byte alphabet");
    refuse((Pieces){.vocab = ", \"日本\": 256"}, "\"日本\" is neither");
    refuse((Pieces){.vocab = ", \"a\xff\": 256"}, "\"a\\xff\" is neither");
    refuse((Pieces){.merges = "\"a b\", \"x y\"", .vocab = ", \"ab\": 256"},
           "merges[1]: the merge of \"x\" and \"y\"");
    refuse((Pieces){.merges = "\"ab\""}, "merges[0]: \"ab\" is not two tokens");
    refuse((Pieces){.merges = "\"a b c\""}, "merges[0]");
    refuse((Pieces){.merges = "\"a \""}, "merges[0]");
    refuse((Pieces){.merges = "\" b\""}, "merges[0]");
    refuse((Pieces){.merges = "\"a qq\""}, "\"qq\" is not in the vocabulary");
    refuse((Pieces){.merges = "[\"a\"]"}, "merges[0]: neither");
    refuse((Pieces){.merges = "[\"a\", \"b\", \"c\"]"}, "merges[0]: neither");
    refuse((Pieces){.merges = "[\"a\", 5]"}, "merges[0]: neither");
    refuse((Pieces){.merges = "7"}, "merges[0]: neither");
    refuse((Pieces){.added = "5"}, "added_tokens[0]: \"content\"");
    refuse((Pieces){.added = "{\"content\": \"x\"}"}, "added_tokens[0]: \"x\": \"id\"");
    refuse((Pieces){.added = "{\"id\": 259, \"content\": \"\xff\"}"}, "\"content\"");
    refuse((Pieces){.added = "{\"id\": 259, \"content\": \"x\", \"special\": null}"},
           "\"special\" must be true or false");
    refuse((Pieces){.added = SPECIAL("259", "<s>") ", " SPECIAL("260", "<s>")},
           "\"<s>\" is there twice");
    /* "é" is how the alphabet writes byte 0xe9, so this one name would be two tokens. */
    refuse((Pieces){.added = SPECIAL("233", "é")}, "byte 0xe9");
    /* The vocabulary has a hole, and Hugging Face would give one id to two tokens. */
    refuse((Pieces){.vocab = ", \"ab\": 257", .merges = ""}, "the same id, 257");

    static const char *const no_bytes =
        "{\"pre_tokenizer\": " BYTE_LEVEL("false", "true") ", \"model\": {\"vocab\": {}, "
                                                           "\"merges\": []}}";
    refuse_text(no_bytes, strlen(no_bytes), "byte 0x00");
    refuse_text("{}", 2, "no \"model\"");
    refuse_text("[]", 2, "no \"model\"");
    refuse_text("{\"model\": {}}", 13, "\"vocab\"");
    refuse_text("", 0, "not valid JSON");
    refuse_text("{\n\n{", 4, "some.json:3: not valid JSON");
    refuse_text("{}x", 3, "not valid JSON");
    refuse_text("{\"a\": \"\\u0000\"}", 15, "U+0000");
    refuse_text("{\"\0\": 1}", 8, "U+0000");
    /* A backslash and then the five characters u0000 is no escape. */
    refuse_text("{\"a\": \"\\\\u0000\"}", 16, "no \"model\"");
}

/* Whatever is read can be written; reading that gives the same tokenizer. */
static void test_tokenizer_files__what_is_written_reads_the_same(void **state)
{
    (void)state;
    static const Pieces all[] = {
        {0},
        {.model = "\"ignore_merges\": true, ", .added = ""},
        {.pre_tokenizer =
             SEQUENCE(SPLIT(DIGITS, "Isolated", "false") ", " BYTE_LEVEL("false", "false"))},
        {.vocab = ", \"ab\": 900, \"Ġa\": 1001, \"Ġab\": 700, \"\\\"\\\\\": 701, "
                  "\"<|endoftext|>\": 5000"},
        {.added = SPECIAL("259", "<s>") ", " SPECIAL("260", "a \\\"\\\\\\n\\u0001 ☃")},
        {.added = SPECIAL("257", "Ġa☃") ", " SPECIAL("258", "\\t"),
         .vocab = ", \"ab\": 256, \"Ġa☃\": 257, \"\\t\": 258",
         .merges = "\"a b\""},
        {.added = SPECIAL("900", "a b"), .vocab = ", \"a b\": 900", .merges = ""},
        {.vocab = "", .merges = "", .added = SPECIAL("256", "<|endoftext|>")}, /* "bytes" */
    };
    char *folder = data_files_folder(), *path = io_join(folder, "tokenizer.json");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Tokenizer *tokenizer = accept(all[i]), *again = NULL;
        assert_int_equal(tokenizer_write_json(tokenizer, path), 0);
        if (tokenizer_open(i % 2 == 0 ? path : folder, &again) != 0) {
            fail_msg("%zu: %s", i, err_message());
        }
        assert_true(tokenizer->hash == again->hash);
        if (i + 1 == sizeof all / sizeof *all) {
            assert_true(tokenizer->hash == io_hash("bytes", 5));
        }
        tokenizer_free(tokenizer);
        tokenizer_free(again);
    }
    Tokenizer *bytes;
    assert_int_equal(tokenizer_open("bytes", &bytes), 0);
    char *nowhere = io_join(folder, "none/tokenizer.json");
    assert_int_equal(tokenizer_write_json(bytes, nowhere), ERR_INPUT);
    assert_says(nowhere);
    tokenizer_free(bytes);
    free(nowhere);
    free(path);
    data_files_remove(folder);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char *path = io_join(folder, name);
    data_files_write(path, text, strlen(text));
    free(path);
}

static int open_in(const char *folder, const char *name, Tokenizer **out)
{
    char *path = io_join(folder, name);
    int code = tokenizer_open(path, out);
    free(path);
    return code;
}

static void test_tokenizer_files__gpt2s_files_are_read(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *bytes = byte_entries();
    char *vocab = mem_format("{%s, \"ab\": 256, \"\\u0120a\": 257, \"\\u0120ab\": 258, "
                             "\"<|endoftext|>\": 259}",
                             bytes);
    Tokenizer *json = accept((Pieces){0}), *tokenizer;
    assert_int_equal(tokenizer_open(folder, &tokenizer), ERR_INPUT);
    assert_says("neither tokenizer.json nor vocab.json with merges.txt");
    write_file(folder, "vocab.json", vocab);
    assert_int_equal(tokenizer_open(folder, &tokenizer), ERR_INPUT);
    assert_int_equal(open_in(folder, "vocab.json", &tokenizer), ERR_INPUT);
    assert_says("merges.txt is not there");
    write_file(folder, "merges.txt", "\xef\xbb\xbf#version: 0.2\r\na b\r\nĠ a\r\n\nĠa b");
    write_file(folder, "encoder.json", vocab);
    write_file(folder, "small-vocab.json", vocab);
    write_file(folder, "small-merges.txt", "a b\nĠ a\nĠa b\n");
    static const char *const names[] = {
        "", "vocab.json", "merges.txt", "encoder.json", "small-vocab.json", "small-merges.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (open_in(folder, names[i], &tokenizer) != 0) {
            fail_msg("%s", err_message());
        }
        assert_true(tokenizer->hash == json->hash);
        tokenizer_free(tokenizer);
    }
    write_file(folder, "small-merges.txt", "a b\n\nx y\n");
    assert_int_equal(open_in(folder, "small-vocab.json", &tokenizer), ERR_INPUT);
    assert_says("small-merges.txt:3: the merge of \"x\" and \"y\"");
    write_file(folder, "small-merges.txt", "a b\na b c\n");
    assert_int_equal(open_in(folder, "small-vocab.json", &tokenizer), ERR_INPUT);
    assert_says("small-merges.txt:2:");
    write_file(folder, "vocab.json", "[1]");
    assert_int_equal(tokenizer_open(folder, &tokenizer), ERR_INPUT);
    assert_says("vocab.json: must be an object");
    write_file(folder, "vocab.json", "{\"a\": 1, \"日\": 2}");
    assert_int_equal(tokenizer_open(folder, &tokenizer), ERR_INPUT);
    assert_says("vocab.json: vocab: \"日\" is neither");
    write_file(folder, "vocab.json", "{\"a\": 1");
    assert_int_equal(tokenizer_open(folder, &tokenizer), ERR_INPUT);
    assert_says("vocab.json:1: not valid JSON");
    write_file(folder, "tokenizer.json", "{}"); /* comes first */
    assert_int_equal(tokenizer_open(folder, &tokenizer), ERR_INPUT);
    assert_says("tokenizer.json: no \"model\"");
    assert_int_equal(open_in(folder, "other.json", &tokenizer), ERR_INPUT);
    assert_says("no such file or folder");
    tokenizer_free(json);
    free(vocab);
    free(bytes);
    data_files_remove(folder);
}

/* Cut off at every byte, and changed at random: an error or a tokenizer, never a crash. */
static void test_tokenizer_files__damaged_files_do_no_harm(void **state)
{
    (void)state;
    char *whole = document((Pieces){.added = SPECIAL("259", "a b") ", " SPECIAL("300", "\\u2603")});
    size_t size = strlen(whole);
    for (size_t cut = 0; cut < size; cut++) {
        char *part =
            mem_alloc(cut > 0 ? cut : 1); /* exactly sized, so that sanitizers see its end */
        memcpy(part, whole, cut);
        Tokenizer *tokenizer;
        assert_int_equal(tokenizer_parse_json(part, cut, "cut.json", &tokenizer), ERR_INPUT);
        free(part);
    }
    for (uint64_t round = 0; round < MUTATIONS; round++) {
        uint8_t *bytes = mem_alloc(size + 256);
        memcpy(bytes, whole, size);
        size_t changed = data_files_mutate(bytes, size, size + 256, round);
        Tokenizer *tokenizer;
        if (tokenizer_parse_json((const char *)bytes, changed, "odd.json", &tokenizer) == 0) {
            tokenizer_free(tokenizer);
        } else {
            assert_says("odd.json");
        }
        free(bytes);
    }
    free(whole);
}

int main(void)
{
    log_setup(LOG_ERROR, 0, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_files__json_is_read),
        cmocka_unit_test(test_tokenizer_files__json_variations_are_read),
        cmocka_unit_test(test_tokenizer_files__patterns_are_read),
        cmocka_unit_test(test_tokenizer_files__what_is_read_is_written_again),
        cmocka_unit_test(test_tokenizer_files__added_tokens_are_plain_text),
        cmocka_unit_test(test_tokenizer_files__unsupported_parts_are_named),
        cmocka_unit_test(test_tokenizer_files__wrong_content_is_named),
        cmocka_unit_test(test_tokenizer_files__what_is_written_reads_the_same),
        cmocka_unit_test(test_tokenizer_files__gpt2s_files_are_read),
        cmocka_unit_test(test_tokenizer_files__damaged_files_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
