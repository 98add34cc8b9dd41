/* The screen is made of blocks. Each is laid out in as many lines as it takes at this width;
 * then those that matter most get their lines first, and the curve gets what is left, but at
 * least CURVE_LEAST rows before the lesser ones get any. */
#include "report/watch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "record/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static Ink state_ink(int state)
{
    switch (state) {
    case RUN_RUNNING:
    case RUN_DONE:
        return INK_GREEN;
    case RUN_WAITING:
    case WATCH_SILENT:
    case RUN_STOPPED:
        return INK_YELLOW;
    default:
        return INK_RED;
    }
}

#define MAX_PHASES 32
#define LEAST_SHARE 0.005 /* of a phase that is named */

/* --- message --- */

static void say_how_to_go_on(const WatchRun *run, WatchText *out)
{
    char *command = watch_resume_command(run);
    const char *words = command != NULL ? command : "pacer train with the same options";
    if (run->saved_step >= 0) {
        watch_text_wrap(out, INK_PLAIN, "To resume from the checkpoint of step %lld: %s",
                        (long long)run->saved_step, words);
    } else {
        watch_text_wrap(out, INK_PLAIN, "It has no checkpoint; the same command begins anew: %s",
                        words);
    }
    free(command);
}

static char *last_sign(const WatchRun *run)
{
    char stamp[64] = "an unknown time", ago[CLOCK_DURATION_SIZE];
    time_t when = (time_t)run->wrote;
    struct tm parts;
    if (isfinite(run->wrote) && gmtime_r(&when, &parts) != NULL) {
        strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S UTC", &parts);
    }
    return mem_format("%s at %s, %s ago", run->last.step > 0 ? "last line" : "it began", stamp,
                      clock_duration(run->silent, ago));
}

static void put_message(const WatchRun *run, WatchText *out)
{
    const char *host = json_text_or(run->run, "machine.host", "an unknown host");
    const char *why = json_text_or(run->run, "message", NULL);
    char *sign = last_sign(run), time[CLOCK_DURATION_SIZE];
    Ink ink = state_ink(run->state);
    if (run->state == RUN_WAITING) {
        watch_text_wrap(out, ink, "Waiting for %s/run.json: the run has not begun", run->dir);
    } else if (run->state == WATCH_UNREADABLE) {
        watch_text_wrap(out, ink, "Its record cannot be read: %s",
                        run->problem != NULL ? run->problem : "");
    } else if (run->state == WATCH_DEAD) {
        watch_text_wrap(out, ink,
                        "Dead: process %.0f on %s is gone and did not end its record; %s.",
                        json_number(run->run, "process.pid"), host, sign);
    } else if (run->state == WATCH_SILENT) {
        watch_text_wrap(out, ink,
                        "Silent for %s: its process on %s is not to be seen from here, so it may "
                        "be dead or slow; %s.",
                        clock_duration(run->silent, time), host, sign);
    } else if (run->state == RUN_RUNNING && run->last.step == 0) {
        watch_text_wrap(out, ink, "No step is done yet.");
    } else if (run->state != RUN_RUNNING && why != NULL) {
        watch_text_wrap(out, ink, "%s", why);
    }
    free(sign);
    if (run->state == WATCH_DEAD || run->state == RUN_STOPPED ||
        (run->state == RUN_FAILED && run->saved_step >= 0)) {
        say_how_to_go_on(run, out);
    }
    if (run->not_finite > 0) {
        watch_text_wrap(out, INK_RED, "The loss was not a number in %lld line%s.",
                        (long long)run->not_finite, run->not_finite == 1 ? "" : "s");
    }
    if (run->odd_lines > 0) {
        watch_text_wrap(out, INK_YELLOW, "%lld line%s of metrics.jsonl could not be read.",
                        (long long)run->odd_lines, run->odd_lines == 1 ? "" : "s");
    }
}

/* --- numbers --- */

