#pragma once
/* Whether attention that was timed is also right. The inputs are random numbers that are a function
 * of their place, so the check makes again those it needs. A few results are computed directly in
 * double on the host: outputs and gradients of queries from the second half of a sequence, whose
 * softmax has many terms, and gradients of a late key, which few queries see. Gradients of earlier
 * keys would take all T x T scores: they are compared with those of another kind of attention that
 * has passed. */
#include "tensor/backend.h"

typedef struct {
    HeadShape shape; /* seq >= ATTENTION_CHECK_LEAST */
    DType dtype;     /* f32 or bf16 */
    uint64_t seed;
    int64_t document; /* tokens of each document of a sequence, with shape.starts; 0: not given */
} AttentionInputs;

#define ATTENTION_CHECK_LEAST 16

/* The first key that query i of a sequence sees. */
int64_t attention_first_key(const AttentionInputs *inputs, int64_t i);

/* Standard normal numbers, rounded to dtype, into qkv (N, (H+2G)D) and dout (N, H*D) of the
 * backend; where documents begin, into shape.starts. */
void attention_inputs_fill(const AttentionInputs *inputs, Backend *backend, Tensor qkv, Tensor dout,
                           int threads);

typedef struct AttentionCheck AttentionCheck;

/* Computes the samples. ERR_MEMORY when the host has no room for the keys and values of one head.
 * */
int attention_check_open(AttentionCheck **out, const AttentionInputs *inputs);
void attention_check_close(AttentionCheck *check); /* NULL is fine */

/* The largest relative error over the samples: root of the sum of squared differences over that of
 * squared values or, where all values are 0, over their number. Not a number when a result is
 * none. */
double attention_check_error(const AttentionCheck *check, Backend *backend, Tensor out,
                             Tensor dqkv);

/* Makes whole rows of dqkv samples for the calls of attention_check_error that follow. */
void attention_check_learn(AttentionCheck *check, Backend *backend, Tensor dqkv);
