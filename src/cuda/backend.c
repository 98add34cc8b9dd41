/* One GPU: its memory, its stream, the way in and out, and recorded steps.
 *
 * Uploads go through a ring of pinned blocks, so that the caller's memory is free again at once
 * and the copy runs beside whatever the host does next. A recorded step is a CUDA graph: the
 * first time its body runs as it is (plans are made, algorithms timed), the second time it is
 * captured, and from then on one launch replays it. */
#include "cuda/cuda.h"
#include "cuda/cudnn.h"
#include "cuda/internal.h"
#include "cuda/matmul.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_COMPUTE 80
#define RING_SLOTS 8
#define SLOT_BYTES ((size_t)1 << 20)
#define PIECE_BYTES ((size_t)2 << 20) /* of pinned memory: a huge page */
/* Every chunk of logits adds to the gradient of the head in memory: few large ones. */
#define HEAD_BYTES ((size_t)1 << 30)
#define KEPT_FREE ((size_t)256 << 20) /* left to the driver and to kernels that load late */

typedef struct {
    void *pinned;
    cudaEvent_t done; /* the copy out of it */
} RingSlot;

typedef struct {
    void *pinned;
    cudaEvent_t done;
} ReadSlot;

/* Copies beside the stream, by an engine of the GPU's own. */
typedef struct {
    cudaStream_t stream;
    cudaEvent_t given, done; /* the work before a copy; the copies so far */
    bool busy;               /* there are copies that the stream has not waited for */
} CopyStream;

typedef struct {
    bool warm; /* the body has run once */
    cudaGraphExec_t graph;
} Recording;

typedef struct {
    CudaBackend cuda; /* first */
    char name[64];
    size_t free_at_open; /* of the device's memory */
    RingSlot ring[RING_SLOTS];
    int next_slot;
    ReadSlot *reads;
    int read_slots;
    CopyStream copies[COPY_QUEUES];
    Recording recordings[BACKEND_RECORDINGS];
} Gpu;

void cuda_fail(const char *what, const char *problem, const char *file, int line)
{
    log_error("GPU: %s (%s:%d, %s)", problem, file, line, what);
    fflush(NULL);
    _Exit(1);
}

/* The block, or NULL when there was no memory for it. */
static void *block_or_null(cudaError_t status, void *block)
{
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* not to be found by the next launch */
        return NULL;
    }
    CUDA_CHECK(status);
    return block;
}

static void *gpu_alloc(Backend *backend, size_t bytes)
{
    void *block = NULL;
    (void)backend;
    cudaError_t status = cudaMalloc(&block, bytes > 0 ? bytes : 1);
    return block_or_null(status, block);
}

static void gpu_release(Backend *backend, void *block)
{
    CUDA_CHECK(cudaStreamSynchronize(((CudaBackend *)backend)->stream));
    CUDA_CHECK(cudaFree(block));
}

/* Pinned: the GPU writes into it by itself, while a download to other memory goes through the
 * driver's own blocks. All threads write the pages first: the driver would make them one by one. */
static void *gpu_host_alloc(Backend *backend, size_t bytes)
{
    (void)backend;
    size_t available = mem_available(), pieces = bytes / PIECE_BYTES + 1; /* pages of its own */
    char *block = available > 0 && bytes > available ? NULL : mem_try_large(pieces * PIECE_BYTES);
    if (block == NULL) {
        return NULL;
    }
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < pieces; i++) {
        memset(block + i * PIECE_BYTES, 0, PIECE_BYTES);
    }
    cudaError_t status = cudaHostRegister(block, pieces * PIECE_BYTES, cudaHostRegisterDefault);
    if (status != cudaSuccess) {
        free(block);
    }
    return block_or_null(status, block);
}

static void gpu_host_release(Backend *backend, void *block)
{
    CUDA_CHECK(cudaStreamSynchronize(((CudaBackend *)backend)->stream));
    CUDA_CHECK(cudaHostUnregister(block));
    free(block);
}

