/* `pacer plan --fit`: every combination of the settings that leave a training what it is, with its
 * bytes, its predicted speed, and why it is not the one to take; and the command with that one.
 * `pacer train --fit` takes it. */
#include "analyse/fit_measure.h"
#include "analyse/recommend.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/page.h"
#include "base/show.h"
#include "cli/commands.h"
#include "cli/fit.h"
#include "cli/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)

static size_t room_of(const FitFound *found)
{
    return found->limit == SIZE_MAX        ? SIZE_MAX
           : found->limit > found->program ? found->limit - found->program
                                           : 0;
}

const char *fit_value_name(const FitFound *found, const FitCandidate *c, int axis)
{
    return found->space.axes[axis].option->choices[c->value[axis]];
}

char *fit_settings_text(const FitFound *found, const FitCandidate *c)
{
    Page text = {0};
    page_put(&text, "--batch %lld --accum %lld", (long long)c->batch,
             (long long)fit_accum(&found->space, c));
    for (int i = 0; i < found->space.axis_count; i++) {
        page_put(&text, " --%s %s", found->space.axes[i].option->name, fit_value_name(found, c, i));
    }
    return page_end(&text);
}

static bool fit_copies(const FitFound *found)
{
    return found->copy_rate[COPY_OUT] > 0;
}

static bool is_too_large(const FitFound *found, const FitCandidate *c)
{
    return size_sum(c->bytes, found->program) > found->limit;
}

/* Why it is not taken; "taken" when it is. */
static void verdict(const FitFound *found, int at, char *text, size_t size)
{
    const Fit *fit = &found->fit;
    const FitCandidate *c = &fit->items[at];
    if (c->why[0] != '\0') {
        snprintf(text, size, "%s", c->why);
    } else if (!c->fits && is_too_large(found, c)) {
        size_t need = size_sum(c->bytes, found->program);
        snprintf(text, size, "%.1f MiB too much", (double)(need - found->limit) / MIB);
    } else if (!c->fits) {
        snprintf(text, size, "too much memory of the host");
    } else if (at == fit->best) {
        snprintf(text, size, "taken");
    } else {
        const FitCandidate *best = &fit->items[fit->best];
        double slower = c->time.seconds / best->time.seconds - 1;
        bool rounds = fit_changes(&found->space, c) > fit_changes(&found->space, best);
        snprintf(text, size, "%.1f %% %s", 100 * fabs(slower),
                 slower >= 0 ? "slower"
                 : rounds    ? "faster, but rounds otherwise"
                             : "faster, but copies");
    }
}

/* --- which rows a person sees --- */

#define ROWS_ALL 40     /* so many are all shown, */
#define ROWS_FAST 16    /* of more these of the fastest that fit, */
#define ROWS_WITHIN 1.1 /* of those as fast as the first but for this; and more, by rows_shown */

/* Whether both do not fit, for the same reason. */
static bool is_like(const FitFound *found, const FitCandidate *a, const FitCandidate *b)
{
    return !a->fits && !b->fits && strcmp(a->why, b->why) == 0 &&
           is_too_large(found, a) == is_too_large(found, b);
}

/* The first of those refused for the same reason, which is the fastest, or the nearest to fit. */
static bool is_nearest(const FitFound *found, int n)
{
    const Fit *fit = &found->fit;
    const FitCandidate *c = &fit->items[n];
    bool first = !c->fits, nearest = !c->fits;
    for (int i = 0; (first || nearest) && i < fit->count; i++) {
        if (i != n && is_like(found, &fit->items[i], c)) {
            first = first && i > n;
            nearest = nearest && (fit->items[i].bytes > c->bytes ||
                                  (fit->items[i].bytes == c->bytes && i > n));
        }
    }
    return first || nearest;
}

/* No row before it has this value of one of the settings. */
static bool is_first_of_value(const FitFound *found, int n)
{
    const Fit *fit = &found->fit;
    bool first_of_any = false;
    for (int axis = 0; axis < found->space.axis_count; axis++) {
        bool first = true;
        for (int i = 0; first && i < n; i++) {
            first = fit->items[i].value[axis] != fit->items[n].value[axis];
        }
        first_of_any = first_of_any || first;
    }
    return first_of_any;
}

/* Marks the rows to show; how many are not. */
static int rows_shown(const FitFound *found, bool all, bool *shown)
{
    const Fit *fit = &found->fit;
    int left_out = 0;
    for (int n = 0; n < fit->count; n++) {
        const FitCandidate *c = &fit->items[n];
        bool fast =
            n < ROWS_FAST && c->fits && c->time.seconds <= ROWS_WITHIN * fit->items[0].time.seconds;
        shown[n] = all || fit->count <= ROWS_ALL || fast || n == fit->best || n == fit->smallest ||
                   is_nearest(found, n) || is_first_of_value(found, n);
        left_out += !shown[n];
    }
    return left_out;
}

