#pragma once
/* Runs one case of an op on one backend in one activation type. Every tensor lies between guards of
 * a known pattern; outputs that the op must assign, and its workspace, start as NaN. After the op
 * the guards must be whole, inputs unchanged, results free of NaN, and the workspace that which a
 * dry run announced; otherwise the test fails with the name of the case and the tensor. */
#include "support/op_spec.h"

/* The contents of all arguments before the op, made for one activation type and exact in it (and so
 * in any wider one). before[i] is NULL where the argument is not given. */
typedef struct {
    OpCase k;
    DType act;
    double *before[OP_ARGS_MAX];
} OpInput;

OpInput op_input_make(const OpCase *k, DType act, uint64_t seed);
void op_input_free(OpInput *in);

/* Replaces the contents of an argument, rounded to its type. */
void op_input_set(OpInput *in, int arg, const double *values);

/* Computes again the arguments that follow from others (FILL_ORDER, FILL_NORM_SQ, FILL_DERIVED). */
void op_input_follow(OpInput *in);

typedef struct {
    double *after[OP_ARGS_MAX]; /* all given arguments */
    OpStat stats[OP_COUNT];
} OpOutput;

typedef struct {
    Backend *backend;
    DType act;     /* may be wider than the input's */
    bool composed; /* Ctx.composed */
    int skew;      /* elements by which tensors miss their alignment */
    bool cudnn;    /* ATTENTION_LIBRARY where the case says ATTENTION_FLASH */
} OpRun;

OpOutput op_run(const OpInput *in, OpRun run);
void op_output_free(OpOutput *out);

/* Elements of argument i; 0 if not given. */
int64_t op_input_count(const OpInput *in, int arg);

/* Value as stored in `dtype`. */
double op_round(DType dtype, double value);

/* A Ctx on the backend with `bytes` for each arena, for tests that call ops by hand; free releases
 * the arenas, not the backend. */
void op_ctx_init(Ctx *c, Backend *backend, size_t bytes);
void op_ctx_free(Ctx *c);