static size_t gpu_available(Backend *backend)
{
    (void)backend;
    size_t left, all;
    CUDA_CHECK(cudaMemGetInfo(&left, &all));
    return left > KEPT_FREE ? left - KEPT_FREE : 0;
}

static size_t gpu_reserved(Backend *backend)
{
    size_t left, all;
    CUDA_CHECK(cudaMemGetInfo(&left, &all));
    size_t before = ((Gpu *)backend)->free_at_open;
    return before > left ? before - left : 0;
}

static void gpu_upload(Backend *backend, void *to, const void *from_host, size_t bytes)
{
    Gpu *gpu = (Gpu *)backend;
    for (size_t at = 0; at < bytes; at += SLOT_BYTES) {
        size_t part = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
        RingSlot *slot = &gpu->ring[gpu->next_slot];
        gpu->next_slot = (gpu->next_slot + 1) % RING_SLOTS;
        CUDA_CHECK(cudaEventSynchronize(slot->done));
        memcpy(slot->pinned, (const char *)from_host + at, part);
        CUDA_CHECK(cudaMemcpyAsync((char *)to + at, slot->pinned, part, cudaMemcpyHostToDevice,
                                   gpu->cuda.stream));
        CUDA_CHECK(cudaEventRecord(slot->done, gpu->cuda.stream));
    }
}

static void gpu_download(Backend *backend, void *to_host, const void *from, size_t bytes)
{
    cudaStream_t stream = ((CudaBackend *)backend)->stream;
    CUDA_CHECK(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
}

static void grow_reads(Gpu *gpu, int slots)
{
    gpu->reads = mem_realloc(gpu->reads, (size_t)slots, sizeof *gpu->reads);
    for (; gpu->read_slots < slots; gpu->read_slots++) {
        ReadSlot *read = &gpu->reads[gpu->read_slots];
        CUDA_CHECK(cudaMallocHost(&read->pinned, BACKEND_READ_BYTES));
        CUDA_CHECK(cudaEventCreateWithFlags(&read->done, cudaEventDisableTiming));
    }
}

static void gpu_read_start(Backend *backend, int slot, const void *from, size_t bytes)
{
    Gpu *gpu = (Gpu *)backend;
    PACER_ASSERT(bytes <= BACKEND_READ_BYTES, "a read of %zu bytes", bytes);
    if (slot >= gpu->read_slots) {
        grow_reads(gpu, slot + 1);
    }
    ReadSlot *read = &gpu->reads[slot];
    CUDA_CHECK(
        cudaMemcpyAsync(read->pinned, from, bytes, cudaMemcpyDeviceToHost, gpu->cuda.stream));
    CUDA_CHECK(cudaEventRecord(read->done, gpu->cuda.stream));
}

static void gpu_read_wait(Backend *backend, int slot, void *to_host, size_t bytes)
{
    ReadSlot *read = &((Gpu *)backend)->reads[slot];
    CUDA_CHECK(cudaEventSynchronize(read->done));
    memcpy(to_host, read->pinned, bytes);
}

static void gpu_zero(Backend *backend, void *to, size_t bytes)
{
    CUDA_CHECK(cudaMemsetAsync(to, 0, bytes, ((CudaBackend *)backend)->stream));
}

static void gpu_sync(Backend *backend)
{
    CUDA_CHECK(cudaStreamSynchronize(((CudaBackend *)backend)->stream));
}

/* Events order the streams, in a graph that is captured as well: there a copy is a node of its own,
 * between what the waits name. */
static void gpu_copy(Backend *backend, CopyQueue queue, void *to, const void *from, size_t bytes)
{
    Gpu *gpu = (Gpu *)backend;
    CopyStream *copies = &gpu->copies[queue];
    enum cudaMemcpyKind kind = queue == COPY_OUT ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    CUDA_CHECK(cudaEventRecord(copies->given, gpu->cuda.stream));
    CUDA_CHECK(cudaStreamWaitEvent(copies->stream, copies->given, 0));
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, copies->stream));
    copies->busy = true;
}

