/* What a person sees of a step, and the line that metrics.jsonl keeps. */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/signals.h"
#include "train/session.h"

#include <stdio.h>

#define LIVE_EVERY 0.1 /* seconds: a GPU makes thousands of steps in one */

static void describe(const Session *s, double tok_s, char *text, size_t size)
{
    char left[CLOCK_DURATION_SIZE];
    int64_t remaining = s->run.total_steps - s->state.step;
    clock_duration((double)remaining * s->step_seconds, left);
    snprintf(text, size, "step %lld/%lld  loss %.4f  lr %.2e  norm %.3f  %.0f tok/s  %s left",
             (long long)s->state.step, (long long)s->run.total_steps, s->loss, s->rate,
             s->grad_norm, tok_s, left);
}

bool session_is_due(const Session *s)
{
    int64_t step = s->state.step;
    return step % s->run.cfg->log_every == 0 || step == s->run.total_steps || step == 1;
}

bool session_tells(const Session *s)
{
    bool live = log_is_terminal() && log_shows(LOG_INFO) && clock_seconds() - s->shown > LIVE_EVERY;
    return session_leads(s) && (live || session_is_due(s));
}

int session_report_step(Session *s, double seconds, bool tells)
{
    /* A mean over about the last 20 steps. */
    s->step_seconds =
        s->step_seconds > 0 ? s->step_seconds + 0.05 * (seconds - s->step_seconds) : seconds;
    s->line_steps++;
    s->line_seconds += seconds;
    double tokens = (double)(s->line_steps * s->run.tokens_per_update);
    double tok_s = s->line_seconds > 0 ? tokens / s->line_seconds : 0;
    if (!tells || !session_leads(s)) {
        return 0;
    }
    char text[192];
    describe(s, tok_s, text, sizeof text);
    (log_is_terminal() ? log_live : log_info)("%s", text);
    s->shown = clock_seconds();
    if (!session_is_due(s)) {
        return 0;
    }
    int64_t step = s->state.step;
    RecordStep line = {.step = step,
                       .tokens = s->state.tokens,
                       .loss = value_of(s->loss),
                       .lr = value_of(s->rate),
                       .grad_norm = value_of(s->grad_norm),
                       .tok_s = value_of(tok_s),
                       .ms = value_of(1e3 * s->line_seconds / (double)s->line_steps),
                       .peak_bytes = value_of((double)trainer_peak_bytes(&s->trainer))};
    s->line_steps = 0;
    s->line_seconds = 0;
    if (s->watcher != NULL) {
        pacer_step told = {.size = sizeof told,
                           .step = step,
                           .steps = s->run.total_steps,
                           .tokens = s->state.tokens,
                           .loss = s->loss,
                           .lr = s->rate,
                           .grad_norm = s->grad_norm,
                           .tok_s = tok_s,
                           .seconds_left = (double)(s->run.total_steps - step) * s->step_seconds};
        if (s->watcher->function(&told, s->watcher->user) != 0) {
            signals_request(ERR_INTERRUPTED);
        }
    }
    return record_step(s->record, &line);
}
