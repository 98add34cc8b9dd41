#pragma once
/* The inner norm, the inner gradient and its derivative, by rows of tiles whose columns are spread
 * over the warps of a block (ttt_tile.cuh). Sums over a whole row take a part from each warp. The
 * parts are sums around the warp's own mean, so that nothing cancels however far a row's values lie
 * from 0, and so that mean, variance and the means that depend on them need one barrier:
 *   (a) each warp puts its part (*_part)   (b) barrier   (c) every lane joins the parts of its
 *   two rows (*_join).
 * / */
#include "cuda/ttt_tile.cuh"

/* Of four values in each lane of a quad, lane q gets the sum over the quad of value q. */
static __device__ __forceinline__ float quad_sums(float v0, float v1, float v2, float v3)
{
    bool high = threadIdx.x & 2, odd = threadIdx.x & 1;
    float a = (high ? v2 : v0) + __shfl_xor_sync(~0u, high ? v0 : v2, 2);
    float b = (high ? v3 : v1) + __shfl_xor_sync(~0u, high ? v1 : v3, 2);
    return (odd ? b : a) + __shfl_xor_sync(~0u, odd ? a : b, 1);
}

/* Floats from row to row of arrays of parts, and where a row's part of a warp lies: Size floats,
 * 4 or 8. */
template <int Warps, int Size> __host__ __device__ constexpr int part_stride()
{
    return Warps * Size + 4; /* rows start in different banks */
}

template <int Warps, int Size>
static __device__ __forceinline__ float *part_at(float *parts, int row, int warp)
{
    return parts + row * part_stride<Warps, Size>() + warp * Size;
}

/* Rows of z and what the inner gradient makes of them (ttt.h; t is the target v - k):
 *   zh = (z - mean z) inverse,  inverse = 1 / sqrt(var z + eps),  e = gamma zh + beta - t,  y =
 *   gamma e, g = (y - mean y - zh mean(y zh)) inverse. */
struct InnerRow {
    float mean, inverse;
    float y, yz;   /* mean y, mean y zh */
    float gz, gzz; /* means of gamma^2 zh, gamma^2 zh^2, for backward */
};

/* Puts this warp's part for both rows. gamma, beta: of the lane's columns; parts: 16 rows of
 * Warps parts of 8: sums of zc^2, gamma^2 zc, gamma^2 zc^2, a zc; the warp's mean; sums of a and
 * gamma^2, where zc = z - the warp's mean, a = gamma (beta - t). */
template <int Warps, int Tiles>
static __device__ __forceinline__ void inner_part(float *parts, int warp,
                                                  const float (&z)[Tiles][4],
                                                  const float (&target)[Tiles][4],
                                                  const float (&gamma)[Tiles][2],
                                                  const float (&beta)[Tiles][2])
{
    int lane = threadIdx.x % 32;
    float gg = 0;
#pragma unroll
    for (int j = 0; j < Tiles; j++) {
        gg += gamma[j][0] * gamma[j][0] + gamma[j][1] * gamma[j][1];
    }
    gg = quad_sum(gg);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float mean = 0, a_sum = 0, zz = 0, gz = 0, gzz = 0, az = 0;
#pragma unroll
        for (int j = 0; j < Tiles; j++) {
            mean += z[j][2 * half] + z[j][2 * half + 1];
        }
        mean = quad_sum(mean) * (1.0f / (8 * Tiles));
#pragma unroll
        for (int j = 0; j < Tiles; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float c = z[j][2 * half + i] - mean, square = gamma[j][i] * gamma[j][i];
                float a = gamma[j][i] * (beta[j][i] - target[j][2 * half + i]);
                zz += c * c;
                gz += square * c;
                gzz += square * c * c;
                az += a * c;
                a_sum += a;
            }
        }
        float *part = part_at<Warps, 8>(parts, lane / 4 + 8 * half, warp);
        a_sum = quad_sum(a_sum);
        part[lane % 4] = quad_sums(zz, gz, gzz, az);
        if (lane % 4 == 0) {
            *reinterpret_cast<float4 *>(part + 4) = make_float4(mean, a_sum, gg, 0);
        }
    }
}

