#!/usr/bin/env bash
# Products in e4m3 where ranks keep parts of the weights: codes and scales are those of whole weights, bit for bit,
# and what one rank learns is near; every rank takes what was planned. On the reference. PACER names the program.
# Skipped in a build without MPI.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"
export XDG_CACHE_HOME=$work/cache

if [[ $("$PACER" --version) != *"with "*MPI* ]] || ! command -v mpirun >/dev/null; then
    echo "skipped: no MPI"
    exit 0
fi
sanitized=${ASAN_OPTIONS:-}
[[ -n $sanitized ]] && export ASAN_OPTIONS=detect_leaks=0 # MPI keeps memory to the end

# Three layers, so that rooms change hands; parts end within matrices.
small=(--model tiny --layers 3 --d-model 32 --heads 2 --ffn 48 --context 32 --seq 16 --data builtin:bytes
    --device ref --dtype fp8 --threads 1 --lr 3e-3 --warmup 2 --steps 4 --log-every 1 --quiet)
train() { "$PACER" train "${small[@]}" "$@" 2>err || fail "train $* ended with $?"; }

same() { # A B: the state after four updates
    local file
    for file in model.safetensors optimizer.safetensors; do
        cmp "$1/ckpt/step-4/$file" "$2/ckpt/step-4/$file" || fail "$file of $2 is not that of $1"
    done
    [[ $(scales "$1") == $(scales "$2") && -n $(scales "$1") ]] || fail "scales of $2 are not those of $1"
}
scales() { grep -o '"fp8_scales"[^,]*' "$1/ckpt/step-4/state.json"; }
planned() { # RUN RANKS
    for ((rank = 0; rank < $2; rank++)); do
        tr -d ' \n\t' <"$1/ranks/$rank.json" | grep -o '"kind":"[a-z]*","planned_bytes":[0-9]*,"peak_bytes":[0-9]*' |
            awk -F'[":,]*' '$5 != $7 { bad = 1 } END { exit bad || NR < 5 }' || fail "$1: rank $rank takes what is not planned"
    done
}

# Without clipping, whose norm is a sum of parts, and with one micro-step, updates are the same to the bit.
exact=(--batch 2 --clip 0 --eval-every 1 --eval-batches 1 --save-every 2 --keep 0)
alike() { # NAME RANKS OPTIONS
    local name=$1 ranks=$2
    shift 2
    train "${exact[@]}" --ranks "$ranks" --ddp zero1 "$@" --out "$name-whole"
    train "${exact[@]}" --ranks "$ranks" --ddp zero3 --bucket-mb 0 --verify-every 3 "$@" --out "$name-parts"
    same "$name-whole" "$name-parts"
    planned "$name-parts" "$ranks"
}
alike untied 3 --tied off
alike tied 2 --tied on --recompute block
if [[ -z $sanitized ]]; then
    alike groups 4 --tied off --shard-group 2 --recompute attention
    alike muon 2 --tied off --optimizer muon
fi

# From parts to whole weights, and back.
resume() { # FROM OPTIONS
    local from=$1
    shift
    train "${exact[@]}" --tied off --resume "$from/ckpt/step-2" "$@" --out resumed
    same untied-whole resumed
    rm -rf resumed
}
resume untied-whole --ranks 3 --ddp zero3
resume untied-parts --ranks 3 --ddp overlap

# Sums over micro-steps come after those over ranks: near.
many=(--global-batch 12 --clip 0.5 --eval-every 2)
values() { sed -n 's/.*"\(val_loss\|loss\)":\([0-9.]*\).*/\2/p' "$1/metrics.jsonl"; }
train "${many[@]}" --batch 4 --eval-batches 3 --out many
for ranks in 3 ${sanitized:-4}; do
    [[ $ranks =~ ^[0-9]$ ]] || continue
    batch=$((ranks == 3 ? 2 : 1))
    train "${many[@]}" --batch $batch --eval-batches $((12 / batch)) --ranks "$ranks" --ddp zero3 --out "many-$ranks"
    paste <(values many) <(values "many-$ranks") | awk '
        { d = $1 - $2; d = d < 0 ? -d : d; if (d > 1e-5) { print; bad = 1 } } END { exit bad || NR != 6 }' ||
        fail "$ranks ranks are not near one"
done
exit $failed
