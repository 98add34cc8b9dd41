#pragma once
/* Choices that an option offers and other rooms act on: each list is the enum and the option's
 * words, in one order. */

#define SCHEDULE_CHOICES(X)      \
    X(SCHEDULE_COSINE, "cosine") \
    X(SCHEDULE_LINEAR, "linear") \
    X(SCHEDULE_WSD, "wsd")       \
    X(SCHEDULE_CONSTANT, "constant")

#define OPTIMIZER_CHOICES(X)    \
    X(OPTIMIZER_ADAMW, "adamw") \
    X(OPTIMIZER_SGD, "sgd")

/* How ranks make their gradients those of all (train/ddp.h). */
#define DDP_CHOICES(X)        \
    X(DDP_NAIVE, "naive")     \
    X(DDP_FLAT, "flat")       \
    X(DDP_OVERLAP, "overlap") \
    X(DDP_ZERO1, "zero1")

#define CHOICE_VALUE(value, word) value,
#define CHOICE_WORD(value, word) word,

typedef enum { SCHEDULE_CHOICES(CHOICE_VALUE) } ScheduleKind;
typedef enum { OPTIMIZER_CHOICES(CHOICE_VALUE) OPTIMIZER_COUNT } OptimizerId;
typedef enum { DDP_CHOICES(CHOICE_VALUE) } DdpKind;
