#include "train/session.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "devices/devices.h"
#include "train/model_source.h"
#include "train/samples.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEASURE_SECONDS 0.4 /* spent on the machine's ceilings at the start of a run */

/* --- ranks --- */

int session_agree(Session *s, int code)
{
    int agreed = comm_agree(s->comm, code);
    s->all_failed = s->all_failed || agreed != 0;
    return agreed;
}

typedef struct {
    uint64_t sum;
    char host[64];
} WeightSum;

/* The checksum that most ranks have; of equally many, the lowest rank's. */
static uint64_t common_sum(const WeightSum *all, int ranks)
{
    int best = 0, most = 0;
    for (int i = 0; i < ranks; i++) {
        int same = 0;
        for (int k = 0; k < ranks; k++) {
            same += all[k].sum == all[i].sum;
        }
        if (same > most) {
            most = same;
            best = i;
        }
    }
    return all[best].sum;
}

int session_verify_weights(Session *s)
{
    if (s->ranks <= 1) {
        return 0;
    }
    WeightSum mine = {.sum = trainer_checksum(&s->trainer)};
    snprintf(mine.host, sizeof mine.host, "%.63s", comm_host(s->comm));
    WeightSum *all = mem_zalloc((size_t)s->ranks, sizeof *all);
    int code = comm_gather(s->comm, &mine, sizeof mine, all);
    uint64_t common = common_sum(all, s->ranks);
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; code == 0 && i < s->ranks; i++) {
        if (all[i].sum != common && used < sizeof names - 1) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%srank %d on %s",
                                     used > 0 ? ", " : "", i, all[i].host);
        }
    }
    free(all);
    if (code == 0 && names[0] != '\0') {
        code =
            err_set(ERR_FAILED,
                    "the weights of %s differ from those of the other ranks at step %lld: memory "
                    "or a device is faulty; the last checkpoint is from before the comparison",
                    names, (long long)s->state.step);
    }
    return code;
}

/* --- run directory --- */

static int make_directory(Session *s)
{
    const Config *cfg = s->run.cfg;
    s->dir = cfg->out[0] != '\0' ? mem_strdup(cfg->out)
                                 : mem_format("runs/%s-%.8s", s->run.setup.spec.name, s->run.id);
    if (!session_leads(s)) {
        return 0;
    }
    bool fresh = !io_exists(s->dir);
    int code = io_make_folders(s->dir);
    if (code != 0) {
        return err_wrap(code, "--out");
    }
    char *path = io_join(s->dir, "lock");
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (s->lock < 0) {
        code = err_wrap(io_error(path, "write"), "--out");
    } else if (io_lock(s->lock, path)) {
        s->fresh_dir = fresh;
        char *ranks = io_join(s->dir, "ranks");
        io_remove_temporaries(s->dir);
        io_remove_temporaries(ranks);
        free(ranks);
    } else {
        code = err_set(ERR_INPUT,
                       "--out %s: another pacer is training there; wait for it, or give another "
                       "--out",
                       s->dir);
    }
    free(path);
    return code;
}

/* Of a run that was refused before it had a record nothing stays. */
static void take_back_directory(const Session *s)
{
    if (s->fresh_dir && !io_has(s->dir, "run.json")) {
        char *path = io_join(s->dir, "lock");
        unlink(path);
        rmdir(s->dir);
        free(path);
    }
}

/* --- resume --- */

