#pragma once
/* What a pass has in memory of the host instead of the device's (Ctx.host), while it does not need
 * it. Copies run beside the ops: one begins behind the ops given before it, and ends before those
 * given after offload_join. So a place of the device's memory that copies and ops use in turns
 * takes a join between a copy and the next op there, and nothing between an op and the next copy. A
 * pass ends with all its copies joined. In a dry run they are counted. */
#include "tensor/ctx.h"

void offload_out(Ctx *c, Tensor from, Tensor to_host);
void offload_in(Ctx *c, Tensor from_host, Tensor to);
void offload_join(Ctx *c, CopyQueue queue);
