/* A run's record to a curve and to pages. */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "report/curve.h"
#include "report/report.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char lines[] = "{\"step\":1,\"tokens\":8,\"loss\":4.5,\"lr\":0.1}\n"
                            "{\"step\":2,\"loss\":null,\"note\":\"loss is NaN\"}\n"
                            "{\"step\":2,\"val_loss\":4.25}\n"
                            "{\"step\":10,\"loss\":0.5}\n"
                            "{\"step\":11,\"lo"; /* torn by a kill */

static void write_record(const char *folder, const char *metrics, size_t size)
{
    static const char run[] =
        "{\"status\": \"done\", \"model\": {\"name\": \"a <b> & c\", "
        "\"parameters\": 12}, \"summary\": {\"steps\": 10, \"val_loss\": 4.25}}";
    char *path = io_join(folder, "run.json");
    data_files_write(path, run, sizeof run - 1);
    free(path);
    path = io_join(folder, "metrics.jsonl");
    data_files_write(path, metrics, size);
    free(path);
}

static void test_report__curve_from_a_record(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    write_record(folder, lines, sizeof lines - 1);
    Curve curve;
    assert_int_equal(curve_read(&curve, folder, 0), 0);
    assert_int_equal(curve.train.count, 2);
    assert_true(curve.train.points[0].step == 1 && curve.train.points[0].loss == 4.5);
    assert_true(curve.train.points[1].step == 10 && curve.train.points[1].loss == 0.5);
    assert_int_equal(curve.validation.count, 1);
    assert_true(curve.validation.points[0].step == 2 && curve.validation.points[0].loss == 4.25);
    curve_free(&curve);
    data_files_remove(folder);
}

static void test_report__damaged_records(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    static const char damaged[] = "{\"step\":1,\"loss\":4.5}\nnonsense\n{\"step\":3,\"loss\":4}\n";
    write_record(folder, damaged, sizeof damaged - 1);
    Curve curve;
    assert_int_equal(curve_read(&curve, folder, 0), ERR_INPUT);
    assert_says("metrics.jsonl:2:");
    char *missing = io_join(folder, "missing");
    assert_int_equal(curve_read(&curve, missing, 0), ERR_INPUT);
    assert_int_equal(run_report(missing, folder), ERR_INPUT);
    free(missing);
    data_files_remove(folder);
}

static void test_report__pages(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *out = io_join(folder, "report"), *text;
    write_record(folder, lines, sizeof lines - 1);
    assert_int_equal(run_report(folder, out), 0);
    size_t size;
    char *path = io_join(out, "report.html");
    assert_int_equal(io_read_all(path, 1 << 20, &text, &size), 0);
    assert_non_null(strstr(text, "a &lt;b&gt; &amp; c"));
    assert_non_null(strstr(text, "a \\u003cb\\u003e \\u0026 c"));
    assert_non_null(strstr(text, "\"Validation loss at the end\",\"4.2500\""));
    assert_null(strstr(text, "Training loss at")); /* the record has none */
    free(text);
    free(path);
    path = io_join(out, "loss.svg");
    if (io_exists(path)) { /* where gnuplot is installed */
        assert_int_equal(io_read_all(path, 1 << 20, &text, &size), 0);
        assert_non_null(strstr(text, "</svg>"));
        free(text);
    }
    free(path);
    path = io_join(out, "report.md");
    assert_true(io_exists(path));
    free(path);
    free(out);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report__curve_from_a_record),
        cmocka_unit_test(test_report__damaged_records),
        cmocka_unit_test(test_report__pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
