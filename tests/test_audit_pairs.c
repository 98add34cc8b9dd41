/* Pairs of documents that differ in one number: with the right one the audit is silent, with the
 * wrong one it names its line. '@' in the text stands for the number. */
#include "audit/audit.h"
#include "base/io.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *name;
    int line; /* of the finding */
    const char *right, *wrong, *text;
} pairs[] = {
    /* tables: columns that compare others */
    {"ratio.md", 4, "1.96", "2.16",
     "| Metric | H200 | B300 | Ratio |\n"
     "|-|-|-|-|\n"
     "| TFLOP/s per GPU | 497 | 976 | 1.96x |\n"
     "| Throughput | 162K tok/s | 318K tok/s | @x |\n"
     "| Time to 1T tokens | ~71 days | ~36 days | 1.97x |\n"
     "| Step time | 3.23s | 1.65s | 1.96x |\n"},
    {"change.md", 3,
     "\xe2\x88\x92"
     "39.0",
     "\xe2\x88\x92"
     "49.0",
     "| Metric | A | B | \xce\x94 |\n"
     "|-|-|-|-|\n"
     "| Step time (ms) | 566.7 | 345.8 | @% |\n"
     "| Throughput (tok/s) | 57,826 | 94,760 | +63.9% |\n"
     "| Peak memory (GB) | 39.6 | 38.6 | -2.5% |\n"},
    {"delta.md", 4, "0.1012", "0.1212",
     "| Seed | First best | Second best | Delta |\n"
     "|-|-|-|-|\n"
     "| 1 | 3.7986 | 3.6944 | 0.1042 |\n"
     "| 2 | 3.7958 | 3.6946 | @ |\n"
     "| 3 | 3.8224 | 3.7258 | 0.0966 |\n"},
    /* rows of totals and means */
    {"total.md", 8, "500", "570",
     "| Phase | ms |\n"
     "|-|-|\n"
     "| Data loading | 10 |\n"
     "| Forward | 150 |\n"
     "| Backward | 255 |\n"
     "| Communication | 45 |\n"
     "| Optimizer | 40 |\n"
     "| Total step | @ |\n"},
    {"rank-tokens.md", 7, "105,638,912", "107,638,912",
     "| Rank | Tokens |\n"
     "|-|-|\n"
     "| 0 | 26,413,056 |\n"
     "| 1 | 26,398,720 |\n"
     "| 2 | 26,421,248 |\n"
     "| 3 | 26,405,888 |\n"
     "| Total | @ |\n"},
    {"cost-total.md", 5, "$25.76", "$28.76",
     "| Platform | Cost | Runs |\n"
     "|-|-|-|\n"
     "| a | ~$11.83 | 79 |\n"
     "| b | ~$13.93 | 80 |\n"
     "| Total | @ | 159 |\n"},
    {"mean.md", 6, "3.282", "3.262",
     "| Seed | Val loss | Minutes |\n"
     "|-|-|-|\n"
     "| 0 | 3.281 | 41.2 |\n"
     "| 1 | 3.279 | 41.6 |\n"
     "| 2 | 3.286 | 41.1 |\n"
     "| Mean | @ | 41.3 |\n"},
    {"mixture.md", 7, "18", "28",
     "| Source | Share |\n"
     "|-|-|\n"
     "| Web | 62% |\n"
     "| Code | @% |\n"
     "| Books | 9% |\n"
     "| Papers | 7% |\n"
     "| Encyclopedia | 4% |\n"},
    {"hours.md", 9, "7.7M", "8.7M",
     "<table>\n"
     "  <tr><td></td><td><strong>Time (GPU hours)</strong></td></tr>\n"
     "  <tr>\n"
     "   <td>8B\n"
     "   </td>\n"
     "   <td>1.3M</td>\n"
     "  </tr>\n"
     "  <tr><td>70B</td><td>6.4M</td></tr>\n"
     "  <tr><td>Total</td>\n"
     "   <td>@</td></tr>\n"
     "</table>\n"},
    /* columns in proportion, and what is the same in all rows */
    {"price.md", 5, "$108", "$158",
     "| Hourly rate | GPU cost |\n"
     "|-|-|\n"
     "| $0.60 / hour | $43 |\n"
     "| $1.00 / hour | $72 |\n"
     "| $1.50 / hour | @ |\n"},
    {"bytes.md", 6, "10.4", "5.2",
     "| What | Bytes per parameter | GB |\n"
     "|-|-|-|\n"
     "| weights | 2 | 2.6 |\n"
     "| gradients | 2 | 2.6 |\n"
     "| master weights | 4 | 5.2 |\n"
     "| moments | 8 | @ |\n"},
    {"batch.md", 5, "426", "526",
     "| Config | Step time (ms) | Throughput (samples/s) |\n"
     "|-|-|-|\n"
     "| Single GPU | 139.86 | 229 |\n"
     "| DDP | 145.48 | 440 |\n"
     "| FSDP | 150.27 | @ |\n"
     "| FSDP, gradients | 143.25 | 447 |\n"
     "| FSDP, bf16 | 62.00 | 1032 |\n"
     "| FSDP, recompute | 194.24 | 330 |\n"},
    {"elapsed.csv", 4, "4245.7", "5245.7",
     "step,loss,elapsed_sec,tokens_processed,tokens_per_sec\n"
     "200,7.32,24.6136,102912,4181.1\n"
     "300,7.20,36.4001,154112,4233.8\n"
     "400,7.15,48.3575,205312,@\n"
     "500,7.01,60.1120,256512,4267.2\n"
     "600,6.90,71.9000,307712,4279.7\n"},
    {"iterations.log", 3, "0.660", "0.960",
     " iteration 1/ 50 | elapsed time per iteration (ms): 24001.0 | samples per second: 0.667 |\n"
     " iteration 2/ 50 | elapsed time per iteration (ms): 24120.5 | samples per second: 0.663 |\n"
     " iteration 3/ 50 | elapsed time per iteration (ms): 24228.7 | samples per second: @ |\n"
     " iteration 4/ 50 | elapsed time per iteration (ms): 24100.1 | samples per second: 0.664 |\n"
     " iteration 5/ 50 | elapsed time per iteration (ms): 24406.0 | samples per second: 0.656 |\n"},
    /* cells of two numbers */
    {"used.md", 3, "114", "164",
     "| Metric | H200 | B300 |\n"
     "|-|-|-|\n"
     "| Peak memory/GPU | ~@ GB / 141 GB | ~173 GB / 288 GB |\n"},
    {"clock.md", 3, "2:39", "2:56",
     "| Metric | Value |\n"
     "|-|-|\n"
     "| Training time | 2.65 h (@ h) |\n"},
    /* names */
    {"camel.md", 4, "923.53", "1123.53",
     "Config | SeqLen | GlobalBatchSize | GPUNum | TimePerIter (s) | Tokens/GPU/Second\n"
     "-- | -- | -- | -- | -- | --\n"
     "tp2 | 4096 | 2048 | 256 | 22.42 | 1461.56\n"
     "tp4 | 4096 | 2048 | 256 | 35.481 | @\n"},
    {"chips.md", 4, "5,370.74", "6,370.74",
     "| Model | Number of chips | GBS | Sequence length | Step time (seconds) | Tokens/sec/chip |\n"
     "|-|-|-|-|-|-|\n"
     "| a | 64 | 256 | 8192 | 0.57 | 57,873.71 |\n"
     "| b | 64 | 512 | 8192 | 12.20 | @ |\n"
     "| c | 256 | 1536 | 8192 | 98.34 | 499.77 |\n"},
    {"alone.md", 3, "0", "37",
     "| GPUs | tokens/s | all-reduce ms/step |\n"
     "|-|-|-|\n"
     "| 1 | 140,200 | @ |\n"
     "| 2 | 275,900 | 11 |\n"},
    {"settings.md", 12, "1.65", "1.95",
     "## Configuration\n"
     "| Parameter | Value |\n"
     "|-|-|\n"
     "| Micro-batch size | 4 |\n"
     "| Global batch size | 128 |\n"
     "| Sequence length | 4096 |\n"
     "\n"
     "## Result\n"
     "| Metric | Value |\n"
     "|-|-|\n"
     "| Peak memory | 12 GB |\n"
     "| Throughput | 318K tok/s |\n"
     "| Step time | @s |\n"},
    {"samples.md", 4, "406", "506",
     "# Tuning\n"
     "- Training samples: 52,000\n"
     "- Global batch size: 128\n"
     "- Steps per epoch: @\n"},
    /* limits */
    {"rtx.log", 4, "21.7", "31.7",
     "[2025-03-02 10:11:04] device: NVIDIA GeForce RTX 3090 (24 GB), torch 2.5.1\n"
     "[2025-03-02 10:11:09] model: 774.0M parameters, seq_len 1024, batch_size 8\n"
     "[2025-03-02 10:11:58] step 0 | train loss 10.94 | peak memory 21.7 GB\n"
     "[2025-03-02 10:15:41] step 100 | train loss 7.02 | peak memory @ GB\n"},
    {"card.md", 9, "84.5", "104.5",
     "### Hardware\n"
     "- Each H100 GPU is equipped with 96GB HBM2e.\n"
     "\n"
     "### Results\n"
     "| Parallelism | Sequence Length | TPS/GPU | Memory(GiB) |\n"
     "|-|-|-|-|\n"
     "| a | 32768 | 3,890 | 83.9 |\n"
     "| b | 65536 | 2,540 | 84.2 |\n"
     "| c | 262144 | 548 | @ |\n"
     "| d | 131072 | 1,071 | 84.0 |\n"},
    {"mfu.md", 5, "18.9", "38.9",
     "Model: 1.3B parameters, bf16, sequence length 2048.\n"
     "\n"
     "| GPUs | Tokens/s/GPU | MFU |\n"
     "|-|-|-|\n"
     "| 8x H100 SXM | 24,000 | @% |\n"
     "| 16x H100 SXM | 23,400 | 18.5% |\n"},
    {"printed.log", 3, "10.9677", "5.9677",
     "  (lm_head): Linear(in_features=768, out_features=50304, bias=False)\n"
     ")\n"
     "step 0 | loss: @ | norm: 6.74\n"
     "step 10 | loss: 8.6117 | norm: 2.93\n"},
    /* sentences */
    {"quote.md", 9, "18,147", "19,347",
     "| Strategy | GPUs | Tokens/sec |\n"
     "|-|-|-|\n"
     "| DDP | 2 | 8,369 |\n"
     "| DDP | 4 | 12,220 |\n"
     "| ZERO2 | 2 | 10,999 |\n"
     "| ZERO2 | 4 | 18,147 |\n"
     "\n"
     "Insights:\n"
     "- ZeRO-2 dominates with @ tokens/sec at 4 GPUs\n"},
    {"that.md", 1, "25.6", "28.6", "From 50K to 1.28M tokens per second. That's a @x speedup.\n"},
    {"arrow.md", 3, "36", "46",
     "| What | Measured |\n"
     "|-|-|\n"
     "| Checkpointing | 27.7GB \xe2\x86\x92 17.8GB (\xe2\x88\x92@%), the same loss |\n"},
    {"finding.md", 3, "82", "62",
     "| Finding | Detail |\n"
     "|-|-|\n"
     "| @% memory reduction | sharding takes it from 5.16 GB to 0.92 GB per GPU |\n"},
    {"part.md", 1, "0.18", "0.38",
     "Adapters: 294,912 trainable params vs 163,332,096 total (~@%).\n"},
    {"quotient.md", 1, "23", "29", "The utilisation is approximately 228.09/989.4 = @%.\n"},
    {"function.md", 1, "10.37", "11.37", "A uniform guess has the loss `ln(32000) = @`.\n"},
    {"nested.md", 1, "192.000", "182.000", "The mean is 6 / (2/320 + 4/160) = @.\n"},
    {"unit.md", 1, "20.5", "30.5", "Bandwidth 74.6 \xe2\x86\x92 89.9 GB/s (+@%), as measured.\n"},
    {"steps.md", 1, "499,908,608", "459,908,608",
     "Batches of 131,072 tokens per optimizer step; 3,814 steps = @ tokens, once for each.\n"},
    {"brackets.md", 1, "4.3", "6.3",
     "So 2.91 hours is `(3.04 - 2.91)/3.04*100` ~= @% better than 3.04 hours.\n"},
    {"capital.md", 1, "524,288", "542,288", "This gives `32 X 2048 X 8 = @`, one batch.\n"},
    {"plus.md", 1, "20", "30",
     "It needs 6 GB for parameters, plus another 14 GB for optimizer states, totaling @ GB.\n"},
    {"epochs.md", 1, "3,750", "4,250",
     "We tuned for 3 epochs with 1,250 steps per epoch, @ optimizer steps in total.\n"},
    {"perplexity.md", 1, "18.4", "21.4",
     "The model reaches a validation loss of 2.91 (perplexity @) on the held-out split.\n"},
    {"printed-ppl.md", 1, "17.69", "19.79", "The command printed `loss=2.8731 perplexity=@`.\n"},
    {"for.md", 1, "4,608", "5,608",
     "It was trained on 32 A100 GPUs for 6 days, @ GPU hours in all.\n"},
    {"words.md", 1, "128", "256",
     "The global batch size = local batch size 2 * number of FSDP ranks 64 = @.\n"},
};

