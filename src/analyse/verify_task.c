/* What can be verified in reasonable time: the trusted side is slow, so its work is estimated
 * first, and cut down from two sequences to one and to shorter ones until it is affordable. */
#include "analyse/verify.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "model/attention_kind.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* FLOP/s that the trusted side reaches at least: ref, and the CPU with each of its threads. */
#define REF_RATE 1e9
#define CPU_RATE 20e9
#define SHORTEST 8       /* tokens */
#define PATIENCE 4       /* how much longer the shortest may take */
#define STAND_IN 2       /* batch and accum of a trainer that stands for the timed one */
#define WORTH_A_WORD 2.0 /* seconds */
#define BUFFERS ((size_t)16 << 20)

/* What the trusted side is to do: `sequences` of length seq, 0 when every way would take too
 * long. */
typedef struct {
    int64_t seq;
    int sequences;
    size_t bytes;   /* of the trusted trainer */
    double seconds; /* estimated */
} Task;

static Task choose_task(const TrainerSetup *timed, Backend *trusted, double seconds)
{
    bool cpu = strcmp(trusted->name, "cpu") == 0;
    double rate = cpu ? CPU_RATE * trusted->threads : REF_RATE;
    Task task = {0};
    TrainerSetup trial = *timed;
    for (bool fits = false; !fits && (trial.seq == timed->seq || trial.seq >= SHORTEST);) {
        bool even = trial.seq < timed->seq || timed->batch * timed->accum % 2 == 0;
        for (int n = even ? 2 : 1; n > 0 && !fits; n--) {
            TrainerSetup setup = verify_trusted_setup(&trial, n);
            TrainPlan plan;
            trainer_plan(&setup, trusted, &plan);
            task = (Task){trial.seq, n, plan.total + BUFFERS, plan.flops_update / rate};
            fits = task.seconds <= seconds;
        }
        trial.seq /= 2;
    }
    task.sequences = task.seconds <= PATIENCE * seconds ? task.sequences : 0;
    return task;
}

static int not_verified(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int not_verified(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("not verified: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    return 0;
}

/* Compares, judges and prints. `shape` says where, when it is not the timed one. */
static int verify_and_print(Trainer *t, Backend *trusted, Task task, const char *shape)
{
    Verification v;
    int code = verify_against(t, trusted, task.sequences, &v);
    if (code == ERR_MEMORY) {
        return not_verified("%s", err_message());
    }
    code = code == 0 ? signals_check() : code;
    code = code == 0 ? verify_judge(&v) : code;
    if (code == 0) {
        printf(
            "verified%s: loss %.4f against %.4f, gradients of %d tensors within %.2g %% (%s) and "
            "an update within %.1g %% of %s in f32\n",
            shape, v.loss, v.expected_loss, v.tensors, 100 * v.error, v.worst, 100 * v.update_error,
            v.trusted);
    }
    return code;
}

/* The timed shape beside single sequences on the same backend, where that computes in f32 on the
 * host: finds what is wrong in large shapes alone. *done: it was affordable. */
static int verify_by_itself(Trainer *timed, size_t room, bool *done)
{
    int sequences = timed->setup.batch * timed->setup.accum % 2 == 0 ? 2 : 1;
    TrainerSetup setup = verify_trusted_setup(&timed->setup, sequences);
    TrainPlan plan;
    trainer_plan(&setup, timed->backend, &plan);
    *done = timed->backend->device == NULL && timed->setup.dtype == DT_F32 &&
            plan.total + BUFFERS <= room;
    Verification v;
    *done = *done && verify_against(timed, timed->backend, sequences, &v) == 0;
    return *done ? verify_judge(&v) : 0;
}

/* A smaller trainer on the same backend in the place of the timed one. */
static int verify_stand_in(Trainer *timed, Backend *trusted, Task task, size_t free_bytes)
{
    Backend *backend = timed->backend;
    TrainerSetup setup = timed->setup;
    setup.seq = task.seq;
    setup.batch = setup.accum = STAND_IN;
    const ModelSpec *spec = &setup.spec;
    AttentionUse use = {spec, setup.batch, setup.seq, setup.separate, dtype_act(setup.dtype)};
    const char *refusal = spec->mixer == MIXER_ATTENTION
                              ? model_attention_refusal(backend, setup.attention, &use)
                              : NULL;
    if (refusal != NULL) {
        return not_verified("a whole sequence would take %s too long, and in a shorter one %s",
                            trusted->name, refusal);
    }
    TrainPlan plan;
    Trainer trainer;
    trainer_plan(&setup, backend, &plan);
    if (backend->device == NULL && plan.total + task.bytes > free_bytes) {
        return not_verified("that needs %zu MiB and %zu are free", (plan.total + task.bytes) >> 20,
                            free_bytes >> 20);
    }
    if (backend->forget != NULL) {
        backend->forget(backend); /* recordings of the timed trainer, which are by slot alone */
    }
    if (trainer_open(&trainer, &setup, backend, &plan) != 0) {
        return not_verified("%s", err_message());
    }
    bool itself;
    char shape[192];
    int code = verify_by_itself(timed, free_bytes - task.bytes - plan.total, &itself);
    snprintf(shape, sizeof shape,
             " at batch %d x seq %lld x accum %d (the timed shape would take %s too long%s)",
             STAND_IN, (long long)setup.seq, STAND_IN, trusted->name,
             itself ? "; it agrees with its sequences taken alone" : "");
    code = code == 0 ? verify_and_print(&trainer, trusted, task, shape) : code;
    trainer_close(&trainer);
    return code;
}

int verify_trainer(Trainer *t, VerifyOptions options)
{
    bool on_cpu = strcmp(t->backend->name, "cpu") == 0;
    Backend *trusted = on_cpu ? ref_backend_open() : cpu_backend_open(options.threads);
    if (trusted == NULL) {
        return not_verified("%s", err_message());
    }
    size_t machine = mem_available(), room = options.host_memory;
    room = room == 0 || (machine > 0 && machine < room) ? machine : room;
    room = room == 0 ? SIZE_MAX : room;
    Task task = choose_task(&t->setup, trusted, options.seconds);
    char about[CLOCK_DURATION_SIZE];
    clock_duration(task.seconds, about);
    int code;
    if (task.sequences == 0) {
        code = not_verified("even %lld tokens would take %s about %s", (long long)task.seq,
                            trusted->name, about);
    } else if (task.bytes > room) {
        code = not_verified("that needs %zu MiB of the machine's memory and %zu are free",
                            task.bytes >> 20, room >> 20);
    } else {
        if (task.seconds >= WORTH_A_WORD) {
            log_info("verifying: %s computes %lld tokens, which takes about %s", trusted->name,
                     (long long)(task.seq * task.sequences), about);
        }
        code = task.seq == t->setup.seq ? verify_and_print(t, trusted, task, "")
                                        : verify_stand_in(t, trusted, task, room);
    }
    trusted->close(trusted);
    return code;
}
