/* The largest batch without loss from differences whose answer is known. */
#include "report/branches.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static BranchRow row(double batch, double mean, double half)
{
    return (BranchRow){.at = 7, .batch = batch, .difference = {mean, half, 3}};
}

static void check(BranchRow a, BranchRow b, BranchRow c, double batch, double least, double most)
{
    BranchRow rows[] = {row(4, 0, 0), a, b, c};
    BranchLimit limit = branch_limit(rows, 4, 0.01);
    assert_true(limit.at == 7 && limit.batch == batch);
    assert_true(limit.least == least || (isnan(least) && isnan(limit.least)));
    assert_true(limit.most == most || (isnan(most) && isnan(limit.most)));
}

static void test_branches__limit_ends_before_the_first_loss(void **state)
{
    (void)state;
    check(row(8, 0, 0.001), row(16, 0.009, 0.005), row(32, 0.05, 0.01), 16, 8, 16);
    check(row(8, 0.02, 0.001), row(16, 0, 0.001), row(32, 0, 0.001), 4, 4, 4);
    check(row(8, -0.1, 0.02), row(16, 0.02, 0.02), row(32, 0.3, 1), 8, 8, 32);
    check(row(8, 0, 0), row(16, 0.01, 0), row(32, 0.01, 0), 32, 32, 32);
    check(row(8, 0, NAN), row(16, 0, NAN), row(32, 0.02, NAN), 16, NAN, NAN);
    check(row(8, 0, 0), row(16, NAN, NAN), row(32, 0, 0), 8, NAN, NAN); /* a run is missing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branches__limit_ends_before_the_first_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
