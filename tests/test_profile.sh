#!/usr/bin/env bash
# pacer profile on the CPU: its table and its file agree with each other and with bench ops, and a refusal leaves no
# file. PACER names the program.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"

small=(--layers 2 --d-model 64 --heads 4 --ffn 96 --context 64 --vocab 300 --batch 2 --threads 1 --warm 1 --repeats 3)
# Names and calls of the table in file $1, in alphabetical order.
ops() { awk '/^op / { on = 1; next } /^outside ops/ { on = 0 } on { print $1, $2 }' "$1" | sort; }

expect 0 'whole step' profile "${small[@]}" --accum 3
cp out table
mv profile.json step.json || fail "no profile.json"
[[ $(tail -c 4 step.json | tr -d '\n') == ']}' ]] || fail "step.json is not whole"
head -c 1 step.json | grep -q '{' || fail "step.json is no object"

# Every call of the table is an event of the lane of ops, and the other way round.
grep '"tid":2,"ts"' step.json | sed 's/.*"name":"\([a-z_]*\)".*/\1/' | sort | uniq -c | awk '{ print $2, $1 }' >events
diff <(ops table) events || fail "table and trace have different calls"
[[ $(awk '/^step / { print $2 }' table) == "$(grep -c '"tid":2,"ts"' step.json)" ]] || fail "calls of the step"
parts=$(grep '"tid":1,"ts"' step.json | sed 's/.*"name":"\([a-z_]*\)".*/\1/' | tr '\n' ' ')
[[ $parts == "forward loss backward forward loss backward forward loss backward optimizer " ]] || fail "parts: $parts"
[[ $(grep -c '"name":"data_move"' step.json) == 3 ]] || fail "three batches are moved"

# Rows are sorted by time, and with what is outside of ops they are the step, which was measured by itself.
awk '/^op / { on = 1; next } /^outside ops/ { on = 0 } on { print $3 }' table >by_time
sort -rnc by_time || fail "ops are not sorted by time"
ratio=$(sed -n 's/.*the ops are \([0-9.]*\) %.*/\1/p' table)
awk -v r="$ratio" 'BEGIN { exit !(r > 0 && r <= 100) }' || fail "ops are $ratio % of the step"
grep -q 'profiling adds' table || fail "no cost of profiling"

expect 0 'outside ops' bench ops "${small[@]}" --accum 3
diff <(ops table) <(ops out) || fail "bench ops has another table"

# To standard output the table makes room.
"$PACER" profile "${small[@]}" --out - >piped 2>err || fail "profile --out -"
[[ $(head -c 20 piped) == '{"displayTimeUnit":"' ]] || fail "standard output is not the trace"
grep -q 'outside ops' err || fail "no table beside a piped trace"

# Refusals name what is wrong, and leave nothing, or what was there.
rm -f ./*.json
expect 3 'not even --batch 1 fits' profile "${small[@]}" --memory-limit 1000 --out step.json
expect 2 'no such model' profile --model nonsense --out step.json
expect 2 'is a folder' profile "${small[@]}" --out .
compgen -G '*.json*' >/dev/null && fail "left behind: $(compgen -G '*.json*')"

[[ $failed == 0 ]] && echo "the profile's table and its trace agree"
exit $failed
