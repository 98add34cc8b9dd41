#pragma once
/* What kernels share: 16-byte accesses that convert to and from f32, sums over warps and blocks in
 * a fixed order, and the host side of a launch. Kernels compute in f32 and round once, when they
 * store.
 *
 * LANES below is the number of elements that a thread takes at once: 16 bytes of the activation
 * type (8 bf16 or 4 f32) where addresses and widths allow it, else 1. */
#include "cuda/internal.h"

#include <cuda_bf16.h>
#include <stdint.h>

typedef __nv_bfloat16 Bf16;

#define WARP 32

template <typename T> constexpr int wide_lanes = 16 / (int)sizeof(T);

/* ---- Elements ---- */

__device__ inline float to_f32(float value)
{
    return value;
}

__device__ inline float to_f32(Bf16 value)
{
    return __bfloat162float(value);
}

template <typename T> __device__ inline T from_f32(float value);

template <> __device__ inline float from_f32<float>(float value)
{
    return value;
}

template <> __device__ inline Bf16 from_f32<Bf16>(float value)
{
    return __float2bfloat16_rn(value);
}

/* Two bf16 of a word; the lower half comes first in memory. */
__device__ inline uint32_t pack_pair(float first, float second)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<uint32_t *>(&pair);
}

__device__ inline void unpack_pair(uint32_t word, float *to)
{
    to[0] = __uint_as_float(word << 16);
    to[1] = __uint_as_float(word & 0xFFFF0000u);
}

/* 16 bytes as they lie in memory, to f32 and back. */
template <typename T> __device__ inline void unpack(uint4 raw, float (&to)[wide_lanes<T>])
{
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == 4) {
            to[i] = __uint_as_float(words[i]);
        } else {
            unpack_pair(words[i], to + 2 * i);
        }
    }
}

template <typename T> __device__ inline uint4 pack(const float (&from)[wide_lanes<T>])
{
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == 4) {
            words[i] = __float_as_uint(from[i]);
        } else {
            words[i] = pack_pair(from[2 * i], from[2 * i + 1]);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/* LANES elements as they lie in memory: 16 bytes, or one element. */
template <typename T, int LANES> struct Raw {
    static_assert(LANES == wide_lanes<T>, "16 bytes");
    typedef uint4 type;
};

template <typename T> struct Raw<T, 1> {
    typedef T type;
};

/* LANES elements at an address that is a multiple of their size, or of 16 bytes if they have
 * more. One element, 4 bf16 (8 bytes), or a multiple of 16 bytes. */
template <typename T, int LANES>
__device__ inline void load_lanes(const T *from, float (&to)[LANES])
{
    if constexpr (LANES == 1) {
        to[0] = to_f32(*from);
    } else {
        constexpr int part = wide_lanes<T>;
        static_assert(LANES % part == 0, "whole pieces of 16 bytes");
#pragma unroll
        for (int i = 0; i < LANES / part; i++) {
            float piece[part];
            unpack<T>(reinterpret_cast<const uint4 *>(from)[i], piece);
#pragma unroll
            for (int j = 0; j < part; j++) {
                to[i * part + j] = piece[j];
            }
        }
    }
}

template <typename T, int LANES>
__device__ inline void store_lanes(T *to, const float (&from)[LANES])
{
    constexpr int part = wide_lanes<T>;
    if constexpr (LANES == 1) {
        *to = from_f32<T>(from[0]);
    } else if constexpr (LANES * sizeof(T) == 8) {
        *reinterpret_cast<uint2 *>(to) =
            make_uint2(pack_pair(from[0], from[1]), pack_pair(from[2], from[3]));
    } else {
        static_assert(LANES % part == 0, "whole pieces of 16 bytes");
#pragma unroll
        for (int i = 0; i < LANES / part; i++) {
            float piece[part];
#pragma unroll
            for (int j = 0; j < part; j++) {
                piece[j] = from[i * part + j];
            }
            reinterpret_cast<uint4 *>(to)[i] = pack<T>(piece);
        }
    }
}

/* How many of first, first + step, ... lie below last. */
__device__ inline int64_t steps_below(int64_t first, int64_t last, int64_t step)
{
    return first < last ? (last - first + step - 1) / step : 0;
}

/* sum += the elements of raw, or their squares. */
template <bool SQUARE, typename T, int LANES>
__device__ inline void add_raw(typename Raw<T, LANES>::type raw, float (&sum)[LANES])
{
    float value[LANES];
    if constexpr (LANES == 1) {
        value[0] = to_f32(raw);
    } else {
        unpack<T>(raw, value);
    }
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        sum[k] += SQUARE ? value[k] * value[k] : value[k];
    }
}

