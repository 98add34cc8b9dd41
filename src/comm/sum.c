/* Sums over ranks in rank order, so that every rank, every cut into pieces and every run gives
 * the same bits. Blocks stay in the first cache while the ranks' parts are added to them. */
#include "comm/internal.h"

#include "base/assert.h"

#define BLOCK 1024

#define DEFINE_SUM(name, type, sum_type, LOAD, STORE)                                              \
    static void name(void *out, const void *const *parts, int ranks, int64_t first, int64_t count) \
    {                                                                                              \
        sum_type sum[BLOCK];                                                                       \
        const type *from = (const type *)parts[0] + first;                                         \
        type *to = (type *)out + first;                                                            \
        for (int64_t i = 0; i < count; i++) {                                                      \
            sum[i] = LOAD(from[i]);                                                                \
        }                                                                                          \
        for (int rank = 1; rank < ranks; rank++) {                                                 \
            from = (const type *)parts[rank] + first;                                              \
            _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                                \
            {                                                                                      \
                sum[i] += LOAD(from[i]);                                                           \
            }                                                                                      \
        }                                                                                          \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                                    \
        {                                                                                          \
            to[i] = STORE(sum[i]);                                                                 \
        }                                                                                          \
    }

#define AS_IS(value) (value)
#define AS_I32(value) ((int32_t)(value))
#define AS_U32(value) ((uint32_t)(value)) /* wraps around like the sums of NCCL */

DEFINE_SUM(sum_f32, float, float, AS_IS, AS_IS)
DEFINE_SUM(sum_f64, double, double, AS_IS, AS_IS)
DEFINE_SUM(sum_i32, int32_t, uint32_t, AS_U32, AS_I32)
DEFINE_SUM(sum_bf16, uint16_t, float, f32_from_bf16, bf16_from_f32)

void sum_parts(void *out, const void *const *parts, int ranks, int64_t count, DType dtype)
{
    void (*sum)(void *, const void *const *, int, int64_t, int64_t) = NULL;
    switch (dtype) {
    case DT_F32:
        sum = sum_f32;
        break;
    case DT_F64:
        sum = sum_f64;
        break;
    case DT_I32:
        sum = sum_i32;
        break;
    case DT_BF16:
        sum = sum_bf16;
        break;
    case DT_E4M3:
    case DT_REST:
        break;
    }
    PACER_ASSERT(sum != NULL, "sum of dtype %d", (int)dtype);
    for (int64_t first = 0; first < count; first += BLOCK) {
        sum(out, parts, ranks, first, count - first < BLOCK ? count - first : BLOCK);
    }
}
