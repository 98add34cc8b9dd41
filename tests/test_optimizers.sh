#!/usr/bin/env bash
# Muon, mup and state in bf16 from outside: exact resumes, the same losses with several ranks, models that generate, evaluate and go
# out, a verified step, and what is refused. PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

small=(--data builtin:bytes --layers 2 --d-model 48 --heads 2 --kv-heads 1 --ffn 80 --context 32 --seq 32 --threads 1
    --lr 3e-3 --log-every 1 --steps 12 --global-batch 6 --eval-every 12 --quiet)
device=cpu
train() { "$PACER" train --model tiny "${small[@]}" --device $device "$@" 2>err || fail "train $* ended with $?"; }
losses() { sed -n 's/.*"step":\([0-9]*\).*"\(val_loss\|loss\)":\([0-9.]*\).*/\1-\2 \3/p' "$1/metrics.jsonl" | sort -k1b,1; }
# Losses of runs $1 and $2 are within 1e-5, all $3 of them.
same_losses() {
    join <(losses "$1") <(losses "$2") |
        awk -v n="$3" '{ d = $2 - $3; if (d > 1e-5 || d < -1e-5) bad = 1 } END { exit bad || NR != n }' ||
        fail "$1 and $2 differ"
}
same_bits() { cmp -s "$1" "$2" || fail "$1 and $2 differ"; }

muon=(--optimizer muon --parametrization mup --mup-base 16)
train "${muon[@]}" --batch 6 --eval-batches 1 --save-every 5 --keep 0 --out one
train "${muon[@]}" --batch 6 --eval-batches 1 --resume one/ckpt/step-5 --out resumed
train "${muon[@]}" --batch 6 --eval-batches 1 --recompute block --out again
for file in model optimizer; do
    same_bits {one,resumed}/ckpt/latest/$file.safetensors
    same_bits {one,again}/ckpt/latest/$file.safetensors
done
names=$(head -c 20000 one/ckpt/latest/optimizer.safetensors | tr '{,' '\n\n' | grep -ao '"[mv][a-z]*\.[a-z_.0-9]*"' | sort)
grep -q '"momentum.model.layers.1.mlp.down_proj.weight"' <<<"$names" || fail "no momentum of a matrix"
grep -q '"v.model.layers.1.mlp.down_proj.weight"' <<<"$names" && fail "a second moment of a matrix"
grep -q '"v.model.embed_tokens.weight"' <<<"$names" || fail "no second moment of the embedding"
expect 0 ' checks' check one

expect 0 '' generate one --prompt the --max-tokens 8 --device cpu
expect 0 'loss' eval one --device cpu
expect 0 '' export one --format hf --out out-hf
train --init one --optimizer adamw --batch 6 --eval-batches 1 --out on
expect 0 'and an update within' bench step --model tiny --device cpu --layers 2 --d-model 32 --heads 2 --ffn 48 --vocab 101 \
    --batch 2 --seq 16 --repeats 1 --warm 0 "${muon[@]}"

# The last column of a plan is the memory: no second moment of matrices.
optimizer_bytes() { "$PACER" plan --model tiny --vocab 300 --device cpu "$@" | awk '$1 == "optimizer" { print $2 }'; }
(($(optimizer_bytes --optimizer muon) * 10 < $(optimizer_bytes) * 6)) || fail "Muon's memory"

# State in bf16: half the bytes to the byte; in bf16 training masters of 4 bytes in place of 6.
half=$(optimizer_bytes --state-dtype bf16)
((half * 2 == $(optimizer_bytes))) || fail "moments in bf16 take $half bytes"
param_bytes() { "$PACER" plan --model tiny --vocab 300 --device ref --dtype bf16 "$@" | awk '$1 == "parameters" { print $2 }'; }
(($(param_bytes --state-dtype bf16) * 6 == $(param_bytes) * 4)) || fail "masters in parts"
for kind in 'adamw cpu f32' 'sgd cpu f32' 'muon cpu f32' 'adamw ref bf16' 'muon ref bf16'; do
    read -r optimizer device dtype <<<"$kind"
    halves=(--optimizer "$optimizer" --dtype "$dtype" --state-dtype bf16 --batch 6 --eval-batches 1)
    out=halves-$optimizer-$dtype
    train "${halves[@]}" --save-every 5 --keep 0 --out "$out"
    train "${halves[@]}" --resume "$out/ckpt/step-5" --out "$out-resumed"
    for file in model optimizer; do
        same_bits {"$out","$out-resumed"}/ckpt/latest/$file.safetensors
    done
    grep -aq '"F32"' <(head -c 20000 "$out/ckpt/latest/optimizer.safetensors") && fail "$kind: state in f32"
    grep -aq '"BF16"' <(head -c 20000 "$out/ckpt/latest/model.safetensors") && fail "$kind: masters in bf16"
    expect 0 ' checks' check "$out"
    expect 0 'and an update within' bench step --model tiny --layers 2 --d-model 32 --heads 2 --ffn 48 --vocab 101 --batch 2 \
        --seq 16 --repeats 1 --warm 0 --device $device "${halves[@]:0:6}"
