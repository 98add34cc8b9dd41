#include "support/run_record.h"
#include "support/says.h"

#include "base/io.h"
#include "base/mem.h"
#include "record/checks.h"
#include "record/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS_PER_RANK (4 * 2 * 16)
#define STEP_MS 80.0

static void spend(TimerReport *report, Phase phase, double seconds, int64_t count)
{
    double mean = seconds / (double)count;
    report->phases[phase] = (PhaseReport){.total_s = seconds,
                                          .exclusive_s = seconds,
                                          .count = count,
                                          .mean_s = mean,
                                          .p50_s = mean,
                                          .p95_s = mean,
                                          .p99_s = mean,
                                          .max_s = 1.25 * mean};
}

static TimerReport make_report(void)
{
    TimerReport report = {.wall_s = 10, .unattributed_s = 0.1};
    spend(&report, PHASE_INIT, 1, 1);
    spend(&report, PHASE_DATA_LOAD, 0.5, 2 * RUN_RECORD_STEPS);
    spend(&report, PHASE_FORWARD, 2.5, 2 * RUN_RECORD_STEPS);
    spend(&report, PHASE_BACKWARD, 4, 2 * RUN_RECORD_STEPS);
    spend(&report, PHASE_COMM_EXPOSED, 0.5, RUN_RECORD_STEPS);
    spend(&report, PHASE_OPTIMIZER, 0.5, RUN_RECORD_STEPS);
    spend(&report, PHASE_EVAL, 0.5, 2);
    spend(&report, PHASE_CHECKPOINT, 0.4, 1);
    return report;
}

static void write_rank(const char *dir, int rank, int ranks, const TimerReport *report)
{
    char device[24], uuid[32];
    snprintf(device, sizeof device, "cuda:%d", rank);
    snprintf(uuid, sizeof uuid, "\"GPU-%04d\"", rank);
    cJSON *gpu = cJSON_Parse("{\"readings\": 9, \"throttled_share\": 0, \"throttle\": \"\", "
                             "\"used_bytes\": {\"min\": 900, \"mean\": 900, \"max\": 900}, "
                             "\"total_bytes\": 2000, \"other_processes\": 0}");
    RecordMemory categories[] = {{"parameters", 400, 400}, {"scratch", 600, 600}};
    RecordRank one = {.rank = rank,
                      .ranks = ranks,
                      .host = rank % 2 == 0 ? "node0" : "node1",
                      .device = device,
                      .timers = report,
                      .peak_bytes = value_of(1000),
                      .allocated_bytes = value_of(1000),
                      .planned_bytes = value_of(1000),
                      .categories = categories,
                      .category_count = 2,
                      .gpu = gpu};
    must(record_rank(dir, &one));
    cJSON_Delete(gpu);
    char *file = mem_format("ranks/%d.json", rank);
    run_record_edit(dir, file, "uuid", uuid);
    free(file);
}

static void write_lines(Record *record, int64_t per_step)
{
    for (int64_t step = 1; step <= RUN_RECORD_STEPS; step += step == 1 ? 9 : 10) {
        RecordStep line = {.step = step,
                           .tokens = step * per_step,
                           .loss = value_of(9.2 / (double)step),
                           .lr = value_of(3e-4),
                           .grad_norm = value_of(1),
                           .tok_s = value_of((double)per_step / (1e-3 * STEP_MS)),
                           .ms = value_of(STEP_MS)};
        must(record_step(record, &line));
        if (step % 50 == 0) {
            must(record_eval(record, step, 9.0 / (double)step));
        }
    }
}

