/* The files of a run's record are read into what the checks take: whatever they hold, reading
 * ends with values that are what they must be, or with ERR_INPUT naming file and member. Then
 * everything that the checks compare is computed from the configuration, the lines and the files
 * of the ranks; the verdicts that the run itself stored come last, to be compared with what was
 * found now. */
#include "record/checks.h"

#include "base/io.h"
#include "base/mem.h"
#include "model/spec.h"
#include "record/reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_schema(JsonReader *reader, const cJSON *tree)
{
    Value schema = json_read_count(reader, tree, "schema");
    if (!(schema.known && schema.number >= 1)) {
        json_wrong(reader, "schema", "a number from 1");
    }
}

/* --- run.json --- */

typedef struct {
    RunState state;
    bool has_summary;
    Summary summary; /* phases points to those below, or is NULL */
    TimerReport phases;
    CheckInput input; /* ranks 0: run.json does not say */
    Value per_step;   /* tokens of one step of one rank in the last session */
    CheckRamp *ramp;  /* of the last session */
    size_t ramp_rows;
    bool ramp_before; /* a session before the last one had a ramp */
    double *starts;   /* where the sessions after the first began, ascending */
    size_t sessions;
    const cJSON *stored;  /* in the file: the verdicts of the run itself; NULL: none */
    char started_from[8]; /* --init, as much of it as tells that there is one */
} RunFile;

/* The first of these counts that is above 0, each of which must be one if it is there. */
static int64_t first_count(JsonReader *reader, const cJSON *tree, const char *const *paths,
                           int64_t otherwise)
{
    int64_t first = 0;
    for (; *paths != NULL; paths++) {
        Value count = json_read_count(reader, tree, *paths);
        first = first == 0 && count.known ? (int64_t)count.number : first;
    }
    return first > 0 ? first : otherwise;
}

/* An option of 0 leaves a dimension to the preset, and the vocabulary of some to the data. */
static void read_shape(JsonReader *reader, const cJSON *tree, RunFile *run)
{
    static const char *const vocab[] = {"model.vocab", "config.vocab", NULL};
    static const char *const seq[] = {"config.seq", "model.context", "config.context", NULL};
    static const char *const ranks[] = {"config.ranks", NULL};
    char name[32];
    json_read_text(reader, tree, "model.name", name, sizeof name);
    json_read_text(reader, tree, "config.init", run->started_from, sizeof run->started_from);
    const ModelSpec *preset = spec_find(name);
    Value batch = json_read_count(reader, tree, "config.batch");
    Value accum = json_read_count(reader, tree, "config.accum");
    CheckInput *in = &run->input;
    in->vocab = first_count(reader, tree, vocab, preset != NULL ? preset->vocab : 0);
    in->ranks = first_count(reader, tree, ranks, 0);
    int64_t tokens = first_count(reader, tree, seq, preset != NULL ? preset->context : 0);
    if (tokens > 0 && batch.known && accum.known) {
        in->batch = (int64_t)batch.number;
        in->accum = (int64_t)accum.number;
        in->seq = tokens;
        run->per_step = value_of(batch.number * accum.number * (double)tokens);
    }
}

/* A resume from an earlier step undoes those behind it. */
static void read_sessions(JsonReader *reader, const cJSON *tree, RunFile *run)
{
    const cJSON *item, *resumed = json_read_array(reader, tree, "resumed");
    JsonReader inside = {reader->path, "resumed", reader->code};
    run->starts = mem_zalloc((size_t)cJSON_GetArraySize(resumed) + 1, sizeof *run->starts);
    cJSON_ArrayForEach(item, resumed)
    {
        Value step = json_read_count(&inside, item, "step");
        if (!step.known) {
            json_wrong(&inside, "step", "a whole number");
        }
        while (run->sessions > 0 && run->starts[run->sessions - 1] >= step.number) {
            run->sessions--;
        }
        run->starts[run->sessions++] = step.number;
    }
    reader->code = inside.code;
    if (run->sessions > 0) {
        run->input.steps_before = (int64_t)run->starts[run->sessions - 1];
    }
}

