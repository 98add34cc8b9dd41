#include "train/loop.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"
#include "base/signals.h"
#include "train/samples.h"
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MANY_PASSES 20
#define LIVE_EVERY 0.1 /* seconds: a GPU makes thousands of steps in one */

/* --- evaluations --- */

/* Fills batch b of the first `sequences`; what lies behind the last of them has no targets, and
 * thus no loss. Adds the tokens that count to *counted. */
static int fill_validation(const Session *s, int64_t b, int64_t sequences, int32_t *tokens,
                           int32_t *targets, int32_t *starts, double *counted)
{
    const TrainerSetup *setup = &s->run.setup;
    int64_t first = b * setup->batch, rows = setup->batch * setup->seq;
    int code = loader_fill(&s->val_loader, (uint64_t)first, setup->batch, tokens, targets);
    for (int64_t i = (sequences - first) * setup->seq; i < rows; i++) {
        targets[i] = -1;
    }
    if (code == 0 && setup->separate) {
        document_starts(tokens, rows, setup->seq, s->val_loader.split->end, starts);
    }
    for (int64_t i = 0; code == 0 && i < rows; i++) {
        *counted += targets[i] >= 0;
    }
    return code;
}

static void tell_validation(const Session *s)
{
    pacer_validation told = {.size = sizeof told,
                             .step = s->state.step,
                             .steps = session_steps(s),
                             .loss = s->val_loss,
                             .best = s->state.best_val_loss};
    if (s->watcher != NULL && s->watcher->validation != NULL &&
        s->watcher->validation(&told, s->watcher->validation_user) != 0) {
        signals_request(ERR_INTERRUPTED);
    }
}

/* Mean validation loss over the tokens that count in the sequences of --eval-batches batches, or
 * as many as there are, in the order of the stream. */
static int evaluate(Session *s)
{
    const TrainerSetup *setup = &s->run.setup;
    int64_t rows = setup->batch * setup->seq;
    int64_t sequences = (int64_t)s->val_loader.windows;
    int64_t batches = (sequences + setup->batch - 1) / setup->batch;
    if (batches > s->run.cfg->eval_batches) {
        batches = s->run.cfg->eval_batches;
        sequences = batches * setup->batch;
    }
    int32_t *tokens = mem_zalloc((size_t)rows * 3, sizeof *tokens);
    int32_t *targets = tokens + rows, *starts = targets + rows;
    double sums[2] = {0}; /* means over the rows of batches; tokens that count */
    int code = 0;
    s->last_update_ns = 0; /* something else than updates is done now */
    timers_enter(&s->timers, PHASE_EVAL);
    trainer_settle(&s->trainer); /* also on a rank that has no batch to evaluate */
    /* Where a pass takes all ranks, one that has no batch, or none any more, takes part in it. */
    bool together = trainer_takes_all(&s->trainer);
    for (int64_t b = s->rank; together ? b - s->rank < batches : code == 0 && b < batches;
         b += s->ranks) {
        bool own = code == 0 && b < batches;
        if (own) {
            code = fill_validation(s, b, sequences, tokens, targets, starts, &sums[1]);
        }
        if (code == 0 || together) {
            double mean = trainer_evaluate(&s->trainer, (HostBatch){tokens, targets, NULL, starts});
            sums[0] += own ? mean : 0;
        }
    }
    code = session_agree(s, code);
    if (code == 0 && s->ranks > 1) {
        code = comm_sum(s->comm, sums, 2);
    }
    free(tokens);
    s->val_loss = sums[1] > 0 ? sums[0] / (sums[1] / (double)rows) : NAN;
    timers_leave(&s->timers, PHASE_EVAL);
    if (code != 0) {
        return code;
    }
    if (sums[1] == 0) {
        if (session_leads(s)) {
            log_warn("step %lld: none of the sequences that are evaluated (%lld) has a token that "
                     "counts, so there is no validation loss; give more --eval-batches",
                     (long long)s->state.step, (long long)sequences);
        }
        return 0;
    }
    s->evaluated = true;
    if (!(s->state.best_val_loss <= s->val_loss)) {
        s->state.best_val_loss = s->val_loss;
    }
    timers_enter(&s->timers, PHASE_LOG);
    log_info("step %lld/%lld  val_loss %.4f", (long long)s->state.step, (long long)session_steps(s),
             s->val_loss);
    if (session_leads(s)) {
        tell_validation(s);
        code = record_eval(s->record, s->state.step, s->val_loss);
    }
    code = session_agree(s, code); /* wait here for the first rank, not in the next step */
    timers_leave(&s->timers, PHASE_LOG);
    return code;
}

