/* The audit of foreign results: every rule on a small document with one fault, and on one
 * without. */
#include "audit/audit.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Audits a document of that name with names mapped as --map would. */
static int audit_text(const char *name, const char *map, const char *text, size_t size,
                      Audit *audit)
{
    char *folder = data_files_folder(), *path = io_join(folder, name);
    data_files_write(path, text, size);
    NameMapping *mappings;
    int count;
    assert_int_equal(names_parse(map, &mappings, &count), 0);
    int code = audit_file(path, &(Names){mappings, count}, audit);
    free(mappings);
    free(path);
    data_files_remove(folder);
    return code;
}

/* The document has a finding of this kind in that line whose text holds `part`. */
static void expect(const char *name, const char *text, FindingKind kind, int line, const char *part)
{
    Audit audit;
    assert_int_equal(audit_text(name, "", text, strlen(text), &audit), 0);
    bool found = false;
    for (int i = 0; i < audit.findings.count; i++) {
        const Finding *finding = &audit.findings.items[i];
        found |=
            finding->kind == kind && finding->line == line && strstr(finding->text, part) != NULL;
    }
    if (!found) {
        audit_print(&audit, name, stderr);
        fail_msg("%s: no finding in line %d with '%s'", name, line, part);
    }
    audit_free(&audit);
}

/* Nothing disagrees and nothing is warned of, though at least `compared` numbers were compared. */
static void expect_quiet(const char *name, const char *text, long compared)
{
    Audit audit;
    assert_int_equal(audit_text(name, "", text, strlen(text), &audit), 0);
    if (audit_count(&audit, FINDING_DISAGREES) + audit_count(&audit, FINDING_WARNING) > 0 ||
        audit.findings.compared < compared) {
        audit_print(&audit, name, stderr);
        fail_msg("%s: findings, or fewer than %ld numbers compared", name, compared);
    }
    audit_free(&audit);
}

static void test_audit__tokens_per_step(void **state)
{
    (void)state;
    expect("a.md",
           "## Setup\n- seq len: 512\n- micro batch: 4\n- world size: 2\n- grad accum: 8\n"
           "- tokens/step: 16,384\n",
           FINDING_DISAGREES, 6, "makes 32768");
    expect_quiet("a.md",
                 "## Setup\n- seq len: 512\n- micro batch: 4\n- world size: 2\n- grad accum: 8\n"
                 "- tokens/step: 32.8k\n",
                 1);
    expect("a.csv",
           "seq,ranks,local batch,tok/s,step time (ms)\n1024,4,8,65536,500\n1024,4,8,9000,500\n",
           FINDING_DISAGREES, 3, "7.28 times more");
    expect("a.md", "- params: 1M\n- buffer: 250 (4 x 25 x 3)\n", FINDING_DISAGREES, 2, "makes 300");
}

static void test_audit__steps_that_are_log_rows(void **state)
{
    (void)state;
    /* 1,638,400 tokens of 128 each; rows are written every 20 updates. */
    static const char text[] = "Context length: 128\nTotal tokens: 1.6384M\nLearning rate: 1e-3\n\n"
                               "| BS | Updates | Runtime (min) | Val loss |\n|--|--|--|--|\n"
                               "| 2 | 320 | 10 | 3.2 |\n| 4 | 160 | 6 | 3.1 |\n"
                               "| 8 | 80 | 4 | 3.0 |\n| 16 | 40 | 40 | 3.3 |\n";
    expect("a.md", text, FINDING_DISAGREES, 7,
           "the tokens need 6400 (20 x); the ratio is 20 to 20");
    expect("a.md", text, FINDING_DISAGREES, 10, "40 steps are stated; the tokens need 800");
    expect("a.md", text, FINDING_WARNING, 7, "learning rate 0.001 for all batches from 2 to 16");
    expect("a.md", text, FINDING_WARNING, 10, "10 times less");
}

static void test_audit__throughput_times_time(void **state)
{
    (void)state;
    expect("a.csv",
           "batch,training time (h),tokens,throughput (tok/s)\n8,2.00,100M,13889\n"
           "16,1.00,100M,50000\n",
           FINDING_DISAGREES, 3, "= 1.8e+08 tokens; 1e+08 are stated");
}

