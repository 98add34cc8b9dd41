#!/usr/bin/env bash
# Ctrl-C, SIGTERM, a hang-up: at the start, in the midst of a step, with one rank and several, sent to the program or
# to what it started, once or in a row. Whatever it is, the step is finished and saved, the exit status says why, and
# the same command goes on. And the reason why it is safe: no thread that computes takes signals.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"
[[ $("$PACER" --version) == *"with "*MPI* ]] && most=2 || most=1

small=(train --model tiny --data builtin:bytes --layers 1 --d-model 32 --heads 2 --ffn 32 --context 32 --batch 2 --seed 3
    --lr 1e-3 --schedule constant --warmup 0 --log-every 1 --eval-every 0)

# Processes of this test that run the program with --out $1.
those_of() { processes "--out $1\$" | while read -r id; do [[ $(readlink "/proc/$id/exe") == "$PACER" ]] && echo "$id"; done; }
lines() { cat "$1/metrics.jsonl" 2>/dev/null | wc -l; }
wait_for_lines() { # run, number
    for ((i = 0; i < 3000; i++)); do
        (($(lines "$1") >= $2)) && return
        sleep 0.02
    done
    fail "$1: no line $2"
}
begin() { # run, ranks
    "$PACER" "${small[@]}" --steps 1000000 --threads 2 --ranks "$2" --out "$1" >"$1.log" 2>&1 &
    job=$!
}
ended_well() { # run, status
    wait "$job"
    local got=$?
    [[ $got == "$2" ]] || fail "$1: exit status $got, not $2: $(tail -3 "$1.log")"
    grep -q '"status":[[:space:]]*"stopped"' "$1/run.json" || fail "$1: the record does not say stopped"
    [[ -z $(those_of "$1") ]] || fail "$1: processes are left: $(those_of "$1")"
}
saved() { # run: the last line's step is the checkpoint's, and the command goes on from it
    local step
    step=$(readlink "$1/ckpt/latest") || { fail "$1: nothing was saved"; return; }
    [[ $(tail -1 "$1/metrics.jsonl") == *"\"step\":${step#step-},"* ]] || fail "$1: $step, but the last line is $(tail -1 "$1/metrics.jsonl")"
    "$PACER" "${small[@]}" --steps $((${step#step-} + 1)) --quiet --out "$1" >/dev/null 2>err || fail "$1: does not go on"
}

# Every thread but one has SIGINT (2), SIGALRM (14), SIGTERM (15) and SIGPROF (27) blocked, the pool's included.
begin threads 1
wait_for_lines threads 2
mask=$((1 << 1 | 1 << 13 | 1 << 14 | 1 << 26)) computing=0
for task in /proc/"$job"/task/*; do
    [[ $(cat "$task/comm" 2>/dev/null) == pacer-signals ]] && continue
    blocked=$(sed -n 's/SigBlk:[[:space:]]*//p' "$task/status" 2>/dev/null)
    [[ -n $blocked ]] || continue # a thread of the start that has ended
    blocked=$((16#$blocked))
    (((blocked & mask) == mask)) || fail "a thread ($(cat "$task/comm")) takes signals"
    computing=$((computing + 1))
done
((computing >= 3)) || fail "only $computing threads: two that compute and one that loads were to be seen"
kill -INT $job
ended_well threads 130
saved threads

for ((ranks = 1; ranks <= most; ranks++)); do
    while read -r signal status; do
        begin $signal-$ranks $ranks
        wait_for_lines $signal-$ranks 3
        kill -$signal $job
        ended_well $signal-$ranks $status
        saved $signal-$ranks
    done <<<$'INT 130\nTERM 143\nHUP 143'
done

# Before the first step: nothing is trained and nothing is lost.
begin early 1
for ((i = 0; i < 3000; i++)); do
    [[ -e early/run.json ]] && break
    sleep 0.005
done
kill -TERM $job
wait $job
status=$?
[[ $status == 143 ]] || fail "a signal at the start: exit status $status"

# One Ctrl-C that arrives three times, as launchers and terminals deliver it, is one.
begin thrice 1
wait_for_lines thrice 3
kill -INT $job && kill -INT $job 2>/dev/null && kill -TERM $job 2>/dev/null
ended_well thrice 130
saved thrice

# nohup.
(trap '' HUP && exec "$PACER" "${small[@]}" --steps 1000000 --threads 1 --out nohup >nohup.log 2>&1) &
job=$!
wait_for_lines nohup 3
kill -HUP $job
wait_for_lines nohup $(($(lines nohup) + 3))
kill -TERM $job
ended_well nohup 143

if ((most > 1)); then
    # A step that takes longer than any launcher's patience: a rank that stands still for three seconds.
    begin long 2
    wait_for_lines long 3
    rank=$(those_of long | grep -vx $job | tail -1)
    kill -STOP "$rank"
    kill -INT $job
    sleep 3
    kill -CONT "$rank"
    ended_well long 130
    saved long

    # Everybody is told at once, as by a service manager: ranks, launcher, and the program that waits for them.
    begin all 2
    wait_for_lines all 3
    mapfile -t ids < <(processes '--out all$')
    kill -TERM "${ids[@]}"
    ended_well all 143
    saved all

    # The program that waits for the ranks is killed: they save and end by themselves.
    begin orphans 2
    wait_for_lines orphans 3
    kill -9 $job
    wait $job 2>/dev/null
    for ((i = 0; i < 3000; i++)); do
        [[ -z $(processes '--out orphans$') ]] && break
        sleep 0.02
    done
    [[ -z $(processes '--out orphans$') ]] || fail "orphans: they go on"
    grep -q '"status":[[:space:]]*"stopped"' orphans/run.json || fail "orphans: the record does not say stopped"
    saved orphans
fi

# A checkpoint by time, in the midst of training, without a word about it.
"$PACER" "${small[@]}" --steps 40 --save-minutes 1e-9 --keep 0 --quiet --out timed >/dev/null 2>err || fail "--save-minutes"
(($(find timed/ckpt -name 'step-*' | wc -l) >= 19)) || fail "--save-minutes 1e-9: $(ls timed/ckpt)"
"$PACER" "${small[@]}" --steps 40 --save-minutes 0 --keep 0 --quiet --out untimed >/dev/null 2>err || fail "--save-minutes 0"
[[ $(ls untimed/ckpt) == $'latest\nstep-40' ]] || fail "--save-minutes 0: $(ls untimed/ckpt)"
cmp timed/ckpt/step-40/model.safetensors untimed/ckpt/step-40/model.safetensors || fail "a checkpoint in between changes the bits"

[[ $failed == 0 ]] && echo "signals end runs and lose nothing"
exit $failed
