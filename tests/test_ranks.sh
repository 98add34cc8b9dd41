#!/usr/bin/env bash
# Several ranks of one machine train what one rank trains: every strategy, accumulation, tied weights, any bucket
# size, state that is spread over ranks and saved for any number of them; and what happens when ranks go
# astray. PACER names the program. Skipped in a build without MPI.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"
export XDG_CACHE_HOME=$work/cache

if [[ $("$PACER" --version) != *"with "*MPI* ]] || ! command -v mpirun >/dev/null; then
    echo "skipped: no MPI"
    exit 0
fi
strategies=(naive flat overlap zero1 zero2 zero3)
sanitized=${ASAN_OPTIONS:-}
if [[ -n $sanitized ]]; then # slow; and MPI keeps memory to the end
    export ASAN_OPTIONS=detect_leaks=0
    strategies=(overlap zero1)
fi

small=(--data builtin:bytes --layers 2 --d-model 64 --heads 4 --ffn 96 --context 64 --seq 64 --threads 1
    --lr 1e-3 --log-every 1 --eval-every 25 --quiet)
whole=(--global-batch 8 --steps 50 --save-every 25 --keep 0)

# Losses of all steps and evaluations of runs $1 and $2 are within 1e-5 of each other.
same_losses() {
    join <(values "$1") <(values "$2") | awk -v a="$1" -v b="$2" '
        { n++; d = $2 - $3; d = d < 0 ? -d : d; if (d > 1e-5) { print a, b, $0; bad = 1 } }
        END { if (n < 52) { print a, b ": only", n, "lines"; bad = 1 } exit bad }' || fail "$1 and $2 differ"
}
# (--eval-batches is chosen so that all evaluate the same sequences.)
values() { sed -n 's/.*"step":\([0-9]*\).*"\(val_loss\|loss\)":\([0-9.]*\).*/\1-\2 \3/p' "$1/metrics.jsonl" | sort -k1b,1; }
run() { "$PACER" train --model tiny "${small[@]}" "$@" 2>err || fail "train $* ended with $?"; }
train() { run "${whole[@]}" "$@"; }

train --batch 8 --eval-batches 2 --out one
for ddp in "${strategies[@]}"; do
    train --ranks 2 --batch 2 --eval-batches 8 --ddp $ddp --bucket-mb 0 --out two-$ddp
    same_losses one two-$ddp
done
if [[ -z $sanitized ]]; then
    train --ranks 4 --batch 2 --eval-batches 8 --ddp overlap --out four-overlap
    run --ranks 3 --global-batch 9 --batch 3 --eval-batches 6 --steps 50 --ddp zero1 --verify-every 7 --out three-zero1
    run --batch 9 --eval-batches 2 --steps 50 --out nine
    same_losses one four-overlap
    same_losses nine three-zero1
    train --batch 8 --eval-batches 2 --tied on --out one-tied
    train --ranks 4 --batch 1 --eval-batches 16 --tied on --ddp zero1 --bucket-mb 0 --out four-tied
    same_losses one-tied four-tied
    train --ranks 2 --batch 4 --eval-batches 4 --comm-dtype bf16 --out two-bf16
    join <(values one) <(values two-bf16) | awk '{ d = $2 - $3; if (d > 0.02 || d < -0.02) bad = 1 } END { exit bad || NR < 52 }' ||
        fail "gradients in bf16 lead elsewhere"
fi

# Half of a run by two ranks with their state spread, the other half by one, and by four: the files know no ranks.
resuming=(1 4)
[[ -n $sanitized ]] && resuming=(1)
for ranks in "${resuming[@]}"; do
    train --ranks $ranks --batch 2 --eval-batches 8 --resume two-zero1/ckpt/step-25 --out resumed-$ranks
    join <(values two-zero1) <(values resumed-$ranks) |
        awk '{ n++; d = $2 - $3; if (d > 1e-5 || d < -1e-5) bad = 1 } END { exit bad || n != 26 }' || fail "resumed with $ranks ranks"
done

# Losses of the first update before they are averaged: rank by rank, the mean of those is that of the line. Micro-step m
# of rank r of R has the sequences (m R + r) x batch onwards, so the ranks of different runs have some in common.
own() { tr -d ' \n\t' <"$1/ranks/$2.json" | sed -n 's/.*"first_loss":\([0-9.a-z]*\).*/\1/p'; }
first() { sed -n '1s/.*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl"; }
mean_is() { # expected, others...
    awk -v expected="$1" 'BEGIN { for (i = 1; i < ARGC; i++) sum += ARGV[i]; d = sum / (ARGC - 1) - expected
        exit !(expected > 1 && d < 2e-6 && d > -2e-6) }' "${@:2}"
}
for ddp in "${strategies[@]}"; do
    mean_is "$(first two-$ddp)" "$(own two-$ddp 0)" "$(own two-$ddp 1)" ||
        fail "$ddp: first losses $(own two-$ddp 0) and $(own two-$ddp 1), together $(first two-$ddp)"
