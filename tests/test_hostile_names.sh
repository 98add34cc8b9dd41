#!/usr/bin/env bash
# Nothing in a name runs, steers a terminal, forges a line or becomes markup: folders, files, titles, tensors, keys and
# words of foreign files with what a shell, gnuplot, a terminal, HTML, Markdown or a spreadsheet would act upon.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"
export LC_ALL=C

# Names that folders can have.
names=($'line\n!touch PWNED\n' $'line\nset output "|touch PWNED"\n' "'; system(\"touch PWNED\") #" '`touch PWNED`'
    '$(touch PWNED)' '"><script>alert(1)<&' $'\e]0;title\a\e[2J' $'\xc2\x9b31mC1' $'\x9b31mbyte' $'\xe2\x80\xae\xe2\x81\xa6bidi'
    '%s%n%99999d' "'lead" "''twice''" 'back\' '-dash' '@ink' '{Symbol x}_{y}' '|pipe|' "$(printf 'x%.0s' {1..200})")
# All of it, in one name and, as JSON and YAML have it, in one text.
all=$'all \'; `touch PWNED` $(touch PWNED) <b>"&|\n!touch PWNED\n\e]0;t\a\xc2\x9b31m\xe2\x80\xae%s%n@ink\\'
# What options take: they refuse control characters.
given=$'given \'; `touch PWNED` $(touch PWNED) <b>"&|\xe2\x80\xae%s%n@ink\\'
text='\"><script>alert(1)</script>'"'"'; `touch PWNED` $(touch PWNED)\n!touch PWNED\n\u001b]0;t\u0007\u009b31m\u202e\u2028%s%n@ink {/Symbol x}\\'

bytes=$'[\x01-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]'

# clean WHAT FILE...: nothing was run, and nothing but visible UTF-8, tabs and line breaks is in the files.
clean() {
    local what=$1 file
    shift
    [[ -z $(find . -name PWNED) ]] || { fail "$what: ran a command"; find . -name PWNED -delete; }
    for file in "$@"; do
        grep -qaP "$bytes" "$file" && fail "$what: $file has control characters: $(grep -aP "$bytes" "$file" | cat -v | head -3)"
        iconv -f utf-8 -t utf-8 "$file" >utf8 2>&1 || fail "$what: $file is not UTF-8: $(cat -v "$file" | head -3)"
    done
}

# hostile STATUS ARGUMENT...: pacer exits with STATUS (any: *) and is clean; no line begins as the names would like it.
hostile() {
    local status=$1 actual
    shift
    "$PACER" "$@" >out 2>err </dev/null
    actual=$?
    [[ $status == '*' || $actual == "$status" ]] || fail "pacer ${*@Q}: exit status $actual, not $status"
    ((actual < 128)) || fail "pacer ${*@Q}: died with $actual"
    clean "pacer ${*@Q}" out err
    grep -q '^[!]touch' out err && fail "pacer ${*@Q}: a name begins a line"
    return 0
}

# --- records of a run and an experiment, written here ---

run_json() { # ID NAME
    cat <<JSON
{"schema": 1, "id": "$1", "status": "done", "started": "2026-01-02T03:04:05Z", "pacer": {"version": "0", "commit": "$2"},
 "model": {"name": "$2", "parameters": 1000, "vocab": 257, "context": 32},
 "config": {"model": "tiny", "batch": 4, "accum": 1, "ranks": 1, "seq": 32, "data": "$2"},
 "machine": {"host": "here", "cpu": "$2", "cores": 2, "memory_bytes": 4294967296},
 "summary": {"steps": 2, "tokens": 256, "tok_s": 256, "wall_s": 1, "train_s": 1, "val_s": 0, "init_s": 0,
  "train_loss": 2.5, "peak_bytes": 1000000, "phases": {"$2": {"total_s": 1, "exclusive_s": 1, "count": 2, "mean_s": 0.5}}, "checks": []}}
JSON
}
mkdir -p plain/runs/a0
run_json a0 "$text" >plain/runs/a0/run.json
printf '{"step":1,"tokens":128,"loss":3.5,"ms":500}\n{"step":2,"tokens":256,"loss":2.5,"ms":500}\n' >plain/runs/a0/metrics.jsonl
cat >plain/experiment.json <<JSON
{"format": 1, "name": "$text", "title": "$text", "about": "$text", "recipe": "$text", "smoke": false,
 "pacer": {"version": "0", "commit": "$text"}, "started": "2026-01-02T03:04:05Z", "updated": "2026-01-02T03:05:05Z",
 "finished": true, "axes": [["batch"], ["data"]], "repeats": 1,
 "tables": [{"title": "$text", "per": "configuration", "columns": ["batch", "data", "tok_s"]}],
 "charts": [{"name": "speed", "title": "'it''s $text'", "kind": "bars", "x": "data", "y": ["tok_s"]}],
 "runs": [{"id": "a0", "dir": "runs/a0", "configuration": 0, "repeat": 0, "settings": {"batch": "4", "data": "'$text"},
           "state": "done", "reason": "=cmd|$text", "seconds": 1.5, "exit": 0, "planned_bytes": null, "predicted_s": null}]}
JSON

has() { grep -qF -- "$2" "$1" || fail "$1 has no '$2'"; }

# page_is_clean FILE...: every tag in it is one of pacer's own.
page_is_clean() {
    local file
    for file in "$@"; do
        bare_page "$file" >bare
        clean "$file" bare
        grep -qiE '<(script|b|img)[ >]' <(sed 's/^<script type="application\/json" id="document">//' bare) &&
            fail "$file has markup of a name"
    done
}

# --- report, watch, check and export of folders of any name ---

for name in "${names[@]}" "$all"; do
    folder=$name
    [[ $name != -* ]] || folder=./$name
    cp -r plain "$folder"
    hostile 0 report "$folder"
    if command -v gnuplot >/dev/null; then
        [[ -s $folder/charts/speed.svg && -s $folder/charts/speed.png ]] || fail "no charts in ${folder@Q}"
        page_is_clean "$folder/charts/speed.svg"
        has "$folder/charts/speed.svg" ">'it''s" # as the label that gnuplot drew
    fi
    page_is_clean "$folder/report.html" "$folder/report.md"
    has "$folder/report.html" '&lt;script&gt;alert(1)&lt;/script&gt;' '\u003cscript\u003ealert(1)\u003c/script\u003e'
done
for folder in "${names[0]}" "${names[8]}" "$all"; do
    hostile '*' check "$folder/runs/a0"
    hostile 0 report "$folder" plain
    hostile 0 watch --once "$folder"
    hostile 0 report "$folder/runs/a0"
    page_is_clean "$folder/runs/a0/report.html" "$folder/runs/a0/report.md"
    has "$folder/runs/a0/report.html" '&lt;script' '\u003cscript'
    hostile 0 report "$folder/runs/a0" plain/runs/a0
    hostile 0 watch --once "$folder/runs/a0"
    hostile 0 export "$folder" --format csv --out csv
    hostile 0 export "$folder/runs/a0" --format csv --out csv
    hostile 0 export "$folder/runs/a0" --format tensorboard --out events
    hostile 2 report plain --out "$folder"
    hostile '*' report "none $folder"
    hostile '*' train --resume "none $folder"
    hostile '*' train --config "none $folder"
    hostile '*' data info "none $folder"
    hostile '*' tokenizer info "none $folder"
    hostile '*' generate "none $folder" --prompt x
    hostile '*' sweep "none $folder"
    hostile '*' "$folder"
    hostile '*' train "--$folder" 1
done
# A chart replaces a link that lies in its place, and does not write to what it points at.
if command -v gnuplot >/dev/null; then
    echo mine >victim
    ln -sf "$PWD/victim" plain/charts.png
    mkdir -p plain/charts && ln -sf "$PWD/victim" plain/charts/speed.png
    hostile 0 report plain
    [[ $(<victim) == mine ]] || fail "a chart was written through a link"
fi
# Settings of the user's own gnuplot are not read.
mkdir home && echo 'system("touch PWNED")' >home/.gnuplot
HOME=$PWD/home hostile 0 report plain

# --- a run, its data and its tokenizer under such names ---

small=(--layers 1 --d-model 16 --heads 2 --ffn 32 --context 16)
printf 'a text \xff of some words\nand \033[31mmore of them\n' >"$all.txt"
for _ in {1..200}; do echo 'Once there was a little fox who had a text of some words.'; done >>"$all.txt"
hostile 0 tokenizer train --vocab 300 --out "$given.json" "$all.txt"
hostile 0 tokenizer info "$given.json"
hostile 0 data prepare --tokenizer "$given.json" --out "$given shards" "$all.txt"
mv "$given shards" "$all shards"
hostile 0 data info "$all shards"
mv "$all shards" "$given shards"
echo 'Once there was a little fox.' >"$all words"
hostile 2 data info "$all words"
cp err info.err
train=(train --model gpt2-124m "${small[@]}" --vocab 300 --batch 2 --steps 2 --eval-every 0 --threads 1)
hostile 0 "${train[@]}" --data "$given shards" --out "$given run"
mv "$given run" "$all run"
hostile 0 check "$all run"
hostile 0 eval "$all run" "$all.txt" --each
hostile 0 eval "$all run" "$all.txt" --json -
hostile 0 export "$all run" --out "$given hf"
hostile 2 export "$all run" --out "$given hf"
hostile 2 import "$all hf" --out x
hostile 0 import "$given hf" --out "$given in"
hostile 0 plan --model gpt2-124m "${small[@]}" --batch 2 --data "$given shards"
"$PACER" generate "$all run" --prompt "$given" --max-tokens 3 >out 2>err || fail "generate: exit status $?"
clean generate err

# What pacer gives to paste is one word to a shell, with the name in it.
command=$(grep -o 'pacer data prepare --out DIR .*' info.err) || fail "data info names no command: $(cat -v info.err)"
pacer() { printf '%s\0' "$@" >words; }
eval "${command:-false}"
[[ $(tail -zn1 words | tr '\0\n' '\n ') == "${all//$'\n'/ } words" ]] || fail "a pasted command names $(cat -v words)"
[[ -z $(find . -name PWNED) ]] || fail "a pasted command ran a name"

# --- recipes ---

cat >"$all.yaml" <<YAML
name: hostile
title: "$text"
about: "$text"
base: {model: tiny, layers: 1, d-model: 16, heads: 2, ffn: 32, context: 16, data: builtin:bytes, threads: 1,
  schedule: constant, warmup: 0, eval-every: 0, steps: 2}
axes: [{batch: [1]}]
tables: [{title: "$text", columns: [batch, tok_s]}]
charts: [{name: speed, title: "'$text", kind: bars, x: batch, y: tok_s}]
YAML
hostile 0 sweep "$all.yaml" --dry-run --out "$given sweep"
hostile 0 sweep "$all.yaml" --out "$given sweep"
page_is_clean "$given sweep/report.html" "$given sweep/report.md"
has "$given sweep/report.html" '&lt;script&gt;alert(1)&lt;/script&gt;'
printf 'name: "a"\n"%s": 1\n' "$text" >bad.yaml
hostile 2 sweep bad.yaml
hostile 2 train --config bad.yaml

# --- names within foreign files ---

# safetensors FILE NAME: one tensor of that name.
safetensors() {
    local header="{\"$2\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}" size i
    size=${#header}
    for i in 0 1 2 3 4 5 6 7; do printf "\\x$(printf %02x $((size >> 8 * i & 255)))"; done >"$1"
    printf '%s\0\0\0\0' "$header" >>"$1"
}
mkdir foreign
sed "s/\"gpt2\"/\"$(sed 's/[\\&/]/\\&/g' <<<"$text")\"/" "$given hf/config.json" >foreign/config.json
safetensors foreign/model.safetensors "$text"
hostile 2 import foreign --out x
cp "$given hf/config.json" foreign/
hostile 2 import foreign --out x
printf '{"version": "1.0", "model": {"type": "%s", "vocab": {}, "merges": []}}' "$text" >tok.json
hostile 2 tokenizer info tok.json
sed "0,/\"type\"/s//\"type\": \"$(sed 's/[\\&/]/\\&/g' <<<"$text")\", \"other\"/" "$given.json" >tok.json
hostile '*' tokenizer info tok.json
printf '# %s\n\n| batch | steps | tokens | %s |\n| --- | --- | --- | --- |\n| 4 | 10 | 999999 | %s |\n| 8 | 10 | 5 | x |\n' \
    "$all" "$(tr -d '\n|' <<<"$all")" "$(tr -d '\n|' <<<"$all")" >"$all.md"
hostile '*' check "$all.md"

# --- a table for a spreadsheet ---

grep -q ",\"\{0,1\}'=cmd" csv/runs.csv || fail "a formula in $(cat -v csv/runs.csv | head -3)"
grep -qP '(^|,)"?[=@+]|(^|,)"?-(?![0-9.])' csv/runs.csv && fail "a cell begins a formula: $(cat -v csv/runs.csv)"
has csv/summary.csv "summary.train_loss,2.5"
exit $failed
