/* The last lines of a run: what it amounted to, whether the account adds up, and with which status
 * it ended. */
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cuda/cuda.h"
#include "metrics/recheck.h"
#include "train/session.h"

#include <math.h>
#include <stdlib.h>

#define CEILING_SECONDS 1.0

/* A number that exists once `measured`; NaN among those is a finding, not a gap. */
static Value known(bool measured, double number)
{
    return measured ? value_of(number) : (Value){0};
}

/* Faster than the ceiling: it may have been taken at a bad moment of a shared machine. Once more. */
static void raise_ceiling(Session *s)
{
    Machine again = s->machine;
    machine_measure_device(&again, s->run.backend, s->run.setup.dtype, CEILING_SECONDS);
    if (machine_ceiling(&again).number > machine_ceiling(&s->machine).number) {
        s->machine = again;
        cJSON *machine = machine_json(&s->machine);
        record_machine(s->record, machine);
        cJSON_Delete(machine);
    }
}

/* Held by the process where it computes. */
static size_t reserved_bytes(Backend *backend)
{
    return backend->reserved != NULL ? backend->reserved(backend) : mem_peak_resident();
}

static void fill_summary(Session *s, const TimerReport *report, Summary *out)
{
    int64_t session_tokens = (s->state.step - s->first_step) * s->run.tokens_per_update;
    double seconds = s->session_seconds;
    *out = (Summary){.steps = value_of((double)s->state.step),
                     .tokens = value_of((double)s->state.tokens),
                     .wall_s = value_of(report->wall_s),
                     .train_s = value_of(seconds),
                     .val_s = value_of(report->phases[PHASE_EVAL].total_s),
                     .init_s = value_of(report->phases[PHASE_INIT].total_s),
                     .train_loss = known(s->state.step > s->first_step, s->loss),
                     .val_loss = known(s->evaluated, s->val_loss),
                     .best_val_loss = known(!isnan(s->state.best_val_loss), s->state.best_val_loss),
                     .peak_bytes = value_of((double)trainer_peak_bytes(&s->trainer)),
                     .allocated_bytes = value_of((double)s->run.plan.blocks),
                     .reserved_bytes = value_of((double)reserved_bytes(s->run.backend)),
                     .planned_bytes = value_of((double)s->run.plan.blocks),
                     .timer_overhead = value_of(account_overhead(s, report->wall_s)),
                     .phases = report};
    const PhaseReport *steps_taken = &report->phases[SPAN_UPDATE];
    if (steps_taken->count > 0) {
        out->step_p50_ms = value_of(1e3 * steps_taken->p50_s);
        out->step_p95_ms = value_of(1e3 * steps_taken->p95_s);
        out->step_max_ms = value_of(1e3 * steps_taken->max_s);
    }
    if (session_tokens > 0 && seconds > 0) {
        double steps = (double)(s->state.step - s->first_step);
        out->tok_s = value_of((double)session_tokens / seconds);
        const Backend *backend = s->run.backend;
        double stated =
            backend->stated_rate != NULL ? backend->stated_rate(backend, s->run.setup.dtype) : 0;
        if (stated > 0) {
            out->mfu_peak = value_of(s->run.plan.flops_update * steps / seconds / stated);
        }
        if (machine_ceiling(&s->machine).known) {
            double rate = s->run.plan.flops_update * steps / seconds * 1e-9;
            if (rate > machine_ceiling(&s->machine).number) {
                raise_ceiling(s);
            }
            out->mfu_measured = value_of(rate / machine_ceiling(&s->machine).number);
        }
    }
}

static void write_rank(const Session *s, const TimerReport *report, const Summary *summary)
{
    RecordCategory categories[MEM_KINDS];
    int count = 0;
    for (int kind = 0; kind < MEM_KINDS; kind++) {
        if (s->run.plan.by_kind[kind] > 0) {
            categories[count++] =
                (RecordCategory){mem_kind_name((MemKind)kind), s->run.plan.by_kind[kind],
                                 trainer_peak_kind(&s->trainer, (MemKind)kind)};
        }
    }
    cJSON *gpu = gpu_watch_json(&s->watch);
    const Backend *backend = s->run.backend;
    char uuid[32];
    bool known = cuda_bus_id(cuda_backend_device(backend), uuid, sizeof uuid);
    RecordRank rank = {.ranks = 1,
                       .host = s->machine.host,
                       .device = backend->device != NULL ? backend->device : backend->name,
                       .uuid = known ? uuid : NULL,
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
    if (record_rank(s->dir, &rank) != 0) {
        log_warn("%s", err_message());
    }
    cJSON_Delete(gpu);
}

static RunStatus status_of(int code)
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
    int64_t steps = s->state.step - s->first_step;
    CheckInput input = {.batch = run->setup.batch,
                        .accum = run->setup.accum,
                        .seq = run->setup.seq,
                        .ranks = 1,
                        .vocab = run->setup.spec.vocab,
                        .steps_before = s->first_step,
                        .tokens_before = s->first_tokens,
                        .timed_tokens = value_of((double)(steps * run->tokens_per_update)),
                        .plan_bytes = value_of((double)run->plan.blocks),
                        .flops_update = value_of(run->plan.flops_update),
                        .complete = complete};
    Value ceiling = machine_ceiling(&s->machine);
    input.ceiling = known(ceiling.known, 1e9 * ceiling.number);
    if (s->first_step == 0) {
        input.first_loss = known(s->state.step > 0, s->state.first_loss);
    }
    checks_run(summary, &input, checks);
}

/* The summary with the checks. They are made a second time, from what now lies on the disk, which has the lines
 * and the ranks' files besides. */
static void save_summary(Session *s, RunStatus status, const char *why, const Summary *summary,
                         Checks *checks)
{
    int code = record_save(s->record, status, why, summary_json(summary, checks_json(checks)));
    if (code == 0 && status == RUN_DONE && checks->count > 0) {
        code = recheck_dir(s->dir, checks);
        if (code == 0) {
            code = record_save(s->record, status, why, summary_json(summary, checks_json(checks)));
        }
    }
    if (code != 0) {
        log_warn("%s", err_message());
    }
}

int session_finish(Session *s, int code)
{
    char *why = code != 0 ? mem_strdup(err_message()) : NULL;
    TimerReport report;
    timers_report(&s->timers, &report);
    Summary summary;
    fill_summary(s, &report, &summary);
    Checks checks = {0};
    if (s->state.step > s->first_step) {
        run_checks(s, &summary, code == 0, &checks);
    }
    write_rank(s, &report, &summary);
    save_summary(s, status_of(code), why, &summary, &checks);
    if (code == 0) {
        checks_log(&checks);
        code = checks_status(&checks);
    } else {
        err_set(code, "%s", why);
    }
    free(why);
    return code;
}
