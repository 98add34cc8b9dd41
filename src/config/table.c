/* The option table. A new option is a field of Config and a row here; nothing else needs to know.
 *
 * Whole numbers stay within 15 digits, so that JSON, where every number is a double printed with 15
 * digits, carries each of them exactly. */
#include "config/config.h"
#include "config/internal.h"
#include "config/words.h"

#include "base/assert.h"

#include <string.h>

/* Offset of a field; does not compile when the field has another type. */
#define FIELD(field, ctype) \
    offsetof(Config, field) + 0 * sizeof(_Generic(&((Config *)0)->field, ctype * : 0))

/* What the rows of a type say: type, field, default, limits, choices, metavar. */
#define BOOL(field, initial) OPTION_BOOL, FIELD(field, bool), initial, 0, 0, NULL, NULL
#define INT(field, initial, min, max) \
    OPTION_INT, FIELD(field, int64_t), initial, min, max, NULL, NULL
#define BYTES(field, initial, min, max) \
    OPTION_BYTES, FIELD(field, int64_t), initial, min, max, NULL, NULL
#define REAL(field, initial, min, max) \
    OPTION_REAL, FIELD(field, double), initial, min, max, NULL, NULL
#define CHOICE(field, initial, words) OPTION_CHOICE, FIELD(field, int), initial, 0, 0, words, NULL
#define TEXT(field, initial, metavar) \
    OPTION_TEXT, FIELD(field, char *), initial, 0, 0, NULL, metavar

#define BIT(command) (1u << COMMAND_##command)
#define EVERY ((1u << COMMAND_COUNT) - 1)
#define TRAINING (BIT(TRAIN) | BIT(PLAN))
#define BENCH (BIT(BENCH_STEP) | BIT(BENCH_OPS) | BIT(PROFILE))
#define KERNEL BIT(BENCH_ATTENTION)
#define MACHINE BIT(BENCH_MACHINE)
#define LINK BIT(BENCH_COMM)
#define READING (BIT(TOKENIZER_TRAIN) | BIT(DATA_PREPARE)) /* whatever takes text */
#define USE (BIT(GENERATE) | BIT(EVAL))                    /* whatever runs a trained model */
#define CODING (BIT(TOKENIZER_ENCODE) | BIT(TOKENIZER_DECODE))
#define TOGETHER (TRAINING | BIT(PROFILE) | LINK) /* whatever several ranks run */
#define STEP (TRAINING | BENCH)                   /* whatever runs or plans training steps */

#define RESULT OPTION_RESULT
#define LATER OPTION_LATER
#define NONE OPTION_NONE
#define ROUNDING OPTION_ROUNDING
#define UNSET OPTION_UNSET

/* Each class counts its rows, so that a row without one does not compile. */
#define REFUSED (RESUME_REFUSED + 0 * __COUNTER__)
#define RECORDED (RESUME_RECORDED + 0 * __COUNTER__)
#define FREE (RESUME_FREE + 0 * __COUNTER__)
#define NO_RUN (RESUME_NO_RUN + 0 * __COUNTER__)
enum { ROWS_BEGIN = __COUNTER__ };

/* Help of other commands, which most rows leave out: ALSO({commands, "..."}, ...). */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#define ALSO(...)        \
    (const OptionHelp[]) \
    {                    \
        __VA_ARGS__,     \
        {                \
            0, NULL      \
        }                \
    }

/* The fields of a model: each is left to the preset unless it is given. */
#define WORDS(...)                  \
    (const char *const[])           \
    {                               \
        "preset", __VA_ARGS__, NULL \
    }
