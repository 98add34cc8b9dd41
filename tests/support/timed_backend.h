#pragma once
/* The CPU's backend with a clock that only its work moves: some ops, every upload and every join of
 * a copy take times that are known, everything else none. As a device it has a clock of its own,
 * which is ahead of the host's by an odd amount, and it records what its stamps and ops do and
 * replays that without calling the body again. */
#include "tensor/backend.h"

#define TIMED_LINEAR_FORWARD_NS 7000
#define TIMED_NORM_BACKWARD_NS 3000
#define TIMED_XENT_NS 5000
#define TIMED_ADAMW_NS 11000
#define TIMED_UPLOAD_NS 2000
#define TIMED_JOIN_NS 13000

/* One at a time. close puts it away. */
Backend *timed_backend_open(bool device);

double timed_now(void);         /* the host's clock, in seconds */
int64_t timed_op_ns(OpId op);   /* of one call at pace 1 */
void timed_set_pace(int64_t n); /* ops take n times as long from here on; 1 at first */
int timed_bodies(void);         /* that were really called since opening, of recorded work */
