#pragma once
/* The measured side of a prediction: the step of one rank, and the link between ranks that are
 * here. */
#include "analyse/predict.h"
#include "train/setup.h"

/* Trains run's model on this device with nobody to send to: up to two micro-steps per update
 * (accum: the most that will be asked for), every rank of comm at the same time where there are
 * several (comm may be NULL). The parts of steps with a trace, medians over the repeats, are
 * scaled to the median of the steps without. ERR_MEMORY when one rank does not fit: it keeps the
 * whole optimizer state, also for zero1. */
int predict_measure_step(const Run *run, Comm *comm, int64_t accum, PredictTimes *times,
                         int64_t *repeats);

/* All-reduces of f32 between the ranks of comm, by size: the median of several, of the slowest
 * rank. */
#define LINK_SIZES 7
int predict_time_link(Comm *comm, Backend *backend, LinkPoint points[LINK_SIZES]);

/* The link that all-reduces between the ranks of comm behave like. error: the largest relative
 * one of the fit. */
int predict_measure_link(Comm *comm, Backend *backend, PredictLink *link, double *error);
