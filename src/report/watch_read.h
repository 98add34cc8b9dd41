#pragma once
/* A run directory followed while it grows: the records as far as they are there, in bounded
 * memory however long the run is. Nothing in the directory is written or locked. */
#include "report/curve.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <sys/types.h>

#define WATCH_POINTS 16384 /* at most, of a curve: then two become one */
#define WATCH_RECENT 512   /* lines that medians are taken over */
#define WATCH_PACE 32      /* lines that the time left is told by */

typedef enum {
    WATCH_WAITING, /* there is no run.json yet */
    WATCH_RUNNING,
    /* running by its record; its process is not visible, and no line has come for long */
    WATCH_SILENT,
    WATCH_DEAD, /* running by its record, but its process is gone */
    WATCH_DONE,
    WATCH_STOPPED,
    WATCH_OOM,
    WATCH_FAILED
} WatchState;

/* How one of the curve's arrays is thinned: points that stand for `lines` lines each, the last
 * for `filled`. */
typedef struct {
    size_t lines, filled;
} WatchThinning;

/* A line of a step. NAN: not recorded, or not a number. */
typedef struct {
    int64_t step;
    double tokens, loss, lr, grad_norm, tok_s, ms;
} WatchLine;

typedef struct {
    char *dir;
    WatchState state;
    double now;   /* seconds since 1970, when the directory was looked at */
    double begun; /* of this session: start or last resume; NAN: unknown */
    double wrote; /* last line of metrics.jsonl, or run.json when there is none; NAN: nothing yet */
    double silent;                       /* seconds without a line */
    int64_t total_steps;                 /* 0: unknown */
    int64_t saved_step;                  /* of the newest checkpoint; -1: none */
    int64_t resident_now, resident_most; /* of the live process; 0: unknown */
    cJSON *run;                          /* run.json; NULL: none yet */
    cJSON **ranks;                       /* rank files, at the end; the first `rank_count` */
    int rank_count;

    /* From metrics.jsonl. */
    WatchLine last; /* step 0: none yet */
    Curve curve;    /* thinned */
    WatchThinning train, validation, marks;
    double val_loss, best_val_loss; /* NAN: none */
    int64_t val_step, best_val_step;
    double recent_tok_s[WATCH_RECENT], recent_ms[WATCH_RECENT], recent_gap_s[WATCH_RECENT];
    size_t recent;                 /* lines seen: entry i lies at i % WATCH_RECENT */
    int64_t odd_lines, not_finite; /* unreadable ones; those whose loss is NaN or infinite */

    /* Where reading stands. */
    int file;      /* metrics.jsonl; -1 */
    off_t offset;  /* behind the last whole line */
    bool skipping; /* inside a line that is too long to be one of ours */
    char tail[64]; /* the bytes before offset, by which a replaced file is noticed */
    size_t tail_size;
    double grown; /* clock_seconds when it last grew; NAN: not while watched */
    struct timespec run_changed;
    ino_t run_inode;
} WatchRun;

void watch_open(WatchRun *run, const char *dir); /* reads nothing yet */
void watch_close(WatchRun *run);

/* Reads what is new. Files that are missing or damaged are no error: the view says so. */
void watch_poll(WatchRun *run);

/* Adds one line of metrics.jsonl; false when it is none. A step that was there already begins
 * the curve anew from there. */
bool watch_add_line(WatchRun *run, const char *line, size_t size);

/* The medians over the last lines; NAN when there is none. */
double watch_median_tok_s(const WatchRun *run);
double watch_median_ms(const WatchRun *run);
double watch_pace_ms(const WatchRun *run);    /* mean of a step over the last WATCH_PACE lines */
double watch_median_gap(const WatchRun *run); /* seconds of steps from one line to the next */

/* Seconds that are left by the pace of the last lines, evaluations and saves at their share so
 * far; NAN: unknown. */
double watch_seconds_left(const WatchRun *run);

/* Seconds in training steps of this session; NAN: unknown. */
double watch_session_seconds(const WatchRun *run);

/* The command that goes on with the run, its options as recorded where they are not the default.
 * Caller frees; NULL when the record does not tell. */
char *watch_resume_command(const WatchRun *run);

const char *watch_state_name(WatchState state);