/* --- a step --- */

/* Forward and backward of every micro-step, then the update. */
static int step(Session *s)
{
    const TrainerSetup *setup = &s->trainer.setup;
    comm_at_step(s->comm, s->state.step + 1);
    pace_update(s);
    int code = trainer_step(&s->trainer, s->prefetch, s->rate, s->state.step, NULL);
    if (code != 0 && s->ranks > 1) { /* an error that the others do not know of */
        log_error("on host %s: %s", comm_host(s->comm), err_message());
        fflush(NULL);
        comm_abort(s->comm, err_exit_status(code));
    }
    if (code != 0) {
        return code;
    }
    s->state.step++;
    s->state.sequences += (uint64_t)(setup->batch * setup->accum * s->ranks);
    s->state.tokens += setup->accum * s->run.length.ramp.micro_tokens;
    return 0;
}

/* The step that was just made gets a recorded line. */
static bool is_due(const Session *s)
{
    int64_t step = s->state.step;
    return step % s->run.cfg->log_every == 0 || step == s->run.total_steps || step == 1;
}

/* This rank is about to write of the step that was just made: a recorded line, or a live one on a
 * terminal. */
static bool is_telling(const Session *s)
{
    bool live = log_is_terminal() && log_shows(LOG_INFO) && clock_seconds() - s->shown > LIVE_EVERY;
    return session_leads(s) && (live || is_due(s));
}

static bool every(int64_t step, int64_t interval)
{
    return interval > 0 && step % interval == 0;
}

/* Whether something is done with the results of the step that was just started: a line, an
 * evaluation, a checkpoint, the end. */
static bool is_needed(const Session *s)
{
    const Config *cfg = s->run.cfg;
    int64_t step = s->state.step;
    return is_due(s) || every(step, cfg->eval_every) || every(step, cfg->save_every) ||
           every(step, cfg->sample_every) || s->save_next || step == s->run.total_steps ||
           signals_pending() != 0 ||
           ramp_accum(&s->run.length.ramp, step) != s->trainer.setup.accum;
}

/* What the update fetched last tells of the noise in its gradient; one that has a single gradient,
 * or no token that counts, tells nothing. */
static void measure_noise(Session *s)
{
    const Trainer *t = &s->trainer;
    bool gains = t->setup.noise == NOISE_GAINS;
    int64_t pieces = gains ? t->setup.batch : t->setup.accum * s->ranks;
    if (t->setup.noise == NOISE_NONE || pieces < 2 || !(t->fetched_counted > 0)) {
        return;
    }
    if (gains != s->state.noise_gains) { /* another source than before the resume */
        s->state.noise = (Noise){0};
        s->state.noise_gains = gains;
    }
    double trace, mean_sq;
    noise_estimate(t->fetched_piece_sq, t->fetched_whole_sq, gains ? 1 : t->setup.batch, pieces,
                   &trace, &mean_sq);
    noise_add(&s->state.noise, trace, mean_sq);
}

/* Fetches losses: all of them, or so many that the device is no more than `ahead` steps ahead of
 * us. False when one is not finite. */
static bool settle(Session *s, int64_t ahead)
{
    bool finite = true;
    while (finite && s->trainer.posted - s->trainer.fetched > ahead) {
        trainer_fetch(&s->trainer, &s->loss, &s->grad_norm);
        account_fetched(s);
        s->state.counted += (int64_t)s->trainer.fetched_counted;
        finite = isfinite(s->loss) && isfinite(s->grad_norm);
        if (finite) {
            measure_noise(s);
        }
        if (s->first_step == 0 && s->trainer.fetched == 1 && s->trainer.fetched_counted > 0) {
            s->first_counts = true;
            s->state.first_loss = s->loss;
            s->own_first_loss = s->ranks > 1 ? s->trainer.fetched_own_loss : s->loss;
        }
    }
    return finite;
}