static const char ranks_log[] =
    "### run_b32_g1\nepoch time: 900 s\ncomm time: 12.5 s\n\n"
    "### run_b32_g3\nMean over ranks:\nepoch time: 400 s\nval loss: 2.511\n\n"
    "Rank 0 -\nepoch time: 300 s\n\nRank 1 -\nepoch time: 300 s\n\nRank 2 -\nepoch time: 600 s\n\n"
    "Rank 0 - Epoch 0: val loss 2.115\n\n"
    "### Result\n| | Batch 32 | |\n|--|--|--|\n| | Time (sec) | Speedup |\n"
    "| 1-GPU | 900 | 1.00 |\n| 3-GPU | 400 | 2.25 |\n";

static void test_audit__speedup_from_the_slowest_rank(void **state)
{
    (void)state;
    expect("a.md", ranks_log, FINDING_DISAGREES, 26,
           "speed-up 2.25 is from the mean of the ranks; from the slowest rank (600 s, line 17) "
           "against 900 s (line 2) it is 1.5");
    expect("a.md", ranks_log, FINDING_WARNING, 17, "rank 2 takes 600 s, 2 times the 300 s");
    expect("a.md", ranks_log, FINDING_DISAGREES, 3, "12.5 s of communication; 0 expected");
    expect("a.md", ranks_log, FINDING_DISAGREES, 19, "val-loss is 2.115 here and 2.511 in line 8");
}

static void test_audit__speedup_and_efficiency_from_times(void **state)
{
    (void)state;
    expect("a.csv",
           "gpus;wall time (s);speedup;efficiency\n1;100;1;100%\n2;60;1.67;83%\n4;40;3.1;62%\n",
           FINDING_DISAGREES, 4, "speed-up 3.1 does not follow from the times");
    expect("a.csv", "gpus\twall time (s)\tefficiency\n1\t100\t100%\n2\t60\t95%\n",
           FINDING_DISAGREES, 3, "efficiency 95 % does not follow");
    expect_quiet("a.csv", "gpus;wall time (s);speedup;efficiency\n1;100;1;100%\n2;60;1.67;83%\n",
                 2);
    expect("a.csv", "gpus,tok/s,speedup\n1,1000,1\n4,4600,4.6\n", FINDING_WARNING, 3, "115 %");
    expect("a.md", "Scaling is sub-linear: 8 GPUs give a 9.1x speedup.\n", FINDING_DISAGREES, 1,
           "speed-up of 9.1 on 8 ranks");
}

static void test_audit__phases_and_timers(void **state)
{
    (void)state;
    static const char text[] =
        "| Micro batch | Elapsed | Epoch | Training | Fwd | Bwd | Loss |\n"
        "|---|---|---|---|---|---|---|\n"
        "| 2 | 90s | 80s | 60s | 10s (0.010s) | 25s (0.025s) | 1s (0.001s) |\n"
        "| 32 | 120s | 30s | 20s | 0.8s (0.012s) | 9s (0.144s) | 4s (0.064s) |\n"
        "\nMicro batch 32 is slower than 2.\n";
    expect("a.md", text, FINDING_DISAGREES, 3, "3 phases sum to 36 s of 60 s train-time (60 %)");
    expect("a.md", text, FINDING_DISAGREES, 4, "loss grows from 1 to 64 ms a call");
    expect("a.md", text, FINDING_DISAGREES, 6, "outside it are 90 s against 10 s");
    expect_quiet("a.csv",
                 "run,fwd ms,bwd ms,optimizer ms,step time ms\na,10,20,2,32.5\nb,11,20,2,33\n", 2);
}

