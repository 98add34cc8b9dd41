/* From records to numbers, against numbers worked out by hand. */
#include "base/err.h"
#include "base/io.h"
#include "report/findings.h"
#include "report/tables.h"
#include "support/data_files.h"
#include "support/experiment_record.h"
#include "support/says.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PLUS_MINUS "\xc2\xb1"
#define DASH "\xe2\x80\x93"

static void assert_close(double found, double expected, double slack)
{
    if (!(fabs(found - expected) <= slack)) {
        fail_msg("%.12g instead of %.12g", found, expected);
    }
}

/* --- metrics --- */

static double value(const Results *results, int run, const char *name, int rank)
{
    Metric metric;
    must(metric_find(name, &metric));
    return metric_value(&metric, results, &results->runs[run], rank);
}

static void test_report_metrics__values_of_a_run(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    planted_begin(&experiment, "{\"axes\": [[\"batch\"]], \"target_loss\": 3}");
    planted_run(&experiment, &(PlantedRun){.settings = "{\"batch\": \"4\"}",
                                           .ranks = 2,
                                           .tokens = 1000,
                                           .training_s = 10,
                                           .rank_s = {8, 10},
                                           .busy_s = {6, 8},
                                           .exposed_s = 1,
                                           .hidden_s = 3,
                                           .train_loss = 2.5,
                                           .val_loss = 2.75,
                                           .lines = {{400, 4, 3.5}, {800, 8, 2.9}}});
    planted_run(&experiment, &(PlantedRun){.configuration = 1,
                                           .settings = "{\"batch\": \"64K\"}",
                                           .state = "refused",
                                           .planned_bytes = 5e9,
                                           .without_files = 1});
    planted_read(&experiment, &results);
    assert_int_equal(results.runs[0].slowest, 1);
    static const struct {
        const char *name;
        int rank;
        double expected;
    } known[] = {{"training_s", -1, 10},
                 {"training_s", 0, 8},
                 {"training_mean_s", -1, 1},
                 {"worker_s", -1, 11},
                 {"epoch_wall_s", -1, 5.5},
                 {"forward_s", -1, 2},
                 {"forward_s", 0, 1.5},
                 {"forward_mean_s", -1, 0.2},
                 {"compute_s", -1, 7},
                 {"comm_s", -1, 4},
                 {"comm_hidden_s", -1, 3},
                 {"busy_s", -1, 8},
                 {"tok_s", -1, 100},
                 {"tok_s_min", -1, 50},
                 {"tok_s_max", -1, 62.5},
                 {"tok_s_rank", -1, 56.25},
                 {"tok_s", 0, 62.5},
                 {"balance", -1, 0.75},
                 {"steps", -1, 10},
                 {"tokens", -1, 1000},
                 {"global_batch", -1, 8},
                 {"tokens_update", -1, 128},
                 {"samples_epoch", -1, 40},
                 {"batch", -1, 4},
                 {"seq", -1, 16},
                 {"global-batch", -1, 8},
                 {"lr", -1, 0.0003},
                 {"first_loss", -1, 9.5},
                 {"first_loss", 0, 9.25},
                 {"first_loss", 1, 9.75},
                 {"gap", -1, 0.25},
                 {"tokens_to_target", -1, 800},
                 {"seconds_to_target", -1, 8},
                 {"peak_bytes", -1, 1001},
                 {"peak_bytes", 0, 1000},
                 {"peak_share", -1, 1001.0 / (1 << 30)},
                 {"peak_share", 0, 1000.0 / (1 << 30)},
                 {"mem_ffn_bytes", -1, 700},
                 {"checks_failed", -1, 0},
                 {"checks_warned", -1, 1},
                 {"rank", 1, 1},
                 {"parameters", -1, 1000}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        double found = value(&results, 0, known[i].name, known[i].rank);
        if (!(fabs(found - known[i].expected) <= 1e-9 * known[i].expected)) {
            fail_msg("%s of rank %d is %.12g, not %.12g", known[i].name, known[i].rank, found,
                     known[i].expected);
        }
    }
    static const char *const unknown[] = {"validation_s", "mfu_peak",       "speedup",
                                          "amdahl",       "mem_head_bytes", "unattributed_s"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_true(isnan(value(&results, 0, unknown[i], -1)));
    }
    assert_close(value(&results, 1, "planned_bytes", -1), 5e9, 0);
    assert_close(value(&results, 1, "batch", -1), 64000, 0);
    assert_true(isnan(value(&results, 1, "tok_s", -1)));
    assert_true(isnan(value(&results, 1, "peak_share", -1)));
    assert_true(isnan(value(&results, 0, "first_loss", 2)));
    assert_true(isnan(value(&results, 1, "checks_failed", -1)));
    results_free(&results);
    planted_end(&experiment);
}

