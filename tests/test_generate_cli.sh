#!/usr/bin/env bash
# `pacer generate` from outside: one tiny run, then what it writes and where, how texts end, and what is refused.
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

"$PACER" train --model tiny --layers 1 --d-model 32 --heads 2 --data builtin:bytes --steps 3 --batch 1 --seq 32 \
    --eval-every 0 --out run --device cpu --quiet >out 2>err || fail "training the run"

# Whatever is asked, on one thread: the model is too small for more.
generate() {
    "$PACER" generate --device cpu --threads 1 "$@" 2>err
}
field() { # of a JSON file: the line with this name
    grep -F "\"$2\":" "$1"
}

# Text to standard output, the rest to standard error; quiet silences that.
generate run --prompt 'Once upon' --temperature 0 --max-tokens 20 --json cached.json >cached || fail "greedy"
grep -qE '^20 tokens in [0-9.]+ s: [0-9.]+ tok/s \(prompt of 10 tokens in' err || fail "summary"
grep -qF 'tiny after 3 steps' err && grep -qF 'f32 on cpu' err && grep -qF 'seed 1337' err || fail "summary's model"
generate run --prompt 'Once upon' --temperature 0 --max-tokens 20 --cache=off --stream=off --quiet >plain || fail "no cache"
[[ -s err ]] && fail "--quiet says something"
cmp -s cached plain || fail "--cache=off gives another text"
generate run --prompt 'Once upon' --temperature 0 --max-tokens 20 --dtype bf16 --json low.json >low || fail "bf16"
field low.json dtype | grep -qF bf16 || fail "--dtype bf16 is not in the JSON"

# The same seed, the same text, however many are made; another seed, another text.
generate run --max-tokens 30 --seed 5 --json one.json >one || fail "one sample"
generate run --max-tokens 30 --seed 5 --samples 3 --json three.json >three || fail "three samples"
generate run --max-tokens 30 --seed 6 --json - >other || fail "another seed"
first() { # the tokens of a file's first sample
    tr -d ' \t\n' <"$1" | sed 's/.*"samples":\[//; s/"reason".*//; s/.*"tokens"://'
}
[[ -n $(first one.json) && $(first one.json) == "$(first three.json)" ]] || fail "a sample depends on the others"
[[ $(first one.json) == "$(first other)" ]] && fail "--seed changes nothing"
[[ $(grep -ac '^=== sample [123] ===$' three) == 3 ]] || fail "headings of samples"
for name in path model parameters step prompt prompt_tokens settings samples reason load_s tokens_per_s; do
    field three.json "$name" >/dev/null || fail "JSON has no $name"
done

# A file that cannot be written is known before the work, also by root.
expect 2 'cannot write' generate run --prompt 'Once upon' --json /proc/text.json
grep -q 'tokens in' err && fail "--json was tried after the text"

# A stop that was in the text, also one with a line break in it, ends the text before it.
text=$(head -c 200 cached | tr -d '\0')
stop=${text:4:2}
if [[ $stop =~ ^[[:alnum:][:space:]]{2}$ ]]; then
    generate run --prompt 'Once upon' --temperature 0 --max-tokens 20 --stop 'never' --stop "$stop" --json stop.json >stopped
    field stop.json reason | grep -qF '"stop"' || fail "--stop does not stop"
fi
generate run --max-tokens 400 --temperature 3 --stop '\n' --json break.json >broken || fail "--stop with a line break"
[[ $(head -c -1 broken | tr -cd '\n' | wc -c) == 0 ]] || fail "a line break came through"

# Nothing to add; a prompt from a pipe; one that is longer than the context.
generate run --prompt 'Once upon' --max-tokens 0 --json none.json >none || fail "--max-tokens 0"
[[ -s none ]] && fail "--max-tokens 0 writes something"
field none.json reason | grep -qF '"length"' || fail "--max-tokens 0: reason"
printf 'Once upon' | generate run --prompt - --temperature 0 --max-tokens 20 >piped || fail "--prompt -"
cmp -s cached piped || fail "--prompt - gives another text"
printf '\xef\xbb\xbfOnce upon' | generate run --prompt - --temperature 0 --max-tokens 20 >piped || fail "a marked prompt"
cmp -s cached piped || fail "a byte order mark is part of the prompt"
printf 'word %.0s' {1..200} | generate run --prompt - --max-tokens 3 >out || fail "a long prompt"
grep -qF 'does not see the first' err || fail "a long prompt: no warning"

# Ctrl-C: what there is, and 130. Without an end of document the text has no other end.
sed 's/<|endoftext|>/<|other|>/' run/tokenizer.json >endless.json
expect 2 'an empty prompt needs' generate run --device cpu --tokenizer endless.json
"$PACER" generate run --device cpu --threads 1 --tokenizer endless.json --prompt a --max-tokens 100000000 --json int.json >interrupted 2>err &
child=$!
await '[[ -s interrupted ]]'
kill -INT $child
wait $child
status=$?
[[ $status == 130 ]] || fail "interrupted: exit status $status"
field int.json reason | grep -qF '"interrupted"' || fail "interrupted: reason"

expect 2 'no-run' generate no-run
mkdir empty begun && echo '{}' >begun/run.json
expect 2 'neither a run directory' generate empty
expect 2 '--save-every' generate begun
expect 2 '--tokenizer' generate run --tokenizer no-tokenizer.json
expect 2 'needs an argument' generate
cp -r run cut && printf x >>cut/ckpt/latest/model.safetensors
expect 2 'model.safetensors' generate cut
mv run/tokenizer.json away.json
expect 2 'comes without a tokenizer' generate run --device cpu
expect 0 '' generate run --device cpu --tokenizer away.json --max-tokens 1

exit $failed
