#pragma once
/* How fast ranks that are not here would train together: from the times of one rank's step, the
 * buckets that its gradients are sent in, and an alpha-beta model of the network between the
 * ranks. Arithmetic alone; what it gives is a prediction and is to be labelled as one wherever
 * it is shown. docs/guide/predict.md has the assumptions and the errors found against real runs. */
#include "train/ddp.h"

/* A message of b bytes takes latency_s + b / bytes_per_s. bytes_per_s: what one rank sends while
 * it receives as much, of a large collective (the "bus bandwidth" of nccl-tests). */
typedef struct {
    const char *name;
    double latency_s, bytes_per_s;
    bool per_node; /* one for all ranks of a node, which share it; else each rank has its own */
} PredictLink;

/* By CONFIG_LINK_*; NULL where there are no numbers (none, measured). */
const PredictLink *predict_link(int link);

typedef struct {
    PredictLink link;      /* between nodes */
    PredictLink node_link; /* between ranks of a node */
    int per_node;          /* ranks of a node; 1: node_link is not used */
} PredictNetwork;

/* Seconds that a collective of `bytes` (the whole tensor, on each of the ranks) takes. An
 * all-gather is a reduce-scatter in the other direction. */
double predict_all_reduce(const PredictNetwork *network, int ranks, double bytes);
double predict_reduce_scatter(const PredictNetwork *network, int ranks, double bytes);

/* A measured all-reduce. */
typedef struct {
    double bytes, seconds;
} LinkPoint;

/* The link between `ranks` ranks that fits measured all-reduces best, by relative error. count
 * >= 2 different sizes. */
PredictLink predict_fit(const LinkPoint *points, int count, int ranks);

/* From at_s of the backward pass on, gradients of decaying parameters from this flat offset on
 * are complete. */
typedef struct {
    int64_t from;
    double at_s;
} PredictReady;

/* One update of one rank, with nobody to wait for. */
typedef struct {
    double micro_s;    /* a micro-step that is not the last */
    double before_s;   /* of the last one: what comes before its backward pass */
    double backward_s; /* of the last one */
    double cast_s;   /* rounding all gradients to their type on the way, or back; 0: as they are */
    double update_s; /* gradient norm, optimizer, and what else follows */
    PredictReady *ready; /* (ready_count), by time; all is complete at backward_s */
    int ready_count;
    PredictReady
        *needed; /* (needed_count), by offset: when a forward pass first reads what lies there */
    int needed_count;
} PredictTimes;

void predict_times_free(PredictTimes *times); /* a no-op on a zeroed struct */

/* The same by layers, as it is measured: of the last micro-step when each layer's forward pass
 * begins, and all have ended; and when each layer's backward pass has ended. */
typedef struct {
    int layers; /* 2 or more to be stretched */
    double micro_s, before_s, backward_s, cast_s, update_s;
    double *begins; /* (layers + 1) */
    double *ends;   /* (layers) */
} LayerTimes;

void layer_times_free(LayerTimes *times); /* a no-op on a zeroed struct */

/* To a model of more layers: each takes what the measured ones take on average. weights: its
 * parameters over those of the measured model, which update and casts are in proportion to. */
void layer_times_stretch(LayerTimes *times, int layers, double weights);

/* What is sent during a backward pass. */
typedef struct {
    double ready_s; /* of the computation's own time */
    double comm_s;
} PredictMessage;

typedef struct {
    double computed_s; /* when the computation has ended */
    double end_s;      /* when the messages have, too */
    double hidden_s;   /* of the messages' own time, what went beside the computation */
} PredictSchedule;

/* One message after the other, in order, each from when it is ready, beside a computation of
 * compute_s. contention: 0, neither slows the other; 1, messages get on only when the
 * computation has ended. */
PredictSchedule predict_schedule(const PredictMessage *messages, int count, double compute_s,
                                 double contention);

typedef struct {
    const ParamTable *table;
    DdpSetup ddp;   /* kind, bucket_bytes, group, codes; rank and ranks are not looked at */
    DType wire;     /* of gradients as they travel */
    DType weights;  /* of what is gathered, but for codes */
    bool at_once;   /* zero1, zero2: a forward pass waits for all weights before it begins */
    int64_t tokens; /* of one rank's micro-step */
    double contention;
    PredictNetwork network;
    PredictTimes times;
} PredictModel;

typedef struct {
    int ranks;
    int64_t accum;
    double step_s;
    double exposed_s, hidden_s; /* communication that the computation waits for; that it does not */
    double tokens_per_s;        /* of all ranks */
    double efficiency;          /* tokens_per_s over that of one rank, times ranks */
} Prediction;

/* accum: micro-steps of each rank. alone_accum: of the one rank that efficiency is relative to. */
Prediction predict_step(const PredictModel *model, int ranks, int64_t accum, int64_t alone_accum);
