/* Two experiments, or two runs, side by side. */
#include "report/report.h"

#include "base/err.h"
#include "base/io.h"
#include "support/data_files.h"
#include "support/experiment_record.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void plant_speeds(PlantedExperiment *experiment, int configuration, const char *settings,
                         const double *seconds, int count)
{
    for (int i = 0; i < count; i++) {
        planted_run(experiment, &(PlantedRun){.configuration = configuration,
                                              .repeat = i,
                                              .settings = settings,
                                              .tokens = 1000,
                                              .training_s = seconds[i]});
    }
}

static void test_compare__two_experiments(void **state)
{
    (void)state;
    PlantedExperiment a, b;
    planted_begin(&a, "{\"axes\": [[\"batch\"]]}");
    plant_speeds(&a, 0, "{\"batch\": \"8\"}", (double[]){10, 12, 11}, 3);
    plant_speeds(&a, 1, "{\"batch\": \"16\"}", (double[]){9}, 1);
    planted_save(&a);
    planted_begin(&b, "{\"axes\": [[\"batch\"]]}");
    plant_speeds(&b, 0, "{\"batch\": \"32\"}", (double[]){9}, 1);
    plant_speeds(&b, 1, "{\"batch\": \"8\"}", (double[]){15, 19, 14, 16}, 4);
    planted_save(&b);
    Table table;
    assert_int_equal(compare_make(a.dir, b.dir, &table), 0);
    bool found = false;
    for (int row = 0; row < table.rows; row++) {
        char **cells = table.cells + (size_t)row * (size_t)table.columns;
        assert_string_equal(cells[0], "batch 8");
        if (strcmp(cells[1], "Training") == 0) {
            found = true;
            assert_string_equal(cells[4], "+45.5 %"); /* 16 against 11 */
            assert_string_equal(cells[5], "significant over the repeats (p = 0.012)");
        }
    }
    assert_true(found);
    assert_int_equal(table.note_count, 2);
    assert_non_null(strstr(table.notes[0], "batch 16"));
    assert_non_null(strstr(table.notes[1], "batch 32"));
    table_free(&table);
    planted_end(&a);
    planted_end(&b);
}

static void test_compare__two_runs(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    planted_begin(&experiment, NULL);
    plant_speeds(&experiment, 0, "{\"batch\": \"8\"}", (double[]){10}, 1);
    plant_speeds(&experiment, 1, "{\"batch\": \"16\"}", (double[]){8}, 1);
    planted_save(&experiment);
    char *a = io_join(experiment.dir, "runs/0-0"), *b = io_join(experiment.dir, "runs/1-0");
    Table table;
    assert_int_equal(compare_make(a, b, &table), 0);
    assert_string_equal(table.cells[1], "batch");
    assert_string_equal(table.cells[2], "8");
    assert_string_equal(table.cells[3], "16");
    Page page = {0};
    table_put(&table, &page);
    assert_non_null(strstr(page.text, "+25.0 %")); /* 125 against 100 tokens a second */
    assert_non_null(strstr(page.text, "cannot be judged"));
    page_free(&page);
    table_free(&table);
    assert_int_equal(compare_make(a, experiment.dir, &table), ERR_INPUT);
    assert_says("two run directories");
    free(a);
    free(b);
    planted_end(&experiment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare__two_experiments),
        cmocka_unit_test(test_compare__two_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
