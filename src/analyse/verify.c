/* A step that was timed is right when its gradients are. In the shape that was timed nothing slow
 * can follow, but it need not: an update whose sequences are all copies of one has that one's loss
 * and gradient. So the update is filled with copies of one sequence, or of two in equal numbers,
 * whose order has no period (a kernel that reads another sequence's rows is then found out), and
 * the trusted side computes one copy of each. Both start from weights made for this: the blocks'
 * are large enough for attention to choose, biases are not 0 and norm gains not 1, so that nothing
 * can be left out unseen. In bf16 they are rounded first: both sides have the same weights, and
 * what differs is arithmetic alone.
 *
 * The error of a tensor is |g - e| / max(|e|, FLOOR |E|) in Euclidean norms: g its gradient, e the
 * trusted one, E the trusted gradient of the whole model. A tensor of packed queries, keys and
 * values counts as three. The floor is for gradients that are zero on paper, as that of the keys'
 * bias, and rounding in fact; the smallest true ones, of the queries' biases, were seen at 2e-4 |E|
 * in 24 blocks.
 *
 * The update is checked by itself, from the same gradient and moments on both sides. */
#include "analyse/verify.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/prefetch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED 20240229
#define TOKEN_STREAM ((uint64_t)1 << 32) /* parameters have the streams below */
#define SPREAD 0.1                       /* of biases around 0 and norm gains around 1 */
#define FLOOR 5e-4
#define PIECE ((int64_t)1 << 20) /* elements looked at together */
#define RATE 1e-2                /* of the update: large beside the rounding of weights */
#define DOCUMENT 37              /* tokens of one, where documents are kept apart */
#define UPDATE 10                /* its number, which the corrections of the moments depend on */

/* The tokens of the update: sequence s of it is a copy of number which(s). */
typedef struct {
    int64_t vocab;
    int sequences;
} Copies;

/* Parity of the bits of s: as many 0 as 1 among the first 2 n, and no period. */
static int which(const Copies *copies, int64_t s)
{
    return copies->sequences == 1 ? 0 : __builtin_parityll((unsigned long long)s);
}

static int32_t token(const Copies *copies, int number, int64_t at)
{
    return (int32_t)rng_below(SEED, TOKEN_STREAM + (uint64_t)number, (uint64_t)at,
                              (uint64_t)copies->vocab);
}

/* Micro-steps of an update whose sequence s is number of(copies, s). */
static void run_micro_steps(Trainer *t, const Copies *copies,
                            int (*of)(const Copies *copies, int64_t s))
{
    int64_t batch = t->setup.batch, seq = t->setup.seq, rows = batch * seq;
    int32_t *ids = mem_zalloc((size_t)rows, 4 * sizeof *ids);
    int32_t *targets = ids + rows, *order = targets + rows, *starts = order + rows;
    uint32_t *counts = mem_zalloc((size_t)copies->vocab, sizeof *counts);
    for (int64_t micro = 0; micro < t->setup.accum; micro++) {
        for (int64_t row = 0; row < rows; row++) {
            int number = of(copies, micro * batch + row / seq);
            ids[row] = token(copies, number, row % seq);
            targets[row] = token(copies, number, row % seq + 1);
            starts[row] = (int32_t)(row % seq / DOCUMENT * DOCUMENT);
        }
        prefetch_sort(ids, rows, (uint64_t)copies->vocab, counts, order);
        trainer_micro_step(t, (HostBatch){ids, targets, order, starts}, micro);
        t->backend->sync(t->backend); /* before the tokens are overwritten */
    }
    free(counts);
    free(ids);
}

static int each_once(const Copies *copies, int64_t s)
{
    (void)copies;
    return (int)s;
}

/* What an output of a weight sums over: (out, in), (heads, in, out), or (heads, 1, in). */
static int64_t inputs_of(const Param *param)
{
    return param->dim[1] > 1 ? param->dim[1] : param->dim[2];
}

