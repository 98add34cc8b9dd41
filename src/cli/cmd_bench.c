/* `pacer bench step` and `pacer bench ops`: training steps of a model on made-up tokens. A rate means
 * something only beside what the machine gives at the same time: each timed step is followed by single
 * matrix products, whose median is the sgemm rate of the run; the best rate is taken before and after. */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "data/prefetch.h"
#include "metrics/machine.h"
#include "train/setup.h"

#include <stdlib.h>
#include <string.h>

#define CEILING_SECONDS 1.0
#define PROBES 3 /* products after each timed step */

typedef struct {
    Run run;
    Trainer trainer;
    Loader loader;
    Prefetch *prefetch;
    SgemmProbe probe;
    double sgemm, copy;   /* best rates: GFLOP/s, GB/s */
    double sgemm_between; /* median of the products between the steps */
} Bench;

static int open_bench(Bench *b, const Config *cfg, bool timing)
{
    memset(b, 0, sizeof *b);
    int code = run_open(&b->run, cfg, DATA_REQUIRED);
    if (code != 0) {
        return code;
    }
    TrainerSetup *setup = &b->run.setup;
    setup->timing = timing;
    code = run_check_fits(&b->run);
    if (code == 0) {
        code = trainer_open(&b->trainer, setup, b->run.backend, &b->run.plan);
    }
    if (code == 0) {
        trainer_init_params(&b->trainer, (uint64_t)cfg->seed);
        code = loader_init(&b->loader, &b->run.data.train, setup->seq, (uint64_t)setup->spec.vocab,
                           (uint64_t)cfg->seed);
    }
    if (code == 0) {
        code = prefetch_open(&b->prefetch, &b->loader,
                             (PrefetchOptions){.batch = setup->batch, .ranks = 1});
    }
    return code;
}

static void close_bench(Bench *b)
{
    machine_probe_close(&b->probe);
    prefetch_close(b->prefetch);
    trainer_close(&b->trainer);
    run_close(&b->run);
}

static int one_step(Bench *b, int64_t step, double *waited)
{
    double loss, norm;
    Trainer *t = &b->trainer;
    for (int64_t micro = 0; micro < b->run.setup.accum; micro++) {
        Batch batch;
        int code = prefetch_next(b->prefetch, &batch, waited);
        if (code != 0) {
            return code;
        }
        trainer_micro_step(&b->trainer, (HostBatch){batch.tokens, batch.targets, batch.order},
                           micro);
    }
    trainer_update(t, 1e-4, step);
    trainer_post(t);
    while (t->posted - t->fetched > trainer_ahead(t)) {
        trainer_fetch(t, &loss, &norm);
    }
    return 0;
}

/* Seconds of each timed step into times (repeats), sgemm rates into rates (PROBES x repeats). */
static int run_steps(Bench *b, const Config *cfg, double *times, double *rates, double *waited)
{
    double ignored = 0;
    for (int64_t i = 0; i < cfg->warm + cfg->repeats; i++) {
        log_live("step %lld of %lld", (long long)i + 1, (long long)(cfg->warm + cfg->repeats));
        if (i == cfg->warm) {
            ctx_reset_stats(&b->trainer.ctx);
        }
        double started = clock_seconds();
        int code = one_step(b, i, i < cfg->warm ? &ignored : waited);
        if (code != 0) {
            return code;
        }
        if (i >= cfg->warm) {
            int64_t at = i - cfg->warm;
            times[at] = clock_seconds() - started;
            for (int64_t probe = 0; b->probe.block != NULL && probe < PROBES; probe++) {
                rates[at * PROBES + probe] = machine_probe_sample(&b->probe);
            }
        }
        if (signals_pending() != 0) {
            return err_set(signals_pending(), "stopped by a signal");
        }
    }
    return 0;
}

static void print_steps(const Bench *b, const Config *cfg, double *times, double waited)
{
    const Run *run = &b->run;
    int64_t n = cfg->repeats;
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        total += times[i];
    }
    double median = clock_quantile(times, (size_t)n, 0.5), best = times[0], worst = times[n - 1];
    double rate = run->plan.flops_update / median * 1e-9;
    printf("%s, %lld parameters, batch %lld x seq %lld x accum %lld, %s, %s attention, ",
           run->setup.spec.name, (long long)run->plan.parameters, (long long)run->setup.batch,
           (long long)run->setup.seq, (long long)run->setup.accum, dtype_name(run->setup.dtype),
           attention_name(run->setup.attention));
    if (run->backend->device != NULL) {
        printf("%s%s\n", run->backend->device, run->setup.graph ? ", graph" : "");
    } else {
        printf("%s, %d threads\n", run->backend->name, run->backend->threads);
    }
    printf("  step            %10.2f ms   median of %lld (%.2f to %.2f)\n", median * 1e3,
           (long long)n, best * 1e3, worst * 1e3);
    printf("  throughput      %10.0f tok/s\n", (double)run->tokens_per_update / median);
    printf("  matrix work     %10.1f GFLOP/s  (%.4g FLOP per update)\n", rate,
           run->plan.flops_update);
    if (run->backend->device != NULL) {
        printf("  one product     %10.1f GFLOP/s  8192 x 8192 x 8192\n", b->sgemm);
        printf("  share of it     %10.1f %%\n", 100 * rate / b->sgemm);
        double stated = run->backend->stated_rate(run->backend, run->setup.dtype);
        if (stated > 0) {
            printf("  share of stated %10.1f %%        %.0f TFLOP/s by the data sheet, dense\n",
                   100 * rate * 1e9 / stated, stated * 1e-12);
        }
    } else {
        printf("  sgemm           %10.1f GFLOP/s  median of products between the steps; %.1f at "
               "best\n",
               b->sgemm_between, b->sgemm);
        printf("  share of sgemm  %10.1f %%        %.1f %% of the best\n",
               100 * rate / b->sgemm_between, 100 * rate / b->sgemm);
    }
    printf("  waiting for data%10.2f %%\n", 100 * waited / total);
    printf("  memory          %10.1f MiB planned, %.1f in use at most, %.1f resident at most\n",
           (double)run->plan.blocks / 1048576, (double)trainer_peak_bytes(&b->trainer) / 1048576,
           (double)mem_peak_resident() / 1048576);
}

