/* `pacer plan --recommend`: measures short steps until it knows which settings suit model and
 * machine, and says what to type, how long it would take, and in how much memory. */
#include "analyse/recommend.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"
#include "base/progress.h"
#include "base/signals.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/plan.h"
#include "devices/devices.h"
#include "record/reader.h"

#include <stdlib.h>
#include <string.h>

#define SLOWEST_STEP_S 10.0 /* on a processor a large batch takes minutes, and is no faster */
#define WARM_STEPS 1
#define REPEATS_LEAST 2
#define REPEATS_MOST 20
#define CANDIDATE_SECONDS 1.0 /* of timed steps, if that is more than the least */
#define MIB (1024.0 * 1024.0)

typedef struct {
    const Config *cfg;
    const RecommendLimits *limits;
    bool own_data; /* the user named some */
    int64_t seq;   /* of the last candidate that was opened */
    Progress progress;
} Search;

static const char *choice_name(const char *option, int choice)
{
    return config_find(option)->choices[choice];
}

/* cfg with the candidate's settings; accum micro-steps on each of `ranks` ranks. */
static int settings_of(const Config *cfg, const Candidate *c, int64_t accum, int64_t ranks,
                       Config *out)
{
    config_copy(out, cfg);
    int code = config_set(out, "global-batch", "0");
    code = code != 0 ? code : config_set(out, "noise-scale", "off"); /* of no interest here */
    code = code != 0 ? code : config_set_whole(out, "batch", c->batch);
    code = code != 0 ? code : config_set_whole(out, "accum", accum);
    code = code != 0 ? code : config_set_whole(out, "ranks", ranks);
    code = code != 0 ? code : config_set(out, "attention", choice_name("attention", c->attention));
    code = code != 0 ? code : config_set(out, "recompute", choice_name("recompute", c->recompute));
    out->recommend = false;
    code = code != 0 ? code : config_check(out);
    code = code != 0 ? code : run_resolve(out);
    if (code != 0) {
        config_free(out);
    }
    return code;
}

static void refuse(Candidate *c, CandidateState state, const char *why)
{
    c->state = state;
    snprintf(c->why, sizeof c->why, "%s", why);
}

/* Medians of a few steps: their micro-step, and their update with what follows. */
static int time_steps(Bench *bench, Candidate *c)
{
    Trainer *t = &bench->trainer;
    Backend *backend = bench->run.backend;
    double micro[REPEATS_MOST], update[REPEATS_MOST], begun = clock_seconds(), waited, loss, norm;
    int count = 0;
    for (int i = -WARM_STEPS;
         i < REPEATS_MOST && (i < REPEATS_LEAST || clock_seconds() - begun < CANDIDATE_SECONDS);
         i++) {
        Batch batch;
        int code = prefetch_next(bench->prefetch, &batch, &waited);
        code = code != 0 ? code : signals_check();
        if (code != 0) {
            return code;
        }
        double start = clock_seconds();
        trainer_micro_step(t, (HostBatch){batch.tokens, batch.targets, batch.order, batch.starts},
                           0);
        backend->sync(backend);
        double middle = clock_seconds();
        trainer_update(t, 1e-4, i + WARM_STEPS);
        trainer_post(t);
        trainer_fetch(t, &loss, &norm);
        if (i >= 0) {
            micro[count] = middle - start;
            update[count++] = clock_seconds() - middle;
        }
    }
    double whole[REPEATS_MOST];
    for (int i = 0; i < count; i++) {
        whole[i] = micro[i] + update[i];
    }
    c->state = CANDIDATE_MEASURED;
    c->micro_s = clock_quantile(micro, (size_t)count, 0.5);
    c->last_s = c->micro_s + clock_quantile(update, (size_t)count, 0.5);
    c->spread = clock_spread(whole, (size_t)count);
    return 0;
}

static int time_candidate(Config *cfg, Candidate *c)
{
    Bench bench;
    int code = bench_open(&bench, cfg, NULL);
    code = code != 0 ? code : time_steps(&bench, c);
    bench_close(&bench);
    if (code == ERR_MEMORY) {
        refuse(c, CANDIDATE_TOO_LARGE, "does not fit");
        code = 0;
    }
    return code;
}

