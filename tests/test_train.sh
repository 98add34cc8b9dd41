#!/usr/bin/env bash
# `pacer train` from the outside: resuming gives the bits of a run that never stopped, whatever stopped
# it; checkpoints survive kill -9; bad input is named and exits as documented.
# shellcheck source=tests/support/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

cat >base.yaml <<'YAML'
model: tiny
layers: 2
d-model: 32
heads: 2
ffn: 48
context: 32
data: builtin:bytes
batch: 4
accum: 2
lr: 2e-3
threads: 2
eval-every: 10
eval-batches: 2
log-every: 1
quiet: on
YAML
train() { "$PACER" train --config base.yaml "$@"; }
# The same in the background, as the shell's own child; sets pid.
launch() {
    "$PACER" train --config base.yaml "$@" &
    pid=$!
}
same() { cmp -s "$1/ckpt/latest/model.safetensors" "$2/ckpt/latest/model.safetensors" &&
    cmp -s "$1/ckpt/latest/optimizer.safetensors" "$2/ckpt/latest/optimizer.safetensors"; }
losses() { grep -o '"step":[0-9]*,"tokens":[0-9]*,"loss":[^,]*\|"val_loss":[^,}]*' "$1/metrics.jsonl"; }

# A run that never stops, and one that stops at 10 and goes on.
train --steps 30 --out whole || fail "plain run"
train --steps 30 --out again || fail "plain run"
same whole again || fail "two equal runs differ"
train --steps 10 --schedule constant --warmup 0 --out part1 || fail "first part"
train --steps 30 --schedule constant --warmup 0 --out part1 || fail "second part"
train --steps 30 --schedule constant --warmup 0 --out unbroken || fail "unbroken run"
same part1 unbroken || fail "resumed run differs from the unbroken one"
[ "$(losses part1)" = "$(losses unbroken)" ] || fail "resumed losses differ"
[ "$(losses part1 | wc -l)" = 33 ] || fail "30 steps and 3 evaluations expected in metrics.jsonl"

# The checks of a finished run, made again from its files, give what they gave at its end.
"$PACER" check whole >out || fail "check of a finished run ended with $?"
grep -q 'check stored: pass' out || fail "check of a finished run: $(grep stored out)"

# A finished run has nothing to do, and stays done.
expect 0 'Nothing to do' train --config base.yaml --quiet=off --steps 30 --out whole
grep -q '"status":[[:space:]]*"done"' whole/run.json || fail "finished run is not done"

