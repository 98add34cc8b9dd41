#pragma once
/* The reference backend as a device whose copies beside the ops come as late as they may: at the
 * join. Until then their destinations hold no numbers, so that whatever reads one too early, or
 * writes over what is still to be copied, gets other results than with copies at once. */
#include "tensor/ctx.h"

/* One at a time. close puts it away. */
Backend *late_copies_open(void);

int late_copies_pending(void);             /* copies that nobody has joined */
double late_copies_bytes(CopyQueue queue); /* that were copied since opening */

/* Counts ops: for Ctx.note. Of the copies joined since the last call, the fewest ops that one had
 * between its beginning and its join; INT64_MAX where there were none. */
void late_copies_note(void *user, const TraceCall *call);
int64_t late_copies_beside(CopyQueue queue);
