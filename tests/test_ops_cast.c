/* op_cast, bit by bit against plain loops of this file. */
#include "support/op_exact.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void run_cast(int device, DType from_type, const void *from, DType to_type, void *to,
                     int64_t count, int skew)
{
    size_t to_bytes = (size_t)count * dtype_size(to_type);
    memset(to, 0xFF, to_bytes);
    Placed source = exact_place(device, from_type, from, count, skew);
    Placed target = exact_place(device, to_type, to, count, skew);
    op_cast(exact_ctx(device), source.tensor, target.tensor);
    exact_read(device, &target, to);
    exact_release(device, &source);
    exact_release(device, &target);
}

static bool is_nan_f32(uint32_t bits)
{
    return (bits & 0x7FFFFFFF) > 0x7F800000;
}

static bool is_nan_bf16(uint16_t bits)
{
    return (bits & 0x7FFF) > 0x7F80;
}

/* A NaN need only be one again. */
static void expect_f32(int device, int skew, uint16_t from, uint32_t got)
{
    if (is_nan_bf16(from)) {
        exact_expect(device, skew, from, is_nan_f32(got), true);
    } else {
        exact_expect(device, skew, from, got, (uint32_t)from << 16);
    }
}

/* The number of a bf16 pattern without its sign; infinity stands for the number behind the
 * largest. */
static double value_of(uint32_t pattern)
{
    uint32_t exponent = pattern >> 7, fraction = pattern & 0x7F;
    return exponent == 0 ? ldexp(fraction, -133) : ldexp(128 + fraction, (int)exponent - 134);
}

/* The nearer of the two patterns around a number that is at least 0, the even one of two as
 * near. */
static uint16_t nearest(uint32_t below, double value)
{
    double down = value - value_of(below), up = value_of(below + 1) - value;
    return (uint16_t)(down < up || (down == up && below % 2 == 0) ? below : below + 1);
}

static void expect_bf16(int device, int skew, uint32_t from, uint16_t got)
{
    uint32_t magnitude = from & 0x7FFFFFFF;
    if (is_nan_f32(from)) {
        exact_expect(device, skew, from, is_nan_bf16(got), true);
        return;
    }
    float value;
    memcpy(&value, &magnitude, sizeof value);
    uint16_t wanted = isinf(value) ? 0x7F80 : nearest(magnitude >> 16, value);
    exact_expect(device, skew, from, got, wanted | (from >> 16 & 0x8000));
}

static void test_ops_cast__every_bf16_to_f32_and_back(void **state)
{
    (void)state;
    enum { COUNT = 65536 };
    uint16_t *half = mem_alloc(COUNT * sizeof *half), *back = mem_alloc(COUNT * sizeof *back);
    uint32_t *wide = mem_alloc(COUNT * sizeof *wide);
    for (uint32_t i = 0; i < COUNT; i++) {
        half[i] = (uint16_t)i;
    }
    for (int device = 0; device < exact_devices(); device++) {
        run_cast(device, DT_BF16, half, DT_F32, wide, COUNT, 0);
        run_cast(device, DT_F32, wide, DT_BF16, back, COUNT, 0);
        for (uint32_t i = 0; i < COUNT; i++) {
            expect_f32(device, 0, half[i], wide[i]);
            if (is_nan_bf16(half[i])) {
                assert_true(is_nan_bf16(back[i]));
            } else {
                exact_expect(device, 0, i, back[i], i);
            }
        }
    }
    free(half);
    free(back);
    free(wide);
}

