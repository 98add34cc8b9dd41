/* What the GPU itself reaches: the rate of one large matrix product, and of copying in its
 * memory, on numbers that look like weights: products of zeros run faster than any model will.
 * And what lies between it and the host: how long a launch takes, and the rates of copies from
 * and to pinned memory. */
#include "cuda/internal.h"

extern "C" {
#include "base/clock.h"
#include "cuda/cuda.h"
}

#include <cuda_fp8.h>
#include <string.h>

#define SIDE 8192
#define COPY_BYTES ((size_t)1 << 30)
#define LINK_BYTES ((size_t)128 << 20)
#define LAUNCHES 500 /* empty kernels of one round */
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

__global__ void fill_e4m3(uint8_t *out, int64_t count)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        out[i] = __nv_cvt_float_to_fp8(noise(i), __NV_SATFINITE, __NV_E4M3);
    }
}

static __global__ void empty_kernel() {}

/* Median seconds of what `body` puts on the stream, by the GPU's clock, over ROUNDS calls that
 * follow each other without a gap. */
template <typename Body> static double seconds_of(cudaStream_t stream, Body body)
{
    cudaEvent_t marks[ROUNDS + 1];
    double seconds[ROUNDS];
    for (int i = 0; i <= ROUNDS; i++) {
        CUDA_CHECK(cudaEventCreate(&marks[i]));
    }
    for (int i = 0; i < WARM; i++) {
        body();
    }
    CUDA_CHECK(cudaEventRecord(marks[0], stream));
    for (int i = 0; i < ROUNDS; i++) {
        body();
        CUDA_CHECK(cudaEventRecord(marks[i + 1], stream));
    }
    CUDA_CHECK(cudaEventSynchronize(marks[ROUNDS]));
    for (int i = 0; i < ROUNDS; i++) {
        float milliseconds;
        CUDA_CHECK(cudaEventElapsedTime(&milliseconds, marks[i], marks[i + 1]));
        seconds[i] = milliseconds * 1e-3;
    }
    for (int i = 0; i <= ROUNDS; i++) {
        CUDA_CHECK(cudaEventDestroy(marks[i]));
    }
    return clock_quantile(seconds, ROUNDS, 0.5);
}

/* Median seconds of `body` by the host's clock, each from an idle GPU until it is idle again. */
template <typename Body> static double host_seconds_of(cudaStream_t stream, Body body)
{
    double seconds[ROUNDS];
    for (int i = -WARM; i < ROUNDS; i++) {
        CUDA_CHECK(cudaStreamSynchronize(stream));
        double started = clock_seconds();
        body();
        CUDA_CHECK(cudaStreamSynchronize(stream));
        if (i >= 0) {
            seconds[i] = clock_seconds() - started;
        }
    }
    return clock_quantile(seconds, ROUNDS, 0.5);
}

void cuda_fill_noise(CudaBackend *cuda, void *out, DType dtype, int64_t count)
{
    if (dtype == DT_F32) {
        fill_f32<<<1024, 256, 0, cuda->stream>>>((float *)out, count);
    } else if (dtype == DT_E4M3) {
        fill_e4m3<<<1024, 256, 0, cuda->stream>>>((uint8_t *)out, count);
    } else {
        fill_bf16<<<1024, 256, 0, cuda->stream>>>((uint16_t *)out, count);
    }
    CUDA_LAUNCHED("fill");
}

double cuda_matmul_rate(Backend *backend, DType dtype)
{
    CudaBackend *cuda = (CudaBackend *)backend;
    int64_t count = (int64_t)SIDE * SIDE;
    DType out_type = dtype_act(dtype);
    size_t bytes = (size_t)count * dtype_size(dtype), out = (size_t)count * dtype_size(out_type);
    if (dtype == DT_E4M3 && backend->quant_refusal(backend) != NULL) {
        return 0;
    }
    char *block = (char *)backend->alloc(backend, 2 * bytes + out + sizeof(float));
    if (block == NULL) {
        return 0;
    }
    const float one = 1;
    float *scale = (float *)(block + 2 * bytes + out);
    backend->upload(backend, scale, &one, sizeof one);
    cuda_fill_noise(cuda, block, dtype, 2 * count);
    Gemm gemm = {};
    gemm.m = gemm.n = gemm.k = SIDE;
    gemm.transpose_b = true;
    gemm.a = block;
    gemm.b = block + bytes;
    gemm.out = block + 2 * bytes;
    gemm.lda = gemm.ldb = gemm.ldc = SIDE;
    gemm.batch = 1;
    gemm.in_type = dtype;
    gemm.out_type = out_type;
    gemm.scale_a = gemm.scale_b = scale;
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

static void launch_empty(cudaStream_t stream, int count)
{
    for (int i = 0; i < count; i++) {
        empty_kernel<<<1, 32, 0, stream>>>();
    }
    CUDA_LAUNCHED("empty");
}

static double graph_launch_seconds(cudaStream_t stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch_empty(stream, LAUNCHES);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    double seconds = host_seconds_of(stream, [&] { CUDA_CHECK(cudaGraphLaunch(ready, stream)); });
    CUDA_CHECK(cudaGraphExecDestroy(ready));
    return seconds / LAUNCHES;
}

static void measure_copies(CudaBackend *cuda, DeviceLink *link)
{
    void *host = NULL, *block = cuda->base.alloc(&cuda->base, LINK_BYTES);
    if (cudaMallocHost(&host, LINK_BYTES) != cudaSuccess) {
        cudaGetLastError(); /* not to be found by the next launch */
        host = NULL;
    }
    if (host != NULL && block != NULL) {
        cudaStream_t stream = cuda->stream;
        memset(host, 0x5a, LINK_BYTES);
        link->to_device = (double)LINK_BYTES / seconds_of(stream, [&] {
                              CUDA_CHECK(cudaMemcpyAsync(block, host, LINK_BYTES,
                                                         cudaMemcpyHostToDevice, stream));
                          });
        link->to_host = (double)LINK_BYTES / seconds_of(stream, [&] {
                            CUDA_CHECK(cudaMemcpyAsync(host, block, LINK_BYTES,
                                                       cudaMemcpyDeviceToHost, stream));
                        });
    }
    if (block != NULL) {
        cuda->base.release(&cuda->base, block);
    }
    if (host != NULL) {
        CUDA_CHECK(cudaFreeHost(host));
    }
}

DeviceLink cuda_measure_link(Backend *backend)
{
    CudaBackend *cuda = (CudaBackend *)backend;
    cudaStream_t stream = cuda->stream;
    DeviceLink link = {};
    link.launch_s = host_seconds_of(stream, [&] { launch_empty(stream, LAUNCHES); }) / LAUNCHES;
    link.launch_wait_s = host_seconds_of(stream, [&] { launch_empty(stream, 1); });
    link.graph_launch_s = graph_launch_seconds(stream);
    measure_copies(cuda, &link);
    return link;
}