static void test_report_metrics__memory_of_a_gpu(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    planted_begin(&experiment, NULL);
    for (int told = 0; told < 2; told++) {
        planted_run(&experiment, &(PlantedRun){.configuration = told,
                                               .ranks = 2,
                                               .tokens = 1000,
                                               .training_s = 10,
                                               .gpu_bytes = told ? 4000 : -1});
    }
    planted_read(&experiment, &results);
    assert_true(isnan(value(&results, 0, "peak_share", -1))); /* the host's memory is another */
    assert_close(value(&results, 1, "peak_share", -1), 1001.0 / 4000, 1e-12);
    assert_close(value(&results, 1, "peak_share", 0), 0.25, 1e-12);
    results_free(&results);
    planted_end(&experiment);
}

/* With one rank's file gone nobody knows which rank was the slowest. */
static void test_report_metrics__a_missing_rank(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    planted_begin(&experiment, NULL);
    planted_run(&experiment, &(PlantedRun){.ranks = 2, .tokens = 1000, .training_s = 10});
    char *path = io_join(experiment.dir, "runs/0-0/ranks/1.json");
    assert_int_equal(remove(path), 0);
    free(path);
    planted_read(&experiment, &results);
    assert_true(isnan(value(&results, 0, "training_s", -1)));
    assert_close(value(&results, 0, "training_s", 0), 10, 0);
    assert_true(isnan(value(&results, 0, "training_s", 1)));
    assert_true(isnan(value(&results, 0, "training_s", 7)));
    results_free(&results);
    planted_end(&experiment);
}

