/* Column sums of tall matrices. The rows are cut into bands; a block sums 32 pieces of columns
 * over one band, its warps taking turns with the rows, and writes one row of partial sums. The
 * partial sums of the bands are then folded in order, so that the result does not depend on the
 * schedule. */
#include "cuda/device.cuh"

#define SUM_WARPS 8
#define SUM_ROWS 8   /* rows that a thread has in flight */
#define SUM_BLOCKS 4 /* to a processor, all resident, so that they end together */

#define FOLD_SLICES 32
#define FOLD_FLIGHT 8 /* partial sums that a thread has in flight */

/* partials (bands, width): row of band blockIdx.y, columns of tile blockIdx.x. */
template <typename T, int LANES>
__global__ void __launch_bounds__(WARP *SUM_WARPS, SUM_BLOCKS)
    band_sums(const T *x, int64_t rows, int64_t width, int64_t band, float *partials)
{
    await_previous();
    __shared__ float of_warp[SUM_WARPS][LANES][WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t column = ((int64_t)blockIdx.x * WARP + lane) * LANES;
    int64_t first = blockIdx.y * band, last = min(first + band, rows);
    bool inside = column < width;
    float sum[LANES] = {};
    if (inside) {
        const T *from = x + (first + warp) * width + column;
        int64_t count = steps_below(first + warp, last, SUM_WARPS);
        add_many_lanes<SUM_ROWS, false>(from, SUM_WARPS * width, count, sum);
    }
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        of_warp[warp][k][lane] = sum[k];
    }
    __syncthreads();
    if (warp == 0 && inside) {
        for (int w = 1; w < SUM_WARPS; w++) {
#pragma unroll
            for (int k = 0; k < LANES; k++) {
                sum[k] += of_warp[w][k][lane];
            }
        }
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            partials[blockIdx.y * width + column + k] = sum[k];
        }
    }
}

/* One column per lane; the warps, FOLD_SLICES at most, take turns with the rows of partials, of
 * which there are `count`, `stride` apart. Columns from `width` on belong to b. */
__global__ void __launch_bounds__(WARP *FOLD_SLICES)
    fold_partials(const float *partials, int count, int64_t width, int64_t stride, float *a,
                  float *b, bool add)
{
    await_previous();
    __shared__ float of_slice[FOLD_SLICES][WARP];
    int lane = threadIdx.x % WARP, slice = threadIdx.x / WARP, slices = blockDim.x / WARP;
    int64_t column = (int64_t)blockIdx.x * WARP + lane;
    float sum = 0;
    if (column < stride) {
        for (int i = slice; i < count; i += FOLD_FLIGHT * slices) {
            float value[FOLD_FLIGHT];
#pragma unroll
            for (int j = 0; j < FOLD_FLIGHT; j++) {
                int row = i + j * slices;
                value[j] = row < count ? partials[row * stride + column] : 0;
            }
#pragma unroll
            for (int j = 0; j < FOLD_FLIGHT; j++) {
                sum += value[j];
            }
        }
    }
    of_slice[slice][lane] = sum;
    __syncthreads();
    if (slice == 0 && column < stride) {
        for (int i = 1; i < slices; i++) {
            sum += of_slice[i][lane];
        }
        float *out = column < width ? a + column : b + (column - width);
        *out = add ? *out + sum : sum;
    }
}

void cuda_fold_partials(cudaStream_t stream, const float *partials, int count, int64_t width,
                        float *a, float *b, Mode mode)
{
    int64_t stride = b != NULL ? 2 * width : width;
    unsigned blocks = (unsigned)ceil_div(stride, WARP);
    unsigned threads = WARP * (unsigned)clamp_to(count, 1, FOLD_SLICES);
    cuda_start(fold_partials, blocks, threads, 0, stream, partials, count, width, stride, a, b,
               mode == MODE_ADD);
    CUDA_LAUNCHED("fold_partials");
}

/* Rows of a band, so that the bands fill the device with blocks: whole rounds, since the rows of
 * a round are in flight together, and those beyond the last one are not. */
static int64_t band_rows(const Ctx *c, Tensor x)
{
    const int64_t round = SUM_WARPS * SUM_ROWS;
    int64_t tiles = ceil_div(x.dim[1], WARP * 16 / (int64_t)dtype_size(x.dtype));
    int64_t rounds = ceil_div(x.dim[0], round);
    int64_t bands = clamp_to(SUM_BLOCKS * (int64_t)cuda_of(c)->processors / tiles, 1, rounds);
    return ceil_div(rounds, bands) * round;
}

static int band_count(const Ctx *c, Tensor x)
{
    return (int)ceil_div(x.dim[0], band_rows(c, x));
}

size_t cuda_column_sum_ws(const Ctx *c, Tensor x)
{
    return (size_t)band_count(c, x) * (size_t)x.dim[1] * sizeof(float);
}

template <typename T> static void launch_band_sums(Ctx *c, Tensor x, float *partials)
{
    cudaStream_t stream = cuda_of(c)->stream;
    const T *data = (const T *)x.data;
    int64_t rows = x.dim[0], width = x.dim[1], band = band_rows(c, x);
    unsigned bands = (unsigned)band_count(c, x);
    constexpr int lanes = wide_lanes<T>;
    if (aligned_16(data) && width % lanes == 0) {
        dim3 grid((unsigned)ceil_div(width, WARP * lanes), bands);
        cuda_start(band_sums<T, lanes>, grid, WARP * SUM_WARPS, 0, stream, data, rows, width, band,
                   partials);
    } else {
        dim3 grid((unsigned)ceil_div(width, WARP), bands);
        cuda_start(band_sums<T, 1>, grid, WARP * SUM_WARPS, 0, stream, data, rows, width, band,
                   partials);
    }
    CUDA_LAUNCHED("band_sums");
}

void cuda_column_sum(Ctx *c, Tensor x, Tensor out, Mode mode, void *ws)
{
    CUDA_FOR_TYPE(x.dtype, launch_band_sums, c, x, (float *)ws);
    cuda_fold_partials(cuda_of(c)->stream, (const float *)ws, band_count(c, x), x.dim[1],
                       (float *)out.data, NULL, mode);
}
