#!/usr/bin/env bash
# pacer bench step and bench ops on small models: what they time is verified in the same run, unless that is switched off.
# PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

small=(--layers 2 --d-model 32 --heads 2 --ffn 48 --vocab 101 --repeats 1 --warm 0)
within='gradients of [0-9]+ tensors within [0-9.e-]+ % \([a-z0-9_., ]+\) and an update within [0-9.e-]+ % of'

# verified WHOSE ARGUMENT...: the command succeeds and its last line says that it was verified against WHOSE numbers.
verified() {
    local whose=$1
    shift
    "$PACER" bench "$@" "${small[@]}" >out 2>err || fail "bench $*: exit status $?"
    tail -n 1 out | grep -qE "^verified: loss 4\\.[0-9]+ against 4\\.[0-9]+, $within the $whose's in f32$" ||
        fail "bench $*: the last line is '$(tail -n 1 out)'"
}

verified reference step --device cpu --batch 3 --accum 2 --seq 24
verified reference ops --device cpu --model gpt2-124m --batch 1 --seq 16 --attention naive --recompute block

expect 0 'tok/s' bench step --device cpu --seq 16 --verify=off "${small[@]}"
grep -q verified out && fail 'verified although it was switched off'

[[ $failed == 0 ]] && echo "what is timed is verified"
exit $failed
