#include "train/saver.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/checkpoint_parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

typedef enum { STAGE_NONE, STAGE_WRITE, STAGE_COMPLETE } Stage;

/* What a rank says of its part. */
typedef struct {
    int code;
    uint64_t digests[PARTS_FILES];
    char host[64];
    char why[320];
} PartReport;

struct Saver {
    SaverSetup setup;
    int rank, ranks;
    PartsFile files[PARTS_FILES];
    char *copy; /* of this rank's part; NULL: at once */
    /* Of the save under way. */
    Stage stage;
    TrainState state; /* its trees and scales are the saver's own */
    cJSON *legs, *config;
    char *scales, *temporary;
    CheckpointDigests digests;
    PartReport own, *all; /* (ranks) */
    bool cut_off;         /* not all could be heard */
    pthread_t thread;
    bool has_thread;
    atomic_bool done;
};

/* --- stages, in any thread --- */

static void note(PartReport *report, int code)
{
    report->code = code;
    snprintf(report->why, sizeof report->why, "%s", code != 0 ? err_message() : "");
}

static void write_part(Saver *s)
{
    const char *copy = s->copy;
    int code = 0;
    for (int i = 0; i < PARTS_FILES && code == 0; i++) {
        char *path = io_join(s->temporary, s->files[i].name);
        code = parts_write(&s->files[i], path, s->setup.trainer, copy != NULL ? &copy : NULL,
                           &s->own.digests[i]);
        free(path);
    }
    note(&s->own, code);
}

/* With one writer the digest of what it wrote is that of the file. */
static int compare_parts(Saver *s, uint64_t whole[PARTS_FILES])
{
    int code = 0;
    uint64_t *digests = mem_zalloc((size_t)s->ranks, sizeof *digests);
    for (int i = 0; i < PARTS_FILES && code == 0; i++) {
        char *path = io_join(s->temporary, s->files[i].name);
        int other = -1;
        for (int rank = 0; rank < s->ranks; rank++) {
            digests[rank] = s->all[rank].digests[i];
        }
        whole[i] = digests[0];
        if (s->ranks > 1) {
            code = parts_compare(&s->files[i], path, digests, &whole[i], &other);
        }
        if (code == 0 && other >= 0) {
            code = err_set(ERR_FAILED,
                           "%s: what rank %d on host %s wrote there is not what rank 0 on host %s "
                           "reads: the run directory must be one folder for all hosts (--out on a "
                           "shared file system), or the disk is faulty",
                           path, other, s->all[other].host, s->all[0].host);
        }
        free(path);
    }
    free(digests);
    return code;
}

static void complete(Saver *s)
{
    uint64_t whole[PARTS_FILES];
    int code = compare_parts(s, whole);
    CheckpointDigests digests = {whole[PARTS_MODEL], whole[PARTS_OPTIMIZER]};
    code = code != 0 ? code
                     : checkpoint_complete(s->setup.run, s->temporary, &s->state,
                                           &s->setup.trainer->setup.spec, s->config, digests);
    if (code == 0) {
        code = checkpoint_prune(s->setup.run, s->state.step, s->setup.keep);
        code = code == 0 ? 0 : err_wrap(code, "it is complete, but an older one stays");
    }
    note(&s->own, code);
}

static void run_stage(Saver *s)
{
    if (s->stage == STAGE_WRITE) {
        write_part(s);
    } else if (s->rank == 0) {
        complete(s);
    }
    atomic_store_explicit(&s->done, true, memory_order_release);
}

static void *run_thread(void *saver)
{
    prctl(PR_SET_NAME, "pacer-save");
    run_stage(saver);
    return NULL;
}

/* Where no thread can be had, here. */
static void enter(Saver *s, Stage stage)
{
    s->stage = stage;
    s->own.code = 0;
    atomic_store(&s->done, false);
    s->has_thread = s->copy != NULL && (stage == STAGE_WRITE || s->rank == 0) &&
                    pthread_create(&s->thread, NULL, run_thread, s) == 0;
    if (!s->has_thread) {
        comm_at_files(s->setup.comm, true);
        run_stage(s);
        comm_at_files(s->setup.comm, false);
    }
}

static void join(Saver *s)
{
    if (s->has_thread) {
        comm_at_files(s->setup.comm, true);
        pthread_join(s->thread, NULL);
        comm_at_files(s->setup.comm, false);
        s->has_thread = false;
    }
}

/* --- between them --- */

/* The save has ended. A failure leaves nothing behind, and its message. */
static int conclude(Saver *s, int code)
{
    if (code != 0 && s->rank == 0) {
        char *why = mem_strdup(err_message());
        if (io_remove_tree(s->temporary) != 0) {
            log_warn("%s", err_message());
        }
        err_set(code, "%s", why);
        free(why);
    }
    cJSON_Delete(s->legs);
    cJSON_Delete(s->config);
    free(s->scales);
    free(s->temporary);
    s->legs = s->config = NULL;
    s->scales = s->temporary = NULL;
    s->stage = STAGE_NONE;
    return code;
}

