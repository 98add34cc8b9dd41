#pragma once
/* The memory of passes over a model: three blocks, for what lasts from pass to pass (state), what
 * forward saves for backward (saved) and scratch; and one in the memory of the host, for what is
 * offloaded from these. The same code lays them out twice: after workspace_count, when a pass
 * merely counts, and after workspace_reserve, for real. */
#include "tensor/ctx.h"

enum { WORK_STATE, WORK_SAVED, WORK_SCRATCH, WORK_HOST, WORK_BLOCKS };

typedef struct {
    Arena state; /* the others are the context's */
    void *blocks[WORK_BLOCKS];
    size_t sizes[WORK_BLOCKS];
} Workspace;

/* Lets the arenas count from 0, and the context's ops do nothing else. */
void workspace_count(Workspace *work, Ctx *c);

/* What was counted: bytes of each block at its peak. */
void workspace_peaks(const Workspace *work, const Ctx *c, size_t sizes[WORK_BLOCKS]);

/* Gives the arenas blocks of at least these sizes, from their beginning; the context's ops then
 * compute. Blocks that are large enough stay. ERR_MEMORY: "cannot allocate N bytes PURPOSE". */
int workspace_reserve(Workspace *work, Ctx *c, const size_t sizes[WORK_BLOCKS],
                      const char *purpose);

void workspace_free(Workspace *work, Backend *backend); /* a no-op on a zeroed workspace */