static void gpu_join(Backend *backend, CopyQueue queue)
{
    Gpu *gpu = (Gpu *)backend;
    CopyStream *copies = &gpu->copies[queue];
    if (copies->busy) {
        CUDA_CHECK(cudaEventRecord(copies->done, copies->stream));
        CUDA_CHECK(cudaStreamWaitEvent(gpu->cuda.stream, copies->done, 0));
        copies->busy = false;
    }
}

static void open_copies(Gpu *gpu)
{
    for (int i = 0; i < COPY_QUEUES; i++) {
        CopyStream *copies = &gpu->copies[i];
        CUDA_CHECK(cudaStreamCreateWithFlags(&copies->stream, cudaStreamNonBlocking));
        CUDA_CHECK(cudaEventCreateWithFlags(&copies->given, cudaEventDisableTiming));
        CUDA_CHECK(cudaEventCreateWithFlags(&copies->done, cudaEventDisableTiming));
    }
}

static void close_copies(Gpu *gpu)
{
    for (int i = 0; i < COPY_QUEUES; i++) {
        CUDA_CHECK(cudaStreamDestroy(gpu->copies[i].stream));
        CUDA_CHECK(cudaEventDestroy(gpu->copies[i].given));
        CUDA_CHECK(cudaEventDestroy(gpu->copies[i].done));
    }
}

static void gpu_replay(Backend *backend, int slot, void (*body)(void *), void *user)
{
    Gpu *gpu = (Gpu *)backend;
    cudaStream_t stream = gpu->cuda.stream;
    Recording *recording = &gpu->recordings[slot];
    if (!recording->warm) {
        recording->warm = true;
        body(user);
        return;
    }
    if (recording->graph == NULL) {
        cudaGraph_t graph;
        size_t nodes = 0;
        double start = clock_seconds();
        CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        body(user);
        CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
        CUDA_CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
        CUDA_CHECK(cudaGraphInstantiate(&recording->graph, graph, 0));
        CUDA_CHECK(cudaGraphDestroy(graph));
        log_debug("GPU: a step recorded as %zu kernels and copies in %.2f ms", nodes,
                  1e3 * (clock_seconds() - start));
    }
    CUDA_CHECK(cudaGraphLaunch(recording->graph, stream));
}

static void gpu_forget(Backend *backend)
{
    Gpu *gpu = (Gpu *)backend;
    gpu_sync(backend);
    for (int i = 0; i < BACKEND_RECORDINGS; i++) {
        if (gpu->recordings[i].graph != NULL) {
            CUDA_CHECK(cudaGraphExecDestroy(gpu->recordings[i].graph));
        }
        gpu->recordings[i] = (Recording){0};
    }
}

static void gpu_close(Backend *backend)
{
    Gpu *gpu = (Gpu *)backend;
    gpu_forget(backend);
    cudnn_close(gpu->cuda.cudnn);
    matmul_close(gpu->cuda.matmul);
    for (int i = 0; i < RING_SLOTS; i++) {
        CUDA_CHECK(cudaFreeHost(gpu->ring[i].pinned));
        CUDA_CHECK(cudaEventDestroy(gpu->ring[i].done));
    }
    for (int i = 0; i < gpu->read_slots; i++) {
        CUDA_CHECK(cudaFreeHost(gpu->reads[i].pinned));
        CUDA_CHECK(cudaEventDestroy(gpu->reads[i].done));
    }
    free(gpu->reads);
    close_copies(gpu);
    CUDA_CHECK(cudaStreamDestroy(gpu->cuda.stream));
    free(gpu);
}

#define FP8_COMPUTE 89

static const char *gpu_quant_refusal(const Backend *backend)
{
    return ((const CudaBackend *)backend)->compute >= FP8_COMPUTE
               ? NULL
               : "this GPU has no tensor cores for it (Ada, Hopper and newer have); take --dtype "
                 "bf16";
}

