#!/usr/bin/env bash
# What the program sets for the libraries that it is linked with, and starts again for: how OpenMP threads wait for
# each other, briefly unless the user has chosen (the runtime tells its settings, OMP_DISPLAY_ENV); and kernels of
# OpenBLAS that suit the processor. In the program alone and not in what it starts; nothing else of a start is lost.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"
unset OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME KMP_LIBRARY OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS

# starts NAME=VALUE...: one line for each start of the program with these variables: how often threads spin. The
# libraries for products bring gcc's runtime, also where pacer itself uses LLVM's.
starts() { told "s/.*GOMP_SPINCOUNT = '\(.*\)'/\1/p" "$@"; }
told() { env OMP_DISPLAY_ENV=verbose "${@:2}" "$PACER" version 2>&1 >/dev/null | sed -n "$1"; }

mapfile -t spins < <(starts)
((${#spins[@]} == 2)) || fail "started ${#spins[@]} times, not twice"
((spins[-1] >= 100 && spins[-1] <= 30000)) || fail "threads spin ${spins[-1]} times"
blocktimes=$(told "s/.*KMP_BLOCKTIME='\(.*\)'/\1/p" | tail -n 1)
[[ $blocktimes == "" || $blocktimes == 0* ]] || fail "LLVM's threads spin for $blocktimes ms"

# What the user has chosen stays, and needs no second start.
[[ $(starts GOMP_SPINCOUNT=4242) == 4242 ]] || fail "GOMP_SPINCOUNT of the user was changed"
[[ $(starts OMP_WAIT_POLICY=passive) == 0 ]] || fail "OMP_WAIT_POLICY of the user was changed"
[[ $(starts KMP_BLOCKTIME=7 | wc -l) == 1 ]] || fail "KMP_BLOCKTIME of the user: started again"

# The mark of another process is none; valgrind's programs are not left.
[[ $(starts PACER_RESTARTED_AS=1 | wc -l) == 2 ]] || fail "another process's mark kept it from starting again"
[[ $(starts LD_PRELOAD=./vgpreload_core.so | wc -l) == 1 ]] || fail "valgrind's program was left"

loader=$(readelf -p .interp "$PACER" | grep -o '/.*')

# An OpenBLAS that takes the processor for an old one is told which kernels to take; not against the user's word.
# OLD_BLAS, preloaded, says that of itself; sanitizers load first.
blas_of() { # NAME=VALUE...: what a run says of its libraries
    rm -rf core
    env LD_PRELOAD="$OLD_BLAS" "$@" "$PACER" train --data builtin:bytes --steps 1 --batch 1 --seq 8 --eval-every 0 \
        --device cpu --threads 1 --quiet --out core 2>/dev/null
    sed -n 's/.*"blas":\t*"\(.*\)",*/\1/p' core/run.json
}
if [[ -n ${OLD_BLAS:-} && $("$PACER" --version) == *OpenBLAS* ]] && grep -q avx2 /proc/cpuinfo; then
    ours='kernels chosen by pacer'
    [[ $(blas_of) == *"$ours"* ]] || fail "no better kernels were chosen: $(blas_of)"
    [[ $(blas_of OMP_WAIT_POLICY=passive) == *"$ours"* ]] || fail "none were chosen where the user said how to wait"
    [[ $(blas_of OPENBLAS_CORETYPE=Haswell) != *"$ours"* ]] || fail "OPENBLAS_CORETYPE of the user was changed"
    env LD_PRELOAD="$OLD_BLAS" "$PACER" version >out 2>err || fail "version: status $?"
    [[ -s err ]] && fail "something was said: $(<err)"
    # Started by the dynamic loader it cannot start again, and says what is to be done.
    env LD_PRELOAD="$OLD_BLAS" "$loader" "$PACER" train --data builtin:bytes --steps 1 --batch 1 --seq 8 --eval-every 0 \
        --device cpu --threads 1 --out slow >out 2>err || fail "slow products: status $?"
    grep -q 'start the program with OPENBLAS_CORETYPE=[SH]' err || fail "no warning of slow products: $(<err)"
fi

# Process, arguments and standard input are the same, and so is the answer.
expect 2 "unknown command 'a  b'" 'a  b' ''
[[ $(printf 'A\n' | "$PACER" tokenizer encode --tokenizer bytes --quiet) == '65 10' ]] || fail "standard input was lost"
mkfifo silence
exec 3<>silence
"$PACER" tokenizer encode --tokenizer bytes <silence >out 2>err 3>&- &
child=$!
for ((i = 0; i < 3000; i++)); do # as long as it is the first start
    grep -qzE "^PACER_RESTARTED_AS=$child( |$)" "/proc/$child/environ" && break
    sleep 0.01
done
((i < 3000)) || fail "process $child was not the one that started again"
[[ $(<"/proc/$child/comm") == "${PACER##*/}" ]] || fail "the process is called $(<"/proc/$child/comm")"
[[ $(tr '\0' ' ' <"/proc/$child/cmdline") == "$PACER tokenizer encode --tokenizer bytes " ]] ||
    fail "its arguments are $(tr '\0' ' ' <"/proc/$child/cmdline")"
exec 3>&-
wait $child || fail "with nothing on standard input: status $?"

# Started by the dynamic loader, whose name /proc/self/exe then has.
"$loader" "$PACER" version >out 2>err || fail "started by $loader: status $?"

# Programs that it starts have the user's environment, and ranks are as ever.
if [[ $("$PACER" --version) == *"with "*MPI* ]]; then
    printf '#!/bin/sh\nenv\n' >launcher
    chmod +x launcher
    PACER_MPI_LAUNCHER=./launcher "$PACER" train --model tiny --data builtin:bytes --ranks 2 >out 2>err ||
        fail "another launcher: status $?"
    grep -q '^PATH=' out || fail "the launcher was not started"
    grep -E '^(GOMP_SPINCOUNT|KMP_BLOCKTIME|OPENBLAS_[A-Z_]*|PACER_RESTARTED_AS)=' out && fail "the launcher has them in its environment"
    if type -t mpirun >/dev/null; then
        [[ -n ${ASAN_OPTIONS:-} ]] && export ASAN_OPTIONS=detect_leaks=0 # MPI keeps memory to the end
        "$PACER" train --model tiny --data builtin:bytes --ranks 2 --threads 2 --batch 1 --steps 2 --eval-every 0 \
            --quiet --out two 2>err || fail "two ranks: status $?"
    fi
fi
exit $failed