/* The checkpoint to go on from, or NULL to start anew. */
static int choose_checkpoint(Session *s, char **checkpoint)
{
    const char *resume = s->run.cfg->resume;
    *checkpoint = NULL;
    if (s->run.cfg->branch_at > 0 &&
        (strcmp(resume, "auto") == 0 || strcmp(resume, "never") == 0)) {
        return err_set(ERR_INPUT, "--branch-at: give --resume DIR, the run that is left");
    }
    if (strcmp(resume, "auto") == 0) {
        return checkpoint_newest(s->dir, checkpoint);
    }
    if (strcmp(resume, "never") == 0) {
        char *here;
        int code = checkpoint_newest(s->dir, &here);
        if (here != NULL) {
            code = err_set(ERR_INPUT,
                           "--out %s holds a run with checkpoints, which --resume never would "
                           "overwrite: give another --out, or remove it",
                           s->dir);
        }
        free(here);
        return code;
    }
    if (s->run.cfg->branch_at > 0) {
        *checkpoint = mem_format("%s/ckpt/step-%lld", resume, (long long)s->run.cfg->branch_at);
        return io_has(*checkpoint, "state.json")
                   ? 0
                   : err_set(ERR_INPUT,
                             "--branch-at %lld: %s has no checkpoint of that update; the run "
                             "keeps one with --save-every and --keep 0",
                             (long long)s->run.cfg->branch_at, resume);
    }
    int code = checkpoint_find(resume, checkpoint);
    if (code == 0 && *checkpoint == NULL) {
        code = err_set(ERR_INPUT, "--resume %s: the run has no checkpoint to go on from", resume);
    }
    return code == 0 ? 0 : err_wrap(code, "--resume");
}

/* The first rank chooses, and tells the others. */
static int agree_on_checkpoint(Session *s, char **checkpoint)
{
    char path[4096] = "";
    *checkpoint = NULL;
    int code = session_leads(s) ? choose_checkpoint(s, checkpoint) : 0;
    if (code == 0 && session_leads(s)) {
        checkpoint_clean(s->dir);
        snprintf(path, sizeof path, "%s", *checkpoint != NULL ? *checkpoint : "");
    }
    code = session_agree(s, code);
    if (code == 0 && s->ranks > 1) {
        code = comm_broadcast(s->comm, path, sizeof path, 0);
        free(*checkpoint);
        *checkpoint = path[0] != '\0' ? mem_strdup(path) : NULL;
    }
    return code;
}

static int start_state(Session *s)
{
    char *checkpoint;
    int code = agree_on_checkpoint(s, &checkpoint);
    if (code != 0) {
        free(checkpoint);
        return code;
    }
    if (checkpoint == NULL) {
        s->state = (TrainState){.seed = (uint64_t)s->run.cfg->seed,
                                .seq = s->run.setup.seq,
                                .data_tokens = s->run.data.train.tokens,
                                .data_digest = dataset_digest(&s->run.data),
                                .first_loss = NAN,
                                .best_val_loss = NAN};
        const char *init = s->run.cfg->init;
        if (init[0] != '\0') {
            if (session_leads(s)) {
                initial_tokenizer_check(init, s->run.cfg->data, s->run.data.tokenizer_hash);
            }
            comm_at_files(s->comm, true);
            code = initial_weights(&s->trainer, init);
            comm_at_files(s->comm, false);
            return code;
        }
        trainer_init_params(&s->trainer, (uint64_t)s->run.cfg->seed);
        return 0;
    }
    StateFile file;
    comm_at_files(s->comm, true);
    code = state_read(checkpoint, &file);
    code = code != 0 ? code : resume_check(&s->run, checkpoint, &file, &s->changes);
    code = code != 0 ? code : checkpoint_load(checkpoint, &s->trainer, &s->state);
    comm_at_files(s->comm, false);
    s->legs = json_copy(file.legs);
    state_free(&file);
    if (code == 0) {
        s->state.data_digest = dataset_digest(&s->run.data); /* an older checkpoint has none */
        s->first_step = s->trainer.step = s->state.step;
        s->first_tokens = s->state.tokens;
        code = run_resume_length(&s->run, s->first_step, s->first_tokens);
        if (s->run.length.seconds > 0 && s->state.clock_seconds >= s->run.length.seconds) {
            s->run.total_steps = s->first_step; /* all of the time is used */
        }
        log_info("Going on from %s: step %lld, %lld tokens", checkpoint, (long long)s->state.step,
                 (long long)s->state.tokens);
    }
    free(checkpoint);
    return code;
}

/* A leg of the run begins: what is saved and recorded from here on lists it. */
static void begin_leg(Session *s)
{
    if (!cJSON_IsArray(s->legs)) {
        cJSON_Delete(s->legs);
        s->legs = json_array();
    }
    legs_add(s->legs, s->first_step, s->ranks, comm_host(s->comm), comm_restarted(), &s->changes);
    s->state.legs = s->legs;
    if (session_leads(s)) {
        leg_changes_say(&s->run, &s->changes);
    }
}