static void put_loss(const WatchRun *run, WatchText *out)
{
    if (run->recent == 0) {
        return;
    }
    size_t points = run->curve.train.count;
    double *values = mem_zalloc(points + 1, sizeof *values);
    watch_smooth(run, out->flags.plot.smoothing, values);
    watch_text_line(out);
    if (run->last.counted) {
        watch_text_item(out, INK_BOLD, "loss %.4f", run->last.loss);
    } else {
        watch_text_item(out, INK_BOLD, "no token of this update counts in the loss");
    }
    if (points > 0 && out->flags.plot.smoothing > 0) {
        watch_text_item(out, INK_CYAN, "smoothed %.4f", values[points - 1]);
    }
    if (run->val_step > 0) {
        watch_text_item(out, INK_YELLOW, "validation loss %.4f at step %lld", run->val_loss,
                        (long long)run->val_step);
    }
    if (run->best_val_step > 0) {
        watch_text_item(out, INK_YELLOW, "best %.4f at step %lld", run->best_val_loss,
                        (long long)run->best_val_step);
    }
    if (run->last.counted) {
        watch_text_item(out, INK_PLAIN, "gradient norm %.3g", run->last.grad_norm);
    }
    watch_text_item(out, INK_PLAIN, "learning rate %.2e", run->last.lr);
    free(values);
}

static void put_speed(const WatchRun *run, WatchText *out)
{
    if (run->recent == 0) {
        return;
    }
    double tok_s = json_number(run->run, "summary.tok_s"), ms = watch_median(run, run->recent_ms);
    watch_text_line(out);
    watch_text_item(out, INK_BOLD, "%s tokens/s", unit_count(run->last.tok_s).text);
    watch_text_item(out, INK_PLAIN, "median %s",
                    unit_count(watch_median(run, run->recent_tok_s)).text);
    if (isfinite(tok_s)) {
        watch_text_item(out, INK_PLAIN, "in all %s", unit_count(tok_s).text);
    }
    watch_text_item(out, INK_PLAIN, "%.4g ms per step", run->last.ms);
    watch_text_item(out, INK_PLAIN, "median %.4g ms", ms);
    double ceiling = json_number(run->run, "machine.device_matmul_gflops");
    ceiling = ceiling > 0 ? ceiling : json_number(run->run, "machine.sgemm_gflops");
    bool ramp = json_get(run->run, "ramp") != NULL; /* updates differ in size */
    double flops = ramp ? NAN : json_number(run->run, "model.flops_update");
    double measured = json_number(run->run, "summary.mfu_measured");
    double peak = json_number(run->run, "summary.mfu_peak");
    measured = isfinite(measured) ? measured : flops / (1e-3 * ms) / (1e9 * ceiling);
    if (isfinite(measured)) {
        watch_text_item(out, INK_PLAIN, "MFU %.1f %% of the measured ceiling", 100 * measured);
    }
    if (isfinite(peak)) {
        watch_text_item(out, INK_PLAIN, "%.1f %% of the peak", 100 * peak);
    }
}

/* --- memory --- */

static void put_memory(const WatchRun *run, WatchText *out)
{
    double planned = record_planned_bytes(run->run);
    const cJSON *row;
    double peak = json_number(run->run, "summary.peak_bytes");
    double held = json_number(run->run, "summary.reserved_bytes");
    if (isnan(planned)) {
        return;
    }
    watch_text_line(out);
    watch_text_item(out, INK_BOLD, "memory");
    watch_text_item(out, INK_PLAIN, "planned %s", unit_bytes(planned).text);
    if (isfinite(peak)) {
        watch_text_item(out, INK_PLAIN, "peak %s", unit_bytes(peak).text);
    }
    if (isfinite(held)) {
        watch_text_item(out, INK_PLAIN, "held %s", unit_bytes(held).text);
    }
    if (run->resident_now > 0) {
        watch_text_item(out, INK_PLAIN, "process %s", unit_bytes((double)run->resident_now).text);
        watch_text_item(out, INK_PLAIN, "at most %s", unit_bytes((double)run->resident_most).text);
    }
    cJSON_ArrayForEach(row, json_get(run->run, "memory_plan"))
    {
        double bytes = json_number(row, "bytes");
        if (bytes >= 0.05 * planned) {
            watch_text_item(out, INK_DIM, "%s %s", json_text_or(row, "kind", "?"),
                            unit_bytes(bytes).text);
        }
    }
}

