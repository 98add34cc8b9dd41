#!/usr/bin/env bash
# `plan --fit` and `train --fit`: every row has the bytes that `pacer plan` has for it, the limit decides, what was taken
# is what the run has and keeps, and wrong use is refused. PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

model=(--model tiny --layers 2 --d-model 32 --heads 2 --ffn 64 --context 32 --vocab 300 --threads 1 --device cpu --seed 3)
update=(--global-batch 4)

# rows FILE: of what was found, "batch accum recompute state-dtype bytes fits taken tok_s", state-dtype only where it was
# searched.
rows() {
    tr -d ' \n\t' <"$1" | grep -o '{"batch"[^}]*}' |
        sed -E 's/"why":.*//; s/"(batch|accum|recompute|state-dtype|bytes|fits|taken|tok_s|scaled)"://g; s/[{}"]//g; s/,/ /g'
}
# total ARGUMENT...: bytes that `pacer plan` plans.
total() {
    "$PACER" plan "${model[@]}" "$@" | awk '$1 == "total" { print $2; found = 1 } END { exit !found }'
}

expect 0 'pacer train --data DATA' plan --fit "${model[@]}" "${update[@]}" --fit-also state-dtype --json found.json
grep -q '^  measured  ops of' out || fail "what was measured is not named"
[[ $(grep -c 'taken$' out) == 1 ]] || fail "not one row is taken: $(cat out)"
rows found.json >table
[[ $(wc -l <table) == 36 ]] || fail "three splits, six grades and two types are 36, not $(wc -l <table) rows"
[[ $(awk '{ print $1 "x" $2 }' table | sort -u | tr '\n' ' ') == '1x4 2x2 4x1 ' ]] || fail "splits: $(cat table)"
while read -r batch accum dtype recompute bytes fits _; do
    [[ $fits == true ]] || fail "batch $batch, $recompute does not fit into the machine"
    got=$(total --batch "$batch" --accum "$accum" --recompute "$recompute" --state-dtype "$dtype" </dev/null)
    [[ $got == "$bytes" ]] || fail "batch $batch, $recompute, $dtype: found $bytes bytes, planned $got"
done < <(awk 'NR % 3 == 1' table)
# The rows are in order, and the first or one close to it is taken.
awk '{ if (NR > 1 && $8 > last * (1 + 1e-9)) exit 1; last = $8 }' table || fail "rows are not in order: $(cat table)"
# The command that it prints is a training of the same.
command=$(sed -n 's/^pacer \(train .*\)/\1/p' out)
[[ $command == *'--global-batch 4 '*' --batch '*' --state-dtype '* ]] || fail "command: $command"
read -ra words <<<"${command/--data DATA/--data builtin:bytes}"
expect 0 '' "${words[@]}" --steps 1 --out printed --eval-every 0

# Given settings are not searched.
expect 0 '' plan --fit "${model[@]}" --batch 2 --accum 2 --recompute act --json -
[[ $(rows out | awk '{ print $1, $2, $5 }') == "2 2 true" ]] || fail "one row alone: $(cat out)"

# A limit between two sizes: what is larger does not fit, and says by how much; what is taken fits. The process is some
# kilobytes larger or smaller from one call to the next, so the sizes are apart by more.
wide=(--model tiny --layers 6 --d-model 64 --heads 4 --ffn 256 --context 128 --threads 1 --device cpu --vocab 300
    --batch 64 --accum 1)
grade() { "$PACER" plan "${wide[@]}" --recompute "$1" | awk '$1 == "process," { print $3 }'; }
between=$((($(grade ffn) + $(grade act)) / 2))
expect 0 '' plan --fit "${wide[@]}" --memory-limit "$between" --json found.json
[[ $(rows found.json | awk '$5 == "false" { print $3 }' | sort | tr '\n' ' ') == 'act none norm ' ]] ||
    fail "beyond the limit: $(rows found.json)"
[[ $(grep -c 'MiB too much' out) == 3 ]] || fail "three rows do not fit: $(cat out)"
taken=$(rows found.json | awk '$6 == "true" { print $3 }')
[[ $taken == ffn || $taken == attention || $taken == block ]] || fail "taken: $taken"

expect 3 'nothing fits: --batch 1 --accum 4 --recompute' plan --fit "${model[@]}" "${update[@]}" --memory-limit 100k
expect 3 'give more memory: the program alone takes' plan --fit "${model[@]}" "${update[@]}" --memory-limit 100k
expect 3 'needs the least' train --fit --data builtin:bytes "${model[@]}" "${update[@]}" --memory-limit 100k --out none
[[ -e none ]] && fail "a run that fits nowhere has left a folder"

expect 3 'give --global-batch 6 in place of --batch and --accum' plan --fit --model tiny --d-model 512 --vocab 300 --threads 1 \
    --device cpu --batch 2 --accum 3 --memory-limit "$(limit 16)"

