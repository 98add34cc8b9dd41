#!/usr/bin/env bash
# pacer tokenizer train, encode, decode and info from outside: text of every kind to a tokenizer and back,
# the same result whatever the threads, bad input, and from there to a trained run. PACER names the program.
gold=$(cd "$(dirname "$0")/gold/tokenizers" && pwd)
source "$(dirname "$0")/support/program.sh"

# round_trip FILE OPTION...: decode gives back what encode was given.
round_trip() {
    local file=$1
    shift
    "$PACER" tokenizer encode --quiet "$@" --out ids "$file" 2>err || fail "encode $* $file"
    "$PACER" tokenizer decode --quiet "$@" --out back ids 2>err || fail "decode $* $file"
    cmp -s back "$file" || fail "$file does not come back with $*"
}

expect 0 'wrote stories.txt' data stories --bytes 1M --out stories.txt
head -c 100000 /dev/urandom >noise
: >empty
printf 'caf\xe9 and \xff\xfe and half a character: \xe2\x82' >latin

# --- the same tokenizer from a file, a folder, standard input, JSONL, and any number of threads ---
expect 0 '1,000 entries' tokenizer train --vocab 1000 --out tok.json stories.txt
mkdir folder
cp stories.txt folder/a.txt
expect 0 '1,000 entries' tokenizer train --vocab 1000 --threads 1 --out folder.json folder
expect 0 '1,000 entries' tokenizer train --vocab 1000 --threads 3 --out builtin.json builtin:stories:1M
"$PACER" tokenizer train --quiet --vocab 1000 --out stdin.json - <stories.txt || fail "from standard input"
printf '{"body": "low low low lower lowest"}\n{"body": "newest\\nwidest"}\n' >small.jsonl
expect 0 'no more pairs' tokenizer train --vocab 1000 --field body --out small.json small.jsonl
for other in folder builtin stdin; do
    cmp -s tok.json $other.json || fail "$other.json differs from tok.json"
done
expect 0 'vocabulary 1,000' tokenizer info tok.json
expect 0 'ends with <|endoftext|> (0)' tokenizer info tok.json

# --- any bytes come back, in every form of ids ---
for file in stories.txt noise empty latin; do
    for form in text uint16 uint32; do
        round_trip "$file" --tokenizer tok.json --ids $form
    done
    round_trip "$file" --tokenizer bytes
done
expect 0 'are not UTF-8' tokenizer encode --tokenizer tok.json --out ids latin
printf 'Hello<|endoftext|>' >hello
expect 0 '72 101 108 108 111 256' tokenizer encode --tokenizer bytes hello
[[ $(printf '72,101 \n108\t108 111' | "$PACER" tokenizer decode --tokenizer bytes -) == Hello ]] ||
    fail "ids from standard input"
# It can be stopped while it waits for input.
mkfifo waiting
exec 9<>waiting
echo 'Once upon' >&9
"$PACER" tokenizer encode --tokenizer bytes - <waiting >out 2>err 9>&- &
pid=$!
await "takes_term $pid"
kill -TERM $pid
wait $pid
status=$?
[[ $status == 143 ]] || fail "encode that waits for input: status $status"
exec 9>&-

# A token of thousands of bytes does not flood the terminal.
head -c 5000 /dev/zero | tr '\0' a >aaaa
expect 0 'wrote aaaa.json' tokenizer train --vocab 270 --out aaaa.json aaaa
expect 0 'a" ... ' tokenizer info aaaa.json
[[ $(wc -L <out) -lt 120 ]] || fail "a line of $(wc -L <out) columns"

# A reader that has seen enough is no error of what writes much.
cat stories.txt stories.txt stories.txt >long.txt
for call in 'tokenizer encode --tokenizer tok.json long.txt' 'data stories --bytes 1M --out -' \
    'tokenizer train --vocab 4000 --out - stories.txt'; do
    # shellcheck disable=SC2086
    "$PACER" $call --quiet 2>err | head -c 1 >out
    [[ ${PIPESTATUS[0]} == 0 && ! -s err ]] || fail "$call | head"
    [[ -e /dev/full ]] || continue
    # shellcheck disable=SC2086
    "$PACER" $call --quiet 2>err >/dev/full && fail "$call: a full disk went unnoticed"
    [[ $(grep -c error: err) == 1 ]] || fail "$call: a full disk is told $(grep -c error: err) times"
done

