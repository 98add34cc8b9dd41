#include "data/prefetch.h"

#include "base/err.h"
#include "base/mem.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define SEED 20240607u
#define MANY 100000u /* a vocabulary above all positions used here */

/* Row order[i] holds the i-th smallest token, equal ones in row order. */
static void check_sorted(const Batch *batch, int64_t rows)
{
    uint8_t *seen = mem_zalloc((size_t)rows, 1);
    for (int64_t i = 0; i < rows; i++) {
        int32_t row = batch->order[i];
        assert_true(row >= 0 && row < rows);
        assert_int_equal(seen[row]++, 0);
        if (i > 0) {
            int32_t before = batch->order[i - 1];
            assert_true(batch->tokens[before] < batch->tokens[row] ||
                        (batch->tokens[before] == batch->tokens[row] && before < row));
        }
    }
    free(seen);
}

/* The sequences of updates of `global` sequences each, read in one layout, beginning at `start`,
 * are put in the order of the global index and must equal a direct fill. */
static void check_layout(const Loader *loader, int64_t batch, int64_t accum, int ranks,
                         uint64_t start)
{
    int64_t seq = loader->seq, updates = 3, global = batch * accum * ranks;
    size_t size = (size_t)(global * updates * seq);
    int32_t *direct = mem_alloc(4 * size * sizeof *direct), *direct_targets = direct + size,
            *got = direct + 2 * size, *got_targets = direct + 3 * size;
    memset(got, 0xff, 2 * size * sizeof *got);
    assert_int_equal(loader_fill(loader, start, global * updates, direct, direct_targets), 0);
    for (int rank = 0; rank < ranks; rank++) {
        Prefetch *prefetch;
        PrefetchOptions options = {.batch = batch, .start = start, .rank = rank, .ranks = ranks};
        assert_int_equal(prefetch_open(&prefetch, loader, options), 0);
        for (int64_t step = 0; step < accum * updates; step++) {
            Batch b;
            double waited = 0;
            assert_int_equal(prefetch_next(prefetch, &b, &waited), 0);
            assert_true(waited >= 0);
            int64_t at = (int64_t)(b.first - start);
            assert_int_equal(at / global, step / accum); /* inside its update */
            memcpy(got + at * seq, b.tokens, (size_t)(batch * seq) * sizeof *got);
            memcpy(got_targets + at * seq, b.targets, (size_t)(batch * seq) * sizeof *got);
            check_sorted(&b, batch * seq);
        }
        prefetch_close(prefetch);
    }
    assert_memory_equal(got, direct, 2 * size * sizeof *got);
    free(direct);
}

static void test_prefetch__order_is_equal_for_every_layout(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1000, 1500, 901};
    Positions positions;
    positions_open(&positions, sizes, 3, MANY);
    Loader loader; /* 212 windows: the layouts below run into other epochs */
    assert_int_equal(loader_init(&loader, &positions.split, 16, MANY, SEED), 0);
    static const struct {
        int64_t batch, accum;
        int ranks;
    } layouts[] = {{24, 1, 1}, {12, 2, 1}, {12, 1, 2}, {1, 24, 1}, {1, 6, 4}, {3, 2, 4}, {2, 4, 3}};
    const uint64_t starts[] = {0, 1, 24, 211, 212, 100003};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
            check_layout(&loader, layouts[i].batch, layouts[i].accum, layouts[i].ranks, starts[s]);
        }
    }
    positions_close(&positions);
}

/* Stopping after any number of batches and going on from the next index changes nothing. */
static void test_prefetch__restart_continues_the_order(void **state)
{
    (void)state;
    const uint64_t sizes[] = {700};
    Positions positions;
    positions_open(&positions, sizes, 1, 65536);
    Loader loader;
    assert_int_equal(loader_init(&loader, &positions.split, 8, 65536, SEED), 0);
    enum { STEPS = 40, BATCH = 3, ROWS = BATCH * 8 };
    int32_t tokens[STEPS][ROWS], targets[ROWS];
    for (uint64_t step = 0; step < STEPS; step++) {
        assert_int_equal(loader_fill(&loader, step * BATCH, BATCH, tokens[step], targets), 0);
    }
    for (uint64_t stop = 1; stop < STEPS; stop++) {
        uint64_t position = 0;
        for (int part = 0; part < 2; part++) {
            Prefetch *prefetch;
            PrefetchOptions options = {.batch = BATCH, .start = position, .ranks = 1};
            assert_int_equal(prefetch_open(&prefetch, &loader, options), 0);
            uint64_t end = part == 0 ? stop : STEPS;
            for (uint64_t step = position / BATCH; step < end; step++) {
                Batch batch;
                assert_int_equal(prefetch_next(prefetch, &batch, NULL), 0);
                assert_int_equal(batch.first, position);
                assert_memory_equal(batch.tokens, tokens[step], sizeof tokens[step]);
                position = batch.first + BATCH;
            }
            prefetch_close(prefetch);
        }
    }
    positions_close(&positions);
}

