/* The ranks of a run against its summary and against each other. A check is about all ranks at
 * once and names those at fault, so that a thousand of them make no longer list than one. */
#include "record/checks.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- ranks by name --- */

#define LAST_WORDS 32 /* room for " and N more" */

typedef struct {
    char text[CHECK_SUBJECT_SIZE];
    size_t named, unnamed; /* those that fit, and those that did not */
} Names;

static size_t describe(const CheckRank *rank, char *text, size_t size)
{
    return (size_t)snprintf(text, size, "rank %lld%s%s%s%s", (long long)rank->rank,
                            rank->host[0] != '\0' ? " on " : "", rank->host,
                            rank->device[0] != '\0' ? " " : "", rank->device);
}

/* Adds a rank, with a remark in brackets unless it is "". */
static void names_add(Names *names, const CheckRank *rank, const char *remark)
{
    char one[CHECK_SUBJECT_SIZE + 160];
    size_t size = describe(rank, one, sizeof one);
    if (remark[0] != '\0') {
        size += (size_t)snprintf(one + size, sizeof one - size, " (%s)", remark);
    }
    size_t used = strlen(names->text), room = sizeof names->text - used;
    bool fits = names->unnamed == 0 && size + LAST_WORDS < room;
    if (fits) {
        snprintf(names->text + used, room, "%s%s", used > 0 ? ", " : "", one);
        names->named++;
    } else if (names->named == 0) {
        snprintf(names->text, sizeof names->text, "%.*s", CHECK_SUBJECT_SIZE - LAST_WORDS, one);
        names->named++;
    } else {
        names->unnamed++;
    }
}

static const char *names_end(Names *names)
{
    if (names->unnamed > 0) {
        size_t used = strlen(names->text);
        snprintf(names->text + used, sizeof names->text - used, " and %zu more", names->unnamed);
    }
    return names->text;
}

static bool any(const Names *names)
{
    return names->named > 0;
}

/* A check of one rank after the other: the numbers of the first one at fault, else of the last. */
typedef struct {
    Names names;
    bool seen;
    double expected, found;
} OfEach;

static void each_take(OfEach *each, const CheckRank *rank, bool good, double expected, double found,
                      const char *remark)
{
    if (!any(&each->names)) {
        each->expected = expected;
        each->found = found;
    }
    each->seen = true;
    if (!good) {
        names_add(&each->names, rank, remark);
    }
}

