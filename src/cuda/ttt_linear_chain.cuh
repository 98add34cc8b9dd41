#pragma once
/* What walks the chains of TTT-Linear on tensor cores where sequences and heads are too few to fill
 * the GPU with a block each. What a mini-batch gets from its neighbour is the state, and in the
 * backward pass the gradient of the state; a chain of mini-batches is walked for these alone, in
 * steps as short as they can be, and the rest is done by blocks that have some mini-batches of a
 * chain each:
 *   forward: scan (states), outputs.
 *   backward: scan, records (what the reverse chain needs and does not depend on it), the reverse
 *   chain (gradients of states), then linear_backward with these given.
 * Of the warps of a block that walks a chain some bring and prepare what D/16 others multiply. All
 * meet at one barrier per mini-batch, which is the one between parts of row sums and their use:
 * before barrier s it is written what is read behind it for mini-batch s + 1. One more warp takes
 * what the chain leaves from a ring in shared memory to global memory, and tells how far it is:
 * blocks of the next pass, which begin as soon as all chains have (launch_behind_chains), wait for
 * that.
 */
#include "cuda/ttt_linear.cuh"
#include "cuda/wgmma.cuh"

#define CHAIN_BARRIER 1
#define PUBLISH 8 /* states that are told of at a time */

/* The chains' kernels are for compute capability 9.0 and up; below, they are compiled empty. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define CHAIN_CODE 1
#else
#define CHAIN_CODE 0
#endif

static __device__ __forceinline__ void get_four(float (&c)[4], const float4 &from)
{
    c[0] = from.x;
    c[1] = from.y;
    c[2] = from.z;
    c[3] = from.w;
}

/* ---- States on their way to memory ---- */

/* Wait until all but the newest `Pending` of this thread's stores have read shared memory; until
 * they are done. */
template <int Pending> static __device__ __forceinline__ void stores_wait_read_but()
{
    asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(Pending) : "memory");
}

template <int Pending> static __device__ __forceinline__ void stores_wait_but()
{
    asm volatile("cp.async.bulk.wait_group %0;\n" ::"n"(Pending) : "memory");
}

/* A ring of states, laid out as in memory, and two barriers for each place of it: that it is full,
 * and that it is free again. */
template <int D> struct StateRing {
    static constexpr int count_of = D == 96 ? 3 : 4; /* as many as there is room for */
    static constexpr int bytes = count_of * (int)state_bytes(D), barrier_bytes = count_of * 16;
    unsigned char *places;
    uint32_t barriers;

    __device__ __forceinline__ StateRing(unsigned char *at, unsigned char *of_barriers)
        : places(at), barriers(shared_address(of_barriers))
    {
    }

    __device__ __forceinline__ uint32_t full(int number) const
    {
        return barriers + (unsigned)number % count_of * 16;
    }

    __device__ __forceinline__ uint32_t free(int number) const
    {
        return full(number) + 8;
    }

    __device__ __forceinline__ unsigned char *place(int number) const
    {
        return places + (unsigned)number % count_of * (int)state_bytes(D);
    }

    /* By one thread. */
    __device__ __forceinline__ void init() const
    {
        for (int i = 0; i < count_of; i++) {
            barrier_init(full(i), 1);
            barrier_init(free(i), 1);
        }
    }

    /* Writes four 8 x 8 matrices as they lie in registers: lane 8 m + r gives the address of row r
     * of matrix m. */
    static __device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&r)[4])
    {
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address),
            "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
            : "memory");
    }

    /* A slice of a matrix, rounded, with its vector, by the warps that have them; a barrier
     * follows. */
    __device__ __forceinline__ void put(int number, const uint32_t (&slice)[D / 16][4],
                                        const float (&vector)[2][2], int warp) const
    {
        int lane = threadIdx.x % 32;
        unsigned char *to = place(number);
        uint32_t at = shared_address(to);
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            store_matrices(lane_along<D>(at, 16 * warp, 2 * k), slice[k]);
        }
        if (lane < 8) { /* lane % 4 for its columns, lane / 4 for the eight they are in */
            float *columns =
                reinterpret_cast<float *>(to + 2 * D * D) + 16 * warp + lane / 4 * 8 + lane % 4 * 2;
            *reinterpret_cast<float2 *>(columns) = lane < 4
                                                       ? make_float2(vector[0][0], vector[0][1])
                                                       : make_float2(vector[1][0], vector[1][1]);
        }
    }

    /* Before the barrier behind which the place of `number` is written. */
    __device__ __forceinline__ void await_place(int number) const
    {
        if (number >= count_of) {
            barrier_wait(free(number), (number / count_of - 1) % 2);
        }
    }

    /* By one thread, behind the barrier before which it was put. */
    __device__ __forceinline__ void pass_on(int number) const
    {
        barrier_arrive(full(number));
    }

    /* By one thread: takes `count` of them to at(number), in order. counter: of those that are
     * there, or NULL. */
    template <typename At>
    __device__ __forceinline__ void take_out(int count, unsigned *counter, At at) const
    {
#pragma unroll 1
        for (int i = 0; i < count; i++) {
            barrier_wait(full(i), i / count_of % 2);
            writes_ready(); /* what others wrote, and this thread has waited for */
            numbers_store(reinterpret_cast<float *>(at(i)), shared_address(place(i)),
                          (uint32_t)state_bytes(D));
            stores_wait_read_but<1>();
            if (i > 0) {
                barrier_arrive(free(i - 1));
            }
            if (counter != NULL && i % PUBLISH == PUBLISH - 1) {
                stores_wait_but<3>();
                counter_publish(counter, (unsigned)(i - 2));
            }
        }
        stores_wait();
        if (counter != NULL) {
            counter_publish(counter, (unsigned)count);
        }
    }
};

/* c = rows times the slice, as two sums that do not wait for each other. */
template <int D>
static __device__ __forceinline__ void product_slice(float (&c)[2][4],
                                                     const uint32_t (&rows)[D / 16][4],
                                                     const uint32_t (&slice)[D / 16][4])
{
    float other[2][4];
    set_all(c, 0);
    set_all(other, 0);
#pragma unroll
    for (int k = 0; k < D / 16; k += 2) {
        product_16(c, rows[k], slice[k]);
        product_16(other, rows[k + 1], slice[k + 1]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        c[i / 4][i % 4] += other[i / 4][i % 4];
    }
}

template <int D>
static __device__ __forceinline__ void load_rows(uint32_t (&rows)[D / 16][4], uint32_t tile)
{
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        load_a<D>(rows[k], tile, 0, 2 * k);
    }
}

/* A tile as add_to_slice takes it. */
template <int D>
static __device__ __forceinline__ void load_columns(uint32_t (&columns)[D / 16][4], uint32_t tile)
{
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        load_b_columns<D>(columns[k], tile, 0, 2 * k);
    }
}

/* slice += a times the rows of the tile. */
template <int D>
static __device__ __forceinline__ void add_columns_to(float (&slice)[D / 8][4],
                                                      const uint32_t (&a)[4],
                                                      const uint32_t (&columns)[D / 16][4])
{
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        product(slice[2 * k], a, columns[k][0], columns[k][1]);
        product(slice[2 * k + 1], a, columns[k][2], columns[k][3]);
    }
}

/* A chain has a processor of its own where other kernels run beside it. */
static inline int shared_of(const CudaBackend *backend, const TttLinearArgs &args, int bytes)
{
    return args.ready != NULL ? backend->shared_bytes : bytes;
}
