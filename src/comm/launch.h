#pragma once
/* How ranks are started: reading what a launcher left in the environment. */

/* Ranks of the job that this process was started in: 0 when it was not started as a rank. */
int launch_ranks(void);
