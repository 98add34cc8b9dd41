/* Independent of src/ref but for the storage of elements: every formula is written out again. */
#include "support/op_naive.h"

#include "support/op_naive_parts.h"

/* Token of its document that row n is. */
static int64_t place(Tensor starts, int64_t n, int64_t seq)
{
    return tensor_given(starts) ? n % seq - ref_index(starts, n) : n % seq;
}

static void embed_forward(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor starts,
                          int64_t seq, Tensor out)
{
    (void)c;
    int64_t width = out.dim[1];
    for (int64_t e = 0; e < tensor_count(out); e++) {
        int64_t n = e / width, i = e % width;
        float position =
            tensor_given(positions) ? get(positions, place(starts, n, seq) * width + i) : 0;
        put(out, e, get(table, ref_index(ids, n) * width + i) + position, MODE_SET);
    }
}

static void embed_backward(Ctx *c, Tensor ids, Tensor order, Tensor dout, Tensor dtable,
                           Tensor dpositions, Tensor starts, int64_t seq, Mode dtable_mode,
                           Mode dpositions_mode)
{
    (void)c;
    (void)order;
    int64_t width = dout.dim[1];
    for (int64_t e = 0; e < tensor_count(dtable); e++) {
        float sum = 0;
        for (int64_t n = 0; n < dout.dim[0]; n++) {
            if (ref_index(ids, n) == e / width) {
                sum += get(dout, n * width + e % width);
            }
        }
        put(dtable, e, sum, dtable_mode);
    }
    for (int64_t e = 0; e < tensor_count(dpositions); e++) {
        float sum = 0;
        for (int64_t n = 0; n < dout.dim[0]; n++) {
            if (place(starts, n, seq) == e / width) {
                sum += get(dout, n * width + e % width);
            }
        }
        put(dpositions, e, sum, dpositions_mode);
    }
}

static void linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y)
{
    (void)c;
    int64_t inputs = w.dim[1], outputs = w.dim[0];
    for (int64_t e = 0; e < tensor_count(y); e++) {
        float sum = 0;
        for (int64_t i = 0; i < inputs; i++) {
            sum += get(x, e / outputs * inputs + i) * get(w, e % outputs * inputs + i);
        }
        put(y, e, tensor_given(bias) ? sum + get(bias, e % outputs) : sum, MODE_SET);
    }
}

static void linear_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor dx, Mode mode)
{
    (void)c;
    int64_t inputs = w.dim[1], outputs = w.dim[0];
    for (int64_t e = 0; e < tensor_count(dx); e++) {
        float sum = 0;
        for (int64_t o = 0; o < outputs; o++) {
            sum += get(dy, e / inputs * outputs + o) * get(w, o * inputs + e % inputs);
        }
        put(dx, e, sum, mode);
    }
}

static void linear_backward_weight(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode,
                                   void *ws)
{
    (void)c;
    (void)ws;
    int64_t rows = x.dim[0], inputs = dw.dim[1], outputs = dw.dim[0];
    for (int64_t e = 0; e < tensor_count(dw); e++) {
        float sum = 0;
        for (int64_t n = 0; n < rows; n++) {
            sum += get(dy, n * outputs + e / inputs) * get(x, n * inputs + e % inputs);
        }
        put(dw, e, sum, mode);
    }
    for (int64_t o = 0; o < tensor_count(dbias); o++) {
        float sum = 0;
        for (int64_t n = 0; n < rows; n++) {
            sum += get(dy, n * outputs + o);
        }
        put(dbias, o, sum, mode);
    }
}

static void add(Ctx *c, Tensor a, Tensor b, Tensor out)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(out); i++) {
        put(out, i, get(a, i) + get(b, i), MODE_SET);
    }
}

static float capped(float x, double cap)
{
    return cap > 0 ? (float)cap * tanhf(x / (float)cap) : x;
}

static void scale(Ctx *c, Tensor x, double factor, double cap, Tensor out)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        put(out, i, capped((float)factor * get(x, i), cap), MODE_SET);
    }
}

