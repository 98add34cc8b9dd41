/* Products in e4m3: which linear maps have them, where their scales and codes lie. */
#include "model/linear.h"
#include "tensor/offload.h"

#include <stdio.h>

static Linear *linear_at(Model *model, int64_t layer, int place)
{
    Layer *l = &model->layers[layer];
    Linear *found = place < PRODUCT_UP      ? &l->mixing[place]
                    : place == PRODUCT_UP   ? &l->up
                    : place == PRODUCT_DOWN ? &l->down
                                            : &model->head;
    return found->product ? found : NULL;
}

/* Products of a layer: the same in all of them. */
static int64_t products_per_layer(Model *model)
{
    int64_t count = 0;
    for (int place = 0; place < PRODUCT_HEAD; place++) {
        count += linear_at(model, 0, place) != NULL;
    }
    return count;
}

static int64_t product_count(Model *model)
{
    return products_per_layer(model) * model->spec.layers + 1;
}

/* The linear maps with products, in forward order: number i, or NULL behind the last; *place of
 * it. */
static Linear *product_at(Model *model, int64_t i, int *place)
{
    int64_t each = products_per_layer(model), layer = i / each, left = i % each;
    if (layer >= model->spec.layers) {
        *place = PRODUCT_HEAD;
        return i == each * model->spec.layers ? &model->head : NULL;
    }
    for (*place = 0;; ++*place) {
        Linear *found = linear_at(model, layer, *place);
        if (found != NULL && left-- == 0) {
            return found;
        }
    }
}

bool model_product(Model *model, int place, int64_t *outputs, int64_t *inputs)
{
    const Linear *l = linear_at(model, 0, place);
    if (l != NULL) {
        *outputs = l->weight.value.dim[0];
        *inputs = l->weight.value.dim[1];
    }
    return l != NULL;
}

const char *model_product_name(Model *model, int place)
{
    return model->params.rows[linear_at(model, 0, place)->weight.first].name;
}

int64_t model_quant_only(Model *model)
{
    const ParamTable *table = &model->params;
    bool all = model->quantised && model->plain_products == 0 && !table->decay_all &&
               model->spec.mixer == MIXER_ATTENTION;
    return all ? table->rows[params_first_decayed(table, 0)].offset : table->decayed;
}

enum { SCALES_PER_PRODUCT = 3 };

int64_t model_quant_scales(Model *model)
{
    return model->quantised ? SCALES_PER_PRODUCT * product_count(model) : 0;
}

int64_t model_quant_weights(Model *model)
{
    return model_quant_scales(model) / SCALES_PER_PRODUCT;
}

static bool stays_plain(const Model *model, int place)
{
    return (model->plain_products >> place & 1) != 0;
}

Linear *model_coded(Model *model, int64_t *i)
{
    Linear *l;
    int place;
    while (model->quantised && (l = product_at(model, (*i)++, &place)) != NULL) {
        if (!stays_plain(model, place)) {
            return l;
        }
    }
    return NULL;
}

/* A tied head's weight is the embedding, which is read as it is. */
void model_keep_plain(Model *model, unsigned plain_products)
{
    ParamTable *table = &model->params;
    model->plain_products = plain_products;
    for (int row = 0; row < table->count; row++) {
        table->rows[row].coded = false;
    }
    int64_t i = 0;
    for (const Linear *l; (l = model_coded(model, &i)) != NULL;) {
        for (int k = 0; k < l->weight.rows; k++) {
            table->rows[l->weight.first + k].coded = l != &model->head || !model->spec.tied;
        }
    }
}

int64_t model_coded_first(Model *model, int layer)
{
    return products_per_layer(model) * (layer < 0 ? model->spec.layers : layer);
}

int64_t model_quant_codes(Model *model)
{
    int64_t total = 0, i = 0;
    for (const Linear *l; (l = model_coded(model, &i)) != NULL;) {
        total += size_product(tensor_count(l->weight.value), 2);
    }
    return total;
}

static void bind_scale(ModelQuant quant, int64_t i, Tensor out[2])
{
    out[0] = tensor_rows(quant.scales, i, 1);
    out[0].rank = 1;
    out[0].dim[0] = SCALE_COUNT;
    Tensor parts = tensor_rows(quant.largest, i, 1);
    parts.rank = 1;
    parts.dim[0] = quant.largest.dim[1];
    out[1] = tensor_rows(parts, quant.part, 1);
}

