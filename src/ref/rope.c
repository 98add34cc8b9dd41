#include "ref/ref.h"

/* Turns the pairs (i, i + D/2) of each q and k head by the angle of the row's position, in place:
 * (a, b) becomes (a cos - b sin, a sin + b cos); inverse negates the angle. A row of qkv starts
 * with the H + G heads to turn; its v heads stay. */
static void rope(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse)
{
    (void)c;
    int64_t half = shape.head_dim / 2;
    int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    for (int64_t n = 0; n < shape.batch * shape.seq; n++) {
        int64_t angles = n % shape.seq * shape.head_dim;
        for (int64_t h = 0; h < shape.heads + shape.kv_heads; h++) {
            int64_t head = n * width + h * shape.head_dim;
            for (int64_t i = 0; i < half; i++) {
                double cosine = ref_get(table, angles + i);
                double sine = ref_get(table, angles + half + i) * (inverse ? -1 : 1);
                double a = ref_get(qkv, head + i), b = ref_get(qkv, head + half + i);
                ref_put(qkv, head + i, a * cosine - b * sine);
                ref_put(qkv, head + half + i, a * sine + b * cosine);
            }
        }
    }
}

void ref_fill_rope(Ops *ops)
{
    ops->rope = rope;
}
