/* The safetensors reader on bad files: one planted fault per rule, and a mutation fuzz whose
 * buffers end exactly where the file does, so that the address sanitizer sees any read beyond
 * it. */
#include "tensor/safetensors.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/safetensors_bytes.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Opens header + data_size zero bytes; it must be refused with every part of `words` (split at
 * '|') in the message. */
static void expect_refused(const char *header, size_t data_size, const char *words)
{
    size_t size;
    uint8_t *zeros = mem_zalloc(data_size, 1);
    uint8_t *bytes = assemble(header, zeros, data_size, &size);
    SafeFile file;
    int code = safetensors_open_bytes("some.safetensors", bytes, size, &file);
    if (code != ERR_INPUT) {
        fail_msg("accepted (%d): %s", code, header);
    }
    assert_null(file.path);
    char *parts = mem_format("some.safetensors|%s", words);
    char *rest = NULL;
    for (char *word = strtok_r(parts, "|", &rest); word != NULL;
         word = strtok_r(NULL, "|", &rest)) {
        assert_says(word);
    }
    free(parts);
    free(bytes);
    free(zeros);
}

static void expect_accepted(const char *header, size_t data_size)
{
    size_t size;
    uint8_t *zeros = mem_zalloc(data_size, 1);
    uint8_t *bytes = assemble(header, zeros, data_size, &size);
    SafeFile file;
    if (safetensors_open_bytes("some.safetensors", bytes, size, &file) != 0) {
        fail_msg("refused: %s", err_message());
    }
    safetensors_close(&file);
    free(bytes);
    free(zeros);
}

static void test_safetensors_bad__refuses_bad_headers(void **state)
{
    (void)state;
    expect_accepted("{}", 0);
    expect_accepted("{} \n\t ", 0);
    expect_refused("", 0, "begin");
    expect_refused("[]", 0, "begin");
    expect_refused(" {}", 0, "begin");
    expect_refused("\xef\xbb\xbf{}", 0, "begin");
    expect_refused("{", 0, "JSON");
    expect_refused("{\"a\":}", 0, "JSON");
    expect_refused("{} x", 0, "after its JSON");
    expect_refused("{}{}", 0, "after its JSON");
    expect_refused("{}", 1, "1 bytes|belong to none");
    expect_refused("{\"\xff\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
                   "UTF-8");
    expect_refused("{\"\xc0\x80\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
                   "UTF-8");
    expect_refused("{\"\xed\xa0\x80\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
                   "UTF-8");
    expect_refused("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
                   "NUL");
    expect_accepted("{\"a\\\\u0000b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                    0);
    expect_refused("{\"__metadata__\":[]}", 0, "__metadata__");
    expect_refused("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__|a");
    expect_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "more than one");

    /* The length itself: beyond the file, beyond the limit, wrapped around. */
    uint8_t bytes[16] = {9, 0, 0, 0, 0, 0, 0, 0, '{', '}', ' ', ' ', ' ', ' ', ' ', ' '};
    SafeFile file;
    assert_int_equal(safetensors_open_bytes("f", bytes, 16, &file), ERR_INPUT);
    assert_non_null(strstr(err_message(), "cut short"));
    bytes[0] = 8;
    assert_int_equal(safetensors_open_bytes("f", bytes, 16, &file), 0);
    safetensors_close(&file);
    memset(bytes, 0xff, 8);
    assert_int_equal(safetensors_open_bytes("f", bytes, 16, &file), ERR_INPUT);
    assert_non_null(strstr(err_message(), "limit"));
    for (size_t size = 0; size < 8; size++) {
        assert_int_equal(safetensors_open_bytes("f", bytes, size, &file), ERR_INPUT);
    }
}

