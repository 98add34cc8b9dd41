#pragma once
/* The blocks of the view that tell of one matter each. A block that has nothing to say adds no
 * line. */
#include "report/watch_view.h"

/* Why the run is not simply going on, and what to do about it. */
void watch_block_message(const WatchRun *run, const WatchFlags *flags, WatchText *out);

/* Loss, validation loss, gradient norm, learning rate. */
void watch_block_loss(const WatchRun *run, const WatchFlags *flags, WatchText *out);

/* Tokens per second, time of a step, share of what the machine can do. */
void watch_block_speed(const WatchRun *run, const WatchFlags *flags, WatchText *out);

void watch_block_memory(const WatchRun *run, const WatchFlags *flags, WatchText *out);
void watch_block_phases(const WatchRun *run, const WatchFlags *flags, WatchText *out);
void watch_block_checks(const WatchRun *run, const WatchFlags *flags, WatchText *out);
void watch_block_ranks(const WatchRun *run, const WatchFlags *flags, WatchText *out);