static int measure(void *user, Candidate *c)
{
    Search *search = user;
    Config cfg;
    Run run;
    int code = settings_of(search->cfg, c, 1, 1, &cfg);
    if (code != 0) {
        return code;
    }
    progress_note(&search->progress, "trying attention %s, batch %lld",
                  choice_name("attention", c->attention), (long long)c->batch);
    code = run_open(&run, &cfg, NULL, DATA_REQUIRED);
    if (code == ERR_INPUT && search->limits->kind_count > 1) { /* that kind cannot do it */
        refuse(c, CANDIDATE_REFUSED, err_message());
        code = 0;
    } else if (code == 0) {
        c->bytes = run.plan.total;
        search->seq = run.setup.seq;
        size_t room = run_room(&run);
        run_close(&run);
        if (c->bytes > room) {
            refuse(c, CANDIDATE_TOO_LARGE, "does not fit");
        } else {
            code = time_candidate(&cfg, c);
        }
    }
    config_free(&cfg);
    return code;
}

/* --- what is searched --- */

static int limits_of(const Config *cfg, const ModelSpec *spec, RecommendLimits *limits)
{
    bool fixed = cfg->attention != CONFIG_ATTENTION_AUTO || spec->mixer == MIXER_TTT;
    *limits = (RecommendLimits){.recompute_given = config_is_set(cfg, "recompute"),
                                .recompute = cfg->recompute,
                                .batch = config_is_set(cfg, "batch") ? cfg->batch : 0,
                                .slowest_s = SLOWEST_STEP_S};
    limits->kinds[limits->kind_count++] = fixed ? cfg->attention : CONFIG_ATTENTION_FLASH;
    if (!fixed && device_of((DeviceId)cfg->device)->count != NULL) {
        limits->kinds[limits->kind_count++] = CONFIG_ATTENTION_LIBRARY;
    }
    if (!fixed) {
        limits->kinds[limits->kind_count++] = CONFIG_ATTENTION_NAIVE;
    }
    limits->largest = (int64_t)config_find("batch")->max;
    if (cfg->global_batch > 0) {
        if (cfg->global_batch % cfg->ranks != 0) {
            return err_set(ERR_INPUT, "--global-batch %lld: not a multiple of --ranks %lld",
                           (long long)cfg->global_batch, (long long)cfg->ranks);
        }
        limits->global_batch = limits->largest = cfg->global_batch / cfg->ranks;
    }
    return 0;
}

/* --- what is said --- */

static void print_candidates(const Search *search, const Recommendation *r)
{
    printf("  %-10s %-10s %7s %6s %14s %12s %7s\n", "attention", "recompute", "batch", "accum",
           "planned MiB", "tok/s", "+- %");
    for (int i = 0; i < r->count; i++) {
        const Candidate *c = &r->candidates[i];
        char rate[SHOW_COUNT_SIZE];
        double tokens = recommend_rate(search->limits, c) * (double)search->seq;
        printf("%c %-10s %-10s %7lld %6lld ", i == r->best ? '*' : ' ',
               choice_name("attention", c->attention), choice_name("recompute", c->recompute),
               (long long)c->batch, (long long)recommend_accum(search->limits, c));
        if (c->state == CANDIDATE_MEASURED) {
            printf("%14.1f %12s %7.1f\n", (double)c->bytes / MIB,
                   show_count((uint64_t)tokens, true, rate), 100 * c->spread);
        } else if (c->bytes > 0) {
            escape_printf(stdout, "%14.1f %12s  %s\n", (double)c->bytes / MIB, "-", c->why);
        } else {
            escape_printf(stdout, "%14s %12s  %s\n", "-", "-", c->why);
        }
    }
}

void plan_print_option(const char *name, const char *value)
{
    char *word = escape_shell(value);
    printf(" --%s%s%s", name, value[0] == '-' ? "=" : " ", word);
    free(word);
}

void plan_print_given(const Config *cfg, bool own_data, const char *const *left_out)
{
    printf("pacer train%s", own_data ? "" : " --data DATA");
    for (const Option *option = config_options(); option->name != NULL; option++) {
        const char *name = option->name;
        bool own = !config_is_set(cfg, name) || (!own_data && strcmp(name, "data") == 0) ||
                   (option->commands & 1u << COMMAND_TRAIN) == 0;
        for (const char *const *out = left_out; *out != NULL && !own; out++) {
            own = strcmp(name, *out) == 0;
        }
        char *value = own ? NULL : config_value_text(cfg, option);
        if (value != NULL && option->type == OPTION_BOOL) {
            printf(" --%s=%s", name, value);
        } else if (value != NULL) {
            plan_print_option(name, value);
        }
        free(value);
    }
}

