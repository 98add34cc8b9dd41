#include "cuda/matmul_plan.h"

#include "base/log.h"

#include <float.h>
#include <string.h>

/* Which algorithm a product uses. cuBLASLt's own order of preference is good for most shapes and
 * poor for some, above all for weight gradients (small results, very long sums), so that the first
 * use of a large product times what cuBLASLt offers, and splits of K besides. The choice decides
 * the order of sums and with it the last bits of results: it is kept in a file (matmul_cache.c), so
 * that the next run makes the same one. Only algorithms whose sums have a fixed order take part.
 *
 * Not timed, but given cuBLASLt's first offer: small products, where the launch is what costs;
 * products first met while the stream is being captured; and everything when PACER_TUNE=off.
 * Bias gradients as an epilogue are not worth having untimed: such a product is then refused. */

#define OFFERS_MOST 24 /* asked of cuBLASLt */
#define SPLIT_OFFERS 6 /* of these, tried with other splits of K */
#define CANDIDATES_MOST 96
#define FINALISTS 4
#define WORTH_TIMING_FLOPS 1e8
#define SHORT_FLOPS 2e10  /* products of fewer may end before the next is launched */
#define LAUNCH_NS 12000   /* of one, with room to spare */
#define SPLIT_FROM_K 1024 /* shorter sums are not worth cutting */
#define REDUCTIONS (CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)

const cublasLtMatmulAlgo_t matmul_given_up = {0};

static const int32_t splits[] = {2, 3, 4, 6, 8, 12, 16, 24, 32};

typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
    float ms; /* of one product */
} Candidate;

static void set_preference(cublasLtMatmulPreference_t preference,
                           cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                           size_t size)
{
    LT_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size));
}

/* What cuBLASLt offers, best first by its own estimate; 0 when it has nothing. */
static int ask_offers(Matmul *matmul, const Plan *plan, Candidate *out)
{
    cublasLtMatmulPreference_t preference;
    LT_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    uint64_t workspace = MATMUL_WORKSPACE_BYTES;
    uint32_t reductions = REDUCTIONS;
    const ProductKey *key = &plan->key;
    uint32_t left = (uint32_t)key->align_b, right = (uint32_t)key->align_a,
             result = (uint32_t)key->align_c;
    set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                   sizeof workspace);
    set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                   sizeof reductions);
    set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &left, sizeof left);
    set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &right, sizeof right);
    set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &result, sizeof result);
    set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &result, sizeof result);

    cublasLtMatmulHeuristicResult_t offers[OFFERS_MOST];
    int offered = 0, count = 0;
    cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(matmul->handle, plan->op, plan->left, plan->right, plan->out,
                                       plan->out, preference, OFFERS_MOST, offers, &offered);
    cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < offered; i++) {
        if (offers[i].state == CUBLAS_STATUS_SUCCESS) {
            out[count++] =
                (Candidate){.algo = offers[i].algo, .workspace = offers[i].workspaceSize};
        }
    }
    return count;
}

/* Whether algo can run this plan here, and the workspace that it wants. */
static bool check_algo(Matmul *matmul, const Plan *plan, const cublasLtMatmulAlgo_t *algo,
                       size_t *workspace)
{
    cublasLtMatmulHeuristicResult_t result = {0};
    cublasStatus_t status = cublasLtMatmulAlgoCheck(
        matmul->handle, plan->op, plan->left, plan->right, plan->out, plan->out, algo, &result);
    *workspace = result.workspaceSize;
    return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= MATMUL_WORKSPACE_BYTES;
}

/* The first offers with K cut into other numbers of parts, which are summed from the workspace
 * in a fixed order. Worth it where the result has too few tiles to fill the device. Returns the
 * new count. */
