/* The sensors of a GPU, asked of a stand-in for the driver's library (nvml/fake_nvml.c): what is
 * answered, what is missing, who else computes; and the watch over a run. */
#include "cuda/cuda.h"
#include "record/watch.h"

#include "nvml/fake_nvml.h"
#include "support/json_assert.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define BUS "0000:3B:00.0"
#define GIB 1073741824.0
#define NOT_AVAILABLE (~0ull)

/* The library's own state, set to a GPU at work with nobody else on it. The library stays
 * loaded. */
static FakeNvml *fake(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW);
    if (handle == NULL) {
        fail_msg("%s", dlerror());
    }
    FakeNvml *state = dlsym(handle, "fake_nvml");
    assert_non_null(state);
    *state = (FakeNvml){.bus_id = BUS,
                        .sm_mhz = 1980,
                        .memory_mhz = 3201,
                        .milliwatt = 612345,
                        .limit_milliwatt = 700000,
                        .celsius = 61,
                        .total = 150ull << 30,
                        .used = 20ull << 30,
                        .processes = {{(unsigned)getpid(), 19ull << 30}},
                        .process_count = 1};
    return state;
}

static void test_sensors__answers_arrive_in_their_units(void **state)
{
    (void)state;
    FakeNvml *nvml = fake(PACER_FAKE_NVML);
    Sensors *sensors = cuda_sensors_at(PACER_FAKE_NVML, BUS);
    assert_non_null(sensors);
    GpuReading r = sensors_read(sensors);
    assert_true(r.known);
    assert_true(r.sm_mhz == 1980 && r.memory_mhz == 3201);
    assert_true(fabs(r.power_w - 612.345) < 1e-9 && r.power_limit_w == 700);
    assert_true(r.temperature_c == 61);
    assert_true(r.used_bytes == 20 * GIB && r.total_bytes == 150 * GIB);
    assert_true(r.throttle == 0 && r.other_processes == 0 && r.other_bytes == 0);
    assert_int_equal(nvml->opened, 1);
    sensors_close(sensors);
    assert_int_equal(nvml->opened, 0);
}

static void test_sensors__what_is_missing_is_not_known(void **state)
{
    (void)state;
    FakeNvml *nvml = fake(PACER_FAKE_NVML_OLD);
    nvml->reasons = 0x4;
    Sensors *sensors = cuda_sensors_at(PACER_FAKE_NVML_OLD, BUS);
    assert_non_null(sensors);
    GpuReading r = sensors_read(sensors);
    assert_true(r.known && r.sm_mhz == 1980 && r.used_bytes == 20 * GIB);
    assert_true(isnan(r.power_w) && isnan(r.power_limit_w) && isnan(r.temperature_c));
    assert_true(r.throttle == 0x4); /* under its older name */
    assert_true(r.other_processes == -1 && isnan(r.other_bytes));
    nvml->value_result = 3; /* not supported */
    r = sensors_read(sensors);
    assert_true(!r.known && isnan(r.sm_mhz) && isnan(r.used_bytes) && r.throttle == 0);
    sensors_close(sensors);
}

static void test_sensors__no_library_no_gpu_no_error(void **state)
{
    (void)state;
    FakeNvml *nvml = fake(PACER_FAKE_NVML);
    assert_null(cuda_sensors_at("libno-such-library.so.1", BUS));
    assert_null(cuda_sensors_at(PACER_FAKE_NVML, "0000:17:00.0"));
    assert_int_equal(nvml->opened, 0);
    nvml->init_result = 9; /* the driver is not loaded */
    assert_null(cuda_sensors_at(PACER_FAKE_NVML, BUS));
    assert_int_equal(nvml->opened, 0);
    assert_false(sensors_read(NULL).known);
    sensors_own(NULL, 1);
    sensors_close(NULL);
}

static void expect_others(const FakeProcess *list, unsigned count, double used, double own,
                          int processes, double bytes)
{
    FakeNvml *nvml = fake(PACER_FAKE_NVML);
    for (unsigned i = 0; i < count; i++) {
        nvml->processes[i] = list[i];
    }
    nvml->process_count = count;
    nvml->used = (unsigned long long)used;
    Sensors *sensors = cuda_sensors_at(PACER_FAKE_NVML, BUS);
    sensors_own(sensors, own);
    GpuReading r = sensors_read(sensors);
    sensors_close(sensors);
    if (r.other_processes != processes ||
        !(r.other_bytes == bytes || (isnan(bytes) && isnan(r.other_bytes)))) {
        fail_msg("%d processes with %g bytes, expected %d with %g", r.other_processes,
                 r.other_bytes, processes, bytes);
    }
}

