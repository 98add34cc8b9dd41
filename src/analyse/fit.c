#include "analyse/fit.h"

#include "analyse/recommend.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what is searched --- */

/* Every value that may be tried, but the one that leaves the choice open. */
static void add_axis(FitSpace *space, const Config *cfg, const Option *option)
{
    PACER_ASSERT(space->axis_count < FIT_AXES && option->type == OPTION_CHOICE,
                 "--%s cannot be searched", option->name);
    FitAxis *axis = &space->axes[space->axis_count++];
    *axis = (FitAxis){.option = option};
    char *plain = config_value_text(cfg, option);
    for (int i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], "auto") == 0 || !config_fits_value(cfg, option, i)) {
            continue;
        }
        PACER_ASSERT(axis->count < FIT_VALUES, "--%s has too many values", option->name);
        if (strcmp(option->choices[i], plain) == 0) {
            axis->plain = i;
        } else if (config_fit_rounds(option, i)) {
            axis->rounds |= 1u << i;
        }
        axis->values[axis->count++] = i;
    }
    free(plain);
}

/* batches: 1, and what divides an update behind it, to all of it at once. */
static int add_batches(FitSpace *space, const Config *cfg)
{
    space->split = config_fits_batch(cfg);
    space->sequences = cfg->batch * cfg->accum;
    if (space->split && cfg->global_batch > 0) {
        if (cfg->global_batch % cfg->ranks != 0) {
            return err_set(ERR_INPUT, "--global-batch %lld: not a multiple of --ranks %lld",
                           (long long)cfg->global_batch, (long long)cfg->ranks);
        }
        space->sequences = cfg->global_batch / cfg->ranks;
    }
    if (!space->split) {
        space->batches[space->batch_count++] = cfg->batch;
        return 0;
    }
    double most = config_find("batch")->max, most_accum = config_find("accum")->max;
    for (int64_t batch = 1; batch > 0 && space->batch_count < FIT_BATCHES;
         batch = recommend_next_batch(batch, space->sequences)) {
        if ((double)batch <= most && (double)(space->sequences / batch) <= most_accum) {
            space->batches[space->batch_count++] = batch;
        }
    }
    if (space->batch_count == 0) {
        return err_set(ERR_INPUT,
                       "--fit: %lld sequences of an update on one rank cannot be split into up to "
                       "%.0f micro-steps of up to %.0f each; give another --global-batch",
                       (long long)space->sequences, most_accum, most);
    }
    return 0;
}

int fit_space(const Config *cfg, FitSpace *space)
{
    *space = (FitSpace){0};
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (config_fits(cfg, option)) {
            add_axis(space, cfg, option);
        }
    }
    return add_batches(space, cfg);
}

void fit_leave_out(FitSpace *space, const char *option)
{
    for (int i = 0; i < space->axis_count; i++) {
        if (strcmp(space->axes[i].option->name, option) == 0) {
            memmove(&space->axes[i], &space->axes[i + 1],
                    (size_t)(--space->axis_count - i) * sizeof *space->axes);
            return;
        }
    }
}

int64_t fit_accum(const FitSpace *space, const FitCandidate *candidate)
{
    return space->sequences / candidate->batch;
}

int fit_settings(const Config *cfg, const FitSpace *space, const FitCandidate *c, Config *out)
{
    config_copy(out, cfg);
    int code = 0;
    for (int i = 0; code == 0 && i < space->axis_count; i++) {
        const Option *option = space->axes[i].option;
        code = config_set(out, option->name, option->choices[c->value[i]]);
    }
    if (code == 0 && space->split) {
        code = config_set_whole(out, "batch", c->batch);
        if (code == 0 && cfg->global_batch == 0) { /* else accum follows */
            code = config_set_whole(out, "accum", fit_accum(space, c));
        }
    }
    return code != 0 ? code : config_check(out);
}

/* --- the candidates --- */

/* Every combination, by batch. */
static void enumerate(const FitSpace *space, Fit *fit)
{
    int each = 1;
    for (int i = 0; i < space->axis_count; i++) {
        each *= space->axes[i].count;
    }
    fit->count = each * space->batch_count;
    fit->items = mem_zalloc((size_t)fit->count, sizeof *fit->items);
    for (int n = 0; n < fit->count; n++) {
        FitCandidate *c = &fit->items[n];
        c->batch = space->batches[n / each];
        for (int i = 0, rest = n % each; i < space->axis_count; i++) {
            const FitAxis *axis = &space->axes[i];
            c->value[i] = axis->values[rest % axis->count];
            rest /= axis->count;
        }
    }
}

static int plan_all(const FitMachine *machine, Fit *fit)
{
    int code = 0;
    for (int i = 0; code == 0 && i < fit->count; i++) {
        code = machine->plan(machine->user, &fit->items[i]);
    }
    return code;
}

/* --- what their ops take --- */

static int unknown_kinds(const OpTimes *times, const FitCandidate *c)
{
    int unknown = 0;
    for (int i = 0; i < c->uses.count; i++) {
        unknown += op_times_find(times, &c->uses.items[i].kind) == NULL;
    }
    return unknown;
}

