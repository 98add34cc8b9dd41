#!/usr/bin/env bash
# Ranks over MPI, as processes: tests/comm/ranks.c under mpirun. Every collective exactly, with 1 to 8 ranks; a rank
# that dies, stops or never comes ends the others with a message that names it, and leaves no process.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "${PACER:?set PACER to the program}")
ranks=$build/tests/comm_ranks
work=$(mktemp -d "${TMPDIR:-/tmp}/pacer-comm-XXXXXX") || exit 1
# Processes of this test have this folder's name among their arguments.
trap 'pgrep -f "$work/" | xargs -r kill -9; rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

fail() {
    printf 'FAILED: %s\n' "$*"
    sed 's/^/    /' out
    failed=1
}

if [[ ! -e $build/pacer_mpi.so ]]; then
    "$ranks" launch 2 >out 2>&1 && fail "two ranks without MPI"
    grep -q 'pacer was built without it: install' out || fail "does not say what to install"
    echo "this build has no MPI: only that was tested"
    exit $failed
fi

# shellcheck source=tests/support/mpirun.sh
source "$here/support/mpirun.sh"
# MPI keeps memory until the end of the process.
export ASAN_OPTIONS=detect_leaks=0
mpirun=(timeout -k 5 100 "$mpirun_path" "${mpirun_more[@]}" -bind-to none)

"$ranks" exact "$work/" >out 2>&1 || fail "one rank without mpirun"
grep -q '^1 ranks, none: exact' out || fail "one rank without mpirun uses no MPI"
for n in 1 2 3 4 8; do
    "${mpirun[@]}" -np "$n" "$ranks" exact "$work/" >out 2>&1 || fail "$n ranks: status $?"
    grep -q "^$n ranks, .*: exact" out || fail "$n ranks"
done

# fault HOW RANKS TEXT: with rank 1 failing so at step 5, some rank says TEXT (an extended regular expression), no
# rank goes on, and nothing is left running. In a folder and a process of its own: most of it is waiting.
fault() {
    local how=$1 n=$2 text="pacer: error: rank [0-9]+: $3\$" status left
    # MPICH's mpirun ends the others before they can speak.
    [[ $how == kill && ${#mpirun_more[@]} == 0 ]] && text="PID [0-9]+ RUNNING AT $host"
    trap - EXIT
    mkdir "$how" && cd "$how" || exit 1
    "${mpirun[@]}" -np "$n" "$ranks" fault "$how" "$work/$how/board" >out 2>&1
    status=$?
    [[ $status != 0 && $status != 124 ]] || fail "$how: status $status"
    grep -Eq "$text" out || fail "$how: not said: $text"
    grep -q 'came through' out && fail "$how: a rank went on"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        left=$(pgrep -f "$work/$how/")
        [[ -n $left ]] || break
        sleep 0.2
    done
    [[ -z $left ]] || fail "$how: left running: $left"
    exit $failed
}

host=$(uname -n)
who="rank 1 on host ${host//./\\.} \(pid [0-9]+\)"
waited='have waited [0-9.]+ s in'
# Collectives 1 to 3 open the communicator; 5 steps have made one each.
faults=()
fault kill 3 "$who has ended: it was at step 5, before all-reduce 9; rank [02] waits for it in all-reduce 9" &
faults+=($!)
fault stop 4 "$who is at step 5, before all-reduce 9, and shows no sign of life; ranks 0, 2, 3 $waited all-reduce 9 for it" &
faults+=($!)
fault late 2 "$who is at step 5, before all-reduce 9; rank 0 ${waited/have/has} all-reduce 9 for it" &
faults+=($!)
fault control 3 "$who is at step 5, before barrier 'save' 9; ranks 0, 2 $waited barrier 'save' 9 for it" &
faults+=($!)
# Ranks whose boards are not in one folder, as on hosts that share none.
apart() {
    trap - EXIT
    mkdir apart && cd apart || exit 1
    "${mpirun[@]}" -np 1 "$ranks" fault late "$work/apart/here" : -np 1 "$ranks" fault late "$work/apart/there" >out 2>&1 &&
        fail "boards in two folders"
    grep -Eq "/apart/there: rank 1 on host .* does not see there what rank 0 on host" out || fail "boards in two folders: message"
    exit $failed
}
apart &
faults+=($!)
for process in "${faults[@]}"; do
    wait "$process" || failed=1
done

# On a GPU, all ranks on one, through NCCL.
device=$build/tests/comm_device
"$device" exact >out 2>&1
status=$?
if [[ $status == 77 ]]; then
    cat out
else
    [[ $status == 0 ]] || fail "one rank on a GPU: status $status"
    for n in 2 4; do
        "${mpirun[@]}" -np "$n" "$device" exact "$work/" >out 2>&1 || fail "$n ranks on a GPU: status $?"
        grep -q "^$n ranks on a GPU, .*: exact" out || fail "$n ranks on a GPU"
    done
    "${mpirun[@]}" -np 3 "$device" fault "$work/gpu-board" >out 2>&1 && fail "a missed rank on a GPU"
    grep -Eq "pacer: error: rank [02]: $who is at step 5, before GPU collective 7; ranks 0, 2 $waited" out ||
        fail "a missed rank on a GPU: message"
fi

# The program starts its own ranks, arguments unharmed, and once only.
"$ranks" launch 2 "a b" "$work/ c" >out 2>&1 || fail "launch: status $?"
for rank in 0 1; do
    [[ $(grep -cFx "rank $rank of 2: $work/ c" out) == 1 ]] || fail "launch: rank $rank"
done
PACER_MPI_MODULE=/nowhere/pacer_mpi.so "$ranks" launch 2 >out 2>&1 && fail "launch without MPI"
grep -q 'MPI, which does not load: .*libopenmpi-dev' out || fail "launch without MPI: message"
OMPI_COMM_WORLD_SIZE=2 PACER_MPI_MODULE=/nowhere/pacer_mpi.so "$ranks" exact >out 2>&1 && fail "rank without MPI"
grep -q 'MPI, which does not load' out || fail "rank without MPI: message"

PACER_MPI_LAUNCHER="echo" "$ranks" launch 2 "a b" >out 2>&1 || fail "another launcher: status $?"
grep -q '^2 .*comm_ranks launch 2 a b' out || fail "another launcher: arguments"

# Started as one of two by what this MPI knows nothing of, each would train alone.
refused() { # text, variable...
    env "${@:2}" "$ranks" exact >out 2>&1 && fail "${*:2}: one rank in place of two"
    grep -Eq "pacer: error: $1" out || fail "${*:2}: not said: $1"
}
refused 'this process was started as one of 2 ranks, but .* sees 1: start it with' MV2_COMM_WORLD_SIZE=2
refused 'the mpirun that was to start 2 ranks is of another MPI: .* sees 1; name' PACER_LAUNCHED_RANKS=2
refused 'srun started 2 tasks, but .* sees 1: start them with srun --mpi=pmi' SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2

# A board that cannot be kept is an error at the start.
"${mpirun[@]}" -np 2 "$ranks" fault late /dev/null/board >out 2>&1 && fail "an impossible board"
grep -q '/dev/null: is a file, where a folder is to be' out || fail "an impossible board: message"

[[ $failed == 0 ]] && echo "ranks are exact, and missed ranks are named"
exit $failed
