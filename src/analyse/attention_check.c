#include "analyse/attention_check.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ref/ref.h"

#include <stdlib.h>

#define CHUNK_ELEMENTS 65536 /* of an input that a thread makes at a time */
#define SEQUENCES 2          /* that samples come from: the first and the last */
#define LATE \
    4 /* last queries of a sequence, all taken: they are what the first of their keys sees */
#define QUERIES 4 /* others, from the second half */
#define ROWS 4    /* of dqkv that are learned, per sequence */

enum { STREAM_QKV, STREAM_DOUT, STREAM_PICKS };

/* Consecutive elements of out or dqkv and what they should be. */
typedef struct {
    bool gradient; /* of dqkv */
    int64_t at, count;
    double *values; /* owned */
} Sample;

struct AttentionCheck {
    AttentionInputs inputs;
    Sample *samples;
    size_t count;
    uint64_t picks; /* random choices made so far */
};

/* --- the inputs --- */

static int64_t qkv_width(HeadShape s)
{
    return (s.heads + 2 * s.kv_heads) * s.head_dim;
}

/* Elements first .. first + count - 1 of the input that belongs to the stream. */
static void input_values(const AttentionInputs *inputs, uint64_t stream, int64_t first,
                         int64_t count, float *out)
{
    rng_normals(inputs->seed, stream, (uint64_t)first, (uint64_t)count, out);
    for (int64_t i = 0; inputs->dtype == DT_BF16 && i < count; i++) {
        out[i] = f32_from_bf16(bf16_from_f32(out[i]));
    }
}

/* One chunk per thread at a time, then up to the backend together. */
static void fill(const AttentionInputs *inputs, Backend *backend, uint64_t stream, Tensor to,
                 int threads)
{
    int64_t total = tensor_count(to), part = CHUNK_ELEMENTS * (int64_t)threads;
    size_t size = dtype_size(to.dtype);
    float *values = mem_zalloc((size_t)part, sizeof *values);
    Tensor stored = tensor_1d(mem_zalloc((size_t)part, size), to.dtype, part);
    for (int64_t first = 0; first < total; first += part) {
        int64_t count = total - first < part ? total - first : part;
        int64_t chunks = (count + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS;
#pragma omp parallel for num_threads(threads)
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            int64_t at = chunk * CHUNK_ELEMENTS;
            int64_t n = count - at < CHUNK_ELEMENTS ? count - at : CHUNK_ELEMENTS;
            input_values(inputs, stream, first + at, n, values + at);
            for (int64_t i = at; i < at + n; i++) {
                ref_put(stored, i, values[i]);
            }
        }
        backend->upload(backend, (char *)to.data + (size_t)first * size, stored.data,
                        (size_t)count * size);
        backend->sync(backend);
    }
    free(stored.data);
    free(values);
}

static int64_t start_of(const AttentionInputs *inputs, int64_t i)
{
    return inputs->document > 0 ? i - i % inputs->document : 0;
}

int64_t attention_first_key(const AttentionInputs *inputs, int64_t i)
{
    int64_t window = inputs->shape.window, start = start_of(inputs, i);
    return window > 0 && i - window + 1 > start ? i - window + 1 : start;
}

static void fill_starts(const AttentionInputs *inputs, Backend *backend)
{
    Tensor starts = inputs->shape.starts;
    int64_t rows = tensor_count(starts);
    int32_t *values = mem_zalloc((size_t)rows, sizeof *values);
    for (int64_t row = 0; row < rows; row++) {
        values[row] = (int32_t)start_of(inputs, row % inputs->shape.seq);
    }
    backend->upload(backend, starts.data, values, tensor_bytes(starts));
    backend->sync(backend);
    free(values);
}

void attention_inputs_fill(const AttentionInputs *inputs, Backend *backend, Tensor qkv, Tensor dout,
                           int threads)
{
    if (tensor_given(inputs->shape.starts)) {
        fill_starts(inputs, backend);
    }
    fill(inputs, backend, STREAM_QKV, qkv, threads);
    fill(inputs, backend, STREAM_DOUT, dout, threads);
}

/* --- the truth, one query at a time --- */

/* One key/value head of one sequence, and what a query of it makes. Everything lies in one block.
 * */
typedef struct {
    const AttentionInputs *inputs;
    int64_t sequence, kv_head;
    double *p, *ds;             /* (T): probabilities, and gradients of the scaled scores */
    double *out, *dq, *dk, *dv; /* (D) each */
    float *q, *dout;            /* (D) each, of the query at hand */
    float *k, *v;               /* (T, D) */
    void *block;
} Truth;

static int64_t row_of(const Truth *t, int64_t token)
{
    return t->sequence * t->inputs->shape.seq + token;
}

