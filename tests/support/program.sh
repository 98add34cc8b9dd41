# For tests that look at the program from outside, to be sourced: a folder of their own, and what is expected of
# a call. PACER names the program, MPIRUN the mpirun of the MPI it was built with; `exit $failed` ends the test.
set -uo pipefail
# shellcheck source=tests/support/mpirun.sh
source "$(dirname "${BASH_SOURCE[0]}")/mpirun.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/pacer-test-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

fail() {
    printf 'FAILED: %s\n' "$*"
    [[ -s err ]] && sed 's/^/    /' err
    failed=1
}

# await CONDITION: until the shell words hold, for a minute at most; then they are told, and false.
await() {
    for ((awaited = 0; awaited < 1200; awaited++)); do
        eval "$1" && return
        sleep 0.05
    done
    fail "a minute is not enough until $1"
}

# processes PATTERN: those of this test whose command line matches; another make test may be at work beside it.
processes() {
    local id
    for id in $(pgrep -f -- "$1"); do
        [[ /proc/$id/cwd -ef $work ]] && echo "$id"
    done
}

# ranks_of JOB PATTERN: the ranks among them; not JOB, which started them, nor a child of either that has yet to become
# another program.
ranks_of() {
    local id parent
    for id in $(processes "$2"); do
        parent=$(ps -o ppid= -p "$id") || continue
        [[ $id != "$1" && $(readlink "/proc/$id/exe") == "$PACER" && $(readlink "/proc/${parent// /}/exe") != "$PACER" ]] && echo "$id"
    done
}

# Whether process $1 has its handler for SIGTERM: a thread that blocks it, as they all do from the start, does not tell.
takes_term() {
    local mask
    mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status")
    ((0x$mask >> 14 & 1))
}

# limit MIB: a --memory-limit that leaves a small model's process with one thread this much for tensors.
limit() {
    "$PACER" plan --model tiny --vocab 300 --threads 1 --device cpu |
        awk -v mib="$1" '$1 == "program," { print $3 + mib * 1048576; found = 1 } END { exit !found }' ||
        fail "the plan has no row for the program"
}

# expect STATUS TEXT ARGUMENT...: pacer exits with STATUS and says TEXT, on stdout or stderr.
expect() {
    local status=$1 text=$2 actual
    shift 2
    "$PACER" "$@" >out 2>err
    actual=$?
    [[ $actual == "$status" ]] || fail "pacer $*: exit status $actual, not $status"
    grep -qF -- "$text" out err || fail "pacer $*: does not say '$text'"
}

# bare_page FILE: a report without the scripts and styles that pacer put into it; any other file as it is.
bare_page() {
    sed '/^<script nonce=/,/<\/script>$/d; /^<style>/,/<\/style>$/d' "$1"
}
