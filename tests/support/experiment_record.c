#include "support/experiment_record.h"

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS_PER_STEP 100.0
#define FIRST_LOSS 9.5

static cJSON *parse(const char *text)
{
    cJSON *tree = cJSON_Parse(text);
    assert_non_null(tree);
    return tree;
}

/* Moves the members of `more` into object, in place of those of the same name. */
static void merge(cJSON *object, const char *more)
{
    cJSON *tree = more != NULL ? parse(more) : NULL;
    while (tree != NULL && tree->child != NULL) {
        cJSON *item = cJSON_DetachItemViaPointer(tree, tree->child);
        cJSON_DeleteItemFromObjectCaseSensitive(object, item->string);
        cJSON_AddItemToObject(object, item->string, item);
    }
    cJSON_Delete(tree);
}

void planted_begin(PlantedExperiment *experiment, const char *more)
{
    experiment->dir = data_files_folder();
    experiment->json = parse("{\"format\": 1, \"name\": \"planted\", \"runs\": []}");
    merge(experiment->json, more);
}

static cJSON *times(double seconds, double count)
{
    cJSON *object = json_object();
    json_put(object, "total_s", value_of(seconds));
    json_put(object, "exclusive_s", value_of(seconds));
    json_put(object, "count", value_of(count));
    json_put(object, "mean_s", value_of(seconds / count));
    return object;
}

static cJSON *timers_of(const PlantedRun *run, double busy)
{
    static const struct {
        const char *name;
        double share; /* of the busy time; binary fractions, so that sums are exact */
    } parts[] = {{"data_load", 0.0625}, {"data_move", 0.0625}, {"forward", 0.25}, {"loss", 0.0625},
                 {"backward", 0.5},     {"optimizer", 0.0625}, {"launch", 0},     {"wait", 0}};
    cJSON *timers = json_object();
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        json_put_item(timers, parts[i].name, times(parts[i].share * busy, 10));
    }
    json_put_item(timers, "comm_exposed", times(run->exposed_s, 10));
    json_put_item(timers, "comm_hidden", times(run->hidden_s, 10));
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItem(timers, "comm_hidden"),
                                           "exclusive_s", cJSON_CreateNumber(0));
    return timers;
}

static void write_rank(const PlantedRun *run, const char *folder, int rank, int ranks)
{
    double training = run->rank_s[rank] > 0 ? run->rank_s[rank] : run->training_s;
    double busy = run->busy_s[rank] > 0 ? run->busy_s[rank] : 0.9 * training;
    cJSON *file = json_object(), *spans = json_object(), *memory = json_object();
    char name[32];
    json_put_whole(file, "rank", rank);
    json_put_whole(file, "ranks", ranks);
    snprintf(name, sizeof name, "node%d", rank / 2);
    json_put_text(file, "host", name);
    snprintf(name, sizeof name, "cuda:%d", rank % 2);
    json_put_text(file, "device", name);
    /* The mean over ranks is that of the first line. */
    json_put(file, "first_loss", value_of(FIRST_LOSS + 0.25 * (2 * rank + 1 - ranks)));
    json_put_item(file, "timers", timers_of(run, busy));
    json_put_item(spans, "total", times(training + 2, 1));
    json_put_item(spans, "worker", times(training + 1, 1));
    json_put_item(spans, "epoch", times(training + 1, 2));
    json_put_item(spans, "training", times(training, 10));
    json_put_item(file, "spans", spans);
    json_put(memory, "peak_bytes", value_of(1000 + rank));
    json_put_item(memory, "categories", parse("[{\"kind\": \"ffn\", \"peak_bytes\": 700}]"));
    json_put_item(file, "memory", memory);
    if (run->gpu_bytes > 0) {
        cJSON *gpu = json_object();
        json_put(gpu, "total_bytes", value_of(run->gpu_bytes));
        json_put_item(file, "gpu", gpu);
    }
    snprintf(name, sizeof name, "ranks/%d.json", rank);
    char *path = io_join(folder, name);
    assert_int_equal(json_save(path, file), 0);
    free(path);
    cJSON_Delete(file);
}

static cJSON *checks_of(const PlantedRun *run)
{
    cJSON *checks = parse("[{\"name\": \"parts\", \"verdict\": \"pass\"}, "
                          "{\"name\": \"step_spread\", \"verdict\": \"warn\"}]");
    if (run->failed_check != NULL) {
        cJSON *check = parse("{\"verdict\": \"fail\", \"rule\": \"a rule\", \"expected\": 10, "
                             "\"found\": 11}");
        json_put_text(check, "name", run->failed_check);
        cJSON_AddItemToArray(checks, check);
    }
    return checks;
}