# The run has what was found, in the memory that was planned; the same command goes on with it, whatever fits by then.
field() { tr -d ' \n\t' <"$1/run.json" | grep -o "\"$2\":[^,}]*" | head -1 | cut -d: -f2 | tr -d '"'; }
run=(train --data builtin:bytes "${wide[@]:0:18}" --global-batch 8 --eval-every 0 --save-every 1 --fit)
need() { "$PACER" plan --data builtin:bytes "${wide[@]:0:18}" --batch 1 --accum 8 --recompute "$1" | awk '$1 == "process," { print $3 }'; }
low=$((($(need ffn) + $(need act)) / 2))
expect 0 'takes --batch' "${run[@]}" --steps 2 --memory-limit "$low"
dir=$(echo runs/tiny-*)
[[ $(field "$dir" peak_bytes) == "$(field "$dir" planned_bytes)" ]] || fail "peak $(field "$dir" peak_bytes), planned $(field "$dir" planned_bytes)"
said=$(sed -n 's/^--fit takes \(.*\): .* MiB planned.*/\1/p' out)
[[ $said == "--batch $(field "$dir" batch) --accum $(field "$dir" accum) --recompute $(field "$dir" recompute)" ]] ||
    fail "said $said, recorded batch $(field "$dir" batch), accum $(field "$dir" accum), $(field "$dir" recompute)"
kept=$(field "$dir" recompute)
[[ $(field "$dir" fit) == true && $kept =~ ^(ffn|attention|block)$ ]] || fail "recompute $kept fits into $low bytes"
expect 0 'as the run has it' "${run[@]}" --steps 2 # complete, and found without --out
expect 0 'as the run has it' "${run[@]}" --steps 3 --out "$dir"
[[ $(echo runs/tiny-*) == "$dir" && $(field "$dir" recompute) == "$kept" && $(field "$dir" steps) == 3 ]] || fail "the resume is another run"
grep 'Going on with' err | grep -qv -- ' --steps: ' && fail "the resume has other settings"

# The search ends at once when that is asked for, also in the middle of a step of minutes, and when it is killed it is said.
long=(train --fit --data builtin:bytes --model tiny --layers 2 --d-model 256 --heads 4 --context 1024 --device ref --threads 1
    --global-batch 2 --out long)
# search SIGNAL: sends it to whoever "$target" is, the command or its search, when that computes.
search() {
    "$PACER" "${long[@]}" >out 2>err &
    local job=$!
    await "grep -qz ^PACER_FIT_REPLY= /proc/\$(pgrep -P $job -f 'train --fit')/environ 2>/dev/null"
    child=$(pgrep -P $job -f 'train --fit')
    await "((\$(awk '{ print \$14 }' /proc/$child/stat) > 300))" # of 1/100 s: no longer at its start
    if [[ $target == search ]]; then kill "-$1" "$child"; else kill "-$1" $job; fi
    await "! kill -0 $job 2>/dev/null"
    wait $job
    status=$?
}
target=command search TERM
[[ $status == 143 ]] || fail "status $status after SIGTERM"
kill -0 "$child" 2>/dev/null && fail "the search goes on without the command"
target=search search KILL
grep -q 'search was ended by signal 9' err && [[ $status == 1 ]] || fail "status $status after the search was killed"

# Wrong use.
expect 2 'goes with fit' plan --fit-also state-dtype
expect 2 "fit-also 'lr': that it cannot set; it can" plan --fit --fit-also lr
expect 2 'leave one out' plan --fit --recommend
expect 2 'with fit alone' plan --json x.json
expect 2 'cannot be split into up to 1000000 micro-steps' plan --fit "${model[@]}" --global-batch 999999937
expect 2 'not a multiple of --ranks' plan --fit "${model[@]}" --global-batch 3 --ranks 2
expect 2 'leave --link out' plan --fit "${model[@]}" --ranks 2 --link nvlink
expect 2 'and a pipe is empty then' train --fit --data builtin:bytes --config <(echo 'model: tiny')
expect 2 'and a pipe is empty then' train --ranks 2 --data builtin:bytes --config <(echo 'model: tiny')
printf 'name: x\nbase: {model: tiny, data: builtin:bytes, steps: 1, fit: on}\naxes: [{lr: [1e-3, 2e-3]}]\n' >x.yaml
expect 2 'pacer plan --fit' sweep x.yaml --out x

if [[ $("$PACER" --version) == *"with "*MPI* ]] && [[ -n ${MPIRUN:-} ]]; then
    export ASAN_OPTIONS=detect_leaks=0 # MPI's own
    expect 0 'takes --batch' train --fit --data builtin:bytes "${model[@]}" --global-batch 8 --ranks 2 --oversubscribe \
        --steps 1 --out ranks --eval-every 0
    [[ $(($(field ranks batch) * $(field ranks accum))) == 4 ]] || fail "each of two ranks has four sequences"
fi
exit $failed
