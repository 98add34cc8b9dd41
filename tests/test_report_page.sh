#!/usr/bin/env bash
# `pacer report` of an experiment that is written here, record by record: pages, charts, and what is in them.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/support/program.sh"

# write_run ID BATCH ATTENTION SECONDS: a run directory with two ranks and forty updates.
write_run() {
    local dir=exp/runs/$1 rank
    mkdir -p "$dir/ranks"
    cat >"$dir/run.json" <<JSON
{"schema": 1, "id": "$1", "status": "done", "started": "2026-01-02T03:04:05Z",
 "pacer": {"version": "0", "commit": "abc"},
 "model": {"name": "tiny", "parameters": 1000, "vocab": 257, "context": 32},
 "config": {"model": "tiny", "batch": $2, "accum": 1, "ranks": 2, "seq": 32, "attention": "flash", "oversubscribe": true},
 "machine": {"host": "here", "cpu": "Processor <X>", "cores": 2, "memory_bytes": 4294967296},
 "summary": {"steps": 40, "tokens": $(($2 * 2560)), "tok_s": $(awk "BEGIN{print $2 * 2560 / $4}"), "wall_s": $4,
  "train_s": $4, "val_s": 0, "init_s": 0, "train_loss": 2.5, "val_loss": 2.75, "peak_bytes": $(($2 * 1000000)),
  "phases": {$(phases "$4")}, "checks": []}}
JSON
    for rank in 0 1; do
        cat >"$dir/ranks/$rank.json" <<JSON
{"schema": 1, "rank": $rank, "ranks": 2, "host": "here", "device": "cpu", "wall_s": $4,
 "timers": {$(phases "$4")}, "memory": {"peak_bytes": $(($2 * 1000000))}}
JSON
    done
    awk -v batch="$2" -v seconds="$4" 'BEGIN { for (i = 1; i <= 40; i++) {
        printf "{\"step\":%d,\"tokens\":%d,\"loss\":%.4f,\"ms\":%.3f}\n", i, i * batch * 64,
            2.5 + 3 * exp(-i / batch), seconds * 25
        if (i % 10 == 0) printf "{\"step\":%d,\"val_loss\":%.4f}\n", i, 2.7 + 3 * exp(-i / batch) } }' \
        >"$dir/metrics.jsonl"
}

phases() {
    awk -v s="$1" 'BEGIN { n = split("forward backward optimizer unattributed", names, " ")
        for (i = 1; i <= n; i++) printf "%s\"%s\":{\"total_s\":%g,\"exclusive_s\":%g,\"count\":40,\"mean_s\":%g}",
            (i > 1 ? "," : ""), names[i], s / 4, s / 4, s / 160 }'
}

# entry ID CONFIGURATION REPEAT BATCH LABEL STATE REASON: one of experiment.json's runs.
entry() {
    printf '{"id":"%s","dir":"runs/%s","configuration":%d,"repeat":%d,"settings":{"batch":"%d","attention":"%s"},' \
        "$1" "$1" "$2" "$3" "$4" "$5"
    printf '"state":"%s","reason":"%s","seconds":1.5,"exit":0,"planned_bytes":null,"predicted_s":null}' "$6" "$7"
}

nasty='<b>&\"'
mkdir exp
for repeat in 0 1; do
    write_run "a$repeat" 4 flash "1.$repeat"
    write_run "b$repeat" 8 flash "1.4$repeat"
    write_run "c$repeat" 4 nasty "2.$repeat"
done
cat >exp/experiment.json <<JSON
{"format": 1, "name": "page", "title": "A page <script>alert(1)</script>", "about": "What is $nasty?",
 "recipe": "page.yaml", "smoke": false, "pacer": {"version": "0", "commit": "abc"},
 "started": "2026-01-02T03:04:05Z", "updated": "2026-01-02T03:05:05Z", "finished": true,
 "axes": [["batch"], ["attention"]], "repeats": 2,
 "tables": [{"title": "Speed & size", "per": "configuration", "columns": ["batch", "attention", "tok_s", "peak_bytes"]},
            {"title": "Each run", "per": "run", "columns": ["configuration", "state", "total_s", "val_loss"]}],
 "charts": [{"name": "throughput", "title": "Throughput", "kind": "bars", "x": "batch", "y": ["tok_s"], "series": "attention"},
            {"name": "memory", "title": "Peak memory", "kind": "bars", "x": "configuration", "y": ["peak_bytes"]},
            {"name": "scaling", "title": "Throughput over batch", "kind": "lines", "x": "batch", "y": ["tok_s"],
             "series": "attention", "logx": true, "ideal": true},
            {"name": "phases", "title": "Where the time goes", "kind": "stack", "x": "configuration",
             "y": ["forward_s", "backward_s", "optimizer_s"]},
            {"name": "loss", "title": "Loss", "kind": "curves", "x": "tokens", "y": ["train_loss", "val_loss"]}],
 "runs": [$(entry a0 0 0 4 flash done ""), $(entry b0 1 0 8 flash done ""), $(entry c0 2 0 4 "$nasty" done ""),
          $(entry d0 3 0 8 "$nasty" oom "out of memory <here>"), $(entry a1 0 1 4 flash done ""),
          $(entry b1 1 1 8 flash done ""), $(entry c1 2 1 4 "$nasty" done ""), $(entry d1 3 1 8 "$nasty" oom "")]}
