#pragma once
/* For commands that several ranks run together. */
#include "comm/comm.h"
#include "config/config.h"

/* Joins the ranks that this process was started among; cfg then has their number. Not started so, with --ranks above
 * 1, the process becomes mpirun and starts them: it returns only when that fails. *comm is NULL without ranks.
 * board: CommOptions.board. */
int ranks_enter(Config *cfg, const char *board, Comm **comm);

/* Ends the job when code is an error that the other ranks may not know of and would wait for ever with; else, and
 * with comm NULL, it does nothing. Before anything that waits for them is closed. */
void ranks_fail(Comm *comm, int code);

/* Closes comm (NULL is fine) and returns code, unless ranks_fail ends the job. */
int ranks_leave(Comm *comm, int code);
