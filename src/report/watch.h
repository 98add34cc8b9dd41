#pragma once
/* A run or an experiment followed in the terminal while it goes on: what is read of it, and how it
 * is shown as a screen of text. */
#include "base/json.h"
#include "record/names.h"
#include "report/curve.h"
#include "report/page.h"
#include "report/units.h"

#include <stdbool.h>
#include <sys/types.h>

/* --- reading --- */

/* A run directory followed while it grows: the records as far as they are there, in bounded
 * memory however long the run is. Nothing in the directory is written or locked. */

#define WATCH_POINTS 16384 /* at most, of a curve: then two become one */
#define WATCH_RECENT 512   /* lines that medians are taken over */
#define WATCH_PACE 32      /* lines that the time left is told by */

/* What a watcher concludes of a run that is running by its record, beside the states of records.
 * Waiting: there is no run.json yet. */
enum {
    WATCH_SILENT = RUN_STATE_COUNT, /* its process is not visible, and no line has come for long */
    WATCH_DEAD,                     /* its process is gone */
    WATCH_UNREADABLE,               /* there is a run.json, and it is none */
    WATCH_STATE_COUNT
};

/* A line of a step. NAN: not recorded, or not a number. */
typedef struct {
    int64_t step;
    double tokens, loss, lr, grad_norm, tok_s, ms;
    bool counted; /* it has a loss: some of the tokens count */
} WatchLine;

/* Which file a tree was read from, which is read again when another has taken its place. */
typedef struct {
    bool there;
    ino_t inode;
    struct timespec changed;
} WatchedFile;

/* Looks at dir/name; true when *tree is new, or gone. A file that is damaged is as one that is
 * not there. */
bool watch_reload(WatchedFile *file, const char *dir, const char *name, cJSON **tree);

/* Who wants every line of a run, beside its thinned curve. `forget`: as if none had been there. */
typedef struct {
    void (*step)(void *context, const WatchLine *line);
    void (*evaluation)(void *context, int64_t step, double loss);
    void (*forget)(void *context);
    void *context;
} WatchListener;

typedef struct {
    char *dir;
    int state;    /* a RunState, WATCH_SILENT or WATCH_DEAD */
    double now;   /* seconds since 1970, when the directory was looked at */
    double begun; /* of this session: start or last resume; NAN: unknown */
    double wrote; /* last line of metrics.jsonl, or run.json when there is none; NAN: nothing yet */
    double silent;                       /* seconds without a line */
    int64_t total_steps;                 /* 0: unknown */
    int64_t saved_step;                  /* of the newest checkpoint; -1: none */
    int64_t resident_now, resident_most; /* of the live process; 0: unknown */
    cJSON *run;                          /* run.json; NULL: none yet */
    char *problem;                       /* why it cannot be read; NULL: it can, or is not there */
    cJSON **ranks;                       /* rank files, at the end; the first `rank_count` */
    int rank_count;

    /* From metrics.jsonl. */
    WatchLine last;                 /* step 0: none yet */
    Curve curve;                    /* thinned */
    double val_loss, best_val_loss; /* NAN: none */
    int64_t val_step, best_val_step;
    double recent_tok_s[WATCH_RECENT], recent_ms[WATCH_RECENT];
    double recent_gap_s[WATCH_RECENT]; /* seconds of steps from one line to the next */
    size_t recent;                     /* lines seen: entry i lies at i % WATCH_RECENT */
    int64_t odd_lines, not_finite;     /* unreadable ones; those whose loss is NaN or infinite */

    /* Where reading stands. */
    int file;      /* metrics.jsonl; -1 */
    off_t offset;  /* behind the last whole line */
    bool skipping; /* inside a line that is too long to be one of ours */
    char tail[64]; /* the bytes before offset, by which a replaced file is noticed */
    size_t tail_size;
    double grown; /* clock_seconds when it last grew; NAN: not while watched */
    WatchedFile run_file;

    /* Set by the caller behind watch_open. */
    size_t piece;           /* bytes of lines that a poll reads at most; 0: all there are */
    bool behind;            /* (out) the last poll left lines for the next */
    WatchListener listener; /* zeroed: nobody */
} WatchRun;

void watch_open(WatchRun *run, const char *dir); /* reads nothing yet */
void watch_close(WatchRun *run);

/* Reads what is new. Files that are missing or damaged are no error: the view says so. */
void watch_poll(WatchRun *run);

/* Adds one line of metrics.jsonl; false when it is none. A step that was there already begins
 * the curve anew from there. */
bool watch_add_line(WatchRun *run, const char *line, size_t size);

/* The median over the last lines of run->recent_tok_s or another of them; NAN when there is
 * none. */
double watch_median(const WatchRun *run, const double recent[WATCH_RECENT]);