/* Sizes of updates, where they change. */
static void read_ramp(JsonReader *reader, const cJSON *tree, RunFile *run)
{
    const cJSON *row, *rows = json_read_array(reader, tree, "ramp");
    JsonReader inside = {reader->path, "ramp", reader->code};
    run->ramp = mem_zalloc((size_t)cJSON_GetArraySize(rows) + 1, sizeof *run->ramp);
    cJSON_ArrayForEach(row, rows)
    {
        Value step = json_read_count(&inside, row, "step");
        Value tokens = json_read_count(&inside, row, "tokens");
        Value per_step = json_read_count(&inside, row, "per_step");
        if (!step.known || !tokens.known || !per_step.known) {
            json_wrong(&inside,
                       !step.known     ? "step"
                       : !tokens.known ? "tokens"
                                       : "per_step",
                       "a whole number");
        }
        run->ramp[run->ramp_rows++] = (CheckRamp){step.number, tokens.number, per_step.number};
    }
    reader->code = inside.code;
    run->input.ramp = run->ramp_rows > 0;
    const cJSON *leg, *change;
    cJSON_ArrayForEach(leg, json_get(tree, "legs"))
    {
        cJSON_ArrayForEach(change, json_get(leg, "changed"))
        {
            run->ramp_before |= strcmp(json_text_or(change, "option", ""), "batch-ramp") == 0;
        }
    }
}

static void read_plan(JsonReader *reader, const cJSON *tree, CheckInput *input)
{
    const cJSON *row, *plan = json_read_array(reader, tree, "memory_plan");
    JsonReader inside = {reader->path, "memory_plan", reader->code};
    cJSON_ArrayForEach(row, plan)
    {
        char kind[32];
        json_read_text(&inside, row, "kind", kind, sizeof kind);
        Value bytes = json_read_count(&inside, row, "bytes");
        if (!bytes.known) {
            json_wrong(&inside, "bytes", "a whole number");
        }
        if (strcmp(kind, MEMORY_LOADER) != 0 && strcmp(kind, MEMORY_SAVE_COPY) != 0 &&
            strcmp(kind, MEMORY_OFFLOAD) != 0) {
            input->plan_bytes = value_of(input->plan_bytes.number + bytes.number);
        }
    }
    reader->code = inside.code;
}

static void read_summary(JsonReader *reader, const cJSON *tree, RunFile *run)
{
    const cJSON *summary = json_read_object(reader, tree, "summary");
    if (summary == NULL) {
        if (run->state == RUN_DONE) {
            json_wrong(reader, "summary", "there, though the run is done");
        }
        return;
    }
    run->has_summary = true;
    JsonReader inside = {reader->path, "summary", reader->code};
    summary_read(&inside, summary, &run->summary);
    if (json_read_object(&inside, summary, "phases") != NULL) {
        run->input.other_phases =
            value_of(summary_read_phases(&inside, "phases", summary, &run->phases));
        run->phases.wall_s = run->summary.wall_s.number;
        run->summary.phases = &run->phases;
    }
    run->stored = json_read_array(&inside, summary, "checks");
    reader->code = inside.code;
}

/* run->starts and run->ramp are the caller's to free, also after a failure. */
static int read_run(const char *path, const cJSON *tree, RunFile *run)
{
    JsonReader reader = {.path = path, .inside = ""};
    char state[16];
    check_schema(&reader, tree);
    json_read_text(&reader, tree, "status", state, sizeof state);
    if (!run_state_find(state, &run->state)) {
        json_wrong(&reader, "status", "the status of a run");
    }
    read_shape(&reader, tree, run);
    run->input.flops_update = json_read_number(&reader, tree, "model.flops_update");
    read_sessions(&reader, tree, run);
    read_ramp(&reader, tree, run);
    read_plan(&reader, tree, &run->input);
    Value own = json_read_number(&reader, tree, "machine.sgemm_gflops");
    Value device = json_read_number(&reader, tree, "machine.device_matmul_gflops");
    Value gflops = device.known ? device : own;
    run->input.ceiling = (Value){gflops.known, 1e9 * gflops.number};
    read_summary(&reader, tree, run);
    run->input.complete = run->state == RUN_DONE;
    return reader.code;
}

/* --- ranks/K.json --- */

static void read_categories(JsonReader *reader, const cJSON *tree, CheckRank *rank)
{
    const cJSON *row, *categories = json_read_array(reader, tree, "memory.categories");
    JsonReader inside = {reader->path, "memory.categories", reader->code};
    cJSON_ArrayForEach(row, categories)
    {
        Value planned = json_read_count(&inside, row, "planned_bytes");
        Value peak = json_read_count(&inside, row, "peak_bytes");
        if (!planned.known || !peak.known) {
            json_wrong(&inside, planned.known ? "peak_bytes" : "planned_bytes", "there");
        }
        rank->planned_sum = value_of(rank->planned_sum.number + planned.number);
        rank->peak_sum = value_of(rank->peak_sum.number + peak.number);
    }
    reader->code = inside.code;
}