/* Whether a step of these has less to compute, or as much and less to move. */
static bool is_less(const OpUses *a, const OpUses *b)
{
    double work[2][2] = {{0}};
    for (int i = 0; i < a->count; i++) {
        work[0][0] += op_use_calls(&a->items[i]) * a->items[i].kind.flops;
        work[0][1] += op_use_calls(&a->items[i]) * a->items[i].kind.bytes;
    }
    for (int i = 0; i < b->count; i++) {
        work[1][0] += op_use_calls(&b->items[i]) * b->items[i].kind.flops;
        work[1][1] += op_use_calls(&b->items[i]) * b->items[i].kind.bytes;
    }
    return work[0][0] != work[1][0] ? work[0][0] < work[1][0] : work[0][1] < work[1][1];
}

/* What to measure next of this batch: first the one with least to do, which is the likeliest to be
 * taken and is then known from its own steps; then what teaches most. What copies comes last: its
 * steps tell less of the whole. NULL: all is known. */
static const FitCandidate *next_lesson(const Fit *fit, int64_t batch, bool first,
                                       const OpTimes *times)
{
    const FitCandidate *best = NULL;
    int most = 0;
    for (const FitCandidate *c = fit->items; c < fit->items + fit->count; c++) {
        int unknown = c->fits && c->batch == batch ? unknown_kinds(times, c) : 0;
        int copies =
            unknown == 0 || best == NULL ? 0 : op_uses_copy(&c->uses) - op_uses_copy(&best->uses);
        bool better = best == NULL || copies < 0 ||
                      (copies == 0 && (first ? is_less(&c->uses, &best->uses) : unknown > most));
        if (unknown > 0 && better) {
            best = c;
            most = unknown;
        }
    }
    return best;
}

/* Batches from the smallest on: what takes how long is then foreseen. */
static int learn_all(const FitSpace *space, const FitMachine *machine, const Fit *fit,
                     OpTimes *times)
{
    int code = 0;
    for (int i = 0; i < space->batch_count; i++) {
        const FitCandidate *c;
        bool first = true;
        while (code == 0 && (c = next_lesson(fit, space->batches[i], first, times)) != NULL) {
            code = machine->learn(machine->user, c, times);
            first = false;
            for (int k = 0; k < c->uses.count; k++) { /* is not asked for again */
                const OpKind *kind = &c->uses.items[k].kind;
                if (op_times_find(times, kind) == NULL) {
                    op_times_put(times, *kind, NAN);
                }
            }
        }
    }
    return code;
}

/* --- the choice --- */

int fit_changes(const FitSpace *space, const FitCandidate *c)
{
    int count = 0;
    for (int i = 0; i < space->axis_count; i++) {
        count += (space->axes[i].rounds >> c->value[i] & 1) != 0;
    }
    return count;
}

/* Of as many changes, what copies comes behind. */
static int price(const FitSpace *space, const FitCandidate *c)
{
    return 2 * fit_changes(space, c) + op_uses_copy(&c->uses);
}

static int compare_sizes(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static int by_rank(const void *left, const void *right)
{
    const FitCandidate *a = left, *b = right;
    int state = (b->fits - a->fits) * 2 + ((a->why[0] != '\0') - (b->why[0] != '\0'));
    if (state != 0) {
        return state;
    }
    double apart = a->time.seconds - b->time.seconds;
    return apart != 0 ? (apart > 0) - (apart < 0) : compare_sizes(a->bytes, b->bytes);
}

/* The fastest, the candidates being in order; of those as fast but for FIT_APART the one that
 * changes least. */
static int choose(const FitSpace *space, const Fit *fit)
{
    int best = fit->count > 0 && fit->items[0].fits ? 0 : -1;
    for (int i = 0; best >= 0 && i < fit->count && fit->items[i].fits; i++) {
        const FitCandidate *c = &fit->items[i];
        if (c->time.seconds <= fit->items[0].time.seconds * (1 + FIT_APART) &&
            price(space, c) < price(space, &fit->items[best])) {
            best = i;
        }
    }
    return best;
}

static int find_smallest(const Fit *fit)
{
    int smallest = -1;
    for (int i = 0; i < fit->count; i++) {
        const FitCandidate *c = &fit->items[i];
        if (c->why[0] == '\0' && (smallest < 0 || c->bytes < fit->items[smallest].bytes)) {
            smallest = i;
        }
    }
    return smallest;
}

int fit_search(const FitSpace *space, const FitMachine *machine, Fit *fit)
{
    OpTimes times = {0};
    *fit = (Fit){.best = -1, .smallest = -1};
    enumerate(space, fit);
    int code = plan_all(machine, fit);
    bool any = false, copies = false;
    for (int i = 0; code == 0 && i < fit->count; i++) {
        any = any || fit->items[i].fits;
        copies = copies || op_uses_copy(&fit->items[i].uses);
    }
    code = code == 0 && any && copies ? machine->copies(machine->user, &times) : code;
    code = code == 0 && any ? learn_all(space, machine, fit, &times) : code;
    for (int i = 0; code == 0 && any && i < fit->count; i++) {
        fit->items[i].time = op_times_sum(&times, &fit->items[i].uses);
    }
    if (code == 0) {
        qsort(fit->items, (size_t)fit->count, sizeof *fit->items, by_rank);
        fit->best = choose(space, fit);
        fit->smallest = find_smallest(fit);
    }
    op_times_free(&times);
    return code;
}

void fit_free(Fit *fit)
{
    for (int i = 0; i < fit->count; i++) {
        op_uses_free(&fit->items[i].uses);
    }
    free(fit->items);
    *fit = (Fit){0};
}
