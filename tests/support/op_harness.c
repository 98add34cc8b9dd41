#include "support/op_harness.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ref/ref.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define GUARD ARENA_ALIGN
#define GUARD_BYTE 0xA5
#define NAN_BYTE 0xFF /* a float, double or bf16 of these bytes is a NaN */
#define DERIVE_BYTES ((size_t)8 << 20)

double op_round(DType dtype, double value)
{
    double room;
    Tensor t = tensor_1d(&room, dtype, 1);
    ref_put(t, 0, value);
    return ref_get(t, 0);
}

static Tensor shape_in(const OpInput *in, int arg, DType act)
{
    return op_arg_tensor(&op_spec(in->k.op)->arg[arg], &in->k, act);
}

int64_t op_input_count(const OpInput *in, int arg)
{
    return tensor_count(shape_in(in, arg, in->act));
}

void op_input_set(OpInput *in, int arg, const double *values)
{
    Tensor shape = shape_in(in, arg, in->act);
    int64_t count = tensor_count(shape);
    for (int64_t i = 0; i < count; i++) {
        in->before[arg][i] = op_round(shape.dtype, values[i]);
    }
}

/* Rows 0..count-1 sorted by id, equal ids in row order. */
static void fill_order(const double *ids, int64_t count, int64_t vocab, double *order)
{
    int64_t at = 0;
    for (int64_t v = 0; v < vocab; v++) {
        for (int64_t n = 0; n < count; n++) {
            if ((int64_t)ids[n] == v) {
                order[at++] = (double)n;
            }
        }
    }
}

/* table (rows,D): D/2 cosines, D/2 sines of t * 10000^(-2i/D) */
static void fill_rope(Tensor shape, double *table)
{
    int64_t width = shape.dim[1], half = width / 2;
    for (int64_t t = 0; t < shape.dim[0]; t++) {
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)t * pow(10000, -2.0 * (double)i / (double)width);
            table[t * width + i] = cos(angle);
            table[t * width + half + i] = sin(angle);
        }
    }
}

/* Third step of a run; the norm is clipped to 1 in cases with the option. */
static void fill_hyper(const OpCase *k, double *hyper)
{
    hyper[HYPER_LR] = 0.01;
    hyper[HYPER_BETA1] = 0.9;
    hyper[HYPER_BETA2] = 0.95;
    hyper[HYPER_REST1] = 1 - 0.9;
    hyper[HYPER_REST2] = 1 - 0.95;
    hyper[HYPER_EPS] = 1e-8;
    hyper[HYPER_DECAY] = 0.1;
    hyper[HYPER_CORRECTION1] = 1 - 0.9 * 0.9 * 0.9;
    hyper[HYPER_CORRECTION2] = 1 - 0.95 * 0.95 * 0.95;
    hyper[HYPER_CLIP] = k->option ? 1 : 0;
    hyper[HYPER_KEY1] = 0xABCDEF;
    hyper[HYPER_KEY2] = 0x123457;
}

/* Documents of 1 to 40 tokens within sequences of `seq`: the same ones for every seed, so that two
 * inputs of one case agree in them. */
static void fill_starts(int64_t seq, double *starts, int64_t count)
{
    int64_t start = 0, next = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t t = i % seq;
        if (t == 0 || t == next) {
            uint64_t length = i % 3 == 0 ? 1 : 1 + rng_below(1, OP_ARGS_MAX, (uint64_t)i, 40);
            start = t;
            next = t + (int64_t)length;
        }
        starts[i] = (double)start;
    }
}

