/* What options of memory may ask for, the memory plan as a person reads it, what each grade of
 * recomputation would save, and the refusal of what does not fit. */
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"
#include "record/names.h"
#include "train/setup.h"

#include <stdio.h>

#define MIB (1024.0 * 1024.0)

/* What libraries take once they compute, beside the tensors: buffers and code that they make, the
 * record, a checkpoint being written; and each thread's stack and buffers. */
#define LIBRARY_BYTES ((size_t)8 << 20)
#define THREAD_BYTES ((size_t)16 << 20)

size_t run_program(const Backend *backend)
{
    if (backend->device != NULL) {
        return 0;
    }
    return mem_resident() + LIBRARY_BYTES + (size_t)backend->threads * THREAD_BYTES;
}

size_t run_memory_limit(const Run *run)
{
    if (run->cfg->memory_limit > 0) {
        return (size_t)run->cfg->memory_limit;
    }
    size_t free_bytes = run->backend->available(run->backend);
    if (free_bytes == 0) {
        return SIZE_MAX;
    }
    if (run->backend->device != NULL) {
        return free_bytes;
    }
    /* the host's memory, which its ranks share */
    return mem_resident() + free_bytes / (size_t)(run->local_ranks > 1 ? run->local_ranks : 1);
}

size_t run_room(const Run *run)
{
    size_t limit = run_memory_limit(run);
    return limit == SIZE_MAX ? limit : limit > run->program ? limit - run->program : 0;
}

static const char *recompute_name(Keep keep)
{
    static const char *const names[] = {RECOMPUTE_CHOICES(CHOICE_WORD)};
    return names[keep];
}

static const char *offload_name(OffloadKind kind)
{
    static const char *const names[] = {OFFLOAD_CHOICES(CHOICE_WORD)};
    return names[kind];
}

/* Why gradients cannot be in bf16; NULL: they can. */
static const char *grads_refusal(const TrainerSetup *s)
{
    return s->ddp.ranks > 1     ? "is for one rank; gradients travel in it with --comm-dtype bf16"
           : s->dtype == DT_F32 ? "goes with --dtype bf16 or fp8"
           : s->optimizer.id == OPTIMIZER_MUON
               ? "would round the steps that --optimizer muon makes of whole gradients"
               : NULL;
}

int run_check_grads(const Run *run)
{
    const char *why = run->setup.low_grads ? grads_refusal(&run->setup) : NULL;
    return why == NULL ? 0 : err_set(ERR_INPUT, "--grad-dtype bf16 %s; leave it out", why);
}

int run_check_offload(const Run *run)
{
    const TrainerSetup *s = &run->setup;
    if (s->offload == OFFLOAD_NONE) {
        return 0;
    }
    if (run->backend->copy == NULL) {
        return err_set(ERR_INPUT,
                       "--offload %s: --device %s computes in the host's memory and has no other; "
                       "leave it out",
                       offload_name(s->offload), run->backend->name);
    }
    if (offloads_gradients(s->offload) && s->ddp.ranks > 1) {
        return err_set(
            ERR_INPUT,
            "--offload all: gradients of several ranks stay on the device; give --offload "
            "both with --ddp zero2, or one rank");
    }
    if (offloads_activations(s->offload) && s->spec.layers <= 2) {
        return err_set(ERR_INPUT,
                       "--offload %s: activations of two blocks stay on the device, and --layers "
                       "is %lld; %s",
                       offload_name(s->offload), (long long)s->spec.layers,
                       s->offload >= OFFLOAD_BOTH ? "give --offload optimizer" : "leave it out");
    }
    return 0;
}

static TrainPlan plan_of(const Run *run, Keep keep)
{
    TrainPlan plan;
    TrainerSetup setup = run->setup;
    setup.keep = keep;
    trainer_plan(&setup, run->backend, &plan);
    return plan;
}

static void print_row(FILE *file, const char *name, size_t bytes)
{
    fprintf(file, "  %-14s %16zu  %10.1f MiB\n", name, bytes, (double)bytes / MIB);
}

