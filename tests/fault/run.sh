#!/usr/bin/env bash
# Every fault, one at a time: tests/fault/run.sh [-n POINTS] [-j JOBS] [SCENARIO[/CALL[/HOW]]...]
#
# A scenario is a command of pacer's. It is made once undisturbed, counting its calls (faultlib.c), and then again and again
# with the n-th call of a kind failing, for every n; of allocations, those that come the same way are tried at the first and
# the last. HOW is `fails`, `full` (all calls from the n-th on fail, as on a full disk) or `killed` (the process ends before
# the n-th call). After each:
#   - no crash and no hang; a failure has a message;
#   - exit status 0 only with the result of the undisturbed run;
#   - what was there before still is;
#   - the same command without the fault succeeds, has that result, and leaves no temporary files.
#
# -n POINTS tries that many of each scenario, call and way, evenly spaced, instead of all. PACER names the program,
# FAULTLIB the library. Every failure is a line; the last lines have the numbers of points.
set -uo pipefail
export LC_ALL=C

points=0
jobs=$(nproc)
while getopts n:j: option; do
    case $option in
        n) points=$OPTARG ;;
        j) jobs=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
wanted=("$@")

calls=(write fsync rename open close flock malloc mkdir unlink read fallocate) # in the order of KINDS in faultlib.c
scenarios=(tokenizer prepare again train resume export import sweep)
patience=900 # seconds until a command counts as hanging

