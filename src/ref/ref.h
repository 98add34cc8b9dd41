#pragma once
/* The reference backend: every op in plain loops over elements, each sum in double. Elements are
 * read and written through ref_get and ref_put, so one text serves f32, bf16 and f64, and a value
 * is rounded only when it is stored. Nothing here is meant to be fast. */
#include "tensor/ctx.h"

#include <math.h>
#include <string.h>

/* Every required slot; fused slots stay empty. Other host backends start from these. */
void ref_fill_ops(Ops *ops);

/* Host memory, copies and sync, for backends that compute on the host. */
void ref_fill_memory(Backend *backend);

/* The parts of ref_fill_ops, one per file. */
void ref_fill_embed(Ops *ops);
void ref_fill_matmul(Ops *ops);
void ref_fill_norm(Ops *ops);
void ref_fill_attention(Ops *ops);
void ref_fill_mlp(Ops *ops);
void ref_fill_loss(Ops *ops);
void ref_fill_optim(Ops *ops);
void ref_fill_bits(Ops *ops);
void ref_fill_ttt(Ops *ops);
void ref_fill_quant(Ops *ops);

static inline double ref_get(Tensor t, int64_t i)
{
    switch (t.dtype) {
    case DT_F32:
        return ((const float *)t.data)[i];
    case DT_BF16:
        return f32_from_bf16(((const uint16_t *)t.data)[i]);
    case DT_F64:
        return ((const double *)t.data)[i];
    case DT_I32:
        return ((const int32_t *)t.data)[i];
    case DT_E4M3:
        return f32_from_e4m3(((const uint8_t *)t.data)[i]);
    case DT_REST: /* no number by itself */
        break;
    }
    return NAN;
}

/* Rounds to the type of t; to bf16 by way of f32, as sums kept in f32 would be. */
static inline void ref_put(Tensor t, int64_t i, double value)
{
    switch (t.dtype) {
    case DT_F32:
        ((float *)t.data)[i] = (float)value;
        break;
    case DT_BF16:
        ((uint16_t *)t.data)[i] = bf16_from_f32((float)value);
        break;
    case DT_F64:
        ((double *)t.data)[i] = value;
        break;
    case DT_I32:
        ((int32_t *)t.data)[i] = (int32_t)value;
        break;
    case DT_E4M3:
        ((uint8_t *)t.data)[i] = e4m3_from_f32((float)value);
        break;
    case DT_REST:
        break;
    }
}

/* t[i] = value, or t[i] += value; a sum is rounded once. */
static inline void ref_store(Tensor t, int64_t i, double value, Mode mode)
{
    ref_put(t, i, mode == MODE_ADD ? ref_get(t, i) + value : value);
}

static inline int64_t ref_index(Tensor t, int64_t i)
{
    return ((const int32_t *)t.data)[i];
}
