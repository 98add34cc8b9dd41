#!/usr/bin/env bash
# --noise-scale from the outside: the training is the same with it, resume is exact, ranks measure
# what single runs say of their sequences, and what cannot be measured is refused.
# shellcheck source=tests/support/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

small=(--model tiny --data builtin:bytes --layers 2 --d-model 32 --heads 2 --ffn 48 --context 32 --seq 32
    --threads 1 --log-every 1 --eval-every 0 --quiet)
train() { "$PACER" train "${small[@]}" "$@" 2>err || fail "train $* ended with $?"; }
same() { cmp -s "$1/ckpt/latest/model.safetensors" "$2/ckpt/latest/model.safetensors" &&
    cmp -s "$1/ckpt/latest/optimizer.safetensors" "$2/ckpt/latest/optimizer.safetensors"; }
# of RUN FIELD: its values, line by line
of() { sed -n 's/.*"'"$2"'":\([^,}]*\).*/\1/p' "$1/metrics.jsonl"; }
noise() { of "$1" noise_scale; of "$1" noise_error; of "$1" noise_tokens; }

# The same bits with and without; and measured they are.
train --batch 2 --accum 3 --steps 9 --out plain
train --batch 2 --accum 3 --steps 9 --noise-scale --save-every 4 --keep 0 --out noise
same plain noise || fail "--noise-scale changes the training"
[[ $(noise noise | wc -l) -gt 20 ]] || fail "9 lines with a noise scale expected"
[[ -z $(noise plain) ]] || fail "a noise scale that nobody asked for"
grep -q '"noise_tokens":[[:space:]]*[0-9]' noise/run.json || fail "the summary has no noise scale"

# A run that goes on from step 4 has the same sums.
train --batch 2 --accum 3 --steps 9 --noise-scale --resume noise/ckpt/step-4 --out resumed
[[ $(noise resumed | sort) == "$(noise noise | sort | grep -Fxf <(noise resumed))" ]] ||
    fail "a resumed run has another noise scale"
sums() { grep -o '"noise":[^,]*' "$1/ckpt/latest/state.json"; }
[[ -n $(sums noise) && $(sums resumed) == "$(sums noise)" ]] || fail "a resumed run has other sums"

# A recommendation stays below it.
most=$(sed -n 's/.*"noise_tokens":[[:space:]]*\([0-9]*\).*/\1/p' noise/run.json | head -1)
tiny=(--model tiny --layers 2 --d-model 32 --heads 2 --ffn 48 --context 32 --seq 32 --vocab 257 --threads 1)
expect 0 "larger updates waste tokens" plan "${tiny[@]}" --recommend --attention flash --recompute none --noise-from noise
batch=$(sed -n 's/^pacer train.*--batch \([0-9]*\).*/\1/p' out)
((batch >= 1 && (batch == 1 || batch * 32 <= most))) || fail "--noise-from: batch $batch for a noise scale of $most tokens"
mkdir tight
sed 's/"noise_tokens":[^,]*/"noise_tokens": 20/' noise/run.json >tight/run.json
expect 0 "is the largest up to the noise scale" plan "${tiny[@]}" --recommend --attention flash --recompute none --noise-from tight
expect 2 "the run has no noise scale" plan "${tiny[@]}" --recommend --noise-from plain
[[ ! -s out ]] || fail "a run without a noise scale is told late: $(cat out)"
expect 2 "goes with --recommend" plan "${tiny[@]}" --noise-from noise

# One micro-step on one rank: from the gains of the norms, by sequence. The same bits, and it says where it is from.
train --batch 6 --steps 9 --out single
train --batch 6 --steps 9 --noise-scale --save-every 4 --keep 0 --out gains
same single gains || fail "--noise-scale from norms changes the training"
grep -q '"noise_source":[[:space:]]*"norm gains"' gains/run.json || fail "a noise scale of the gains is not named so"
grep -q '"noise_source":[[:space:]]*"gradient"' noise/run.json || fail "a noise scale of the gradient is not named so"
[[ $(of gains noise_scale | wc -l) -gt 5 ]] || fail "no noise scale from the gains"
train --batch 6 --steps 9 --noise-scale --resume gains/ckpt/step-4 --out gains-resumed
[[ $(sums gains-resumed) == "$(sums gains)" ]] || fail "a resumed run has other sums from the gains"
"$PACER" report gains --out gains-page >out 2>err && grep -q "norms' gains" gains-page/report.md ||
    fail "the report does not say where the noise scale is from"
expect 0 "of the norms' gains alone: an order of size" plan "${tiny[@]}" --recommend --attention flash --recompute none --noise-from gains
# Another source after a resume begins anew: sums of the two do not mix.
train --batch 3 --accum 2 --steps 6 --noise-scale --resume gains/ckpt/step-4 --out source
[[ $(of source noise_scale | wc -l) -le 2 && $(grep -o '"noise_gains":[^,]*' source/ckpt/latest/state.json) == *false ]] ||
    fail "sums of two sources are mixed"
expect 2 "an update of one sequence has one gradient alone" train "${small[@]}" --batch 1 --noise-scale --out one
expect 0 "the smallest updates of --batch-ramp 4@0,8@50% have one gradient alone" train "${small[@]}" --batch 4 \
    --batch-ramp 4@0,8@50% --steps 4 --noise-scale --out ramp
[[ $(of ramp noise_scale | wc -l) == 2 ]] || fail "a ramp has $(of ramp noise_scale | wc -l) updates with a noise scale"
expect 0 "all updates of --batch-ramp 4@0 have" train "${small[@]}" --batch 4 --batch-ramp 4@0 --steps 2 --noise-scale --out never
expect 0 'gradient noise scale' train "${small[@]/--quiet/--no-tensorboard}" --batch 2 --accum 2 --steps 1 --noise-scale --out first
grep -q 'gradient noise scale [0-9.e+-]* sequences (' out err || fail "one update has no error: $(grep 'noise scale' out err)"

# Two ranks with weights that stand still (rate 0): the norms of their own gradients are those that one
# rank alone has, update by update, on the same sequences.
if [[ $("$PACER" --version) == *"with "*MPI* ]] && command -v mpirun >/dev/null; then
    [[ -n ${ASAN_OPTIONS:-} ]] && export ASAN_OPTIONS=detect_leaks=0
    still=(--lr 0 --min-lr 0 --weight-decay 0 --clip 0)
    train "${still[@]}" --batch 3 --steps 6 --out alone
    for ddp in naive flat overlap zero1 zero2 zero3; do
        train "${still[@]}" --batch 3 --ranks 2 --ddp $ddp --bucket-mb 0 --steps 3 --noise-scale --out two-$ddp
        paste -d ' ' <(of alone grad_norm | paste -d ' ' - -) <(of two-$ddp grad_norm) <(of two-$ddp noise_scale) |
            awk '{
                    piece = ($1 * $1 + $2 * $2) / 2; whole = $3 * $3
                    trace = 0.98 * trace + 3 * 2 * (piece - whole); mean = 0.98 * mean + 2 * whole - piece
                    d = $4 / (trace / mean) - 1; if (NF != 4 || !(d < 1e-4 && d > -1e-4)) { print; bad = 1 }
                }
                END { exit bad || NR != 3 }' >err || fail "--ddp $ddp: not the noise scale of its ranks"
    done
    train --batch 3 --ranks 2 --accum 2 --steps 3 --out pair
    train --batch 3 --ranks 2 --accum 2 --steps 3 --noise-scale --out pair-noise
    same pair pair-noise || fail "--noise-scale changes the training of two ranks"
fi
exit $failed
