/* State in 16 bits: random bits, rounding by chance and masters in two parts, bit by bit against
 * arithmetic of this file, on every device. */
#include "support/op_exact.h"

#include "base/mem.h"
#include "tensor/rounding.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define KEY1 0xABCDEFu
#define KEY2 0x123457u
#define FIRST (((int64_t)1 << 32) - 21) /* number of the first element: the next 21 pass 2^32 */

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7FFFFFFF) > 0x7F800000;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What the header says, in 64-bit arithmetic modulo 2^32. */
static uint32_t plain_bits(uint64_t key1, uint64_t key2, uint64_t index)
{
    const uint64_t all = (uint64_t)1 << 32;
    uint64_t low = index % all, high = index / all;
    uint64_t x = ((low ^ key1 * 0x9E3779B9 % all) + high % all * 0x9E3779B9 % all) % all;
    x = ((x ^ x / 65536) * 0x7FEB352D % all + key2 * 0x9E3779B9) % all;
    x = (x ^ x / 32768) * 0x846CA68B % all;
    return (uint32_t)(x ^ x / 65536);
}

static void test_ops_rounding__bits_are_as_written_down(void **state)
{
    (void)state;
    const uint64_t indices[] = {0, 1, 2, 0xFFFFFFFF, (uint64_t)1 << 32, ((uint64_t)5 << 32) + 77};
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++) {
        for (uint32_t key = 0; key < 3; key++) {
            assert_int_equal(rounding_bits(KEY1 + key, KEY2 * key, indices[i]),
                             plain_bits(KEY1 + key, KEY2 * key, indices[i]));
        }
    }
}

/* Of `count` pairs of 16-bit numbers: the correlation of both. */
static double correlation(const uint16_t *a, const uint16_t *b, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += (a[i] - 32767.5) * (b[i] - 32767.5);
    }
    return sum / count / (65536.0 * 65536.0 / 12);
}

/* Uniform, and neither neighbours nor the two states nor updates that follow each other have
 * anything to do with each other: five standard deviations of what independent numbers have. */
static void test_ops_rounding__bits_are_uniform_and_apart(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20, BINS = 256 };
    uint16_t *m = mem_alloc((COUNT + 1) * sizeof *m), *v = mem_alloc(COUNT * sizeof *v);
    uint16_t *next = mem_alloc(COUNT * sizeof *next);
    for (int part = 0; part < 2; part++) { /* all elements of an update; one of all updates */
        int bins[BINS] = {0};
        for (int i = 0; i <= COUNT; i++) {
            uint32_t step = part == 0 ? 0 : (uint32_t)i * 0x3C6EF3u % (1u << ROUNDING_KEY_BITS);
            uint64_t index = part == 0 ? (uint64_t)i : 12345;
            uint32_t random = rounding_bits(KEY1 ^ step, KEY2, index);
            m[i] = (uint16_t)random;
            if (i < COUNT) {
                v[i] = (uint16_t)(random >> 16);
                next[i] = (uint16_t)rounding_bits(KEY1 ^ step, KEY2 + 1, index);
                bins[m[i] >> 8]++;
            }
        }
        double deviation = 5 / sqrt(COUNT), chi = 0;
        assert_true(fabs(correlation(m, v, COUNT)) < deviation);
        assert_true(fabs(correlation(m, m + 1, COUNT)) < deviation);
        assert_true(fabs(correlation(m, next, COUNT)) < deviation);
        for (int i = 0; i < BINS; i++) {
            double expected = (double)COUNT / BINS;
            chi += (bins[i] - expected) * (bins[i] - expected) / expected;
        }
        /* The hash is one to one in the index, so bins of one update are too even, not too odd. */
        assert_true(chi < BINS - 1 + 5 * sqrt(2.0 * (BINS - 1)));
    }
    free(m);
    free(v);
    free(next);
}

static void test_ops_rounding__mean_is_the_number(void **state)
{
    (void)state;
    const float numbers[] = {1.001953125f, -3.3f, 1e-3f, 1e-41f, 6.1e37f, 0.9999f};
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        uint32_t bits = bits_of(numbers[k]);
        double down = float_of(bits & 0xFFFF0000), step = float_of((bits & 0xFFFF0000) + 0x10000);
        double sum = 0;
        enum { COUNT = 1 << 18 };
        step -= down;
        for (uint64_t i = 0; i < COUNT; i++) {
            uint16_t half = bf16_by_chance(bits, rounding_bits(KEY1, KEY2, i) & 0xFFFF);
            double way = (f32_from_bf16(half) - down) / step;
            assert_true(way == 0 || way == 1);
            sum += way;
        }
        double way = (numbers[k] - down) / step;
        assert_true(fabs(sum / COUNT - way) < 5 * sqrt(way * (1 - way) / COUNT));
    }
}

