#!/usr/bin/env bash
# pacer profile by several ranks of one machine: one file with the lanes of all of them, whose communication is that of
# the strategy, fits into the step and agrees with the accounts. PACER names the program. Skipped in a build without
# MPI.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

if [[ $("$PACER" --version) != *"with "*MPI* ]] || ! command -v mpirun >/dev/null; then
    echo "skipped: no MPI"
    exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
[[ -n ${ASAN_OPTIONS:-} ]] && export ASAN_OPTIONS=detect_leaks=0 # MPI keeps memory to the end

model=(--layers 2 --d-model 64 --heads 4 --ffn 96 --context 64 --vocab 300 --batch 2 --threads 1)
timed=(--warm 1 --repeats 2)
"$PACER" plan "${model[@]}" --ranks 2 >plan 2>err || fail "plan"
gradients=$(awk '$1 == "gradients" { print $2 }' plan)

# Every event of step.json as "pid tid name ts dur bucket bytes exposed_us", in microseconds; - where there is none.
events() {
    awk '
        function field(name) {
            if (!match($0, "\"" name "\":\"?[^,}\"]*")) return "-"
            value = substr($0, RSTART, RLENGTH); sub(/^"[^"]*":"?/, "", value); gsub(/ /, "_", value)
            return value
        }
        /"ph":"X"/ { print field("pid"), field("tid"), field("name"), field("ts"), field("dur"),
                           field("bucket"), field("bytes"), field("exposed_us") }' step.json
}

# profile RANKS ARGUMENT...: into step.json, the table into table, and what has to hold whatever the strategy.
profile() {
    local ranks=$1
    shift
    expect 0 'the slowest by its own time' profile "${model[@]}" "${timed[@]}" --ranks "$ranks" --out step.json "$@"
    cp out table
    events >events
    # One JSON object: a head, an event per line, commas between them, a tail.
    awk 'NR == 1 { bad = $0 != "{\"displayTimeUnit\":\"ms\",\"traceEvents\":["; next }
         ended { bad = 1 } /^\]}$/ { ended = 1; if (before ~ /,$/) bad = 1; next }
         { if ($0 !~ /^\{.*\},?$/ || (NR > 2 && before !~ /,$/)) bad = 1; before = $0 }
         END { exit bad || !ended }' step.json || fail "$*: not one JSON object"
    if command -v jq >/dev/null; then
        jq -e '.traceEvents | length > 0' step.json >/dev/null || fail "$*: no valid JSON"
    fi
    [[ $(grep -c '"name":"process_name"' step.json) == "$ranks" ]] || fail "$*: not $ranks processes"
    for ((rank = 0; rank < ranks; rank++)); do
        grep -q "\"name\":\"process_name\",\"pid\":$rank,.*\"rank $rank (.*, cpu)\"" step.json || fail "$*: no rank $rank"
        [[ $(grep "\"name\":\"thread_name\",\"pid\":$rank," step.json | grep -c 'step\|ops\|host\|communication') == 5 ]] ||
            fail "$*: lanes of rank $rank"
        [[ $(awk '/^step / { print $2 }' table) == "$(awk -v r=$rank '$1 == r && $2 == 2' events | wc -l)" ]] ||
            fail "$*: ops of rank $rank"
        accounts $rank || fail "$*: accounts of rank $rank"
    done
    awk 'function after(a, b) { return a > b + 0.01 }
        $2 == 0 { start[$1] = $4; end[$1] = $4 + $5 }
        $2 != 0 && (after(start[$1], $4) || after($4 + $5, end[$1])) { print "outside of its step:", $0; bad = 1 }
        $2 == 4 && after($8, $5) { print "exposed for longer than it lasts:", $0; bad = 1 }
        END { exit bad }' events || fail "$*: events"
    # No collective ends before every rank has begun it, by the one clock of this machine.
    awk '$2 == 4 {
            n = ++count[$1]
            if (!(n in last) || $4 > last[n]) last[n] = $4
            if (!(n in first) || $4 + $5 < first[n]) first[n] = $4 + $5
            if ($1 == 0) what[n] = $3 " " $6 " " $7
            else if (what[n] != $3 " " $6 " " $7) { print "other ranks do", what[n], "not", $0; bad = 1 }
        }
        END {
            for (n in last) if (last[n] > first[n] + 0.01) { print "collective", n, "ends at", first[n], "and begins at", last[n]; bad = 1 }
            for (r in count) if (count[r] != count[0]) bad = 1
            exit bad || count[0] == 0
        }' events || fail "$*: collectives of the ranks do not match"
    # A line for each rank; the table is of the one with the most time of its own.
    awk -v ranks="$ranks" '/^ops of rank / { said = $4 + 0 } /^rank / { on = 1; next }
        on { if ($1 != n++ || $3 + $4 < $2 - 0.0011 || $3 + $4 > $2 + 0.0011 || $5 < 0) bad = 1
             if (n == 1 || $3 > most) { most = $3; slowest = $1 } own[$1] = $3 }
        END { exit bad || n != ranks || own[said] < most }' table || fail "$*: lines of the ranks"
}

# The channel counts what it did by itself: that is what the spans of rank $1 add up to.
accounts() {
    grep "\"cat\":\"step\",\"pid\":$1," step.json | sed 's/.*"comm_s":\([^,]*\),"exposed_s":\([^,]*\),"hidden_s":\([^}]*\)}.*/\1 \2 \3/' |
        cat - <(awk -v r="$1" '$1 == r' events) | awk '
            function near(a, b) { return a - b < 1 && b - a < 1 } # us
            NR == 1 { comm = 1e6 * $1; exposed = 1e6 * $2; hidden = 1e6 * $3; next }
            $2 == 4 { busy += $5; of_these += $8 } $2 == 1 && $3 == "waiting" { waited += $5 }
            END {
                left = comm > exposed ? comm - exposed : 0
                ok = busy > 0 && near(busy, comm) && near(waited, exposed) && near(hidden, left) && of_these <= waited + 1
                if (!ok) print "busy", busy, comm, "waited", waited, exposed, "hidden", hidden
                exit !ok
            }'
}

