/* Ceilings: how the best of several measurements is kept, when a run believes it, and which
 * products a model is made of. */
#include "analyse/products.h"
#include "record/ceilings.h"

#include "base/cache.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/json_assert.h"
#include "support/own_folder.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A cache folder of its own for each test. */
static int make_folder(void **state)
{
    unsetenv("PACER_TUNE");
    unsetenv("PACER_TUNE_CACHE");
    return own_folder_make(state) != 0 || setenv("XDG_CACHE_HOME", own_folder, 1) != 0;
}

/* The only file in the own_folder, or "" when there is none; caller frees. */
static char *only_file(void)
{
    char *cache = io_join(own_folder, "pacer"), *found = NULL;
    DIR *list = opendir(cache);
    for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
        if (entry->d_name[0] != '.') {
            assert_null(found);
            found = io_join(cache, entry->d_name);
        }
    }
    if (list != NULL) {
        closedir(list);
    }
    free(cache);
    return found != NULL ? found : strdup("");
}

static Ceilings with_one(const char *name, const char *unit, double value, const char *date)
{
    Ceilings c = {.key = {"host", "A Device / 80 GB", "library 1"}, .count = 1};
    Ceiling *item = &c.items[0];
    *item = (Ceiling){.unit = unit, .how = "so", .value = value, .best = value};
    item->is_time = strcmp(unit, "s") == 0;
    snprintf(item->name, sizeof item->name, "%s", name);
    snprintf(item->date, sizeof item->date, "%s", date);
    snprintf(c.date, sizeof c.date, "%s", date);
    return c;
}

/* Stores a measurement; the best afterwards, and what is found in the file, are as expected. */
static void expect_best(Ceilings c, double best, const char *date)
{
    assert_int_equal(ceilings_store(&c), 0);
    assert_true(c.items[0].best == best);
    assert_string_equal(c.items[0].date, date);
    double value = 0;
    char when[CLOCK_STAMP_SIZE];
    assert_true(ceilings_find(&c.key, c.items[0].name, &value, when));
    assert_true(value == best);
    assert_string_equal(when, date);
}

static void test_ceilings__the_best_stays(void **state)
{
    (void)state;
    expect_best(with_one("copy", "B/s", 100, "day 1"), 100, "day 1");
    expect_best(with_one("copy", "B/s", 90, "day 2"), 100, "day 1");
    expect_best(with_one("copy", "B/s", 120, "day 3"), 120, "day 3");
    expect_best(with_one("launch", "s", 5, "day 4"), 5, "day 4");
    expect_best(with_one("launch", "s", 6, "day 5"), 5, "day 4");
    expect_best(with_one("launch", "s", 4, "day 6"), 4, "day 6");
    expect_best(with_one("copy", "B/s", 1, "day 7"), 120, "day 3"); /* other names stay */
    char *file = only_file();
    assert_non_null(strstr(file, "ceilings-host-A-Device---80-GB-"));
    free(file);
}

static void test_ceilings__machines_are_kept_apart(void **state)
{
    (void)state;
    Ceilings c = with_one("copy", "B/s", 100, "day 1");
    expect_best(c, 100, "day 1");
    double value;
    char date[CLOCK_STAMP_SIZE];
    CeilingKey other = {"host", "A Device / 80 GB", "library 2"};
    assert_false(ceilings_find(&other, "copy", &value, date));
    assert_false(ceilings_find(&c.key, "launch", &value, date));
    /* A file that says it is of another machine. */
    char *file = only_file();
    cJSON *tree;
    assert_int_equal(json_load(file, &tree), 0);
    cJSON_SetValuestring(cJSON_GetObjectItem(cJSON_GetObjectItem(tree, "machine"), "host"), "tsoh");
    assert_int_equal(json_save(file, tree), 0);
    cJSON_Delete(tree);
    free(file);
    assert_false(ceilings_find(&c.key, "copy", &value, date));
    expect_best(with_one("copy", "B/s", 90, "day 2"), 90, "day 2");
}

static void test_ceilings__broken_files_are_replaced(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "",
        "{",
        "[]",
        "{\"machine\": 7, \"ceilings\": 8}",
        "{\"machine\": {\"host\": \"host\", \"device\": \"A Device / 80 GB\", \"library\": "
        "\"library 1\"}, \"ceilings\": [1]}",
        "{\"machine\": {\"host\": \"host\", \"device\": \"A Device / 80 GB\", \"library\": "
        "\"library 1\"}, \"ceilings\": {\"copy\": {\"value\": \"much\", \"date\": 3}}}",
        "{\"machine\": {\"host\": \"host\", \"device\": \"A Device / 80 GB\", \"library\": "
        "\"library 1\"}, \"ceilings\": {\"copy\": {\"value\": -1e999}}}",
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        Ceilings c = with_one("copy", "B/s", 100, "day 1");
        expect_best(c, 100, "day 1");
        char *file = only_file();
        assert_int_equal(io_write_atomic(file, broken[i], strlen(broken[i])), 0);
        double value;
        char date[CLOCK_STAMP_SIZE];
        assert_false(ceilings_find(&c.key, "copy", &value, date));
        expect_best(with_one("copy", "B/s", 50, "day 2"), 50, "day 2");
        remove(file);
        free(file);
    }
}

