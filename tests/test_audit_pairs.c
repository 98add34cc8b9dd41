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
    /* tables of settings, and of rates of each rank and of all */
    {"effective.md", 7, "64", "32",
     "## Configuration\n"
     "\n"
     "| Parameter | Value |\n"
     "|-|-|\n"
     "| Batch Size | 2 per GPU |\n"
     "| Gradient Accumulation | 4 steps |\n"
     "| Effective Batch Size | @ (8 GPUs) |\n"},
    {"each.md", 6, "41,468", "44,168",
     "## Throughput\n"
     "\n"
     "| Metric | Value |\n"
     "|-|-|\n"
     "| Total throughput | 331,742 tokens/s |\n"
     "| Per-GPU throughput | @ tokens/s |\n"
     "| World size | 8 GPUs |\n"},
    {"scaling.md", 5, "21", "41",
     "| Metric | 8 GPUs (1 Node) | 16 GPUs (2 Nodes) |\n"
     "|-|-|-|\n"
     "| Total Throughput | 331,842 tokens/s | 136,970 tokens/s |\n"
     "| Per-GPU Throughput | 41,480 tokens/s | 8,561 tokens/s |\n"
     "| Scaling Efficiency | 100% (baseline) | @% |\n"},
    {"global-step.md", 5, "12,040", "21,040",
     "| Model | #GPUs | GBS | Seq Length | Time per Global Step (s) | Tokens/sec/GPU |\n"
     "|-|-|-|-|-|-|\n"
     "| a | 64 | 512 | 4096 | 7.286 | 4,497 |\n"
     "| b | 8 | 512 | 4096 | 15.614 | 16,789 |\n"
     "| c | 8 | 512 | 4096 | 21.773 | @ |\n"
     "| d | 8 | 256 | 4096 | 10.04 | 13,058 |\n"},
    {"budget.md", 5, "153h", "135h",
     "| Config | tok/s | VRAM | 17.8B in |\n"
     "|-|-|-|-|\n"
     "| eager | 20,668 | 15.7GB | 239h |\n"
     "| compiled | 28,455 | 13.6GB | 174h |\n"
     "| batch of 16 | 32,425 | 37.4GB | @ |\n"},
    /* shares */
    {"trainable.md", 4, "1.028", "1.208",
     "| Rank | Trainable Parameters | Total Parameters | Trainable Percent |\n"
     "|-|-|-|-|\n"
     "| 8 | 9,232,384 | 1,786,320,384 | 0.517% |\n"
     "| 16 | 18,464,768 | 1,795,552,768 | @% |\n"
     "| 32 | 36,929,536 | 1,814,017,536 | 2.036% |\n"},
    {"share.md", 5, "1.9", "2.9",
     "| Language | Sentences | Share |\n"
     "|-|-|-|\n"
     "| Kazakh | 60.1M | 49.3% |\n"
     "| Russian | 57.0M | 46.8% |\n"
     "| English | 2.3M | @% |\n"
     "| Other | 2.5M | 2.0% |\n"
     "| Total | 121.9M | 100% |\n"},
    {"rows.md", 6, "2,943,757", "2,493,757",
     "| Metric | Value |\n"
     "|-|-|\n"
     "| Total rows | 24,883,808 |\n"
     "| Total tokens (old tokenizer) | 6,173,131,446 (6.17B) |\n"
     "| Kazakh rows | 21,940,051 (88.2%) |\n"
     "| Russian rows | @ (11.8%) |\n"
     "| Kazakh tokens | 3,682,298,071 (3.68B, 59.6%) |\n"
     "| Russian tokens | 2,490,833,375 (2.49B, 40.4%) |\n"},
    {"adapter.md", 3, "2.1", "21",
     "| Parameter | Value |\n"
     "|-|-|\n"
     "| Trainable Parameters | 161M (@% of 7.7B) |\n"},
    /* totals */
    {"vram.md", 6, "2.2", "3.2",
     "VRAM usage:\n"
     "\n"
     "- Base model (4-bit): ~0.8 GB\n"
     "- Adapters: ~0.4 GB\n"
     "- Training overhead: ~1 GB\n"
     "- Total: ~@ GB (well within 8GB)\n"},
    {"parts.md", 6, "134,077,440", "134,257,440",
     "| Component | Parameters |\n"
     "|-|-|\n"
     "| Token embedding | 38,597,376 |\n"
     "| Blocks | 56,882,688 |\n"
     "| Head | 38,597,376 |\n"
     "| Total | @ |\n"},
    {"kinds.md", 6, "2.80B", "2.47B",
     "| Metric | Value |\n"
     "|-|-|\n"
     "| Kazakh tokens | 1.33B |\n"
     "| Russian tokens | 1.46B |\n"
     "| Parallel tokens | 7.2M |\n"
     "| Total tokens | ~@ |\n"
     "| Block size | 2048 |\n"},
    /* rows and cells that compare */
    {"delta-row.md", 5, "0.281", "0.218",
     "| Model | prompt strict | prompt loose | inst strict | inst loose |\n"
     "|-|-|-|-|-|\n"
     "| base | 0.2477 \xc2\xb1"
     "0.0186 | 0.2976 \xc2\xb1"
     "0.0197 | 0.3921 | 0.4365 |\n"
     "| tuned | 0.5287 \xc2\xb1"
     "0.0215 | 0.6044 | 0.6595 | 0.7134 |\n"
     "| \xce\x94 (tuned - base) | +@ | +0.307 | +0.267 | +0.277 |\n"},
    {"change-row.md", 5, "+82.4%", "+28.4%",
     "| Experiment | Train Acc | Train F1 | Train Loss | Val Acc |\n"
     "|-|-|-|-|-|\n"
     "| Baseline | 0.3378 | 0.33053 | 1.09993 | 0.44437 |\n"
     "| Tuned | 0.83005 | 0.82504 | 0.44704 | 0.81068 |\n"
     "| Change (%) | +145.7% | +149.6% | \xe2\x80\x93"
     "59.4% | @ |\n"},
    {"words.md", 6, "9.1x", "8.1x",
     "| M | V5 | V5b | Diferen\xc3\xa7"
     "a |\n"
     "|-|-|-|-|\n"
     "| Val Loss | 3.89 | 3.38 | -13% (melhor) |\n"
     "| Epochs | 50 | 4 | 12.5x menos |\n"
     "| Tempo | 3.2h | 2.9h | 1.1x mais r\xc3\xa1pido |\n"
     "| Tokens | 6.0B | 0.659B | @ menos |\n"},
    {"original.md", 6, "18x", "28x",
     "| Setting | Steps/sec | Note |\n"
     "|-|-|-|\n"
     "| original | ~0.5 | bottleneck |\n"
     "| + data | ~5.0 | 10x speedup |\n"
     "| + bf16 | ~8.0 | 16x vs original |\n"
     "| + fused | ~9.0 | @ vs original |\n"
     "| + compiled | ~11.0 | 22x vs original |\n"},
    {"margin.md", 3, "5.998", "5.098",
     "| Dataset | Reference | Fused | Margin |\n"
     "|-|-|-|-|\n"
     "| a | 0.27061 | 0.25438 | @ % |\n"
     "| b | 0.14167 | 0.13963 | 1.440 % |\n"
     "| c | 0.40571 | 0.38696 | 4.622 % |\n"
     "| d | 0.09949 | 0.09968 | 0.191 % |\n"},
    {"steps-to.md", 5, "1.9x", "2.9x",
     "| Config | Steps to val 1.46 | Speedup | Best val loss |\n"
     "|-|-|-|-|\n"
     "| Baseline | 1,900 | 1.0x | 1.4636 |\n"
     "| Sprint | 500 | 3.8x | 1.4404 |\n"
     "| Marathon | 1,000 | @ | 1.4149 |\n"},
    /* lines */
    {"time.log", 4, "4039.25", "4309.25",
     "step: 00003/19073 | loss: 10.8198 | time: 1011.47ms | tok-sec: 4049.56 | total time: 4.44s\n"
     "step: 00004/19073 | loss: 10.8141 | time: 999.93ms | tok-sec: 4096.27 | total time: 5.44s\n"
     "step: 00005/19073 | loss: 10.8077 | time: 999.49ms | tok-sec: 4098.11 | total time: 6.44s\n"
     "step: 00006/19073 | loss: 10.8008 | time: 1014.05ms | tok-sec: @ | total time: 7.46s\n"
     "step: 00007/19073 | loss: 10.7935 | time: 1026.10ms | tok-sec: 3991.83 | total time: 8.48s\n"
     "step: 00008/19073 | loss: 10.7857 | time: 1001.00ms | tok-sec: 4091.92 | total time: "
     "9.48s\n"},
    {"epochs.md", 4, "31.2", "33.2",
     "```\n"
     "Val 0: 3.78 (ppl=43.8)\n"
     "Val 1: 3.52 (ppl=33.8)\n"
     "Val 2: 3.44 (ppl=@)\n"
     "Val 3: 3.38 (ppl=29.4)\n"
     "```\n"},
    {"loss-medio.md", 4, "4.21", "4.12",
     "| Modelo | Loss medio | Perplexidade |\n"
     "|-|-|-|\n"
     "| v3 | 1.3753 | 3.96 |\n"
     "| v2 | 1.4366 | @ |\n"
     "| v1 | 1.5218 | 4.58 |\n"},
    {"binary.md", 1, "4Mi", "8Mi", "We used a batch size of 1024 * 4096 = @ tokens.\n"},
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
