/* Memory is planned as in training: the pass itself, with dispatch switched off and arenas that
 * count, tells what a shape needs. The shape of whole batches is planned and allocated at the
 * start. Another one (the last batch, shorter texts) may need more of some block, since the head
 * cuts its rows into chunks of about equal size; then the blocks grow between two passes.
 *
 * Where the backend wants few shapes, lengths are rounded up to a few values and the number of
 * windows in the last batch of a round to powers of two. */
#include "use/evaluate.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "model/attention_kind.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)
#define ROUND_BATCHES 64
#define ROUND_TOKENS ((int64_t)1 << 24)

/* --- memory --- */

/* Takes the tensors of a pass from the state and gives them to the evaluator. */
static void lay_out(Evaluator *e, int64_t rows)
{
    Arena *arena = &e->work.state;
    DType acc = dtype_accumulate(e->setup.model->act);
    int64_t one = 1;
    e->ids = arena_push(arena, MEM_BATCH, DT_I32, 1, &rows);
    e->targets = arena_push(arena, MEM_BATCH, DT_I32, 1, &rows);
    if (e->setup.separate) {
        e->starts = arena_push(arena, MEM_BATCH, DT_I32, 1, &rows);
    }
    e->losses = arena_push(arena, MEM_HEAD, acc, 1, &rows);
    e->mean = arena_push(arena, MEM_HEAD, acc, 1, &one);
}

/* The pass over a batch that is on the device. */
static void compute(Evaluator *e, int64_t batch, int64_t seq)
{
    DeviceBatch device = {
        .batch = batch, .seq = seq, .ids = e->ids, .targets = e->targets, .starts = e->starts};
    model_evaluate(&e->ctx, e->setup.model, device, e->losses, e->mean);
}

static AttentionUse attention_use(const EvaluatorSetup *s, int64_t batch, int64_t seq)
{
    return (AttentionUse){&s->model->spec, batch, seq, s->separate, s->model->act};
}

/* The kind of attention that was chosen, or one that does this shape. */
static AttentionKind attention_for(const Evaluator *e, int64_t batch, int64_t seq)
{
    if (e->setup.model->spec.mixer != MIXER_ATTENTION) {
        return e->attention;
    }
    AttentionUse use = attention_use(&e->setup, batch, seq);
    return model_attention(e->setup.backend, e->attention, &use);
}

/* Bytes of the three blocks for passes of this shape. */
static void plan(const Evaluator *evaluator, int64_t batch, int64_t seq, size_t sizes[WORK_BLOCKS])
{
    Evaluator e = *evaluator;
    workspace_count(&e.work, &e.ctx);
    lay_out(&e, batch * seq);
    e.ctx.attention = attention_for(evaluator, batch, seq);
    compute(&e, batch, seq);
    workspace_peaks(&e.work, &e.ctx, sizes);
}

size_t evaluator_bytes(const EvaluatorSetup *setup, int64_t batch, int64_t seq)
{
    Evaluator e = {.setup = *setup, .attention = ATTENTION_FLASH};
    size_t sizes[WORK_BLOCKS];
    ctx_init(&e.ctx, setup->backend);
    plan(&e, batch, seq, sizes);
    return sizes[0] + sizes[1] + sizes[2];
}

