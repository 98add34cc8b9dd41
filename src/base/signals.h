#pragma once
/* Ctrl-C and SIGTERM ask for an end after the current step; a second one ends at once. */

/* This process is pacer's own program, whose signals are pacer's to handle. Without this, as in a program that
 * uses the library, signals_install leaves them alone. */
void signals_claim(void);

/* Forgets an end that was asked for, and listens for signals from now on. */
void signals_install(void);

/* Asks for an end as Ctrl-C does, from any thread or from a signal handler. */
void signals_request(void);

/* 0, ERR_INTERRUPTED or ERR_TERMINATED. */
int signals_pending(void);