#define TYPE_WHOLE(field, most, words) INT(fields.field, "0", 0, most)
#define TYPE_REAL(field, most, words) REAL(fields.field, "0", 0, most)
#define TYPE_CHOICE(field, most, words) CHOICE(fields.field, "preset", WORDS words)
#define TYPE_FLAG(field, most, words) TYPE_CHOICE(field, most, words)
#define ROW(kind, type, field, name, stored, words, most, gpt2, hf, commands, flags, help, also) \
    {name, TYPE_##kind(field, most, words), GROUP, commands, REFUSED, RESULT | (flags), help, also},
#define NO_ROW(...)

/* name, type with field, default and limits, group, commands, resume, flags, help; where there are
 * any: help of other commands, required */
static const Option options[] = {
#define GROUP "Model"
    {"model", TEXT(model, "tiny", "NAME"), GROUP, STEP | MACHINE, REFUSED, RESULT,
     "preset; `pacer models` lists them"},
    {"dial", INT(dial, "0", 0, 1000), GROUP, STEP | MACHINE, RECORDED, RESULT | LATER,
     "one number for the size of a model: D layers with D heads of 64, or of --head-dim; d-model "
     "is D of these, ffn 8/3 of that (4 times, where it has no gate) in multiples of a head; what "
     "is given by itself stands. 0: the preset's"},
    MODEL_FIELDS(ROW, NO_ROW)
#undef GROUP

#define GROUP "Data"
        {"data", TEXT(data, "", "DATA"), GROUP, STEP | BIT(EVAL), REFUSED, RESULT,
         "folder that `pacer data prepare` made, nanoGPT's or llm.c's .bin files, "
         "builtin:stories, the same as builtin:bytes, or builtin:random",
         ALSO({BENCH, "tokens to time steps on: a folder that `pacer data prepare` made, or "
                      "builtin:stories; builtin:random unless given"},
              {BIT(EVAL), "tokens to evaluate on, in place of texts; unless given, the run's own"}),
         .required = BIT(TRAIN)},
    {"documents", CHOICE(documents, "joined", document_kinds), GROUP, STEP | BIT(EVAL), REFUSED,
     RESULT | LATER,
     "joined: a token sees all before it in its sequence; separate: those of its own document "
     "alone, and positions count from its beginning",
     ALSO({BIT(EVAL), "joined or separate, as in training; unless given, as the run", ""})},
    {"end", TEXT(end, "", "TOKEN"), GROUP, STEP | BIT(DATA_PREPARE) | BIT(EVAL), REFUSED,
     RESULT | LATER,
     "with --documents separate: token that ends a document, the one that `pacer data prepare` "
     "was given; without it <|endoftext|>, <|end_of_text|>, </s> or <eos>, the first that the "
     "tokenizer has",
     ALSO({BIT(DATA_PREPARE) | BIT(EVAL),
           "token put behind every document; without it <|endoftext|>, <|end_of_text|>, </s> or "
           "<eos>, the first that the tokenizer has"})},
#undef GROUP

#define GROUP "Batch and length"
    {"batch", INT(batch, "auto", 1, 1e6), GROUP, STEP | KERNEL | MACHINE | BIT(EVAL), RECORDED,
     RESULT | OPTION_AUTO, "sequences per rank per micro-step; auto: the preset's",
     ALSO({KERNEL,
           "sequences; unless given, as many as make 65,536 tokens on a GPU, 4,096 on a CPU", ""},
          {BIT(EVAL), "sequences at a time; unless given, the run's", ""})},
    {"accum", INT(accum, "1", 1, 1e6), GROUP, STEP, RECORDED, RESULT,
     "micro-steps whose gradients make one update"},
    {"global-batch", INT(global_batch, "0", 0, 1e9), GROUP, TRAINING, RECORDED, UNSET,
     "sequences per update over all ranks, a multiple of batch; instead of accum"},
    {"batch-ramp", TEXT(batch_ramp, "", "RAMP"), GROUP, TRAINING, RECORDED, RESULT | LATER,
     "sequences per update that change along the run, as 8@0,16@20%,32@5M: from a share of its "
     "length, or from so many tokens on, at the next update. Each a multiple of batch x ranks: "
     "accum changes, memory does not. The schedule follows the tokens. Instead of accum"},
    {"ramp-lr", CHOICE(ramp_lr, "sqrt", ramp_rules), GROUP, TRAINING, RECORDED, RESULT | LATER,
     "with --batch-ramp: the rate is multiplied by the root of batch / first batch, by that "
     "itself, or stays the same"},
    {"seq", INT(seq, "0", 0, 10e6), GROUP, STEP | KERNEL | MACHINE | BIT(EVAL), REFUSED, RESULT,
     "tokens per sequence; 0: as --context says, else the model's context, at most 2048",
     ALSO({KERNEL, "longest sequence; 0: 16,384 tokens on a GPU, 1,024 on a CPU"},
          {BIT(EVAL), "tokens per sequence; 0: the run's"})},
    {"steps", INT(steps, "0", 0, 1e12), GROUP, TRAINING, RECORDED, RESULT | UNSET,
     "updates to make. Give one of steps, tokens, epochs, flops and minutes; with none, 1000 "
     "steps"},
    {"tokens", INT(tokens, "0", 0, 1e15), GROUP, TRAINING, RECORDED, RESULT | UNSET,
     "tokens to train on, rounded up to a whole update; instead of steps"},
    {"epochs", REAL(epochs, "0", 0, 1e6), GROUP, TRAINING, RECORDED, RESULT | UNSET,
     "passes over the training data, rounded down to a whole update; instead of steps"},
    {"flops", REAL(flops, "0", 0, 1e30), GROUP, TRAINING, RECORDED, RESULT | UNSET | LATER,
     "floating-point operations of the model's own matrix products on all ranks, forward and "
     "backward, as `pacer plan` counts them, rounded to whole updates; recomputation and an "
     "optimizer's products are not counted. Instead of steps"},
    {"minutes", REAL(minutes, "0", 0, 1e7), GROUP, TRAINING, RECORDED, RESULT | UNSET | LATER,
     "minutes of the clock from the first update on, evaluations and checkpoints included; "
     "start-up, the last evaluation and the last checkpoint come on top. The schedule follows "
     "the time, and ends at min-lr; a resume goes on with what is left. Instead of steps"},
    {"seed", INT(seed, "1337", 0, 1e15), GROUP,
     STEP | KERNEL | READING | BIT(GENERATE) | BIT(DATA_STORIES), REFUSED, RESULT,
     "of the initial weights and of the order of the data",
     ALSO({KERNEL, "of the random numbers that it is timed and checked on"},
          {READING, "of the stories, where builtin:stories is read", "1"},
          {BIT(GENERATE), "of what is drawn"}, {BIT(DATA_STORIES), "of the stories", "1"})},
#undef GROUP

#define GROUP "Optimizer"
    {"lr", REAL(lr, "auto", 0, 100), GROUP, TRAINING, RECORDED, RESULT | OPTION_AUTO,
     "highest learning rate; auto: the preset's, which `pacer models` lists, or 1e-4 with --init"},
    {"min-lr", REAL(min_lr, "auto", 0, 100), GROUP, TRAINING, RECORDED, RESULT | OPTION_AUTO,
     "learning rate that the schedule ends at; auto: lr / 10"},
    {"warmup", INT(warmup, "auto", 0, 1e12), GROUP, TRAINING, RECORDED, RESULT | OPTION_AUTO,
     "steps over which the learning rate rises from 0; auto: 5 % of all"},
    {"schedule", CHOICE(schedule, "cosine", schedules), GROUP, TRAINING, RECORDED, RESULT,
     "course of the learning rate after warm-up"},
    {"wsd-decay", REAL(wsd_decay, "0.2", 0, 1), GROUP, TRAINING, RECORDED, RESULT,
     "part of all steps over which schedule wsd falls to min-lr"},
    {"weight-decay", REAL(weight_decay, "0.1", 0, 10), GROUP, TRAINING, RECORDED, RESULT,
     "decay of matrices and embeddings per unit of learning rate, not of norms and biases; TTT "
     "models: of everything"},
    {"optimizer", CHOICE(optimizer, "adamw", optimizers), GROUP, STEP, REFUSED, RESULT | LATER,
     "AdamW; SGD with momentum; or Muon: momentum made orthogonal for matrices in blocks, AdamW "
     "for the rest. All with decoupled weight decay"},
    {"momentum", REAL(momentum, "auto", 0, 0.9999999), GROUP, TRAINING, RECORDED,
     RESULT | LATER | OPTION_AUTO,
     "SGD and Muon: part of the last step's direction that stays; auto: 0.9, of Muon 0.95"},
    {"muon-steps", INT(muon_steps, "5", 1, 100), GROUP, STEP, RECORDED, RESULT | LATER,
     "Muon: Newton-Schulz iterations that make a matrix orthogonal"},
    {"state-dtype", CHOICE(state_dtype, "f32", state_dtypes), GROUP, STEP, RECORDED,
     RESULT | LATER | OPTION_FIT_ALSO,
     "type of the optimizer's moments; bf16 rounds them up or down by chance, from the seed, and "
     "with --dtype bf16 keeps of each f32 weight only the 16 bits that the model's copy lacks: 8 "
     "bytes a parameter instead of 14"},
    {"grad-dtype", CHOICE(grad_dtype, "f32", state_dtypes), GROUP, STEP, RECORDED, RESULT | LATER,
     "type that gradients are kept in from a layer's backward pass to the update; bf16: rounded by "
     "chance in every micro-step, summed in f32. Of one rank, with --dtype bf16 or fp8"},
    {"parametrization", CHOICE(parametrization, "standard", parametrizations), GROUP, STEP, REFUSED,
     RESULT | LATER,
     "mup: one learning rate suits all widths: initial weights, rates and logits follow d-model / "
     "mup-base"},
    {"mup-base", INT(mup_base, "256", 1, 1e6), GROUP, STEP, REFUSED, RESULT | LATER,
     "mup: d-model of the model that the learning rate was found for"},
    {"mup-base-ffn", INT(mup_base_ffn, "0", 0, 10e6), GROUP, STEP, REFUSED, RESULT | LATER,
     "mup: its ffn; 0: in proportion to d-model"},
    {"mup-base-head-dim", INT(mup_base_head_dim, "0", 0, 1e6), GROUP, STEP, REFUSED, RESULT | LATER,
     "mup: its head-dim, which attention's scores then follow; 0: the model's own"},
    {"beta1", REAL(beta1, "0.9", 0, 0.9999999), GROUP, TRAINING, RECORDED, RESULT,
     "AdamW: memory of the mean gradient"},
    {"beta2", REAL(beta2, "0.95", 0, 0.9999999), GROUP, TRAINING, RECORDED, RESULT,
     "AdamW: memory of the squared gradient"},
    {"eps", REAL(eps, "1e-8", 1e-30, 1), GROUP, TRAINING, RECORDED, RESULT,
     "AdamW: added to the root of the squared gradient"},
    {"clip", REAL(clip, "1", 0, 1e6), GROUP, TRAINING, RECORDED, RESULT,
     "largest norm of the whole gradient; 0: no clipping"},
    {"noise-scale", BOOL(noise_scale, "off"), GROUP, TRAINING, FREE, 0,
     "measure the gradient noise scale, the batch above which more sequences make an update little "
     "better: metrics.jsonl, TensorBoard, report. With --accum or --ranks 2 or more from the "
     "gradients of micro-steps and ranks; else from single sequences' gradients of the norms' "
     "gains, which tell the order of size alone. The training is the same to the bit"},
#undef GROUP

#define GROUP "Machine"
    {"device", CHOICE(device, "auto", devices), GROUP, STEP | KERNEL | MACHINE | LINK | USE,
     RECORDED, ROUNDING,
     "where to compute; auto: a GPU where there is one; ref is the slow plain-C truth that the "
     "others are tested against"},
    {"dtype", CHOICE(dtype, "auto", dtypes), GROUP, STEP | KERNEL | MACHINE | USE | BIT(EXPORT),
     RECORDED, RESULT | OPTION_FIT_ALSO,
     "type of activations and of the weights they meet; master weights are f32; fp8: bf16, but "
     "linear layers and the head multiply in e4m3 (Hopper, Ada and newer); auto: bf16 on a GPU, "
     "else f32",
     ALSO({BIT(EXPORT), "hf: type of the tensors; auto: f32"},
          {USE, "type of the weights; auto: bf16 on a GPU, else f32"},
          {KERNEL | MACHINE, "type that is timed; auto: bf16 on a GPU, else f32"})},
    {"attention", CHOICE(attention, "auto", attentions), GROUP, STEP, RECORDED, ROUNDING,
     "kernel: naive stores the T x T probabilities, flash and cudnn (a GPU's library) do not; "
     "auto: the fastest there is"},
    {"ttt-keep", BOOL(ttt_keep, "off"), GROUP, STEP, FREE, 0,
     "TTT-Linear on a GPU: keep the inner states of the forward pass for the backward pass, which "
     "else computes them again: some 5 % faster, the same bits, 8 KiB more per head and "
     "mini-batch of each layer"},
    {"graph", BOOL(graph, "on"), GROUP, STEP, FREE, 0,
     "on a GPU: record a step once and replay it with one launch; the same bits as off"},
    {"recompute", CHOICE(recompute, "none", recomputes), GROUP, STEP, RECORDED,
     ROUNDING | OPTION_FIT,
     "what the backward pass computes again instead of keeping it, each with all before it: "
     "outputs "
     "of norms, of activations, the feed-forward's first product, attention (or TTT), the block; "
     "pacer plan shows what each saves and costs"},
    {"offload", CHOICE(offload, "none", offloads), GROUP, STEP, RECORDED,
     ROUNDING | LATER | OPTION_FIT | OPTION_FIT_ALSO,
     "what a GPU keeps in the host's memory: optimizer (moments, and masters where the model is "
     "in bf16 or fp8), activations (what blocks keep for the backward pass, but for two), both, or "
     "all (gradients besides, of one rank)"},
    {"threads", INT(threads, "0", 0, 4096), GROUP,
     STEP | KERNEL | MACHINE | LINK | READING | USE | BIT(TOKENIZER_ENCODE) | BIT(DATA_STORIES) |
         BIT(DEMO),
     RECORDED, ROUNDING, "CPU threads; 0: all cores"},
    {"memory-limit", BYTES(memory_limit, "0", 0, 1e15), GROUP,
     STEP | KERNEL | BIT(TOKENIZER_TRAIN) | BIT(EVAL), FREE, 0,
     "refuse what makes the process larger than this (24G, 512MiB), on a GPU what takes more of "
     "its memory; 0: what the machine has",
     ALSO({BIT(TOKENIZER_TRAIN),
           "of the table of words, whose rarest are dropped beyond it; 0: a quarter of the "
           "machine's"})},
    {"fit", BOOL(fit, "off"), GROUP, TRAINING, FREE, 0,
     "the fastest split of an update into batch x accum, recompute, and, on a GPU, offload, that "
     "fit in memory, as far as they are not given; predicted from ops and copies measured first. "
     "plan shows all, train takes it"},
    {"fit-also", TEXT(fit_also, "", "OPTION,..."), GROUP, TRAINING, FREE, 0,
     "with --fit: options it may also set, though they round otherwise: state-dtype, dtype, and "
     "offload to all"},
#undef GROUP

#define GROUP "Ranks"
    {"ranks", INT(ranks, "1", 1, 65536), GROUP, TOGETHER | BIT(EVAL), RECORDED, RESULT,
     "processes that train together, each on --batch sequences of every micro-step; started here "
     "through mpirun, or found by mpirun or srun",
     ALSO({BIT(EVAL), "processes that share the sequences; started here through mpirun, or found "
                      "by mpirun or srun"})},
    {"ddp", CHOICE(ddp, "overlap", ddps), GROUP, TOGETHER, RECORDED, ROUNDING,
     "how ranks share gradients: one all-reduce per parameter, one for all, buckets behind the "
     "backward pass; or what each rank keeps a part of only: zero1 the optimizer's state, zero2 "
     "gradients too, zero3 weights too"},
    {"shard-group", INT(shard_group, "0", 0, 65536), GROUP, TOGETHER, RECORDED, ROUNDING,
     "with zero1, zero2 and zero3: parts are those of so many ranks that follow each other, as of "
     "a node, and the groups keep the same; divides --ranks. 0: all ranks are one group"},
    {"bucket-mb", INT(bucket_mb, "25", 0, 1e6), GROUP, TOGETHER, FREE, 0,
     "megabytes of gradients, at least, that overlap, zero1, zero2 and zero3 send at a time; the "
     "last two keep room for two such buckets"},
    {"comm-dtype", CHOICE(comm_dtype, "f32", comm_dtypes), GROUP, TOGETHER, RECORDED, ROUNDING,
     "type of gradients on their way between ranks"},
    {"oversubscribe", BOOL(oversubscribe, "off"), GROUP, TOGETHER | BIT(EVAL), FREE, 0,
     "let ranks share a GPU: a test of the code, no measurement of scaling, and recorded as such"},
    {"comm-timeout", REAL(comm_timeout, "300", 0, 1e6), GROUP, TOGETHER | BIT(EVAL), FREE, 0,
     "seconds to wait for a rank before the job ends and says which one; 0: for ever"},
    {"restarts", INT(restarts, "0", 0, 1e6), GROUP, BIT(TRAIN), FREE, 0,
     "how often ranks that were started here start again by themselves, from the newest "
     "checkpoint, when one of them is lost: as many, and fewer when one is lost again before the "
     "next checkpoint; run.json lists them in legs"},
    {"min-ranks", INT(min_ranks, "1", 1, 65536), GROUP, BIT(TRAIN), FREE, 0,
     "with --restarts: the fewest ranks to go on with, each update having as many sequences as "
     "before; as --ranks: never fewer"},
    {"verify-every", INT(verify_every, "100", 0, 1e12), GROUP, TRAINING, FREE, 0,
     "steps between comparisons of the ranks' weights by checksum; 0: never"},
#undef GROUP

#define GROUP "Prediction"
    {"link", CHOICE(link, "none", links), GROUP, BIT(PLAN), NO_RUN, 0,
     "predict --ranks ranks joined by this: one rank's step is measured here, the rest computed; "
     "measured: what `pacer bench comm` found here, or between the ranks that mpirun has started"},
    {"link-us", REAL(link_us, "auto", 0, 1e6), GROUP, BIT(PLAN), NO_RUN, OPTION_AUTO,
     "microseconds that a message takes, in place of the link's own"},
    {"link-gbs", REAL(link_gbs, "auto", 1e-6, 1e6), GROUP, BIT(PLAN), NO_RUN, OPTION_AUTO,
     "gigabytes per second of a rank, in place of the link's own"},
    {"per-node", INT(per_node, "1", 1, 65536), GROUP, BIT(PLAN), NO_RUN, 0,
     "ranks of a node, which are joined by --node-link and share the node's Ethernet"},
    {"node-link", CHOICE(node_link, "nvlink", links), GROUP, BIT(PLAN), NO_RUN, 0,
     "between ranks of a node"},
#undef GROUP

#define GROUP "Output"
    {"out", TEXT(out, "", "PATH"), GROUP,
     TRAINING | READING | CODING | BIT(DATA_STORIES) | BIT(PROFILE) | BIT(REPORT) | BIT(SWEEP) |
         BIT(DUEL) | BIT(EXPORT) | BIT(IMPORT) | BIT(DEMO),
     FREE, 0, "run directory; without it runs/MODEL-ID",
     ALSO({BIT(PLAN), "of the run that is planned; plan itself writes no files"},
          {BIT(TOKENIZER_TRAIN), "tokenizer.json to write; - is standard output"},
          {BIT(DATA_PREPARE), "folder to make"},
          {CODING, "file to write; without it standard output"},
          {BIT(DATA_STORIES), "file to write; - is standard output"},
          {BIT(PROFILE), "trace to write; without it profile.json; - is standard output"},
          {BIT(REPORT), "folder to write to; without it beside the records"},
          {BIT(SWEEP), "folder of the experiment; without it experiments/NAME"},
          {BIT(DUEL), "folder of the duel; without it experiments/duel-ID, where ID follows from "
                      "the options of A and B"},
          {BIT(EXPORT),
           "folder to make; with --format gguf the file, with csv or tensorboard what is "
           "written there"},
          {BIT(IMPORT), "run directory to make"},
          {BIT(DEMO), "folder of the demo; without it demo"}),
     .required = READING | BIT(DATA_STORIES) | BIT(EXPORT) | BIT(IMPORT)},
    {"resume", TEXT(resume, "auto", "auto|never|DIR"), GROUP, TRAINING, FREE, 0,
     "auto: go on from the newest checkpoint in the run directory; never: start anew; or the run "
     "directory to go on from. Other options than before are refused where that would be another "
     "training (model, data, seed), else recorded"},
    {"branch-at", INT(branch_at, "0", 0, 1e12), GROUP, TRAINING, RECORDED, RESULT | UNSET | LATER,
     "with --resume DIR: go on from the checkpoint of this update, which --save-every with --keep "
     "0 "
     "has kept. steps, tokens, epochs and flops then count from there; the schedule runs from "
     "update 0"},
    {"init", TEXT(init, "", "MODEL"), GROUP, TRAINING, REFUSED, RESULT | LATER,
     "take the first weights and the model's dimensions from this run, checkpoint or Hugging Face "
     "folder, and train them further; without it from the seed"},
    {"tensorboard", BOOL(tensorboard, "on"), GROUP, BIT(TRAIN), FREE, 0,
     "write a TensorBoard event file beside metrics.jsonl"},
    {"log-every", INT(log_every, "10", 1, 1e9), GROUP, TRAINING, FREE, 0,
     "steps from one recorded line to the next"},
    {"eval-every", INT(eval_every, "250", 0, 1e9), GROUP, TRAINING, FREE, 0,
     "steps from one evaluation to the next, and once at the end; 0: never"},
    {"eval-batches", INT(eval_batches, "20", 1, 1e6), GROUP, TRAINING, RECORDED, 0,
     "batches of one evaluation"},
    {"sample-every", INT(sample_every, "0", 0, 1e9), GROUP, BIT(TRAIN), FREE, 0,
     "steps from one text that the model writes into samples.jsonl to the next, and once at the "
     "end; "
     "0: never. For one rank on a processor in f32; takes memory for one sequence besides the "
     "plan"},
    {"save-every", INT(save_every, "0", 0, 1e9), GROUP, TRAINING, FREE, 0,
     "steps from one checkpoint to the next, and once at the end; 0: by time alone"},
    {"save-minutes", REAL(save_minutes, "10", 0, 1e6), GROUP, TRAINING, FREE, 0,
     "minutes after which a checkpoint is written besides those of save-every; 0: never by time"},
    {"save", CHOICE(save, "sync", saves), GROUP, TRAINING, FREE, 0,
     "sync: training waits while a checkpoint is written; async: the state is copied to host "
     "memory, which the plan counts, and written behind training"},
    {"keep", INT(keep, "2", 0, 1e6), GROUP, TRAINING, FREE, 0,
     "newest checkpoints to keep; 0: all"},
#undef GROUP

#define GROUP "Text"
    {"format", CHOICE(format, "auto", formats), GROUP, READING | BIT(EVAL) | BIT(EXPORT), NO_RUN, 0,
     "of the inputs: text or jsonl; auto: jsonl for names that end in .jsonl or .ndjson, else text",
     ALSO({BIT(EXPORT), "hf for Hugging Face, gguf for llama.cpp, csv or tensorboard; auto: hf"})},
    {"field", TEXT(field, "text", "NAME"), GROUP, READING | BIT(EVAL), NO_RUN, 0,
     "of a JSON line: what holds the document; a line without it may have \"prompt\" and "
     "\"completion\", or \"messages\"",
     ALSO({BIT(EVAL), "of a JSON line: what holds the document"})},
    {"chat-template", TEXT(chat_template, "auto", "auto|chatml|llama3|FILE"), GROUP, READING,
     NO_RUN, 0,
     "of JSON lines with \"messages\": how one is written, a file with {role} and {content}; auto: "
     "by "
     "the markers that the tokenizer has"},
    {"skip-bad", BOOL(skip_bad, "off"), GROUP, READING | BIT(EVAL), NO_RUN, 0,
     "leave out JSON lines that are broken, and say how many"},
    {"bytes", BYTES(bytes, "16M", 1, 1e15), GROUP, BIT(DATA_STORIES) | LINK, NO_RUN, 0,
     "of stories, at most", ALSO({LINK, "of the largest tensor", "64M"})},
#undef GROUP

#define GROUP "Tokenizer"
    {"tokenizer", TEXT(tokenizer, "bytes", "PATH"), GROUP, CODING | USE | BIT(DATA_PREPARE), NO_RUN,
     0,
     "tokenizer.json, or GPT-2's vocab.json with merges.txt beside it, or a folder with either; "
     "the word bytes makes every byte a token",
     ALSO({USE,
           "in place of the model's own: a tokenizer.json, GPT-2's vocab.json with merges.txt "
           "beside it, a folder with either, or the word bytes",
           ""}),
     .required = CODING},
    {"special", TEXT(special, "<|endoftext|>", "TOKEN"), GROUP, BIT(TOKENIZER_TRAIN), NO_RUN,
     OPTION_LIST, "token that is kept whole and learns no merges; may be given several times"},
    {"pattern", TEXT(pattern, "gpt2", "NAME|REGEX"), GROUP, BIT(TOKENIZER_TRAIN), NO_RUN, 0,
     "what cuts text into the pieces that merges stay within: " PRETOK_LISTED
     ", or a regular expression as in a tokenizer.json"},
    {"ties", CHOICE(ties, "ids", ties), GROUP, BIT(TOKENIZER_TRAIN), NO_RUN, 0,
     "of equally frequent pairs: the one with the smaller ids, as Hugging Face tokenizers does; "
     "or the one whose bytes are lexicographically greater"},
    {"unit", CHOICE(unit, "document", units), GROUP, BIT(TOKENIZER_TRAIN), NO_RUN, 0,
     "line: no piece crosses the end of a line, as when Hugging Face tokenizers trains on files"},
    {"min-frequency", INT(min_frequency, "1", 1, 1e15), GROUP, BIT(TOKENIZER_TRAIN), NO_RUN, 0,
     "pairs that are rarer are not merged"},
    {"ids", CHOICE(ids, "text", id_forms), GROUP, CODING, NO_RUN, 0,
     "how ids are written or read: decimal numbers between blanks, or little-endian integers"},
    {"skip-special", BOOL(skip_special, "off"), GROUP, BIT(TOKENIZER_DECODE), NO_RUN, 0,
     "leave special tokens (<|endoftext|>, <s>) out of the text"},
#undef GROUP

#define GROUP "Shards"
    {"val-fraction", REAL(val_fraction, "0.01", 0, 0.5), GROUP, BIT(DATA_PREPARE), NO_RUN, 0,
     "part of the documents set aside for validation"},
    {"shard-tokens", INT(shard_tokens, "100M", 1, 1e12), GROUP, BIT(DATA_PREPARE), NO_RUN, 0,
     "tokens per shard file"},
#undef GROUP

#define GROUP "Measurement"
    {"repeats", INT(repeats, "5", 1, 1e6), GROUP, BENCH | KERNEL | LINK, NO_RUN, 0,
     "timed repetitions; the median is reported"},
    {"warm", INT(warm, "2", 0, 1e6), GROUP, BENCH | KERNEL | LINK, NO_RUN, 0,
     "untimed repetitions before them"},
    {"document-tokens", INT(document_tokens, "0", 0, 10e6), GROUP, KERNEL, NO_RUN, 0,
     "tokens of each document of a sequence, beyond which no query sees; 0: a sequence is one "
     "document, of which kernels are not told"},
    {"verify", BOOL(verify, "on"), GROUP, BIT(BENCH_STEP) | BIT(BENCH_OPS), NO_RUN, 0,
     "afterwards compare loss, gradients and update of the timed step with those of the CPU, or "
     "of ref for the CPU's"},
    {"json", TEXT(json, "", "FILE"), GROUP, MACHINE | LINK | USE | BIT(DUEL) | BIT(PLAN), NO_RUN, 0,
     "write the numbers there as JSON; - is standard output, in place of the table",
     ALSO({BIT(PLAN), "with --fit: write the table there as JSON; - is standard output"})},
#undef GROUP

#define GROUP "Audit"
    {"map", TEXT(map, "", "NAME=QUANTITY"), GROUP, BIT(CHECK), NO_RUN, OPTION_LIST,
     "what a column, row or key of the file means, such as 'Zeit=train-time'; may be given "
     "several times; a wrong quantity is answered with all there are"},
#undef GROUP

#define GROUP "Experiment"
    {"smoke", BOOL(smoke, "off"), GROUP, BIT(SWEEP), NO_RUN, 0,
     "the recipe's small version, which its key smoke describes: seconds instead of hours"},
    {"dry-run", BOOL(dry_run, "off"), GROUP, BIT(SWEEP) | BIT(DUEL), NO_RUN, 0,
     "show the runs with their planned memory and predicted time, and run nothing"},
    {"jobs", INT(jobs, "1", 1, 1024), GROUP, BIT(SWEEP) | BIT(DUEL), NO_RUN, 0,
     "runs at once, each on its share of the processors: for losses, since speeds are then those "
     "of a part of the machine. Runs on a GPU, of several ranks or of a peer are made alone"},
    {"error", REAL(error, "0.05", 1e-6, 0.5), GROUP, BIT(DUEL), NO_RUN, 0,
     "error rate: how often, at most, the true difference may lie outside the interval at any "
     "look, so how often two equal configurations may get a winner"},
    {"margin", REAL(margin, "0.01", 0, 100), GROUP, BIT(DUEL), NO_RUN, 0,
     "smallest difference of validation loss that matters, in nats per token; an interval within "
     "it ends the duel without a winner. 0: every difference matters"},
    {"min-pairs", INT(min_pairs, "3", 2, 200), GROUP, BIT(DUEL), NO_RUN, 0,
     "pairs of runs before the first look"},
    {"max-pairs", INT(max_pairs, "12", 2, 200), GROUP, BIT(DUEL), NO_RUN, 0,
     "pairs of runs after which a duel that is still open ends as undecided"},
#undef GROUP

#define GROUP "Generation"
    {"prompt", TEXT(prompt, "", "TEXT"), GROUP, BIT(GENERATE), NO_RUN, OPTION_BREAKS,
     "text to go on from; - is standard input; without it the model begins anew"},
    {"max-tokens", INT(max_tokens, "200", 0, 1e9), GROUP, BIT(GENERATE), NO_RUN, 0,
     "tokens to add, at most"},
    {"samples", INT(samples, "1", 1, 4096), GROUP, BIT(GENERATE), NO_RUN, 0,
     "texts to make at once from the one prompt"},
    {"temperature", REAL(temperature, "0.8", 0, 100), GROUP, BIT(GENERATE), NO_RUN, 0,
     "how freely to choose: 1 as the model says, less for likelier tokens; 0 always takes the "
     "likeliest"},
    {"top-k", INT(top_k, "0", 0, 10e6), GROUP, BIT(GENERATE), NO_RUN, 0,
     "choose among the k likeliest tokens; 0: all"},
    {"top-p", REAL(top_p, "1", 0, 1), GROUP, BIT(GENERATE), NO_RUN, 0,
     "choose among the likeliest tokens that together have this probability; 1: all"},
    {"stop", TEXT(stop, "", "TEXT"), GROUP, BIT(GENERATE), NO_RUN, OPTION_LIST,
     "end a text before this (\\n: a line break, \\t: a tab, \\\\: a backslash); may be given "
     "several times; the tokenizer's end of document always ends it"},
    {"stream", BOOL(stream, "on"), GROUP, BIT(GENERATE), NO_RUN, 0,
     "print a single text as it is made; off: when it is complete"},
    {"cache", BOOL(cache, "on"), GROUP, BIT(GENERATE), NO_RUN, 0,
     "keep keys and values of earlier tokens; off: a pass over all of them for each new one, with "
     "the same result up to rounding"},
#undef GROUP

#define GROUP "Evaluation"
    {"split", CHOICE(split, "val", splits), GROUP, BIT(EVAL), NO_RUN, 0, "which part of --data"},
    {"batches", INT(batches, "0", 0, 1e12), GROUP, BIT(EVAL), NO_RUN, 0,
     "of --data, from its beginning; 0: all there are"},
    {"each", BOOL(each, "off"), GROUP, BIT(EVAL), NO_RUN, 0,
     "a line for each document of the texts"},
#undef GROUP

#define GROUP "Export"
    {"type", CHOICE(type, "f32", gguf_types), GROUP, BIT(EXPORT), NO_RUN, 0,
     "gguf: of the matrices; q8_0: 8 bits each and a scale for every 32; norms and biases are f32"},
    {"shard-bytes", BYTES(shard_bytes, "5G", 1, 1e15), GROUP, BIT(EXPORT), NO_RUN, 0,
     "hf: size above which the tensors are spread over several files"},
#undef GROUP

#define GROUP "Watching"
    {"every", REAL(every, "1", 0.1, 3600), GROUP, BIT(WATCH), NO_RUN, 0,
     "seconds from one look to the next"},
    {"once", BOOL(once, "off"), GROUP, BIT(WATCH), NO_RUN, 0, "print the view once and end"},
#undef GROUP

#define GROUP "Serving"
    {"port", INT(port, "8077", 0, 65535), GROUP, BIT(SERVE), NO_RUN, 0,
     "of the address; 0: any that is free"},
    {"listen", TEXT(listen, "", "ADDRESS"), GROUP, BIT(SERVE), NO_RUN, 0,
     "of this machine, for others to reach it (0.0.0.0: all it has); the address printed then has "
     "a "
     "token, without which nothing is shown"},
#undef GROUP

#define GROUP "Recommendation"
    {"recommend", BOOL(recommend, "off"), GROUP, BIT(PLAN), NO_RUN, 0,
     "find batch, accumulation, kernel and strategy for this model and machine by plan and short "
     "probes"},
    {"hours", REAL(hours, "0", 0, 1e6), GROUP, BIT(PLAN), NO_RUN, 0,
     "with recommend: time there is; says how many tokens it is enough for. 0: as long as tokens, "
     "steps or epochs take"},
    {"noise-from", TEXT(noise_from, "", "RUN"), GROUP, BIT(PLAN), NO_RUN, 0,
     "with recommend: updates of at most the gradient noise scale, in tokens, that this run has "
     "measured (train --noise-scale)"},
    {"expected-tok-s", REAL(expected_tok_s, "0", 0, 1e15), GROUP, BIT(TRAIN), FREE, 0,
     "tokens per second that plan --recommend predicted, for the report to put beside those "
     "measured; 0: none"},
#undef GROUP

#define GROUP "General"
    {"config", TEXT(config, "", "FILE"), GROUP, EVERY, FREE, OPTION_NO_FILE | OPTION_NO_RECORD,
     "YAML file of `option: value` lines; the command line wins over it"},
    {"quiet", BOOL(quiet, "off"), GROUP, EVERY, FREE, OPTION_NO_RECORD,
     "say only warnings and errors"},
    {"verbose", BOOL(verbose, "off"), GROUP, EVERY, FREE, OPTION_NO_RECORD, "say more"},
    {"help", BOOL(help, "off"), GROUP, EVERY, FREE, OPTION_NO_FILE | OPTION_NO_RECORD, "this text"},
#undef GROUP
    {NULL},
};

#define COUNT (sizeof options / sizeof options[0] - 1)
_Static_assert(COUNT <= CONFIG_MAX_OPTIONS, "raise CONFIG_MAX_OPTIONS");
_Static_assert(__COUNTER__ - ROWS_BEGIN - 1 == COUNT,
               "an option does not say what a resume does with it");

const Option *config_options(void)
{
    return options;
}

const Option *config_find(const char *name)
{
    const Option *option = options;
    while (option->name != NULL && strcmp(option->name, name) != 0) {
        option++;
    }
    return option->name != NULL ? option : NULL;
}

size_t option_index(const Option *option)
{
    PACER_ASSERT(option >= options && option < options + COUNT, "not a row of the table");
    return (size_t)(option - options);
}

bool option_taken_by(const Option *option, Command command)
{
    return (option->commands & 1u << command) != 0;
}

const char *command_words(Command command)
{
    static const char *const words[] = {
#define X(name, text) text,
        PACER_COMMANDS(X)
#undef X
    };
    PACER_ASSERT(command >= 0 && command < COMMAND_COUNT, "command %d", (int)command);
    return words[command];
}
