#include "train/setup.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/loader.h"
#include "devices/devices.h"
#include "model/attention_kind.h"
#include "train/model_source.h"

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
    const char *nearest = config_nearest(name, names);
    return err_set(ERR_INPUT, "--model %s: no such model; %s%s%s`pacer models` lists them", name,
                   nearest != NULL ? "did you mean " : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "? " : "");
}

int setup_spec(const Config *cfg, int64_t data_vocab, ModelSpec *spec)
{
    SpecOverrides fields = cfg->fields;
    spec_dial(cfg->model, cfg->dial, &fields);
    int code = spec_resolve(cfg->model, &fields, data_vocab, spec);
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
    bool long_asked = config_is_set(run->cfg, "context");
    run->setup.seq = run->cfg->seq > 0 ? run->cfg->seq
                     : long_asked      ? spec->context
                                       : spec_seq(spec);
    return code;
}

DType config_dtype(const Config *cfg)
{
    return cfg->dtype == CONFIG_DTYPE_FP8    ? DT_E4M3
           : cfg->dtype == CONFIG_DTYPE_BF16 ? DT_BF16
                                             : DT_F32;
}

int dtype_refuse_fp8(const Config *cfg, const char *what)
{
    return cfg->dtype != CONFIG_DTYPE_FP8
               ? 0
               : err_set(
                     ERR_INPUT,
                     "--dtype fp8 is for training; %s takes f32 or bf16 (a run's weights are kept "
                     "in f32 whatever it trained in)",
                     what);
}

void device_resolve(Config *cfg)
{
    if (cfg->device == DEVICE_AUTO) {
        config_derive(cfg, "device", device_best());
    }
    if (cfg->dtype == CONFIG_DTYPE_AUTO) {
        bool low = device_of((DeviceId)cfg->device)->dtype == DT_BF16;
        config_derive(cfg, "dtype", low ? CONFIG_DTYPE_BF16 : CONFIG_DTYPE_F32);
    }
}

int run_resolve(Config *cfg)
{
    device_resolve(cfg);
    int code = cfg->init[0] != '\0' ? initial_dimensions(cfg) : 0;
    if (code != 0) {
        return code;
    }
    const Device *device = device_of((DeviceId)cfg->device);
    const char *why = cfg->dtype == CONFIG_DTYPE_FP8 ? device->no_fp8
                      : cfg->dtype == CONFIG_DTYPE_BF16 && device->no_bf16 != NULL
                          ? device->no_bf16()
                          : NULL;
    return why != NULL ? err_set(ERR_INPUT, "--dtype %s %s", dtype_name(config_dtype(cfg)), why)
                       : 0;
}

/* What products in e4m3 ask of the device and of every dimension that they have. */
static int check_fp8(const Run *run)
{
    const TrainerSetup *s = &run->setup;
    const ModelSpec *spec = &s->spec;
    const Backend *backend = run->backend;
    const char *why = backend->quant_refusal != NULL ? backend->quant_refusal(backend) : NULL;
    if (why != NULL) {
        return err_set(ERR_INPUT, "--dtype fp8: %s", why);
    }
    const struct {
        const char *what;
        int64_t value;
    } sizes[] = {
        {"--batch x --seq", s->batch * s->seq},
        {"--d-model", spec->width},
        {"--ffn", spec->ffn},
        {"the heads' width", spec->heads * spec->head_dim},
        {"the width of q, k and v together", (spec->heads + 2 * spec->kv_heads) * spec->head_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].value % 16 != 0) {
            return err_set(ERR_INPUT,
                           "--dtype fp8 multiplies in tiles of 16, and %s is %lld, no multiple of "
                           "it; change that, or take --dtype bf16",
                           sizes[i].what, (long long)sizes[i].value);
        }
    }
    return 0;
}

const char *setup_mixer_name(const TrainerSetup *s)
{
    static const char *const kinds[] = {[ATTENTION_NAIVE] = "naive attention",
                                        [ATTENTION_FLASH] = "flash attention",
                                        [ATTENTION_LIBRARY] = "cudnn attention"};
    if (s->spec.mixer == MIXER_TTT) {
        return s->spec.ttt == TTT_MLP ? "TTT-MLP" : "TTT-Linear";
    }
    return kinds[s->attention];
}