static void print_row(const FitFound *found, int n)
{
    const FitCandidate *c = &found->fit.items[n];
    char rate[SHOW_COUNT_SIZE] = "-", scaled[16] = "-", waits[16] = "-", why[200];
    double tokens = fit_rate(found, c);
    verdict(found, n, why, sizeof why);
    if (tokens > 0) {
        show_count((uint64_t)tokens, true, rate);
        snprintf(scaled, sizeof scaled, "%.0f %%", 100 * c->time.scaled_s / c->time.seconds);
        snprintf(waits, sizeof waits, "%.0f %%", 100 * c->time.copies_s / c->time.seconds);
    }
    printf("%c %6lld %6lld", n == found->fit.best ? '*' : ' ', (long long)c->batch,
           (long long)fit_accum(&found->space, c));
    for (int i = 0; i < found->space.axis_count; i++) {
        printf(" %-12s", fit_value_name(found, c, i));
    }
    if (c->why[0] == '\0') {
        printf(" %12.1f %10s %8s", (double)c->bytes / MIB, rate, scaled);
    } else {
        printf(" %12s %10s %8s", "-", rate, scaled);
    }
    if (fit_copies(found)) {
        printf(" %8s", waits);
    }
    escape_printf(stdout, "  %s\n", why);
}

static void print_table(const Config *cfg, const FitFound *found)
{
    const Fit *fit = &found->fit;
    printf("  %6s %6s", "batch", "accum");
    for (int i = 0; i < found->space.axis_count; i++) {
        printf(" %-12s", found->space.axes[i].option->name);
    }
    printf(" %12s %10s %8s", "planned MiB", "tok/s", "scaled");
    printf("%s\n", fit_copies(found) ? "    waits" : "");
    bool *shown = mem_zalloc((size_t)fit->count, sizeof *shown);
    int left_out = rows_shown(found, cfg->verbose, shown);
    for (int n = 0; n < fit->count; n++) {
        if (shown[n]) {
            print_row(found, n);
        }
    }
    if (left_out > 0) {
        printf(
            "  %d more of %d settings are not shown: --verbose prints them, --json writes them\n",
            left_out, fit->count);
    }
    free(shown);
}

static void print_head(const Config *cfg, const FitFound *found)
{
    escape_printf(stdout,
                  "Settings that fit for %s on %s, %s: %lld sequences of %lld tokens per update",
                  found->spec.name, found->device, dtype_name(found->dtype),
                  (long long)(found->space.sequences * cfg->ranks), (long long)found->seq);
    if (found->limit < SIZE_MAX) {
        printf(", %.1f MiB for %s", (double)room_of(found) / MIB,
               cfg->ranks > 1 ? "the plan of each rank" : "the plan");
        if (found->program > 0) {
            printf(" (%.1f MiB less %.1f of the program)", (double)found->limit / MIB,
                   (double)found->program / MIB);
        }
    }
    putchar('\n');
}

static void print_assumptions(const Config *cfg, const FitFound *found)
{
    if (found->steps == 0) {
        return;
    }
    printf("  measured  ops of %d steps here, medians; steps of one setting differ by +- %.1f %%\n",
           found->steps, 100 * found->spread);
    printf("  predicted tok/s of training steps: the ops that an update calls, by a dry run, times "
           "what each takes\n");
    printf("  assumed   an op that no measured step calls is as fast, by its work, as the nearest "
           "that one does: the share in \"scaled\"\n");
    if (fit_copies(found)) {
        printf("  measured  copies of --offload: %.3g GB/s to the host, %.3g GB/s back, medians\n",
               1e-9 * found->copy_rate[COPY_OUT], 1e-9 * found->copy_rate[COPY_IN]);
        printf(
            "  assumed   copies run beside the ops, and one way beside the other: a pass of a "
            "micro-step, or the update, takes as long as the longest of the three; what it waits "
            "for copies is the share in \"waits\"\n");
    }
    if (cfg->ranks > 1) {
        printf("  assumed   ranks wait for nobody: no communication is in it\n");
    }
    if (cfg->memory_limit > 0) {
        printf("  assumed   the times of this device, whatever the memory limit stands for\n");
    }
}