/* Adds FLIGHT times LANES elements, which start `stride` elements apart, or their squares, to
 * `sum`, in order. All are on their way before the first is used. */
template <int FLIGHT, bool SQUARE, typename T, int LANES>
__device__ inline void add_lanes(const T *from, int64_t stride, float (&sum)[LANES])
{
    typename Raw<T, LANES>::type raw[FLIGHT];
#pragma unroll
    for (int i = 0; i < FLIGHT; i++) {
        raw[i] = *reinterpret_cast<const typename Raw<T, LANES>::type *>(from + i * stride);
    }
#pragma unroll
    for (int i = 0; i < FLIGHT; i++) {
        add_raw<SQUARE, T>(raw[i], sum);
    }
}

/* The same for any count. */
template <int FLIGHT, bool SQUARE, typename T, int LANES>
__device__ inline void add_many_lanes(const T *from, int64_t stride, int64_t count,
                                      float (&sum)[LANES])
{
    int64_t i = 0;
#pragma unroll 1
    for (; i + FLIGHT <= count; i += FLIGHT) {
        add_lanes<FLIGHT, SQUARE>(from + i * stride, stride, sum);
    }
    for (; i < count; i++) {
        add_lanes<1, SQUARE>(from + i * stride, stride, sum);
    }
}

/* to = value, or to += value. */
template <int LANES>
__device__ inline void store_by_mode(float *to, float (&value)[LANES], bool add)
{
    if (add) {
        float old[LANES];
        load_lanes(to, old);
#pragma unroll
        for (int i = 0; i < LANES; i++) {
            value[i] += old[i];
        }
    }
    store_lanes(to, value);
}

/* e^x and 1/(1 + e^-x) to the accuracy that results in T have. */
template <typename T> __device__ inline float exp_for(float x)
{
    return sizeof(T) == 4 ? expf(x) : __expf(x);
}

template <typename T> __device__ inline float sigmoid_for(float x)
{
    float below = 1 + exp_for<T>(-x);
    return sizeof(T) == 4 ? 1 / below : __fdividef(1, below);
}

#define LOG2_E 1.4426950408889634f

/* e^(logit - largest). In bf16 with the device's power of 2, whose error of 2^-22 is nothing
 * beside that of a logit; the difference comes first, since a large product of it would be
 * rounded. */
template <typename T> __device__ inline float exp_above(float logit, float largest)
{
    if constexpr (sizeof(T) == 4) {
        return expf(logit - largest);
    } else {
        float power;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"((logit - largest) * LOG2_E));
        return power;
    }
}

/* cap tanh(x / cap), or x without a cap. */
template <bool CAPPED> __device__ inline float capped(float x, float cap)
{
    return CAPPED ? cap * tanhf(x / cap) : x;
}

/* What a cap leaves of a slope at the capped z. */
template <bool CAPPED> __device__ inline float bent(float slope, float z, float cap)
{
    return CAPPED ? slope * (1 - z / cap * (z / cap)) : slope;
}

/* Turns a pair by an angle. Rounded as written: rope alone and inside attention make the same
 * bits. */
__device__ inline void turn_pair(float &first, float &second, float cosine, float sine)
{
    float left = first, right = second;
    first = __fmaf_rn(left, cosine, -__fmul_rn(right, sine));
    second = __fmaf_rn(left, sine, __fmul_rn(right, cosine));
}

/* ---- Sums, the same in every thread that takes part ---- */

__device__ inline float warp_sum(float value)
{
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    }
    return value;
}

