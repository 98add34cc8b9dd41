#include "cuda/cudnn.h"

#ifdef PACER_HAVE_CUDNN

#include "cuda/cudnn_graph.h"

#include "base/assert.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define SONAME_OF(major) "libcudnn.so." #major
#define SONAME(major) SONAME_OF(major)

void cudnn_explain(const CudnnLibrary *lib, const char *what, cudnnStatus_t status, char *why,
                   size_t size)
{
    char detail[CUDNN_WHY_SIZE] = "";
    lib->cudnnGetLastErrorString(detail, sizeof detail);
    detail[strcspn(detail, "\n")] = '\0';
    snprintf(why, size, "%s: %s (%d)%s%s", what, lib->cudnnGetErrorString(status), (int)status,
             detail[0] != '\0' ? ", " : "", detail);
}

bool cudnn_library_open(CudnnLibrary *lib, char *why, size_t size)
{
    static const char *const names[] = {SONAME(CUDNN_MAJOR),
                                        "/usr/local/cuda/lib64/" SONAME(CUDNN_MAJOR)};
    *lib = (CudnnLibrary){0};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && lib->library == NULL; i++) {
        lib->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (lib->library == NULL && i == 0) {
            snprintf(why, size, "%s", dlerror());
        }
    }
    if (lib->library == NULL) {
        return false;
    }