# Ctrl-C and SIGTERM finish the step, save and exit 130 and 143; then the run ends with the same bits.
# Runs are stopped when metrics.jsonl shows that they are under way.
stop_with() {
    local signal=$1 status=$2 out=$3
    launch --steps 100000 --schedule constant --warmup 0 --threads 1 --eval-every 0 --out "$out"
    for _ in $(seq 1200); do
        [ -s "$out/metrics.jsonl" ] && [ "$(wc -l <"$out/metrics.jsonl")" -ge 5 ] && break
        sleep 0.05
    done
    kill -"$signal" "$pid"
    wait "$pid"
    local got=$?
    [ "$got" = "$status" ] || fail "SIG$signal gave exit $got, wanted $status"
    grep -q '"status":[[:space:]]*"stopped"' "$out/run.json" || fail "SIG$signal: status is not stopped"
}
stop_with TERM 143 stopped
stop_with INT 130 interrupted
step=$(readlink stopped/ckpt/latest)
[ -f "stopped/ckpt/$step/state.json" ] || fail "no checkpoint after SIGTERM"
expect 3 'not even --batch 1 fits; give more memory: the program alone takes' train --config base.yaml --memory-limit 1k --out stopped
[ "$(wc -l <stopped/metrics.jsonl)" -ge 5 ] || fail "a refused run harmed an earlier run's record"
train --steps $((${step#step-} + 3)) --schedule constant --warmup 0 --threads 1 --eval-every 0 --no-quiet --out stopped >out 2>err || fail "resume after SIGTERM"
grep -q "; since step ${step#step-}: 3 in " err || fail "a resumed run does not say what its last leg was"
awk -F'[:,]' '/"train_s"/ { leg = $2 } /"train_all_s"/ { all = $2 } END { exit !(leg > 0 && all > leg) }' stopped/run.json ||
    fail "the time of all legs is not more than that of the last"

# kill -9 at random moments with --save-every 1: the latest checkpoint always loads, and the run that is
# started again until it is through ends with the bits of the unbroken one.
# Each kill waits until the run has written a step, then up to a tenth of a second more.
ldd "$PACER" | grep -q libasan && default=10 || default=30
kills=${PACER_KILLS:-$default} killed=0
lines() { cat killed/metrics.jsonl 2>/dev/null | wc -l; }
for _ in $(seq "$kills"); do
    launch --steps 100000 --schedule constant --warmup 0 --threads 1 --save-every 1 --eval-every 0 --out killed 2>killed.log
    from=$(lines)
    for _ in $(seq 400); do
        now=$(lines)
        [ "$now" -gt "$from" ] && break
        from=$now
        sleep 0.02
    done
    sleep "0.0$((RANDOM % 10))"
    kill -9 "$pid" && killed=$((killed + 1))
    wait "$pid" 2>/dev/null
    grep -q 'pacer: error' killed.log && fail "after a kill: $(cat killed.log)"
    [ ! -L killed/ckpt/latest ] || [ -f killed/ckpt/latest/state.json ] || fail "latest dangles"
done
[ "$killed" = "$kills" ] || fail "only $killed of $kills kills hit: $(cat killed.log)"
at=$(readlink killed/ckpt/latest)
at=${at#step-}
echo "killed $killed times, at step $at"
train --steps $((at + 2)) --schedule constant --warmup 0 --threads 1 --eval-every 0 --out killed || fail "run after the last kill"
train --steps $((at + 2)) --schedule constant --warmup 0 --threads 1 --eval-every 0 --out never_killed || fail "unbroken run"
same killed never_killed || fail "killed run differs from the unbroken one"
[ -z "$(ls killed/ckpt | grep '^tmp-')" ] || fail "temporaries left behind: $(ls killed/ckpt)"
[ "$(ls killed/ckpt | grep -c '^step-')" -le 2 ] || fail "--keep 2 kept more: $(ls killed/ckpt)"

# A checkpoint with a flipped byte, or of another model, is refused by name.
flip() { printf '\x55' | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
for file in model.safetensors optimizer.safetensors state.json; do
    rm -rf damaged && cp -r whole damaged
    flip "damaged/ckpt/latest/$file" 150
    expect 2 "$file" train --config base.yaml --steps 40 --out damaged
    cmp -s damaged/ckpt/latest/model.safetensors whole/ckpt/latest/model.safetensors || [ "$file" = model.safetensors ] || fail "refused resume changed $file"
    rm -rf damaged && cp -r whole damaged
    truncate -s 100 "damaged/ckpt/latest/$file"
    expect 2 "$file" train --config base.yaml --steps 40 --out damaged
done
expect 2 'its layers is 2, this run'"'"'s is 3' train --config base.yaml --layers 3 --steps 40 --out whole
expect 2 '--seed' train --config base.yaml --seed 3 --steps 40 --out whole
expect 2 '--seq' train --config base.yaml --seq 16 --steps 40 --out whole
expect 2 '--out whole' train --config base.yaml --resume never --steps 40 --out whole
expect 2 'nowhere' train --config base.yaml --resume nowhere --steps 40 --out fresh
mkdir -p no-start/tokenizer.json/x # what fails behind the start of the record is in it
"$PACER" train --config base.yaml --out no-start 2>err && fail "trains without a place for the tokenizer"
grep -q '"status":[[:space:]]*"failed"' no-start/run.json && grep -q '"message":.*tokenizer.json' no-start/run.json || fail "its record"

# Through one pipe, what is printed first comes first.
"$PACER" train --config base.yaml --no-quiet --steps 1 --out piped >both 2>&1 || fail "output into one file"
[[ $(grep -n '^Output$' both | cut -d: -f1) -lt $(grep -n '^Done: 1 step, ' both | cut -d: -f1) ]] || fail "the options come behind the end"

# How often the data is met is said, and warned of when that is often.
"$PACER" data stories --bytes 6k --out few.txt 2>err && "$PACER" data prepare few.txt --val-fraction 0 --out few >out 2>err || fail "a small dataset"
expect 0 'passes over' train --config base.yaml --data few --steps 10 --no-quiet --out seldom
grep -q 'by heart' err && fail "few passes are warned of"
expect 0 'by heart' train --config base.yaml --data few --steps 1000 --save-every 0 --eval-every 0 --log-every 1000 --out often

# Data and options that cannot work.
expect 2 '--data' train --model tiny --out x
expect 2 'no/such' train --config base.yaml --data no/such --out x
expect 2 '--batch' train --config base.yaml --batch 0 --out x
expect 2 '--seq 64' train --config base.yaml --seq 64 --out x
expect 2 '--vocab' train --config base.yaml --vocab 100 --out x
expect 2 'heads' train --config base.yaml --heads 5 --out x
expect 2 'did you mean tiny?' train --config base.yaml --model tinny --out x
expect 2 'base.yaml' train --config base.yaml --out base.yaml
PACER_SIMD=base expect 2 'bf16' train --config base.yaml --dtype bf16 --out x

# In bf16, where the processor multiplies in it: nearly the losses of f32, and the same bits again, recomputed or not.
if "$PACER" plan --config base.yaml --dtype bf16 >out 2>err; then
    train --steps 8 --out wide
    train --steps 8 --dtype bf16 --out low
    train --steps 8 --dtype bf16 --recompute block --out low-again
    same low low-again || fail "two equal runs in bf16 differ"
    [[ $(losses wide | wc -l) == 9 && $(losses wide) != "$(losses low)" ]] || fail "bf16 has the losses of f32"
    paste <(losses wide) <(losses low) | sed 's/[^0-9.\t][^\t]*://g' |
        awk '{ d = $1 - $2; if (d > 0.01 || d < -0.01) bad = 1 } END { exit bad || NR != 9 }' || fail "far from f32: $(losses low)"
else
    grep -q 'give --device ref' err || fail "a refusal of bf16 without a remedy"
fi

expect 3 'largest that fits is --batch' train --config base.yaml --batch 100000 --threads 1 --memory-limit "$(limit 64)" --out oom
grep -q '"status":[[:space:]]*"oom"' oom/run.json || fail "a refused plan is not recorded as oom"
expect 3 'not even --batch 1' plan --config base.yaml --memory-limit 10k

# The plan is of the process, which stays within the limit it was given, measuring the machine included.
roomy=(--batch 1024 --accum 1 --threads 1)
process=$("$PACER" plan --config base.yaml "${roomy[@]}" | awk '$1 == "process," { print $3 }')
expect 3 'the largest that fits is --batch' plan --config base.yaml "${roomy[@]}" --memory-limit $((process - 4000000))
train "${roomy[@]}" --steps 2 --memory-limit "$((process + 2000000))" --out roomy || fail "a run in the memory that its plan names"
peak=$(sed -n 's/.*"reserved_bytes":[[:space:]]*\([0-9]*\).*/\1/p' roomy/run.json | head -1)
if [[ -z ${ASAN_OPTIONS:-} ]]; then # whose own memory grows with the program's
    ((peak <= process + 2000000)) || fail "a process of $peak bytes, planned $process"
    ((peak > process * 3 / 5)) || fail "a process of only $peak bytes, planned $process"
fi

# A rate that blows up stops the run, and leaves the good checkpoint as it was.
train --steps 5 --schedule constant --warmup 0 --out nan || fail "start of the diverging run"
before=$(cat nan/ckpt/latest/model.safetensors | cksum)
expect 1 'step' train --config base.yaml --steps 400 --schedule constant --warmup 0 --lr 100 --weight-decay 10 --clip 0 --out nan
[ "$before" = "$(cat nan/ckpt/latest/model.safetensors | cksum)" ] || fail "a NaN run changed the good checkpoint"
grep -q '"status":[[:space:]]*"failed"' nan/run.json || fail "a NaN run is not recorded as failed"

# A disk that takes no more: exit 1, and the earlier checkpoint stays. The limit lets records through, not
# the tensors.
cp -r whole full
(ulimit -f 64 && train --steps 40 --out full 2>full.log)
got=$?
[ "$got" = 1 ] || fail "a full disk gave exit $got: $(cat full.log)"
grep -q 'safetensors' full.log || fail "a full disk is not named: $(cat full.log)"
same full whole || fail "a full disk harmed the last checkpoint"
train --steps 40 --out full || fail "resume after the full disk"

# Two runs at a time in one directory.
launch --steps 100000 --schedule constant --warmup 0 --threads 1 --eval-every 0 --out busy
for _ in $(seq 1200); do [ -s busy/metrics.jsonl ] && break; sleep 0.05; done
expect 2 'another pacer' train --config base.yaml --out busy
kill -9 "$pid"
wait "$pid" 2>/dev/null

# The plan that is printed is the memory that is used.
planned=$("$PACER" plan --config base.yaml | awk '$1 == "total" { print $2 }')
loader=$("$PACER" plan --config base.yaml | awk '$1 == "loader" { print $2 }')
used=$(grep -o '"peak_bytes":[[:space:]]*[0-9]*' whole/run.json | grep -o '[0-9]*$')
[ $((planned - loader)) = "$used" ] || fail "planned $planned less $loader, used $used"

[[ $failed == 0 ]] && echo "all of pacer train holds"
exit $failed
