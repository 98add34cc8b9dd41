#pragma once
/* The time of a step from the times of its parts: what each kind of op call takes, measured in
 * steps that were made, and how often a step that was not made calls each kind, found by a dry
 * run. Calls are of one kind when op, sizes, work and direction of the pass are the same. */
#include "train/trainer.h"

typedef struct {
    OpId op;
    bool back; /* in a backward pass, where what it reads is in another place of the caches */
    OpShape shape;
    double flops, bytes;
} OpKind;

/* Distinct kinds that an update calls, how often in each of its stretches, and the bytes that are
 * copied beside them. */
typedef struct {
    OpKind kind;
    double calls[STRETCHES];
} OpUse;

typedef struct {
    OpUse *items;
    int count;
    size_t room;
    double copied[STRETCHES][COPY_QUEUES];
} OpUses;

void op_uses_add(OpUses *uses, int stretch, OpKind kind, double calls);
double op_use_calls(const OpUse *use); /* in all stretches */
bool op_uses_copy(const OpUses *uses); /* whether anything is copied */

/* Fills *uses, which is zeroed or of another setup, by a dry run of setup. */
void op_uses_find(OpUses *uses, const TrainerSetup *setup, Backend *backend);
void op_uses_free(OpUses *uses); /* a no-op on a zeroed struct */

/* Seconds of one call of each kind that was measured, and how fast each queue copies. */
typedef struct {
    OpKind kind;
    double seconds; /* NAN: cannot be measured here */
} OpTime;

typedef struct {
    OpTime *items;
    int count;
    size_t room;
    double copy_rate[COPY_QUEUES]; /* bytes/s; 0: not measured, nothing may be copied */
} OpTimes;

/* In the place of what is known of that kind. */
void op_times_put(OpTimes *times, OpKind kind, double seconds);
const OpTime *op_times_find(const OpTimes *times, const OpKind *kind); /* NULL: never put */
void op_times_free(OpTimes *times); /* a no-op on a zeroed struct */

/* A step of these uses. A kind without a time is taken to do its work (FLOP, or bytes where it has
 * none) as fast as the measured kind of the same op that is nearest in work, and else as fast as
 * all measured ops with that sort of work together. A stretch takes as long as the longest of its
 * ops, its copies in the one queue and its copies in the other. */
typedef struct {
    double seconds;
    double scaled_s; /* of them, of kinds without a time of their own */
    double copies_s; /* of them, that ops wait for copies */
} OpSum;
OpSum op_times_sum(const OpTimes *times, const OpUses *uses);
