/* The audit against truth that was planted: one wrong number in each document, found in its line
 * and nowhere else; and documents that look wrong to whoever reads too quickly, about which it is
 * silent. */
#include "audit/audit.h"
#include "base/io.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Audits a document; returns how many of its numbers disagree, *line is that of the first. */
static int disagreements(const char *name, const char *text, int *line)
{
    char *folder = data_files_folder(), *path = io_join(folder, name);
    data_files_write(path, text, strlen(text));
    Audit audit;
    assert_int_equal(audit_file(path, &(Names){NULL, 0}, &audit), 0);
    int count = audit_count(&audit, FINDING_DISAGREES);
    *line = 0;
    for (int i = audit.findings.count - 1; i >= 0; i--) {
        const Finding *finding = &audit.findings.items[i];
        *line = finding->kind == FINDING_DISAGREES ? finding->line : *line;
    }
    audit_free(&audit);
    free(path);
    data_files_remove(folder);
    return count;
}

static const struct {
    const char *name;
    int line;
    const char *text;
} planted[] = {
    {"gpu-hours.md", 3,
     "# Model card\n"
     "\n"
     "The model was trained on 2.2T tokens in 162,000 GPU hours, at 3,500 tok/s per GPU.\n"},
    {"clock.md", 5,
     "## Runs\n"
     "\n"
     "| Model | Tokens | Throughput (tok/s) | Training time |\n"
     "|--|--|--|--|\n"
     "| A | 3.0B | 177,000 | 4.42 h |\n"
     "| B | 1.5B | 177,000 | 2.35 h |\n"
     "| C | 6.0B | 177,000 | 9.42 h |\n"},
    {"speedup.md", 5,
     "| GPUs | Time (s) | Speedup |\n"
     "|--|--|--|\n"
     "| 1 | 800 | 1.00 |\n"
     "| 2 | 420 | 1.90 |\n"
     "| 4 | 230 | 3.74 |\n"
     "| 8 | 120 | 6.67 |\n"},
    {"efficiency.md", 5,
     "| GPUs | Throughput (tok/s) | Speedup | Efficiency |\n"
     "|--|--|--|--|\n"
     "| 1 | 10,000 | 1.00x | 100% |\n"
     "| 2 | 19,000 | 1.90x | 95% |\n"
     "| 4 | 36,000 | 3.60x | 80% |\n"
     "| 8 | 68,000 | 6.80x | 85% |\n"},
    {"mfu.md", 4,
     "| Model | GPUs | MFU[^2] |\n"
     "|--|--|--|\n"
     "| 1B | 8 | 41.2% |\n"
     "| 3B | 8 | 141.2% |\n"
     "\n"
     "[^2]: of the bf16 peak\n"},
    {"phases.md", 4,
     "| Batch | Forward (ms) | Backward (ms) | Optimizer (ms) | Step time (ms) |\n"
     "|--|--|--|--|--|\n"
     "| 8 | 30 | 62 | 8 | 101 |\n"
     "| 16 | 58 | 121 | 8 | 141 |\n"
     "| 32 | 115 | 240 | 8 | 365 |\n"},
    {"tokens-step.md", 6,
     "## Setup\n"
     "- Sequence length: 1024\n"
     "- Micro batch size: 8\n"
     "- Gradient accumulation steps: 4\n"
     "- GPUs: 8\n"
     "- Tokens per step: 131,072\n"},
    {"total-tokens.csv", 4,
     "run,batch size,seq len,gpus,grad accum,steps,tokens\n"
     "a,8,512,1,1,1000,4096000\n"
     "b,16,512,1,1,1000,8192000\n"
     "c,32,512,1,1,1000,8192000\n"
     "d,64,512,1,1,1000,32768000\n"},
    {"step-time.csv", 4,
     "seq,ranks,local batch,accum,tok/s,step time (ms)\n"
     "1024,4,8,1,65536,500\n"
     "1024,4,8,1,81920,400\n"
     "1024,4,16,1,65536,500\n"
     "1024,4,16,1,131072,500\n"},
    {"memory.md", 10,
     "## Hardware\n"
     "- GPU memory capacity: 24 GB\n"
     "\n"
     "## Results\n"
     "\n"
     "| Batch | Peak memory (GB) | tok/s |\n"
     "|--|--|--|\n"
     "| 8 | 9.8 | 21,000 |\n"
     "| 16 | 17.2 | 23,000 |\n"
     "| 32 | 31.9 | 24,000 |\n"},
    {"adam.md", 4,
     "### Memory\n"
     "- Parameters: 400 MB\n"
     "- Gradients: 400 MB\n"
     "- Optimizer states (Adam): 1.2 GB\n"},
    {"first-loss.md", 3,
     "## Training from scratch\n"
     "- Vocabulary size: 32,000\n"
     "- Initial loss: 4.2\n"
     "- Final loss: 2.9\n"},
    {"ppl.md", 5,
     "| Model | Val loss | Val ppl |\n"
     "|--|--|--|\n"
     "| A | 3.00 | 20.1 |\n"
     "| B | 2.90 | 18.2 |\n"
     "| C | 2.80 | 14.4 |\n"},
    {"best.md", 4,
     "| Run | Final val loss | Best val loss |\n"
     "|--|--|--|\n"
     "| A | 2.31 | 2.30 |\n"
     "| B | 2.25 | 2.35 |\n"
     "| C | 2.40 | 2.38 |\n"},
    {"product.md", 1,
     "The global batch is 2,048 tokens (128 tokens \xc3\x97 16 sequences \xc3\x97 8 GPUs).\n"},
    {"ratio.md", 1,
     "Switching to flash attention cut the step from 412 ms to 203 ms, a 3.1x speedup.\n"},
    {"percent.md", 1,
     "Fusing the optimizer raised throughput from 91,000 tok/s to 103,000 tok/s, an increase of "
     "31%.\n"},
    {"epochs.md", 4,
     "| Model | Epochs | Epoch time (s) | Total time (s) |\n"
     "|--|--|--|--|\n"
     "| A | 5 | 37.1 | 186.0 |\n"
     "| B | 5 | 56.8 | 184.0 |\n"
     "| C | 5 | 46.2 | 232.0 |\n"},
    {"global.md", 5,
     "| GPUs | Local batch | Global batch | Samples/epoch | Steps/epoch |\n"
     "|--|--|--|--|--|\n"
     "| 1 | 4 | 4 | 204 | 51 |\n"
     "| 2 | 4 | 8 | 408 | 51 |\n"
     "| 4 | 4 | 8 | 408 | 51 |\n"
     "| 8 | 4 | 32 | 1632 | 51 |\n"},
    {"cost.md", 4,
     "| Model | GPU hours | Price per GPU hour ($) | Cost ($) |\n"
     "|--|--|--|--|\n"
     "| A | 1,000 | 2.00 | 2,000 |\n"
     "| B | 4,000 | 2.00 | 12,000 |\n"
     "| C | 9,000 | 2.00 | 18,000 |\n"},
    {"gpus-hours.md", 4,
     "| Model | GPUs | Training time (h) | GPU hours |\n"
     "|--|--|--|--|\n"
     "| A | 64 | 100 | 6,400 |\n"
     "| B | 256 | 120 | 36,000 |\n"
     "| C | 512 | 90 | 46,080 |\n"},
    {"quote.md", 7,
     "| Batch size | Val loss | tok/s |\n"
     "|--|--|--|\n"
     "| 8 | 3.21 | 11,000 |\n"
     "| 16 | 3.10 | 19,000 |\n"
     "| 32 | 3.05 | 30,000 |\n"
     "\n"
     "- Batch size 16: val loss 3.01\n"},
    {"sublinear.md", 1, "Scaling is sub-linear: 8 GPUs give a 9.1x speedup.\n"},
    {"comm.md", 3,
     "### run_b32_g1\n"
     "epoch time: 900 s\n"
     "communication time: 120 s\n"},
    {"prose-days.md", 1,
     "We pretrain on 3 trillion tokens with 16 A100 GPUs in 45 days, at 24k tokens per second per "
     "GPU.\n"},
    {"work.md", 5,
     "# One A100\n"
     "\n"
     "- Parameters: 1.5B\n"
     "- GPUs: 1\n"
     "- Training throughput: 90,000 tok/s\n"},
    {"columns.md", 4,
     "| GPUs | Throughput - FP32 (tok/s) | Throughput - Mixed precision (tok/s) | Throughput "
     "speedup (FP32 to mixed) |\n"
     "|-|-|-|-|\n"
     "| 1 | 21860 | 76438 | 3.497 |\n"
     "| 4 | 80224 | 249168 | 3.016 |\n"
     "| 8 | 154168 | 447832 | 2.905 |\n"},
    {"weak.md", 5,
     "| GPUs | Throughput (tok/s) | Strong scaling - FP32 |\n"
     "|-|-|-|\n"
     "| 1 | 21860 | 1.000 |\n"
     "| 4 | 80224 | 3.670 |\n"
     "| 8 | 154168 | 7.530 |\n"},
    {"gain.md", 4,
     "Experiment | tok/s | Speedup over baseline\n"
     "--- | --- | ---\n"
     "bf16 | 6150 | -\n"
     "tensorwise | 7689.5 | 35.03%\n"
     "rowwise | 7200 | 17.07%\n"},
    {"hours.md", 4,
     "| Config | Time (h:mm) | Hours |\n"
     "|-|-|-|\n"
     "| a | 5:30 | 5.50 |\n"
     "| b | 3:20 | 3.20 |\n"
     "| c | 2:45 | 2.75 |\n"},
    {"checkpoints.md", 4,
     "| Checkpoint | Tokens | Steps |\n"
     "|-|-|-|\n"
     "| a | 105B | 50K |\n"
     "| b | 530B | 240K |\n"
     "| c | 1T | 480K |\n"
     "| d | 1.5T | 715K |\n"},
    {"shares.md", 7,
     "| Phase | Share of step |\n"
     "|-|-|\n"
     "| data | 2.1 % |\n"
     "| forward | 28.4 % |\n"
     "| backward | 56.9 % |\n"
     "| all-reduce | 31.5 % |\n"
     "| optimizer | 13.1 % |\n"},
    {"ranks.csv", 6,
     "rank,step,tokens_per_sec\n"
     "0,500,23410\n"
     "1,500,23388\n"
     "2,500,23402\n"
     "3,500,23395\n"
     "total,500,97595\n"},
    {"label.md", 8,
     "| Optimizer | Val loss | Tokens/s |\n"
     "|-|-|-|\n"
     "| AdamW | 3.412 | 412,000 |\n"
     "| Muon | 3.298 | 398,000 |\n"
     "| Shampoo | 3.340 | 291,000 |\n"
     "\n"
     "Muon is the best. Shampoo reaches\n"
     "a val loss of 3.304 but is the slowest at 291,000 tokens/s.\n"},
    {"wrapped.md", 2,
     "With checkpointing the memory falls from 36.4 GB\n"
     "to 18.9 GB, a reduction of 58 %.\n"},
    {"card.md", 6,
     "Each H100 GPU is equipped with 96GB HBM2e.\n"
     "\n"
     "| Parallelism | Sequence length | Peak memory (GiB) |\n"
     "|-|-|-|\n"
     "| CP 4 | 131072 | 77.1 |\n"
     "| CP 8 | 262144 | 104.5 |\n"},
    {"flop.md", 6,
     "The peak of the A100 is 312 TFLOP/s.\n"
     "\n"
     "| Model | TFLOP/s per GPU | MFU |\n"
     "|-|-|-|\n"
     "| 1.3B | 140.4 | 45.0% |\n"
     "| 2.7B | 143.5 | 56.0% |\n"
     "| 7B | 156.0 | 50.0% |\n"},
    {"underscore.csv", 4,
     "run,gpus,global_batch_size,seq_len,step_time_s,tokens_per_sec\n"
     "bf16,8,128,2048,1.31,200110\n"
     "fp16,8,128,2048,1.28,204800\n"
     "fp8,8,128,2048,0.97,217252\n"},
    {"log.log", 3,
     "step 10 | loss: 9.1 | dt: 2000.00ms | tok/sec: 6553.60\n"
     "step 20 | loss: 8.2 | dt: 1900.00ms | tok/sec: 6898.53\n"
     "step 30 | loss: 7.4 | dt: 1950.00ms | tok/sec: 7721.64\n"
     "step 40 | loss: 6.9 | dt: 2100.00ms | tok/sec: 6241.52\n"
     "step 50 | loss: 6.5 | dt: 2050.00ms | tok/sec: 6393.76\n"},
    {"sum.log", 4,
     "rank 0: 18432 tokens/s\n"
     "rank 1: 18415 tokens/s\n"
     "rank 2: 18402 tokens/s\n"
     "total: 59249 tokens/s\n"},
    {"versus.md", 1, "The kernel is 5.64x faster than the reference (27.20 ms vs 177.82 ms).\n"},
};

