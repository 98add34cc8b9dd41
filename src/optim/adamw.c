#include "optim/adamw.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

void adamw_free(Adamw *adamw)
{
    free(adamw->ranges);
    adamw->ranges = NULL;
    adamw->range_count = 0;
}

void adamw_add_range(Adamw *adamw, int64_t offset, int64_t count, bool decay)
{
    AdamwRange *last = adamw->range_count > 0 ? &adamw->ranges[adamw->range_count - 1] : NULL;
    if (last != NULL && last->decay == decay && last->offset + last->count == offset) {
        last->count += count;
        return;
    }
    adamw->ranges =
        mem_realloc(adamw->ranges, (size_t)adamw->range_count + 1, sizeof *adamw->ranges);
    adamw->ranges[adamw->range_count++] = (AdamwRange){offset, count, decay};
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

static Tensor part(Tensor flat, const AdamwRange *range)
{
    return tensor_given(flat) ? tensor_rows(flat, range->offset, range->count) : flat;
}

void adamw_step(Ctx *c, Adamw *adamw)
{
    op_sum_squares(c, adamw->grad, adamw->norm_sq, MODE_SET);
    for (int i = 0; i < adamw->range_count; i++) {
        const AdamwRange *range = &adamw->ranges[i];
        op_adamw(c, (AdamwArgs){.param = part(adamw->param, range),
                                .low = part(adamw->low, range),
                                .grad = part(adamw->grad, range),
                                .m = part(adamw->m, range),
                                .v = part(adamw->v, range),
                                .hyper = adamw->hyper,
                                .norm_sq = adamw->norm_sq,
                                .decay = range->decay});
    }
}
