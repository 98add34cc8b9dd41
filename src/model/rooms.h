#pragma once
/* With Model.offload, what blocks keep for the backward pass lies in two rooms of the saved arena,
 * in turns. A block's goes to memory of the host while the next block's forward pass fills the
 * other room, and is there again when the backward pass comes to it: it comes while the block
 * behind goes back. The last two stay. */
#include "model/model.h"

bool rooms_taken(const Model *model); /* in the pass under way */

/* Around a block's forward pass; behind its backward pass, before and behind what else then waits
 * for copies. No-ops where rooms are not taken. */
void rooms_enter(Ctx *c, Model *model, int layer);
void rooms_leave(Ctx *c, Model *model, int layer);
void rooms_await(Ctx *c, const Model *model);
void rooms_refill(Ctx *c, Model *model, int layer);