static void test_audit_planted__each_error_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        int line, count = disagreements(planted[i].name, planted[i].text, &line);
        if (count != 1 || line != planted[i].line) {
            fail_msg("%s: %d disagree, the first in line %d; 1 in line %d expected",
                     planted[i].name, count, line, planted[i].line);
        }
    }
}

static const struct {
    const char *name, *text;
} honest[] = {
    /* Samples per second are no tokens, and a footnote is no value. */
    {"samples.md", "- Sequence length: 512\n- GPUs: 8\n\n"
                   "| Batch size | Throughput (S/s) | Step time (ms) | MFU[^2] |\n|-|-|-|-|\n"
                   "| 64 | 320 | 200 | 41% |\n| 128 | 560 | 229 | 45% |\n\n[^2]: of the peak\n"},
    /* Versions, defaults and step counts in names. */
    {"names.md", "CUDA runtime 13000, driver 580\n\n| Option | Default |\n|-|-|\n"
                 "| batch size | 32 |\n| learning rate | 3e-4 |\n| steps | 1000 |\n\n"
                 "| Model | Loss at 1000 steps | Loss at 5000 steps |\n|-|-|-|\n"
                 "| a | 4.1 | 3.2 |\n| b | 4.0 | 3.1 |\n"},
    /* The mean of five runs and one of them; what was planned and what was reached. */
    {"means.md",
     "| Model | Time (s) | Average time (s) | Target throughput (tok/s) | tok/s | Tokens |\n"
     "|-|-|-|-|-|-|\n| a | 100 | 140 | 50,000 | 21,000 | 2.1M |\n"
     "| b | 200 | 210 | 50,000 | 22,000 | 4.4M |\n"},
    /* Weights that have learned before. */
    {"tuned.md",
     "Fine-tuning GPT-2 on our data.\n\n- Vocabulary size: 50257\n- Initial loss: 3.1\n"},
    /* A model split over ranks shares a batch. */
    {"split.md", "We use tensor parallelism.\n\n| GPUs | Local batch | Global batch |\n|-|-|-|\n"
                 "| 64 | 2 | 16 |\n| 128 | 2 | 32 |\n"},
    /* Two models: the settings of one are not the other's. */
    {"two.md", "## Small\n- Sequence length: 512\n- Batch size: 8\n- Tokens per step: 4,096\n\n"
               "## Large\n- Sequence length: 2048\n- Batch size: 4\n- Tokens per step: 8,192\n\n"
               "## Speed\n| Model | tok/s | Step time (ms) |\n|-|-|-|\n"
               "| small | 40,960 | 100 |\n| large | 16,384 | 500 |\n"},
    /* Speed-up over another program, not over another row. */
    {"versus.md", "| GPUs | Time (s) | Speedup |\n|-|-|-|\n| 1 | 100 | 1.8x |\n| 2 | 55 | 1.7x |\n"
                  "| 4 | 30 | 1.6x |\n"},
    /* Communication behind the computation is in no sum; products with units of their own. */
    {"overlap.md", "| Run | Compute (s) | Communication (s) | Step time (s) |\n|-|-|-|-|\n"
                   "| a | 0.9 | 0.8 | 1.0 |\n| b | 0.8 | 0.9 | 0.95 |\n\n"
                   "Eight links of 50 GB/s: 8 * 50 = 3.2 Tbps. A buffer of 2**14 * 2 bytes.\n"},
    /* A change of something else than the two numbers; either may be the better one. */
    {"flops.md",
     "Reduce the width from 768 to 640 dims, reducing FLOPs per step by ~30%.\n\n"
     "| Metric | Before | After | Improvement |\n|-|-|-|-|\n| Speed | 8K tok/s | 24K tok/s | 3x |\n"
     "| Memory | 22GB | 10GB | 2.2x |\n| Steps | 100 | 250 | 2.5x |\n"},
    /* A base that moves with the best row. */
    {"moving.md",
     "| Run | Val loss | Delta |\n|-|-|-|\n| a | 4.3525 | - |\n| b | 4.2021 | 0.1504 |\n"
     "| c | 4.1011 | 0.2514 |\n| d | 4.0863 | 0.0148 |\n| e | 4.0482 | 0.0381 |\n"},
    /* A difference that leaves its unit out; times of day; two sizes that are not used and had; a
     * slow step beside a mean rate; micro-steps; two models, each with its table. */
    {"units.md",
     "| Metric | A | B | Delta |\n|-|-|-|-|\n| Loss | 1.2793 | 1.2702 | -0.0091 |\n"
     "| Bits | 1.2830 | 1.2783 | -0.0047 |\n| Memory | 2,194 MiB | 2,559 MiB | +365 |\n\n"
     "| Run | Wall time |\n|-|-|\n"
     "| a | ~22 min (19:27:14 to 19:50:02) |\n\n"
     "| Model | Memory "
     "(train / infer) |\n|-|-|\n| a | 40 GB / 16 GB |\n"},
    {"mean-rate.log",
     "step 1 | dt: 200.0ms | tok/sec: 1000\nstep 2 | dt: 201.0ms | tok/sec: 1000\n"
     "step 3 | dt: 199.0ms | tok/sec: 1000\nstep 4 | dt: 350.0ms | tok/sec: 995\n"
     "step 5 | dt: 200.5ms | tok/sec: 998\nstep 6 | dt: 200.0ms | tok/sec: 1000\n"},
    {"micro.md",
     "- Training samples: 51,200\n- Global batch size: 128\n- Steps per epoch: 1,600\n"},
    {"apart.md",
     "Small:\n\n| Setting | Value |\n|-|-|\n| Global batch size | 8 |\n| Sequence length | 512 |\n"
     "\nLarge:\n\n| Metric | Value |\n|-|-|\n| Throughput | 100,000 tok/s |\n| Step time | 1 s "
     "|\n"},
    /* Totals of some rows, a part named beside its whole, a whole that is no sum. */
    {"subtotals.md",
     "| Component | Size | Share |\n|-|-|-|\n| Weights | 14 GB | 11.7% |\n| Moments | 56 GB | "
     "46.7% |\n"
     "| State subtotal | 70 GB | 58.4% |\n| Activations | 50 GB | 41.6% |\n"
     "| Total | 120 GB | 100% |\n\n"
     "| Part | Parameters |\n|-|-|\n| Encoder | 80M |\n| Trainable | 20M |\n| Total | 80M |\n\n"
     "| Stage | Seconds |\n|-|-|\n| compute | 9.0 |\n| overlapped copy | 8.0 |\n| Total | 9.5 |\n"},
    /* Functions, powers, formulas, music and tags. */
    {"formulas.md",
     "Thus sqrt(1/(14336*3)) = 0.0048, and 100^(2/4) = 10. Also $175 \\times (2 + 8 + 4) = 2450$.\n"
     "\nQ:1/4=120\n\n<b>13 + 29 = 42</b><i>42</i>\n\nEpoch 3/2000 (25%).\n\nTrain Epoch: 7 "
     "[640/60000 (2%)] Loss: 0.06\n"},
    {"terms.md", "Budget: 2 tables x 2048 x 128 + projection (128 x 1024) = 1.2M params.\n\n"
                 "```\nITERATIONS=500000 \\\nTRAIN_SEQ_LEN=1024 \\\ntorchrun train.py\n```\n\n"
                 "- Global batch: `524288` tokens/step\n- Total tokens: 172,716,195,840\n"},
    /* FLOPs of a shape, M for 2^20, a rounded factor, a point for a comma, tokens of a batch. */
    {"rounded.md",
     "FLOPs by 2 * n * m:\n\n* W_q: [4096, 4096] = 33554432\n\nThe matrix has 4096 x 4096 = 16M "
     "params. The loss fell from 12.8 -> 0.044 (300x lower). We expect 2 x 41653 = 83.306 steps.\n"
     "\n- Batch size: 4\n- Sequence length: 1024\n- Total tokens: 4096\n- Total steps: 20000\n"},
    /* Lengths in brackets and their sum, names before factors, a factor cut off or turned round; a
     * pair of minutes behind something else; words of the number before. */
    {"factors.md",
     "rank 0: lens=[1445, 361] = 1806\n\nExample: bs=4 \xc3\x97 grad_accum=128 \xc3\x97 1 GPU = "
     "512 "
     "seqs.\n\nIt is 35x faster (35,885 samples/s vs 1,000 samples/s), and `2/12 = 6x` less.\n\n"
     "The stall is 3.6x less; async now finishes first (20.75 vs 20.94 min).\n\n"
     "| result | lexer | choice |\n|-|-|-|\n| tokens | 5,004 | 5,022 |\n| train steps | 53 | 107 "
     "|\n\nThe lexer control completed the recipe in 53 steps (5,004 tokens) and 165.28 s.\n"},
    /* A speed-up follows from the rates, though the batches are in the same ratio once. */
    {"batches.md", "| Model | BS | Perf (seq/sec) | Speedup vs Large |\n|-|-|-|-|\n"
                   "| Large | 8 | 143 | 1 |\n| Base | 128 | 429 | 3 |\n"
                   "| Small | 128 | 2300 | 16.0839 |\n"},
    /* Losses that are no cross-entropy alone, and another split's perplexity. */
    {"losses.md", "Step 10 has total loss 3.40 and ppl 20.1, train loss 3.1 | val ppl 25.0.\n"},
    /* "Total" names the row of one table, not the total of another model. */
    {"total.md", "### Small\n\n- encoder: `384d`, `10 layers`\n- total params: `147.32M`\n\n"
                 "### Large\n\n| Component | Params |\n|-|-|\n| Encoder | 5.1M |\n"
                 "| Decoder | 64.48M |\n| **Total** | **69.58M** |\n"},
    /* Devices with a sign of multiplication are no speed-up. */
    {"devices.md", "Near-linear scaling up to 4 GPUs. Diminishing returns after that, but 8x H100 "
                   "is still ~6.5x faster than 1x H100.\n"},
    /* Rates that are no parts of a whole; one row compared in another way; correlations. */
    {"ways.md",
     "| metric | value |\n|-|-|\n| output_tok_s | 70.3 |\n| prefill_tok_s | 1062.0 |\n"
     "| total_tok_s | 1205.0 |\n\n"
     "| Method | Forward | Fwd+Bwd | Speedup |\n|-|-|-|-|\n| a | 2.00ms | 4.79ms | 1.00x |\n"
     "| b | 1.84ms | 4.55ms | 1.08x |\n| c | 1.45ms | 4.06ms | 1.38x |\n"
     "| d | 2.89ms | 21.86ms | 0.23x (slow) |\n\n"
     "| Metric | A | B | Change |\n|-|-|-|-|\n| Size | 100 | 131.4 | 1.314 |\n"
     "| Time | 200 | 250.0 | 1.250 |\n| Vocabulary | 32,000 | 42,048 | +10,048 |\n\n"
     "| statistic | x | y | gain |\n|-|-|-|-|\n| ratio a | 0.74 | 0.95 | 0.21 |\n"
     "| ratio b | 0.95 | -0.74 | 0.63 |\n| ratio c | 0.74 | 0.95 | 0.21 |\n"},
    /* Points of per cent; a change of the other number; a part of a part in a list. */
    {"points.md", "| Metric | A | B | Change |\n|-|-|-|-|\n| Loss | 3.89 | 3.38 | -13% |\n"
                  "| Steps | 100 | 125 | +25% |\n| Time | 100 s | 80 s | 25% faster |\n"
                  "| Accuracy | 35.2% | 37.0% | +1.8% |\n| F1 | 60.0 | 66.0 | +6% absolute |\n\n"
                  "- Weights: 4 GB\n  - Embedding: 1 GB\n- Moments: 8 GB\n- Total: 12 GB\n"},
    /* Fewer steps than samples: packed; a device of another section. */
    {"packed.md", "- Training samples: 52,000\n- Global batch size: 128\n- Steps per epoch: 212\n"},
};

static void test_audit_planted__silent_where_in_doubt(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof honest / sizeof honest[0]; i++) {
        int line, count = disagreements(honest[i].name, honest[i].text, &line);
        if (count != 0) {
            fail_msg("%s: %d disagree, the first in line %d", honest[i].name, count, line);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit_planted__each_error_is_found),
        cmocka_unit_test(test_audit_planted__silent_where_in_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
