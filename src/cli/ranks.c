/* Being one of several ranks: how a command joins them, or has them started. */
#include "cli/ranks.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOSSES_MOST 100 /* told to the ranks: an environment has its limits */
#define LOCK_LOOKS 300  /* tenths of a second that ended ranks may keep their folder's lock */

/* The most ranks below so many that updates of the same size divide by; 0: there are none, or they
 * would not find the run: where --out is left out, its folder is named after options. */
static int fewer(const Config *cfg, int ranks)
{
    for (int less = ranks - 1; less >= cfg->min_ranks && cfg->out[0] != '\0'; less--) {
        Config trial;
        config_copy(&trial, cfg);
        bool divides = ranks_take(&trial, less) == 0;
        config_free(&trial);
        if (divides) {
            return less;
        }
    }
    return 0;
}

/* One more loss, as a leg of the run lists it. */
static void add_loss(cJSON *losses, const JobEnd *end, int ranks)
{
    char now[CLOCK_STAMP_SIZE];
    clock_stamp(now);
    cJSON *loss = json_object();
    json_put_text(loss, "at", now);
    json_put_whole(loss, "ranks", ranks);
    if (end->lost_number > 0) {
        json_put_whole(loss, "rank", end->lost_number - 1);
    }
    json_put_text(loss, "why", end->lost);
    json_append(losses, loss);
    if (cJSON_GetArraySize(losses) > LOSSES_MOST) {
        cJSON_DeleteItemFromArray(losses, 0);
    }
}

/* The lock of a rank that was killed is held until the system has taken down its memory. */
static bool lock_patiently(int lock, const char *path)
{
    bool locked = io_lock(lock, path);
    for (int i = 0; !locked && i < LOCK_LOOKS && signals_pending() == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        locked = io_lock(lock, path);
    }
    return locked;
}

/* All ranks are gone, and may not have been able to say so in their run's record. Not where
 * another job has taken the folder since. */
static void record_end(const JobEnd *end)
{
    char *path = io_join(end->folder, "lock"), status[64];
    int lock = open(path, O_RDWR | O_CLOEXEC);
    snprintf(status, sizeof status, "the ranks ended with status %d", end->status);
    const char *why = end->lost[0] != '\0' ? end->lost : end->why[0] != '\0' ? end->why : status;
    if (lock >= 0 && lock_patiently(lock, path) &&
        record_fail(end->folder, 0, NULL, why, end->lost[0] != '\0') != 0) {
        log_warn("%s", err_message());
    }
    if (lock >= 0) {
        close(lock);
    }
    free(path);
}

/* The ranks, and again as often as --restarts allows when they lose one: the run goes on from its
 * newest checkpoint by itself. A rank that is lost before there is a new one will be lost again:
 * then with fewer. */
static int launch_again(const Config *cfg, char *const *argv, JobEnd *end)
{
    int ranks = (int)cfg->ranks;
    cJSON *losses = json_array(); /* since the newest checkpoint */
    int code = comm_launch(ranks, argv, NULL, end);
    for (int64_t i = 1; code == 0 && end->lost[0] != '\0' && i <= cfg->restarts; i++) {
        if (signals_pending() != 0) { /* whoever asked for an end wants no new start */
            break;
        }
        if (end->saved_step > 0) {
            cJSON_Delete(losses);
            losses = json_array();
        }
        add_loss(losses, end, ranks);
        int less = cJSON_GetArraySize(losses) > 1 ? fewer(cfg, ranks) : 0;
        char with[64] = "";
        if (less > 0) {
            snprintf(with, sizeof with, " with %d ranks, %d before", less, ranks);
            ranks = less;
        }
        log_warn("%s; starting again%s, %lld of %lld restarts", end->lost, with, (long long)i,
                 (long long)cfg->restarts);
        char *why = json_line(losses);
        code = comm_launch(ranks, argv, why, end);
        free(why);
    }
    if (code == 0 && end->lost[0] != '\0' && end->lost_number == 0) { /* no rank has said it */
        log_error("%s", end->lost);
    }
    cJSON_Delete(losses);
    if (code == 0 && end->status != 0 && end->folder[0] != '\0' && signals_pending() == 0) {
        record_end(end);
    }
    return code;
}

int words_check(const Config *cfg)
{
    struct stat info;
    return cfg->config[0] == '\0' || stat(cfg->config, &info) != 0 || S_ISREG(info.st_mode)
               ? 0
               : err_set(ERR_INPUT,
                         "--config %s: the processes that --fit and --ranks start read it again, "
                         "and a pipe is empty then; give a file",
                         cfg->config);
}

void words_add(char ***words, size_t *count, char *word)
{
    *words = mem_realloc(*words, *count + 2, sizeof **words);
    (*words)[(*count)++] = word;
    (*words)[*count] = NULL;
}

char **words_of_process(char *const *more)
{
    FILE *file = fopen("/proc/self/cmdline", "rb");
    char **argv = NULL, *word = NULL;
    size_t count = 0, room = 0;
    errno = 0;
    while (file != NULL && getdelim(&word, &room, '\0', file) > 0) {
        words_add(&argv, &count, mem_strdup(word));
    }
    mem_checked(errno != ENOMEM ? &room : NULL, room); /* else arguments are missing */
    for (; count > 0 && more != NULL && *more != NULL; more++) {
        words_add(&argv, &count, mem_strdup(*more));
    }
    free(word);
    if (file != NULL) {
        fclose(file);
    }
    return argv;
}

void words_free(char **words)
{
    for (char **word = words; word != NULL && *word != NULL; word++) {
        free(*word);
    }
    free(words);
}

/* This process as so many ranks; returns only when they cannot be started. What they did is all
 * that the command does, and how they ended is its exit status. */
static int launch(const Config *cfg, char *const *more)
{
    char **argv = words_of_process(more);
    JobEnd end = {0};
    int code = argv != NULL
                   ? launch_again(cfg, argv, &end)
                   : err_set(ERR_FAILED, "--ranks: /proc/self/cmdline cannot be read; start "
                                         "pacer through mpirun yourself");
    words_free(argv);
    if (code == 0) {
        exit(end.status);
    }
    return code;
}

int ranks_enter(Config *cfg, const char *board, char *const *more, Comm **comm)
{
    *comm = NULL;
    if (comm_is_launched()) {
        return ranks_join(cfg, board, comm);
    }
    if (cfg->min_ranks > cfg->ranks) {
        return err_set(ERR_INPUT, "--min-ranks %lld is more than --ranks %lld",
                       (long long)cfg->min_ranks, (long long)cfg->ranks);
    }
    if (cfg->ranks == 1) {
        return cfg->restarts == 0
                   ? 0
                   : err_set(ERR_INPUT,
                             "--restarts: for ranks that are started here; give --ranks 2 "
                             "or more");
    }
    if (cfg->restarts > 0 && strcmp(cfg->resume, "auto") != 0) {
        return err_set(ERR_INPUT,
                       "--restarts go on from the run's newest checkpoint, which is "
                       "--resume auto, not --resume %s",
                       cfg->resume);
    }
    int code = words_check(cfg);
    return code != 0 ? code : launch(cfg, more);
}

bool ranks_lead(const Comm *comm)
{
    return comm == NULL || comm_rank(comm) == 0;
}
