#include "train/setup.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "cuda/cuda.h"
#include "data/loader.h"

#include <math.h>
#include <omp.h>
#include <string.h>
#include <unistd.h>

#define MOST_TOKENS 1000000000000000 /* of an update: JSON carries 15 digits exactly */

static int open_data(Run *run, DataNeed need)
{
    const Config *cfg = run->cfg;
    if (cfg->data[0] == '\0') {
        if (need == DATA_OPTIONAL) {
            return 0;
        }
        return err_set(ERR_INPUT,
                       "--data is missing: name a folder made by `pacer data prepare`, or "
                       "builtin:stories to try pacer without any");
    }
    const ModelSpec *preset = spec_find(cfg->model);
    int64_t vocab = cfg->fields.vocab > 0 ? cfg->fields.vocab : preset->vocab;
    DatasetOptions options = {.vocab = vocab > 0 ? (uint64_t)vocab : 256,
                              .seed = (uint64_t)cfg->seed,
                              .verify = need == DATA_REQUIRED};
    return dataset_open(&run->data, cfg->data, options);
}

static int check_model_name(const char *name)
{
    if (spec_find(name) != NULL) {
        return 0;
    }
    const char *names[32] = {0};
    for (int i = 0; spec_preset(i) != NULL && i < 31; i++) {
        names[i] = spec_preset(i)->name;
    }
    bool likely;
    const char *nearest = config_nearest(name, names, &likely);
    return err_set(ERR_INPUT, "--model %s: no such model; %s%s%s`pacer models` lists them", name,
                   likely ? "did you mean " : "", likely ? nearest : "", likely ? "? " : "");
}

int setup_spec(const Config *cfg, int64_t data_vocab, ModelSpec *spec)
{
    int code = spec_resolve(cfg->model, &cfg->fields, data_vocab, spec);
    if (code == 0 && spec->mixer == MIXER_TTT && cfg->fields.context == 0 &&
        cfg->seq > spec->context) {
        spec->context = cfg->seq; /* nothing in the model depends on it */
    }
    if (code == 0 && cfg->seq > spec->context) {
        code =
            err_set(ERR_INPUT,
                    "--seq %lld is longer than the model's context of %lld; give a shorter one, or "
                    "--context %lld",
                    (long long)cfg->seq, (long long)spec->context, (long long)cfg->seq);
    }
    return code;
}

int setup_options(const ModelSpec *spec, Config *cfg)
{
    SpecOverrides overrides;
    spec_overrides(spec, &overrides);
    int code = config_set(cfg, "model", spec->name);
    for (const SpecField *field = spec_fields; code == 0 && field->name != NULL; field++) {
        double value = field->option ? spec_override(&overrides, field) : NAN;
        char text[SPEC_TEXT_SIZE];
        if (!isnan(value)) {
            code = config_set(cfg, field->name, spec_text(field, value, text));
        }
    }
    return code;
}

static int resolve_model(Run *run)
{
    bool given = run->data.source != NULL;
    ModelSpec *spec = &run->setup.spec;
    int code = setup_spec(run->cfg, given ? (int64_t)dataset_least_vocab(&run->data) : 0, spec);
    if (code == 0 && given) {
        code = dataset_check_vocab(&run->data, (uint64_t)spec->vocab);
    }
    run->setup.seq = run->cfg->seq > 0 ? run->cfg->seq : spec->context;
    return code;
}

void device_resolve(Config *cfg)
{
    if (cfg->device == CONFIG_DEVICE_AUTO) {
        char why[256];
        bool gpu = cuda_devices(why, sizeof why) > 0;
        config_derive(cfg, "device", gpu ? CONFIG_DEVICE_CUDA : CONFIG_DEVICE_CPU);
    }
    if (cfg->dtype == CONFIG_DTYPE_AUTO) {
        bool gpu = cfg->device == CONFIG_DEVICE_CUDA;
        config_derive(cfg, "dtype", gpu ? CONFIG_DTYPE_BF16 : CONFIG_DTYPE_F32);
    }
}

