#include "cuda/channel_marks.h"

#include <cuda_runtime.h>

static __device__ int64_t device_clock(void)
{
    int64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* The stream of collectives makes ENTER and LEAVE, the one that computes STALL, RESUME and
 * STALLED: no field has two writers at a time. */
static __global__ void mark(DeviceMarks *marks, volatile DeviceTotals *shown, MarkKind kind,
                            double bytes, volatile int64_t *when)
{
    int64_t now = device_clock();
    DeviceTotals *totals = &marks->totals;
    if (when != NULL) {
        *when = kind == MARK_STALLED ? totals->exposed_ns : now;
    }
    switch (kind) {
    case MARK_ENTER:
        marks->entered_at = now;
        shown->entered = ++totals->entered;
        break;
    case MARK_LEAVE:
        totals->busy_ns += now - marks->entered_at;
        totals->bytes += bytes;
        shown->busy_ns = totals->busy_ns;
        shown->bytes = totals->bytes;
        shown->left = ++totals->left;
        break;
    case MARK_STALL:
        marks->stalled_at = now;
        break;
    case MARK_RESUME:
        totals->exposed_ns += now - marks->stalled_at;
        shown->exposed_ns = totals->exposed_ns;
        break;
    case MARK_STALLED:
        break;
    }
    __threadfence_system();
}

void device_mark(DeviceMarks *marks, volatile DeviceTotals *shown, MarkKind kind, double bytes,
                 int64_t *when, struct CUstream_st *stream)
{
    mark<<<1, 1, 0, stream>>>(marks, shown, kind, bytes, when);
}