void model_bind_quant(Model *model, ModelQuant quant)
{
    int64_t count = product_count(model), at = 0;
    model->host_masters = quant.host_masters;
    for (int64_t i = 0; i < count; i++) {
        int place;
        Linear *l = product_at(model, i, &place);
        if (stays_plain(model, place)) {
            continue;
        }
        int64_t outputs = l->weight.value.dim[0], inputs = l->weight.value.dim[1];
        Tensor scale[2];
        if (tensor_given(quant.masters)) {
            l->master = params_view(&model->params, params_parts(&model->params, quant.masters),
                                    l->weight.first, l->weight.rows);
        }
        bind_scale(quant, i, scale);
        bind_scale(quant, count + i, l->scales[0]);
        bind_scale(quant, 2 * count + i, l->scales[1]);
        if (place == PRODUCT_HEAD) {
            l->scales[1][1] = TENSOR_NONE; /* bounded by the scale of the loss: never changes */
        }
        uint8_t *codes = quant.codes.data, *rows = codes != NULL ? codes + at : NULL;
        uint8_t *columns = codes != NULL ? rows + outputs * inputs : NULL;
        at += 2 * outputs * inputs;
        if (quant.place != NULL) {
            quant.place(quant.place_user, l, &rows, &columns);
        }
        l->codes = (Quant){.rows = tensor_2d(rows, DT_E4M3, outputs, inputs),
                           .columns = tensor_2d(columns, DT_E4M3, inputs, outputs),
                           .stride = outputs,
                           .scale = scale[0],
                           .largest = scale[1]};
    }
}

/* Whether the map's codes are made of a master in memory of the host. */
static bool is_offloaded(const Model *model, const Linear *l)
{
    return model->host_masters && tensor_given(l->master);
}

/* The next such map, as model_coded has it. */
static Linear *next_offloaded(Model *model, int64_t *i)
{
    Linear *l;
    do {
        l = model_coded(model, i);
    } while (l != NULL && !is_offloaded(model, l));
    return l;
}

/* The master of a map where it is brought to: the beginning of a room. */
static Tensor bring(Ctx *c, const Linear *l, Tensor room)
{
    Tensor here = l->master;
    here.data = room.data;
    offload_in(c, l->master, here);
    return here;
}

/* In two rooms in turns: the next master comes while codes are made of one. */
static void quantise_offloaded(Ctx *c, Model *model)
{
    ArenaMark mark = arena_mark(&c->scratch);
    int64_t i = 0, most = 0;
    for (const Linear *l; (l = next_offloaded(model, &i)) != NULL;) {
        most = tensor_count(l->master) > most ? tensor_count(l->master) : most;
    }
    Tensor rooms[] = {ctx_scratch(c, MEM_SCRATCH, DT_F32, 1, most),
                      ctx_scratch(c, MEM_SCRATCH, DT_F32, 1, most)};
    i = 0;
    const Linear *next = next_offloaded(model, &i);
    Tensor coming = bring(c, next, rooms[0]);
    for (int turn = 0; next != NULL; turn = !turn) {
        const Linear *l = next;
        Tensor master = coming;
        next = next_offloaded(model, &i);
        offload_join(c, COPY_IN);
        coming = next != NULL ? bring(c, next, rooms[!turn]) : TENSOR_NONE;
        op_quantise(c, master, l->codes, TENSOR_NONE, MODE_SET);
    }
    arena_release(&c->scratch, mark);
}

void model_quantise(Ctx *c, Model *model)
{
    int64_t i = 0;
    bool offloaded = false;
    for (const Linear *l; (l = model_coded(model, &i)) != NULL;) {
        bool away = is_offloaded(model, l);
        offloaded = offloaded || away;
        if (!away) {
            op_quantise(c, tensor_given(l->master) ? l->master : l->weight.value, l->codes,
                        TENSOR_NONE, MODE_SET);
        }
    }
    if (offloaded) {
        quantise_offloaded(c, model);
    }
}

void model_scale_name(Model *model, int64_t i, char name[MODEL_SCALE_NAME])
{
    static const char *const kinds[] = {"weight", "input", "gradient by the output"};
    int64_t count = product_count(model);
    int place;
    const Linear *l = product_at(model, i % count, &place);
    snprintf(name, MODEL_SCALE_NAME, "%s, %s", model->params.rows[l->weight.first].name,
             kinds[i / count]);
}