/* --- phases --- */

typedef struct {
    const char *name;
    double seconds;
} Phase;

static int by_seconds(const void *a, const void *b)
{
    double x = ((const Phase *)a)->seconds, y = ((const Phase *)b)->seconds;
    return (x < y) - (x > y);
}

static Ink phase_ink(int i)
{
    static const Ink inks[] = {INK_CYAN, INK_BLUE, INK_GREEN, INK_YELLOW, INK_MAGENTA, INK_RED};
    return inks[i % 6];
}

/* One bar whose parts are the phases, each in its colour, or in its first letter without
 * colours. */
static void put_phase_bar(const Phase *phases, int count, double all, WatchText *out)
{
    double sum = 0;
    int at = 0;
    for (int i = 0; i < count; i++) {
        sum += phases[i].seconds;
        int end = (int)lround(sum / all * out->flags.width);
        char letter[2] = {phases[i].name[0] > ' ' && phases[i].name[0] < 127 ? phases[i].name[0]
                                                                             : '?'};
        watch_text_glyph(out, phase_ink(i), out->flags.colour ? "█" : letter,
                         out->flags.colour ? '#' : letter[0], end - at);
        at = end;
    }
}

/* The records have phases when a session ends; until then only the time in steps is known. */
static void put_shares_so_far(const WatchRun *run, WatchText *out)
{
    double steps = watch_session_seconds(run), all = run->wrote - run->begun;
    watch_text_line(out);
    watch_text_item(out, INK_BOLD, "phases");
    if (steps > 0 && all >= steps && all > 1) {
        watch_text_item(out, INK_PLAIN, "steps %.0f %%", 100 * steps / all);
        watch_text_item(out, INK_PLAIN, "start, evaluations, saves %.0f %%",
                        100 - 100 * steps / all);
    }
    watch_text_item(out, INK_DIM, "(parts of a step: at the end)");
}

static void put_phases(const WatchRun *run, WatchText *out)
{
    Phase phases[MAX_PHASES];
    int count = 0;
    double all = 0, other = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, json_find(run->run, "summary.phases"))
    {
        double seconds = json_number(item, "exclusive_s");
        if (seconds > 0 && count < MAX_PHASES && item->string != NULL) {
            phases[count++] = (Phase){item->string, seconds};
            all += seconds;
        }
    }
    if (count == 0) {
        if (run->state == RUN_RUNNING && run->last.step > 0) {
            put_shares_so_far(run, out);
        }
        return;
    }
    qsort(phases, (size_t)count, sizeof *phases, by_seconds);
    while (count > 0 && phases[count - 1].seconds < LEAST_SHARE * all) {
        other += phases[--count].seconds;
    }
    watch_text_line(out);
    put_phase_bar(phases, count, all, out);
    watch_text_line(out);
    watch_text_item(out, INK_BOLD, "phases");
    for (int i = 0; i < count; i++) {
        watch_text_item(out, phase_ink(i), "%s %.1f %%", phases[i].name,
                        100 * phases[i].seconds / all);
    }
    if (other > 0) {
        watch_text_item(out, INK_DIM, "other %.1f %%", 100 * other / all);
    }
}

/* --- checks, ranks --- */

