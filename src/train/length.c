#include "train/length.h"

#include "base/assert.h"
#include "base/err.h"

#include <math.h>

#define WARM_SHARE 0.05 /* of the time, as of updates elsewhere (config_warmup) */

/* --- the size of updates --- */

static const RampPhase *phase_of(const BatchRamp *ramp, int64_t step)
{
    const RampPhase *phase = &ramp->at[ramp->count - 1];
    while (phase > ramp->at && phase->step > step) {
        phase--;
    }
    return phase;
}

int64_t ramp_accum(const BatchRamp *ramp, int64_t step)
{
    return phase_of(ramp, step)->accum;
}

/* Micro-steps of all updates before this one. */
static int64_t ramp_micro(const BatchRamp *ramp, int64_t step)
{
    const RampPhase *phase = phase_of(ramp, step);
    return phase->micro + (step - phase->step) * phase->accum;
}

int64_t ramp_tokens(const BatchRamp *ramp, int64_t step)
{
    return ramp_micro(ramp, step) * ramp->micro_tokens;
}

/* --- how many --- */

/* The end of a run in micro-steps, and how a last update that does not fit is rounded. */
typedef struct {
    double micro;
    double (*round)(double updates);
} End;

static double round_down(double updates)
{
    return floor(updates * (1 + 1e-12)); /* 0.29 x 100 is 28.999999999999996 */
}

static bool find_end(const Config *cfg, LengthUnits units, int64_t micro_tokens, End *end)
{
    if (cfg->tokens > 0) {
        *end = (End){(double)cfg->tokens / (double)micro_tokens, ceil};
    } else if (cfg->epochs > 0) {
        *end =
            (End){cfg->epochs * (double)units.tokens_per_epoch / (double)micro_tokens, round_down};
    } else if (cfg->flops > 0) {
        *end = (End){cfg->flops / units.flops_micro, round};
    } else {
        return false;
    }
    return true;
}

const char *length_option(const Config *cfg)
{
    return cfg->tokens > 0    ? "tokens"
           : cfg->epochs > 0  ? "epochs"
           : cfg->flops > 0   ? "flops"
           : cfg->minutes > 0 ? "minutes"
                              : "steps";
}

/* A run has no more updates than --steps takes. */
static int check_updates(const Config *cfg, double updates)
{
    double most = config_find("steps")->max;
    return updates <= most
               ? 0
               : err_set(ERR_INPUT,
                         "--%s makes %.3g updates, more than the %.0g that a run may have; give "
                         "less, or make updates larger by --batch or --accum",
                         length_option(cfg), updates, most);
}

/* Updates of this phase until the mark that ends it; the first update at or behind it begins the
 * next phase. */
static double until_mark(const RunLength *length, const RampPhase *phase, const BatchRampMark *mark,
                         const End *end, bool by_steps)
{
    double micro = mark->share * (by_steps ? 0 : end->micro);
    if (mark->tokens >= 0) {
        micro = (double)mark->tokens / (double)length->ramp.micro_tokens;
    } else if (by_steps) {
        return ceil(mark->share * (double)length->total_steps * (1 - 1e-12)) - (double)phase->step;
    }
    return ceil((micro - (double)phase->micro) / (double)phase->accum * (1 - 1e-12));
}

/* Walks the marks from update phase.step on. A phase that would have no update gives way to the
 * next. */
static int lay_ramp(RunLength *length, const Config *cfg, LengthUnits units, RampPhase phase)
{
    BatchRampMark marks[BATCH_RAMP_MOST] = {
        {.sequences = length->ramp.at[0].accum * units.batch * cfg->ranks}};
    BatchRamp *ramp = &length->ramp;
    int count = 1;
    int code = cfg->batch_ramp[0] != '\0' ? batch_ramp_parse(cfg->batch_ramp, marks, &count) : 0;
    if (code != 0) {
        return err_wrap(code, "--batch-ramp");
    }
    bool fresh = phase.step == 0;
    End end = {0, ceil};
    bool by_steps = !find_end(cfg, units, ramp->micro_tokens, &end);
    ramp->count = 0;
    bool over = false;
    for (int i = 0; i < count; i++) {
        phase.accum = marks[i].sequences / (units.batch * cfg->ranks);
        double left = by_steps ? (double)(length->total_steps - phase.step)
                               : end.round((end.micro - (double)phase.micro) / (double)phase.accum);
        double updates = left;
        if (i + 1 < count) {
            double mark = until_mark(length, &phase, &marks[i + 1], &end, by_steps);
            over = mark >= left;
            updates = over ? left : fmax(mark, 0);
        }
        updates = phase.step == 0 && left < 1 ? 1 : fmax(updates, 0); /* a run has one at least */
        bool never = i + 1 == count && updates < 1; /* the end is rounded to before it */
        if (fresh && (over || never)) {
            return err_set(ERR_INPUT,
                           "--batch-ramp %s: the run ends before it comes to batch %lld; leave "
                           "that out, or train longer",
                           cfg->batch_ramp, (long long)marks[never ? i : i + 1].sequences);
        }
        code = check_updates(cfg, (double)phase.step + updates);
        if (code != 0) {
            return code;
        }
        if (updates >= 1) {
            ramp->at[ramp->count++] = phase;
            phase.step += (int64_t)updates;
            phase.micro += (int64_t)updates * phase.accum;
        }
    }
    if (ramp->count == 0) { /* nothing is left */
        ramp->at[ramp->count++] = phase;
    }
    length->by_micro = ramp->count > 1 || !fresh;
    length->total_steps = phase.step;
    length->total_tokens = phase.micro * ramp->micro_tokens;
    return 0;
}