static void test_audit__memory_and_work(void **state)
{
    (void)state;
    expect("a.md", "- GPU with 24 GB memory\n- Allocated: 31.5 GB\n", FINDING_DISAGREES, 2,
           "29.34 GiB allocated on a device of 22.35 GiB");
    expect_quiet("a.md", "- GPU with 24 GB memory\n- Allocated: 23.9 GiB\n", 1);
    expect("a.md", "- Weights: 400 MB\n- Optimizer state (AdamW): 1.2 GB\n", FINDING_DISAGREES, 2,
           "2 x 400 MB of parameters (line 1) = 800 MB");
    expect_quiet("a.md", "- Weights: 400 MB\n- Optimizer state (AdamW): ~0.8 GB\n", 1);
    expect_quiet("a.md", "- Weights: 400 MB\n- Optimizer state (AdamW): 1.6 GB\n", 1);
    expect("a.md", "- Parameters: 100M\n- Weights: 400 MB\n- Optimizer state (AdamW): 1.6 GB\n",
           FINDING_DISAGREES, 3, "= 800 MB");
    expect("a.csv", "gpus,mfu\n8,-100%\n8,41%\n", FINDING_DISAGREES, 2, "-100 % is stated");
    expect("a.md", "Ran on one A100.\n\nParameters: 1.5B\nGPUs: 1\nThroughput: 90,000 tok/s\n",
           FINDING_DISAGREES, 5, "259.6 % of the peak");
}

static void test_audit__first_loss(void **state)
{
    (void)state;
    expect("a.csv", "step,loss,vocab size\n0,3.1,4096\n1,3.0,4096\n", FINDING_DISAGREES, 2,
           "ln(4096) = 8.318 expected");
    expect("a.md", "Model: GPT-2 small\n\nInitial loss: 2.2\n", FINDING_DISAGREES, 3,
           "ln(50257) = 10.82");
    expect_quiet("a.md", "Vocab: 4096\n\nInitial loss: ~8.4\n", 1);
    expect_quiet("a.md", "Vocab: 4096\nFine-tuning of another run.\nInitial loss: 2.2\n", 0);
}

/* Rounded repetitions are no second value; another value is. */
static void test_audit__same_number_twice(void **state)
{
    (void)state;
    static const char good[] = "| Batch | Final val loss | Best val loss |\n|-|-|-|\n"
                               "| 8 | 1.3923 | 1.3902 |\n| 16 | 1.4370 | 1.4341 |\n\n"
                               "- Batch 8: val loss 1.39\n- Batch 16: val loss 1.434\n"
                               "- Batch 16: val loss about 1.44\n";
    expect_quiet("a.md", good, 3);
    static const char bad[] =
        "| Batch | Final val loss |\n|-|-|\n| 8 | 1.3923 |\n| 16 | 1.4370 |\n\n"
        "- Batch 16: val loss 1.41\n";
    expect("a.md", bad, FINDING_DISAGREES, 6, "val-loss is 1.41 here and 1.437 in line 4");
}

/* Per-epoch losses of one run differ, and a plan is no result. */
static void test_audit__what_is_no_contradiction(void **state)
{
    (void)state;
    expect_quiet("a.md",
                 "### b8_g1\nEpoch 0: val loss 3.2\nEpoch 1: val loss 2.9\n\n"
                 "## Expected performance\n- Batch 8: val loss 1.0\n",
                 0);
    /* Two ways of counting a batch: either may be meant. */
    expect_quiet("a.csv", "batch,gpus,seq,tokens/step\n8,2,128,1024\n8,2,128,2048\n", 2);
    expect_quiet(
        "a.md",
        "| Kernel | GPUs | Epochs | Steps/ep | Global BS | Local BS | Samples/ep | Wall (s) "
        "| s/ep | tok/s |\n|-|-|-|-|-|-|-|-|-|-|\n"
        "| a | 1 | 3 | 10 | 2 | 2 | 20 | 60.0 | 20.0 | 256 |\n"
        "| b | 2 | 3 | 10 | 4 | 2 | 40 | 75.3 | 25.1 | 408 |\n",
        6);
}

static void test_audit__names_can_be_mapped(void **state)
{
    (void)state;
    static const char text[] = "Karten;Zeit;Gewinn\n1;100 s;1\n2;50 s;3\n";
    Audit audit;
    assert_int_equal(audit_text("a.csv", "Karten=ranks\nZeit=train-time\nGewinn=speedup\n", text,
                                sizeof text - 1, &audit),
                     0);
    assert_int_equal(audit_count(&audit, FINDING_DISAGREES), 1);
    assert_int_equal(audit.findings.items[0].line, 3);
    audit_free(&audit);
    NameMapping *mappings;
    int count;
    assert_int_equal(names_parse("Zeit=trian-time", &mappings, &count), ERR_INPUT);
    assert_says("did you mean train-time?");
    assert_int_equal(names_parse("Zeit", &mappings, &count), ERR_INPUT);
    assert_says("their name=quantity");
}