static void norm_forward(Ctx *c, Tensor x, Norm norm, Tensor y, Tensor stats)
{
    (void)c;
    int64_t width = x.dim[1];
    for (int64_t n = 0; n < x.dim[0]; n++) {
        float mean = 0, variance = 0;
        for (int64_t i = 0; norm.kind == NORM_LAYER && i < width; i++) {
            mean += get(x, n * width + i);
        }
        mean /= (float)width;
        for (int64_t i = 0; i < width; i++) {
            float distance = get(x, n * width + i) - mean;
            variance += distance * distance;
        }
        float rstd = 1 / sqrtf(variance / (float)width + (float)norm.eps);
        for (int64_t i = 0; i < width; i++) {
            float value = (get(x, n * width + i) - mean) * rstd * get(norm.weight, i);
            put(y, n * width + i, tensor_given(norm.bias) ? value + get(norm.bias, i) : value,
                MODE_SET);
        }
        put(stats, n * 2, mean, MODE_SET);
        put(stats, n * 2 + 1, rstd, MODE_SET);
    }
}

static void norm_backward(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx,
                          Mode dx_mode, Tensor dweight, Tensor dbias, Mode mode, void *ws)
{
    (void)c;
    (void)ws;
    int64_t rows = x.dim[0], width = x.dim[1];
    for (int64_t i = 0; i < width; i++) {
        float weight_sum = 0, bias_sum = 0;
        for (int64_t n = 0; n < rows; n++) {
            float xhat = (get(x, n * width + i) - get(stats, n * 2)) * get(stats, n * 2 + 1);
            weight_sum += get(dy, n * width + i) * xhat;
            bias_sum += get(dy, n * width + i);
        }
        put(dweight, i, weight_sum, mode);
        if (tensor_given(dbias)) {
            put(dbias, i, bias_sum, mode);
        }
    }
    for (int64_t n = 0; n < rows; n++) {
        float mean = get(stats, n * 2), rstd = get(stats, n * 2 + 1);
        float g_sum = 0, g_xhat_sum = 0;
        for (int64_t i = 0; i < width; i++) {
            float g = get(dy, n * width + i) * get(norm.weight, i);
            g_sum += g;
            g_xhat_sum += g * (get(x, n * width + i) - mean) * rstd;
        }
        float g_mean = norm.kind == NORM_LAYER ? g_sum / (float)width : 0;
        for (int64_t i = 0; i < width; i++) {
            float g = get(dy, n * width + i) * get(norm.weight, i);
            float xhat = (get(x, n * width + i) - mean) * rstd;
            put(dx, n * width + i, (g - g_mean - xhat * g_xhat_sum / (float)width) * rstd, dx_mode);
        }
    }
}

static float head_rstd(Tensor qkv, HeadShape s, double eps, int64_t at)
{
    float sum = 0;
    for (int64_t i = 0; i < s.head_dim; i++) {
        sum += get(qkv, at + i) * get(qkv, at + i);
    }
    return 1 / sqrtf(sum / (float)s.head_dim + (float)eps);
}

static void head_norm_forward(Ctx *c, Tensor qkv, HeadShape s, HeadNorm norm, Tensor out)
{
    (void)c;
    for (int64_t n = 0; n < qkv.dim[0]; n++) {
        for (int64_t h = 0; h < s.heads + 2 * s.kv_heads; h++) {
            int64_t at = n * qkv.dim[1] + h * s.head_dim;
            float rstd = head_rstd(qkv, s, norm.eps, at);
            for (int64_t i = 0; i < s.head_dim; i++) {
                float x = get(qkv, at + i);
                float y = h < s.heads                ? x * rstd * get(norm.q, i)
                          : h < s.heads + s.kv_heads ? x * rstd * get(norm.k, i)
                                                     : x;
                put(out, at + i, y, MODE_SET);
            }
        }
    }
}

static void norm_pieces(Ctx *c, Tensor dy, Tensor x, Tensor stats, Tensor dweights)
{
    (void)c;
    int64_t width = x.dim[1], rows = x.dim[0] / dweights.dim[0];
    for (int64_t at = 0; at < tensor_count(dweights); at++) {
        float sum = 0;
        for (int64_t n = at / width * rows; n < (at / width + 1) * rows; n++) {
            int64_t i = n * width + at % width;
            sum += get(dy, i) * ((get(x, i) - get(stats, n * 2)) * get(stats, n * 2 + 1));
        }
        put(dweights, at, sum, MODE_SET);
    }
}

