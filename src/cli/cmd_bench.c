/* `pacer bench step`: training steps of a model on made-up tokens; what `bench ops` and
 * `profile` share with it. A rate means something only beside what the machine gives at the same
 * time: each timed step is followed by single matrix products, whose median is the sgemm rate of
 * the run; the best rate is taken before and after. */
#include "analyse/verify.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "record/ceilings.h"

#include <stdlib.h>
#include <string.h>

#define CEILING_SECONDS 1.0
#define PROBES 3 /* products after each timed step */
/* For the trusted side of the verification. On a GPU it pays to wait for the timed shape. */
#define VERIFY_SECONDS 10.0
#define GPU_VERIFY_SECONDS 40.0

int bench_open(Bench *b, Config *cfg, Comm *comm)
{
    *b = (Bench){.comm = comm != NULL && comm_ranks(comm) > 1 ? comm : NULL};
    int code = cfg->data[0] == '\0' ? config_set(cfg, "data", "builtin:random") : 0;
    code = code == 0 ? run_resolve(cfg) : code;
    code = code == 0 ? run_open(&b->run, cfg, b->comm, DATA_REQUIRED) : code;
    code = comm_agree(b->comm, code);
    if (code != 0) {
        return code;
    }
    TrainerSetup *setup = &b->run.setup;
    code = run_check_fits(&b->run);
    if (code == 0) {
        code = trainer_open(&b->trainer, setup, b->run.backend, &b->run.plan);
    }
    code = comm_agree(b->comm, code);
    if (code == 0 && b->comm != NULL) { /* the ranks that train together */
        code = channel_open(b->comm, b->run.backend, &b->channel);
        code = code != 0 ? code : channel_make_groups(b->channel, setup->ddp.group);
    }
    if (code == 0 && b->comm != NULL) {
        trainer_connect(&b->trainer, b->comm, b->channel);
    }
    if (code == 0) {
        trainer_init_params(&b->trainer, (uint64_t)cfg->seed);
        code = loader_init(&b->loader, &b->run.data.train, setup->seq, (uint64_t)setup->spec.vocab,
                           (uint64_t)cfg->seed);
    }
    if (code == 0) {
        code = prefetch_open(&b->prefetch, &b->loader,
                             (PrefetchOptions){.batch = setup->batch,
                                               .rank = setup->ddp.rank,
                                               .ranks = setup->ddp.ranks});
    }
    return comm_agree(b->comm, code);
}

void bench_close(Bench *b)
{
    machine_probe_close(&b->probe);
    prefetch_close(b->prefetch);
    trainer_close(&b->trainer); /* drops recordings, which hold on to the channel's collectives */
    channel_close(b->channel);
    run_close(&b->run);
}

char *bench_title(const Bench *b)
{
    const Run *run = &b->run;
    const TrainerSetup *s = &run->setup;
    char *machine = run->backend->device != NULL
                        ? mem_format("%s%s", run->backend->device, s->graph ? ", graph" : "")
                        : mem_format("%s, %d threads", run->backend->name, run->backend->threads);
    char *ranks = b->comm != NULL
                      ? mem_format(", %d ranks, %s", s->ddp.ranks, ddp_kind_name(s->ddp.kind))
                      : mem_strdup("");
    char *title = mem_format(
        "%s, %lld parameters, batch %lld x seq %lld x accum %lld, %s, %s, %s%s", s->spec.name,
        (long long)run->plan.parameters, (long long)s->batch, (long long)s->seq,
        (long long)s->accum, dtype_name(s->dtype), setup_mixer_name(s), machine, ranks);
    free(ranks);
    free(machine);
    return title;
}

static int one_step(Bench *b, int64_t step, double *waited)
{
    double loss, norm;
    Trainer *t = &b->trainer;
    int code = trainer_step(t, b->prefetch, 1e-4, step, waited);
    while (code == 0 && t->posted - t->fetched > trainer_ahead(t)) {
        trainer_fetch(t, &loss, &norm);
    }
    return code;
}