void run_record_write(const char *dir, int ranks)
{
    static const RecordMemory plan[] = {
        {"parameters", 400, 0}, {"scratch", 600, 0}, {"loader", 77, 0}};
    int64_t per_step = (int64_t)TOKENS_PER_RANK * ranks;
    double tokens = (double)(RUN_RECORD_STEPS * per_step), train_s = 1e-3 * STEP_MS * 100;
    char *config_text = mem_format("{\"batch\": 4, \"accum\": 2, \"seq\": 16, \"vocab\": 10000, "
                                   "\"ranks\": %d, \"context\": 16}",
                                   ranks);
    cJSON *config = cJSON_Parse(config_text), *machine = cJSON_Parse("{\"sgemm_gflops\": 100}");
    RecordInfo info = {.id = "1a2b",
                       .spec = spec_find("tiny"),
                       .parameters = 100,
                       .config = config,
                       .machine = machine,
                       .plan = plan,
                       .plan_rows = 3};
    Record *record;
    must(record_open(dir, &info, -1, &record));
    write_lines(record, per_step);
    TimerReport report = make_report();
    Summary summary = {.steps = value_of(RUN_RECORD_STEPS),
                       .tokens = value_of(tokens),
                       .tok_s = value_of(tokens / train_s),
                       .wall_s = value_of(10),
                       .train_s = value_of(train_s),
                       .val_s = value_of(0.5),
                       .init_s = value_of(1),
                       .train_loss = value_of(9.2 / RUN_RECORD_STEPS),
                       .val_loss = value_of(9.0 / RUN_RECORD_STEPS),
                       .best_val_loss = value_of(9.0 / RUN_RECORD_STEPS),
                       .mfu_peak = value_of(0.3),
                       .mfu_measured = value_of(0.5),
                       .peak_bytes = value_of(1000),
                       .allocated_bytes = value_of(1000),
                       .reserved_bytes = value_of(5000),
                       .planned_bytes = value_of(1000),
                       .step_p50_ms = value_of(STEP_MS),
                       .step_p95_ms = value_of(1.1 * STEP_MS),
                       .step_max_ms = value_of(2 * STEP_MS),
                       .timer_overhead = value_of(0.001),
                       .phases = &report};
    CheckInput input = {.batch = 4,
                        .accum = 2,
                        .seq = 16,
                        .ranks = ranks,
                        .vocab = 10000,
                        .first_loss = value_of(9.2),
                        .timed_tokens = value_of(tokens),
                        .plan_bytes = value_of(1000),
                        .complete = true};
    Checks checks;
    checks_run(&summary, &input, &checks);
    must(record_save(record, RUN_DONE, NULL, summary_json(&summary, checks_json(&checks))));
    record_close(record);
    for (int rank = 0; rank < ranks; rank++) {
        write_rank(dir, rank, ranks, &report);
    }
    /* mfu_measured 0.5 of 100 GFLOP/s for 80 ms */
    run_record_edit(dir, "run.json", "model.flops_update", "4e9");
    cJSON_Delete(config);
    cJSON_Delete(machine);
    free(config_text);
}

static cJSON *child(cJSON *item, const char *name)
{
    return cJSON_IsArray(item) ? cJSON_GetArrayItem(item, atoi(name))
                               : cJSON_GetObjectItemCaseSensitive(item, name);
}

/* Replaces what path names in tree. */
static void put(cJSON *tree, const char *path, const char *json)
{
    char *names = mem_strdup(path), *rest = names, *name = strsep(&rest, ".");
    cJSON *item = tree;
    while (rest != NULL && item != NULL) {
        item = child(item, name);
        name = strsep(&rest, ".");
    }
    if (item == NULL || (json == NULL && child(item, name) == NULL)) {
        fail_msg("no \"%s\" in the record", path);
    }
    cJSON *old = cJSON_DetachItemViaPointer(item, child(item, name));
    cJSON_Delete(old);
    if (json != NULL) {
        cJSON *fresh = cJSON_Parse(json);
        assert_non_null(fresh);
        if (cJSON_IsArray(item)) {
            cJSON_InsertItemInArray(item, atoi(name), fresh);
        } else {
            cJSON_AddItemToObject(item, name, fresh);
        }
    }
    free(names);
}

void run_record_edit(const char *dir, const char *file, const char *path, const char *json)
{
    char *place = io_join(dir, file);
    cJSON *tree;
    must(json_load(place, &tree));
    put(tree, path, json);
    must(json_save(place, tree));
    cJSON_Delete(tree);
    free(place);
}

void run_record_edit_line(const char *dir, long number, const char *field, const char *json)
{
    char *place = io_join(dir, "metrics.jsonl"), *text, *rest, *line;
    size_t size, used = 0;
    must(io_read_all(place, (size_t)1 << 20, &text, &size));
    char *fresh = mem_alloc(size + 4096);
    rest = text;
    for (long i = 1; (line = strsep(&rest, "\n")) != NULL && rest != NULL; i++) {
        cJSON *tree = cJSON_Parse(line);
        if (i == number && field != NULL) {
            put(tree, field, json);
        }
        if (i != number || field != NULL) {
            char *printed = cJSON_PrintUnformatted(tree);
            used += (size_t)sprintf(fresh + used, "%s\n", printed);
            cJSON_free(printed);
        }
        cJSON_Delete(tree);
    }
    must(io_write_atomic(place, fresh, used));
    free(fresh);
    free(text);
    free(place);
}
