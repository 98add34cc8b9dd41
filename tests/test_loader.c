#include "data/loader.h"

#include "base/err.h"
#include "base/mem.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SEED 20240607u
#define MANY 100000u /* a vocabulary above all positions used here */

static void test_loader__shuffle_is_a_bijection(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 100, 255, 256, 257, 4096, 4097, 70001};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint8_t *seen = mem_zalloc((size_t)sizes[s], 1);
            for (uint64_t k = 0; k < sizes[s]; k++) {
                uint64_t at = shuffle_at(sizes[s], SEED, epoch, k);
                assert_true(at < sizes[s]);
                assert_int_equal(seen[at]++, 0);
            }
            free(seen);
        }
    }
}

/* Targets that do not count are -1, in whichever shards a sequence lies; its tokens are all
 * there. */
static void test_loader__marks_what_does_not_count(void **state)
{
    (void)state;
    Positions p;
    masked_positions_open(&p, (const uint64_t[]){13, 5, 1, 40, 90, 30}, 6, MANY);
    Loader loader;
    assert_int_equal(loader_init(&loader, &p.split, 11, MANY, SEED), 0);
    int32_t tokens[2 * 11], targets[2 * 11];
    uint64_t left_out = 0, kept = 0;
    for (uint64_t k = 0; k < loader.windows; k += 2) {
        assert_int_equal(loader_fill(&loader, k, 2, tokens, targets), 0);
        for (int i = 0; i < 22; i++) {
            uint64_t target = loader_start(&loader, k + (uint64_t)i / 11) + (uint64_t)i % 11 + 1;
            uint64_t inside;
            const Shard *shard = split_locate(&p.split, target, &inside);
            bool counts = !shard->masked || data_files_counts(target);
            assert_int_equal(tokens[i], target - 1);
            assert_int_equal(targets[i], counts ? (int32_t)target : -1);
            *(counts ? &kept : &left_out) += 1;
        }
    }
    assert_true(left_out > 20 && kept > 20);
    positions_close(&p);
}

static void test_loader__shuffle_depends_on_seed_and_epoch(void **state)
{
    (void)state;
    const uint64_t n = 1000;
    uint64_t same_epoch = 0, same_seed = 0, fixed = 0, neighbours = 0;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t at = shuffle_at(n, SEED, 0, k);
        same_epoch += at == shuffle_at(n, SEED + 1, 0, k);
        same_seed += at == shuffle_at(n, SEED, 1, k);
        fixed += at == k;
        neighbours += k > 0 && at == shuffle_at(n, SEED, 0, k - 1) + 1;
    }
    /* Each is 1 on average for random orders, Poisson distributed: 12 has odds below 1e-9. */
    assert_true(same_epoch < 12 && same_seed < 12 && fixed < 12 && neighbours < 12);
}

/* All orders of three windows occur, about equally often over epochs. */
static void test_loader__shuffle_reaches_every_order(void **state)
{
    (void)state;
    int counts[27] = {0};
    for (uint64_t epoch = 0; epoch < 6000; epoch++) {
        counts[9 * shuffle_at(3, SEED, epoch, 0) + 3 * shuffle_at(3, SEED, epoch, 1) +
               shuffle_at(3, SEED, epoch, 2)]++;
    }
    int orders = 0;
    for (int i = 0; i < 27; i++) {
        if (counts[i] > 0) {
            orders++;
            assert_in_range(counts[i], 850, 1150); /* 1000 +- 5 standard deviations */
        }
    }
    assert_int_equal(orders, 6);
}

/* Every window once per epoch; tokens and targets by arithmetic, across shard borders. */
static void check_epochs(const uint64_t *sizes, int count, uint64_t vocab, int64_t seq)
{
    Positions positions;
    positions_open(&positions, sizes, count, vocab);
    Loader loader;
    assert_int_equal(loader_init(&loader, &positions.split, seq, vocab, SEED), 0);
    uint64_t windows = (positions.split.tokens - 1) / (uint64_t)seq;
    assert_int_equal(loader.windows, windows);
    int32_t *tokens = mem_alloc((size_t)seq * 2 * sizeof *tokens), *targets = tokens + seq;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        uint8_t *seen = mem_zalloc((size_t)windows, 1);
        for (uint64_t k = 0; k < windows; k++) {
            assert_int_equal(loader_fill(&loader, epoch * windows + k, 1, tokens, targets), 0);
            assert_int_equal(tokens[0] % seq, 0);
            assert_true((uint64_t)(tokens[0] / seq) < windows);
            assert_int_equal(seen[tokens[0] / seq]++, 0);
            for (int64_t t = 0; t < seq; t++) {
                assert_int_equal(tokens[t], tokens[0] + t);
                assert_int_equal(targets[t], tokens[0] + t + 1);
            }
        }
        free(seen);
    }
    free(tokens);
    positions_close(&positions);
}

