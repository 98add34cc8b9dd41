#!/usr/bin/env bash
# pacer data stories, prepare and info from outside: text of every kind to a dataset, bad input, a full
# disk, SIGTERM, and kill -9 at many moments. PACER names the program.
source "$(dirname "$0")/support/program.sh"

# same A B: both folders hold the same files with the same bytes.
same() {
    diff -r "$1" "$2" >diff.txt 2>&1 || fail "$1 and $2 differ: $(head -3 diff.txt)"
}

# 4,000 documents of different lengths, about 2 MB, between separator lines.
awk 'BEGIN {
    for (d = 0; d < 4000; d++) {
        for (l = 0; l <= d % 17; l++)
            print "Document " d " tells on line " l " of the square of " d * l ": " d * d * l * l "."
        print "<|endoftext|>"
    }
}' >text
head -c 700000 text >first
tail -c +700001 text >second

# --- a dataset, its description, and the same again ---
expect 0 'train' data prepare --out plain text
expect 0 'Document 0 tells on line 0 of the square of 0: 0.' data info plain
documents=$(awk '$1 == "train" || $1 == "validation" {gsub(",", ""); n += $3} END {print n}' out)
[[ $documents == 4000 ]] || fail "info counts $documents documents, not 4000"
bytes=$(awk '$1 == "train" || $1 == "validation" {gsub(",", ""); n += $4} END {print n}' out)
expected=$(grep -v '^<|endoftext|>$' text | wc -c)
[[ $bytes == "$expected" ]] || fail "info counts $bytes bytes of text, not $expected"
validation=$(awk '$1 == "validation" {print $3}' out)
((validation > 15 && validation < 75)) || fail "$validation of 4000 documents for validation, not 1 %"
expect 0 'train' data prepare --out again text
same plain again
expect 0 'replaced the dataset that was in again' data prepare --out again text # over itself
same plain again
expect 0 'train' data prepare --out again --shard-tokens 300k --val-fraction 0.1 text
expect 0 'validation' data info again
expect 0 'train' data prepare --out again text # and back: no shard of the other set is left
same plain again

# --- bad input ---
expect 2 'cannot read' data prepare --out none absent
expect 2 'tok.json' data prepare --out none --tokenizer tok.json text
: >empty
expect 2 'no text in the files' data prepare --out none empty
[[ ! -e none ]] || fail "a refused preparation left its folder"
expect 0 'empty: no text in it' data prepare --out with-empty empty text
same plain with-empty
mkdir mine && echo precious >mine/file
expect 2 'holds other files' data prepare --out mine text
[[ $(cat mine/file) == precious && $(ls -A mine) == file ]] || fail 'a foreign folder was touched'
expect 2 '--out: text: is a file, where a folder is to be' data prepare --out text text
expect 2 '--out: text: is a file' data prepare --out text/sub text
expect 2 'no such file or folder' data info absent
expect 2 'looks like text' data info text
{ printf 'x' && head -c 100000 /dev/urandom | tr -d '\n\0'; } >noise # one line, every byte but 0
expect 0 'train' data prepare --out noise-set --val-fraction 0 noise
expect 0 'beginning of train' data info noise-set
expect 2 'not text: byte' data prepare --out none "$PACER"
printf '{"text": "a"}\n{"text": "b"}\n' >lines.json
expect 0 'lines.json looks like JSON and is taken as text; --format jsonl' data prepare --out json lines.json
printf '[\n  {"text": "a"}]' >list.json
expect 0 "list.json looks like a JSON list" data prepare --out json list.json
gzip -c first >first.gz
expect 2 'gzip -dc first.gz | pacer' data prepare --out none first.gz

# --- the same text from a folder, a pipe and JSONL ---
mkdir -p texts/b && cp first texts/a && cp second texts/b/c && cp first.gz texts && echo no >texts/.hidden
expect 0 'first.gz: compressed' data prepare --out from-folder texts
expect 0 'train' data prepare --out from-files first second
same from-files from-folder
"$PACER" data prepare --out from-pipe - <text >out 2>err || fail 'from a pipe'
same plain from-pipe
awk -v RS='<[|]endoftext[|]>\n' 'length($0) > 0 {gsub("\n", "\\n"); print "{\"id\": " NR ", \"body\": \"" $0 "\"}"}' \
    text >text.jsonl
expect 0 'train' data prepare --out from-jsonl --field body text.jsonl
same plain from-jsonl
expect 2 'text.jsonl:1: no field "text"; there is: id, body' data prepare --out none text.jsonl
{ echo 'no JSON' && cat text.jsonl; } >bad.jsonl
expect 2 'bad.jsonl:1: not valid JSON' data prepare --out none --field body bad.jsonl
expect 0 '1 bad line was left out' data prepare --out skipped --field body --skip-bad bad.jsonl
same plain skipped

