#!/usr/bin/env bash
# One training job over the hosts of a file, one rank per GPU: recipes/mpirun.sh HOSTFILE TRAIN-OPTIONS...
# HOSTFILE has lines like `node1 slots=8`. The same paths must hold on every host (a shared file system), and ssh
# between them must not ask for anything. On one machine there is no need for this: pacer train --ranks N.
set -euo pipefail
hosts=${1:?usage: recipes/mpirun.sh HOSTFILE TRAIN-OPTIONS...}
shift
cd "$(dirname "$0")/.."
ranks=$(awk '{ n = 1; for (i = 2; i <= NF; i++) if (sub(/^slots=/, "", $i)) n = $i; sum += n } END { print sum }' "$hosts")
exec mpirun -np "$ranks" --hostfile "$hosts" --bind-to none -x LD_LIBRARY_PATH -x PATH "$PWD/build/pacer" train "$@"
