#!/usr/bin/env bash
# Single faults from outside, each with what is said about it: the last write of a run, a file system without locks, files that are
# cut short or never end, folders that only look like pacer's. tests/fault/run.sh walks all the others. PACER names the program,
# FAULTLIB the library that makes calls fail (tests/fault/faultlib.c).
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

model=(--model gpt2-124m --layers 1 --d-model 16 --heads 1 --ffn 16 --vocab 300 --context 16)
train=(train "${model[@]}" --device cpu --batch 2 --eval-every 0 --threads 1 --quiet)
"$PACER" data stories --bytes 20k --quiet --out text || fail "no text"
"$PACER" tokenizer train --vocab 300 --threads 1 --quiet --out tok text >out 2>err || fail "no tokenizer"
"$PACER" data prepare --tokenizer tok --threads 1 --quiet --out data text >out 2>err || fail "no data"
train+=(--data data)

# fault CALL N STATUS TEXT ARGUMENT...: with the N-th such call failing, pacer exits with STATUS and says TEXT.
fault() {
    local call=$1 n=$2 status=$3 text=$4 actual
    shift 4
    rm -f state
    env FAULT_FAST=1 FAULT_STATE=state FAULT_CALL="$call" FAULT_AT="$n" LD_PRELOAD="$FAULTLIB" "$PACER" "$@" >out 2>err
    actual=$?
    [[ $actual == 4 ]] && actual=0 # checks by the clock are not meant here
    [[ $actual == "$status" ]] || fail "$call $n of pacer $*: exit status $actual, not $status"
    grep -qF -- "$text" out err || fail "$call $n of pacer $*: does not say '$text'"
}
failed_calls() { od -An -v -t u8 -w8 state | tail -n 1 | tr -d ' '; }
status_of() { sed -n 's/.*"status":[[:space:]]*"\([a-z]*\)".*/\1/p' "$1/run.json" | head -n 1; }

if [[ -n ${FAULTLIB:-} ]]; then
    # The last rename of a run is that of its record.
    env FAULT_FAST=1 FAULT_STATE=count LD_PRELOAD="$FAULTLIB" "$PACER" "${train[@]}" --steps 4 --save-every 2 --out whole \
        >out 2>err
    last=$(od -An -v -t u8 -w8 count | sed -n 3p | tr -d ' ')
    ((last > 5)) || fail "only $last renames in a run"
    for n in $((last - 1)) "$last"; do # the summary, and the summary with what was checked on the disk
        rm -rf run
        fault rename "$n" 1 "run.json: cannot write" "${train[@]}" --steps 4 --save-every 2 --out run
        [[ $(readlink run/ckpt/latest) == step-4 ]] || fail "the last checkpoint is missing: $(ls run/ckpt)"
        before=$(status_of run)
        "$PACER" "${train[@]}" --steps 4 --save-every 2 --out run >out 2>err || fail "the same command again: $?"
        [[ $(status_of run) == done ]] || fail "status $before became $(status_of run)"
        grep -q '"summary":' run/run.json || fail "no summary in $(cat run/run.json)"
        cmp -s run/ckpt/step-4/model.safetensors whole/ckpt/step-4/model.safetensors || fail "other weights"
        cksum run/run.json >sum
        "$PACER" "${train[@]}" --steps 4 --save-every 2 --out run >out 2>err || fail "and again: $?"
        cksum run/run.json | cmp -s - sum || fail "a record that was complete is written again"
        expect 0 "" check run
    done

    # Without locks there is a warning; only a lock that another process holds keeps a run out.
    rm -rf run
    fault flock 1 0 "has no locks" "${train[@]}" --steps 2 --out run
    [[ $(failed_calls) == 1 ]] || fail "no lock was asked for"
    flock run/lock "$PACER" "${train[@]}" --steps 3 --out run >out 2>err
    [[ $? == 2 ]] && grep -q "another pacer is training there" err || fail "a held lock: $(cat err)"

    # Memory that runs out is exit status 3 wherever it happens, in libraries too.
    for n in 50 1000 3000; do
        fault malloc "$n" 3 "out of memory" "${train[@]}" --steps 2 --out memory
    done
fi

# Lines for which there is no room wait in memory, and training goes on; once there is, the record has all of them. A limit of
# the files' size stands for the full disk.
if command -v prlimit >/dev/null; then
    # A minute or more of steps, if nobody ends them: the limit is lifted long before.
    (ulimit -S -f 20 && exec "$PACER" "${train[@]}" --steps 1000000 --log-every 100 --save-minutes 0 --out tight >out 2>err) &
    pid=$!
    await 'grep -q "metrics.jsonl: cannot write.*lines wait in memory" err'
    prlimit --pid $pid --fsize=unlimited || fail "no limit to lift"
    await '(($(stat -c %s tight/metrics.jsonl) > 30 * 1024))'
    kill -TERM $pid
    wait $pid
    status=$?
    [[ $status == 143 ]] || fail "a disk that was full for a while: exit status $status"
    # The first step, every hundredth, and the last.
    lines=$(wc -l <tight/metrics.jsonl)
    sed 's/.*"step":\([0-9]*\),.*/\1/' tight/metrics.jsonl | head -n $((lines - 1)) >steps
    cmp steps <(echo 1 && seq 100 100 $(((lines - 2) * 100))) >out 2>&1 || fail "a line is missing, torn or twice: $(cat out)"