static void test_ops_cast__f32_rounds_as_written_down(void **state)
{
    (void)state;
    static const struct {
        uint32_t from;
        uint16_t to;
    } cases[] = {
        {0x3F800000, 0x3F80},                       /* 1 */
        {0x3F807FFF, 0x3F80},                       /* below halfway */
        {0x3F808000, 0x3F80},                       /* halfway, even below */
        {0x3F808001, 0x3F81},                       /* above halfway */
        {0x3F818000, 0x3F82},                       /* halfway, even above */
        {0xBF818000, 0xBF82}, {0x3FFF8000, 0x4000}, /* into the next exponent */
        {0x00000000, 0x0000}, {0x80000000, 0x8000}, /* zeros keep their signs */
        {0x00000001, 0x0000}, {0x80000001, 0x8000}, /* too small for a denormal */
        {0x00008000, 0x0000}, {0x00008001, 0x0001}, /* beside half the smallest denormal */
        {0x00018000, 0x0002}, {0x007FFFFF, 0x0080}, /* the largest denormal becomes normal */
        {0x7F7F7FFF, 0x7F7F}, {0x7F7F8000, 0x7F80}, /* the largest, and what is too large */
        {0x7F7FFFFF, 0x7F80}, {0xFF7FFFFF, 0xFF80}, {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80},
    };
    static const uint32_t nans[] = {0x7F800001, 0xFF800001, 0x7F80FFFF, 0x7FC00000,
                                    0x7FFFFFFF, 0xFFFFFFFF, 0x7FFF8000, 0xFFFF8000};
    enum { CASES = sizeof cases / sizeof cases[0], NANS = sizeof nans / sizeof nans[0] };
    uint32_t from[CASES + NANS];
    uint16_t to[CASES + NANS];
    for (int i = 0; i < CASES + NANS; i++) {
        from[i] = i < CASES ? cases[i].from : nans[i - CASES];
    }
    for (int device = 0; device < exact_devices(); device++) {
        run_cast(device, DT_F32, from, DT_BF16, to, CASES + NANS, 0);
        for (int i = 0; i < CASES + NANS; i++) {
            if (i < CASES) {
                exact_expect(device, 0, from[i], to[i], cases[i].to);
            } else {
                exact_expect(device, 0, from[i], is_nan_bf16(to[i]), true);
            }
        }
    }
}