/* The loss and the gradient are those of all ranks, so each of them finds the same. */
static int diverged(Session *s)
{
    s->all_failed = true;
    const char *what = isfinite(s->loss) ? "gradient norm" : "loss";
    double value = isfinite(s->loss) ? s->grad_norm : s->loss;
    char tensor[MODEL_SCALE_NAME], where[MODEL_SCALE_NAME + 64] = "";
    if (trainer_overflow(&s->trainer, tensor)) {
        snprintf(where, sizeof where, " (the first that --dtype fp8 could not hold: %s)", tensor);
    }
    char clip[48] = "--clip 1 (now off)";
    if (s->run.cfg->clip > 0) {
        snprintf(clip, sizeof clip, "a smaller --clip (now %g)", s->run.cfg->clip);
    }
    char warm[48];
    snprintf(warm, sizeof warm, "%g %% of the time", 100 * length_warm_share());
    if (s->run.length.warmup >= 0) {
        snprintf(warm, sizeof warm, "%lld steps", (long long)s->run.length.warmup);
    }
    int64_t step = s->first_step + s->trainer.fetched;
    return err_set(
        ERR_FAILED,
        "the %s became %f at step %lld%s; no checkpoint was written since it happened. Try a lower "
        "--lr (now %g), a longer --warmup (now %s) or %s, and check the data",
        what, isnan(value) ? NAN : value, (long long)step, where, s->run.cfg->lr, warm, clip);
}

static int stop_on_signal(Session *s, int signal)
{
    /* Of several ranks, not all may have known of the signal when they fetched their losses. */
    if (!settle(s, 0)) {
        return diverged(s);
    }
    if (s->state.step > s->saved_step) {
        timers_enter(&s->timers, PHASE_LOG);
        log_info("Stopping after step %lld as asked; saving", (long long)s->state.step);
        timers_leave(&s->timers, PHASE_LOG);
    }
    int code = saves_last(s);
    return code != 0
               ? code
               : err_set(signal,
                         "stopped by a signal after step %lld; the same command goes on from there",
                         (long long)s->state.step);
}

/* --- what ranks say to each other, and to people --- */

/* After a step, from whichever rank it comes. */
typedef struct {
    int signal;  /* that one has got; 0: none */
    bool tells;  /* is_telling of the first rank */
    bool writes; /* a part of a checkpoint, behind training */
} StepNews;

/* What ranks have to say to each other after a step: whether their weights are still the same,
 * whether one of them was told to stop, whether the first one is about to write, whether one is
 * writing a checkpoint, how much of the time is used, and whether it is time for a checkpoint, by
 * the first rank's clock: that is made a step late, so that all ranks make it after the same
 * step. */
static int meet(Session *s, StepNews *news)
{
    double minutes = s->run.cfg->save_minutes;
    bool due = session_leads(s) && minutes > 0 && clock_seconds() - s->saved_at >= 60 * minutes;
    bool together = s->ranks > 1;
    if (together) {
        timers_enter(&s->timers, PHASE_COMM_EXPOSED);
    }
    int code = every(s->state.step, s->run.cfg->verify_every) ? session_verify_weights(s) : 0;
    double any[] = {-signals_pending(), is_telling(s), due, saver_is_busy(s->saver), 0, 0};
    pace_read(s, &any[4]);
    code = code == 0 && together ? comm_max(s->comm, any, 6) : code;
    pace_take(s, &any[4]);
    if (together) {
        timers_leave(&s->timers, PHASE_COMM_EXPOSED);
    }
    *news = (StepNews){.signal = -(int)any[0], .tells = any[1] != 0, .writes = any[3] != 0};
    s->save_next = code == 0 && any[2] != 0;
    return code;
}