/* The weights that both sides start from; rounded: to bf16. */
static void write_weights(Trainer *t, bool rounded)
{
    const ParamTable *table = &t->model.params;
    float *values = mem_alloc(2 * (size_t)PIECE * sizeof *values), *noise = values + PIECE;
    for (int row = 0; row < table->count; row++) {
        const Param *param = &table->rows[row];
        for (int64_t at = 0; at < param->count; at += PIECE) {
            int64_t n = param->count - at < PIECE ? param->count - at : PIECE;
            params_init_values(table, row, SEED, at, n, values);
            if (param->init != INIT_NORMAL) {
                rng_normals(SEED, (uint64_t)row, (uint64_t)at, (uint64_t)n, noise);
            }
            double gain = param->layer < 0 ? 1 : 1 / (sqrt((double)inputs_of(param)) * param->std);
            for (int64_t i = 0; i < n; i++) {
                double value =
                    param->init == INIT_NORMAL ? gain * values[i] : values[i] + SPREAD * noise[i];
                values[i] = rounded ? f32_from_bf16(bf16_from_f32((float)value)) : (float)value;
            }
            trainer_write_state(t, STATE_PARAMS, param->offset + at, n, values);
        }
    }
    free(values);
}

/* Elements [at, at + n) of a flat f32 tensor to the host. */
static void read_flat(const Trainer *t, Tensor flat, int64_t at, int64_t n, float *out)
{
    Tensor part = tensor_rows(flat, at, n);
    PACER_ASSERT(part.dtype == DT_F32, "%s", dtype_name(part.dtype));
    t->backend->download(t->backend, out, part.data, tensor_bytes(part));
}

static double read_one(const Trainer *t, Tensor scalar)
{
    float value;
    read_flat(t, scalar, 0, 1, &value);
    return value;
}

/* Sums of squares over rows [first, last) of a parameter: of what was expected, and of the
 * difference. */
typedef struct {
    const Param *param;
    int64_t first, last;
    double expected, difference;
} Part;

/* Every parameter, those with the rows of a packed qkv in three. Caller frees. */
static Part *list_parts(const Trainer *t, int *count)
{
    const ParamTable *table = &t->model.params;
    const ModelSpec *spec = &t->setup.spec;
    int64_t q = spec->heads * spec->head_dim, kv = spec->kv_heads * spec->head_dim;
    Part *parts = mem_zalloc((size_t)table->count * 3, sizeof *parts);
    *count = 0;
    for (int row = 0; row < table->count; row++) {
        const Param *param = &table->rows[row];
        bool packed = param->layer >= 0 && param->dim[0] == q + 2 * kv;
        int64_t ends[] = {packed ? q : param->dim[0], q + kv, q + 2 * kv}, first = 0;
        for (int i = 0; i < (packed ? 3 : 1); i++) {
            parts[(*count)++] = (Part){.param = param, .first = first, .last = ends[i]};
            first = ends[i];
        }
    }
    return parts;
}

/* Elements [at, at + n) of the masters or of their gradient. */
static void read_side(Trainer *t, bool gradient, int64_t at, int64_t n, float *out)
{
    if (gradient) {
        trainer_read_grads(t, at, n, out);
    } else {
        trainer_read_state(t, STATE_PARAMS, at, n, out);
    }
}

/* Masters of t, or their gradient, beside the trusted side's, whose tensors may lie elsewhere in
 * its buffer. */
static void compare_part(Trainer *t, Trainer *trusted, bool gradient, Part *part, float *host)
{
    int64_t row = part->param - t->model.params.rows;
    int64_t width = part->param->count / part->param->dim[0], end = part->last * width;
    int64_t here = part->param->offset, there = trusted->model.params.rows[row].offset;
    for (int64_t at = part->first * width; at < end; at += PIECE) {
        int64_t n = end - at < PIECE ? end - at : PIECE;
        read_side(t, gradient, here + at, n, host);
        read_side(trusted, gradient, there + at, n, host + PIECE);
        for (int64_t i = 0; i < n; i++) {
            double e = host[PIECE + i], d = host[i] - e;
            part->expected += e * e;
            part->difference += d * d;
        }
    }
}

static void compare_gradients(Trainer *t, Trainer *trusted, Verification *found)
{
    int count;
    Part *parts = list_parts(t, &count);
    float *host = mem_alloc(2 * (size_t)PIECE * sizeof *host);
    double whole = 0;
    for (int i = 0; i < count; i++) {
        compare_part(t, trusted, true, &parts[i], host);
        whole += parts[i].expected;
    }
    found->expected_norm = sqrt(whole);
    found->error = -1;
    for (int i = 0; i < count; i++) {
        const Part *part = &parts[i];
        double scale = fmax(sqrt(part->expected), FLOOR * sqrt(whole));
        double error = sqrt(part->difference) / scale;
        if (!(error <= found->error)) { /* not a number is the worst */
            found->error = isnan(error) ? INFINITY : error;
            int used = snprintf(found->worst, sizeof found->worst, "%s", part->param->name);
            if (part->last - part->first < part->param->dim[0]) {
                snprintf(found->worst + used, sizeof found->worst - (size_t)used,
                         ", rows %lld to %lld", (long long)part->first, (long long)part->last - 1);
            }
        }
    }
    found->tensors = t->model.params.count;
    free(host);
    free(parts);
}

