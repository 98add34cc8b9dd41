#!/usr/bin/env bash
# zero1, zero2 and zero3 keep parts of more and more, and train what one rank trains: any number of ranks, heads
# tied or not, test-time training, optimizers, recomputation, shard groups; checkpoints go from each to each. The
# plan of every rank is what it takes, and what does not fit one rank trains on four. PACER names the program.
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

# Five layers, so that rooms change hands; batches of 12 sequences in two micro-steps or more.
small=(--data builtin:bytes --layers 5 --d-model 48 --heads 4 --ffn 80 --context 32 --seq 32 --threads 1
    --warmup 2 --clip 0.5 --log-every 1 --eval-every 3 --steps 6 --global-batch 12 --verify-every 2 --quiet)
values() { # losses of steps and evaluations, gradient norms before clipping
    local steps='s/.*"step":\([0-9]*\).*'
    sort -k1b,1 <(sed -n "$steps"'"\(val_loss\|loss\)":\([0-9.]*\).*/\1-\2 \3/p' "$1/metrics.jsonl") \
        <(sed -n "$steps"'"grad_norm":\([0-9.]*\).*/\1-norm \2/p' "$1/metrics.jsonl")
}
model=(--model tiny --lr 3e-3)
train() { "$PACER" train "${model[@]}" "${small[@]}" "$@" 2>err || fail "train $* ended with $?"; }
# same A B LINES: within 1e-5 of each other, norms relative to themselves.
same() {
    join <(values "$1") <(values "$2") | awk -v want="$3" '
        { n++; d = $2 - $3; d = d < 0 ? -d : d; if (d > 1e-5 * ($1 ~ /norm/ ? $2 : 1)) { print; bad = 1 } }
        END { if (n != want) { print n, "lines"; bad = 1 } exit bad }' || fail "$1 and $2 differ"
}

# alike NAME "RANKS DDP OPTIONS" ... -- OPTIONS: each like one rank. Evaluations are of the same 12 sequences; with
# three and four ranks some of these have one batch less.
alike() {
    local name=$1 cases=() case ranks
    shift
    while [[ $1 != -- ]]; do
        cases+=("$1")
        shift
    done
    shift
    train --batch 4 --eval-batches 3 "$@" --out "$name-one"
    for case in "${cases[@]}"; do
        read -r ranks ddp options <<<"$case"
        batch=$((ranks == 2 ? 3 : ranks == 3 ? 2 : 1))
        # shellcheck disable=SC2086
        train --ranks "$ranks" --ddp "$ddp" $options --batch $batch --eval-batches $((12 / batch)) "$@" --out "$name-$ranks-$ddp"
        same "$name-one" "$name-$ranks-$ddp" 14
    done
}
alike plain "2 zero2 --bucket-mb 0" "3 zero3 --bucket-mb 0" "4 zero3 --bucket-mb 0 --shard-group 2" -- --tied off --save-every 3 --keep 0
alike tied "3 zero2 --bucket-mb 0" "2 zero3 --bucket-mb 0 --save-every 3 --keep 0" -- --tied on
if [[ -z $sanitized ]]; then
    alike plain "2 zero1" "4 zero2 --bucket-mb 0 --shard-group 2" "2 zero3" -- --tied off --save-every 3 --keep 0
    alike muon "2 zero2 --bucket-mb 0" "3 zero3 --bucket-mb 0" -- --optimizer muon --recompute block
    alike sgd "3 zero3 --bucket-mb 0" -- --optimizer sgd --recompute attention
    # At 3e-3 one rank's own losses differ as much by how its batches are cut.
    model=(--model ttt-125m --vocab 257 --mini-batch 8 --lr 1e-3)
    alike ttt "3 zero2 --bucket-mb 0" "2 zero3 --bucket-mb 0" --
    model=(--model tiny --lr 3e-3)
fi

# From each strategy to each other, and other numbers of ranks: the second half again.
resume() { # from, options
    local from=$1
    shift
    train --batch 1 --eval-batches 12 --tied off --resume "$from/ckpt/step-3" "$@" --out resumed
    same plain-one resumed 7
    rm -rf resumed
}
resume plain-3-zero3 --ranks 2 --ddp zero1
resume plain-2-zero2 --ranks 4 --ddp zero3 --bucket-mb 0
if [[ -z $sanitized ]]; then
    resume plain-3-zero3
    resume plain-4-zero3 --ranks 3 --ddp zero2 --bucket-mb 0
    resume plain-2-zero1 --ranks 2 --ddp zero3 --bucket-mb 0
    resume plain-one --ranks 3 --ddp zero3
    resume plain-2-zero2 --ranks 2 --ddp overlap