static void put_checks(const WatchRun *run, WatchText *out)
{
    const cJSON *checks = json_find(run->run, "summary.checks"), *check;
    int pass = record_checks(run->run, "pass"), warn = record_checks(run->run, "warn");
    int fail = record_checks(run->run, "fail");
    if (pass + warn + fail == 0) {
        return;
    }
    watch_text_line(out);
    watch_text_item(out, INK_BOLD, "checks");
    watch_text_item(out, INK_GREEN, "%d pass", pass);
    watch_text_item(out, warn > 0 ? INK_YELLOW : INK_DIM, "%d warn", warn);
    watch_text_item(out, fail > 0 ? INK_RED : INK_DIM, "%d fail", fail);
    cJSON_ArrayForEach(check, checks)
    {
        const char *verdict = json_text_or(check, "verdict", "");
        if (strcmp(verdict, "warn") == 0 || strcmp(verdict, "fail") == 0) {
            watch_text_line(out);
            watch_text_put(out, verdict[0] == 'f' ? INK_RED : INK_YELLOW, "%s %s", verdict,
                           json_text_or(check, "name", "?"));
            const char *subject = json_text_or(check, "subject", "");
            watch_text_put(out, INK_PLAIN, "%s%s: expected %.6g, found %.6g (%s)",
                           subject[0] != '\0' ? " " : "", subject, json_number(check, "expected"),
                           json_number(check, "found"), json_text_or(check, "rule", ""));
        }
    }
}

static void put_ranks(const WatchRun *run, WatchText *out)
{
    for (int i = 0; run->rank_count > 1 && i < run->rank_count; i++) {
        const cJSON *rank = run->ranks[i];
        char time[CLOCK_DURATION_SIZE];
        watch_text_line(out);
        watch_text_put(out, INK_PLAIN, "rank %.0f  %s %s", json_number(rank, "rank"),
                       json_text_or(rank, "host", "?"), json_text_or(rank, "device", "?"));
        watch_text_put(out, INK_DIM, "  peak %s",
                       unit_bytes(json_number(rank, "memory.peak_bytes")).text);
        watch_text_put(out, INK_DIM, "  training %s",
                       clock_duration(json_number(rank, "spans.training.total_s"), time));
        double waited = json_number(rank, "timers.comm_exposed.exclusive_s");
        watch_text_put(out, INK_DIM, "  exposed communication %s", clock_duration(waited, time));
    }
}

#define CURVE_LEAST 5

static void title(const WatchRun *run, WatchText *out)
{
    const cJSON *json = run->run;
    const cJSON *machine = json_get(json, "machine");
    const char *model = json_text(json, "model.name");
    const char *host = json_text(machine, "host"), *device = json_text(machine, "device");
    const char *id = json_text(json, "id");
    double ranks = json_number(json, "config.ranks");
    device = device != NULL && device[0] != '\0' ? device : json_text(json, "config.device");
    watch_text_line(out);
    watch_text_put(out, INK_BOLD, "%s ", model != NULL ? model : "pacer watch");
    watch_text_put(out, state_ink(run->state), " %s", watch_state_name(run->state));
    watch_text_put(out, INK_YELLOW, "%s", out->flags.paused ? "  view paused" : "");
    watch_text_put(out, INK_PLAIN, "  %s", run->dir);
    if (host != NULL) {
        watch_text_put(out, INK_DIM, "  on %s", host);
    }
    if (host != NULL && device != NULL) {
        watch_text_put(out, INK_DIM, " (%s)", device);
    }
    if (ranks > 1) {
        watch_text_put(out, INK_DIM, "  %.0f ranks", ranks);
    }
    if (id != NULL && strstr(run->dir, id) == NULL) {
        watch_text_put(out, INK_DIM, "  id %s", id);
    }
}

static void bar(WatchText *out, double share, int columns)
{
    int full = (int)lround(share * columns);
    watch_text_glyph(out, INK_GREEN, "█", '#', full);
    watch_text_glyph(out, INK_DIM, "░", '.', columns - full);
}

