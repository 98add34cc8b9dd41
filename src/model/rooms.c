#include "model/rooms.h"

#include "base/assert.h"
#include "tensor/offload.h"

bool rooms_taken(const Model *model)
{
    return model->offload && model->keep != KEEP_NOTHING && model->spec.layers > 2;
}

/* The room of the last but one before it is free. */
void rooms_enter(Ctx *c, Model *model, int layer)
{
    if (rooms_taken(model) && layer >= 2) {
        model->rooms_end = layer == 2 ? arena_mark(&c->saved) : model->rooms_end;
        arena_release(&c->saved, model->saved[layer - 2].mark);
    }
}

void rooms_leave(Ctx *c, Model *model, int layer)
{
    if (!rooms_taken(model)) {
        return;
    }
    BlockSaved *saved = &model->saved[layer];
    ArenaMark end = arena_mark(&c->saved);
    offload_join(c, COPY_OUT); /* of the block before, whose room is the next one's */
    saved->here = arena_between(&c->saved, saved->mark, end);
    PACER_ASSERT(layer == 0 || saved->here.dim[0] == model->saved[0].here.dim[0],
                 "block %d keeps %lld bytes, the first %lld", layer, (long long)saved->here.dim[0],
                 (long long)model->saved[0].here.dim[0]);
    if (layer + 2 < model->spec.layers) {
        saved->away = arena_push_like(&c->host, &c->saved, saved->mark, end);
        offload_out(c, saved->here, saved->away);
    }
    if (layer >= 2) {
        arena_retake(&c->saved, model->rooms_end);
    }
}

/* What the block before it kept. */
void rooms_await(Ctx *c, const Model *model)
{
    if (rooms_taken(model)) {
        offload_join(c, COPY_IN);
    }
}

/* What the one before that kept comes into this one's room. */
void rooms_refill(Ctx *c, Model *model, int layer)
{
    if (rooms_taken(model) && layer >= 2) {
        const BlockSaved *saved = &model->saved[layer - 2];
        offload_in(c, saved->away, saved->here);
    }
}
