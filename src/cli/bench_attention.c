/* `pacer bench attention`: each kind of attention that the device has, by itself, over growing
 * sequences. For every length all kinds are planned in dry runs first, so that what does not fit is
 * a row of the table and not an end; then each gets the same inputs, is timed, and has its results
 * checked (attention_check.h). */
#include "analyse/attention_check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "devices/devices.h"
#include "tensor/ctx.h"
#include "train/setup.h"

#include <stdlib.h>

#define MIB 1048576.0
#define SHORTEST 256 /* where the lengths begin */
#define LONGEST_GPU 16384
#define LONGEST_CPU 1024
#define TOKENS_GPU 65536 /* of all sequences, unless --batch is given */
#define TOKENS_CPU 4096
#define HEADS 12
#define HEAD_DIM 64
#define HEAD_DIM_MOST 1024
#define ERROR_F32 1e-4
#define ERROR_BF16 2e-2
#define COUNTABLE 1e16 /* elements; beyond it sizes would leave their integers */

/* In the order in which they are timed: gradients of the first are what the later ones are compared
 * with. */
static const AttentionKind kinds[] = {ATTENTION_NAIVE, ATTENTION_FLASH, ATTENTION_LIBRARY};
enum { KINDS = 3, KINDS_HOST = 2 };

enum { FORWARD, BACKWARD, DIRECTIONS };

/* One kind at one length. */
typedef struct {
    AttentionKind kind;
    char note[256];        /* why there are no numbers; "" when there are */
    size_t saved, scratch; /* bytes: what forward keeps for backward, workspace */
    size_t need;           /* bytes in all: these and the tensors */
    double flops[DIRECTIONS], seconds[DIRECTIONS];
    double error;
    bool wrong;
} Result;

typedef struct {
    const Config *cfg;
    Backend *backend;
    size_t program;  /* run_program, before anything was measured */
    HeadShape shape; /* of the length at hand */
    DType dtype;
    bool gpu;
    Tensor qkv, dout, out, dqkv;
    void *block;  /* theirs */
    size_t bytes; /* of them, as planned */
    AttentionCheck *check;
    double *times[DIRECTIONS]; /* (repeats) */
    int wrong;                 /* results so far */
} Bench;

/* --- planning --- */

static void push_tensors(Bench *b, Arena *arena)
{
    HeadShape s = b->shape;
    int64_t rows = s.batch * s.seq, wide = (s.heads + 2 * s.kv_heads) * s.head_dim,
            narrow = s.heads * s.head_dim;
    b->qkv = arena_push(arena, MEM_MIXER, b->dtype, 2, (int64_t[]){rows, wide});
    b->dqkv = arena_push(arena, MEM_MIXER, b->dtype, 2, (int64_t[]){rows, wide});
    b->out = arena_push(arena, MEM_MIXER, b->dtype, 2, (int64_t[]){rows, narrow});
    b->dout = arena_push(arena, MEM_MIXER, b->dtype, 2, (int64_t[]){rows, narrow});
    if (b->cfg->document_tokens > 0) {
        b->shape.starts = arena_push(arena, MEM_MIXER, DT_I32, 1, &rows);
    }
}

static AttentionInputs inputs_of(const Bench *b)
{
    return (AttentionInputs){.shape = b->shape,
                             .dtype = b->dtype,
                             .seed = (uint64_t)b->cfg->seed,
                             .document = b->cfg->document_tokens};
}

/* FLOPs of the keys that queries see, forward, as the op counts them for whole sequences. */
static double flops_of(const Bench *b)
{
    const AttentionInputs inputs = inputs_of(b);
    HeadShape s = b->shape;
    double pairs = 0;
    for (int64_t i = 0; i < s.seq; i++) {
        pairs += (double)(i + 1 - attention_first_key(&inputs, i));
    }
    return 4.0 * (double)(s.batch * s.heads * s.head_dim) * pairs;
}

static void say_too_large(Result *r, double bytes)
{
    snprintf(r->note, sizeof r->note, "does not fit: %.0f MiB", bytes / MIB);
}

