/* Ops on the exact bits of elements: conversion between f32 and bf16, and the checksum, whose
 * terms may be added in any order. The loops are plain: compilers make vectors of them. */
#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"
#include "cpu/threads.h"
#include "tensor/checksum.h"

static void widen(const uint16_t *restrict from, float *restrict to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] = f32_from_bf16(from[i]);
    }
}

static void narrow(const float *restrict from, uint16_t *restrict to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] = bf16_from_f32(from[i]);
    }
}

static void cast(Ctx *c, Tensor from, Tensor to)
{
    if (from.dtype == to.dtype) {
        threads_copy(to.data, from.data, tensor_bytes(from), c->backend->threads);
        return;
    }
    int64_t count = tensor_count(from);
    int parts = threads_for(c, count);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span s = span_of_floats(count, parts, part);
        if (to.dtype == DT_BF16) {
            narrow((const float *)from.data + s.first, (uint16_t *)to.data + s.first,
                   s.last - s.first);
        } else {
            widen((const uint16_t *)from.data + s.first, (float *)to.data + s.first,
                  s.last - s.first);
        }
    }
}

/* The terms of elements [s.first, s.last), each as large as a Word. */
#define SUM_TERMS(Word, data, s, sum)                                                \
    for (int64_t i = (s).first; i < (s).last; i++) {                                 \
        Word bits;                                                                   \
        memcpy(&bits, (const char *)(data) + i * (int64_t)sizeof bits, sizeof bits); \
        (sum) += checksum_term(bits, (uint64_t)i);                                   \
    }

static uint64_t sum_terms(Tensor x, Span s)
{
    uint64_t sum = 0;
    switch (dtype_size(x.dtype)) {
    case 2:
        SUM_TERMS(uint16_t, x.data, s, sum);
        break;
    case 4:
        SUM_TERMS(uint32_t, x.data, s, sum);
        break;
    default:
        SUM_TERMS(uint64_t, x.data, s, sum);
        break;
    }
    return sum;
}

static void checksum(Ctx *c, Tensor x, Tensor out, void *ws)
{
    (void)ws;
    int64_t count = tensor_count(x);
    int parts = threads_for(c, count);
    uint64_t sum = 0;
#pragma omp parallel for num_threads(parts) schedule(static) reduction(+ : sum)
    for (int part = 0; part < parts; part++) {
        sum += sum_terms(x, span_of_floats(count, parts, part));
    }
    memcpy(out.data, (uint32_t[]){(uint32_t)sum, (uint32_t)(sum >> 32)}, 2 * sizeof(uint32_t));
}

void PACER_ISA_NAME(bits_fill)(Ops *ops)
{
    ops->cast = cast;
    ops->checksum = checksum;
}
