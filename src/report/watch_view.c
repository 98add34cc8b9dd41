/* The screen is made of blocks. Each is laid out in as many lines as it takes at this width;
 * then those that matter most get their lines first, and the curve gets what is left, but at
 * least CURVE_LEAST rows before the lesser ones get any. */
#include "report/watch_view.h"

#include "base/clock.h"
#include "report/results.h"
#include "report/watch_blocks.h"

#include <math.h>
#include <string.h>

#define CURVE_LEAST 5

Ink watch_state_ink(WatchState state)
{
    switch (state) {
    case WATCH_RUNNING:
    case WATCH_DONE:
        return INK_GREEN;
    case WATCH_WAITING:
    case WATCH_SILENT:
    case WATCH_STOPPED:
        return INK_YELLOW;
    default:
        return INK_RED;
    }
}

static const char *text_at(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static void title(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    const cJSON *json = run->run;
    const cJSON *machine = cJSON_GetObjectItemCaseSensitive(json, "machine");
    const char *model = text_at(cJSON_GetObjectItemCaseSensitive(json, "model"), "name");
    const char *host = text_at(machine, "host"), *device = text_at(machine, "device");
    const char *id = text_at(json, "id");
    double ranks = results_number(json, "config.ranks");
    device = device != NULL && device[0] != '\0'
                 ? device
                 : text_at(cJSON_GetObjectItemCaseSensitive(json, "config"), "device");
    watch_text_line(out);
    watch_text_put(out, INK_BOLD, "%s ", model != NULL ? model : "pacer watch");
    watch_text_put(out, watch_state_ink(run->state), " %s", watch_state_name(run->state));
    watch_text_put(out, INK_YELLOW, "%s", flags->paused ? "  view paused" : "");
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

static void progress(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    (void)flags;
    char count[WATCH_COUNT_SIZE], time[CLOCK_DURATION_SIZE];
    bool done = run->state == WATCH_DONE && run->total_steps == 0;
    double total = (double)(done ? run->last.step : run->total_steps);
    double share = (double)run->last.step / total;
    bool live = run->state == WATCH_RUNNING || run->state == WATCH_SILENT;
    if (run->run == NULL) {
        return;
    }
    watch_text_line(out);
    if (total > 0 && share >= 0 && share <= 1) {
        if (out->width >= 60) {
            bar(out, share, out->width / 4);
        }
        watch_text_item(out, INK_BOLD, "%.0f %%", floor(100 * share));
        watch_text_item(out, INK_PLAIN, "step %lld of %.0f", (long long)run->last.step, total);
    } else {
        watch_text_item(out, INK_BOLD, "step %lld", (long long)run->last.step);
    }
    if (run->last.step > 0 && isfinite(run->last.tokens)) {
        watch_text_item(out, INK_PLAIN, "%s tokens", watch_count(run->last.tokens, count));
    }
    double wall = results_number(run->run, "summary.wall_s");
    double elapsed = run->state == WATCH_RUNNING ? run->now - run->begun
                     : isfinite(wall)            ? wall
                                                 : run->wrote - run->begun;
    if (elapsed >= 0) {
        bool resumed =
            cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(run->run, "resumed")) > 0;
        watch_text_item(out, INK_PLAIN, "elapsed %s%s", clock_duration(elapsed, time),
                        resumed ? " since the resume" : "");
    }
    double left = watch_seconds_left(run);
    if (live && isfinite(left)) {
        watch_text_item(out, INK_BOLD, "left %s", clock_duration(left, time));
    }
}

/* --- putting together --- */

enum { CURVE = 4, BLOCKS = 11 };

typedef struct {
    void (*make)(const WatchRun *run, const WatchFlags *flags, WatchText *out);
    int rank;   /* 0 matters most */
    bool whole; /* all of its lines or none */
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
            if (i == CURVE) {
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

static void no_block(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    (void)run;
    (void)flags;
    (void)out;
}

static void keys(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    (void)run;
    watch_view_keys(flags, out);
}

void watch_view_keys(const WatchFlags *flags, WatchText *out)
{
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
        {.make = watch_block_message, .rank = 2},
        {.make = progress, .rank = 1},
        {.make = watch_block_loss, .rank = 3},
        {.make = no_block, .rank = 5}, /* the curve */
        {.make = watch_block_speed, .rank = 6},
        {.make = watch_block_memory, .rank = 7, .whole = true},
        {.make = watch_block_phases, .rank = 8, .whole = true},
        {.make = watch_block_checks, .rank = 9},
        {.make = watch_block_ranks, .rank = 10},
        {.make = keys, .rank = flags->help ? 4 : 6, .whole = true},
    };
    for (int i = 0; i < BLOCKS; i++) {
        watch_text_init(&blocks[i].text, flags->width, flags->height, flags->utf8, flags->colour);
        blocks[i].make(run, flags, &blocks[i].text);
    }
    int curve = share_out(blocks, flags->height, run->curve.train_count > 0);
    watch_text_init(out, flags->width, flags->height, flags->utf8, flags->colour);
    for (int i = 0; i < BLOCKS; i++) {
        if (i == CURVE) {
            watch_plot(out, run, flags->plot, curve);
        }
        for (int line = 0; line < blocks[i].shown; line++) {
            watch_text_copy(out, &blocks[i].text, line);
        }
        watch_text_free(&blocks[i].text);
    }
}
