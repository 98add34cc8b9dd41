#!/usr/bin/env bash
# --fit where there is a second memory (--device ref has one for tests): what --offload adds to the table, that it is taken
# where nothing else fits, with the bits of a run without it and the peak of the plan. PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

# Moments are most of what such a model takes.
model=(--model tiny --data builtin:bytes --layers 3 --d-model 16 --heads 2 --ffn 16 --context 8 --seq 8 --vocab 20000
    --threads 1 --seed 3)
columns() { # FILE COLUMN...: of the table in JSON, a line for each setting
    local file=$1
    shift
    tr -d ' \n\t' <"$file" | grep -o '{"batch"[^}]*}' | while read -r row; do
        for name; do
            printf '%s ' "$(grep -o "\"$name\":[^,}]*" <<<"$row" | cut -d: -f2 | tr -d '"')"
        done
        echo
    done
}
field() { tr -d ' \n\t' <"$1/run.json" | grep -o "\"$2\":[^,}]*" | head -1 | cut -d: -f2 | tr -d '"'; }
plan() { "$PACER" plan "${model[@]}" --device ref --batch 1 --accum 2 "$@"; }
need() { plan "$@" | awk '$1 == "process," { print $3 }'; }

# Too little memory for any of them: all are planned, none is measured.
expect 3 'nothing fits: --batch' plan --fit "${model[@]}" --device ref --global-batch 2 --memory-limit 100k --json all.json
columns all.json batch recompute offload bytes host_bytes >table
[[ $(wc -l <table) == 48 ]] || fail "two splits, six grades and four kinds are 48, not $(wc -l <table) rows"
[[ $(awk '{ print $3 }' table | sort -u | tr '\n' ' ') == 'activations both none optimizer ' ]] || fail "kinds: $(cat table)"
grep -q 'more of 48 settings are not shown' out || fail "a long table is not cut: $(cat out)"
for word in none optimizer activations both norm act ffn attention block; do
    grep -q " $word " out || fail "no row shows $word: $(cat out)"
done
while read -r batch recompute offload bytes host; do
    plan --recompute "$recompute" --offload "$offload" >one </dev/null
    [[ $bytes == "$(awk '$1 == "total" { print $2 }' one)" ]] || fail "$recompute, $offload: found $bytes bytes: $(cat one)"
    [[ $host == "$(awk '$1 == "offload" { print $2 }' one)" ]] || fail "$recompute, $offload: found $host bytes of the host: $(cat one)"
done < <(awk '$1 == 1 && NR % 5 == 1' table)
expect 3 'nothing fits' plan --fit "${model[@]}" --device ref --global-batch 2 --memory-limit 100k --verbose
[[ $(grep -c 'too much$' out) == 48 ]] || fail "--verbose leaves rows out: $(cat out)"
expect 3 'nothing fits' plan --fit --fit-also offload "${model[@]}" --device ref --global-batch 2 --recompute none --memory-limit 100k --verbose
[[ $(grep -c ' all  *[0-9.]* ' out) == 2 ]] || fail "--fit-also offload does not add all: $(cat out)"

# Moments that are in no machine's memory.
expect 3 'are not free there' plan --fit --model tiny --data builtin:bytes --layers 40 --d-model 8192 --heads 64 --ffn 32768 \
    --context 8 --seq 8 --vocab 300 --threads 1 --device ref --batch 1 --recompute block --offload both --memory-limit 100T
grep -q 'too much memory of the host$' out || fail "no row tells of the host's memory: $(cat out)"

# Room for what offloads moments and for nothing else.
limit=$((($(need --recompute block) + $(need --offload optimizer)) / 2))
[[ $(need --recompute block --offload activations) -gt $limit ]] || fail "activations are more than moments"
run=(train "${model[@]}" --device ref --save-every 2 --eval-every 0)
expect 0 'takes --batch' "${run[@]}" --steps 2 --global-batch 2 --fit --memory-limit "$limit" --out taken
kind=$(field taken offload)
[[ $kind == optimizer || $kind == both ]] || fail "offload $kind does not fit into $limit bytes"
[[ $(field taken peak_bytes) == "$(field taken planned_bytes)" ]] || fail "peak $(field taken peak_bytes), planned $(field taken planned_bytes)"
expect 0 '' "${run[@]}" --steps 2 --batch "$(field taken batch)" --accum "$(field taken accum)" --recompute "$(field taken recompute)" --out plain
for file in model optimizer; do
    cmp -s {taken,plain}/ckpt/step-2/$file.safetensors || fail "$file has other bits than without --offload"
done
expect 0 'as the run has it' "${run[@]}" --global-batch 2 --fit --steps 3 --out taken
[[ $(field taken offload) == "$kind" ]] || fail "the resume has --offload $(field taken offload)"

# What was measured and assumed of copies is said, where there are any.
expect 0 'measured  copies of --offload: ' plan --fit "${model[@]}" --device ref --batch 2 --accum 1 --recompute none --json found.json
grep -q 'assumed   copies run beside' out || fail "the assumption is not named: $(cat out)"
tr -d ' \n\t' <found.json | grep -q '"copy_out_bytes_s":[1-9].*"copy_in_bytes_s":[1-9]' || fail "no rates: $(cat found.json)"
expect 2 'computes in the host' plan --fit "${model[@]}" --device cpu --fit-also offload
exit $failed