/* Sums of COUNT values over a one-dimensional block of whole warps, all of which must call. */
template <int COUNT> __device__ inline void block_sums(float (&value)[COUNT])
{
    __shared__ float of_warp[COUNT][WARP];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        value[i] = warp_sum(value[i]);
    }
    __syncthreads(); /* the last call has been read */
    if (lane == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            of_warp[i][warp] = value[i];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        value[i] = warp_sum(lane < warps ? of_warp[i][lane] : 0.0f);
    }
}

__device__ inline float block_sum(float value)
{
    float one[1] = {value};
    block_sums(one);
    return one[0];
}

/* ---- Launches ---- */

/* Kernels that cuda_start launches may be in place before the one ahead of them has ended. Every
 * thread of such a kernel waits before it reads or writes any memory but its arguments, so that a
 * kernel's end tells that all before it have ended too; to fetch something into L2 is no read.
 * let_next_begin comes first: by then all blocks have begun, so that those of the next kernel never
 * hold the place of one of these. */
__device__ inline void let_next_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Until all work before this kernel has ended and its writes can be read. */
__device__ inline void await_kernels_before()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Into L2; shared out over the block's first row of threads. */
__device__ inline void fetch_lines(const void *from, int64_t bytes)
{
    constexpr int64_t line = 128;
    for (int64_t at = threadIdx.x * line; at < bytes; at += blockDim.x * line) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)from + at));
    }
}

/* Both, the first statement of a kernel that has nothing to fetch. */
__device__ inline void await_previous()
{
    let_next_begin();
    await_kernels_before();
}

/* kernel<<<blocks, threads, shared, stream>>>(args), whose blocks may be in place before the kernel
 * ahead of it has ended: behind that follows CUDA_LAUNCHED. No parameter of such a kernel is
 * __restrict__: a load that cannot be overwritten may be moved ahead of the wait. In clusters of so
 * many blocks along x, where that is more than 1. */
template <typename... Params, typename... Args>
inline void cuda_start_clusters(unsigned cluster, void (*kernel)(Params...), dim3 blocks,
                                dim3 threads, size_t shared, cudaStream_t stream, Args &&...args)
{
    cudaLaunchAttribute attributes[2];
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = attributes;
    if (cuda_early) {
        cudaLaunchAttribute *early = &attributes[config.numAttrs++];
        early->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early->val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        cudaLaunchAttribute *dimension = &attributes[config.numAttrs++];
        dimension->id = cudaLaunchAttributeClusterDimension;
        dimension->val.clusterDim.x = cluster;
        dimension->val.clusterDim.y = dimension->val.clusterDim.z = 1;
    }
    (void)cudaLaunchKernelEx(&config, kernel, static_cast<Args &&>(args)...);
}

template <typename... Params, typename... Args>
inline void cuda_start(void (*kernel)(Params...), dim3 blocks, dim3 threads, size_t shared,
                       cudaStream_t stream, Args &&...args)
{
    cuda_start_clusters(1, kernel, blocks, threads, shared, stream, static_cast<Args &&>(args)...);
}

/* Whether every address is a multiple of 16 bytes; NULL is. */
template <typename... Pointers> inline bool aligned_16(const Pointers *...pointers)
{
    return ((reinterpret_cast<uintptr_t>(pointers) | ... | 0) % 16) == 0;
}

inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

inline int64_t clamp_to(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

inline int round_to_warps(int64_t threads)
{
    return (int)ceil_div(threads, WARP) * WARP;
}

/* function<T>(...) for the element type of a tensor, which must be f32 or bf16. */
#define CUDA_FOR_TYPE(dtype_, function, ...)                                                   \
    do {                                                                                       \
        if ((dtype_) == DT_F32) {                                                              \
            function<float>(__VA_ARGS__);                                                      \
        } else if ((dtype_) == DT_BF16) {                                                      \
            function<Bf16>(__VA_ARGS__);                                                       \
        } else {                                                                               \
            cuda_fail(#function, "the GPU computes in f32 and bf16 only", __FILE__, __LINE__); \
        }                                                                                      \
    } while (0)

/* column_sum.cu: folds partial column sums. partials holds `count` rows, each `width` values for
 * a and, when b is not NULL, then `width` values for b. a and b (width) are set or added to, by
 * mode. */
void cuda_fold_partials(cudaStream_t stream, const float *partials, int count, int64_t width,
                        float *a, float *b, Mode mode);
