#pragma once
/* The CUDA backend, as the table of devices sees it (devices/devices.c). A build without CUDA has
 * these functions too: they then say that it was left out (absent.c). */
#include "tensor/backend.h"

/* GPUs that can be used; with 0, the reason in why. */
int cuda_devices(char *why, size_t size);

/* A device, counted from 0, of those that CUDA_VISIBLE_DEVICES leaves. f32 and bf16. ERR_INPUT
 * saying why there is none. */
int cuda_backend_open(int device, Backend **out);

/* Slot of Backend. */
Sensors *cuda_sensors_open(Backend *backend);

/* Sensors by a management library and a bus id ("00000000:3B:00.0") of the caller's choice; NULL
 * when they cannot be asked. Also in a build without CUDA. */
Sensors *cuda_sensors_at(const char *library, const char *bus_id);
