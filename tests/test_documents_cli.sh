#!/usr/bin/env bash
# `--documents separate` from outside: training, its record, evaluation with the same masks, resuming, refusals.
# shellcheck source=tests/support/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

number() { sed -n "s/^\t\"$2\":\t\([-+.e0-9]*\),*\$/\1/p" "$1"; }
cat >base.yaml <<'YAML'
model: llama-22m
layers: 2
d-model: 32
heads: 2
ffn: 48
context: 64
batch: 4
steps: 6
eval-every: 3
eval-batches: 3
device: cpu
threads: 2
quiet: on
YAML
train() { "$PACER" train --config base.yaml "$@"; }
loss() { sed -n "s/.*\"$2\":\([0-9.]*\).*/\1/p" "$1/metrics.jsonl" | tail -1; }

# Short documents, so that most sequences hold several.
for i in $(seq 600); do printf 'The %s cat sat.<|endoftext|>' "$i"; done >short.txt
expect 0 train data prepare short.txt --val-fraction 0.2 --out shards
train --data shards --out joined || fail "joined"
train --data shards --documents separate --out apart || fail "separate"
grep -q '"documents":[[:space:]]*"separate"' apart/run.json || fail "run.json does not tell of documents"
grep -q '"documents":[[:space:]]*"separate"' apart/ckpt/latest/state.json || fail "state.json does not tell of documents"
[[ $(loss apart loss) != "$(loss joined loss)" && -n $(loss apart loss) ]] || fail "documents make no difference"

# Micro-batches divide the update as ever; the plan counts where documents begin.
train --data shards --documents separate --batch 2 --accum 2 --out halves || fail "halves"
awk -v a="$(loss apart loss)" -v b="$(loss halves loss)" 'BEGIN { d = a - b; exit !(d < 1e-4 && -d < 1e-4) }' ||
    fail "loss $(loss halves loss) in halves, $(loss apart loss) at once"
bytes() { "$PACER" plan --config base.yaml "$@" | awk '$1 == "batch" { print $2 }'; }
[[ $(($(bytes --documents separate) - $(bytes))) == $((4 * 64 * 4)) ]] || fail "plan: $(bytes --documents separate), joined $(bytes)"

# Evaluation takes the run's way, to the bit, unless told otherwise.
expect 0 'bits per byte' eval apart --batches 3 --threads 2 --json a.json
[[ $(number a.json mean_of_batches) == "$(loss apart val_loss)" ]] || fail "eval $(number a.json mean_of_batches), the run $(loss apart val_loss)"
expect 0 'bits per byte' eval apart --documents joined --batches 3 --threads 2 --json b.json
[[ $(number b.json loss) != "$(number a.json loss)" ]] || fail "--documents makes no difference to eval"
expect 0 'bits per byte' eval joined --documents separate --batches 3 --threads 2 --json c.json
[[ $(number c.json loss) != "$(loss joined val_loss)" ]] || fail "eval of a joined run ignores --documents"

# A document in a sequence has the loss that it has as a text by itself. The first has no end before it; the second one
# is all there is from there on.
printf 'Once there was a cat in the sun.' >one.txt
printf '%s<|endoftext|>%s' 'Once there was a cat in the sun.' 'The cat sat by the big red box.' >two.txt
printf 'The cat sat by the big red box.' >second.txt
for name in one two; do expect 0 train data prepare $name.txt --val-fraction 0 --out $name; done
expect 0 train eval apart --data one --split train --seq 32 --batch 1 --json one.json
expect 0 train eval apart --data two --split train --seq 64 --batch 1 --json two.json
expect 0 'bits per byte' eval apart second.txt --seq 64 --json second.json
[[ $(number one.json tokens) == 32 && $(number two.json tokens) == 64 && $(number second.json tokens) == 32 ]] || fail "tokens of two documents"
awk -v a="$(number one.json nats)" -v b="$(number second.json nats)" -v c="$(number two.json nats)" \
    'BEGIN { d = a + b - c; exit !(c > 0 && d < 1e-5 * c && -d < 1e-5 * c) }' ||
    fail "nats $(number one.json nats) and $(number second.json nats) apart, $(number two.json nats) in a sequence"

# Another way is another training.
expect 2 'was trained with --documents separate, this command has --documents joined' train --config base.yaml --data shards --steps 9 --out apart
expect 2 'was trained with --documents joined' train --config base.yaml --data shards --documents separate --steps 9 --out joined
train --data shards --documents separate --steps 9 --out apart || fail "going on"

# What is timed is compared with the reference, documents included.
grep -vE '^(steps|eval)' base.yaml | grep -v quiet >step.yaml
expect 0 'verified: loss' bench step --config step.yaml --data shards --documents separate --repeats 1 --warm 1 --verify

# What is wrong is named.
expect 2 '--documents separate: data builtin:random: comes without a tokenizer' train --config base.yaml --data builtin:random --documents separate --out x
expect 2 '--documents separate: --model ttt-125m' plan --model ttt-125m --data shards --documents separate
expect 2 'no added token "</doc>"' train --config base.yaml --data shards --documents separate --end '</doc>' --out x
expect 2 '(all: joined, separate)' train --config base.yaml --data shards --documents apart --out x

[[ $failed == 0 ]] && echo "documents are kept apart"
exit $failed
