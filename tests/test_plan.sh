#!/usr/bin/env bash
# `pacer plan --link`: predictions are labelled, their assumptions are named, and wrong use is refused. PACER names
# the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

small=(plan --model tiny --layers 2 --d-model 64 --heads 4 --ffn 96 --context 64 --seq 64 --threads 1 --batch 2
    --vocab 256)

expect 0 'Predicted, not measured: up to 48 ranks' "${small[@]}" --ranks 48 --link ib400 --per-node 8
grep -q '^  assumed   between nodes: ib400, .* us a message, .* GB/s for each rank' out || fail "the link is not named"
grep -q '^  assumed   8 ranks to a node' out || fail "the nodes are not named"
grep -q '^  assumed   in a node: nvlink' out || fail "the link in a node is not named"
grep -q '^  assumed   from zero1 on .* efficiency may pass 100 %' out || fail "why efficiency may pass 100 % is not said"
grep -q "^  measured  one rank's step here, median of" out || fail "what was measured is not named"
# Behind the plan no line stands without a label.
sed -n '/^Predicted/,$p' out | grep -vE '^Predicted, not measured: |^  (predicted|measured |assumed  ) ' >unlabelled
[[ -s unlabelled ]] && fail "without a label: $(cat unlabelled)"
rows=$(awk '$1 == "predicted" && $2 != "ddp" { printf "%s-%s ", $2, $3 }' out)
expected='overlap-1 overlap-2 overlap-4 overlap-8 overlap-16 overlap-32 overlap-48 '
[[ $rows == "${expected}naive-48 flat-48 overlap-48 zero1-48 zero2-48 zero3-48 " ]] || fail "rows: $rows"
# One rank waits for nobody; step x tok/s is tokens of all ranks; the fastest link waits less than the slowest.
awk '$1 == "predicted" && $2 != "ddp" { tokens = $5 * $6 / 1000; want = 128 * $3 * $4; d = tokens / want - 1
        if (d > 1e-3 || d < -1e-3) { print; bad = 1 } if ($3 == 1 && ($7 != 0 || $9 != 100)) { print; bad = 1 } }
    END { exit bad }' out || fail "rows that do not add up"
exposed() { "$PACER" "${small[@]}" --ranks 64 --ddp flat "$@" 2>err | awk '$1 == "predicted" && $2 == "flat" && $3 == 64 { print $7; exit }'; }
fast=$(exposed --link nvlink) slow=$(exposed --link eth10) own=$(exposed --link-us 0 --link-gbs 1M)
awk -v f="$fast" -v s="$slow" -v o="$own" 'BEGIN { exit !(o == 0 && f > 0 && s > f) }' ||
    fail "exposed: own $own, nvlink $fast, eth10 $slow ms"

# Work is that of all ranks, as --flops counts it: FLOP per update / tokens per update are those per token.
"$PACER" "${small[@]}" --ranks 3 2>err | awk '/^Work: / { found = 1; d = $2 / $9 / $6 - 1; if (d > 1e-3 || d < -1e-3) exit 1 }
    END { exit !found }' || fail "FLOP of an update of three ranks"
# The same work for all: accum shrinks as ranks grow, and what does not divide is left out.
expect 0 'strong scaling' "${small[@]}" --ranks 6 --link pcie --global-batch 24 --ddp zero1 --comm-dtype bf16
rows=$(awk '$1 == "predicted" && $2 == "zero1" { printf "%s-%s ", $3, $4 }' out)
[[ $rows == '1-12 2-6 4-3 6-2 6-2 ' ]] || fail "rows of strong scaling: $rows"
grep -q 'gradients to bf16 and back' out || fail "rounding is not measured"

expect 2 'give --ranks' "${small[@]}" --link ib400
expect 2 '--link-us and --link-gbs' "${small[@]}" --ranks 2 --link-us 5
for how in '' --recommend; do # told before anything is measured or printed
    # shellcheck disable=SC2086
    PACER_TUNE=off expect 2 'nothing was measured here' "${small[@]}" $how --ranks 2 --link measured
    [[ ! -s out && $(wc -l <err) == 1 ]] || fail "a link that is unknown is told late: $(cat out)"
done
expect 2 '--node-link needs' "${small[@]}" --ranks 16 --link ib400 --per-node 8 --node-link none
expect 2 "--link 'ethernet'" "${small[@]}" --ranks 2 --link ethernet
expect 3 'MiB are free' "${small[@]}" --ranks 2 --link pcie --memory-limit 100k
expect 0 'Memory plan of each rank' "${small[@]}" --ranks 2
grep -qi predicted out && fail "a plan without --link predicts"

