#pragma once
/* The matrix products of a model's linear maps: which there are, found by a dry run of its own
 * code, and how fast each one runs by itself on a backend. A model cannot be faster than its
 * products, and a product can be far from the device's best: too few rows, widths that fit
 * badly. */
#include "base/json.h"
#include "model/spec.h"
#include "tensor/ctx.h"

typedef struct {
    OpId op; /* of a linear map: forward, backward */
    int64_t rows, inputs, outputs;
    int64_t calls;  /* in one micro-step */
    double flops;   /* of one call */
    double seconds; /* of one call, the median; 0: not measured */
    int samples;
    bool too_large; /* there was no memory for it */
} ModelProduct;

#define PRODUCTS_MAX 64

typedef struct {
    ModelProduct items[PRODUCTS_MAX];
    int count;
    int left_out; /* that found no room above */
} ModelProducts;

/* The distinct ones of a training pass over batch x seq tokens, in the order in which they are
 * first called. */
void products_of_model(ModelProducts *out, const ModelSpec *spec, DType dtype, int64_t batch,
                       int64_t seq, Backend *backend);

/* Times each on random numbers and without bias, for about `seconds` in all: after a warm-up the
 * median of at least three samples, of one where a product takes longer than its share of the
 * time. A sample is the op called as often as makes it long enough to time, recorded where the
 * backend records. 0, or ERR_INTERRUPTED and the like after a signal. */
int products_measure(ModelProducts *products, Backend *backend, DType dtype, double seconds);

/* Highest FLOP/s among them; 0: none was measured. */
double products_best(const ModelProducts *products);

/* [{"op": .., "rows": .., ...}, ...]. best: FLOP/s that shares refer to. Caller deletes it. */
cJSON *products_json(const ModelProducts *products, double best);
