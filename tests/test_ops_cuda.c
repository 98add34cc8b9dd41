/* Every op of the CUDA backend against ref, by the rule of op_check.h, in f32 and bf16, with
 * each kind of attention. Without a GPU there is nothing to compare, and the program says so. */
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cuda/cuda.h"
#include "support/op_check.h"
#include "tensor/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Backend *gpu;

static bool covers(const OpDevice *device, const OpCase *k, DType act)
{
    if (k->op != OP_ATTENTION_FORWARD && k->op != OP_ATTENTION_BACKWARD) {
        return !device->cudnn;
    }
    if (device->cudnn && k->attention == ATTENTION_NAIVE) {
        return false;
    }
    AttentionKind kind = device->cudnn ? ATTENTION_LIBRARY : k->attention;
    return backend_attention_refusal(gpu, kind, k->heads, act) == NULL;
}

/* Ops [first, last] on each device. */
static void check(const OpDevice *devices, int count, OpId first, OpId last, DType act)
{
    const char *only = getenv("PACER_TEST_OP"); /* one op, for a debugger or a sanitizer */
    for (int op = (int)first; op <= (int)last; op++) {
        if (only == NULL || strcmp(only, op_name((OpId)op)) == 0) {
            print_message("%s\n", op_name((OpId)op));
            op_check_devices(devices, count, (OpId)op, act, 0);
        }
    }
}

static void check_all(DType act)
{
    OpDevice devices[] = {{.name = "cuda", .backend = gpu, .covers = covers},
                          {.name = "cuda", .backend = gpu, .skew = 1, .covers = covers},
                          {.name = "cudnn", .backend = gpu, .cudnn = true, .covers = covers}};
    check(devices, 3, (OpId)0, OP_ATTENTION_STEP, act); /* test_quant has those behind it */
}

/* Kernels that in bf16 have others before them. */
static void check_ttt(const char *name, const char *kernel)
{
    OpDevice device = {.name = name, .backend = gpu, .covers = covers};
    setenv("PACER_TTT_KERNEL", kernel, 1);
    check(&device, 1, OP_TTT_FORWARD, OP_TTT_BACKWARD, DT_BF16);
    unsetenv("PACER_TTT_KERNEL");
}

/* Those that take any shape. */
static void test_ops_cuda__ttt_any_bf16(void **state)
{
    (void)state;
    check_ttt("cuda, general ttt", "any");
}

/* Those that keep chains whole or split the work of few, at once or pass after pass, whatever the
 * length. */
static void test_ops_cuda__ttt_chains_bf16(void **state)
{
    (void)state;
    check_ttt("cuda, whole chains", "whole");
    check_ttt("cuda, split chains", "split");
    check_ttt("cuda, split chains in passes", "passes");
}

/* What both ways of a case make, in host memory. */
typedef struct {
    uint16_t *out, *dqkv;
    float *lse;
} Turned;

static void fill_bf16(Tensor t, uint64_t stream)
{
    int64_t count = tensor_count(t);
    uint16_t *host = mem_alloc((size_t)count * sizeof *host);
    for (int64_t i = 0; i < count; i++) {
        float normal;
        rng_normals(17, stream, (uint64_t)i, 1, &normal);
        host[i] = bf16_from_f32(normal);
    }
    gpu->upload(gpu, t.data, host, tensor_bytes(t));
    gpu->sync(gpu);
    free(host);
}

static void *fetched(Tensor t)
{
    void *host = mem_alloc(tensor_bytes(t));
    gpu->download(gpu, host, t.data, tensor_bytes(t));
    return host;
}

/* By op_rope around attention, or by attention itself. */
static Turned turned_attention(Ctx *c, HeadShape s, Tensor table, bool inside)
{
    int64_t rows = s.batch * s.seq, part = s.heads * s.head_dim;
    ArenaMark mark = arena_mark(&c->saved);
    Tensor qkv = ctx_save(c, MEM_MIXER, DT_BF16, rows, packed_width(s));
    Tensor dqkv = ctx_save(c, MEM_MIXER, DT_BF16, rows, packed_width(s));
    Tensor out = ctx_save(c, MEM_MIXER, DT_BF16, rows, part);
    Tensor dout = ctx_save(c, MEM_MIXER, DT_BF16, rows, part);
    Tensor lse = op_attention_aux(c, s, DT_BF16);
    fill_bf16(qkv, 1);
    fill_bf16(dout, 2);
    if (inside) {
        s.turns = table;
    } else {
        op_rope(c, qkv, s, table, false);
    }
    op_attention_forward(c, qkv, s, out, lse);
    op_attention_backward(c, dout, qkv, out, lse, s, dqkv);
    if (!inside) {
        op_rope(c, dqkv, s, table, true);
    }
    Turned made = {fetched(out), fetched(dqkv), fetched(lse)};
    arena_release(&c->saved, mark);
    return made;
}

