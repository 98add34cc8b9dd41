/* The last lines of a run: what it amounted to, whether the account adds up, and with which status
 * it ended. */
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/checks.h"
#include "train/session.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Spent on the ceilings at the end: where the run was faster than the one that it began with; and
 * on a processor, which others may have used when its ceilings were measured, where they were not
 * measured at the start, and the run has taken fifty times as long. */
#define CEILING_SECONDS 1.0
#define AGAIN_SECONDS 0.4
#define AGAIN_AFTER (50 * AGAIN_SECONDS)

/* A number that exists once `measured`; NaN among those is a finding, not a gap. */
static Value known(bool measured, double number)
{
    return measured ? value_of(number) : (Value){0};
}

static void fill_summary(Session *s, const TimerReport *report, Summary *out)
{
    Backend *backend = s->run.backend;
    /* Held by the process where it computes. */
    size_t reserved = backend->reserved != NULL ? backend->reserved(backend) : mem_peak_resident();
    *out = (Summary){.steps = value_of((double)s->state.step),
                     .tokens = value_of((double)s->state.tokens),
                     .counted = value_of((double)s->state.counted),
                     .wall_s = value_of(report->wall_s),
                     .train_s = value_of(s->session_seconds),
                     .train_all_s = known(!isnan(s->state.train_seconds), s->state.train_seconds),
                     .val_s = value_of(report->phases[PHASE_EVAL].total_s),
                     .init_s = value_of(report->phases[PHASE_INIT].total_s),
                     .train_loss = known(s->trainer.fetched_counted > 0, s->loss),
                     .val_loss = known(s->evaluated, s->val_loss),
                     .best_val_loss = known(!isnan(s->state.best_val_loss), s->state.best_val_loss),
                     .peak_bytes = value_of((double)trainer_peak_bytes(&s->trainer)),
                     .allocated_bytes = value_of((double)s->run.plan.blocks),
                     .reserved_bytes = value_of((double)reserved),
                     .planned_bytes = value_of((double)s->run.plan.blocks),
                     .timer_overhead = value_of(account_overhead(s, report->wall_s)),
                     .phases = report};
    NoiseScale noise = session_noise(s);
    out->noise_scale = noise.scale;
    out->noise_error = noise.error;
    out->noise_tokens = session_noise_tokens(s, noise);
    const PhaseReport *steps_taken = &report->phases[SPAN_UPDATE];
    if (steps_taken->count > 0) {
        out->step_p50_ms = value_of(1e3 * steps_taken->p50_s);
        out->step_p95_ms = value_of(1e3 * steps_taken->p95_s);
        out->step_max_ms = value_of(1e3 * steps_taken->max_s);
    }
}

/* The cores that a rank on a processor has for itself: those it is bound to, or its share of as
 * many as the ranks of the host use together. False when there are not enough: they are then
 * shared. */
static bool name_cores(const Session *s, char *text, size_t size)
{
    const Backend *backend = s->run.backend;
    cpu_set_t cores;
    if (backend->device != NULL || sched_getaffinity(0, sizeof cores, &cores) != 0) {
        return false;
    }
    int count = CPU_COUNT(&cores), used = 0;
    if (count < (int)sysconf(_SC_NPROCESSORS_ONLN)) {
        used = snprintf(text, size, "cores");
        for (int core = 0; core < CPU_SETSIZE && (size_t)used + 8 < size; core++) {
            if (CPU_ISSET(core, &cores)) {
                used += snprintf(text + used, size - (size_t)used, " %d", core);
            }
        }
        return true;
    }
    snprintf(text, size, "share %d", comm_local_rank(s->comm));
    return backend->threads * comm_local_ranks(s->comm) <= count;
}

