/* Ops on the exact bits of elements: conversion between f32 and bf16, and the checksum. The
 * checksum has two stages, sums of blocks and the sum of those; integers add up to the same in
 * any order. */
#include "cuda/device.cuh"
#include "tensor/checksum.h"

#define BITS_THREADS 256
#define CAST_LANES 4  /* 16 bytes of f32, 8 of bf16: no gaps in a warp's accesses to either */
#define CAST_FLIGHT 4 /* pieces of CAST_LANES elements that a thread has in flight */
#define CHECKSUM_FLIGHT 4
#define CHECKSUM_BLOCKS 4 /* to a processor, all resident, so that they end together */

/* ---- Conversion ---- */

/* LANES elements as they lie in memory. */
template <typename T, int LANES> struct Packed;
template <> struct Packed<float, CAST_LANES> {
    typedef float4 type;
};
template <> struct Packed<Bf16, CAST_LANES> {
    typedef uint2 type;
};
template <typename T> struct Packed<T, 1> {
    typedef T type;
};

__device__ static float convert(Bf16 from, float)
{
    return to_f32(from);
}

__device__ static Bf16 convert(float from, Bf16)
{
    return from_f32<Bf16>(from);
}

__device__ static float4 convert(uint2 from, float4)
{
    float to[CAST_LANES];
    unpack_pair(from.x, to);
    unpack_pair(from.y, to + 2);
    return make_float4(to[0], to[1], to[2], to[3]);
}

__device__ static uint2 convert(float4 from, uint2)
{
    return make_uint2(pack_pair(from.x, from.y), pack_pair(from.z, from.w));
}

/* A block has CAST_FLIGHT pieces per thread; the elements that fill no piece go to the first
 * block. */
template <typename From, typename To, int LANES>
__global__ void __launch_bounds__(BITS_THREADS)
    convert_elements(const From *from, To *to, int64_t count)
{
    typedef typename Packed<From, LANES>::type Source;
    typedef typename Packed<To, LANES>::type Target;
    int64_t pieces = count / LANES;
    int64_t first = (int64_t)blockIdx.x * (BITS_THREADS * CAST_FLIGHT) + threadIdx.x;
    Source raw[CAST_FLIGHT] = {};
#pragma unroll
    for (int i = 0; i < CAST_FLIGHT; i++) {
        int64_t piece = first + i * BITS_THREADS;
        if (piece < pieces) {
            raw[i] = reinterpret_cast<const Source *>(from)[piece];
        }
    }
#pragma unroll
    for (int i = 0; i < CAST_FLIGHT; i++) {
        int64_t piece = first + i * BITS_THREADS;
        if (piece < pieces) {
            reinterpret_cast<Target *>(to)[piece] = convert(raw[i], Target());
        }
    }
    int64_t rest = pieces * LANES + threadIdx.x;
    if (blockIdx.x == 0 && rest < count) {
        to[rest] = convert(from[rest], To());
    }
}

template <typename From, typename To, int LANES>
static void launch_convert(cudaStream_t stream, const From *from, To *to, int64_t count)
{
    int64_t blocks = ceil_div(count / LANES, BITS_THREADS * CAST_FLIGHT);
    convert_elements<From, To, LANES>
        <<<(unsigned)clamp_to(blocks, 1, INT32_MAX), BITS_THREADS, 0, stream>>>(from, to, count);
    CUDA_LAUNCHED("convert_elements");
}

template <typename From, typename To> static void convert_tensor(Ctx *c, Tensor from, Tensor to)
{
    const From *source = (const From *)from.data;
    To *target = (To *)to.data;
    cudaStream_t stream = cuda_of(c)->stream;
    if (aligned_16(source, target)) {
        launch_convert<From, To, CAST_LANES>(stream, source, target, tensor_count(to));
    } else {
        launch_convert<From, To, 1>(stream, source, target, tensor_count(to));
    }
}

void cuda_cast(Ctx *c, Tensor from, Tensor to)
{
    if (from.dtype == to.dtype) {
        CUDA_CHECK(cudaMemcpyAsync(to.data, from.data, tensor_bytes(from), cudaMemcpyDeviceToDevice,
                                   cuda_of(c)->stream));
    } else if (from.dtype == DT_F32 && to.dtype == DT_BF16) {
        convert_tensor<float, Bf16>(c, from, to);
    } else if (from.dtype == DT_BF16 && to.dtype == DT_F32) {
        convert_tensor<Bf16, float>(c, from, to);
    } else {
        cuda_fail("cast", "the GPU converts between f32 and bf16 only", __FILE__, __LINE__);
    }
}

/* ---- Checksum ---- */

__device__ static uint64_t warp_total(uint64_t value)
{
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    }
    return value;
}

/* Sum over a one-dimensional block of BITS_THREADS, all of which must call, once; thread 0 has
 * it. */
