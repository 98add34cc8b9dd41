#pragma once
/* What a piece of code writes to standard output or standard error, as text. */

/* From now on the descriptor (STDOUT_FILENO or STDERR_FILENO) writes into a file of its own. */
void capture_begin(int descriptor);

/* Ends that; returns all that was written. Caller frees. */
char *capture_end(void);