/* One finished step: live line, recorded line; neither unless the first rank tells. */
static int tell(Session *s, double seconds, bool tells)
{
    int64_t step = s->state.step, steps = session_steps(s);
    /* A mean over about the last 20 steps. */
    s->step_seconds =
        s->step_seconds > 0 ? s->step_seconds + 0.05 * (seconds - s->step_seconds) : seconds;
    s->line_steps++;
    s->line_tokens += s->trainer.setup.accum * s->run.length.ramp.micro_tokens;
    s->line_seconds += seconds;
    double tok_s = s->line_seconds > 0 ? (double)s->line_tokens / s->line_seconds : 0;
    if (!tells || !session_leads(s)) {
        return 0;
    }
    char duration[CLOCK_DURATION_SIZE], loss[48] = "no token counts in the loss", norm[32] = "";
    bool counts = s->trainer.fetched_counted > 0;
    if (counts) {
        snprintf(loss, sizeof loss, "loss %.4f", s->loss);
        snprintf(norm, sizeof norm, "norm %.3f  ", s->grad_norm);
    }
    double left = (double)(steps - step) * s->step_seconds;
    if (s->run.length.seconds > 0) {
        left = (1 - fmin(s->used, 1)) * s->run.length.seconds;
    }
    (log_is_terminal() ? log_live : log_info)("step %lld/%lld  %s  lr %.2e  %s%.0f tok/s  %s left",
                                              (long long)step, (long long)steps, loss, s->rate,
                                              norm, tok_s, clock_duration(left, duration));
    s->shown = clock_seconds();
    if (!is_due(s)) {
        return 0;
    }
    NoiseScale noise = session_noise(s);
    RecordStep line = {.step = step,
                       .tokens = s->state.tokens,
                       .loss = {counts, s->loss},
                       .lr = value_of(s->rate),
                       .grad_norm = {counts, s->grad_norm},
                       .tok_s = value_of(tok_s),
                       .ms = value_of(1e3 * s->line_seconds / (double)s->line_steps),
                       .peak_bytes = value_of((double)trainer_peak_bytes(&s->trainer)),
                       .left_out = s->state.tokens - s->state.counted,
                       .noise_scale = noise.scale,
                       .noise_error = noise.error,
                       .noise_tokens = session_noise_tokens(s, noise)};
    s->line_steps = s->line_tokens = 0;
    s->line_seconds = 0;
    if (s->watcher != NULL && s->watcher->step != NULL) {
        pacer_step told = {.size = sizeof told,
                           .step = step,
                           .steps = steps,
                           .tokens = s->state.tokens,
                           .loss = counts ? s->loss : NAN,
                           .lr = s->rate,
                           .grad_norm = counts ? s->grad_norm : NAN,
                           .tok_s = tok_s,
                           .seconds_left = left};
        if (s->watcher->step(&told, s->watcher->step_user) != 0) {
            signals_request(ERR_INTERRUPTED);
        }
    }
    return record_step(s->record, &line);
}

/* --- the run --- */

static int loop(Session *s)
{
    const Config *cfg = s->run.cfg;
    s->saved_step = s->first_step;
    s->saved_at = clock_seconds();
    s->clock_began = s->saved_at - s->state.clock_seconds;
    StepNews early;
    int met = meet(s, &early);
    if (met != 0 || early.signal != 0) {
        return met != 0 ? met : stop_on_signal(s, early.signal);
    }
    while (s->state.step < s->run.total_steps) {
        double started = clock_seconds();
        timers_enter(&s->timers, SPAN_TRAINING);
        int code = step(s);
        if (code != 0) {
            return code;
        }
        bool saving = s->save_next || every(s->state.step, cfg->save_every);
        bool finite = settle(s, is_needed(s) ? 0 : trainer_ahead(&s->trainer));
        StepNews news;
        code = meet(s, &news);
        timers_leave(&s->timers, SPAN_TRAINING);
        if (code != 0) {
            return code;
        }
        double seconds = clock_seconds() - started;
        account_host_update(s, seconds);
        s->session_seconds += seconds;
        s->state.train_seconds += seconds;
        pace_end(s);
        bool last = s->state.step == s->run.total_steps;
        /* Where the first rank writes, the others wait for it here: in their next step it would
         * count as training. */
        timers_enter(&s->timers, PHASE_LOG);
        code = tell(s, seconds, news.tells);
        code = news.tells ? session_agree(s, code) : code;
        timers_leave(&s->timers, PHASE_LOG);
        if (code == 0 && !finite) {
            return diverged(s);
        }
        if (code == 0 && s->has_validation &&
            (every(s->state.step, cfg->eval_every) || (last && cfg->eval_every > 0))) {
            code = evaluate(s);
        }
        if (code == 0 &&
            (every(s->state.step, cfg->sample_every) || (last && cfg->sample_every > 0))) {
            code = samples_write(s);
        }
        if (s->ranks <= 1) {
            news.signal = signals_pending(); /* whoever was told of this may have asked for it */
        }
        if (code != 0) {
            return code;
        }
        if (saver_is_under_way(s->saver) && !news.writes) {
            saves_advance(s);
        }
        if (saving) {
            saves_start(s);
        }
        account_step(s);
        if (news.signal != 0 && !last) {
            return stop_on_signal(s, news.signal);
        }
    }
    return saves_last(s);
}

