#!/usr/bin/env bash
# `pacer duel` from the outside: verdicts and exit codes, runs that diverge or fail, Ctrl-C and going on, wrong use.
source "$(dirname "$0")/support/program.sh"

cat >a.yaml <<'YAML'
data: builtin:bytes
layers: 1
d-model: 16
heads: 2
ffn: 32
context: 16
batch: 4
steps: 12
eval-batches: 4
threads: 1
tensorboard: off
lr: 1e-2
YAML
sed 's/lr: .*/lr: 1e-4/' a.yaml >b.yaml
tries() { find "$1/runs" -name '*.log' | wc -l; }
done_runs() { grep -c '"state":[[:space:]]*"done"' "$1/experiment.json"; }

# --- wrong use: before anything runs ---

expect 2 'duel needs an argument' duel a.yaml
expect 2 'none.yaml' duel a.yaml none.yaml
expect 2 "'lr 3' is neither a file nor options" duel a.yaml 'lr 3'
expect 2 'duel: an argument is empty' duel a.yaml ''
expect 2 'did you mean lr' duel a.yaml 'lrr: 1'
expect 2 'with a space behind the colon' duel a.yaml 'lr:1'
expect 2 'a value that has a comma in quotes' duel a.yaml 'batch-ramp: 4@0,8@50%'
expect 2 'no-folder/x.json: cannot write' duel a.yaml 'lr: 1' --json no-folder/x.json
expect 2 'the same training' duel a.yaml 'lr: 0.01'
expect 2 'share seeds' duel a.yaml 'seed: 1338' --min-pairs 2 --max-pairs 3
expect 2 'do not compare' duel a.yaml 'data: builtin:stories'
expect 2 'eval-every is 0' duel a.yaml 'eval-every: 0'
expect 2 'out is up to the duel' duel a.yaml 'out: x'
expect 2 '--min-pairs 4 is more than --max-pairs 3' duel a.yaml b.yaml --min-pairs 4 --max-pairs 3
expect 0 '2 to 3 pairs; error rate 0.05' duel a.yaml b.yaml --min-pairs 2 --max-pairs 3 --dry-run
expect 0 'A is evaluated on 256 tokens and B on 128' duel a.yaml 'batch: 2, accum: 2' --dry-run
# The same budget is the same whatever tokens come of it, but for updates of another size.
for budget in 'tokens: 1000' 'flops: 1e8' 'minutes: 0.01' 'epochs: 0.001'; do
    sed "s/^steps: .*/$budget/" a.yaml >budget.yaml
    expect 0 'pairs; error rate' duel budget.yaml 'batch: 8, layers: 2, eval-batches: 2' --dry-run
    grep -q 'budgets differ' err && fail "$budget: $(cat err)"
    grep -q 1000000000 out && fail "$budget: updates that nobody knows of: $(cat out)"
done
expect 0 'budgets differ: A trains on 1024 tokens, B on 768' duel <(sed 's/^steps: .*/tokens: 1000/' a.yaml) 'steps: 12' --dry-run
expect 0 'A has minutes 0.01 and B 0.02: the budgets differ' duel <(sed 's/^steps: .*/minutes: 0.01/' a.yaml) 'minutes: 0.02' --dry-run
expect 0 'A trains for 0.01 minutes, B on 768 tokens' duel <(sed 's/^steps: .*/minutes: 0.01/' a.yaml) 'steps: 12' --dry-run
if [[ $("$PACER" --version) == *"with "*MPI* ]]; then # ranks share the batches of an evaluation
    expect 0 'pairs; error rate' duel a.yaml 'ranks: 2, steps: 6' --dry-run
    grep -q 'is evaluated on' err && fail "two ranks evaluate what one does: $(cat err)"
fi
[[ ! -e experiments ]] || fail "nothing was to be run, and there is $(find experiments)"

# --- a difference that no seed hides; the budget differs and is told ---

expect 11 'B is worse than A by' duel a.yaml 'lr: 1e-4, steps: 11' --min-pairs 2 --max-pairs 3 --json worse.json --out worse
grep -q 'the budgets differ: A trains on 768 tokens, B on 704' err || fail "unequal budgets are not told"
grep -q '"verdict":[[:space:]]*"worse"' worse.json || fail "worse.json: $(cat worse.json)"
grep -q 'B is worse than A by' worse/report.md || fail "the report has no verdict"
[[ $(done_runs worse) == 6 ]] || fail "$(done_runs worse) runs instead of 6"
# Lengths of different kinds: of what is not given nothing is said.
expect 0 'B: tokens 700: ' duel a.yaml 'tokens: 700' --dry-run
grep -q '^A: steps [0-9]*: ' out || fail "a length that is not given is told: $(cat out)"
sed 's/^steps: .*/flops: 1e8/' a.yaml >flops.yaml
"$PACER" duel flops.yaml 'layers: 2' --min-pairs 2 --max-pairs 2 --out flops >out 2>err
grep -q 'udgets differ' out err flops/report.md && fail "equal FLOP are called different budgets: $(cat out err)"
# once more: nothing is run again, and the order was A B, B A, A B
expect 11 'B is worse than A by' duel a.yaml 'lr: 1e-4, steps: 11' --min-pairs 2 --max-pairs 3 --out worse
grep -q 'run 1/' err && fail "a duel that is over was run again"
[[ $(grep -o '"configuration":[[:space:]]*[01]' worse/experiment.json | grep -o '[01]$' | tr -d '\n') == 011001 ]] ||
    fail "the order of the runs is not A B, B A, A B"