/* --- all of it --- */

static void fill_schedule(RunLength *length, const Config *cfg)
{
    bool clock = length->seconds > 0;
    int64_t unit = length->by_micro ? length->ramp.first : 1; /* of a warm-up's update */
    int64_t total = clock              ? LENGTH_TICKS + 1
                    : length->by_micro ? length->total_tokens / length->ramp.micro_tokens
                                       : length->total_steps;
    length->warmup = clock              ? cfg->warmup
                     : cfg->warmup >= 0 ? cfg->warmup
                                        : config_warmup(cfg, total) / unit;
    length->schedule = (Schedule){.kind = (ScheduleKind)cfg->schedule,
                                  .peak = cfg->lr,
                                  .floor = config_min_lr(cfg),
                                  .warmup = clock ? 0 : length->warmup * unit,
                                  .total = total,
                                  .decay_fraction = cfg->wsd_decay};
}

int length_count(RunLength *length, const Config *cfg, LengthUnits units)
{
    int64_t update = units.batch * units.seq * cfg->accum * cfg->ranks;
    *length = (RunLength){.seconds = 60 * cfg->minutes};
    BatchRamp *ramp = &length->ramp;
    *ramp = (BatchRamp){.count = 1, .rule = (RampRule)cfg->ramp_lr};
    ramp->micro_tokens = units.batch * units.seq * cfg->ranks;
    ramp->at[0] = (RampPhase){.accum = cfg->accum};
    double updates = 1;
    if (length->seconds > 0) {
        length->total_steps = length->total_tokens = LENGTH_OPEN;
    } else if (cfg->flops > 0) {
        updates = fmax(round(cfg->flops / (units.flops_micro * (double)cfg->accum)), 1);
        length->total_steps = updates < 1e15 ? (int64_t)updates : LENGTH_OPEN;
    } else {
        length->total_steps = config_total_steps(cfg, update, units.tokens_per_epoch);
        updates = (double)length->total_steps;
    }
    bool ramped = cfg->batch_ramp[0] != '\0';
    int code = ramped ? lay_ramp(length, cfg, units, (RampPhase){0}) : check_updates(cfg, updates);
    if (code != 0) {
        return code;
    }
    ramp->first = ramp->at[0].accum;
    if (!ramped && length->seconds == 0) {
        double tokens = (double)length->total_steps * (double)update;
        length->total_tokens = tokens < 9e18 ? length->total_steps * update : INT64_MAX;
    }
    length->total_steps += cfg->branch_at; /* total_tokens stay those that are left */
    fill_schedule(length, cfg);
    if (length->schedule.warmup > length->schedule.total) {
        return err_set(ERR_INPUT, "--warmup %lld is longer than the run's %lld steps",
                       (long long)length->warmup, (long long)length->total_steps);
    }
    return 0;
}

int length_resume(RunLength *length, const Config *cfg, LengthUnits units, int64_t step,
                  int64_t tokens)
{
    End end;
    int64_t micro = length->ramp.micro_tokens;
    if (length->seconds > 0 || cfg->branch_at > 0 || !find_end(cfg, units, micro, &end) ||
        ramp_tokens(&length->ramp, step) == tokens) {
        return 0;
    }
    RampPhase phase = {.step = step, .micro = tokens / micro};
    int code = lay_ramp(length, cfg, units, phase);
    if (code == 0) {
        fill_schedule(length, cfg);
    }
    return code;
}

/* --- the rate --- */

/* What a batch of so many times the first one's size multiplies the rate by. */
static double boost(const BatchRamp *ramp, int64_t accum)
{
    double times = (double)accum / (double)ramp->first;
    return ramp->rule == RAMP_SQRT ? sqrt(times) : ramp->rule == RAMP_LINEAR ? times : 1;
}

double length_rate(const RunLength *length, int64_t step)
{
    const BatchRamp *ramp = &length->ramp;
    PACER_ASSERT(length->seconds == 0, "the clock says the rate");
    if (!length->by_micro) {
        return schedule_rate(&length->schedule, step);
    }
    /* The last micro-step of the update, so that the last update has the floor. */
    int64_t accum = ramp_accum(ramp, step);
    return boost(ramp, accum) *
           schedule_rate(&length->schedule, ramp_micro(ramp, step) + accum - 1);
}

double length_warm_share(void)
{
    return WARM_SHARE;
}

double length_rate_at(const RunLength *length, int64_t step, double share, double warm, bool last)
{
    Schedule schedule = length->schedule;
    if (!last && length->warmup > step) {
        return schedule.peak * (double)(step + 1) / (double)length->warmup;
    }
    schedule.warmup = (int64_t)(warm * (double)LENGTH_TICKS);
    double tick = floor(fmin(fmax(share, 0), 1) * (double)LENGTH_TICKS);
    return schedule_rate(&schedule, last ? LENGTH_TICKS : (int64_t)tick);
}
