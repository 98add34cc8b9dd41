/* Tables from records, and records that are damaged. */
#include "base/err.h"
#include "base/io.h"
#include "report/findings.h"
#include "report/metric.h"
#include "report/tables.h"
#include "support/data_files.h"
#include "support/experiment_record.h"
#include "support/run_record.h"
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

/* --- tables --- */

static void test_report_tables__tables(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    Table table;
    planted_begin(&experiment, "{\"axes\": [[\"batch\"]]}");
    for (int repeat = 0; repeat < 3; repeat++) {
        planted_run(&experiment, &(PlantedRun){.repeat = repeat,
                                               .settings = "{\"batch\": \"8\"}",
                                               .tokens = 1000,
                                               .training_s = 10 + (repeat * 2) % 3}); /* 10 12 11 */
    }
    planted_run(&experiment, &(PlantedRun){.configuration = 1,
                                           .settings = "{\"batch\": \"16\"}",
                                           .state = "failed",
                                           .reason = "a | b <i> & c",
                                           .without_files = 1});
    planted_read(&experiment, &results);
    cJSON *entry = cJSON_Parse("{\"title\": \"T\", \"per\": \"configuration\", \"columns\": "
                               "[\"batch\", \"state\", \"training_s\", \"steps\", \"reason\"]}");
    assert_int_equal(table_make(&results, entry, &table), 0);
    assert_int_equal(table.rows, 2);
    assert_string_equal(table.cells[2], "11.00 s " PLUS_MINUS " 2.48 s");
    assert_string_equal(table.cells[3], "10");
    assert_string_equal(table.cells[5], "16");
    assert_string_equal(table.cells[6], "failed");
    assert_string_equal(table.cells[7], DASH);
    assert_string_equal(table.cells[9], "a | b <i> & c");
    Page page = {0};
    table_put(&table, &page);
    const char *markdown = page.text;
    assert_non_null(strstr(markdown, "| batch | State | Training | Updates | Reason |\n"
                                     "| ---: | --- | ---: | ---: | --- |\n"));
    assert_null(strstr(markdown, "a | b"));
    assert_null(strstr(markdown, "<i>"));
    /* What is sorted by: settings, means, and nothing where there is only text. */
    assert_true(table.values[0] == 8 && isnan(table.values[1]) && isnan(table.values[7]));
    assert_true(fabs(table.values[2] - 11) < 1e-9 && table.values[3] == 10);
    page_free(&page);
    table_free(&table);
    cJSON_Delete(entry);
    entry = cJSON_Parse("{\"per\": \"run\", \"columns\": [\"repeat\", \"training_s\"]}");
    assert_int_equal(table_make(&results, entry, &table), 0);
    assert_int_equal(table.rows, 4);
    assert_string_equal(table.cells[2], "2");
    assert_string_equal(table.cells[3], "12.00 s");
    table_free(&table);
    cJSON_Delete(entry);
    entry = cJSON_Parse(
        "{\"per\": \"rank\", \"columns\": [\"rank\", \"host\", \"device\", \"tokens\"]}");
    assert_int_equal(table_make(&results, entry, &table), 0);
    assert_int_equal(table.rows, 3);
    assert_string_equal(table.cells[1], "node0");
    assert_string_equal(table.cells[2], "cuda:0");
    assert_string_equal(table.cells[3], "1000");
    table_free(&table);
    cJSON_Delete(entry);
    results_free(&results);
    planted_end(&experiment);
}