static void test_loader__each_window_once_per_epoch(void **state)
{
    (void)state;
    const uint64_t three[] = {1000, 1, 2345}, tiny[] = {3, 2, 1, 7, 5}, one[] = {65};
    check_epochs(three, 3, 65536, 16);
    check_epochs(three, 3, MANY, 16);
    check_epochs(three, 3, MANY, 1);
    check_epochs(three, 3, 65536, 1500); /* a window spans three shards */
    check_epochs(tiny, 5, 300, 4);
    check_epochs(one, 1, 65, 64); /* exactly one window */
}

static void test_loader__second_epoch_reshuffles(void **state)
{
    (void)state;
    const uint64_t sizes[] = {4001};
    Positions positions;
    positions_open(&positions, sizes, 1, MANY);
    Loader a, b;
    assert_int_equal(loader_init(&a, &positions.split, 10, MANY, SEED), 0);
    assert_int_equal(loader_init(&b, &positions.split, 10, MANY, SEED + 1), 0);
    int epochs = 0, seeds = 0;
    for (uint64_t k = 0; k < 400; k++) {
        epochs += loader_start(&a, k) == loader_start(&a, k + 400);
        seeds += loader_start(&a, k) == loader_start(&b, k);
    }
    assert_true(epochs < 12 && seeds < 12);
    positions_close(&positions);
}

static void test_loader__sequential_is_in_order(void **state)
{
    (void)state;
    const uint64_t sizes[] = {50, 51};
    Positions positions;
    positions_open(&positions, sizes, 2, 65536);
    Loader loader;
    assert_int_equal(loader_init_sequential(&loader, &positions.split, 20, 65536), 0);
    assert_int_equal(loader.windows, 5);
    int32_t tokens[5 * 20], targets[5 * 20];
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(loader_fill(&loader, epoch * 5, 5, tokens, targets), 0);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(tokens[i], i);
            assert_int_equal(targets[i], i + 1);
        }
    }
    positions_close(&positions);
}

static void test_loader__too_little_data_is_named(void **state)
{
    (void)state;
    const uint64_t sizes[] = {64};
    Positions positions;
    positions_open(&positions, sizes, 1, 65536);
    Loader loader;
    assert_int_equal(loader_init(&loader, &positions.split, 63, 65536, 1), 0);
    assert_int_equal(loader_init(&loader, &positions.split, 64, 65536, 1), ERR_INPUT);
    assert_says("the train split has 64 tokens, fewer than the 65 that one sequence of seq 64");
    assert_says("--seq");
    Split none = {.name = "validation"};
    assert_int_equal(loader_init_sequential(&loader, &none, 64, 65536), ERR_INPUT);
    assert_says("no validation split");
    positions_close(&positions);
}

static void test_loader__token_above_vocabulary_is_named(void **state)
{
    (void)state;
    const uint64_t sizes[] = {100, 101};
    Positions positions;
    positions_open(&positions, sizes, 2, 65536);
    Loader loader;
    int32_t tokens[200], targets[200];
    assert_int_equal(loader_init_sequential(&loader, &positions.split, 200, 201), 0);
    assert_int_equal(loader_fill(&loader, 0, 1, tokens, targets), 0);
    for (uint64_t vocab = 1; vocab <= 200;
         vocab++) { /* the first that is too large, also as target */
        assert_int_equal(loader_init_sequential(&loader, &positions.split, 200, vocab), 0);
        assert_int_equal(loader_fill(&loader, 0, 1, tokens, targets), ERR_INPUT);
        char *expected =
            mem_format(".shard: token %d at position %d is not below the vocabulary, %d",
                       (int)vocab, (int)(vocab < 100 ? vocab : vocab - 100), (int)vocab);
        assert_says(expected);
        free(expected);
    }
    positions_close(&positions);
}