/* Where head h of q begins in dqkv, and head g of k or v, for a token. */
static int64_t q_at(const Truth *t, int64_t token, int64_t h)
{
    HeadShape s = t->inputs->shape;
    return row_of(t, token) * qkv_width(s) + h * s.head_dim;
}

static int64_t k_at(const Truth *t, int64_t token)
{
    return q_at(t, token, t->inputs->shape.heads + t->kv_head);
}

static int64_t v_at(const Truth *t, int64_t token)
{
    return k_at(t, token) + t->inputs->shape.kv_heads * t->inputs->shape.head_dim;
}

static int64_t out_at(const Truth *t, int64_t token, int64_t h)
{
    HeadShape s = t->inputs->shape;
    return (row_of(t, token) * s.heads + h) * s.head_dim;
}

static int truth_open(Truth *t, const AttentionInputs *inputs)
{
    size_t tokens = (size_t)inputs->shape.seq, depth = (size_t)inputs->shape.head_dim;
    size_t doubles = 2 * tokens + 4 * depth, floats = 2 * depth + 2 * tokens * depth;
    size_t bytes = doubles * sizeof(double) + floats * sizeof(float);
    *t = (Truth){.inputs = inputs, .block = mem_try_aligned(bytes)};
    if (t->block == NULL) {
        return err_set(ERR_MEMORY,
                       "no %.1f MiB of host memory left to check attention of --seq %zu",
                       (double)bytes / 1048576, tokens);
    }
    t->p = t->block;
    t->ds = t->p + tokens;
    t->out = t->ds + tokens;
    t->dq = t->out + depth;
    t->dk = t->dq + depth;
    t->dv = t->dk + depth;
    t->q = (float *)(t->dv + depth);
    t->dout = t->q + depth;
    t->k = t->dout + depth;
    t->v = t->k + tokens * depth;
    return 0;
}

static void truth_select(Truth *t, int64_t sequence, int64_t kv_head)
{
    int64_t depth = t->inputs->shape.head_dim;
    t->sequence = sequence;
    t->kv_head = kv_head;
    for (int64_t j = 0; j < t->inputs->shape.seq; j++) {
        input_values(t->inputs, STREAM_QKV, k_at(t, j), depth, t->k + j * depth);
        input_values(t->inputs, STREAM_QKV, v_at(t, j), depth, t->v + j * depth);
    }
    memset(t->dk, 0, (size_t)depth * sizeof *t->dk);
    memset(t->dv, 0, (size_t)depth * sizeof *t->dv);
}

static double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t d = 0; d < count; d++) {
        sum += (double)a[d] * b[d];
    }
    return sum;
}

/* p, out, ds and dq of query i of head h. With s_j = scale q . k_j for the keys j that it sees, up
 * to i: p = softmax(s), out = sum p_j v_j, ds_j = p_j (dout . v_j - dout . out), dq = scale sum
 * ds_j k_j. p and ds of keys before those are 0. */
static void truth_query(Truth *t, int64_t h, int64_t i)
{
    int64_t depth = t->inputs->shape.head_dim, first = attention_first_key(t->inputs, i);
    double scale = 1 / sqrt((double)depth), largest = -INFINITY, sum = 0, delta = 0;
    input_values(t->inputs, STREAM_QKV, q_at(t, i, h), depth, t->q);
    input_values(t->inputs, STREAM_DOUT, out_at(t, i, h), depth, t->dout);
    for (int64_t j = 0; j < first; j++) {
        t->p[j] = t->ds[j] = 0;
    }
    for (int64_t j = first; j <= i; j++) {
        t->p[j] = scale * dot(t->q, t->k + j * depth, depth);
        largest = fmax(largest, t->p[j]);
    }
    for (int64_t j = first; j <= i; j++) {
        t->p[j] = exp(t->p[j] - largest);
        sum += t->p[j];
    }
    memset(t->out, 0, (size_t)depth * sizeof *t->out);
    memset(t->dq, 0, (size_t)depth * sizeof *t->dq);
    for (int64_t j = first; j <= i; j++) {
        t->p[j] /= sum;
        t->ds[j] = dot(t->dout, t->v + j * depth, depth);
        delta += t->p[j] * t->ds[j];
        for (int64_t d = 0; d < depth; d++) {
            t->out[d] += t->p[j] * t->v[j * depth + d];
        }
    }
    for (int64_t j = first; j <= i; j++) {
        t->ds[j] = t->p[j] * (t->ds[j] - delta);
        for (int64_t d = 0; d < depth; d++) {
            t->dq[d] += scale * t->ds[j] * t->k[j * depth + d];
        }
    }
}

/* --- samples --- */

static Sample *add_sample(AttentionCheck *check, bool gradient, int64_t at, int64_t count)
{
    check->samples = mem_realloc(check->samples, check->count + 1, sizeof *check->samples);
    Sample *sample = &check->samples[check->count++];
    *sample = (Sample){gradient, at, count, mem_zalloc((size_t)count, sizeof *sample->values)};
    return sample;
}