void run_uncut(const Run *run, char text[RUN_UNCUT_SIZE])
{
    const DdpSetup *ddp = &run->setup.ddp;
    int shards = ddp->group > 0 ? ddp->group : ddp->ranks;
    text[0] = '\0';
    if (run->plan.uncut > 0) {
        snprintf(text, RUN_UNCUT_SIZE,
                 "--ddp %s: every rank keeps all of %lld parameters, in buckets with fewer than %d "
                 "for each of %d ranks",
                 ddp_kind_name(ddp->kind), (long long)run->plan.uncut, DDP_LINE, shards);
    }
}

/* What is offloaded, by purpose. */
static void print_offloaded(const TrainPlan *plan, FILE *file)
{
    fprintf(file, "In memory of the host\n");
    for (int kind = 0; kind < MEM_KINDS; kind++) {
        if (plan->host_by_kind[kind] > 0) {
            print_row(file, mem_kind_name((MemKind)kind), plan->host_by_kind[kind]);
        }
    }
    print_row(file, MEMORY_OFFLOAD, plan->host);
    fprintf(file, "  %.4g bytes to it and %.4g from it in an update\n", plan->copied[COPY_OUT],
            plan->copied[COPY_IN]);
}

void run_print_plan(const Run *run, FILE *file)
{
    const TrainPlan *plan = &run->plan;
    const TrainerSetup *s = &run->setup;
    char again[64] = "";
    size_t used = 0;
    if (s->keep != KEEP_ALL) {
        used = (size_t)snprintf(again, sizeof again, ", recompute %s", recompute_name(s->keep));
    }
    if (s->offload != OFFLOAD_NONE) {
        snprintf(again + used, sizeof again - used, ", offload %s", offload_name(s->offload));
    }
    fprintf(file,
            "Memory plan%s: %s, %lld parameters, batch %lld x seq %lld x accum %lld, %s, %s%s\n",
            s->ddp.ranks > 1 ? " of each rank" : "", s->spec.name, (long long)plan->parameters,
            (long long)s->batch, (long long)s->seq, (long long)s->accum, dtype_name(s->dtype),
            setup_mixer_name(s), again);
    fprintf(file, "  %-14s %16s\n", "for", "bytes");
    for (int kind = 0; kind < MEM_KINDS; kind++) {
        if (plan->by_kind[kind] > 0) {
            print_row(file, mem_kind_name((MemKind)kind), plan->by_kind[kind]);
        }
    }
    print_row(file, MEMORY_LOADER, plan->loader);
    bool host = run->backend->device == NULL; /* the memory that the total is of */
    if (plan->save_copy > 0 && host) {
        print_row(file, MEMORY_SAVE_COPY, plan->save_copy);
    }
    print_row(file, "total", plan->total);
    if (plan->save_copy > 0 && !host) {
        print_row(file, MEMORY_SAVE_COPY " (host)", plan->save_copy);
    }
    if (run->program > 0) {
        print_row(file, "program, about", run->program);
        print_row(file, "process, about", size_sum(run->program, plan->total));
    }
    char uncut[RUN_UNCUT_SIZE];
    run_uncut(run, uncut);
    fprintf(file, "%s%s", uncut, uncut[0] != '\0' ? "\n" : "");
    if (plan->host > 0) {
        print_offloaded(plan, file);
    }
    double flops = plan->flops_update * (double)run->cfg->ranks,
           tokens = (double)run->tokens_per_update;
    fprintf(file, "Work: %.4g FLOP per update, %.4g per token, %lld tokens per update, ", flops,
            flops / tokens, (long long)run->tokens_per_update);
    const BatchRamp *ramp = &run->length.ramp;
    for (int i = 1; i < ramp->count; i++) {
        fprintf(file, "%lld from update %lld on, ",
                (long long)(ramp->at[i].accum * ramp->micro_tokens),
                (long long)(ramp->at[i].step + 1));
    }
    if (run->length.seconds > 0) {
        fprintf(file, "as many updates as %g minutes have room for\n", run->cfg->minutes);
    } else {
        fprintf(file, "%lld update%s, %lld tokens\n", (long long)run->total_steps,
                show_plural(run->total_steps), (long long)run->length.total_tokens);
    }
    if (flops > run->flops_token * tokens * (1 + 1e-9)) {
        fprintf(
            file,
            "Of these %.4g FLOP per token are the model's own, which --flops counts; the others "
            "are recomputation and the optimizer's products\n",
            run->flops_token);
    }
}

static double moved(const TrainPlan *plan)
{
    double bytes = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        bytes += plan->step[op].bytes;
    }
    return bytes;
}