static void each_end(OfEach *each, const char *name, Checks *checks)
{
    if (each->seen) {
        checks_add(checks, name, !any(&each->names), each->expected, each->found,
                   names_end(&each->names));
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

static double phase_sum(const CheckRank *rank)
{
    double sum = rank->timers.unattributed_s + rank->other_phases;
    for (int i = 0; i < PHASE_COUNT; i++) {
        sum += rank->timers.phases[i].exclusive_s;
    }
    return sum;
}

static void check_phases(const CheckInput *in, const CheckRank *ranks, size_t count, Checks *checks)
{
    OfEach each = {0};
    for (size_t i = 0; i < count; i++) {
        if (ranks[i].has_timers && ranks[i].wall_s.known) {
            double wall = ranks[i].wall_s.number, sum = phase_sum(&ranks[i]);
            const char *wrong = check_phase_numbers(&ranks[i].timers, in->complete);
            bool good = wrong == NULL && fabs(wall - sum) <= CHECK_PHASES_SLACK * wall;
            each_take(&each, &ranks[i], good, wall, sum, wrong != NULL ? wrong : "");
        }
    }
    each_end(&each, "rank_phases", checks);
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
    if (timed > 1) {
        double limit = CHECK_STRAGGLER * clock_quantile(busy, timed, 0.5), worst = 0;
        Names names = {0};
        for (size_t i = 0; i < count; i++) {
            double seconds = ranks[i].has_timers ? busy_seconds(&ranks[i]) : NAN;
            worst = seconds > worst ? seconds : worst;
            if (seconds > limit) {
                char remark[32];
                snprintf(remark, sizeof remark, "%.3g s", seconds);
                names_add(&names, &ranks[i], remark);
            }
        }
        checks_add(checks, "stragglers", !any(&names), limit, worst, names_end(&names));
    }
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
    Names names = {0};
    for (size_t i = 0; i < known; i++) {
        bool as_before = i > 0 && by_device(&sorted[i - 1], &sorted[i]) == 0;
        bool as_next = i + 1 < known && by_device(&sorted[i], &sorted[i + 1]) == 0;
        distinct += !as_before;
        if (as_before || as_next) {
            names_add(&names, sorted[i], "");
        }
    }
    if (known > 1) {
        checks_add(checks, "shared_device", !any(&names), (double)known, (double)distinct,
                   names_end(&names));
    }
    free(sorted);
}

/* A reading of the ranks' GPUs, at most `limit`; found is the worst. */
static void check_readings(const CheckRank *ranks, size_t count, const char *name, double limit,
                           Value (*reading)(const CheckRank *rank), Checks *checks)
{
    Names names = {0};
    bool known = false;
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        Value value = reading(&ranks[i]);
        if (value.known) {
            known = true;
            worst = value.number <= worst ? worst : value.number;
            if (!(value.number <= limit)) {
                names_add(&names, &ranks[i], limit > 0 ? ranks[i].throttle : "");
            }
        }
    }
    if (known) {
        checks_add(checks, name, !any(&names), limit, worst, names_end(&names));
    }
}

static Value throttled_share(const CheckRank *rank)
{
    return rank->throttled_share;
}

static Value other_processes(const CheckRank *rank)
{
    return rank->other_processes;
}

/* Memory beyond what the GPU has lies in the host's, behind the bus. */
static void check_spill(const CheckRank *ranks, size_t count, Checks *checks)
{
    OfEach each = {0};
    for (size_t i = 0; i < count; i++) {
        const CheckRank *rank = &ranks[i];
        if (rank->total_bytes.known && (rank->used_bytes.known || rank->allocated_bytes.known)) {
            double most = fmax(rank->used_bytes.known ? rank->used_bytes.number : 0,
                               rank->allocated_bytes.known ? rank->allocated_bytes.number : 0);
            each_take(&each, rank, most <= rank->total_bytes.number, rank->total_bytes.number, most,
                      "");
        }
    }
    each_end(&each, "gpu_memory", checks);
}

static bool memory_agrees(const CheckRank *rank)
{
    double peak = rank->peak_bytes.number, planned = rank->planned_bytes.number;
    return peak >= 0 && peak <= planned &&
           (!rank->allocated_bytes.known || peak <= rank->allocated_bytes.number) &&
           (!rank->planned_sum.known || rank->planned_sum.number == planned) &&
           (!rank->peak_sum.known || rank->peak_sum.number == peak);
}

static void check_memory(const CheckRank *ranks, size_t count, Checks *checks)
{
    OfEach each = {0};
    for (size_t i = 0; i < count; i++) {
        if (ranks[i].peak_bytes.known && ranks[i].planned_bytes.known) {
            each_take(&each, &ranks[i], memory_agrees(&ranks[i]), ranks[i].planned_bytes.number,
                      ranks[i].peak_bytes.number, "");
        }
    }
    each_end(&each, "rank_memory", checks);
}

void checks_ranks(const Summary *summary, const CheckInput *input, const CheckRank *ranks,
                  size_t count, Checks *checks)
{
    if (input->ranks > 0) {
        check_presence(input, ranks, count, checks);
    }
    check_phases(input, ranks, count, checks);
    check_memory(ranks, count, checks);
    check_slowest(summary, ranks, count, checks);
    check_stragglers(ranks, count, checks);
    check_sharing(ranks, count, checks);
    check_readings(ranks, count, "throttled", CHECK_THROTTLED, throttled_share, checks);
    check_readings(ranks, count, "gpu_alone", 0, other_processes, checks);
    check_spill(ranks, count, checks);
}