/* f32 of every exponent and sign, halfway cases, infinities and NaN among them. */
static float *all_kinds(int64_t count)
{
    uint8_t *random = exact_random_bits();
    float *values = mem_alloc((size_t)count * sizeof *values);
    memcpy(values, random, (size_t)count * sizeof *values);
    static const uint32_t special[] = {0x00000000, 0x3F808000, 0x3F818000, 0xBF808000, 0x7F7FFFFF,
                                       0x7F800000, 0xFF800000, 0x7FFFFFFF, 0x7FC00000, 0x00000001,
                                       0x007FFFFF, 0x00008000, 0x7F7F8000, 0x3F80FFFF, 0x7F800001};
    for (int64_t i = 0; i < count && i < 15; i++) {
        values[(i * 7) % count] = float_of(special[i]);
    }
    free(random);
    return values;
}

/* With momentum 0, no clipping and a rate of 0, op_sgd keeps the gradient as it is. */
static void run_sgd(int device, const float *grad, uint16_t *m, int64_t count, int skew)
{
    float hyper[HYPER_COUNT] = {[HYPER_KEY1] = KEY1, [HYPER_KEY2] = KEY2}, norm = 1;
    float *zero = mem_zalloc((size_t)count, sizeof *zero);
    Placed param = exact_place(device, DT_F32, zero, count, skew);
    Placed from = exact_place(device, DT_F32, grad, count, skew);
    Placed state = exact_place(device, DT_BF16, zero, count, skew);
    Placed numbers = exact_place(device, DT_F32, hyper, HYPER_COUNT, 0);
    Placed square = exact_place(device, DT_F32, &norm, 1, 0);
    op_sgd(exact_ctx(device), (UpdateArgs){.param = param.tensor,
                                           .grad = from.tensor,
                                           .state = {state.tensor},
                                           .index = FIRST,
                                           .hyper = numbers.tensor,
                                           .norm_sq = square.tensor,
                                           .tokens = 1});
    exact_read(device, &state, m);
    Placed *placed[] = {&param, &from, &state, &numbers, &square};
    for (int i = 0; i < 5; i++) {
        exact_release(device, placed[i]);
    }
    free(zero);
}

static void test_ops_rounding__states_are_rounded_by_chance(void **state)
{
    (void)state;
    int64_t most = exact_sizes[EXACT_SIZES - 1];
    uint16_t *m = mem_alloc((size_t)most * sizeof *m);
    for (int size = 0; size < EXACT_SIZES; size++) {
        int64_t count = exact_sizes[size];
        float *grad = all_kinds(count);
        for (int run = 0; run < exact_devices() * EXACT_SKEWS; run++) {
            int device = run / EXACT_SKEWS, skew = run % EXACT_SKEWS;
            run_sgd(device, grad, m, count, skew);
            for (int64_t i = 0; i < count; i++) {
                uint32_t bits = bits_of(grad[i] == 0 ? 0 : grad[i]);
                uint64_t noise = plain_bits(KEY1, KEY2, (uint64_t)(FIRST + i)) % 65536;
                bool up = bits % 65536 + noise >= 65536;
                if (is_nan(bits)) {
                    exact_expect(device, skew, bits, is_nan((uint32_t)m[i] << 16), true);
                } else {
                    exact_expect(device, skew, bits, m[i], bits / 65536 + up);
                }
            }
        }
        free(grad);
    }
    free(m);
}

static void test_ops_rounding__masters_come_together_again(void **state)
{
    (void)state;
    const uint32_t rests[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x4000, 0xC123};
    for (uint32_t upper = 0; upper < 65536; upper++) {
        for (size_t r = 0; r < sizeof rests / sizeof rests[0]; r++) {
            uint32_t bits = upper << 16 | rests[r];
            SplitMaster split = master_split(bits);
            if (is_nan(bits)) {
                assert_true(is_nan((uint32_t)split.low << 16));
                assert_true(is_nan(master_join(split.low, split.rest)));
                continue;
            }
            assert_int_equal(master_join(split.low, split.rest), bits);
            /* ties away from 0, all else as bf16 is rounded anywhere */
            uint16_t nearest = bf16_from_f32(float_of(bits));
            assert_int_equal(split.low, rests[r] == 0x8000 ? upper + 1 : nearest);
        }
    }
}

typedef struct {
    uint32_t *param;
    uint16_t *low, *m;
} Updated;

