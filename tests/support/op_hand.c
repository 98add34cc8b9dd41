#include "support/op_hand.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ref/ref.h"
#include "support/op_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define ARENA_BYTES ((size_t)4 << 20)

int hand_set_up(void **state)
{
    Ctx *c = mem_zalloc(1, sizeof *c);
    op_ctx_init(c, ref_backend_open(), ARENA_BYTES);
    *state = c;
    return 0;
}

int hand_tear_down(void **state)
{
    Ctx *c = *state;
    op_ctx_free(c);
    c->backend->close(c->backend);
    free(c);
    return 0;
}

void hand_close_to(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance)) {
        fail_msg("%.15g, expected %.15g within %g", value, expected, tolerance);
    }
}

Tensor hand_filled(Ctx *c, DType dtype, int64_t a, int64_t b, const double *values)
{
    Tensor t = ctx_save(c, MEM_SCRATCH, dtype, a, b);
    for (int64_t i = 0; i < a * b; i++) {
        ref_put(t, i, values != NULL ? values[i] : NAN);
    }
    return t;
}

Tensor hand_flat(Tensor t)
{
    return tensor_1d(t.data, t.dtype, tensor_count(t));
}

Tensor hand_normals(Ctx *c, DType dtype, int64_t a, int64_t b, double scale)
{
    Tensor t = ctx_save(c, MEM_SCRATCH, dtype, a, b);
    for (int64_t i = 0; i < a * b; i++) {
        float value;
        rng_normals(5, c->saved.used, (uint64_t)i, 1, &value);
        ref_put(t, i, value * scale);
    }
    return t;
}

void hand_expect_values(Tensor t, const double *values, double tolerance)
{
    for (int64_t i = 0; i < tensor_count(t); i++) {
        hand_close_to(ref_get(t, i), values[i], tolerance);
    }
}
