/* A stand-in for gcc's OpenMP runtime, for ThreadSanitizer, which does not see how the real
 * one's threads synchronise and would call every parallel loop a race. Here a parallel region
 * starts threads and joins them, and meets at a barrier, by calls that it knows: what it then
 * reports is a race of pacer's own. Only what pacer and its libraries call: regions, barriers,
 * and one loop with a dynamic schedule per region. */
#include "base/assert.h"

#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 64

typedef void (*Body)(void *data);

typedef struct {
    Body body;
    void *data;
    int threads;
    pthread_barrier_t barrier;
    pthread_mutex_t lock; /* of the loop */
    bool looping;
    unsigned long long next, end, chunk; /* of the loop, which counts upwards by one */
} Team;

typedef struct {
    Team *team;
    int number;
} Member;

static __thread Member self; /* team NULL: outside of regions */
static int wanted = 2;       /* threads of a region that does not say */

/* What gcc compiles `#pragma omp` to; its names are declared nowhere. */
void GOMP_parallel(Body body, void *data, unsigned threads, unsigned flags);
void GOMP_barrier(void);
bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk, long *from,
                                          long *to);
bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to);
bool GOMP_loop_ull_nonmonotonic_dynamic_start(bool up, unsigned long long start,
                                              unsigned long long end, unsigned long long step,
                                              unsigned long long chunk, unsigned long long *from,
                                              unsigned long long *to);
bool GOMP_loop_ull_nonmonotonic_dynamic_next(unsigned long long *from, unsigned long long *to);
void GOMP_loop_end_nowait(void);

/* ---- regions ---- */

static void *run_member(void *argument)
{
    self = *(Member *)argument;
    self.team->body(self.team->data);
    return NULL;
}

/* A region inside another has one thread. */
void GOMP_parallel(Body body, void *data, unsigned threads, unsigned flags)
{
    (void)flags;
    Team team = {.body = body, .data = data, .threads = threads > 0 ? (int)threads : wanted};
    if (self.team != NULL && self.team->threads > 1) {
        team.threads = 1;
    }
    PACER_ASSERT(team.threads <= MOST_THREADS, "a region of %d threads", team.threads);
    pthread_barrier_init(&team.barrier, NULL, (unsigned)team.threads);
    pthread_mutex_init(&team.lock, NULL);
    pthread_t others[MOST_THREADS];
    Member members[MOST_THREADS], before = self;
    for (int i = 0; i < team.threads; i++) {
        members[i] = (Member){&team, i};
        if (i > 0) {
            int error = pthread_create(&others[i], NULL, run_member, &members[i]);
            PACER_ASSERT(error == 0, "thread %d: %s", i, strerror(error));
        }
    }
    run_member(&members[0]);
    self = before;
    for (int i = 1; i < team.threads; i++) {
        pthread_join(others[i], NULL);
    }
    pthread_mutex_destroy(&team.lock);
    pthread_barrier_destroy(&team.barrier);
}

void GOMP_barrier(void)
{
    if (self.team != NULL) {
        pthread_barrier_wait(&self.team->barrier);
    }
}

/* ---- loops with a dynamic schedule ---- */

static bool take_chunk(unsigned long long *from, unsigned long long *to)
{
    Team *team = self.team;
    pthread_mutex_lock(&team->lock);
    *from = team->next;
    *to = team->end - team->next < team->chunk ? team->end : team->next + team->chunk;
    team->next = *to;
    pthread_mutex_unlock(&team->lock);
    return *from < *to;
}

/* Every thread of the team says the same; the first one's word counts. */
static bool begin_loop(unsigned long long start, unsigned long long end, unsigned long long chunk,
                       unsigned long long *from, unsigned long long *to)
{
    Team *team = self.team;
    PACER_ASSERT(team != NULL && chunk > 0, "a loop outside of a region");
    pthread_mutex_lock(&team->lock);
    if (!team->looping) {
        team->looping = true;
        team->next = start;
        team->end = end > start ? end : start;
        team->chunk = chunk;
    }
    bool same = team->end == (end > start ? end : start) && team->chunk == chunk;
    pthread_mutex_unlock(&team->lock);
    PACER_ASSERT(same, "a second loop in a region");
    return take_chunk(from, to);
}

bool GOMP_loop_ull_nonmonotonic_dynamic_start(bool up, unsigned long long start,
                                              unsigned long long end, unsigned long long step,
                                              unsigned long long chunk, unsigned long long *from,
                                              unsigned long long *to)
{
    PACER_ASSERT(up && step == 1, "a loop that counts by %llu", step);
    return begin_loop(start, end, chunk, from, to);
}

bool GOMP_loop_ull_nonmonotonic_dynamic_next(unsigned long long *from, unsigned long long *to)
{
    return take_chunk(from, to);
}

bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk, long *from,
                                          long *to)
{
    PACER_ASSERT(start >= 0 && step == 1, "a loop from %ld by %ld", start, step);
    unsigned long long first, last, none = (unsigned long long)start;
    bool more = begin_loop(none, end > start ? (unsigned long long)end : none,
                           (unsigned long long)chunk, &first, &last);
    *from = (long)first;
    *to = (long)last;
    return more;
}

bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to)
{
    unsigned long long first, last;
    bool more = take_chunk(&first, &last);
    *from = (long)first;
    *to = (long)last;
    return more;
}

void GOMP_loop_end_nowait(void) {}

/* ---- questions ---- */

/* Libraries find those that pacer does not call itself here, too, and the rest in the real
 * runtime: oneDNN must see that it is called from inside a region. */

int omp_get_thread_num(void)
{
    return self.number;
}

int omp_get_num_threads(void)
{
    return self.team != NULL ? self.team->threads : 1;
}

int omp_in_parallel(void)
{
    return self.team != NULL && self.team->threads > 1;
}

int omp_get_max_threads(void)
{
    return wanted;
}

int omp_get_num_procs(void)
{
    return wanted;
}

void omp_set_num_threads(int threads)
{
    wanted = threads;
}
