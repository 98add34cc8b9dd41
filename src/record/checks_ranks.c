/* The ranks of a run against its summary and against each other. A check is about all ranks at
 * once and names those at fault, so that a thousand of them make no longer list than one. */
#include "record/checks.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a check of one rank after the other --- */

#define LAST_WORDS 32 /* room for " and N more" */

typedef struct {
    bool seen;
    double expected, found;         /* of the first one at fault, else of the last */
    char names[CHECK_SUBJECT_SIZE]; /* of those at fault */
    size_t named, unnamed;          /* those that fit, and those that did not */
} OfEach;

static size_t describe(const CheckRank *rank, char *text, size_t size)
{
    return (size_t)snprintf(text, size, "rank %lld%s%s%s%s", (long long)rank->rank,
                            rank->host[0] != '\0' ? " on " : "", rank->host,
                            rank->device[0] != '\0' ? " " : "", rank->device);
}

/* Adds a rank at fault, with a remark in brackets unless it is "". */
static void each_name(OfEach *each, const CheckRank *rank, const char *remark)
{
    char one[CHECK_SUBJECT_SIZE + 160];
    size_t size = describe(rank, one, sizeof one);
    if (remark[0] != '\0') {
        size += (size_t)snprintf(one + size, sizeof one - size, " (%s)", remark);
    }
    size_t used = strlen(each->names), room = sizeof each->names - used;
    if (each->named > 0 && (each->unnamed > 0 || size + LAST_WORDS >= room)) {
        each->unnamed++;
        return;
    }
    snprintf(each->names + used, room, "%s%.*s", used > 0 ? ", " : "",
             CHECK_SUBJECT_SIZE - LAST_WORDS, one);
    each->named++;
}

static void each_take(OfEach *each, const CheckRank *rank, bool good, double expected, double found,
                      const char *remark)
{
    if (each->named == 0) {
        each->expected = expected;
        each->found = found;
    }
    each->seen = true;
    if (!good) {
        each_name(each, rank, remark);
    }
}

/* A number that is at most `limit`; found is the worst of all. */
static void each_limit(OfEach *each, const CheckRank *rank, double limit, double found,
                       const char *remark)
{
    double worst = found <= each->found ? each->found : found;
    each_take(each, rank, found <= limit, limit, worst, remark);
    each->found = worst;
}

static void each_end(OfEach *each, const char *name, Checks *checks)
{
    if (each->unnamed > 0) {
        size_t used = strlen(each->names);
        snprintf(each->names + used, sizeof each->names - used, " and %zu more", each->unnamed);
    }
    if (each->seen) {
        checks_add(checks, name, each->named == 0, each->expected, each->found, each->names);
    }
}

/* --- are all there --- */

static void check_presence(const CheckInput *in, const CheckRank *ranks, size_t count,
                           Checks *checks)
{
    char text[CHECK_SUBJECT_SIZE] = "";
    double found = (double)count;
    bool good = (double)count == (double)in->ranks;
    for (size_t i = 0; i < count && text[0] == '\0'; i++) {
        if (ranks[i].rank != (int64_t)i) {
            snprintf(text, sizeof text, "rank %zu missing", i);
            good = false;
        } else if (ranks[i].ranks != in->ranks) {
            found = (double)ranks[i].ranks;
            snprintf(text, sizeof text, "as rank %zu says", i);
            good = false;
        }
    }
    if (!good && text[0] == '\0') {
        snprintf(text, sizeof text, "%s",
                 (double)count < (double)in->ranks ? "the last ones missing" : "too many");
    }
    checks_add(checks, "ranks", good, (double)in->ranks, found, text);
}

/* --- time --- */

static const Phase busy_phases[] = {PHASE_DATA_LOAD, PHASE_DATA_MOVE, PHASE_FORWARD, PHASE_LOSS,
                                    PHASE_BACKWARD,  PHASE_OPTIMIZER, PHASE_LAUNCH};

/* Seconds of work in steps, without waiting for a device or for other ranks. */
static double busy_seconds(const CheckRank *rank)
{
    double sum = 0;
    for (size_t i = 0; i < sizeof busy_phases / sizeof busy_phases[0]; i++) {
        sum += rank->timers.phases[busy_phases[i]].exclusive_s;
    }
    return sum;
}

static double step_seconds(const CheckRank *rank)
{
    return busy_seconds(rank) + rank->timers.phases[PHASE_WAIT].exclusive_s +
           rank->timers.phases[PHASE_COMM_EXPOSED].exclusive_s;
}

/* What a run took is what its slowest rank took. */
static void check_slowest(const Summary *s, const CheckRank *ranks, size_t count, Checks *checks)
{
    const CheckRank *last = NULL, *slowest = NULL; /* to end; in steps */
    for (size_t i = 0; i < count; i++) {
        if (ranks[i].wall_s.known &&
            (last == NULL || !(ranks[i].wall_s.number <= last->wall_s.number))) {
            last = &ranks[i];
        }
        if (ranks[i].has_timers &&
            (slowest == NULL || !(step_seconds(&ranks[i]) <= step_seconds(slowest)))) {
            slowest = &ranks[i];
        }
    }
    char text[CHECK_SUBJECT_SIZE];
    if (last != NULL && s->wall_s.known) {
        double expected = last->wall_s.number, found = s->wall_s.number;
        bool good =
            fabs(expected - found) <= CHECK_SLOWEST_SLACK * expected + CHECK_SLOWEST_SHORT_S;
        describe(last, text, sizeof text);
        checks_add(checks, "slowest_wall", good, expected, found, text);
    }
    if (slowest != NULL && s->train_s.known) {
        double expected = step_seconds(slowest), found = s->train_s.number;
        bool good = found >= expected * (1 - CHECK_SLOWEST_SLACK) - CHECK_SLOWEST_SHORT_S;
        describe(slowest, text, sizeof text);
        checks_add(checks, "slowest_train", good, expected, found, text);
    }
}