static void progress(const WatchRun *run, WatchText *out)
{
    char time[CLOCK_DURATION_SIZE];
    bool done = run->state == RUN_DONE && run->total_steps == 0;
    double total = (double)(done ? run->last.step : run->total_steps);
    double share = (double)run->last.step / total;
    bool live = run->state == RUN_RUNNING || run->state == WATCH_SILENT;
    if (run->run == NULL) {
        return;
    }
    watch_text_line(out);
    if (total > 0 && share >= 0 && share <= 1) {
        if (out->flags.width >= 60) {
            bar(out, share, out->flags.width / 4);
        }
        watch_text_item(out, INK_BOLD, "%.0f %%", floor(100 * share));
        watch_text_item(out, INK_PLAIN, "step %lld of %.0f", (long long)run->last.step, total);
    } else {
        watch_text_item(out, INK_BOLD, "step %lld", (long long)run->last.step);
    }
    if (run->last.step > 0 && isfinite(run->last.tokens)) {
        watch_text_item(out, INK_PLAIN, "%s tokens", unit_count(run->last.tokens).text);
    }
    double wall = json_number(run->run, "summary.wall_s");
    double elapsed = run->state == RUN_RUNNING ? run->now - run->begun
                     : isfinite(wall)          ? wall
                                               : run->wrote - run->begun;
    if (elapsed >= 0) {
        bool resumed = cJSON_GetArraySize(json_get(run->run, "resumed")) > 0;
        watch_text_item(out, INK_PLAIN, "elapsed %s%s", clock_duration(elapsed, time),
                        resumed ? " since the resume" : "");
    }
    double left = watch_seconds_left(run);
    if (live && isfinite(left)) {
        watch_text_item(out, INK_BOLD, "time left %s", clock_duration(left, time));
    }
}

/* --- putting together --- */

#define BLOCKS 11

typedef struct {
    void (*make)(const WatchRun *run, WatchText *out); /* NULL: the curve */
    int rank;                                          /* 0 matters most */
    bool whole;                                        /* all of its lines or none */
    int shown;
    WatchText text;
} Block;

/* Gives lines to blocks in the order of their ranks; returns those of the curve. */
static int share_out(Block *blocks, int height, bool has_curve)
{
    int left = height, curve = 0;
    for (int rank = 0; rank < BLOCKS; rank++) {
        for (int i = 0; i < BLOCKS; i++) {
            Block *block = &blocks[i];
            if (block->rank != rank) {
                continue;
            }
            if (block->make == NULL) {
                curve = has_curve && left >= CURVE_LEAST ? CURVE_LEAST : 0;
                left -= curve;
                continue;
            }
            int lines = block->text.count;
            block->shown = lines <= left ? lines : block->whole ? 0 : left;
            left -= block->shown;
        }
    }
    return curve > 0 ? curve + left : 0;
}

static void keys(const WatchRun *run, WatchText *out)
{
    (void)run;
    watch_view_keys(out);
}

void watch_view_keys(WatchText *out)
{
    const WatchFlags *flags = &out->flags;
    if (flags->help) {
        watch_text_item(out, INK_YELLOW, "q quit");
        watch_text_item(out, INK_YELLOW, "space pause");
        watch_text_item(out, INK_YELLOW, "l log loss");
        watch_text_item(out, INK_YELLOW, "t tokens or steps");
        watch_text_item(out, INK_YELLOW, "+ - smoothing (%d lines)", 1 << flags->plot.smoothing);
        watch_text_item(out, INK_YELLOW, "h help off");
    } else if (flags->keys) {
        watch_text_item(out, INK_DIM, "q quit  h help");
    }
}

void watch_view(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    Block blocks[BLOCKS] = {
        {.make = title, .rank = 0},
        {.make = put_message, .rank = 2},
        {.make = progress, .rank = 1},
        {.make = put_loss, .rank = 3},
        {.make = NULL, .rank = 5},
        {.make = put_speed, .rank = 6},
        {.make = put_memory, .rank = 7, .whole = true},
        {.make = put_phases, .rank = 8, .whole = true},
        {.make = put_checks, .rank = 9},
        {.make = put_ranks, .rank = 10},
        {.make = keys, .rank = flags->help ? 4 : 6, .whole = true},
    };
    for (int i = 0; i < BLOCKS; i++) {
        watch_text_init(&blocks[i].text, flags);
        if (blocks[i].make != NULL) {
            blocks[i].make(run, &blocks[i].text);
        }
    }
    int curve = share_out(blocks, flags->height, run->curve.train.count > 0);
    watch_text_init(out, flags);
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].make == NULL) {
            watch_plot(out, run, curve);
        }
        watch_text_append(out, &blocks[i].text, blocks[i].shown);
        watch_text_free(&blocks[i].text);
    }
}
