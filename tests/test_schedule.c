/* Learning rates against literal values worked out by hand. */
#include "optim/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12)) {
        fail_msg("rate %.15g, wanted %.15g", got, want);
    }
}

static const Schedule base = {
    .peak = 1.0, .floor = 0.1, .warmup = 4, .total = 12, .decay_fraction = 0.25};

static void test_schedule__warmup_rises_to_the_peak(void **state)
{
    (void)state;
    for (int kind = SCHEDULE_COSINE; kind <= SCHEDULE_CONSTANT; kind++) {
        Schedule s = base;
        s.kind = (ScheduleKind)kind;
        near(schedule_rate(&s, 0), 0.25);
        near(schedule_rate(&s, 2), 0.75);
        near(schedule_rate(&s, 3), 1.0);
    }
}

static void test_schedule__cosine(void **state)
{
    (void)state;
    Schedule s = base;
    s.kind = SCHEDULE_COSINE;
    near(schedule_rate(&s, 5), 0.1 + 0.9 * 0.5 * (1 + sqrt(0.5)));
    near(schedule_rate(&s, 7), 0.55);
    near(schedule_rate(&s, 11), 0.1);
    near(schedule_rate(&s, 99), 0.1);
}

static void test_schedule__linear(void **state)
{
    (void)state;
    Schedule s = base;
    s.kind = SCHEDULE_LINEAR;
    near(schedule_rate(&s, 5), 0.775);
    near(schedule_rate(&s, 7), 0.55);
    near(schedule_rate(&s, 10), 0.2125);
    near(schedule_rate(&s, 11), 0.1);
    near(schedule_rate(&s, 50), 0.1);
}

static void test_schedule__wsd_stays_then_falls(void **state)
{
    (void)state;
    Schedule s = base; /* the last 3 of 12 steps decay */
    s.kind = SCHEDULE_WSD;
    near(schedule_rate(&s, 8), 1.0);
    near(schedule_rate(&s, 9), 0.1 + 0.9 * (1 - sqrt(1.0 / 3.0)));
    near(schedule_rate(&s, 10), 0.1 + 0.9 * (1 - sqrt(2.0 / 3.0)));
    near(schedule_rate(&s, 11), 0.1);
    s.decay_fraction = 1; /* begins where the warm-up ends */
    near(schedule_rate(&s, 3), 1.0);
    near(schedule_rate(&s, 7), 0.1 + 0.9 * (1 - sqrt(0.5)));
}

/* After 21 updates of 21 each kind that falls has reached the floor, with and without warm-up. */
static void test_schedule__the_last_update_has_the_floor(void **state)
{
    (void)state;
    for (int64_t warmup = 0; warmup <= 20; warmup += 10) {
        for (int kind = SCHEDULE_COSINE; kind < SCHEDULE_CONSTANT; kind++) {
            Schedule s = {.kind = (ScheduleKind)kind,
                          .peak = 1.0,
                          .floor = 0.1,
                          .warmup = warmup,
                          .total = 21,
                          .decay_fraction = 0.2};
            near(schedule_rate(&s, 20), 0.1);
        }
    }
    Schedule one = {.kind = SCHEDULE_COSINE, .peak = 1.0, .floor = 0.1, .total = 1};
    near(schedule_rate(&one, 0), 1.0);
}

static void test_schedule__constant_and_no_warmup(void **state)
{
    (void)state;
    Schedule s = base;
    s.kind = SCHEDULE_CONSTANT;
    near(schedule_rate(&s, 11), 1.0);
    s.kind = SCHEDULE_LINEAR;
    s.warmup = 0;
    s.total = 13;
    near(schedule_rate(&s, 0), 1.0);
    near(schedule_rate(&s, 6), 0.55);
}

static void test_schedule__warmup_longer_than_the_run(void **state)
{
    (void)state;
    Schedule s = base;
    s.kind = SCHEDULE_COSINE;
    s.warmup = 20;
    near(schedule_rate(&s, 11), 0.6);
    near(schedule_rate(&s, 25), 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule__warmup_rises_to_the_peak),
        cmocka_unit_test(test_schedule__cosine),
        cmocka_unit_test(test_schedule__linear),
        cmocka_unit_test(test_schedule__wsd_stays_then_falls),
        cmocka_unit_test(test_schedule__the_last_update_has_the_floor),
        cmocka_unit_test(test_schedule__constant_and_no_warmup),
        cmocka_unit_test(test_schedule__warmup_longer_than_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