/* --- record, loader --- */

int session_memory(const Session *s, RecordMemory rows[MEM_KINDS])
{
    int count = 0;
    for (MemKind kind = 0; kind < MEM_KINDS; kind++) {
        size_t planned = s->run.plan.by_kind[kind];
        if (planned > 0) {
            rows[count++] =
                (RecordMemory){mem_kind_name(kind), planned, trainer_peak_kind(&s->trainer, kind)};
        }
    }
    return count;
}

/* Sizes of the updates of this session: from which step on, how many tokens were trained on before,
 * tokens per update. NULL: all are alike. */
static cJSON *ramp_json(const Session *s)
{
    const BatchRamp *ramp = &s->run.length.ramp;
    if (ramp->count < 2) {
        return NULL;
    }
    cJSON *rows = json_array();
    int64_t before = s->first_tokens - ramp_tokens(ramp, s->first_step); /* other options' doing */
    for (int i = 0; i < ramp->count; i++) {
        bool passed = i + 1 < ramp->count && ramp->at[i + 1].step <= s->first_step;
        int64_t step = ramp->at[i].step > s->first_step ? ramp->at[i].step : s->first_step;
        if (!passed) {
            cJSON *row = json_object();
            json_put_whole(row, "step", step);
            json_put_whole(row, "tokens", before + ramp_tokens(ramp, step));
            json_put_whole(row, "per_step", ramp->at[i].accum * ramp->micro_tokens);
            json_append(rows, row);
        }
    }
    return rows;
}

static int start_record(Session *s)
{
    if (!session_leads(s)) {
        return 0;
    }
    const TrainPlan *plan = &s->run.plan;
    RecordMemory rows[MEM_KINDS + 3];
    int count = session_memory(s, rows);
    rows[count++] = (RecordMemory){MEMORY_LOADER, plan->loader, 0};
    if (plan->save_copy > 0) {
        rows[count++] = (RecordMemory){MEMORY_SAVE_COPY, plan->save_copy, 0};
    }
    if (plan->host > 0) {
        rows[count++] = (RecordMemory){MEMORY_OFFLOAD, plan->host, 0};
    }
    cJSON *machine = machine_json(&s->machine), *given = config_given_json(s->run.cfg);
    cJSON *ramp = ramp_json(s);
    RecordInfo info = {.id = s->run.id,
                       .spec = &s->run.setup.spec,
                       .parameters = plan->parameters,
                       .total_steps = s->run.total_steps < LENGTH_OPEN ? s->run.total_steps : 0,
                       .ramp = ramp,
                       .flops_update = plan->flops_update,
                       .flops_token = s->run.flops_token,
                       .noise_source = noise_source_name(s->run.setup.noise),
                       .config = s->config,
                       .given = given,
                       .legs = s->legs,
                       .machine = machine,
                       .plan = rows,
                       .plan_rows = count,
                       .events = s->run.cfg->tensorboard};
    int code = record_open(s->dir, &info, s->first_step > 0 ? s->first_step : -1, &s->record);
    if (code == 0) {
        comm_tell_folder(s->dir);
    }
    cJSON_Delete(machine);
    cJSON_Delete(given);
    cJSON_Delete(ramp);
    return code;
}

static void record_failure(void *session, const char *why, bool lost)
{
    const Session *s = session;
    if (record_fail(s->dir, comm_first_pid(s->comm), comm_first_host(s->comm), why, lost) != 0) {
        log_warn("%s", err_message());
    }
}

static int start_loader(Session *s)
{
    const Run *run = &s->run;
    int64_t seq = run->setup.seq;
    uint64_t vocab = (uint64_t)run->setup.spec.vocab;
    int code =
        loader_init(&s->train_loader, &run->data.train, seq, vocab, (uint64_t)run->cfg->seed);
    s->has_validation = run->data.validation.tokens > (uint64_t)seq;
    if (code == 0 && s->has_validation) {
        code = loader_init_sequential(&s->val_loader, &run->data.validation, seq, vocab);
    } else if (code == 0 && run->cfg->eval_every > 0) {
        log_warn("the data has no validation split of at least %lld tokens: nothing is evaluated",
                 (long long)seq + 1);
    }
    if (code == 0) {
        PrefetchOptions options = {.batch = run->setup.batch,
                                   .start = s->state.sequences,
                                   .rank = s->rank,
                                   .ranks = s->ranks};
        code = prefetch_open(&s->prefetch, &s->train_loader, options);
    }
    return code;
}