static int read_rank(const char *path, const cJSON *tree, int64_t number, CheckRank *rank)
{
    JsonReader reader = {.path = path, .inside = ""};
    check_schema(&reader, tree);
    Value own = json_read_count(&reader, tree, "rank");
    Value all = json_read_count(&reader, tree, "ranks");
    if (!own.known || own.number != (double)number) {
        json_wrong(&reader, "rank", "that of the file's name");
    }
    if (!all.known || all.number < 1) {
        json_wrong(&reader, "ranks", "a whole number from 1 on");
    }
    rank->rank = number;
    rank->ranks = (int64_t)all.number;
    json_read_text(&reader, tree, "host", rank->host, sizeof rank->host);
    json_read_text(&reader, tree, "device", rank->device, sizeof rank->device);
    json_read_text(&reader, tree, "uuid", rank->uuid, sizeof rank->uuid);
    rank->wall_s = json_read_number(&reader, tree, "wall_s");
    if (json_read_object(&reader, tree, "timers") != NULL) {
        rank->has_timers = true;
        rank->other_phases = summary_read_phases(&reader, "timers", tree, &rank->timers);
        rank->timers.wall_s = rank->wall_s.number;
    }
    rank->peak_bytes = json_read_number(&reader, tree, "memory.peak_bytes");
    rank->allocated_bytes = json_read_number(&reader, tree, "memory.allocated_bytes");
    rank->planned_bytes = json_read_number(&reader, tree, "memory.planned_bytes");
    read_categories(&reader, tree, rank);
    rank->throttled_share = json_read_number(&reader, tree, "gpu.throttled_share");
    json_read_text(&reader, tree, "gpu.throttle", rank->throttle, sizeof rank->throttle);
    rank->other_processes = json_read_number(&reader, tree, "gpu.other_processes");
    rank->total_bytes = json_read_number(&reader, tree, "gpu.total_bytes");
    rank->used_bytes = json_read_number(&reader, tree, "gpu.used_bytes.max");
    return reader.code;
}

/* All of dir/ranks/K.json, ascending. Only those that are there are opened, however many a record
 * claims. Caller frees *ranks, also after a failure. */
static int read_ranks(const char *dir, CheckRank **ranks, size_t *count)
{
    int64_t *numbers;
    int code = record_rank_files(dir, &numbers, count);
    *ranks = *count > 0 ? mem_zalloc(*count, sizeof **ranks) : NULL;
    for (size_t i = 0; code == 0 && i < *count; i++) {
        char *name = mem_format("ranks/%lld.json", (long long)numbers[i]);
        char *path = io_join(dir, name);
        cJSON *tree;
        code = record_load(dir, name, &tree);
        code = code != 0 ? code : read_rank(path, tree, numbers[i], &(*ranks)[i]);
        cJSON_Delete(tree);
        free(path);
        free(name);
    }
    free(numbers);
    return code;
}

/* --- metrics.jsonl --- */

/* What the checks need that run.json does not hold itself. */
static void settle_input(RunFile *run, const CheckLines *lines)
{
    CheckInput *in = &run->input;
    Summary *s = &run->summary;
    in->first_loss = run->started_from[0] == '\0' ? lines->first_loss : (Value){0};
    if (s->steps.known && run->ramp_rows > 0) {
        in->timed_tokens = value_of(check_ramp_tokens(run->ramp, run->ramp_rows, s->steps.number) -
                                    run->ramp[0].tokens);
    } else if (s->steps.known && lines->per_step.known) {
        in->timed_tokens =
            value_of((s->steps.number - (double)in->steps_before) * lines->per_step.number);
    }
    Value before = lines->session_tokens;
    if (before.known && fabs(before.number) <= JSON_WHOLE_MAX) {
        in->tokens_before = (int64_t)before.number;
    } else {
        s->tokens =
            (Value){0}; /* what earlier sessions did is not known: nothing to compare with */
    }
}

/* --- verdicts --- */

