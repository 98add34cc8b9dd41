#pragma once
/* Shared by the files of src/cuda. Host code is C (backend, matrix products, cuDNN); kernels are
 * CUDA C in .cu files, each of which holds the kernels of one kind of op and, at its end, the
 * functions that the op table points to. All work of a backend goes to one stream, in order; no
 * op waits for the device, allocates, or reads device memory, so that any sequence of ops can be
 * captured in a CUDA graph. */
#ifdef __cplusplus
extern "C" {
#endif

#include "tensor/ctx.h"

#include <cuda_runtime.h>

typedef struct Matmul Matmul; /* matmul.h */
typedef struct Cudnn Cudnn;   /* cudnn.h */

typedef struct {
    Backend base; /* first, so that a Backend * is a CudaBackend * */
    int device;
    int compute;      /* 90 for compute capability 9.0 */
    int processors;   /* streaming multiprocessors */
    int shared_bytes; /* that a block may ask for */
    cudaStream_t stream;
    Matmul *matmul;
    Cudnn *cudnn; /* NULL: not found, and why: */
    char cudnn_missing[256];
} CudaBackend;

static inline CudaBackend *cuda_of(const Ctx *c)
{
    return (CudaBackend *)c->backend;
}

/* Ends the program, naming the call, file and line: a device that fails leaves nothing to go on
 * with. */
void cuda_fail(const char *what, const char *problem, const char *file, int line)
    __attribute__((noreturn));

#define CUDA_CHECK(call)                                                            \
    do {                                                                            \
        cudaError_t cuda_status_ = (call);                                          \
        if (cuda_status_ != cudaSuccess) {                                          \
            cuda_fail(#call, cudaGetErrorString(cuda_status_), __FILE__, __LINE__); \
        }                                                                           \
    } while (0)

/* Behind every kernel launch. */
#define CUDA_LAUNCHED(name)                                                        \
    do {                                                                           \
        cudaError_t cuda_status_ = cudaGetLastError();                             \
        if (cuda_status_ != cudaSuccess) {                                         \
            cuda_fail(name, cudaGetErrorString(cuda_status_), __FILE__, __LINE__); \
        }                                                                          \
    } while (0)

/* The slots, by file. Arguments and rules are those of the op of the same name (tensor/ops.h).
 * Types: f32 and bf16 activations; accumulators are f32. */

/* embed.cu */
void cuda_embed_forward(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor starts,
                        int64_t seq, Tensor out);
void cuda_embed_backward(Ctx *c, Tensor ids, Tensor order, Tensor dout, Tensor dtable,
                         Tensor dpositions, Tensor starts, int64_t seq, Mode dtable_mode,
                         Mode dpositions_mode);
/* norm.cu */
void cuda_norm_forward(Ctx *c, Tensor x, Norm norm, Tensor y, Tensor stats);
void cuda_add_norm_forward(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y, Tensor stats);
void cuda_norm_backward(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx,
                        Mode dx_mode, Tensor dweight, Tensor dbias, Mode mode, void *ws);
size_t cuda_norm_backward_ws(const Ctx *c, Tensor x);
void cuda_norm_pieces(Ctx *c, Tensor dy, Tensor x, Tensor stats, Tensor dweights);
/* With h given r = x + h; stats (N,2) of x or r, and no output. */
void cuda_norm_stats(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor stats);
/* head_norm.cu */
void cuda_head_norm_forward(Ctx *c, Tensor qkv, HeadShape s, HeadNorm norm, Tensor out);
void cuda_head_norm_backward(Ctx *c, Tensor dout, Tensor qkv, HeadShape s, HeadNorm norm,
                             Tensor dqkv, Tensor dq, Tensor dk, Mode mode, void *ws);
size_t cuda_head_norm_backward_ws(const Ctx *c, HeadShape s);
/* pointwise.cu */
void cuda_add(Ctx *c, Tensor a, Tensor b, Tensor out);
void cuda_scale(Ctx *c, Tensor x, double factor, double cap, Tensor out);
void cuda_rope(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse);
void cuda_gated_forward(Ctx *c, Activation act, Tensor gate_up, Tensor y);
void cuda_gated_backward(Ctx *c, Activation act, Tensor dy, Tensor gate_up, Tensor dgate_up);
void cuda_act_forward(Ctx *c, Activation act, Tensor x, Tensor y);
void cuda_act_backward(Ctx *c, Activation act, Tensor dy, Tensor x, Tensor dx);

/* Slots of Backend. */
DeviceLink cuda_measure_link(Backend *backend);
bool cuda_place(const Backend *backend, char *text, size_t size);
void cuda_versions(const Backend *backend, char *text, size_t size);
AttentionKind cuda_attention_choose(Backend *backend, HeadShape shape, DType dtype);
bool cuda_quant_pays(Backend *backend, int64_t rows, int64_t inputs, int64_t outputs);
int cuda_channel_open(Backend *backend, struct Comm *comm, struct Channel **out);

/* loss.cu */
void cuda_xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets, Tensor losses,
               double scale, bool gradient);
/* Losses, and of each row the largest logit, capped, and 1 / the sum of exponentials above it. */
void cuda_xent_tallies(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets,
                       Tensor losses, float *tallies);
void cuda_sum(Ctx *c, Tensor x, double scale, Tensor out, Mode mode);
/* quant.cu */
void cuda_quantise(Ctx *c, Tensor x, Quant q, Tensor dbias, Mode mode, void *ws);
size_t cuda_quantise_ws(const Ctx *c, Tensor x, Tensor dbias);
void cuda_rescale(Ctx *c, Tensor scales, Tensor largest);
void cuda_quant_norm(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Quant y, Tensor stats);
void cuda_quant_act(Ctx *c, Activation act, bool gated, Tensor x, Quant y);
void cuda_quant_act_backward(Ctx *c, Activation act, bool gated, Tensor dy, Tensor x, Quant dx,
                             Tensor dbias, Mode mode, void *ws);
void cuda_quant_xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets,
                     Tensor losses, double scale, Quant dlogits, void *ws);