static void test_audit__odd_files(void **state)
{
    (void)state;
    Audit audit;
    assert_int_equal(audit_text("a.md", "", "", 0, &audit), ERR_INPUT);
    assert_says("--map");
    assert_int_equal(audit_text("a.md", "", "Just words.", 11, &audit), ERR_INPUT);
    assert_says("tokens-per-step");
    assert_int_equal(audit_file("absent.md", &(Names){NULL, 0}, &audit), ERR_INPUT);
    size_t size = 1 << 19;
    char *text = mem_zalloc(size, 1);
    assert_int_equal(audit_text("a.md", "", text, size, &audit), ERR_INPUT);
    memset(text, '|', size);
    assert_int_equal(audit_text("a.md", "", text, size, &audit), ERR_INPUT);
    for (size_t i = 0; i + 16 < size; i += 16) {
        memcpy(text + i, "batch 9: loss 2\n", 16);
    }
    assert_int_equal(audit_text("a.md", "", text, size, &audit), 0);
    audit_free(&audit);
    for (size_t i = 0; i + 16 < size; i += 16) {
        memcpy(text + i, "batch,loss\n8,1\n\n", 16);
    }
    assert_int_equal(audit_text("a.csv", "", text, size, &audit), 0);
    audit_free(&audit);
    free(text);
}

/* Values stand in messages as in the page; where nothing was compared, that is said. */
static void test_audit__messages(void **state)
{
    (void)state;
    expect("a.md",
           "| Model | Time | Cost |\n|-|-|-|\n| a | 8.3h | $10 |\n| b | 6.63h | $30 |\n"
           "| Total | 10.4h | $40 |\n",
           FINDING_DISAGREES, 5, "10.4 h is stated; the 2 rows above make 14.93 h");
    expect("a.md",
           "| Source | Clips |\n|-|-|\n| a | 108,502 |\n| b | 52,006 |\n| Total | 170,508 |\n",
           FINDING_DISAGREES, 5, "170,508 is stated; the 2 rows above make 160,508");
    expect("a.md", "The memory falls from 36.4 GB to 18.9 GB, a reduction of 58 %.\n",
           FINDING_DISAGREES, 1, "from 36.4 GB to 18.9 GB is 1.926 times or -48.1 %; 58 % is");
    expect("a.md", "Diminishing returns: 8 GPUs give a 9.1x speedup.\n", FINDING_DISAGREES, 1,
           "the text says Diminishing returns beside");
    static const char text[] = "- Batch size: 8\n- Learning rate: 1e-3\n";
    Audit audit;
    assert_int_equal(audit_text("a.md", "", text, sizeof text - 1, &audit), 0);
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    audit_print(&audit, "a.md", file);
    fclose(file);
    assert_string_equal(out, "a.md: 2 numbers recognised, none of them compared: this says nothing "
                             "about the page\n");
    free(out);
    audit_free(&audit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit__tokens_per_step),
        cmocka_unit_test(test_audit__steps_that_are_log_rows),
        cmocka_unit_test(test_audit__throughput_times_time),
        cmocka_unit_test(test_audit__speedup_from_the_slowest_rank),
        cmocka_unit_test(test_audit__speedup_and_efficiency_from_times),
        cmocka_unit_test(test_audit__phases_and_timers),
        cmocka_unit_test(test_audit__memory_and_work),
        cmocka_unit_test(test_audit__first_loss),
        cmocka_unit_test(test_audit__same_number_twice),
        cmocka_unit_test(test_audit__what_is_no_contradiction),
        cmocka_unit_test(test_audit__names_can_be_mapped),
        cmocka_unit_test(test_audit__odd_files),
        cmocka_unit_test(test_audit__messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
