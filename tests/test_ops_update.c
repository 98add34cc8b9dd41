/* Updates in which tokens are left out, on every device, to the bit: where none counts nothing is
 * written, and a gradient that is to be taken as it is does not know of them. */
#include "support/op_exact.h"

#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TOKENS 24
enum { PARAM, LOW, GRAD, FIRST, SECOND, BUFFERS };

/* States in bf16; weights with a copy in bf16, and what they are beside it: masters as a whole, or
 * what the copy lacks. Where there is none the fast kernels of a processor are asked. */
typedef struct {
    bool low_states, copy, split;
} Kind;

static const Kind kinds[] = {{false, false, false}, {true, false, false}, {false, true, false},
                             {true, true, false},   {false, true, true},  {true, true, true}};
#define KINDS (int)(sizeof kinds / sizeof kinds[0])

static DType type_of(Kind kind, int buffer)
{
    return buffer == LOW                        ? DT_BF16
           : buffer == PARAM && kind.split      ? DT_REST
           : buffer >= FIRST && kind.low_states ? DT_BF16
                                                : DT_F32;
}

/* All that an update may write. */
typedef struct {
    uint8_t *bytes[BUFFERS];
    size_t size[BUFFERS];
} Written;

static void free_written(Written *w)
{
    for (int i = 0; i < BUFFERS; i++) {
        free(w->bytes[i]);
    }
}

static void fill(Written *w, Kind kind, int64_t count)
{
    for (int i = 0; i < BUFFERS; i++) {
        DType type = type_of(kind, i);
        w->size[i] = (size_t)count * dtype_size(type);
        w->bytes[i] = mem_zalloc(w->size[i], 1);
        for (int64_t k = 0; k < count; k++) {
            float value = (i == SECOND ? 0.5F : 0.25F) + (float)(k % 37) / 64;
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            uint16_t upper = (uint16_t)(bits >> 16);
            bool half = dtype_size(type) == 2;
            memcpy(w->bytes[i] + (size_t)k * dtype_size(type), half ? (void *)&upper : &value,
                   dtype_size(type));
        }
    }
}

/* An update of what `fill` gives. left_out below 0: none given. */
static Written update(int device, bool adaptive, Kind kind, int64_t count, int skew, float left_out,
                      bool as_is)
{
    Written w;
    fill(&w, kind, count);
    float hyper[HYPER_COUNT] = {
        [HYPER_LR] = 0.125F,  [HYPER_BETA1] = 0.5F,    [HYPER_BETA2] = 0.75F,
        [HYPER_REST1] = 0.5F, [HYPER_REST2] = 0.25F,   [HYPER_EPS] = 0.5F,
        [HYPER_DECAY] = 0.5F, [HYPER_CORRECTION1] = 1, [HYPER_CORRECTION2] = 1,
        [HYPER_CLIP] = 1024,  [HYPER_KEY1] = 0xABCDEF, [HYPER_KEY2] = 0x123457};
    float norm = 1;
    Placed at[BUFFERS], numbers = exact_place(device, DT_F32, hyper, HYPER_COUNT, 0);
    Placed square = exact_place(device, DT_F32, &norm, 1, 0);
    Placed out = exact_place(device, DT_F32, &left_out, 1, 0);
    for (int i = 0; i < BUFFERS; i++) {
        at[i] = exact_place(device, type_of(kind, i), w.bytes[i], count, skew);
    }
    UpdateArgs args = {.param = at[PARAM].tensor,
                       .low = kind.copy ? at[LOW].tensor : TENSOR_NONE,
                       .grad = at[GRAD].tensor,
                       .state = {at[FIRST].tensor, adaptive ? at[SECOND].tensor : TENSOR_NONE},
                       .hyper = numbers.tensor,
                       .norm_sq = square.tensor,
                       .left_out = left_out < 0 ? TENSOR_NONE : out.tensor,
                       .tokens = TOKENS,
                       .as_is = as_is,
                       .decay = true};
    (adaptive ? op_adamw : op_sgd)(exact_ctx(device), args);
    for (int i = 0; i < BUFFERS; i++) {
        exact_read(device, &at[i], w.bytes[i]);
        exact_release(device, &at[i]);
    }
    exact_release(device, &numbers);
    exact_release(device, &square);
    exact_release(device, &out);
    return w;
}

/* Whether all that is written is the same; the copy and masters in parts are compared too. */
static bool same(const Written *a, const Written *b)
{
    bool equal = true;
    for (int i = 0; i < BUFFERS; i++) {
        equal = equal && memcmp(a->bytes[i], b->bytes[i], a->size[i]) == 0;
    }
    return equal;
}

static void check(int device, bool adaptive, Kind kind, int64_t count, int skew)
{
    Written before;
    fill(&before, kind, count);
    const float none_counts[] = {TOKENS, TOKENS + 1};
    for (int i = 0; i < 4; i++) {
        Written w = update(device, adaptive, kind, count, skew, none_counts[i % 2], i / 2 > 0);
        exact_expect(device, skew, (uint64_t)count, same(&w, &before), true);
        free_written(&w);
    }
    Written plain = update(device, adaptive, kind, count, skew, -1, false);
    Written all = update(device, adaptive, kind, count, skew, 0, false);
    Written some = update(device, adaptive, kind, count, skew, 16, false);
    Written given = update(device, adaptive, kind, count, skew, 16, true);
    exact_expect(device, skew, (uint64_t)count, same(&plain, &before), false);
    exact_expect(device, skew, (uint64_t)count, same(&all, &plain), true);
    exact_expect(device, skew, (uint64_t)count, same(&some, &plain), false);
    exact_expect(device, skew, (uint64_t)count, same(&given, &plain), true);
    Written *made[] = {&before, &plain, &all, &some, &given};
    for (int i = 0; i < 5; i++) {
        free_written(made[i]);
    }
}

static void test_ops_update__nothing_is_written_where_no_token_counts(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 1003, 20011};
    for (int device = 0; device < exact_devices(); device++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (int which = 0; which < 2 * KINDS; which++) {
                check(device, which % 2 > 0, kinds[which / 2], sizes[i], (int)(i % EXACT_SKEWS));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_update__nothing_is_written_where_no_token_counts),
    };
    return cmocka_run_group_tests(tests, exact_open, exact_close);
}
