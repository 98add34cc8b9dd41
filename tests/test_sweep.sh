#!/usr/bin/env bash
# `pacer sweep` from the outside: killed at any moment it goes on and does nothing twice; what does not fit, fails or
# takes too long is a row of its own; bad recipes are named by line before anything runs.
source "$(dirname "$0")/support/program.sh"

recipe() { # NAME, then the rest of the recipe on stdin
    cat <<YAML
name: $1
base:
  model: tiny
  layers: 1
  d-model: 16
  heads: 2
  ffn: 32
  context: 16
  data: builtin:bytes
  threads: 1
  schedule: constant
  warmup: 0
  eval-every: 0
  log-every: 1
YAML
    cat
}

# of FILE KEY...: values of a key in experiment.json, one per line.
values() { grep -o "\"$2\":[[:space:]]*[^,}]*" "$1" | sed 's/^[^:]*:[[:space:]]*//; s/"//g'; }
is_done() { grep -q '"status":[[:space:]]*"done"' "$1/run.json" 2>/dev/null; }
children() { processes "train .*--out=$1/runs/"; }

# --- recipes that are wrong ---

recipe bad <<<'  batsh: 2
axes: [{seq: [8]}]' >bad.yaml
expect 2 'bad.yaml:15: unknown option' sweep bad.yaml
recipe bad <<<'axes: [{heads: [2, 3]}]' >bad.yaml
expect 2 'heads 3' sweep bad.yaml
recipe bad <<<'axes: [{data: [no/such, "builtin:stories"]}]' >bad.yaml
expect 2 'no/such' sweep bad.yaml --dry-run
recipe bad <<<'axes: [{model: [tiny, tinny]}]' >bad.yaml
expect 2 'did you mean tiny' sweep bad.yaml --dry-run
recipe bad <<<'axes: [{seq: [8]}]' >bad.yaml
expect 2 'no key smoke' sweep bad.yaml --smoke
expect 2 'is not an option of sweep' sweep bad.yaml --batch 4
expect 2 'none.yaml' sweep none.yaml
expect 2 'RECIPE.yaml' sweep
[[ ! -e experiments ]] || fail "a recipe that is wrong left $(find experiments)"

# --- killed twice at random moments, and continued ---

recipe killed <<'YAML' >killed.yaml
  steps: 600
  save-every: 40
axes:
  - batch: [2, 4]
  - lr: [1e-3, 2e-3]
YAML
expect 0 '4 runs of 4 configurations, 4 to be made' sweep killed.yaml --dry-run
[[ ! -e experiments ]] || fail "a dry run left $(find experiments)"

finished() { local dir; for dir in killed/runs/*/; do is_done "$dir" && cksum "${dir}run.json" "${dir%/}.log"; done; }
for attempt in 1 2; do
    "$PACER" sweep killed.yaml --out killed >out 2>err &
    pid=$!
    before=$(cat killed/runs/*/metrics.jsonl 2>/dev/null | wc -l)
    more=$((before + 1 + RANDOM % 800)) # of 2400 updates in all
    await '(($(cat killed/runs/*/metrics.jsonl 2>/dev/null | wc -l) >= more))'
    kill -9 $pid && wait $pid 2>/dev/null
    [[ -s killed/experiment.json ]] || fail "no experiment.json after kill $attempt"
    [[ $attempt == 2 ]] && break # the next sweep meets the child that this one left
    await '[[ -z $(children killed) ]]'
    finished >finished-before
done
"$PACER" sweep killed.yaml --out killed >out 2>err || fail "the sweep that goes on ended with $?"
[[ $(values killed/experiment.json state | sort | uniq -c | tr -s ' ') == ' 4 done' ]] || fail "states: $(values killed/experiment.json state)"
[[ $(find killed/runs -mindepth 1 -maxdepth 1 -type d | wc -l) == 4 ]] || fail "not 4 runs: $(ls killed/runs)"
finished >finished-after
grep -qvxFf finished-after finished-before && fail "a run that was done was touched again"
for dir in killed/runs/*/; do
    [[ -z $(grep -o '"step":[0-9]*' "${dir}metrics.jsonl" | sort | uniq -d) ]] || fail "$dir: a step twice"
    [[ $(grep -c '"loss"' "${dir}metrics.jsonl") == 600 ]] || fail "$dir: not 600 steps"
done
[[ -z $(children killed) ]] || fail "children are left: $(children killed)"
echo "killed the first time with $(grep -c run.json finished-before) of 4 runs done"

# Done is done: repeated, and with a run more.
stamp=$(cksum killed/runs/*/run.json killed/runs/*.log)
"$PACER" sweep killed.yaml --out killed >out 2>err || fail "a finished sweep repeated ended with $?"
sed -i 's/\[1e-3, 2e-3\]/[1e-3, 0.002]/; s/batch: \[2, 4\]/batch: [4, 2]/' killed.yaml
"$PACER" sweep killed.yaml --out killed >out 2>err || fail "an edited sweep ended with $?"
[[ $(cksum killed/runs/*/run.json killed/runs/*.log) == "$stamp" ]] || fail "a finished run was touched again"

# A folder of runs is checked run by run.
expect 0 'the worst' check killed
[[ $(sed -n 's/^\(killed.runs.[0-9a-f]*\): [0-9]* checks, the worst: .*/\1/p' out) == "$(ls -d killed/runs/*[^g])" ]] ||
    fail "not each run is checked: $(cat out)"
