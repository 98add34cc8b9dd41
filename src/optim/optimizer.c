#include "optim/optimizer.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tensor/rounding.h"

#include <math.h>
#include <stdlib.h>

/* --- the kinds --- */

/* Adam's steps have the size of the rate whatever the gradients are. */
static void fill_adamw(const OptimizerSettings *s, double rate, double growth, int64_t step,
                       float *hyper)
{
    hyper[HYPER_LR] = (float)(rate / growth);
    hyper[HYPER_BETA1] = (float)s->beta1;
    hyper[HYPER_BETA2] = (float)s->beta2;
    hyper[HYPER_REST1] = (float)(1 - s->beta1);
    hyper[HYPER_REST2] = (float)(1 - s->beta2);
    hyper[HYPER_EPS] = (float)s->eps;
    hyper[HYPER_DECAY] = (float)(s->weight_decay * growth);
    hyper[HYPER_CORRECTION1] = (float)(1 - pow(s->beta1, (double)(step + 1)));
    hyper[HYPER_CORRECTION2] = (float)(1 - pow(s->beta2, (double)(step + 1)));
    hyper[HYPER_CLIP] = (float)s->clip;
}

static void update_adamw(Ctx *c, const Optimizer *o, int hyper, UpdateArgs args)
{
    (void)o;
    (void)hyper;
    op_adamw(c, args);
}

static void fill_sgd(const OptimizerSettings *s, double rate, double growth, int64_t step,
                     float *hyper)
{
    (void)step;
    PACER_ASSERT(growth == 1, "no rule for rates of SGD with growth %g", growth);
    hyper[HYPER_LR] = (float)rate;
    hyper[HYPER_BETA1] = (float)s->momentum;
    hyper[HYPER_DECAY] = (float)s->weight_decay;
    hyper[HYPER_CLIP] = (float)s->clip;
}

static void update_sgd(Ctx *c, const Optimizer *o, int hyper, UpdateArgs args)
{
    (void)o;
    (void)hyper;
    op_sgd(c, args);
}

static const UpdateRule rule_adamw = {.states = 2,
                                      .state_names = {"m", "v"},
                                      .hypers = 1,
                                      .fill_hyper = fill_adamw,
                                      .update = update_adamw};
static const UpdateRule rule_sgd = {.states = 1,
                                    .state_names = {"momentum"},
                                    .hypers = 1,
                                    .fill_hyper = fill_sgd,
                                    .update = update_sgd};

static const OptimizerKind kinds[OPTIMIZER_COUNT] = {
    [OPTIMIZER_ADAMW] = {"AdamW", &rule_adamw, &rule_adamw},
    [OPTIMIZER_SGD] = {"SGD", &rule_sgd, &rule_sgd},
    [OPTIMIZER_MUON] = {"Muon", &rule_muon, &rule_adamw},
};

const OptimizerKind *optimizer_kind(OptimizerId id)
{
    return &kinds[id];
}

const UpdateRule *optimizer_rule(const OptimizerKind *kind, const Param *param)
{
    return param->matrix ? kind->matrices : kind->others;
}

int optimizer_states(const OptimizerKind *kind)
{
    int a = kind->matrices->states, b = kind->others->states;
    return a > b ? a : b;
}

int optimizer_class(Optimizer *o, const Param *param)
{
    const UpdateRule *rule = optimizer_rule(o->kind, param);
    for (int i = 0; i < o->class_count; i++) {
        if (o->classes[i].rule == rule && o->classes[i].growth == param->growth) {
            return i;
        }
    }
    PACER_ASSERT(o->class_count < OPTIMIZER_CLASSES &&
                     o->hyper_rows + rule->hypers <= OPTIMIZER_HYPERS,
                 "%s is of more than %d classes", param->name, OPTIMIZER_CLASSES);
    o->classes[o->class_count] = (UpdateClass){rule, param->growth, o->hyper_rows};
    o->hyper_rows += rule->hypers;
    return o->class_count++;
}

/* --- ranges --- */

void optimizer_free(Optimizer *o)
{
    free(o->ranges);
    free(o->gaps);
    free(o->matrices);
    o->ranges = NULL;
    o->gaps = NULL;
    o->matrices = NULL;
    o->range_count = o->gap_count = o->matrix_count = 0;
}

