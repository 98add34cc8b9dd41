#!/usr/bin/env bash
# Updates that change their size along a run, and runs of so many FLOP or minutes, from the outside.
# shellcheck source=tests/support/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

small=(--model tiny --data builtin:bytes --layers 2 --d-model 32 --heads 2 --ffn 48 --context 32 --seq 32
    --threads 1 --log-every 1 --eval-every 0)
train() { "$PACER" train "${small[@]}" --quiet "$@" 2>err || fail "train $* ended with $?"; }
same() { cmp -s "$1/ckpt/latest/model.safetensors" "$2/ckpt/latest/model.safetensors" &&
    cmp -s "$1/ckpt/latest/optimizer.safetensors" "$2/ckpt/latest/optimizer.safetensors"; }
# of RUN FIELD: its values, line by line
of() { sed -n 's/.*"'"$2"'":\([^,}]*\).*/\1/p' "$1/metrics.jsonl"; }

# A ramp is what one gets by stopping and going on with another --accum: the same sequences, the same
# bits. 6 updates of 4 sequences, 3 of 10, 3 of 2.
still=(--batch 2 --schedule constant --warmup 0 --lr 2e-3)
train "${still[@]}" --batch-ramp 4@0,10@50%,2@75% --ramp-lr same --steps 12 --save-every 4 --keep 0 --noise-scale --out ramp
train "${still[@]}" --accum 2 --steps 6 --out legs
train "${still[@]}" --accum 5 --steps 9 --out legs
train "${still[@]}" --accum 1 --steps 12 --out legs
same ramp legs || fail "a ramp is not the same as legs with other --accum"
[[ $(of ramp tokens) == "$(of legs tokens)" && $(of ramp tokens | tail -1) == $((32 * (6 * 4 + 3 * 10 + 3 * 2))) ]] ||
    fail "tokens along the ramp: $(of ramp tokens | tr '\n' ' ')"
"$PACER" check ramp >out || fail "check of a ramp: $(grep -v pass out)"

# In the middle of a ramp a run goes on to the same bits, and its record holds.
for step in 4 8; do
    cp -r ramp/ckpt/step-$step from
    train "${still[@]}" --batch-ramp 4@0,10@50%,2@75% --ramp-lr same --steps 12 --noise-scale --resume from --out again-$step
    same ramp again-$step || fail "resume at step $step of a ramp differs"
    [[ $(of again-$step noise_scale | tail -1) == "$(of ramp noise_scale | tail -1)" ]] ||
        fail "resume at step $step: another noise scale"
    "$PACER" check again-$step >out || fail "check of a ramp resumed at $step: $(grep -v pass out)"
    rm -r from
done

# Without the ramp it goes on, and says so.
"$PACER" train "${small[@]}" "${still[@]}" --accum 2 --steps 13 --resume ramp/ckpt/latest --out plain >out 2>err ||
    fail "a ramp that is left out: $?"
grep -q 'Going on with no --batch-ramp, the default, where it was 4@0' err || fail "a ramp that is left out is not told"
# Its own record then holds, and one of a run that had a ramp in between, too.
cp -r ramp/ckpt/step-4 from
train "${still[@]}" --batch-ramp 4@0,10@50%,2@75% --ramp-lr same --steps 12 --resume from --out dropped
train "${still[@]}" --accum 3 --steps 16 --out dropped
"$PACER" check dropped >out || fail "check of a run whose ramp was left out: $(grep -v pass out)"
train "${still[@]}" --batch-ramp 4@0,6@90% --steps 20 --out dropped
train "${still[@]}" --accum 1 --steps 22 --out dropped
"$PACER" check dropped >out || fail "check of a run with a ramp in between: $(grep -v pass out)"
sed -i '$s/"tokens":[0-9]*/"tokens":1/' dropped/metrics.jsonl
"$PACER" check dropped >out 2>err && fail "a line with wrong tokens passes after a ramp"
# A budget of another kind: what is no longer given is no 0.
"$PACER" train "${small[@]}" "${still[@]}" --accum 2 --tokens 5k --resume ramp/ckpt/latest --out kind >out 2>err ||
    fail "another kind of budget: $?"
grep -q 'another --steps: 12 -> not given' err && grep -q 'another --tokens: not given -> 5000' err ||
    fail "another kind of budget is told as $(grep 'another --' err)"
# A record whose lines do not follow its ramp is found out.
cp -r ramp wrong
sed -i '8s/"tokens":[0-9]*/"tokens":1409/' wrong/metrics.jsonl
"$PACER" check wrong >out 2>err && fail "a line with wrong tokens passes"
grep -q 'line_tokens.*: fail' out || fail "wrong tokens: $(grep -v pass out)"

# The rate rises with the root of the batch, and the last update has its floor.
train --batch 2 --batch-ramp 2@0,8@50% --tokens 2560 --lr 1e-3 --min-lr 0 --warmup 0 --schedule linear --out rates
of rates lr | awk '
    { micro += NR <= 20 ? 1 : 4; e = 1e-3 * (1 - (micro - 1) / 39) * (NR <= 20 ? 1 : 2)
      d = $1 - e; if (d > 1e-12 || d < -1e-12) { print NR, $1, e; bad = 1 } }
    END { exit bad || NR != 25 }' >err || fail "rates of a ramp"