void run_print_grades(const Run *run, FILE *file)
{
    TrainPlan all = plan_of(run, KEEP_ALL);
    size_t room = run_room(run);
    fprintf(file,
            "--recompute: what it saves, and what an update then takes more (%% of none's)\n");
    fprintf(file, "  %-12s %12s %12s %8s %14s %6s\n", "", "total, MiB", "saves, MiB", "FLOP",
            "bytes moved", "fits");
    for (int keep = KEEP_ALL; keep <= KEEP_INPUTS; keep++) {
        TrainPlan plan = plan_of(run, (Keep)keep);
        fprintf(file, "  %-12s %12.1f %12.1f %+7.1f%% %+13.1f%% %6s\n", recompute_name((Keep)keep),
                (double)plan.total / MIB, ((double)all.total - (double)plan.total) / MIB,
                100 * (plan.flops_update / all.flops_update - 1),
                100 * (moved(&plan) / moved(&all) - 1), plan.total <= room ? "yes" : "no");
    }
}

/* The first that fits, which costs least; KEEP_NOTHING: none does. */
static Keep first_that_fits(const Run *run, size_t room)
{
    int keep = (int)run->setup.keep + 1;
    while (keep <= KEEP_INPUTS && plan_of(run, (Keep)keep).total > room) {
        keep++;
    }
    return keep <= KEEP_INPUTS ? (Keep)keep : KEEP_NOTHING;
}

/* A batch and what it takes. */
typedef struct {
    int64_t batch;
    size_t total;
} Taken;

/* Where the line through two batches reaches `bytes`. */
static double reach(Taken a, Taken b, size_t bytes)
{
    double slope = ((double)b.total - (double)a.total) / (double)(b.batch - a.batch);
    return (double)a.batch + ((double)bytes - (double)a.total) / (slope > 1 ? slope : 1);
}

/* 1, 16, 256 and so on until one fails. Memory grows with the batch nearly along a line: then
 * the batch where that reaches `bytes`, its neighbour, and half of what is left, in turns until
 * two neighbours part. */
static int64_t next_batch(int turn, Taken fits, Taken fails, int64_t last, size_t bytes)
{
    double least = (double)fits.batch + 1, most = 0x1p50;
    double guess = last > 0 ? 16 * (double)last : 1;
    if (fails.batch > 0) {
        most = (double)fails.batch - 1;
        if (turn % 3 == 1 && fails.total <= INT64_MAX) {
            guess = reach(fits, fails, bytes);
        } else if (turn % 3 == 2) {
            guess = last == fits.batch ? least : most;
        } else {
            guess = (least + most) / 2;
        }
    }
    return (int64_t)(guess < least ? least : guess > most ? most : guess);
}

int64_t trainer_largest_batch(const TrainerSetup *setup, Backend *backend, size_t bytes)
{
    TrainerSetup trial = *setup;
    TrainPlan plan;
    Taken fits = {0, 0}, fails = {0, 0};               /* fails.batch 0: none is known */
    trial.accum = setup->accum < 2 ? setup->accum : 2; /* more take no more */
    trial.batch = 0;
    for (int turn = 0; fails.batch == 0 || fails.batch - fits.batch > 1;) {
        turn += fails.batch > 0;
        trial.batch = next_batch(turn, fits, fails, trial.batch, bytes);
        trainer_plan(&trial, backend, &plan);
        if (plan.total <= bytes) {
            fits = (Taken){trial.batch, plan.total};
        } else {
            fails = (Taken){trial.batch, plan.total};
        }
    }
    return fits.batch;
}

#define HOST_REMEDY_SIZE 128

/* What makes what is offloaded less. */
static void host_remedy(const TrainerSetup *s, char text[HOST_REMEDY_SIZE])
{
    bool block = offloads_activations(s->offload) && s->keep != KEEP_INPUTS;
    bool state = offloads_optimizer(s->offload) && s->optimizer.state != DT_BF16;
    bool grads = offloads_gradients(s->offload) && !s->low_grads && grads_refusal(s) == NULL;
    snprintf(text, HOST_REMEDY_SIZE, "take less of --offload%s%s%s",
             block ? ", or --recompute block" : "", state ? ", or --state-dtype bf16" : "",
             grads ? ", or --grad-dtype bf16" : "");
}