#define X(name)                                               \
    *(void **)&lib->name = dlsym(lib->library, #name);        \
    if (lib->name == NULL) {                                  \
        snprintf(why, size, "%s has no %s", names[0], #name); \
        cudnn_library_close(lib);                             \
        return false;                                         \
    }
    CUDNN_FUNCTIONS(X)
#undef X
    return true;
}

void cudnn_library_close(CudnnLibrary *lib)
{
    if (lib->device != NULL) {
        lib->cudnnBackendDestroyDescriptor(lib->device);
    }
    if (lib->handle != NULL) {
        lib->cudnnDestroy(lib->handle);
    }
    if (lib->library != NULL) {
        dlclose(lib->library);
    }
    *lib = (CudnnLibrary){0};
}

CudnnGraph *graph_new(const CudnnLibrary *lib)
{
    CudnnGraph *graph = mem_zalloc(1, sizeof *graph);
    graph->lib = lib;
    graph->virtual_id = GRAPH_IDS_MOST + 1;
    return graph;
}

void graph_free(CudnnGraph *graph)
{
    if (graph == NULL) {
        return;
    }
    for (int i = graph->made_count - 1; i >= 0; i--) {
        graph->lib->cudnnBackendDestroyDescriptor(graph->made[i]);
    }
    free(graph);
}

/* Notes the first failure. */
static bool succeeded(CudnnGraph *graph, const char *what, cudnnStatus_t status)
{
    if (status != CUDNN_STATUS_SUCCESS && !graph->failed) {
        graph->failed = true;
        cudnn_explain(graph->lib, what, status, graph->why, sizeof graph->why);
    }
    return status == CUDNN_STATUS_SUCCESS;
}

static Descriptor create(CudnnGraph *graph, cudnnBackendDescriptorType_t kind)
{
    Descriptor made = NULL;
    if (graph->failed) {
        return NULL;
    }
    PACER_ASSERT(graph->made_count < GRAPH_DESCRIPTORS_MOST, "cuDNN graph of more than %d parts",
                 GRAPH_DESCRIPTORS_MOST);
    if (succeeded(graph, "creating a descriptor",
                  graph->lib->cudnnBackendCreateDescriptor(kind, &made))) {
        graph->made[graph->made_count++] = made;
    }
    return made;
}

static void set(CudnnGraph *graph, Descriptor of, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (!graph->failed) {
        succeeded(graph, "setting an attribute",
                  graph->lib->cudnnBackendSetAttribute(of, name, type, count, values));
    }
}

static void set_part(CudnnGraph *graph, Descriptor of, cudnnBackendAttributeName_t name,
                     Descriptor part)
{
    set(graph, of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void finalize(CudnnGraph *graph, const char *what, Descriptor made)
{
    if (!graph->failed) {
        succeeded(graph, what, graph->lib->cudnnBackendFinalize(made));
    }
}

/* Finalizes an operation and puts it into the graph. */
static void add_op(CudnnGraph *graph, const char *what, Descriptor op)
{
    finalize(graph, what, op);
    PACER_ASSERT(graph->op_count < GRAPH_OPS_MOST, "cuDNN graph of more than %d operations",
                 GRAPH_OPS_MOST);
    graph->op[graph->op_count++] = op;
}

static Descriptor make_tensor(CudnnGraph *graph, int64_t id, cudnnDataType_t type,
                              const TensorLayout *layout, bool is_virtual, bool by_value)
{
    Descriptor t = create(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t alignment = 16;
    set(graph, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(graph, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, layout->size);
    set(graph, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, layout->stride);
    set(graph, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(graph, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(graph, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(graph, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finalize(graph, "describing a tensor", t);
    return t;
}

Descriptor graph_memory(CudnnGraph *graph, int64_t id, cudnnDataType_t type,
                        const TensorLayout *layout)
{
    return make_tensor(graph, id, type, layout, false, false);
}

Descriptor graph_virtual(CudnnGraph *graph, cudnnDataType_t type, const TensorLayout *layout)
{
    return make_tensor(graph, graph->virtual_id++, type, layout, true, false);
}

Descriptor graph_scalar(CudnnGraph *graph, int64_t id)
{
    static const TensorLayout one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    return make_tensor(graph, id, CUDNN_DATA_FLOAT, &one, false, true);
}

/* b and t may be NULL, axis negative, when the mode has none. */
static void add_pointwise(CudnnGraph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t precision,
                          int64_t axis, Descriptor x, Descriptor b, Descriptor t, Descriptor y)
{
    Descriptor how = create(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(graph, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(graph, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (axis >= 0) {
        set(graph, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    }
    finalize(graph, "describing an elementwise operation", how);
    Descriptor op = create(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_part(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != NULL) {
        set_part(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    }
    if (t != NULL) {
        set_part(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    }
    set_part(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_op(graph, "adding an elementwise operation", op);
}

void graph_unary(CudnnGraph *graph, cudnnPointwiseMode_t mode, Descriptor x, Descriptor y)
{
    add_pointwise(graph, mode, CUDNN_DATA_FLOAT, -1, x, NULL, NULL, y);
}

void graph_binary(CudnnGraph *graph, cudnnPointwiseMode_t mode, Descriptor x, Descriptor b,
                  Descriptor y)
{
    add_pointwise(graph, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
}

void graph_compare(CudnnGraph *graph, cudnnPointwiseMode_t mode, Descriptor x, Descriptor b,
                   Descriptor y)
{
    add_pointwise(graph, mode, CUDNN_DATA_BOOLEAN, -1, x, b, NULL, y);
}

void graph_select(CudnnGraph *graph, Descriptor t, Descriptor x, Descriptor b, Descriptor y)
{
    add_pointwise(graph, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, x, b, t, y);
}

void graph_index(CudnnGraph *graph, int64_t axis, Descriptor x, Descriptor y)
{
    add_pointwise(graph, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis, x, NULL, NULL, y);
}

void graph_matmul(CudnnGraph *graph, Descriptor a, Descriptor b, Descriptor out)
{
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    Descriptor how = create(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(graph, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    finalize(graph, "describing a matrix product", how);
    Descriptor op = create(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_part(graph, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_part(graph, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_part(graph, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_part(graph, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
    add_op(graph, "adding a matrix product", op);
}

void graph_reduce(CudnnGraph *graph, cudnnReduceTensorOp_t reduction, Descriptor x, Descriptor y)
{
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    Descriptor how = create(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(graph, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(graph, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
        &reduction);
    finalize(graph, "describing a reduction", how);
    Descriptor op = create(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(graph, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_part(graph, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_part(graph, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add_op(graph, "adding a reduction", op);
}

void graph_reshape(CudnnGraph *graph, Descriptor x, Descriptor y)
{
    Descriptor op = create(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_part(graph, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_part(graph, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_op(graph, "adding a reshape", op);
}

/* An unsupported graph is no error to cuDNN: there are then no configurations. */
bool graph_configure(CudnnGraph *graph, Descriptor *config, int64_t *workspace)
{
    const CudnnLibrary *lib = graph->lib;
    Descriptor ops = create(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, ops, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->op_count,
        graph->op);
    if (lib->handle != NULL) {
        set(graph, ops, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &lib->handle);
    }
    finalize(graph, "closing the graph", ops);
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    Descriptor offers = create(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(graph, offers, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, ops);
    set(graph, offers, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (lib->device != NULL) {
        set_part(graph, offers, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, lib->device);
    }
    finalize(graph, "asking for engines", offers);
    *config = create(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = 0, sizes = 0;
    if (graph->failed ||
        !succeeded(graph, "counting engines",
                   lib->cudnnBackendGetAttribute(offers, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, NULL))) {
        return false;
    }
    if (count == 0) {
        graph->failed = true;
        snprintf(graph->why, sizeof graph->why, "cuDNN %zu has no engine for it on this GPU",
                 lib->cudnnGetVersion());
        return false;
    }
    return succeeded(graph, "reading an engine",
                     lib->cudnnBackendGetAttribute(offers, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                                   config)) &&
           succeeded(graph, "reading the size of the workspace",
                     lib->cudnnBackendGetAttribute(*config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                                   CUDNN_TYPE_INT64, 1, &sizes, workspace));
}

Descriptor graph_compile(CudnnGraph *graph, Descriptor config, int64_t *workspace)
{
    const CudnnLibrary *lib = graph->lib;
    Descriptor plan = NULL;
    int64_t sizes = 0;
    if (!succeeded(
            graph, "creating a plan",
            lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan))) {
        return NULL;
    }
    set_part(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finalize(graph, "compiling a plan", plan);
    if (graph->failed ||
        !succeeded(graph, "reading the size of the workspace",
                   lib->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                 CUDNN_TYPE_INT64, 1, &sizes, workspace))) {
        lib->cudnnBackendDestroyDescriptor(plan);
        return NULL;
    }
    return plan;
}

cudnnStatus_t graph_run(const CudnnLibrary *lib, Descriptor plan, int count, const int64_t *ids,
                        void *const *pointers, void *workspace)
{
    Descriptor pack = NULL;
    cudnnStatus_t status =
        lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (status != CUDNN_STATUS_SUCCESS) {
        return status;
    }
    const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendAttributeType_t type;
        int count;
        const void *values;
    } parts[] = {
        {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace},
    };
    for (int i = 0; i < 3 && status == CUDNN_STATUS_SUCCESS; i++) {
        status = lib->cudnnBackendSetAttribute(pack, parts[i].name, parts[i].type, parts[i].count,
                                               parts[i].values);
    }
    if (status == CUDNN_STATUS_SUCCESS) {
        status = lib->cudnnBackendFinalize(pack);
    }
    if (status == CUDNN_STATUS_SUCCESS) {
        status = lib->cudnnBackendExecute(lib->handle, plan, pack);
    }
    lib->cudnnBackendDestroyDescriptor(pack);
    return status;
}

#endif
