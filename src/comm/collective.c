/* Collectives in host memory, over messages that do not wait.
 *
 * An all-reduce is a reduce-scatter and an all-gather: every rank is sent the others' shares of the
 * part that is its own, sums them in rank order (sum.c), and sends the sum to all. Each rank sends
 * and receives 2 (n - 1) / n of the data, the least there is; nothing depends on what order
 * messages come in, and a sum of bf16 is rounded once. Data goes in pieces with two under way, so
 * that scratch is small and stays in the cache. A small all-reduce sends everything to everybody:
 * one message's time instead of two, and the same bits.
 *
 * The thread polls: MPI moves data inside MPI_Test only. To leave a core to the computation it
 * yields a few times and then sleeps, at first for microseconds. */
#include "comm/internal.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PIECE_BYTES ((size_t)128 << 10) /* from one rank to one other at a time */
#define SMALL_BYTES ((size_t)4 << 10)   /* sent whole to every rank */
#define BROADCAST_BYTES ((size_t)64 << 20)
#define UNDER_WAY 2 /* pieces */

#define YIELDS 64
#define SLEEP_LEAST 5000L /* ns */
#define SLEEP_MOST 100000L
#define LOOK_EVERY 0.05 /* s: for ranks that have ended, and for the timeout */
#define GRACE 0.1       /* s that what a rank sent before it ended may take */

/* Messages of one piece. */
typedef struct {
    MpiRequest *requests; /* (2 x ranks): sends and receives */
    int count, tag;
} Flight;

enum { TAG_SCATTER, TAG_GATHER };

struct Engine {
    Comm *comm;
    const MpiModule *module;
    Flight scatter[UNDER_WAY], gather[UNDER_WAY];
    char *scratch[UNDER_WAY]; /* (ranks, PIECE_BYTES) */
    const void **parts;       /* (ranks) */
    const Work *work;
    RankGroup among; /* whom it is among, */
    int me, ranks;   /* this rank's number there, and how many they are */
    double moved;    /* clock when something last arrived */
    double looked;   /* clock */
    double death;    /* clock when a dead rank was seen; 0: none was */
    BoardMet met;
};

/* How the data of one collective lies: part k of rank k, each cut in pieces. */
typedef struct {
    int64_t part;  /* elements from one part to the next */
    int64_t total; /* elements of all parts: the last may be short or empty */
    int64_t piece; /* elements */
    size_t size;   /* bytes of an element */
} Layout;

Engine *engine_new(Comm *comm, const MpiModule *module)
{
    Engine *e = mem_zalloc(1, sizeof *e);
    e->comm = comm;
    e->module = module;
    e->parts = mem_zalloc((size_t)comm->ranks, sizeof *e->parts);
    for (int i = 0; i < UNDER_WAY; i++) {
        size_t requests = 2 * (size_t)comm->ranks;
        e->scatter[i] = (Flight){mem_zalloc(requests, sizeof(MpiRequest)), 0, TAG_SCATTER};
        e->gather[i] = (Flight){mem_zalloc(requests, sizeof(MpiRequest)), 0, TAG_GATHER};
        e->scratch[i] = mem_alloc((size_t)comm->ranks * PIECE_BYTES);
    }
    return e;
}

void engine_free(Engine *e)
{
    if (e == NULL) {
        return;
    }
    for (int i = 0; i < UNDER_WAY; i++) {
        free(e->scatter[i].requests);
        free(e->gather[i].requests);
        free(e->scratch[i]);
    }
    free(e->parts);
    free(e);
}

static int mpi_failed(Engine *e, int code)
{
    char text[MPI_MODULE_TEXT];
    e->module->explain(code, text);
    return err_set(ERR_FAILED, "%s %lld: %s", e->work->name, (long long)e->work->number, text);
}

/* Nothing has arrived: a look at the others now and then, and a rest. */
static int rest(Engine *e, int polls, long *sleep_ns)
{
    if (polls < YIELDS) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){0, *sleep_ns}, NULL);
        *sleep_ns = *sleep_ns * 2 < SLEEP_MOST ? *sleep_ns * 2 : SLEEP_MOST;
    }
    board_beat(e->comm->board);
    double now = clock_seconds();
    if (worker_is_ending(e->comm->worker)) {
        return err_set(ERR_FAILED, "the job is being ended");
    }
    if (now - e->looked < LOOK_EVERY) {
        return 0;
    }
    e->looked = now;
    BoardWait wait = {.rank = e->comm->rank,
                      .ranks = e->comm->ranks,
                      .number = e->work->number,
                      .what = e->work->name,
                      .waited_s = now - e->moved};
    char text[BOARD_TEXT_SIZE];
    int dead = wait_find_dead(e->comm);
    if (dead >= 0 && e->death == 0) {
        e->death = now;
    } else if (dead >= 0 && now - e->death > GRACE) {
        wait_explain_end(e->comm, &wait, dead, text);
        return err_set(ERR_FAILED, "%s", text);
    }
    bool over = wait_is_over(e->comm, wait, &e->met, text);
    return over ? err_set(ERR_FAILED, "%s", text) : 0;
}