static void test_prefetch__sort_is_stable(void **state)
{
    (void)state;
    const int32_t ids[] = {5, 0, 5, 3, 0, 5, 1}, expected[] = {1, 4, 6, 3, 0, 2, 5};
    uint32_t counts[6];
    int32_t order[7];
    prefetch_sort(ids, 7, 6, counts, order);
    assert_memory_equal(order, expected, sizeof order);
    Dataset dataset; /* many equal tokens, rows beyond one shard's reach of the cache */
    assert_int_equal(dataset_open(&dataset, "builtin:random", (DatasetOptions){.vocab = 17}), 0);
    Loader loader;
    assert_int_equal(loader_init(&loader, &dataset.train, 100, 17, SEED), 0);
    Prefetch *prefetch;
    assert_int_equal(prefetch_open(&prefetch, &loader, (PrefetchOptions){.batch = 50, .ranks = 1}),
                     0);
    Batch batch;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(prefetch_next(prefetch, &batch, NULL), 0);
        check_sorted(&batch, 5000);
    }
    prefetch_close(prefetch);
    dataset_close(&dataset);
}

static void test_prefetch__uses_the_memory_given(void **state)
{
    (void)state;
    const uint64_t sizes[] = {700};
    Positions positions;
    positions_open(&positions, sizes, 1, 65536);
    Loader loader;
    assert_int_equal(loader_init(&loader, &positions.split, 7, 701, SEED), 0);
    size_t bytes = prefetch_bytes(3, 7, 701, false);
    uint8_t *memory = mem_try_aligned(bytes + 64);
    memset(memory, 0xa5, bytes + 64);
    Prefetch *prefetch;
    PrefetchOptions options = {.batch = 3, .ranks = 1, .memory = memory};
    assert_int_equal(prefetch_open(&prefetch, &loader, options), 0);
    for (int i = 0; i < 20; i++) {
        Batch batch;
        assert_int_equal(prefetch_next(prefetch, &batch, NULL), 0);
        assert_true((uint8_t *)batch.tokens >= memory);
        assert_true((uint8_t *)(batch.order + 21) <= memory + bytes);
    }
    prefetch_close(prefetch);
    for (size_t i = bytes; i < bytes + 64; i++) {
        assert_int_equal(memory[i], 0xa5);
    }
    free(memory);
    positions_close(&positions);
}

/* A batch stays as it is until the next one is asked for, however long that takes. */
static void test_prefetch__batch_is_held_until_the_next(void **state)
{
    (void)state;
    const uint64_t sizes[] = {5000};
    Positions positions;
    positions_open(&positions, sizes, 1, 65536);
    Loader loader;
    assert_int_equal(loader_init(&loader, &positions.split, 10, 65536, SEED), 0);
    Prefetch *prefetch;
    assert_int_equal(prefetch_open(&prefetch, &loader, (PrefetchOptions){.batch = 4, .ranks = 1}),
                     0);
    for (uint64_t step = 0; step < 12; step++) {
        Batch batch;
        assert_int_equal(prefetch_next(prefetch, &batch, NULL), 0);
        usleep(2000); /* the thread has made all that it may by then */
        int32_t tokens[40], targets[40];
        assert_int_equal(loader_fill(&loader, step * 4, 4, tokens, targets), 0);
        assert_memory_equal(batch.tokens, tokens, sizeof tokens);
        assert_memory_equal(batch.targets, targets, sizeof targets);
    }
    prefetch_close(prefetch);
    positions_close(&positions);
}

static void test_prefetch__closes_while_busy(void **state)
{
    (void)state;
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, "builtin:random", (DatasetOptions){.vocab = 70000}), 0);
    Loader loader;
    assert_int_equal(loader_init(&loader, &dataset.train, 512, 70000, SEED), 0);
    for (int i = 0; i < 60; i++) {
        Prefetch *prefetch;
        PrefetchOptions options = {.batch = 1 + i % 40, .ranks = 1};
        assert_int_equal(prefetch_open(&prefetch, &loader, options), 0);
        Batch batch;
        for (int taken = 0; taken < i % 6; taken++) {
            assert_int_equal(prefetch_next(prefetch, &batch, NULL), 0);
        }
        usleep((useconds_t)(i % 7) * 100);
        prefetch_close(prefetch);
    }
    prefetch_close(NULL);
    dataset_close(&dataset);
}

static void test_prefetch__carries_the_error(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1000};
    Positions positions;
    positions_open(&positions, sizes, 1, 65536);
    Loader loader; /* tokens from 500 on are too large: the second half of the windows */
    assert_int_equal(loader_init_sequential(&loader, &positions.split, 10, 500), 0);
    Prefetch *prefetch;
    assert_int_equal(prefetch_open(&prefetch, &loader, (PrefetchOptions){.batch = 1, .ranks = 1}),
                     0);
    Batch batch;
    for (int i = 0; i < 49; i++) { /* whole batches before the bad one are delivered */
        assert_int_equal(prefetch_next(prefetch, &batch, NULL), 0);
        assert_int_equal(batch.tokens[0], 10 * i);
    }
    for (int again = 0; again < 2; again++) {
        err_set(ERR_FAILED, "something else");
        assert_int_equal(prefetch_next(prefetch, &batch, NULL), ERR_INPUT);
        assert_says("token 500 at position 500");
    }
    prefetch_close(prefetch);
    positions_close(&positions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefetch__order_is_equal_for_every_layout),
        cmocka_unit_test(test_prefetch__restart_continues_the_order),
        cmocka_unit_test(test_prefetch__sort_is_stable),
        cmocka_unit_test(test_prefetch__uses_the_memory_given),
        cmocka_unit_test(test_prefetch__batch_is_held_until_the_next),
        cmocka_unit_test(test_prefetch__closes_while_busy),
        cmocka_unit_test(test_prefetch__carries_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