__device__ static uint64_t block_total(uint64_t value)
{
    __shared__ uint64_t of_warp[BITS_THREADS / WARP];
    value = warp_total(value);
    if (threadIdx.x % WARP == 0) {
        of_warp[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    uint64_t total = 0;
#pragma unroll
    for (int i = 0; i < BITS_THREADS / WARP; i++) {
        total += of_warp[i];
    }
    return total;
}

/* The terms of the elements in 16 bytes, the first of which has number `index`. */
template <typename Word> __device__ static uint64_t terms_of(uint4 raw, uint64_t index)
{
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
    uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < wide_lanes<Word>; i++) {
        uint64_t bits;
        if constexpr (sizeof(Word) == 2) {
            bits = i % 2 == 0 ? words[i / 2] & 0xFFFF : words[i / 2] >> 16;
        } else if constexpr (sizeof(Word) == 4) {
            bits = words[i];
        } else {
            bits = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
        }
        sum += checksum_term(bits, index + i);
    }
    return sum;
}

template <typename Word> __device__ static uint64_t terms_of(Word bits, uint64_t index)
{
    return checksum_term(bits, index);
}

/* partials[blockIdx.x]: sum of the terms of the pieces that the block takes. */
template <typename Word, int LANES>
__global__ void __launch_bounds__(BITS_THREADS, CHECKSUM_BLOCKS)
    checksum_blocks(const Word *x, int64_t count, uint64_t *partials)
{
    typedef typename Raw<Word, LANES>::type Piece;
    int64_t pieces = count / LANES, step = (int64_t)gridDim.x * BITS_THREADS;
    int64_t first = (int64_t)blockIdx.x * BITS_THREADS + threadIdx.x;
    uint64_t sum = 0;
#pragma unroll 1
    for (int64_t piece = first; piece < pieces; piece += CHECKSUM_FLIGHT * step) {
        Piece raw[CHECKSUM_FLIGHT] = {};
#pragma unroll
        for (int i = 0; i < CHECKSUM_FLIGHT; i++) {
            if (piece + i * step < pieces) {
                raw[i] = reinterpret_cast<const Piece *>(x)[piece + i * step];
            }
        }
#pragma unroll
        for (int i = 0; i < CHECKSUM_FLIGHT; i++) {
            if (piece + i * step < pieces) {
                sum += terms_of<Word>(raw[i], (uint64_t)((piece + i * step) * LANES));
            }
        }
    }
    int64_t rest = pieces * LANES + first;
    if (rest < count) {
        sum += checksum_term(x[rest], (uint64_t)rest);
    }
    sum = block_total(sum);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = sum;
    }
}

/* One block; out: lower and upper half of the sum of partials. */
__global__ void __launch_bounds__(BITS_THREADS)
    checksum_fold(const uint64_t *partials, int count, uint32_t *out)
{
    uint64_t sum = 0;
    for (int i = threadIdx.x; i < count; i += BITS_THREADS) {
        sum += partials[i];
    }
    sum = block_total(sum);
    if (threadIdx.x == 0) {
        out[0] = (uint32_t)sum;
        out[1] = (uint32_t)(sum >> 32);
    }
}

/* Enough to fill the device, with at least one round of work for each. */
static unsigned checksum_grid(const Ctx *c, Tensor x)
{
    int64_t rounds = ceil_div((int64_t)tensor_bytes(x), 16 * BITS_THREADS * CHECKSUM_FLIGHT);
    return (unsigned)clamp_to(rounds, 1, CHECKSUM_BLOCKS * (int64_t)cuda_of(c)->processors);
}

size_t cuda_checksum_ws(const Ctx *c, Tensor x)
{
    return checksum_grid(c, x) * sizeof(uint64_t);
}

template <typename Word> static void launch_checksum(Ctx *c, Tensor x, uint64_t *partials)
{
    const Word *from = (const Word *)x.data;
    int64_t count = tensor_count(x);
    unsigned blocks = checksum_grid(c, x);
    cudaStream_t stream = cuda_of(c)->stream;
    if (aligned_16(from)) {
        checksum_blocks<Word, wide_lanes<Word>>
            <<<blocks, BITS_THREADS, 0, stream>>>(from, count, partials);
    } else {
        checksum_blocks<Word, 1><<<blocks, BITS_THREADS, 0, stream>>>(from, count, partials);
    }
    CUDA_LAUNCHED("checksum_blocks");
}

void cuda_checksum(Ctx *c, Tensor x, Tensor out, void *ws)
{
    uint64_t *partials = (uint64_t *)ws;
    switch (dtype_size(x.dtype)) {
    case 2:
        launch_checksum<uint16_t>(c, x, partials);
        break;
    case 4:
        launch_checksum<uint32_t>(c, x, partials);
        break;
    default:
        launch_checksum<uint64_t>(c, x, partials);
        break;
    }
    checksum_fold<<<1, BITS_THREADS, 0, cuda_of(c)->stream>>>(partials, (int)checksum_grid(c, x),
                                                              (uint32_t *)out.data);
    CUDA_LAUNCHED("checksum_fold");
}