fi

# A shard that is cut short while it is read: the run ends with its name. 16 GiB of steps would take longer than the test.
"$PACER" "${train[@]}" --steps 100000000 --log-every 1 --out cut >out 2>err &
pid=$!
for _ in $(seq 600); do
    [[ -s cut/metrics.jsonl ]] && break
    sleep 0.05
done
shard=$(ls data/train-*.shard)
cp "$shard" kept
truncate -s 300 "$shard"
wait $pid
status=$?
[[ $status == 2 ]] || fail "a shard cut short: exit status $status"
grep -q "${shard#data/}: became shorter" err || fail "a shard cut short: $(tail -n 2 err)"
cp kept "$shard"

# What is no regular file is refused where one is read, instead of waited for.
endless() { # NAME ARGUMENT...: pacer with the pipe NAME in place of a file
    local name=$1 actual
    shift
    rm -f "$name" && mkfifo "$name"
    timeout 60 "$PACER" "$@" >out 2>err
    actual=$?
    [[ $actual == 2 ]] && grep -q "not a regular file" err || fail "$name is a pipe: exit status $actual: $(cat err)"
    rm "$name"
}
"$PACER" "${train[@]}" --steps 2 --out run2 >out 2>err || fail "train: $?"
"$PACER" export run2 --quiet --out hf >out 2>err || fail "export: $?"
for name in config.json model.safetensors; do
    cp -r hf piped
    endless "piped/$name" import piped --out never
    rm -r piped
done
for name in state.json model.safetensors optimizer.safetensors; do
    cp -r run2 piped
    endless "piped/ckpt/step-2/$name" "${train[@]}" --steps 4 --out piped
    rm -r piped
done
for name in run.json metrics.jsonl; do
    cp -r run2 piped
    endless "piped/$name" "${train[@]}" --steps 4 --out piped
    rm -r piped
done
cp -r data piped
endless piped/manifest.json data info piped
endless options.yaml train --config options.yaml --out never
endless tokens.json tokenizer info tokens.json
[[ ! -e never ]] || fail "something was written: $(find never)"

# Names that are not the ones pacer gives are not pacer's.
mkdir -p names/ckpt/step-04 names/ckpt/tmp-notes names/ckpt/step-1
echo mine | tee names/ckpt/step-04/notes names/ckpt/tmp-notes/notes >names/ckpt/step-1/notes
timeout 120 "$PACER" "${train[@]}" --steps 8 --save-every 2 --keep 1 --out names >out 2>err || fail "step-04 beside step-4: $?"
[[ -d names/ckpt/step-8 && ! -e names/ckpt/step-6 ]] || fail "--keep 1 kept $(ls names/ckpt)"
[[ $(cat names/ckpt/*/notes | grep -c mine) == 3 ]] || fail "foreign folders are gone: $(find names/ckpt)"
mkdir names/ckpt/step-10 && echo mine >names/ckpt/step-10/notes
expect 1 "step-10: is in the way" "${train[@]}" --steps 10 --save-every 2 --keep 1 --out names
[[ -s names/ckpt/step-10/notes ]] || fail "step-10 was overwritten"
rm -r names/ckpt/step-10
"$PACER" "${train[@]}" --steps 10 --save-every 2 --keep 1 --out names >out 2>err || fail "after step-10 was moved: $?"

# A folder that holds another program's lines and events is refused, and loses nothing.
mkdir foreign && echo '{"loss": 1}' >foreign/metrics.jsonl && echo events >foreign/events.out.tfevents.1.host
expect 2 "belongs to no run of pacer's" "${train[@]}" --steps 2 --out foreign
[[ -s foreign/metrics.jsonl && -s foreign/events.out.tfevents.1.host ]] || fail "foreign files are gone: $(ls foreign)"
rm foreign/metrics.jsonl
"$PACER" "${train[@]}" --steps 2 --out foreign >out 2>err
[[ -s foreign/events.out.tfevents.1.host && -d foreign/ckpt/step-2 ]] || fail "foreign events are gone: $(ls foreign)"
rm -rf foreign && mkdir foreign && mkfifo foreign/metrics.jsonl
timeout 60 "$PACER" "${train[@]}" --steps 2 --out foreign >out 2>err
[[ $? == 2 ]] || fail "metrics.jsonl is a pipe: $(cat err)"
exit $failed