size_t cuda_quant_xent_ws(const Ctx *c, Tensor logits);
/* optim.cu */
void cuda_sum_squares(Ctx *c, Tensor x, Tensor out, Mode mode, void *ws);
size_t cuda_sum_squares_ws(const Ctx *c, Tensor x);
void cuda_adamw(Ctx *c, UpdateArgs args);
void cuda_sgd(Ctx *c, UpdateArgs args);
/* bits.cu */
void cuda_cast(Ctx *c, Tensor from, Tensor to);
void cuda_checksum(Ctx *c, Tensor x, Tensor out, void *ws);
size_t cuda_checksum_ws(const Ctx *c, Tensor x);
/* matmul.c */
void cuda_linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y);
void cuda_linear_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor dx, Mode mode);
void cuda_linear_backward_weight(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode,
                                 void *ws);
size_t cuda_linear_backward_weight_ws(const Ctx *c, Tensor x, Tensor dy);
void cuda_linear_gelu_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y);
void cuda_linear_gelu_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor pre, Tensor dpre);
void cuda_quant_forward(Ctx *c, Quant x, Quant w, Tensor bias, Tensor y);
void cuda_quant_backward_input(Ctx *c, Quant dy, Quant w, Tensor dx, Mode mode);
void cuda_quant_backward_weight(Ctx *c, Quant x, Quant dy, Tensor dw, Mode mode);
/* column_sum.cu: out (C) f32 = or += column sums of x (N,C); ws as its function asks. */
void cuda_column_sum(Ctx *c, Tensor x, Tensor out, Mode mode, void *ws);
size_t cuda_column_sum_ws(const Ctx *c, Tensor x);
/* attention.c: by c->attention, which the backend has resolved. */
void cuda_attention_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor aux, void *ws);
size_t cuda_attention_forward_ws(const Ctx *c, HeadShape shape, DType dtype);
void cuda_attention_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor aux,
                             HeadShape shape, Tensor dqkv, void *ws);
bool cuda_attention_turns(const Ctx *c, HeadShape shape, DType dtype);
size_t cuda_attention_backward_ws(const Ctx *c, HeadShape shape, DType dtype);
/* NULL, or a sentence saying why this kind of attention cannot do the shape here: asked at the
 * start, since no kind silently stands in for another. The text lasts until the next call. */
const char *cuda_attention_problem(const CudaBackend *backend, AttentionKind kind, HeadShape shape,
                                   DType dtype);

/* ttt.c: test-time training, by the kernels that cover the shape. */
void cuda_ttt_forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                      Tensor out, Tensor states, void *ws);
size_t cuda_ttt_forward_ws(const Ctx *c, const TttShape *shape, DType dtype);
void cuda_ttt_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                       Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                       void *ws);
size_t cuda_ttt_backward_ws(const Ctx *c, const TttShape *shape, DType dtype);
size_t cuda_ttt_states_bytes(const Ctx *c, const TttShape *shape, DType dtype);
/* NULL, or a sentence saying why no kernel here can do the shape. */
const char *cuda_ttt_problem(const CudaBackend *backend, const TttShape *shape, DType dtype);
/* ttt_step.cu */
void cuda_ttt_start(Ctx *c, const TttShape *shape, const TttWeights *w, Tensor state);
void cuda_ttt_step(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                   Tensor position, Tensor state, Tensor out);

