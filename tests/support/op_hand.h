#pragma once
/* For tests that call ops of ref on a few values written down by hand. The state of such a test is
 * a Ctx on ref, whose saved arena holds its tensors. */
#include "tensor/ctx.h"

int hand_set_up(void **state);
int hand_tear_down(void **state);

#define HAND_TEST(name) cmocka_unit_test_setup_teardown(name, hand_set_up, hand_tear_down)

/* (a,b) with these values, or NaN throughout when values is NULL. */
Tensor hand_filled(Ctx *c, DType dtype, int64_t a, int64_t b, const double *values);

/* (a,b) of scaled normal numbers, other ones on every call. */
Tensor hand_normals(Ctx *c, DType dtype, int64_t a, int64_t b, double scale);

/* The same elements as one dimension. */
Tensor hand_flat(Tensor t);

/* Fail the test unless within tolerance; a NaN never is. */
void hand_close_to(double value, double expected, double tolerance);
void hand_expect_values(Tensor t, const double *values, double tolerance);
