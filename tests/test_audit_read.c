/* How the audit reads: numbers with their units and rounding, names, and which run a number is
 * of. */
#include "audit/evidence.h"
#include "audit/scan.h"
#include "base/io.h"
#include "support/data_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_audit_read__numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        Unit unit;
        double value, low, high;
    } cases[] = {
        {"7.5 s", 5, UNIT_SECONDS, 7.5, 7.45, 7.55},
        {"7.22 hrs", 8, UNIT_SECONDS, 25992, 25974, 26010},
        {"~15,570 tokens/sec", 18, UNIT_TOKENS_PER_SECOND, 15570, 15565, 15575},
        {"2,048", 5, UNIT_NONE, 2048, 2047.5, 2048.5},
        {"1,2,3", 1, UNIT_NONE, 1, 0.5, 1.5},
        {"327.68M", 7, UNIT_NONE, 327.68e6, 327.675e6, 327.685e6},
        {"26-89ms", 7, UNIT_SECONDS, 0.0575, 0.0255, 0.0895},
        {"90%", 3, UNIT_PERCENT, 0.9, 0.895, 0.905},
        {"4.25x speedup", 5, UNIT_TIMES, 4.25, 4.245, 4.255},
        {"28.49 GiB", 9, UNIT_BYTES, 28.49 * 1073741824.0, 28.485 * 1073741824.0,
         28.495 * 1073741824.0},
        {"3e-4", 4, UNIT_NONE, 3e-4, 2.5e-4, 3.5e-4},
        {"-0.5", 4, UNIT_NONE, -0.5, -0.55, -0.45},
        {"2-GPU", 1, UNIT_NONE, 2, 1.5, 2.5},
        {"162,000 GPU hours", 17, UNIT_GPU_SECONDS, 583200000.0, 583198200.0, 583201800.0},
        {"3 trillion tokens", 10, UNIT_NONE, 3e12, 2.5e12, 3.5e12},
        {"24k tokens per second per GPU", 29, UNIT_TOKENS_PER_SECOND, 24000, 23500, 24500},
        {"$2.50", 5, UNIT_DOLLARS, 2.5, 2.495, 2.505},
        {"900 GB/s", 6, UNIT_OTHER, 900, 899.5, 900.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Number number;
        assert_int_equal(number_read(cases[i].text, false, &number), cases[i].length);
        assert_int_equal(number.unit, cases[i].unit);
        double slack = 1e-9 * fabs(cases[i].value);
        assert_true(fabs(number.value - cases[i].value) <= slack);
        assert_true(fabs(number.low - cases[i].low) <= slack);
        assert_true(fabs(number.high - cases[i].high) <= slack);
    }
    static const char *const none[] = {"2024-12-10", "23:07:29", "3D", "1.2.3", "", "x1", "."};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        Number number;
        assert_int_equal(number_read(none[i], false, &number), 0);
    }
}

static void test_audit_read__clock(void **state)
{
    (void)state;
    Number number;
    assert_int_equal(number_read_clock("4:42 h", &number), 6);
    assert_true(number.value == 4.7 * 3600 && number.high - number.low == 60);
    assert_int_equal(number_read_clock("1:02:03", &number), 7);
    assert_true(number.value == 3723);
    assert_int_equal(number_read_clock("4:42", &number), 0); /* hours or minutes? */
    assert_int_equal(number_read_clock("442", &number), 0);
}

static void test_audit_read__names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        Unit unit;
        Quantity quantity;
        unsigned marks;
    } cases[] = {
        {"**Batch-Size**", UNIT_NONE, Q_BATCH, 0},
        {"Global BS", UNIT_NONE, Q_GLOBAL_BATCH, 0},
        {"Steps/ep", UNIT_NONE, Q_STEPS_PER_EPOCH, 0},
        {"Epoch", UNIT_SECONDS, Q_EPOCH_TIME, 0},
        {"Epoch", UNIT_NONE, Q_NONE, 0},
        {"Final Val Loss", UNIT_NONE, Q_FINAL_VAL_LOSS, 0},
        {"Loss Comp.", UNIT_SECONDS, Q_LOSS_TIME, 0},
        {"warmup steps", UNIT_NONE, Q_WARMUP, 0},
        {"Training throughput per GPU", UNIT_TOKENS_PER_SECOND, Q_TOKENS_PER_SECOND, MARK_PER_RANK},
        {"Throughput", UNIT_OTHER, Q_NONE, 0},              /* images per second */
        {"Throughput", UNIT_NONE, Q_SAMPLES_PER_SECOND, 0}, /* of what? for ratios */
        {"Target throughput", UNIT_TOKENS_PER_SECOND, Q_NONE, 0},
        {"GPU runtime version", UNIT_NONE, Q_NONE, MARK_PER_RANK},
        {"Avg. step time", UNIT_SECONDS, Q_STEP_TIME, MARK_MEAN},
        {"Wetter", UNIT_NONE, Q_NONE, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char phrase[PHRASE_SIZE];
        unsigned marks;
        phrase_make(cases[i].text, strlen(cases[i].text), phrase);
        assert_int_equal(quantity_match(&(Names){NULL, 0}, phrase, cases[i].unit, &marks),
                         cases[i].quantity);
        assert_int_equal(marks, cases[i].marks);
    }
}

/* Headings, labels and columns name the same run. */
static void test_audit_read__runs(void **state)
{
    (void)state;
    static const char text[] =
        "# Study with 128 token sequences\n\n### b64_g2\nepoch time: 10 s\n\n"
        "### Table\n| BS | GPUs | Val loss |\n|-|-|-|\n| 64 | 1 | 2 |\n"
        "| 64 | 2 | 3 |\n\n| | Batch 64 | |\n|-|-|-|\n| | Time(s) | Speedup |\n"
        "| 2-GPU | 10 | 1.5 |\n";
    char *folder = data_files_folder(), *path = io_join(folder, "a.md");
    data_files_write(path, text, sizeof text - 1);
    Document document;
    assert_int_equal(document_read(path, &document), 0);
    Evidence evidence;
    evidence_read(&evidence, &document, &(Names){NULL, 0});
    int log = -1, row = -1, group = -1;
    for (int i = 0; i < evidence.record_count; i++) {
        bool both =
            evidence_value(&evidence, i, Q_RANKS) == 2 && evidence_batch(&evidence, i) == 64;
        log = both && evidence_own(&evidence, i, Q_EPOCH_TIME) != NULL ? i : log;
        row = both && evidence_own(&evidence, i, Q_VAL_LOSS) != NULL ? i : row;
        group = both && evidence_own(&evidence, i, Q_SPEEDUP) != NULL ? i : group;
    }
    assert_true(log >= 0 && row >= 0 && group >= 0);
    assert_true(evidence_names(&evidence, log, row) && evidence_names(&evidence, row, log));
    assert_true(evidence_names(&evidence, log, group));
    assert_true(evidence_value(&evidence, group, Q_SEQ) == 128);
    assert_true(evidence_own(&evidence, row, Q_VAL_LOSS)->number.value == 3);
    assert_true(evidence_own(&evidence, group, Q_SPEEDUP)->number.value == 1.5);
    assert_null(evidence_known(&evidence, 0, Q_RANKS)); /* the document has two */
    evidence_free(&evidence);
    document_free(&document);
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit_read__numbers),
        cmocka_unit_test(test_audit_read__clock),
        cmocka_unit_test(test_audit_read__names),
        cmocka_unit_test(test_audit_read__runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
