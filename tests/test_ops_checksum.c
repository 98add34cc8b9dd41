/* op_checksum against a plain loop and a published sequence, and what it must notice. */
#include "support/op_exact.h"

#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SEED 77

static uint64_t read_checksum(int device, const Placed *out)
{
    uint32_t half[2];
    exact_read(device, out, half);
    return half[0] | (uint64_t)half[1] << 32;
}

static uint64_t run_checksum(int device, DType dtype, const void *values, int64_t count, int skew)
{
    Placed x = exact_place(device, dtype, values, count, skew);
    Placed out = exact_place(device, DT_I32, (int32_t[]){-5, 9}, 2, skew);
    op_checksum(exact_ctx(device), x.tensor, out.tensor);
    uint64_t sum = read_checksum(device, &out);
    exact_release(device, &x);
    exact_release(device, &out);
    return sum;
}

/* Numbers that SplitMix64 is known to make from the seed 1234567. */
static void test_ops_checksum__adds_up_the_published_sequence(void **state)
{
    (void)state;
    static const uint64_t sequence[] = {6457827717110365317u, 3203168211198807973u,
                                        9817491932198370423u, 4593380528125082431u,
                                        16408922859458223821u};
    const int32_t seeds[] = {1234567, 1234567, 1234567, 1234567, 1234567};
    for (int device = 0; device < exact_devices(); device++) {
        uint64_t wanted = 0;
        for (int count = 1; count <= 5; count++) {
            wanted += sequence[count - 1];
            uint64_t got = run_checksum(device, DT_I32, seeds, count, 0);
            exact_expect(device, 0, (uint64_t)count, got, wanted);
        }
    }
}

static uint64_t plain_checksum(const uint8_t *bytes, size_t size, int64_t count)
{
    uint64_t sum = 0, steps = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t word = 0;
        for (size_t k = 0; k < size; k++) {
            word |= (uint64_t)bytes[(size_t)i * size + k] << 8 * k;
        }
        steps += 0x9E3779B97F4A7C15u;
        word += steps;
        word ^= word >> 30;
        word *= 0xBF58476D1CE4E5B9u;
        word ^= word >> 27;
        word *= 0x94D049BB133111EBu;
        word ^= word >> 31;
        sum += word;
    }
    return sum;
}

static void test_ops_checksum__of_any_type_size_and_alignment(void **state)
{
    (void)state;
    static const DType types[] = {DT_F32, DT_BF16, DT_F64, DT_I32};
    uint8_t *bits = exact_random_bits();
    for (int run = 0; run < EXACT_SIZES * 4; run++) {
        int64_t count = exact_sizes[run / 4];
        DType dtype = types[run % 4];
        uint64_t wanted = plain_checksum(bits, dtype_size(dtype), count);
        for (int device = 0; device < exact_devices(); device++) {
            for (int skew = 0; skew < EXACT_SKEWS; skew++) {
                uint64_t got = run_checksum(device, dtype, bits, count, skew);
                exact_expect(device, skew, (uint64_t)count, got, wanted);
            }
        }
    }
    free(bits);
}

static int compare_words(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Every flip of one bit and every swap of two elements gives a checksum of its own. */
static void check_changes(int device, const uint32_t *values, int count)
{
    uint32_t *x = mem_alloc((size_t)count * sizeof *x);
    int changes = 1 + 32 * count + count * (count - 1) / 2, made = 0;
    uint64_t *sums = mem_alloc((size_t)changes * sizeof *sums);
    Placed from = exact_place(device, DT_F32, values, count, 0);
    Placed out = exact_place(device, DT_I32, (int32_t[]){0, 0}, 2, 0);
    for (int change = 0; made < changes; change++) {
        memcpy(x, values, (size_t)count * sizeof *x);
        int swap = change - 32 * count - 1, i = swap / count, j = swap % count;
        if (change > 0 && swap < 0) {
            x[(change - 1) / 32] ^= 1u << (change - 1) % 32;
        } else if (swap >= 0) {
            x[i] = values[j];
            x[j] = values[i];
        }
        if (swap < 0 || i < j) {
            exact_write(device, &from, x);
            op_checksum(exact_ctx(device), from.tensor, out.tensor);
            sums[made++] = read_checksum(device, &out);
        }
    }
    qsort(sums, (size_t)changes, sizeof *sums, compare_words);
    for (int i = 1; i < changes; i++) {
        assert_true(sums[i] != sums[i - 1]);
    }
    exact_release(device, &from);
    exact_release(device, &out);
    free(sums);
    free(x);
}

static void test_ops_checksum__sees_every_bit_and_every_swap(void **state)
{
    (void)state;
    enum { COUNT = 19 };
    uint32_t values[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = i == 0 ? 0 : 0x3F800000 + i; /* neighbours, and a zero whose sign counts */
    }
    for (int device = 0; device < exact_devices(); device++) {
        check_changes(device, values, COUNT);
    }
}

typedef struct {
    Ctx *c;
    Tensor x, low, out;
} Recorded;

static void cast_and_sum(void *user)
{
    Recorded *r = user;
    op_cast(r->c, r->x, r->low);
    op_checksum(r->c, r->low, r->out);
}

/* A device that records work gives the right results for what memory holds when it is replayed. */
static void test_ops_checksum__replayed_on_other_contents(void **state)
{
    (void)state;
    enum { COUNT = 5003, REPLAYS = 4 };
    float values[COUNT];
    uint16_t low[COUNT];
    for (int device = 0; device < exact_devices(); device++) {
        Backend *backend = exact_ctx(device)->backend;
        memset(values, 0, sizeof values);
        Placed x = exact_place(device, DT_F32, values, COUNT, 0);
        Placed half = exact_place(device, DT_BF16, values, COUNT, 0);
        Placed out = exact_place(device, DT_I32, values, 2, 0);
        Recorded body = {exact_ctx(device), x.tensor, half.tensor, out.tensor};
        for (int replay = 0; replay < REPLAYS; replay++) {
            rng_normals(SEED, (uint64_t)replay, 0, COUNT, values);
            for (int i = 0; i < COUNT; i++) {
                low[i] = bf16_from_f32(values[i]);
            }
            exact_write(device, &x, values);
            if (backend->replay != NULL) {
                backend->replay(backend, 0, cast_and_sum, &body);
            } else {
                cast_and_sum(&body);
            }
            exact_expect(device, 0, (uint64_t)replay, read_checksum(device, &out),
                         plain_checksum((const uint8_t *)low, 2, COUNT));
        }
        if (backend->forget != NULL) {
            backend->forget(backend);
        }
        exact_release(device, &x);
        exact_release(device, &half);
        exact_release(device, &out);
    }
}

static void test_ops_checksum__work_is_counted(void **state)
{
    (void)state;
    Ctx c;
    ctx_init(&c, exact_ctx(0)->backend);
    c.dry = true;
    op_checksum(&c, tensor_2d(NULL, DT_F64, 3, 5), tensor_1d(NULL, DT_I32, 2));
    assert_int_equal(c.stats[OP_CHECKSUM].calls, 1);
    assert_true(c.stats[OP_CHECKSUM].bytes == 15 * 8 && c.stats[OP_CHECKSUM].flops == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_checksum__adds_up_the_published_sequence),
        cmocka_unit_test(test_ops_checksum__of_any_type_size_and_alignment),
        cmocka_unit_test(test_ops_checksum__sees_every_bit_and_every_swap),
        cmocka_unit_test(test_ops_checksum__replayed_on_other_contents),
        cmocka_unit_test(test_ops_checksum__work_is_counted),
    };
    return cmocka_run_group_tests(tests, exact_open, exact_close);
}
