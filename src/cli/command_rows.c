#include "cli/commands.h"

/* function, summary, arguments, description, examples */
const CommandRow command_rows[COMMAND_COUNT] = {
    [COMMAND_TRAIN] =
        {cmd_train, "train a model, into a run directory", "",
         "Trains one model: prints the resolved options, then trains, evaluates and saves as "
         "asked. The run directory then holds run.json, metrics.jsonl and checkpoints. Started "
         "again with the same options, it goes on where it stopped. Ctrl-C finishes the step, "
         "saves, and exits with 130.",
         "train --data builtin:stories --steps 200\n"
         "train --model llama-22m --data shards --batch 16 --tokens 20M --lr 1e-3\n"
         "train --model gpt2-124m --data shards --batch 4 --global-batch 64 --epochs 1\n"
         "train --config run.yaml --seed 7 --out runs/seed-7\n"
         "train --model llama-22m --data shards --ranks 4 --global-batch 64\n"},
    [COMMAND_PLAN] =
        {cmd_plan, "what a training would take, and how it would go with more ranks", "",
         "Takes the options of train and prints the bytes by purpose, the work of one update and "
         "the largest batch that fits, without allocating or training anything. (On a GPU, "
         "--attention auto times the kernels of a new shape once.) With --link it measures a few "
         "steps of one rank here and predicts step time, communication and efficiency for up to "
         "--ranks.",
         "plan --model gpt2-124m --batch 8\n"
         "plan --model gpt2-124m --batch 32 --ranks 1024 --link ib400 --per-node 8\n"
         "plan --model llama-22m --batch 512 --attention naive --memory-limit 16G\n"
         "plan --config run.yaml --recompute block\n"},
    [COMMAND_MODELS] =
        {cmd_models, "presets and their exact parameter counts", "",
         "Lists the model presets. Every dimension can be replaced when training: --layers, "
         "--d-model, --heads, --kv-heads, --ffn, --vocab, --context, --tied.",
         "models\n"
         "plan --model llama-22m --layers 8\n"},
    [COMMAND_TOKENIZER_TRAIN] =
        {cmd_tokenizer_train, "text to a byte-level BPE tokenizer", " INPUT...",
         "Learns merges from text and writes a tokenizer.json that pacer and Hugging Face "
         "tokenizers read. An input is a text file, a JSONL file, a folder of these, - for "
         "standard input, or builtin:stories[:BYTES]. Special tokens in the text, such as "
         "<|endoftext|> between documents, are kept whole and not learned from.",
         "tokenizer train --vocab 10000 --out tok.json book.txt\n"
         "tokenizer train --vocab 32000 --pattern llama3 --out tok.json texts/\n"
         "tokenizer train --vocab 2048 --out tok.json builtin:stories:16M\n"
         "zcat corpus.jsonl.gz | pacer tokenizer train --format jsonl --out tok.json -\n"},
    [COMMAND_TOKENIZER_ENCODE] =
        {cmd_tokenizer_encode, "text to ids", " [INPUT]",
         "Writes the ids of a text, read from a file or standard input. Every byte counts: decode "
         "gives back exactly the same text.",
         "tokenizer encode --tokenizer tok.json book.txt --out ids.txt\n"
         "tokenizer encode --tokenizer tok.json --ids uint16 --out ids.bin book.txt\n"
         "echo Hello | pacer tokenizer encode --tokenizer tok.json\n"},
    [COMMAND_TOKENIZER_DECODE] =
        {cmd_tokenizer_decode, "ids to text", " [INPUT]",
         "Writes the text of ids, read from a file or standard input.",
         "tokenizer decode --tokenizer tok.json ids.txt\n"
         "tokenizer decode --tokenizer tok.json --ids uint16 ids.bin --out book.txt\n"},
    [COMMAND_TOKENIZER_INFO] =
        {cmd_tokenizer_info, "what a tokenizer is made of", " TOKENIZER",
         "Prints vocabulary, merges, pattern, added tokens and the longest entries of a "
         "tokenizer.json, of GPT-2's vocab.json with merges.txt, or of a folder with either.",
         "tokenizer info tok.json\n"
         "tokenizer info path/to/gpt2/\n"},
    [COMMAND_DATA_PREPARE] =
        {cmd_data_prepare, "text to shards of tokens", " INPUT...",
         "Turns text into a folder that train reads. An input is a text file, a JSONL file, a "
         "folder of these, - for standard input, or builtin:stories[:BYTES]. In text, "
         "<|endoftext|> separates documents; without it a file is one. Of JSON lines with a prompt "
         "and a completion, or with messages, the completions count in the loss. Documents are set "
         "aside for validation by a hash of their content; the others go into shards in the order "
         "given. The same text and options give the same bytes.",
         "data prepare --tokenizer tok.json --out shards book.txt\n"
         "data prepare --tokenizer tok.json --out shards --val-fraction 0.05 texts/\n"
         "data prepare --tokenizer tok.json --out shards --field content a.jsonl\n"
         "data prepare --tokenizer tok.json --out shards --chat-template chatml chats.jsonl\n"
         "data prepare --out byte-shards book.txt\n"},
    [COMMAND_DATA_STORIES] =
        {cmd_data_stories, "write the built-in corpus as text", "",
         "Writes children's stories that pacer composes itself, separated by <|endoftext|>: any "
         "amount, the same bytes for the same seed.",
         "data stories --bytes 64M --out stories.txt\n"
         "data stories --bytes 10k --seed 7 --out -\n"},
    [COMMAND_DATA_INFO] =
        {cmd_data_info, "what a dataset holds", " DATA",
         "Prints splits, shards, tokens, documents and vocabulary of whatever train accepts as "
         "--data, and checks that the shards are whole.",
         "data info shards\n"
         "data info builtin:stories\n"},
    [COMMAND_BENCH_MACHINE] =
        {cmd_bench_machine, "measure what this machine can do", "",
         "Measures the ceilings that every other speed is held against: matrix products, copies, "
         "and on a GPU launches, the way from and to the host, and what its sensors say. The best "
         "that was seen is kept, and later runs on this machine are compared with it. With a "
         "model, the products of its linear maps are timed one by one.",
         "bench machine\n"
         "bench machine --model gpt2-124m --batch 8 --seq 512\n"
         "bench machine --device cpu --threads 1 --json machine.json\n"},
    [COMMAND_BENCH_COMM] =
        {cmd_bench_comm, "time what ranks send each other", "",
         "Times all-reduce, reduce-scatter and all-gather between ranks, for tensors of 1 KiB up "
         "to "
         "--bytes, and prints bus bandwidths as nccl-tests does. Every element of every result is "
         "checked: a wrong one ends the command with status 4. The link that the all-reduces "
         "behave like is kept for `pacer plan --link measured`.",
         "bench comm --ranks 2\n"
         "bench comm --ranks 8 --bytes 1G --comm-dtype bf16\n"
         "bench comm --device cpu --ranks 4 --json link.json\n"},
    [COMMAND_BENCH_STEP] =
        {cmd_bench, "time whole training steps", "",
         "Times training steps of a model, on random tokens unless --data names others, and prints "
         "tokens per second and the rate of the matrix products beside this machine's own.",
         "bench step --model llama-22m --batch 8\n"
         "bench step --model gpt2-124m --batch 2 --seq 512 --repeats 10\n"},
    [COMMAND_BENCH_OPS] =
        {cmd_bench, "time each operation of a step", "",
         "Times the operations of a training step, each against what this machine's arithmetic and "
         "memory allow: the table of profile, without its file.",
         "bench ops --model llama-22m --batch 8\n"
         "bench ops --d-model 768 --heads 12 --attention naive --threads 1\n"},
    [COMMAND_BENCH_ATTENTION] =
        {cmd_bench_attention, "time the kinds of attention over growing sequences", "",
         "Times forward and backward of every kind of attention that the device has, for sequences "
         "of 256, 512, ... up to --seq tokens of random numbers, and prints rates, the memory each "
         "kind needs besides its inputs and outputs, and its share of the fastest. Sampled results "
         "are checked: a wrong one ends the command with status 4.",
         "bench attention\n"
         "bench attention --heads 32 --kv-heads 8 --head-dim 128 --seq 32768\n"
         "bench attention --device cpu --seq 1024 --heads 4\n"},
    [COMMAND_PROFILE] =
        {cmd_profile, "one training step, op by op, as a table and a trace", "",
         "Trains a few steps of a model, on random tokens unless --data names others, in turn with "
         "and without a trace of every operation. Prints the operations by time, each against what "
         "this machine's arithmetic and memory allow, and what tracing cost; writes the fastest "
         "traced step to --out as a file that ui.perfetto.dev and chrome://tracing show. On a GPU "
         "its own clock is read, also inside a recorded step. Several ranks share the file, with "
         "the communication of each; the table is the slowest rank's.",
         "profile --model llama-22m --batch 8\n"
         "profile --model llama-22m --ranks 2 --ddp zero1 --bucket-mb 4\n"
         "profile --model gpt2-124m --accum 4 --graph off --out step.json\n"},
    [COMMAND_CHECK] =
        {cmd_check, "numbers that must agree: of a run, or of anyone's table", " PATH...",
         "A run directory, or a folder of runs as a sweep makes: computes the checks of their "
         "records again. A file (CSV, Markdown or a "
         "log, from any program): recognises batch size, ranks, tokens, times, losses, memory and "
         "so on by their names, derives what follows from them, and names every line whose number "
         "disagrees. Exit status 4 when something does, 2 when nothing was recognised.",
         "check runs/tiny-0123456789abcdef\n"
         "check experiments/batch-sweep\n"
         "check results.md scaling.csv\n"
         "check --map 'Zeit=train-time' --map 'GPUs used=ranks' table.csv\n"},
    [COMMAND_REPORT] =
        {cmd_report, "pages and charts from the records of a run or an experiment", " DIR [OTHER]",
         "Writes report.md, report.html (one page that needs no other file) and charts, from "
         "records alone, into the folder of the run or experiment, or into --out. Without gnuplot "
         "there are no charts. With two folders: prints how they compare.",
         "report runs/tiny-0123456789abcdef\n"
         "report experiments/scaling --out page\n"
         "report experiments/before experiments/after\n"},
    [COMMAND_SWEEP] =
        {cmd_sweep, "an experiment: many trainings by a recipe, and a report of them",
         " RECIPE.yaml",
         "Trains every combination that a recipe asks for, each as a process of its own, one after "
         "the other, and writes tables, charts and findings into a folder. What does not fit, "
         "fails or takes too long becomes a row that says so. Stopped by Ctrl-C or killed, the "
         "same command goes on; what is done is not done again.",
         "sweep recipes/accumulation.yaml --smoke\n"
         "sweep recipes/batch-sweep.yaml --dry-run\n"
         "sweep recipes/strong-scaling.yaml --out experiments/scaling\n"},
    [COMMAND_DUEL] =
        {cmd_duel, "is B better than A, or was it the seed: a test of two configurations", " A B",
         "Trains A and B in pairs, both runs of a pair with the same seed, and looks at the "
         "differences of their final validation losses after every pair from --min-pairs on. It "
         "ends as soon as the interval of the mean difference excludes 0 (B is better, or worse) "
         "or "
         "lies within --margin of 0 (no difference that matters), and after --max-pairs as "
         "undecided. The interval holds at all looks together: --error is the rate of wrong "
         "verdicts of the whole duel. A and B are YAML files of train's options, or options on one "
         "line; B on a line is A with these options in place of its own. Give both the same budget "
         "(steps, tokens). Stopped by Ctrl-C or killed, the same command goes on. Exit status: 0 B "
         "is better, 11 B is worse, 10 no difference that matters, 12 undecided; 1 a run failed, 2 "
         "wrong use, 3 does not fit, 130 stopped.",
         "duel a.yaml b.yaml\n"
         "duel run.yaml 'lr: 2e-3'\n"
         "duel run.yaml 'lr: 2e-3, warmup: 10' --margin 0.005 --max-pairs 20 --json verdict.json\n"
         "duel 'data: builtin:stories, steps: 200' 'schedule: wsd' --jobs 2\n"
         "duel run.yaml 'seed: 100000' --dry-run\n"},
    [COMMAND_WATCH] =
        {cmd_watch, "a view of a run as it goes", " RUN",
         "Shows loss curve, throughput, phases, memory and remaining time of a run directory in "
         "the terminal, while it trains or afterwards. q ends the view, not the run.",
         "watch runs/llama-22m-1a2b\n"
         "watch --once runs/llama-22m-1a2b\n"},
    [COMMAND_SERVE] =
        {cmd_serve, "pages in a browser: all runs, live, side by side", " DIR...",
         "Shows all runs and experiments below the folders in a browser: a list, a run as it goes, "
         "several runs over each other with the options that differ, an experiment's tables and "
         "charts. Prints the address to open. Reads only, needs no network, and is for this "
         "machine alone unless --listen names an address. Ctrl-C or SIGTERM ends it, with exit "
         "status 0.",
         "serve runs\n"
         "serve runs experiments --port 0\n"
         "serve runs --listen 0.0.0.0\n"},
    [COMMAND_GENERATE] =
        {cmd_generate, "text from a trained model", " MODEL",
         "Goes on from a prompt. MODEL is a run directory, a checkpoint in it, or a Hugging Face "
         "folder with a GPT-2 or Llama model. The text goes to standard output, tokens per second "
         "to standard error.",
         "generate runs/llama-22m-1a2b --prompt 'Once upon a time'\n"
         "generate gpt2/ --prompt 'The answer is' --temperature 0 --max-tokens 20\n"
         "generate runs/x --samples 8 --top-p 0.9 --seed 7\n"
         "printf 'Dear Sir' | pacer generate runs/x --prompt -\n"},
    [COMMAND_EVAL] =
        {cmd_eval, "loss, perplexity and bits per byte of a trained model", " MODEL [TEXT...]",
         "Measures how well a model predicts: the validation part of --data as training does, or "
         "texts (files, folders, JSONL, - for standard input), document by document. MODEL is a "
         "run directory, a checkpoint in it, or a Hugging Face folder.",
         "eval runs/llama-22m-1a2b --data shards\n"
         "eval gpt2/ book.txt\n"
         "eval runs/x --each articles.jsonl\n"
         "eval runs/x --data shards --ranks 4 --json eval.json\n"},
    [COMMAND_EXPORT] =
        {cmd_export, "a model for Hugging Face or llama.cpp, or a record for other tools", " RUN",
         "Writes a run's model as a Hugging Face folder (config.json, model.safetensors, "
         "tokenizer.json, generation_config.json) or as a GGUF file for llama.cpp, or its records "
         "as CSV files or TensorBoard events.",
         "export runs/x --out hf-model\n"
         "export runs/x --out hf-model --dtype bf16 --shard-bytes 2G\n"
         "export runs/x --format gguf --type q8_0 --out x.gguf\n"
         "export runs/x --format csv --out tables\n"
         "export runs/x --format tensorboard --out events\n"},
    [COMMAND_IMPORT] =
        {cmd_import, "a Hugging Face model as a run directory", " FOLDER",
         "Reads a folder with a GPT-2 or Llama model as transformers saves it and writes a run "
         "directory with one checkpoint, for generate, eval, export and train --init.",
         "import gpt2/ --out runs/gpt2\n"
         "train --init runs/gpt2 --model gpt2-124m --data shards --lr 1e-5\n"},
    [COMMAND_COMPLETION] =
        {cmd_completion, "completion of commands and options in a shell", " bash|zsh|fish",
         "Prints what a shell needs to complete pacer's commands, options and values.",
         "completion bash > ~/.local/share/bash-completion/completions/pacer\n"
         "completion fish > ~/.config/fish/completions/pacer.fish\n"},
    [COMMAND_DEMO] = {cmd_demo, "the first minutes: train a tiny model on built-in text", "",
                      "Trains a tiny model on built-in text and shows what comes out of it.",
                      "demo\n"
                      "demo --out /tmp/demo --threads 2\n"},
};
