#!/usr/bin/env bash
# Makes the runs of pool.yaml (some four minutes of two cores) and duels between them: tests/duel/run.sh [BUILD [OUT]]
# prints false verdicts, power and pairs, docs/results/duel.md. The losses are left in OUT/losses.txt; those that
# `make test` uses are in tests/gold/duel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build}
out=${2:-/tmp/pacer-duel-pool}
"$build/pacer" sweep "$here/pool.yaml" --jobs 2 --out "$out" >"$out.log" ||
    { echo "the sweep failed; see $out.log" >&2; exit 1; }
# Lines of seed, loss of A, loss of B, from the records alone.
"$build/pacer" export "$out" --format csv --out "$out/csv"
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
         { seed = $column["seed"]; if (!(seed in a)) order[++n] = seed
           if ($column["lr"] == 0.003) a[seed] = $column["summary.val_loss"]; else b[seed] = $column["summary.val_loss"] }
         END { print "# seed, validation loss of A (lr 3e-3), of B (lr 2.8e-3): tests/duel/run.sh"
               for (i = 1; i <= n; i++) print order[i], a[order[i]], b[order[i]] }' "$out/csv/runs.csv" >"$out/losses.txt"
"$build/tests/test_duel_pool" "$out/losses.txt"