/* Where attention turns heads itself the bits are those of op_rope, for sequences that fill units
 * and that do not, with one block of eight warps to a head and with more of four. */
static void test_ops_cuda__attention_turns_as_rope_does(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{2, 1, 1},   {2, 7, 3},   {1, 32, 2},   {3, 45, 1},
                                        {2, 200, 3}, {1, 256, 2}, {70, 256, 4}, {90, 33, 3}};
    const size_t room = (size_t)256 << 20;
    char *block = gpu->alloc(gpu, 2 * room);
    assert_non_null(block);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        HeadShape s = head_shape(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][2], 32);
        Ctx c;
        ctx_init(&c, gpu);
        arena_init(&c.saved, "saved", block, room);
        arena_init(&c.scratch, "scratch", block + room, room);
        assert_true(op_attention_turns(&c, s, DT_BF16));
        Tensor table = ctx_save(&c, MEM_CONSTANTS, DT_F32, s.seq, s.head_dim);
        float *angles = mem_alloc(tensor_bytes(table));
        for (int64_t t = 0; t < s.seq; t++) {
            for (int64_t k = 0; k < s.head_dim / 2; k++) {
                double angle = (double)t * pow(10000, -2.0 * (double)k / (double)s.head_dim);
                angles[t * s.head_dim + k] = (float)cos(angle);
                angles[t * s.head_dim + s.head_dim / 2 + k] = (float)sin(angle);
            }
        }
        gpu->upload(gpu, table.data, angles, tensor_bytes(table));
        gpu->sync(gpu);
        Turned apart = turned_attention(&c, s, table, false);
        Turned inside = turned_attention(&c, s, table, true);
        size_t rows = (size_t)(s.batch * s.seq), heads = (size_t)s.heads;
        assert_memory_equal(apart.lse, inside.lse, rows * heads * sizeof(float));
        assert_memory_equal(apart.out, inside.out, rows * heads * 32 * sizeof(uint16_t));
        assert_memory_equal(apart.dqkv, inside.dqkv, rows * heads * 96 * sizeof(uint16_t));
        void *all[] = {angles,     apart.lse,  apart.out,  apart.dqkv,
                       inside.lse, inside.out, inside.dqkv};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
            free(all[k]);
        }
    }
    gpu->release(gpu, block);
}

/* Sums of a row are taken in the same order beside any other rows, as long as they are few. */
static void check_few_rows(DType dtype, int64_t inputs, int64_t outputs)
{
    enum { MOST = 32 };
    static const int64_t counts[] = {1, 2, 3, 4, 5, 8, 9, 16, 17};
    size_t size = dtype_size(dtype), row = (size_t)outputs * size;
    int64_t elements = (MOST + outputs) * inputs + 2 * MOST * outputs;
    Tensor block = tensor_1d(gpu->alloc(gpu, (size_t)elements * size), dtype, elements);
    assert_non_null(block.data);
    float *values = mem_alloc((size_t)elements * sizeof *values);
    rng_normals(23, 1, 0, (uint64_t)elements, values);
    for (int64_t i = 0; dtype == DT_BF16 && i < elements; i++) { /* in the place of the f32 ones */
        uint16_t half = bf16_from_f32(values[i]);
        memcpy((char *)values + (size_t)i * sizeof half, &half, sizeof half);
    }
    gpu->upload(gpu, block.data, values, tensor_bytes(block));
    Tensor x = tensor_2d(block.data, dtype, MOST, inputs), w = x;
    w.data = (char *)x.data + tensor_bytes(x);
    w.dim[0] = outputs;
    Tensor y = tensor_2d((char *)w.data + tensor_bytes(w), dtype, MOST, outputs), some = y;
    some.data = (char *)y.data + tensor_bytes(y);
    Ctx c;
    ctx_init(&c, gpu);
    op_linear_forward(&c, x, w, TENSOR_NONE, y);
    unsigned char *all = fetched(y);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        Tensor out = tensor_rows(some, 0, counts[i]);
        op_linear_forward(&c, tensor_rows(x, 3, counts[i]), w, TENSOR_NONE, out);
        unsigned char *part = fetched(out);
        assert_memory_equal(part, all + 3 * row, (size_t)counts[i] * row);
        free(part);
    }
    free(all);
    free(values);
    gpu->release(gpu, block.data);
}

