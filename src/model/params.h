#pragma once
/* The parameter table: one row per tensor, in forward order. Sizes, initialisation, decay,
 * checkpoints and the optimizer's ranges all loop over it. Rows live in one flat buffer: first
 * those that decay, then the others, so that the optimizer has two ranges to go through. A row
 * added with PARAM_JOINED starts right behind the row before, so that neighbours (q, k, v; gate,
 * up) can be read as one matrix; other rows start on a 256-byte boundary, and the padding
 * between stays zero. */
#include "model/spec.h"

typedef enum { INIT_NORMAL, INIT_ZERO, INIT_ONE } InitRule;

typedef enum { PARAM_ALIGNED, PARAM_JOINED } ParamPlace;

typedef struct {
    char name[80];
    ParamPlace place;
    int rank;
    int64_t dim[3];
    int64_t spare_rows; /* zero rows behind dim[0] in the buffer and in views: no parameters */
    InitRule init;
    double std;            /* of INIT_NORMAL; the value of INIT_ONE, 1 unless scaled (mup.h) */
    double growth;         /* that rates are divided by (mup.h); 1 */
    bool decay;            /* weight decay applies: matrices, not biases and norms unless all do */
    bool coded;            /* only its codes in e4m3 are read; see model_keep_plain */
    bool matrix;           /* (outputs, inputs) of a linear map in a block */
    int64_t second, third; /* rows where the next of several packed matrices begin; 0: it is one */
    int layer;             /* -1: outside the blocks */
    int64_t offset, count; /* in elements of the flat buffer */
} Param;

typedef struct {
    Param *rows;
    int count, capacity;
    bool decay_all;     /* set before the first row: every row decays */
    int64_t parameters; /* sum of counts: the model's exact size */
    int64_t flat;       /* elements of the flat buffer, padding included */
    int64_t decayed;    /* those before it decay, those behind do not */
} ParamTable;

void params_free(ParamTable *table); /* no-op on a zeroed table */

/* Appends a row (place, count and name are filled in; %d in the name takes the layer) and
 * returns its index. A joined row decays as the one before it. */
int params_add(ParamTable *table, ParamPlace place, const char *name, int layer, Param row);

/* Gives every row its offset; after the last params_add. */
void params_place(ParamTable *table);

/* Where the values of a table's rows lie: the two halves of one flat buffer, or two buffers that
 * may differ in type, of which the first may have some of the rows that decay only. */
typedef struct {
    Tensor decayed; /* (decayed): the rows that decay; from element `first` of them on */
    Tensor others;  /* (flat - decayed) */
    int64_t first;
} ParamParts;

/* The halves of a flat buffer. */
ParamParts params_parts(const ParamTable *table, Tensor flat);

/* Row `first` and the `joined - 1` rows behind it as one tensor: outermost dimensions added up.
 * It has no data where the buffer ends before it. */
Tensor params_view(const ParamTable *table, ParamParts parts, int first, int joined);

/* Initial values of elements [first, first + n) of a row. They depend on the seed, the row's
 * index and the element's alone. */
void params_init_values(const ParamTable *table, int row, uint64_t seed, int64_t first, int64_t n,
                        float *out);

int params_first(const ParamTable *table, int layer); /* row of a layer */
/* The first row of a layer that decays. */
int params_first_decayed(const ParamTable *table, int layer);

/* Names of tensors without ".weight" and ".bias", %d being the layer. A scheme has either qkv, one
 * matrix, or q, k and v, joined in memory. TTT's mixer names its own. */
typedef struct {
    const char *embed, *positions, *final_norm, *head;
    const char *norm1, *post1, *norm2, *post2;
    const char *qkv, *q, *k, *v, *out;
    const char *q_norm, *k_norm;
    const char *gate, *up, *down;
} TensorNames;
const TensorNames *tensor_names(const ModelSpec *spec);