bool session_is_complete(const Session *s)
{
    return s->first_step >= s->run.total_steps;
}

/* A run that ended between its last checkpoint and its last line has no summary. Only the record
 * is made then. */
static int complete_record(Session *s)
{
    bool auto_resumed = strcmp(s->run.cfg->resume, "auto") == 0;
    int code = 0;
    if (session_leads(s) && auto_resumed && s->state.step == s->run.total_steps) {
        char *path = io_join(s->dir, RECORD_RUN);
        cJSON *run;
        code = json_load_optional(path, &run);
        s->unrecorded = code == 0 && !record_is(run, RUN_DONE);
        cJSON_Delete(run);
        free(path);
    }
    code = session_agree(s, code);
    if (code == 0 && s->ranks > 1) {
        code = comm_broadcast(s->comm, &s->unrecorded, sizeof s->unrecorded, 0);
    }
    if (code == 0 && s->unrecorded) {
        if (session_leads(s)) {
            code = checkpoint_prune(s->dir, s->state.step, s->run.cfg->keep);
            code = code != 0 ? code : start_record(s);
        }
        code = session_agree(s, code);
    }
    return code;
}

/* A model is of no use without the tokenizer that its data was made with. */
static int keep_tokenizer(const Session *s)
{
    if (!session_leads(s)) {
        return 0;
    }
    Tokenizer *tokenizer;
    int code = dataset_tokenizer(&s->run.data, &tokenizer);
    if (code != 0 && s->run.data.tokenizer_path == NULL) {
        return 0; /* tokens that came without one */
    }
    if (code == 0) {
        char *path = io_join(s->dir, "tokenizer.json");
        code = tokenizer_write_json(tokenizer, path);
        free(path);
        tokenizer_free(tokenizer);
    }
    return code;
}

static int run_fits(Session *s)
{
    int code = run_check_fits(&s->run);
    /* A refusal for lack of memory is a result, which sweeps show as a row; but never in the place
     * of an earlier run's record. */
    if (code == ERR_MEMORY && session_leads(s)) {
        char *why = mem_strdup(err_message());
        if (!io_has(s->dir, RECORD_RUN) && start_record(s) == 0) {
            record_save(s->record, RUN_OOM, why, NULL);
        }
        err_set(ERR_MEMORY, "%s", why);
        free(why);
    }
    return session_agree(s, code);
}

/* The first run on a machine measures it: before the run's memory is taken, and with no more than
 * that, so that it does not add to the process's peak. The others wait: it is the rate of one
 * undisturbed rank. Later runs begin at once and measure at their end (finish.c). */
static void measure_machine(Session *s)
{
    DType dtype = s->run.setup.dtype;
    Backend *backend = s->run.backend;
    if (!session_leads(s)) {
        return;
    }
    Effort effort = {MEASURE_SECONDS, s->run.plan.total};
    s->ceilings_recalled = machine_recall_device(&s->machine, backend, dtype, effort);
    if (!s->ceilings_recalled) {
        machine_measure_device(&s->machine, backend, dtype, effort);
        machine_remember_device(&s->machine, backend, dtype);
    }
}

static int open_trainer(Session *s)
{
    int code = trainer_open(&s->trainer, &s->run.setup, s->run.backend, &s->run.plan);
    code = session_agree(s, code);
    if (code == 0 && s->ranks > 1) {
        code = channel_open(s->comm, s->run.backend, &s->channel);
        if (code == 0) {
            code = channel_make_groups(s->channel, s->run.setup.ddp.group);
        }
        if (code == 0) {
            trainer_connect(&s->trainer, s->comm, s->channel);
        }
    }
    SaverSetup saver = {.run = s->dir,
                        .keep = s->run.cfg->keep,
                        .trainer = &s->trainer,
                        .comm = s->comm,
                        .behind = s->run.cfg->save == SAVE_ASYNC};
    code = code != 0 ? code : session_agree(s, saver_open(&saver, &s->saver));
    return code;
}

