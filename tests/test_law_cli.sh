#!/usr/bin/env bash
# Sizes by one dial, and recipes of a scaling law that are wrong; test_recipes.sh makes the runs of one.
source "$(dirname "$0")/support/program.sh"

# 2 x 10,000 x 256 of embedding and head; per layer 4 x 256^2 + 3 x 256 x 704 and two norms of 256; the last norm.
expect 0 "$((2 * 10000 * 256 + 4 * (4 * 256 * 256 + 3 * 256 * 704 + 2 * 256) + 256)) parameters" plan --model llama-22m --dial 4
# GPT-2 has no gate: 12 x 128^2 + 13 x 128 per layer, tied, learned positions.
expect 0 "$((50257 * 128 + 1024 * 128 + 2 * (12 * 128 * 128 + 13 * 128) + 2 * 128)) parameters" plan --model gpt2-124m --dial 2
# What is given by itself stands.
expect 0 "$((2 * 10000 * 256 + 2 * (4 * 256 * 256 + 3 * 256 * 704 + 2 * 256) + 256)) parameters" plan --model llama-22m --dial 4 --layers 2
# Heads of another width: d-model 48, feed-forward 128.
expect 0 "$((2 * 10000 * 48 + 3 * (4 * 48 * 48 + 3 * 48 * 128 + 2 * 48) + 48)) parameters" plan --model llama-22m --dial 3 --head-dim 16
# A feed-forward that is asked to have no gate is 4 times as wide.
expect 0 "$((2 * 10000 * 128 + 2 * (4 * 128 * 128 + 2 * 128 * 512 + 2 * 128) + 128)) parameters" plan --model llama-22m --dial 2 --ffn-kind relu2
# A model that is there has its size: the same dial is fine, and another one is not passed over.
sized=(--data builtin:bytes --seq 16 --batch 1 --threads 1 --steps 1 --eval-every 0)
expect 0 'Done' train --model tiny --dial 2 --head-dim 8 --context 16 "${sized[@]}" --out sized
expect 0 'Done' train --init sized --dial 2 "${sized[@]}" --out same
expect 2 '--init sized: its layers is 2, --dial 3 makes it 3' train --init sized --dial 3 "${sized[@]}" --out other

recipe() { # LAW, then more keys on stdin
    cat <<YAML
name: law
base: {model: tiny, data: "builtin:bytes", context: 16, batch: 1, threads: 1}
law: $1
YAML
    cat
}
grid='dials: [1, 2, 3], budgets: [4e10, 8e10, 1.6e11]'
recipe "{$grid, largest: {dial: 2, flops: 6e11}}" <<<'' >law.yaml
expect 0 '10 runs of 10 configurations' sweep law.yaml --dry-run
grep -q '^10 *dial 2' out || fail "the largest run is not the last one"
# Equal FLOP: steps of dial 2 double with the budget.
awk '/^2 .*dial 2/ { a = $5 } /^5 .*dial 2/ { b = $5 } END { exit !(b >= 2 * a - 1 && b <= 2 * a + 1) }' out ||
    fail "steps do not follow the budget: $(cat out)"