/* False, with a note, for shapes whose sizes cannot even be counted. */
static bool countable(const Bench *b, Result *r)
{
    HeadShape s = b->shape;
    double rows = (double)s.batch * (double)s.seq, heads = (double)s.heads;
    double elements = rows * (double)s.head_dim * (4 * heads + 4 * (double)s.kv_heads);
    if (r->kind == ATTENTION_NAIVE) {
        elements += rows * heads * (double)s.seq;
    }
    if (elements > COUNTABLE) {
        say_too_large(r, elements * (double)dtype_size(b->dtype));
    }
    return elements <= COUNTABLE;
}

static void plan(Bench *b, Result *r)
{
    if (!countable(b, r)) {
        return;
    }
    Arena tensors;
    arena_init_counting(&tensors, "tensors");
    push_tensors(b, &tensors);
    const char *why = backend_attention_refusal(b->backend, r->kind, b->shape, b->dtype);
    if (why != NULL) {
        snprintf(r->note, sizeof r->note, "%s", why);
        return;
    }
    Ctx c;
    ctx_init(&c, b->backend);
    c.dry = true;
    c.attention = r->kind;
    Tensor aux = op_attention_aux(&c, b->shape, b->dtype);
    op_attention_forward(&c, b->qkv, b->shape, b->out, aux);
    op_attention_backward(&c, b->dout, b->qkv, b->out, aux, b->shape, b->dqkv);
    r->saved = c.saved.peak;
    r->scratch = c.scratch.peak;
    r->flops[FORWARD] = flops_of(b);
    r->flops[BACKWARD] = 2 * r->flops[FORWARD];
    b->bytes = tensors.peak;
    r->need = b->bytes + r->saved + r->scratch;
    size_t room = run_room(&(Run){.cfg = b->cfg, .backend = b->backend, .program = b->program});
    if (r->need > room) {
        say_too_large(r, (double)r->need);
    }
}

/* --- measuring --- */

/* Memory for the tensors of this length; false when the device has none after all. */
static bool take_tensors(Bench *b)
{
    b->block = b->backend->alloc(b->backend, b->bytes);
    if (b->block != NULL) {
        Arena tensors;
        arena_init(&tensors, "tensors", b->block, b->bytes);
        push_tensors(b, &tensors);
    }
    return b->block != NULL;
}

/* Their inputs, and the samples to check by. */
static int make_inputs(Bench *b)
{
    log_live("seq %lld: making inputs and the results to check by", (long long)b->shape.seq);
    AttentionInputs inputs = inputs_of(b);
    attention_inputs_fill(&inputs, b->backend, b->qkv, b->dout, config_threads(b->cfg));
    return attention_check_open(&b->check, &inputs);
}

static void close_length(Bench *b)
{
    attention_check_close(b->check);
    b->check = NULL;
    if (b->block != NULL) {
        b->backend->release(b->backend, b->block);
        b->block = NULL;
    }
}

static int repeat(Bench *b, Ctx *c, const Result *r, Tensor aux)
{
    Backend *backend = b->backend;
    int code = 0;
    for (int64_t i = 0; code == 0 && i < b->cfg->warm + b->cfg->repeats; i++) {
        log_live("seq %lld, %s: %lld of %lld", (long long)b->shape.seq, attention_name(r->kind),
                 (long long)i + 1, (long long)(b->cfg->warm + b->cfg->repeats));
        backend->sync(backend);
        double started = clock_seconds();
        op_attention_forward(c, b->qkv, b->shape, b->out, aux);
        backend->sync(backend);
        double between = clock_seconds();
        op_attention_backward(c, b->dout, b->qkv, b->out, aux, b->shape, b->dqkv);
        backend->sync(backend);
        if (i >= b->cfg->warm) {
            b->times[BACKWARD][i - b->cfg->warm] = clock_seconds() - between;
            b->times[FORWARD][i - b->cfg->warm] = between - started;
        }
        code = signals_check();
    }
    return code;
}

