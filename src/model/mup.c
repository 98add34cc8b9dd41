#include "model/mup.h"

#include "base/assert.h"

#include <math.h>

void mup_scale_scores(ModelSpec *spec, const MupBase *base)
{
    bool grows = base->width > 0 && base->head_dim > 0 && base->head_dim != spec->head_dim;
    if (grows && !(spec->score_scale > 0)) {
        spec->score_scale = spec_real(sqrt((double)base->head_dim) / (double)spec->head_dim);
    }
}

/* A matrix whose inputs are `growth` times as many as the base's. Where several are joined, all. */
static void scale_matrix(ParamTable *table, const Weight *weight, double growth)
{
    for (int row = weight->first; row < weight->first + weight->rows; row++) {
        table->rows[row].std /= sqrt(growth);
        table->rows[row].growth = growth;
    }
}

static void scale_norm(ParamTable *table, const Weight *weight, double growth)
{
    for (int row = weight->first; row < weight->first + weight->rows; row++) {
        table->rows[row].std /= growth;
        table->rows[row].growth = growth;
    }
}

void mup_scale_params(Model *model, const MupBase *base)
{
    const ModelSpec *s = &model->spec;
    ParamTable *table = &model->params;
    if (base->width == 0) {
        return;
    }
    PACER_ASSERT(s->mixer == MIXER_ATTENTION, "no rule for the mixer of %s", s->name);
    double growth = (double)s->width / (double)base->width;
    double of_ffn = base->ffn > 0 ? (double)s->ffn / (double)base->ffn : growth;
    for (int64_t i = 0; i < s->layers; i++) {
        const Layer *l = &model->layers[i];
        for (int k = 0; k < MIXER_LINEARS; k++) {
            if (l->mixing[k].product) {
                scale_matrix(table, &l->mixing[k].weight, growth);
            }
        }
        scale_matrix(table, &l->up.weight, growth);
        scale_matrix(table, &l->down.weight, of_ffn);
    }
    scale_norm(table, &model->final_norm.weight, growth);
    scale_norm(table, &model->final_norm.bias, growth);
}