static void test_sensors__others_are_counted_without_this_process(void **state)
{
    (void)state;
    unsigned self = (unsigned)getpid();
    const FakeProcess mixed[] = {{7, 3ull << 30}, {self, 9ull << 30}, {8, 4ull << 30}};
    expect_others(mixed, 3, 16 * GIB, NAN, 2, 7 * GIB);
    expect_others(mixed + 1, 1, 16 * GIB, NAN, 0, 0);
    const FakeProcess silent[] = {{self, NOT_AVAILABLE}, {7, NOT_AVAILABLE}};
    expect_others(silent, 2, 16 * GIB, NAN, 1, NAN);
    /* A container: the ids are those of the machine. The entry closest to what this process
     * holds is it. */
    const FakeProcess foreign[] = {{4000007, 3ull << 30}, {4000008, 9ull << 30}};
    expect_others(foreign, 2, 13 * GIB, 8.5 * GIB, 1, 3 * GIB);
    expect_others(foreign, 2, 13 * GIB, 2 * GIB, 1, 9 * GIB);
    expect_others(foreign, 1, 13 * GIB, NAN, 0, 0);
    /* Or nothing is listed: memory alone tells. */
    expect_others(NULL, 0, 13 * GIB, 12 * GIB, 0, 0);
    expect_others(NULL, 0, 25 * GIB, 12 * GIB, 1, 11 * GIB);
    expect_others(NULL, 0, 25 * GIB, NAN, -1, NAN);
    /* More than are looked at. */
    static const FakeProcess crowd[65];
    expect_others(crowd, 65, 25 * GIB, GIB, -1, NAN);
}

static void test_sensors__throttling_in_words(void **state)
{
    (void)state;
    char text[128];
    assert_string_equal(sensors_throttle_text(0, text, sizeof text), "");
    assert_string_equal(sensors_throttle_text(0x1 | 0x2 | 0x100, text, sizeof text), "");
    assert_string_equal(sensors_throttle_text(0x4 | 0x20 | 0x1, text, sizeof text),
                        "power cap, thermal");
    assert_string_equal(sensors_throttle_text(~0ull, text, sizeof text),
                        "power cap, hardware slowdown, sync boost, thermal, hardware thermal, "
                        "power brake");
    char small[12];
    assert_string_equal(sensors_throttle_text(~0ull, small, sizeof small), "power cap, ");
    FakeNvml *nvml = fake(PACER_FAKE_NVML);
    nvml->reasons = 0x1 | 0x2 | 0x100 | 0x40;
    Sensors *sensors = cuda_sensors_at(PACER_FAKE_NVML, BUS);
    assert_true(sensors_read(sensors).throttle == 0x40);
    sensors_close(sensors);
}

static void test_sensors__watch_takes_one_reading_a_second(void **state)
{
    (void)state;
    FakeNvml *nvml = fake(PACER_FAKE_NVML);
    Sensors *sensors = cuda_sensors_at(PACER_FAKE_NVML, BUS);
    GpuWatch watch;
    gpu_watch_start(&watch, sensors);
    assert_null(gpu_watch_json(&watch));
    assert_true(gpu_watch_poll(&watch, 100));
    nvml->sm_mhz = 1;
    assert_false(gpu_watch_poll(&watch, 100.99));
    nvml->sm_mhz = 1500;
    nvml->milliwatt = 700000;
    nvml->reasons = 0x4;
    assert_true(gpu_watch_poll(&watch, 101));
    nvml->sm_mhz = 1410;
    nvml->reasons = 0x20;
    nvml->processes[1] = (FakeProcess){5, 2ull << 30};
    nvml->process_count = 2;
    assert_true(gpu_watch_poll(&watch, 107.5));
    nvml->sm_mhz = 1980;
    nvml->milliwatt = 612345;
    nvml->reasons = 0;
    nvml->process_count = 1;
    assert_true(gpu_watch_poll(&watch, 108.5));
    nvml->value_result = 3; /* no answer: no reading */
    assert_true(gpu_watch_poll(&watch, 109.5));
    cJSON *json = gpu_watch_json(&watch);
    assert_true(number(json, "readings") == 4);
    assert_true(number(member(json, "sm_mhz"), "min") == 1410);
    assert_true(number(member(json, "sm_mhz"), "mean") == (1980 + 1500 + 1410 + 1980) / 4.0);
    assert_true(number(member(json, "sm_mhz"), "max") == 1980);
    assert_true(fabs(number(member(json, "power_w"), "mean") - (612.345 + 700) / 2) < 1e-9);
    assert_true(number(json, "power_limit_w") == 700);
    assert_text(json, "throttle", "power cap, thermal");
    assert_true(number(json, "throttled_share") == 0.25); /* the power limit is apart */
    assert_true(number(json, "power_capped_share") == 0.25);
    assert_true(number(json, "other_processes") == 1);
    assert_true(number(json, "other_bytes") == 2 * GIB);
    cJSON_Delete(json);
    sensors_close(sensors);
}

static void test_sensors__watch_without_sensors(void **state)
{
    (void)state;
    GpuWatch watch;
    gpu_watch_start(&watch, NULL);
    assert_false(gpu_watch_poll(&watch, 1));
    assert_null(gpu_watch_json(&watch));
    GpuReading partly = sensors_read(NULL);
    partly.known = true;
    partly.temperature_c = 50;
    gpu_watch_add(&watch, &partly);
    cJSON *json = gpu_watch_json(&watch);
    assert_true(number(member(json, "temperature_c"), "max") == 50);
    assert_null(cJSON_GetObjectItem(json, "sm_mhz"));
    assert_null(cJSON_GetObjectItem(json, "power_limit_w"));
    assert_null(cJSON_GetObjectItem(json, "other_processes"));
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sensors__answers_arrive_in_their_units),
        cmocka_unit_test(test_sensors__what_is_missing_is_not_known),
        cmocka_unit_test(test_sensors__no_library_no_gpu_no_error),
        cmocka_unit_test(test_sensors__others_are_counted_without_this_process),
        cmocka_unit_test(test_sensors__throttling_in_words),
        cmocka_unit_test(test_sensors__watch_takes_one_reading_a_second),
        cmocka_unit_test(test_sensors__watch_without_sensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