static void test_ceilings__beyond_the_stated_peak_is_not_stored(void **state)
{
    (void)state;
    Ceilings c = with_one("matmul_bf16", "FLOP/s", 200, "day 1");
    double value;
    char date[CLOCK_STAMP_SIZE];
    c.items[0].stated = 100;
    assert_int_equal(ceilings_store(&c), 0);
    assert_false(ceilings_find(&c.key, "matmul_bf16", &value, date));
    c = with_one("matmul_bf16", "FLOP/s", 104, "day 2");
    c.items[0].stated = 100;
    expect_best(c, 104, "day 2");
}

static void test_ceilings__tuning_off_means_nothing_stored(void **state)
{
    (void)state;
    expect_best(with_one("copy", "B/s", 100, "day 1"), 100, "day 1");
    setenv("PACER_TUNE", "off", 1);
    Ceilings c = with_one("copy", "B/s", 50, "day 2");
    double value;
    char date[CLOCK_STAMP_SIZE];
    assert_int_equal(ceilings_store(&c), 0);
    assert_true(c.items[0].best == 50);
    assert_false(ceilings_find(&c.key, "copy", &value, date));
    unsetenv("PACER_TUNE");
}

static void test_ceilings__cache_folder_follows_the_environment(void **state)
{
    (void)state;
    char *path = cache_path("a b/c.txt");
    char expected[128];
    snprintf(expected, sizeof expected, "%s/pacer/a-b-c.txt", own_folder);
    assert_string_equal(path, expected);
    free(path);
    setenv("PACER_TUNE_CACHE", "/some/where/tune.txt", 1);
    path = cache_path("x");
    assert_string_equal(path, "/some/where/x");
    free(path);
    setenv("PACER_TUNE_CACHE", "tune.txt", 1);
    path = cache_path("x");
    assert_string_equal(path, "./x");
    free(path);
    unsetenv("PACER_TUNE_CACHE");
}

/* --- what a run takes --- */

static double matmul_50(Backend *backend, DType dtype)
{
    (void)backend, (void)dtype;
    return 50e12;
}

static double copy_2(Backend *backend)
{
    (void)backend;
    return 2e12;
}

static double stated_100(const Backend *backend, DType dtype)
{
    (void)backend;
    return dtype == DT_BF16 ? 100e12 : 0;
}

static void expect_machine(Backend *backend, double gflops, const char *source)
{
    Machine machine;
    machine_describe(&machine, NULL);
    machine_measure_device(&machine, backend, DT_BF16, (Effort){0});
    assert_true(machine_ceiling(&machine).number == gflops);
    cJSON *json = machine_json(&machine);
    assert_text(json, "ceiling_source", source);
    assert_text(json, "copy_source", "measured now");
    assert_true(number(json, "device_matmul_gflops") == gflops);
    cJSON_Delete(json);
}

static void test_ceilings__a_run_takes_the_higher_one(void **state)
{
    (void)state;
    Backend backend = {.name = "fake",
                       .device = "Fake",
                       .matmul_rate = matmul_50,
                       .copy_rate = copy_2,
                       .stated_rate = stated_100};
    Machine machine;
    machine_describe(&machine, NULL);
    expect_machine(&backend, 50000, "measured now");
    Ceilings c = with_one("matmul_bf16", "FLOP/s", 40e12, "day 1");
    ceilings_key(&c.key, &machine, &backend);
    expect_best(c, 40e12, "day 1");
    expect_machine(&backend, 50000, "measured now");
    c.items[0].value = c.items[0].best = 80e12;
    expect_best(c, 80e12, "day 1");
    expect_machine(&backend, 80000, "measured at day 1");
    c.items[0].value = c.items[0].best = 120e12; /* more than the maker states: not believed */
    expect_best(c, 120e12, "day 1");
    expect_machine(&backend, 50000, "measured now");
}

