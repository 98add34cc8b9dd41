#include "tensor/workspace.h"

#include "base/err.h"

static const char *const names[WORK_BLOCKS] = {"state", "saved", "scratch", "host"};

void workspace_count(Workspace *w, Ctx *c)
{
    arena_init_counting(&w->state, names[WORK_STATE]);
    arena_init_counting(&c->saved, names[WORK_SAVED]);
    arena_init_counting(&c->scratch, names[WORK_SCRATCH]);
    arena_init_counting(&c->host, names[WORK_HOST]);
    c->dry = true;
}

void workspace_peaks(const Workspace *w, const Ctx *c, size_t sizes[WORK_BLOCKS])
{
    sizes[WORK_STATE] = w->state.peak;
    sizes[WORK_SAVED] = c->saved.peak;
    sizes[WORK_SCRATCH] = c->scratch.peak;
    sizes[WORK_HOST] = c->host.peak;
}

static void release(Workspace *w, Backend *backend, int i)
{
    (i == WORK_HOST ? backend->host_release : backend->release)(backend, w->blocks[i]);
}

int workspace_reserve(Workspace *w, Ctx *c, const size_t sizes[WORK_BLOCKS], const char *purpose)
{
    Backend *backend = c->backend;
    for (int i = 0; i < WORK_BLOCKS; i++) {
        bool none = i == WORK_HOST && sizes[i] == 0;
        if (none || (w->blocks[i] != NULL && sizes[i] <= w->sizes[i])) {
            continue;
        }
        if (w->blocks[i] != NULL) {
            backend->sync(backend);
            release(w, backend, i);
        }
        w->sizes[i] = sizes[i];
        w->blocks[i] = (i == WORK_HOST ? backend->host_alloc : backend->alloc)(backend, sizes[i]);
        if (w->blocks[i] == NULL) {
            return err_set(ERR_MEMORY, "cannot allocate %zu bytes%s %s", sizes[i],
                           i == WORK_HOST ? " in the host's memory" : "", purpose);
        }
    }
    arena_init(&w->state, names[WORK_STATE], w->blocks[WORK_STATE], w->sizes[WORK_STATE]);
    arena_init(&c->saved, names[WORK_SAVED], w->blocks[WORK_SAVED], w->sizes[WORK_SAVED]);
    arena_init(&c->scratch, names[WORK_SCRATCH], w->blocks[WORK_SCRATCH], w->sizes[WORK_SCRATCH]);
    arena_init(&c->host, names[WORK_HOST], w->blocks[WORK_HOST], w->sizes[WORK_HOST]);
    c->dry = false;
    return 0;
}

void workspace_free(Workspace *w, Backend *backend)
{
    for (int i = 0; i < WORK_BLOCKS; i++) {
        if (w->blocks[i] != NULL) {
            release(w, backend, i);
        }
    }
    *w = (Workspace){0};
}
