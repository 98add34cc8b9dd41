#pragma once
/* The devices that pacer can compute on. This folder alone knows them by name; whatever differs on
 * one is a slot of its Backend. */
#include "base/choices.h"
#include "tensor/backend.h"

typedef struct {
    /* How many of them this host has, each for one rank; with 0 the reason in why. NULL: one that
     * all ranks share. */
    int (*count)(char *why, size_t size);
    /* The index-th, for a rank with that many threads. ERR_INPUT saying why there is none. */
    int (*open)(int index, int threads, Backend **out);
    DType dtype; /* that it trains in unless told otherwise */
    /* Why it does not train in bf16, and what to do; NULL slot, or NULL from it: it does. */
    const char *(*no_bf16)(void);
    const char *no_fp8; /* the same of fp8; NULL: the backend says */
    bool bf16_weights;  /* evaluates f32 models over matrices kept in bf16 */
} Device;

const Device *device_of(DeviceId id); /* not of DEVICE_AUTO */

/* The fastest that this host has. */
DeviceId device_best(void);

/* Of the processor: its instruction set's name, or NULL for another backend. */
const char *device_isa(const Backend *backend);
