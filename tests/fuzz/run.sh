#!/usr/bin/env bash
# Fuzzes every parser for a while: tests/fuzz/run.sh SECONDS [BUILD] [NAME...]
# Builds with clang and libFuzzer where both work, else with the usual compiler, sanitizers and our
# own driver. SECONDS of wall time are shared by all targets (or those named), one process per core.
# What libFuzzer learns stays in BUILD/corpus/NAME, inputs that fail in BUILD/crashes. Status 1
# when one did.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
seconds=${1:-600}
build=${2:-build-fuzz}
shift $(($# < 2 ? $# : 2))

works() { # clang with libFuzzer and OpenMP
    command -v clang >/dev/null &&
        printf 'int LLVMFuzzerTestOneInput(const char *d, long n) { return n < 0 && d; }\n' |
        clang -fsanitize=fuzzer,address,undefined -fopenmp -x c - -o "$build/probe" 2>/dev/null
}

mkdir -p "$build/crashes" || exit 2
options=(-DPACER_TESTS=ON -DPACER_SANITIZE=ON -DPACER_CUDA=OFF)
guided=OFF
if works; then
    guided=ON
    options+=(-DCMAKE_C_COMPILER=clang)
fi
rm -f "$build/probe"
cmake -S . -B "$build" -G Ninja --log-level=NOTICE "${options[@]}" -DPACER_LIBFUZZER=$guided || exit 2
quiet=$([[ -t 2 ]] || ! ninja --quiet --version >/dev/null 2>&1 || echo --quiet)
# shellcheck disable=SC2086
ninja $quiet -C "$build" fuzz_targets || exit 2

names=("$@")
if [[ ${#names[@]} == 0 ]]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=$(basename "$source" .c)
        names+=("${name#fuzz_}")
    done
fi
cores=$(nproc)
each=$((seconds * cores / ${#names[@]}))
each=$((each < 1 ? 1 : each > seconds ? seconds : each))
scratch=$(mktemp -d "$([[ -w /dev/shm ]] && echo /dev/shm || echo /tmp)/pacer-fuzz-XXXXXX") || exit 2
trap 'rm -rf "$scratch"' EXIT
echo "fuzz: ${#names[@]} targets, $each s each, $cores at a time, libFuzzer $guided"

fuzz_one() {
    local name=$1 program=$build/tests/fuzz/fuzz_$1 seeds=tests/fuzz/seeds/$1 log=$build/fuzz_$1.log
    mkdir -p "$build/corpus/$name"
    if [[ $guided == ON ]]; then
        "$program" -max_total_time="$each" -timeout=10 -rss_limit_mb=2048 -max_len=32768 \
            -dict=tests/fuzz/edges.dict -artifact_prefix="$build/crashes/$name-" \
            -print_final_stats=1 \
            "$build/corpus/$name" "$seeds" >"$log" 2>&1
    else
        "$program" --seconds "$each" --seed "$RANDOM" --keep "$build/crashes" "$seeds" >"$log" 2>&1
    fi
    local status=$?
    if [[ $status != 0 ]]; then
        echo "fuzz_$name: FAILED, see $log"
        tail -n 30 "$log"
        return 1
    fi
    echo "fuzz_$name: no failure in" \
        "$(grep -oE '[0-9]+ inputs|number_of_executed_units: [0-9]+' "$log" | grep -oE '[0-9]+') inputs"
}
export -f fuzz_one
export build guided each
export TMPDIR=$scratch OMP_NUM_THREADS=1

if ! printf '%s\n' "${names[@]}" | xargs -P "$cores" -I '{}' bash -c 'fuzz_one {}'; then
    echo "fuzz: inputs that fail are in $build/crashes" >&2
    exit 1
fi