/* Gradient, weights and optimizer states of t into the trusted trainer. */
static void copy_state(Trainer *t, Trainer *trusted)
{
    float *host = mem_alloc((size_t)PIECE * sizeof *host);
    for (int row = 0; row < t->model.params.count; row++) {
        const Param *param = &t->model.params.rows[row];
        int64_t offset = trusted->model.params.rows[row].offset;
        int states = optimizer_rule(t->optimizer.kind, param)->states;
        for (int64_t at = 0; at < param->count; at += PIECE) {
            int64_t n = param->count - at < PIECE ? param->count - at : PIECE;
            Tensor part = tensor_rows(trusted->optimizer.grad, offset + at, n);
            trainer_read_grads(t, param->offset + at, n, host);
            trusted->backend->upload(trusted->backend, part.data, host, tensor_bytes(part));
            trusted->backend->sync(trusted->backend);
            for (int which = STATE_PARAMS; which < states; which++) {
                trainer_read_state(t, which, param->offset + at, n, host);
                trainer_write_state(trusted, which, offset + at, n, host);
            }
        }
    }
    free(host);
}

/* Whether the copy in bf16, where the parameter has one, is its master, rounded. */
static bool low_is_rounded(Trainer *t, const Param *param, float *host)
{
    uint16_t *low = (uint16_t *)(host + PIECE);
    int64_t place =
        trainer_low_at(t, ddp_piece(&t->ddp, param->offset, param->offset + param->count));
    if (!tensor_given(t->optimizer.low) || place < 0) {
        return true;
    }
    for (int64_t at = 0; at < param->count; at += PIECE) {
        int64_t n = param->count - at < PIECE ? param->count - at : PIECE;
        Tensor part = tensor_rows(t->optimizer.low, place + at, n);
        t->backend->download(t->backend, low, part.data, tensor_bytes(part));
        trainer_read_state(t, STATE_PARAMS, param->offset + at, n, host);
        for (int64_t i = 0; i < n; i++) {
            if (low[i] != trainer_low_of(t, host[i])) {
                return false;
            }
        }
    }
    return true;
}

/* Root mean square of the weights' difference after an update, over the rate, of the tensor
 * where it is largest; infinite when the copy of the weights in bf16 is no copy. */
static void compare_update(Trainer *t, Trainer *trusted, Verification *found)
{
    copy_state(t, trusted);
    trainer_update(t, RATE, UPDATE);
    trainer_update(trusted, RATE, UPDATE);
    found->norm = sqrt(read_one(t, t->optimizer.norm_sq));
    float *host = mem_alloc(2 * (size_t)PIECE * sizeof *host);
    for (int row = 0; row < t->model.params.count; row++) {
        const Param *param = &t->model.params.rows[row];
        Part part = {.param = param, .last = param->dim[0]};
        compare_part(t, trusted, false, &part, host);
        double error = sqrt(part.difference / (double)param->count) / RATE;
        bool good = !isnan(error) && low_is_rounded(t, param, host);
        found->update_error = fmax(found->update_error, good ? error : INFINITY);
    }
    free(host);
}

/* bf16 on ref beside f32 on the CPU, up to 24 blocks deep and 768 wide, was seen to differ by
 * 4.1 % in gradients (always of queries or keys), 0.4 % in the norm and 0.0005 in the loss,
 * whose errors average out over more or fewer tokens; f32 by 5e-6, 3e-7 and 1e-6. The limits of
 * bf16 are between three and four times that, ten for the loss. f32 has more room, for a GPU
 * that sums 65,536 rows in another order, and is still far below what a mistake does. The update
 * takes the same numbers on both sides and was seen to differ by 2e-6 rates; Muon's, with matrices
 * made orthogonal in bf16, by 0.016, where a step is 0.2. */