/* Element i, from the standard normal number that belongs to it. */
static double random_value(const OpCase *k, ArgFill fill, uint64_t seed, int64_t i, double normal)
{
    switch (fill) {
    case FILL_NEAR_ONE:
        return 1 + 0.2 * normal;
    case FILL_POSITIVE:
        return fabs(normal) * 0.5;
    case FILL_LOGITS:
        return 3 * normal + (i / k->outs % 2 == 0 ? 100 : -100);
    case FILL_BITS:
        return (int32_t)rng_block(seed, OP_ARGS_MAX, (uint64_t)i).word[0];
    case FILL_IDS:
        return (double)rng_below(seed, OP_ARGS_MAX, (uint64_t)i, (uint64_t)k->outs);
    case FILL_SMALL:
        return 0.1 * normal;
    case FILL_TTT_INPUT:
        return i % k->ttt.width < (3 * k->ttt.head_dim + 1) * k->ttt.heads ? normal : 1e30;
    case FILL_TTT_INDEX:
        return i + 1 == k->clamped ? -1 : 0.03 * normal;
    case FILL_TTT_WEIGHT:
        return k->inner * normal;
    case FILL_TTT_STATE:
        return (i / ttt_state(&k->ttt) % 2 == 0 ? k->inner : 0.05) * normal;
    case FILL_POSITION:
        return (double)(k->context > 0 ? k->heads.seq - 1 : k->seq);
    case FILL_TTT_POSITION:
        return (double)(k->ttt.seq - 1);
    case FILL_TARGETS:
        return i % 5 == 3 ? -1
                          : (double)rng_below(seed, OP_ARGS_MAX, (uint64_t)i,
                                              (uint64_t)op_case_classes(k));
    default:
        return normal * (k->scale > 0 ? k->scale : 1);
    }
}

static void fill_random(const OpCase *k, ArgFill fill, uint64_t seed, int arg, double *values,
                        int64_t count)
{
    float *normals = mem_alloc((size_t)count * sizeof *normals);
    rng_normals(seed, (uint64_t)arg, 0, (uint64_t)count, normals);
    for (int64_t i = 0; i < count; i++) {
        values[i] = random_value(k, fill, seed, i, normals[i]);
    }
    free(normals);
}

static void fill_norm_sq(const OpInput *in, double *norm_sq)
{
    int grad = op_spec_find(op_spec(in->k.op), "grad", &in->k);
    int64_t count = op_input_count(in, grad);
    norm_sq[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        norm_sq[0] += in->before[grad][i] * in->before[grad][i];
    }
}

void op_ctx_init(Ctx *c, Backend *backend, size_t bytes)
{
    ctx_init(c, backend);
    arena_init(&c->saved, "saved", backend->alloc(backend, bytes), bytes);
    arena_init(&c->scratch, "scratch", backend->alloc(backend, bytes), bytes);
}

void op_ctx_free(Ctx *c)
{
    c->backend->release(c->backend, c->saved.base);
    c->backend->release(c->backend, c->scratch.base);
}

/* FILL_DERIVED arguments, by ref in f64 from the values of the others. */
static void derive(OpInput *in)
{
    const OpSpec *spec = op_spec(in->k.op);
    Tensor t[OP_ARGS_MAX] = {0};
    for (int i = 0; i < op_spec_count(spec); i++) {
        t[i] = shape_in(in, i, DT_F64);
        t[i].data = in->before[i];
        if (t[i].dtype == DT_I32 && in->before[i] != NULL) {
            t[i].data = mem_alloc(tensor_bytes(t[i]));
            for (int64_t n = 0; n < tensor_count(t[i]); n++) {
                ref_put(t[i], n, in->before[i][n]);
            }
        }
    }
    Backend *ref = ref_backend_open();
    Ctx c;
    op_ctx_init(&c, ref, DERIVE_BYTES);
    c.attention = in->k.attention;
    spec->derive(&in->k, &c, t);
    op_ctx_free(&c);
    ref->close(ref);
    for (int i = 0; i < op_spec_count(spec); i++) {
        if (t[i].dtype == DT_I32 && in->before[i] != NULL) {
            free(t[i].data);
        }
    }
}

void op_input_follow(OpInput *in)
{
    const OpSpec *spec = op_spec(in->k.op);
    if (spec->derive != NULL) {
        derive(in);
    }
    for (int i = 0; i < op_spec_count(spec); i++) {
        if (in->before[i] == NULL) {
            continue;
        }
        if (spec->arg[i].fill == FILL_ORDER) {
            fill_order(in->before[i - 1], in->k.rows, in->k.outs, in->before[i]);
        } else if (spec->arg[i].fill == FILL_NORM_SQ) {
            fill_norm_sq(in, in->before[i]);
        }
        op_input_set(in, i, in->before[i]);
    }
}