expect 2 'begun with max_pairs 3, not 4' duel a.yaml 'lr: 1e-4, steps: 11' --min-pairs 2 --max-pairs 4 --out worse

# --- the same bits: no difference; equal but for the seed: nothing to be found by two pairs ---

expect 10 'No difference that matters' duel a.yaml 'attention: naive, verify-every: 7' --min-pairs 2 --out same
expect 12 'Undecided after 2 pairs' duel a.yaml 'seed: 100000' --min-pairs 2 --max-pairs 2 --margin 0 --error 0.001 --out seeds

# --- runs that diverge count, and are named ---

expect 11 'B diverged in 2 of 2 runs' duel a.yaml 'lr: 100, clip: 0, steps: 40' --min-pairs 2 --max-pairs 2 --out diverged
grep -q 'diverged' diverged/report.md || fail "the report does not tell of runs that diverged"

# Both from the first pair on: equal losses of models that know nothing are no verdict.
sed 's/^lr: .*/lr: 100/; s/^steps: .*/steps: 40/' a.yaml >wild.yaml
echo 'clip: 0' >>wild.yaml
expect 1 'A and B both diverged with seed 1337, so there is no verdict' duel wild.yaml 'lr: 99' --out both --json both.json
[[ $(tries both) == 2 && ! -e both.json ]] || fail "$(tries both) runs of two configurations that diverge, instead of 2"

# --- a failure ends the duel where it happens, with a status of its own; mended, the same command goes on ---

expect 2 'B: init later (seed 1337) did not come to its end (failed: --init: later: is no folder' duel a.yaml 'init: later' --min-pairs 2 --max-pairs 3 --out early --json early.json
grep -q 'A: init none' err || fail "an option that only one is given has no value for the other"
[[ $(tries early) == 2 && ! -e early.json ]] || fail "$(tries early) runs where the second must fail, instead of 2"
expect 2 'B: init later (seed 1337) did not come to its end' duel a.yaml 'init: later' --min-pairs 2 --max-pairs 3 --out early --jobs 2
(($(tries early) < 4)) || fail "$(tries early) runs where the second must fail, two at once"
"$PACER" train --config a.yaml --out trained --quiet >out 2>err || fail "a model to begin with"
mv trained later
expect 0 'B is better than A by' duel a.yaml 'init: later' --min-pairs 2 --max-pairs 3 --out early
sed 's/builtin:bytes/nowhere/' a.yaml >nowhere.yaml
expect 2 'data nowhere: no such file or folder' duel nowhere.yaml 'lr: 1' --out none
expect 3 'B: lr 1, memory-limit 1000000 cannot be run here' duel a.yaml 'lr: 1, memory-limit: 1M' --out none
[[ ! -e none ]] || fail "what cannot be run was begun"

# --- stopped by Ctrl-C, and gone on with: B is better, by a file, two runs at once ---

"$PACER" duel b.yaml a.yaml --min-pairs 2 --max-pairs 3 --out stopped >out 2>err &
pid=$!
await '[[ -n $(ls stopped/runs 2>/dev/null) ]]'
kill -INT $pid
wait $pid
[[ $? == 130 ]] || fail "Ctrl-C did not end the duel with 130"
expect 0 'B is better than A by' duel b.yaml a.yaml --min-pairs 2 --max-pairs 3 --out stopped --jobs 2 --json -
[[ $(done_runs stopped) == 6 ]] || fail "$(done_runs stopped) runs instead of 6"

# --- a run that cannot be made ends the duel: it says nothing about a configuration ---

run=$(basename "$(find stopped/runs -mindepth 1 -maxdepth 1 -type d | sort | head -1)")
rm -r "stopped/runs/$run"
: >"stopped/runs/$run"
expect 2 'so there is no verdict; the same command tries again' duel b.yaml a.yaml --min-pairs 2 --max-pairs 3 --out stopped
rm "stopped/runs/$run"
expect 0 'B is better than A by' duel b.yaml a.yaml --min-pairs 2 --max-pairs 3 --out stopped
exit $failed
