/* The test-time-training slots, which hand over to the kernels that cover the shape: those on
 * tensor cores where they do, else the general ones. PACER_TTT_KERNEL=any in the environment
 * takes the general ones always, for tests. Whoever chose the shape has asked cuda_ttt_problem;
 * one that no kernel covers ends the program here. */
#include "base/assert.h"
#include "cuda/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const CudaTtt *chosen(const CudaBackend *backend, const TttShape *s, DType dtype)
{
    const char *forced = getenv("PACER_TTT_KERNEL");
    if (forced == NULL || strcmp(forced, "any") != 0) {
        const CudaTtt *fast = s->kind == TTT_MLP ? &cuda_ttt_mlp : &cuda_ttt_linear;
        if (fast->covers(backend, s, dtype)) {
            return fast;
        }
    }
    PACER_ASSERT(cuda_ttt_any.covers(backend, s, dtype),
                 "test-time training of heads of %lld, mini-batches of %lld, %s",
                 (long long)s->head_dim, (long long)s->mini, dtype_name(dtype));
    return &cuda_ttt_any;
}

void cuda_ttt_forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                      Tensor out, Tensor states, void *ws)
{
    chosen(cuda_of(c), shape, x.dtype)->forward(c, x, shape, w, rope, out, states, ws);
}

size_t cuda_ttt_forward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    return chosen(cuda_of(c), shape, dtype)->forward_ws(c, shape, dtype);
}

void cuda_ttt_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                       Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                       void *ws)
{
    chosen(cuda_of(c), shape, x.dtype)
        ->backward(c, dout, x, shape, w, rope, states, dx, grads, mode, ws);
}

size_t cuda_ttt_backward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    return chosen(cuda_of(c), shape, dtype)->backward_ws(c, shape, dtype);
}

size_t cuda_ttt_states_bytes(const Ctx *c, const TttShape *shape, DType dtype)
{
    return chosen(cuda_of(c), shape, dtype)->states_bytes(c, shape, dtype);
}

const char *cuda_ttt_problem(const CudaBackend *backend, const TttShape *shape, DType dtype)
{
    if (dtype != DT_F32 && dtype != DT_BF16) {
        return "test-time training on the GPU takes f32 or bf16.";
    }
    if (shape->head_dim % 2 != 0) {
        return "test-time training turns pairs of channels: --d-model divided by --heads must be "
               "even.";
    }
    static char text[160];
    if (shape->head_dim > CUDA_TTT_MOST_HEAD) {
        snprintf(text, sizeof text,
                 "test-time training on the GPU takes heads of at most %d channels: raise --heads "
                 "or lower --d-model.",
                 CUDA_TTT_MOST_HEAD);
        return text;
    }
    if (shape->mini > CUDA_TTT_MOST_MINI) {
        snprintf(text, sizeof text,
                 "test-time training on the GPU takes mini-batches of at most %d tokens: lower "
                 "--mini-batch.",
                 CUDA_TTT_MOST_MINI);
        return text;
    }
    return cuda_ttt_any.covers(backend, shape, dtype)
               ? NULL
               : "test-time training has no kernel for this shape on this GPU.";
}