/* The results of the last repetition are those that are checked; nothing of an earlier kind is left
 * in them. */
static int measure(Bench *b, Result *r)
{
    Backend *backend = b->backend;
    char *block = backend->alloc(backend, r->saved + r->scratch);
    if (block == NULL) {
        say_too_large(r, (double)r->need);
        return 0;
    }
    backend->zero(backend, block, r->saved + r->scratch);
    backend->zero(backend, b->out.data, tensor_bytes(b->out));
    backend->zero(backend, b->dqkv.data, tensor_bytes(b->dqkv));
    Ctx c;
    ctx_init(&c, backend);
    c.attention = r->kind;
    arena_init(&c.saved, "saved", block, r->saved);
    arena_init(&c.scratch, "scratch", block + r->saved, r->scratch);
    int code = repeat(b, &c, r, op_attention_aux(&c, b->shape, b->dtype));
    if (code == 0) {
        for (int way = 0; way < DIRECTIONS; way++) {
            r->seconds[way] = clock_quantile(b->times[way], (size_t)b->cfg->repeats, 0.5);
        }
        r->error = attention_check_error(b->check, backend, b->out, b->dqkv);
        r->wrong = !(r->error <= (b->dtype == DT_BF16 ? ERROR_BF16 : ERROR_F32));
        b->wrong += r->wrong;
    }
    backend->release(backend, block);
    return code;
}

/* --- the table --- */

static void print_head(const Bench *b)
{
    HeadShape s = b->shape;
    printf("causal attention, %lld heads of %lld, %lld key/value heads, %s, ", (long long)s.heads,
           (long long)s.head_dim, (long long)s.kv_heads, dtype_name(b->dtype));
    if (s.window > 0) {
        printf("window %lld, ", (long long)s.window);
    }
    if (b->cfg->document_tokens > 0) {
        printf("documents of %lld, ", (long long)b->cfg->document_tokens);
    }
    if (b->backend->device != NULL) {
        printf("%s", b->backend->device);
    } else {
        printf("%s, %d threads", b->backend->name, b->backend->threads);
    }
    printf(", median of %lld\n", (long long)b->cfg->repeats);
    printf("%8s %6s %-6s %11s %9s %7s %12s %9s %7s %11s %9s\n", "seq", "batch", "kind",
           "forward ms", "TFLOP/s", "of best", "backward ms", "TFLOP/s", "of best", "memory MiB",
           "error");
}

static void print_length(const Bench *b, const Result *results, int count)
{
    double best[DIRECTIONS] = {INFINITY, INFINITY};
    for (int i = 0; i < count; i++) {
        for (int way = 0; way < DIRECTIONS && results[i].note[0] == '\0'; way++) {
            best[way] = fmin(best[way], results[i].seconds[way]);
        }
    }
    log_live("%s", ""); /* off the screen, before lines on stdout */
    for (int i = 0; i < count; i++) {
        const Result *r = &results[i];
        printf("%8lld %6lld %-6s ", (long long)b->shape.seq, (long long)b->shape.batch,
               attention_name(r->kind));
        if (r->note[0] != '\0') {
            printf("%s\n", r->note);
            continue;
        }
        for (int way = 0; way < DIRECTIONS; way++) {
            printf("%*.3f %9.3f %6.1f%% ", way == FORWARD ? 11 : 12, r->seconds[way] * 1e3,
                   r->flops[way] / r->seconds[way] * 1e-12, 100 * best[way] / r->seconds[way]);
        }
        printf("%11.1f %9.1e%s\n", (double)(r->saved + r->scratch) / MIB, r->error,
               r->wrong ? " WRONG" : "");
    }
    fflush(stdout);
}

