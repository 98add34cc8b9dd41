#include "metrics/recheck_files.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "metrics/lines.h"
#include "model/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOADER_ROW "loader" /* of the memory plan: host memory, which planned_bytes leaves out */

int schema_check(JsonPlace place, const cJSON *object)
{
    Value schema;
    int code = json_read_format(place.path, object, "schema", RECORD_SCHEMA);
    code = code != 0 ? code : json_read_count(place, object, "schema", &schema);
    if (code == 0 && !(schema.known && schema.number >= 1)) {
        code = json_wrong(place, "schema", "a number from 1");
    }
    return code;
}

/* --- run.json --- */

static int read_status(JsonPlace place, const cJSON *object, RunStatus *status)
{
    char text[16];
    int code = json_read_text(place, object, "status", text, sizeof text);
    for (int i = 0; code == 0 && i < RUN_STATUS_COUNT; i++) {
        if (strcmp(text, run_status_name((RunStatus)i)) == 0) {
            *status = (RunStatus)i;
            return 0;
        }
    }
    return code != 0 ? code : json_wrong(place, "status", "the status of a run");
}

static int64_t first_positive(const Value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i].known && values[i].number > 0) {
            return (int64_t)values[i].number;
        }
    }
    return 0;
}

typedef struct {
    Value batch, accum, seq, ranks, vocab, context;
    Value model_vocab, model_context;
    char name[32];
} Shape;

static int read_shape(const char *path, const cJSON *object, Shape *shape, CheckInput *input)
{
    const cJSON *config, *model;
    JsonPlace top = {path, ""}, in_config = {path, "config"}, in_model = {path, "model"};
    int code = json_read_object(top, object, "config", &config);
    code = code != 0 ? code : json_read_object(top, object, "model", &model);
    if (code != 0) {
        return code;
    }
    const struct {
        JsonPlace place;
        const cJSON *object;
        const char *name;
        Value *value;
    } counts[] = {{in_config, config, "batch", &shape->batch},
                  {in_config, config, "accum", &shape->accum},
                  {in_config, config, "seq", &shape->seq},
                  {in_config, config, "ranks", &shape->ranks},
                  {in_config, config, "vocab", &shape->vocab},
                  {in_config, config, "context", &shape->context},
                  {in_model, model, "vocab", &shape->model_vocab},
                  {in_model, model, "context", &shape->model_context}};
    for (size_t i = 0; code == 0 && i < sizeof counts / sizeof counts[0]; i++) {
        code = json_read_count(counts[i].place, counts[i].object, counts[i].name, counts[i].value);
    }
    code =
        code != 0 ? code : json_read_number(in_model, model, "flops_update", &input->flops_update);
    return code != 0 ? code
                     : json_read_text(in_model, model, "name", shape->name, sizeof shape->name);
}

/* An option of 0 leaves a dimension to the preset, and the vocabulary of some to the data. */
static void settle_shape(const Shape *shape, RunFile *run)
{
    const ModelSpec *preset = spec_find(shape->name);
    Value preset_vocab = value_of(preset != NULL ? (double)preset->vocab : 0);
    Value preset_context = value_of(preset != NULL ? (double)preset->context : 0);
    CheckInput *in = &run->input;
    in->vocab = first_positive((Value[]){shape->model_vocab, shape->vocab, preset_vocab}, 3);
    int64_t seq = first_positive(
        (Value[]){shape->seq, shape->model_context, shape->context, preset_context}, 4);
    if (seq > 0 && shape->batch.known && shape->accum.known) {
        in->batch = (int64_t)shape->batch.number;
        in->accum = (int64_t)shape->accum.number;
        in->seq = seq;
        run->per_step = value_of(shape->batch.number * shape->accum.number * (double)seq);
    }
    in->ranks = first_positive(&shape->ranks, 1);
}

/* A resume from an earlier step undoes those behind it. */
static int read_sessions(const char *path, const cJSON *object, RunFile *run)
{
    const cJSON *resumed, *item;
    int code = json_read_array((JsonPlace){path, ""}, object, "resumed", &resumed);
    if (code != 0 || resumed == NULL) {
        return code;
    }
    run->starts = mem_zalloc((size_t)cJSON_GetArraySize(resumed) + 1, sizeof *run->starts);
    cJSON_ArrayForEach(item, resumed)
    {
        Value step;
        code = json_read_count((JsonPlace){path, "resumed"}, item, "step", &step);
        if (code != 0 || !step.known) {
            return code != 0 ? code
                             : json_wrong((JsonPlace){path, "resumed"}, "step", "a whole number");
        }
        while (run->sessions > 0 && run->starts[run->sessions - 1] >= step.number) {
            run->sessions--;
        }
        run->starts[run->sessions++] = step.number;
    }
    if (run->sessions > 0) {
        run->input.steps_before = (int64_t)run->starts[run->sessions - 1];
    }
    return 0;
}

