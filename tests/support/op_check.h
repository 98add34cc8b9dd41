#pragma once
/* Comparison of results, and the rule by which a backend's op is accepted. */
#include "support/op_harness.h"

typedef struct {
    double max, rms;             /* of the error */
    double scale_max, scale_rms; /* of the truth */
    int64_t worst;
} OpError;

OpError op_error(const double *truth, const double *values, int64_t count);

typedef struct OpDevice {
    const char *name; /* for messages */
    Backend *backend;
    int skew;   /* elements by which its tensors miss their alignment */
    bool cudnn; /* see OpRun */
    /* Cases that are run; NULL: all. */
    bool (*covers)(const struct OpDevice *device, const OpCase *k, DType act);
} OpDevice;

/* Runs every case of the op in `act` on each device, twice, but for cases of more than most_work
 * (0: no limit). Accepts an output when its error against ref in f64 is at most twice that of
 * naive sums in the same type, plus a few roundings of the output's size; by the largest error,
 * and again by the root mean square. The naive error of a small output of an op with several
 * draws is the worst over so many random inputs. The two runs must agree bit for bit, and ref
 * and the naive sums must be the same formula. */
void op_check_devices(const OpDevice *devices, int device_count, OpId op, DType act,
                      double most_work);