/* Seconds that are left by the pace of the last lines, evaluations and saves at their share so
 * far; NAN: unknown. */
double watch_seconds_left(const WatchRun *run);

/* Seconds in training steps of this session; NAN: unknown. */
double watch_session_seconds(const WatchRun *run);

/* The command that goes on with the run, its options as recorded where they are not the default.
 * Caller frees; NULL when the record does not tell. */
char *watch_resume_command(const WatchRun *run);

const char *watch_state_name(int state);

/* Whether a run whose process is not visible is silent: `seconds` without a line, where `gap` is
 * the usual time from line to line (NAN: unknown). */
bool watch_is_silent(double seconds, double gap);

/* --- text --- */

/* Lines of text for a terminal of a given size: widths are counted in columns, nothing goes
 * beyond the edges, and what stands in a record cannot steer the terminal. */

typedef enum {
    INK_PLAIN,
    INK_DIM,
    INK_BOLD,
    INK_RED,
    INK_GREEN,
    INK_YELLOW,
    INK_BLUE,
    INK_MAGENTA,
    INK_CYAN,
    INK_COUNT
} Ink;

/* How the loss is drawn: the training loss as a line, evaluations as marks. */
typedef struct {
    int smoothing; /* a mean over about 2^smoothing lines, at most an eighth of them; 0: none */
    bool log_loss, by_tokens;
} WatchPlot;

#define WATCH_MAX_SMOOTHING 12

typedef struct {
    int width, height; /* of the terminal; at least 1 */
    bool utf8, colour;
    WatchPlot plot;
    bool keys; /* someone sits at the keyboard: say which key ends it */
    bool help, paused;
} WatchFlags;

typedef struct {
    WatchFlags flags; /* width: columns; height: lines at most */
    Page *lines;      /* colours as escape sequences, set back at the end of each line */
    int count;
    int column; /* of the last line, from 0: where the next character goes */
} WatchText;

void watch_text_init(WatchText *text, const WatchFlags *flags);
void watch_text_free(WatchText *text);

/* Begins a line; false when there is no more room, and then all that is put is lost. */
bool watch_text_line(WatchText *text);

/* Into the last line, as far as there is room. Control characters and broken UTF-8 become '?',
 * and without utf8 every other character beyond ASCII too. */
void watch_text_put(WatchText *text, Ink ink, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same as an item that stays in one piece: two columns behind the one before, or in a new
 * line. */
void watch_text_item(WatchText *text, Ink ink, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A sentence, broken at spaces into as many lines as it takes. */
void watch_text_wrap(WatchText *text, Ink ink, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* `count` times a character of one column of ours, or its stand-in. */
void watch_text_glyph(WatchText *text, Ink ink, const char *utf8, char ascii, int count);

/* The first `count` lines of another text of the same width, as they are. */
void watch_text_append(WatchText *text, const WatchText *from, int count);

/* Columns that a NUL-terminated string takes once put, escape sequences of colours not counted:
 * for tests and layout. */
int watch_text_columns(const char *line, bool utf8);

/* --- the loss as a drawing --- */

/* Adds `rows` lines, the axis among them; fewer than 3 rows draw nothing. */
void watch_plot(WatchText *text, const WatchRun *run, int rows);

/* The smoothed loss of every point of the curve, into values[run->curve.train.count]. */
void watch_smooth(const WatchRun *run, int smoothing, double *values);

/* --- the view of a run --- */

/* What was read of a run, as a screen of text. Nothing here looks at a file, a clock or a
 * terminal. */

/* Fills out (not initialised before) with at most `height` lines of at most `width` columns.
 * Caller frees it. */
void watch_view(const WatchRun *run, const WatchFlags *flags, WatchText *out);

/* The line of keys, for every view. */
void watch_view_keys(WatchText *out);

/* --- the view of an experiment --- */

/* An experiment's folder followed while its runs are made: a list of them, and the view of the
 * one that runs. */

typedef struct {
    const char *state; /* "done"; lives in experiment.json */
    char *line;        /* what is said of it */
} WatchedRun;

typedef struct {
    char *dir;
    cJSON *json; /* experiment.json; NULL: none yet */
    WatchedRun *runs;
    int count;
    int current;  /* that runs, or was running when the sweep ended; -1: none */
    WatchRun run; /* the current one, open while `current` is not -1 */
    WatchedFile file;
} WatchExperiment;

void watch_experiment_open(WatchExperiment *experiment, const char *dir);
void watch_experiment_close(WatchExperiment *experiment);
void watch_experiment_poll(WatchExperiment *experiment);
void watch_experiment_view(const WatchExperiment *experiment, const WatchFlags *flags,
                           WatchText *out);