int run_resolve(Config *cfg)
{
    device_resolve(cfg);
    if (cfg->dtype == CONFIG_DTYPE_BF16 && cfg->device == CONFIG_DEVICE_CPU) {
        return err_set(ERR_INPUT,
                       "--dtype bf16 is not supported on the CPU, which trains in f32: leave it "
                       "out, or give --device ref for a slow exact run");
    }
    return 0;
}

static HeadShape head_shape(const TrainerSetup *s)
{
    return (HeadShape){s->batch, s->seq, s->spec.heads, s->spec.kv_heads, s->spec.head_dim};
}

const char *setup_mixer_name(const TrainerSetup *s)
{
    static const char *const kinds[] = {[ATTENTION_NAIVE] = "naive attention",
                                        [ATTENTION_FLASH] = "flash attention",
                                        [ATTENTION_CUDNN] = "cudnn attention"};
    if (s->spec.mixer == MIXER_TTT) {
        return s->spec.ttt == TTT_MLP ? "TTT-MLP" : "TTT-Linear";
    }
    return kinds[s->attention];
}

/* Whether TTT layers of this shape can be computed; they know no kinds of attention. */
static int check_ttt(Run *run)
{
    const TrainerSetup *s = &run->setup;
    if (run->cfg->attention != CONFIG_ATTENTION_AUTO) {
        return err_set(ERR_INPUT, "--attention: --model %s has no attention; leave it out",
                       s->spec.name);
    }
    TttShape shape = spec_ttt_shape(&s->spec, s->batch, s->seq);
    const char *why = run->cfg->device == CONFIG_DEVICE_CUDA
                          ? cuda_ttt_refusal(run->backend, &shape, s->dtype)
                          : NULL;
    return why == NULL ? 0 : err_set(ERR_INPUT, "--model %s: %s", s->spec.name, why);
}

/* The kind of attention: as asked, or the fastest that the GPU has for the shape. */
static int choose_attention(Run *run)
{
    static const AttentionKind kinds[] = {[CONFIG_ATTENTION_NAIVE] = ATTENTION_NAIVE,
                                          [CONFIG_ATTENTION_FLASH] = ATTENTION_FLASH,
                                          [CONFIG_ATTENTION_CUDNN] = ATTENTION_CUDNN};
    const Config *cfg = run->cfg;
    TrainerSetup *s = &run->setup;
    bool gpu = cfg->device == CONFIG_DEVICE_CUDA;
    if (!gpu && cfg->attention == CONFIG_ATTENTION_CUDNN) {
        return err_set(ERR_INPUT, "--attention cudnn needs a GPU; use flash or auto");
    }
    if (cfg->attention != CONFIG_ATTENTION_AUTO) {
        s->attention = kinds[cfg->attention];
        const char *why =
            backend_attention_refusal(run->backend, s->attention, head_shape(s), s->dtype);
        return why == NULL
                   ? 0
                   : err_set(ERR_INPUT, "--attention %s: %s",
                             cfg->attention == CONFIG_ATTENTION_CUDNN ? "cudnn" : "flash", why);
    }
    s->attention =
        gpu ? cuda_attention_choose(run->backend, head_shape(s), s->dtype) : ATTENTION_FLASH;
    const char *why =
        backend_attention_refusal(run->backend, ATTENTION_CUDNN, head_shape(s), s->dtype);
    if (why != NULL) {
        log_info("--attention auto takes %s without trying cudnn: %s", attention_name(s->attention),
                 why);
    }
    return 0;
}

