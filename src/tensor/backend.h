#pragma once
/* A device: its memory and its table of operations. The model never looks inside. */
#include "tensor/ops.h"
#include "tensor/sensors.h"

typedef struct Backend Backend;
struct Comm;
struct Channel;

/* Sequences of work that a backend may keep recorded, by slot. */
#define BACKEND_RECORDINGS 6

#define BACKEND_READ_BYTES 128 /* of a value on its way to the host */

/* Copies beside the operations go in two queues, one for each way. */
typedef enum { COPY_OUT, COPY_IN, COPY_QUEUES } CopyQueue;

#define BACKEND_HEAD_BYTES ((size_t)128 << 20) /* what processors take */

/* What lies between the host and a device, each the median of several after a warm-up; 0: not
 * measured. */
typedef struct {
    double launch_s;           /* per empty kernel, many launched one behind the other */
    double launch_wait_s;      /* one empty kernel: launch it and wait until it is done */
    double graph_launch_s;     /* per empty kernel of a recorded sequence */
    double to_device, to_host; /* bytes/s from and to pinned memory */
} DeviceLink;

struct Backend {
    const char *name;   /* "ref", "cpu", "cuda" */
    const char *device; /* what people call it, "NVIDIA H200"; NULL: the machine's processor */
    Ops ops;
    const Ops *other_ops; /* that do element types but f32; NULL: ops does */
    const Ops *low_ops;   /* that do bf16; NULL: those of the other types do */
    int threads;
    size_t head_bytes; /* of logits that are made at a time */
    bool bf16_weights; /* matrices and tables may be bf16 beside f32 (ops.h) */
    bool few_shapes;   /* a product of a new shape costs a search: keep to few of them */
    int64_t row_align; /* rows of a vocabulary are padded to a multiple of it; 0 and 1: not */

    /* One block, aligned to ARENA_ALIGN; NULL when there is not that much. Called a few times at
     * start, never during a step. */
    void *(*alloc)(Backend *backend, size_t bytes);
    void (*release)(Backend *backend, void *block);
    /* Host memory that the device reads and writes fastest, aligned to ARENA_ALIGN, for what goes
     * there again and again; NULL when there is not that much. */
    void *(*host_alloc)(Backend *backend, size_t bytes);
    void (*host_release)(Backend *backend, void *block);
    size_t (*available)(Backend *backend); /* bytes that alloc could still give; 0 if unknown */
    /* Bytes of the device's memory that are gone since the backend was opened, what libraries
     * and kernels take included. NULL: the process's own memory. */
    size_t (*reserved)(Backend *backend);

    /* Ordered with the operations; upload may return before the copy is done only if the source
     * stays valid until sync. */
    void (*upload)(Backend *backend, void *to, const void *from_host, size_t bytes);
    void (*download)(Backend *backend, void *to_host, const void *from, size_t bytes); /* waits */
    void (*zero)(Backend *backend, void *to, size_t bytes);
    void (*sync)(Backend *backend);

    /* A small value, at most BACKEND_READ_BYTES, that is fetched later: read_start puts the copy
     * behind the work given so far, read_wait waits for that copy alone. Slots count from 0; one
     * is free again when it was waited for. NULL: download. */
    void (*read_start)(Backend *backend, int slot, const void *from, size_t bytes);
    void (*read_wait)(Backend *backend, int slot, void *to_host, size_t bytes);

    /* Between the device's memory and blocks of host_alloc, beside the operations: copy puts one
     * behind the operations given so far, and behind its queue; operations given after join wait
     * for what the queue has. Recorded and replayed like ops: a body joins what it copies. Both
     * NULL: the device has no other memory than the host's. */
    void (*copy)(Backend *backend, CopyQueue queue, void *to, const void *from, size_t bytes);
    void (*join)(Backend *backend, CopyQueue queue);

