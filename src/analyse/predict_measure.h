#pragma once
/* The measured side of a prediction: the step of one rank. collectives.h has the link. */
#include "analyse/predict.h"
#include "train/setup.h"

/* How: repeats of a step of a model with so many layers. */
typedef struct {
    int64_t repeats;
    int layers;
} PredictMeasured;

/* Trains run's model on this device with nobody to send to: up to two micro-steps per update
 * (accum: the most that will be asked for), every rank of comm at the same time where there are
 * several (comm may be NULL). The parts of steps with a trace, medians over the repeats, are
 * scaled to the median of the steps without. The rank keeps everything: of a model that does not
 * fit, it measures as many layers as do, and the others are taken to be like them. ERR_MEMORY when
 * not even two do. */
int predict_measure_step(const Run *run, Comm *comm, int64_t accum, PredictTimes *times,
                         PredictMeasured *measured);