static void test_report_metrics__names(void **state)
{
    (void)state;
    Metric metric;
    assert_int_equal(metric_find("tok_z", &metric), ERR_INPUT);
    assert_says("\"tok_s\"");
    assert_int_equal(metric_find("min-frequency", &metric), ERR_INPUT); /* no option of train */
    assert_int_equal(metric_find("attention", &metric), 0);
    assert_int_equal(metric.unit, UNIT_TEXT);
    static const struct {
        const char *name;
        double value;
        const char *text;
    } known[] = {{"training_s", 253.84, "253.84 s"},
                 {"training_s", 0.0125, "12.50 ms"},
                 {"tok_s", 1250, "1.25 k"},
                 {"peak_bytes", 3.5 * 1024 * 1024 * 1024, "3.50 GiB"},
                 {"efficiency", 0.871, "87.1 %"},
                 {"peak_share", 0.00052, "0.1 %"},
                 {"peak_share", 0.000078, "0.008 %"},
                 {"peak_share", 0, "0.0 %"},
                 {"steps", 1536, "1536"},
                 {"tokens", 12500000, "12.50 M"},
                 {"val_loss", 3.25, "3.2500"},
                 {"speedup", 1.666, "1.67"},
                 {"step_p50_ms", 80, "80.00 ms"},
                 {"training_s", NAN, ""},
                 {"training_s", 0, "0.00 s"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(metric_find(known[i].name, &metric), 0);
        assert_string_equal(unit_format(metric.unit, known[i].value).text, known[i].text);
    }
}

/* --- scaling --- */

static void plant_ranks(PlantedExperiment *experiment, int configuration, int ranks,
                        double training_s, const char *config)
{
    char settings[64];
    snprintf(settings, sizeof settings, "{\"ranks\": \"%d\"}", ranks);
    planted_run(experiment, &(PlantedRun){.configuration = configuration,
                                          .settings = settings,
                                          .config = config,
                                          .ranks = ranks,
                                          .tokens = 1000,
                                          .training_s = training_s});
}

static void test_report_metrics__speedup_is_that_of_the_slowest_rank(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    planted_begin(&experiment, "{\"axes\": [[\"ranks\"]], \"baseline\": {\"ranks\": \"1\"}}");
    plant_ranks(&experiment, 0, 1, 10, NULL);
    planted_run(&experiment, &(PlantedRun){.configuration = 1,
                                           .settings = "{\"ranks\": \"2\"}",
                                           .ranks = 2,
                                           .tokens = 1000,
                                           .training_s = 6,
                                           .rank_s = {4, 6}});
    planted_read(&experiment, &results);
    assert_close(value(&results, 1, "speedup", -1), 10.0 / 6, 1e-12);
    assert_close(value(&results, 1, "speedup_mean", -1), 2, 1e-12);
    assert_close(value(&results, 1, "efficiency", -1), 10.0 / 12, 1e-12);
    assert_close(value(&results, 0, "efficiency", -1), 1, 1e-12);
    assert_true(isnan(value(&results, 1, "amdahl", -1))); /* two rank counts fit any law */
    results_free(&results);
    planted_end(&experiment);
}

/* T(p) = 10 (0.1 + 0.9 / p). */
static void test_report_metrics__amdahl(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    planted_begin(&experiment, "{\"axes\": [[\"ranks\"]]}");
    plant_ranks(&experiment, 0, 1, 10, NULL);
    plant_ranks(&experiment, 1, 2, 5.5, NULL);
    plant_ranks(&experiment, 2, 4, 3.25, NULL);
    planted_read(&experiment, &results);
    assert_close(value(&results, 2, "amdahl", -1), 0.1, 1e-12);
    results_free(&results);
    planted_end(&experiment);
}

static void test_report_metrics__shared_devices_have_no_efficiency(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    Table table;
    planted_begin(&experiment, "{\"axes\": [[\"ranks\"]]}");
    plant_ranks(&experiment, 0, 1, 10, NULL);
    plant_ranks(&experiment, 1, 2, 8, "{\"oversubscribe\": true}");
    planted_read(&experiment, &results);
    assert_true(isnan(value(&results, 1, "efficiency", -1)));
    cJSON *entry = cJSON_Parse("{\"columns\": [\"ranks\", \"speedup\", \"efficiency\"]}");
    assert_int_equal(table_make(&results, entry, &table), 0);
    Page page = {0};
    table_put(&table, &page);
    assert_non_null(strstr(page.text, "| 2 | 1.25 | " DASH " |"));
    assert_non_null(
        strstr(page.text, "ranks 2: ranks shared a device, no measurement of scaling."));
    page_free(&page);
    table_free(&table);
    cJSON_Delete(entry);
    results_free(&results);
    planted_end(&experiment);
}

/* Options zipped with the baseline's may differ; those of other axes may not. */
static void test_report_metrics__who_is_the_baseline(void **state)
{
    (void)state;
    static const char *const settings[] = {"{\"ranks\": \"1\", \"batch\": \"8\", \"seq\": \"16\"}",
                                           "{\"ranks\": \"2\", \"batch\": \"4\", \"seq\": \"16\"}",
                                           "{\"ranks\": \"1\", \"batch\": \"8\", \"seq\": \"32\"}",
                                           "{\"ranks\": \"2\", \"batch\": \"4\", \"seq\": \"32\"}",
                                           "{\"ranks\": \"2\", \"batch\": \"4\", \"seq\": \"64\"}"};
    static const double seconds[] = {10, 6, 20, 11, 5};
    PlantedExperiment experiment;
    Results results;
    planted_begin(&experiment, "{\"axes\": [[\"ranks\", \"batch\"], [\"seq\"]]}");
    for (int i = 0; i < 5; i++) {
        planted_run(&experiment, &(PlantedRun){.configuration = i,
                                               .settings = settings[i],
                                               .ranks = i % 2 == 0 && i < 4 ? 1 : 2,
                                               .tokens = 1000,
                                               .training_s = seconds[i]});
    }
    planted_read(&experiment, &results);
    assert_close(value(&results, 1, "speedup", -1), 10.0 / 6, 1e-12);
    assert_close(value(&results, 3, "speedup", -1), 20.0 / 11, 1e-12);
    assert_true(isnan(value(&results, 4, "speedup", -1)));
    results_free(&results);
    planted_end(&experiment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_metrics__values_of_a_run),
        cmocka_unit_test(test_report_metrics__memory_of_a_gpu),
        cmocka_unit_test(test_report_metrics__a_missing_rank),
        cmocka_unit_test(test_report_metrics__names),
        cmocka_unit_test(test_report_metrics__speedup_is_that_of_the_slowest_rank),
        cmocka_unit_test(test_report_metrics__amdahl),
        cmocka_unit_test(test_report_metrics__shared_devices_have_no_efficiency),
        cmocka_unit_test(test_report_metrics__who_is_the_baseline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
