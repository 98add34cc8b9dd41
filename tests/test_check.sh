#!/usr/bin/env bash
# pacer check from outside: files of several kinds, what disagrees, and what is not recognised.
source "$(dirname "$0")/support/program.sh"

cat >good.csv <<'END'
gpus,batch size,seq len,tokens/step,tok/s,step time (ms)
1,8,256,2048,10240,200
2,16,256,4096,19505,210
END
cat >bad.md <<'END'
## Setup
- Sequence length: 256
- Micro batch: 8
- GPUs: 2
- Tokens per step: 2,048
END

expect 0 'good.csv: 0 disagree, 0 warnings' check good.csv
expect 4 'ranks 2: 2048 tokens per step are stated' check bad.md
grep -qF 'makes 4096' out || fail 'the other number is missing'
expect 4 'something does not agree' check good.csv bad.md
grep -qF 'good.csv: 0 disagree' out || fail 'the first file is missing'

echo 'Nothing to see here.' >words.md
expect 2 "--map 'their name=quantity'" check words.md
grep -qF 'tokens-per-step' err || fail 'the quantities are not listed'
expect 2 'absent.md' check absent.md
expect 2 '1 of 2 paths not checked' check absent.md good.csv
grep -qF 'good.csv: 0 disagree' out || fail 'the readable file was not checked'
mkdir empty
expect 2 'empty' check empty

printf 'Karten;Zeit;Gewinn\n1;100 s;1\n2;50 s;3\n' >foreign.csv
expect 4 'foreign.csv:3: ranks 2: speed-up 3 does not follow from the times' check \
    --map Karten=ranks --map Zeit=train-time --map Gewinn=speedup foreign.csv
expect 2 'did you mean train-time?' check --map Zeit=trian-time foreign.csv
expect 2 "must be 'their name=quantity'" check --map Zeit foreign.csv

printf 'batch\000size: 8\nloss: 2' >odd.md # no end of line, a zero byte
expect 0 '2 numbers recognised, none of them compared' check odd.md
expect 2 'pacer check' check

[[ $failed == 0 ]] && echo 'foreign results are read and doubted as they should be'
exit $failed
