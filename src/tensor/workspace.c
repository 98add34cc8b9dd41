#include "tensor/workspace.h"

#include "base/err.h"

static const char *const names[WORK_BLOCKS] = {"state", "saved", "scratch"};

void workspace_count(Workspace *w, Ctx *c)
{
    arena_init_counting(&w->state, names[WORK_STATE]);
    arena_init_counting(&c->saved, names[WORK_SAVED]);
    arena_init_counting(&c->scratch, names[WORK_SCRATCH]);
    c->dry = true;
}

void workspace_peaks(const Workspace *w, const Ctx *c, size_t sizes[WORK_BLOCKS])
{
    sizes[WORK_STATE] = w->state.peak;
    sizes[WORK_SAVED] = c->saved.peak;
    sizes[WORK_SCRATCH] = c->scratch.peak;
}

int workspace_reserve(Workspace *w, Ctx *c, const size_t sizes[WORK_BLOCKS], const char *purpose)
{
    Backend *backend = c->backend;
    for (int i = 0; i < WORK_BLOCKS; i++) {
        if (w->blocks[i] != NULL && sizes[i] <= w->sizes[i]) {
            continue;
        }
        if (w->blocks[i] != NULL) {
            backend->sync(backend);
            backend->release(backend, w->blocks[i]);
        }
        w->sizes[i] = sizes[i];
        w->blocks[i] = backend->alloc(backend, sizes[i]);
        if (w->blocks[i] == NULL) {
            return err_set(ERR_MEMORY, "cannot allocate %zu bytes %s", sizes[i], purpose);
        }
    }
    arena_init(&w->state, names[WORK_STATE], w->blocks[WORK_STATE], w->sizes[WORK_STATE]);
    arena_init(&c->saved, names[WORK_SAVED], w->blocks[WORK_SAVED], w->sizes[WORK_SAVED]);
    arena_init(&c->scratch, names[WORK_SCRATCH], w->blocks[WORK_SCRATCH], w->sizes[WORK_SCRATCH]);
    c->dry = false;
    return 0;
}

void workspace_free(Workspace *w, Backend *backend)
{
    for (int i = 0; i < WORK_BLOCKS; i++) {
        if (w->blocks[i] != NULL) {
            backend->release(backend, w->blocks[i]);
        }
    }
    *w = (Workspace){0};
}
