#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"

/* Rotates lanes [i, i + count) of the first half of each head against those of the second half. The
 * angles are loaded once for all heads. sign is 1, or -1 to rotate back. */
VEC_INLINE void rotate_step(Elem *heads, int64_t head_count, int64_t half, const float *angles,
                            float sign, int64_t i, int64_t count)
{
    Vec cosine = vec_load_part(angles + i, count);
    Vec sine = vec_load_part(angles + half + i, count) * sign;
    for (int64_t head = 0; head < head_count; head++) {
        Elem *first = heads + head * 2 * half + i, *second = first + half;
        Vec a = elem_load_part(first, count), b = elem_load_part(second, count);
        elem_store_part(first, vec_fma(a, cosine, -(b * sine)), count);
        elem_store_part(second, vec_fma(a, sine, b * cosine), count);
    }
}

/* q and k lie at the start of a row of qkv, one head after the other: H + G heads to rotate. */
static void rope(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse)
{
    int64_t rows = qkv.dim[0], width = qkv.dim[1];
    int64_t head_count = shape.heads + shape.kv_heads, half = shape.head_dim / 2;
    Elem *data = qkv.data;
    float sign = inverse ? -1.0f : 1.0f;
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        int64_t position = row_position(shape.starts, row, shape.seq);
        const float *angles = (const float *)table.data + position * shape.head_dim;
        Elem *heads = data + row * width;
        int64_t i = 0;
        for (; i + VEC_LANES <= half; i += VEC_LANES) {
            rotate_step(heads, head_count, half, angles, sign, i, VEC_LANES);
        }
        if (i < half) {
            rotate_step(heads, head_count, half, angles, sign, i, half - i);
        }
    }
}

void PACER_ISA_NAME(rope_fill)(Ops *ops)
{
    ops->rope = rope;
}
