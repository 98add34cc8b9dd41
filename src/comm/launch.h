#pragma once
/* How ranks are started: reading what a launcher left in the environment. */
#include "comm/mpi_module.h"

/* Ranks of the job that this process was started in: 0 when it was not started as a rank. */
int launch_ranks(void);

/* A warning, before MPI starts, of what makes Open MPI end the process in its start: srun
 * without PMIx. */
void launch_warn(const MpiModule *module);
/* ERR_FAILED saying how to start them instead: launched as so many ranks, of which MPI sees
 * others. */
int launch_refuse(const MpiModule *module, const MpiWorld *world, int launched);

/* Whether the process that stays for these ranks (comm_launch) has ended; then signals_request.
 * Twice a second at most, however often it is called. */
void launch_look(void);
