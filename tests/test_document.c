/* Reports as documents: valid JSON whatever stands in records, thinned curves, ends, bands, and the
 * choice of what is told. */
#include "report/document.h"

#include "base/err.h"
#include "base/mem.h"
#include "record/line_scan.h"
#include "report/blocks.h"
#include "report/chart.h"
#include "support/findings_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- JSON --- */

static void test_document__any_text_is_a_string(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown; /* NULL: as it is */
    } cases[] = {{"</script><!-- \"quotes\" \\ & 'x'", NULL},
                 {"line\nbreak\ttab", NULL},
                 {"\x1b]0;title\a", "\\x1b]0;title\\x07"},
                 {"\xc2\x9b"
                  "31m",
                  "\\xc2\\x9b31m"},
                 {"\xff\xfe \xc3", "\\xff\\xfe \\xc3"},
                 {"\xe2\x80\xa8 \xe2\x80\xae", "\\xe2\\x80\\xa8 \\xe2\\x80\\xae"},
                 {"\xce\xbb \xe2\x89\xa4 1 %s%n", NULL},
                 {"", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Page page = {0};
        page_put_json(&page, cases[i].text);
        assert_null(strpbrk(page.text, "<>&\n"));
        cJSON *back = cJSON_Parse(page.text); /* a parser that has seen none of our code */
        assert_true(cJSON_IsString(back));
        assert_string_equal(back->valuestring,
                            cases[i].shown != NULL ? cases[i].shown : cases[i].text);
        cJSON_Delete(back);
        page_free(&page);
    }
}

static const cJSON *block_of(const cJSON *document, const char *type)
{
    const cJSON *block;
    cJSON_ArrayForEach(block, json_get(document, "blocks"))
    {
        if (strcmp(json_text_or(block, "type", ""), type) == 0) {
            return block;
        }
    }
    fail_msg("no block %s", type);
    return NULL;
}

static void test_document__of_hostile_records(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Page json = {0};
    planted_begin(
        &experiment,
        "{\"axes\": [[\"batch\"], [\"attention\"]], \"title\": \"</script><b>\\u001b[2J\", "
        "\"about\": \"a\\nb\", \"tables\": [{\"title\": \"<i>\", \"columns\": [\"batch\", "
        "\"tok_s\", \"reason\"]}], \"charts\": [{\"name\": \"c\", \"kind\": \"bars\", "
        "\"x\": \"configuration\", \"y\": \"tok_s\", \"title\": \"\\\"<&\"}]}");
    for (int i = 0; i < 3; i++) {
        planted_run(&experiment,
                    &(PlantedRun){.configuration = i,
                                  .settings = i == 0 ? "{\"batch\": \"8\", \"attention\": \"</b>\"}"
                                                     : "{\"batch\": \"9\", \"attention\": \"\\n\"}",
                                  .state = i == 2 ? "failed" : NULL,
                                  .reason = "no <such> \\ file\n\x1b[1m",
                                  .tokens = 1000 + 500 * i,
                                  .training_s = 10,
                                  .lines = {{400, 4, 3.5}, {800, 8, 2.9}}});
    }
    planted_save(&experiment);
    assert_int_equal(report_document(experiment.dir, &json), 0);
    assert_null(strpbrk(json.text, "<>&\n\x1b"));
    cJSON *document = cJSON_Parse(json.text);
    assert_non_null(document);
    assert_string_equal(json_text(document, "title"), "</script><b>\\x1b[2J");
    assert_string_equal(json_text(document, "subtitle"), "a\nb");
    /* Cells as shown, and the numbers to sort by. */
    const cJSON *table = block_of(document, "table");
    const cJSON *row = cJSON_GetArrayItem(json_get(table, "rows"), 1);
    assert_true(cJSON_GetArrayItem(json_get(row, "values"), 0)->valuedouble == 9);
    assert_true(cJSON_GetArrayItem(json_get(row, "values"), 1)->valuedouble == 150);
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(json_get(row, "values"), 2)));
    const cJSON *column = cJSON_GetArrayItem(json_get(table, "columns"), 1);
    assert_true(json_is_true(column, "numeric"));
    assert_string_equal(json_text(column, "unit"), "tokens/s");
    const cJSON *chart = block_of(document, "chart");
    assert_string_equal(json_text(chart, "kind"), "bars");
    assert_string_equal(json_text(chart, "title"), "\"<&");
    /* Evaluations of two runs, at 400 and 800 tokens after 4 and 8 seconds. */
    const cJSON *runs = json_get(block_of(document, "curves"), "runs");
    const cJSON *validation = json_get(cJSON_GetArrayItem(runs, 0), "validation");
    assert_int_equal(cJSON_GetArraySize(json_get(validation, "loss")), 2);
    assert_true(cJSON_GetArrayItem(json_get(validation, "tokens"), 1)->valuedouble == 800);
    assert_true(fabs(cJSON_GetArrayItem(json_get(validation, "seconds"), 1)->valuedouble - 8) <
                1e-9);
    cJSON_Delete(document);
    page_free(&json);
    planted_end(&experiment);
}