int fit_refuse(const Config *cfg, const FitFound *found)
{
    const Fit *fit = &found->fit;
    char instead[80] = "";
    if (config_is_set(cfg, "batch") || config_is_set(cfg, "accum")) {
        snprintf(instead, sizeof instead,
                 "give --global-batch %lld in place of --batch and --accum, ",
                 (long long)(found->space.sequences * found->ranks));
    }
    if (fit->smallest < 0) {
        return err_set(ERR_INPUT, "--fit: no setting can be planned; the first: %s",
                       fit->items[0].why);
    }
    const FitCandidate *c = &fit->items[fit->smallest];
    char *settings = fit_settings_text(found, c);
    if (!is_too_large(found, c)) {
        int code = err_set(ERR_MEMORY,
                           "--fit: nothing fits: %s does on the device, but the %.1f MiB that it "
                           "keeps in the host's memory are not free there; take a smaller model or "
                           "--seq, or let --fit-also set more",
                           settings, (double)c->host / MIB);
        free(settings);
        return code;
    }
    char remedy[RUN_REMEDY_SIZE];
    bool any_room = found->limit > found->program;
    run_remedy(found->program, found->limit, remedy);
    int code = err_set(
        ERR_MEMORY,
        "--fit: nothing fits: %s needs the least, %.1f MiB, and %.1f MiB are free; %s%s%s",
        settings, (double)size_sum(c->bytes, found->program) / MIB, (double)found->limit / MIB,
        any_room ? instead : "", remedy, any_room ? ", or let --fit-also set more" : "");
    free(settings);
    return code;
}

static void print_taken(const Config *cfg, const FitFound *found, bool own_data)
{
    static const char *const left_out[] = {"fit", "fit-also", "config", NULL};
    const FitCandidate *c = &found->fit.items[found->fit.best];
    plan_print_given(cfg, own_data, left_out);
    if (found->space.split) {
        printf(" --batch %lld", (long long)c->batch);
    }
    if (found->space.split && cfg->global_batch == 0) {
        printf(" --accum %lld", (long long)fit_accum(&found->space, c));
    }
    for (int i = 0; i < found->space.axis_count; i++) {
        plan_print_option(found->space.axes[i].option->name, fit_value_name(found, c, i));
    }
    printf(" --expected-tok-s %.0f\n", fit_rate(found, c));
}

void fit_warn_if_busy(const FitFound *found)
{
    if (found->spread > RECOMMEND_BUSY) {
        log_warn("the machine is too busy to tell settings apart: steps of one differed by +- %.0f "
                 "%%; run this again when it is idle",
                 100 * found->spread);
    }
}

static cJSON *found_json(const FitFound *found)
{
    cJSON *tree = json_object(), *rows = json_array();
    json_put_text(tree, "model", found->spec.name);
    json_put_text(tree, "device", found->device);
    json_put_text(tree, "dtype", dtype_name(found->dtype));
    json_put_whole(tree, "seq", found->seq);
    json_put_whole(tree, "ranks", found->ranks);
    json_put_whole(tree, "sequences", found->space.sequences * found->ranks);
    if (found->limit < SIZE_MAX) {
        json_put_number(tree, "room_bytes", (double)room_of(found));
    }
    if (fit_copies(found)) {
        json_put_number(tree, "copy_out_bytes_s", found->copy_rate[COPY_OUT]);
        json_put_number(tree, "copy_in_bytes_s", found->copy_rate[COPY_IN]);
    }
    json_put_whole(tree, "steps_measured", found->steps);
    json_put_number(tree, "spread", found->spread);
    for (int n = 0; n < found->fit.count; n++) {
        const FitCandidate *c = &found->fit.items[n];
        cJSON *row = json_object();
        char why[200];
        verdict(found, n, why, sizeof why);
        json_put_whole(row, "batch", c->batch);
        json_put_whole(row, "accum", fit_accum(&found->space, c));
        for (int i = 0; i < found->space.axis_count; i++) {
            json_put_text(row, found->space.axes[i].option->name, fit_value_name(found, c, i));
        }
        if (c->why[0] == '\0') {
            json_put_number(row, "bytes", (double)c->bytes);
        }
        if (c->host > 0) {
            json_put_number(row, "host_bytes", (double)c->host);
        }
        json_put_bool(row, "fits", c->fits);
        json_put_bool(row, "taken", n == found->fit.best);
        if (fit_rate(found, c) > 0) {
            json_put_number(row, "tok_s", fit_rate(found, c));
            json_put_number(row, "scaled", c->time.scaled_s / c->time.seconds);
            if (fit_copies(found)) {
                json_put_number(row, "waits", c->time.copies_s / c->time.seconds);
            }
        }
        json_put_text(row, "why", why);
        json_append(rows, row);
    }
    json_put_item(tree, "settings", rows);
    return tree;
}

int plan_fit(Config *cfg)
{
    bool own_data = cfg->data[0] != '\0';
    FitFound found = {0};
    int code = run_resolve(cfg);
    code = code != 0 ? code : fit_find(cfg, 1, &found);
    if (code == 0 && strcmp(cfg->json, "-") != 0) {
        print_head(cfg, &found);
        print_table(cfg, &found);
        print_assumptions(cfg, &found);
        if (found.fit.best >= 0) {
            print_taken(cfg, &found, own_data);
        }
    }
    if (code == 0 && cfg->json[0] != '\0') {
        code = json_write(cfg->json, found_json(&found));
    }
    if (code == 0) {
        fit_warn_if_busy(&found);
        code = found.fit.best >= 0 ? 0 : fit_refuse(cfg, &found);
    }
    fit_found_free(&found);
    return code;
}