static void head_norm_backward(Ctx *c, Tensor dout, Tensor qkv, HeadShape s, HeadNorm norm,
                               Tensor dqkv, Tensor dq, Tensor dk, Mode mode, void *ws)
{
    (void)c;
    (void)ws;
    for (int64_t i = 0; i < 2 * s.head_dim; i++) {
        int64_t first = i < s.head_dim ? 0 : s.heads, d = i % s.head_dim;
        int64_t last = i < s.head_dim ? s.heads : s.heads + s.kv_heads;
        float sum = 0;
        for (int64_t n = 0; n < qkv.dim[0]; n++) {
            for (int64_t h = first; h < last; h++) {
                int64_t at = n * qkv.dim[1] + h * s.head_dim;
                sum += get(dout, at + d) * get(qkv, at + d) * head_rstd(qkv, s, norm.eps, at);
            }
        }
        put(i < s.head_dim ? dq : dk, d, sum, mode);
    }
    for (int64_t n = 0; n < qkv.dim[0]; n++) {
        for (int64_t h = 0; h < s.heads + 2 * s.kv_heads; h++) {
            int64_t at = n * qkv.dim[1] + h * s.head_dim;
            Tensor weight = h < s.heads ? norm.q : norm.k;
            float rstd = head_rstd(qkv, s, norm.eps, at), along = 0;
            for (int64_t i = 0; i < s.head_dim; i++) {
                along += get(dout, at + i) * get(weight, i) * get(qkv, at + i) * rstd;
            }
            for (int64_t i = 0; i < s.head_dim; i++) {
                float dy = get(dout, at + i), xhat = get(qkv, at + i) * rstd;
                float dx = (dy * get(weight, i) - xhat * along / (float)s.head_dim) * rstd;
                put(dqkv, at + i, h < s.heads + s.kv_heads ? dx : dy, MODE_SET);
            }
        }
    }
}

static void rope(Ctx *c, Tensor qkv, HeadShape s, Tensor table, bool inverse)
{
    (void)c;
    int64_t half = s.head_dim / 2;
    for (int64_t n = 0; n < qkv.dim[0]; n++) {
        int64_t turn = place(s.starts, n, s.seq) * s.head_dim;
        for (int64_t h = 0; h < s.heads + s.kv_heads; h++) {
            for (int64_t i = 0; i < half; i++) {
                int64_t at = n * qkv.dim[1] + h * s.head_dim + i;
                float cosine = get(table, turn + i);
                float sine = get(table, turn + half + i);
                float a = get(qkv, at), b = get(qkv, at + half);
                put(qkv, at, inverse ? a * cosine + b * sine : a * cosine - b * sine, MODE_SET);
                put(qkv, at + half, inverse ? b * cosine - a * sine : b * cosine + a * sine,
                    MODE_SET);
            }
        }
    }
}

/* ws: (H,T,T) f32 twice. */
static size_t attention_ws(const Ctx *c, HeadShape s, DType dtype)
{
    (void)c;
    (void)dtype;
    return (size_t)(2 * s.heads * s.seq * s.seq) * sizeof(float);
}

/* Element d of token t's vector number `head` in packed rows of `width`. */
static float packed(Tensor t, HeadShape s, int64_t b, int64_t token, int64_t head, int64_t d)
{
    return get(t, (b * s.seq + token) * t.dim[1] + head * s.head_dim + d);
}

/* -infinity where query i does not see key j. */
static float score(Tensor qkv, HeadShape s, int64_t b, int64_t h, int64_t i, int64_t j)
{
    float sum = 0;
    if (j > i || (s.window > 0 && j <= i - s.window) ||
        i - j > place(s.starts, b * s.seq + i, s.seq)) {
        return -INFINITY;
    }
    for (int64_t d = 0; d < s.head_dim; d++) {
        sum += packed(qkv, s, b, i, h, d) *
               packed(qkv, s, b, j, s.heads + h * s.kv_heads / s.heads, d);
    }
    return score_of(s, sum);
}

