#include "data/shard.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FUZZ_ROUNDS 4000

static void check_round_trip(uint64_t first, uint64_t count, uint64_t vocab, int token_bytes)
{
    char *folder = data_files_folder();
    char *path = data_files_shard(folder, "train-00000", first, count, vocab);
    Shard shard;
    assert_int_equal(shard_open(&shard, path, false), 0);
    assert_int_equal(shard.format, SHARD_PACER);
    assert_int_equal(shard.tokens, count);
    assert_int_equal(shard.token_bytes, token_bytes);
    assert_int_equal(shard.vocab, vocab);
    assert_int_equal(shard.documents, 1);
    assert_int_equal(shard.text_bytes, count);
    assert_int_equal(shard.tokenizer, 7);
    assert_false(shard.scanned);
    assert_int_equal(shard_scan(&shard), 0);
    assert_int_equal(shard.largest, first + count - 1);
    assert_int_equal(io_file_size(shard.file), 256 + count * (uint64_t)token_bytes);
    int32_t *tokens = mem_alloc(count * sizeof *tokens);
    assert_int_equal(shard_read(&shard, 0, count, tokens), first + count - 1);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(tokens[i], first + i);
    }
    assert_int_equal(shard_find_at_least(&shard, first + count / 2), count / 2);
    assert_int_equal(shard_find_at_least(&shard, first + count), count);
    free(tokens);
    shard_close(&shard);
    free(path);
    data_files_remove(folder);
}

static void test_shard__round_trips_u16_and_u32(void **state)
{
    (void)state;
    check_round_trip(0, 1, 1, 2);
    check_round_trip(0, 65536, 65536, 2);
    check_round_trip(0, 5000, 65537, 4);
    check_round_trip(70000, 9001, 100000, 4);
    check_round_trip(INT32_MAX - 10, 10, INT32_MAX, 4);
    check_round_trip(0, 600000, 700000, 4); /* more than one chunk of scanning and writing */
}

static void test_shard__header_bytes_are_as_documented(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    char *path = data_files_shard(folder, "train-00000", 0x0102, 3, 0x10000);
    size_t size;
    uint8_t *bytes = data_files_read(path, &size);
    const uint8_t front[] = {'P', 'A', 'C', 'E', 'R', 'S', 'H', 'D', 1, 0, 0, 0, 2, 0, 0, 0,
                             3,   0,   0,   0,   0,   0,   0,   0,   0, 0, 1, 0, 0, 0, 0, 0};
    assert_memory_equal(bytes, front, sizeof front);
    const uint8_t payload[] = {0x02, 1, 0x03, 1, 0x04, 1};
    assert_int_equal(size, 256 + sizeof payload);
    assert_memory_equal(bytes + 256, payload, sizeof payload);
    uint64_t payload_hash = io_hash(payload, sizeof payload), header_hash = io_hash(bytes, 248);
    assert_memory_equal(bytes + 56, &payload_hash, 8);
    assert_memory_equal(bytes + 248, &header_hash, 8);
    for (int i = 64; i < 248; i++) {
        assert_int_equal(bytes[i], 0);
    }
    char name[64];
    snprintf(name, sizeof name, "train-00000-%016llx.shard", (unsigned long long)payload_hash);
    assert_string_equal(strrchr(path, '/') + 1, name);
    free(bytes);
    free(path);
    data_files_remove(folder);
}

/* A file of the folder, which it removes. */
static void check_flipped_bytes(char *folder, char *path)
{
    char *bad = io_join(folder, "bad.shard");
    size_t size;
    uint8_t *bytes = data_files_read(path, &size);
    for (size_t at = 0; at < size; at++) {
        for (int flip = 1; flip < 256; flip *= 5) { /* 1, 5, 25, 125 */
            bytes[at] ^= (uint8_t)flip;
            data_files_write(bad, bytes, size);
            bytes[at] ^= (uint8_t)flip;
            Shard shard;
            int code = shard_open(&shard, bad, false);
            if (code == 0) {
                assert_true(at >= 256);
                code = shard_scan(&shard);
                assert_says("changed or damaged");
                shard_close(&shard);
            }
            if (code != ERR_INPUT) {
                fail_msg("byte %zu changed by %d: code %d", at, flip, code);
            }
            assert_says("bad.shard");
        }
    }
    free(bytes);
    free(path);
    free(bad);
    data_files_remove(folder);
}

static void test_shard__every_flipped_byte_is_found(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    check_flipped_bytes(folder, data_files_shard(folder, "train-00000", 5, 40, 1000));
    folder = data_files_folder();
    check_flipped_bytes(folder, data_files_masked(folder, "train-00000", 5, 43, 1000));
}

/* Any stretch of a mask, across its bytes and the chunks that are read, and its bits in the
 * file. */
static void test_shard__keeps_which_tokens_count(void **state)
{
    (void)state;
    const uint64_t counts[] = {1, 9, 64, 70003};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        uint64_t count = counts[k], left_out = 0;
        char *folder = data_files_folder();
        char *path = data_files_masked(folder, "train-00000", 0, count, 100000);
        Shard shard;
        assert_int_equal(shard_open(&shard, path, false), 0);
        assert_int_equal(shard_scan(&shard), 0);
        int32_t *tokens = mem_alloc(count * sizeof *tokens);
        for (uint64_t first = 0; first < count; first += 1 + first / 3) {
            for (uint64_t last = first; last <= count; last += 1 + (count - first) / 5) {
                shard_read(&shard, first, last - first, tokens);
                shard_mask(&shard, first, last - first, tokens);
                for (uint64_t i = first; i < last; i++) {
                    assert_int_equal(tokens[i - first], data_files_counts(i) ? (int32_t)i : -1);
                }
            }
        }
        size_t size;
        uint8_t *bytes = data_files_read(path, &size);
        uint64_t at = 256 + count * 4;
        assert_int_equal(size, at + (count + 7) / 8);
        for (uint64_t i = 0; i < count; i++) {
            left_out += !data_files_counts(i);
            assert_int_equal(bytes[at + i / 8] >> (i % 8) & 1, !data_files_counts(i));
        }
        assert_int_equal(bytes[8], 2);
        assert_int_equal(shard.left_out, left_out);
        assert_memory_equal(bytes + 64, &left_out, 8);
        free(bytes);
        free(tokens);
        shard_close(&shard);
        free(path);
        data_files_remove(folder);
    }
}

