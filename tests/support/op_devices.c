#include "support/op_devices.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>

void op_devices_add(OpDevices *all, const char *name, Backend *backend, int skew)
{
    PACER_ASSERT(all->count < OP_DEVICES_MAX, "more than %d devices", OP_DEVICES_MAX);
    all->device[all->count++] = (OpDevice){.name = name, .backend = backend, .skew = skew};
}

/* The instruction sets beside the one that a plain start picks; a machine may lack some. */
static void add_other_isas(OpDevices *all)
{
    static const char *const isas[] = {"base", "v3", "v4"};
    char *before = getenv("PACER_SIMD") != NULL ? mem_strdup(getenv("PACER_SIMD")) : NULL;
    for (int i = 0; i < 3; i++) {
        setenv("PACER_SIMD", isas[i], 1);
        Backend *backend = cpu_backend_open(2);
        if (backend != NULL) {
            op_devices_add(all, isas[i], backend, 0);
        }
    }
    unsetenv("PACER_SIMD");
    if (before != NULL) {
        setenv("PACER_SIMD", before, 1);
        free(before);
    }
}

int op_devices_open_cpu(OpDevices *all)
{
    int first = all->count;
    for (int threads = 1; threads <= 3; threads++) {
        op_devices_add(all, "cpu", cpu_backend_open(threads), 0);
    }
    op_devices_add(all, "cpu", cpu_backend_open(2), 1);
    add_other_isas(all);
    for (int i = first; i < all->count; i++) {
        if (all->device[i].backend == NULL) {
            return -1;
        }
    }
    return 0;
}

void op_devices_close(OpDevices *all)
{
    for (int i = 0; i < all->count; i++) {
        all->device[i].backend->close(all->device[i].backend);
    }
    all->count = 0;
}