/* Where documents end, if they are kept apart. */
static int separate_documents(Run *run)
{
    const Config *cfg = run->cfg;
    if (!run->setup.separate) {
        return 0;
    }
    if (run->setup.spec.mixer == MIXER_TTT) {
        return err_set(ERR_INPUT,
                       "--documents separate: --model %s learns along a sequence, whatever "
                       "documents are in it; leave it out, or take a model with attention",
                       run->setup.spec.name);
    }
    if (run->data.source == NULL) {
        return 0;
    }
    int code = dataset_separate(&run->data, cfg->end[0] != '\0' ? cfg->end : NULL, NULL);
    return code == 0 ? 0 : err_wrap(code, "--documents separate");
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
    const char *why = backend_ttt_refusal(run->backend, &shape, dtype_act(s->dtype));
    return why == NULL ? 0 : err_set(ERR_INPUT, "--model %s: %s", s->spec.name, why);
}

/* Rates and initial weights by width. */
static int choose_parametrization(Run *run)
{
    const Config *cfg = run->cfg;
    TrainerSetup *s = &run->setup;
    if (cfg->parametrization != CONFIG_PARAMETRIZATION_MUP) {
        return 0;
    }
    if (s->spec.mixer == MIXER_TTT) {
        return err_set(ERR_INPUT,
                       "--parametrization mup: there is no rule for the inner learning of --model "
                       "%s; leave it out",
                       s->spec.name);
    }
    if (cfg->optimizer == OPTIMIZER_SGD) {
        return err_set(ERR_INPUT, "--parametrization mup is for the steps of --optimizer adamw and "
                                  "muon, whose size gradients do not change: give one of these");
    }
    s->mup = (MupBase){cfg->mup_base, cfg->mup_base_ffn, cfg->mup_base_head_dim};
    mup_scale_scores(&s->spec, &s->mup);
    return 0;
}

/* Which linear maps gain by fp8: those that do not stay in bf16, as the log says. */
static int choose_products(Run *run)
{
    TrainerSetup *s = &run->setup;
    Backend *backend = run->backend;
    int code = check_fp8(run);
    if (code != 0 || backend->quant_pays == NULL) {
        return code;
    }
    Model model;
    model_init(&model, &s->spec, s->dtype, backend->row_align);
    model_bind(&model, tensor_1d(NULL, model.act, model.params.flat), TENSOR_NONE, TENSOR_NONE);
    Ctx c;
    ctx_init(&c, backend);
    char names[64 * PRODUCT_PLACES] = "";
    size_t used = 0;
    for (int place = 0; place < PRODUCT_PLACES; place++) {
        int64_t outputs, inputs, rows = s->batch * s->seq;
        if (!model_product(&model, place, &outputs, &inputs)) {
            continue;
        }
        rows = place == PRODUCT_HEAD ? model_head_rows(&c, &model, rows) : rows;
        if (!backend->quant_pays(backend, rows, inputs, outputs)) {
            s->plain_products |= 1u << place;
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.60s",
                                     used > 0 ? ", " : "", model_product_name(&model, place));
        }
    }
    if (used > 0 && !run->shares) {
        log_info("--dtype fp8: these stay in bf16, which is faster here: %s", names);
    }
    model_free(&model);
    return 0;
}

/* The kind of attention: as asked, or the fastest that the device has for the shape. */
static int choose_attention(Run *run)
{
    static const AttentionKind kinds[] = {[CONFIG_ATTENTION_NAIVE] = ATTENTION_NAIVE,
                                          [CONFIG_ATTENTION_FLASH] = ATTENTION_FLASH,
                                          [CONFIG_ATTENTION_LIBRARY] = ATTENTION_LIBRARY};
    const Config *cfg = run->cfg;
    TrainerSetup *s = &run->setup;
    AttentionUse use = {&s->spec, s->batch, s->seq, s->separate, dtype_act(s->dtype)};
    if (cfg->attention != CONFIG_ATTENTION_AUTO) {
        s->attention = kinds[cfg->attention];
        const char *why = model_attention_refusal(run->backend, s->attention, &use);
        return why == NULL
                   ? 0
                   : err_set(ERR_INPUT, "--attention %s: %s", attention_name(s->attention), why);
    }
    s->attention = model_attention_choose(run->backend, &use);
    const char *why = run->backend->attention_choose != NULL
                          ? model_attention_refusal(run->backend, ATTENTION_LIBRARY, &use)
                          : NULL;
    if (why != NULL && !run->shares) {
        log_info("--attention auto takes %s without trying %s: %s", attention_name(s->attention),
                 attention_name(ATTENTION_LIBRARY), why);
    }
    return 0;
}

