/* The CPU backend: memory in huge pages, and a table of operations that starts as the reference's
 * and is overridden by the kernels of the best instruction set this machine has. PACER_SIMD in the
 * environment (base, v3, v4) picks another one, which is how a test reaches them all. */
#include "cpu/cpu.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "cpu/bf16/product.h"
#include "cpu/sgemm.h"
#include "cpu/threads.h"
#include "ref/ref.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#ifdef PACER_HAVE_TILES
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

typedef struct {
    const char *name;
    bool supported;
    void (*fill)(Ops *ops);
} Isa;

#define ISA_COUNT 3

int cpu_level(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    return v4 ? 2 : v3;
#else
    return 0;
#endif
}

/* Best last. */
static void list_isas(Isa isas[ISA_COUNT])
{
    isas[0] = (Isa){"base", true, kernels_fill_base};
    isas[1] = (Isa){"v3", false, NULL};
    isas[2] = (Isa){"v4", false, NULL};
#ifdef PACER_ISA_X86
    isas[1] = (Isa){"v3", cpu_level() >= 1, kernels_fill_v3};
    isas[2] = (Isa){"v4", cpu_level() >= 2, kernels_fill_v4};
#endif
}

static int choose_isa(Isa *chosen)
{
    Isa isas[ISA_COUNT];
    list_isas(isas);
    const char *wanted = getenv("PACER_SIMD");
    if (wanted != NULL && wanted[0] == '\0') {
        wanted = NULL;
    }
    for (int i = ISA_COUNT - 1; i >= 0; i--) {
        bool named = wanted != NULL && strcmp(wanted, isas[i].name) == 0;
        if (named && !isas[i].supported) {
            return err_set(ERR_INPUT,
                           "PACER_SIMD=%s: this machine or build does not have it; unset "
                           "PACER_SIMD for the best it has",
                           wanted);
        }
        if (named || (wanted == NULL && isas[i].supported)) {
            *chosen = isas[i];
            return 0;
        }
    }
    return err_set(ERR_INPUT, "PACER_SIMD=%s: no such instruction set; use base, v3 or v4", wanted);
}

#ifdef PACER_HAVE_TILES

/* Bits of leaf 7 of cpuid and of XCR0, and the kernel's call by which a process asks for tiles. */
#define CPUID_AMX (1u << 22 | 1u << 24) /* products in bf16, tiles */
#define XCR0_TILES (1u << 17 | 1u << 18)
#define REQUEST_STATE 0x1023
#define STATE_TILES 18

/* Whether processor and kernel have tiles with products in bf16, asked for once for the process. */
static bool has_amx(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & CPUID_AMX) != CPUID_AMX ||
        !__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0) {
        return false;
    }
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a & XCR0_TILES) == XCR0_TILES &&
           syscall(SYS_arch_prctl, REQUEST_STATE, STATE_TILES) == 0;
}

#endif

static const BfEngine *engines[3]; /* best first, NULL after the last */

static void find_engines(void)
{
    int count = 0;
#ifdef PACER_HAVE_TILES
    if (cpu_level() == 2 && has_amx()) {
        engines[count++] = &product_tiles;
    }
#endif
#ifdef PACER_HAVE_PAIRS
    if (cpu_level() == 2 && __builtin_cpu_supports("avx512bf16")) {
        engines[count++] = &product_pairs;
    }
#endif
    (void)count;
}

const BfEngine *const *cpu_bf16_engines(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_engines);
    return engines;
}

#ifdef PACER_ISA_BF16
#define NO_ENGINE                                                                                  \
    "needs AMX or AVX-512 BF16 on a CPU (Intel Xeon from Sapphire Rapids on, AMD from Zen 4 on), " \
    "which this one does not have or does not offer here"
#else
#define NO_ENGINE "on a CPU needs AMX or AVX-512 BF16, for which this build has no code"
#endif

#define BF16_REMEDY ": leave it out for f32, or give --device ref for a slow exact run"

