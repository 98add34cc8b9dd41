/* Ops on the exact bits of elements: conversion and checksum. */
#include "ref/ref.h"

#include "tensor/checksum.h"

/* The value's upper bits, the last of them set where lower ones were lost ("round to odd"):
 * rounding this to bf16 then is as rounding the value itself, since f32 has more than two bits
 * to spare. */
static float f32_to_odd(double value)
{
    float near = (float)value;
    if (isnan(value) || (double)near == value) {
        return near;
    }
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    bits -= fabs((double)near) > fabs(value); /* the neighbour towards zero */
    bits |= 1;
    memcpy(&near, &bits, sizeof near);
    return near;
}

static void cast(Ctx *c, Tensor from, Tensor to)
{
    (void)c;
    int64_t count = tensor_count(from);
    if (from.dtype == to.dtype && count > 0) {
        memcpy(to.data, from.data, tensor_bytes(from));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double value = ref_get(from, i);
        ref_put(to, i, to.dtype == DT_BF16 ? (double)f32_to_odd(value) : value);
    }
}

static uint64_t bits_of(Tensor t, int64_t i)
{
    switch (dtype_size(t.dtype)) {
    case 2:
        return ((const uint16_t *)t.data)[i];
    case 4: {
        uint32_t bits;
        memcpy(&bits, (const char *)t.data + i * 4, sizeof bits);
        return bits;
    }
    default: {
        uint64_t bits;
        memcpy(&bits, (const char *)t.data + i * 8, sizeof bits);
        return bits;
    }
    }
}

static void checksum(Ctx *c, Tensor x, Tensor out, void *ws)
{
    (void)c;
    (void)ws;
    uint64_t sum = 0;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        sum += checksum_term(bits_of(x, i), (uint64_t)i);
    }
    memcpy(out.data, (uint32_t[]){(uint32_t)sum, (uint32_t)(sum >> 32)}, 2 * sizeof(uint32_t));
}

void ref_fill_bits(Ops *ops)
{
    ops->cast = cast;
    ops->checksum = checksum;
}
