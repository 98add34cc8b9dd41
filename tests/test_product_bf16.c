/* Products of bf16 matrices by every engine that the processor has, and by that of AMX over
 * emulated tiles, against sums in double: rows, columns and depths that are no multiple of a
 * block, a result in f32 and in bf16, the same bits for any number of threads. */
#include "support/emulated_tiles.h"

#include "base/mem.h"
#include "base/rng.h"
#include "cpu/bf16/engine.h"
#include "cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    int64_t m, n, k;
} Shape;

typedef struct {
    bool a_transposed, b_transposed, wide, biased;
    Mode mode;
} Kind;

static uint16_t *random_halves(uint64_t stream, int64_t count)
{
    float *values = mem_alloc((size_t)count * sizeof *values);
    uint16_t *halves = mem_alloc((size_t)count * sizeof *halves);
    rng_normals(1, stream, 0, (uint64_t)count, values);
    for (int64_t i = 0; i < count; i++) {
        halves[i] = bf16_from_f32(values[i]);
    }
    free(values);
    return halves;
}

static double at(const uint16_t *x, bool transposed, int64_t rows, int64_t cols, int64_t i,
                 int64_t j)
{
    return (double)f32_from_bf16(transposed ? x[j * rows + i] : x[i * cols + j]);
}

typedef struct {
    Shape s;
    Kind kind;
    uint16_t *a, *b, *bias, *before;
} Case;

static Case case_of(Shape s, Kind kind)
{
    return (Case){s,
                  kind,
                  random_halves(2, s.m * s.k),
                  random_halves(3, s.k * s.n),
                  random_halves(4, s.n),
                  random_halves(5, s.m * s.n)};
}

static void free_case(Case *c)
{
    free(c->a);
    free(c->b);
    free(c->bias);
    free(c->before);
}

static void *space; /* of products on MOST_THREADS */
#define MOST_THREADS 7

static int open_space(void **state)
{
    (void)state;
    size_t bytes = product_bf16_space(MOST_THREADS);
    space = mem_checked(mem_try_aligned(bytes), bytes);
    memset(space, 0xff, bytes); /* NaN */
    return 0;
}

static int free_space(void **state)
{
    (void)state;
    free(space);
    return 0;
}

/* out (m,n), in f32 or bf16, held what `before` says. */
static void *multiply(const BfEngine *engine, const Case *c, int threads)
{
    int64_t count = c->s.m * c->s.n;
    size_t size = c->kind.wide ? sizeof(float) : sizeof(uint16_t);
    char *out = mem_alloc((size_t)count * size);
    for (int64_t i = 0; i < count; i++) {
        float value = f32_from_bf16(c->before[i]);
        memcpy(out + (size_t)i * size, c->kind.wide ? (void *)&value : (void *)&c->before[i], size);
    }
    product_bf16(threads, space,
                 (BfProduct){.engine = engine,
                             .a_transposed = c->kind.a_transposed,
                             .b_transposed = c->kind.b_transposed,
                             .m = c->s.m,
                             .n = c->s.n,
                             .k = c->s.k,
                             .a = c->a,
                             .b = c->b,
                             .bias = c->kind.biased ? c->bias : NULL,
                             .out = out,
                             .wide = c->kind.wide,
                             .mode = c->kind.mode});
    return out;
}