work=$(mktemp -d "${TMPDIR:-/tmp}/pacer-fault-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

quick() { FAULT_FAST=1 LD_PRELOAD=$FAULTLIB OMP_NUM_THREADS=1 timeout -k 1 $patience "$@"; }
pacer() { quick "$PACER" "$@"; }

# --- scenarios: the command, in a folder that holds what base_NAME made ---

model=(--model gpt2-124m --layers 1 --d-model 16 --heads 1 --ffn 16 --vocab 280 --context 16)
train=(train "${model[@]}" --device cpu --data data --batch 2 --save-every 2 --keep 1 --log-every 1 --eval-every 2
    --eval-batches 1 --threads 1 --quiet)

base_tokenizer() { cp "$work/text" .; }
command_tokenizer() { command=(tokenizer train --vocab 280 --threads 1 --quiet --out tok text); }
result_tokenizer() { cksum tok; }

base_prepare() { cp "$work/text" "$work/tok" .; }
command_prepare() { command=(data prepare --tokenizer tok --val-fraction 0.3 --threads 1 --quiet --out data text); }
# The manifest and what it lists; files that could not be removed do not count.
result_prepare() {
    (cd data && cksum manifest.json $(grep -o '[a-z]*-[-0-9a-f]*\.\(shard\|json\)' manifest.json | sort)) &&
        pacer data info --quiet data >/dev/null
}

# Over a dataset of other text, which must stay usable.
base_again() {
    base_prepare
    head -c 3000 text >less
    pacer data prepare --tokenizer tok --val-fraction 0.3 --threads 1 --quiet --out data less
}
command_again() { command_prepare; }
result_again() { result_prepare; }
before_again() { pacer data info --quiet data >/dev/null; }

base_train() { cp -r "$work/data" .; }
command_train() { command=("${train[@]}" --steps 4 --out run); }
# All but clocks and names that hold them.
result_train() {
    (cd run && find . -path ./ranks -prune -o -name 'events*' -o -name '*.json*' -o -type f -print | sort | xargs cksum) &&
        readlink run/ckpt/latest && grep -o '"\(step\|tokens\|loss\|val_loss\)":[^,}]*' run/metrics.jsonl &&
        cksum run/tokenizer.json && [[ -s run/ranks/0.json ]] &&
        grep -o '"status":[[:space:]]*"[a-z]*"\|"summary":[[:space:]]*{\|"tokens":[^,]*' run/run.json
}

base_resume() {
    base_train
    pacer "${train[@]}" --steps 4 --out run
}
command_resume() { command=("${train[@]}" --steps 6 --out run); }
result_resume() { result_train; }
before_resume() {
    pacer export run --quiet --out before >/dev/null && rm -r before # reads and checks the newest checkpoint
}

base_export() { cp -r "$work/run" .; }
command_export() { command=(export run --quiet --shard-bytes 8k --out hf); }
result_export() { (cd hf && cksum -- *); }
before_export() { result_train >/dev/null; }

base_import() { cp -r "$work/hf" .; }
command_import() { command=(import hf --quiet --out imported); }
result_import() { (cd imported && find . -type f | sort | xargs cksum) && readlink imported/ckpt/latest; }
before_import() { (cd hf && cksum -- *) | cmp -s - "$work/hf.sums"; }

base_sweep() {
    cp -r "$work/data" .
    cat >recipe.yaml <<YAML
name: sweep
base: {model: gpt2-124m, layers: 1, d-model: 16, heads: 1, ffn: 16, vocab: 280, context: 16, data: data,
    device: cpu, threads: 1, batch: 2, steps: 2, eval-every: 0, log-every: 1}
axes: [{lr: [1e-3, 2e-3]}]
YAML
}
command_sweep() { command=(sweep recipe.yaml --quiet --out sweep); }
result_sweep() {
    local run
    for run in sweep/runs/*/; do
        cksum "$run"ckpt/step-2/*.safetensors && grep -o '"status":[[:space:]]*"[a-z]*"' "$run"run.json || return 1
    done
    grep -o '"state":[[:space:]]*"[a-z]*"' sweep/experiment.json
}

# --- one point ---

# The result of a scenario in the folder here, as text; fails when there is none.
result() { "result_$1" 2>&1; }

leftovers() { find . -name '*tmp*' -o -name '*.partial'; }

# attempt SCENARIO CALL HOW N: prints what is wrong, nothing when all is right.
attempt() {
    local scenario=$1 call=$2 how=$3 n=$4 status expected done left
    rm -rf at && cp -a "$work/base/$scenario" at && cd at || return
    "command_$scenario"
    local -a fault=("FAULT_STATE=../state" "FAULT_CALL=$call" "FAULT_AT=$n")
    [[ $how == full ]] && fault+=(FAULT_STICKY=1)
    [[ $how == killed ]] && fault+=(FAULT_KILL=1)
    [[ $call == malloc ]] && fault+=(FAULT_FIRST=1)
    rm -f ../state
    quick env "${fault[@]}" "$PACER" "${command[@]}" >../out 2>../err
    status=$?
    expected=$(<"$work/result/$scenario")
    done=
    if [[ $how == killed ]]; then
        [[ $(result "$scenario") == "$expected" ]] && done=1
        [[ $status == 137 || $scenario == sweep ]] || echo "exit status $status though it was killed"
    elif ((status == 124)); then
        echo "hangs"
    elif ((status >= 128)); then
        echo "died of signal $((status - 128)): $(tail -n 1 ../err)"
    elif ((status == 0)); then
        [[ $(result "$scenario") == "$expected" ]] || echo "exit status 0, but the result is not right"
    elif [[ ! -s ../err ]]; then
        echo "exit status $status without a message"
    elif [[ $call == malloc && $status != 3 ]]; then
        echo "out of memory gives exit status $status: $(tail -n 1 ../err)"
    fi
    # Where nothing was touched, the same command again is the undisturbed run.
    if ((status != 0)) && diff -rq --no-dereference . "$work/base/$scenario" >../changes 2>&1; then
        cd ..
        return
    fi
    if declare -F "before_$scenario" >/dev/null && ! "before_$scenario" 2>../damage; then
        echo "what was there before is damaged: $(tail -n 1 ../damage)"
    fi
    if ((status != 0)); then
        pacer "${command[@]}" >../out 2>../again
        status=$?
        [[ $how == killed && -n $done && $status == 2 ]] && status=0 # it was complete, and is kept
        ((status == 0)) || echo "the same command again: exit status $status: $(tail -n 1 ../again)"
        [[ $(result "$scenario") == "$expected" ]] || echo "the same command again: another result"
        left=$(leftovers)
        [[ -z $left ]] || echo "left behind:" $left
    fi
    cd ..
}

# --- all points ---

is_wanted() { # SCENARIO CALL HOW
    local one
    ((${#wanted[@]} == 0)) && return 0
    for one in "${wanted[@]}"; do
        [[ $one == "$1" || $one == "$1/$2" || $one == "$1/$2/$3" ]] && return 0
    done
    return 1
}

# The points of a call and a way to fail, one number per line.
numbers() { # SCENARIO CALL COUNT
    if [[ $2 == malloc ]]; then # by site: the first and the last
        awk '!($2 in first) { first[$2] = $1 } { last[$2] = $1 }
            END { for (s in first) { print first[s]; if (last[s] != first[s]) print last[s] } }' "$work/sites/$1" | sort -n
    else
        seq "$3"
    fi
}

spaced() { # of the lines, `points` evenly spaced ones; all when it is 0
    awk -v want="$points" '{ line[NR] = $0 }
        END { if (want == 0 || want > NR) want = NR
              for (i = 0; i < want; i++) print line[int((i + 0.5) * NR / want) + 1] }'
}

{
    "$PACER" data stories --bytes 6k --quiet --out text &&
        pacer tokenizer train --vocab 280 --threads 1 --quiet --out tok text &&
        pacer data prepare --tokenizer tok --val-fraction 0.3 --threads 1 --quiet --out data text &&
        pacer "${train[@]}" --steps 4 --out run && pacer export run --quiet --shard-bytes 8k --out hf
} >undisturbed 2>&1 || {
    cat undisturbed
    exit 1
}
(cd hf && cksum -- *) >hf.sums
mkdir base result sites counts
for scenario in "${scenarios[@]}"; do
    mkdir "base/$scenario"
    (
        cd "base/$scenario" && "base_$scenario" || exit 1
        cp -a . "$work/at" && cd "$work/at" || exit 1
        "command_$scenario"
        first=()
        [[ $scenario == sweep ]] && first=(FAULT_FIRST=1)
        quick env "FAULT_STATE=$work/counts/$scenario" "$PACER" "${command[@]}" &&
            result "$scenario" >"$work/result/$scenario" || exit 1
        [[ -z $(leftovers) ]] || echo "FAILED $scenario undisturbed: left behind" $(leftovers)
        rm -rf "$work/at" && cp -a "$work/base/$scenario" "$work/at" && cd "$work/at" || exit 1
        quick env "${first[@]}" "FAULT_STATE=$work/state" FAULT_CALL=malloc "FAULT_SITES=$work/sites/$scenario" \
            "$PACER" "${command[@]}"
    ) >undisturbed 2>&1 || {
        echo "FAILED $scenario: does not work undisturbed" >&2
        cat undisturbed >&2
        exit 1
    }
    grep FAILED undisturbed >&2
    rm -rf at state
    mapfile -t count < <(od -An -v -t u8 -w8 "counts/$scenario" | tr -d ' ')
    for i in "${!calls[@]}"; do
        hows=(fails)
        case ${calls[i]} in
            write | mkdir | fallocate) hows+=(full killed) ;;
            fsync | rename | unlink) hows+=(killed) ;;
        esac
        for how in "${hows[@]}"; do
            is_wanted "$scenario" "${calls[i]}" "$how" &&
                numbers "$scenario" "${calls[i]}" "${count[i]}" | spaced | sed "s|^|$scenario ${calls[i]} $how |"
        done
    done
done >list

for ((job = 0; job < jobs; job++)); do
    (
        mkdir "job$job" && cd "job$job" || exit 1
        awk -v job=$job -v jobs="$jobs" 'NR % jobs == job' ../list | while read -r scenario call how n; do
            attempt "$scenario" "$call" "$how" "$n" </dev/null | sed "s|^|FAILED $scenario/$call/$how/$n: |"
        done
    ) | tee "failures$job" &
done
wait

awk 'FILENAME == "list" { key = $1 " " $2 " " $3; if (!(key in total)) order[++rows] = key; total[key]++; next }
    { split($2, part, "/"); name = $2; if (!(name in seen)) { seen[name]; bad[part[1] " " part[2] " " part[3]]++; failed++ } }
    END { for (i = 1; i <= rows; i++) printf "%-28s %5d points, %d failed\n", order[i], total[order[i]], bad[order[i]]
          for (i in total) all += total[i]
          printf "faults: %d points, %d failed\n", all, failed; exit failed > 0 }' list failures*