JSON

expect 0 "exp/report.html" report exp
page=exp/report.html
names="throughput memory scaling phases loss"

# has FILE TEXT...: each text is in the file.
has() {
    local file=$1 text
    shift
    for text in "$@"; do
        grep -qF -- "$text" "$file" || fail "$file has no '$text'"
    done
}
hasnt() {
    local file=$1 text
    shift
    for text in "$@"; do
        ! grep -qiF -- "$text" "$file" || fail "$file has '$text'"
    done
}

# The document, one line of JSON within the page, has all of it; the rest of the page names only its title.
sed -n 's/^<script type="application\/json" id="document">\(.*\)<\/script>$/\1/p' $page >document.json
[[ $(wc -l <document.json) == 1 ]] || fail "$page has no document"
has document.json "Speed \\u0026 size" "Each run" "oversubscribed: no measurement of scaling" \
    "out of memory \\u003chere\\u003e" "\\u003cb\\u003e\\u0026" "Processor \\u003cX\\u003e" "pacer sweep page.yaml" \
    '"type":"findings"' '"type":"parallel"' '"type":"curves"'
for name in $names; do
    has document.json "\"name\":\"$name\""
done
hasnt document.json "<" ">" "&" ":nan" ",nan" "inf,"
if command -v python3 >/dev/null; then
    python3 -m json.tool document.json >/dev/null 2>err || fail "the document is no JSON: $(cat err)"
fi
# One file that asks for nothing: what may run has the page's own number, and nothing may be loaded.
has $page "default-src 'none'; script-src 'nonce-" "&lt;script&gt;alert(1)&lt;/script&gt;" "<noscript>" "report.md"
bare_page $page >bare.html
hasnt bare.html "<b>" "http:" "https:" " src=" "<link" " href=" "url(" "@import"
[[ $(grep -c "<script" bare.html) == 1 ]] || fail "$page has scripts that are not pacer's"
nonce=$(grep -o "nonce-[0-9a-f]*" $page | head -1)
[[ $(grep -o '^<script nonce="[0-9a-f]*">' $page | sort -u) == "<script nonce=\"${nonce#nonce-}\">" ]] ||
    fail "$page has scripts without its number"
has exp/report.md "## Speed" "## Each run" "| oom |" "<details><summary>The numbers behind them"
sed 's/<details><summary>//; s/<\/summary>//; s/^<\/details>//' exp/report.md >bare.md
hasnt bare.md "<"

if command -v gnuplot >/dev/null; then
    for name in $names; do
        svg=exp/charts/$name.svg
        [[ -s $svg && -s exp/charts/$name.png ]] || { fail "no chart $name"; continue; }
        hasnt "$svg" "nan" "http://localhost" "<script"
        has "$svg" "viewBox"
        has exp/report.md "charts/$name.png"
        if command -v xmllint >/dev/null; then
            xmllint --noout "$svg" 2>err || fail "$svg is not XML"
        fi
    done
    has exp/charts/throughput.svg "flash" "&lt;b>&amp;" "OOM" "Throughput (tokens/s)"
    has exp/charts/memory.svg "MiB"
    # Numbers at the ends of bars; gnuplot would read a digit behind an octal number as part of it.
    notes=$(grep -h -A1 'font-size="11.00"' exp/charts/{throughput,memory,phases}.svg | grep '<text>')
    [[ $notes == *.* ]] || fail "no bar has a number with a fraction: $notes"
    ! grep -vE '<text>([0-9.]+[kMGT]?|OOM)</text>' <<<"$notes" || fail "bars have other labels than numbers"
    has exp/charts/scaling.svg "ideal" "OOM"
    has exp/charts/phases.svg "Forward" "Backward" "Optimizer" "OOM" "time (s)"
    has exp/charts/loss.svg "validation" "tokens"
else
    echo "gnuplot is not installed: charts were not looked at"
fi

# Five charts, all curves, and parallel coordinates.
bash "$here/page_check.sh" "$PWD/$page" "$PWD/shots" 7 >checked 2>&1 || fail "in a browser: $(cat checked)"
cat checked

# Elsewhere, and without gnuplot: no pictures, a warning, everything else, charts in the page included.
mkdir empty
PATH=$PWD/empty "$PACER" report exp --out other >out 2>err || fail "without gnuplot: exit status $?"
has err "gnuplot is not installed"
has other/report.md "A chart is missing"
has other/report.html "Speed \\u0026 size" "A chart is missing" '"name":"loss","kind":"lines"'
[[ ! -e other/charts/loss.svg ]] || fail "a chart without gnuplot"

# A chart that asks for nonsense is named, and the others are drawn.
sed -i 's/"name": "memory"/"name": "..\/memory"/; s/"x": "tokens"/"x": "toknes"/' exp/experiment.json
expect 0 "toknes" report exp
has $page "curves go over step, tokens or seconds, not over toknes" "../memory"
[[ ! -e exp/memory.svg ]] || fail "a chart's name left its folder"

# A run alone, and what is neither.
expect 0 "one/report.html" report exp/runs/a0 --out one
has one/report.html "Tokens per second" '"type":"options"' "Where the time went"
expect 2 "neither a run" report empty
expect 2 "report needs an argument" report
exit $failed