/* Room for a power of two, which is used up. */
static void *grow(void *rows, int count, size_t size)
{
    return (count & (count - 1)) == 0 ? mem_realloc(rows, count > 0 ? 2 * (size_t)count : 1, size)
                                      : rows;
}

static void add_gap(Optimizer *o, int64_t first, int64_t count)
{
    StateGap *last = o->gap_count > 0 ? &o->gaps[o->gap_count - 1] : NULL;
    if (last != NULL && last->first + last->count == first) {
        last->count += count;
        return;
    }
    o->gaps = grow(o->gaps, o->gap_count, sizeof *o->gaps);
    o->gaps[o->gap_count++] = (StateGap){first, count};
}

int64_t optimizer_state_at(const Optimizer *o, int which, int64_t own)
{
    int64_t left_out = 0;
    for (int i = 0; which > 0 && i < o->gap_count; i++) {
        left_out += o->gaps[i].first < own ? o->gaps[i].count : 0;
    }
    return own - left_out;
}

void optimizer_add_range(Optimizer *o, OptimizerRange range)
{
    if (range.count == 0) {
        return;
    }
    const UpdateRule *rule = o->classes[range.class].rule;
    if (rule->states < optimizer_states(o->kind)) {
        add_gap(o, range.own, range.count);
    }
    OptimizerRange *last = o->range_count > 0 ? &o->ranges[o->range_count - 1] : NULL;
    if (last != NULL && rule->shape == NULL && last->class == range.class &&
        last->decay == range.decay && last->counted == range.counted &&
        last->offset + last->count == range.offset && last->index + last->count == range.index &&
        (range.low < 0 ? last->low < 0 : last->low + last->count == range.low) &&
        last->own + last->count == range.own && last->master + last->count == range.master) {
        last->count += range.count;
        return;
    }
    o->ranges = grow(o->ranges, o->range_count, sizeof *o->ranges);
    o->ranges[o->range_count++] = range;
}

void optimizer_add_matrix(Optimizer *o, OptimizerMatrix matrix)
{
    o->matrices = grow(o->matrices, o->matrix_count, sizeof *o->matrices);
    o->matrices[o->matrix_count++] = matrix;
}

/* Of the products over the smaller side. */
static double cost_of(const OptimizerMatrix *m)
{
    return (double)m->rows * (double)m->columns * fmin((double)m->rows, (double)m->columns);
}

/* The costliest that is left to the rank that has least. */
void optimizer_assign(Optimizer *o, int ranks, int rank)
{
    double *loads = mem_zalloc((size_t)ranks, sizeof *loads);
    o->rank = rank;
    for (int i = 0; i < o->matrix_count; i++) {
        o->matrices[i].rank = ranks > 1 ? -1 : rank;
    }
    for (int given = 0; ranks > 1 && given < o->matrix_count; given++) {
        OptimizerMatrix *next = NULL;
        int least = 0;
        for (int i = 0; i < o->matrix_count; i++) {
            OptimizerMatrix *m = &o->matrices[i];
            next = m->rank < 0 && (next == NULL || cost_of(m) > cost_of(next)) ? m : next;
        }
        for (int r = 1; r < ranks; r++) {
            least = loads[r] < loads[least] ? r : least;
        }
        next->rank = least;
        loads[least] += cost_of(next);
    }
    free(loads);
}

DType optimizer_state_dtype(const Optimizer *o, DType acc)
{
    return o->settings.state == DT_BF16 ? DT_BF16 : acc;
}

/* Random bits are a function of the seed, the update and the element's number. */
#define ROUNDING_STREAM 0x726F756E64u

static void set_keys(Optimizer *o, int64_t step)
{
    RngBlock random = rng_block(o->settings.seed, ROUNDING_STREAM, (uint64_t)step);
    for (int row = 0; row < o->hyper_rows; row++) {
        float *hyper = o->host_hyper + (size_t)row * HYPER_COUNT;
        hyper[HYPER_KEY1] = (float)(random.word[0] >> (32 - ROUNDING_KEY_BITS));
        hyper[HYPER_KEY2] = (float)(random.word[1] >> (32 - ROUNDING_KEY_BITS));
    }
}