int backend_open(const Config *cfg, const Comm *comm, Backend **out)
{
    PACER_ASSERT(cfg->device != DEVICE_AUTO && cfg->dtype != CONFIG_DTYPE_AUTO,
                 "run_resolve was not called");
    const Device *device = device_of((DeviceId)cfg->device);
    int local = comm != NULL ? comm_local_rank(comm) : 0;
    int ranks = comm != NULL ? comm_local_ranks(comm) : 1;
    /* A device for each rank of the host, or several ranks on one when that is asked for. */
    char why[256];
    int count = device->count != NULL ? device->count(why, sizeof why) : 0;
    if (count > 0 && ranks > count && !cfg->oversubscribe) {
        return err_set(
            ERR_INPUT,
            "--ranks: %d ranks on %s, which has %d GPU%s; take fewer, or --oversubscribe "
            "to let them share (a test, no measurement of scaling)",
            ranks, comm_host(comm), count, count == 1 ? "" : "s");
    }
    /* Cores of this rank: those it is bound to, or else its share of the host's. */
    int threads = config_threads(cfg);
    bool bound = threads < (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (cfg->threads <= 0 && !bound) {
        threads = threads > ranks ? threads / ranks : 1;
    }
    if (device->count == NULL) {
        omp_set_num_threads(threads); /* before the first product: libraries must not take more */
    }
    return device->open(count > 0 ? local % count : 0, threads, out);
}

/* Tokens of an update and of an epoch. */
static int count_tokens(Run *run)
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
    if (run->data.source != NULL) {
        Loader loader;
        int code = loader_init(&loader, &run->data.train, s->seq, (uint64_t)s->spec.vocab,
                               (uint64_t)cfg->seed);
        if (code == 0 && run->data.train.left_out == run->data.train.tokens) {
            code =
                err_set(ERR_INPUT,
                        "--data %s: nothing in it counts in the loss: its completions are empty, "
                        "or no message is the assistant's",
                        cfg->data);
        }
        if (code != 0) {
            return code;
        }
        run->tokens_per_epoch = (int64_t)loader.windows * s->seq;
    } else if (cfg->epochs > 0) {
        return err_set(ERR_INPUT, "--epochs needs --data to know how long an epoch is");
    }
    return 0;
}

/* The largest of what each size of an update takes, and the work of the first. */
static void plan_ramp(Run *run)
{
    const BatchRamp *ramp = &run->length.ramp;
    for (int i = 1; i < ramp->count; i++) {
        TrainerSetup setup = run->setup;
        TrainPlan plan;
        setup.accum = ramp->at[i].accum;
        trainer_plan(&setup, run->backend, &plan);
        trainer_plan_join(&run->plan, &plan, run->backend);
    }
}

static LengthUnits units_of(const Run *run)
{
    const TrainerSetup *s = &run->setup;
    double tokens = (double)s->batch * (double)s->seq;
    return (LengthUnits){.batch = s->batch,
                         .seq = s->seq,
                         .tokens_per_epoch = run->tokens_per_epoch,
                         .flops_micro = run->flops_token * tokens * (double)run->cfg->ranks};
}

int run_resume_length(Run *run, int64_t step, int64_t tokens)
{
    int code = length_resume(&run->length, run->cfg, units_of(run), step, tokens);
    run->total_steps = run->length.total_steps;
    return code;
}

/* What the run takes, and how long it is. */
static int plan_length(Run *run)
{
    const TrainerSetup *s = &run->setup;
    trainer_plan(s, run->backend, &run->plan);
    if (run->plan.total > INT64_MAX) {
        return err_set(ERR_INPUT,
                       "--layers %lld x --d-model %lld x --ffn %lld with --batch %lld x --seq %lld "
                       "needs more than 2^63 bytes, which cannot be planned: take less of one",
                       (long long)s->spec.layers, (long long)s->spec.width, (long long)s->spec.ffn,
                       (long long)s->batch, (long long)s->seq);
    }
    run->flops_token = trainer_model_flops(s, run->backend) / ((double)s->batch * (double)s->seq);
    int code = length_count(&run->length, run->cfg, units_of(run));
    run->total_steps = run->length.total_steps;
    if (code == 0 && run->length.ramp.count > 1 && s->dtype == DT_E4M3) {
        code = err_set(ERR_INPUT,
                       "--batch-ramp: --dtype fp8 has a scale that is fixed by the size of an "
                       "update; take --dtype bf16");
    }
    if (code == 0) {
        plan_ramp(run);
    }
    return code;
}

static void settle_options(Run *run)
{
    const ModelSpec *spec = &run->setup.spec;
    Config *cfg = &run->settled;
    char text[SPEC_TEXT_SIZE];
    config_copy(cfg, run->cfg);
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        double value = spec_value(spec, field);
        bool number = field->kind == FIELD_WHOLE || field->kind == FIELD_REAL;
        bool as_given = number && value == 0; /* 0 as the preset's, or none in its place */
        if (field->option && spec_has(spec, field) && !as_given) {
            config_settle(cfg, field->name, spec_text(field, value, text));
        }
    }
    const struct {
        const char *name;
        double value;
    } others[] = {{"seq", (double)run->setup.seq},
                  {"momentum", run->setup.optimizer.momentum},
                  {"min-lr", run->length.schedule.floor},
                  {"warmup", (double)run->length.warmup}}; /* unless it is a part of the time */
    size_t count = sizeof others / sizeof others[0] - (run->length.warmup < 0);
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%.15g", others[i].value);
        config_settle(cfg, others[i].name, text);
    }
}

