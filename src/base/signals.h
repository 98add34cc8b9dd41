#pragma once
/* Ctrl-C and SIGTERM ask for an end after the current step; a second one ends at once. */

void signals_install(void);

/* 0, ERR_INTERRUPTED or ERR_TERMINATED. */
int signals_pending(void);
