/* Which configurations a chart shows, and how it names them. */
#include "report/chart.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
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
    must(results_read(results, experiment->dir));
}

/* The chart's plot: labels of its series, and the number of points of all of them. */
static void expect(const Results *results, const char *entry, const char *labels, size_t points)
{
    cJSON *json = cJSON_Parse(entry);
    Chart chart;
    must(chart_read(json, &chart));
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

/* Records may hold any numbers and texts. */
static void test_chart__any_numbers_end_in_a_picture(void **state)
{
    (void)state;
    static const double pairs[][2] = {
        {0, 0},        {1e15, 1e15 + 1}, {-3, -1},          {1e-300, 1e300}, {1e-100, 1e100},
        {1e99, 1e100}, {5e-324, 1e-12},  {-1e308, 1e308},   {0.1, 0.1},      {NAN, 7},
        {INFINITY, 7}, {12345, 12346},   {999.9999, 10000}, {1e-9, 2e-9}};
    char *folder = data_files_folder();
    for (size_t i = 0; i < 4 * sizeof pairs / sizeof pairs[0]; i++) {
        const double *pair = pairs[i / 4];
        bool bars = i & 1, log = i & 2;
        Plot plot = {.kind = bars ? PLOT_BARS : PLOT_LINES,
                     .title = mem_strdup("100 % \\ \"'`{1}^2_3@4.5"),
                     .x_title = mem_strdup(""),
                     .y_title = mem_strdup("y"),
                     .log_x = log && !bars,
                     .log_y = log};
        plot_category(&plot, "%s 1.5 %n");
        plot_category(&plot, "");
        PlotSeries *series = plot_add_series(&plot, "a");
        plot_add_point(series, bars ? 0 : pair[0], pair[0])->half = pair[1];
        plot_add_point(series, bars ? 1 : pair[1], pair[1])->mark = "OOM";
        char *svg = io_join(folder, "any.svg");
        remove(svg);
        int code = plot_draw(&plot, folder, "any");
        /* No number is possible there, or there is no gnuplot; none makes it fail. */
        if (code == ERR_FAILED && strstr(err_message(), "not installed") == NULL) {
            fail_msg("%g and %g, %s%s: %s", pair[0], pair[1], bars ? "bars" : "lines",
                     log ? ", logarithmic" : "", err_message());
        }
        if (code == 0) {
            size_t size;
            char *text;
            assert_int_equal(io_read_all(svg, (size_t)1 << 20, &text, &size), 0);
            assert_non_null(strstr(text, "{1}^2_3@4.5"));
            free(text);
        }
        free(svg);
        plot_free(&plot);
    }
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chart__shows_what_it_is_asked_for),
        cmocka_unit_test(test_chart__curves_are_named_by_what_is_left_open),
        cmocka_unit_test(test_chart__any_numbers_end_in_a_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
