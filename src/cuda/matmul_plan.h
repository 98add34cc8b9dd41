#pragma once
/* Shared by the files of the matrix products: what decides a plan, the plan, and who chooses its
 * algorithm and remembers the choice. */
#include "cuda/matmul.h"

/* Split-K algorithms keep their partial sums here; weight gradients want it large. */
#define MATMUL_WORKSPACE_BYTES ((size_t)64 << 20)

/* Everything that decides which algorithms can run and which is fastest. Hashed and compared as
 * bytes: there is no padding. Sizes, transposes and leading dimensions are row-major, as in
 * Gemm. */
typedef struct {
    int64_t m, n, k, batch;
    int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
    int32_t transpose_a, transpose_b, in_type, out_type;
    int32_t epilogue, adds;            /* adds: beta is not 0 */
    int32_t align_a, align_b, align_c; /* bytes, a power of 2 up to 16; c with bias and aux */
    int32_t reserved;                  /* 0 */
} ProductKey;

#define PRODUCT_KEY_TEXT_SIZE 320

/* cuBLASLt's view is column-major: its A is the row-major b, its B the row-major a, its D the
 * transposed output. */
typedef struct Plan {
    ProductKey key;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t left, right, out;
    bool usable; /* an algorithm was found */
    cublasLtMatmulAlgo_t algo;
    size_t workspace; /* bytes that algo needs */
    float ms;         /* of one product; 0: not timed by this process */
    bool used;        /* matmul_run has run it */
    struct Plan *next;
} Plan;

typedef struct TuneCache TuneCache;

#define PLAN_BUCKETS 256

struct Matmul {
    CudaBackend *backend; /* not owned */
    cublasLtHandle_t handle;
    void *workspace;  /* MATMUL_WORKSPACE_BYTES, then the staging block */
    TuneCache *cache; /* NULL: algorithms are not timed */
    Plan *bucket[PLAN_BUCKETS];
};

#define LT_CHECK(call)                                                                 \
    do {                                                                               \
        cublasStatus_t lt_status_ = (call);                                            \
        if (lt_status_ != CUBLAS_STATUS_SUCCESS) {                                     \
            cuda_fail(#call, cublasLtGetStatusString(lt_status_), __FILE__, __LINE__); \
        }                                                                              \
    } while (0)

/* The key in words, one line without its end: what the cache file and messages show. */
const char *product_key_text(const ProductKey *key, char text[PRODUCT_KEY_TEXT_SIZE]);

/* Puts a product on the stream with an algorithm of the caller's, writing to out. */
cublasStatus_t plan_launch(Matmul *matmul, const Plan *plan, const Product *product,
                           const cublasLtMatmulAlgo_t *algo, void *out);

/* What the cache holds for a product that was given up. */
extern const cublasLtMatmulAlgo_t matmul_given_up;

/* matmul_tune.c: sets usable, algo and workspace of a plan whose descriptors are ready. */
void matmul_choose(Matmul *matmul, Plan *plan, const Product *product);

/* matmul_tune.c: milliseconds of a usable plan; 0 when there is no memory to time it. */
float matmul_time_plan(Matmul *matmul, const Plan *plan, const Product *product);

/* matmul_cache.c: choices that outlive the process. NULL from open when PACER_TUNE=off. Between
 * lock and unlock no other process chooses. find re-reads the file, so that it sees what others
 * chose. */
TuneCache *tune_cache_open(int device);
void tune_cache_close(TuneCache *cache);
void tune_cache_lock(TuneCache *cache);
void tune_cache_unlock(TuneCache *cache);
bool tune_cache_get(TuneCache *cache, const char *key, char *value, size_t size);
void tune_cache_put(TuneCache *cache, const char *key, const char *value);
bool tune_cache_find(TuneCache *cache, const ProductKey *key, cublasLtMatmulAlgo_t *algo);
void tune_cache_add(TuneCache *cache, const ProductKey *key, const cublasLtMatmulAlgo_t *algo);
