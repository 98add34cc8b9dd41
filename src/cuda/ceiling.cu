/* What the GPU itself reaches: the rate of one large matrix product, and of copying in its memory. On
 * numbers that look like weights: products of zeros run faster than any model will. */
#include "cuda/internal.h"

#define SIDE 8192
#define COPY_BYTES ((size_t)1 << 30)
#define WARM 3
#define ROUNDS 10

/* Numbers in [-1, 1) from a hash of the index. */
__device__ static float noise(int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(int32_t)x * 4.6566129e-10f;
}

__global__ void fill_f32(float *out, int64_t count)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        out[i] = noise(i);
    }
}

__global__ void fill_bf16(uint16_t *out, int64_t count)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        out[i] = (uint16_t)(__float_as_uint(noise(i)) >> 16);
    }
}

/* Seconds between two events around ROUNDS calls of what `body` puts on the stream. */
template <typename Body> static double seconds_of(cudaStream_t stream, Body body)
{
    cudaEvent_t from, to;
    float milliseconds;
    CUDA_CHECK(cudaEventCreate(&from));
    CUDA_CHECK(cudaEventCreate(&to));
    for (int i = 0; i < WARM; i++) {
        body();
    }
    CUDA_CHECK(cudaEventRecord(from, stream));
    for (int i = 0; i < ROUNDS; i++) {
        body();
    }
    CUDA_CHECK(cudaEventRecord(to, stream));
    CUDA_CHECK(cudaEventSynchronize(to));
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, from, to));
    CUDA_CHECK(cudaEventDestroy(from));
    CUDA_CHECK(cudaEventDestroy(to));
    return milliseconds * 1e-3 / ROUNDS;
}

void cuda_fill_noise(CudaBackend *cuda, void *out, DType dtype, int64_t count)
{
    if (dtype == DT_F32) {
        fill_f32<<<1024, 256, 0, cuda->stream>>>((float *)out, count);
    } else {
        fill_bf16<<<1024, 256, 0, cuda->stream>>>((uint16_t *)out, count);
    }
    CUDA_LAUNCHED("fill");
}

double cuda_matmul_rate(Backend *backend, DType dtype)
{
    CudaBackend *cuda = (CudaBackend *)backend;
    int64_t count = (int64_t)SIDE * SIDE;
    size_t bytes = (size_t)count * dtype_size(dtype);
    char *block = (char *)backend->alloc(backend, 3 * bytes);
    if (block == NULL) {
        return 0;
    }
    cuda_fill_noise(cuda, block, dtype, 2 * count);
    Gemm gemm = {};
    gemm.m = gemm.n = gemm.k = SIDE;
    gemm.transpose_b = true;
    gemm.a = block;
    gemm.b = block + bytes;
    gemm.out = block + 2 * bytes;
    gemm.lda = gemm.ldb = gemm.ldc = SIDE;
    gemm.batch = 1;
    gemm.in_type = gemm.out_type = dtype;
    gemm.alpha = 1;
    double seconds = seconds_of(cuda->stream, [&] { cuda_gemm(cuda, &gemm); });
    backend->release(backend, block);
    return 2.0 * SIDE * SIDE * SIDE / seconds;
}

double cuda_copy_rate(Backend *backend)
{
    CudaBackend *cuda = (CudaBackend *)backend;
    char *block = (char *)backend->alloc(backend, 2 * COPY_BYTES);
    if (block == NULL) {
        return 0;
    }
    double seconds = seconds_of(cuda->stream, [&] {
        CUDA_CHECK(cudaMemcpyAsync(block, block + COPY_BYTES, COPY_BYTES, cudaMemcpyDeviceToDevice,
                                   cuda->stream));
    });
    backend->release(backend, block);
    return 2.0 * (double)COPY_BYTES / seconds;
}