static void test_ops_cuda__few_rows_beside_others(void **state)
{
    (void)state;
    static const int64_t outputs[] = {50, 2100, 8201};
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        check_few_rows(DT_F32, 776, outputs[i]);
        check_few_rows(DT_BF16, 776, outputs[i]);
    }
}

/* A step of a model whose layers all have the same weights and the same memory: a kernel that did
 * not wait for the one before it would read, or overwrite, what belongs to another layer. */
enum { STEP_LAYERS = 24, STEP_WIDTH = 256, STEP_FFN = 1024, STEP_CONTEXT = 300 };

typedef struct {
    Ctx c;
    HeadShape heads;
    Tensor qkv_weight, out_weight, up_weight, down_weight, gain, position, cache;
    Tensor r, h, normed, stats, qkv, mixed, pre, act;
    bool apart; /* the device is waited for between two ops */
} Chain;

static void chain_pause(const Chain *k)
{
    if (k->apart) {
        gpu->sync(gpu);
    }
}

static void chain_run(void *chain)
{
    Chain *k = chain;
    Ctx *c = &k->c;
    Norm norm = {NORM_RMS, 1e-5, k->gain, TENSOR_NONE};
    for (int layer = 0; layer < STEP_LAYERS; layer++) {
        op_add_norm_forward(c, k->r, k->h, norm, k->r, k->normed, k->stats);
        chain_pause(k);
        op_linear_forward(c, k->normed, k->qkv_weight, TENSOR_NONE, k->qkv);
        chain_pause(k);
        op_attention_step(c, k->qkv, k->heads, TENSOR_NONE, k->position, k->cache, k->mixed);
        chain_pause(k);
        op_linear_forward(c, k->mixed, k->out_weight, TENSOR_NONE, k->h);
        chain_pause(k);
        op_add_norm_forward(c, k->r, k->h, norm, k->r, k->normed, k->stats);
        chain_pause(k);
        op_linear_gelu_forward(c, k->normed, k->up_weight, TENSOR_NONE, k->pre, k->act);
        chain_pause(k);
        op_linear_forward(c, k->act, k->down_weight, TENSOR_NONE, k->h);
        chain_pause(k);
    }
}

static void check_chain(int64_t rows, int64_t position)
{
    const size_t room = (size_t)64 << 20;
    char *block = gpu->alloc(gpu, 2 * room);
    assert_non_null(block);
    Chain k = {.heads = head_shape(rows, 1, 4, 2, 64)};
    Ctx *c = &k.c;
    ctx_init(c, gpu);
    arena_init(&c->saved, "saved", block, room);
    arena_init(&c->scratch, "scratch", block + room, room);
    const struct {
        Tensor *tensor;
        DType dtype;
        int64_t rows, width;
    } all[] = {{&k.qkv_weight, DT_BF16, packed_width(k.heads), STEP_WIDTH},
               {&k.out_weight, DT_BF16, STEP_WIDTH, STEP_WIDTH},
               {&k.up_weight, DT_BF16, STEP_FFN, STEP_WIDTH},
               {&k.down_weight, DT_BF16, STEP_WIDTH, STEP_FFN},
               {&k.gain, DT_BF16, 1, STEP_WIDTH},
               {&k.cache, DT_BF16, rows * 4 * STEP_CONTEXT, 64},
               {&k.r, DT_BF16, rows, STEP_WIDTH},
               {&k.h, DT_BF16, rows, STEP_WIDTH},
               {&k.normed, DT_BF16, rows, STEP_WIDTH},
               {&k.stats, DT_F32, rows, 2},
               {&k.qkv, DT_BF16, rows, packed_width(k.heads)},
               {&k.mixed, DT_BF16, rows, STEP_WIDTH},
               {&k.pre, DT_BF16, rows, STEP_FFN},
               {&k.act, DT_BF16, rows, STEP_FFN}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *all[i].tensor = ctx_save(c, MEM_MIXER, all[i].dtype, all[i].rows, all[i].width);
        if (all[i].dtype == DT_BF16) {
            fill_bf16(*all[i].tensor, i + 1);
        }
    }
    k.gain = tensor_1d(k.gain.data, DT_BF16, STEP_WIDTH);
    k.cache = (Tensor){
        .data = k.cache.data, .dtype = DT_BF16, .rank = 3, .dim = {rows, 4 * STEP_CONTEXT, 64}};
    Tensor start = ctx_save(c, MEM_MIXER, DT_I32, 1, 1);
    k.position = tensor_1d(start.data, DT_I32, 1);
    int32_t at = (int32_t)position;
    gpu->upload(gpu, k.position.data, &at, sizeof at);
    void *ends[4];
    for (int turn = 0; turn < 4; turn++) { /* op by op, then at once, then recorded and replayed */
        fill_bf16(k.r, 7);
        fill_bf16(k.h, 8);
        k.apart = turn == 0;
        if (turn < 2) {
            chain_run(&k);
        } else {
            gpu->replay(gpu, 0, chain_run, &k);
            fill_bf16(k.r, 7);
            fill_bf16(k.h, 8);
            gpu->replay(gpu, 0, chain_run, &k);
        }
        ends[turn] = fetched(k.r);
        assert_memory_equal(ends[turn], ends[0], tensor_bytes(k.r));
    }
    for (int turn = 0; turn < 4; turn++) {
        free(ends[turn]);
    }
    gpu->forget(gpu);
    gpu->release(gpu, block);
}