/* What all ranks say: the first error, told with its rank. */
static int hear_all(Saver *s)
{
    if (s->ranks > 1) {
        snprintf(s->own.host, sizeof s->own.host, "%.63s", comm_host(s->setup.comm));
        int code = comm_gather(s->setup.comm, &s->own, sizeof s->own, s->all);
        s->cut_off = code != 0;
        if (code != 0) {
            return code;
        }
    } else {
        s->all[0] = s->own;
    }
    for (int i = 0; i < s->ranks; i++) {
        const PartReport *report = &s->all[i];
        if (report->code != 0) {
            return s->ranks > 1 ? err_set(report->code, "rank %d on host %s: %s", i, report->host,
                                          report->why)
                                : err_set(report->code, "%s", report->why);
        }
    }
    return 0;
}

int saver_advance(Saver *s, bool *ended)
{
    PACER_ASSERT(s->stage != STAGE_NONE, "nothing is being saved");
    join(s);
    int code = hear_all(s);
    *ended = code != 0 || s->stage == STAGE_COMPLETE;
    if (*ended) {
        return conclude(s, code);
    }
    enter(s, STAGE_COMPLETE);
    return 0;
}

int saver_finish(Saver *s)
{
    int code = 0;
    for (bool ended = s->stage == STAGE_NONE; !ended;) {
        code = saver_advance(s, &ended);
    }
    return code;
}

/* The folder and its two files, empty but of their size. */
static int prepare(Saver *s)
{
    if (s->rank > 0) {
        return 0;
    }
    checkpoint_clean(s->setup.run); /* a failure may have left what could not be removed then */
    int code = io_make_folders(s->temporary);
    for (int i = 0; i < PARTS_FILES && code == 0; i++) {
        char *path = io_join(s->temporary, s->files[i].name);
        code = io_create_sized(path, parts_file_bytes(&s->files[i]));
        free(path);
    }
    return code;
}

int saver_start(Saver *s, const TrainState *state, const cJSON *config)
{
    PACER_ASSERT(s->stage == STAGE_NONE, "step %lld is still being saved",
                 (long long)s->state.step);
    trainer_settle(s->setup.trainer); /* before anything can fail here alone */
    s->state = *state;
    s->state.legs = s->legs = json_copy(state->legs);
    int code = trainer_scales_text(s->setup.trainer, &s->scales);
    s->state.scales = s->scales;
    s->config = json_copy(config);
    s->temporary = checkpoint_temporary(s->setup.run, state->step);
    note(&s->own, code != 0 ? code : prepare(s));
    code = hear_all(s);
    if (code != 0) {
        return conclude(s, code);
    }
    if (s->copy != NULL) {
        parts_copy(s->files, s->setup.trainer, s->copy);
    }
    enter(s, STAGE_WRITE);
    return s->copy == NULL ? saver_finish(s) : 0;
}

bool saver_is_under_way(const Saver *s)
{
    return s->stage != STAGE_NONE;
}

bool saver_is_busy(const Saver *s)
{
    return s->has_thread && !atomic_load_explicit(&s->done, memory_order_acquire);
}

bool saver_is_cut_off(const Saver *s)
{
    return s->cut_off;
}

/* --- life --- */

int saver_open(const SaverSetup *setup, Saver **out)
{
    Saver *s = mem_zalloc(1, sizeof *s);
    const DdpSetup *ddp = &setup->trainer->setup.ddp;
    s->setup = *setup;
    s->rank = ddp->rank;
    s->ranks = ddp->ranks > 1 ? ddp->ranks : 1;
    s->all = mem_zalloc((size_t)s->ranks, sizeof *s->all);
    *out = s;
    int code = parts_open(s->files, setup->trainer);
    if (code == 0 && setup->behind) {
        Backend *backend = setup->trainer->backend;
        size_t bytes = parts_own_bytes(setup->trainer);
        s->copy = backend->host_alloc(backend, bytes > 0 ? bytes : 1);
        code = s->copy != NULL
                   ? 0
                   : err_set(ERR_MEMORY,
                             "--save async: no memory for a copy of %zu bytes of the state; take "
                             "--save sync",
                             bytes);
    }
    if (code != 0) {
        saver_close(s);
        *out = NULL;
    }
    return code;
}

void saver_close(Saver *s)
{
    if (s == NULL) {
        return;
    }
    join(s);
    if (s->stage != STAGE_NONE) {
        bool saved = s->stage == STAGE_COMPLETE && s->own.code == 0;
        if (s->rank == 0 && !saved) {
            log_warn("step %lld is not saved", (long long)s->state.step);
        }
        conclude(s, ERR_FAILED); /* the message is what the run ended with */
    }
    if (s->copy != NULL) {
        Backend *backend = s->setup.trainer->backend;
        backend->host_release(backend, s->copy);
    }
    parts_close(s->files);
    free(s->all);
    free(s);
}

int checkpoint_save(const char *run, Trainer *trainer, const TrainState *state, const cJSON *config,
                    int64_t keep)
{
    Saver *saver;
    int code = saver_open(
        &(SaverSetup){.run = run, .keep = keep, .trainer = trainer, .comm = trainer->comm}, &saver);
    if (code == 0) {
        code = saver_start(saver, state, config);
        saver_close(saver);
    }
    return code;
}