static void test_safetensors_bad__refuses_bad_tensors(void **state)
{
    (void)state;
#define ENTRY(dtype, shape, offsets) \
    "{\"t1\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    expect_accepted(ENTRY("\"F32\"", "[2,3]", "[0,24]"), 24);
    expect_accepted(ENTRY("\"F32\"", "[2,3]", "[0,24],\"more\":[[]]"), 24);
    expect_refused("{\"t1\":[]}", 0, "t1|object");
    expect_refused("{\"t1\":{}}", 0, "t1|dtype");
    expect_refused(ENTRY("1", "[2,3]", "[0,24]"), 24, "t1|dtype");
    expect_refused(ENTRY("\"F33\"", "[2,3]", "[0,24]"), 24, "t1|dtype|F33");
    expect_refused(ENTRY("\"f32\"", "[2,3]", "[0,24]"), 24, "t1|dtype");
    expect_refused(ENTRY("\"F32\",\"dtype\":\"F32\"", "[2,3]", "[0,24]"), 24, "t1|dtype");
    expect_refused(ENTRY("\"F32\"", "6", "[0,24]"), 24, "t1|shape");
    expect_refused(ENTRY("\"F32\"", "[-2,-3]", "[0,24]"), 24, "t1|dimension 0");
    expect_refused(ENTRY("\"F32\"", "[2,1.5]", "[0,12]"), 12, "t1|dimension 1");
    expect_refused(ENTRY("\"F32\"", "[2,\"3\"]", "[0,24]"), 24, "t1|dimension 1");
    expect_refused(ENTRY("\"F32\"", "[null]", "[0,24]"), 24, "t1|dimension 0");
    expect_refused(ENTRY("\"F32\"", "[9007199254740992]", "[0,24]"), 24, "t1|dimension 0");
    expect_refused(ENTRY("\"F32\"", "[1e400]", "[0,24]"), 24, "t1|dimension 0");
    expect_refused(ENTRY("\"F32\"", "[1,1,2,3,1]", "[0,24]"), 24, "t1|more than 4");
    expect_refused(ENTRY("\"F32\"", "[2,2]", "[0,24]"), 24, "t1|shape and dtype|24");
    expect_refused(ENTRY("\"BF16\"", "[2,3]", "[0,24]"), 24, "t1|shape and dtype");
    /* 2^32 x 2^32 x 4 bytes is 0 modulo 2^64. */
    expect_refused(ENTRY("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0, "t1|shape and dtype");
    expect_refused(ENTRY("\"F32\"", "[2,3]", "[0,24,24]"), 24, "t1|data_offsets");
    expect_refused(ENTRY("\"F32\"", "[2,3]", "[24]"), 24, "t1|data_offsets");
    expect_refused(ENTRY("\"F32\"", "[2,3]", "[]"), 24, "t1|data_offsets");
    expect_refused(ENTRY("\"F32\"", "[2,3]", "[0.5,24.5]"), 24, "t1|data_offsets");
    expect_refused(ENTRY("\"F32\"", "[2,3]", "[-24,0]"), 24, "t1|data_offsets");
    expect_refused(ENTRY("\"F32\"", "[2,3]", "[24,0]"), 24, "t1|24 to 0");
    expect_refused(ENTRY("\"F32\"", "[2,3]", "[0,24]"), 23, "t1|23 bytes|cut short");
    expect_refused(ENTRY("\"F32\"", "[2,3]", "[0,24]"), 25, "1 bytes|belong to none");
    expect_refused(ENTRY("\"F32\"", "[2,3]", "[1,25]"), 25, "t1|hole");
#undef ENTRY
}

static void test_safetensors_bad__refuses_overlaps_holes_and_repeats(void **state)
{
    (void)state;
#define PAIR(first, a, second, b)                                              \
    "{\"" first "\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":" a "}," \
    "\"" second "\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":" b "}}"
    expect_accepted(PAIR("x", "[0,8]", "y", "[8,16]"), 16);
    expect_accepted(PAIR("x", "[8,16]", "y", "[0,8]"), 16);
    expect_refused(PAIR("x", "[0,8]", "y", "[4,12]"), 12, "y|overlaps");
    expect_refused(PAIR("x", "[4,12]", "y", "[0,8]"), 12, "x|overlaps");
    expect_refused(PAIR("x", "[0,8]", "y", "[0,8]"), 8, "overlaps");
    expect_refused(PAIR("x", "[0,8]", "y", "[12,20]"), 20, "y|hole");
    expect_refused(PAIR("x", "[0,8]", "x", "[8,16]"), 16, "x|twice");