template <int Warps, int Tiles>
static __device__ __forceinline__ InnerRow inner_join(float *parts, int row, float eps)
{
    constexpr float columns = 8 * Tiles, every = 1.0f / (Warps * 8 * Tiles);
    const float *of_row = part_at<Warps, 8>(parts, row, 0);
    float mean = 0, zz = 0, gz = 0, gzz = 0, az = 0, a_sum = 0;
#pragma unroll
    for (int w = 0; w < Warps; w++) {
        mean += of_row[8 * w + 4];
    }
    mean *= 1.0f / Warps;
#pragma unroll
    for (int w = 0; w < Warps; w++) {
        float4 sums = *reinterpret_cast<const float4 *>(of_row + 8 * w);
        float4 rest = *reinterpret_cast<const float4 *>(of_row + 8 * w + 4);
        float away = rest.x - mean;
        zz += sums.x + columns * away * away;
        gz += sums.y + away * rest.z;
        gzz += sums.z + away * (2 * sums.y + away * rest.z);
        az += sums.w + away * rest.y;
        a_sum += rest.y;
    }
    InnerRow r;
    r.mean = mean;
    r.inverse = rsqrtf(zz * every + eps);
    r.gz = gz * every * r.inverse;
    r.gzz = gzz * every * r.inverse * r.inverse;
    r.y = r.gz + a_sum * every;
    r.yz = r.gzz + az * every * r.inverse;
    return r;
}

/* The mean of gamma^2, from the parts of any row. */
template <int Warps, int Tiles>
static __device__ __forceinline__ float mean_gamma_square(const float *parts)
{
    float sum = 0;
#pragma unroll
    for (int w = 0; w < Warps; w++) {
        sum += parts[8 * w + 6];
    }
    return sum * (1.0f / (Warps * 8 * Tiles));
}

/* z becomes zh, and the other two are made from it. */
template <int Tiles>
static __device__ __forceinline__ void inner_gradient(
    float (&z)[Tiles][4], float (&e)[Tiles][4], float (&g)[Tiles][4], const InnerRow (&row)[2],
    const float (&target)[Tiles][4], const float (&gamma)[Tiles][2], const float (&beta)[Tiles][2])
{
#pragma unroll
    for (int j = 0; j < Tiles; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const InnerRow &r = row[i / 2];
            z[j][i] = (z[j][i] - r.mean) * r.inverse;
            e[j][i] = gamma[j][i % 2] * z[j][i] + beta[j][i % 2] - target[j][i];
            g[j][i] = (gamma[j][i % 2] * e[j][i] - r.y - z[j][i] * r.yz) * r.inverse;
        }
    }
}

/* Mean and variance of rows of z, and the means of x and x zh for the pull of x through the norm,
 * dz = (x - mean x - zh mean(x zh)) inverse. */
struct NormRow {
    float mean, inverse;
    float x, xz;
};

/* parts: 16 rows of Warps parts of 4: the warp's mean, sums of zc^2, x zc, x; without Pull
 * the last two are not there and x is not read. */
template <int Warps, int Tiles, bool Pull>
static __device__ __forceinline__ void norm_part(float *parts, int warp, const float (&z)[Tiles][4],
                                                 const float (&x)[Tiles][4])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float mean = 0, zz = 0, xz = 0, x_sum = 0;
#pragma unroll
        for (int j = 0; j < Tiles; j++) {
            mean += z[j][2 * half] + z[j][2 * half + 1];
        }
        mean = quad_sum(mean) * (1.0f / (8 * Tiles));
#pragma unroll
        for (int j = 0; j < Tiles; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float c = z[j][2 * half + i] - mean;
                zz += c * c;
                if constexpr (Pull) {
                    xz += x[j][2 * half + i] * c;
                    x_sum += x[j][2 * half + i];
                }
            }
        }
        float *part = part_at<Warps, 4>(parts, lane / 4 + 8 * half, warp);
        if constexpr (Pull) {
            /* The mean is the same in all four lanes. */
            part[lane % 4] = quad_sums(0.25f * mean, zz, xz, x_sum);
        } else {
            zz = quad_sum(zz);
            if (lane % 4 == 0) {
                *reinterpret_cast<float2 *>(part) = make_float2(mean, zz);
            }
        }
    }
}

template <int Warps, int Tiles, bool Pull>
static __device__ __forceinline__ NormRow norm_join(float *parts, int row, float eps)
{
    constexpr float columns = 8 * Tiles, every = 1.0f / (Warps * 8 * Tiles);
    const float *of_row = part_at<Warps, 4>(parts, row, 0);
    float mean = 0, zz = 0, xz = 0, x_sum = 0;
#pragma unroll
    for (int w = 0; w < Warps; w++) {
        mean += of_row[4 * w];
    }
    mean *= 1.0f / Warps;
#pragma unroll
    for (int w = 0; w < Warps; w++) {
        float4 sums = *reinterpret_cast<const float4 *>(of_row + 4 * w);
        float away = sums.x - mean;
        zz += sums.y + columns * away * away;
        if constexpr (Pull) {
            xz += sums.z + away * sums.w;
            x_sum += sums.w;
        }
    }
    NormRow r;
    r.mean = mean;
    r.inverse = rsqrtf(zz * every + eps);
    r.x = x_sum * every;
    r.xz = xz * every * r.inverse;
    return r;
}