static CheckVerdict read_verdict(JsonReader *reader, const cJSON *item)
{
    char text[8];
    json_read_text(reader, item, "verdict", text, sizeof text);
    for (int i = CHECK_PASS; i <= CHECK_FAIL; i++) {
        if (strcmp(text, check_verdict_name((CheckVerdict)i)) == 0) {
            return (CheckVerdict)i;
        }
    }
    json_wrong(reader, "verdict", "pass, warn or fail");
    return CHECK_FAIL;
}

#define STORED "stored"

/* A verdict that was better than what the same record gives now was not made from this record. */
static int compare_stored(const char *path, const cJSON *stored, Checks *checks)
{
    if (stored == NULL || cJSON_GetArraySize(stored) == 0) {
        return 0;
    }
    JsonReader reader = {.path = path, .inside = "summary.checks"};
    char subject[CHECK_SUBJECT_SIZE] = "";
    CheckVerdict verdict = CHECK_PASS;
    double total = 0, agree = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, stored)
    {
        char name[32];
        json_read_text(&reader, item, "name", name, sizeof name);
        CheckVerdict then = read_verdict(&reader, item);
        if (reader.code != 0) {
            return reader.code;
        }
        if (strcmp(name, STORED) == 0) {
            continue; /* this very comparison, made when the run ended */
        }
        const Check *now = checks_find(checks, name);
        total++;
        if (now != NULL && now->verdict == then) {
            agree++;
            continue;
        }
        bool worse = now != NULL && now->verdict == CHECK_FAIL;
        verdict = worse || verdict == CHECK_FAIL ? CHECK_FAIL : CHECK_WARN;
        size_t used = strlen(subject);
        snprintf(subject + used, sizeof subject - used, "%s%s was %s, %s%s", used > 0 ? "; " : "",
                 name, check_verdict_name(then), now != NULL ? "is " : "cannot be repeated",
                 now != NULL ? check_verdict_name(now->verdict) : "");
    }
    checks_put(checks, STORED, verdict, total, agree, subject);
    return 0;
}

/* Checks what run.json says, with the other files of dir. */
static int check_run(const char *dir, const char *path, RunFile *run, Checks *checks)
{
    CheckRank *ranks = NULL;
    size_t count = 0;
    CheckLines lines;
    int code = read_ranks(dir, &ranks, &count);
    if (code == 0) {
        if (run->input.ranks == 0) {
            run->input.ranks = count > 0 ? ranks[0].ranks : 1;
        }
        if (run->input.ranks > 1) { /* the phases of the summary are the first rank's */
            bool known = count > 0 && ranks[0].rank == 0 && ranks[0].wall_s.known;
            run->phases.wall_s = known ? ranks[0].wall_s.number : NAN;
        }
        Value per_step = {run->per_step.known, run->per_step.number * (double)run->input.ranks};
        check_lines_begin(&lines, run->starts, run->sessions, per_step);
        check_lines_ramp(&lines, run->ramp, run->ramp_rows);
        lines.ramp_before = run->ramp_before;
        code = lines_read(dir, check_lines_take, &lines, NULL);
    }
    if (code == 0) {
        settle_input(run, &lines);
        checks_run(&run->summary, &run->input, checks);
        check_lines_end(&lines, &run->summary, &run->input, checks);
        /* Files of ranks that the last session did not have and that say themselves that they were
         * of another are left out: pacer 0.1 kept those of an earlier session with more ranks. */
        int64_t of = run->input.ranks;
        while (count > 0 && ranks[count - 1].rank >= of && ranks[count - 1].ranks != of) {
            count--;
        }
        if (run->has_summary && run->state != RUN_RUNNING) { /* else of the session before */
            checks_ranks(&run->summary, &run->input, ranks, count, checks);
        }
        code = compare_stored(path, run->stored, checks);
    }
    free(ranks);
    return code;
}

int recheck_dir(const char *dir, Checks *checks)
{
    *checks = (Checks){0};
    RunFile run = {0};
    cJSON *tree;
    char *path = io_join(dir, RECORD_RUN);
    int code = record_load(dir, RECORD_RUN, &tree);
    code = code != 0 ? code : read_run(path, tree, &run);
    code = code != 0 ? code : check_run(dir, path, &run, checks);
    if (code != 0) {
        *checks = (Checks){0};
    }
    free(run.starts);
    free(run.ramp);
    cJSON_Delete(tree);
    free(path);
    return code;
}
