/* The checkpoints of a run: when training waits for them, and what a failure means. */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "train/session.h"

/* A save has ended. One that failed is told of and recorded: training goes on, and what was saved
 * before stays; unless ranks are lost, which the next step says. */
static void note_save(Session *s, int code)
{
    if (code == 0) {
        s->saved_step = s->saving_step;
        if (session_leads(s)) {
            comm_tell_saved(s->saved_step);
        }
    } else if (session_leads(s) && !saver_is_cut_off(s->saver)) {
        log_warn("saving step %lld: %s; training goes on", (long long)s->saving_step,
                 err_message());
        record_failed_save(s->record, s->saving_step, err_message());
    }
    if (code == 0 && s->run.cfg->save == SAVE_ASYNC) {
        log_info("step %lld is saved", (long long)s->saving_step);
    }
}

void saves_finish(Session *s)
{
    if (saver_is_under_way(s->saver)) {
        timers_enter(&s->timers, PHASE_CHECKPOINT);
        note_save(s, saver_finish(s->saver));
        timers_leave(&s->timers, PHASE_CHECKPOINT);
    }
}

void saves_advance(Session *s)
{
    bool ended;
    s->last_update_ns = 0; /* something else than updates is done now */
    timers_enter(&s->timers, PHASE_CHECKPOINT);
    int code = saver_advance(s->saver, &ended);
    if (ended) {
        note_save(s, code);
    }
    timers_leave(&s->timers, PHASE_CHECKPOINT);
}

static int begin(Session *s)
{
    saves_finish(s);
    s->last_update_ns = 0; /* something else than updates is done now */
    timers_enter(&s->timers, PHASE_CHECKPOINT);
    if (session_leads(s)) { /* a run that goes on from here has its lines, or has been warned */
        (void)record_catch_up(s->record);
    }
    s->saving_step = s->state.step;
    s->saved_at = clock_seconds();
    s->save_next = false;
    int code = saver_start(s->saver, &s->state, s->config);
    timers_leave(&s->timers, PHASE_CHECKPOINT);
    return code;
}

void saves_start(Session *s)
{
    int code = begin(s);
    if (code != 0 || !saver_is_under_way(s->saver)) {
        note_save(s, code);
    }
}

int saves_last(Session *s)
{
    saves_finish(s);
    if (s->state.step == s->saved_step) {
        return 0;
    }
    int code = begin(s);
    timers_enter(&s->timers, PHASE_CHECKPOINT);
    code = code != 0 ? code : saver_finish(s->saver);
    code = session_agree(s, code);
    timers_leave(&s->timers, PHASE_CHECKPOINT);
    if (code != 0) {
        return err_wrap(code, "saving step %lld", (long long)s->state.step);
    }
    note_save(s, 0);
    return 0;
}
