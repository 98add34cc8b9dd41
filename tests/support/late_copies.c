#include "support/late_copies.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define MOST 64 /* copies of one queue between two joins */

typedef struct {
    void *to;
    const void *from;
    size_t bytes;
    int64_t begun; /* ops before it */
} Copy;

static struct {
    Copy copies[COPY_QUEUES][MOST];
    int count[COPY_QUEUES];
    double bytes[COPY_QUEUES];
    int64_t ops, beside[COPY_QUEUES];
} late;

static void copy(Backend *backend, CopyQueue queue, void *to, const void *from, size_t bytes)
{
    (void)backend;
    PACER_ASSERT(late.count[queue] < MOST, "%d copies without a join", MOST);
    memset(to, 0xff, bytes);
    late.copies[queue][late.count[queue]++] = (Copy){to, from, bytes, late.ops};
    late.bytes[queue] += (double)bytes;
}

static void join(Backend *backend, CopyQueue queue)
{
    (void)backend;
    for (int i = 0; i < late.count[queue]; i++) {
        const Copy *c = &late.copies[queue][i];
        int64_t beside = late.ops - c->begun;
        late.beside[queue] = beside < late.beside[queue] ? beside : late.beside[queue];
        memcpy(c->to, c->from, c->bytes);
    }
    late.count[queue] = 0;
}

Backend *late_copies_open(void)
{
    Backend *backend = ref_backend_open();
    memset(&late, 0, sizeof late);
    late.beside[COPY_OUT] = late.beside[COPY_IN] = INT64_MAX;
    backend->copy = copy;
    backend->join = join;
    return backend;
}

int late_copies_pending(void)
{
    return late.count[COPY_OUT] + late.count[COPY_IN];
}

double late_copies_bytes(CopyQueue queue)
{
    return late.bytes[queue];
}

void late_copies_note(void *user, const TraceCall *call)
{
    (void)user, (void)call;
    late.ops++;
}

int64_t late_copies_beside(CopyQueue queue)
{
    int64_t least = late.beside[queue];
    late.beside[queue] = INT64_MAX;
    return least;
}