    /* Runs body(user), whose ops may be recorded under `slot` and replayed the next time instead
     * of calling body: apart from ops it does nothing, and what it does never changes. NULL:
     * body is to be called. forget drops all recordings; it must be called before memory they
     * use is released. */
    void (*replay)(Backend *backend, int slot, void (*body)(void *), void *user);
    void (*forget)(Backend *backend);

    /* Puts a reading of the device's own clock, in nanoseconds, into *slot (device memory)
     * behind the work given so far; recorded and replayed like an op. NULL: the host's clock,
     * read between two calls, says the same. */
    void (*stamp)(Backend *backend, int64_t *slot);

    /* Measured ceilings of the device: FLOP/s of a large matrix product in dtype, bytes/s read
     * plus written by a copy; 0 when there is no memory for it. NULL: the machine's own
     * (record/machine.h). */
    double (*matmul_rate)(Backend *backend, DType dtype);
    double (*copy_rate)(Backend *backend);
    /* FLOP/s that the maker states for dense products in dtype; 0 when that is not known. NULL:
     * never known. */
    double (*stated_rate)(const Backend *backend, DType dtype);

    DeviceLink (*measure_link)(Backend *backend); /* NULL: it is the host itself */

    /* Which of several devices it is, in words that are the same for whoever uses it ("0000:3B:
     * 00.0"); false when that is not known. NULL: the host's processor. */
    bool (*place)(const Backend *backend, char *text, size_t size);
    /* Of driver and libraries, which together decide how fast products are. NULL: see Machine. */
    void (*versions)(const Backend *backend, char *text, size_t size);
    /* What the device says of itself; may return NULL. NULL slot: nothing. */
    Sensors *(*sensors_open)(Backend *backend);

    /* A channel between ranks for tensors of this device's memory (comm/channel.h). NULL: they go
     * through the host's. */
    int (*channel_open)(Backend *backend, struct Comm *comm, struct Channel **out);

    /* Why this kind of attention does not do the shape, as a sentence; NULL when it does. NULL
     * slot: naive and flash do every shape, and there is no library's. */
    const char *(*attention_refusal)(const Backend *backend, AttentionKind kind, HeadShape shape,
                                     DType dtype);
    /* The fastest kind for the shape, forward and backward together, of those that cover it, the
     * same in later runs. NULL: flash. */
    AttentionKind (*attention_choose)(Backend *backend, HeadShape shape, DType dtype);
    /* Why a layer of test-time training of this shape has no kernel; NULL when it has. NULL slot:
     * all do. */
    const char *(*ttt_refusal)(const Backend *backend, const TttShape *shape, DType dtype);

    /* Why products in e4m3 are not possible, as a sentence; NULL when they are. NULL slot: they
     * are. */
    const char *(*quant_refusal)(const Backend *backend);
    /* Whether a linear map of so many rows, with its gradients, is faster with products in e4m3,
     * the making of codes included; the same in later runs. NULL: it is. */
    bool (*quant_pays)(Backend *backend, int64_t rows, int64_t inputs, int64_t outputs);

    void (*close)(Backend *backend); /* frees the backend itself */
};

/* What people call the device: its own name, or the backend's of the machine's processor. */
static inline const char *backend_title(const Backend *backend)
{
    return backend->device != NULL ? backend->device : backend->name;
}

const char *backend_attention_refusal(const Backend *backend, AttentionKind kind, HeadShape shape,
                                      DType dtype);

AttentionKind backend_attention_choose(Backend *backend, HeadShape shape, DType dtype);
const char *backend_ttt_refusal(const Backend *backend, const TttShape *shape, DType dtype);
Sensors *backend_sensors(Backend *backend);

/* Plain loops, double accumulation, f32, bf16 and f64: the truth the others are tested against. */
Backend *ref_backend_open(void);

/* threads > 0. Starts from ref's operations and overrides what it does faster (f32). */
Backend *cpu_backend_open(int threads);