OpInput op_input_make(const OpCase *k, DType act, uint64_t seed)
{
    const OpSpec *spec = op_spec(k->op);
    OpInput in = {.k = *k, .act = act};
    for (int i = 0; i < op_spec_count(spec); i++) {
        int64_t count = op_input_count(&in, i);
        if (count == 0) {
            continue;
        }
        in.before[i] = mem_zalloc((size_t)count, sizeof(double));
        if (spec->arg[i].fill == FILL_ROPE) {
            fill_rope(shape_in(&in, i, act), in.before[i]);
        } else if (spec->arg[i].fill == FILL_HYPER) {
            fill_hyper(k, in.before[i]);
        } else if (spec->arg[i].fill == FILL_STARTS) {
            fill_starts(k->seq > 0 ? k->seq : k->heads.seq, in.before[i], count);
        } else {
            fill_random(k, spec->arg[i].fill, seed, i, in.before[i], count);
        }
        op_input_set(&in, i, in.before[i]);
    }
    op_input_follow(&in);
    return in;
}

void op_input_free(OpInput *in)
{
    for (int i = 0; i < OP_ARGS_MAX; i++) {
        free(in->before[i]);
        in->before[i] = NULL;
    }
}

void op_output_free(OpOutput *out)
{
    for (int i = 0; i < OP_ARGS_MAX; i++) {
        free(out->after[i]);
        out->after[i] = NULL;
    }
}

/* A block of backend memory and its image on the host. */
typedef struct {
    uint8_t *device, *host;
    size_t bytes;
} Block;

static Block block_make(Backend *backend, size_t bytes, int byte)
{
    Block block = {.bytes = bytes};
    block.device = backend->alloc(backend, bytes);
    block.host = mem_alloc(bytes);
    assert_non_null(block.device);
    assert_int_equal((uintptr_t)block.device % ARENA_ALIGN, 0);
    memset(block.host, byte, bytes);
    return block;
}

static void block_free(Backend *backend, Block *block)
{
    backend->release(backend, block->device);
    free(block->host);
    *block = (Block){0};
}

static void expect_bytes(const Block *block, size_t from, size_t to, int byte, const char *label,
                         const char *what)
{
    for (size_t i = from; i < to; i++) {
        if (block->host[i] != byte) {
            fail_msg("%s: %s: byte %zu of %zu was overwritten", label, what, i, block->bytes);
        }
    }
}

/* Everything of one run that must be released. */
typedef struct {
    const OpInput *in;
    OpRun run;
    const OpSpec *spec;
    int count;
    Tensor tensor[OP_ARGS_MAX]; /* with backend addresses */
    Block block[OP_ARGS_MAX];   /* guard, elements, guard; empty where shared or not given */
    Block scratch, saved;
    char label[OP_LABEL_SIZE];
} Stage;

/* Index of the argument whose memory argument i uses. */
static int owner(const Stage *s, int i)
{
    int alias = s->in->k.alias;
    return alias > 0 && s->spec->alias[alias - 1].out == i ? s->spec->alias[alias - 1].in : i;
}

/* Whether the op may change the memory of argument i. */
static bool may_change(const Stage *s, int i)
{
    bool written = op_arg_written(&s->spec->arg[i]) || s->spec->arg[i].use == USE_SPENT;
    for (int j = 0; j < s->count; j++) {
        written |= owner(s, j) == i && op_arg_written(&s->spec->arg[j]);
    }
    return written;
}

static size_t offset_of(const Stage *s, int i)
{
    return GUARD + (size_t)s->run.skew * dtype_size(s->tensor[i].dtype);
}

static void upload(Stage *s, int i)
{
    Tensor *t = &s->tensor[i];
    size_t offset = offset_of(s, i);
    s->block[i] = block_make(s->run.backend, offset + tensor_bytes(*t) + GUARD, GUARD_BYTE);
    t->data = s->block[i].host + offset;
    if (op_arg_reads_old(&s->spec->arg[i], &s->in->k)) {
        for (int64_t n = 0; n < tensor_count(*t); n++) {
            ref_put(*t, n, s->in->before[i][n]);
        }
    } else {
        memset(t->data, NAN_BYTE, tensor_bytes(*t));
    }
    s->run.backend->upload(s->run.backend, s->block[i].device, s->block[i].host, s->block[i].bytes);
    t->data = s->block[i].device + offset;
}

