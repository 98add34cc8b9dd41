#!/usr/bin/env bash
# Training on records of which only completions count, from outside: the same with accumulation, ranks and a resume; where
# all counts, to the bit what plain text gives; what the records say of it. PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) {
    prompt = "Add " i " and " i * 7 % 50 "."; answer = " It is " i + i * 7 % 50 ".\\n"
    print "{\"prompt\": \"" prompt "\", \"completion\": \"" answer "\"}" >"some.jsonl"
    print "{\"prompt\": \"\", \"completion\": \"" prompt answer "\"}" >"all.jsonl"
    print "{\"text\": \"" prompt answer "\"}" >"plain.jsonl"
} }'
for kind in some all plain; do
    expect 0 train data prepare --val-fraction 0.2 --out $kind $kind.jsonl
done
expect 0 counted data info some
diff -r all plain >/dev/null || fail "records that count as a whole are not plain text"

small=(--model tiny --layers 1 --d-model 32 --heads 2 --ffn 48 --context 32 --seq 32 --threads 1 --lr 1e-2 --log-every 1
    --eval-every 4 --eval-batches 1000 --device cpu --quiet)
run() { "$PACER" train "${small[@]}" "$@" 2>err || fail "train $* ended with $?"; }
values() { sed -n 's/.*"step":\([0-9]*\).*"\(val_loss\|loss\)":\([0-9.]*\).*/\1-\2 \3/p' "$1/metrics.jsonl" | sort -k1b,1; }
near() { # two runs
    join <(values "$1") <(values "$2") | awk '{ n++; d = $2 - $3; if (d * d > 1e-10) bad = 1 } END { exit bad || n != 10 }' ||
        fail "$1 and $2 differ: $(paste <(values "$1") <(values "$2"))"
}

run --data some --batch 8 --steps 8 --out one
run --data some --batch 2 --accum 4 --steps 8 --out four
near one four
run --data some --batch 2 --accum 4 --steps 4 --save-every 4 --schedule constant --warmup 0 --out part
run --data some --batch 2 --accum 4 --steps 8 --save-every 4 --schedule constant --warmup 0 --out part
run --data some --batch 2 --accum 4 --steps 8 --schedule constant --warmup 0 --out unbroken
cmp -s part/ckpt/step-8/model.safetensors unbroken/ckpt/step-8/model.safetensors || fail "a resumed run has other weights"
[[ $(grep -o '"step":.*"loss":[^,]*' part/metrics.jsonl) == $(grep -o '"step":.*"loss":[^,]*' unbroken/metrics.jsonl) ]] ||
    fail "a resumed run has other losses or counts"
if [[ $("$PACER" --version) == *"with "*MPI* ]] && command -v mpirun >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 # MPI's own
    run --data some --batch 2 --accum 2 --ranks 2 --steps 8 --out two
    unset ASAN_OPTIONS
    near one two
fi

# What counts is less than what is seen, and is added up.
grep -o '"tokens":[0-9]*,"counted":[0-9]*' one/metrics.jsonl | tr -c '0-9\n' ' ' |
    awk '{ n++; if ($1 != 256 * n || $2 <= last || $2 >= $1) bad = 1; last = $2 } END { exit bad || n != 8 }' ||
    fail "counted tokens: $(cat one/metrics.jsonl)"
last=$(grep -o '"counted":[0-9]*' one/metrics.jsonl | tail -1)
grep -q "$last" <(tr -d ' \t' <one/run.json) || fail "run.json does not have $last"

# The validation loss is that of eval, over the same tokens.
expect 0 '' eval one --data some --device cpu --threads 1 --json eval.json
awk -v a="$(grep -o '"val_loss":[0-9.]*' one/metrics.jsonl | tail -1 | cut -d: -f2)" \
    -v b="$(tr -d ' \t\n' <eval.json | grep -o '"loss":[0-9.]*' | head -1 | cut -d: -f2)" \
    'BEGIN { d = a - b; exit !(b > 0 && d * d < 1e-10) }' || fail "eval: $(cat eval.json), not $(grep val_loss one/metrics.jsonl)"

