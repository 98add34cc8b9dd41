#pragma once
/* How far a long piece of work over bytes has come: nothing for the first two seconds, then a
 * line that replaces itself on a terminal, and elsewhere a plain line now and then. */
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const char *what; /* "preparing" */
    double started, said;
} Progress;

Progress progress_begin(const char *what);

/* Whether it is time for a line, for work that is not counted in bytes; that line is then taken
 * as said. */
bool progress_due(Progress *progress);

/* A live line at once on a terminal; elsewhere a line when it is time for one. */
void progress_note(Progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "preparing: 3 of 16 MB, 120 MB/s, 4 s left", when it is time for it. */
void progress_say(Progress *progress, uint64_t done, uint64_t all);