static int read_plan(const char *path, const cJSON *object, CheckInput *input)
{
    const cJSON *plan, *row;
    int code = json_read_array((JsonPlace){path, ""}, object, "memory_plan", &plan);
    double sum = 0;
    bool any = false;
    if (code != 0) {
        return code;
    }
    cJSON_ArrayForEach(row, plan)
    {
        JsonPlace place = {path, "memory_plan"};
        char kind[32];
        Value bytes;
        code = json_read_text(place, row, "kind", kind, sizeof kind);
        code = code != 0 ? code : json_read_count(place, row, "bytes", &bytes);
        if (code != 0 || !bytes.known) {
            return code != 0 ? code : json_wrong(place, "bytes", "a whole number");
        }
        if (strcmp(kind, LOADER_ROW) != 0) {
            sum += bytes.number;
            any = true;
        }
    }
    input->plan_bytes = any ? value_of(sum) : (Value){0};
    return code;
}

static int read_ceiling(const char *path, const cJSON *object, CheckInput *input)
{
    const cJSON *machine;
    JsonPlace place = {path, "machine"};
    Value own, device = {0};
    int code = json_read_object((JsonPlace){path, ""}, object, "machine", &machine);
    code = code != 0 ? code : json_read_number(place, machine, "sgemm_gflops", &own);
    code = code != 0 ? code : json_read_number(place, machine, "device_matmul_gflops", &device);
    if (code == 0) {
        Value gflops = device.known ? device : own;
        input->ceiling = (Value){gflops.known, 1e9 * gflops.number};
    }
    return code;
}

static int read_summary(const char *path, const cJSON *object, RunFile *run)
{
    const cJSON *summary, *phases = NULL, *stored = NULL;
    JsonPlace place = {path, "summary"};
    int code = json_read_object((JsonPlace){path, ""}, object, "summary", &summary);
    if (code != 0 || summary == NULL) {
        bool missing = code == 0 && run->status == RUN_DONE;
        return missing
                   ? json_wrong((JsonPlace){path, ""}, "summary", "there, though the run is done")
                   : code;
    }
    run->has_summary = true;
    code = summary_read(path, summary, &run->summary);
    code = code != 0 ? code : json_read_object(place, summary, "phases", &phases);
    if (code == 0 && phases != NULL) {
        double other;
        code = summary_read_phases(path, "summary.phases", phases, &run->phases, &other);
        run->phases.wall_s = run->summary.wall_s.number;
        run->summary.phases = &run->phases;
        run->input.other_phases = value_of(other);
    }
    code = code != 0 ? code : json_read_array(place, summary, "checks", &stored);
    if (code == 0 && stored != NULL) {
        run->stored = json_copy(stored);
    }
    return code;
}

static int read_run(const char *path, const cJSON *object, RunFile *run)
{
    JsonPlace top = {path, ""};
    Shape shape = {0};
    int code = schema_check(top, object);
    code = code != 0 ? code : read_status(top, object, &run->status);
    code = code != 0 ? code : read_shape(path, object, &shape, &run->input);
    code = code != 0 ? code : read_sessions(path, object, run);
    code = code != 0 ? code : read_plan(path, object, &run->input);
    code = code != 0 ? code : read_ceiling(path, object, &run->input);
    code = code != 0 ? code : read_summary(path, object, run);
    if (code == 0) {
        settle_shape(&shape, run);
        run->input.complete = run->status == RUN_DONE;
    }
    return code;
}

int run_file_read(const char *dir, RunFile *run)
{
    memset(run, 0, sizeof *run);
    char *path = io_join(dir, "run.json");
    cJSON *object;
    int code = json_load(path, &object);
    if (code == 0) {
        code = read_run(path, object, run);
        cJSON_Delete(object);
    }
    if (code != 0) {
        run_file_free(run);
    }
    free(path);
    return code;
}

void run_file_free(RunFile *run)
{
    free(run->starts);
    cJSON_Delete(run->stored);
    memset(run, 0, sizeof *run);
}

/* --- metrics.jsonl --- */

static int read_line(JsonPlace place, const cJSON *object, CheckLine *line)
{
    Value step;
    *line = (CheckLine){0};
    int code = json_read_count(place, object, "step", &step);
    if (code == 0 && !step.known) {
        code = json_wrong(place, "step", "a whole number");
    }
    line->step = step.number;
    const struct {
        const char *name;
        Value *value;
    } fields[] = {{"loss", &line->loss},
                  {"tok_s", &line->tok_s},
                  {"ms", &line->ms},
                  {"val_loss", &line->val_loss}};
    code = code != 0 ? code : json_read_count(place, object, "tokens", &line->tokens);
    for (size_t i = 0; code == 0 && i < sizeof fields / sizeof fields[0]; i++) {
        code = json_read_number(place, object, fields[i].name, fields[i].value);
    }
    return code;
}

static int take_line(void *context, const cJSON *object, const char *where, long number)
{
    CheckLine line;
    int code = read_line((JsonPlace){where, ""}, object, &line);
    if (code == 0) {
        check_lines_take(context, &line, number);
    }
    return code;
}

int line_file_read(const char *dir, CheckLines *lines)
{
    return lines_read(dir, take_line, lines, NULL);
}
