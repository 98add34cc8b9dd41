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

static void test_audit_read__names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        Unit unit;
        Quantity quantity;
    } cases[] = {
        {"**Batch-Size**", UNIT_NONE, Q_BATCH},
        {"Global BS", UNIT_NONE, Q_GLOBAL_BATCH},
        {"Steps/ep", UNIT_NONE, Q_STEPS_PER_EPOCH},
        {"Epoch", UNIT_SECONDS, Q_EPOCH_TIME},
        {"Epoch", UNIT_NONE, Q_NONE},
        {"Final Val Loss", UNIT_NONE, Q_FINAL_VAL_LOSS},
        {"Loss Comp.", UNIT_SECONDS, Q_LOSS_TIME},
        {"12 warmup steps", UNIT_NONE, Q_WARMUP},
        {"Wetter", UNIT_NONE, Q_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char phrase[PHRASE_SIZE];
        phrase_make(cases[i].text, strlen(cases[i].text), phrase);
        assert_int_equal(
            quantity_find(&(Names){NULL, 0}, phrase, cases[i].unit, PHRASE_ANYWHERE, NULL),
            cases[i].quantity);
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
    assert_int_equal(evidence.run_count, 3);
    assert_true(evidence_setting(&evidence, 2, Q_SEQ) == 128);
    int both = evidence.runs[1].identity.values[Q_RANKS] == 2 ? 1 : 2;
    static const Quantity said[] = {Q_EPOCH_TIME, Q_VAL_LOSS, Q_SPEEDUP};
    static const double values[] = {10, 3, 1.5};
    for (int i = 0; i < 3; i++) {
        const Fact *fact = evidence_find(&evidence, both, said[i], false);
        assert_non_null(fact);
        assert_true(fact->number.value == values[i]);
    }
    evidence_free(&evidence);
    document_free(&document);
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit_read__numbers),
        cmocka_unit_test(test_audit_read__names),
        cmocka_unit_test(test_audit_read__runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
