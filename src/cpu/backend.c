/* The CPU backend: memory in huge pages, and a table of operations that starts as the reference's
 * and is overridden by the kernels of the best instruction set this machine has. PACER_SIMD in the
 * environment (base, v3, v4) picks another one, which is how a test reaches them all. */
#include "cpu/cpu.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "cpu/threads.h"
#include "ref/ref.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

typedef struct {
    const char *name;
    bool supported;
    void (*fill)(Ops *ops);
} Isa;

#define ISA_COUNT 3

/* Best last. */
static void list_isas(Isa isas[ISA_COUNT])
{
    isas[0] = (Isa){"base", true, kernels_fill_base};
    isas[1] = (Isa){"v3", false, NULL};
    isas[2] = (Isa){"v4", false, NULL};
#ifdef PACER_ISA_X86
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    isas[1] = (Isa){"v3", v3, kernels_fill_v3};
    isas[2] = (Isa){"v4", v4, kernels_fill_v4};
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

/* Zeroed at once, by all threads: the pages are then really there, so that what is available stays
 * true and no step pays for them. */
static void *host_alloc(Backend *backend, size_t bytes)
{
    size_t available = backend->available(backend);
    if (bytes > SIZE_MAX - HUGE_PAGE || (available > 0 && bytes > available)) {
        return NULL;
    }
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : ARENA_ALIGN;
    size_t rounded = (bytes + align - 1) / align * align;
    void *block = aligned_alloc(align, rounded > 0 ? rounded : align);
    if (block != NULL) {
        if (align == HUGE_PAGE) {
            madvise(block, rounded, MADV_HUGEPAGE); /* advice: small pages do as well */
        }
        threads_copy(block, NULL, rounded, backend->threads);
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
    free(cpu);
}

const char *cpu_backend_isa(const Backend *backend)
{
    return ((const CpuBackend *)backend)->isa;
}

Backend *cpu_backend_open(int threads)
{
    PACER_ASSERT(threads > 0, "%d threads", threads);
    Isa isa = {0};
    if (choose_isa(&isa) != 0) {
        return NULL;
    }
    threads_shield(threads);
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
    const char *missing = ops_missing(&cpu->backend.ops);
    PACER_ASSERT(missing == NULL, "cpu has no %s", missing);
    return &cpu->backend;
}