static int finish(Engine *e, Flight *flight)
{
    for (int i = 0; i < flight->count; i++) {
        long sleep_ns = SLEEP_LEAST;
        for (int polls = 0;; polls++) {
            bool done = false;
            int code = e->module->test(&flight->requests[i], &done);
            if (code != 0) {
                return mpi_failed(e, code);
            }
            if (done) {
                break;
            }
            code = rest(e, polls, &sleep_ns);
            if (code != 0) {
                return code;
            }
        }
        e->moved = clock_seconds();
        e->death = 0;
        e->met = (BoardMet){0};
    }
    flight->count = 0;
    return 0;
}

/* Elements of piece p of part k. */
static int64_t length_of(const Layout *l, int k, int64_t p)
{
    int64_t first = k * l->part + p * l->piece;
    int64_t end = (k + 1) * l->part < l->total ? (k + 1) * l->part : l->total;
    int64_t left = end - first;
    return left < 0 ? 0 : left < l->piece ? left : l->piece;
}

static char *address_of(const Layout *l, const void *data, int k, int64_t p)
{
    return (char *)data + (size_t)(k * l->part + p * l->piece) * l->size;
}

static int64_t pieces_of(const Layout *l)
{
    return (l->part + l->piece - 1) / l->piece;
}

static int start(Engine *e, Flight *flight, bool is_send, void *bytes, size_t size, int peer)
{
    if (size == 0) {
        return 0;
    }
    MpiRequest *request = &flight->requests[flight->count++];
    peer = e->among.first + peer * e->among.step;
    int code = is_send ? e->module->send(request, bytes, size, peer, flight->tag)
                       : e->module->receive(request, bytes, size, peer, flight->tag);
    return code != 0 ? mpi_failed(e, code) : 0;
}

/* Piece p. Scattered, each rank's share of it goes to its owner, and the others' shares of mine
 * come into scratch; gathered, mine goes to everybody, and theirs come to their places. */
static int start_piece(Engine *e, Flight *flights, const Layout *l, const void *data, int64_t p)
{
    int slot = (int)(p % UNDER_WAY), me = e->me, ranks = e->ranks, code = 0;
    Flight *flight = &flights[slot];
    bool scatters = flight->tag == TAG_SCATTER;
    size_t mine = (size_t)length_of(l, me, p) * l->size;
    for (int i = 1; i < ranks && code == 0; i++) {
        int from = (me + ranks - i) % ranks;
        char *place =
            scatters ? e->scratch[slot] + (size_t)from * PIECE_BYTES : address_of(l, data, from, p);
        size_t size = scatters ? mine : (size_t)length_of(l, from, p) * l->size;
        code = start(e, flight, false, place, size, from);
    }
    for (int i = 1; i < ranks && code == 0; i++) {
        int to = (me + i) % ranks, part = scatters ? to : me;
        size_t size = (size_t)length_of(l, part, p) * l->size;
        code = start(e, flight, true, address_of(l, data, part, p), size, to);
    }
    return code;
}

static int finish_gathers(Engine *e)
{
    int code = 0;
    for (int slot = 0; slot < UNDER_WAY && code == 0; slot++) {
        code = finish(e, &e->gather[slot]);
    }
    return code;
}

/* mine: where the sum of this rank's part goes. */
static void sum_piece(Engine *e, const Layout *l, const void *in, char *mine, int64_t p,
                      DType dtype)
{
    int slot = (int)(p % UNDER_WAY), me = e->me;
    for (int k = 0; k < e->ranks; k++) {
        e->parts[k] =
            k == me ? address_of(l, in, me, p) : e->scratch[slot] + (size_t)k * PIECE_BYTES;
    }
    sum_parts(mine + (size_t)(p * l->piece) * l->size, e->parts, e->ranks, length_of(l, me, p),
              dtype);
}

