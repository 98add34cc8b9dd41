/* Runs that another program made beside pacer's: compared with what does the same work, and
 * otherwise in nobody's way. */
#include "report/findings.h"
#include "report/metric.h"
#include "report/tables.h"

#include "base/err.h"
#include "support/experiment_record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define AXES "\"axes\": [[\"attention\"], [\"ranks\", \"ddp\"]]"

static PlantedExperiment experiment;
static Results results;
static Findings findings;

/* Three repeats about this time, of 1000 tokens each. */
static void plant(int configuration, const char *peer, const char *settings, double seconds,
                  double peak_bytes)
{
    for (int i = 0; i < 3; i++) {
        planted_run(&experiment, &(PlantedRun){.configuration = configuration,
                                               .repeat = i,
                                               .peer = peer,
                                               .settings = settings,
                                               .ranks = strstr(settings, "\"2\"") != NULL ? 2 : 1,
                                               .tokens = 1000,
                                               .training_s = seconds * (1 + 0.005 * (i - 1)),
                                               .p50_ms = peak_bytes > 0 ? 50 * seconds + 25 : 0,
                                               .peak_bytes = peak_bytes});
    }
}

static void conclude(void)
{
    planted_read(&experiment, &results);
    findings_make(&results, &findings);
}

static int end(void **state)
{
    (void)state;
    findings_free(&findings);
    results_free(&results);
    planted_end(&experiment);
    return 0;
}

static const Finding *find(const char *words)
{
    for (int i = 0; i < findings.count; i++) {
        if (strstr(findings.items[i].text.text, words) != NULL) {
            return &findings.items[i];
        }
    }
    return NULL;
}

static void expect(const char *words)
{
    if (find(words) == NULL) {
        for (int i = 0; i < findings.count; i++) {
            print_message("found: %s\n", findings.items[i].text.text);
        }
        fail_msg("not found: %s", words);
    }
}

/* pacer: naive and cudnn on one rank, flash on two by two strategies. Its peer is the fastest of
 * all. */
static void plant_all(const char *note)
{
    char more[400];
    snprintf(more, sizeof more,
             "{" AXES ", \"baseline\": {\"ranks\": \"1\"}, \"peers\": {\"version\": \"2.9\"%s}}",
             note);
    planted_begin(&experiment, more);
    plant(0, NULL, "{\"attention\": \"naive\", \"ranks\": \"1\", \"ddp\": \"overlap\"}", 8, 0);
    plant(1, NULL, "{\"attention\": \"cudnn\", \"ranks\": \"1\", \"ddp\": \"overlap\"}", 4, 3e6);
    plant(2, NULL, "{\"attention\": \"flash\", \"ranks\": \"2\", \"ddp\": \"flat\"}", 3, 0);
    plant(3, NULL, "{\"attention\": \"flash\", \"ranks\": \"2\", \"ddp\": \"overlap\"}", 2.5, 0);
    plant(4, "torch", "{\"attention\": \"naive\", \"ranks\": \"1\"}", 12, 0);
    plant(5, "torch", "{\"attention\": \"flash\", \"ranks\": \"1\"}", 5, 6e6);
    plant(6, "torch-compile", "{\"attention\": \"flash\", \"ranks\": \"1\"}", 1, 6e6);
    plant(7, "torch", "{\"attention\": \"flash\", \"ranks\": \"2\"}", 5, 0);
}

static void test_findings_peers__the_same_work_is_compared(void **state)
{
    (void)state;
    plant_all("");
    conclude();
    /* The fastest of each program, and all of them as evidence. */
    expect(
        "pacer is 0.25 times as fast as torch.compile and 1.25 times as fast as PyTorch at their "
        "best, with 50 % and 50 % of the memory.");
    const char *evidence = find("pacer is")->evidence.text;
    assert_non_null(strstr(evidence,
                           "cudnn, ranks 1, overlap against PyTorch: attention flash, "
                           "ranks 1: 1.25 times, 250.0 against 200.0 tokens/s, 1.22 times "
                           "by the median update, 50 % of the memory, significant"));
    assert_non_null(strstr(evidence, "naive, ranks 1, overlap against PyTorch: attention naive, "
                                     "ranks 1: 1.50 times, 125.0 against 83.33 tokens/s"));
    assert_non_null(strstr(evidence, "flash, ranks 2, overlap against PyTorch: attention flash, "
                                     "ranks 2: 2.00 times"));
}

static void test_findings_peers__other_rules_pass_them_over(void **state)
{
    (void)state;
    plant_all(", \"note\": \"PyTorch has no rows for some\"");
    conclude();
    expect("Use flash, ranks 2, overlap for speed: 400.0 tokens/s, 20.0 % ahead of flash, ranks 2, "
           "flat.");
    assert_null(strstr(find("for speed")->evidence.text, "PyTorch"));
    expect("PyTorch has no rows for some");
    for (int i = 0; i < findings.count; i++) { /* but for the comparisons and that note */
        const char *text = findings.items[i].text.text;
        bool about = strstr(text, "PyTorch") != NULL || strstr(text, "torch.compile") != NULL;
        assert_true(!about || strstr(text, "times as fast as") != NULL ||
                    strstr(text, "no rows") != NULL);
    }
}

static void test_findings_peers__a_baseline_is_of_the_same_program(void **state)
{
    (void)state;
    plant_all("");
    conclude();
    Metric speedup;
    assert_int_equal(metric_find("speedup", &speedup), 0);
    /* PyTorch's two ranks against its one, 5 s both; pacer's flash has no run of one rank. */
    assert_true(fabs(metric_estimate(&speedup, &results, 7).mean - 1) < 1e-3);
    assert_int_equal(metric_estimate(&speedup, &results, 3).count, 0);
    assert_true(fabs(metric_estimate(&speedup, &results, 1).mean - 1) < 1e-3);
}

static void test_findings_peers__tables_name_the_program(void **state)
{
    (void)state;
    plant_all("");
    conclude();
    cJSON *entry = cJSON_Parse("{\"title\": \"T\", \"columns\": [\"attention\", \"ddp\"]}");
    Table table;
    assert_int_equal(table_make(&results, entry, &table), 0);
    assert_int_equal(table.columns, 3);
    Page page = {0};
    table_put(&table, &page);
    assert_non_null(strstr(page.text, "| pacer | naive | overlap |"));
    assert_non_null(strstr(page.text, "| torch.compile | flash | \xe2\x80\x93 |"));
    page_free(&page);
    table_free(&table);
    cJSON_Delete(entry);
}

static void test_findings_peers__one_that_does_not_fit(void **state)
{
    (void)state;
    planted_begin(&experiment, "{\"axes\": [[\"batch\"]]}");
    plant(0, NULL, "{\"batch\": \"8\"}", 4, 3 << 20);
    planted_run(&experiment, &(PlantedRun){.configuration = 1,
                                           .peer = "torch",
                                           .settings = "{\"batch\": \"8\"}",
                                           .state = "oom",
                                           .reason = "PyTorch ran out of memory"});
    conclude();
    expect("PyTorch at batch 8 runs out of memory, where pacer takes 3.00 MiB.");
    assert_null(find("does not fit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_findings_peers__the_same_work_is_compared, end),
        cmocka_unit_test_teardown(test_findings_peers__other_rules_pass_them_over, end),
        cmocka_unit_test_teardown(test_findings_peers__a_baseline_is_of_the_same_program, end),
        cmocka_unit_test_teardown(test_findings_peers__tables_name_the_program, end),
        cmocka_unit_test_teardown(test_findings_peers__one_that_does_not_fit, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
