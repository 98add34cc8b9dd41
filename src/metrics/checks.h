#pragma once
/* A run checks its own account before anyone else has to: numbers that must agree are put side by
 * side, and a disagreement is part of the record. A check whose numbers are missing is left out. */
#include "metrics/summary.h"

typedef enum { CHECK_PASS, CHECK_WARN, CHECK_FAIL } CheckVerdict;

typedef struct {
    const char *name; /* "tokens", "throughput", "first_loss", "phases", "mfu", "memory" */
    CheckVerdict verdict;
    double expected, found; /* the two numbers that should agree, or limit and value */
    const char *rule;       /* what is compared, in words */
} Check;

#define CHECKS_MAX 8

typedef struct {
    Check items[CHECKS_MAX];
    int count;
} Checks;

/* What the summary does not hold. */
typedef struct {
    int64_t batch, accum, seq, ranks; /* sequences per rank and micro-step, micro-steps per step */
    int64_t vocab;
    int64_t steps_before,
        tokens_before;  /* done by earlier sessions, whose batch may have been another */
    Value first_loss;   /* of step 1 of freshly initialised weights; missing after a resume */
    Value timed_tokens; /* trained on during train_s: less than tokens after a resume */
} CheckInput;

/* Limits, as shares. */
#define CHECK_THROUGHPUT_SLACK 0.01
#define CHECK_FIRST_LOSS_SLACK 0.10
#define CHECK_PHASES_SLACK 0.02
#define CHECK_PHASES_SHORT_S \
    0.05                     /* a gap below this is start-up noise of a short run: no failure */
#define CHECK_MFU_NOISE 0.05 /* by which a ceiling measured for a second may come out low */

void checks_run(const Summary *summary, const CheckInput *input, Checks *checks);

const char *check_verdict_name(CheckVerdict verdict); /* "pass", "warn", "fail" */
CheckVerdict checks_worst(const Checks *checks);

/* 0, or ERR_CHECK with a message that names what failed. */
int checks_status(const Checks *checks);

/* One line, as it is printed: "check tokens: pass: 4096 expected, 4096 found (...)". */
#define CHECK_LINE_SIZE 256
const char *check_line(const Check *check, char text[CHECK_LINE_SIZE]);

void checks_log(const Checks *checks);    /* every line, at the level of its verdict */
cJSON *checks_json(const Checks *checks); /* [{name, verdict, expected, found, rule}] */
