#!/usr/bin/env bash
# `pacer watch` from outside: a run that goes on, the same one killed, gone on with and finished, and what is no run.
source "$(dirname "$0")/support/program.sh"
unset COLUMNS LINES NO_COLOR
export LC_ALL=C

expect 2 "nothing: neither a run" watch --once nothing
expect 2 "nothing: neither a run" watch nothing # no terminal: does not wait
touch file
expect 2 "not a folder" watch file

train() {
    exec "$PACER" train --model tiny --layers 1 --d-model 16 --heads 2 --ffn 16 --context 16 --batch 2 \
        --data builtin:bytes --threads 1 --log-every 1 --eval-every 20 --eval-batches 1 \
        --save-every 10 --quiet --out 'a run' "$@"
}

train --steps 1000000 &
pid=$!
await "[[ -e 'a run/ckpt/latest' ]] && grep -q val_loss 'a run/metrics.jsonl'"
expect 0 "tiny  running  a run" watch --once 'a run'
for words in "of 1000000" "loss " "tokens/s" "memory  planned" "time left " "validation"; do
    grep -qF -- "$words" out || fail "running: does not say '$words': $(cat out)"
done
awk 'length > 80 { exit 1 }' out || fail "lines beyond 80 columns"
grep -q $'\033' out && fail "escape sequences in a pipe"
LINES=5 COLUMNS=20 "$PACER" watch 'a run' >small || fail "small size"
awk 'length > 20 { exit 1 } END { exit NR > 5 }' small || fail "20 x 5 is not kept"

kill -9 "$pid"
wait "$pid" 2>/dev/null
expect 0 "tiny  dead" watch --once 'a run'
tr '\n' ' ' <out >flat
grep -q "To resume from the checkpoint of step [0-9]*: pacer train .*--out 'a run'" flat ||
    fail "dead: not how to go on: $(cat out)"

# What it says is a command that goes on from there.
command=$(COLUMNS=900 "$PACER" watch --once 'a run' | sed -n 's/^To resume from .*: pacer //p')
saved=$(sed -n 's/.*checkpoint of step \([0-9]*\):.*/\1/p' flat)
command=${command/--steps 1000000/--steps $((saved + 10))} # a shorter run, and so a shorter warm-up
eval "\"\$PACER\" $command --quiet" >out 2>err || fail "the command it names fails: $command: $(cat err)"
LINES=60 expect 0 "finished" watch --once 'a run'
for words in "100 %" "step $((saved + 10)) of $((saved + 10))" "checks" "phases" "since the resume"; do
    grep -qF -- "$words" out || fail "finished: does not say '$words': $(cat out)"
done
grep -q '█' <(LC_ALL=C.UTF-8 "$PACER" watch --once 'a run') || fail "no blocks in a UTF-8 locale"
exit $failed
