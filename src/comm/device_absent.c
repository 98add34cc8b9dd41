#include "comm/internal.h"

#include "base/err.h"

/* A build without CUDA has no backend with memory of its own. */

int device_channel_open(Comm *comm, Backend *backend, Channel **out)
{
    (void)comm;
    (void)out;
    return err_set(ERR_FAILED, "ranks on %s: pacer was built without CUDA", backend->device);
}
