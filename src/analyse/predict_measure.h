#pragma once
/* The measured side of a prediction: the step of one rank. collectives.h has the link. */
#include "analyse/predict.h"
#include "train/setup.h"

/* Trains run's model on this device with nobody to send to: up to two micro-steps per update
 * (accum: the most that will be asked for), every rank of comm at the same time where there are
 * several (comm may be NULL). The parts of steps with a trace, medians over the repeats, are
 * scaled to the median of the steps without. ERR_MEMORY when one rank does not fit: it keeps the
 * whole optimizer state, also for zero1. */
int predict_measure_step(const Run *run, Comm *comm, int64_t accum, PredictTimes *times,
                         int64_t *repeats);
