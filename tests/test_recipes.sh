#!/usr/bin/env bash
# Every recipe of recipes/ at smoke scale: all runs are made, but for those that a recipe means not to fit; every table
# has a row per configuration, run or rank with no column empty throughout; every chart is drawn.
recipes=$(cd "$(dirname "$0")/../recipes" && pwd)
source "$(dirname "$0")/support/program.sh"

# Columns of a Markdown table on stdin that have no value in any row; headings as they stand there.
empty_columns() {
    awk -F ' *[|] *' 'NR == 1 { n = NF; for (i = 2; i < n; i++) head[i] = $i }
        NR > 2 { rows++; for (i = 2; i < n; i++) if ($i != "–" && $i != "") filled[i] = 1 }
        END { if (rows == 0) print "no rows"; for (i = 2; i < n; i++) if (!filled[i]) print head[i] }'
}

# Columns that stay empty here: data sheets know no CPU, and a smoke run need not reach a target or fail.
may_be_empty='^(Reason|Of the stated peak|Tokens to .*|Seconds to .*|.*target.*|Generalisation gap|Serial fraction)$'

for recipe in "$recipes"/*.yaml; do
    name=$(basename "$recipe" .yaml)
    "$PACER" sweep "$recipe" --smoke --out "$name" >out 2>err
    status=$?
    grep -q 'report.html' out err || fail "$name: no report"
    [[ $name != transfer ]] || grep -q 'd-model 64.*, lr 0.008 ' out || fail "$name: the table of runs has no rates: $(cat out)"
    failed_checks=$(awk '/"name"/ { name = $2 } /"verdict".*"fail"/ { print name }' "$name"/runs/*/run.json | sort -u)
    [[ $status == 0 && -z $failed_checks ]] || fail "$name: exit status $status, failed checks: $failed_checks"
    grep -qE '"state":[[:space:]]*"(failed|timeout|waiting|running|stopped|oom)"' "$name/experiment.json" &&
        fail "$name: $(grep -oE '"(state|reason)":[^,]*' "$name/experiment.json" | sort | uniq -c)"
    tables=0
    while IFS= read -r title; do
        rows=$(sed -n "/^## $title\$/,/^## /p" "$name/report.md" | grep '^|')
        [[ -n $rows ]] || continue
        tables=$((tables + 1))
        empty=$(empty_columns <<<"$rows" | grep -vE "$may_be_empty")
        [[ -z $empty ]] || fail "$name, $title: nothing in $(tr '\n' ',' <<<"$empty")"
    done < <(grep '^## ' "$name/report.md" | sed 's/^## //')
    asked=$(grep -cE '^  - title:' "$recipe")
    ((tables > 2)) || fail "$name: $tables tables"
    for chart in $(sed -n '/^charts:/,$p' "$recipe" | grep -oE 'name: [a-z_]+' | cut -d' ' -f2); do
        [[ -s $name/charts/$chart.svg && -s $name/charts/$chart.png ]] || fail "$name: no chart $chart"
    done
    if [[ $name == scaling-law ]]; then # the prediction is older than the run, and stays as it is
        largest=$(sed -n 's/.*"run":[[:space:]]*"\(.*\)".*/\1/p' "$name/prediction.json")
        [[ $name/prediction.json -ot $name/runs/$largest/metrics.jsonl ]] || fail "$name: predicted after the run"
        before=$(cksum <"$name/prediction.json")
        "$PACER" sweep "$recipe" --smoke --out "$name" >out 2>err || fail "$name: a second time: exit status $?"
        [[ $(cksum <"$name/prediction.json") == "$before" ]] || fail "$name: the prediction was rewritten"
        grep -q 'had been predicted from the smaller ones' "$name/report.md" || fail "$name: no verdict on it"
    fi
    echo "$name: $tables tables ($asked asked for), $(find "$name/charts" -name '*.png' | wc -l) charts"
done
exit $failed
