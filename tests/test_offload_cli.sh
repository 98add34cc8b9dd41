#!/usr/bin/env bash
# --offload from outside, on --device ref, which has a second memory for tests: checkpoints with the same bytes as without
# it, saved behind training too, by one rank and by several; resumes from each to each; what plan and run.json say of
# both memories; what is refused. PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

small=(--model tiny --data builtin:bytes --d-model 32 --heads 2 --ffn 48 --context 16 --seq 16 --batch 2
    --global-batch 4 --steps 4 --eval-every 2 --eval-batches 1 --log-every 1 --save-every 2 --keep 0 --quiet)
device=ref layers=4
train() { "$PACER" train "${small[@]}" --device $device --layers $layers "$@" 2>err || fail "train $* ended with $?"; }
same() { # checkpoint folders
    for file in model optimizer; do
        cmp -s "$1/$file.safetensors" "$2/$file.safetensors" || fail "$file of $1 and $2 differs"
    done
}

low=(--dtype bf16 --state-dtype bf16 --recompute ffn)
train "${low[@]}" --out none
train "${low[@]}" --offload optimizer --out optimizer
train "${low[@]}" --offload both --save async --out both
for at in 2 4; do
    same {none,optimizer}/ckpt/step-$at
    same {none,both}/ckpt/step-$at
done
train "${low[@]}" --offload activations --resume none/ckpt/step-2 --out onward
train "${low[@]}" --resume both/ckpt/step-2 --out back
same {none,onward}/ckpt/step-4
same {none,back}/ckpt/step-4
grep -q '"option":"offload"' <(tr -d '\t' <onward/run.json) || fail "the legs of onward do not name the option"

train --clip 0 --offload all --out all # the norm of gradients is rounded otherwise
train --clip 0 --out whole
same {all,whole}/ckpt/step-4
"$PACER" bench step --model tiny --layers 4 --d-model 32 --heads 2 --ffn 48 --context 16 --batch 2 --accum 2 --device ref \
    --offload all --repeats 2 >out 2>err
grep -q '^verified: ' out || fail "a step with --offload all is not verified: $(cat out)"

grads=("${low[@]}" --grad-dtype bf16) # whose random bits follow the update
train "${grads[@]}" --out grads
train "${grads[@]}" --offload all --save async --resume grads/ckpt/step-2 --out grads-all
same {grads,grads-all}/ckpt/step-4
cmp -s {grads,none}/ckpt/step-4/model.safetensors && fail "--grad-dtype bf16 rounds nothing"

train --optimizer muon --offload both --out muon
train --optimizer muon --out muon-none
same {muon,muon-none}/ckpt/step-4
if [[ $("$PACER" --version) == *"with "*MPI* ]] && command -v mpirun >/dev/null && [[ -z ${ASAN_OPTIONS:-} ]]; then
    for ddp in zero1 zero2 zero3; do
        ranks=(--dtype bf16 --ranks 2 --ddp $ddp --bucket-mb 0 --threads 1)
        train "${ranks[@]}" --out $ddp
        train "${ranks[@]}" --offload both --out $ddp-both
        same {$ddp,$ddp-both}/ckpt/step-4
    done
fi

# The same bytes, in the one memory or the other.
"$PACER" plan "${small[@]}" --device ref --layers 4 "${low[@]}" --offload both >out 2>err || fail "plan ended with $?"
row() { sed -n "s/^  $1 *\([0-9]*\) .*/\1/p" "$2" | tail -n 1; }
grep -q 'recompute ffn, offload both$' out || fail "the plan does not name the option: $(head -n 1 out)"
grep -q '^In memory of the host$' out || fail "the plan has nothing in memory of the host"
offloaded=$(row offload out)
rows=$(sed -n '/^In memory/,/^  offload/{ s/^  \(.*[^ ]\) *[0-9.]* MiB$/\1/p }' out | awk '$1 != "offload" { sum += $2 } END { print sum }')
[[ $offloaded -gt 0 && $rows == "$offloaded" ]] || fail "the rows of the host do not add up to $offloaded: $(cat out)"
tr -d '\n\t' <both/run.json | grep -q "\"kind\":\"offload\",\"bytes\":$offloaded" || fail "run.json lacks the row offload"
"$PACER" check both >out 2>&1 || fail "check finds: $(cat out)"

# What no host has room for is shown before it is refused, and is no remedy; what has room is one.
huge=(--model tiny --layers 400 --d-model 8192 --heads 64 --ffn 32768 --context 8 --vocab 300 --threads 1 --device ref --batch 1
    --recompute block)
expect 3 "of the host's memory are free for this rank; take less of --offload, or --state-dtype bf16" plan "${huge[@]}" \
    --offload both --memory-limit 100T
grep -q '^In memory of the host$' err || fail "the plan that is refused is not shown: $(cat err)"
expect 3 'less of --offload, or --recompute block, or --grad-dtype bf16' plan "${huge[@]:0:18}" --dtype bf16 --state-dtype bf16 \
    --offload all --memory-limit 100T
expect 3 'not even --batch 1 fits' plan "${huge[@]}" --memory-limit 4000G
grep -q 'or --offload' err && fail "--offload takes what the host does not have: $(tail -n 1 err)"
process() { "$PACER" plan "${small[@]}" --device ref --layers 4 --vocab 20000 --recompute block "$@" | awk '$1 == "process," { print $3 }'; }
expect 3 ', or --offload optimizer' plan "${small[@]}" --device ref --layers 4 --vocab 20000 --recompute block \
    --memory-limit $((($(process) + $(process --offload optimizer)) / 2))

refuse() { # message, options
    local says=$1
    shift
    "$PACER" train "${small[@]}" --device $device --layers $layers --out refused "$@" >out 2>err
    [[ $? == 2 ]] || fail "$* is not refused"
    grep -q -- "$says" err || fail "$* does not say '$says'"
}
refuse '--grad-dtype bf16 goes with --dtype bf16' --grad-dtype bf16
refuse '--grad-dtype bf16 is for one rank' --grad-dtype bf16 --dtype bf16 --ranks 2 --threads 1
refuse '--grad-dtype bf16 would round' --grad-dtype bf16 --dtype bf16 --optimizer muon
refuse '--offload all: gradients of several ranks' --offload all --ranks 2 --threads 1
device=cpu
refuse '--offload optimizer: --device cpu computes in the host' --offload optimizer
device=ref layers=2
refuse 'give --offload optimizer' --offload both
refuse '--layers is 2; leave it out' --offload activations

exit $failed
