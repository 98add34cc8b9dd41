#include "optim/adamw.h"

#include "base/assert.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

void adamw_free(Adamw *adamw)
{
    free(adamw->ranges);
    adamw->ranges = NULL;
    adamw->range_count = 0;
}

void adamw_add_range(Adamw *adamw, AdamwRange range)
{
    if (range.count == 0) {
        return;
    }
    AdamwRange *last = adamw->range_count > 0 ? &adamw->ranges[adamw->range_count - 1] : NULL;
    if (last != NULL && last->decay == range.decay && last->counted == range.counted &&
        last->offset + last->count == range.offset && last->own + last->count == range.own &&
        last->master + last->count == range.master) {
        last->count += range.count;
        return;
    }
    int count = adamw->range_count;
    if ((count & (count - 1)) == 0) { /* room for a power of two, which is used up */
        size_t room = count > 0 ? 2 * (size_t)count : 1;
        adamw->ranges = mem_realloc(adamw->ranges, room, sizeof *adamw->ranges);
    }
    adamw->ranges[adamw->range_count++] = range;
}

void adamw_prepare(Ctx *c, Adamw *adamw, double rate, int64_t step)
{
    const AdamwSettings *s = &adamw->settings;
    float *hyper = adamw->host_hyper;
    hyper[HYPER_LR] = (float)rate;
    hyper[HYPER_BETA1] = (float)s->beta1;
    hyper[HYPER_BETA2] = (float)s->beta2;
    hyper[HYPER_EPS] = (float)s->eps;
    hyper[HYPER_DECAY] = (float)s->weight_decay;
    hyper[HYPER_CORRECTION1] = (float)(1 - pow(s->beta1, (double)(step + 1)));
    hyper[HYPER_CORRECTION2] = (float)(1 - pow(s->beta2, (double)(step + 1)));
    hyper[HYPER_CLIP] = (float)s->clip;
    if (!c->dry) {
        c->backend->upload(c->backend, adamw->hyper.data, hyper, sizeof adamw->host_hyper);
    }
}

static Tensor part(Tensor flat, int64_t offset, int64_t count)
{
    return tensor_given(flat) ? tensor_rows(flat, offset, count) : flat;
}

/* Counted ranges that touch are summed as one, whether they decay or not. */
void adamw_norm(Ctx *c, Adamw *adamw)
{
    Mode mode = MODE_SET;
    for (int i = 0; i < adamw->range_count;) {
        const AdamwRange *range = &adamw->ranges[i++];
        if (!range->counted) {
            continue;
        }
        int64_t end = range->offset + range->count;
        for (; i < adamw->range_count && adamw->ranges[i].counted && adamw->ranges[i].offset == end;
             i++) {
            end += adamw->ranges[i].count;
        }
        op_sum_squares(c, part(adamw->grad, range->offset, end - range->offset), adamw->norm_sq,
                       mode);
        mode = MODE_ADD;
    }
    PACER_ASSERT(mode == MODE_ADD, "no gradients are counted");
}

void adamw_step(Ctx *c, Adamw *adamw)
{
    for (int i = 0; i < adamw->range_count; i++) {
        const AdamwRange *range = &adamw->ranges[i];
        op_adamw(c, (AdamwArgs){.param = part(adamw->param, range->master, range->count),
                                .low = part(adamw->low, range->offset, range->count),
                                .grad = part(adamw->grad, range->offset, range->count),
                                .m = part(adamw->m, range->own, range->count),
                                .v = part(adamw->v, range->own, range->count),
                                .hyper = adamw->hyper,
                                .norm_sq = adamw->norm_sq,
                                .decay = range->decay});
    }
}
