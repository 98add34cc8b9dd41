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

bool op_kind_is(const OpKind *a, const OpKind *b);

/* Distinct kinds that an update calls. */
typedef struct {
    OpKind kind;
    double calls;
} OpUse;

typedef struct {
    OpUse *items;
    int count;
    size_t room;
} OpUses;

void op_uses_add(OpUses *uses, OpKind kind, double calls);

/* Fills *uses, which is zeroed or of another setup, by a dry run of setup. */
void op_uses_find(OpUses *uses, const TrainerSetup *setup, Backend *backend);
void op_uses_free(OpUses *uses); /* a no-op on a zeroed struct */

/* Seconds of one call of each kind that was measured. */
typedef struct {
    OpKind kind;
    double seconds; /* NAN: cannot be measured here */
} OpTime;

typedef struct {
    OpTime *items;
    int count;
    size_t room;
} OpTimes;

/* In the place of what is known of that kind. */
void op_times_put(OpTimes *times, OpKind kind, double seconds);
const OpTime *op_times_find(const OpTimes *times, const OpKind *kind); /* NULL: never put */
void op_times_free(OpTimes *times); /* a no-op on a zeroed struct */

/* A step of these uses. A kind without a time is taken to do its work (FLOP, or bytes where it has
 * none) as fast as the measured kind of the same op that is nearest in work, and else as fast as
 * all measured ops with that sort of work together. */
typedef struct {
    double seconds;
    double scaled_s; /* of them, of kinds without a time of their own */
} OpSum;
OpSum op_times_sum(const OpTimes *times, const OpUses *uses);
