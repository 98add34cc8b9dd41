#!/usr/bin/env bash
# One training job over the hosts of a file, one rank per GPU: recipes/mpirun.sh HOSTFILE TRAIN-OPTIONS...
# HOSTFILE has lines like `node1 slots=8`. The same paths must hold on every host (a shared file system), and ssh
# between them must not ask for anything. On one machine there is no need for this: pacer train --ranks N. For Open
# MPI; that of MPICH is `mpirun -n N -f HOSTFILE build/pacer train ...`, with lines like `node1:8`.
set -euo pipefail
hosts=${1:?usage: recipes/mpirun.sh HOSTFILE TRAIN-OPTIONS...}
shift
cd "$(dirname "$0")/.."
ranks=$(awk '{ n = 1; for (i = 2; i <= NF; i++) if (sub(/^slots=/, "", $i)) n = $i; sum += n } END { print sum }' "$hosts")
# When the network goes silent pacer ends its ranks after --comm-timeout, but mpirun would wait many minutes for its own
# connections to fail.
silence=(--mca oob_tcp_keepalive_time 10 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3)
# After Ctrl-C mpirun tells the ranks to end and kills them one second later, unless it is given
# time: they finish the step and save. Two minutes are enough for most models.
patience=(--mca odls_base_sigkill_timeout 120)
pass=(-x PATH)
[[ -z ${LD_LIBRARY_PATH:-} ]] || pass+=(-x LD_LIBRARY_PATH)
exec mpirun -np "$ranks" --hostfile "$hosts" --bind-to none "${silence[@]}" "${patience[@]}" "${pass[@]}" \
    "$PWD/build/pacer" train "$@"
