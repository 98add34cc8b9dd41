#pragma once
/* Ctrl-C, SIGTERM and a hang-up ask for an end after the current step; a second one, a second or
 * more after the first, ends at once. (Launchers and terminals may deliver one Ctrl-C twice.)
 *
 * Threads that compute take no signals. A library's kernel may run with its stack pointer inside
 * a block of the heap, where the frame of a signal would be written over the headers of malloc;
 * and a handler of the program that uses libpacer may do anything. One thread of its own takes
 * them all. */
#include <signal.h>

/* This process is pacer's own program, whose signals are pacer's to handle: shields the calling
 * thread, the first one. Without this, as in a program that uses the library, signals_install
 * does nothing. */
void signals_claim(void);

/* Blocks asynchronous signals in this thread, and so in all that it starts, and has a thread
 * take them in its place: whatever handlers there are run there. Calls nest; signals_unshield,
 * by the same thread, undoes one. */
void signals_shield(void);
void signals_unshield(void);

/* Blocks them in this thread alone, whose mask was `before`: for what takes no longer than a
 * signal may wait, or, in a worker of a pool that somebody else may have started, for good. */
void signals_block(sigset_t *before);

/* In a child process, or before exec: signals as this process was started with. Safe between
 * fork and exec. */
void signals_restore(void);

/* The mask that this thread had before it was shielded, for a child that is spawned. */
void signals_mask_before(sigset_t *mask);

/* Takes Ctrl-C, SIGTERM and hang-ups as requests from now on, where signals_claim was called. */
void signals_install(void);

/* Forgets an end that was asked for: what it was asked of has ended. */
void signals_forget(void);

/* Asks for an end as Ctrl-C (ERR_INTERRUPTED) or SIGTERM (ERR_TERMINATED) does, from any thread
 * or from a signal handler. */
void signals_request(int code);

/* 0, ERR_INTERRUPTED or ERR_TERMINATED. */
int signals_pending(void);

/* The same, with the message "stopped by a signal". */
int signals_check(void);

/* Waits until `file` can be read without waiting, or an end was asked for: no signal ends a read
 * or a poll of a shielded thread. */
void signals_wait_readable(int file);
