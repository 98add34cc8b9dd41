#pragma once
/* The machine that a run was made on, and two of its ceilings, measured: no report of speed means
 * anything without them. */
#include "base/json.h"
#include "tensor/backend.h"

#include <stddef.h>

typedef struct {
    char host[128], cpu[128], kernel[192], compiler[96], blas[192], simd[32];
    int cores;          /* that this process may use */
    Value cpu_quota;    /* cores' worth of time that a control group allows; missing: no limit */
    Value memory_bytes; /* of the machine */
    Value memory_limit; /* of the control group; missing: no limit */
    int threads;        /* used for the rates below; 0: not measured */
    Value sgemm_gflops, copy_gbs;
    size_t copy_block; /* bytes that copy_gbs is of: what caches can hold is copied faster */
    /* Of a device beside the processor; "" and missing when there is none. */
    char device[64];
    Value device_matmul_gflops, device_copy_gbs; /* products in the run's dtype */
    /* "measured now" or "measured at DATE"; "" when not measured. */
    char ceiling_source[64], copy_source[64];
} Machine;

/* Everything but the rates. simd: the name of the instruction set in use, may be NULL. */
void machine_describe(Machine *machine, const char *simd);

/* What measuring may take. */
typedef struct {
    double seconds;
    size_t bytes; /* of the host's memory; the least that a measurement needs is taken anyway */
} Effort;

#define EFFORT_BYTES ((size_t)512 << 20) /* with more, nothing is measured better */

/* Fills threads and both rates, each with about half of the seconds. */
void machine_measure(Machine *machine, int threads, DType dtype, Effort effort);

/* The same of the backend's own device, which the run computes on; of the processor when it is
 * that. Where more was once measured (record/ceilings.h), that counts: a ceiling is what the
 * machine can do, not what it gave at a bad moment. */
void machine_measure_device(Machine *machine, Backend *backend, DType dtype, Effort effort);

/* Both rates as they are stored, without measuring: those that the effort would give. false, and no
 * rate is changed: one is not. */
bool machine_recall_device(Machine *machine, const Backend *backend, DType dtype, Effort effort);

/* Stores what machine_measure_device measured now. */
void machine_remember_device(Machine *machine, const Backend *backend, DType dtype);

/* The rate of matrix products, in GFLOP/s, that the run is held against. */
Value machine_ceiling(const Machine *machine);

cJSON *machine_json(const Machine *machine);

/* Rate of pacer's own matrix product (cpu/sgemm.h) in f32 or bf16, in GFLOP/s (2 n^3 operations
 * per product): the best single one over n = 512, 1024 and 2048 (of which 3, 12 and 48 MiB must be
 * there), square, row-major, not transposed, beta 0, each warmed up once and repeated for a third
 * of the time, three times at least. The product is checked; NaN when it is wrong or there is no
 * memory. */
double machine_sgemm_rate(int threads, DType dtype, Effort effort);

/* Rates of single products of one of these sizes taken one at a time, to be put between other
 * measurements: what the machine gives at that moment, where machine_sgemm_rate gives what it
 * can do at best. */
typedef struct {
    int threads;
    DType dtype;
    int64_t n;
    float *block; /* a, b and c; NULL: not open */
    void *space;  /* of the product */
} SgemmProbe;

/* false: no memory */
bool machine_probe_open(SgemmProbe *probe, int threads, DType dtype, size_t bytes);
double machine_probe_sample(SgemmProbe *probe); /* GFLOP/s */
void machine_probe_close(SgemmProbe *probe);

/* Rate of memcpy between two blocks (256 MiB each, which is beyond the caches, where that much may
 * be taken; 8 MiB at least), split among threads, in GB/s of bytes read plus bytes written: the
 * best of at least three. NaN when there is no memory. */
double machine_copy_rate(int threads, Effort effort);