static int check_fits(EvaluatorSetup *setup)
{
    Backend *backend = setup->backend;
    size_t limit = setup->memory > 0 ? setup->memory : backend->available(backend);
    if (setup->memory == 0 && backend->device == NULL && setup->comm != NULL) {
        limit /= (size_t)comm_local_ranks(setup->comm); /* they share the host's memory */
    }
    size_t need = evaluator_bytes(setup, setup->batch, setup->seq);
    if (limit == 0 || need <= limit) {
        return 0;
    }
    int64_t largest = 0;
    for (int64_t fails = setup->batch; fails - largest > 1;) {
        int64_t trial = largest + (fails - largest) / 2;
        *(evaluator_bytes(setup, trial, setup->seq) <= limit ? &largest : &fails) = trial;
    }
    if (largest > 0 && setup->fit) {
        setup->batch = largest;
        return 0;
    }
    char advice[64] = "not even --batch 1 fits; take a smaller --seq";
    if (largest > 0) {
        snprintf(advice, sizeof advice, "the largest that fits is --batch %lld",
                 (long long)largest);
    }
    return err_set(ERR_MEMORY,
                   "--batch %lld of %lld tokens needs %.1f MiB beside the model and %.1f MiB are "
                   "free: %s",
                   (long long)setup->batch, (long long)setup->seq, (double)need / MIB,
                   (double)limit / MIB, advice);
}

/* Blocks that are large enough for passes of this shape, and the tensors in them. */
static int reserve(Evaluator *e, int64_t batch, int64_t seq)
{
    if (e->ready[0] == batch && e->ready[1] == seq) {
        return 0;
    }
    size_t sizes[WORK_BLOCKS];
    plan(e, batch, seq, sizes);
    e->ready[0] = 0;
    int code =
        workspace_reserve(&e->work, &e->ctx, sizes, "for an evaluation; try a smaller --batch");
    if (code != 0) {
        return code;
    }
    lay_out(e, batch * seq);
    e->ctx.attention = attention_for(e, batch, seq);
    e->ready[0] = batch;
    e->ready[1] = seq;
    return 0;
}

/* --- open and close --- */

/* Kinds of attention and of TTT layers that a GPU has for whole batches. */
static int choose_kernels(Evaluator *e)
{
    const EvaluatorSetup *s = &e->setup;
    const ModelSpec *spec = &s->model->spec;
    e->attention = ATTENTION_FLASH;
    if (spec->mixer == MIXER_ATTENTION) {
        AttentionUse use = attention_use(s, s->batch, s->seq);
        e->attention = model_attention_choose(s->backend, &use);
        return 0;
    }
    TttShape shape = spec_ttt_shape(spec, s->batch, s->seq);
    const char *why = backend_ttt_refusal(s->backend, &shape, s->model->act);
    return why == NULL ? 0 : err_set(ERR_INPUT, "the model's TTT layers: %s", why);
}

int evaluator_open(Evaluator *e, const EvaluatorSetup *setup)
{
    PACER_ASSERT(setup->batch > 0 && setup->seq > 0 && setup->seq <= setup->model->spec.context,
                 "batch %lld, seq %lld, context %lld", (long long)setup->batch,
                 (long long)setup->seq, (long long)setup->model->spec.context);
    *e = (Evaluator){.setup = *setup, .whole = true};
    ctx_init(&e->ctx, setup->backend);
    int code = comm_agree(setup->comm, check_fits(&e->setup));
    if (code == 0 && setup->comm != NULL) { /* ranks with less free memory decide for all */
        double negative = -(double)e->setup.batch;
        code = comm_max(setup->comm, &negative, 1);
        e->setup.batch = (int64_t)-negative;
    }
    code = code != 0 ? code : choose_kernels(e);
    code = code != 0 ? code : reserve(e, e->setup.batch, setup->seq);
    code = comm_agree(setup->comm, code);
    if (code != 0) {
        evaluator_close(e);
        return code;
    }
    size_t rows = (size_t)e->setup.batch * (size_t)setup->seq;
    e->host_ids = mem_zalloc(rows * 3, sizeof *e->host_ids);
    e->host_losses = mem_zalloc(rows, dtype_size(e->losses.dtype));
    return 0;
}

void evaluator_close(Evaluator *e)
{
    workspace_free(&e->work, e->setup.backend);
    free(e->host_ids);
    free(e->host_losses);
    *e = (Evaluator){0};
}

/* --- passes --- */

/* Rows of ids, targets and starts: the windows, with target -1 (no loss) behind their end and in
 * rows without one. */