# A largest run that is a point of the grid is held out of it, not dropped.
recipe "{dials: [1, 2, 3, 4], budgets: [4e11, 8e11, 1.6e12], largest: {dial: 2, flops: 1.6e12}}" <<<'' >law.yaml
expect 0 '12 runs of 12 configurations' sweep law.yaml --dry-run
grep -q 'dial 2, steps .* is the largest run and a point of the grid; it is held out' err || fail "not said: $(cat err)"
[[ $(grep -c 'dial 2' out) == 3 ]] && grep -q '^12 *dial 2' out || fail "a largest run of the grid: $(cat out)"
recipe "{$grid}" <<<'axes: [{lr: [1e-3, 2e-3]}]' >law.yaml
expect 2 'law makes all runs of its recipe; leave out axes' sweep law.yaml --dry-run
recipe "{dials: [1, 2], budgets: [1e7]}" <<<'' >law.yaml
expect 2 'FLOP pay for at least 100 updates of 0 of the dials' sweep law.yaml --dry-run
recipe "{dials: [1, 2, 3], budgets: [4e10, 8e10]}" <<<'' >law.yaml
expect 2 '2 budgets; give at least 3' sweep law.yaml --dry-run
recipe "{dials: [1.5], budgets: [1e9]}" <<<'' >law.yaml
expect 2 'a dial is a whole number' sweep law.yaml --dry-run
recipe "{dials: [1, 2, 3, 2], budgets: [4e10]}" <<<'' >law.yaml
expect 2 'dials: 2 is there twice' sweep law.yaml --dry-run
recipe "{dials: [1, 2, 3], budgets: [4e10, 8e10, 4e10]}" <<<'' >law.yaml
expect 2 'budgets: 4e+10 is there twice' sweep law.yaml --dry-run
for around in 0 0.5 1.5 -1 x; do
    recipe "{$grid, around: $around}" <<<'' >law.yaml
    expect 2 'around' sweep law.yaml --dry-run
done
recipe "{dials: [1, 2]}" <<<'' >law.yaml
expect 2 'law needs the key budgets' sweep law.yaml --dry-run
recipe "{$grid, largest: {dial: 2}}" <<<'' >law.yaml
expect 2 'largest needs the key flops' sweep law.yaml --dry-run
recipe "{dials: [1], budgets: [1e29]}" <<<'' >law.yaml
expect 2 'give a smaller budget' sweep law.yaml --dry-run
for key in 'steps: 20' 'minutes: 1' 'dial: 3' 'batch-ramp: "1@0,2@50%"'; do
    recipe "{$grid}" <<<'' | sed "s/threads: 1/threads: 1, $key/" >law.yaml
    expect 2 "leave ${key%%:*} out of base" sweep law.yaml --dry-run
done

# Where every budget's best size is the least of the grid nothing is registered and the largest run is not made, as
# often as it is asked for; with the dials that are named it is, and what was made is not made again.
ends() { # DIALS
    cat <<YAML
name: ends
base: {model: tiny, data: "builtin:bytes", head-dim: 8, context: 16, vocab: 0, batch: 2, lr: 8e-3, threads: 1,
  eval-batches: 20, tensorboard: off, log-every: 1000}
law: {dials: [$1], budgets: [3.6e9, 4.5e9, 5.6e9], largest: {dial: 6, flops: 4e9}}
checkpoints: remove
YAML
}
ends '3, 4, 5' >law.yaml
for _ in first second; do
    expect 1 'dial 6, steps 114 is not made: the minimum is not inside the grid at 3.6e+09 FLOP (the least size is best)' sweep law.yaml --out ends
    grep -q 'give the law smaller dials' err || fail "not said what to do: $(cat err)"
    [[ ! -e ends/prediction.json && $(ls -d ends/runs/*/ | wc -l) == 9 ]] || fail "registered all the same: $(ls ends ends/runs)"
done
grep -q 'run 1/' err && fail "runs of a law are made again: $(cat err)"
grep -q 'Unsafe: the minimum is not inside the grid' ends/report.md || fail "the report does not say so"
grep -q 'Caution:.*these runs do not tell the best size for a budget' ends/report.md || fail "no finding says so"
ends '1, 2, 3, 4, 5' >law.yaml
expect 0 'dial 6, steps 114: predicted at' sweep law.yaml --out ends
[[ -s ends/prediction.json ]] && grep -q 'had been predicted from the smaller ones' ends/report.md || fail "the prediction is not there"

# A law that tells: the size for its greatest budget, from records on an H200.
cp -r "$(dirname "${BASH_SOURCE[0]}")/../docs/results/scaling-law-h200" told
expect 0 '' report told
grep -q '^2\. For 2.4e+16 FLOP train 15\.[0-9]* M parameters (95 % interval 9\..* M to 2.* M) on 3.* M tokens\.' told/report.md ||
    fail "not the second finding: $(grep '^[12]\. ' told/report.md)"
exit $failed