/* What the user gave, then what was found. */
static void print_command(const Search *search, const Config *found, double rate)
{
    static const char *const decided[] = {
        "batch", "lr",  "accum",  "global-batch", "attention", "recompute", "config",
        "ranks", "ddp", "tokens", "steps",        "epochs",    NULL};
    plan_print_given(search->cfg, search->own_data, decided);
    static const char *const shown[] = {"batch", "lr",  "accum", "attention", "recompute",
                                        "ranks", "ddp", "steps", "tokens",    "epochs"};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        const Option *option = config_find(shown[i]);
        char *value = config_value_text(found, option);
        if (i < 2 || strcmp(value, option->initial) != 0) {
            plan_print_option(shown[i], value);
        }
        free(value);
    }
    printf(" --expected-tok-s %.0f\n", rate);
}

static void print_time(const Config *cfg, const Run *run, double rate)
{
    double tokens =
        run->length.seconds > 0 ? run->length.seconds * rate : (double)run->length.total_tokens;
    double allowed = 3600 * cfg->hours;
    char needed[CLOCK_DURATION_SIZE], given[CLOCK_DURATION_SIZE], count[SHOW_COUNT_SIZE];
    printf("Predicted: %s tokens", show_count((uint64_t)tokens, true, count));
    printf(" in %s at %s tok/s", clock_duration(tokens / rate, needed),
           show_count((uint64_t)rate, true, count));
    printf("; %.1f MiB of memory%s", (double)run->plan.total / MIB,
           run->setup.ddp.ranks > 1 ? " on each rank" : "");
    printf(" (evaluations and checkpoints come on top)\n");
    if (allowed > 0) {
        printf("%s are enough for %s tokens: %s\n", clock_duration(allowed, given),
               show_count((uint64_t)(allowed * rate), true, count),
               allowed * rate >= tokens ? "the training fits"
                                        : "it does not fit; give fewer --tokens, a smaller model, "
                                          "or more --ranks");
    }
}

/* The command for the best candidate, with ranks by the fastest strategy. */
static int print_recommendation(Search *search, const Recommendation *r, bool predicting)
{
    const Candidate *best = &r->candidates[r->best];
    const Config *cfg = search->cfg;
    double rate = recommend_rate(search->limits, best) * (double)search->seq;
    Config found;
    Run run;
    int code = settings_of(cfg, best, recommend_accum(search->limits, best), cfg->ranks, &found);
    if (code != 0) {
        return code;
    }
    PredictedRanks ranks = {0};
    code = run_open(&run, &found, NULL, DATA_REQUIRED);
    if (code == 0 && predicting) {
        code = plan_predict(&run, NULL, &ranks);
        if (code == 0) {
            run_close(&run);
            config_derive(&found, "ddp", (int)ranks.kind);
            rate = ranks.prediction.tokens_per_s;
            code = run_open(&run, &found, NULL, DATA_REQUIRED);
        }
    }
    if (code == 0) {
        puts("Recommended:");
        print_command(search, &found, rate);
        print_time(cfg, &run, rate);
        if (!config_is_set(cfg, "lr")) {
            printf("--lr %g is what suits %s (`pacer models`); another batch or much more data can "
                   "want another, which a short sweep over lr finds.\n",
                   cfg->lr, cfg->model);
        }
        bool limited = cfg->noise_from[0] != '\0' && best->batch == search->limits->largest;
        if (cfg->global_batch == 0 && search->limits->batch == 0) {
            printf("The number of sequences per update is the %s; what it does to the loss, "
                   "recipes/batch-sweep.yaml measures.\n",
                   limited ? "largest up to the noise scale" : "least that is fast here");
        }
        run_close(&run);
    }
    config_free(&found);
    return code;
}

/* The best settings once more with products in fp8, on a device that trains in bf16 unless told
 * otherwise: what it would gain is said, and the choice is the user's. */
static int try_fp8(const Search *search, const Candidate *best)
{
    const Config *cfg = search->cfg;
    if (config_is_set(cfg, "dtype") || device_of((DeviceId)cfg->device)->dtype != DT_BF16) {
        return 0;
    }
    Config with;
    config_copy(&with, cfg);
    Search other = *search;
    other.cfg = &with;
    Candidate c = {
        .attention = best->attention, .recompute = best->recompute, .batch = best->batch};
    int code = config_set(&with, "dtype", "fp8");
    code = code != 0 ? code : measure(&other, &c);
    config_free(&with);
    if (code == ERR_INPUT || (code == 0 && c.state != CANDIDATE_MEASURED)) {
        escape_printf(stdout, "--dtype fp8 was tried and left out: %s\n",
                      code != 0 ? err_message() : c.why);
        return 0;
    }
    if (code == 0) {
        char rate[SHOW_COUNT_SIZE];
        double plain = recommend_rate(search->limits, best);
        double coded = recommend_rate(search->limits, &c);
        printf("With --dtype fp8 the same makes %s tok/s, %.2f times as many, in %.1f MiB; what is "
               "multiplied then has 3 bits of fraction, so it is yours to choose.\n",
               show_count((uint64_t)(coded * (double)search->seq), true, rate), coded / plain,
               (double)c.bytes / MIB);
    }
    return code;
}