/* Seconds of each timed step into times (repeats), sgemm rates into rates (PROBES x repeats). */
static int run_steps(Bench *b, const Config *cfg, double *times, double *rates, double *waited)
{
    double ignored = 0;
    /* A step that is let run ahead returns when an earlier one is done. As many more go first, so
     * that each time is from the end of one step to the end of the next. */
    int64_t warm = cfg->warm + trainer_ahead(&b->trainer);
    int code = 0;
    for (int64_t i = 0; code == 0 && i < warm + cfg->repeats; i++) {
        log_live("step %lld of %lld", (long long)i + 1, (long long)(warm + cfg->repeats));
        double started = clock_seconds();
        code = one_step(b, i, i < warm ? &ignored : waited);
        if (code == 0 && i >= warm) {
            int64_t at = i - warm;
            times[at] = clock_seconds() - started;
            for (int64_t probe = 0; b->probe.block != NULL && probe < PROBES; probe++) {
                rates[at * PROBES + probe] = machine_probe_sample(&b->probe);
            }
        }
        code = code == 0 ? signals_check() : code;
    }
    return code;
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
    char *title = bench_title(b);
    escape_printf(stdout, "%s\n", title);
    free(title);
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

/* What is left to measure with, the trainer's memory being taken. */
static Effort effort_beside(const Bench *b)
{
    size_t room = run_room(&b->run), held = b->run.plan.total;
    return (Effort){CEILING_SECONDS, room > held ? room - held : 0};
}

/* The ceilings of the device that computes. On the processor, which others may share, they are
 * taken before and after the steps and products are put between them; a GPU is ours. */
int bench_ceilings_before(Bench *b)
{
    Backend *backend = b->run.backend;
    if (backend->matmul_rate != NULL) {
        b->sgemm = backend->matmul_rate(backend, b->run.setup.dtype) * 1e-9;
        b->copy = backend->copy_rate(backend) * 1e-9;
        return 0;
    }
    Effort effort = effort_beside(b);
    DType dtype = ceilings_dtype(backend, b->run.setup.dtype);
    b->sgemm = machine_sgemm_rate(backend->threads, dtype, effort);
    return machine_probe_open(&b->probe, backend->threads, dtype, effort.bytes)
               ? 0
               : err_set(ERR_MEMORY, "no memory left to measure sgemm beside the steps");
}

void bench_ceilings_after(Bench *b, bool copy)
{
    int threads = b->run.backend->threads;
    if (b->run.backend->matmul_rate == NULL) {
        Effort effort = effort_beside(b);
        DType dtype = ceilings_dtype(b->run.backend, b->run.setup.dtype);
        double again = machine_sgemm_rate(threads, dtype, effort);
        b->sgemm = again > b->sgemm ? again : b->sgemm;
        b->copy = copy ? machine_copy_rate(threads, effort) : 0;
    }
}

static int bench_steps(Bench *b, const Config *cfg)
{
    size_t repeats = (size_t)cfg->repeats;
    double *times = mem_zalloc(repeats, sizeof *times), waited = 0;
    double *rates = mem_zalloc(repeats * PROBES, sizeof *rates);
    int code = bench_ceilings_before(b);
    code = code == 0 ? run_steps(b, cfg, times, rates, &waited) : code;
    if (code == 0) {
        b->sgemm_between = clock_quantile(rates, repeats * PROBES, 0.5);
        bench_ceilings_after(b, false);
        print_steps(b, cfg, times, waited);
    }
    free(rates);
    free(times);
    return code;
}

/* What was timed has to be right as well: a fast wrong step is no result. */
static int verify_bench(Bench *b, const Config *cfg)
{
    bool host = b->run.backend->device == NULL;
    size_t limit = host ? (size_t)cfg->memory_limit : 0, held = b->run.plan.total;
    return verify_trainer(&b->trainer,
                          (VerifyOptions){.threads = config_threads(cfg),
                                          .host_memory = limit > held ? limit - held : limit,
                                          .seconds = host ? VERIFY_SECONDS : GPU_VERIFY_SECONDS});
}

int cmd_bench(Config *cfg)
{
    Bench b;
    signals_install();
    int code = bench_open(&b, cfg, NULL);
    if (code == 0) {
        code = cfg->command == COMMAND_BENCH_OPS ? bench_ops(&b, cfg, NULL, stdout)
                                                 : bench_steps(&b, cfg);
    }
    code = code == 0 && cfg->verify ? verify_bench(&b, cfg) : code;
    bench_close(&b);
    return code;
}