static int run_reduce(Engine *e, const Layout *l, const void *in, char *mine, void *gathered)
{
    int64_t pieces = pieces_of(l);
    int code = pieces > 0 ? start_piece(e, e->scatter, l, in, 0) : 0;
    for (int64_t p = 0; p < pieces && code == 0; p++) {
        int slot = (int)(p % UNDER_WAY);
        if (p + 1 < pieces) {
            code = start_piece(e, e->scatter, l, in, p + 1);
        }
        if (code == 0) {
            code = finish(e, &e->scatter[slot]);
        }
        if (code == 0) {
            sum_piece(e, l, in, mine, p, e->work->dtype);
        }
        if (code == 0 && gathered != NULL) {
            code = finish(e, &e->gather[slot]);
        }
        if (code == 0 && gathered != NULL) {
            code = start_piece(e, e->gather, l, gathered, p);
        }
    }
    return code != 0 ? code : finish_gathers(e);
}

static int run_gather(Engine *e, const Layout *l, const void *in, void *out)
{
    char *mine = address_of(l, out, e->me, 0);
    if (mine != in && l->part > 0) {
        memmove(mine, in, (size_t)l->part * l->size);
    }
    int64_t pieces = pieces_of(l);
    int code = 0;
    for (int64_t p = 0; p < pieces && code == 0; p++) {
        int slot = (int)(p % UNDER_WAY);
        code = finish(e, &e->gather[slot]);
        if (code == 0) {
            code = start_piece(e, e->gather, l, out, p);
        }
    }
    return code != 0 ? code : finish_gathers(e);
}

/* All of it to everybody. */
static int run_small_reduce(Engine *e, const Work *work, const Layout *l)
{
    char *all = e->scratch[0];
    for (int k = 0; k < e->ranks; k++) {
        e->parts[k] = address_of(l, all, k, 0);
    }
    int code = run_gather(e, l, work->out, all);
    if (code == 0) {
        sum_parts(work->out, e->parts, e->ranks, work->count, work->dtype);
    }
    return code;
}

static int run_all_reduce(Engine *e, const Work *work, Layout l)
{
    int64_t ranks = e->ranks, line = (int64_t)(64 / l.size);
    if ((size_t)work->count * l.size <= SMALL_BYTES) {
        l.part = work->count;
        l.total = work->count * ranks;
        return run_small_reduce(e, work, &l);
    }
    l.part = ((work->count + ranks - 1) / ranks + line - 1) / line * line;
    l.total = work->count;
    return run_reduce(e, &l, work->out, address_of(&l, work->out, e->me, 0), work->out);
}

static int run_broadcast(Engine *e, const Work *work)
{
    size_t bytes = (size_t)work->count * work->size;
    for (size_t at = 0; at < bytes; at += BROADCAST_BYTES) {
        size_t part = bytes - at < BROADCAST_BYTES ? bytes - at : BROADCAST_BYTES;
        MpiRequest request;
        Flight one = {.requests = &request, .count = 1};
        int code = e->module->broadcast(&request, (char *)work->out + at, part, work->root);
        code = code != 0 ? mpi_failed(e, code) : finish(e, &one);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

/* A word from every rank. */
static int run_barrier(Engine *e)
{
    Layout l = {.part = 1, .total = e->ranks, .piece = 1, .size = 1};
    char *all = e->scratch[0];
    all[e->me] = 1;
    return run_gather(e, &l, all + e->me, all);
}

int engine_run(Engine *e, const Work *work)
{
    size_t size = work->size;
    e->among = work->among.count > 0 ? work->among : (RankGroup){0, 1, e->comm->ranks};
    e->ranks = e->among.count;
    e->me = (e->comm->rank - e->among.first) / e->among.step;
    Layout l = {.part = work->count,
                .total = work->count * e->ranks,
                .piece = (int64_t)(PIECE_BYTES / size),
                .size = size};
    e->work = work;
    e->moved = e->looked = clock_seconds();
    e->death = 0;
    switch (work->kind) {
    case WORK_ALL_REDUCE:
        return run_all_reduce(e, work, l);
    case WORK_REDUCE_SCATTER:
        return run_reduce(e, &l, work->in, work->out, NULL);
    case WORK_ALL_GATHER:
        return run_gather(e, &l, work->in, work->out);
    case WORK_BROADCAST:
        return run_broadcast(e, work);
    case WORK_BARRIER:
        return run_barrier(e);
    }
    PACER_ASSERT(false, "work of kind %d", (int)work->kind);
}