/* How often each token of the data is met. */
static void tell_passes(const Session *s)
{
    const Run *run = &s->run;
    double tokens = (double)run->length.total_tokens;
    double passes = tokens / (double)run->tokens_per_epoch;
    if (run->tokens_per_epoch == 0 || run->length.seconds > 0) {
        return;
    }
    log_info("%.3g passes over %lld tokens of data", passes, (long long)run->tokens_per_epoch);
    if (passes > MANY_PASSES && session_leads(s)) {
        log_warn("%.0f passes over %lld tokens: the model will learn them by heart and the "
                 "validation loss will rise; take more text, or fewer --steps",
                 passes, (long long)run->tokens_per_epoch);
    }
}

/* Where a ramp has updates of one micro-step. */
static void warn_of_unmeasured(const Session *s)
{
    const BatchRamp *ramp = &s->run.length.ramp;
    bool any = false, all = true;
    for (int i = 0; i < ramp->count; i++) {
        bool single = ramp->at[i].accum * s->ranks == 1;
        any = any || single;
        all = all && single;
    }
    if (s->run.setup.noise == NOISE_PIECES && any) {
        log_warn("--noise-scale: with --batch %lld %s updates of --batch-ramp %s have one gradient "
                 "alone and are not measured; give a smaller --batch",
                 (long long)s->run.setup.batch, all ? "all" : "the smallest",
                 s->run.cfg->batch_ramp);
    }
}

static void announce(const Session *s)
{
    const Run *run = &s->run;
    char device[96], ranks[160] = "";
    snprintf(device, sizeof device, "%s, %d threads", run->backend->name, run->backend->threads);
    if (run->backend->device != NULL) {
        snprintf(device, sizeof device, "%s", run->backend->device);
    }
    if (s->ranks > 1) {
        snprintf(ranks, sizeof ranks, " on each of %d ranks (%s)%s", s->ranks,
                 comm_library(s->comm),
                 run->cfg->oversubscribe ? ", oversubscribed: no measurement of scaling" : "");
    }
    log_info("Training %s (%lld parameters) on %s with %s in %s%s, into %s", run->setup.spec.name,
             (long long)run->plan.parameters, run->cfg->data, device, dtype_name(run->setup.dtype),
             ranks, s->dir);
    char updates[64];
    snprintf(updates, sizeof updates, "%lld update%s", (long long)run->total_steps,
             show_plural(run->total_steps));
    if (run->length.seconds > 0) {
        snprintf(updates, sizeof updates, "%g minutes of updates", run->cfg->minutes);
    }
    log_info("%s of %lld tokens (batch %lld x accum %lld x seq %lld)%s%s; memory %.1f MiB; "
             "%.3g FLOP per token; %s",
             updates, (long long)run->tokens_per_update, (long long)run->setup.batch,
             (long long)run->setup.accum, (long long)run->setup.seq,
             run->length.ramp.count > 1 ? " at first, then --batch-ramp " : "",
             run->length.ramp.count > 1 ? run->cfg->batch_ramp : "",
             (double)run->plan.total / (1024.0 * 1024.0),
             run->plan.flops_update * s->ranks / (double)run->tokens_per_update,
             setup_mixer_name(&run->setup));
    char uncut[RUN_UNCUT_SIZE];
    run_uncut(run, uncut);
    if (uncut[0] != '\0') {
        log_info("%s", uncut);
    }
    tell_passes(s);
    warn_of_unmeasured(s);
}