#undef PAIR
}

static void test_safetensors_bad__survives_nesting_and_long_numbers(void **state)
{
    (void)state;
    size_t depth = 200000;
    char *bomb = mem_alloc(depth + 8);
    memcpy(bomb, "{\"a\":", 5);
    memset(bomb + 5, '[', depth);
    bomb[5 + depth] = '\0';
    expect_refused(bomb, 0, "JSON");
    free(bomb);
    char digits[400];
    memset(digits, '9', sizeof digits);
    digits[399] = '\0';
    char *header =
        mem_format("{\"t1\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[0,4]}}", digits);
    expect_refused(header, 4, "some");
    free(header);
}

/* --- fuzz --- */

typedef struct {
    uint64_t stream, index;
} Dice;

static uint64_t roll(Dice *dice, uint64_t n)
{
    return rng_below(20260131, dice->stream, dice->index++, n);
}

#define FUZZ_ROOM 2048

/* Replaces `cut` bytes at `at` by these. */
static void splice(uint8_t *bytes, size_t *size, size_t at, size_t cut, const void *with, size_t n)
{
    if (*size - cut + n > FUZZ_ROOM) {
        return;
    }
    memmove(bytes + at + n, bytes + at + cut, *size - at - cut);
    memcpy(bytes + at, with, n);
    *size += n - cut;
}

static void mutate(uint8_t *bytes, size_t *size, Dice *dice)
{
    static const char *const snippets[] = {
        "0",
        "1",
        "-1",
        "4",
        "8",
        "24",
        "1e9",
        "0.5",
        "9007199254740993",
        "18446744073709551615",
        "1e999",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "\"",
        "\\",
        "\\u0000",
        "\\ud800",
        "null",
        "true",
        "[]",
        "{}",
        " ",
        "\"F32\"",
        "\"BF16\"",
        "\"U8\"",
        "\"dtype\":\"F32\",",
        "\"shape\":[],",
        "\"data_offsets\":[0,0],",
        "\"__metadata__\":{},",
        "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},",
        "\xc3\xa9",
        "\xff",
        "[[[[[[[["};
    size_t at = (size_t)roll(dice, *size);
    uint8_t byte = (uint8_t)roll(dice, 256);
    switch (roll(dice, 7)) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << roll(dice, 8));
        break;
    case 1:
        bytes[at] = byte;
        break;
    case 2: { /* a piece of JSON over or between what is there */
        const char *text = snippets[roll(dice, sizeof snippets / sizeof *snippets)];
        size_t cut = (size_t)roll(dice, 4);
        splice(bytes, size, at, cut < *size - at ? cut : *size - at, text, strlen(text));
        break;
    }
    case 3: { /* a piece of the file again */
        size_t from = (size_t)roll(dice, *size), n = (size_t)roll(dice, 64);
        uint8_t copy[64];
        n = n < *size - from ? n : *size - from;
        memcpy(copy, bytes + from, n);
        splice(bytes, size, at, 0, copy, n);
        break;
    }
    case 4: { /* a piece less */
        size_t n = (size_t)roll(dice, 16);
        splice(bytes, size, at, n < *size - at ? n : *size - at, "", 0);
        break;
    }
    case 5: /* another digit */
        while (at < *size && !(bytes[at] >= '0' && bytes[at] <= '9')) {
            at++;
        }
        if (at < *size) {
            bytes[at] = (uint8_t)('0' + roll(dice, 10));
        }
        break;
    default: /* cut short */
        if (roll(dice, 8) == 0) {
            *size = at + 1;
        } else {
            bytes[roll(dice, *size < 8 ? *size : 8)] = byte;
        }
    }
}