/* Without a copy's rate nothing is recalled; what was recalled is not stored as if it were new. */
static void test_ceilings__a_run_recalls_what_another_measured(void **state)
{
    (void)state;
    Backend backend = {.name = "fake",
                       .device = "Fake that runs remember",
                       .matmul_rate = matmul_50,
                       .copy_rate = copy_2,
                       .stated_rate = stated_100};
    Machine machine;
    machine_describe(&machine, NULL);
    Ceilings c = with_one("matmul_bf16", "FLOP/s", 40e12, "day 1");
    ceilings_key(&c.key, &machine, &backend);
    expect_best(c, 40e12, "day 1");
    assert_false(machine_recall_device(&machine, &backend, DT_BF16, (Effort){0}));
    assert_false(machine_ceiling(&machine).known);
    assert_string_equal(machine.ceiling_source, "");

    machine_measure_device(&machine, &backend, DT_BF16, (Effort){0});
    machine_remember_device(&machine, &backend, DT_BF16);
    Machine later;
    machine_describe(&later, NULL);
    assert_true(machine_recall_device(&later, &backend, DT_BF16, (Effort){0}));
    assert_true(fabs(machine_ceiling(&later).number - 50000) < 1e-6);
    assert_true(fabs(later.device_copy_gbs.number - 2000) < 1e-6);
    assert_string_equal(later.device, backend.device);
    assert_memory_equal(later.ceiling_source, "measured at 20", strlen("measured at 20"));
    assert_memory_equal(later.copy_source, "measured at 20", strlen("measured at 20"));
    assert_false(machine_recall_device(&later, &backend, DT_F32, (Effort){0})); /* another name */

    later.device_matmul_gflops = value_of(90e3);
    machine_remember_device(&later, &backend, DT_BF16);
    double value;
    char date[CLOCK_STAMP_SIZE];
    assert_true(ceilings_find(&c.key, "matmul_bf16", &value, date) && fabs(value - 50e12) < 1e3);
}

/* A run that takes little memory copies from cache to cache: only such are held against that. */
static void test_ceilings__small_copies_are_for_themselves(void **state)
{
    (void)state;
    Backend *backend = cpu_backend_open(1);
    Effort small = {0, (size_t)16 << 20}, large = {0, EFFORT_BYTES};
    Machine machine;
    machine_describe(&machine, NULL);
    machine_measure_device(&machine, backend, DT_F32, small);
    assert_true(machine.copy_gbs.known);
    assert_string_equal(machine.copy_source, "measured now");
    machine_remember_device(&machine, backend, DT_F32);
    CeilingKey key;
    ceilings_key(&key, &machine, backend);
    double value;
    char date[CLOCK_STAMP_SIZE];
    assert_true(ceilings_find(&key, "sgemm_1", &value, date));
    assert_true(ceilings_find(&key, "copy_1_8MiB", &value, date));
    assert_false(ceilings_find(&key, "copy_1", &value, date));
    assert_true(machine_recall_device(&machine, backend, DT_F32, small));
    bool has_room = mem_available() / 4 >= EFFORT_BYTES;
    assert_true(machine_recall_device(&machine, backend, DT_F32, large) != has_room);
    backend->close(backend);
}

static void test_ceilings__processor_is_measured(void **state)
{
    (void)state;
    Backend *backend = cpu_backend_open(1);
    Machine machine;
    machine_describe(&machine, NULL);
    Ceilings c;
    assert_int_equal(ceilings_measure(&c, &machine, backend, NULL, 0.01), 0);
    int count = backend->low_ops != NULL ? 3 : 2; /* with products in bf16 */
    assert_int_equal(c.count, count);
    assert_false(c.after.known);
    assert_non_null(strstr(c.key.device, machine.cpu));
    const char *const names[] = {"sgemm_1", "copy_1", "bf16_1"};
    for (int i = 0; i < count; i++) {
        const Ceiling *item = ceilings_get(&c, names[i]);
        assert_non_null(item);
        assert_true(item->value > 1e7 && item->value < 1e14); /* per second, not per nanosecond */
    }
    assert_int_equal(ceilings_store(&c), 0);
    cJSON *json = ceilings_json(&c);
    assert_true(number(member(member(json, "ceilings"), "copy_1"), "value") ==
                ceilings_get(&c, "copy_1")->value);
    assert_null(cJSON_GetObjectItem(json, "sensors"));
    cJSON_Delete(json);
    backend->close(backend);
}

/* --- products of a model --- */