static int bench_length(Bench *b)
{
    Result results[KINDS] = {{.kind = ATTENTION_NAIVE}};
    int count = b->gpu ? KINDS : KINDS_HOST, left = 0, code = 0;
    for (int i = 0; i < count; i++) {
        results[i].kind = kinds[i];
        plan(b, &results[i]);
        left += results[i].note[0] == '\0';
    }
    bool taken = left > 0 && take_tensors(b), learned = false;
    if (taken) {
        code = make_inputs(b);
    }
    for (int i = 0; i < count && code == 0; i++) {
        Result *r = &results[i];
        if (r->note[0] != '\0') {
            continue;
        }
        if (!taken) {
            say_too_large(r, (double)r->need);
            continue;
        }
        code = measure(b, r);
        if (code == 0 && r->note[0] == '\0' && !r->wrong && !learned) {
            attention_check_learn(b->check, b->backend, b->dqkv);
            learned = true;
        }
    }
    if (code == 0) {
        print_length(b, results, count);
    }
    close_length(b);
    return code;
}

/* --- the command --- */

static int set_shape(Bench *b)
{
    const Config *cfg = b->cfg;
    HeadShape *s = &b->shape;
    s->heads = cfg->fields.heads > 0 ? cfg->fields.heads : HEADS;
    s->kv_heads = cfg->fields.kv_heads > 0 ? cfg->fields.kv_heads : s->heads;
    s->head_dim = cfg->fields.head_dim > 0 ? cfg->fields.head_dim : HEAD_DIM;
    s->window = cfg->fields.window > 0 ? cfg->fields.window : 0;
    if (s->head_dim > HEAD_DIM_MOST) {
        return err_set(ERR_INPUT, "--head-dim %lld: bench attention takes heads of up to %d",
                       (long long)s->head_dim, HEAD_DIM_MOST);
    }
    if (s->heads % s->kv_heads != 0) {
        return err_set(ERR_INPUT, "--kv-heads %lld does not divide the %lld heads",
                       (long long)s->kv_heads, (long long)s->heads);
    }
    if (cfg->seq > 0 && cfg->seq < ATTENTION_CHECK_LEAST) {
        return err_set(ERR_INPUT, "--seq %lld: bench attention takes %d tokens and more",
                       (long long)cfg->seq, ATTENTION_CHECK_LEAST);
    }
    return 0;
}

/* Lengths double from SHORTEST up to the longest, which comes last whatever it is. */
static int bench_lengths(Bench *b)
{
    const Config *cfg = b->cfg;
    int64_t longest = cfg->seq > 0 ? cfg->seq : b->gpu ? LONGEST_GPU : LONGEST_CPU;
    int64_t tokens = b->gpu ? TOKENS_GPU : TOKENS_CPU;
    print_head(b);
    int code = 0;
    for (int64_t next = SHORTEST; code == 0 && b->shape.seq < longest; next *= 2) {
        b->shape.seq = next < longest ? next : longest;
        int64_t shared = tokens / b->shape.seq;
        b->shape.batch = config_is_set(cfg, "batch") ? cfg->batch : shared > 0 ? shared : 1;
        code = bench_length(b);
    }
    if (code == 0 && b->wrong > 0) {
        code = err_set(ERR_CHECK,
                       "results that are not those of attention: %d; their rows are marked WRONG",
                       b->wrong);
    }
    return code;
}

int cmd_bench_attention(Config *cfg)
{
    signals_install();
    int code = run_resolve(cfg);
    code = code != 0 ? code : dtype_refuse_fp8(cfg, "attention");
    if (code != 0) {
        return code;
    }
    Bench b = {.cfg = cfg,
               .gpu = device_of((DeviceId)cfg->device)->count != NULL,
               .dtype = cfg->dtype == CONFIG_DTYPE_BF16 ? DT_BF16 : DT_F32};
    code = set_shape(&b);
    code = code != 0 ? code : backend_open(cfg, NULL, &b.backend);
    if (code != 0) {
        return code;
    }
    b.program = run_program(b.backend);
    for (int way = 0; way < DIRECTIONS; way++) {
        b.times[way] = mem_zalloc((size_t)cfg->repeats, sizeof *b.times[way]);
    }
    code = bench_lengths(&b);
    for (int way = 0; way < DIRECTIONS; way++) {
        free(b.times[way]);
    }
    b.backend->close(b.backend);
    return code;
}