/* decode.cu: from kept keys and values. */
void cuda_embed_step(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position,
                     Tensor out);
void cuda_attention_fill(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache);
void cuda_attention_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                         Tensor cache, Tensor out, void *ws);
size_t cuda_attention_step_ws(const Ctx *c, HeadShape shape, DType dtype, int64_t context);

/* Kernels of test-time training, one kind each: ttt_any.cu for any shape, without tensor cores;
 * ttt_linear_*.cu and ttt_mlp_*.cu for bf16 on tensor cores, for shapes as their *_covers say.
 * Arguments as those of the slots. */
typedef struct {
    bool (*covers)(const CudaBackend *backend, const TttShape *shape, DType dtype);
    void (*forward)(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                    Tensor out, Tensor states, void *ws);
    size_t (*forward_ws)(const Ctx *c, const TttShape *shape, DType dtype);
    void (*backward)(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                     Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                     void *ws);
    size_t (*backward_ws)(const Ctx *c, const TttShape *shape, DType dtype);
    size_t (*states_bytes)(const Ctx *c, const TttShape *shape, DType dtype);
} CudaTtt;
extern const CudaTtt cuda_ttt_any, cuda_ttt_linear, cuda_ttt_mlp;
/* The widest heads and longest mini-batches that the general kernels and the step take. */
#define CUDA_TTT_MOST_HEAD 256
#define CUDA_TTT_MOST_MINI 256

/* peaks.c: 0 when it is not known */
double cuda_peak_flops(const char *name, DType dtype);
/* stamp.cu */
void cuda_find_early(void);
/* Whether kernels may be in place early (cuda_start), and in clusters. */
extern bool cuda_early, cuda_clusters;
void cuda_stamp(Backend *backend, int64_t *slot);
void cuda_idle(cudaStream_t stream, int64_t ns); /* so long nothing else happens there */
/* ceiling.cu */
double cuda_matmul_rate(Backend *backend, DType dtype);
double cuda_copy_rate(Backend *backend);
void cuda_fill_noise(CudaBackend *cuda, void *out, DType dtype, int64_t count); /* in [-1, 1) */

/* Whether a query sees fewer keys than all up to itself, or scores are capped, for which kernels
 * have a variant of their own. */
static inline bool cuda_bounded(HeadShape s)
{
    return keys_at_most(s, s.seq) < s.seq || s.cap > 0 || tensor_given(s.starts);
}

/* Kinds of attention, one file each (attention_naive.cu, attention_flash*.cu,
 * cudnn_attention.c). The flash kernels and cuDNN take head dims as their *_covers say; aux of
 * both is the log-sum-exp (B,H,T) f32. */
bool cuda_flash_covers(const CudaBackend *backend, HeadShape shape, DType dtype);
void cuda_flash_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor lse);
void cuda_flash_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor lse, HeadShape shape,
                         Tensor dqkv, void *ws);
size_t cuda_flash_backward_ws(const CudaBackend *backend, HeadShape shape, DType dtype);
bool cuda_flash_turns(const CudaBackend *backend, HeadShape shape, DType dtype); /* heads itself */
void cuda_naive_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor probabilities,
                        void *ws);
size_t cuda_naive_forward_ws(const CudaBackend *backend, HeadShape shape, DType dtype);
void cuda_naive_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor probabilities, HeadShape shape,
                         Tensor dqkv, void *ws);
size_t cuda_naive_backward_ws(const CudaBackend *backend, HeadShape shape, DType dtype);

/* A batch of row-major products: out (m,n) = alpha * op(a) op(b) + beta * out, op(a) being (m,k)
 * and op(b) (k,n). lda, ldb, ldc are elements from row to row as stored; strides elements from
 * one product of the batch to the next. Inputs have one type, f32, bf16 or e4m3 (of which a is used
 * as stored and b transposed); sums are f32. */
typedef struct {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    const void *a, *b;
    void *out;
    int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
    int batch;
    DType in_type, out_type;
    float alpha, beta;
    const float *scale_a, *scale_b; /* of e4m3, in device memory: what the operands are times */
} Gemm;
void cuda_gemm(CudaBackend *backend, const Gemm *gemm); /* matmul.c */

#ifdef __cplusplus
}
#endif