/* Only the first token of a window is no target of it; and uint32 reaches beyond int32. */
static void test_loader__first_and_huge_tokens_are_checked(void **state)
{
    (void)state;
    const uint16_t first[] = {9, 1, 2, 3};
    const uint32_t huge[] = {1, 2, 0x80000001u, 3};
    for (int width = 2; width <= 4; width += 2) {
        Split split = {.name = "train"};
        Shard shard;
        size_t bytes = 4 * (size_t)width;
        void *tokens = memcpy(mem_alloc(bytes), width == 2 ? (const void *)first : huge, bytes);
        shard_from_memory(&shard, "made", tokens, 4, width, 0);
        split_add(&split, shard);
        Loader loader;
        int32_t in[3], out[3];
        uint64_t vocab = width == 2 ? 9 : SHARD_MAX_VOCAB;
        assert_int_equal(loader_init(&loader, &split, 3, vocab, SEED), 0);
        assert_int_equal(loader_fill(&loader, 0, 1, in, out), ERR_INPUT);
        assert_says(width == 2 ? "made: token 9 at position 0"
                               : "made: token 2147483649 at position 2");
        shard_close(&split.shards[0]);
        free(split.shards);
    }
}

static void test_loader__builtin_random_is_reproducible(void **state)
{
    (void)state;
    const uint64_t vocabs[] = {1, 257, 65536, 128256};
    for (int i = 0; i < 4; i++) {
        Dataset a, b, c;
        DatasetOptions options = {.vocab = vocabs[i], .seed = 5};
        assert_int_equal(dataset_open(&a, "builtin:random", options), 0);
        assert_int_equal(dataset_open(&b, "builtin:random", options), 0);
        options.seed = 6;
        assert_int_equal(dataset_open(&c, "builtin:random", options), 0);
        size_t bytes = (size_t)(a.train.tokens * (uint64_t)a.train.shards[0].token_bytes);
        assert_memory_equal(a.train.shards[0].memory, b.train.shards[0].memory, bytes);
        assert_true(vocabs[i] == 1 ||
                    memcmp(a.train.shards[0].memory, c.train.shards[0].memory, bytes) != 0);
        assert_true(vocabs[i] == 1 ||
                    memcmp(a.train.shards[0].memory, a.validation.shards[0].memory, 1000) != 0);
        assert_int_equal(a.vocab, vocabs[i]);
        assert_int_equal(dataset_check_vocab(&a, vocabs[i]), 0);
        double sum = 0; /* the mean of uniform tokens, within 6 standard deviations */
        for (uint64_t k = 0; k < a.train.tokens; k++) {
            sum += shard_token(&a.train.shards[0], k);
        }
        double mean = sum / (double)a.train.tokens, expected = (double)(vocabs[i] - 1) / 2;
        assert_true(mean - expected <= 6 * 0.2887 * (double)vocabs[i] / 2048 &&
                    expected - mean <= 6 * 0.2887 * (double)vocabs[i] / 2048);
        dataset_close(&a);
        dataset_close(&b);
        dataset_close(&c);
    }
    Dataset none;
    assert_int_equal(dataset_open(&none, "builtin:random", (DatasetOptions){0}), ERR_INPUT);
    assert_says("--vocab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loader__shuffle_is_a_bijection),
        cmocka_unit_test(test_loader__marks_what_does_not_count),
        cmocka_unit_test(test_loader__shuffle_depends_on_seed_and_epoch),
        cmocka_unit_test(test_loader__shuffle_reaches_every_order),
        cmocka_unit_test(test_loader__each_window_once_per_epoch),
        cmocka_unit_test(test_loader__second_epoch_reshuffles),
        cmocka_unit_test(test_loader__sequential_is_in_order),
        cmocka_unit_test(test_loader__too_little_data_is_named),
        cmocka_unit_test(test_loader__token_above_vocabulary_is_named),
        cmocka_unit_test(test_loader__first_and_huge_tokens_are_checked),
        cmocka_unit_test(test_loader__builtin_random_is_reproducible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
