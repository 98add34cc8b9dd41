#pragma once
/* What Hopper (compute capability 9.0) has beyond older GPUs, one function per instruction:
 * products of a whole warpgroup (four warps) with operands read from shared memory, tensor copies,
 * and the barriers that count the bytes of such copies. The instructions exist only in code for
 * sm_90a, where __CUDA_ARCH_FEAT_SM90_ALL is set.
 *
 * Tiles in shared memory are panels of 64 bf16 columns: rows of 128 bytes, one after the other,
 * with the eight 16-byte chunks of a row permuted by the row's number (chunk c of row r lies at
 * place c ^ r % 8). Tensor copies write that order and products read it; a panel starts at a
 * multiple of 1024 bytes.
 *
 * Fragments of a warpgroup, rows 16 w to 16 w + 15 being those of its warp w: as in
 * attention_flash.cuh, of C with element i of 8-column group j at [4 j + i]. */
#include <cuda.h>
#include <stdint.h>

#define WARPGROUP 128 /* threads */
#define PANEL_COLUMNS 64
#define PANEL_ROW 128 /* bytes */
#define PANEL_ALIGN 1024

/* ---- Where products find their operands ---- */

/* The lower half of the descriptor of a panel at shared address `at`. lead: bytes to the next
 * panel, used where columns are more than one panel's and not what is summed over. Bytes / 16
 * may be added to it. */
static __host__ __device__ constexpr uint32_t panel_descriptor(uint32_t at, uint32_t lead)
{
    return (at & 0x3FFFF) >> 4 | (lead >> 4) << 16;
}

/* The upper half, of all: 1024 bytes from eight rows to the next eight; chunks permuted as
 * above. */
#define PANEL_UPPER (PANEL_ROW * 8 >> 4 | 1 << 30)

/* Steps of 16 in what is summed over, to add to a descriptor: 16 columns of a tile whose panels
 * have `rows` rows (operands with their columns summed over), or 16 rows (operands with their
 * rows summed over). */
static __host__ __device__ constexpr uint32_t columns_step(int step, int rows)
{
    return (step / 4 * rows * PANEL_ROW + step % 4 * 32) >> 4;
}

static __host__ __device__ constexpr uint32_t rows_step(int step)
{
    return step * 16 * PANEL_ROW >> 4;
}

/* ---- Products ---- */

/* Before the first product, and after registers of operands or sums were written. */
static __device__ __forceinline__ void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

static __device__ __forceinline__ void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

/* Waits until at most `Pending` of the newest groups are under way. */
template <int Pending> static __device__ __forceinline__ void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
}

/* Keeps the compiler from moving uses of registers across this place: it does not know that
 * products write and read them until they are waited for. */
template <int Count> static __device__ __forceinline__ void pin(float (&r)[Count])
{
#pragma unroll
    for (int i = 0; i < Count; i++) {
        asm volatile("" : "+f"(r[i])::"memory");
    }
}

template <int Count> static __device__ __forceinline__ void pin(uint32_t (&r)[Count][4])
{
#pragma unroll
    for (int i = 0; i < 4 * Count; i++) {
        asm volatile("" : "+r"(r[i / 4][i % 4])::"memory");
    }
}

/* clang-format off */
#define REGISTERS_8(use, c, i) \
    use(c[i]), use(c[i + 1]), use(c[i + 2]), use(c[i + 3]), \
    use(c[i + 4]), use(c[i + 5]), use(c[i + 6]), use(c[i + 7])
#define REGISTERS_32(use, c, i) \
    REGISTERS_8(use, c, i), REGISTERS_8(use, c, i + 8), \
    REGISTERS_8(use, c, i + 16), REGISTERS_8(use, c, i + 24)
#define REGISTERS_64(use, c, i) REGISTERS_32(use, c, i), REGISTERS_32(use, c, i + 32)
#define NAMES_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64 NAMES_32 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* A product of two operands in shared memory. use: "+f" with add "1", or "=f" with add "0", by
 * which the compiler knows that the sums' registers are new. rows_b: "0" where b's columns are
 * summed over, "1" where its rows are. first, second, third: names of the operands after the
 * sums. */
#define PRODUCT_OF_SHARED(use, c, count, columns, first, second, third, add, rows_b) \
    asm volatile("{\n" \
                 ".reg .b64 a, b;\n" \
                 "mov.b64 a, {%" first ", %" third "};\n" \
                 "mov.b64 b, {%" second ", %" third "};\n" \
                 "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.bf16.bf16 " \
                 "{" NAMES_##count "}, a, b, " add ", 1, 1, 0, " rows_b ";\n" \
                 "}\n" \
                 : REGISTERS_##count(use, c, 0) \
                 : "r"(a), "r"(b), "r"(PANEL_UPPER))

/* c (64,N) = or, with Add, += a b^T for 16 columns of a (64 rows) and b (N rows), both in shared
 * memory; N = 128 or 64. */
template <bool Add>
static __device__ __forceinline__ void product_rows(float (&c)[64], uint32_t a, uint32_t b)
{
    if constexpr (Add) {
        PRODUCT_OF_SHARED("+f", c, 64, "128", "64", "65", "66", "1", "0");
    } else {
        PRODUCT_OF_SHARED("=f", c, 64, "128", "64", "65", "66", "0", "0");
    }
}

template <bool Add>
static __device__ __forceinline__ void product_rows(float (&c)[32], uint32_t a, uint32_t b)
{
    if constexpr (Add) {
        PRODUCT_OF_SHARED("+f", c, 32, "64", "32", "33", "34", "1", "0");
    } else {
        PRODUCT_OF_SHARED("=f", c, 32, "64", "32", "33", "34", "0", "0");
    }
}