static void keep(AttentionCheck *check, bool gradient, int64_t at, const double *values)
{
    int64_t count = check->inputs.shape.head_dim;
    memcpy(add_sample(check, gradient, at, count)->values, values, (size_t)count * sizeof *values);
}

static int64_t pick(AttentionCheck *check, int64_t below)
{
    return (int64_t)rng_below(check->inputs.seed, STREAM_PICKS, check->picks++, (uint64_t)below);
}

static void keep_query(AttentionCheck *check, Truth *t, int64_t h, int64_t i)
{
    truth_query(t, h, i);
    keep(check, false, out_at(t, i, h), t->out);
    keep(check, true, q_at(t, i, h), t->dq);
}

/* Samples of one sequence, all of one key/value head and the query heads that share it. */
static void sample_sequence(AttentionCheck *check, Truth *t, int64_t sequence)
{
    HeadShape s = check->inputs.shape;
    int64_t group = s.heads / s.kv_heads, late = s.seq - LATE;
    double scale = 1 / sqrt((double)s.head_dim);
    truth_select(t, sequence, pick(check, s.kv_heads));
    int64_t first = t->kv_head * group;
    for (int64_t h = first; h < first + group; h++) {
        for (int64_t i = late; i < s.seq; i++) {
            keep_query(check, t, h, i);
            for (int64_t d = 0; d < s.head_dim; d++) {
                t->dk[d] += scale * t->ds[late] * t->q[d];
                t->dv[d] += t->p[late] * t->dout[d];
            }
        }
    }
    keep(check, true, k_at(t, late), t->dk);
    keep(check, true, v_at(t, late), t->dv);
    for (int n = 0; n < QUERIES; n++) {
        int64_t h = first + pick(check, group);
        keep_query(check, t, h, s.seq / 2 + pick(check, s.seq - s.seq / 2));
    }
}

/* The n-th sequence that samples come from. */
static int64_t sampled_sequence(HeadShape s, int64_t n)
{
    return n == 0 ? 0 : s.batch - 1;
}

static int64_t sampled_sequences(HeadShape s)
{
    return s.batch < SEQUENCES ? s.batch : SEQUENCES;
}

int attention_check_open(AttentionCheck **out, const AttentionInputs *inputs)
{
    Truth truth;
    int code = truth_open(&truth, inputs);
    if (code != 0) {
        return code;
    }
    AttentionCheck *check = mem_zalloc(1, sizeof *check);
    check->inputs = *inputs;
    for (int64_t n = 0; n < sampled_sequences(inputs->shape); n++) {
        sample_sequence(check, &truth, sampled_sequence(inputs->shape, n));
    }
    free(truth.block);
    *out = check;
    return 0;
}

void attention_check_close(AttentionCheck *check)
{
    if (check == NULL) {
        return;
    }
    for (size_t i = 0; i < check->count; i++) {
        free(check->samples[i].values);
    }
    free(check->samples);
    free(check);
}

/* The sample's elements as the backend has them; the caller frees .data. */
static Tensor fetch(const Sample *sample, Backend *backend, Tensor from)
{
    size_t size = dtype_size(from.dtype);
    Tensor got = tensor_1d(mem_zalloc((size_t)sample->count, size), from.dtype, sample->count);
    backend->download(backend, got.data, (const char *)from.data + (size_t)sample->at * size,
                      tensor_bytes(got));
    return got;
}

double attention_check_error(const AttentionCheck *check, Backend *backend, Tensor out, Tensor dqkv)
{
    double worst = 0;
    for (size_t n = 0; n < check->count; n++) {
        const Sample *sample = &check->samples[n];
        Tensor got = fetch(sample, backend, sample->gradient ? dqkv : out);
        double difference = 0, size = 0;
        for (int64_t i = 0; i < sample->count; i++) {
            double apart = ref_get(got, i) - sample->values[i];
            difference += apart * apart;
            size += sample->values[i] * sample->values[i];
        }
        free(got.data);
        double error = sqrt(difference / (size > 0 ? size : (double)sample->count));
        worst = error <= worst ? worst : error; /* a NaN is the worst, and stays */
        if (isnan(worst)) {
            break;
        }
    }
    return worst;
}

void attention_check_learn(AttentionCheck *check, Backend *backend, Tensor dqkv)
{
    HeadShape s = check->inputs.shape;
    int64_t width = qkv_width(s);
    for (int64_t n = 0; n < sampled_sequences(s) * ROWS; n++) {
        int64_t row = sampled_sequence(s, n / ROWS) * s.seq + pick(check, s.seq);
        Sample *sample = add_sample(check, true, row * width, width);
        Tensor got = fetch(sample, backend, dqkv);
        for (int64_t i = 0; i < width; i++) {
            sample->values[i] = ref_get(got, i);
        }
        free(got.data);
    }
}