# --flops: whole updates of the FLOP that the plan counts.
flop=$("$PACER" plan "${small[@]}" --batch 2 --accum 2 --steps 1 | sed -n 's/Work: \([^ ]*\) FLOP per update.*/\1/p')
train --batch 2 --accum 2 --flops "$(awk -v f="$flop" 'BEGIN { print 7.3 * f }')" --out flops
[[ $(of flops step | tail -1) == 7 ]] || fail "--flops for 7.3 updates made $(of flops step | tail -1)"
# A budget is of the model's own work: it buys the same tokens when blocks are computed twice, and with Muon, whose
# products are per update, also along a ramp.
budget=$(awk -v f="$flop" 'BEGIN { print 12.2 * f }')
for sizes in '--accum 2' '--batch-ramp 2@0,8@50%'; do
    for more in '' '--recompute block' '--optimizer muon --lr 1e-3'; do
        # shellcheck disable=SC2086
        "$PACER" plan "${small[@]}" --batch 2 $sizes $more --flops "$budget" >plan 2>err || fail "plan $more: $(cat err)"
        tokens=$(sed -n 's/^Work: .* \([0-9]*\) tokens$/\1/p' plan)
        plain=${more:+$plain}
        [[ $tokens == "${plain:=$tokens}" ]] || fail "--flops with $sizes $more: $tokens tokens instead of $plain"
        [[ $more == '' ]] || grep -q "are the model's own" plan || fail "the model's own FLOP with $more: $(cat plan)"
    done
done

# A budget of tokens is one of the whole run, whatever updates were before; a stop in between changes no bit.
train --batch 8 --tokens 3800 --out budget
for out in budget.on whole.on; do
    train --batch 2 --tokens 4k --save-every 1 --keep 0 --resume budget --out $out
done
[[ $(of budget.on tokens | tail -1) == 4032 ]] || fail "--tokens 4000 made $(of budget.on tokens | tail -1)"
cp -r "$(ls -d budget.on/ckpt/step-* | sort -t- -k2n | tail -2 | head -1)" budget.from
train --batch 2 --tokens 4k --resume budget.from --out stopped-there
same stopped-there whole.on || fail "a budget that is resumed twice differs"
"$PACER" check stopped-there >out || fail "check of a budget over two sizes: $(grep -v pass out)"

# --minutes: ends by itself at the floor's rate, keeps the time that it used, and goes on with more of it.
train --batch 2 --accum 2 --minutes 0.005 --lr 1e-3 --min-lr 1e-4 --out minutes
[[ $(of minutes lr | tail -1) == 0.0001 ]] || fail "--minutes ends at rate $(of minutes lr | tail -1)"
[[ $(of minutes step | tail -1) -gt 1 ]] || fail "--minutes made no updates"
grep -q '"status":[[:space:]]*"done"' minutes/run.json || fail "a run of minutes is not done"
"$PACER" check minutes >out || fail "check of a run of minutes: $(grep -v pass out)"
steps=$(of minutes step | tail -1)
"$PACER" train "${small[@]}" --batch 2 --accum 2 --minutes 0.005 --lr 1e-3 --min-lr 1e-4 --out minutes 2>&1 |
    grep -q "Nothing to do.*give more --minutes" || fail "--minutes: a finished run goes on"
train --batch 2 --accum 2 --minutes 0.008 --lr 1e-3 --min-lr 1e-4 --out minutes
[[ $(of minutes step | tail -1) -gt $steps && $(of minutes lr | tail -1) == 0.0001 ]] || fail "--minutes: no more time"

# What was used before a stop is used: with a budget below that nothing is left.
"$PACER" train "${small[@]}" --quiet --batch 2 --accum 2 --minutes 1000 --out stopped 2>err &
pid=$!
await '[[ -s stopped/metrics.jsonl && $(wc -l <stopped/metrics.jsonl) -ge 5 ]]'
kill -INT $pid
wait $pid
[[ $? == 130 ]] || fail "--minutes: Ctrl-C"
used=$(sed -n 's/.*"clock_s":[[:space:]]*\([^,]*\),/\1/p' stopped/ckpt/latest/state.json)
awk -v used="$used" 'BEGIN { exit !(used > 0 && used < 60000) }' || fail "a stopped run has used '$used' seconds"
train --batch 2 --accum 2 --minutes 1e-6 --out stopped
cmp -s <(of stopped step | tail -1) <(sed -n 's/.*"step":[[:space:]]*"\([0-9]*\)".*/\1/p' stopped/ckpt/latest/state.json) ||
    fail "--minutes: a run went on without time left"

if [[ $("$PACER" --version) == *"with "*MPI* ]] && command -v mpirun >/dev/null; then
    [[ -n ${ASAN_OPTIONS:-} ]] && export ASAN_OPTIONS=detect_leaks=0
    # 9 updates: 3 of 4 sequences (accum 1), 3 of 8, 3 of 12.
    train --batch 4 --batch-ramp 4@0,8@33%,12@66% --steps 9 --out one
    for ddp in overlap zero1 zero3; do
        train --batch 2 --batch-ramp 4@0,8@33%,12@66% --steps 9 --ranks 2 --ddp $ddp --noise-scale --out two-$ddp
        paste <(of one loss) <(of two-$ddp loss) |
            awk '{ d = $1 - $2; if (d > 1e-5 || d < -1e-5) { print; bad = 1 } } END { exit bad || NR != 9 }' >err ||
            fail "two ranks along a ramp ($ddp) have other losses than one"
    done
    train --batch 2 --ranks 2 --minutes 0.005 --verify-every 1 --lr 1e-3 --min-lr 1e-4 --out clock-two
    [[ $(of clock-two lr | tail -1) == 0.0001 ]] || fail "--minutes with two ranks"
fi
exit $failed