/* What is in memory of the host beside the total. */
static int check_host(const Run *run)
{
    bool device = run->backend->device != NULL;
    size_t copy = device ? run->plan.save_copy : 0, offloaded = run->plan.host;
    size_t room = mem_available() / (size_t)(run->local_ranks > 1 ? run->local_ranks : 1);
    size_t total = device ? 0 : run->plan.total; /* is in the same */
    room = room > total ? room - total : room > 0;
    if (room > 0 && offloaded > room) {
        char remedy[HOST_REMEDY_SIZE];
        host_remedy(&run->setup, remedy);
        return err_set(ERR_MEMORY,
                       "--offload: what it takes from the device is %.1f MiB, and %.1f MiB of the "
                       "host's memory are free for this rank; %s",
                       (double)offloaded / MIB, (double)room / MIB, remedy);
    }
    return copy == 0 || room == 0 || copy <= room - offloaded
               ? 0
               : err_set(ERR_MEMORY,
                         "--save async: the copy of the state takes %.1f MiB of the host's memory, "
                         "and %.1f MiB are free for this rank; take --save sync",
                         (double)copy / MIB, (double)(room - offloaded) / MIB);
}

bool run_has_room(const Run *run)
{
    return run->plan.total <= run_room(run) && check_host(run) == 0;
}

/* The least of --offload with which the run fits; OFFLOAD_NONE: it does with none, or there is no
 * other memory. */
static OffloadKind offload_that_fits(const Run *run)
{
    Run trial = *run;
    bool possible = run->backend->copy != NULL;
    int most = run->setup.ddp.ranks > 1 ? OFFLOAD_BOTH : OFFLOAD_ALL;
    for (int kind = (int)run->setup.offload + 1; possible && kind <= most; kind++) {
        trial.setup.offload = (OffloadKind)kind;
        trainer_plan(&trial.setup, trial.backend, &trial.plan);
        if (run_has_room(&trial)) {
            return (OffloadKind)kind;
        }
    }
    return OFFLOAD_NONE;
}

void run_remedy(size_t program, size_t limit, char text[RUN_REMEDY_SIZE])
{
    snprintf(text, RUN_REMEDY_SIZE, "take a smaller model or --seq");
    if (limit <= program) {
        snprintf(text, RUN_REMEDY_SIZE, "give more memory: the program alone takes %.1f MiB",
                 (double)program / MIB);
    }
}

int run_check_fits(const Run *run)
{
    size_t limit = run_memory_limit(run), room = run_room(run);
    size_t need = size_sum(run->program, run->plan.total);
    bool here = run->plan.total <= room;
    int code = here ? check_host(run) : 0;
    if (here && code == 0) {
        return 0;
    }
    if (log_shows(LOG_ERROR)) {
        run_print_plan(run, stderr);
    }
    if (here) {
        return code;
    }
    char grade[64] = "";
    Keep keep = first_that_fits(run, room);
    OffloadKind offload = offload_that_fits(run);
    if (run->backend->device == NULL && run->plan.total - run->plan.save_copy <= room) {
        snprintf(grade, sizeof grade, ", or --save sync");
    } else if (keep != KEEP_NOTHING) {
        snprintf(grade, sizeof grade, ", or --recompute %s", recompute_name(keep));
    } else if (offload != OFFLOAD_NONE) {
        snprintf(grade, sizeof grade, ", or --offload %s", offload_name(offload));
    }
    int64_t largest = trainer_largest_batch(&run->setup, run->backend, room);
    if (largest == 0) {
        TrainerSetup least = run->setup;
        least.keep = KEEP_INPUTS;
        bool one = trainer_largest_batch(&least, run->backend, room) > 0;
        char remedy[RUN_REMEDY_SIZE];
        run_remedy(run->program, limit, remedy);
        return err_set(
            ERR_MEMORY,
            "the run needs %.1f MiB and %.1f MiB are free: not even --batch 1 fits; %s%s",
            (double)need / MIB, (double)limit / MIB, remedy,
            grade[0] != '\0' ? grade
            : one            ? ", or --batch 1 --recompute block"
                             : "");
    }
    return err_set(
        ERR_MEMORY,
        "the run needs %.1f MiB and %.1f MiB are free; the largest that fits is --batch %lld "
        "(with --accum to keep the update's size)%s",
        (double)need / MIB, (double)limit / MIB, (long long)largest, grade);
}