# Evaluated on a prompt alone there is no loss to tell: that is said, and the run is sound. With more sequences there is.
awk 'BEGIN { for (i = 0; i < 40; i++) {
    prompt = "A prompt that is longer than one sequence is, of number " i
    print "{\"prompt\": \"" prompt "\", \"completion\": \"x\"}" >"prompts.jsonl"
} }'
expect 0 train data prepare --val-fraction 0.3 --out prompts prompts.jsonl
small[-4]=1 # --eval-batches
run --data prompts --batch 1 --steps 4 --out silent
grep -q 'none of the sequences that are evaluated (1) has a token that counts.*--eval-batches' err || fail "not said: $(cat err)"
! grep -q val_loss silent/metrics.jsonl || fail "a loss of no token: $(grep val_loss silent/metrics.jsonl)"
# Updates in which no token counts have no loss and no norm, which are no zeros, and the run is sound.
"$PACER" train "${small[@]:0:${#small[@]}-1}" --data prompts --batch 1 --steps 40 --out gaps 2>err >out || fail "updates of no token: $?"
awk '/"loss"/ != /"grad_norm"/ { bad = 1 } /"tok_s"/ { n++; losses += /"loss":[0-9.]+/ } /"loss":0[,}]/ { bad = 1 }
    END { exit bad || n != 40 || losses == 0 || losses > 39 }' gaps/metrics.jsonl || fail "lines: $(cat gaps/metrics.jsonl)"
grep -q 'step [0-9]*/40  no token counts in the loss  lr' err &&
    ! grep -q 'norm -\|nan' err || fail "updates of no token: $(cat err)"
"$PACER" train "${small[@]:0:${#small[@]}-1}" --data prompts --batch 1 --steps 4 --out none 2>err >out
grep -q '^no train loss: of the last update no token counts, of all [0-9]* tokens [0-9]*' err ||
    fail "its end: $(tail -3 err)"
"$PACER" watch --once silent >out 2>err
grep -q 'no token of this update counts in the loss' out && ! grep -q nan out ||
    fail "watch shows a loss of no token: $(cat out)"
for command in check report; do
    "$PACER" $command gaps >out 2>err || fail "$command of a run with updates of no token: $(cat out)"
done
run --data prompts --batch 4 --steps 4 --out loud
grep -q val_loss loud/metrics.jsonl || fail "no loss of four sequences"

# Records of which nothing counts.
for ((i = 0; i < 20; i++)); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"question $i\"}]}"
done >"questions.jsonl"
expect 0 'nothing in questions counts in the loss' \
    data prepare --chat-template chatml --val-fraction 0 --out questions questions.jsonl
expect 2 '--data questions: nothing in it counts in the loss' \
    train "${small[@]:0:${#small[@]}-1}" --data questions --steps 2 --out unheard
[[ ! -e unheard ]] || fail "a run of nothing is begun"

# Where all counts, the same bits as of plain text, and no word of what counts.
run --data all --batch 4 --steps 4 --out masked
run --data plain --batch 4 --steps 4 --out unmasked
cmp -s masked/ckpt/latest/model.safetensors unmasked/ckpt/latest/model.safetensors || fail "other weights than of plain text"
! grep -q '"counted"' masked/metrics.jsonl || fail "counted tokens where all count"

# Messages need a template, which the tokenizer may know of.
echo '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]}' >chat.jsonl
expect 2 'chat.jsonl:1: has "messages"' data prepare --val-fraction 0 --out chat chat.jsonl
expect 0 counted data prepare --val-fraction 0 --chat-template chatml --out chat chat.jsonl
expect 0 '' tokenizer train --special '<|endoftext|>' --special '<|im_start|>' --special '<|im_end|>' --vocab 300 \
    --out tok.json plain.jsonl
expect 0 counted data prepare --val-fraction 0 --tokenizer tok.json --out chat chat.jsonl
expect 2 'no-such-file' data prepare --val-fraction 0 --chat-template no-such-file --out chat chat.jsonl

((failed)) || echo "instruction data trains what counts"
exit $failed