static void print_ops(const Bench *b, const Config *cfg)
{
    const Ctx *c = &b->trainer.ctx;
    OpStat total = ctx_total(c);
    double steps = (double)cfg->repeats;
    printf("ceilings: matrix product %.1f GFLOP/s, copy %.1f GB/s\n", b->sgemm, b->copy);
    printf("%-28s %7s %10s %7s %10s %9s %s\n", "op", "calls", "ms/step", "share", "GFLOP/s", "GB/s",
           "of its ceiling");
    for (int op = 0; op < OP_COUNT; op++) {
        const OpStat *s = &c->stats[op];
        if (s->calls == 0) {
            continue;
        }
        double flops = s->flops / s->seconds * 1e-9, bytes = s->bytes / s->seconds * 1e-9;
        /* The ceiling that binds: whichever of arithmetic and memory would take longer. */
        bool arithmetic = s->flops / (b->sgemm * 1e9) > s->bytes / (b->copy * 1e9);
        printf("%-28s %7.0f %10.3f %6.1f%% %10.1f %9.2f %6.1f%% %s\n", op_name((OpId)op),
               (double)s->calls / steps, 1e3 * s->seconds / steps, 100 * s->seconds / total.seconds,
               flops, bytes, arithmetic ? 100 * flops / b->sgemm : 100 * bytes / b->copy,
               arithmetic ? "product" : "copy");
    }
    printf("%-28s %7.0f %10.3f\n", "all", (double)total.calls / steps, 1e3 * total.seconds / steps);
}

/* The ceilings of the device that computes. On the processor, which others may share, they are taken before
 * and after the steps and products are put between them; a GPU is ours. */
static int measure_before(Bench *b)
{
    Backend *backend = b->run.backend;
    if (backend->matmul_rate != NULL) {
        b->sgemm = backend->matmul_rate(backend, b->run.setup.dtype) * 1e-9;
        b->copy = backend->copy_rate(backend) * 1e-9;
        return 0;
    }
    b->sgemm = machine_sgemm_rate(backend->threads, CEILING_SECONDS);
    return machine_probe_open(&b->probe, backend->threads)
               ? 0
               : err_set(ERR_MEMORY, "no memory left to measure sgemm beside the steps");
}

static void measure_after(Bench *b, bool ops)
{
    int threads = b->run.backend->threads;
    if (b->run.backend->matmul_rate == NULL) {
        double again = machine_sgemm_rate(threads, CEILING_SECONDS);
        b->sgemm = again > b->sgemm ? again : b->sgemm;
        b->copy = ops ? machine_copy_rate(threads, CEILING_SECONDS) : 0;
    }
}

int cmd_bench(Config *cfg, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    bool ops = cfg->command == COMMAND_BENCH_OPS;
    if (cfg->data[0] == '\0') {
        int code = config_set(cfg, "data", "builtin:random");
        if (code != 0) {
            return code;
        }
    }
    Bench b = {.prefetch = NULL};
    signals_install();
    int code = run_resolve(cfg);
    code = code != 0 ? code : open_bench(&b, cfg, ops);
    if (code == 0) {
        size_t repeats = (size_t)cfg->repeats;
        double *times = mem_zalloc(repeats, sizeof *times), waited = 0;
        double *rates = mem_zalloc(repeats * PROBES, sizeof *rates);
        code = measure_before(&b);
        code = code == 0 ? run_steps(&b, cfg, times, rates, &waited) : code;
        b.sgemm_between = clock_quantile(rates, repeats * PROBES, 0.5);
        measure_after(&b, ops);
        if (code == 0 && ops) {
            print_ops(&b, cfg);
        } else if (code == 0) {
            print_steps(&b, cfg, times, waited);
        }
        free(rates);
        free(times);
    }
    close_bench(&b);
    return code;
}