/* Cores of this rank: those it is bound to, or else its share of the host's. */
static int rank_threads(const Config *cfg, const Comm *comm)
{
    int all = config_threads(cfg);
    bool bound = all < (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (comm == NULL || cfg->threads > 0 || bound) {
        return all;
    }
    int share = all / comm_local_ranks(comm);
    return share > 0 ? share : 1;
}

/* A GPU for each rank of the host, or several ranks on one when that is asked for. */
static int open_gpu(const Config *cfg, const Comm *comm, Backend **out)
{
    int local = comm != NULL ? comm_local_rank(comm) : 0;
    int ranks = comm != NULL ? comm_local_ranks(comm) : 1;
    char why[256];
    int gpus = cuda_devices(why, sizeof why);
    if (gpus > 0 && ranks > gpus && !cfg->oversubscribe) {
        return err_set(
            ERR_INPUT,
            "--ranks: %d ranks on %s, which has %d GPU%s; take fewer, or --oversubscribe "
            "to let them share (a test, no measurement of scaling)",
            ranks, comm_host(comm), gpus, gpus == 1 ? "" : "s");
    }
    return cuda_backend_open(gpus > 0 ? local % gpus : 0, out);
}

int backend_open(const Config *cfg, const Comm *comm, Backend **out)
{
    PACER_ASSERT(cfg->device != CONFIG_DEVICE_AUTO && cfg->dtype != CONFIG_DTYPE_AUTO,
                 "run_resolve was not called");
    if (cfg->device == CONFIG_DEVICE_CUDA) {
        return open_gpu(cfg, comm, out);
    }
    int threads = rank_threads(cfg, comm);
    omp_set_num_threads(threads); /* before the first product: libraries must not take more */
    *out = cfg->device == CONFIG_DEVICE_REF ? ref_backend_open() : cpu_backend_open(threads);
    return *out != NULL ? 0 : ERR_INPUT;
}

static int open_backend(Run *run, const Comm *comm)
{
    const Config *cfg = run->cfg;
    TrainerSetup *s = &run->setup;
    s->dtype = cfg->dtype == CONFIG_DTYPE_BF16 ? DT_BF16 : DT_F32;
    s->graph = cfg->graph;
    s->ttt_keep = cfg->ttt_keep;
    int code = backend_open(cfg, comm, &run->backend);
    if (code != 0) {
        return code;
    }
    return s->spec.mixer == MIXER_TTT ? check_ttt(run) : choose_attention(run);
}

static int count_steps(Run *run)
{
    const Config *cfg = run->cfg;
    const TrainerSetup *s = &run->setup;
    run->tokens_per_update =
        size_product(size_product(s->batch, s->seq), size_product(s->accum, cfg->ranks));
    if (run->tokens_per_update > MOST_TOKENS) {
        return err_set(ERR_INPUT,
                       "--batch %lld x --seq %lld x --accum %lld x --ranks %lld makes updates of "
                       "more than 10^15 tokens, which cannot be planned: take less of one",
                       (long long)s->batch, (long long)s->seq, (long long)s->accum,
                       (long long)cfg->ranks);
    }
    int64_t tokens_per_epoch = 0;
    if (run->data.source != NULL) {
        Loader loader;
        int code = loader_init(&loader, &run->data.train, s->seq, (uint64_t)s->spec.vocab,
                               (uint64_t)cfg->seed);
        if (code != 0) {
            return code;
        }
        tokens_per_epoch = (int64_t)loader.windows * s->seq;
    } else if (cfg->epochs > 0) {
        return err_set(ERR_INPUT, "--epochs needs --data to know how long an epoch is");
    }
    run->total_steps = config_total_steps(cfg, run->tokens_per_update, tokens_per_epoch);
    static const ScheduleKind kinds[] = {[CONFIG_SCHEDULE_COSINE] = SCHEDULE_COSINE,
                                         [CONFIG_SCHEDULE_LINEAR] = SCHEDULE_LINEAR,
                                         [CONFIG_SCHEDULE_WSD] = SCHEDULE_WSD,
                                         [CONFIG_SCHEDULE_CONSTANT] = SCHEDULE_CONSTANT};
    run->schedule = (Schedule){.kind = kinds[cfg->schedule],
                               .peak = cfg->lr,
                               .floor = config_min_lr(cfg),
                               .warmup = config_warmup(cfg, run->total_steps),
                               .total = run->total_steps,
                               .decay_fraction = cfg->wsd_decay};
    if (run->schedule.warmup > run->total_steps) {
        return err_set(ERR_INPUT, "--warmup %lld is longer than the run's %lld steps",
                       (long long)run->schedule.warmup, (long long)run->total_steps);
    }
    return 0;
}

static void settle_options(Run *run)
{
    const ModelSpec *spec = &run->setup.spec;
    Config *cfg = &run->settled;
    char text[SPEC_TEXT_SIZE];
    config_copy(cfg, run->cfg);
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        if (field->option && spec_has(spec, field)) {
            config_settle(cfg, field->name, spec_text(field, spec_value(spec, field), text));
        }
    }
    const struct {
        const char *name;
        double value;
    } others[] = {{"seq", (double)run->setup.seq},
                  {"warmup", (double)run->schedule.warmup},
                  {"min-lr", run->schedule.floor}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        snprintf(text, sizeof text, "%.15g", others[i].value);
        config_settle(cfg, others[i].name, text);
    }
}

