#include "use/evaluate_data.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Sequences [first, first + count) as windows; tokens (count, seq + 1), scratch (2, seq). */
static int read_round(const Loader *loader, uint64_t first, int64_t count, EvalWindow *windows,
                      int32_t *tokens, int32_t *scratch)
{
    int64_t seq = loader->seq;
    int code = 0;
    for (int64_t i = 0; code == 0 && i < count; i++, tokens += seq + 1) {
        code = loader_fill(loader, first + (uint64_t)i, 1, scratch, scratch + seq);
        tokens[0] = scratch[0];
        memcpy(tokens + 1, scratch + seq, (size_t)seq * sizeof *tokens);
        windows[i] = (EvalWindow){.tokens = tokens, .count = seq};
    }
    return code;
}

static int add_round(const Loader *loader, uint64_t first, int64_t count, const EvalWindow *windows,
                     const uint32_t *sizes, EvalTotals *totals)
{
    for (int64_t i = 0; i < count; i++) {
        if (windows[i].done && !isfinite(windows[i].nats)) {
            uint64_t sequence = first + (uint64_t)i, inside;
            const Shard *shard =
                split_locate(loader->split, loader_start(loader, sequence), &inside);
            return err_set(ERR_FAILED,
                           "the loss of sequence %" PRIu64 " (from token %" PRIu64
                           " of %s on) is %f: the model's weights are broken, or its dtype is too "
                           "narrow for them",
                           sequence, inside, shard->path, windows[i].nats);
        }
        if (windows[i].done) {
            eval_totals_add(totals, &windows[i], sizes);
        }
    }
    return 0;
}

int evaluate_data(Evaluator *e, const Loader *loader, uint64_t count, const uint32_t *sizes,
                  EvalProgress *progress)
{
    PACER_ASSERT(loader->seq == e->setup.seq, "seq %lld of the loader, %lld of the evaluator",
                 (long long)loader->seq, (long long)e->setup.seq);
    size_t round = (size_t)evaluator_round(e), seq = (size_t)loader->seq;
    round = round < count ? round : (size_t)count;
    EvalWindow *windows = mem_zalloc(round, sizeof *windows);
    int32_t *tokens = mem_zalloc(round * (seq + 1) + 2 * seq, sizeof *tokens);
    int code = 0;
    for (uint64_t first = 0; code == 0 && first < count; first += round) {
        int64_t part = (int64_t)(count - first < round ? count - first : round);
        progress->done = (double)first / (double)count;
        progress->round = (double)part / (double)count;
        code = read_round(loader, first, part, windows, tokens, tokens + round * (seq + 1));
        code = comm_agree(e->setup.comm, code);
        if (code == 0) {
            code = evaluator_run(e, windows, part);
            int broken = add_round(loader, first, part, windows, sizes, &progress->totals);
            code = code != 0 ? code : broken;
        }
    }
    free(windows);
    free(tokens);
    return code;
}