void optimizer_prepare(Ctx *c, Optimizer *o, double rate, int64_t step)
{
    for (int i = 0; i < o->class_count; i++) {
        const UpdateClass *class = &o->classes[i];
        class->rule->fill_hyper(&o->settings, rate, class->growth, step,
                                o->host_hyper + (size_t) class->hyper * HYPER_COUNT);
    }
    set_keys(o, step);
    if (!c->dry) {
        c->backend->upload(c->backend, o->hyper.data, o->host_hyper, tensor_bytes(o->hyper));
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
    if (o->host_grad || o->grad.dtype == DT_BF16) {
        return;
    }
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

RangeUpdate optimizer_update_of(const Optimizer *o, const OptimizerRange *range, bool last)
{
    const UpdateRule *rule = o->classes[range->class].rule;
    return last ? (rule->shape != NULL ? rule->update : NULL)
                : (rule->shape != NULL ? rule->begin : rule->update);
}

UpdateArgs optimizer_args(const Optimizer *o, const OptimizerRange *range, int64_t from,
                          int64_t count, bool last)
{
    const UpdateClass *class = &o->classes[range->class];
    UpdateArgs args = {.param = part(o->param, range->master + from, count),
                       .low = range->low < 0 ? TENSOR_NONE : part(o->low, range->low + from, count),
                       .grad = part(o->grad, range->offset + from, count),
                       .index = range->index + from,
                       .hyper = part(o->hyper, (int64_t) class->hyper * HYPER_COUNT, HYPER_COUNT),
                       .norm_sq = o->norm_sq,
                       .left_out = o->left_out,
                       .tokens = o->tokens,
                       .decay = range->decay};
    for (int k = 0; k < (last ? 0 : class->rule->states); k++) {
        args.state[k] = part(o->state[k], optimizer_state_at(o, k, range->own) + from, count);
    }
    return args;
}

/* All ranges, before `shape` or behind it. */
static void pass(Ctx *c, const Optimizer *o, bool last)
{
    if (optimizer_is_offloaded(o)) {
        optimizer_pass_offloaded(c, o, last);
        return;
    }
    for (int i = 0; i < o->range_count; i++) {
        const OptimizerRange *range = &o->ranges[i];
        RangeUpdate update = optimizer_update_of(o, range, last);
        if (update != NULL) {
            update(c, o, o->classes[range->class].hyper,
                   optimizer_args(o, range, 0, range->count, last));
        }
    }
}

/* Matrices [from, to) in `whole`, which begins at flat offset `at`. What other ranks shape is 0
 * here, so that the sum over ranks is what they made. */
static void shape_matrices(Ctx *c, const Optimizer *o, int from, int to, Tensor whole, int64_t at)
{
    for (int i = from; i < to; i++) {
        const OptimizerMatrix *matrix = &o->matrices[i];
        const UpdateClass *class = &o->classes[matrix->class];
        Tensor flat = part(whole, matrix->offset - at, matrix->rows * matrix->columns);
        if (matrix->rank == o->rank) {
            class->rule->shape(c, o, class->hyper,
                               tensor_2d(flat.data, flat.dtype, matrix->rows, matrix->columns));
        } else {
            op_scale(c, flat, 0, 0, flat);
        }
    }
}

void optimizer_step(Ctx *c, Optimizer *o)
{
    pass(c, o, false);
    for (int i = 0, next; i < o->matrix_count; i = next) {
        const OptimizerMatrix *first = &o->matrices[i], *last = first;
        for (next = i + 1; next < o->matrix_count && first->unit == o->matrices[next].unit;
             next++) {
            last = &o->matrices[next];
        }
        int64_t end = last->offset + last->rows * last->columns, at = 0;
        Tensor whole = o->grad;
        if (o->gather != NULL) {
            whole = o->gather(o->user, first->offset, end, &at);
        }
        shape_matrices(c, o, i, next, whole, at);
        if (o->scatter != NULL) {
            o->scatter(o->user, first->offset, end);
        }
    }
    if (o->matrix_count > 0) {
        pass(c, o, true);
    }
}
