#!/usr/bin/env bash
# `pacer eval` from outside: the run's own validation loss, texts beside prepared tokens, ranks, JSON, refusals.
# shellcheck source=tests/support/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

# number FILE NAME: of the outermost object. near A B: equal to 1e-6.
number() { sed -n "s/^\t\"$2\":\t\([-+.e0-9]*\),*\$/\1/p" "$1"; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d < 1e-6 * b && -d < 1e-6 * b) }'; }

"$PACER" data stories --bytes 40k --out stories.txt 2>err || fail "stories"
expect 0 validation data prepare stories.txt --val-fraction 0.2 --out shards
"$PACER" train --model tiny --layers 2 --d-model 32 --heads 2 --ffn 48 --context 32 --data shards --batch 4 \
    --steps 6 --eval-every 3 --eval-batches 3 --device cpu --threads 1 --out run --quiet 2>err || fail "train"
recorded=$(sed -n 's/.*"val_loss":\([0-9.]*\).*/\1/p' run/metrics.jsonl | tail -1)

# The run's own data, batch and length unless others are given; its last validation loss to the bit.
expect 0 'bits per byte' eval run --batches 3 --threads 1 --json a.json
[[ $(number a.json mean_of_batches) == "$recorded" ]] || fail "mean $(number a.json mean_of_batches), the run had $recorded"
near "$(number a.json loss)" "$recorded" || fail "loss $(number a.json loss), the run had $recorded"
[[ $(number a.json tokens) == $((3 * 4 * 32)) ]] || fail "tokens of three batches"

# All sequences, whatever the batch; several ranks have the sums of one.
expect 0 'sequences of 32 tokens' eval run --data shards --batch 5 --json b.json
if [[ $("$PACER" --version) == *"with "*MPI* ]] && command -v mpirun >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # MPI keeps memory to the end.
    ASAN_OPTIONS=detect_leaks=0 expect 0 '2 ranks' eval run/ckpt/latest --data shards --ranks 2 --threads 1 --oversubscribe --json c.json
    near "$(number c.json nats)" "$(number b.json nats)" || fail "ranks: $(number c.json nats), alone $(number b.json nats)"
fi
[[ -z $(number b.json mean_of_batches) ]] || fail "a mean of batches that are not whole"

# As many batches as asked for, also where the next one would be the last; and where the split has fewer sequences than
# a run's validation asks for, both take them all, a last batch that is not full included.
windows=$(($(number b.json tokens) / 32))
((windows > 7 && windows % 7 != 0)) || fail "the split has $windows sequences: not what this tests"
expect 0 'sequences of 32 tokens' eval run --data shards --batch 7 --batches $((windows / 7)) --json d.json
[[ $(number d.json tokens) == $((windows / 7 * 7 * 32)) ]] || fail "$(number d.json tokens) tokens of $((windows / 7)) batches of 7"
"$PACER" train --model tiny --layers 2 --d-model 32 --heads 2 --ffn 48 --context 32 --data shards --batch 7 \
    --steps 4 --eval-every 4 --eval-batches 1000 --device cpu --threads 1 --out small --quiet 2>err || fail "train small"
recorded=$(sed -n 's/.*"val_loss":\([0-9.]*\).*/\1/p' small/metrics.jsonl | tail -1)
expect 0 'sequences of 32 tokens' eval small --json small.json
near "$(number small.json loss)" "$recorded" || fail "eval $(number small.json loss), the run's validation $recorded"

# A document is read as in prepared tokens: the second of these is the second sequence of the shards, its beginning and
# its end included.
printf '%s<|endoftext|>%s' 'Once there was a cat in the sun.' 'The cat sat by the big red box.' >two.txt
expect 0 'train' data prepare two.txt --val-fraction 0 --out two
expect 0 'train' eval run --data two --split train --batch 1 --json both.json
expect 0 'train' eval run --data two --split train --batch 1 --batches 1 --json first.json
expect 0 'two.txt:1' eval run two.txt --each --json text.json
second=$(sed -n 's/^\t\t\t"nats":\t\([0-9.]*\),$/\1/p' text.json | sed -n 2p)
near "$second" "$(awk -v a="$(number both.json nats)" -v b="$(number first.json nats)" 'BEGIN { printf "%.9f", a - b }')" ||
    fail "second document $second, by shards $(number both.json nats) - $(number first.json nats)"
[[ $(number text.json tokens) == 65 && $(number text.json bytes) == 63 && $(number text.json documents) == 2 ]] || fail "counts of texts"

# Documents longer than the context, JSON lines and standard input; JSON in place of the table.
printf '{"text": "%s"}\n{"text": "b"}\n' "$(head -c 300 stories.txt | tr '\n"' '  ')" >long.jsonl
expect 0 'worst' eval run long.jsonl --batch 1 --json one.json
[[ $(number one.json tokens) == 303 ]] || fail "tokens of a long document"
"$PACER" eval run - --format jsonl --batch 16 --json - <long.jsonl >in.json 2>err || fail "standard input"
near "$(number in.json nats)" "$(number one.json nats)" || fail "batch changes the sum"

# What is wrong is named.
expect 2 'give --data or texts, not both' eval run two.txt --data shards
expect 2 '--each is for texts' eval run --each
expect 2 "longer than the model's context" eval run two.txt --seq 64
expect 2 'nothing.txt' eval run nothing.txt
: >empty.txt
expect 2 'no text in' eval run empty.txt
expect 2 'only one of several ranks has a standard input' eval run - --ranks 2
expect 3 'the largest that fits is --batch ' eval run --batch 50000 --threads 1 --memory-limit "$(limit 64)"
expect 2 'the data has no validation split' eval run --data two
mv run/tokenizer.json tokenizer.json
expect 2 'has no tokenizer, which texts need' eval run two.txt
expect 0 'tokens' eval run two.txt --tokenizer tokenizer.json

[[ $failed == 0 ]] && echo "eval measures what training measures"
exit $failed
