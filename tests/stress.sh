#!/usr/bin/env bash
# Honest short runs in bad company: each must end with status 0 and pass `pacer check`. Not a test of `make test`, for it
# takes as long as the machine is slow. PACER names the program, SLOW_IO the library built from tests/slow.
#   tests/stress.sh [KIND[:COUNT]]...     busy, stop, disk, pipe, terminal, resume; all of them, 10 times each, by default
#   tests/stress.sh kill                  a rank killed every KILL_EVERY (30) seconds for KILL_FOR (600); once by default
# A line for each kind: runs, those that did not end with 0, and which checks did not pass how often.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"
: "${PACER:?names the program}" "${SLOW_IO:?names the preloaded library}"

small=(--model tiny --layers 2 --d-model 32 --heads 2 --ffn 48 --context 32 --data builtin:bytes --batch 4 --lr 2e-3
    --log-every 1 --eval-every 5 --eval-batches 2 --threads 1)
others=() # processes of this script, by id
end_others() {
    ((${#others[@]} == 0)) || kill "${others[@]}" 2>/dev/null
    others=()
}
trap 'end_others; rm -rf "$work"' EXIT

train() { "$PACER" train "${small[@]}" "$@" >/dev/null; }

# A rank of the job that pid $1 leads, at random.
rank_of() { pgrep -x pacer -a | awk -v out="$1" 'index($0, out " ") { print $1 }' | shuf -n 1; }

kind_busy() { # beside four busy processes; every other run of the whole `tiny` model, for which ceilings matter
    for _ in 1 2 3 4; do
        (while :; do :; done) &
        others+=($!)
    done
    if (($1 % 2)); then
        "$PACER" train --model tiny --data builtin:bytes --batch 2 --steps 6 --eval-every 3 --eval-batches 1 --log-every 1 --out run >/dev/null 2>err
    else
        train --steps 20 --ranks $(($1 / 2 % 3 + 1)) --oversubscribe --out run 2>err
    fi
    status=$?
    end_others
}
kind_stop() { # a rank stands still for half a second to two, three times
    train --steps 400 --ranks $(($1 % 3 + 1)) --oversubscribe --out "$work/run" --seed 3 2>err &
    local job=$! rank
    for _ in 1 2 3; do
        sleep 0.$((RANDOM % 9 + 1))
        rank=$(rank_of "$work/run")
        [[ -z $rank ]] || { kill -STOP "$rank" && sleep $((RANDOM % 2)).$((RANDOM % 5 + 5)) && kill -CONT "$rank"; }
    done
    wait $job
    status=$?
}
kind_disk() { # every line of metrics.jsonl takes a while
    LD_PRELOAD=$SLOW_IO SLOW_FILE=$( (($1 % 2)) && echo metrics.jsonl:0.1 || echo /run/:0.02) \
        train --steps 12 --ranks $(($1 % 3 + 1)) --oversubscribe --save-every 6 --out run 2>err
    status=$?
}
kind_pipe() { # whoever reads what is said pauses for 1.5 s as often as the pipe is full
    mkfifo said
    perl -e 'open(my $in, "<", "said"); fcntl($in, 1031, 4096); do { select(undef, undef, undef, 1.5) } while sysread($in, my $some, 4096)' &
    local reader=$!
    train --steps 200 --ranks $(($1 % 3 + 1)) --oversubscribe --out run 2>said
    status=$?
    wait $reader
    rm said
}
kind_terminal() { # a terminal that stalls at every line of an evaluation, and a real one for the live lines
    if (($1 % 2)); then
        LD_PRELOAD=$SLOW_IO SLOW_TEXT=val_loss:1.5 train --steps 10 --ranks $(($1 / 2 % 3 + 1)) --oversubscribe --out run 2>err
        status=$?
    else
        TERM=xterm script -qec "$PACER train ${small[*]} --steps 100 --ranks $(($1 / 2 % 3 + 1)) --oversubscribe --out run" /dev/null |
            (for _ in 1 2; do read -r -n 500 _; sleep 1.5; done; cat >/dev/null)
        status=${PIPESTATUS[0]}
    fi
}
kind_resume() { # four legs by other numbers of ranks, some of them stopped half-way
    local steps=0 leg job
    status=0
    for leg in 1 2 3 4; do
        steps=$((steps + 10))
        train --steps $steps --schedule constant --ranks $((RANDOM % 3 + 1)) --oversubscribe --save-every 3 --out run 2>err
        status=$?
        ((status == 0)) || return
        "$PACER" check run >checked 2>&1 || status=$?
        ((status == 0)) || return
    done
}
kind_kill() { # a rank is killed again and again, and the run has the bits of one that nobody disturbed
    local every=${KILL_EVERY:-30} lasts=${KILL_FOR:-600} seed=$((100 + $1)) began ends job steps rank kills=0 ended
    local large=(--model tiny --layers 4 --d-model 128 --heads 4 --ffn 256 --context 64 --data builtin:bytes --batch 4
        --lr 1e-3 --log-every 10 --threads 1 --ranks 2 --oversubscribe --ddp zero3 --bucket-mb 0 --save async --seed $seed)
    began=$(date +%s%N)
    "$PACER" train "${large[@]}" --steps 200 --out pace >/dev/null 2>err || fail "pace"
    steps=$((lasts * 200 * 1000 / (($(date +%s%N) - began) / 1000000)))
    # A tenth of the time between two kills, or less, is lost with each.
    large+=(--steps $steps --save-every $((steps * every / lasts / 10 + 1)))
    "$PACER" train "${large[@]}" --restarts $((lasts / every + 1)) --out run >/dev/null 2>err &
    job=$! began=$SECONDS ends=$((SECONDS + lasts))
    for ((next = began + every; next <= ends; next += every)); do
        while ((SECONDS < next)) && kill -0 $job 2>/dev/null; do sleep 0.2; done
        kill -0 $job 2>/dev/null || break
        rank=$(ranks_of $job '--out run$' | shuf -n 1)
        [[ -z $rank ]] || { kill -KILL "$rank" && kills=$((kills + 1)); }
    done
    wait $job
    status=$? ended=$((SECONDS - began))
    "$PACER" train "${large[@]}" --out calm >/dev/null 2>err.calm || fail "calm"
    local file
    for file in model optimizer; do
        cmp "calm/ckpt/latest/$file.safetensors" "run/ckpt/latest/$file.safetensors" || status=1
    done
    losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([0-9.e+-]*\).*/\1 \2/p' "$1/metrics.jsonl"; }
    cmp <(losses calm) <(losses run) || status=1
    echo "kill: $steps steps in $ended s, $kills kills, $(grep -c 'starting again' err) restarts, status $status"
    rm -rf calm pace
}

wanted=("$@")
((${#wanted[@]})) || wanted=(busy stop disk pipe terminal resume)
for entry in "${wanted[@]}"; do
    kind=${entry%:*} count=10 bad=0
    [[ $kind != kill ]] || count=1
    [[ $entry != *:* ]] || count=${entry#*:}
    : >verdicts
    for ((i = 0; i < count; i++)); do
        rm -rf run
        : >err >checked
        "kind_$kind" $i
        if [[ $status == 0 ]]; then
            "$PACER" check run >checked 2>&1 || status=$?
        fi
        sed -n 's/.*check \([a-z_]*\).*: \(warn\|fail\):.*/\1 \2/p' err checked | sort -u >>verdicts
        if ((status != 0)); then
            bad=$((bad + 1)) failed=1
            [[ -z ${KEEP:-} ]] || { mkdir -p "$KEEP/$kind-$i" && cp -r run err checked "$KEEP/$kind-$i"; }
        fi
    done
    echo "$kind: $count runs, $bad not 0; $(sort verdicts | uniq -c | awk '{ printf "%s %s x%s  ", $2, $3, $1 }')"
done
exit $failed