/* FLOPs of one micro-step's linear maps by hand: three products, each 2 x rows x weights. */
static void expect_products(const char *model, int64_t vocab, int64_t weights_of_layer)
{
    ModelSpec spec;
    SpecOverrides overrides = {.vocab = vocab};
    assert_int_equal(spec_resolve(model, &overrides, 0, &spec), 0);
    Backend *backend = cpu_backend_open(1);
    ModelProducts products;
    int64_t batch = 3, seq = 100;
    products_of_model(&products, &spec, DT_F32, batch, seq, backend);
    double sum = 0;
    for (int i = 0; i < products.count; i++) {
        const ModelProduct *p = &products.items[i];
        assert_true(p->flops == 2.0 * (double)p->rows * (double)p->inputs * (double)p->outputs);
        sum += p->flops * (double)p->calls;
        for (int j = 0; j < i; j++) {
            const ModelProduct *q = &products.items[j];
            assert_false(p->op == q->op && p->rows == q->rows && p->inputs == q->inputs &&
                         p->outputs == q->outputs);
        }
    }
    double weights = (double)(spec.layers * weights_of_layer + spec.vocab * spec.width);
    assert_true(sum == 3 * 2.0 * (double)(batch * seq) * weights);
    assert_int_equal(products.left_out, 0);
    backend->close(backend);
}

static void test_ceilings__products_are_those_of_the_model(void **state)
{
    (void)state;
    expect_products("gpt2-124m", 0, 12 * 768 * 768);
    /* 6 heads of 64 of which keys and values have 2: wq and wo, wk and wv; gate, up and down */
    ModelSpec spec;
    SpecOverrides none = {.vocab = 1000};
    assert_int_equal(spec_resolve("llama-22m", &none, 0, &spec), 0);
    int64_t kv = spec.kv_heads * spec.head_dim;
    expect_products("llama-22m", 1000, spec.width * (2 * spec.width + 2 * kv + 3 * spec.ffn));
}

static void expect_timed(Backend *backend, DType dtype)
{
    ModelSpec spec;
    SpecOverrides overrides = {.layers = 1, .width = 48, .heads = 3, .vocab = 77};
    assert_int_equal(spec_resolve("gpt2-124m", &overrides, 0, &spec), 0);
    ModelProducts products;
    products_of_model(&products, &spec, dtype, 1, 37, backend);
    assert_true(products.count >= 12);
    assert_int_equal(products_measure(&products, backend, dtype, 0.05), 0);
    double best = products_best(&products);
    cJSON *json = products_json(&products, best);
    assert_int_equal(cJSON_GetArraySize(json), products.count);
    double highest = 0;
    for (int i = 0; i < products.count; i++) {
        const ModelProduct *p = &products.items[i];
        assert_true(p->seconds > 0 && isfinite(p->seconds) && p->samples >= 1 && !p->too_large);
        double share = number(cJSON_GetArrayItem(json, i), "share");
        assert_true(share > 0 && share <= 1);
        highest = fmax(highest, share);
    }
    assert_true(highest == 1);
    cJSON_Delete(json);
    backend->close(backend);
}

static void test_ceilings__products_are_timed(void **state)
{
    (void)state;
    expect_timed(cpu_backend_open(2), DT_F32);
    expect_timed(ref_backend_open(), DT_BF16);
}

static size_t nothing_left(Backend *backend)
{
    (void)backend;
    return 1000;
}

static void test_ceilings__what_does_not_fit_is_left_out(void **state)
{
    (void)state;
    Backend *backend = cpu_backend_open(1);
    backend->available = nothing_left;
    ModelProducts products = {
        .items = {{.op = OP_LINEAR_FORWARD, .rows = 64, .inputs = 64, .outputs = 64, .flops = 1}},
        .count = 1};
    assert_int_equal(products_measure(&products, backend, DT_F32, 0.01), 0);
    assert_true(products.items[0].too_large && products.items[0].seconds == 0);
    assert_true(products_best(&products) == 0);
    backend->close(backend);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, own_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_ceilings__the_best_stays),
        IN_FOLDER(test_ceilings__machines_are_kept_apart),
        IN_FOLDER(test_ceilings__broken_files_are_replaced),
        IN_FOLDER(test_ceilings__beyond_the_stated_peak_is_not_stored),
        IN_FOLDER(test_ceilings__tuning_off_means_nothing_stored),
        IN_FOLDER(test_ceilings__cache_folder_follows_the_environment),
        IN_FOLDER(test_ceilings__a_run_takes_the_higher_one),
        IN_FOLDER(test_ceilings__a_run_recalls_what_another_measured),
        IN_FOLDER(test_ceilings__small_copies_are_for_themselves),
        IN_FOLDER(test_ceilings__processor_is_measured),
        cmocka_unit_test(test_ceilings__products_are_those_of_the_model),
        cmocka_unit_test(test_ceilings__products_are_timed),
        cmocka_unit_test(test_ceilings__what_does_not_fit_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
