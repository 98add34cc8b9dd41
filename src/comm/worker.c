/* One thread per rank talks to MPI; the others hand it works through a ring and go on, or wait.
 * It sleeps while there is nothing to do, waking twice a second to show that the rank lives. */
#include "comm/internal.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define RING 256
#define BEAT_EVERY 500000000L /* ns */
#define FLUSH_EVERY 4         /* beats, where ranks are on several hosts */
#define SPEAK_OUT 300000      /* us */
#define ABORT_PATIENCE 3      /* s that ending the job through MPI may take */

typedef enum { STAGE_OPENING, STAGE_OPEN, STAGE_RUNNING, STAGE_CLOSING, STAGE_REFUSED } Stage;

struct Worker {
    Comm *comm;
    const MpiModule *module;
    MpiWorld *world;
    char why[MPI_MODULE_TEXT]; /* MPI did not start */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;    /* of the worker */
    pthread_cond_t changed; /* stage, done, ring */
    Stage stage;
    Work ring[RING]; /* work n at n % RING */
    int64_t put, done;
    double busy;
    bool failed;
    char problem[BOARD_TEXT_SIZE];
    atomic_int abort_status; /* -1: the job goes on */
};

static void set_stage(Worker *w, Stage stage)
{
    pthread_mutex_lock(&w->mutex);
    w->stage = stage;
    pthread_cond_broadcast(&w->changed);
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->mutex);
}

static void *leave_anyway(void *status)
{
    sleep(ABORT_PATIENCE);
    _exit((int)(intptr_t)status);
}

static void end_job(Worker *w, int status)
{
    pthread_t thread;
    fflush(NULL);
    usleep(SPEAK_OUT); /* mpirun does not wait for what it has still to forward */
    /* Without a network MPI may wait long for whoever is to end the others. */
    pthread_create(&thread, NULL, leave_anyway, (void *)(intptr_t)status);
    w->module->abort(status);
    _exit(status);
}

/* Held: the mutex. */
static void rest(Worker *w, int *beats)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += BEAT_EVERY;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    if (pthread_cond_timedwait(&w->wake, &w->mutex, &until) == ETIMEDOUT &&
        w->stage >= STAGE_RUNNING) {
        board_beat(w->comm->board);
        launch_look();
        if (w->comm->local_ranks < w->comm->ranks && ++*beats % FLUSH_EVERY == 0) {
            board_flush(w->comm->board);
        }
    }
}

