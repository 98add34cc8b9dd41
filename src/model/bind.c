/* Where a model's weights and gradients lie. */
#include "model/model.h"

#include "base/assert.h"

/* Where weights and gradients of a row lie. */
typedef struct {
    ModelPlaces values, grads;
    const void *user;
} Places;

static void bind_weight(const ParamTable *table, Weight *w, const Places *places)
{
    if (w->rows > 0) {
        ParamParts grads = places->grads(places->user, w->first);
        bool graded = tensor_given(grads.decayed);
        w->value = params_view(table, places->values(places->user, w->first), w->first, w->rows);
        w->grad = graded ? params_view(table, grads, w->first, w->rows) : TENSOR_NONE;
    }
}

static void bind_linear(const ParamTable *table, Linear *l, const Places *places)
{
    bind_weight(table, &l->weight, places);
    bind_weight(table, &l->bias, places);
}

static void bind_all(Model *model, const Places *places)
{
    const ParamTable *table = &model->params;
    bind_linear(table, &model->embed, places);
    bind_linear(table, &model->positions, places);
    for (int64_t i = 0; i < model->spec.layers; i++) {
        Layer *l = &model->layers[i];
        bind_linear(table, &l->norm1, places);
        bind_linear(table, &l->norm2, places);
        bind_linear(table, &l->post1, places);
        bind_linear(table, &l->post2, places);
        bind_linear(table, &l->up, places);
        bind_linear(table, &l->down, places);
        for (int k = 0; k < MIXER_LINEARS; k++) {
            bind_linear(table, &l->mixing[k], places);
        }
        for (int k = 0; k < MIXER_INNER; k++) {
            bind_weight(table, &l->inner[k], places);
        }
    }
    bind_linear(table, &model->final_norm, places);
    if (model->spec.tied) {
        model->head.weight = model->embed.weight;
    } else {
        bind_linear(table, &model->head, places);
    }
}

void model_bind_places(Model *model, ModelPlaces values, ModelPlaces grads, const void *user,
                       Tensor rope)
{
    bind_all(model, &(Places){values, grads, user});
    model->rope = rope;
}

/* In two buffers each. */
typedef struct {
    ParamParts values, grads;
} TwoParts;

static ParamParts values_of(const void *parts, int row)
{
    (void)row;
    return ((const TwoParts *)parts)->values;
}

static ParamParts grads_of(const void *parts, int row)
{
    (void)row;
    return ((const TwoParts *)parts)->grads;
}

static void bind_parts(Model *model, ParamParts values, ParamParts grads, Tensor rope)
{
    model_bind_places(model, values_of, grads_of, &(TwoParts){values, grads}, rope);
}

void model_bind(Model *model, Tensor values, Tensor grads, Tensor rope)
{
    const ParamTable *table = &model->params;
    int64_t others = table->flat - table->decayed, held = values.dim[0] - others;
    PACER_ASSERT(values.dtype == model->act &&
                     (held == table->decayed || held == model_quant_only(model)),
                 "%lld values for %lld", (long long)values.dim[0], (long long)table->flat);
    ParamParts none = {0};
    ParamParts parts = {tensor_rows(values, 0, held), tensor_rows(values, held, others), 0};
    bind_parts(model, parts, tensor_given(grads) ? params_parts(table, grads) : none, rope);
}

bool model_splits(const Model *model)
{
    return model->act == DT_F32 && model->spec.mixer != MIXER_TTT && !model->params.decay_all;
}

void model_bind_split(Model *model, Tensor matrices, Tensor others, Tensor rope)
{
    const ParamTable *table = &model->params;
    PACER_ASSERT(model_splits(model), "a model like %s is not split", model->spec.name);
    PACER_ASSERT(matrices.dtype == DT_BF16 && matrices.dim[0] == table->decayed &&
                     others.dtype == model->act && others.dim[0] == table->flat - table->decayed,
                 "%lld and %lld values for %lld, %lld of them in matrices",
                 (long long)matrices.dim[0], (long long)others.dim[0], (long long)table->flat,
                 (long long)table->decayed);
    bind_parts(model, (ParamParts){matrices, others, 0}, (ParamParts){0}, rope);
}