#define LOW_ORTHOGONAL_LIMIT 0.06
static const Verification low_limits = {
    .limit = 0.15, .norm_limit = 0.015, .loss_limit = 0.005, .update_limit = 1e-4};
static const Verification fp8_limits = {
    .limit = 0.3, .norm_limit = 0.05, .loss_limit = 0.02, .update_limit = 1e-4};
static const Verification f32_limits = {
    .limit = 1e-4, .norm_limit = 1e-4, .loss_limit = 5e-5, .update_limit = 1e-4};

TrainerSetup verify_trusted_setup(const TrainerSetup *timed, int sequences)
{
    TrainerSetup setup = *timed;
    setup.dtype = DT_F32;
    setup.attention = ATTENTION_FLASH;
    setup.keep = KEEP_ALL;
    setup.offload = OFFLOAD_NONE;
    setup.graph = false;
    setup.batch = 1;
    setup.accum = sequences;
    return setup;
}

static void show_progress(void *user, Phase phase, bool begins)
{
    if (begins) {
        log_live("verifying on %s: %s", ((const Backend *)user)->name,
                 phase == PHASE_BACKWARD ? "backward" : "forward");
    }
}

int verify_against(Trainer *t, Backend *backend, int sequences, Verification *found)
{
    TrainerSetup setup = verify_trusted_setup(&t->setup, sequences);
    Copies copies = {t->setup.spec.vocab, sequences};
    PACER_ASSERT(sequences == 1 || (sequences == 2 && t->setup.batch * t->setup.accum % 2 == 0),
                 "%d sequences do not share the update equally", sequences);
    *found = t->setup.dtype == DT_E4M3   ? fp8_limits
             : t->setup.dtype == DT_BF16 ? low_limits
                                         : f32_limits;
    if (t->optimizer.kind->matrices->shape != NULL && t->optimizer.products == DT_BF16) {
        found->update_limit = LOW_ORTHOGONAL_LIMIT;
    }
    found->trusted = strcmp(backend->name, "cpu") == 0 ? "the CPU's" : "the reference's";
    TrainPlan plan;
    Trainer trusted;
    trainer_plan(&setup, backend, &plan);
    int code = trainer_open(&trusted, &setup, backend, &plan);
    if (code != 0) {
        return code;
    }
    trusted.hook = show_progress;
    trusted.hook_user = backend;
    bool rounded = t->setup.dtype != DT_F32;
    write_weights(t, rounded);
    write_weights(&trusted, rounded);
    if (t->model.quantised) { /* the scales before the first update are guesses */
        run_micro_steps(t, &copies, which);
        trainer_rescale(t);
    }
    run_micro_steps(t, &copies, which);
    run_micro_steps(&trusted, &copies, each_once);
    found->loss = read_one(t, t->loss);
    found->expected_loss = read_one(&trusted, trusted.loss);
    compare_gradients(t, &trusted, found);
    compare_update(t, &trusted, found);
    trainer_close(&trusted);
    return 0;
}

static bool within(double found, double expected, double limit)
{
    return fabs(found - expected) <= limit; /* never of what is not a number */
}

int verify_judge(const Verification *v)
{
    if (!(v->error <= v->limit)) {
        return err_set(
            ERR_CHECK,
            "the step is wrong: the gradient of %s is %.3g %% off %s in f32, %.3g %% are "
            "allowed (loss %.6g against %.6g)",
            v->worst, 100 * v->error, v->trusted, 100 * v->limit, v->loss, v->expected_loss);
    }
    if (!within(v->loss, v->expected_loss, v->loss_limit)) {
        return err_set(ERR_CHECK, "the step is wrong: its loss is %.8g, %s in f32 %.8g", v->loss,
                       v->trusted, v->expected_loss);
    }
    if (!within(v->norm, v->expected_norm, v->norm_limit * v->expected_norm)) {
        return err_set(ERR_CHECK, "the step is wrong: its gradient norm is %.8g, %s in f32 %.8g",
                       v->norm, v->trusted, v->expected_norm);
    }
    if (!(v->update_error <= v->update_limit)) {
        return err_set(
            ERR_CHECK,
            "the step is wrong: from the same gradient, weights after an update are %.3g "
            "%% of the rate off %s in f32, %.3g %% are allowed",
            100 * v->update_error, v->trusted, 100 * v->update_limit);
    }
    return 0;
}
