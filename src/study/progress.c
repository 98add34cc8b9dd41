#include "study/experiment.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIVE_EVERY 0.25 /* seconds */
#define PLAIN_EVERY 60.0
#define TAIL_BYTES 1024
#define TRUSTED_SHARE 0.05 /* of a run, from which on its own pace tells more than anything else */

/* Steps of a run that metrics.jsonl has, by its last whole line. */
static int64_t steps_done(const Experiment *experiment, const ExperimentRun *run)
{
    char *path = experiment_run_path(experiment, run, "/metrics.jsonl"), tail[TAIL_BYTES + 1];
    int file;
    struct stat info;
    int code = io_open_regular(path, &file, &info);
    free(path);
    if (code != 0) {
        return 0;
    }
    off_t from = info.st_size > TAIL_BYTES ? info.st_size - TAIL_BYTES : 0;
    ssize_t got = pread(file, tail, TAIL_BYTES, from);
    close(file);
    tail[got > 0 ? got : 0] = '\0';
    int64_t step = 0;
    for (const char *at = tail; (at = strstr(at, "\"step\":")) != NULL; at++) {
        step = strtoll(at + 7, NULL, 10);
    }
    return step;
}

static double share_done(const Experiment *experiment, const ExperimentRun *run)
{
    double share =
        run->plan.steps > 0 ? (double)steps_done(experiment, run) / (double)run->plan.steps : 0;
    return share < 1 ? share : 1;
}

/* Seconds that a run is expected to take; missing: nothing to tell it from. */
static Value expect(const Experiment *experiment, const ExperimentRun *run)
{
    double alike = 0, measured = 0, predicted = 0, all = 0;
    int alike_count = 0, count = 0;
    for (int i = 0; i < experiment->count; i++) {
        const ExperimentRun *other = &experiment->runs[i];
        if (other->state != RUN_DONE || !other->seconds.known) {
            continue;
        }
        if (other->configuration == run->configuration) {
            alike += other->seconds.number;
            alike_count++;
        }
        if (other->plan.seconds.known) {
            measured += other->seconds.number;
            predicted += other->plan.seconds.number;
        }
        all += other->seconds.number;
        count++;
    }
    if (alike_count > 0) {
        return value_of(alike / alike_count);
    }
    if (run->plan.seconds.known) {
        return value_of(run->plan.seconds.number * (predicted > 0 ? measured / predicted : 1));
    }
    return count > 0 ? value_of(all / count) : (Value){0};
}

/* Of the run under way. */
static Value seconds_left_here(const SweepProgress *progress, double share)
{
    const ExperimentRun *run = &progress->experiment->runs[progress->at];
    double elapsed = clock_seconds() - progress->started;
    double own = share - progress->first_share;
    if (own >= TRUSTED_SHARE) {
        return value_of(elapsed * (1 - share) / own);
    }
    Value expected = expect(progress->experiment, run);
    if (expected.known) {
        double left = expected.number * (1 - progress->first_share) - elapsed;
        expected.number = left > 0 ? left : 0;
    }
    return expected;
}

/* ", 3 min left of all", or "" while there is nothing to tell it from. */
static void describe_left(const SweepProgress *progress, double share, char *text, size_t size)
{
    const Experiment *e = progress->experiment;
    Value left = seconds_left_here(progress, share);
    double here = clock_seconds() - progress->started + left.number; /* for want of better */
    for (int i = 0; i < e->count && left.known; i++) {
        const ExperimentRun *run = &e->runs[i];
        bool beside = run->state == RUN_RUNNING && i != progress->at;
        bool waits = run->state == RUN_WAITING || run->state == RUN_STOPPED;
        if (beside || (waits && i > progress->at && run->obstacle == NULL)) {
            Value expected = expect(e, run);
            double seconds = expected.known ? expected.number : here;
            left.number += seconds * (beside ? 1 - share_done(e, run) : 1) / e->jobs;
        }
    }
    char duration[CLOCK_DURATION_SIZE];
    snprintf(text, size, left.known ? ", %s left of all" : "%.0s",
             clock_duration(left.number, duration));
}

static void describe_run(const Experiment *e, int at, char *text, size_t size)
{
    const ExperimentRun *run = &e->runs[at];
    int used = snprintf(text, size, "run %d/%d %.200s", at + 1, e->count, run->label);
    if (e->recipe.repeats > 1) {
        snprintf(text + used, size - (size_t)used, " (repeat %d/%d)", run->repeat + 1,
                 e->recipe.repeats);
    }
}

SweepProgress sweep_progress_begin(const Experiment *experiment, int at)
{
    char name[320];
    describe_run(experiment, at, name, sizeof name);
    if (!log_is_terminal()) {
        log_info("%s", name);
    }
    double now = clock_seconds();
    return (SweepProgress){experiment, at, now, share_done(experiment, &experiment->runs[at]), now};
}

void sweep_progress_say(SweepProgress *progress, int others)
{
    double now = clock_seconds();
    if (now - progress->said < (log_is_terminal() ? LIVE_EVERY : PLAIN_EVERY)) {
        return;
    }
    progress->said = now;
    char name[320], left[64], more[32] = "";
    const Experiment *e = progress->experiment;
    double share = share_done(e, &e->runs[progress->at]);
    describe_run(e, progress->at, name, sizeof name);
    describe_left(progress, share, left, sizeof left);
    if (others > 0) {
        snprintf(more, sizeof more, " and %d more", others);
    }
    (log_is_terminal() ? log_live : log_info)("%s%s: %.0f %%%s", name, more, 100 * share, left);
}

void sweep_progress_end(const SweepProgress *progress)
{
    char name[320], duration[CLOCK_DURATION_SIZE], left[64];
    const ExperimentRun *run = &progress->experiment->runs[progress->at];
    describe_run(progress->experiment, progress->at, name, sizeof name);
    describe_left(progress, 1, left, sizeof left);
    log_info("%s: %s after %s%s%s%s", name, run_state_name(run->state),
             clock_duration(clock_seconds() - progress->started, duration),
             progress->at + 1 < progress->experiment->count ? left : "",
             run->reason[0] != '\0' ? ": " : "", run->reason);
}
