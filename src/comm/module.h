#pragma once
/* Finds and loads the module that brings MPI. */
#include "comm/mpi_module.h"

/* It stays loaded until the process ends. ERR_FAILED with what to install when it is not there
 * or does not load. Looked for: $PACER_MPI_MODULE; beside the program; one folder up;
 * ../lib/pacer. */
int module_load(const MpiModule **out);