# --- stories ---
"$PACER" data stories --bytes 300k --out stories.txt >out 2>err || fail 'stories to a file'
"$PACER" data stories --bytes 300k --out - >stories.out 2>err || fail 'stories to standard output'
cmp -s stories.txt stories.out || fail 'stories to a file and to standard output differ'
expect 0 'wrote stories.txt' data stories --bytes 300k --out stories.txt # over itself
cp text kept
expect 2 'kept: exists, and is no text of pacer data stories' data stories --bytes 300k --out kept
cmp -s kept text || fail "data stories has overwritten a text"
expect 0 'train' data prepare --out told stories.txt
expect 0 'train' data prepare --out built-in builtin:stories:300k
same told built-in

# --- a tokenizer with merges: in the folder, and the text is all there ---
expect 0 'entries' tokenizer train --vocab 400 --out tok.json text
expect 0 'tok.json' data prepare --tokenizer tok.json --out merged text
expect 0 'Document 0 tells on line 0 of the square of 0: 0.' data info merged
bytes=$(awk '$1 == "train" || $1 == "validation" {gsub(",", ""); n += $4} END {print n}' out)
[[ $bytes == "$expected" ]] || fail "with merges info counts $bytes bytes of text, not $expected"

# --- more shards than a process may have open files ---
expect 0 'train' data prepare --shard-tokens 4000 --out many text
[[ $(ls many/*.shard | wc -l) -gt 48 ]] || fail "only $(ls many/*.shard | wc -l) shards"
(ulimit -n 48 && "$PACER" data info many >out 2>err) || fail "more shards than open files: $(tail -n 1 err)"

# --- damage ---
cp -r plain damaged
shard=$(cd damaged && ls train-00000-*.shard)
printf 'X' | dd of="damaged/$shard" bs=1 seek=70000 conv=notrunc status=none
expect 2 "$shard: its tokens were changed or damaged" data info damaged
truncate -s -2 "damaged/$shard"
expect 2 "$shard: truncated" data info damaged
rm "damaged/$shard"
expect 2 "$shard: cannot read" data info damaged
rm damaged/manifest.json
expect 2 'not finished' data info damaged
expect 0 'train' data prepare --out damaged text
same plain damaged

# --- a disk that takes no more: the old dataset stays, nothing of the new one does ---
cp -r plain full
(
    trap '' XFSZ
    ulimit -f 1000 # KiB in one file
    exec "$PACER" data prepare --out full second first
) >out 2>err
status=$?
[[ $status == 1 ]] || fail "file size limit: exit status $status, not 1"
grep -qF 'cannot write: File too large' err || fail 'file size limit: no message'
same plain full

# --- SIGTERM while it waits for more text: the old dataset stays ---
cp -r plain stopped
mkfifo pipe
"$PACER" data prepare --out stopped - <pipe >out 2>err &
child=$!
exec 9>pipe
printf 'some text' >&9
await 'takes_term $child'
kill -TERM $child
wait $child
status=$?
exec 9>&-
[[ $status == 143 ]] || fail "SIGTERM: exit status $status, not 143"
grep -qF 'stopped is as it was before' err || fail 'SIGTERM: no message'
same plain stopped

# --- kill -9 at many moments: no dataset or the old one, whole; and the next one succeeds ---
expect 0 'train' data prepare --out goal --shard-tokens 100k second first
cp -r plain replaced
for delay in 0.005 0.01 0.02 0.03 0.05 0.08 0.12 0.2 0.3; do
    for folder in fresh replaced; do
        "$PACER" data prepare --out $folder --shard-tokens 100k second first >/dev/null 2>&1 &
        child=$!
        sleep $delay
        kill -9 $child 2>/dev/null
        wait $child 2>/dev/null
        if [[ -e $folder/manifest.json ]]; then
            expect 0 'train' data info $folder
            cmp -s $folder/manifest.json goal/manifest.json ||
                cmp -s $folder/manifest.json plain/manifest.json ||
                fail "killed after $delay s: $folder is neither the old nor the new dataset"
        elif [[ $folder == replaced ]]; then
            fail "killed after $delay s: the old dataset is gone"
        elif [[ -e $folder ]]; then
            expect 2 'prepare' data info $folder
        fi
    done
    expect 0 'train' data prepare --out fresh --shard-tokens 100k second first
    same goal fresh
    rm -rf fresh replaced
    cp -r plain replaced
done

exit $failed