"$PACER" tokenizer encode --quiet --threads 1 --tokenizer tok.json --out one stories.txt
"$PACER" tokenizer encode --quiet --threads 3 --tokenizer tok.json --out three stories.txt
cmp -s one three || fail "ids depend on the threads"

# --- patterns and special tokens ---
expect 0 'pattern    llama3' tokenizer info <("$PACER" tokenizer train --quiet --vocab 300 \
    --pattern llama3 --out llama3.json stories.txt >&2; cat llama3.json)
for name in gpt2 llama3 qwen2 cl100k o200k tekken; do
    expect 0 'wrote' tokenizer train --vocab 400 --pattern $name --out $name.json stories.txt
    expect 0 "pattern    $name" tokenizer info $name.json
    round_trip stories.txt --tokenizer $name.json
done
"$PACER" tokenizer train --help | tr -s ' \n' ' ' | grep -q 'gpt2, llama3, qwen2, cl100k, o200k, tekken' ||
    fail "help does not list the patterns"
expect 0 'wrote' tokenizer train --vocab 400 --pattern '\w+|\W' --special '<|a|>' --special '<b c>' \
    --out special.json stories.txt
expect 0 '"<b c>"' tokenizer info special.json
expect 0 'pattern    regex: \w+|\W' tokenizer info special.json
printf 'x<b c>y' >inside
expect 0 ' 1 ' tokenizer encode --tokenizer special.json inside
round_trip inside --tokenizer special.json
printf 'special: [<|a|>, "<b c>"]\npattern: "\\\\w+|\\\\W"\nvocab: 400\n' >options.yaml
expect 0 'wrote' tokenizer train --config options.yaml --out yaml.json stories.txt
cmp -s yaml.json special.json || fail "options from a file make another tokenizer"

# --- parts of a file that are not applied are said once, and stay in what is written ---
sed 's/"truncation": null/"truncation": {"max_length": 5}/
    s/"post_processor": null/"post_processor": {"type": "TemplateProcessing"}/' llama3.json >cut.json
expect 0 'cut.json: not applied: truncation, post_processor. pacer' data prepare --tokenizer cut.json --out cut \
    stories.txt
expect 0 'cut.json: not applied' tokenizer info cut.json
"$PACER" data info cut >out 2>&1 && ! grep -q 'not applied' out || fail "said again of pacer's own copy"
grep -q '"truncation": {"max_length":5}' cut/tokenizer-*.json || fail "truncation is lost"
sed 's/"post_processor": null/"post_processor": {"type": "ByteLevel"}/' llama3.json >level.json
"$PACER" tokenizer info level.json >out 2>&1 && ! grep -q 'not applied' out || fail "ByteLevel adds no tokens"

# --- files that pacer did not make stay as they are; its own are made again ---
echo '{"my": "settings"}' >mine.json
sed 's/"vocab": {/"vocab":  {/' llama3.json >formatted.json
for file in mine.json formatted.json stories.txt; do
    cp $file before
    expect 2 "$file: exists, and is no tokenizer that pacer made" tokenizer train --out $file stories.txt
    cmp -s $file before || fail "$file was overwritten"
done
"$PACER" tokenizer train --quiet --vocab 310 --out - stories.txt >stdout.json 2>err || fail "to standard output"
mkfifo pipe
cat pipe >piped.json &
"$PACER" tokenizer train --quiet --vocab 310 --out pipe stories.txt 2>err || fail "into a pipe"
wait
cmp -s stdout.json piped.json || fail "a pipe gets another tokenizer than standard output"
[[ -p pipe ]] || fail "a pipe was replaced by a file"
expect 2 'there is no folder none' tokenizer train --out none/tok.json stories.txt
expect 2 'there is no pattern "gpt4", but gpt2, llama3' tokenizer train --pattern gpt4 --out bad.json stories.txt
expect 2 'folder: is a folder' tokenizer train --out folder stories.txt
expect 0 'wrote llama3.json' tokenizer train --vocab 310 --out llama3.json stories.txt
expect 0 'wrote cut/tokenizer' tokenizer train --vocab 310 --out cut/tokenizer-*.json stories.txt
expect 2 '--out stories.txt is the input too' tokenizer encode --tokenizer tok.json --out stories.txt stories.txt
expect 2 '--out linked is the input too' tokenizer decode --tokenizer tok.json --out linked $(ln ids linked; echo ids)

