#pragma once
/* Several sums over a warp at once. */
#include "cuda/device.cuh"

/* Sums over a warp of COUNT values, a power of 2 up to 32: each exchange leaves a lane half as many
 * values of twice as many lanes. Returns the sum of value number lane / (WARP / COUNT). Its order
 * is the same for every COUNT. */
template <int COUNT> __device__ inline float warp_sum_of(float (&value)[COUNT])
{
    int lane = threadIdx.x % WARP, distance = WARP / 2;
#pragma unroll
    for (int half = COUNT / 2; half > 0; half /= 2) {
        bool upper = (lane & distance) != 0;
#pragma unroll
        for (int i = 0; i < half; i++) {
            float kept = upper ? value[i + half] : value[i];
            float given = upper ? value[i] : value[i + half];
            value[i] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, distance);
        }
        distance /= 2;
    }
#pragma unroll
    for (; distance > 0; distance /= 2) {
        value[0] += __shfl_xor_sync(0xFFFFFFFFu, value[0], distance);
    }
    return value[0];
}
