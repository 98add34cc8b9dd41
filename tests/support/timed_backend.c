#include "support/timed_backend.h"

#include "base/assert.h"
#include "base/mem.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_AHEAD_NS 1234567890123
#define READS 64

/* One thing that recorded work does to the clock. */
typedef struct {
    int64_t ns;    /* passes (at pace 1) */
    int64_t *slot; /* is then stamped, unless NULL */
} Tick;

typedef struct {
    bool warm, recorded;
    Tick *ticks;
    int64_t count;
} Recording;

static struct {
    int64_t now_ns, pace;
    Ops plain;
    void (*upload)(Backend *backend, void *to, const void *from_host, size_t bytes);
    void (*close)(Backend *backend);
    Recording recordings[BACKEND_RECORDINGS];
    Recording *recording; /* under way */
    bool replaying;       /* ops compute, but the recording moves the clock */
    char reads[READS][BACKEND_READ_BYTES];
    int bodies;
} timed;

double timed_now(void)
{
    return 1e-9 * (double)timed.now_ns;
}

void timed_set_pace(int64_t n)
{
    timed.pace = n;
}

int timed_bodies(void)
{
    return timed.bodies;
}

int64_t timed_op_ns(OpId op)
{
    switch (op) {
    case OP_LINEAR_FORWARD:
        return TIMED_LINEAR_FORWARD_NS;
    case OP_NORM_BACKWARD:
        return TIMED_NORM_BACKWARD_NS;
    case OP_XENT:
        return TIMED_XENT_NS;
    case OP_ADAMW:
        return TIMED_ADAMW_NS;
    default:
        return 0;
    }
}

static void tick(int64_t ns, int64_t *slot)
{
    if (timed.replaying) {
        return;
    }
    Recording *r = timed.recording;
    if (r != NULL) {
        r->ticks = mem_realloc(r->ticks, (size_t)r->count + 1, sizeof *r->ticks);
        r->ticks[r->count++] = (Tick){ns, slot};
        return;
    }
    timed.now_ns += ns * timed.pace;
    if (slot != NULL) {
        *slot = timed.now_ns + DEVICE_AHEAD_NS;
    }
}

static void stamp(Backend *backend, int64_t *slot)
{
    (void)backend;
    tick(0, slot);
}

/* The body's results are computed by calling it once more, without anyone hearing of it. */
static void replay(Backend *backend, int slot, void (*body)(void *), void *user)
{
    Recording *r = &timed.recordings[slot];
    Trainer *trainer = user;
    (void)backend;
    if (!r->warm) {
        r->warm = true;
        timed.bodies++;
        body(user);
        return;
    }
    if (!r->recorded) {
        timed.recording = r;
        timed.bodies++;
        body(user);
        timed.recording = NULL;
        r->recorded = true;
    } else {
        Trace *trace = trainer->ctx.trace;
        timed.replaying = true;
        trainer->ctx.trace = NULL;
        body(user);
        trainer->ctx.trace = trace;
        timed.replaying = false;
    }
    for (int64_t i = 0; i < r->count; i++) {
        tick(r->ticks[i].ns, r->ticks[i].slot);
    }
}

static void forget(Backend *backend)
{
    (void)backend;
    for (int i = 0; i < BACKEND_RECORDINGS; i++) {
        free(timed.recordings[i].ticks);
        timed.recordings[i] = (Recording){0};
    }
}

static void read_start(Backend *backend, int slot, const void *from, size_t bytes)
{
    (void)backend;
    PACER_ASSERT(slot < READS && bytes <= BACKEND_READ_BYTES, "slot %d, %zu bytes", slot, bytes);
    memcpy(timed.reads[slot], from, bytes);
}

static void read_wait(Backend *backend, int slot, void *to_host, size_t bytes)
{
    (void)backend;
    memcpy(to_host, timed.reads[slot], bytes);
}

static void upload(Backend *backend, void *to, const void *from_host, size_t bytes)
{
    tick(TIMED_UPLOAD_NS, NULL);
    timed.upload(backend, to, from_host, bytes);
}

static void copy(Backend *backend, CopyQueue queue, void *to, const void *from, size_t bytes)
{
    (void)backend, (void)queue;
    memcpy(to, from, bytes);
}

static void join(Backend *backend, CopyQueue queue)
{
    (void)backend, (void)queue;
    tick(TIMED_JOIN_NS, NULL);
}

static void linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y)
{
    tick(TIMED_LINEAR_FORWARD_NS, NULL);
    timed.plain.linear_forward(c, x, w, bias, y);
}

static void norm_backward(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx,
                          Mode dx_mode, Tensor dweight, Tensor dbias, Mode mode, void *ws)
{
    tick(TIMED_NORM_BACKWARD_NS, NULL);
    timed.plain.norm_backward(c, dy, x, norm, stats, dx, dx_mode, dweight, dbias, mode, ws);
}

static void xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets, Tensor losses,
                 double scale, bool gradient)
{
    tick(TIMED_XENT_NS, NULL);
    timed.plain.xent(c, logits, classes, cap, targets, losses, scale, gradient);
}

static void adamw(Ctx *c, UpdateArgs args)
{
    tick(TIMED_ADAMW_NS, NULL);
    timed.plain.adamw(c, args);
}

static void close_timed(Backend *backend)
{
    forget(backend);
    timed.close(backend);
}

Backend *timed_backend_open(bool device)
{
    Backend *backend = cpu_backend_open(1);
    memset(&timed, 0, sizeof timed);
    timed.pace = 1;
    timed.plain = backend->ops;
    timed.upload = backend->upload;
    timed.close = backend->close;
    backend->ops.linear_forward = linear_forward;
    backend->ops.norm_backward = norm_backward;
    backend->ops.xent = xent;
    backend->ops.adamw = adamw;
    backend->upload = upload;
    backend->copy = copy;
    backend->join = join;
    backend->close = close_timed;
    if (device) {
        backend->stamp = stamp;
        backend->replay = replay;
        backend->forget = forget;
        backend->read_start = read_start;
        backend->read_wait = read_wait;
    }
    return backend;
}
