#!/usr/bin/env bash
# pacer bench attention on the CPU: the lengths and kinds of its table, odd shapes, what does not fit, and that
# everything timed was found right. PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

# rows EXPECTED ARGUMENT...: the command succeeds, and its rows, cut to length, batch and kind (and the note
# of a row without numbers), are EXPECTED.
rows() {
    local expected=$1 actual
    shift
    "$PACER" bench attention --repeats 1 --warm 0 "$@" >out 2>err ||
        { echo "bench attention $*: exit status $?"; failed=1; }
    actual=$(awk 'NR > 2 { printf "%s%s %s %s%s", sep, $1, $2, $3, $4 == "does" ? " too large" : ""; sep = ", " }' out)
    if [[ $actual != "$expected" ]] || grep -q WRONG out || [[ -s err ]]; then
        printf 'bench attention %s\n  expected rows %s\n  got           %s\n' "$*" "$expected" "$actual"
        cat out err
        failed=1
    fi
}

rows '256 16 naive, 256 16 flash, 300 13 naive, 300 13 flash' --device cpu --seq 300 --heads 1 --head-dim 16
rows '37 3 naive, 37 3 flash' --device cpu --seq 37 --batch 3 --heads 6 --kv-heads 2 --head-dim 20
rows '16 1 naive, 16 1 flash' --device cpu --seq 16 --batch 1 --heads 1 --head-dim 1
rows '150 2 naive, 150 2 flash' --device cpu --seq 150 --batch 2 --heads 4 --kv-heads 2 --head-dim 8 --window 33
rows '150 2 naive, 150 2 flash' --device cpu --seq 150 --batch 2 --heads 2 --head-dim 8 --window 40 --document-tokens 47
rows '20 2 naive, 20 2 flash' --device cpu --seq 20 --batch 2 --heads 2 --head-dim 8 --document-tokens 1
rows '40 2 naive, 40 2 flash' --device ref --dtype bf16 --seq 40 --batch 2 --heads 2 --head-dim 8
rows '256 1 naive, 256 1 flash, 512 1 naive too large, 512 1 flash' --device cpu --seq 512 --batch 1 \
    --heads 16 --head-dim 16 --threads 1 --memory-limit "$(limit 12)"
rows '256 1000000 naive too large, 256 1000000 flash too large' --device cpu --seq 256 --batch 1M \
    --heads 100k --head-dim 1024

[[ $failed == 0 ]] && echo "attention is timed, and right"
exit $failed