typedef struct {
    double tokens;
    bool gains; /* of the norms' gains alone */
} RunNoise;

static int read_noise(const char *dir, RunNoise *noise)
{
    cJSON *run;
    int code = record_load(dir, RECORD_RUN, &run);
    noise->tokens = json_number(run, "summary.noise_tokens");
    noise->gains = strcmp(json_text_or(run, "noise_source", ""), "norm gains") == 0;
    cJSON_Delete(run);
    if (code != 0) {
        return err_wrap(code, "--noise-from");
    }
    return noise->tokens > 0
               ? 0
               : err_set(ERR_INPUT,
                         "--noise-from %s: the run has no noise scale; train it with --noise-scale",
                         dir);
}

/* No more sequences per update than the noise scale of a run says: above it tokens are wasted. */
static void limit_by_noise(const Config *cfg, const RunNoise *noise, int64_t seq,
                           RecommendLimits *limits)
{
    if (cfg->noise_from[0] == '\0') {
        return;
    }
    double update = noise->tokens / (double)seq, rank = update / (double)cfg->ranks;
    int64_t most = rank < 1 ? 1 : rank < 1e6 ? (int64_t)rank : 1000000;
    escape_printf(stdout,
                  "Noise scale of %s%s: %.3g tokens, %.3g sequences of %lld: larger updates "
                  "waste tokens\n",
                  cfg->noise_from,
                  noise->gains ? " (of the norms' gains alone: an order of size)" : "",
                  noise->tokens, update, (long long)seq);
    int64_t given = limits->global_batch > 0 ? limits->global_batch : limits->batch;
    if (given > most) {
        log_warn("%lld sequences per rank and update were asked for, %.1f times the noise scale",
                 (long long)given, (double)given / rank);
    } else if (given == 0 && limits->largest > most) {
        limits->largest = most;
    }
}

int plan_recommend(Config *cfg, bool predicting)
{
    Run run;
    RecommendLimits limits;
    Recommendation r;
    if (cfg->ranks > 1 && !predicting) {
        return err_set(ERR_INPUT,
                       "--recommend with --ranks needs --link, what joins the ranks, such "
                       "as nvlink or eth10");
    }
    if (comm_is_launched()) {
        return err_set(ERR_INPUT, "--recommend measures one rank: start it without mpirun or srun");
    }
    RunNoise noise = {0};
    int code = cfg->noise_from[0] != '\0' ? read_noise(cfg->noise_from, &noise) : 0;
    if (code != 0) {
        return code;
    }
    signals_install();
    bool own_data = cfg->data[0] != '\0';
    code = cfg->data[0] == '\0' ? config_set(cfg, "data", "builtin:random") : 0;
    code = code != 0 ? code : run_resolve(cfg);
    code = code != 0 ? code : run_open(&run, cfg, NULL, DATA_REQUIRED);
    if (code != 0) {
        return code;
    }
    code = predicting ? plan_check_link(&run, NULL) : 0;
    code = code != 0 ? code : limits_of(cfg, &run.setup.spec, &limits);
    if (code != 0) {
        run_close(&run);
        return code;
    }
    escape_printf(stdout, "Settings for %s on %s, %s; steps measured here\n", run.setup.spec.name,
                  run.backend->device != NULL ? run.backend->device : "the processor",
                  dtype_name(run.setup.dtype));
    limit_by_noise(cfg, &noise, run.setup.seq, &limits);
    run_close(&run);
    Search search = {.cfg = cfg,
                     .limits = &limits,
                     .own_data = own_data,
                     .progress = progress_begin("trying settings")};
    code = recommend_search(&limits, measure, &search, &r);
    if (code != 0) {
        return code;
    }
    print_candidates(&search, &r);
    double spread = recommend_spread(&r);
    if (spread > RECOMMEND_BUSY) {
        log_warn("the machine is too busy to tell settings apart: steps of one differed by +- %.0f "
                 "%%; run this again when it is idle",
                 100 * spread);
    }
    code = r.best >= 0 ? print_recommendation(&search, &r, predicting) : 0;
    code = code == 0 && r.best >= 0 ? try_fp8(&search, &r.candidates[r.best]) : code;
    return r.best >= 0 ? code
                       : err_set(ERR_MEMORY, "nothing fits, not even one sequence with --recompute "
                                             "block: take a smaller model or --seq");
}
