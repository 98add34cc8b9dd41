#include "optim/optimizer.h"

#include "base/assert.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

/* --- the kinds --- */

static void fill_adamw(const OptimizerSettings *s, double rate, int64_t step,
                       float hyper[HYPER_COUNT])
{
    hyper[HYPER_LR] = (float)rate;
    hyper[HYPER_BETA1] = (float)s->beta1;
    hyper[HYPER_BETA2] = (float)s->beta2;
    hyper[HYPER_REST1] = (float)(1 - s->beta1);
    hyper[HYPER_REST2] = (float)(1 - s->beta2);
    hyper[HYPER_EPS] = (float)s->eps;
    hyper[HYPER_DECAY] = (float)s->weight_decay;
    hyper[HYPER_CORRECTION1] = (float)(1 - pow(s->beta1, (double)(step + 1)));
    hyper[HYPER_CORRECTION2] = (float)(1 - pow(s->beta2, (double)(step + 1)));
    hyper[HYPER_CLIP] = (float)s->clip;
}

static void fill_sgd(const OptimizerSettings *s, double rate, int64_t step,
                     float hyper[HYPER_COUNT])
{
    (void)step;
    hyper[HYPER_LR] = (float)rate;
    hyper[HYPER_BETA1] = (float)s->momentum;
    hyper[HYPER_DECAY] = (float)s->weight_decay;
    hyper[HYPER_CLIP] = (float)s->clip;
}

static const OptimizerKind kinds[OPTIMIZER_COUNT] = {
    [OPTIMIZER_ADAMW] = {.name = "AdamW",
                         .states = 2,
                         .state_names = {"m", "v"},
                         .fill_hyper = fill_adamw,
                         .update = op_adamw},
    [OPTIMIZER_SGD] = {.name = "SGD",
                       .states = 1,
                       .state_names = {"momentum"},
                       .fill_hyper = fill_sgd,
                       .update = op_sgd},
};

const OptimizerKind *optimizer_kind(OptimizerId id)
{
    return &kinds[id];
}

/* --- ranges --- */

void optimizer_free(Optimizer *o)
{
    free(o->ranges);
    o->ranges = NULL;
    o->range_count = 0;
}

void optimizer_add_range(Optimizer *o, OptimizerRange range)
{
    if (range.count == 0) {
        return;
    }
    OptimizerRange *last = o->range_count > 0 ? &o->ranges[o->range_count - 1] : NULL;
    if (last != NULL && last->decay == range.decay && last->counted == range.counted &&
        last->offset + last->count == range.offset &&
        (range.low < 0 ? last->low < 0 : last->low + last->count == range.low) &&
        last->own + last->count == range.own && last->master + last->count == range.master) {
        last->count += range.count;
        return;
    }
    int count = o->range_count;
    if ((count & (count - 1)) == 0) { /* room for a power of two, which is used up */
        size_t room = count > 0 ? 2 * (size_t)count : 1;
        o->ranges = mem_realloc(o->ranges, room, sizeof *o->ranges);
    }
    o->ranges[o->range_count++] = range;
}

void optimizer_prepare(Ctx *c, Optimizer *o, double rate, int64_t step)
{
    o->kind->fill_hyper(&o->settings, rate, step, o->host_hyper);
    if (!c->dry) {
        c->backend->upload(c->backend, o->hyper.data, o->host_hyper, sizeof o->host_hyper);
    }
}

static Tensor part(Tensor flat, int64_t offset, int64_t count)
{
    return tensor_given(flat) ? tensor_rows(flat, offset, count) : flat;
}

/* Counted ranges that touch are summed as one, whether they decay or not. */
void optimizer_norm(Ctx *c, Optimizer *o)
{
    Mode mode = MODE_SET;
    for (int i = 0; i < o->range_count;) {
        const OptimizerRange *range = &o->ranges[i++];
        if (!range->counted) {
            continue;
        }
        int64_t end = range->offset + range->count;
        for (; i < o->range_count && o->ranges[i].counted && o->ranges[i].offset == end; i++) {
            end += o->ranges[i].count;
        }
        op_sum_squares(c, part(o->grad, range->offset, end - range->offset), o->norm_sq, mode);
        mode = MODE_ADD;
    }
    PACER_ASSERT(mode == MODE_ADD, "no gradients are counted");
}

void optimizer_step(Ctx *c, Optimizer *o)
{
    for (int i = 0; i < o->range_count; i++) {
        const OptimizerRange *range = &o->ranges[i];
        UpdateArgs args = {.param = part(o->param, range->master, range->count),
                           .low = range->low < 0 ? TENSOR_NONE
                                                 : part(o->low, range->low, range->count),
                           .grad = part(o->grad, range->offset, range->count),
                           .hyper = o->hyper,
                           .norm_sq = o->norm_sq,
                           .left_out = o->left_out,
                           .tokens = o->tokens,
                           .decay = range->decay};
        for (int k = 0; k < o->kind->states; k++) {
            args.state[k] = part(o->state[k], range->own, range->count);
        }
        o->kind->update(c, args);
    }
}