done
device=cpu
# Another type goes on from the same numbers, and says so.
go_on() { # FROM TYPE OUT
    "$PACER" train --model tiny "${small[@]:0:${#small[@]}-1}" --device cpu --batch 6 --eval-batches 1 --state-dtype "$2" --resume "$1/ckpt/step-5" \
        --out "$3" >err 2>&1 || fail "no going on with $2"
    grep -q 'state-dtype' err || fail "nothing said of $2"
    grep -q '"state-dtype"' "$3/run.json" || fail "$2 is not recorded"
}
train --batch 6 --eval-batches 1 --save-every 5 --keep 0 --out whole
go_on whole bf16 narrowed
go_on halves-adamw-f32 f32 widened
join <(losses whole) <(losses narrowed) | awk '{ d = $2 - $3; if (d > 0.01 || d < -0.01) bad = 1 } END { exit bad || NR != 8 }' ||
    fail "the state was not taken over"

expect 2 'is for the steps of --optimizer adamw and' plan --model tiny --vocab 300 --optimizer sgd --parametrization mup
expect 2 'no rule for the inner learning' plan --model ttt-125m --parametrization mup
expect 0 'mup-base has no effect' plan --model tiny --vocab 300 --mup-base 64
expect 0 'muon-steps has no effect' plan --model tiny --vocab 300 --muon-steps 3
expect 2 '--optimizer muon' train --model tiny "${small[@]}" --device cpu --batch 6 --out one
# A head width that grows has a scale of its own, which Llama's file has no field for.
train --parametrization mup --mup-base 24 --mup-base-head-dim 12 --batch 6 --eval-batches 1 --out grown
expect 2 'score-scale' export grown --format hf --out grown-hf

if [[ $("$PACER" --version) == *"with "*MPI* ]] && command -v mpirun >/dev/null; then
    [[ -n ${ASAN_OPTIONS:-} ]] && export ASAN_OPTIONS=detect_leaks=0
    train "${muon[@]}" --ranks 2 --batch 3 --eval-batches 2 --ddp naive --out two-naive
    train "${muon[@]}" --ranks 2 --batch 1 --eval-batches 6 --ddp flat --out two-flat
    train "${muon[@]}" --ranks 3 --batch 2 --eval-batches 3 --bucket-mb 0 --out three
    train --parametrization mup --mup-base 16 --batch 6 --eval-batches 1 --out adam
    train --parametrization mup --mup-base 16 --ranks 3 --batch 2 --eval-batches 3 --ddp zero1 --bucket-mb 0 --out adam-zero1
    train "${muon[@]}" --ranks 2 --batch 3 --eval-batches 2 --ddp zero1 --save-every 5 --keep 0 --out two-zero1
    train "${muon[@]}" --ranks 3 --batch 2 --eval-batches 3 --ddp zero1 --bucket-mb 0 --resume two-zero1/ckpt/step-5 \
        --out three-zero1
    same_losses one three-zero1 8
    for run in two-naive two-flat three two-zero1; do
        same_losses one $run 13
    done
    same_losses adam adam-zero1 13
    # Random bits know neither cuts nor keepers: without clipping, whose norm is summed by parts, all is the same.
    cut=(--state-dtype bf16 --clip 0 --ranks 2 --batch 3 --eval-batches 2)
    train "${cut[@]}" --ddp flat --out cut-flat
    for kind in 'overlap 0' 'zero1 25' 'zero1 0' 'zero2 0' 'zero3 0'; do
        read -r ddp bucket <<<"$kind"
        train "${cut[@]}" --ddp "$ddp" --bucket-mb "$bucket" --out "cut-$ddp-$bucket"
        same_bits {cut-flat,"cut-$ddp-$bucket"}/ckpt/latest/model.safetensors
        same_bits {cut-flat,"cut-$ddp-$bucket"}/ckpt/latest/optimizer.safetensors
    done
    device=ref
    train "${cut[@]}" --dtype bf16 --ddp flat --out low-flat
    for ddp in zero1 zero3; do
        train "${cut[@]}" --dtype bf16 --ddp $ddp --out low-$ddp
        same_bits low-{flat,$ddp}/ckpt/latest/model.safetensors
        same_bits low-{flat,$ddp}/ckpt/latest/optimizer.safetensors
    done
else
    echo "skipped: ranks, without MPI"
fi

[[ $failed == 0 ]] && echo "Muon, mup and state in bf16 do what they say"
exit $failed
