#include "ref/ref.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>

static void *host_alloc(Backend *backend, size_t bytes)
{
    (void)backend;
    return mem_try_large(bytes);
}

static void host_release(Backend *backend, void *block)
{
    (void)backend;
    free(block);
}

static size_t host_available(Backend *backend)
{
    (void)backend;
    return mem_available();
}

static void host_copy(Backend *backend, void *to, const void *from, size_t bytes)
{
    (void)backend;
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

static void host_copy_beside(Backend *backend, CopyQueue queue, void *to, const void *from,
                             size_t bytes)
{
    (void)queue;
    host_copy(backend, to, from, bytes);
}

static void host_join(Backend *backend, CopyQueue queue)
{
    (void)backend, (void)queue;
}

static void host_zero(Backend *backend, void *to, size_t bytes)
{
    (void)backend;
    if (bytes > 0) {
        memset(to, 0, bytes);
    }
}

static void host_sync(Backend *backend)
{
    (void)backend;
}

static void ref_close(Backend *backend)
{
    free(backend);
}

void ref_fill_memory(Backend *backend)
{
    backend->alloc = host_alloc;
    backend->release = host_release;
    backend->host_alloc = host_alloc;
    backend->host_release = host_release;
    backend->available = host_available;
    backend->upload = host_copy;
    backend->download = host_copy;
    backend->zero = host_zero;
    backend->sync = host_sync;
}

void ref_fill_ops(Ops *ops)
{
    *ops = (Ops){0};
    ref_fill_embed(ops);
    ref_fill_matmul(ops);
    ref_fill_norm(ops);
    ref_fill_attention(ops);
    ref_fill_mlp(ops);
    ref_fill_loss(ops);
    ref_fill_optim(ops);
    ref_fill_bits(ops);
    ref_fill_ttt(ops);
    ref_fill_quant(ops);
}

Backend *ref_backend_open(void)
{
    Backend *backend = mem_zalloc(1, sizeof *backend);
    backend->name = "ref";
    backend->head_bytes = BACKEND_HEAD_BYTES;
    backend->bf16_weights = true;
    backend->threads = 1;
    backend->close = ref_close;
    ref_fill_memory(backend);
    backend->copy = host_copy_beside; /* a device with two memories, for tests */
    backend->join = host_join;
    ref_fill_ops(&backend->ops);
    const char *missing = ops_missing(&backend->ops);
    PACER_ASSERT(missing == NULL, "ref has no %s", missing);
    return backend;
}
