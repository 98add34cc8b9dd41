#pragma once
/* A device's own account of a channel: one-thread kernels around every collective and every wait
 * for them, which are recorded and replayed with the rest of a step. So the host knows where the
 * device is, and how long it took, without waiting for it and without being asked at every
 * replay. */
#ifdef __cplusplus
extern "C" {
#endif

#include <stdint.h>

/* Totals since the start. Nanoseconds are of the device's clock. */
typedef struct {
    int64_t entered, left; /* collectives */
    int64_t busy_ns;
    int64_t exposed_ns; /* that the computation stalled for */
    double bytes;       /* payload of those left */
} DeviceTotals;

typedef struct {
    DeviceTotals totals;
    int64_t entered_at, stalled_at; /* ns */
} DeviceMarks;

struct CUstream_st; /* of a cudaStream_t */

typedef enum { MARK_ENTER, MARK_LEAVE, MARK_STALL, MARK_RESUME, MARK_STALLED } MarkKind;

/* Behind the work given to the stream so far. marks: device memory; shown: pinned host memory
 * that the device writes and the host reads at any time. when: memory that the device writes,
 * for the time of this mark, or, of MARK_STALLED, for totals.exposed_ns; NULL: not asked for. */
void device_mark(DeviceMarks *marks, volatile DeviceTotals *shown, MarkKind kind, double bytes,
                 int64_t *when, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