static double gpu_stated_rate(const Backend *backend, DType dtype)
{
    if (dtype == DT_E4M3) { /* twice that of bf16, where there is any */
        return gpu_quant_refusal(backend) == NULL ? 2 * cuda_peak_flops(backend->device, DT_BF16)
                                                  : 0;
    }
    return cuda_peak_flops(backend->device, dtype);
}

static const Ops gpu_ops = {
    .embed_forward = cuda_embed_forward,
    .embed_backward = cuda_embed_backward,
    .linear_forward = cuda_linear_forward,
    .linear_backward_input = cuda_linear_backward_input,
    .linear_backward_weight = cuda_linear_backward_weight,
    .linear_backward_weight_ws = cuda_linear_backward_weight_ws,
    .linear_gelu_forward = cuda_linear_gelu_forward,
    .linear_gelu_backward_input = cuda_linear_gelu_backward_input,
    .add = cuda_add,
    .scale = cuda_scale,
    .norm_forward = cuda_norm_forward,
    .add_norm_forward = cuda_add_norm_forward,
    .norm_backward = cuda_norm_backward,
    .norm_backward_ws = cuda_norm_backward_ws,
    .norm_pieces = cuda_norm_pieces,
    .head_norm_forward = cuda_head_norm_forward,
    .head_norm_backward = cuda_head_norm_backward,
    .head_norm_backward_ws = cuda_head_norm_backward_ws,
    .rope = cuda_rope,
    .attention_forward = cuda_attention_forward,
    .attention_forward_ws = cuda_attention_forward_ws,
    .attention_backward = cuda_attention_backward,
    .attention_backward_ws = cuda_attention_backward_ws,
    .attention_turns = cuda_attention_turns,
    .gated_forward = cuda_gated_forward,
    .gated_backward = cuda_gated_backward,
    .act_forward = cuda_act_forward,
    .act_backward = cuda_act_backward,
    .xent = cuda_xent,
    .sum = cuda_sum,
    .sum_squares = cuda_sum_squares,
    .sum_squares_ws = cuda_sum_squares_ws,
    .adamw = cuda_adamw,
    .sgd = cuda_sgd,
    .cast = cuda_cast,
    .checksum = cuda_checksum,
    .checksum_ws = cuda_checksum_ws,
    .ttt_forward = cuda_ttt_forward,
    .ttt_forward_ws = cuda_ttt_forward_ws,
    .ttt_backward = cuda_ttt_backward,
    .ttt_backward_ws = cuda_ttt_backward_ws,
    .ttt_states_bytes = cuda_ttt_states_bytes,
    .ttt_start = cuda_ttt_start,
    .ttt_step = cuda_ttt_step,
    .embed_step = cuda_embed_step,
    .attention_fill = cuda_attention_fill,
    .attention_step = cuda_attention_step,
    .attention_step_ws = cuda_attention_step_ws,
    .quantise = cuda_quantise,
    .quantise_ws = cuda_quantise_ws,
    .rescale = cuda_rescale,
    .quant_forward = cuda_quant_forward,
    .quant_backward_input = cuda_quant_backward_input,
    .quant_backward_weight = cuda_quant_backward_weight,
    .quant_norm = cuda_quant_norm,
    .quant_act = cuda_quant_act,
    .quant_act_backward = cuda_quant_act_backward,
    .quant_act_backward_ws = cuda_quantise_ws,
    .quant_xent = cuda_quant_xent,
    .quant_xent_ws = cuda_quant_xent_ws,
};

int cuda_devices(char *why, size_t size)
{
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
        cudaGetLastError();
        snprintf(why, size, "%s", cudaGetErrorString(status));
        return 0;
    }
    snprintf(why, size, "%s", count == 0 ? "there is none" : "");
    return count;
}

