#pragma once
/* A run checks its own account before anyone else has to: numbers that must agree are put side by
 * side, and a disagreement is part of the record. A check whose numbers are missing is left out,
 * and not-a-number never passes. Each group below adds its checks to the same list:
 *     checks_run     what the summary says against itself and the configuration
 *     checks_ranks   the ranks against the summary and against each other
 *     check_lines_*  the lines of metrics.jsonl against both
 *     checks_confounded_rates   what a comparison of several runs must not claim
 * docs/reference/metrics.md has the table of all of them. */
#include "record/summary.h"

#include <stddef.h>

typedef enum { CHECK_PASS, CHECK_WARN, CHECK_FAIL } CheckVerdict;

/* What a check rests on. Counted: tokens, steps, bytes, ranks, losses, and sums and quotients of
 * recorded numbers that hold whatever the machine does. Timed: clocks put against each other or
 * against a limit, and what was seen of the machine; an honest run on a busy machine may miss
 * these, so they warn at worst. Unusual: counted, but missed on purpose too, so a miss warns. */
typedef enum { CHECK_COUNTED, CHECK_TIMED, CHECK_UNUSUAL } CheckKind;

typedef struct {
    const char *name;
    CheckKind kind;
    const char *rule; /* what is compared, in words */
} CheckRow;

/* Every check that there is, in no order. */
const CheckRow *checks_rows(size_t *count);

#define CHECK_SUBJECT_SIZE 160

typedef struct {
    const char *name; /* "tokens", "throughput", ... */
    CheckVerdict verdict;
    double expected, found;           /* the two numbers that should agree, or limit and value */
    const char *rule;                 /* what is compared, in words */
    char subject[CHECK_SUBJECT_SIZE]; /* whom it is about: "rank 3 on node1 cuda:0"; "": the run */
} Check;

#define CHECKS_MAX 48 /* each check occurs once and names all that it is about */

typedef struct {
    Check items[CHECKS_MAX];
    int count;
} Checks;

/* Adds one of checks_rows; the subject is copied and cut to fit, and may be NULL. What is not
 * finite does not pass; a timed check that fails warns. */
void checks_put(Checks *checks, const char *name, CheckVerdict verdict, double expected,
                double found, const char *subject);

/* The same with the verdict of its row when it does not hold. */
void checks_add(Checks *checks, const char *name, bool holds, double expected, double found,
                const char *subject);

/* Two numbers that must be the same but for a share of what is expected. Left out when one of them
 * is missing. */
void checks_agree(Checks *checks, const char *name, Value expected, Value found, double slack);

/* --- the summary --- */

/* What the summary does not hold. */
typedef struct {
    int64_t batch, accum, seq, ranks; /* sequences per rank and micro-step, micro-steps per step */
    int64_t vocab;
    int64_t steps_before,
        tokens_before;  /* done by earlier sessions, whose batch may have been another */
    Value first_loss;   /* of step 1 of freshly initialised weights; missing after a resume */
    Value timed_tokens; /* trained on during train_s: less than tokens after a resume */
    bool ramp;          /* updates change their size: tokens before and timed make all */
    Value plan_bytes;   /* sum of the memory plan's rows that planned_bytes stands for */
    Value flops_update; /* of one rank */
    Value ceiling;      /* FLOP/s that mfu_measured is a share of */
    Value other_phases; /* exclusive seconds in phases that only another version of pacer knows */
    bool complete;      /* ended as planned: every phase was left and the last step has its line */
} CheckInput;

/* Limits, as shares where nothing else is said. */
#define CHECK_THROUGHPUT_SLACK 0.01
#define CHECK_FIRST_LOSS_SLACK 0.10
#define CHECK_PHASES_SLACK 0.02
#define CHECK_ROUNDING 1e-6    /* of numbers that were only printed and read back */
#define CHECK_TIMER_COST 0.01  /* of the wall time, for reading the clock */
#define CHECK_STEP_SLACK 0.05  /* a device's steps do not count the host's work before the first */
#define CHECK_STEP_SPREAD 0.25 /* (p95 - p50) / p50 of step times */
#define CHECK_SPREAD_STEPS 20  /* fewer have no 95th percentile worth the name */

/* Starts the list: *checks holds nothing else afterwards. */
void checks_run(const Summary *summary, const CheckInput *input, Checks *checks);

/* Exclusive and total times, means and quantiles of each phase that contradict each other; the
 * name of the first such phase, "unattributed" when that is below 0, NULL when there is none. */
const char *check_phase_numbers(const TimerReport *report, bool complete);

/* Exclusive seconds of all phases and what is in none. */
double check_phase_sum(const TimerReport *report);

/* --- ranks --- */