static void write_run(const PlantedRun *run, const char *folder, int ranks)
{
    cJSON *file = parse("{\"schema\": 1, \"id\": \"1\", \"status\": \"done\", \"model\": "
                        "{\"parameters\": 1000, \"context\": 16}, "
                        "\"machine\": {\"memory_bytes\": 1073741824}}");
    cJSON *config = parse("{\"batch\": 8, \"accum\": 1, \"seq\": 16, \"lr\": 0.0003, "
                          "\"global-batch\": 0, \"memory-limit\": 0, \"ddp\": \"overlap\", "
                          "\"oversubscribe\": false}");
    cJSON *summary = json_object();
    if (run->gpu_bytes != 0) {
        json_put_text(cJSON_GetObjectItem(file, "machine"), "device", "a GPU");
    }
    if (run->peer != NULL) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, "ddp"); /* pacer's own strategies */
    }
    merge(config, run->config);
    json_put_whole(config, "ranks", ranks);
    /* Settings are options of the run; a number is recorded as one. */
    cJSON *settings = run->settings != NULL ? parse(run->settings) : NULL;
    for (const cJSON *item = settings != NULL ? settings->child : NULL; item; item = item->next) {
        char *end;
        double number = strtod(item->valuestring, &end);
        cJSON_DeleteItemFromObjectCaseSensitive(config, item->string);
        cJSON_AddItemToObject(config, item->string,
                              *end == '\0' ? cJSON_CreateNumber(number)
                                           : cJSON_CreateString(item->valuestring));
    }
    cJSON_Delete(settings);
    json_put_item(file, "config", config);
    if (run->tokens > 0) {
        json_put(summary, "steps", value_of(run->tokens / TOKENS_PER_STEP));
        json_put(summary, "tokens", value_of(run->tokens));
        json_put(summary, "tok_s", value_of(run->tokens / run->training_s));
        json_put(summary, "train_s", value_of(run->training_s));
        json_put(summary, "step_p50_ms", run->p50_ms > 0 ? value_of(run->p50_ms) : (Value){0});
        json_put(summary, "planned_bytes",
                 run->planned_bytes > 0 ? value_of(run->planned_bytes) : (Value){0});
        json_put(summary, "peak_bytes",
                 run->peak_bytes > 0 ? value_of(run->peak_bytes) : (Value){0});
        json_put(summary, "train_loss",
                 run->train_loss > 0 ? value_of(run->train_loss) : (Value){0});
        json_put(summary, "val_loss", run->val_loss > 0 ? value_of(run->val_loss) : (Value){0});
        json_put_item(summary, "checks", checks_of(run));
        json_put_item(file, "summary", summary);
    } else {
        cJSON_Delete(summary);
    }
    char *path = io_join(folder, "run.json");
    assert_int_equal(json_save(path, file), 0);
    free(path);
    cJSON_Delete(file);
}

static void write_lines(const PlantedRun *run, const char *folder)
{
    char *path = io_join(folder, "metrics.jsonl");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    double step = 0, seconds = 0;
    fprintf(file, "{\"step\":1,\"tokens\":%g,\"loss\":%g,\"ms\":0}\n", TOKENS_PER_STEP, FIRST_LOSS);
    for (int i = 0; i < PLANTED_LINES && run->lines[i].tokens > 0; i++) {
        double next = run->lines[i].tokens / TOKENS_PER_STEP;
        fprintf(file, "{\"step\":%g,\"tokens\":%.15g,\"loss\":5,\"ms\":%.17g}\n", next,
                run->lines[i].tokens,
                1e3 * (run->lines[i].seconds - seconds) / (next - (step > 0 ? step : 1)));
        fprintf(file, "{\"step\":%g,\"val_loss\":%g}\n", next, run->lines[i].loss);
        step = next;
        seconds = run->lines[i].seconds;
    }
    fclose(file);
    free(path);
}

void planted_run(PlantedExperiment *experiment, const PlantedRun *run)
{
    cJSON *entry = json_object(), *runs = cJSON_GetObjectItem(experiment->json, "runs");
    int ranks = run->ranks > 0 ? run->ranks : 1;
    char *dir = mem_format("runs/%d-%d", run->configuration, run->repeat),
         *id = mem_strdup(dir + 5);
    char *folder = io_join(experiment->dir, dir), *inner = io_join(folder, "ranks");
    json_put_text(entry, "id", id);
    json_put_text(entry, "dir", dir);
    json_put_whole(entry, "configuration", run->configuration);
    json_put_whole(entry, "repeat", run->repeat);
    json_put_item(entry, "settings", parse(run->settings != NULL ? run->settings : "{}"));
    json_put_text(entry, "state", run->state != NULL ? run->state : "done");
    json_put_text(entry, "reason", run->reason != NULL ? run->reason : "");
    json_put_text(entry, "peer", run->peer);
    json_put_or_null(entry, "lr_factor", run->probed ? value_of(run->lr_factor) : (Value){0});
    json_put_or_null(entry, "planned_bytes",
                     run->planned_bytes > 0 ? value_of(run->planned_bytes) : (Value){0});
    cJSON_AddItemToArray(runs, entry);
    if (!run->without_files) {
        assert_int_equal(io_make_folders(inner), 0);
        write_run(run, folder, ranks);
        write_lines(run, folder);
        for (int rank = 0; rank < ranks && run->training_s > 0; rank++) {
            write_rank(run, folder, rank, ranks);
        }
    }
    free(inner);
    free(folder);
    free(id);
    free(dir);
}

void planted_save(const PlantedExperiment *experiment)
{
    char *path = io_join(experiment->dir, "experiment.json");
    assert_int_equal(json_save(path, experiment->json), 0);
    free(path);
}

void planted_read(const PlantedExperiment *experiment, Results *results)
{
    planted_save(experiment);
    must(results_read(results, experiment->dir));
}

void planted_end(PlantedExperiment *experiment)
{
    cJSON_Delete(experiment->json);
    data_files_remove(experiment->dir);
}