static void test_document__of_a_run(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Page json = {0};
    planted_begin(&experiment, "{\"axes\": [[\"batch\"]]}");
    planted_run(&experiment, &(PlantedRun){.settings = "{\"batch\": \"8\"}",
                                           .config = "{\"lr\": 0.002}",
                                           .tokens = 1000,
                                           .training_s = 10,
                                           .lines = {{400, 4, 3.5}, {800, 8, 2.9}}});
    planted_save(&experiment);
    char *dir = mem_format("%s/runs/0-0", experiment.dir);
    assert_int_equal(report_document(dir, &json), 0);
    cJSON *document = cJSON_Parse(json.text);
    assert_non_null(document);
    assert_int_equal(cJSON_GetArraySize(json_get(block_of(document, "curves"), "runs")), 1);
    assert_non_null(strstr(json.text, "{\"name\":\"lr\",\"values\":[\"0.002\"],"));
    cJSON_Delete(document);
    page_free(&json);
    assert_int_equal(report_document("/nonexistent", &json), ERR_INPUT);
    assert_non_null(strstr(err_message(), "/nonexistent"));
    page_free(&json);
    free(dir);
    planted_end(&experiment);
}

/* --- lines without a tree --- */

static void same_number(double found, const cJSON *line, const char *name)
{
    const cJSON *item = json_get(line, name);
    if (cJSON_IsNumber(item)) {
        assert_true(found == item->valuedouble);
    } else {
        assert_true(isnan(found));
    }
}

static void test_document__lines_are_scanned_as_a_parser_reads_them(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"step\":12,\"tokens\":262144,\"loss\":9.3092851638793945,\"lr\":1e-3,\"ms\":63.125}",
        " { \"loss\" : -0.5E+2 , \"step\" : 0 , \"note\" : \"loss is NaN\" } ",
        "{\"step\":100,\"val_loss\":2.5}",
        "{\"step\":100,\"val_loss\":null,\"x\":true,\"y\":false}",
        "{\"step\":7,\"loss\":null,\"tokens\":123456789012345678,\"ms\":0.1}",
        "{}",
        "{\"step\":1,\"loss\":01}",
        "{\"step\":1,\"loss\":1.}",
        "{\"step\":1,\"loss\":.5}",
        "{\"step\":1,\"loss\":1e}",
        "{\"step\":1,\"loss\":+1}",
        "{\"step\":1,}",
        "{\"step\":1",
        "{\"step\":1}x",
        "{\"step\" 1}",
        "{\"step\":nul}",
        "{\"s\\u0074ep\":1,\"loss\":2}",
        "{\"step\":1,\"list\":[1]}",
        "[1]",
        "",
        "{\"step\":\"1\",\"loss\":\"two\"}"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        LineNumbers numbers;
        cJSON *tree = json_parse(lines[i], strlen(lines[i]), NULL);
        if (line_scan(lines[i], strlen(lines[i]), &numbers)) { /* then it is JSON, and means this */
            assert_true(cJSON_IsObject(tree));
            same_number(numbers.step, tree, "step");
            same_number(numbers.tokens, tree, "tokens");
            same_number(numbers.loss, tree, "loss");
            same_number(numbers.val_loss, tree, "val_loss");
            same_number(numbers.ms, tree, "ms");
            assert_int_equal(numbers.evaluation, json_get(tree, "val_loss") != NULL);
        } else {
            assert_true(i >= 6); /* the first are as pacer writes them */
        }
        cJSON_Delete(tree);
    }
}

/* --- thinning --- */