static void conclude(const Session *s)
{
    char text[CLOCK_DURATION_SIZE], leg[128] = "", val[48] = "";
    double seconds = s->session_seconds, rate = session_flops(s) / seconds; /* of one rank */
    Value ceiling = machine_ceiling(&s->machine);
    if (s->first_step > 0) {
        snprintf(leg, sizeof leg, "; since step %lld: %lld in %s", (long long)s->first_step,
                 (long long)(s->state.step - s->first_step), clock_duration(seconds, text));
    }
    log_info(
        "Done: %lld step%s, %lld tokens in %s of training%s, %.0f tok/s, %.1f GFLOP/s (%.0f %% "
        "of the matrix products measured here)",
        (long long)s->state.step, show_plural(s->state.step), (long long)s->state.tokens,
        clock_duration(s->state.train_seconds, text), leg, (double)session_tokens(s) / seconds,
        rate * 1e-9, ceiling.known ? 100e-9 * rate / ceiling.number : NAN);
    if (s->evaluated) {
        snprintf(val, sizeof val, ", validation loss %.4f", s->val_loss);
    }
    if (s->trainer.fetched_counted > 0) {
        log_info("train loss %.4f%s", s->loss, val);
    } else {
        log_info("no train loss: of the last update no token counts, of all %lld tokens %lld%s",
                 (long long)s->state.tokens, (long long)s->state.counted, val);
    }
    NoiseScale noise = session_noise(s);
    if (noise.scale.known) {
        char error[32] = "";
        if (noise.error.known) {
            snprintf(error, sizeof error, " +- %.2g", noise.error.number);
        }
        log_info("gradient noise scale%s %.3g%s sequences (%.3g tokens): updates above about that "
                 "waste tokens",
                 s->run.setup.noise == NOISE_GAINS ? ", of the norms' gains alone," : "",
                 noise.scale.number, error, session_noise_tokens(s, noise).number);
    }
}

static int run_session(const Config *cfg, Comm *comm, const TrainWatcher *watcher,
                       TrainResult *result)
{
    Session s;
    int code = session_open(&s, cfg, comm);
    if (code != 0) {
        return code;
    }
    s.watcher = watcher;
    if (session_is_complete(&s) && s.unrecorded) {
        log_info("All of %s is done already; completing its record", s.dir);
        s.val_loss = s.state.best_val_loss;
        code = session_finish(&s, 0);
    } else if (session_is_complete(&s)) {
        log_info("Nothing to do: %s has its %lld step%s already; give more --%s to go on", s.dir,
                 (long long)s.first_step, show_plural(s.first_step), length_option(cfg));
        s.val_loss = s.state.best_val_loss;
    } else {
        account_begin(&s);
        timers_enter(&s.timers, PHASE_LOG);
        announce(&s);
        code = session_agree(&s, 0);
        timers_leave(&s.timers, PHASE_LOG);
        code = code == 0 ? loop(&s) : code;
        if (code != 0 && (s.ranks == 1 || s.all_failed)) { /* what was begun before that is kept */
            char *why = mem_strdup(err_message());
            saves_finish(&s);
            err_set(code, "%s", why);
            free(why);
        }
        while (s.timers.depth > 0) { /* an error may have left any depth */
            timers_leave(&s.timers, s.timers.stack[s.timers.depth - 1]);
        }
        code = session_finish(&s, code);
        if (code == 0) {
            conclude(&s);
        }
    }
    if (result != NULL) {
        *result = (TrainResult){mem_strdup(s.dir), s.loss, s.val_loss,
                                (double)session_tokens(&s) / s.session_seconds};
    }
    session_close(&s);
    return code;
}

int train_run(const Config *cfg, Comm *comm, const TrainWatcher *watcher, TrainResult *result)
{
    Comm *alone = NULL;
    int code = comm == NULL ? comm_open((CommOptions){0}, &alone) : 0;
    if (code == 0) {
        code = run_session(cfg, comm != NULL ? comm : alone, watcher, result);
    }
    comm_close(alone);
    return code;
}