static int disagreements(const char *name, const char *text, const char *number, int *line)
{
    char *folder = data_files_folder(), *path = io_join(folder, name);
    const char *at = strchr(text, '@');
    char whole[2048];
    assert_non_null(at);
    int length = snprintf(whole, sizeof whole, "%.*s%s%s", (int)(at - text), text, number, at + 1);
    assert_in_range(length, 1, sizeof whole - 1);
    data_files_write(path, whole, (size_t)length);
    Audit audit;
    int code = audit_file(path, &(Names){NULL, 0}, &audit);
    int count = code == 0 ? audit_count(&audit, FINDING_DISAGREES) : -1; /* nothing recognised */
    *line = 0;
    for (int i = 0; i < audit.findings.count; i++) {
        bool first = audit.findings.items[i].kind == FINDING_DISAGREES && *line == 0;
        *line = first ? audit.findings.items[i].line : *line;
    }
    audit_free(&audit);
    free(path);
    data_files_remove(folder);
    return count;
}

static void test_audit_pairs__the_wrong_number_alone_is_found(void **state)
{
    (void)state;
    int failures = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        int line, count = disagreements(pairs[i].name, pairs[i].text, pairs[i].right, &line);
        if (count != 0) {
            print_error("%s: right, and %d disagree, the first in line %d\n", pairs[i].name, count,
                        line);
            failures++;
        }
        count = disagreements(pairs[i].name, pairs[i].text, pairs[i].wrong, &line);
        if (count != 1 || line != pairs[i].line) {
            print_error("%s: wrong, and %d disagree, the first in line %d; 1 in line %d expected\n",
                        pairs[i].name, count, line, pairs[i].line);
            failures++;
        }
    }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit_pairs__the_wrong_number_alone_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