static void fill(Evaluator *e, EvalWindow *const *windows, int64_t count, int64_t batch,
                 int64_t seq)
{
    int32_t *ids = e->host_ids, *targets = ids + batch * seq;
    for (int64_t row = 0; row < batch; row++, ids += seq, targets += seq) {
        int64_t length = row < count ? windows[row]->count : 0;
        for (int64_t i = 0; i < length; i++) {
            int32_t token = windows[row]->tokens[i];
            ids[i] = token < 0 ? ~token : token;
            targets[i] = windows[row]->tokens[i + 1];
            e->whole = e->whole && targets[i] >= 0;
        }
        for (int64_t i = length; i < seq; i++) {
            ids[i] = 0;
            targets[i] = -1;
        }
    }
    int64_t rows = batch * seq;
    document_starts(e->host_ids, rows, seq, e->setup.end, e->host_ids + 2 * rows);
}

/* A number of the accumulator's type. */
static double number_at(const void *numbers, DType dtype, int64_t index)
{
    return dtype == DT_F64 ? ((const double *)numbers)[index] : ((const float *)numbers)[index];
}

/* How many windows a pass over `count` of them has room for. */
static int64_t pass_windows(const Evaluator *e, int64_t count)
{
    int64_t batch = e->setup.backend->few_shapes ? 1 : count;
    while (batch < count) {
        batch *= 2;
    }
    return batch < e->setup.batch ? batch : e->setup.batch;
}

/* One pass over at most setup.batch windows, the longest first. */
static int run_batch(Evaluator *e, EvalWindow *const *windows, int64_t count)
{
    Backend *backend = e->setup.backend;
    int64_t seq = model_pass_length(backend, windows[0]->count, e->setup.seq);
    int64_t batch = pass_windows(e, count);
    int code = reserve(e, batch, seq);
    if (code != 0) {
        return code;
    }
    fill(e, windows, count, batch, seq);
    backend->upload(backend, e->ids.data, e->host_ids, tensor_bytes(e->ids));
    backend->upload(backend, e->targets.data, e->host_ids + batch * seq, tensor_bytes(e->targets));
    if (tensor_given(e->starts)) {
        backend->upload(backend, e->starts.data, e->host_ids + 2 * batch * seq,
                        tensor_bytes(e->starts));
    }
    compute(e, batch, seq);
    backend->download(backend, e->host_losses, e->losses.data, tensor_bytes(e->losses));
    double mean;
    backend->download(backend, &mean, e->mean.data, tensor_bytes(e->mean));
    e->means += number_at(&mean, e->mean.dtype, 0);
    e->batches++;
    e->whole = e->whole && count == e->setup.batch && seq == e->setup.seq;
    for (int64_t row = 0; row < count; row++) {
        EvalWindow *window = windows[row];
        for (int64_t i = window->skip; i < window->count; i++) {
            window->nats += number_at(e->host_losses, e->losses.dtype, row * seq + i);
        }
        window->done = true;
        e->whole = e->whole && window->count == seq && window->skip == 0;
    }
    return 0;
}

/* Rows of logits from the device to their place; host (count, vocab_rows) act is room for them. */
static void take_logits(Evaluator *e, Tensor from, void *host, float *logits)
{
    const Model *model = e->setup.model;
    int64_t vocab = model->spec.vocab;
    e->setup.backend->download(e->setup.backend, host, from.data, tensor_bytes(from));
    for (int64_t row = 0; row < from.dim[0]; row++, logits += vocab) {
        int64_t first = row * model->vocab_rows;
        if (model->act == DT_F32) {
            memcpy(logits, (const float *)host + first, (size_t)vocab * sizeof *logits);
            continue;
        }
        PACER_ASSERT(model->act == DT_BF16, "logits in %s", dtype_name(model->act));
        for (int64_t i = 0; i < vocab; i++) {
            logits[i] = f32_from_bf16(((const uint16_t *)host)[first + i]);
        }
    }
}