static void attention_forward(Ctx *c, Tensor qkv, HeadShape s, Tensor out, Tensor aux, void *ws)
{
    float *p = ws;
    for (int64_t e = 0; e < s.batch * s.heads * s.seq; e++) {
        int64_t i = e % s.seq, h = e / s.seq % s.heads, b = e / s.seq / s.heads;
        int64_t v_head = s.heads + s.kv_heads + h * s.kv_heads / s.heads;
        float largest = -INFINITY, total = 0;
        for (int64_t j = 0; j <= i; j++) {
            p[j] = score(qkv, s, b, h, i, j);
            largest = fmaxf(largest, p[j]);
        }
        for (int64_t j = 0; j <= i; j++) {
            p[j] = expf(p[j] - largest);
            total += p[j];
        }
        for (int64_t d = 0; d < s.head_dim; d++) {
            float sum = 0;
            for (int64_t j = 0; j <= i; j++) {
                sum += p[j] / total * packed(qkv, s, b, j, v_head, d);
            }
            put(out, (b * s.seq + i) * out.dim[1] + h * s.head_dim + d, sum, MODE_SET);
        }
        if (c->attention != ATTENTION_NAIVE) {
            put(aux, e, largest + logf(total), MODE_SET);
        }
        for (int64_t j = 0; c->attention == ATTENTION_NAIVE && j < s.seq; j++) {
            put(aux, e * s.seq + j, j <= i ? p[j] / total : 0, MODE_SET);
        }
    }
}

/* p and scale * slope * ds (T,T) of one head. */
static void head_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor aux, HeadShape s, int64_t b,
                          int64_t h, float *p, float *ds)
{
    int64_t v_head = s.heads + s.kv_heads + h * s.kv_heads / s.heads, bh = b * s.heads + h;
    for (int64_t i = 0; i < s.seq; i++) {
        float mean = 0;
        for (int64_t j = 0; j <= i; j++) {
            int64_t at = i * s.seq + j;
            p[at] = c->attention != ATTENTION_NAIVE
                        ? expf(score(qkv, s, b, h, i, j) - get(aux, bh * s.seq + i))
                        : get(aux, bh * s.seq * s.seq + at);
            ds[at] = 0;
            for (int64_t d = 0; d < s.head_dim; d++) {
                ds[at] += packed(dout, s, b, i, h, d) * packed(qkv, s, b, j, v_head, d);
            }
            mean += p[at] * ds[at];
        }
        for (int64_t j = 0; j <= i; j++) {
            float share = score(qkv, s, b, h, i, j) / (float)s.cap;
            float slope = s.cap == 0 ? 1 : isinf(share) ? 0 : 1 - share * share;
            ds[i * s.seq + j] = p[i * s.seq + j] * (ds[i * s.seq + j] - mean) * slope * scale_of(s);
        }
    }
}

static void attention_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor aux, HeadShape s,
                               Tensor dqkv, void *ws)
{
    (void)out;
    int64_t square = s.seq * s.seq, group = s.heads / s.kv_heads;
    float *p = ws, *ds = p + s.heads * square;
    for (int64_t b = 0; b < s.batch; b++) {
        for (int64_t h = 0; h < s.heads; h++) {
            head_backward(c, dout, qkv, aux, s, b, h, p + h * square, ds + h * square);
        }
        for (int64_t e = 0; e < s.seq * s.head_dim; e++) {
            int64_t t = e / s.head_dim, d = e % s.head_dim, row = (b * s.seq + t) * dqkv.dim[1] + d;
            for (int64_t h = 0; h < s.heads; h++) {
                float dq = 0;
                for (int64_t j = 0; j <= t; j++) {
                    dq += ds[h * square + t * s.seq + j] *
                          packed(qkv, s, b, j, s.heads + h / group, d);
                }
                put(dqkv, row + h * s.head_dim, dq, MODE_SET);
            }
            for (int64_t g = 0; g < s.kv_heads; g++) {
                float dk = 0, dv = 0;
                for (int64_t hi = 0; hi < group * s.seq; hi++) {
                    int64_t h = g * group + hi / s.seq, i = hi % s.seq;
                    if (i >= t) {
                        dk += ds[h * square + i * s.seq + t] * packed(qkv, s, b, i, h, d);
                        dv += p[h * square + i * s.seq + t] * packed(dout, s, b, i, h, d);
                    }
                }
                put(dqkv, row + (s.heads + g) * s.head_dim, dk, MODE_SET);
                put(dqkv, row + (s.heads + s.kv_heads + g) * s.head_dim, dv, MODE_SET);
            }
        }
    }
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static float act_value(Activation act, float x)
{
    return act == ACT_SILU ? x * sigmoid(x) : act == ACT_GELU ? gelu(x) : x > 0 ? x * x : 0;
}

static float act_slope(Activation act, float x)
{
    float s = sigmoid(x);
    return act == ACT_SILU ? s + x * s * (1 - s) : act == ACT_GELU ? gelu_1(x) : x > 0 ? 2 * x : 0;
}

static void gated_forward(Ctx *c, Activation act, Tensor gate_up, Tensor y)
{
    (void)c;
    int64_t width = y.dim[1];
    for (int64_t e = 0; e < tensor_count(y); e++) {
        int64_t at = e / width * 2 * width + e % width;
        put(y, e, act_value(act, get(gate_up, at)) * get(gate_up, at + width), MODE_SET);
    }
}

static void gated_backward(Ctx *c, Activation act, Tensor dy, Tensor gate_up, Tensor dgate_up)
{
    (void)c;
    int64_t width = dy.dim[1];
    for (int64_t e = 0; e < tensor_count(dy); e++) {
        int64_t at = e / width * 2 * width + e % width;
        float gate = get(gate_up, at), up = get(gate_up, at + width);
        put(dgate_up, at, get(dy, e) * up * act_slope(act, gate), MODE_SET);
        put(dgate_up, at + width, get(dy, e) * act_value(act, gate), MODE_SET);
    }
}

static void act_forward(Ctx *c, Activation act, Tensor x, Tensor y)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        put(y, i, act_value(act, get(x, i)), MODE_SET);
    }
}

