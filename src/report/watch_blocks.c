#include "report/watch_blocks.h"

#include "base/clock.h"
#include "base/mem.h"
#include "report/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PHASES 32
#define LEAST_SHARE 0.005 /* of a phase that is named */

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const char *text_at(const cJSON *object, const char *name, const char *otherwise)
{
    const char *text = cJSON_GetStringValue(member(object, name));
    return text != NULL ? text : otherwise;
}

#define BYTES_SIZE 24
static const char *bytes_text(double bytes, char text[BYTES_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1023.95 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, BYTES_SIZE, "%.*f %s", unit > 0, bytes, units[unit]);
    return text;
}

/* --- message --- */

static void say_how_to_go_on(const WatchRun *run, WatchText *out)
{
    char *command = watch_resume_command(run);
    char *sentence =
        run->saved_step >= 0
            ? mem_format("To go on from the checkpoint of step %lld: %s",
                         (long long)run->saved_step,
                         command != NULL ? command : "pacer train with the same options")
            : mem_format("It has no checkpoint; the same command begins anew: %s",
                         command != NULL ? command : "pacer train with the same options");
    watch_text_wrap(out, INK_PLAIN, sentence);
    free(sentence);
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

static char *state_sentence(const WatchRun *run)
{
    const char *host = text_at(member(run->run, "machine"), "host", "an unknown host");
    const char *why = text_at(run->run, "message", NULL);
    char *sign = last_sign(run), *sentence = NULL;
    char time[CLOCK_DURATION_SIZE];
    switch (run->state) {
    case WATCH_WAITING:
        sentence = mem_format("Waiting for %s/run.json: the run has not begun", run->dir);
        break;
    case WATCH_DEAD:
        sentence = mem_format("Dead: process %.0f on %s is gone and did not end its record; %s.",
                              results_number(run->run, "process.pid"), host, sign);
        break;
    case WATCH_SILENT:
        sentence = mem_format("Silent for %s: its process on %s is not to be seen from here, so it "
                              "may be dead or slow; %s.",
                              clock_duration(run->silent, time), host, sign);
        break;
    case WATCH_RUNNING:
        sentence = run->last.step > 0 ? NULL : mem_strdup("No step is done yet.");
        break;
    default:
        sentence = why != NULL ? mem_strdup(why) : NULL;
    }
    free(sign);
    return sentence;
}

void watch_block_message(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    (void)flags;
    char *sentence = state_sentence(run);
    if (sentence != NULL) {
        watch_text_wrap(out, watch_state_ink(run->state), sentence);
    }
    free(sentence);
    if (run->state == WATCH_DEAD || run->state == WATCH_STOPPED ||
        (run->state == WATCH_FAILED && run->saved_step >= 0)) {
        say_how_to_go_on(run, out);
    }
    if (run->not_finite > 0) {
        char *warning = mem_format("The loss was not a number in %lld line%s.",
                                   (long long)run->not_finite, run->not_finite == 1 ? "" : "s");
        watch_text_wrap(out, INK_RED, warning);
        free(warning);
    }
    if (run->odd_lines > 0) {
        char *warning = mem_format("%lld line%s of metrics.jsonl could not be read.",
                                   (long long)run->odd_lines, run->odd_lines == 1 ? "" : "s");
        watch_text_wrap(out, INK_YELLOW, warning);
        free(warning);
    }
}

/* --- numbers --- */

void watch_block_loss(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    if (run->recent == 0) {
        return;
    }
    size_t points = run->curve.train_count;
    double *values = mem_zalloc(points + 1, sizeof *values);
    watch_smooth(run, flags->plot.smoothing, values);
    watch_text_line(out);
    watch_text_item(out, INK_BOLD, "loss %.4f", run->last.loss);
    if (points > 0 && flags->plot.smoothing > 0) {
        watch_text_item(out, INK_CYAN, "smoothed %.4f", values[points - 1]);
    }
    if (run->val_step > 0) {
        watch_text_item(out, INK_YELLOW, "validation %.4f at step %lld", run->val_loss,
                        (long long)run->val_step);
    }
    if (run->best_val_step > 0) {
        watch_text_item(out, INK_YELLOW, "best %.4f at step %lld", run->best_val_loss,
                        (long long)run->best_val_step);
    }
    watch_text_item(out, INK_PLAIN, "norm %.3g", run->last.grad_norm);
    watch_text_item(out, INK_PLAIN, "lr %.2e", run->last.lr);
    free(values);
}

void watch_block_speed(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    (void)flags;
    if (run->recent == 0) {
        return;
    }
    char count[WATCH_COUNT_SIZE];
    double tok_s = results_number(run->run, "summary.tok_s"), ms = watch_median_ms(run);
    watch_text_line(out);
    watch_text_item(out, INK_BOLD, "%s tok/s", watch_count(run->last.tok_s, count));
    watch_text_item(out, INK_PLAIN, "median %s", watch_count(watch_median_tok_s(run), count));
    if (isfinite(tok_s)) {
        watch_text_item(out, INK_PLAIN, "in all %s", watch_count(tok_s, count));
    }
    watch_text_item(out, INK_PLAIN, "%.4g ms/step", run->last.ms);
    watch_text_item(out, INK_PLAIN, "median %.4g ms", ms);
    double ceiling = results_number(run->run, "machine.device_matmul_gflops");
    ceiling = ceiling > 0 ? ceiling : results_number(run->run, "machine.sgemm_gflops");
    double flops = results_number(run->run, "model.flops_update");
    double measured = results_number(run->run, "summary.mfu_measured");
    double peak = results_number(run->run, "summary.mfu_peak");
    measured = isfinite(measured) ? measured : flops / (1e-3 * ms) / (1e9 * ceiling);
    if (isfinite(measured)) {
        watch_text_item(out, INK_PLAIN, "MFU %.1f %% of the measured ceiling", 100 * measured);
    }
    if (isfinite(peak)) {
        watch_text_item(out, INK_PLAIN, "%.1f %% of the peak", 100 * peak);
    }
}

/* --- memory --- */

void watch_block_memory(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    (void)flags;
    char text[BYTES_SIZE];
    double planned = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, member(run->run, "memory_plan"))
    {
        double bytes = results_number(row, "bytes");
        planned += bytes > 0 ? bytes : 0;
    }
    double peak = results_number(run->run, "summary.peak_bytes");
    double held = results_number(run->run, "summary.reserved_bytes");
    if (planned <= 0) {
        return;
    }
    watch_text_line(out);
    watch_text_item(out, INK_BOLD, "memory");
    watch_text_item(out, INK_PLAIN, "planned %s", bytes_text(planned, text));
    if (isfinite(peak)) {
        watch_text_item(out, INK_PLAIN, "peak %s", bytes_text(peak, text));
    }
    if (isfinite(held)) {
        watch_text_item(out, INK_PLAIN, "held %s", bytes_text(held, text));
    }
    if (run->resident_now > 0) {
        watch_text_item(out, INK_PLAIN, "process %s", bytes_text((double)run->resident_now, text));
        watch_text_item(out, INK_PLAIN, "at most %s", bytes_text((double)run->resident_most, text));
    }
    cJSON_ArrayForEach(row, member(run->run, "memory_plan"))
    {
        double bytes = results_number(row, "bytes");
        if (bytes >= 0.05 * planned) {
            watch_text_item(out, INK_DIM, "%s %s", text_at(row, "kind", "?"),
                            bytes_text(bytes, text));
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
        int end = (int)lround(sum / all * out->width);
        char letter[2] = {phases[i].name[0] > ' ' && phases[i].name[0] < 127 ? phases[i].name[0]
                                                                             : '?'};
        watch_text_glyph(out, phase_ink(i), out->colour ? "█" : letter,
                         out->colour ? '#' : letter[0], end - at);
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

void watch_block_phases(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    (void)flags;
    Phase phases[MAX_PHASES];
    int count = 0;
    double all = 0, other = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, member(member(run->run, "summary"), "phases"))
    {
        double seconds = results_number(item, "exclusive_s");
        if (seconds > 0 && count < MAX_PHASES && item->string != NULL) {
            phases[count++] = (Phase){item->string, seconds};
            all += seconds;
        }
    }
    if (count == 0) {
        if (run->state == WATCH_RUNNING && run->last.step > 0) {
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

void watch_block_checks(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    (void)flags;
    const cJSON *checks = member(member(run->run, "summary"), "checks"), *check;
    int pass = 0, warn = 0, fail = 0;
    cJSON_ArrayForEach(check, checks)
    {
        const char *verdict = text_at(check, "verdict", "");
        pass += strcmp(verdict, "pass") == 0;
        warn += strcmp(verdict, "warn") == 0;
        fail += strcmp(verdict, "fail") == 0;
    }
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
        const char *verdict = text_at(check, "verdict", "");
        if (strcmp(verdict, "warn") == 0 || strcmp(verdict, "fail") == 0) {
            watch_text_line(out);
            watch_text_put(out, verdict[0] == 'f' ? INK_RED : INK_YELLOW, "%s %s", verdict,
                           text_at(check, "name", "?"));
            const char *subject = text_at(check, "subject", "");
            watch_text_put(out, INK_PLAIN, "%s%s: expected %.6g, found %.6g (%s)",
                           subject[0] != '\0' ? " " : "", subject,
                           results_number(check, "expected"), results_number(check, "found"),
                           text_at(check, "rule", ""));
        }
    }
}

void watch_block_ranks(const WatchRun *run, const WatchFlags *flags, WatchText *out)
{
    (void)flags;
    for (int i = 0; run->rank_count > 1 && i < run->rank_count; i++) {
        const cJSON *rank = run->ranks[i];
        char peak[BYTES_SIZE], time[CLOCK_DURATION_SIZE];
        watch_text_line(out);
        watch_text_put(out, INK_PLAIN, "rank %.0f  %s %s", results_number(rank, "rank"),
                       text_at(rank, "host", "?"), text_at(rank, "device", "?"));
        watch_text_put(out, INK_DIM, "  peak %s",
                       bytes_text(results_number(rank, "memory.peak_bytes"), peak));
        watch_text_put(out, INK_DIM, "  training %s",
                       clock_duration(results_number(rank, "spans.training.total_s"), time));
        double waited = results_number(rank, "timers.comm_exposed.exclusive_s");
        watch_text_put(out, INK_DIM, "  waiting for others %s", clock_duration(waited, time));
    }
}
