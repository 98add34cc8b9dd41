#!/usr/bin/env bash
# --sample-every: the texts that a model writes while it learns leave its training as it is, and a resume writes none
# of them twice.
source "$(dirname "$0")/support/program.sh"

options=(--data builtin:stories --layers 1 --d-model 16 --heads 2 --batch 1 --seq 16 --eval-every 0 --threads 1
    --device cpu --quiet)
train() {
    "$PACER" train "${options[@]}" "$@" >out 2>err || fail "train $*: exit status $?"
}

train --steps 25 --out plain
train --steps 25 --sample-every 10 --out sampled
for file in model optimizer; do
    cmp -s {plain,sampled}/ckpt/step-25/$file.safetensors || fail "$file: not the training without samples"
done
steps() { sed -n 's/^{"step":\([0-9]*\),"tokens":[0-9]*,"text":".*"}$/\1/p' "$1" | paste -sd' '; }
[[ $(steps sampled/samples.jsonl) == "10 20 25" ]] || fail "samples of steps $(steps sampled/samples.jsonl)"
[[ ! -e plain/samples.jsonl ]] || fail "samples that nobody asked for"

# Killed after a sample that no checkpoint has: it is written again, once, and is the same.
train --steps 25 --save-every 15 --keep 0 --sample-every 10 --out resumed
rm -rf resumed/ckpt/step-25
ln -sfn step-15 resumed/ckpt/latest
sed -i 's/"status":.*"done"/"status": "running"/' resumed/run.json
printf '{"step":30,"te' >>resumed/samples.jsonl
train --steps 25 --save-every 15 --keep 0 --sample-every 10 --out resumed
cmp -s {sampled,resumed}/samples.jsonl || fail "after a resume: steps $(steps resumed/samples.jsonl)"

expect 2 "--sample-every: " train --steps 5 --data builtin:random --model tiny --sample-every 5 --out none
exit $failed
