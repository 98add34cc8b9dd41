#!/usr/bin/env bash
# An honest run never fails, and every wait belongs to a phase: a terminal and a disk that are slow, one rank and two, legs
# with other numbers of ranks. tests/stress.sh has what depends on the machine's load. PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

slow=$(dirname "$PACER")/tests/libslow_io.so
[[ -s $slow ]] || { echo "no $slow" && exit 1; }
ranks=(1 2)
if [[ $("$PACER" --version) != *"with "*MPI* ]] || ! command -v mpirun >/dev/null; then
    ranks=(1)
fi
small=(--model tiny --layers 1 --d-model 16 --heads 2 --ffn 24 --context 16 --data builtin:bytes --batch 2 --lr 2e-3
    --threads 1 --eval-batches 1 --oversubscribe)
train() { # with what is slow in front
    local slow_setting=$1
    shift
    env LD_PRELOAD="$slow" "$slow_setting" "$PACER" train "${small[@]}" "$@" >out 2>err ||
        fail "$slow_setting train $*: exit status $?"
}
# Seconds of phase $3 in the timers of rank $2 of run $1, by their field $4.
seconds() { tr -d ' \n\t' <"$1/ranks/$2.json" | sed -n "s/.*\"timers\":.*\"$3\":{[^}]*\"$4\":\([0-9.e-]*\).*/\1/p"; }
at_least() { awk -v found="$1" -v least="$2" 'BEGIN { exit !(found != "" && found + 0 >= least) }'; }

# A run whose naps last some seconds together. All of it is `log` of the rank that writes, and a third or more `log` of
# those that wait for it, and so no part of their training. Where other programs run, a rank may come late: naps of the
# next try are longer.
naps() { # what is slow, naps of a run, run, ranks, train's arguments
    local slow_setting=$1 count=$2 run=$3 ranks=$4 together waited rank
    shift 4
    for together in 1.2 6 30; do
        rm -rf "$run"
        train "$slow_setting:$(awk "BEGIN { print $together / $count }")" "$@" --out "$run" --ranks "$ranks"
        at_least "$(seconds "$run" 0 log total_s)" $together ||
            fail "$run: $(seconds "$run" 0 log total_s) s of log, not $together"
        waited=1
        for ((rank = 1; rank < ranks; rank++)); do
            at_least "$(seconds "$run" $rank log total_s)" "$(awk "BEGIN { print $together / 3 }")" || waited=0
        done
        [[ $waited == 1 ]] && break
    done
    [[ $waited == 1 ]] || fail "$run: rank 1 has $(seconds "$run" 1 log total_s) s of log, where naps last $together"
    "$PACER" check "$run" >checked || fail "pacer check $run: $(grep fail checked)"
}
for count in "${ranks[@]}"; do
    naps SLOW_TEXT=val_loss 2 said-$count $count --steps 2 --eval-every 1
    grep -q val_loss err || fail "nothing is said of an evaluation"
    naps SLOW_TEXT=Training 1 begun-$count $count --steps 2
    naps SLOW_FILE=metrics.jsonl 2 written-$count $count --steps 2 --log-every 1 --eval-every 0 --quiet
done

# Fewer ranks than before, then more: each leg has the files of its own ranks, and no more.
if [[ ${#ranks[@]} -gt 1 ]]; then
    steps=0
    for count in 3 1 2; do
        steps=$((steps + 3))
        train SLOW_FILE=none:0 --steps $steps --schedule constant --log-every 1 --quiet --out legs --ranks $count
        [[ $(echo legs/ranks/*) == "$(seq -s ' ' -f 'legs/ranks/%g.json' 0 $((count - 1)))" ]] ||
            fail "files of $count ranks: $(echo legs/ranks/*)"
        expect 0 ' checks' check legs
    done
    # A record of pacer 0.1 that kept them.
    sed 's/"rank":[[:space:]]*1/"rank": 4/; s/"ranks":[[:space:]]*2/"ranks": 5/' legs/ranks/1.json >legs/ranks/4.json
    expect 0 ' checks' check legs
fi

# A rank that knows of the failure sooner than the record is written waits for it.
if [[ ${#ranks[@]} -gt 1 ]]; then
    env LD_PRELOAD="$slow" SLOW_FILE=run.json:1.5 "$PACER" train "${small[@]/2e-3/100}" --steps 2000 --warmup 0 --clip 0 \
        --quiet --out wild --ranks 2 >out 2>err
    grep -q 'became' err || fail "the run does not diverge"
    grep -q -- '--clip 1 (now off)' err || fail "what to do about it: $(grep became err)"
    grep -q '"status":[[:space:]]*"failed"' wild/run.json || fail "diverged: $(grep status wild/run.json)"
fi

[[ $failed == 0 ]] && echo "honest runs do not fail"
exit $failed