# spans RANK NAME: how many of this name belong to a bucket, of how many buckets, with how many bytes together.
spans() { awk -v r="$1" -v name="$2" '$1 == r && $3 == name && $6 != "-" { n++; bytes += $7; if (!seen[$6]++) b++ } END { print n + 0, b + 0, bytes + 0 }' events; }
waits() { awk -v r="$1" '$1 == r && $2 == 1 && $3 == "waiting"' events | wc -l; }

# Head, two layers, embeddings, and norms: five buckets, each sent once, and one wait.
profile 2 --ddp overlap --bucket-mb 0 --accum 2
for rank in 0 1; do
    [[ $(spans $rank all-reduce) == "5 5 $gradients" ]] || fail "overlap: $(spans $rank all-reduce) of $gradients bytes"
    [[ $(waits $rank) == 1 ]] || fail "overlap: waits of rank $rank"
done

# Weights back, sums in parts; waiting for the weights of embeddings and norms before the forward pass, for those of each
# layer and of the head in its midst, for gradients, and for the norm in the midst of the update.
profile 3 --ddp zero1 --bucket-mb 0
for rank in 0 1 2; do
    read -r _ parts scattered <<<"$(spans $rank reduce-scatter)"
    read -r _ _ rest <<<"$(spans $rank all-reduce)"
    read -r _ back gathered <<<"$(spans $rank all-gather)"
    [[ $parts == 5 && $((scattered + rest)) == "$gradients" ]] || fail "zero1: $parts buckets, $scattered + $rest of $gradients bytes"
    [[ $back == 5 && $gathered == "$scattered" ]] || fail "zero1: $back buckets and $gathered bytes come back"
    [[ $(waits $rank) == 6 ]] || fail "zero1: waits of rank $rank"
    awk -v r=$rank '$1 == r && $2 == 1 && $3 != "waiting" { from[$3] = $4; end[$3] = $4 + $5 }
        $1 == r && $3 == "waiting" { at[++n] = $4; to[n] = $4 + $5 }
        END { exit !(to[1] <= from["forward"] && at[2] >= from["forward"] && to[4] <= end["forward"] && at[5] >= end["backward"] &&
                     to[5] <= from["optimizer"] && at[6] >= from["optimizer"] && to[6] <= end["optimizer"]) }' events ||
        fail "zero1: when rank $rank waits"
    # Each gather is done when the forward pass goes on from its wait; embeddings and norms (the last two buckets) first.
    awk -v r=$rank '$1 == r && $3 == "all-gather" { if ($6 != 4 - n++) bad = 1; done[n] = $4 + $5 }
        $1 == r && $3 == "waiting" { to[++w] = $4 + $5 }
        END { for (i = 1; i <= 4; i++) if (done[i + 1] > to[i] + 0.01) bad = 1; exit bad || n != 5 }' events ||
        fail "zero1: gathers of rank $rank"
done

# With larger weights some are still on their way when the forward pass is: gathers lie beside its operations, on every
# rank. A machine with more to do than it has cores may run one after the other; not every time.
beside() {
    awk '$3 == "forward" && $2 == 1 { from[$1] = $4; to[$1] = $4 + $5 }
        $3 == "all-gather" { start[$1, ++n[$1]] = $4; end[$1, n[$1]] = $4 + $5 }
        END { for (r in from) { found = 0
                  for (i = 1; i <= n[r]; i++) if (start[r, i] < to[r] && end[r, i] > from[r]) found++
                  if (found < 2) bad = 1 }
              exit bad }' events
}
tiny=("${model[@]}")
model=(--layers 4 --d-model 128 --heads 4 --ffn 256 --context 64 --vocab 4000 --batch 2 --threads 1)
for _ in {1..10}; do
    profile 2 --ddp zero1 --bucket-mb 0
    beside && break
done
beside || fail "zero1: weights come back before the forward pass, not beside it"
model=("${tiny[@]}")

if [[ -z ${ASAN_OPTIONS:-} ]]; then
    profile 2 --ddp naive
    read -r calls buckets bytes <<<"$(spans 1 all-reduce)"
    [[ $calls == 21 && $buckets == 21 && $bytes -le $gradients && $(waits 1) == 21 ]] || fail "naive: $(spans 1 all-reduce), $(waits 1) waits"
    profile 2 --ddp flat --comm-dtype bf16
    [[ $(spans 0 all-reduce) == "1 1 $((gradients / 2))" && $(waits 0) == 1 ]] || fail "flat: $(spans 0 all-reduce)"
fi

# Nothing to talk about with one rank.
expect 0 'whole step' profile "${model[@]}" "${timed[@]}" --out step.json
grep -q '"tid":4\|"name":"waiting"\|comm_s\|process_labels' step.json && fail "one rank communicates"

# Refusals of ranks leave no file either.
rm -f step.json
expect 3 'not even --batch 1 fits' profile "${model[@]}" --ranks 2 --memory-limit 1000 --out step.json
expect 2 'is a folder' profile "${model[@]}" --ranks 2 --out .
compgen -G '*.json*' >/dev/null && fail "left behind: $(compgen -G '*.json*')"

[[ $failed == 0 ]] && echo "ranks share one profile"
exit $failed