/* c (64,64) = or, with Add, += a b for 16 columns of a (64 rows) and 16 rows of b (64 columns),
 * both in shared memory. */
template <bool Add>
static __device__ __forceinline__ void product_across(float (&c)[32], uint32_t a, uint32_t b)
{
    if constexpr (Add) {
        PRODUCT_OF_SHARED("+f", c, 32, "64", "32", "33", "34", "1", "1");
    } else {
        PRODUCT_OF_SHARED("=f", c, 32, "64", "32", "33", "34", "0", "1");
    }
}

/* c (64,N) = or, with `add`, += a b: a (64,16) in registers, b 16 rows of N columns in shared
 * memory; N = 128 or 64. */
static __device__ __forceinline__ void product_columns(float (&c)[64], const uint32_t (&a)[4],
                                                       uint32_t b, bool add = true)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 ".reg .b64 b;\n"
                 "setp.ne.b32 add, %70, 0;\n"
                 "mov.b64 b, {%68, %69};\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES_64 "}, "
                 "{%64, %65, %66, %67}, b, add, 1, 1, 1;\n"
                 "}\n"
                 : REGISTERS_64("+f", c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(PANEL_UPPER),
                   "r"((int)add));
}

static __device__ __forceinline__ void product_columns(float (&c)[32], const uint32_t (&a)[4],
                                                       uint32_t b, bool add = true)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 ".reg .b64 b;\n"
                 "setp.ne.b32 add, %38, 0;\n"
                 "mov.b64 b, {%36, %37};\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES_32 "}, "
                 "{%32, %33, %34, %35}, b, add, 1, 1, 1;\n"
                 "}\n"
                 : REGISTERS_32("+f", c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(PANEL_UPPER),
                   "r"((int)add));
}
/* clang-format on */

/* ---- Barriers in shared memory ---- */

/* A barrier goes through phases 0, 1, 2, ...; a phase ends when `arrivals` threads have arrived
 * and all bytes expected in it are there. Initialised by one thread; others may use it after
 * barriers_ready and __syncthreads. */
static __device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

static __device__ __forceinline__ void barriers_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;\n"
                 "fence.proxy.async.shared::cta;\n" ::
                     : "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

/* Arrives, and has this phase wait for `bytes` of tensor copies too. */
static __device__ __forceinline__ void barrier_arrive_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

/* Waits for the end of the current phase if its number modulo 2 is `parity`; if it is not, that
 * phase has ended. Thus a wait for parity 1 on a fresh barrier returns at once. */
static __device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    do {
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, done;\n"
                     "}\n"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (done == 0);
}

/* The hardware's numbered barriers, of which __syncthreads takes number 0: `threads` in all,
 * those that wait and those that only arrive. */
static __device__ __forceinline__ void numbered_wait(int number, int threads)
{
    asm volatile("bar.sync %0, %1;\n" ::"r"(number), "r"(threads) : "memory");
}

static __device__ __forceinline__ void numbered_arrive(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;\n" ::"r"(number), "r"(threads) : "memory");
}

/* ---- Tensor copies ---- */

/* Starts to copy the box of `map` at (column, row, batch) to shared memory; elements beyond the
 * tensor become zero. All of the box's bytes count for `barrier`. By one thread. */
static __device__ __forceinline__ void box_load(uint32_t to, const CUtensorMap *map, int column,
                                                int row, int batch, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];\n" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(batch), "r"(barrier)
                 : "memory");
}

/* Starts to copy `bytes`, a multiple of 16, that lie one after the other. */
static __device__ __forceinline__ void bytes_load(uint32_t to, const void *from, uint32_t bytes,
                                                  uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];\n" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* Starts to bring bytes of global memory, multiples of 16, to the cache of the device. */
static __device__ __forceinline__ void bytes_prefetch(const void *from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(from), "r"(bytes) : "memory");
}

/* Start to store f32 numbers that lie in shared memory, or to add them to those in global
 * memory. */
static __device__ __forceinline__ void numbers_store(float *to, uint32_t from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;\n" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void numbers_add(float *to, uint32_t from, uint32_t bytes)
{
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;\n" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}

/* Wait until this thread's stores and adds have read shared memory; until they are done. */
static __device__ __forceinline__ void stores_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;\n" ::: "memory");
}

static __device__ __forceinline__ void stores_wait()
{
    asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory");
}

/* Between what a thread wrote to shared memory and products or copies that read it: by that
 * thread, before it tells others. */
static __device__ __forceinline__ void writes_ready()
{
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

/* Writes four transposed 8 x 8 matrices, as they lie in an A fragment: lane 8 m + r gives the
 * address of 16 bytes for column r of matrix m. */
static __device__ __forceinline__ void store_transposed(uint32_t address, const uint32_t (&a)[4])
{
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address),
        "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
        : "memory");
}

static __device__ __forceinline__ void map_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}

/* ---- Counters in global memory by which blocks pass on what their copies wrote ---- */

static __device__ __forceinline__ void counter_publish(unsigned *counter, unsigned value)
{
    asm volatile("fence.proxy.async.global;\n"
                 "st.release.gpu.global.u32 [%0], %1;\n" ::"l"(counter),
                 "r"(value)
                 : "memory");
}

static __device__ __forceinline__ void counter_await(const unsigned *counter, unsigned value)
{
    unsigned now;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(now) : "l"(counter) : "memory");
    } while (now != value);
    asm volatile("fence.proxy.async.global;\n" ::: "memory");
}

/* ---- Registers: a warpgroup gives up some, or waits until it has as many ---- */

template <int Count> static __device__ __forceinline__ void registers_shrink()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Count));
}

template <int Count> static __device__ __forceinline__ void registers_grow()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Count));
}