# A model that does not fit one rank: as many of its layers as do are measured, and that is said.
large=(plan --model tiny --layers 8 --d-model 256 --heads 4 --ffn 1024 --context 16 --seq 16 --threads 1 --batch 1 --vocab 256
    --ranks 4 --link pcie)
process() { "$PACER" "${large[@]:0:21}" "$@" 2>err | awk '/^  process, about/ { print $3 }'; }
one=$(process) four=$(process --ranks 4 --ddp zero3 --bucket-mb 0)
limit=$(((one + four) / 2))
expect 3 'are free' "${large[@]:0:21}" --memory-limit $limit
expect 0 'of 8 layers, which fit one rank here' "${large[@]}" --ddp zero3 --bucket-mb 0 --memory-limit $limit
(($(sed -n 's/^  measured  \([0-9]*\) of 8 layers.*/\1/p' out) >= 2)) && [[ $(grep -c '^  predicted zero3' out) == 4 ]] || fail "rows: $(cat out)"
expect 0 '' "${large[@]}" --ddp zero3 --bucket-mb 0
grep -q 'of 8 layers' out && fail "layers are left out of a model that fits"

# Grades of recomputation: a row for each; the refusal names the first that fits, which then does.
deep=(plan --model tiny --layers 6 --d-model 64 --heads 4 --ffn 256 --context 128 --seq 128 --threads 1 --batch 256 --vocab 256)
expect 0 'recompute: what it saves' "${deep[@]}"
grades=$(awk '/^--recompute/ { on = 1 } on && NF == 6 && $6 ~ /yes|no/ { printf "%s ", $1 }' out)
[[ $grades == 'none norm act ffn attention block ' ]] || fail "grades: $grades"
limit=$(awk '/^  process, about/ { all = $3 } NF == 6 && ($1 == "norm" || $1 == "act") { saved += $3 }
    END { printf "%d", all - saved / 2 * 1048576 }' out) # half way between both
expect 3 'or --recompute act' "${deep[@]}" --memory-limit "$limit"
expect 3 'or --recompute act' "${deep[@]}" --memory-limit "$limit" --recompute norm
expect 0 'recompute act' "${deep[@]}" --memory-limit "$limit" --recompute act

if [[ $("$PACER" --version) == *"with "*MPI* ]] && command -v mpirun >/dev/null; then
    export ASAN_OPTIONS=detect_leaks=0 # MPI's own
    mpirun -n 2 "$PACER" "${small[@]}" --ranks 256 --link measured >out 2>err ||
        fail "mpirun plan --link measured ended with $?"
    grep -q '^  measured  link between 2 ranks here' out || fail "the measured link is not named"
    [[ $(grep -c '^Predicted' out) == 2 ]] || fail "not one rank speaks"
    if mpirun -n 3 "$PACER" "${small[@]}" --ranks 2 --link measured >out 2>err; then
        fail "three ranks measured for two"
    fi
    grep -q 'at most the 2 of --ranks' err || fail "three ranks for two: other message"
fi
# A recommendation: every kind was tried, the command it prints runs, and its report has the prediction.
small=(--model tiny --layers 1 --d-model 32 --heads 2 --ffn 64 --context 32 --vocab 300 --threads 1)
expect 2 'goes with --recommend' plan --hours 2
expect 2 'needs --link' plan "${small[@]}" --recommend --ranks 2
expect 3 'nothing fits' plan "${small[@]}" --recommend --memory-limit 20k
expect 0 'pacer train --data DATA' plan "${small[@]}" --recommend --batch 4 --attention flash --recompute none --tokens 10k
expect 0 'Recommended:' plan "${small[@]}" --recommend --data builtin:bytes --global-batch 12 --steps 5 --hours 1
cp out recommended
grep -qE '^. flash +none +4 +3 ' recommended && grep -qE '^. naive +none +4 +3 ' recommended || fail "not all kinds were tried: $(cat recommended)"
grep -q 'the training fits' recommended || fail "five steps do not fit into an hour"
command=$(sed -n 's/^pacer \(train .*\)/\1/p' recommended)
# shellcheck disable=SC2086
"$PACER" $command --out recommended-run --quiet || fail "what was recommended does not run: $command"
"$PACER" report recommended-run >out 2>err
grep -q 'Tokens per second predicted' recommended-run/report/report.md recommended-run/report.md 2>/dev/null ||
    fail "the report has no prediction: $(ls -R recommended-run | head -20)"
exit $failed