# --- a byte order mark is no part of a text, but of a file's bytes ---
printf '\xef\xbb\xbfone\r\ntwo \xff\r\n' >marked
expect 0 'marked: 1 byte is not UTF-8, the first on line 2 at byte 12 (kept' tokenizer train --vocab 257 \
    --out marked.json marked
expect 0 'marked: the byte order mark at its start is kept' tokenizer encode --tokenizer tok.json --out ids marked
round_trip marked --tokenizer tok.json

# --- bad input ---
expect 2 'vocab' tokenizer train --vocab 200 --out bad.json stories.txt
expect 2 'given twice' tokenizer train --special a1 --special a1 --out bad.json stories.txt
expect 2 'pattern' tokenizer train --pattern '(unclosed' --out bad.json stories.txt
expect 2 'no text' tokenizer train --out bad.json empty
expect 2 'missing.txt' tokenizer train --out bad.json missing.txt
expect 2 'tokenizer train needs --out' tokenizer train stories.txt
expect 2 'cannot write' tokenizer train --out /proc/none/tok.json stories.txt
expect 2 'small.jsonl:1' tokenizer train --out bad.json small.jsonl
[[ ! -e bad.json ]] || fail "a tokenizer was written in spite of an error"
expect 2 'missing.json' tokenizer encode --tokenizer missing.json stories.txt
expect 2 'is a folder' tokenizer encode --tokenizer tok.json folder
expect 2 'Unigram' tokenizer info <(echo '{"model": {"type": "Unigram", "vocab": []}}')
expect 2 'uint16' tokenizer decode --tokenizer tok.json noise
printf '1 2 70000' >ids
expect 2 'token 2 is 70000' tokenizer decode --tokenizer tok.json ids
printf '123' >odd
expect 2 'not a multiple of 2' tokenizer decode --tokenizer tok.json --ids uint16 odd
(ulimit -f 64 && trap '' XFSZ && "$PACER" tokenizer encode --quiet --tokenizer tok.json --out big \
    stories.txt) 2>err
[[ $? == 1 && ! -e big ]] || fail "a full disk: a file is left, or it exits with another status"
ls big.* >/dev/null 2>&1 && fail "a full disk leaves a temporary file"

# --- from text to a run that keeps its tokenizer ---
expect 2 'name one of its added tokens with --end' data prepare --tokenizer special.json --out none stories.txt
expect 0 'tokens' data prepare --tokenizer special.json --end '<b c>' --out named stories.txt
expect 2 'no added token "nonsense"' data prepare --tokenizer special.json --end nonsense --out none stories.txt
expect 0 'tokens' data prepare --tokenizer tok.json --val-fraction 0.05 --out shards stories.txt
expect 0 'beginning of train' data info shards
expect 0 'vocabulary 1,000' data info shards
expect 0 'Done' train --data shards --batch 2 --seq 32 --steps 3 --layers 1 --out run
expect 0 'vocabulary 1,000' tokenizer info run/tokenizer.json
"$PACER" tokenizer encode --quiet --tokenizer run/tokenizer.json --out again stories.txt
cmp -s one again || fail "the run's tokenizer gives other ids"

# --- tokenizers of other kinds: ids, data, a run, text from it ---
printf 'Hello  world, 日本 é</s>' >kinds
for kind in llama2 mistral qwen2; do
    round_trip kinds --tokenizer "$gold/$kind.json"
    expect 0 'tokens' data prepare --tokenizer "$gold/$kind.json" --val-fraction 0.05 --out "$kind" stories.txt
    expect 0 'Done' train --data "$kind" --batch 2 --seq 32 --steps 2 --layers 1 --out "run-$kind"
    expect 0 '' generate "run-$kind" --prompt 'Once upon' --max-tokens 5
    expect 0 'bits per byte' eval "run-$kind" kinds
    "$PACER" tokenizer encode --quiet --tokenizer "$gold/$kind.json" --out of-file stories.txt
    "$PACER" tokenizer encode --quiet --tokenizer "run-$kind/tokenizer.json" --out of-run stories.txt
    cmp -s of-file of-run || fail "$kind: the run's tokenizer gives other ids"
done
expect 0 'character-level BPE' tokenizer info "$gold/llama2.json"
"$PACER" tokenizer encode --quiet --tokenizer "$gold/llama2.json" --out ids kinds
[[ $("$PACER" tokenizer decode --tokenizer "$gold/llama2.json" --skip-special ids) == 'Hello  world, 日本 é' ]] ||
    fail "--skip-special"

exit $failed