cp -r killed damaged
for run in damaged/runs/*/run.json; do echo '{' >"$run" && break; done
expect 2 'damaged: 1 of 4 runs not checked' check damaged

# Without its record of states the sweep finds out by itself what is done; another experiment's folder is refused.
sed -i 's/"done"/"waiting"/; s/"finished":.*/"finished": false,/' killed/experiment.json
"$PACER" sweep killed.yaml --out killed >out 2>err || fail "a sweep with a wrong record ended with $?"
[[ $(cksum killed/runs/*/run.json killed/runs/*.log) == "$stamp" ]] || fail "a wrong record made a run again"
expect 2 'is of the experiment killed' sweep bad.yaml --out killed

# --- interrupted ---

recipe stopped <<'YAML' >stopped.yaml
  steps: 100000
axes: [{batch: [2]}]
YAML
"$PACER" sweep stopped.yaml --out stopped >out 2>err &
pid=$!
await '[[ -s $(echo stopped/runs/*/metrics.jsonl) ]]'
expect 2 'another pacer sweep' sweep stopped.yaml --out stopped
kill -TERM $pid
wait $pid
status=$?
[[ $status == 143 ]] || fail "SIGTERM gave exit $status"
[[ $(values stopped/experiment.json state) == stopped ]] || fail "stopped: $(values stopped/experiment.json state)"
[[ -e $(echo stopped/runs/*/ckpt/latest/state.json) ]] || fail "a stopped run did not save"
[[ -z $(children stopped) ]] || fail "children are left: $(children stopped)"

# --- rows that are no success ---

recipe rows <<YAML >rows.yaml
  memory-limit: $(limit 64)
  clip: 0
axes:
  - batch: [2, 100000, 2]
    steps: [20, 20, 400]
    lr: [1e-3, 1e-3, 100]
    weight-decay: [0, 0, 10]
YAML
recipe late <<'YAML' >late.yaml
  steps: 10M
timeout: 2s
axes: [{batch: [2]}]
YAML
expect 0 'does not fit' sweep rows.yaml --out rows --dry-run
expect 1 '1 of 3 runs did not come to their end' sweep rows.yaml --out rows
states=$(values rows/experiment.json state | tr '\n' ' ')
[[ $states == 'done refused failed ' ]] || fail "states: $states"
grep -q '"reason":.*largest that fits is --batch' rows/experiment.json || fail "the refusal has no reason"
grep -q '"reason":.*became' rows/experiment.json || fail "the failure has no reason: $(grep reason rows/experiment.json)"
[[ $(values rows/experiment.json exit | tr '\n' ' ') == '0 3 1 ' ]] || fail "exits: $(values rows/experiment.json exit)"
[[ $(ls rows/runs/*.log | wc -l) == 3 ]] || fail "logs: $(ls rows/runs)"
expect 1 '1 of 1 runs did not come to their end' sweep late.yaml --out late
[[ $(values late/experiment.json state) == timeout ]] || fail "late: $(values late/experiment.json state)"
grep -q '"reason":.*timeout' late/experiment.json || fail "the timeout has no reason"

# --- several at once ---

# A program that is replaced meanwhile, as by a build, makes all runs of the sweep.
recipe replaced <<'YAML' >replaced.yaml
  steps: 2
axes: [{lr: [1e-3, 2e-3, 3e-3]}]
YAML
cp "$PACER" program
cp "$PACER" other
./program sweep replaced.yaml --out replaced >out 2>err &
pid=$!
await '[[ -e replaced/experiment.json ]]'
mv other program
wait $pid || fail "a sweep whose program was replaced ended with $?"
[[ $(values replaced/experiment.json state | tr '\n' ' ') == 'done done done ' ]] ||
    fail "replaced: $(values replaced/experiment.json state)"

if (($(nproc) > 1)); then
    recipe jobs <<'YAML' >jobs.yaml
  steps: 40
axes: [{lr: [1e-3, 2e-3, 3e-3, 4e-3, 5e-3]}]
YAML
    expect 0 'run 5/5' sweep jobs.yaml --out one
    expect 0 'run 5/5' sweep jobs.yaml --out two --jobs 2
    losses() { values "$1/runs/$2/run.json" train_loss; }
    for run in $(values one/experiment.json id); do
        [[ -n $(losses one "$run") && $(losses one "$run") == "$(losses two "$run")" ]] ||
            fail "run $run: loss $(losses one "$run") alone, $(losses two "$run") beside another"
    done
    [[ $(values two/experiment.json jobs) == 2 ]] || fail "the record does not say how many were made at once"
    # Stopped, both of the runs under way save, and the same command goes on.
    sed -i 's/steps: 40/steps: 1M/; s/\[1e-3.*5e-3\]/[1e-3, 2e-3, 3e-3]/' jobs.yaml
    "$PACER" sweep jobs.yaml --out both --jobs 2 >out 2>err &
    pid=$!
    await '(($(cat both/runs/*/metrics.jsonl 2>/dev/null | grep -c "\"step\":1,") == 2))'
    kill -TERM $pid
    wait $pid
    status=$?
    [[ $status == 143 ]] || fail "SIGTERM with two runs gave exit $status"
    [[ $(values both/experiment.json state | tr '\n' ' ') == 'stopped stopped waiting ' ]] || fail "both: $(values both/experiment.json state)"
    [[ $(ls -d both/runs/*/ckpt/latest | wc -l) == 2 ]] || fail "not both runs saved"
    [[ -z $(children both) ]] || fail "children are left: $(children both)"
fi
expect 2 'processors here; give at most that' sweep jobs.yaml --out many --jobs 1000

((failed)) || echo "all of pacer sweep holds"
exit $failed
