#!/usr/bin/env bash
# A sweep of branches: each goes on from the trunk of its repeat, weights and optimizer state included, for
# equal tokens; one with the trunk's own options is the trunk going on, to the bit.
# shellcheck source=tests/support/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

cat >recipe.yaml <<'YAML'
name: branches
base: {model: tiny, data: builtin:bytes, layers: 1, d-model: 32, heads: 2, ffn: 48, context: 32, seq: 32, threads: 1,
  batch: 2, tokens: 512, lr: 2e-3, schedule: constant, warmup: 2, eval-every: 1000, eval-batches: 4, noise-scale: on}
trunk: {accum: 2, steps: 6, save-every: 3}
axes:
  - branch-at: [3, 6]
  - accum: [2, 4]
lr-rule: {rule: sqrt, at: 4}
tolerance: 0.5
repeats: 2
tables: [{title: All, per: run, columns: [branch-at, accum, lr, repeat, steps, tokens, val_loss]}]
YAML
"$PACER" sweep recipe.yaml --out sweep --quiet >out 2>err || fail "sweep ended with $?"
[[ $(ls sweep/trunk/runs | grep -vc log) == 2 ]] || fail "two trunks expected: $(ls sweep/trunk/runs)"
sed -n '/^## All/,/^## /p' sweep/report.md | grep '^| [36]' >rows
# branch-at, accum, rate, repeat, updates (512 tokens are 4 updates of 128), tokens in all
for row in '3 | 2 | 0.002 | 1 | 7 | 896' '3 | 4 | 0.00282842712 | 2 | 5 | 896' '6 | 4 | 0.00282842712 | 1 | 8 | 1280'; do
    grep -qF "| $row |" rows || fail "no branch '$row' in $(cat rows)"
done
grep -q 'At update 6 the largest batch without loss is 8 sequences, the largest tried' sweep/report.md ||
    fail "no verdict at update 6: $(grep 'At update' sweep/report.md)"

grep -q '^1\. The largest batch that costs at most .* nats at equal tokens: [0-9]* sequences.* at update 3, 8 (the largest tried) at update 6' sweep/report.md ||
    fail "not the first finding: $(grep '^1\. ' sweep/report.md)"

# The trunk with its own seed, never left: 3 + 4 updates.
"$PACER" train --model tiny --data builtin:bytes --layers 1 --d-model 32 --heads 2 --ffn 48 --context 32 --seq 32 \
    --threads 1 --batch 2 --accum 2 --steps 7 --lr 2e-3 --schedule constant --warmup 2 --eval-every 0 --seed 1338 \
    --quiet --out whole 2>err || fail "the trunk never left ended with $?"
found=
for run in sweep/runs/*/; do
    cmp -s "$run/ckpt/step-7/model.safetensors" whole/ckpt/step-7/model.safetensors &&
        cmp -s "$run/ckpt/step-7/optimizer.safetensors" whole/ckpt/step-7/optimizer.safetensors && found=$run
done
[[ -n $found ]] || fail "no branch is the trunk going on"

small=(--model tiny --data builtin:bytes --layers 1 --d-model 32 --heads 2 --ffn 48 --context 32 --seq 32 --batch 2 --quiet)
expect 2 "give --resume DIR" train "${small[@]}" --branch-at 3 --out x
expect 2 "has no checkpoint of that update" train "${small[@]}" --branch-at 4 --resume "$(ls -d sweep/trunk/runs/*/ | head -1)" --seed 1337 --out x
expect 2 "minutes exclude each other" train "${small[@]}" --branch-at 3 --resume x --minutes 3 --out x
sed '/^trunk/d' recipe.yaml >bad.yaml
expect 2 "branch-at without a trunk" sweep bad.yaml --dry-run

# What is wrong with branches is said before the trunk is trained.
refused() { # EDIT MESSAGE
    sed "$1" recipe.yaml >bad.yaml
    expect 2 "$2" sweep bad.yaml --out bad
    [[ ! -e bad ]] || fail "runs were made before '$2'"
}
refused 's/branch-at: \[3, 6\]/branch-at: [3, 5]/' 'branch-at 5: the trunk has 6 updates and keeps checkpoints of every 3'
refused 's/branch-at: \[3, 6\]/branch-at: [3, 9]/' 'branch-at 9: the trunk has 6 updates'
refused 's/, save-every: 3//' 'branch-at 3: the trunk has 6 updates and keeps checkpoints of the last one'
refused 's/tokens: 512/steps: 4/' 'branches are compared at equal tokens, but "branch-at 3, accum 2" goes on for 512 and "branch-at 3, accum 4" for 1024'
refused 's/tokens: 512/minutes: 1/' 'branch-at and minutes exclude each other'
refused 's/trunk: {/trunk: {seed: 5, /' 'seed cannot change where a branch leaves its trunk'
refused 's/- accum: \[2, 4\]/- d-model: [32, 64]/' 'd-model cannot change where a branch leaves its trunk'
refused 's/tolerance: 0.5/tolerance: -0.5/' 'tolerance: nats of loss, from 0 on'
exit $failed
