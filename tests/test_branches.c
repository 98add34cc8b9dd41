/* The largest batch without loss from differences whose answer is known. */
#include "report/branches.h"

#include "support/findings_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static BranchRow row(double batch, double mean, double half)
{
    return (BranchRow){.at = 7, .batch = batch, .loss = {2, 0, 3}, .difference = {mean, half, 3}};
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
}

static BranchRow without(BranchRow row, bool diverged)
{
    row.difference = (Estimate){NAN, NAN, 0};
    row.diverged = diverged;
    return row;
}

/* A batch that diverged is one with a loss; one of which nothing came says nothing. */
static void test_branches__limit_where_runs_have_no_loss(void **state)
{
    (void)state;
    BranchRow good = row(8, 0, 0.001), far = row(32, 0, 0.001);
    check(good, without(row(16, 0, 0), true), far, 8, 8, 8);
    check(good, without(row(16, 0, 0), false), far, 32, 32, 32);
    BranchRow half = row(16, 0, NAN);
    half.diverged = true; /* in one of its repeats */
    check(good, half, far, 8, 8, 8);
    BranchRow rows[] = {row(4, 0, 0), without(row(8, 0, 0), false), without(row(16, 0, 0), true)};
    assert_true(branch_limit(rows, 3, 0.01).batch == 4);
    rows[0].loss.count = 0;
    BranchLimit limit = branch_limit(rows, 3, 0.01);
    assert_true(isnan(limit.batch) && isnan(limit.least) && isnan(limit.most));
}

/* Three batches after update 7, two repeats; nothing came of what `lost` names. */
static void plant(FindingsCase *one, int lost, const char *state, const char *reason)
{
    static const char *const settings[] = {"{\"branch-at\": \"7\", \"batch\": \"8\"}",
                                           "{\"branch-at\": \"7\", \"batch\": \"16\"}",
                                           "{\"branch-at\": \"7\", \"batch\": \"32\"}"};
    findings_case_start(one, "{\"axes\": [[\"branch-at\"], [\"batch\"]], \"tolerance\": 0.01}");
    for (int i = 0; i < 6; i++) {
        PlantedRun run = {.configuration = i % 3,
                          .repeat = i / 3,
                          .settings = settings[i % 3],
                          .tokens = 1000,
                          .training_s = 10,
                          .train_loss = 2,
                          .val_loss = 2 + 0.001 * i};
        if (i % 3 == lost) {
            run.state = state;
            run.reason = reason;
        }
        planted_run(&one->experiment, &run);
    }
    findings_case_conclude(one);
}

#define LARGEST "The largest batch that costs at most 0.01 nats at equal tokens: "

static void test_branches__findings_where_runs_have_no_loss(void **state)
{
    (void)state;
    FindingsCase one;
    plant(&one, 2, "failed", "the loss became nan at step 7");
    expect_finding(&one, FINDING_RESULT, LARGEST "16 sequences at update 7.",
                   "16 for sure, up to 16 not ruled out");
    findings_case_end(&one);
    plant(&one, 2, "timeout", "killed after 60 s");
    expect_finding(&one, FINDING_RESULT, LARGEST "16 sequences (the largest tried) at update 7.",
                   "16 for sure, up to 16 not ruled out");
    findings_case_end(&one);
    plant(&one, 0, "timeout", "killed after 60 s");
    expect_no_finding(&one, "The largest batch");
    Table table;
    assert_true(branches_table(&one.results, &table));
    assert_string_equal(table.notes[0], "At update 7 nothing can be compared with the smallest "
                                        "batch, 8 sequences; the runs below say why.");
    table_free(&table);
    findings_case_end(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branches__limit_ends_before_the_first_loss),
        cmocka_unit_test(test_branches__limit_where_runs_have_no_loss),
        cmocka_unit_test(test_branches__findings_where_runs_have_no_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