static void take_options(Run *run, int rank)
{
    const Config *cfg = run->cfg;
    TrainerSetup *s = &run->setup;
    config_run_id(cfg, run->id);
    s->batch = cfg->batch;
    s->accum = cfg->accum;
    s->dtype = config_dtype(cfg);
    s->graph = cfg->graph;
    s->ttt_keep = cfg->ttt_keep;
    bool single = cfg->accum * cfg->ranks == 1 && cfg->batch_ramp[0] == '\0';
    s->noise = !cfg->noise_scale ? NOISE_NONE : single ? NOISE_GAINS : NOISE_PIECES;
    s->save_copy = cfg->save == SAVE_ASYNC;
    s->separate = cfg->documents == CONFIG_DOCUMENTS_SEPARATE;
    s->keep = (Keep)cfg->recompute;
    s->offload = (OffloadKind)cfg->offload;
    s->low_grads = cfg->grad_dtype == CONFIG_STATE_DTYPE_BF16;
    s->optimizer =
        (OptimizerSettings){.id = (OptimizerId)cfg->optimizer,
                            .beta1 = cfg->beta1,
                            .beta2 = cfg->beta2,
                            .eps = cfg->eps,
                            .momentum = config_momentum(cfg),
                            .muon_steps = (int)cfg->muon_steps,
                            .weight_decay = cfg->weight_decay,
                            .clip = cfg->clip,
                            .state = cfg->state_dtype == CONFIG_STATE_DTYPE_BF16 ? DT_BF16 : DT_F32,
                            .seed = (uint64_t)cfg->seed};
    s->ddp = (DdpSetup){.kind = (DdpKind)cfg->ddp,
                        .rank = rank,
                        .ranks = (int)cfg->ranks,
                        .group = (int)cfg->shard_group,
                        .bucket_bytes = cfg->bucket_mb * 1000000,
                        .wire = cfg->comm_dtype == CONFIG_COMM_DTYPE_BF16 ? DT_BF16 : DT_F32};
    s->attention = cfg->attention == CONFIG_ATTENTION_NAIVE ? ATTENTION_NAIVE : ATTENTION_FLASH;
}

/* What data and model say. */
static int settle_model(Run *run)
{
    int code = resolve_model(run);
    code = code != 0 ? code : choose_parametrization(run);
    code = code != 0 ? code : separate_documents(run);
    return code != 0 ? code : trainer_check_sizes(&run->setup);
}

/* What the device says, and the plan. Closes the run when that, or what came before, fails. */
static int settle_device(Run *run, int code)
{
    const TrainerSetup *s = &run->setup;
    if (code == 0) {
        code = s->spec.mixer == MIXER_TTT ? check_ttt(run) : choose_attention(run);
    }
    code = code != 0 ? code : run_check_grads(run);
    code = code != 0 ? code : run_check_offload(run);
    code = code == 0 && s->dtype == DT_E4M3 ? choose_products(run) : code;
    code = code != 0 ? code : count_tokens(run);
    if (code == 0) {
        run->program = run->shares ? run->program : run_program(run->backend);
        code = plan_length(run);
    }
    if (code != 0) {
        run_close(run);
        return code;
    }
    settle_options(run);
    return 0;
}

int run_open(Run *run, const Config *cfg, const Comm *comm, DataNeed need)
{
    *run = (Run){.cfg = cfg, .local_ranks = comm != NULL ? comm_local_ranks(comm) : 1};
    take_options(run, comm != NULL ? comm_rank(comm) : 0);
    int code = check_model_name(cfg->model);
    code = code != 0 ? code : open_data(run, need);
    code = code != 0 ? code : settle_model(run);
    code = code != 0 ? code : backend_open(cfg, comm, &run->backend);
    return settle_device(run, code);
}

int run_vary(const Run *base, const Config *cfg, Run *run)
{
    *run = (Run){.cfg = cfg,
                 .data = base->data,
                 .backend = base->backend,
                 .local_ranks = base->local_ranks,
                 .program = base->program,
                 .shares = true};
    take_options(run, base->setup.ddp.rank);
    return settle_device(run, settle_model(run));
}

void run_close(Run *run)
{
    if (run->backend != NULL && !run->shares) {
        run->backend->close(run->backend);
    }
    if (!run->shares) {
        dataset_close(&run->data);
    }
    config_free(&run->settled);
    *run = (Run){0};
}