static int write_rank(const Session *s, const TimerReport *report, const Summary *summary)
{
    RecordMemory categories[MEM_KINDS];
    int count = session_memory(s, categories);
    cJSON *gpu = gpu_watch_json(&s->watch);
    const Backend *backend = s->run.backend;
    char uuid[96];
    bool named = backend->place != NULL ? backend->place(backend, uuid, sizeof uuid)
                                        : name_cores(s, uuid, sizeof uuid);
    RecordRank rank = {.rank = s->rank,
                       .ranks = s->ranks,
                       .host = s->machine.host,
                       .device = backend->device != NULL ? backend->device : backend->name,
                       .uuid = named ? uuid : NULL,
                       .first_loss = known(s->first_counts, s->own_first_loss),
                       .timers = report,
                       .peak_bytes = summary->peak_bytes,
                       .allocated_bytes = summary->allocated_bytes,
                       .reserved_bytes = summary->reserved_bytes,
                       .planned_bytes = summary->planned_bytes,
                       .resident_bytes = value_of((double)mem_peak_resident()),
                       .loader_bytes = value_of((double)s->run.plan.loader),
                       .categories = categories,
                       .category_count = count,
                       .gpu = gpu};
    int code = record_rank(s->dir, &rank);
    cJSON_Delete(gpu);
    return code;
}

static RunState status_of(int code)
{
    switch (code) {
    case 0:
    case ERR_CHECK:
        return RUN_DONE;
    case ERR_MEMORY:
        return RUN_OOM;
    case ERR_INTERRUPTED:
    case ERR_TERMINATED:
        return RUN_STOPPED;
    default:
        return RUN_FAILED;
    }
}

static void run_checks(const Session *s, const Summary *summary, bool complete, Checks *checks)
{
    const Run *run = &s->run;
    CheckInput input = {.batch = run->setup.batch,
                        .accum = run->cfg->accum,
                        .seq = run->setup.seq,
                        .ranks = s->ranks,
                        .vocab = run->setup.spec.vocab,
                        .steps_before = s->first_step,
                        .tokens_before = s->first_tokens,
                        .timed_tokens = value_of((double)session_tokens(s)),
                        .ramp = run->length.ramp.count > 1,
                        .plan_bytes = value_of((double)run->plan.blocks),
                        .flops_update = value_of(run->plan.flops_update),
                        .complete = complete};
    Value ceiling = machine_ceiling(&s->machine);
    input.ceiling = known(ceiling.known, 1e9 * ceiling.number);
    if (s->first_step == 0) {
        bool fresh = s->first_counts && s->run.cfg->init[0] == '\0';
        input.first_loss = known(fresh, s->state.first_loss);
    }
    checks_run(summary, &input, checks);
}

/* What the whole run took is what its slowest rank took, and its memory that of the largest.
 * Evaluation and init are those of the rank with the longest training: a rank that starts early
 * waits in its first step for one that starts late, so that the longest of each, taken from
 * different ranks, would sum to more than any of them lasted. */
static int take_slowest(Session *s, Summary *summary)
{
    Value *const of[] = {
        &summary->train_s,         &summary->wall_s,         &summary->peak_bytes,
        &summary->allocated_bytes, &summary->reserved_bytes, &summary->planned_bytes,
        &summary->timer_overhead,  &summary->val_s,          &summary->init_s};
    enum { COUNT = sizeof of / sizeof of[0], OF_SLOWEST = 2 }; /* the last two */
    double most[COUNT];
    for (int i = 0; i < COUNT; i++) {
        most[i] = of[i]->number;
    }
    int code = comm_max(s->comm, most, COUNT - OF_SLOWEST);
    for (int i = COUNT - OF_SLOWEST; i < COUNT; i++) {
        most[i] = summary->train_s.number == most[0] ? most[i] : 0;
    }
    code = code != 0 ? code : comm_max(s->comm, most + COUNT - OF_SLOWEST, OF_SLOWEST);
    for (int i = 0; code == 0 && i < COUNT; i++) {
        *of[i] = value_of(most[i]);
    }
    return code;
}

