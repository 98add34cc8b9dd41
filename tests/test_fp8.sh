#!/usr/bin/env bash
# Training with products in e4m3, on the reference: near bf16, exact when resumed, the same with two ranks; what is
# made of such a run; and what is refused.
# shellcheck source=tests/support/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

model=(--model tiny --layers 2 --heads 2 --ffn 64 --context 32 --data builtin:bytes --device ref)
small=("${model[@]}" --d-model 32)
train() { "$PACER" train "${small[@]}" --steps 8 --log-every 1 --eval-batches 2 --lr 3e-3 --quiet "$@" 2>err ||
    fail "train $*"; }
losses() { sed -n 's/.*"loss":\([0-9.]*\).*"grad_norm":\([0-9.]*\).*/\1 \2/p' "$1/metrics.jsonl"; }
# near A B: eight losses and gradient norms, and the largest difference of losses is above $3 and at most $4.
near() {
    paste <(losses "$1") <(losses "$2") | awk -v least="$3" -v most="$4" '
        { d = $1 > $3 ? $1 - $3 : $3 - $1; top = d > top ? d : top; r = $2 / $4; bad = bad || r < 0.9 || r > 1.1 }
        END { exit !(NR == 8 && !bad && top > least && top <= most) }' || fail "$1 is not near $2: $(losses "$1")"
}

train --dtype bf16 --batch 2 --eval-every 4 --out bf16
train --dtype fp8 --batch 2 --eval-every 4 --out fp8 --save-every 4 --keep 0
near fp8 bf16 1e-6 0.01
train --dtype fp8 --batch 2 --eval-every 4 --recompute block --out again
cmp fp8/ckpt/step-8/model.safetensors again/ckpt/latest/model.safetensors || fail "recomputed blocks are others"

# From the middle, with the scales that were saved; without them, which a checkpoint of bf16 has not, only nearly.
cp -r fp8 resumed
rm -r resumed/ckpt/step-8
ln -sfn step-4 resumed/ckpt/latest
train --dtype fp8 --batch 2 --eval-every 4 --out resumed
cmp fp8/ckpt/step-8/model.safetensors resumed/ckpt/latest/model.safetensors || fail "a resumed run is another"
grep -q '"fp8_scales"' resumed/ckpt/latest/state.json || fail "no scales are saved"
grep -q '"fp8_scales"' bf16/ckpt/latest/state.json && fail "scales of a run in bf16"

# Attention is none of its business.
train --dtype fp8 --batch 2 --eval-every 4 --attention naive --out naive
near naive fp8 -1 0.005

# Evaluations do not change what is learned.
train --dtype fp8 --batch 2 --eval-every 0 --out unseen
cmp fp8/ckpt/step-8/model.safetensors unseen/ckpt/latest/model.safetensors || fail "an evaluation changes the run"

if [[ $("$PACER" --version) == *"with "*MPI* ]] && command -v mpirun >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0
    for ddp in overlap zero1 zero3; do
        train --dtype fp8 --batch 1 --eval-every 4 --ranks 2 --ddp "$ddp" --threads 1 --oversubscribe --out "two-$ddp"
        near "two-$ddp" fp8 -1 0.005
    done
    unset ASAN_OPTIONS
fi

# The weights are those in f32.
expect 0 '' generate fp8 --prompt The --max-tokens 4 --device cpu
expect 0 'bits per byte' eval fp8 --device cpu --batches 2
expect 0 '' export fp8 --out hf
expect 0 'quant_backward_weight' bench machine "${small[@]:0:10}" --batch 2 --d-model 32 --device ref \
    --dtype fp8 --vocab 300 --json m.json
expect 0 'parameters' plan "${small[@]}" --dtype fp8

refused() { expect 2 "$@" && [[ ! -e no ]] || fail "a refused run leaves a folder"; }
fp8=(--dtype fp8 --out no)
refused '--dtype fp8 is not supported on the CPU' train --model tiny --data builtin:bytes --device cpu "${fp8[@]}"
refused '--d-model is 24, no multiple' train "${model[@]}" --d-model 24 "${fp8[@]}"
refused '--batch x --seq is 40, no multiple' train "${small[@]}" --batch 2 --seq 20 "${fp8[@]}"
refused '--dtype fp8 is for training' generate fp8 --prompt The --dtype fp8 --device ref
refused '--dtype fp8 is for training' eval fp8 --dtype fp8 --device ref
refused '--dtype fp8 is for training' export fp8 --dtype fp8 --out no
refused '--dtype fp8 is for training' bench attention --dtype fp8 --device ref
exit $failed