static void compare(const BfEngine *engine, const Case *c, const void *out)
{
    Shape s = c->s;
    for (int64_t i = 0; i < s.m; i++) {
        for (int64_t j = 0; j < s.n; j++) {
            int64_t place = i * s.n + j;
            double sum = c->kind.mode == MODE_ADD ? (double)f32_from_bf16(c->before[place]) : 0;
            sum += c->kind.biased ? (double)f32_from_bf16(c->bias[j]) : 0;
            double size = fabs(sum);
            for (int64_t l = 0; l < s.k; l++) {
                double product = at(c->a, c->kind.a_transposed, s.m, s.k, i, l) *
                                 at(c->b, c->kind.b_transposed, s.k, s.n, l, j);
                sum += product;
                size += fabs(product);
            }
            double got = c->kind.wide ? (double)((const float *)out)[place]
                                      : (double)f32_from_bf16(((const uint16_t *)out)[place]);
            double bound = 1.2e-7 * (double)(s.k + 3) * size;
            bound += c->kind.wide ? 0 : fabs(sum) / 256;
            if (!(fabs(got - sum) <= bound)) {
                fail_msg("%s, (%lld, %lld, %lld)%s%s: element (%lld, %lld) is %.9g, not %.9g",
                         engine->name, (long long)s.m, (long long)s.n, (long long)s.k,
                         c->kind.a_transposed ? ", a transposed" : "",
                         c->kind.b_transposed ? ", b transposed" : "", (long long)i, (long long)j,
                         got, sum);
            }
        }
    }
}

static void check(const BfEngine *engine, Shape s, Kind kind)
{
    Case c = case_of(s, kind);
    void *out = multiply(engine, &c, 1);
    compare(engine, &c, out);
    const int threads[] = {2, MOST_THREADS};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        void *again = multiply(engine, &c, threads[t]);
        size_t size = kind.wide ? sizeof(float) : sizeof(uint16_t);
        assert_memory_equal(out, again, (size_t)(s.m * s.n) * size);
        free(again);
    }
    free(out);
    free_case(&c);
}

static void check_kinds(const BfEngine *engine, Shape s)
{
    for (int bits = 0; bits < 32; bits++) {
        Kind kind = {bits & 1, bits & 2, bits & 4, bits & 8, bits & 16 ? MODE_ADD : MODE_SET};
        if (!kind.a_transposed || (kind.wide && !kind.biased)) {
            check(engine, s, kind);
        }
    }
}

/* The processor's engines and that of the emulated tiles, NULL after the last; product.c itself
 * needs AVX-512. */
static void list_engines(const BfEngine *list[4])
{
    int count = 0;
    for (const BfEngine *const *own = cpu_bf16_engines(); *own != NULL; own++) {
        list[count++] = *own;
    }
    if (cpu_level() == 2) {
        list[count++] = &emulated_tiles;
    }
    list[count] = NULL;
    if (count == 0) {
        skip();
    }
}

static void every_engine_gives_the_product(void **state)
{
    (void)state;
    const BfEngine *list[4];
    list_engines(list);
    /* Less than a block; rows left over in every number that registers may hold at once; all of k
     * in one step, in two and a bit, and deeper than what stays in L1. */
    const Shape small[] = {{1, 1, 1},   {2, 33, 31},  {3, 16, 32},   {4, 17, 33},
                           {13, 7, 64}, {29, 40, 70}, {17, 65, 257}, {33, 5, 530}};
    /* Worth several threads; more of k than what is packed of a transposed a. */
    const Shape large[] = {{70, 300, 601}, {517, 67, 333}, {40, 33, 2100}};
    for (const BfEngine **engine = list; *engine != NULL; engine++) {
        for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
            check_kinds(*engine, small[i]);
        }
        for (int bits = 0; bits < 12; bits++) {
            check(*engine, large[bits / 4], (Kind){bits & 1, bits & 2, true, false, MODE_SET});
        }
    }
}

/* More of k than there is room for b of 32 columns: sums wait from one part to the next. */
static void a_deep_product_is_made_in_parts(void **state)
{
    (void)state;
    const BfEngine *list[4];
    list_engines(list);
    for (const BfEngine **engine = list; *engine != NULL; engine++) {
        for (int bits = 0; bits < 4; bits++) {
            Kind kind = {bits & 1, bits & 2, true, false, MODE_ADD};
            check(*engine, (Shape){3, 34, 262144 + 45}, kind);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_engine_gives_the_product),
        cmocka_unit_test(a_deep_product_is_made_in_parts),
    };
    return cmocka_run_group_tests_name("product_bf16", tests, open_space, free_space);
}
