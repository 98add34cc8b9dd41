#pragma once
/* One pre-norm block: norm, mixer, norm, feed-forward, with residual additions. */
#include "model/model.h"

/* Adds the block's rows to the table; block_bind points the layer's weights at them in the same
 * order and returns the row behind the last. */
void block_declare(Model *model, int layer);
int block_bind(Model *model, int layer, int row, ParamParts values, Tensor grads);

/* x (N,C) residual stream, h (N,C) branch not yet added to it, or none in the first block.
 * Leaves the new stream in *x and the new branch in h_out (which may be h). */
void block_forward(Ctx *c, Model *model, int layer, Tensor *x, Tensor h, Tensor h_out);

/* dres (N,C): gradient of the stream behind the block, replaced by that before it. */
void block_backward(Ctx *c, Model *model, int layer, Tensor dres, Mode mode);