/* ---- The inner gradient's derivative, for dg = rate du given ---- */

/* With r = dg inverse, the row means of r, r zh, gamma^2 r, gamma^2 r zh; the sum of du g, and
 * the mean of dg g. */
struct PullRow {
    float factor; /* r / du */
    float r, rz, gr, grz;
    float dot, dgg;
};

/* parts: 16 rows of Warps parts of 8: sums of du, du zh, gamma^2 du, gamma^2 du zh; of du y. */
template <int Warps, int Tiles>
static __device__ __forceinline__ void pull_part(float *parts, int warp,
                                                 const float (&du)[Tiles][4],
                                                 const float (&zh)[Tiles][4],
                                                 const float (&e)[Tiles][4],
                                                 const float (&gamma)[Tiles][2])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = 0, uz = 0, gu = 0, guz = 0, uy = 0;
#pragma unroll
        for (int j = 0; j < Tiles; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float value = du[j][2 * half + i], z = zh[j][2 * half + i];
                float weighted = gamma[j][i] * value, square = gamma[j][i] * weighted;
                sum += value;
                uz += value * z;
                gu += square;
                guz += square * z;
                uy += weighted * e[j][2 * half + i];
            }
        }
        float *part = part_at<Warps, 8>(parts, lane / 4 + 8 * half, warp);
        uy = quad_sum(uy);
        part[lane % 4] = quad_sums(sum, uz, gu, guz);
        if (lane % 4 == 0) {
            part[4] = uy;
        }
    }
}

template <int Warps, int Tiles>
static __device__ __forceinline__ PullRow pull_join(float *parts, int row, const InnerRow &inner,
                                                    float rate)
{
    constexpr float every = 1.0f / (Warps * 8 * Tiles);
    const float *of_row = part_at<Warps, 8>(parts, row, 0);
    float sum = 0, uz = 0, gu = 0, guz = 0, uy = 0;
#pragma unroll
    for (int w = 0; w < Warps; w++) {
        float4 sums = *reinterpret_cast<const float4 *>(of_row + 8 * w);
        sum += sums.x;
        uz += sums.y;
        gu += sums.z;
        guz += sums.w;
        uy += of_row[8 * w + 4];
    }
    PullRow p;
    p.factor = rate * inner.inverse;
    p.r = sum * p.factor * every;
    p.rz = uz * p.factor * every;
    p.gr = gu * p.factor * every;
    p.grz = guz * p.factor * every;
    p.dot = (uy - inner.y * sum - inner.yz * uz) * inner.inverse; /* g by its definition */
    p.dgg = rate * p.dot * every;
    return p;
}

/* du becomes dz, e becomes de, the gradient of e; gamma's and beta's gradients of the lane's rows
 * are added. The target's gradient is -de. With dy = r - mean r - zh mean(r zh):
 *   de = gamma dy,  dzh = -mean(y zh) r - mean(r zh) y + gamma de,
 *   dz = (dzh - mean dzh - zh mean(dzh zh) - zh mean(dg g)) inverse. */
template <int Tiles>
static __device__ __forceinline__ void pull_inner(
    float (&du)[Tiles][4], float (&e)[Tiles][4], const float (&zh)[Tiles][4],
    const float (&gamma)[Tiles][2], float gamma_square, const InnerRow (&row)[2],
    const PullRow (&pull)[2], float (&dgamma)[Tiles][2], float (&dbeta)[Tiles][2])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const InnerRow &n = row[half];
        const PullRow &p = pull[half];
        float mean = p.gr - n.yz * p.r - p.rz * n.y - p.r * gamma_square - p.rz * n.gz;
        float mean_z = p.grz - 2 * p.rz * n.yz - p.r * n.gz - p.rz * n.gzz + p.dgg;
#pragma unroll
        for (int j = 0; j < Tiles; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float weight = gamma[j][i], z = zh[j][2 * half + i];
                float &value = du[j][2 * half + i], &error = e[j][2 * half + i];
                float r = value * p.factor;
                float dy = r - p.r - p.rz * z;
                float de = weight * dy;
                float dzh = weight * de - n.yz * r - p.rz * weight * error;
                dgamma[j][i] += dy * error + de * z;
                dbeta[j][i] += de;
                value = (dzh - mean - mean_z * z) * n.inverse;
                error = de;
            }
        }
    }
}
