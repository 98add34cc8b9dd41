#!/usr/bin/env bash
# Runs of another program in a sweep, from the outside: an interpreter that only pretends to have PyTorch makes them. What
# is not there is left out and said; what is there becomes rows that are named, compared, and made once.
scripts=$(cd "$(dirname "$0")/../tools/peer" && pwd)
source "$(dirname "$0")/support/program.sh"

# As installed: the program finds the scripts from where it lies itself.
mkdir -p bin share/pacer
cp "$PACER" bin/pacer && cp -r "$scripts" share/pacer/peer || exit 1
PACER=$work/bin/pacer

cat >peers.yaml <<'YAML'
name: peers
base: {model: tiny, layers: 1, d-model: 16, heads: 2, ffn: 32, context: 16, data: "builtin:bytes", threads: 1, steps: 6,
       eval-every: 0, log-every: 1}
axes:
  - batch: [4, 8]
  - graph: [on, off]
skip: [{batch: 8, graph: off}]
peers: [torch, torch-compile]
tables: [{title: Speed, columns: [batch, graph, tok_s, peak_bytes, state]}]
charts: [{name: speed, title: Speed, kind: bars, x: batch, y: [tok_s]}]
YAML

# --- without PyTorch ---

export PACER_PYTHON=$work/no-such-python
expect 0 'PyTorch was not there' sweep peers.yaml --dry-run
grep -q '3 runs of 3 configurations' out || fail "rows without PyTorch: $(tail -1 out)"
printf '#!/bin/sh\necho "No module named torch" >&2\nexit 1\n' >python-without && chmod +x python-without
export PACER_PYTHON=$work/python-without
expect 0 'cannot import torch' sweep peers.yaml --out found
grep -q '"note":.*cannot import torch' found/experiment.json || fail "experiment.json has no note"
grep -q 'PyTorch was not there' found/report.md || fail "the report has no note"
stamp=$(cksum found/runs/*/run.json found/runs/*.log)

# --- with it ---

cat >python-with <<'SH'
#!/usr/bin/env bash
[[ $1 == */share/pacer/peer/torch_train.py ]] || exit 9
[[ $2 == --probe ]] && { echo 'torch 9.9.1 gpus 0'; exit 0; }
of() { grep -o "\"$1\":[[:space:]]*[^,}]*" "$2" | head -1 | sed 's/^[^:]*:[[:space:]]*//; s/"//g'; }
peer=$(of peer "$2") out=$(of out "$2") batch=$(of batch "$2")
[[ $(of layers "$2") == 1 && $(of d-model "$2") == 16 && $(of steps "$2") == 6 && $(of seq "$2") == 16 ]] || exit 8
[[ $peer == torch-compile && $batch == 8 ]] && { echo 'pacer: error: PyTorch ran out of memory: 1 of 1 GB'; exit 3; }
mkdir -p "$out"
echo '{"step":6,"tokens":192,"loss":null,"tok_s":1.5,"ms":64000}' >"$out/metrics.jsonl"
cat >"$out/run.json" <<JSON
{"schema": 1, "id": "$(of id "$2")", "status": "done", "peer": {"name": "$peer", "version": "9.9.1"},
 "config": {"batch": $batch, "accum": 1, "ranks": 1, "seq": 16},
 "summary": {"steps": 6, "tokens": 192, "tok_s": 1.5, "train_s": 128, "wall_s": 130, "peak_bytes": 1073741824}}
JSON
SH
chmod +x python-with
export PACER_PYTHON=$work/python-with
expect 0 'PyTorch: batch 4' sweep peers.yaml --out found
[[ $(cksum found/runs/*/run.json found/runs/*.log | grep -cxFf <(echo "$stamp")) == 6 ]] || fail "pacer's own runs were made again"
states=$(grep -o '"state":[^,]*' found/experiment.json | sed 's/.*://' | tr -d '[:space:]')
[[ $states == '"done""done""done""done""done""done""oom"' ]] || fail "states: $states"
[[ $(grep -c '"peer":' found/experiment.json) == 4 ]] || fail "not 4 runs of peers: $(grep peer found/experiment.json)"
for text in '| Program | batch |' '| PyTorch | 4 | – | 1.50 | 1.00 GiB | done |' '| torch.compile | 8 | – |' \
    'PyTorch | 9.9.1' 'times as fast as PyTorch' 'times as fast as torch.compile' 'against PyTorch: batch 8' \
    'against torch.compile: batch 4' 'torch.compile at batch 8 runs out of memory' '% of the memory'; do
    grep -qF -- "$text" found/report.md || fail "report.md does not have '$text'"
done
grep -E '(Use|equally fast).*torch' found/report.md && fail "a peer is among pacer's fastest"
grep -q 'not there' found/report.md && fail "the report still misses PyTorch"

# Done is done, whatever made it.
stamp=$(cksum found/runs/*/run.json)
expect 0 '' sweep peers.yaml --out found
[[ $(cksum found/runs/*/run.json) == "$stamp" ]] || fail "a finished run was made again"

# The real scripts are at least Python.
if command -v python3 >/dev/null; then
    python3 -c 'import ast, sys; [ast.parse(open(name).read(), name) for name in sys.argv[1:]]' "$scripts"/*.py ||
        fail "a script is not Python"
fi

((failed)) || echo "all of peers holds"
exit $failed