/* Rates by the time of the slowest rank. */
static void fill_rates(Session *s, bool complete, Summary *out)
{
    double tokens = (double)session_tokens(s), seconds = out->train_s.number;
    if (tokens <= 0 || seconds <= 0) {
        return;
    }
    out->tok_s = value_of(tokens / seconds);
    double rate = session_flops(s) / seconds; /* of one rank */
    const Backend *backend = s->run.backend;
    double stated =
        backend->stated_rate != NULL ? backend->stated_rate(backend, s->run.setup.dtype) : 0;
    if (stated > 0) {
        out->mfu_peak = value_of(rate / stated);
    }
    Value ceiling = machine_ceiling(&s->machine);
    bool exceeded = ceiling.known && 1e-9 * rate > ceiling.number;
    bool later =
        s->ceilings_recalled && complete && backend->matmul_rate == NULL && seconds >= AGAIN_AFTER;
    if (exceeded || later) {
        /* It may have been taken at a bad moment of a shared machine. Once more. */
        Machine again = s->machine;
        size_t room = run_room(&s->run), held = s->run.plan.total;
        machine_measure_device(
            &again, s->run.backend, s->run.setup.dtype,
            (Effort){exceeded ? CEILING_SECONDS : AGAIN_SECONDS, room > held ? room - held : 0});
        machine_remember_device(&again, s->run.backend, s->run.setup.dtype);
        if (machine_ceiling(&again).number > ceiling.number) {
            s->machine = again;
            ceiling = machine_ceiling(&again);
            record_machine(s->record, machine_json(&again));
        }
    }
    if (ceiling.known) {
        out->mfu_measured = value_of(1e-9 * rate / ceiling.number);
    }
}

/* The first failure of a run is its exit status; what fails behind it is told of. */
static void note_failure(int failure, int *code, char **why)
{
    if (failure != 0 && *code == 0) {
        *code = failure;
        *why =
            mem_format("the record of the run is not complete: %s; the same command completes it",
                       err_message());
    } else if (failure != 0) {
        log_warn("%s", err_message());
    }
}

void session_give_up(Session *s, int code)
{
    char *why = mem_strdup(err_message());
    if (s->record != NULL && record_save(s->record, status_of(code), why, NULL) != 0) {
        log_warn("%s", err_message());
    }
    err_set(code, "%s", why);
    free(why);
}

int session_finish(Session *s, int code)
{
    RunState status = status_of(code);
    char *why = code != 0 ? mem_strdup(err_message()) : NULL;
    TimerReport report;
    timers_report(&s->timers, &report);
    Summary summary;
    fill_summary(s, &report, &summary);
    note_failure(write_rank(s, &report, &summary), &code, &why);
    /* After a failure that a rank met alone the others may be gone. */
    bool together = s->ranks > 1 && (status == RUN_DONE || status == RUN_STOPPED || s->all_failed);
    if (together && take_slowest(s, &summary) != 0) {
        log_warn("%s", err_message());
    }
    if (session_leads(s)) {
        fill_rates(s, status == RUN_DONE, &summary);
        Checks checks = {0};
        if (s->state.step > s->first_step) {
            run_checks(s, &summary, status == RUN_DONE, &checks);
        }
        /* Without the rank's own file the record is not complete: it stays as it is. */
        if (status != RUN_DONE || code == 0) {
            int saved =
                record_save(s->record, status, why, summary_json(&summary, checks_json(&checks)));
            /* Once more from what now lies on the disk, which has the lines and the ranks' files
             * besides. */
            if (saved == 0 && status == RUN_DONE && checks.count > 0) {
                saved = recheck_dir(s->dir, &checks);
                saved = saved != 0 ? saved
                                   : record_save(s->record, status, why,
                                                 summary_json(&summary, checks_json(&checks)));
            }
            note_failure(saved, &code, &why);
        }
        if (code == 0) {
            checks_log(&checks);
            code = checks_status(&checks);
        }
    }
    /* Whoever is through with an error ends the others: not before the record is written. */
    if (together && comm_barrier(s->comm, "record") != 0) {
        log_warn("%s", err_message());
    }
    if (s->ranks > 1 && (status == RUN_FAILED || status == RUN_OOM)) {
        comm_tell_failed(s->comm, why); /* the first rank may not have been able to record it */
    }
    if (why != NULL) {
        err_set(code, "%s", why);
    }
    free(why);
    return code;
}