static void test_report_tables__bad_tables(void **state)
{
    (void)state;
    static const struct {
        const char *entry, *says;
    } bad[] = {{"{\"title\": \"T\", \"columns\": [\"total_z\"]}", "table \"T\": \"total_z\""},
               {"{\"title\": \"T\", \"columns\": []}", "1 to"},
               {"{\"title\": \"T\", \"columns\": [3]}", "no name"},
               {"{\"title\": \"T\", \"columns\": {\"a\": 1}}", "1 to"},
               {"{\"title\": \"T\", \"per\": \"day\", \"columns\": [\"batch\"]}", "\"per\""},
               {"[]", "columns"}};
    PlantedExperiment experiment;
    Results results;
    planted_begin(&experiment, NULL);
    planted_read(&experiment, &results);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        Table table;
        cJSON *entry = cJSON_Parse(bad[i].entry);
        assert_int_equal(table_make(&results, entry, &table), ERR_INPUT);
        assert_says(bad[i].says);
        cJSON_Delete(entry);
    }
    results_free(&results);
    planted_end(&experiment);
}

/* --- damaged records --- */

static void use_everything(const Results *results)
{
    static const char columns[] =
        "{\"per\": \"run\", \"columns\": [\"configuration\", \"state\", \"reason\", "
        "\"training_s\", "
        "\"forward_mean_s\", \"tok_s\", \"balance\", \"speedup\", \"efficiency\", \"amdahl\", "
        "\"mem_ffn_bytes\", \"tokens_to_target\", \"checks_failed\", \"global-batch\", \"host\"]}";
    cJSON *entry = cJSON_Parse(columns);
    Table table;
    Findings findings;
    assert_int_equal(table_make(results, entry, &table), 0);
    Page page = {0};
    table_put(&table, &page);
    page_free(&page);
    table_free(&table);
    findings_make(results, &findings);
    findings_free(&findings);
    cJSON_Delete(entry);
}

static void test_report_tables__damaged_records(void **state)
{
    (void)state;
    static const char *const files[] = {"experiment.json", "runs/1-0/run.json",
                                        "runs/1-0/ranks/1.json", "runs/1-0/metrics.jsonl"};
    PlantedExperiment experiment;
    planted_begin(&experiment, "{\"axes\": [[\"ranks\"]], \"target_loss\": 3}");
    planted_run(&experiment, &(PlantedRun){.settings = "{\"ranks\": \"1\"}",
                                           .ranks = 1,
                                           .tokens = 1000,
                                           .training_s = 10});
    planted_run(&experiment, &(PlantedRun){.configuration = 1,
                                           .settings = "{\"ranks\": \"2\"}",
                                           .ranks = 2,
                                           .tokens = 1000,
                                           .training_s = 6,
                                           .lines = {{400, 3, 3.5}, {800, 6, 2.9}}});
    planted_save(&experiment);
    for (size_t file = 0; file < sizeof files / sizeof files[0]; file++) {
        char *path = io_join(experiment.dir, files[file]);
        size_t size;
        uint8_t *good = data_files_read(path, &size), *bytes = malloc(2 * size + 64);
        for (uint64_t round = 0; round < 60; round++) {
            memcpy(bytes, good, size);
            size_t changed = data_files_mutate(bytes, size, 2 * size + 64, round);
            data_files_write(path, bytes, changed);
            Results results;
            int code = results_read(&results, experiment.dir);
            assert_true(code == 0 || code == ERR_INPUT);
            if (code == 0) {
                use_everything(&results);
                results_free(&results);
            }
        }
        data_files_write(path, good, size);
        free(bytes);
        free(good);
        free(path);
    }
    planted_end(&experiment);
}

/* Nodes that a tree has for itself. */
static int own_nodes(const cJSON *tree)
{
    bool shared = tree == NULL || (tree->type & cJSON_IsReference) != 0;
    int count = tree != NULL;
    for (const cJSON *item = shared ? NULL : tree->child; item != NULL; item = item->next) {
        count += own_nodes(item);
    }
    return count;
}

/* Records of many runs are mostly the same: what is equal is held once, what no table of an
 * experiment shows not at all, and what is told stays right. */