/* Checks argument i and returns its values. */
static double *download(Stage *s, int i)
{
    Tensor t = s->tensor[i];
    const char *name = s->spec->arg[i].name;
    size_t offset = offset_of(s, i);
    Block *block = &s->block[owner(s, i)];
    s->run.backend->download(s->run.backend, block->host, block->device, block->bytes);
    expect_bytes(block, 0, offset, GUARD_BYTE, s->label, name);
    expect_bytes(block, offset + tensor_bytes(t), block->bytes, GUARD_BYTE, s->label, name);
    t.data = block->host + offset;
    int64_t count = tensor_count(t);
    double *values = mem_alloc((size_t)count * sizeof *values);
    for (int64_t n = 0; n < count; n++) {
        values[n] = ref_get(t, n);
        if (isnan(values[n])) {
            fail_msg("%s: %s[%lld] is NaN", s->label, name, (long long)n);
        }
    }
    bool fixed = !may_change(s, i);
    for (int64_t n = 0; fixed && n < count; n++) {
        if (values[n] != s->in->before[i][n]) {
            fail_msg("%s: input %s[%lld] changed from %g to %g", s->label, name, (long long)n,
                     s->in->before[i][n], values[n]);
        }
    }
    return values;
}

static AttentionKind attention_of(const Stage *s)
{
    AttentionKind kind = s->in->k.attention;
    return kind == ATTENTION_FLASH && s->run.cudnn ? ATTENTION_LIBRARY : kind;
}

/* Bytes of the two arenas that the op asks for, found without computing. */
static void plan(const Stage *s, size_t *scratch, size_t *saved)
{
    Tensor t[OP_ARGS_MAX];
    memcpy(t, s->tensor, sizeof t);
    for (int i = 0; i < s->count; i++) {
        t[i].data = NULL;
    }
    Ctx c;
    ctx_init(&c, s->run.backend);
    c.dry = true;
    c.composed = s->run.composed;
    c.attention = attention_of(s);
    s->spec->call(&s->in->k, &c, t);
    *scratch = c.scratch.peak;
    *saved = c.saved.peak;
}

/* Memory of an arena, all NaN, with a guard behind it. */
static Block arena_block(Backend *backend, size_t bytes)
{
    Block block = block_make(backend, bytes + GUARD, NAN_BYTE);
    backend->upload(backend, block.device, block.host, block.bytes);
    return block;
}

static void check_arena(const Stage *s, Block *block, const Arena *arena)
{
    Backend *backend = s->run.backend;
    size_t planned = block->bytes - GUARD;
    backend->download(backend, block->host, block->device, block->bytes);
    expect_bytes(block, planned, block->bytes, NAN_BYTE, s->label, arena->name);
    if (arena->peak != planned || arena->used != 0) {
        fail_msg("%s: planned %zu bytes of %s, took %zu, kept %zu", s->label, planned, arena->name,
                 arena->peak, arena->used);
    }
}

static void call(Stage *s, OpOutput *out)
{
    Backend *backend = s->run.backend;
    size_t scratch, saved;
    plan(s, &scratch, &saved);
    s->scratch = arena_block(backend, scratch);
    s->saved = arena_block(backend, saved);
    Ctx c;
    ctx_init(&c, backend);
    c.composed = s->run.composed;
    c.attention = attention_of(s);
    arena_init(&c.scratch, "scratch", s->scratch.device, scratch);
    arena_init(&c.saved, "saved", s->saved.device, saved);
    s->spec->call(&s->in->k, &c, s->tensor);
    backend->sync(backend);
    check_arena(s, &s->scratch, &c.scratch);
    check_arena(s, &s->saved, &c.saved);
    memcpy(out->stats, c.stats, sizeof out->stats);
}

OpOutput op_run(const OpInput *in, OpRun run)
{
    Stage s = {.in = in, .run = run, .spec = op_spec(in->k.op)};
    s.count = op_spec_count(s.spec);
    op_case_label(&in->k, s.label);
    for (int i = 0; i < s.count; i++) {
        s.tensor[i] = shape_in(in, i, run.act);
        if (tensor_given(s.tensor[i]) && owner(&s, i) == i) {
            upload(&s, i);
        }
    }
    for (int i = 0; i < s.count; i++) {
        s.tensor[i].data = s.tensor[owner(&s, i)].data;
    }
    OpOutput out = {0};
    call(&s, &out);
    for (int i = 0; i < s.count; i++) {
        if (tensor_given(s.tensor[i])) {
            out.after[i] = download(&s, i);
        }
    }
    for (int i = 0; i < s.count; i++) {
        if (s.block[i].device != NULL) {
            block_free(run.backend, &s.block[i]);
        }
    }
    block_free(run.backend, &s.scratch);
    block_free(run.backend, &s.saved);
    return out;
}