static void test_ops_cuda__kernels_of_a_step_wait_for_each_other(void **state)
{
    (void)state;
    check_chain(1, 0);
    check_chain(1, STEP_CONTEXT - 1);
    check_chain(3, 129);
    check_chain(8, 200);
}

static void test_ops_cuda__f32(void **state)
{
    (void)state;
    check_all(DT_F32);
}

static void test_ops_cuda__bf16(void **state)
{
    (void)state;
    check_all(DT_BF16);
}

/* Sequences with as many (head, block of queries) that every block of a launch takes several, one
 * after the other: the results are those of each sequence in a launch of its own, to the bit. */
enum { MANY = 40, MANY_SEQ = 449, MANY_HEADS = 12, MANY_KV_HEADS = 6 };

typedef struct {
    HeadShape shape; /* of all sequences; starts on the GPU */
    AttentionKind kind;
    void *qkv, *dout, *saved, *scratch, *out, *dqkv;
    int32_t *starts;
    size_t saved_bytes, scratch_bytes, out_bytes, lse_bytes, dqkv_bytes;
} Many;

/* Documents of 1 to `most` tokens, others in each sequence. */
static void many_documents(Many *m, uint64_t most, uint64_t seed)
{
    int64_t rows = m->shape.batch * m->shape.seq;
    int32_t *begins = mem_alloc((size_t)rows * sizeof *begins);
    for (int64_t i = 0; i < rows; i++) {
        int64_t t = i % m->shape.seq;
        bool begins_here =
            t == 0 || t - begins[i - 1] > (int64_t)rng_below(7, seed, (uint64_t)i, most);
        begins[i] = begins_here ? (int32_t)t : begins[i - 1];
    }
    gpu->upload(gpu, m->starts, begins, (size_t)rows * sizeof *begins);
    gpu->sync(gpu);
    free(begins);
    m->shape.starts = tensor_1d(m->starts, DT_I32, rows);
}

static Many many_open(HeadShape shape)
{
    int64_t rows = shape.batch * shape.seq, narrow = shape.heads * shape.head_dim;
    int64_t wide = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    Many m = {.shape = shape,
              .kind = ATTENTION_FLASH,
              .saved_bytes = 64 << 20,
              .scratch_bytes = 512 << 20,
              .out_bytes = (size_t)(rows * narrow) * 2,
              .lse_bytes = (size_t)(rows * shape.heads) * sizeof(float),
              .dqkv_bytes = (size_t)(rows * wide) * 2};
    m.qkv = gpu->alloc(gpu, m.dqkv_bytes);
    m.dout = gpu->alloc(gpu, m.out_bytes);
    m.saved = gpu->alloc(gpu, m.saved_bytes);
    m.scratch = gpu->alloc(gpu, m.scratch_bytes);
    m.out = gpu->alloc(gpu, m.out_bytes);
    m.dqkv = gpu->alloc(gpu, m.dqkv_bytes);
    m.starts = gpu->alloc(gpu, (size_t)rows * sizeof *m.starts);
    assert_non_null(m.scratch);
    assert_non_null(m.starts);
    fill_bf16(tensor_2d(m.qkv, DT_BF16, rows, wide), 1);
    fill_bf16(tensor_2d(m.dout, DT_BF16, rows, narrow), 2);
    return m;
}