done
run --batch 2 --steps 1 --eval-batches 1 --out alone
mean_is "$(own alone 0)" "$(first alone)" || fail "first loss of one rank: $(own alone 0), not $(first alone)"
mean_is "$(own alone 0)" "$(own two-overlap 0)" && fail "the first loss of a rank lacks a micro-step"
if [[ -z $sanitized ]]; then
    for ((rank = 0; rank < 4; rank++)); do
        fours[rank]=$(own four-overlap $rank)
    done
    mean_is "${fours[0]}" "$(own alone 0)" || fail "first loss of rank 0 of 4: ${fours[0]}, not $(own alone 0)"
    for rank in 0 1; do
        mean_is "$(own two-overlap $rank)" "${fours[rank]}" "${fours[rank + 2]}" ||
            fail "first losses of rank $rank of 2: $(own two-overlap $rank), not from ${fours[*]}"
    done
fi
[[ $(own resumed-1 0) == null ]] || fail "first loss of a session that began later: $(own resumed-1 0)"

# Each rank has its file; memory of zero1 is less by half of the moments.
[[ -s two-zero1/ranks/0.json && -s two-zero1/ranks/1.json ]] || fail "rank files"
bytes() { tr -d ' \n\t' <"$1/ranks/1.json" | sed 's/.*"kind":"optimizer","planned_bytes":\([0-9]*\),"peak_bytes":\([0-9]*\).*/\1 \2/'; }
read -r whole whole_peak <<<"$(bytes two-overlap)"
read -r part part_peak <<<"$(bytes two-zero1)"
[[ $whole == "$whole_peak" && $part == "$part_peak" && $((2 * part)) -ge $whole && $((2 * part)) -le $((whole + 4096)) ]] ||
    fail "optimizer of zero1: $part of $whole bytes"
expect 0 ' checks' check two-zero1
grep -q '"ranks":2' <(tr -d ' \n\t' <two-zero1/ranks/1.json) || fail "ranks in the rank's file"

# Wrong use.
expect 2 'which is a sign to mpirun' train --model tiny --data builtin:bytes --ranks 2 --out : --batch 4
expect 2 'not a multiple of batch 4 x ranks 3' plan --model tiny --ranks 3 --batch 4 --global-batch 16
if mpirun -n 1 "$PACER" train --model tiny "${small[@]}" --batch 4 --out odd : \
    -n 1 "$PACER" train --model tiny "${small[@]}" --batch 4 --out odd --seed 7 >/dev/null 2>err; then
    fail "ranks with different seeds trained together"
fi
grep -q 'error: rank 1: this rank, on .*, was started with other options' err || fail "different options: $(cat err)"

# A loss that is no number stops all ranks, and the record says so.
"$PACER" train --model tiny "${small[@]//1e-3/100}" --ranks 2 --batch 4 --steps 2000 --warmup 0 --clip 0 --out wild >/dev/null 2>err
[[ $? == 1 ]] || fail "a run that diverges ended well"
grep -q 'became .*nan at step\|became .*inf at step' err || fail "divergence is not named"
grep -q '"status":[[:space:]]*"failed"' wild/run.json || fail "record of a run that diverged"

# What lies between ranks: three collectives by size, every element right, rates as nccl-tests counts them, and the
# link kept for a prediction.
for ranks in 2 3; do
    expect 0 'kept for `pacer plan --link measured`' bench comm --device cpu --threads 1 --ranks $ranks --bytes 1000k --repeats 3
    awk -v n=$ranks '/^(all|reduce)-/ {
        factor = ($1 == "all-reduce" ? 2 : 1) * (n - 1) / n
        rate = $2 / $5 / 1e3
        bad = bad || $2 % (4 * n) || $2 != 4 * $3 || $8 != 0 || $1 == last && $2 <= before
        bad = bad || (rate - $6) ^ 2 > (rate * 0.01 + 0.001) ^ 2 || ($6 * factor - $7) ^ 2 > 0.002 ^ 2
        rows[$1]++; last = $1; before = $2
    } END { exit bad || rows["all-reduce"] != 5 || rows["reduce-scatter"] != 5 || rows["all-gather"] != 5 }' out ||
        fail "collectives of $ranks ranks: $(cat out)"
    # A process of its own, with all cores, finds what ranks with a part of them stored.
    expect 0 'predicted overlap' plan --model tiny --vocab 300 --layers 1 --batch 1 --seq 16 --device cpu --ranks 4 --link measured
done
expect 0 '"bus_bytes_s"' bench comm --device cpu --threads 1 --ranks 2 --bytes 64k --comm-dtype bf16 --repeats 2 --json -
expect 0 'measured  link between 3 ranks here' plan --model tiny --data builtin:random --batch 1 --seq 16 --ranks 4 --link measured
# Ranks that take all cores leave communication none.
cores=$(getconf _NPROCESSORS_ONLN) wide=(plan --model tiny --data builtin:random --batch 1 --seq 16 --ranks 4096 --threads)
if ((cores > 1)); then
    expect 0 "up to $((cores - 1)) rank" "${wide[@]}" 1 --link measured
    expect 0 'beside the computation slows neither' "${wide[@]}" 1 --link pcie