static void check_stragglers(const CheckRank *ranks, size_t count, Checks *checks)
{
    double *busy = mem_zalloc(count, sizeof *busy);
    size_t timed = 0;
    for (size_t i = 0; i < count; i++) {
        double seconds = ranks[i].has_timers ? busy_seconds(&ranks[i]) : NAN;
        if (isfinite(seconds)) {
            busy[timed++] = seconds;
        }
    }
    OfEach each = {0};
    double limit = timed > 1 ? CHECK_STRAGGLER * clock_quantile(busy, timed, 0.5) : NAN;
    for (size_t i = 0; timed > 1 && i < count; i++) {
        double seconds = ranks[i].has_timers ? busy_seconds(&ranks[i]) : NAN;
        char remark[32];
        snprintf(remark, sizeof remark, "%.3g s", seconds);
        if (!isnan(seconds)) {
            each_limit(&each, &ranks[i], limit, seconds, remark);
        }
    }
    each_end(&each, "stragglers", checks);
    free(busy);
}

/* --- devices --- */

static int by_device(const void *a, const void *b)
{
    const CheckRank *one = *(const CheckRank *const *)a, *other = *(const CheckRank *const *)b;
    int order = strcmp(one->host, other->host);
    order = order != 0 ? order : strcmp(one->uuid, other->uuid);
    if (order == 0 && one->uuid[0] == '\0') {
        order = strcmp(one->device, other->device);
    }
    return order;
}

/* On one host the same address on the bus or the same cores; without either the same name. */
static void check_sharing(const CheckRank *ranks, size_t count, Checks *checks)
{
    const CheckRank **sorted = mem_zalloc(count, sizeof *sorted);
    size_t known = 0, distinct = 0;
    for (size_t i = 0; i < count; i++) {
        if (ranks[i].uuid[0] != '\0' || (ranks[i].host[0] != '\0' && ranks[i].device[0] != '\0')) {
            sorted[known++] = &ranks[i];
        }
    }
    qsort(sorted, known, sizeof *sorted, by_device);
    OfEach each = {0};
    for (size_t i = 0; i < known; i++) {
        bool as_before = i > 0 && by_device(&sorted[i - 1], &sorted[i]) == 0;
        bool as_next = i + 1 < known && by_device(&sorted[i], &sorted[i + 1]) == 0;
        distinct += !as_before;
        each_take(&each, sorted[i], !as_before && !as_next, 0, 0, "");
    }
    if (known > 1) {
        each.expected = (double)known;
        each.found = (double)distinct;
        each_end(&each, "shared_device", checks);
    }
    free(sorted);
}

static bool memory_agrees(const CheckRank *rank)
{
    double peak = rank->peak_bytes.number, planned = rank->planned_bytes.number;
    return peak >= 0 && peak <= planned &&
           (!rank->allocated_bytes.known || peak <= rank->allocated_bytes.number) &&
           (!rank->planned_sum.known || rank->planned_sum.number == planned) &&
           (!rank->peak_sum.known || rank->peak_sum.number == peak);
}

void checks_ranks(const Summary *summary, const CheckInput *input, const CheckRank *ranks,
                  size_t count, Checks *checks)
{
    OfEach phases = {0}, memory = {0}, throttled = {0}, alone = {0}, spill = {0};
    for (const CheckRank *rank = ranks; rank < ranks + count; rank++) {
        if (rank->has_timers && rank->wall_s.known) {
            double wall = rank->wall_s.number;
            double sum = check_phase_sum(&rank->timers) + rank->other_phases;
            const char *wrong = check_phase_numbers(&rank->timers, input->complete);
            bool good = wrong == NULL && fabs(wall - sum) <= CHECK_PHASES_SLACK * wall;
            each_take(&phases, rank, good, wall, sum, wrong != NULL ? wrong : "");
        }
        if (rank->peak_bytes.known && rank->planned_bytes.known) {
            each_take(&memory, rank, memory_agrees(rank), rank->planned_bytes.number,
                      rank->peak_bytes.number, "");
        }
        if (rank->throttled_share.known) {
            each_limit(&throttled, rank, CHECK_THROTTLED, rank->throttled_share.number,
                       rank->throttle);
        }
        if (rank->other_processes.known) {
            each_limit(&alone, rank, 0, rank->other_processes.number, "");
        }
        /* Memory beyond what the GPU has lies in the host's, behind the bus. */
        if (rank->total_bytes.known && (rank->used_bytes.known || rank->allocated_bytes.known)) {
            double total = rank->total_bytes.number;
            double most = fmax(rank->used_bytes.known ? rank->used_bytes.number : 0,
                               rank->allocated_bytes.known ? rank->allocated_bytes.number : 0);
            each_take(&spill, rank, most <= total, total, most, "");
        }
    }
    if (input->ranks > 0) {
        check_presence(input, ranks, count, checks);
    }
    each_end(&phases, "rank_phases", checks);
    each_end(&memory, "rank_memory", checks);
    check_slowest(summary, ranks, count, checks);
    check_stragglers(ranks, count, checks);
    check_sharing(ranks, count, checks);
    each_end(&throttled, "throttled", checks);
    each_end(&alone, "gpu_alone", checks);
    each_end(&spill, "gpu_memory", checks);
}
