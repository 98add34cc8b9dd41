/* A ring of PREFETCH_DEPTH batches. The thread fills slot made % depth while fewer than `depth`
 * are outstanding; the consumer holds slot (taken - 1) % depth and gives it back by asking for
 * the next. made, taken and the flags change under the lock only; the batches are filled outside
 * it, since a slot belongs to one side at any time. */
#include "data/prefetch.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct Prefetch {
    const Loader *loader;
    PrefetchOptions options;
    Batch slots[PREFETCH_DEPTH];
    uint32_t *counts;
    void *owned;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t made, taken, released; /* released <= taken <= made <= released + depth */
    bool stop;
    int code; /* the thread's error, after which it has ended */
    char *message;
};

static size_t align64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Arrays of a batch. */
static size_t arrays(bool separate)
{
    return separate ? 4 : 3;
}

size_t prefetch_bytes(int64_t batch, int64_t seq, uint64_t vocab, bool separate)
{
    size_t rows = align64((size_t)batch * (size_t)seq * sizeof(int32_t));
    return arrays(separate) * PREFETCH_DEPTH * rows + align64((size_t)vocab * sizeof(uint32_t));
}

void prefetch_sort(const int32_t *ids, int64_t n, uint64_t vocab, uint32_t *counts, int32_t *order)
{
    memset(counts, 0, (size_t)vocab * sizeof *counts);
    for (int64_t row = 0; row < n; row++) {
        counts[ids[row]]++;
    }
    uint32_t start = 0;
    for (uint64_t id = 0; id < vocab; id++) {
        uint32_t count = counts[id];
        counts[id] = start;
        start += count;
    }
    for (int64_t row = 0; row < n; row++) {
        order[counts[ids[row]]++] = (int32_t)row;
    }
}

static int make(Prefetch *prefetch, uint64_t step, Batch *batch)
{
    const PrefetchOptions *options = &prefetch->options;
    uint64_t block = step * (uint64_t)options->ranks + (uint64_t)options->rank;
    batch->first = options->start + block * (uint64_t)options->batch;
    int code =
        loader_fill(prefetch->loader, batch->first, options->batch, batch->tokens, batch->targets);
    int64_t seq = prefetch->loader->seq, rows = options->batch * seq;
    if (code == 0) {
        prefetch_sort(batch->tokens, rows, prefetch->loader->vocab, prefetch->counts, batch->order);
    }
    if (code == 0 && batch->starts != NULL) {
        document_starts(batch->tokens, rows, seq, prefetch->loader->split->end, batch->starts);
    }
    return code;
}

static void *run(void *argument)
{
    Prefetch *prefetch = argument;
    pthread_mutex_lock(&prefetch->lock);
    while (!prefetch->stop && prefetch->code == 0) {
        if (prefetch->made == prefetch->released + PREFETCH_DEPTH) {
            pthread_cond_wait(&prefetch->changed, &prefetch->lock);
            continue;
        }
        uint64_t step = prefetch->made;
        pthread_mutex_unlock(&prefetch->lock);
        int code = make(prefetch, step, &prefetch->slots[step % PREFETCH_DEPTH]);
        pthread_mutex_lock(&prefetch->lock);
        if (code == 0) {
            prefetch->made++;
        } else {
            prefetch->code = code;
            prefetch->message = mem_strdup(err_message());
        }
        pthread_cond_broadcast(&prefetch->changed);
    }
    pthread_mutex_unlock(&prefetch->lock);
    return NULL;
}

static int lay_out(Prefetch *prefetch)
{
    const PrefetchOptions *options = &prefetch->options;
    int64_t seq = prefetch->loader->seq;
    uint64_t vocab = prefetch->loader->vocab;
    bool separate = prefetch->loader->split->separate;
    char *at = options->memory;
    if (at == NULL) {
        size_t bytes = prefetch_bytes(options->batch, seq, vocab, separate);
        at = prefetch->owned = mem_try_aligned(bytes);
        if (at == NULL) {
            return err_set(ERR_MEMORY, "no memory for %zu bytes of batches; use a smaller --batch",
                           bytes);
        }
    }
    size_t rows = align64((size_t)options->batch * (size_t)seq * sizeof(int32_t));
    for (int i = 0; i < PREFETCH_DEPTH; i++, at += arrays(separate) * rows) {
        prefetch->slots[i] = (Batch){.tokens = (int32_t *)(void *)at,
                                     .targets = (int32_t *)(void *)(at + rows),
                                     .order = (int32_t *)(void *)(at + 2 * rows)};
        if (separate) {
            prefetch->slots[i].starts = (int32_t *)(void *)(at + 3 * rows);
        }
    }
    prefetch->counts = (uint32_t *)(void *)at;
    return 0;
}

static void release(Prefetch *prefetch)
{
    pthread_cond_destroy(&prefetch->changed);
    pthread_mutex_destroy(&prefetch->lock);
    free(prefetch->message);
    free(prefetch->owned);
    free(prefetch);
}

int prefetch_open(Prefetch **out, const Loader *loader, PrefetchOptions options)
{
    PACER_ASSERT(options.batch > 0 && options.ranks > 0 && options.rank >= 0 &&
                     options.rank < options.ranks && options.batch <= INT32_MAX / loader->seq,
                 "batch %" PRId64 " seq %" PRId64 " rank %d of %d", options.batch, loader->seq,
                 options.rank, options.ranks);
    *out = NULL;
    Prefetch *prefetch = mem_zalloc(1, sizeof *prefetch);
    prefetch->loader = loader;
    prefetch->options = options;
    pthread_mutex_init(&prefetch->lock, NULL);
    pthread_cond_init(&prefetch->changed, NULL);
    int code = lay_out(prefetch);
    int error = code == 0 ? pthread_create(&prefetch->thread, NULL, run, prefetch) : 0;
    if (error != 0) {
        code = err_set(ERR_FAILED, "cannot start the thread that loads data: %s", strerror(error));
    }
    if (code != 0) {
        release(prefetch);
        return code;
    }
    *out = prefetch;
    return 0;
}

int prefetch_next(Prefetch *prefetch, Batch *batch, double *waited)
{
    pthread_mutex_lock(&prefetch->lock);
    if (prefetch->released < prefetch->taken) {
        prefetch->released = prefetch->taken;
        pthread_cond_broadcast(&prefetch->changed);
    }
    if (prefetch->made == prefetch->taken && prefetch->code == 0) {
        double start = clock_seconds();
        while (prefetch->made == prefetch->taken && prefetch->code == 0) {
            pthread_cond_wait(&prefetch->changed, &prefetch->lock);
        }
        if (waited != NULL) {
            *waited += clock_seconds() - start;
        }
    }
    int code = 0;
    if (prefetch->made > prefetch->taken) {
        *batch = prefetch->slots[prefetch->taken % PREFETCH_DEPTH];
        prefetch->taken++;
    } else {
        code = err_set(prefetch->code, "%s", prefetch->message);
    }
    pthread_mutex_unlock(&prefetch->lock);
    return code;
}

void prefetch_close(Prefetch *prefetch)
{
    if (prefetch == NULL) {
        return;
    }
    pthread_mutex_lock(&prefetch->lock);
    prefetch->stop = true;
    pthread_cond_broadcast(&prefetch->changed);
    pthread_mutex_unlock(&prefetch->lock);
    pthread_join(prefetch->thread, NULL);
    release(prefetch);
}