static void test_shard__every_truncation_is_found(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *bad = io_join(folder, "bad.shard");
    char *path = data_files_shard(folder, "train-00000", 0, 20, 70000);
    size_t size;
    uint8_t *bytes = data_files_read(path, &size);
    for (size_t cut = 0; cut < size; cut++) {
        data_files_write(bad, bytes, cut);
        Shard shard;
        assert_int_equal(shard_open(&shard, bad, false), ERR_INPUT);
        assert_says(cut >= 8 ? "truncated" : "bad.shard");
    }
    data_files_write(bad, bytes, 300);
    Shard shard;
    assert_int_equal(shard_open(&shard, bad, false), ERR_INPUT);
    assert_says("20 tokens make 336 bytes, the file has 300");
    bytes = mem_realloc(bytes, size + 2, 1);
    data_files_write(bad, bytes, size + 2);
    assert_int_equal(shard_open(&shard, bad, false), ERR_INPUT);
    assert_says("longer than its header says");
    free(bytes);
    free(path);
    free(bad);
    data_files_remove(folder);
}

/* A header that makes no sense is refused also when its hash is right. */
static void test_shard__consistent_nonsense_is_refused(void **state)
{
    (void)state;
    static const struct {
        int at, bytes;
        uint64_t value;
        const char *says;
    } cases[] = {
        {8, 4, 3, "version 3"},
        {8, 4, 2, "truncated"},
        {12, 4, 3, "makes no sense"},
        {12, 4, 0xffffffff, "makes no sense"},
        {16, 8, 0, "makes no sense"},
        {16, 8, UINT64_MAX, "impossible"},
        {16, 8, UINT64_MAX / 2 + 1, "impossible"},
        {16, 8, 41, "truncated"},
        {16, 8, 39, "longer than"},
        {24, 8, 0, "makes no sense"},
        {24, 8, 65537, "makes no sense"},
        {32, 8, 41, "makes no sense"},
        {24, 8, 44, "token 44 at position 39 is not below the vocabulary"},
        {56, 8, 1, "changed or damaged"},
    };
    char *folder = data_files_folder(), *bad = io_join(folder, "bad.shard");
    char *path = data_files_shard(folder, "train-00000", 5, 40, 1000);
    size_t size;
    uint8_t *bytes = data_files_read(path, &size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *changed = memcpy(mem_alloc(size), bytes, size);
        memcpy(changed + cases[i].at, &cases[i].value, (size_t)cases[i].bytes);
        uint64_t hash = io_hash(changed, 248);
        memcpy(changed + 248, &hash, 8);
        data_files_write(bad, changed, size);
        Shard shard;
        int code = shard_open(&shard, bad, false);
        if (code == 0) {
            code = shard_scan(&shard);
            shard_close(&shard);
        }
        assert_int_equal(code, ERR_INPUT);
        assert_says(cases[i].says);
        free(changed);
    }
    free(bytes);
    free(path);
    free(bad);
    data_files_remove(folder);
}

/* The header hash is repaired in half of the rounds, so that later checks are reached. */
static void test_shard__fuzzed_shards_never_crash(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *bad = io_join(folder, "bad.shard");
    char *path = data_files_shard(folder, "train-00000", 0, 300, 300);
    size_t size, opened = 0;
    uint8_t *bytes = data_files_read(path, &size);
    for (uint64_t round = 0; round < FUZZ_ROUNDS; round++) {
        size_t capacity = size + 256;
        uint8_t *changed = memcpy(mem_alloc(capacity), bytes, size);
        size_t used = data_files_mutate(changed, round % 4 < 2 ? 64 : size, capacity, round);
        if (round % 4 < 2) { /* changes within the fields; the file keeps its length */
            memcpy(changed + 64, bytes + 64, size - 64);
            used = size;
        }
        if (round % 2 == 0 && used >= 256) {
            uint64_t hash = io_hash(changed, 248);
            memcpy(changed + 248, &hash, 8);
        }
        data_files_write(bad, changed, used);
        Shard shard;
        if (shard_open(&shard, bad, round % 8 == 7) == 0) {
            opened++;
            int32_t tokens[400];
            shard_read(&shard, shard.tokens - 1, 1, tokens);
            shard_scan(&shard);
            shard_close(&shard);
        } else {
            assert_says("bad.shard");
        }
        free(changed);
    }
    assert_true(opened > 0 && opened < FUZZ_ROUNDS);
    free(bytes);
    free(path);
    free(bad);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard__round_trips_u16_and_u32),
        cmocka_unit_test(test_shard__header_bytes_are_as_documented),
        cmocka_unit_test(test_shard__every_flipped_byte_is_found),
        cmocka_unit_test(test_shard__keeps_which_tokens_count),
        cmocka_unit_test(test_shard__every_truncation_is_found),
        cmocka_unit_test(test_shard__consistent_nonsense_is_refused),
        cmocka_unit_test(test_shard__fuzzed_shards_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
