#pragma once
/* The backends that one machine can run an op on. */
#include "support/op_check.h"

#define OP_DEVICES_MAX 10

typedef struct {
    OpDevice device[OP_DEVICES_MAX];
    int count;
} OpDevices;

/* Takes over the backend. */
void op_devices_add(OpDevices *all, const char *name, Backend *backend, int skew);

/* Adds the cpu backend with one, two and three threads, on tensors that miss their alignment,
 * and with every instruction set of this machine. -1 if one of those that every machine has does
 * not open. */
int op_devices_open_cpu(OpDevices *all);

void op_devices_close(OpDevices *all);
