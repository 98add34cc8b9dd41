#pragma once
/* The loss of a run as a drawing in characters: the training loss as a line, evaluations as
 * marks. */
#include "report/watch_read.h"
#include "report/watch_text.h"

typedef struct {
    int smoothing; /* a mean over about 2^smoothing lines, at most an eighth of them; 0: none */
    bool log_loss, by_tokens;
} WatchPlot;

#define WATCH_MAX_SMOOTHING 12

/* Adds `rows` lines, the axis among them; fewer than 3 rows draw nothing. */
void watch_plot(WatchText *text, const WatchRun *run, WatchPlot plot, int rows);

/* The smoothed loss of every point of the curve, into values[run->curve.train_count]. */
void watch_smooth(const WatchRun *run, int smoothing, double *values);

/* 1234567 as 1.23M. */
#define WATCH_COUNT_SIZE 16
const char *watch_count(double count, char text[WATCH_COUNT_SIZE]);