/* All upper halves, and lower ones at and beside the points where the result changes. */
static void test_ops_cast__f32_rounds_to_nearest_everywhere(void **state)
{
    (void)state;
    static const uint32_t lower[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    enum { LOWER = 6, COUNT = 65536 * LOWER };
    uint32_t *from = mem_alloc(COUNT * sizeof *from);
    uint16_t *to = mem_alloc(COUNT * sizeof *to);
    for (uint32_t i = 0; i < COUNT; i++) {
        from[i] = i / LOWER << 16 | lower[i % LOWER];
    }
    for (int device = 0; device < exact_devices(); device++) {
        run_cast(device, DT_F32, from, DT_BF16, to, COUNT, 0);
        for (uint32_t i = 0; i < COUNT; i++) {
            expect_bf16(device, 0, from[i], to[i]);
        }
    }
    free(from);
    free(to);
}

static void test_ops_cast__any_size_and_alignment(void **state)
{
    (void)state;
    uint8_t *bits = exact_random_bits();
    const uint16_t *half = (const uint16_t *)bits;
    const uint32_t *full = (const uint32_t *)bits;
    int64_t most = exact_sizes[EXACT_SIZES - 1];
    uint16_t *narrow = mem_alloc((size_t)most * sizeof *narrow);
    uint32_t *wide = mem_alloc((size_t)most * sizeof *wide);
    for (int run = 0; run < exact_devices() * EXACT_SIZES * EXACT_SKEWS; run++) {
        int skew = run % EXACT_SKEWS, device = run / EXACT_SKEWS / EXACT_SIZES;
        int64_t count = exact_sizes[run / EXACT_SKEWS % EXACT_SIZES];
        run_cast(device, DT_F32, full, DT_BF16, narrow, count, skew);
        run_cast(device, DT_BF16, half, DT_F32, wide, count, skew);
        for (int64_t i = 0; i < count; i++) {
            expect_bf16(device, skew, full[i], narrow[i]);
            expect_f32(device, skew, half[i], wide[i]);
        }
    }
    free(bits);
    free(narrow);
    free(wide);
}

/* NaN included. */
static void test_ops_cast__same_type_is_a_copy(void **state)
{
    (void)state;
    static const DType types[] = {DT_F32, DT_BF16, DT_F64};
    uint8_t *bits = exact_random_bits(),
            *copy = mem_alloc((size_t)exact_sizes[EXACT_SIZES - 1] * sizeof(double));
    memcpy(bits, &(uint32_t){0x7F800001}, 4);
    for (int run = 0; run < exact_devices() * EXACT_SIZES * 3; run++) {
        int64_t count = exact_sizes[run / 3 % EXACT_SIZES];
        DType dtype = types[run % 3];
        run_cast(run / 3 / EXACT_SIZES, dtype, bits, dtype, copy, count, run % 2);
        assert_memory_equal(copy, bits, (size_t)count * dtype_size(dtype));
    }
    free(bits);
    free(copy);
}

/* Numbers that come out otherwise when f32 lies between. */
static void test_ops_cast__f64_is_rounded_once(void **state)
{
    (void)state;
    static const struct {
        double from;
        uint16_t to;
    } cases[] = {
        {1, 0x3F80},
        {1 + 0x1p-8, 0x3F80},
        {1 + 0x1p-8 + 0x1p-40, 0x3F81},
        {-1 - 0x1p-8 - 0x1p-40, 0xBF81},
        {1 + 0x3p-8 - 0x1p-40, 0x3F81},
        {1 + 0x3p-8, 0x3F82},
        {0x1p-134, 0},
        {0x1p-134 + 0x1p-170, 1},
        {-0x1p-1000, 0x8000},
        {0x1.FFp127, 0x7F80},
        {0x1.FEFFFFFFFFp127, 0x7F7F},
        {1e300, 0x7F80},
        {-1e300, 0xFF80},
        {-INFINITY, 0xFF80},
    };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    double from[COUNT + 1] = {0}, wide[COUNT + 1];
    float single[COUNT + 1];
    uint16_t to[COUNT + 1];
    from[COUNT] = NAN;
    for (int i = 0; i < COUNT; i++) {
        from[i] = cases[i].from;
    }
    for (int device = 0; device < exact_devices(); device++) {
        if (!exact_has_f64(device)) {
            continue;
        }
        run_cast(device, DT_F64, from, DT_BF16, to, COUNT + 1, 0);
        run_cast(device, DT_F64, from, DT_F32, single, COUNT + 1, 0);
        run_cast(device, DT_F32, single, DT_F64, wide, COUNT + 1, 0);
        for (int i = 0; i < COUNT; i++) {
            exact_expect(device, 0, (uint64_t)i, to[i], cases[i].to);
            assert_true(single[i] == (float)from[i] && wide[i] == (double)single[i]);
        }
        assert_true(is_nan_bf16(to[COUNT]) && isnan(single[COUNT]) && isnan(wide[COUNT]));
    }
}

static void test_ops_cast__work_is_counted(void **state)
{
    (void)state;
    Ctx c;
    ctx_init(&c, exact_ctx(0)->backend);
    c.dry = true;
    op_cast(&c, tensor_2d(NULL, DT_F32, 3, 5), tensor_1d(NULL, DT_BF16, 15));
    assert_int_equal(c.stats[OP_CAST].calls, 1);
    assert_true(c.stats[OP_CAST].bytes == 15 * 6 && c.stats[OP_CAST].flops == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_cast__every_bf16_to_f32_and_back),
        cmocka_unit_test(test_ops_cast__f32_rounds_as_written_down),
        cmocka_unit_test(test_ops_cast__f32_rounds_to_nearest_everywhere),
        cmocka_unit_test(test_ops_cast__any_size_and_alignment),
        cmocka_unit_test(test_ops_cast__same_type_is_a_copy),
        cmocka_unit_test(test_ops_cast__f64_is_rounded_once),
        cmocka_unit_test(test_ops_cast__work_is_counted),
    };
    return cmocka_run_group_tests(tests, exact_open, exact_close);
}
