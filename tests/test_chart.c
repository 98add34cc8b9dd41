/* Which configurations a chart shows, and how it names them. */
#include "report/chart.h"

#include "base/err.h"
#include "support/experiment_record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Ranks 1 and 2 of attention naive and flash; flash is twice as fast, and two ranks are 1.6
 * times as fast as one. */
static void plant(PlantedExperiment *experiment, Results *results)
{
    planted_begin(experiment, "{\"axes\": [[\"attention\"], [\"ranks\"]]}");
    for (int i = 0; i < 4; i++) {
        char settings[96];
        int ranks = 1 + i % 2;
        snprintf(settings, sizeof settings, "{\"attention\": \"%s\", \"ranks\": \"%d\"}",
                 i < 2 ? "naive" : "flash", ranks);
        planted_run(experiment,
                    &(PlantedRun){.configuration = i,
                                  .settings = settings,
                                  .ranks = ranks,
                                  .tokens = 1000,
                                  .training_s = (i < 2 ? 16 : 8) / (ranks == 2 ? 1.6 : 1),
                                  .lines = {{400, 4, 3.5}, {800, 8, 2.9}}});
    }
    planted_save(experiment);
    if (results_read(results, experiment->dir) != 0) {
        fail_msg("%s", err_message());
    }
}

/* The chart's plot: labels of its series, and the number of points of all of them. */
static void expect(const Results *results, const char *entry, const char *labels, size_t points)
{
    cJSON *json = cJSON_Parse(entry);
    Chart chart;
    if (chart_read(json, &chart) != 0) {
        fail_msg("%s", err_message());
    }
    Plot plot = chart_plot(&chart, results);
    char found[256] = "";
    size_t count = 0;
    for (int i = 0; i < plot.series_count; i++) {
        size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, "%s%s", i > 0 ? " / " : "",
                 plot.series[i].label);
        for (size_t k = 0; k < plot.series[i].count; k++) {
            assert_true(isfinite(plot.series[i].points[k].y));
        }
        count += plot.series[i].count;
    }
    assert_string_equal(found, labels);
    assert_int_equal(count, points);
    plot_free(&plot);
    cJSON_Delete(json);
}

static void test_chart__shows_what_it_is_asked_for(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    plant(&experiment, &results);
#define SPEED "\"name\": \"a\", \"kind\": \"lines\", \"x\": \"ranks\", \"y\": \"speedup\""
    expect(&results, "{" SPEED ", \"series\": \"attention\"}", "naive / flash", 4);
    expect(&results, "{" SPEED ", \"where\": {\"attention\": \"flash\"}}", "Speed-up", 2);
    /* What speed-up is relative to need not be shown, and numbers may be given as such. */
    expect(&results, "{" SPEED ", \"where\": {\"ranks\": 2}, \"series\": \"attention\"}",
           "naive / flash", 2);
    expect(&results, "{" SPEED ", \"where\": {\"attention\": \"other\"}}", "", 0);
    /* Runs tell of options that do not vary, and say nothing of some. */
    expect(&results, "{" SPEED ", \"where\": {\"seq\": \"16\"}, \"series\": \"attention\"}",
           "naive / flash", 4);
    expect(&results, "{" SPEED ", \"where\": {\"seq\": \"32\"}}", "", 0);
    expect(&results, "{" SPEED ", \"where\": {\"norm-eps\": \"1\"}, \"series\": \"attention\"}",
           "naive / flash", 4);
    expect(&results,
           "{\"name\": \"a\", \"kind\": \"lines\", \"x\": \"rank\", \"y\": \"first_loss\", "
           "\"where\": {\"ranks\": \"2\"}, \"series\": \"attention\"}",
           "naive / flash", 4);
    results_free(&results);
    planted_end(&experiment);
}

static void test_chart__curves_are_named_by_what_is_left_open(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    plant(&experiment, &results);
#define CURVES "\"name\": \"a\", \"kind\": \"curves\", \"x\": \"tokens\", \"y\": \"val_loss\""
    expect(&results, "{" CURVES ", \"series\": \"ranks\"}",
           "ranks 1, attention naive / ranks 2, attention naive / ranks 1, attention flash / "
           "ranks 2, attention flash",
           8);
    expect(&results, "{" CURVES ", \"series\": \"ranks\", \"where\": {\"attention\": \"naive\"}}",
           "ranks 1 / ranks 2", 4);
    expect(&results, "{" CURVES ", \"where\": {\"attention\": \"naive\"}}", "ranks 1 / ranks 2", 4);
    results_free(&results);
    planted_end(&experiment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chart__shows_what_it_is_asked_for),
        cmocka_unit_test(test_chart__curves_are_named_by_what_is_left_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
