#pragma once
/* cuDNN's backend API in the form that attention needs: the library itself, a graph of
 * operations that is built up and then asked for a configuration, and the plan compiled from it.
 * Errors stick to the graph: after the first, building does nothing and graph_configure returns
 * false. Only for files compiled with cuDNN's header. */
#include "cuda/cudnn.h"

#include <cudnn.h>

typedef cudnnBackendDescriptor_t Descriptor;

/* The functions that are used, by dlsym. */
#define CUDNN_FUNCTIONS(X)           \
    X(cudnnCreate)                   \
    X(cudnnDestroy)                  \
    X(cudnnSetStream)                \
    X(cudnnGetVersion)               \
    X(cudnnGetErrorString)           \
    X(cudnnGetLastErrorString)       \
    X(cudnnBackendCreateDescriptor)  \
    X(cudnnBackendDestroyDescriptor) \
    X(cudnnBackendSetAttribute)      \
    X(cudnnBackendGetAttribute)      \
    X(cudnnBackendFinalize)          \
    X(cudnnBackendExecute)

typedef struct {
    void *library;        /* of dlopen */
    cudnnHandle_t handle; /* NULL: there is only a described device */
    Descriptor device;    /* the described device; NULL: the handle's */
#define X(name) __typeof__(name) *name;
    CUDNN_FUNCTIONS(X)
#undef X
} CudnnLibrary;

bool cudnn_library_open(CudnnLibrary *lib, char *why, size_t size); /* without handle and device */
void cudnn_library_close(CudnnLibrary *lib);

/* "what: cuDNN's words for it" */
void cudnn_explain(const CudnnLibrary *lib, const char *what, cudnnStatus_t status, char *why,
                   size_t size);

#define GRAPH_DESCRIPTORS_MOST 160
#define GRAPH_OPS_MOST 32

typedef struct {
    const CudnnLibrary *lib;
    Descriptor made[GRAPH_DESCRIPTORS_MOST]; /* all that graph_free destroys */
    Descriptor op[GRAPH_OPS_MOST];
    int made_count, op_count;
    int64_t virtual_id; /* of the next virtual tensor */
    bool failed;
    char why[CUDNN_WHY_SIZE];
} CudnnGraph;

typedef struct {
    int64_t size[4];
    int64_t stride[4]; /* in elements */
} TensorLayout;

CudnnGraph *graph_new(const CudnnLibrary *lib);
void graph_free(CudnnGraph *graph); /* NULL is fine */

/* Tensors in memory have ids from 1 to GRAPH_IDS_MOST, by which a run gives their pointers. */
#define GRAPH_IDS_MOST 32
Descriptor graph_memory(CudnnGraph *graph, int64_t id, cudnnDataType_t type,
                        const TensorLayout *layout);
Descriptor graph_virtual(CudnnGraph *graph, cudnnDataType_t type, const TensorLayout *layout);
Descriptor graph_scalar(CudnnGraph *graph, int64_t id); /* f32 in host memory */

/* y = mode(x), mode(x, b), and t ? x : b */
void graph_unary(CudnnGraph *graph, cudnnPointwiseMode_t mode, Descriptor x, Descriptor y);
void graph_binary(CudnnGraph *graph, cudnnPointwiseMode_t mode, Descriptor x, Descriptor b,
                  Descriptor y);
void graph_compare(CudnnGraph *graph, cudnnPointwiseMode_t mode, Descriptor x, Descriptor b,
                   Descriptor y);
void graph_select(CudnnGraph *graph, Descriptor t, Descriptor x, Descriptor b, Descriptor y);
void graph_index(CudnnGraph *graph, int64_t axis, Descriptor x, Descriptor y);
void graph_matmul(CudnnGraph *graph, Descriptor a, Descriptor b, Descriptor out);
void graph_reduce(CudnnGraph *graph, cudnnReduceTensorOp_t op, Descriptor x, Descriptor y);
void graph_reshape(CudnnGraph *graph, Descriptor x, Descriptor y);

/* cuDNN's first configuration for the graph and the bytes of workspace that it wants. The
 * configuration belongs to the graph. False with graph->why when there is none. */
bool graph_configure(CudnnGraph *graph, Descriptor *config, int64_t *workspace);

/* Compiles. The plan outlives the graph; the caller destroys it. NULL with graph->why on
 * failure. */
Descriptor graph_compile(CudnnGraph *graph, Descriptor config, int64_t *workspace);

/* Puts a plan on the handle's stream. ids and pointers (count) go together. */
cudnnStatus_t graph_run(const CudnnLibrary *lib, Descriptor plan, int count, const int64_t *ids,
                        void *const *pointers, void *workspace);