int evaluator_logits(Evaluator *e, const int32_t *tokens, int64_t batch, float *logits)
{
    Model *model = e->setup.model;
    Backend *backend = e->setup.backend;
    int64_t seq = e->setup.seq, windows = pass_windows(e, batch), all = windows * seq;
    PACER_ASSERT(batch > 0 && batch <= e->setup.batch, "%lld windows of %lld", (long long)batch,
                 (long long)e->setup.batch);
    int code = reserve(e, windows, seq);
    if (code != 0) {
        return code;
    }
    int64_t chunk = model_head_rows(&e->ctx, model, all);
    void *host = mem_try_aligned((size_t)(chunk * model->vocab_rows) * dtype_size(model->act));
    if (host == NULL) {
        return err_set(ERR_MEMORY, "no memory for logits; try a smaller batch");
    }
    memset(e->host_ids, 0, (size_t)all * sizeof *e->host_ids);
    memcpy(e->host_ids, tokens, (size_t)(batch * seq) * sizeof *tokens);
    backend->upload(backend, e->ids.data, e->host_ids, tensor_bytes(e->ids));
    model_forward(&e->ctx, model, (DeviceBatch){.batch = windows, .seq = seq, .ids = e->ids},
                  KEEP_NOTHING);
    /* The room that model_head takes for the same rows, and so planned. */
    ArenaMark mark = arena_mark(&e->ctx.scratch);
    Tensor buffer = ctx_scratch(&e->ctx, MEM_HEAD, model->act, chunk, model->vocab_rows);
    for (int64_t first = 0; first < batch * seq; first += chunk) {
        int64_t count = batch * seq - first < chunk ? batch * seq - first : chunk;
        Tensor part = tensor_rows(buffer, 0, count);
        model_logits(&e->ctx, model, first, part);
        take_logits(e, part, host, logits + first * model->spec.vocab);
    }
    arena_release(&e->ctx.scratch, mark);
    model_end(&e->ctx, model);
    free(host);
    return 0;
}

static int longest_first(const void *a, const void *b)
{
    const EvalWindow *x = *(EvalWindow *const *)a, *y = *(EvalWindow *const *)b;
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    return x < y ? -1 : x > y; /* they lie in one array: in its order */
}

/* Every rank gets the windows of all, and the worst that has happened to one. */
static int share(Evaluator *e, EvalWindow *windows, int64_t count, int code)
{
    Comm *comm = e->setup.comm;
    if (comm == NULL || comm_ranks(comm) == 1) {
        return code;
    }
    double stopped = code == ERR_INTERRUPTED || code == ERR_TERMINATED ? -code : 0;
    int failed = comm_agree(comm, stopped != 0 ? 0 : code);
    double *all = mem_alloc((size_t)count * 2 * sizeof *all);
    for (int64_t i = 0; i < count; i++) {
        all[2 * i] = windows[i].nats;
        all[2 * i + 1] = windows[i].done;
    }
    failed = failed != 0 ? failed : comm_max(comm, &stopped, 1);
    failed = failed != 0 ? failed : comm_sum(comm, all, (int)(2 * count));
    for (int64_t i = 0; i < count; i++) {
        windows[i].nats = all[2 * i];
        windows[i].done = all[2 * i + 1] != 0;
    }
    free(all);
    return failed != 0 ? failed : -(int)stopped;
}

void evaluator_begin(Evaluator *e)
{
    e->progress = progress_begin("evaluating");
    e->totals = (EvalTotals){0};
    e->done = e->round = 0;
}