/* Makes the length match the header again: everything up to the last '}' of the file. */
static void mend_length(uint8_t *bytes, size_t size)
{
    for (size_t i = size; i > 8; i--) {
        if (bytes[i - 1] == '}') {
            uint64_t length = i - 8;
            memcpy(bytes, &length, 8);
            return;
        }
    }
}

static void check_accepted(const SafeFile *file, const uint8_t *bytes, size_t size)
{
    uint64_t length;
    memcpy(&length, bytes, 8);
    const uint8_t *data = bytes + 8 + length;
    size_t total = 0;
    unsigned sum = 0;
    for (int i = 0; i < file->count; i++) {
        const SafeTensor *tensor = &file->tensors[i];
        assert_true(tensor->data >= data && tensor->data <= bytes + size);
        assert_true(tensor->bytes <= (size_t)(bytes + size - tensor->data));
        assert_in_range(tensor->rank, 0, TENSOR_MAX_RANK);
        size_t expected = 1;
        for (int d = 0; d < tensor->rank; d++) {
            assert_true(tensor->dim[d] >= 0);
            expected *= (size_t)tensor->dim[d];
        }
        if (tensor->supported) {
            assert_true(tensor->bytes == expected * dtype_size(tensor->dtype));
        }
        for (size_t b = 0; b < tensor->bytes; b++) {
            sum += tensor->data[b]; /* the address sanitizer watches */
        }
        assert_ptr_equal(safetensors_find(file, tensor->name), tensor);
        total += tensor->bytes;
    }
    assert_true(total == (size_t)(bytes + size - data));
    assert_true(sum <= 255u * size);
}

static void test_safetensors_bad__fuzzed_files_never_escape(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "{\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\\\"\"},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b.c\":{\"dtype\":\"BF16\",\"shape\":[1,2,1,2],\"data_offsets\":[24,32]}}",
        "{\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[24,32]},"
        "\"\xc3\xa9\":{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24]},"
        "\"z\":{\"dtype\":\"I32\",\"shape\":[0,4],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"I32\",\"shape\":[8],\"data_offsets\":[0,32]}}       ",
    };
    const int rounds = 24000;
    uint8_t payload[32];
    for (int i = 0; i < 32; i++) {
        payload[i] = (uint8_t)(i * 37);
    }
    int accepted = 0, refused = 0;
    for (int round = 0; round < rounds; round++) {
        Dice dice = {(uint64_t)round, 0};
        size_t size;
        uint8_t *seed = assemble(seeds[round % 3], payload, sizeof payload, &size);
        uint8_t room[FUZZ_ROOM];
        memcpy(room, seed, size);
        free(seed);
        uint64_t changes = 1 + roll(&dice, 4);
        for (uint64_t i = 0; i < changes; i++) {
            mutate(room, &size, &dice);
        }
        if (size > 8 && roll(&dice, 3) != 0) {
            mend_length(room, size);
        }
        uint8_t *bytes = malloc(size);
        memcpy(bytes, room, size);
        SafeFile file;
        int code = safetensors_open_bytes("fuzz", bytes, size, &file);
        if (code == 0) {
            accepted++;
            check_accepted(&file, bytes, size);
            safetensors_close(&file);
        } else {
            refused++;
            assert_int_equal(code, ERR_INPUT);
            assert_non_null(strstr(err_message(), "fuzz: "));
        }
        free(bytes);
    }
    /* The fuzz is only worth its time if mutants reach both sides. */
    assert_true(accepted > rounds / 20);
    assert_true(refused > rounds / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors_bad__refuses_bad_headers),
        cmocka_unit_test(test_safetensors_bad__refuses_bad_tensors),
        cmocka_unit_test(test_safetensors_bad__refuses_overlaps_holes_and_repeats),
        cmocka_unit_test(test_safetensors_bad__survives_nesting_and_long_numbers),
        cmocka_unit_test(test_safetensors_bad__fuzzed_files_never_escape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