static int add_splits(Matmul *matmul, const Plan *plan, Candidate *list, int count)
{
    const ProductKey *key = &plan->key;
    int64_t tiles = (key->m + 127) / 128 * ((key->n + 127) / 128) * key->batch;
    if (key->k < SPLIT_FROM_K || tiles >= 4 * (int64_t)matmul->backend->processors) {
        return count;
    }
    int offers = count < SPLIT_OFFERS ? count : SPLIT_OFFERS;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    for (int i = 0; i < offers; i++) {
        for (size_t s = 0; s < sizeof splits / sizeof splits[0] && count < CANDIDATES_MOST; s++) {
            Candidate cut = list[i];
            if (cublasLtMatmulAlgoConfigSetAttribute(&cut.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                     &splits[s],
                                                     sizeof splits[s]) == CUBLAS_STATUS_SUCCESS &&
                cublasLtMatmulAlgoConfigSetAttribute(
                    &cut.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                    sizeof reduction) == CUBLAS_STATUS_SUCCESS &&
                check_algo(matmul, plan, &cut.algo, &cut.workspace)) {
                list[count++] = cut;
            }
        }
    }
    return count;
}

typedef struct {
    cudaEvent_t start, stop;
    void *out;     /* where timed products write */
    void *scratch; /* the same, when it is not the product's own output */
} Bench;

/* Timed products write to the real output, which the product itself then overwrites, unless they
 * would add to it. */
static bool bench_open(Bench *bench, const Product *product)
{
    const Gemm *g = &product->gemm;
    *bench = (Bench){.out = g->out};
    if (g->beta != 0.0f) {
        int64_t count = (g->batch - 1) * g->stride_c + (g->m - 1) * g->ldc + g->n;
        if (cudaMalloc(&bench->scratch, (size_t)count * dtype_size(g->out_type)) != cudaSuccess) {
            (void)cudaGetLastError();
            return false;
        }
        bench->out = bench->scratch;
    }
    CUDA_CHECK(cudaEventCreate(&bench->start));
    CUDA_CHECK(cudaEventCreate(&bench->stop));
    return true;
}

static void bench_close(Bench *bench)
{
    CUDA_CHECK(cudaEventDestroy(bench->start));
    CUDA_CHECK(cudaEventDestroy(bench->stop));
    CUDA_CHECK(cudaFree(bench->scratch));
}

static double flops_of(const ProductKey *key)
{
    return 2.0 * (double)key->m * (double)key->n * (double)key->k * (double)key->batch;
}

/* Milliseconds of one product, the mean of `runs`; FLT_MAX when the algorithm refuses. */
static float time_runs(Matmul *matmul, const Plan *plan, const Product *product, Bench *bench,
                       const Candidate *candidate, int runs)
{
    cudaStream_t stream = matmul->backend->stream;
    if (flops_of(&plan->key) < SHORT_FLOPS) { /* all are launched when the first begins */
        cuda_idle(stream, (int64_t)LAUNCH_NS * (runs + 1));
    }
    CUDA_CHECK(cudaEventRecord(bench->start, stream));
    for (int i = 0; i < runs; i++) {
        if (plan_launch(matmul, plan, product, &candidate->algo, bench->out) !=
            CUBLAS_STATUS_SUCCESS) {
            (void)cudaGetLastError();
            return FLT_MAX;
        }
    }
    CUDA_CHECK(cudaEventRecord(bench->stop, stream));
    CUDA_CHECK(cudaEventSynchronize(bench->stop));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, bench->start, bench->stop));
    return ms / (float)runs;
}

/* Brings the fastest FINALISTS to the front, in order. */
static void sort_front(Candidate *list, int count)
{
    for (int i = 0; i < FINALISTS && i < count; i++) {
        for (int j = i + 1; j < count; j++) {
            if (list[j].ms < list[i].ms) {
                Candidate swap = list[i];
                list[i] = list[j];
                list[j] = swap;
            }
        }
    }
}

/* Once over all (after a run that loads the kernel), more often where that looks promising, then
 * the fastest few in turns. The winner comes first in the list. */