static int describe(Gpu *gpu)
{
    struct cudaDeviceProp facts;
    CUDA_CHECK(cudaGetDevice(&gpu->cuda.device));
    CUDA_CHECK(cudaGetDeviceProperties(&facts, gpu->cuda.device));
    gpu->cuda.compute = 10 * facts.major + facts.minor;
    gpu->cuda.processors = facts.multiProcessorCount;
    gpu->cuda.shared_bytes = (int)facts.sharedMemPerBlockOptin;
    snprintf(gpu->name, sizeof gpu->name, "%.63s", facts.name);
    return gpu->cuda.compute >= LEAST_COMPUTE
               ? 0
               : err_set(ERR_INPUT,
                         "%s has compute capability %d.%d; pacer needs 8.0 (Ampere) or newer. Use "
                         "--device cpu",
                         facts.name, facts.major, facts.minor);
}

static const char *gpu_attention_refusal(const Backend *backend, AttentionKind kind,
                                         HeadShape shape, DType dtype)
{
    return cuda_attention_problem((const CudaBackend *)backend, kind, shape, dtype);
}

static const char *gpu_ttt_refusal(const Backend *backend, const TttShape *shape, DType dtype)
{
    return cuda_ttt_problem((const CudaBackend *)backend, shape, dtype);
}

int cuda_backend_open(int device, Backend **out)
{
    *out = NULL;
    char why[CUDNN_WHY_SIZE];
    if (cuda_devices(why, sizeof why) == 0) {
        return err_set(ERR_INPUT, "no NVIDIA GPU can be used: %s; use --device cpu", why);
    }
    CUDA_CHECK(cudaSetDevice(device));
    Gpu *gpu = mem_zalloc(1, sizeof *gpu);
    int code = describe(gpu);
    if (code != 0) {
        free(gpu);
        return code;
    }
    gpu->cuda.base = (Backend){
        .name = "cuda",
        .ops = gpu_ops,
        .threads = 1,
        .device = gpu->name,
        .head_bytes = HEAD_BYTES,
        .few_shapes = true,
        .row_align = 64,
        .alloc = gpu_alloc,
        .release = gpu_release,
        .host_alloc = gpu_host_alloc,
        .host_release = gpu_host_release,
        .available = gpu_available,
        .reserved = gpu_reserved,
        .upload = gpu_upload,
        .download = gpu_download,
        .zero = gpu_zero,
        .sync = gpu_sync,
        .read_start = gpu_read_start,
        .read_wait = gpu_read_wait,
        .copy = gpu_copy,
        .join = gpu_join,
        .replay = gpu_replay,
        .forget = gpu_forget,
        .stamp = cuda_stamp,
        .matmul_rate = cuda_matmul_rate,
        .copy_rate = cuda_copy_rate,
        .stated_rate = gpu_stated_rate,
        .measure_link = cuda_measure_link,
        .place = cuda_place,
        .versions = cuda_versions,
        .sensors_open = cuda_sensors_open,
        .channel_open = cuda_channel_open,
        .attention_refusal = gpu_attention_refusal,
        .attention_choose = cuda_attention_choose,
        .ttt_refusal = gpu_ttt_refusal,
        .quant_refusal = gpu_quant_refusal,
        .quant_pays = cuda_quant_pays,
        .close = gpu_close,
    };
    const char *missing = ops_missing(&gpu_ops);
    if (missing != NULL) {
        free(gpu);
        return err_set(ERR_FAILED, "the CUDA backend has no %s", missing);
    }
    cuda_find_early();
    size_t all;
    CUDA_CHECK(cudaMemGetInfo(&gpu->free_at_open, &all));
    CUDA_CHECK(cudaStreamCreateWithFlags(&gpu->cuda.stream, cudaStreamNonBlocking));
    open_copies(gpu);
    for (int i = 0; i < RING_SLOTS; i++) {
        CUDA_CHECK(cudaMallocHost(&gpu->ring[i].pinned, SLOT_BYTES));
        CUDA_CHECK(cudaEventCreateWithFlags(&gpu->ring[i].done, cudaEventDisableTiming));
    }
    gpu->cuda.matmul = matmul_open(&gpu->cuda);
    gpu->cuda.cudnn =
        cudnn_open(&gpu->cuda, gpu->cuda.cudnn_missing, sizeof gpu->cuda.cudnn_missing);
    *out = &gpu->cuda.base;
    return 0;
}
