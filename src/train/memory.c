/* The memory plan as a person reads it, and the refusal of what does not fit. */
#include "base/err.h"
#include "base/log.h"
#include "train/setup.h"

#define MIB (1024.0 * 1024.0)

size_t run_memory_limit(const Run *run)
{
    if (run->cfg->memory_limit > 0) {
        return (size_t)run->cfg->memory_limit;
    }
    size_t free_bytes = run->backend->available(run->backend);
    bool shared = run->backend->device == NULL; /* the host's memory, which its ranks share */
    return shared && run->local_ranks > 1 ? free_bytes / (size_t)run->local_ranks : free_bytes;
}

static void print_row(FILE *file, const char *name, size_t bytes)
{
    fprintf(file, "  %-14s %16zu  %10.1f MiB\n", name, bytes, (double)bytes / MIB);
}

void run_print_plan(const Run *run, FILE *file)
{
    const TrainPlan *plan = &run->plan;
    const TrainerSetup *s = &run->setup;
    fprintf(file,
            "Memory plan%s: %s, %lld parameters, batch %lld x seq %lld x accum %lld, %s, %s%s\n",
            s->ddp.ranks > 1 ? " of each rank" : "", s->spec.name, (long long)plan->parameters,
            (long long)s->batch, (long long)s->seq, (long long)s->accum, dtype_name(s->dtype),
            setup_mixer_name(s), s->recompute ? ", recomputing blocks" : "");
    fprintf(file, "  %-14s %16s\n", "for", "bytes");
    for (int kind = 0; kind < MEM_KINDS; kind++) {
        if (plan->by_kind[kind] > 0) {
            print_row(file, mem_kind_name((MemKind)kind), plan->by_kind[kind]);
        }
    }
    print_row(file, "loader", plan->loader);
    print_row(file, "total", plan->total);
    double tokens = (double)(s->batch * s->accum * s->seq); /* of one rank, as the FLOPs are */
    fprintf(file,
            "Work: %.4g FLOP per update, %.4g per token, %lld tokens per update, %lld updates\n",
            plan->flops_update, plan->flops_update / tokens, (long long)run->tokens_per_update,
            (long long)run->total_steps);
}

int run_check_fits(const Run *run)
{
    size_t limit = run_memory_limit(run), need = run->plan.total;
    if (limit == 0 || need <= limit) {
        return 0;
    }
    if (log_shows(LOG_ERROR)) {
        run_print_plan(run, stderr);
    }
    int64_t largest = trainer_largest_batch(&run->setup, run->backend, limit);
    if (largest == 0) {
        return err_set(
            ERR_MEMORY,
            "the run needs %.1f MiB and %.1f MiB are free: not even --batch 1 fits; take a "
            "smaller model or --seq%s",
            (double)need / MIB, (double)limit / MIB,
            run->setup.recompute ? "" : ", or --recompute block");
    }
    return err_set(
        ERR_MEMORY,
        "the run needs %.1f MiB and %.1f MiB are free; the largest that fits is --batch %lld "
        "(with --accum to keep the update's size)%s",
        (double)need / MIB, (double)limit / MIB, (long long)largest,
        run->setup.recompute ? "" : ", or try --recompute block");
}