static void test_report_tables__many_runs_in_little_memory(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    planted_begin(&experiment, "{\"axes\": [[\"lr\"]]}");
    char settings[64], number[32];
    enum { RUNS = 12, RANKS = 2 };
    for (int i = 0; i < RUNS; i++) {
        snprintf(settings, sizeof settings, "{\"lr\": \"0.%d\"}", i + 1);
        snprintf(number, sizeof number, "runs/%d-0", i);
        planted_run(&experiment, &(PlantedRun){.configuration = i,
                                               .settings = settings,
                                               .state = i == 0 ? "failed" : "done",
                                               .without_files = 1});
        char *dir = io_join(experiment.dir, number);
        if (i > 0) { /* the first has no record that others could share */
            assert_int_equal(io_make_folders(dir), 0);
            run_record_write(dir, RANKS);
            snprintf(number, sizeof number, "%d.5", i);
            run_record_edit(dir, "run.json", "summary.val_loss", number);
            run_record_edit(dir, "run.json", "config.lr", number);
            run_record_edit(dir, "ranks/1.json", "timers.forward.exclusive_s", number);
        }
        free(dir);
    }
    Results results;
    planted_read(&experiment, &results);
    Metric loss = metric_named("val_loss"), failed = metric_named("checks_failed");
    for (int i = 1; i < RUNS; i++) {
        const Result *run = &results.runs[i];
        assert_true(metric_value(&loss, &results, run, -1) == i + 0.5);
        assert_true(json_number(run->ranks[1], "timers.forward.exclusive_s") == i + 0.5);
        snprintf(number, sizeof number, "0.%d", i + 1);
        assert_string_equal(result_setting(run, "lr"), number); /* what the sweep asked for */
        assert_true(result_setting_number(run, "batch") == 4);
        assert_true(metric_value(&failed, &results, run, -1) == 0);
    }
    const Result *first = &results.runs[1], *last = &results.runs[RUNS - 1];
    assert_true(own_nodes(first->run) > 100);
    assert_true(own_nodes(last->run) < 60); /* the summary's numbers */
    assert_int_equal(own_nodes(last->config), 1);
    assert_true(own_nodes(last->ranks[0]) < 20);
    assert_true(own_nodes(last->ranks[1]) < 50);
    results_free(&results);
    planted_end(&experiment);
}

static void test_report_tables__bad_experiments(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{}", "format 1"},
        {"{\"format\": 0, \"runs\": []}", "format 1"},
        {"{\"format\": 2, \"runs\": []}", "written by a newer pacer: \"format\" 2, this one reads"},
        {"{\"format\": 1}", "\"runs\""},
        {"{\"format\": 1, \"runs\": [3]}", "runs[0]"},
        {"{\"format\": 1, \"axes\": [[3]], \"runs\": []}", "\"axes\""},
        {"{\"format\": 1, \"runs\": [{\"id\": \"a\", \"dir\": \"../..\"}]}", "\"dir\""},
        {"{\"format\": 1, \"runs\": [{\"id\": \"a\", \"dir\": \"r\", \"configuration\": 1e9, "
         "\"repeat\": 0}]}",
         "\"configuration\""},
        {"{\"format\": 1, \"runs\": [{\"id\": \"a\", \"dir\": \"r\", \"configuration\": 0, "
         "\"repeat\": 0, \"state\": \"odd\"}]}",
         "\"state\""}};
    char *folder = data_files_folder(), *path = io_join(folder, "experiment.json");
    Results results;
    assert_int_equal(results_read(&results, folder), ERR_INPUT);
    assert_says("experiment.json");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        data_files_write(path, bad[i].text, strlen(bad[i].text));
        assert_int_equal(results_read(&results, folder), ERR_INPUT);
        assert_says(bad[i].says);
    }
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_tables__tables),
        cmocka_unit_test(test_report_tables__bad_tables),
        cmocka_unit_test(test_report_tables__damaged_records),
        cmocka_unit_test(test_report_tables__many_runs_in_little_memory),
        cmocka_unit_test(test_report_tables__bad_experiments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