static void test_document__thinning_keeps_extremes(void **state)
{
    (void)state;
    enum { COUNT = 10007, MOST = 100 };
    CurvePoint *points = mem_zalloc(COUNT, sizeof *points);
    for (int i = 0; i < COUNT; i++) {
        points[i] = (CurvePoint){i + 1, 3 + 0.001 * ((i * 7919) % 101)};
    }
    points[5003].loss = 40; /* a spike and a dip, side by side */
    points[5004].loss = -2;
    CurveLine line = {.points = points, .count = COUNT};
    size_t kept[MOST], count = curve_thin(&line, MOST, kept), found = 0;
    assert_true(count <= MOST && count > MOST / 2);
    assert_int_equal(kept[0], 0);
    assert_int_equal(kept[count - 1], COUNT - 1);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || kept[i] > kept[i - 1]);
        found += kept[i] == 5003 || kept[i] == 5004;
    }
    assert_int_equal(found, 2);
    line.count = 57; /* short ones stay */
    assert_int_equal(curve_thin(&line, MOST, kept), 57);
    line.count = 0;
    assert_int_equal(curve_thin(&line, MOST, kept), 0);
    free(points);
}

/* --- ends and bands --- */

/* y = 1 + 8 exp(-x / fall) over x = 1 ... last. */
static void add_fall(Plot *plot, double fall, int last)
{
    PlotSeries *series = plot_add_series(plot, "a");
    for (int x = 1; x <= last; x++) {
        plot_add_point(series, x, 1 + 8 * exp(-x / fall));
    }
}

static void expect_end(double a, double b, double c, double from)
{
    Plot plot = {.kind = PLOT_LINES,
                 .title = mem_strdup(""),
                 .x_title = mem_strdup(""),
                 .y_title = mem_strdup("")};
    double found, falls[] = {a, b, c};
    for (int i = 0; i < 3 && falls[i] > 0; i++) {
        add_fall(&plot, falls[i], 100);
    }
    bool flat = plot_flat_end(&plot, &found);
    assert_int_equal(flat, from > 0);
    assert_true(!flat || fabs(found - from) < 1e-9);
    plot.log_x = true;
    assert_false(plot_flat_end(&plot, &found)); /* a logarithm shows the end already */
    plot.log_x = false;
    plot.from_zero = true;
    assert_false(plot_flat_end(&plot, &found));
    plot_free(&plot);
}

/* 15 % of the fall from x = 1 are left at x = 1 + fall * ln(1 / 0.15) = 1 + 1.897 fall, as long as
 * the curve has come down by then. */
static void test_document__a_flat_end_is_enlarged(void **state)
{
    (void)state;
    expect_end(10, 0, 0, 20);  /* 19.97 */
    expect_end(20, 0, 0, 39);  /* 38.9, less what is left at 100 */
    expect_end(60, 0, 0, 0);   /* falls until the end */
    expect_end(10, 20, 0, 39); /* from where both are flat */
    expect_end(10, 20, 60, 39);
    expect_end(10, 60, 60, 0); /* most fall on */
}

/* From 39 on, the curve that ends at 41 would be out of sight. */
static void test_document__short_curves_are_not_cut_off(void **state)
{
    (void)state;
    Plot plot = {.kind = PLOT_LINES};
    double from;
    add_fall(&plot, 20, 100);
    add_fall(&plot, 10, 41);
    assert_false(plot_flat_end(&plot, &from));
    plot.series[1].count = 0;
    assert_true(plot_flat_end(&plot, &from) && from == 39);
    plot_free(&plot);
}

