/* Test-time training for f32; other element types go to the reference. Here the forward: one
 * thread owns a sequence and head, and nothing is kept for the backward, which scans again. */
#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/ttt_head.h"
#include "cpu/threads.h"

#include <omp.h>

static size_t ttt_forward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    (void)dtype;
    HeadLayout l = head_layout(shape);
    int64_t used;
    take_tokens(&l, NULL, &used);
    return (size_t)used * sizeof(float) * (size_t)c->backend->threads;
}

/* One sequence of one head: out (seq, D), out_row apart, from its rows x; the first state is
 * there. */
static void forward_head(const HeadLayout *l, const TokenSpace *s, const float *x, int64_t head,
                         float *out)
{
    for (int64_t step = 0; step < l->steps; step++) {
        MiniSize size = mini_size(l, &s->head, step);
        int64_t token = step * l->mini;
        const float *rows = x + token * l->x_row;
        int64_t ahead = tokens_behind(l, step);
        inner_forward(l, &s->head, rows, head, size.n, ahead, false, &s->mini, &s->space);
        for (int64_t i = 0; i < size.n; i++) {
            prefetch_row(out + (token + i) * l->out_row, l->depth);
        }
        apply_state(l, &s->head, rows, head, size, &s->mini, &s->space);
        for (int64_t i = 0; i < size.n; i++) {
            if (i < ahead) {
                prefetch_row(rows + (size.n + i) * l->x_row + head * l->depth, l->depth);
            }
            output_row(&s->head.norm, s->space.q + i * l->width, s->space.zq + i * l->width,
                       l->depth, out + (token + i) * l->out_row);
        }
        if (step + 1 < l->steps) {
            update_state(l, size, &s->mini, s->mini.state, &s->space);
        }
    }
}

static void ttt_forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                        Tensor out, Tensor states, void *ws)
{
    (void)states;
    HeadLayout l = head_layout(shape);
    int threads = threads_for(c, tensor_count(out) * l.inner);
#pragma omp parallel num_threads(threads)
    {
        int thread = omp_get_thread_num();
        int64_t size;
        take_tokens(&l, NULL, &size);
        TokenSpace s = take_tokens(&l, (float *)ws + thread * size, &size);
        Span units = span_of(shape->batch * l.heads, omp_get_num_threads(), thread);
        if (units.first < units.last) {
            fill_positions(&l, w, rope, &s.head);
        }
        for (int64_t unit = units.first; unit < units.last; unit++) {
            int64_t b = unit / l.heads, head = unit % l.heads;
            fill_head(&l, w, head, &s.head);
            start_state(&l, w, head, s.mini.state);
            forward_head(&l, &s, (const float *)x.data + b * l.seq * l.x_row, head,
                         (float *)out.data + b * l.seq * l.out_row + head * l.depth);
        }
    }
}

void PACER_ISA_NAME(ttt_fill)(Ops *ops)
{
    ops->ttt_forward = ttt_forward;
    ops->ttt_forward_ws = ttt_forward_ws;
    PACER_ISA_NAME(ttt_backward_fill)(ops);
    PACER_ISA_NAME(ttt_step_fill)(ops);
}
