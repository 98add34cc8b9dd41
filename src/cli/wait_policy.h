#pragma once
/* How long OpenMP threads spin for each other before they sleep. The runtime's own choice,
 * milliseconds, is ruinous on a machine that others use: a thread spins out its share of the
 * processor for a partner that is not running, and the partner waits for that processor. */

/* Has threads spin for tens of microseconds, unless the environment says how they are to wait.
 * The runtime reads its environment before main, so this executes the program anew, once, with
 * the same arguments, process id and open files; to be called first in main, while there is one
 * thread and nothing is changed. Programs that pacer starts find the environment as it was.
 * Without effect where that is impossible. */
void wait_policy_set(char **argv);
