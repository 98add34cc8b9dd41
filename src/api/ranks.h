#pragma once
/* For code that several ranks run together. */
#include "comm/comm.h"
#include "config/config.h"

/* Joins the ranks that this process was started among (comm_is_launched); cfg then has their
 * number. board: CommOptions.board. */
int ranks_join(Config *cfg, const char *board, Comm **comm);

/* Ends the job when code is an error that the other ranks may not know of and would wait for
 * ever with; else, and with comm NULL, it does nothing. Before anything that waits for them is
 * closed. */
void ranks_fail(Comm *comm, int code);

/* Closes comm (NULL is fine) and returns code, unless ranks_fail ends the job. */
int ranks_leave(Comm *comm, int code);