static void time_all(Matmul *matmul, const Plan *plan, const Product *product, Bench *bench,
                     Candidate *list, int count)
{
    float best = FLT_MAX;
    for (int i = 0; i < count; i++) {
        list[i].ms = time_runs(matmul, plan, product, bench, &list[i], 1);
        if (list[i].ms < FLT_MAX) {
            list[i].ms = time_runs(matmul, plan, product, bench, &list[i], 1);
        }
        if (list[i].ms < 1.5f * best) {
            list[i].ms = time_runs(matmul, plan, product, bench, &list[i], 3);
        }
        best = list[i].ms < best ? list[i].ms : best;
    }
    sort_front(list, count);
    int finalists = count < FINALISTS ? count : FINALISTS;
    int runs = best > 2 ? 2 : 8;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < finalists && list[i].ms < FLT_MAX; i++) {
            float ms = time_runs(matmul, plan, product, bench, &list[i], runs);
            list[i].ms = round == 0 || ms < list[i].ms ? ms : list[i].ms;
        }
    }
    sort_front(list, finalists);
}

float matmul_time_plan(Matmul *matmul, const Plan *plan, const Product *product)
{
    Bench bench;
    if (!bench_open(&bench, product)) {
        return 0;
    }
    Candidate chosen = {.algo = plan->algo, .workspace = plan->workspace};
    float best = time_runs(matmul, plan, product, &bench, &chosen, 1);
    for (int round = 0; round < 3 && best < FLT_MAX; round++) {
        float ms = time_runs(matmul, plan, product, &bench, &chosen, best > 2 ? 2 : 8);
        best = round == 0 || ms < best ? ms : best;
    }
    bench_close(&bench);
    return best < FLT_MAX ? best : 0;
}

static bool capturing(const Matmul *matmul)
{
    enum cudaStreamCaptureStatus status;
    CUDA_CHECK(cudaStreamIsCapturing(matmul->backend->stream, &status));
    return status != cudaStreamCaptureStatusNone;
}

static void use(Plan *plan, const Candidate *candidate)
{
    plan->algo = candidate->algo;
    plan->workspace = candidate->workspace;
    plan->usable = true;
}

/* Times the offers and keeps the choice. Left as it is when nothing can be timed. */
static void tune(Matmul *matmul, Plan *plan, const Product *product, Candidate *list, int count)
{
    char text[PRODUCT_KEY_TEXT_SIZE];
    Bench bench;
    if (!bench_open(&bench, product)) {
        log_warn("no device memory left to time algorithms for %s; taking cuBLASLt's first offer",
                 product_key_text(&plan->key, text));
        return;
    }
    int offers = count;
    count = add_splits(matmul, plan, list, count);
    time_all(matmul, plan, product, &bench, list, count);
    bench_close(&bench);
    if (list[0].ms < FLT_MAX) {
        use(plan, &list[0]);
        plan->ms = list[0].ms;
        tune_cache_add(matmul->cache, &plan->key, &list[0].algo);
        log_debug("%s: %.3f ms, %.0f TFLOP/s, best of %d offers and %d splits",
                  product_key_text(&plan->key, text), (double)list[0].ms,
                  flops_of(&plan->key) / (double)list[0].ms * 1e-9, offers, count - offers);
    }
}

void matmul_choose(Matmul *matmul, Plan *plan, const Product *product)
{
    Candidate list[CANDIDATES_MOST];
    int count = ask_offers(matmul, plan, list);
    if (count == 0) {
        return;
    }
    const ProductKey *key = &plan->key;
    if (key->epilogue != CUBLASLT_EPILOGUE_BGRADB) {
        use(plan, &list[0]);
    }
    if (matmul->cache == NULL || flops_of(key) < WORTH_TIMING_FLOPS) {
        return;
    }
    tune_cache_lock(matmul->cache);
    Candidate kept;
    bool found = tune_cache_find(matmul->cache, key, &kept.algo);
    if (found && memcmp(&kept.algo, &matmul_given_up, sizeof kept.algo) == 0) {
        plan->usable = false;
    } else if (found && check_algo(matmul, plan, &kept.algo, &kept.workspace)) {
        use(plan, &kept);
    } else if (!capturing(matmul)) {
        tune(matmul, plan, product, list, count);
    }
    tune_cache_unlock(matmul->cache);
}