/* Ranks that were started with different options would train different things together. */
static int check_same_options(Session *s)
{
    char first[CONFIG_ID_SIZE];
    memcpy(first, s->run.id, sizeof first);
    int code = s->ranks > 1 ? comm_broadcast(s->comm, first, sizeof first, 0) : 0;
    if (code == 0 && strcmp(first, s->run.id) != 0) {
        code =
            err_set(ERR_INPUT,
                    "this rank, on %s, was started with other options than rank 0: give all ranks "
                    "the same",
                    comm_host(s->comm));
    }
    return code;
}

/* What the time to the first step went to, for --verbose. */
typedef struct {
    double since;
    char text[256];
} Laps;

static void lap(Laps *laps, const char *name)
{
    double now = clock_seconds();
    size_t used = strlen(laps->text);
    snprintf(laps->text + used, sizeof laps->text - used, "%s%s %.0f ms", used > 0 ? ", " : "",
             name, 1e3 * (now - laps->since));
    laps->since = now;
}

static int open_parts(Session *s, const Config *cfg)
{
    Laps laps = {.since = clock_seconds()};
    int code = run_open(&s->run, cfg, s->comm, DATA_REQUIRED);
    lap(&laps, "device, data and plan");
    code = session_agree(s, code);
    code = code != 0 ? code : check_same_options(s);
    code = code != 0 ? code : make_directory(s);
    code = session_agree(s, code);
    code = code != 0 ? code : samples_check(s);
    code = session_agree(s, code);
    if (code == 0) {
        s->config = config_to_json(&s->run.settled);
        machine_describe(&s->machine, device_isa(s->run.backend));
        code = run_fits(s);
    }
    lap(&laps, "folder");
    if (code == 0) {
        measure_machine(s);
        code = session_agree(s, 0);
    }
    lap(&laps, "ceilings");
    if (code == 0) {
        code = open_trainer(s);
    }
    lap(&laps, "memory");
    code = code != 0 ? code : start_state(s);
    lap(&laps, "weights");
    code = code == 0 ? session_agree(s, code) : code;
    if (code == 0 && session_is_complete(s)) {
        return complete_record(s);
    }
    if (code != 0) {
        return code;
    }
    begin_leg(s);
    trainer_warm(&s->trainer);
    lap(&laps, "warming");
    account_open(s);
    code = start_record(s);
    if (code == 0) {
        comm_on_failure(s->comm, record_failure, s);
    }
    code = code != 0 ? code : keep_tokenizer(s);
    code = code != 0 ? code : start_loader(s);
    lap(&laps, "record and loader");
    log_debug("start-up: %s", laps.text);
    return session_agree(s, code);
}

int session_open(Session *s, const Config *cfg, Comm *comm)
{
    memset(s, 0, sizeof *s);
    s->comm = comm;
    s->rank = comm_rank(comm);
    s->ranks = comm_ranks(comm);
    s->lock = -1;
    s->loss = s->grad_norm = s->rate = s->val_loss = NAN;
    timers_init(&s->timers, NULL);
    timers_enter(&s->timers, PHASE_INIT);
    int code = open_parts(s, cfg);
    timers_leave(&s->timers, PHASE_INIT);
    if (code != 0) {
        session_give_up(s, code);
        take_back_directory(s);
        session_close(s);
    }
    return code;
}

void session_close(Session *s)
{
    comm_on_failure(s->comm, NULL, NULL);
    sensors_close(s->sensors);
    prefetch_close(s->prefetch);
    record_close(s->record);
    saver_close(s->saver);
    trainer_close(&s->trainer); /* drops recordings, which hold on to the channel's collectives */
    channel_close(s->channel);
    run_close(&s->run);
    timers_free(&s->timers);
    cJSON_Delete(s->config);
    cJSON_Delete(s->legs);
    leg_changes_free(&s->changes);
    if (s->lock >= 0) {
        close(s->lock);
    }
    free(s->dir);
    memset(s, 0, sizeof *s);
    s->lock = -1;
}