static void test_document__repeats_are_a_band(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    planted_begin(&experiment, "{\"axes\": [[\"batch\"]]}");
    for (int i = 0; i < 4; i++) { /* three repeats of one, one of the other */
        planted_run(&experiment,
                    &(PlantedRun){.configuration = i / 3,
                                  .repeat = i % 3,
                                  .settings = i < 3 ? "{\"batch\": \"8\"}" : "{\"batch\": \"16\"}",
                                  .peer = i < 3 ? NULL : "torch",
                                  .tokens = 1000,
                                  .training_s = 10,
                                  .lines = {{400, 4, 3.5 + i}, {800, 8, 2 + 2 * i}}});
    }
    planted_read(&experiment, &results);
    cJSON *entry = cJSON_Parse("{\"name\": \"a\", \"kind\": \"curves\", \"x\": \"tokens\", \"y\": "
                               "\"val_loss\"}");
    Chart chart;
    assert_int_equal(chart_read(entry, &chart), 0);
    Plot plot = chart_plot(&chart, &results);
    assert_int_equal(plot.series_count, 2);
    /* 3.5, 4.5, 5.5 and 2, 4, 6: standard deviations of 1 and 2 */
    assert_true(fabs(plot.series[0].points[0].y - 4.5) < 1e-9);
    assert_true(fabs(plot.series[0].points[0].half - 1) < 1e-9);
    assert_true(fabs(plot.series[0].points[1].half - 2) < 1e-9);
    assert_true(isnan(plot.series[1].points[0].half));
    assert_true(!plot.series[0].peer && plot.series[1].peer);
    plot_free(&plot);
    cJSON_Delete(entry);
    results_free(&results);
    planted_end(&experiment);
}

static void test_document__long_lists_of_bars_are_grouped(void **state)
{
    (void)state;
    PlantedExperiment experiment;
    Results results;
    planted_begin(&experiment, "{\"axes\": [[\"batch\", \"accum\"], [\"attention\"]]}");
    for (int i = 0; i < 10; i++) { /* five batches by two kernels */
        char settings[128];
        snprintf(settings, sizeof settings,
                 "{\"batch\": \"%d\", \"accum\": \"%d\", \"attention\": \"%s\"}", 8 << (i / 2),
                 16 >> (i / 2), i % 2 == 0 ? "naive" : "flash");
        planted_run(&experiment, &(PlantedRun){.configuration = i,
                                               .settings = settings,
                                               .tokens = 1000,
                                               .training_s = 1 + i});
    }
    planted_read(&experiment, &results);
    cJSON *entry = cJSON_Parse("{\"name\": \"a\", \"kind\": \"bars\", \"x\": \"configuration\", "
                               "\"y\": \"tok_s\"}");
    Chart chart;
    assert_int_equal(chart_read(entry, &chart), 0);
    Plot plot = chart_plot(&chart, &results);
    /* accum follows from batch, and is left out. */
    assert_int_equal(plot.category_count, 5);
    assert_string_equal(plot.categories[1], "batch 16");
    assert_int_equal(plot.series_count, 2);
    assert_string_equal(plot.series[1].label, "attention flash");
    assert_true(fabs(plot.series[1].points[0].y - 500) < 1e-9);
    plot_free(&plot);
    cJSON_Delete(entry);
    results_free(&results);
    planted_end(&experiment);
}

/* --- what is told --- */

/* Fourteen results and cautions by hand are not to be had; by rules: two axes, peers and ranks. */
static void test_document__seven_findings_and_half_a_minute(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, "{\"axes\": [[\"attention\"], [\"batch\"]]}");
    for (int i = 0; i < 36; i++) { /* twelve kernels, of each a batch that does not fit */
        char settings[128];
        snprintf(settings, sizeof settings,
                 "{\"attention\": \"kernel%c of a long name in many words as this\", "
                 "\"batch\": \"%d\"}",
                 'a' + i / 3, 8 << (i % 3));
        planted_run(&one.experiment, &(PlantedRun){.configuration = i,
                                                   .settings = settings,
                                                   .state = i % 3 == 2 ? "refused" : NULL,
                                                   .tokens = 1000 + 10 * i,
                                                   .training_s = 10});
    }
    findings_case_conclude(&one);
    const Findings *findings = &one.findings;
    assert_true(findings->results > 20);
    assert_true(findings->shown >= 1 && findings->shown <= FINDINGS_SHOWN);
    int words = 0;
    for (int i = 0; i < findings->count; i++) {
        const Finding *finding = &findings->items[i];
        bool caution = i >= findings->results;
        assert_int_equal(finding->kind, caution ? FINDING_CAUTION : FINDING_RESULT);
        assert_true(i == 0 || i == findings->results || finding[-1].rank >= finding->rank);
        words += i < findings->shown || caution ? findings_words(finding->text.text) : 0;
    }
    assert_true(words <= FINDINGS_WORDS);
    findings_case_end(&one);
    assert_int_equal(findings_words("  two\twords\n"), 2);
    assert_int_equal(findings_words(""), 0);
}

