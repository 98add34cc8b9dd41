#!/usr/bin/env bash
# --restarts: ranks that are killed or stand still, again and again, and a run that ends with the bits of one that
# nobody disturbed. PACER names the program. Skipped in a build without MPI.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

if [[ $("$PACER" --version) != *"with "*MPI* ]] || ! command -v mpirun >/dev/null; then
    echo "skipped: no MPI"
    exit 0
fi
steps=2000

small=(--data builtin:bytes --layers 1 --d-model 32 --heads 2 --ffn 64 --context 32 --seq 32 --threads 1 --batch 2
    --log-every 20 --save-every 20 --keep 3 --quiet --ranks 2 --comm-timeout 12)
"$PACER" train --model tiny "${small[@]}" --steps $steps --out calm >out 2>err || fail "undisturbed"

# Each time when it has got on since it was started again: at a checkpoint that was not there then.
"$PACER" train --model tiny "${small[@]}" --steps $steps --restarts 9 --out rough >log 2>&1 &
job=$!
times=0
for signal in KILL KILL STOP; do
    await '(($(grep -c "starting again" log) == times))'
    seen=$(readlink rough/ckpt/latest)
    await '[[ $(readlink rough/ckpt/latest) != "$seen" && -n $(ranks_of $job "--out rough\$") ]]'
    kill -$signal "$(ranks_of $job '--out rough$' | tail -1)" || fail "no rank to send $signal to"
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
[[ $(grep -c 'starting again, [0-9]* of 9 restarts' log) == 3 ]] || fail "three restarts: $(cat log)"
grep -q '"restarted":' rough/run.json || fail "the record does not say it"
grep -q '"status":[[:space:]]*"done"' rough/run.json || fail "status"
expect 0 'checks, the worst' check rough

# What would end the same way again is not tried again, nor what nobody can start again.
expect 1 'became' train --model tiny "${small[@]}" --restarts 3 --lr 100 --warmup 0 --clip 0 --steps 2000 --out wild
grep -q 'starting again' err && fail "a loss that is no number was tried again"
expect 2 'give --ranks 2 or more' train --model tiny --data builtin:bytes --restarts 3
expect 2 'which is --resume auto' train --model tiny "${small[@]}" --restarts 3 --resume never

[[ $failed == 0 ]] && echo "lost ranks leave no trace in the result"
exit $failed