/* part: of the round, 0 to 1. */
static void say_progress(Evaluator *e, double part)
{
    double done = e->done + part * e->round;
    if (done <= 0 || !progress_due(&e->progress)) {
        return;
    }
    double seconds = clock_seconds() - e->progress.started;
    char left[CLOCK_DURATION_SIZE], loss[64] = "";
    clock_duration(done < 1 ? seconds * (1 - done) / done : 0, left);
    if (e->totals.tokens > 0) {
        snprintf(loss, sizeof loss, ", loss %.4f so far", eval_loss(&e->totals));
    }
    (log_is_terminal() ? log_live : log_info)("%s: %.0f %%%s, %s left", e->progress.what,
                                              100 * (done < 1 ? done : 1), loss, left);
}

int evaluator_run(Evaluator *e, EvalWindow *windows, int64_t count)
{
    int rank = e->setup.comm != NULL ? comm_rank(e->setup.comm) : 0;
    int ranks = e->setup.comm != NULL ? comm_ranks(e->setup.comm) : 1;
    EvalWindow **order = mem_alloc((size_t)(count + 1) * sizeof *order);
    for (int64_t i = 0; i < count; i++) {
        PACER_ASSERT(windows[i].count > windows[i].skip && windows[i].count <= e->setup.seq,
                     "window of %lld, %lld skipped", (long long)windows[i].count,
                     (long long)windows[i].skip);
        windows[i].done = false;
        windows[i].nats = 0;
        order[i] = &windows[i];
    }
    qsort(order, (size_t)count, sizeof *order, longest_first);
    int64_t each = e->setup.batch;
    int code = 0;
    for (int64_t first = rank * each; code == 0 && first < count; first += ranks * each) {
        code = e->setup.interrupted != NULL ? e->setup.interrupted() : 0;
        int64_t part = count - first < each ? count - first : each;
        code = code != 0 ? code : run_batch(e, order + first, part);
        if (code == 0) {
            say_progress(e, (double)(first + part) / (double)count);
        }
    }
    free(order);
    return share(e, windows, count, code);
}

int64_t evaluator_round(const Evaluator *e)
{
    int64_t batch = e->setup.batch, ranks = e->setup.comm != NULL ? comm_ranks(e->setup.comm) : 1;
    int64_t most = ROUND_TOKENS / e->setup.seq / batch;
    most = most < ROUND_BATCHES ? most : ROUND_BATCHES;
    return batch * (most > ranks ? most : ranks);
}

int evaluator_mean(Evaluator *e, double *mean, bool *whole)
{
    double sums[] = {e->means, (double)e->batches, !e->whole};
    int code = e->setup.comm != NULL ? comm_sum(e->setup.comm, sums, 3) : 0;
    *mean = sums[0] / sums[1];
    *whole = sums[1] > 0 && sums[2] == 0;
    return code;
}

/* --- totals --- */

double eval_loss(const EvalTotals *totals)
{
    return totals->nats / (double)totals->tokens;
}

double eval_bits_per_byte(const EvalTotals *totals)
{
    return totals->bytes > 0 ? totals->nats / log(2) / (double)totals->bytes : NAN;
}

uint32_t *eval_token_sizes(const Tokenizer *tokenizer, uint32_t end, int64_t vocab)
{
    uint32_t *sizes = mem_zalloc((size_t)vocab, sizeof *sizes);
    for (int64_t id = 0; id < vocab; id++) {
        size_t size = 0;
        if (id != end) {
            tokenizer_bytes(tokenizer, (uint32_t)id, &size);
        }
        sizes[id] = (uint32_t)size;
    }
    return sizes;
}

uint64_t eval_totals_add(EvalTotals *totals, const EvalWindow *window, const uint32_t *sizes)
{
    uint64_t bytes = 0;
    for (int64_t i = window->skip; i < window->count; i++) {
        int32_t token = window->tokens[i + 1];
        bytes += sizes != NULL && token >= 0 ? sizes[token] : 0;
        totals->tokens += token >= 0;
    }
    totals->bytes += bytes;
    totals->windows++;
    totals->nats += window->nats;
    return bytes;
}