int run_open(Run *run, const Config *cfg, const Comm *comm, DataNeed need)
{
    static const DdpKind kinds[] = {[CONFIG_DDP_NAIVE] = DDP_NAIVE,
                                    [CONFIG_DDP_FLAT] = DDP_FLAT,
                                    [CONFIG_DDP_OVERLAP] = DDP_OVERLAP,
                                    [CONFIG_DDP_ZERO1] = DDP_ZERO1};
    *run = (Run){.cfg = cfg, .local_ranks = comm != NULL ? comm_local_ranks(comm) : 1};
    config_run_id(cfg, run->id);
    TrainerSetup *s = &run->setup;
    s->batch = cfg->batch;
    s->accum = cfg->accum;
    s->recompute = cfg->recompute == CONFIG_RECOMPUTE_BLOCK;
    s->adamw = (AdamwSettings){cfg->beta1, cfg->beta2, cfg->eps, cfg->weight_decay, cfg->clip};
    s->ddp = (DdpSetup){.kind = kinds[cfg->ddp],
                        .rank = comm != NULL ? comm_rank(comm) : 0,
                        .ranks = (int)cfg->ranks,
                        .bucket_bytes = cfg->bucket_mb * 1000000,
                        .wire = cfg->comm_dtype == CONFIG_COMM_DTYPE_BF16 ? DT_BF16 : DT_F32};
    int code = check_model_name(cfg->model);
    if (code == 0) {
        code = open_data(run, need);
    }
    if (code == 0) {
        code = resolve_model(run);
    }
    if (code == 0) {
        s->attention = cfg->attention == CONFIG_ATTENTION_NAIVE ? ATTENTION_NAIVE : ATTENTION_FLASH;
        code = trainer_check_sizes(s);
    }
    if (code == 0) {
        code = open_backend(run, comm);
    }
    if (code == 0) {
        code = count_steps(run);
    }
    if (code != 0) {
        run_close(run);
        return code;
    }
    settle_options(run);
    trainer_plan(s, run->backend, &run->plan);
    if (run->plan.total > INT64_MAX) {
        code = err_set(ERR_INPUT,
                       "--layers %lld x --d-model %lld x --ffn %lld with --batch %lld x --seq %lld "
                       "needs more than 2^63 bytes, which cannot be planned: take less of one",
                       (long long)s->spec.layers, (long long)s->spec.width, (long long)s->spec.ffn,
                       (long long)s->batch, (long long)s->seq);
        run_close(run);
    }
    return code;
}

void run_close(Run *run)
{
    if (run->backend != NULL) {
        run->backend->close(run->backend);
    }
    dataset_close(&run->data);
    config_free(&run->settled);
    *run = (Run){0};
}