const char *cpu_no_bf16(void)
{
    Isa isa;
    if (choose_isa(&isa) == 0 && strcmp(isa.name, "v4") != 0 && getenv("PACER_SIMD") != NULL) {
        return "is not possible with PACER_SIMD below v4: unset it, or leave --dtype out for f32";
    }
    return cpu_bf16_engines()[0] != NULL ? NULL : NO_ENGINE BF16_REMEDY;
}

/* Zeroed at once, by all threads: the pages are then really there, so that what is available stays
 * true and no step pays for them. */
static void *host_alloc(Backend *backend, size_t bytes)
{
    size_t available = backend->available(backend);
    void *block = available > 0 && bytes > available ? NULL : mem_try_large(bytes);
    if (block != NULL) {
        threads_copy(block, NULL, bytes, backend->threads);
    }
    return block;
}

static void host_copy(Backend *backend, void *to, const void *from, size_t bytes)
{
    threads_copy(to, from, bytes, backend->threads);
}

static void host_zero(Backend *backend, void *to, size_t bytes)
{
    threads_copy(to, NULL, bytes, backend->threads);
}

static void cpu_close(Backend *backend)
{
    CpuBackend *cpu = (CpuBackend *)backend;
    backend->release(backend, cpu->block);
    free(cpu->packed);
    free(cpu);
}

const char *cpu_backend_isa(const Backend *backend)
{
    return ((const CpuBackend *)backend)->isa;
}

static const char *ttt_refusal(const Backend *backend, const TttShape *shape, DType dtype)
{
    (void)backend, (void)shape;
    return dtype == DT_BF16 ? "on a CPU a TTT layer computes in f32; leave --dtype out" : NULL;
}

/* The table for bf16, over the reference's: what has kernels in it, and what takes any type. */
static void fill_low(CpuBackend *cpu)
{
#ifdef PACER_ISA_BF16
    const Ops *ops = &cpu->backend.ops;
    cpu->low = cpu->ref;
    cpu->low.adamw = ops->adamw;
    cpu->low.sgd = ops->sgd;
    cpu->low.cast = ops->cast;
    cpu->low.checksum = ops->checksum;
    kernels_fill_bf16(&cpu->low);
    matmul_fill(&cpu->low);
    cpu->backend.low_ops = &cpu->low;
    size_t bytes = product_bf16_space(cpu->backend.threads);
    cpu->packed = mem_checked(mem_try_aligned(bytes), bytes);
#else
    (void)cpu;
#endif
}

Backend *cpu_backend_open(int threads)
{
    PACER_ASSERT(threads > 0, "%d threads", threads);
    Isa isa = {0};
    if (choose_isa(&isa) != 0) {
        return NULL;
    }
    threads_shield(threads);
    sgemm_warn(threads);
    CpuBackend *cpu = mem_zalloc(1, sizeof *cpu);
    cpu->isa = isa.name;
    cpu->backend = (Backend){
        .name = "cpu",
        .head_bytes = BACKEND_HEAD_BYTES,
        .bf16_weights = true,
        .threads = threads,
        .close = cpu_close,
    };
    ref_fill_memory(&cpu->backend);
    cpu->backend.alloc = host_alloc;
    cpu->backend.upload = host_copy;
    cpu->backend.download = host_copy;
    cpu->backend.zero = host_zero;
    cpu->block = mem_checked(host_alloc(&cpu->backend, CPU_BLOCK_BYTES), CPU_BLOCK_BYTES);
    ref_fill_ops(&cpu->ref);
    cpu->backend.other_ops = &cpu->ref;
    cpu->backend.ops = cpu->ref;
    isa.fill(&cpu->backend.ops);
    matmul_fill(&cpu->backend.ops);
    cpu->backend.ttt_refusal = ttt_refusal;
    if (cpu_no_bf16() == NULL) {
        fill_low(cpu);
    }
    const char *missing = ops_missing(&cpu->backend.ops);
    PACER_ASSERT(missing == NULL, "cpu has no %s", missing);
    return &cpu->backend;
}