static void many_close(Many *m)
{
    void *blocks[] = {m->qkv, m->dout, m->saved, m->scratch, m->out, m->dqkv, m->starts};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        gpu->release(gpu, blocks[i]);
    }
}

/* Sequences [first, first + count): out, log-sum-exps and dqkv go to `results` in host memory. */
static void many_run(const Many *m, int64_t first, int64_t count, unsigned char *results)
{
    HeadShape s = m->shape;
    int64_t row = first * s.seq, rows = count * s.seq, narrow = s.heads * s.head_dim;
    int64_t wide = (s.heads + 2 * s.kv_heads) * s.head_dim;
    s.batch = count;
    if (tensor_given(s.starts)) {
        s.starts = tensor_1d((int32_t *)s.starts.data + row, DT_I32, rows);
    }
    Tensor qkv = tensor_2d((uint16_t *)m->qkv + row * wide, DT_BF16, rows, wide);
    Tensor dout = tensor_2d((uint16_t *)m->dout + row * narrow, DT_BF16, rows, narrow);
    Tensor to_out = tensor_2d(m->out, DT_BF16, rows, narrow);
    Tensor to_dqkv = tensor_2d(m->dqkv, DT_BF16, rows, wide);
    Ctx c;
    ctx_init(&c, gpu);
    c.attention = m->kind;
    arena_init(&c.saved, "saved", m->saved, m->saved_bytes);
    arena_init(&c.scratch, "scratch", m->scratch, m->scratch_bytes);
    Tensor aux = op_attention_aux(&c, s, DT_BF16);
    op_attention_forward(&c, qkv, s, to_out, aux);
    op_attention_backward(&c, dout, qkv, to_out, aux, s, to_dqkv);
    const Tensor parts[] = {to_out, aux, to_dqkv};
    for (int i = 0; i < 3; i++) {
        if (i != 1 || m->kind == ATTENTION_FLASH) {
            gpu->download(gpu, results, parts[i].data, tensor_bytes(parts[i]));
            results += tensor_bytes(parts[i]);
        }
    }
}

/* The same bytes of a sequence in both; where they differ says which warp or copy it was. */
static void same_part(const Many *m, const char *name, int64_t sequence, size_t line,
                      const unsigned char *all, const unsigned char *alone, size_t bytes)
{
    size_t rows[2] = {SIZE_MAX, 0}, places[2] = {SIZE_MAX, 0}, count = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (all[i] != alone[i]) {
            size_t row = i / line, place = i % line;
            rows[0] = row < rows[0] ? row : rows[0];
            rows[1] = row > rows[1] ? row : rows[1];
            places[0] = place < places[0] ? place : places[0];
            places[1] = place > places[1] ? place : places[1];
            count++;
        }
    }
    if (count > 0) {
        fail_msg("heads of %lld, window %lld, cap %g, %s: %s of sequence %lld: %zu bytes in rows "
                 "%zu to %zu, bytes %zu to %zu of %zu",
                 (long long)m->shape.head_dim, (long long)m->shape.window, m->shape.cap,
                 tensor_given(m->shape.starts) ? "documents" : "no documents", name,
                 (long long)sequence, count, rows[0], rows[1], places[0], places[1], line);
    }
}

static void check_many(HeadShape shape, bool documents)
{
    Many m = many_open(shape);
    if (documents) {
        many_documents(&m, 200, 2);
    }
    size_t bytes = m.out_bytes + m.lse_bytes + m.dqkv_bytes;
    unsigned char *whole = mem_alloc(bytes), *alone = mem_alloc(bytes / (size_t)shape.batch);
    many_run(&m, 0, shape.batch, whole);
    for (int64_t b = 0; b < shape.batch; b++) {
        static const char *const names[] = {"out", "log-sum-exps", "gradients"};
        const size_t of[] = {m.out_bytes, m.lse_bytes, m.dqkv_bytes};
        const unsigned char *all = whole, *mine = alone;
        many_run(&m, b, 1, alone);
        for (int i = 0; i < 3; i++) {
            size_t part = of[i] / (size_t)shape.batch;
            size_t lines = (size_t)(i == 1 ? shape.heads : shape.seq);
            same_part(&m, names[i], b, part / lines, all + (size_t)b * part, mine, part);
            all += of[i];
            mine += part;
        }
    }
    free(whole);
    free(alone);
    many_close(&m);
}