static void do_work(Worker *w, Engine *engine, const Work *work)
{
    double start = clock_seconds();
    board_enter(w->comm->board, work->number, work->name);
    int code = engine_run(engine, work);
    if (worker_is_ending(w)) {
        return;
    }
    if (code == 0) {
        board_leave(w->comm->board); /* else the others see where this rank gave up */
    }
    if (code != 0) {
        comm_lost(w->comm);
    }
    if (code != 0 && !work->is_control) {
        log_error("%s", err_message());
        comm_tell_failed(w->comm, err_message());
        end_job(w, err_exit_status(code));
    }
    double end = clock_seconds();
    pthread_mutex_lock(&w->mutex);
    w->done = work->number;
    if (!work->is_control) {
        w->busy += end - start;
    }
    if (work->span != NULL) {
        work->span->start_ns = span_ns(start);
        work->span->end_ns = span_ns(end);
    }
    if (code != 0) {
        w->failed = true;
        snprintf(w->problem, sizeof w->problem, "%s", err_message());
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

/* Until the ring is empty and the end was asked for. */
static void serve(Worker *w)
{
    Engine *engine = NULL;
    int beats = 0;
    pthread_mutex_lock(&w->mutex);
    while (!worker_is_ending(w) && !w->failed) {
        if (w->stage == STAGE_OPEN || (w->done == w->put && w->stage != STAGE_CLOSING)) {
            rest(w, &beats);
            continue;
        }
        if (w->done == w->put) {
            break;
        }
        Work work = w->ring[(w->done + 1) % RING];
        pthread_mutex_unlock(&w->mutex);
        if (engine == NULL) {
            engine = engine_new(w->comm, w->module);
        }
        do_work(w, engine, &work);
        pthread_mutex_lock(&w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
    /* After a failure messages may still be on their way into the engine's memory. */
    if (!w->failed && !worker_is_ending(w)) {
        engine_free(engine);
    }
}

static void *run(void *argument)
{
    Worker *w = argument;
    prctl(PR_SET_NAME, "pacer-comm");
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns: sleeps are as short as they are asked to be */
    if (!w->module->open(w->world, w->why)) {
        set_stage(w, STAGE_REFUSED);
        return NULL;
    }
    set_stage(w, STAGE_OPEN);
    serve(w);
    pthread_mutex_lock(&w->mutex);
    while (w->failed && !worker_is_ending(w)) {
        pthread_cond_wait(&w->wake, &w->mutex); /* for whoever ends the job */
    }
    pthread_mutex_unlock(&w->mutex);
    if (worker_is_ending(w)) {
        end_job(w, atomic_load(&w->abort_status));
    }
    w->module->close();
    return NULL;
}

static void release(Worker *w)
{
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

int worker_open(Comm *comm, const MpiModule *module, MpiWorld *world, Worker **out)
{
    Worker *w = mem_zalloc(1, sizeof *w);
    w->comm = comm;
    w->module = module;
    w->world = world;
    atomic_store(&w->abort_status, -1);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->wake, &monotonic);
    pthread_cond_init(&w->changed, NULL);
    pthread_condattr_destroy(&monotonic);
    int cause = pthread_create(&w->thread, NULL, run, w);
    PACER_ASSERT(cause == 0, "thread for communication: %s", strerror(cause));
    pthread_mutex_lock(&w->mutex);
    while (w->stage == STAGE_OPENING) {
        pthread_cond_wait(&w->changed, &w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
    if (w->stage == STAGE_REFUSED) {
        int code = err_set(ERR_FAILED, "MPI does not start: %s", w->why);
        release(w);
        return code;
    }
    *out = w;
    return 0;
}

void worker_start(Worker *w)
{
    set_stage(w, STAGE_RUNNING);
}

void worker_set_board(Worker *w, Board *board)
{
    pthread_mutex_lock(&w->mutex);
    board_close(w->comm->board);
    w->comm->board = board;
    pthread_mutex_unlock(&w->mutex);
}

bool worker_has_failed(Worker *w)
{
    pthread_mutex_lock(&w->mutex);
    bool failed = w->failed;
    pthread_mutex_unlock(&w->mutex);
    return failed;
}

void worker_close(Worker *w)
{
    if (worker_has_failed(w)) {
        worker_abort(w, err_exit_status(ERR_FAILED));
    }
    set_stage(w, STAGE_CLOSING);
    release(w);
}

int64_t worker_put(Worker *w, Work work)
{
    pthread_mutex_lock(&w->mutex);
    while (w->put - w->done >= RING && !w->failed) {
        pthread_cond_wait(&w->changed, &w->mutex);
    }
    work.number = ++w->put;
    if (!w->failed) {
        w->ring[work.number % RING] = work;
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->mutex);
    return work.number;
}

int worker_wait(Worker *w, int64_t number)
{
    pthread_mutex_lock(&w->mutex);
    while (w->done < number && !w->failed) {
        pthread_cond_wait(&w->changed, &w->mutex);
    }
    bool failed = w->failed;
    pthread_mutex_unlock(&w->mutex);
    return failed ? err_set(ERR_FAILED, "%s", w->problem) : 0;
}

int64_t worker_last(const Worker *w)
{
    return w->put;
}

double worker_take_busy(Worker *w)
{
    pthread_mutex_lock(&w->mutex);
    double busy = w->busy;
    w->busy = 0;
    pthread_mutex_unlock(&w->mutex);
    return busy;
}

bool worker_is_ending(Worker *w)
{
    return atomic_load_explicit(&w->abort_status, memory_order_relaxed) >= 0;
}

void worker_abort(Worker *w, int status)
{
    fflush(NULL);
    if (pthread_equal(pthread_self(), w->thread)) {
        end_job(w, status);
    }
    atomic_store(&w->abort_status, status);
    pthread_mutex_lock(&w->mutex);
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->mutex);
    sleep(ABORT_PATIENCE);
    _exit(status);
}
