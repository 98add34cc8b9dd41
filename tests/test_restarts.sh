#!/usr/bin/env bash
# --restarts: ranks and an mpirun that are killed or stand still, again and again, and a run that ends with the bits of one that
# nobody disturbed. PACER names the program. Skipped in a build without MPI.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

if [[ $("$PACER" --version) != *"with "*MPI* ]] || ! command -v mpirun >/dev/null; then
    echo "skipped: no MPI"
    exit 0
fi
steps=2000
slow=$(dirname "$PACER")/tests/libslow_io.so # disturbed runs wait for each line, so that they do not end before they are disturbed

small=(--data builtin:bytes --layers 1 --d-model 32 --heads 2 --ffn 64 --context 32 --seq 32 --threads 1 --batch 2
    --log-every 20 --save-every 20 --keep 3 --quiet --ranks 2 --comm-timeout 30)
"$PACER" train --model tiny "${small[@]}" --steps $steps --out calm >out 2>err || fail "undisturbed"

# Each time when it has got on since it was started again: at a checkpoint that was not there then.
env LD_PRELOAD="$slow" SLOW_FILE=metrics.jsonl:0.1 "$PACER" train --model tiny "${small[@]}" --steps $steps --restarts 9 \
    --out rough >log 2>&1 &
job=$!
times=0
for signal in KILL KILL mpirun STOP; do
    await '(($(grep -c "starting again" log) == times))'
    seen=$(readlink rough/ckpt/latest)
    await '[[ $(readlink rough/ckpt/latest) != "$seen" && -n $(ranks_of $job "--out rough\$") ]]'
    rank=$(ranks_of $job '--out rough$' | tail -1)
    if [[ $signal == mpirun ]]; then # its ranks still hold the folder
        mapfile -t ranks < <(ranks_of $job '--out rough$')
        mpirun_id=$(ps -o ppid= -p "$rank")
        kill -STOP "${ranks[@]}"
        kill -KILL ${mpirun_id// /} || fail "no mpirun to kill"
        sleep 2
        kill -CONT "${ranks[@]}"
    else
        kill -$signal "$rank" || fail "no rank to send $signal to"
    fi
    ((++times))
done
for ((i = 0; i < 3000; i++)); do
    kill -0 $job 2>/dev/null || break
    sleep 0.1
done
if kill -0 $job 2>/dev/null; then
    fail "the job does not end"
    processes '--out rough$' | xargs -r kill -9
fi
wait $job || fail "disturbed: status $?: $(cat log)"
cmp calm/ckpt/latest/model.safetensors rough/ckpt/latest/model.safetensors || fail "other weights"
cmp calm/ckpt/latest/optimizer.safetensors rough/ckpt/latest/optimizer.safetensors || fail "other state"
[[ $(grep -c 'starting again, [0-9]* of 9 restarts' log) == 4 ]] || fail "four restarts: $(cat log)"
grep -q 'mpirun ended by signal 9; starting again' log || fail "mpirun's end: $(cat log)"
grep -q 'training goes on' log && fail "a save with a lost rank reads as one that failed: $(cat log)"
grep -q '"restarted":' rough/run.json || fail "the record does not say it"
grep -q '"status":[[:space:]]*"done"' rough/run.json || fail "status"
expect 0 'checks, the worst' check rough

# A rank that is lost again before there is a checkpoint: on with fewer, whose updates have as many sequences. Six micro-steps
# on three ranks, then on two: the losses are near.
few=(--model tiny --data builtin:bytes --layers 1 --d-model 32 --heads 2 --ffn 64 --context 32 --seq 32 --threads 1 --batch 2
    --accum 2 --log-every 10 --save-minutes 0 --quiet --ranks 3 --steps 300)
"$PACER" train "${few[@]}" --out whole >out 2>err || fail "three ranks"
env LD_PRELOAD="$slow" SLOW_FILE=metrics.jsonl:0.5 "$PACER" train "${few[@]}" --restarts 9 --min-ranks 2 --out fewer >log 2>&1 &
job=$!
for times in 0 1; do
    await '(($(grep -c "starting again" log) == times)) && [[ -s fewer/metrics.jsonl && -n $(ranks_of $job "--out fewer\$") ]]'
    rm -f fewer/metrics.jsonl
    kill -KILL "$(ranks_of $job '--out fewer$' | tail -1)" || fail "no rank to kill"
done
wait $job || fail "on with fewer: status $?: $(cat log)"
grep -q 'starting again, 1 of 9 restarts' log || fail "not as many at first: $(cat log)"
grep -q 'starting again with 2 ranks, 3 before, 2 of 9 restarts' log || fail "not with fewer: $(cat log)"
tr -d ' \t\n' <fewer/run.json >record
grep -q '"ranks":2,"host"' record && (($(grep -o '"ranks":3,\("rank":[0-2],\)\?"why"' record | wc -l) == 2)) || fail "record: $(cat record)"
for run in whole fewer; do
    sed -n 's/.*"step":\([0-9]*\),.*"loss":\([0-9.]*\).*/\1 \2/p' $run/metrics.jsonl >$run.losses
done
(($(wc -l <whole.losses) == 31)) || fail "lines: $(cat whole.losses)"
paste -d ' ' whole.losses fewer.losses |
    awk '$1 != $3 || $2 - $4 > 1e-5 * $2 || $4 - $2 > 1e-5 * $2 { print; bad = 1 } END { exit bad }' >far || fail "losses: $(cat far)"
expect 2 'min-ranks 3 is more than --ranks 2' train --model tiny --data builtin:bytes --ranks 2 --restarts 1 --min-ranks 3
expect 2 'min-ranks 2 is more than --ranks 1' train --model tiny --data builtin:bytes --min-ranks 2

# Nor is it started again behind a Ctrl-C, whatever becomes of its ranks then.
"$PACER" train --model tiny "${small[@]}" --steps 4000 --restarts 9 --out asked >log 2>&1 &
job=$!
await '[[ -e asked/ckpt/latest && -n $(ranks_of $job "--out asked\$") ]]'
rank=$(ranks_of $job '--out asked$' | tail -1)
kill -STOP "$rank" && kill -INT $job && sleep 1 && kill -KILL "$rank" || fail "no rank to kill"
wait $job && fail "ends well without a rank"
grep -q 'starting again' log && fail "started again behind Ctrl-C: $(cat log)"

# What would end the same way again is not tried again, nor what nobody can start again.
expect 1 'became' train --model tiny "${small[@]}" --restarts 3 --lr 100 --warmup 0 --clip 0 --steps 2000 --out wild
grep -q 'starting again' err && fail "a loss that is no number was tried again"
expect 2 'give --ranks 2 or more' train --model tiny --data builtin:bytes --restarts 3
expect 2 'which is --resume auto' train --model tiny "${small[@]}" --restarts 3 --resume never

[[ $failed == 0 ]] && echo "lost ranks leave no trace in the result"
exit $failed