fi

# Every rank takes what was planned, to the byte. Of 4-byte weights, gradients and two moments zero1 keeps a part of
# the moments; zero2 of gradients, and room for two layers, the larger of embedding and head, and norms; zero3 the same
# of weights.
kinds() { # run rank: planned bytes of parameters, gradients and optimizer, where all kinds peak as planned
    tr -d ' \n\t' <"$1/ranks/$2.json" | grep -o '"kind":"[a-z]*","planned_bytes":[0-9]*,"peak_bytes":[0-9]*' |
        awk -F'[":,]*' '$5 != $7 { print "peak of", $3 } $3 ~ /parameters|gradients|optimizer/ { printf "%s ", $5 }'
}
layer=$((48 * 48 * 4 + 48 * 80 * 3)) table=$((256 * 48)) norms=$((5 * 2 * 48 + 48))
flat=$((5 * layer + 2 * table + norms))
room=$((2 * layer + table + norms))
near() { # found, expected: but for what is padded, and kept by all ranks of what does not divide
    local d=$(($1 - $2))
    ((d >= 0 && d <= 4 * 6144)) || fail "$3: $1 bytes, not $2"
}
for rank in 0 1; do
    read -r params grads moments more <<<"$(kinds plain-2-zero2 $rank)"
    [[ -z $more ]] || fail "zero2, rank $rank: $more"
    near "$params" $((4 * flat)) 'weights of zero2'
    near "$grads" $((4 * (flat / 2 + room))) 'gradients of zero2'
    near "$moments" $((4 * flat)) 'moments of zero2'
done
for rank in 0 1 2; do
    read -r params grads moments more <<<"$(kinds plain-3-zero3 $rank)"
    [[ -z $more ]] || fail "zero3, rank $rank: $more"
    near "$params" $((4 * (flat / 3 + room))) 'weights of zero3'
    near "$grads" $((4 * (flat / 3 + room))) 'gradients of zero3'
    near "$moments" $((8 * flat / 3)) 'moments of zero3'
done
expect 0 ' checks' check plain-3-zero3

# What is too small to be cut is said: norms at 64 ranks, everything at 512. Buffers are padded.
uncut() {
    "$PACER" plan --model tiny "${small[@]:2:12}" --data builtin:bytes --tied off --bucket-mb 0 --ddp "$2" --ranks "$1" 2>err |
        sed -n "s/^--ddp .* keeps all of \([0-9]*\) parameters, .*fewer than 64 for each of \([0-9]*\) ranks$/\1 \2/p"
}
[[ -z $(uncut 2 zero3)$(uncut 512 overlap) ]] || fail "said of two ranks, or of whole ones"
near "$(uncut 64 zero1 | cut -d ' ' -f 1)" $norms 'norms that 64 ranks keep'
[[ $(uncut 512 zero3) == *' 512' ]] || fail "512 ranks: $(uncut 512 zero3)"
near "$(uncut 512 zero3 | cut -d ' ' -f 1)" $flat 'all, of which 512 ranks cut nothing'

# What is refused, and what to do.
expect 2 'shard-group 3: does not divide ranks 4' plan --model tiny --ranks 4 --ddp zero2 --shard-group 3
expect 2 'shard-group: --ddp overlap keeps nothing in parts' plan --model tiny --ranks 4 --shard-group 2
expect 2 'one rank has no part' plan --model tiny --ranks 4 --ddp zero3 --shard-group 1

# A model that does not fit one rank trains on four.
wide=(--model tiny --data builtin:bytes --layers 8 --d-model 256 --heads 4 --ffn 1024 --context 16 --seq 16 --threads 1
    --batch 1 --steps 2 --eval-batches 1 --quiet)
process() { "$PACER" plan "${wide[@]}" "$@" 2>err | awk '/^  process, about/ { print $3 }'; }
one=$(process) four=$(process --ranks 4 --ddp zero3 --bucket-mb 0)
limit=$(((one + four) / 2))
[[ $four -lt $one ]] || fail "a rank of four plans $four bytes, one alone $one"
expect 3 'are free' train "${wide[@]}" --memory-limit $limit --out alone
[[ -n $sanitized ]] || # whose own memory is the process's
    expect 0 '' train "${wide[@]}" --memory-limit $limit --ranks 4 --ddp zero3 --bucket-mb 0 --out together

exit $failed
