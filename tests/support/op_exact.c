#include "support/op_exact.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cuda/cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define GUARD ((size_t)64)
#define GUARD_BYTE 0xA5
#define SCRATCH_BYTES ((size_t)1 << 16)
#define SEED 77

const int64_t exact_sizes[EXACT_SIZES] = {1,  2,  3,  7,   8,    15,   16,    17,
                                          31, 33, 67, 255, 1003, 4096, 100003};

static OpDevices all;
static Ctx ctxs[OP_DEVICES_MAX];

int exact_devices(void)
{
    return all.count;
}

Ctx *exact_ctx(int device)
{
    return &ctxs[device];
}

bool exact_has_f64(int device)
{
    return strcmp(all.device[device].backend->name, "cuda") != 0;
}

void exact_write(int device, const Placed *p, const void *values)
{
    Backend *backend = all.device[device].backend;
    size_t bytes = p->offset + p->bytes + GUARD;
    uint8_t *host = mem_alloc(bytes);
    memset(host, GUARD_BYTE, bytes);
    memcpy(host + p->offset, values, p->bytes);
    backend->upload(backend, p->block, host, bytes);
    backend->sync(backend);
    free(host);
}

Placed exact_place(int device, DType dtype, const void *values, int64_t count, int skew)
{
    Backend *backend = all.device[device].backend;
    Placed p = {.offset = GUARD + (size_t)skew * dtype_size(dtype),
                .bytes = (size_t)count * dtype_size(dtype)};
    p.block = backend->alloc(backend, p.offset + p.bytes + GUARD);
    assert_non_null(p.block);
    p.tensor = tensor_1d(p.block + p.offset, dtype, count);
    exact_write(device, &p, values);
    return p;
}

void exact_read(int device, const Placed *p, void *values)
{
    Backend *backend = all.device[device].backend;
    size_t bytes = p->offset + p->bytes + GUARD;
    uint8_t *host = mem_alloc(bytes);
    backend->download(backend, host, p->block, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if ((i < p->offset || i >= p->offset + p->bytes) && host[i] != GUARD_BYTE) {
            fail_msg("%s: byte %zu of %zu was overwritten", backend->name, i, bytes);
        }
    }
    memcpy(values, host + p->offset, p->bytes);
    free(host);
}

void exact_release(int device, Placed *p)
{
    Backend *backend = all.device[device].backend;
    backend->release(backend, p->block);
    *p = (Placed){0};
}

uint8_t *exact_random_bits(void)
{
    size_t bytes = (size_t)exact_sizes[EXACT_SIZES - 1] * sizeof(double) + sizeof(RngBlock);
    uint8_t *bits = mem_alloc(bytes);
    for (size_t i = 0; i + sizeof(RngBlock) <= bytes; i += sizeof(RngBlock)) {
        RngBlock block = rng_block(SEED, 0, i);
        memcpy(bits + i, &block, sizeof block);
    }
    return bits;
}

void exact_expect(int device, int skew, uint64_t given, uint64_t got, uint64_t wanted)
{
    if (got != wanted) {
        fail_msg("%s, %d threads, skew %d: %llx gives %llx, wanted %llx", all.device[device].name,
                 all.device[device].backend->threads, skew, (unsigned long long)given,
                 (unsigned long long)got, (unsigned long long)wanted);
    }
}

int exact_open(void **state)
{
    (void)state;
    Backend *gpu;
    op_devices_add(&all, "ref", ref_backend_open(), 0);
    if (op_devices_open_cpu(&all) != 0) {
        return -1;
    }
    if (cuda_backend_open(0, &gpu) == 0) {
        op_devices_add(&all, "cuda", gpu, 0);
    } else {
        print_message("without a GPU: %s\n", err_message());
    }
    for (int i = 0; i < all.count; i++) {
        op_ctx_init(&ctxs[i], all.device[i].backend, SCRATCH_BYTES);
    }
    return 0;
}

int exact_close(void **state)
{
    (void)state;
    for (int i = 0; i < all.count; i++) {
        op_ctx_free(&ctxs[i]);
    }
    op_devices_close(&all);
    return 0;
}
