# shellcheck shell=bash
# To be sourced: `mpirun` is MPIRUN where that is set, and starts more ranks than there are cores. Open MPI has to be told,
# and to run as root; MPICH does both.
if mpirun_path=$(type -P "${MPIRUN:-mpirun}"); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpirun_more=()
    [[ $("$mpirun_path" --version 2>&1) =~ Open\ ?(MPI|RTE) ]] && mpirun_more=(--oversubscribe)
    mpirun() { "$mpirun_path" "${mpirun_more[@]}" "$@"; }
fi
