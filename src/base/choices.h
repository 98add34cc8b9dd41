#pragma once
/* Choices that an option offers and other rooms act on: each list is the enum and the option's
 * words, in one order. */

#include <stdbool.h>

/* Where to compute (devices/devices.c). */
#define DEVICE_CHOICES(X)  \
    X(DEVICE_AUTO, "auto") \
    X(DEVICE_CPU, "cpu")   \
    X(DEVICE_CUDA, "cuda") \
    X(DEVICE_REF, "ref")

#define SCHEDULE_CHOICES(X)      \
    X(SCHEDULE_COSINE, "cosine") \
    X(SCHEDULE_LINEAR, "linear") \
    X(SCHEDULE_WSD, "wsd")       \
    X(SCHEDULE_CONSTANT, "constant")

/* How the learning rate follows a batch that changes along the run (train/length.h). */
#define RAMP_CHOICES(X)      \
    X(RAMP_SQRT, "sqrt")     \
    X(RAMP_LINEAR, "linear") \
    X(RAMP_SAME, "same")

#define OPTIMIZER_CHOICES(X)    \
    X(OPTIMIZER_ADAMW, "adamw") \
    X(OPTIMIZER_SGD, "sgd")     \
    X(OPTIMIZER_MUON, "muon")

/* How ranks make their gradients those of all (train/ddp.h). From zero1 on each of them keeps a
 * part, each of more than the one before. */
#define DDP_CHOICES(X)        \
    X(DDP_NAIVE, "naive")     \
    X(DDP_FLAT, "flat")       \
    X(DDP_OVERLAP, "overlap") \
    X(DDP_ZERO1, "zero1")     \
    X(DDP_ZERO2, "zero2")     \
    X(DDP_ZERO3, "zero3")

/* When training waits for a checkpoint to be written (train/saver.h). */
#define SAVE_CHOICES(X)  \
    X(SAVE_SYNC, "sync") \
    X(SAVE_ASYNC, "async")

/* How much of the forward pass is kept (model/model.h), by what the backward pass then makes
 * again. Each keeps less than the one before it. */
#define RECOMPUTE_CHOICES(X)       \
    X(KEEP_ALL, "none")            \
    X(KEEP_NO_NORMS, "norm")       \
    X(KEEP_NO_ACTS, "act")         \
    X(KEEP_NO_FFN, "ffn")          \
    X(KEEP_NO_MIXERS, "attention") \
    X(KEEP_INPUTS, "block")

/* What a run has in memory of the host while it does not need it (tensor/offload.h): both are the
 * two before it; all, gradients besides. */
#define OFFLOAD_CHOICES(X)                \
    X(OFFLOAD_NONE, "none")               \
    X(OFFLOAD_OPTIMIZER, "optimizer")     \
    X(OFFLOAD_ACTIVATIONS, "activations") \
    X(OFFLOAD_BOTH, "both")               \
    X(OFFLOAD_ALL, "all")

/* Of the matrices in a GGUF file (exchange/gguf.h). */
#define GGUF_CHOICES(X)  \
    X(GGUF_F32, "f32")   \
    X(GGUF_F16, "f16")   \
    X(GGUF_BF16, "bf16") \
    X(GGUF_Q8_0, "q8_0")

/* Patterns that cut text into pieces (text/pretok.c, which has the rows). */
#define PRETOK_GPT2 "gpt2"
#define PRETOK_LLAMA3 "llama3"
#define PRETOK_QWEN2 "qwen2"
#define PRETOK_CL100K "cl100k"
#define PRETOK_O200K "o200k"
#define PRETOK_TEKKEN "tekken"
#define PRETOK_LISTED                                                                     \
    PRETOK_GPT2 ", " PRETOK_LLAMA3 ", " PRETOK_QWEN2 ", " PRETOK_CL100K ", " PRETOK_O200K \
                ", " PRETOK_TEKKEN

#define CHOICE_VALUE(value, word) value,
#define CHOICE_WORD(value, word) word,

typedef enum { DEVICE_CHOICES(CHOICE_VALUE) DEVICE_COUNT } DeviceId;
typedef enum { SCHEDULE_CHOICES(CHOICE_VALUE) } ScheduleKind;
typedef enum { RAMP_CHOICES(CHOICE_VALUE) } RampRule;
typedef enum { OPTIMIZER_CHOICES(CHOICE_VALUE) OPTIMIZER_COUNT } OptimizerId;
typedef enum { DDP_CHOICES(CHOICE_VALUE) DDP_COUNT } DdpKind;
typedef enum { SAVE_CHOICES(CHOICE_VALUE) } SaveKind;
typedef enum { OFFLOAD_CHOICES(CHOICE_VALUE) } OffloadKind;
typedef enum { RECOMPUTE_CHOICES(CHOICE_VALUE) KEEP_NOTHING /* evaluation */ } Keep;

static inline bool offloads_optimizer(OffloadKind kind)
{
    return kind == OFFLOAD_OPTIMIZER || kind >= OFFLOAD_BOTH;
}

static inline bool offloads_activations(OffloadKind kind)
{
    return kind >= OFFLOAD_ACTIVATIONS;
}

static inline bool offloads_gradients(OffloadKind kind)
{
    return kind == OFFLOAD_ALL;
}