static void test_document__ranks_of_findings(void **state)
{
    (void)state;
    Welch clear = {.p = 0.01}, noise = {.p = 0.4}, single = {.p = NAN};
    assert_true(findings_rank(RANK_SPEED, 2, &clear) == RANK_SPEED + 4.5);
    assert_true(findings_rank(RANK_SPEED, 0.5, &single) == RANK_SPEED + 4.5);
    assert_true(findings_rank(RANK_SPEED, 2, &noise) < findings_rank(RANK_SCALING, 1, NULL));
    assert_true(findings_rank(RANK_SPEED, 1e9, NULL) < RANK_LIMIT);
}

/* A comparison of kernels over ranks says nothing about batch sizes, whatever ranks do to them. */
static void test_document__rules_that_do_not_fit_are_silent(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, "{\"axes\": [[\"attention\"], [\"ranks\"]]}");
    for (int i = 0; i < 4; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "{\"attention\": \"%s\", \"ranks\": \"%d\"}",
                 i < 2 ? "naive" : "flash", 1 + i % 2);
        planted_run(&one.experiment,
                    &(PlantedRun){.configuration = i,
                                  .settings = settings,
                                  .config = "{\"oversubscribe\": true}",
                                  .ranks = 1 + i % 2,
                                  .tokens = 1000,
                                  .training_s = i < 2 ? 10 : 5,
                                  .exposed_s = i % 2 == 1 ? 2 : 0,
                                  .lines = {{400, 2, 3.5 + i}, {800, 4, 2.9 + i}}});
    }
    findings_case_conclude(&one);
    expect_no_finding(&one, "validation loss");
    expect_no_finding(&one, "learning rate");
    expect_no_finding(&one, "Communication");
    expect_finding(&one, FINDING_RESULT, "Use attention flash: 2.00 times as fast as naive.", "");
    findings_case_end(&one);
    /* Models of different sizes do different work: none of them is the fastest. */
    findings_case_start(&one, "{\"axes\": [[\"seq\"]]}");
    for (int i = 0; i < 3; i++) {
        char settings[32], config[32];
        snprintf(settings, sizeof settings, "{\"seq\": \"%d\"}", 128 << i);
        snprintf(config, sizeof config, "{\"seq\": %d}", 128 << i);
        planted_run(&one.experiment, &(PlantedRun){.configuration = i,
                                                   .settings = settings,
                                                   .config = config,
                                                   .tokens = 1000,
                                                   .training_s = 5 + 5 * i});
    }
    findings_case_conclude(&one);
    expect_no_finding(&one, "for speed");
    expect_finding(&one, FINDING_RESULT, "seq 512 runs at 33 % of the speed of seq 128", "seq 256");
    findings_case_end(&one);
}

/* Of short sequences that fill no machine the longer is the faster. */
static void test_document__longer_sequences_that_gain(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, "{\"axes\": [[\"seq\"]]}");
    for (int i = 0; i < 2; i++) {
        planted_run(&one.experiment,
                    &(PlantedRun){.configuration = i,
                                  .settings = i == 0 ? "{\"seq\": \"32\"}" : "{\"seq\": \"64\"}",
                                  .config = i == 0 ? "{\"seq\": 32}" : "{\"seq\": 64}",
                                  .tokens = 1000,
                                  .training_s = i == 0 ? 10 : 4});
    }
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_RESULT, "seq 64 is 2.50 times as fast as seq 32", "seq 64");
    findings_case_end(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document__any_text_is_a_string),
        cmocka_unit_test(test_document__of_hostile_records),
        cmocka_unit_test(test_document__of_a_run),
        cmocka_unit_test(test_document__lines_are_scanned_as_a_parser_reads_them),
        cmocka_unit_test(test_document__thinning_keeps_extremes),
        cmocka_unit_test(test_document__a_flat_end_is_enlarged),
        cmocka_unit_test(test_document__short_curves_are_not_cut_off),
        cmocka_unit_test(test_document__repeats_are_a_band),
        cmocka_unit_test(test_document__long_lists_of_bars_are_grouped),
        cmocka_unit_test(test_document__seven_findings_and_half_a_minute),
        cmocka_unit_test(test_document__ranks_of_findings),
        cmocka_unit_test(test_document__rules_that_do_not_fit_are_silent),
        cmocka_unit_test(test_document__longer_sequences_that_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