static void test_ops_cuda__many_sequences(void **state)
{
    (void)state;
    for (int64_t head_dim = 64; head_dim <= 128; head_dim += 64) {
        HeadShape shape = {.batch = MANY,
                           .seq = MANY_SEQ,
                           .heads = MANY_HEADS,
                           .kv_heads = MANY_KV_HEADS,
                           .head_dim = head_dim};
        if (backend_attention_refusal(gpu, ATTENTION_FLASH, shape, DT_BF16) != NULL) {
            continue;
        }
        check_many(shape, false);
        check_many(shape, true);
        shape.window = 130;
        check_many(shape, false);
        shape.cap = 20;
        check_many(shape, true);
    }
}

#define WINDOW_OUT 0.08f /* bf16 of numbers up to 5 */
#define WINDOW_GRAD 0.3f

/* The largest difference of numbers, and a digest of the first ones' bits. */
static float difference(const uint16_t *a, const uint16_t *b, size_t count, uint64_t *digest)
{
    float most = 0;
    for (size_t i = 0; i < count; i++) {
        float apart = fabsf(f32_from_bf16(a[i]) - f32_from_bf16(b[i]));
        most = apart <= most ? most : apart; /* not a number stays */
        *digest = (*digest ^ a[i]) * 1099511628211u;
    }
    return most;
}

/* Windows that begin at each place of two tiles of keys, in sequences with two and with three
 * groups of 64 queries to a job, shorter than a tile and with a rest, now and then with documents:
 * what flash makes is what naive makes. A key that is missed or seen too often moves an output by
 * its weight, on average one over the window. The digest tells two builds apart. */
static void test_ops_cuda__windows_at_every_place(void **state)
{
    (void)state;
    static const struct {
        int64_t seq, head_dim;
    } shapes[] = {{449, 64}, {300, 64}, {449, 128}, {320, 128}, {50, 64}, {70, 128}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        HeadShape shape = head_shape(1, shapes[i].seq, 2, 1, shapes[i].head_dim);
        if (backend_attention_refusal(gpu, ATTENTION_FLASH, shape, DT_BF16) != NULL) {
            continue;
        }
        Many m = many_open(shape);
        size_t outs = m.out_bytes / 2, grads = m.dqkv_bytes / 2, bytes = m.out_bytes + m.dqkv_bytes;
        unsigned char *flash = mem_alloc(bytes + m.lse_bytes), *naive = mem_alloc(bytes);
        float out = 0, grad = 0;
        uint64_t digest = 14695981039346656037u;
        for (int64_t window = 1; window <= 258 && window <= shape.seq; window++) {
            m.shape.window = window;
            m.shape.starts = (Tensor){0};
            if (window % 3 == 0) {
                many_documents(&m, 2 * (uint64_t)window, (uint64_t)window);
            }
            m.kind = ATTENTION_FLASH;
            many_run(&m, 0, 1, flash);
            m.kind = ATTENTION_NAIVE;
            many_run(&m, 0, 1, naive);
            out = fmaxf(out, difference((uint16_t *)flash, (uint16_t *)naive, outs, &digest));
            grad = fmaxf(grad, difference((uint16_t *)(flash + m.out_bytes + m.lse_bytes),
                                          (uint16_t *)(naive + m.out_bytes), grads, &digest));
        }
        print_message("seq %d, heads of %d: apart by %g and %g, digest %016llx\n", (int)shape.seq,
                      (int)shape.head_dim, out, grad, (unsigned long long)digest);
        assert_true(out < WINDOW_OUT);
        assert_true(grad < WINDOW_GRAD);
        free(flash);
        free(naive);
        many_close(&m);
    }
}

int main(void)
{
    setenv("PACER_TUNE", "off", 1); /* shapes are tiny */
    if (cuda_backend_open(0, &gpu) != 0) {
        printf("skipped: %s\n", err_message());
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_cuda__attention_turns_as_rope_does),
        cmocka_unit_test(test_ops_cuda__few_rows_beside_others),
        cmocka_unit_test(test_ops_cuda__kernels_of_a_step_wait_for_each_other),
        cmocka_unit_test(test_ops_cuda__f32),
        cmocka_unit_test(test_ops_cuda__bf16),
        cmocka_unit_test(test_ops_cuda__ttt_any_bf16),
        cmocka_unit_test(test_ops_cuda__many_sequences),
        cmocka_unit_test(test_ops_cuda__ttt_chains_bf16),
        cmocka_unit_test(test_ops_cuda__windows_at_every_place),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gpu->close(gpu);
    return failed;
}