static void act_backward(Ctx *c, Activation act, Tensor dy, Tensor x, Tensor dx)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        put(dx, i, get(dy, i) * act_slope(act, get(x, i)), MODE_SET);
    }
}

static void xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets, Tensor losses,
                 double scale, bool gradient)
{
    (void)c;
    int64_t vocab = logits.dim[1];
    for (int64_t n = 0; n < logits.dim[0]; n++) {
        int64_t target = ref_index(targets, n);
        float largest = -INFINITY, total = 0;
        for (int64_t v = 0; v < classes; v++) {
            largest = fmaxf(largest, capped(get(logits, n * vocab + v), cap));
        }
        for (int64_t v = 0; v < classes; v++) {
            total += expf(capped(get(logits, n * vocab + v), cap) - largest);
        }
        float wanted = target < 0 ? 0 : capped(get(logits, n * vocab + target), cap);
        put(losses, n, target < 0 ? 0 : logf(total) + (largest - wanted), MODE_SET);
        for (int64_t v = 0; gradient && v < vocab; v++) {
            float z = capped(get(logits, n * vocab + v), cap), share = z / (float)cap;
            float slope = expf(z - largest) / total - (v == target ? 1.0f : 0.0f);
            slope = target < 0 || v >= classes ? 0 : slope * (float)scale;
            put(logits, n * vocab + v, cap > 0 ? slope * (1 - share * share) : slope, MODE_SET);
        }
    }
}

static void sum(Ctx *c, Tensor x, double scale, Tensor out, Mode mode)
{
    (void)c;
    float total = 0;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        total += get(x, i);
    }
    put(out, 0, total * (float)scale, mode);
}

static void sum_squares(Ctx *c, Tensor x, Tensor out, Mode mode, void *ws)
{
    (void)c;
    (void)ws;
    float total = 0;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        total += get(x, i) * get(x, i);
    }
    put(out, 0, total, mode);
}

Backend *op_naive_open(void)
{
    Backend *backend = ref_backend_open();
    Ops exact = backend->ops; /* for ops that have no sums of rounded numbers */
    backend->name = "naive";
    backend->ops = (Ops){
        .embed_forward = embed_forward,
        .embed_backward = embed_backward,
        .linear_forward = linear_forward,
        .linear_backward_input = linear_backward_input,
        .linear_backward_weight = linear_backward_weight,
        .add = add,
        .scale = scale,
        .norm_forward = norm_forward,
        .norm_backward = norm_backward,
        .norm_pieces = norm_pieces,
        .head_norm_forward = head_norm_forward,
        .head_norm_backward = head_norm_backward,
        .rope = rope,
        .attention_forward = attention_forward,
        .attention_forward_ws = attention_ws,
        .attention_backward = attention_backward,
        .attention_backward_ws = attention_ws,
        .gated_forward = gated_forward,
        .gated_backward = gated_backward,
        .act_forward = act_forward,
        .act_backward = act_backward,
        .xent = xent,
        .sum = sum,
        .sum_squares = sum_squares,
        .cast = exact.cast,
        .checksum = exact.checksum,
    };
    op_naive_fill_updates(&backend->ops);
    op_naive_fill_ttt(&backend->ops);
    op_naive_fill_decode(&backend->ops);
    return backend;
}
