#!/usr/bin/env bash
# pacer bench machine on the CPU: its table, its JSON, what it stores and that the next call knows it, and the
# products of a model. PACER names the program.
source "$(dirname "$0")/support/program.sh"
export XDG_CACHE_HOME=$work/cache
unset PACER_TUNE PACER_TUNE_CACHE

expect 0 'sgemm_2' bench machine --device cpu --threads 2 --model gpt2-124m --d-model 32 --heads 2 --layers 1 \
    --vocab 100 --batch 1 --seq 16 --json all.json
grep -q '^copy_1 .*GB/s' out || fail "no copy rate in the table"
grep -q '^linear_backward_weight  *16  *32  *96  *1 ' out || fail "no gradient of the 32 x 96 weights"
[[ $(grep -c '^linear_' out) == 15 ]] || fail "not 5 linear maps forward and backward"
stored=(cache/pacer/ceilings-*.json)
[[ ${#stored[@]} == 1 && -f ${stored[0]} ]] || fail "nothing was stored"
for word in '"sgemm_1"' '"best_date"' '"products"' '"flops_s"'; do
    grep -q "$word" all.json || fail "no $word in the JSON"
done

# A stored ceiling that this machine does not reach is the best, and stays.
sed -i 's/"value":[^,]*,/"value": 9e17,/; s/"date":[^}]*/"date": "2001-02-03T04:05:06Z"/' "${stored[0]}"
expect 0 'best of 2001-02-03' bench machine --device cpu --threads 1
grep -q '9e+\?17\|900000000000000000' "${stored[0]}" || fail "a stored ceiling was lowered"

# JSON on standard output comes alone.
expect 0 '"sgemm_1"' bench machine --device cpu --threads 1 --json -
[[ $(head -c 1 out) == '{' && $(tail -n 1 out) == '}' ]] || fail "more than JSON on standard output"

expect 2 'no such model' bench machine --model gpt3
PACER_SIMD=base expect 2 'bf16 is not possible with PACER_SIMD' bench machine --device cpu --dtype bf16
expect 2 'longer than the model' bench machine --device cpu --model gpt2-124m --seq 5000

# A run begins with the stored ceiling and says so, or measures and stores what it measured, for the
# next run; with PACER_TUNE=off it does neither.
train() { expect 0 '' train --data builtin:bytes --steps 1 --batch 1 --seq 8 --eval-every 0 --device cpu --threads 1 --out "$1"; }
source_is() { grep -q "\"ceiling_source\":.*\"$2" "$1/run.json"; }
train run
source_is run 'measured at 2001-02-03T04:05:06Z' || fail "the run does not take the stored ceiling"
rm -r cache run
train run
source_is run 'measured now' || fail "the run does not say what it measured"
grep -q '"sgemm_1"' cache/pacer/ceilings-*.json || fail "the run did not store its ceilings"
sed -i 's/"value":[^,]*,/"value": 1,/; s/"date":[^}]*/"date": "2001-02-03T04:05:06Z"/' cache/pacer/ceilings-*.json
train later
source_is later 'measured now' || fail "a ceiling below the run's own rate was not measured again"
rm -r cache
PACER_TUNE=off train off
source_is off 'measured now' || fail "with PACER_TUNE=off the run was not measured"
[[ -e cache/pacer ]] && fail "with PACER_TUNE=off a run stored ceilings"

[[ $failed == 0 ]] && echo "the machine is measured, and its best remembered"
exit $failed