fi
expect 0 'communication has no core of its own' "${wide[@]}" "$cores" --link pcie
PACER_TUNE=off expect 2 'bench comm --ranks 2` measures and stores it' plan --model tiny --data builtin:random --ranks 4 --link measured
expect 2 'give --ranks 2 or more' bench comm
mpirun -n 2 "$PACER" bench machine --device cpu >out 2>err && fail "bench machine of ranks"
grep -q 'pacer bench comm' err || fail "bench machine of ranks: $(cat err)"

# Weights that come back late are waited for, whichever rank they come from.
for ranks in 2 3; do
    mpirun -n $ranks "$(dirname "$PACER")/tests/comm_gather" 2>err || fail "weights of $ranks ranks that come late: $(cat err)"
done

# Loss and gradient are means over the tokens that count, on whichever rank and micro-step they are.
for ranks in 2 3; do
    mpirun -n $ranks "$(dirname "$PACER")/tests/comm_counted" 2>err || fail "tokens that count on $ranks ranks: $(cat err)"
done

# One changed bit of one weight on one rank is found.
mpirun -n 3 "$(dirname "$PACER")/tests/comm_weights" 2>err || fail "changed weight"

# The record of run $1 says that it failed, with message $2; "lost" where a third argument says so.
says_failed() {
    tr -d '\n\t' <"$1/run.json" >record
    grep -q '"status": *"failed"' record && grep -q "\"message\": *\"[^\"]*\($2\)" record || fail "$1: the record: $(head -c 400 record)"
    [[ $(grep -c '"lost": *true' record) == "${3:-0}" ]] || fail "$1: lost: $(head -c 400 record)"
}

# One rank alone fails in a step: the job ends, and the record says why.
"$PACER" data stories --bytes 60k --out text 2>err && "$PACER" data prepare text --out shards >out 2>err || fail "data"
mkdir first second && cp -r shards first && cp -r shards second
mpirun -n 1 -wdir "$work/first" "$PACER" train --model tiny "${small[@]/builtin:bytes/shards}" --batch 4 --steps 1000000 --out "$work/alone-fails" : \
    -n 1 -wdir "$work/second" "$PACER" train --model tiny "${small[@]/builtin:bytes/shards}" --batch 4 --steps 1000000 --out "$work/alone-fails" >err 2>&1 &
job=$!
await '[[ -s alone-fails/metrics.jsonl ]]'
for shard in second/shards/train*; do truncate -s 300 "$shard"; done
wait $job && fail "a rank without data goes on"
grep -q 'error: rank 1: on host .*: shards/train' err || fail "the rank that fails does not say why"
says_failed alone-fails 'rank 1: .*shards/train'

# A rank that is killed, and one that stands still, are named within seconds, and the checkpoint before is good.
astray() { # signal, message
    "$PACER" train --model tiny "${small[@]}" --ranks 2 --batch 4 --steps 1000000 --save-every 5 --keep 2 --comm-timeout 12 \
        --out lost-"$1" >said 2>&1 &
    local job=$! rank step
    for ((i = 0; i < 3000; i++)); do
        [[ -e lost-$1/ckpt/latest ]] && break
        sleep 0.1
    done
    # A job that is refused there takes nothing of what this one's ranks know of each other.
    expect 2 'another pacer is training there' train --model tiny "${small[@]}" --ranks 2 --batch 4 --out "lost-$1"
    rank=$(ranks_of $job "--out lost-$1" | tail -1)
    kill "-$1" "$rank" || fail "$1: no rank is there"
    for ((i = 0; i < 3000; i++)); do
        kill -0 $job 2>/dev/null || break
        sleep 0.1
    done
    if kill -0 $job 2>/dev/null; then
        fail "$1: the job goes on"
        processes "--out lost-$1" | xargs -r kill -9
    fi
    wait $job && fail "$1: the job ended well"
    grep -q "$2" said || fail "$1: nobody is named: $(cat said)"
    await '[[ -z $(processes "train.*--out lost-'"$1"'") ]]'
    processes "train.*--out lost-$1" | xargs -r kill -9
    lost=1; [[ $1 == KILL && ${#mpirun_more[@]} == 0 ]] && lost=0 # MPICH tells of no signal
    says_failed "lost-$1" 'rank [01] \|mpirun \|the ranks ' $lost
    step=$(readlink lost-"$1"/ckpt/latest)
    run --batch 8 --steps $((${step#step-} + 2)) --resume "lost-$1/ckpt/latest" --out found-"$1"
}
# MPICH's mpirun names the process and its host, on stdout.
astray KILL 'rank [01] on host .* has ended: it was at step [0-9]*, \(before\|in\) \|PID [0-9]* RUNNING AT '
astray STOP 'rank [01] on host .*step [0-9]*'

[[ $failed == 0 ]] && echo "ranks train what one rank trains"
exit $failed
