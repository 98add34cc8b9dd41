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

grep -q '^1\. The largest batch that costs at most .* nats at equal tokens: [0-9]* sequences at update 3, 8 at update 6' sweep/report.md ||
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
exit $failed
