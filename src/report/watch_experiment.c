#include "report/watch.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "record/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUNS 10000
#define LIST_SHARE 3 /* the list takes at most one part in this many while a run is shown too */

void watch_experiment_open(WatchExperiment *experiment, const char *dir)
{
    *experiment = (WatchExperiment){.dir = mem_strdup(dir), .current = -1};
}

static void forget_runs(WatchExperiment *experiment)
{
    for (int i = 0; i < experiment->count; i++) {
        free(experiment->runs[i].line);
    }
    free(experiment->runs);
    experiment->runs = NULL;
    experiment->count = 0;
}

static void choose(WatchExperiment *experiment, int current, const char *dir)
{
    if (experiment->current >= 0 && (dir == NULL || strcmp(experiment->run.dir, dir) != 0)) {
        watch_close(&experiment->run);
        experiment->current = -1;
    }
    if (dir != NULL && experiment->current < 0) {
        watch_open(&experiment->run, dir);
    }
    experiment->current = dir != NULL ? current : -1;
}

void watch_experiment_close(WatchExperiment *experiment)
{
    choose(experiment, -1, NULL);
    forget_runs(experiment);
    cJSON_Delete(experiment->json);
    free(experiment->dir);
    *experiment = (WatchExperiment){.current = -1};
}

/* Settings but the seed, then the outcome as far as it is known; last what a narrow terminal cuts
 * first, the id. */
static char *describe(const char *dir, const cJSON *entry)
{
    Page page = {0};
    const char *peer = json_text_or(entry, "peer", ""), *reason = json_text_or(entry, "reason", "");
    if (peer[0] != '\0') {
        page_put(&page, "  %s", peer_title(peer));
    }
    const cJSON *setting;
    cJSON_ArrayForEach(setting, json_get(entry, "settings"))
    {
        const char *value = cJSON_GetStringValue(setting);
        if (setting->string != NULL && value != NULL && strcmp(setting->string, "seed") != 0) {
            page_put(&page, "  %s %s", setting->string, value);
        }
    }
    if (json_number(entry, "repeat") > 0) {
        page_put(&page, "  repeat %.0f", json_number(entry, "repeat") + 1);
    }
    char *path = mem_format("%s/%s/" RECORD_RUN, dir, json_text_or(entry, "dir", "")), time[32];
    cJSON *run;
    json_load_optional(path, &run); /* a broken record has nothing to tell */
    double val_loss = json_number(run, "summary.val_loss");
    double loss = isfinite(val_loss) ? val_loss : json_number(run, "summary.train_loss");
    double seconds = json_number(entry, "seconds");
    if (isfinite(loss)) {
        page_put(&page, "  %s %.4f", isfinite(val_loss) ? "validation" : "loss", loss);
    }
    if (isfinite(seconds)) {
        page_put(&page, "  %s", clock_duration(seconds, time));
    }
    if (reason[0] != '\0') {
        page_put(&page, "  %s", reason);
    }
    page_put(&page, "  %s", json_text_or(entry, "id", ""));
    cJSON_Delete(run);
    free(path);
    char *text = mem_strdup(page.text + 2); /* behind the first blanks */
    page_free(&page);
    return text;
}

static void load(WatchExperiment *experiment)
{
    const cJSON *list = json_get(experiment->json, "runs"), *entry;
    int count = cJSON_GetArraySize(list), current = -1;
    count = count < MAX_RUNS ? count : MAX_RUNS;
    experiment->runs = mem_zalloc((size_t)count + 1, sizeof *experiment->runs);
    char *dir = NULL;
    cJSON_ArrayForEach(entry, list)
    {
        int at = experiment->count;
        if (at == count) {
            break;
        }
        experiment->runs[experiment->count++] =
            (WatchedRun){json_text_or(entry, "state", ""), describe(experiment->dir, entry)};
        if (strcmp(experiment->runs[at].state, run_state_name(RUN_RUNNING)) == 0) {
            free(dir);
            dir = mem_format("%s/%s", experiment->dir, json_text_or(entry, "dir", ""));
            current = at;
        }
    }
    choose(experiment, current, dir);
    free(dir);
}

void watch_experiment_poll(WatchExperiment *experiment)
{
    if (watch_reload(&experiment->file, experiment->dir, RECORD_EXPERIMENT, &experiment->json)) {
        forget_runs(experiment);
        load(experiment);
    }
    if (experiment->current >= 0) {
        watch_poll(&experiment->run);
    }
}

static Ink state_ink(const char *state)
{
    if (strcmp(state, "done") == 0 || strcmp(state, "running") == 0) {
        return INK_GREEN;
    }
    if (strcmp(state, "waiting") == 0) {
        return INK_DIM;
    }
    return strcmp(state, "stopped") == 0 ? INK_YELLOW : INK_RED;
}

static void put_header(const WatchExperiment *experiment, WatchText *out)
{
    int counts[RUN_STATE_COUNT] = {0};
    for (int i = 0; i < experiment->count; i++) {
        RunState state;
        if (run_state_find(experiment->runs[i].state, &state)) {
            counts[state]++;
        }
    }
    watch_text_line(out);
    const char *name = json_text_or(experiment->json, "name", "");
    watch_text_put(out, INK_BOLD, "%s ", name[0] != '\0' ? name : "experiment");
    watch_text_put(out, INK_PLAIN, " %d of %d done", counts[RUN_DONE], experiment->count);
    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        const char *word = run_state_name((RunState)state);
        if (counts[state] > 0 && state != RUN_DONE) {
            watch_text_put(out, state_ink(word), ", %d %s", counts[state], word);
        }
    }
    watch_text_put(out, INK_DIM, "  %s", experiment->dir);
}

void watch_experiment_view(const WatchExperiment *experiment, const WatchFlags *flags,
                           WatchText *out)
{
    watch_text_init(out, flags);
    put_header(experiment, out);
    bool shown = experiment->current >= 0;
    int room = flags->height - 1, rows = shown ? room / LIST_SHARE : room - flags->keys;
    rows = rows < experiment->count ? rows : experiment->count;
    /* The current run, or the end of the list, in the middle. */
    int from = (shown ? experiment->current : experiment->count) - rows / 2;
    from = from + rows > experiment->count ? experiment->count - rows : from;
    from = from > 0 ? from : 0;
    for (int i = from; i < from + rows; i++) {
        const WatchedRun *run = &experiment->runs[i];
        watch_text_line(out);
        watch_text_put(out, state_ink(run->state), "%-8s", run->state);
        watch_text_put(out, INK_PLAIN, " %s", run->line);
    }
    if (!shown) {
        watch_view_keys(out);
        return;
    }
    WatchFlags rest = *flags;
    rest.height = room - rows;
    if (rest.height >= 1) {
        WatchText view;
        watch_view(&experiment->run, &rest, &view);
        watch_text_append(out, &view, view.count);
        watch_text_free(&view);
    }
}
