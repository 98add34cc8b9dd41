#pragma once
/* For commands that several ranks run together. */
#include "api/internal.h"

/* Joins the ranks that this process was started among; cfg then has their number. Not started
 * so, with --ranks above 1, the process becomes mpirun and starts them: it returns only when
 * that fails. *comm is NULL without ranks. board: CommOptions.board. */
int ranks_enter(Config *cfg, const char *board, Comm **comm);

/* Whether this rank is the one that prints and writes; also without ranks. */
bool ranks_lead(const Comm *comm);