#define CHECK_SLOWEST_SLACK 0.05
#define CHECK_SLOWEST_SHORT_S 0.05 /* more than that share in a run of a second or two */
#define CHECK_STRAGGLER 1.1        /* of the median of the ranks' busy time */
#define CHECK_THROTTLED 0.05       /* of the readings */

typedef struct {
    int64_t rank, ranks;                 /* as its own file says */
    char host[64], device[64], uuid[64]; /* "": not known */
    bool has_timers;
    TimerReport timers;
    double other_phases; /* as in CheckInput; 0 when there are none */
    Value wall_s, peak_bytes, allocated_bytes, planned_bytes;
    Value planned_sum, peak_sum; /* over its categories of memory */
    /* What was seen of its GPU while it worked (record/watch.h). */
    Value throttled_share;         /* of readings with clocks held down */
    char throttle[96];             /* why: "power cap, thermal" */
    Value other_processes;         /* on the same GPU, at most */
    Value used_bytes, total_bytes; /* of its memory: by everybody, at most; and all */
} CheckRank;

/* The ranks that have told of themselves, ascending; fewer than input->ranks when some are
 * missing. */
void checks_ranks(const Summary *summary, const CheckInput *input, const CheckRank *ranks,
                  size_t count, Checks *checks);

/* --- lines of metrics.jsonl --- */

/* Of one kind: the first line at fault, or the latest one when none is. */
typedef struct {
    bool seen;
    long line; /* 0: none at fault */
    double expected, found;
} CheckFinding;

/* Updates of one size, from a step on. */
typedef struct {
    double step, tokens, per_step; /* tokens before it */
} CheckRamp;

/* Sessions begin at steps where a run was resumed. Tokens grow evenly within a session, or, in the
 * last one, by its ramp; what sessions before it did is not known then, nor where they had one. */
typedef struct {
    const CheckRamp *ramp; /* of the last session, the first row where it begins */
    size_t ramp_rows;      /* 0: none */
    const double *starts;  /* ascending; where each session after the first begins */
    size_t sessions;       /* how many of them */
    Value per_step;        /* tokens of one step of the last session */
    bool ramp_before;      /* a session before the last one had a ramp */
    /* Under way. */
    size_t session;
    bool anchored;
    double anchor_step, anchor_tokens; /* tokens at a step of this session */
    Value slope;                       /* tokens of one step of this session */
    Value last_step, last_eval, latest;
    Value session_tokens; /* when the last session began */
    double session_s;     /* sum of ms x steps over its lines */
    double session_from;  /* step of its line before, or its start */
    Value last_loss, last_val, best_val, first_loss;
    CheckFinding tokens, steps, rate;
} CheckLines;

void check_lines_begin(CheckLines *lines, const double *starts, size_t sessions, Value per_step);
void check_lines_ramp(CheckLines *lines, const CheckRamp *ramp, size_t rows);

/* Tokens after a step, by the ramp. */
double check_ramp_tokens(const CheckRamp *ramp, size_t rows, double step);

/* A LineTake (record/reader.h) for lines_read; ERR_INPUT when a member is not what it must be. */
int check_lines_take(void *lines, const cJSON *line, const char *where, long number);

#define CHECK_LINE_RATE_SLACK 1e-3

/* Adds what was found, and compares with the summary. */
void check_lines_end(CheckLines *lines, const Summary *summary, const CheckInput *input,
                     Checks *checks);

/* --- several runs --- */

/* A comparison of n runs over batch sizes: warns when they all used one learning rate. No check
 * when the batch size is the same everywhere. */
void checks_confounded_rates(const double *batches, const double *rates, int n, Checks *checks);

/* --- the list --- */

const char *check_verdict_name(CheckVerdict verdict); /* "pass", "warn", "fail" */
CheckVerdict checks_worst(const Checks *checks);
const Check *checks_find(const Checks *checks, const char *name); /* NULL: not there */

/* 0, or ERR_CHECK with a message that names what failed. */
int checks_status(const Checks *checks);

/* One line, as it is printed: "check tokens: pass: 4096 expected, 4096 found (...)". */
#define CHECK_LINE_SIZE 448
const char *check_line(const Check *check, char text[CHECK_LINE_SIZE]);

void checks_log(const Checks *checks);    /* what did not pass, and how many did */
cJSON *checks_json(const Checks *checks); /* [{name, verdict, expected, found, rule, subject}] */

/* The checks of a finished run once more, from its records alone (run.json, metrics.jsonl,
 * ranks/K.json): what the run said about itself is not believed but computed again. ERR_INPUT when
 * dir holds no readable record; 0 otherwise, whatever the verdicts are. */
int recheck_dir(const char *dir, Checks *checks);
