#!/usr/bin/env bash
# The front door: help, exit statuses and messages of the program in $PACER. Runs no command's work.
set -uo pipefail

pacer=${PACER:?set PACER to the program}
work=$(mktemp -d "${TMPDIR:-/tmp}/pacer-cli-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

# expect STATUS STREAM TEXT ARGUMENT...: pacer ARGUMENT... exits with STATUS, TEXT is in STREAM (out
# or err), and the other stream is empty.
expect() {
    local status=$1 stream=$2 text=$3 other=err got
    shift 3
    [[ $stream == err ]] && other=out
    "$pacer" "$@" >out 2>err </dev/null
    got=$?
    if [[ $got != "$status" ]] || ! grep -qF -- "$text" "$stream" || [[ -s $other ]]; then
        printf 'pacer %s\n  expected status %s and "%s" in %s\n  got status %s\n' "$*" "$status" \
            "$text" "$stream" "$got"
        sed 's/^/  out: /' out
        sed 's/^/  err: /' err
        failed=1
    fi
}

# refuse TEXT HINT ARGUMENT...: wrong use, told in two lines: the error, and where help is.
refuse() {
    local text=$1 hint=$2
    shift 2
    expect 2 err "$text" "$@"
    if [[ $(wc -l <err) != 2 || $(head -c 14 err) != 'pacer: error: ' || $(sed -n 2p err) != "try: $hint" ]]; then
        printf 'pacer %s: not an error line and the hint "%s":\n' "$*" "$hint"
        cat err
        failed=1
    fi
}

# options_of COMMAND: the names in its help, one per line.
options_of() {
    # shellcheck disable=SC2086
    "$pacer" $1 --help | sed -n 's/^  --\(\[no-\]\)\{0,1\}\([a-z0-9-]*\).*/\2/p'
}

# takes COMMAND OPTION...: its help has exactly these options, besides the general ones.
takes() {
    local command=$1 expected actual
    shift
    expected=$(printf '%s\n' "$@" config quiet verbose help | sed '/^$/d' | sort)
    actual=$(options_of "$command" | sort)
    if [[ $actual != "$expected" ]]; then
        printf 'options of %s:\n' "$command"
        diff <(echo "$expected") <(echo "$actual")
        failed=1
    fi
}

commands=(train plan models 'tokenizer train' 'tokenizer encode' 'tokenizer decode' 'tokenizer info'
    'data prepare' 'data info' 'data stories' 'bench step' 'bench ops' 'bench attention' profile check sweep duel watch
    generate eval export import completion demo)

expect 0 out 'Usage: pacer COMMAND' help
expect 0 out 'Usage: pacer COMMAND' --help
expect 0 out 'Usage: pacer COMMAND' -h
expect 2 out 'Usage: pacer COMMAND'
expect 0 out 'pacer ' version
expect 0 out 'pacer ' --version
grep -qE '^pacer [0-9]+\.[0-9]+\.[0-9]+ \(' out || { echo "odd version line"; failed=1; }
for command in "${commands[@]}"; do
    # shellcheck disable=SC2086
    expect 0 out "Usage: pacer $command [OPTIONS]" $command --help
    cp out first
    [[ $(grep -c '^  pacer ' first) -ge 2 ]] || { echo "$command: fewer than two examples"; failed=1; }
    awk 'length($0) > 100 { print FILENAME ": over 100 columns: " $0; bad = 1 } END { exit bad }' first ||
        failed=1
    # shellcheck disable=SC2086
    expect 0 out "Usage: pacer $command [OPTIONS]" help $command
    cmp -s out first || { echo "help $command is not $command --help"; failed=1; }
    # shellcheck disable=SC2086
    expect 0 out "Usage: pacer $command [OPTIONS]" $command --nonsense -h
    expect 0 out "  $command  " help
done
expect 0 out 'data prepare' help data
expect 0 out 'bench ops' bench --help
# Each command says what an option is there, and its default there.
expect 0 out 'run directory; without it runs/MODEL-ID' train --help
expect 0 out 'of the stories (default 1;' data stories --help
expect 0 out 'folder of the experiment; without it experiments/NAME' sweep --help

model=(model dial layers d-model heads kv-heads head-dim ffn vocab context tied ttt mini-batch ttt-lr norm-eps rope-base
    rope-scaling rope-factor rope-low rope-high rope-context rope-gain norm ffn-kind qkv-bias
    qk-norm window full-every rope-local-base score-scale score-cap post-norm embed-scale logit-cap)
training=("${model[@]}" data documents end batch accum global-batch batch-ramp ramp-lr seq steps tokens epochs flops minutes
    seed lr min-lr warmup schedule wsd-decay weight-decay optimizer momentum muon-steps state-dtype grad-dtype parametrization mup-base
    mup-base-ffn mup-base-head-dim beta1 beta2 eps clip noise-scale device dtype attention ttt-keep graph recompute offload threads
    memory-limit fit fit-also out resume branch-at init log-every eval-every eval-batches save-every save-minutes save keep
    ranks ddp shard-group bucket-mb comm-dtype oversubscribe comm-timeout verify-every)
takes train "${training[@]}" tensorboard expected-tok-s min-ranks restarts sample-every
takes plan "${training[@]}" link link-us link-gbs per-node node-link recommend hours noise-from json
takes models ''
text=(format field skip-bad)
takes 'tokenizer train' vocab seed threads memory-limit out "${text[@]}" chat-template special pattern ties unit \
    min-frequency
takes 'tokenizer encode' threads out tokenizer ids
takes 'tokenizer decode' out tokenizer ids skip-special
takes 'tokenizer info' ''
takes 'data prepare' seed threads out "${text[@]}" chat-template tokenizer end val-fraction shard-tokens
takes 'data stories' seed threads out bytes
takes 'data info' ''
step=("${model[@]}" data documents end batch accum seq seed optimizer muon-steps state-dtype grad-dtype parametrization mup-base mup-base-ffn
    mup-base-head-dim
    device dtype attention ttt-keep graph recompute offload threads memory-limit)
bench=("${step[@]}" repeats warm)
takes 'bench step' "${bench[@]}" verify
takes 'bench ops' "${bench[@]}" verify
takes 'bench comm' device threads ranks ddp shard-group bucket-mb comm-dtype oversubscribe comm-timeout bytes repeats warm json
takes 'bench attention' heads kv-heads head-dim batch seq seed device dtype threads memory-limit repeats warm \
    window document-tokens
takes profile "${step[@]}" ranks ddp shard-group bucket-mb comm-dtype oversubscribe comm-timeout out repeats warm
takes check map
takes sweep smoke dry-run jobs out
takes duel dry-run jobs out json error margin min-pairs max-pairs
takes watch every once
takes generate seed device dtype threads tokenizer json prompt max-tokens samples temperature top-k top-p stop stream cache
takes eval data documents batch seq device dtype threads memory-limit ranks oversubscribe comm-timeout "${text[@]}" tokenizer end json \
    split batches each
takes export dtype out format type shard-bytes
takes import out
takes completion ''
takes demo out threads

# What is wrong with an option's value is said beside where help is (test_config has every option of every command).
refuse '--batch needs a value' 'pacer train --help' train --batch
refuse "--graph 'perhaps': must be on or off" 'pacer bench step --help' bench step --graph=perhaps

refuse "unknown command 'tarin'; did you mean train?" 'pacer --help' tarin
refuse "unknown command 'data perpare'; did you mean data prepare?" 'pacer --help' data perpare x
refuse "unknown command 'hlep'; did you mean help?" 'pacer --help' hlep
refuse "unknown command ''" 'pacer --help' ''
refuse "unknown command 'data prepare'" 'pacer --help' 'data prepare'
refuse 'data needs a command behind it: prepare, info, stories' 'pacer data --help' data
refuse 'bench needs a command behind it: step, ops, attention' 'pacer bench --help' bench --batch 8
refuse "'--batch' stands before the command" 'pacer --help' --batch 8 train
refuse "unexpected argument 'x'" 'pacer --help' version x
refuse "unexpected argument 'x'" 'pacer --help' help train x
refuse "unknown command 'tarin'" 'pacer --help' help tarin

refuse "unknown option '--bacth'; did you mean --batch?" 'pacer train --help' train --bacth 8
refuse "--schedule 'cosin': no such value; did you mean cosine" 'pacer train --help' train \
    --schedule cosin
refuse "--batch '0': outside its limits, auto or 1 to 1M" 'pacer plan --help' plan --batch 0
refuse '--batch is given twice' 'pacer plan --help' plan --batch 1 --batch 2
refuse '--batch is not an option of models; it belongs to: train, plan, bench step, bench ops, bench attention' \
    'pacer models --help' models --batch 8
# A machine without a GPU, or a build without CUDA, says so; the line is no matter of usage.
CUDA_VISIBLE_DEVICES='' expect 2 err 'use --device cpu' bench step --device cuda
CUDA_VISIBLE_DEVICES='' expect 2 err 'use --device cpu' bench attention --device cuda
expect 2 err '--seq 8: bench attention takes 16 tokens and more' bench attention --device cpu --seq 8
expect 2 err '--kv-heads 5 does not divide the 12 heads' bench attention --device cpu --kv-heads 5
refuse 'train needs --data DATA' 'pacer train --help' train
refuse "unexpected argument 'run.yaml'; a file of options is given by --config" 'pacer train --help' train run.yaml
refuse "unexpected argument 'data'; options start with two dashes" 'pacer train --help' train data shards
refuse "train: unexpected argument 'batch'; options start with two dashes" 'pacer train --help' \
    train --data d batch 8
refuse "unexpected argument 'maybe'; options are written --name value or --name=value" \
    'pacer models --help' models --quiet maybe
refuse 'check: an argument is empty' 'pacer check --help' check ''
refuse 'data info needs an argument: pacer data info [OPTIONS] DATA' 'pacer data info --help' \
    data info
refuse "data info: unexpected argument 'b'" 'pacer data info --help' data info a b

printf 'batch: 4\nsteps: 10\nsead: 3\n' >run.yaml
refuse "run.yaml:3: unknown option 'sead'; did you mean seed?" 'pacer plan --help' plan --config run.yaml
printf 'batch: 4\nglobal-batch: 6\n' >run.yaml
refuse 'run.yaml:2: global-batch 6: not a multiple of batch 4' 'pacer plan --help' plan --config run.yaml
refuse 'missing.yaml: cannot read' 'pacer plan --help' plan --config missing.yaml

# What is in the way of --out and --json is told before the work, with the option.
: >file
for call in 'train --data builtin:bytes' 'data prepare file' 'export x' 'export x --format csv' 'import x' 'report x' demo \
    'sweep x.yaml' 'duel a b'; do
    # shellcheck disable=SC2086
    expect 2 err '--out: file: is a file, where a folder is to be; move it, or name another' $call --out file
done
for call in 'tokenizer train file' 'tokenizer encode --tokenizer bytes file' 'tokenizer decode --tokenizer bytes file' 'data stories' profile \
    'export x --format gguf'; do
    # shellcheck disable=SC2086
    expect 2 err '--out: file: is a file, where a folder is to be' $call --out file/x
    # shellcheck disable=SC2086
    expect 2 err '--out: none/x: cannot write: there is no folder none' $call --out none/x
done
expect 2 err '--json: file: is a file, where a folder is to be' eval x --json file/x
expect 2 err '--out: file: is a file, where a folder is to be' train --data builtin:bytes --out file/runs/x

# Help keeps to a terminal that is narrow; only what may be typed and lists of words are longer.
if command -v script >/dev/null; then
    for columns in 40 72; do
        TERM=xterm script -qec "stty cols $columns rows 24; $pacer help; $pacer train --help" typescript </dev/null >out
        tr -d '\r' <out | awk -v most=$columns '/^Numbers take/ { seen++ }
            length($0) > most && !/^  (--|pacer)/ { print "over " most " columns: " $0; bad = 1 } END { exit bad || !seen }' || failed=1
    done
fi

# A reader that has seen enough is no error.
"$pacer" help train 2>err | head -1 >out
[[ ${PIPESTATUS[0]} == 0 && ! -s err ]] || { echo "pacer help train | head: $(<err)"; failed=1; }
if [[ -e /dev/full ]]; then
    "$pacer" help >/dev/full 2>err
    [[ $? == 1 && $(<err) == 'pacer: error: '* ]] || { echo "a full disk went unnoticed"; failed=1; }
fi

[[ $failed == 0 ]] && echo "the front door opens and refuses as it should"
exit $failed
