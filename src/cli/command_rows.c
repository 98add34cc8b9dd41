#include "cli/commands.h"

#include <limits.h>

const CommandRow command_rows[COMMAND_COUNT] = {
    [COMMAND_TRAIN] =
        {
            .summary = "train a model, into a run directory",
            .arguments = "",
            .description =
                "Trains one model: prints the resolved options, then trains, evaluates and "
                "saves as asked. The run directory then holds run.json, metrics.jsonl and "
                "checkpoints. Started again with the same options, it goes on where it stopped. "
                "Ctrl-C finishes the step, saves, and exits with 130.",
            .examples =
                "train --data builtin:stories --steps 200\n"
                "train --model llama-22m --data shards --batch 16 --tokens 20M --lr 1e-3\n"
                "train --model gpt2-124m --data shards --batch 4 --global-batch 64 --epochs 1\n"
                "train --config run.yaml --seed 7 --out runs/seed-7\n"
                "train --model llama-22m --data shards --ranks 4 --global-batch 64\n",
            .run = cmd_train,
        },
    [COMMAND_PLAN] =
        {
            .summary = "what a training would take, and how it would go with more ranks",
            .arguments = "",
            .description =
                "Takes the options of train and prints the bytes by purpose, the work of one "
                "update and the largest batch that fits, without allocating or training "
                "anything. (On a GPU, --attention auto times the kernels of a new shape once.) "
                "With --link "
                "it measures a few steps of one rank here and predicts step time, communication "
                "and efficiency for up to --ranks.",
            .examples = "plan --model gpt2-124m --batch 8\n"
                        "plan --model gpt2-124m --batch 32 --ranks 1024 --link ib400 --per-node 8\n"
                        "plan --model llama-22m --batch 512 --attention naive --memory-limit 16G\n"
                        "plan --config run.yaml --recompute block\n",
            .run = cmd_plan,
        },
    [COMMAND_MODELS] =
        {
            .summary = "presets and their exact parameter counts",
            .arguments = "",
            .description =
                "Lists the model presets. Every dimension can be replaced when training: "
                "--layers, --d-model, --heads, --kv-heads, --ffn, --vocab, --context, --tied.",
            .examples = "models\n"
                        "plan --model llama-22m --layers 8\n",
            .run = cmd_models,
        },
    [COMMAND_TOKENIZER_TRAIN] =
        {
            .summary = "text to a byte-level BPE tokenizer",
            .arguments = " INPUT...",
            .min_arguments = 1,
            .max_arguments = INT_MAX,
            .description =
                "Learns merges from text and writes a tokenizer.json that pacer and Hugging Face "
                "tokenizers read. An input is a text file, a JSONL file, a folder of these, - for "
                "standard input, or builtin:stories[:BYTES]. Special tokens in the text, such as "
                "<|endoftext|> between documents, are kept whole and not learned from.",
            .examples =
                "tokenizer train --vocab 10000 --out tok.json book.txt\n"
                "tokenizer train --vocab 32000 --pattern llama3 --out tok.json texts/\n"
                "tokenizer train --vocab 2048 --out tok.json builtin:stories:16M\n"
                "zcat corpus.jsonl.gz | pacer tokenizer train --format jsonl --out tok.json -\n",
            .run = cmd_tokenizer,
        },
    [COMMAND_TOKENIZER_ENCODE] =
        {
            .summary = "text to ids",
            .arguments = " [INPUT]",
            .max_arguments = 1,
            .description = "Writes the ids of a text, read from a file or standard input. Every "
                           "byte counts: decode gives back exactly the same text.",
            .examples =
                "tokenizer encode --tokenizer tok.json book.txt --out ids.txt\n"
                "tokenizer encode --tokenizer tok.json --ids uint16 --out ids.bin book.txt\n"
                "echo Hello | pacer tokenizer encode --tokenizer tok.json\n",
            .run = cmd_tokenizer,
        },
    [COMMAND_TOKENIZER_DECODE] =
        {
            .summary = "ids to text",
            .arguments = " [INPUT]",
            .max_arguments = 1,
            .description = "Writes the text of ids, read from a file or standard input.",
            .examples =
                "tokenizer decode --tokenizer tok.json ids.txt\n"
                "tokenizer decode --tokenizer tok.json --ids uint16 ids.bin --out book.txt\n",
            .run = cmd_tokenizer,
        },
    [COMMAND_TOKENIZER_INFO] =
        {
            .summary = "what a tokenizer is made of",
            .arguments = " TOKENIZER",
            .min_arguments = 1,
            .max_arguments = 1,
            .description = "Prints vocabulary, merges, pattern, added tokens and the longest "
                           "entries of a tokenizer.json, of GPT-2's vocab.json with merges.txt, or "
                           "of a folder with either.",
            .examples = "tokenizer info tok.json\n"
                        "tokenizer info path/to/gpt2/\n",
            .run = cmd_tokenizer,
        },
    [COMMAND_DATA_PREPARE] =
        {
            .summary = "text to shards of tokens",
            .arguments = " INPUT...",
            .min_arguments = 1,
            .max_arguments = INT_MAX,
            .description =
                "Turns text into a folder that train reads. An input is a text file, a JSONL file, "
                "a folder of these, - for standard input, or builtin:stories[:BYTES]. In text, "
                "<|endoftext|> separates documents; without it a file is one. Documents are set "
                "aside for validation by a hash of their content; the others go into shards in the "
                "order given. The same text and options give the same bytes.",
            .examples =
                "data prepare --tokenizer tok.json --out shards book.txt\n"
                "data prepare --tokenizer tok.json --out shards --val-fraction 0.05 texts/\n"
                "data prepare --tokenizer tok.json --out shards --field content a.jsonl\n"
                "data prepare --out byte-shards book.txt\n",
            .run = cmd_data,
        },
    [COMMAND_DATA_STORIES] =
        {
            .summary = "write the built-in corpus as text",
            .arguments = "",
            .description = "Writes children's stories that pacer composes itself, separated by "
                           "<|endoftext|>: any amount, the same bytes for the same seed.",
            .examples = "data stories --bytes 64M --out stories.txt\n"
                        "data stories --bytes 10k --seed 7 --out -\n",
            .run = cmd_data,
        },
    [COMMAND_DATA_INFO] =
        {
            .summary = "what a dataset holds",
            .arguments = " DATA",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Prints splits, shards, tokens, documents and vocabulary of whatever train "
                "accepts as --data, and checks that the shards are whole.",
            .examples = "data info shards\n"
                        "data info builtin:stories\n",
            .run = cmd_data,
        },
    [COMMAND_BENCH_MACHINE] =
        {
            .summary = "measure what this machine can do",
            .arguments = "",
            .description =
                "Measures the ceilings that every other speed is held against: matrix products, "
                "copies, and on a GPU launches, the way from and to the host, and what its "
                "sensors say. The best that was seen is kept, and later runs on this machine are "
                "compared with it. With a model, the products of its linear maps are timed one by "
                "one.",
            .examples = "bench machine\n"
                        "bench machine --model gpt2-124m --batch 8 --seq 512\n"
                        "bench machine --device cpu --threads 1 --json machine.json\n",
            .run = cmd_bench_machine,
        },
    [COMMAND_BENCH_STEP] =
        {
            .summary = "time whole training steps",
            .arguments = "",
            .description =
                "Times training steps of a model, on random tokens unless --data names others, "
                "and prints tokens per second and the rate of the matrix products beside this "
                "machine's own.",
            .examples = "bench step --model llama-22m --batch 8\n"
                        "bench step --model gpt2-124m --batch 2 --seq 512 --repeats 10\n",
            .run = cmd_bench,
        },
    [COMMAND_BENCH_OPS] =
        {
            .summary = "time each operation of a step",
            .arguments = "",
            .description =
                "Times the operations of a training step, each against what this machine's "
                "arithmetic and memory allow: the table of profile, without its file.",
            .examples = "bench ops --model llama-22m --batch 8\n"
                        "bench ops --d-model 768 --heads 12 --attention naive --threads 1\n",
            .run = cmd_bench,
        },
    [COMMAND_BENCH_ATTENTION] =
        {
            .summary = "time the kinds of attention over growing sequences",
            .arguments = "",
            .description =
                "Times forward and backward of every kind of attention that the device has, for "
                "sequences of 256, 512, ... up to --seq tokens of random numbers, and prints "
                "rates, the memory each kind needs besides its inputs and outputs, and its share "
                "of the fastest. Sampled results are checked: a wrong one ends the command with "
                "status 4.",
            .examples = "bench attention\n"
                        "bench attention --heads 32 --kv-heads 8 --head-dim 128 --seq 32768\n"
                        "bench attention --device cpu --seq 1024 --heads 4\n",
            .run = cmd_bench_attention,
        },
    [COMMAND_PROFILE] =
        {
            .summary = "one training step, op by op, as a table and a trace",
            .arguments = "",
            .description =
                "Trains a few steps of a model, on random tokens unless --data names others, in "
                "turn with and without a trace of every operation. Prints the operations by time, "
                "each against what this machine's arithmetic and memory allow, and what tracing "
                "cost; writes the fastest traced step to --out as a file that ui.perfetto.dev and "
                "chrome://tracing show. On a GPU its own clock is read, also inside a recorded "
                "step. Several ranks share the file, with the communication of each; the table is "
                "the slowest rank's.",
            .examples = "profile --model llama-22m --batch 8\n"
                        "profile --model llama-22m --ranks 2 --ddp zero1 --bucket-mb 4\n"
                        "profile --model gpt2-124m --accum 4 --graph off --out step.json\n",
            .run = cmd_profile,
        },
    [COMMAND_CHECK] =
        {
            .summary = "numbers that must agree: of a run, or of anyone's table",
            .arguments = " PATH...",
            .min_arguments = 1,
            .max_arguments = INT_MAX,
            .description =
                "A run directory: computes the checks of its record again. A file (CSV, Markdown "
                "or a log, from any program): recognises batch size, ranks, tokens, times, losses, "
                "memory and so on by their names, derives what follows from them, and names every "
                "line whose number disagrees. Exit status 4 when something does, 2 when nothing "
                "was recognised.",
            .examples = "check runs/tiny-0123456789abcdef\n"
                        "check results.md scaling.csv\n"
                        "check --map 'Zeit=train-time' --map 'GPUs used=ranks' table.csv\n",
            .run = cmd_check,
        },
    [COMMAND_REPORT] =
        {
            .summary = "pages and charts from the records of a run or an experiment",
            .arguments = " DIR [OTHER]",
            .min_arguments = 1,
            .max_arguments = 2,
            .description =
                "Writes report.md, report.html (one page that needs no other file) and charts, "
                "from records alone, into the folder of the run or experiment, or into --out. "
                "Without gnuplot there are no charts. With two folders: prints how they compare.",
            .examples = "report runs/tiny-0123456789abcdef\n"
                        "report experiments/scaling --out page\n"
                        "report experiments/before experiments/after\n",
            .run = cmd_report,
        },
    [COMMAND_SWEEP] =
        {
            .summary = "an experiment: many trainings by a recipe, and a report of them",
            .arguments = " RECIPE.yaml",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Trains every combination that a recipe asks for, each as a process of its own, "
                "one after the other, and writes tables, charts and findings into a folder. What "
                "does not fit, fails or takes too long becomes a row that says so. Stopped by "
                "Ctrl-C or killed, the same command goes on; what is done is not done again.",
            .examples = "sweep recipes/accumulation.yaml --smoke\n"
                        "sweep recipes/batch-sweep.yaml --dry-run\n"
                        "sweep recipes/strong-scaling.yaml --out experiments/scaling\n",
            .run = cmd_sweep,
        },
    [COMMAND_WATCH] =
        {
            .summary = "a view of a run as it goes",
            .arguments = " RUN",
            .min_arguments = 1,
            .max_arguments = 1,
            .description = "Shows loss curve, throughput, phases, memory and remaining time of a "
                           "run directory in the "
                           "terminal, while it trains or afterwards. q ends the view, not the run.",
            .examples = "watch runs/llama-22m-1a2b\n"
                        "watch --once runs/llama-22m-1a2b\n",
            .run = cmd_watch,
        },
    [COMMAND_GENERATE] =
        {
            .summary = "text from a trained model",
            .arguments = " MODEL",
            .min_arguments = 1,
            .max_arguments = 1,
            .description = "Goes on from a prompt. MODEL is a run directory, a checkpoint in it, "
                           "or a Hugging Face folder "
                           "with a GPT-2 or Llama model. The text goes to standard output, tokens "
                           "per second to "
                           "standard error.",
            .examples = "generate runs/llama-22m-1a2b --prompt 'Once upon a time'\n"
                        "generate gpt2/ --prompt 'The answer is' --temperature 0 --max-tokens 20\n"
                        "generate runs/x --samples 8 --top-p 0.9 --seed 7\n"
                        "printf 'Dear Sir' | pacer generate runs/x --prompt -\n",
            .run = cmd_generate,
        },
    [COMMAND_EVAL] =
        {
            .summary = "loss, perplexity and bits per byte of a trained model",
            .arguments = " MODEL [TEXT...]",
            .min_arguments = 1,
            .max_arguments = INT_MAX,
            .description = "Measures how well a model predicts: the validation part of --data as "
                           "training does, or texts "
                           "(files, folders, JSONL, - for standard input), document by document. "
                           "MODEL is a run "
                           "directory, a checkpoint in it, or a Hugging Face folder.",
            .examples = "eval runs/llama-22m-1a2b --data shards\n"
                        "eval gpt2/ book.txt\n"
                        "eval runs/x --documents articles.jsonl\n"
                        "eval runs/x --data shards --ranks 4 --json eval.json\n",
            .run = cmd_eval,
        },
    [COMMAND_EXPORT] =
        {
            .summary = "a model for Hugging Face, or a record for other tools",
            .arguments = " RUN",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Writes a run's model as a Hugging Face folder (config.json, model.safetensors, "
                "tokenizer.json, "
                "generation_config.json), or its records as CSV files or TensorBoard events.",
            .examples = "export runs/x --out hf-model\n"
                        "export runs/x --out hf-model --dtype bf16 --shard-bytes 2G\n"
                        "export runs/x --format csv --out tables\n"
                        "export runs/x --format tensorboard --out events\n",
            .run = cmd_export,
        },
    [COMMAND_IMPORT] =
        {
            .summary = "a Hugging Face model as a run directory",
            .arguments = " FOLDER",
            .min_arguments = 1,
            .max_arguments = 1,
            .description = "Reads a folder with a GPT-2 or Llama model as transformers saves it "
                           "and writes a run directory "
                           "with one checkpoint, for generate, eval, export and train --init.",
            .examples = "import gpt2/ --out runs/gpt2\n"
                        "train --init runs/gpt2 --model gpt2-124m --data shards --lr 1e-5\n",
            .run = cmd_import,
        },
    [COMMAND_COMPLETION] =
        {
            .summary = "completion of commands and options in a shell",
            .arguments = " bash|zsh|fish",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Prints what a shell needs to complete pacer's commands, options and values.",
            .examples = "completion bash > ~/.local/share/bash-completion/completions/pacer\n"
                        "completion fish > ~/.config/fish/completions/pacer.fish\n",
            .run = cmd_completion,
        },
    [COMMAND_DEMO] =
        {
            .summary = "the first minutes: train a tiny model on built-in text",
            .arguments = "",
            .description = "Trains a tiny model on built-in text and shows what comes out of it.",
            .examples = "demo\n"
                        "demo --out /tmp/demo --threads 2\n",
            .run = cmd_demo,
        },
};
