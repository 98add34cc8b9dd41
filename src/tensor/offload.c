#include "tensor/offload.h"

#include "base/assert.h"

static void copy(Ctx *c, CopyQueue queue, Tensor from, Tensor to)
{
    PACER_ASSERT(from.dtype == to.dtype && tensor_count(from) == tensor_count(to),
                 "%lld elements of %s to %lld of %s", (long long)tensor_count(from),
                 dtype_name(from.dtype), (long long)tensor_count(to), dtype_name(to.dtype));
    PACER_ASSERT(c->dry || (from.data != NULL && to.data != NULL), "no memory to copy between");
    c->copied[queue] += (double)tensor_bytes(from);
    if (c->note_copy != NULL) {
        c->note_copy(c->note_user, queue, (double)tensor_bytes(from));
    }
    if (!c->dry) {
        c->backend->copy(c->backend, queue, to.data, from.data, tensor_bytes(from));
    }
}

void offload_out(Ctx *c, Tensor from, Tensor to_host)
{
    copy(c, COPY_OUT, from, to_host);
}

void offload_in(Ctx *c, Tensor from_host, Tensor to)
{
    copy(c, COPY_IN, from_host, to);
}

void offload_join(Ctx *c, CopyQueue queue)
{
    if (!c->dry) {
        c->backend->join(c->backend, queue);
        trace_waited(c->trace);
    }
}