/* AdamW on random numbers with whole masters, or with parts. */
static Updated run_adamw(int device, bool split, const float *values, int64_t count, int skew)
{
    float hyper[HYPER_COUNT] = {
        [HYPER_LR] = 0.01f,   [HYPER_BETA1] = 0.9f,       [HYPER_BETA2] = 0.95f,
        [HYPER_REST1] = 0.1f, [HYPER_REST2] = 0.05f,      [HYPER_EPS] = 1e-8f,
        [HYPER_DECAY] = 0.1f, [HYPER_CORRECTION1] = 0.1f, [HYPER_CORRECTION2] = 0.05f,
        [HYPER_KEY1] = KEY1,  [HYPER_KEY2] = KEY2};
    float norm = 1;
    size_t n = (size_t)count;
    Updated out = {mem_alloc(n * 4), mem_alloc(n * 2), mem_alloc(n * 2)};
    uint16_t *rest = mem_alloc(n * 2);
    void *zero = mem_zalloc(n, 4);
    for (int64_t i = 0; i < count; i++) {
        SplitMaster parts = master_split(bits_of(values[i]));
        out.low[i] = parts.low;
        rest[i] = parts.rest;
    }
    Placed param = exact_place(device, split ? DT_REST : DT_F32,
                               split ? (const void *)rest : values, count, skew);
    Placed low = exact_place(device, DT_BF16, split ? (const void *)out.low : zero, count, skew);
    Placed grad = exact_place(device, DT_F32, values + count, count, skew);
    Placed m = exact_place(device, DT_BF16, zero, count, skew);
    Placed v = exact_place(device, DT_BF16, zero, count, skew);
    Placed numbers = exact_place(device, DT_F32, hyper, HYPER_COUNT, 0);
    Placed square = exact_place(device, DT_F32, &norm, 1, 0);
    op_adamw(exact_ctx(device), (UpdateArgs){.param = param.tensor,
                                             .low = low.tensor,
                                             .grad = grad.tensor,
                                             .state = {m.tensor, v.tensor},
                                             .index = FIRST,
                                             .hyper = numbers.tensor,
                                             .norm_sq = square.tensor,
                                             .tokens = 1,
                                             .decay = true});
    exact_read(device, &param, split ? (void *)rest : out.param);
    exact_read(device, &low, out.low);
    exact_read(device, &m, out.m);
    for (int64_t i = 0; split && i < count; i++) {
        out.param[i] = master_join(out.low[i], rest[i]);
    }
    Placed *placed[] = {&param, &low, &grad, &m, &v, &numbers, &square};
    for (int i = 0; i < 7; i++) {
        exact_release(device, placed[i]);
    }
    free(rest);
    free(zero);
    return out;
}

static void free_updated(Updated *u)
{
    free(u->param);
    free(u->low);
    free(u->m);
}

static void test_ops_rounding__parts_train_as_the_whole(void **state)
{
    (void)state;
    for (int size = 0; size < EXACT_SIZES; size++) {
        int64_t count = exact_sizes[size];
        float *values = mem_alloc(2 * (size_t)count * sizeof *values);
        for (int64_t i = 0; i < 2 * count; i++) { /* weights, then gradients */
            values[i] = (float)((int32_t)rounding_bits(1, 2, (uint64_t)i) * 0x1p-33);
        }
        for (int run = 0; run < exact_devices() * EXACT_SKEWS; run++) {
            int device = run / EXACT_SKEWS, skew = run % EXACT_SKEWS;
            Updated whole = run_adamw(device, false, values, count, skew);
            Updated parts = run_adamw(device, true, values, count, skew);
            for (int64_t i = 0; i < count; i++) {
                exact_expect(device, skew, (uint64_t)i, parts.param[i], whole.param[i]);
                exact_expect(device, skew, (uint64_t)i, parts.m[i], whole.m[i]);
                assert_int_not_equal(whole.param[i], bits_of(values[i]));
            }
            free_updated(&whole);
            free_updated(&parts);
        }
        free(values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_rounding__bits_are_as_written_down),
        cmocka_unit_test(test_ops_rounding__bits_are_uniform_and_apart),
        cmocka_unit_test(test_ops_rounding__mean_is_the_number),
        cmocka_unit_test(test_ops_rounding__states_are_rounded_by_chance),
        cmocka_unit_test(test_ops_rounding__masters_come_together_again),
        cmocka_unit_test(test_ops_rounding__parts_train_as_the_whole),
    };
    return cmocka_run_group_tests(tests, exact_open, exact_close);
}
