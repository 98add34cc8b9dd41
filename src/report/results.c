/* Records into memory. Whoever wrote them, reading ends with pointers that are strings, counts
 * that are within bounds and files that are parsed or missing: everything behind this file may
 * rely on it. Only experiment.json itself must be right; a run's own files are read as far as
 * they go. */
#include "report/results.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/config.h"
#include "record/reader.h"
#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_RUNS 10000
#define MAX_RANKS 65536  /* as the option ranks */
#define POINTS (1 << 20) /* of all curves of an experiment, 40 bytes each */
#define LEAST_POINTS 512 /* of each */

/* --- settings --- */

/* What 0 stands for: the model's, or what follows from other options. NAN: not known. */
static double meant_by_zero(const Result *result, const char *option)
{
    if (strcmp(option, "global-batch") == 0) {
        const cJSON *config = json_get(result->run, "config");
        return json_number(config, "batch") * json_number(config, "accum") *
               json_number(config, "ranks");
    }
    bool length = strcmp(option, "seq") == 0 || strcmp(option, "context") == 0;
    double context = length ? json_number(result->run, "model.context") : 0;
    return isnan(context) ? 0 : context;
}

/* Those that are not known yet. */
static cJSON *settings_of(const Result *result, const cJSON *values)
{
    cJSON *settings = json_object();
    const cJSON *item;
    cJSON_ArrayForEach(item, values)
    {
        char number[32];
        const char *text =
            cJSON_IsBool(item) ? (cJSON_IsTrue(item) ? "on" : "off") : cJSON_GetStringValue(item);
        if (item->string == NULL || json_get(result->settings, item->string) != NULL) {
            continue;
        }
        if (cJSON_IsNumber(item)) {
            snprintf(number, sizeof number, "%.15g", item->valuedouble);
            text = number;
        }
        if (text != NULL && strcmp(text, "0") == 0) {
            double meant = meant_by_zero(result, item->string);
            snprintf(number, sizeof number, "%.15g", meant);
            text = isnan(meant) ? NULL : number;
        }
        json_put_text(settings, item->string, text);
    }
    return settings;
}

const char *result_setting(const Result *result, const char *option)
{
    const cJSON *own = json_get(result->settings, option);
    return cJSON_GetStringValue(own != NULL ? own : json_get(result->config, option));
}

bool result_has_value(const Result *result, const char *option, const cJSON *wanted)
{
    const char *value = result_setting(result, option);
    if (cJSON_IsNumber(wanted)) {
        return result_setting_number(result, option) == wanted->valuedouble;
    }
    return value != NULL && cJSON_IsString(wanted) && strcmp(value, wanted->valuestring) == 0;
}

bool result_same_setting(const Result *a, const Result *b, const char *option)
{
    const char *of_a = result_setting(a, option), *of_b = result_setting(b, option);
    return of_a == NULL || of_b == NULL ? of_a == of_b : strcmp(of_a, of_b) == 0;
}

double result_setting_number(const Result *result, const char *option)
{
    const char *text = result_setting(result, option);
    if (text == NULL || text[0] == '\0') {
        return NAN;
    }
    char *end;
    double number = strtod(text, &end);
    if (*end == '\0' && isfinite(number)) {
        return number;
    }
    int64_t whole;
    bool has_suffix = text[0] >= '0' && text[0] <= '9' && config_parse_bytes(text, &whole) == 0;
    return has_suffix ? (double)whole : NAN;
}

int results_axis_of(const Results *results, const char *option)
{
    for (int i = 0; i < results->varying_count; i++) {
        if (strcmp(results->varying[i].option, option) == 0) {
            return results->varying[i].axis;
        }
    }
    return -1;
}

const Result *results_next(const Results *results, int configuration, const Result *run)
{
    bool known = configuration >= 0 && configuration < results->configurations;
    int index = run != NULL ? run->next : known ? results->first[configuration] : -1;
    return index >= 0 ? &results->runs[index] : NULL;
}

const Result *results_first(const Results *results, int configuration)
{
    return results_next(results, configuration, NULL);
}

const Result *results_in_state(const Results *results, int configuration, RunState state)
{
    const Result *run = results_first(results, configuration);
    while (run != NULL && run->state != state) {
        run = results_next(results, configuration, run);
    }
    return run;
}

double results_stamp(const cJSON *record, const char *path)
{
    const char *text = json_text(record, path);
    struct tm parts = {0};
    const char *end = text != NULL ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts) : NULL;
    return end != NULL && *end == '\0' ? (double)timegm(&parts) : NAN;
}

bool result_has_all_ranks(const Result *result)
{
    for (int rank = 0; rank < result->rank_count; rank++) {
        if (result->ranks[rank] == NULL) {
            return false;
        }
    }
    return result->rank_count > 0;
}

bool results_have_peers(const Results *results)
{
    for (int i = 0; i < results->count; i++) {
        if (results->runs[i].peer[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* Which runs each configuration has, in their order. */
static void index_runs(Results *results)
{
    size_t most = (size_t)results->configurations + 1;
    int *last = mem_alloc(most * sizeof *last);
    results->first = mem_alloc(most * sizeof *results->first);
    for (int i = 0; i < results->configurations; i++) {
        results->first[i] = last[i] = -1;
    }
    for (int i = 0; i < results->count; i++) {
        int own = results->runs[i].configuration;
        results->runs[i].next = -1;
        if (last[own] >= 0) {
            results->runs[last[own]].next = i;
        } else {
            results->first[own] = i;
        }
        last[own] = i;
    }
    free(last);
}

Results results_own(const Results *results)
{
    Results own = *results;
    own.runs = mem_zalloc((size_t)results->count + 1, sizeof *own.runs);
    own.count = own.configurations = 0;
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        if (run->peer[0] == '\0') {
            own.runs[own.count++] = *run;
            own.configurations = run->configuration >= own.configurations ? run->configuration + 1
                                                                          : own.configurations;
        }
    }
    index_runs(&own);
    return own;
}

void results_own_free(Results *own)
{
    free(own->runs);
    free(own->first);
    *own = (Results){0};
}

static void name_run(const Results *results, Result *result)
{
    Page text = {0};
    for (int i = 0; i < results->varying_count; i++) {
        const char *option = results->varying[i].option, *value = result_setting(result, option);
        if (value != NULL && !config_is_unset(config_find(option), value)) {
            page_put(&text, "%s%s %s", text.size > 0 ? ", " : "", option,
                     value[0] != '\0' ? value : "none");
        }
    }
    bool none = text.size == 0, peer = result->peer[0] != '\0';
    result->varying = none ? mem_format("configuration %d", result->configuration) : text.text;
    result->label = peer ? mem_format("%.40s%s%s", peer_title(result->peer), none ? "" : ": ",
                                      none ? "" : result->varying)
                         : mem_strdup(result->varying);
}

/* --- a run's own files --- */

/* A broken record is a missing one; so is one that a newer pacer wrote, but that is worth a
 * word. */
static cJSON *load_optional(const char *folder, const char *name)
{
    cJSON *tree = NULL;
    if (io_has(folder, name) && record_load(folder, name, &tree) != 0) {
        log_warn("%s", err_message());
    }
    return tree;
}

static void read_ranks(Result *result, const char *folder)
{
    double ranks = result_setting_number(result, "ranks");
    bool known = result->run != NULL && ranks >= 1 && ranks <= MAX_RANKS;
    result->rank_count = known ? (int)ranks : 0;
    result->ranks = mem_zalloc((size_t)result->rank_count, sizeof *result->ranks);
    double longest = -1;
    for (int rank = 0; rank < result->rank_count; rank++) {
        char name[32];
        snprintf(name, sizeof name, "ranks/%d.json", rank);
        cJSON *file = load_optional(folder, name);
        if (file != NULL && json_number(file, "rank") != rank) {
            cJSON_Delete(file);
            file = NULL;
        }
        result->ranks[rank] = file;
        double worker = json_number(file, "spans.worker.total_s");
        if (worker > longest) {
            longest = worker;
            result->slowest = rank;
        }
    }
}

/* Points of a curve; 0: any number. */
static size_t most_points(const Results *results)
{
    size_t most = LEAST_POINTS;
    while (2 * most * (size_t)results->count <= POINTS) {
        most *= 2;
    }
    return results->json != NULL ? most : 0;
}

static void read_files(const Results *results, Result *result)
{
    char *folder = io_join(results->dir, result->dir);
    result->run = result->run != NULL ? result->run : load_optional(folder, RECORD_RUN);
    result->settings = settings_of(result, json_get(result->entry, "settings"));
    result->config = settings_of(result, json_get(result->run, "config"));
    result->sound = result->state == RUN_DONE && record_checks(result->run, "fail") == 0;
    name_run(results, result);
    read_ranks(result, folder);
    if (curve_read(&result->curve, folder, most_points(results)) != 0) {
        result->curve = (Curve){0};
    }
    free(folder);
}

/* --- a thousand runs in little memory --- */

static void drop(cJSON *object, const char *const *names)
{
    for (; *names != NULL; names++) {
        cJSON_DeleteItemFromObjectCaseSensitive(object, *names);
    }
}

/* What only the report of a single run tells. */
static void slim(Result *result)
{
    static const char *const of_run[] = {"config", "given", "legs", "process", NULL};
    static const char *const of_passed[] = {"expected", "found", "rule", NULL};
    static const char *const of_timer[] = {"p50_s", "p95_s", "p99_s", "max_s", NULL};
    static const char *const of_summary[] = {"phases", NULL}; /* ranks have them */
    static const char *const of_config[] = {"out", NULL};
    cJSON *summary = json_get(result->run, "summary"), *item;
    drop(result->run, of_run);
    drop(summary, of_summary);
    drop(result->config, of_config);
    cJSON_ArrayForEach(item, json_get(summary, "checks"))
    {
        if (strcmp(json_text_or(item, "verdict", ""), "pass") == 0) {
            drop(item, of_passed);
        }
    }
    for (int rank = 0; rank < result->rank_count; rank++) {
        cJSON *lists[] = {json_get(result->ranks[rank], "timers"),
                          json_get(result->ranks[rank], "spans")};
        for (int i = 0; i < 2; i++) {
            cJSON_ArrayForEach(item, lists[i])
            {
                drop(item, of_timer);
            }
        }
    }
}

/* `like`: the first run that has records. */
static void share_with(Result *result, const Result *like)
{
    json_share(result->run, like->run);
    json_share(result->config, like->config);
    for (int rank = 0; rank < result->rank_count; rank++) {
        json_share(result->ranks[rank], like->rank_count > 0 ? like->ranks[0] : NULL);
    }
}

/* --- experiment.json --- */

static int bad(const char *path, int run, const char *what)
{
    return err_set(ERR_INPUT, "%s: runs[%d]: %s; the file is damaged, or not pacer's", path, run,
                   what);
}

static int read_entry(const char *path, const cJSON *entry, int index, int count, Result *result)
{
    result->entry = entry;
    result->id = json_text(entry, "id");
    result->dir = json_text(entry, "dir");
    result->reason = json_text_or(entry, "reason", "");
    result->peer = json_text_or(entry, "peer", "");
    if (result->id == NULL) {
        return bad(path, index, "no \"id\"");
    }
    if (result->dir == NULL || result->dir[0] == '\0' || result->dir[0] == '/' ||
        strstr(result->dir, "..") != NULL) {
        return bad(path, index, "\"dir\" is not a folder within the experiment's");
    }
    int64_t configuration, repeat;
    if (!json_whole(json_get(entry, "configuration"), count - 1, &configuration) ||
        !json_whole(json_get(entry, "repeat"), MAX_RUNS - 1, &repeat)) {
        return bad(path, index, "\"configuration\" or \"repeat\" is not a number that can be");
    }
    result->configuration = (int)configuration;
    result->repeat = (int)repeat;
    if (run_state_find(json_text(entry, "state"), &result->state)) {
        return 0;
    }
    return bad(path, index, "\"state\" is none that is known");
}

static int read_axes(Results *results, const char *path)
{
    const cJSON *axis, *option;
    int axes = 0;
    cJSON_ArrayForEach(axis, json_get(results->json, "axes"))
    {
        if (axes == RESULTS_MAX_AXES || !cJSON_IsArray(axis)) {
            return err_set(ERR_INPUT, "%s: \"axes\" is not a list of at most %d lists", path,
                           RESULTS_MAX_AXES);
        }
        int count = 0;
        cJSON_ArrayForEach(option, axis)
        {
            if (count++ == AXIS_MAX_OPTIONS || !cJSON_IsString(option)) {
                return err_set(ERR_INPUT,
                               "%s: \"axes\" has an axis of other things than at most "
                               "%d names",
                               path, AXIS_MAX_OPTIONS);
            }
            results->varying[results->varying_count++] =
                (Varying){option->valuestring, axes, false};
        }
        axes++;
    }
    return 0;
}

static int read_runs(Results *results, const char *path)
{
    const cJSON *runs = json_get(results->json, "runs"), *entry;
    int count = cJSON_GetArraySize(runs);
    if (!cJSON_IsArray(runs) || count > MAX_RUNS) {
        return err_set(ERR_INPUT, "%s: \"runs\" is not a list of at most %d runs", path, MAX_RUNS);
    }
    results->runs = mem_zalloc(count > 0 ? (size_t)count : 1, sizeof *results->runs);
    cJSON_ArrayForEach(entry, runs)
    {
        Result *result = &results->runs[results->count];
        int code = read_entry(path, entry, results->count, count, result);
        if (code != 0) {
            return code;
        }
        results->count++;
        if (result->configuration >= results->configurations) {
            results->configurations = result->configuration + 1;
        }
    }
    return 0;
}

/* Whether every value of the first option comes with one value of the other. */
static bool follows(const Results *results, const char *first, const char *other)
{
    const Result **seen = mem_zalloc((size_t)results->count + 1, sizeof *seen);
    bool same = true;
    int count = 0;
    for (int i = 0; i < results->count && same; i++) {
        const Result *run = &results->runs[i];
        int k = 0;
        while (k < count && !result_same_setting(seen[k], run, first)) {
            k++;
        }
        same = k == count || run->peer[0] != '\0' || result_same_setting(seen[k], run, other);
        if (k == count && run->peer[0] == '\0') {
            seen[count++] = run;
        }
    }
    free(seen);
    return same;
}

static void mark_implied(Results *results)
{
    const Varying *first = results->varying;
    for (int i = 0; i < results->varying_count; i++) {
        Varying *varying = &results->varying[i];
        first = first->axis == varying->axis ? first : varying;
        varying->implied = varying != first && follows(results, first->option, varying->option);
    }
}

int results_read(Results *results, const char *dir)
{
    *results = (Results){.dir = mem_strdup(dir)};
    char *path = io_join(dir, RECORD_EXPERIMENT);
    int code = record_load(dir, RECORD_EXPERIMENT, &results->json);
    if (code == 0 && !(json_number(results->json, "format") >= 1)) {
        code = err_set(ERR_INPUT, "%s: not an experiment of format %d", path, EXPERIMENT_FORMAT);
    }
    code = code != 0 ? code : read_axes(results, path);
    const cJSON *baseline = json_get(results->json, "baseline");
    if (cJSON_IsObject(baseline) && baseline->child != NULL) {
        results->baseline = json_copy(baseline);
    } else if (results_axis_of(results, "ranks") >= 0) {
        results->baseline = json_object();
        json_put_whole(results->baseline, "ranks", 1);
    }
    code = code != 0 ? code : read_runs(results, path);
    const Result *first = NULL;
    for (int i = 0; code == 0 && i < results->count; i++) {
        Result *result = &results->runs[i];
        read_files(results, result);
        slim(result);
        first = first != NULL || result->run == NULL ? first : result;
        if (first != NULL) {
            share_with(result, first);
        }
    }
    index_runs(results);
    mark_implied(results);
    if (code != 0) {
        results_free(results);
    }
    free(path);
    return code;
}

static int read_run(Results *results, const char *run_dir)
{
    *results = (Results){.dir = mem_strdup(run_dir),
                         .runs = mem_zalloc(1, sizeof *results->runs),
                         .count = 1,
                         .configurations = 1};
    Result *result = &results->runs[0];
    int code = record_load(run_dir, RECORD_RUN, &result->run);
    result->id = json_text_or(result->run, "id", "run");
    result->dir = ".";
    result->reason = json_text_or(result->run, "message", "");
    result->peer = json_text_or(result->run, "peer.name", "");
    if (code == 0 &&
        !run_state_find(json_text_or(result->run, "status", "running"), &result->state)) {
        char *path = io_join(run_dir, RECORD_RUN);
        code = bad(path, 0, "\"state\" is none that is known");
        free(path);
    }
    index_runs(results);
    if (code == 0) {
        read_files(results, result);
    } else {
        results_free(results);
    }
    return code;
}

bool results_is_experiment(const char *dir)
{
    return io_has(dir, RECORD_EXPERIMENT);
}

int results_kind(const char *dir, bool *experiment)
{
    *experiment = results_is_experiment(dir);
    return *experiment || io_has(dir, RECORD_RUN)
               ? 0
               : err_set(ERR_INPUT,
                         "%s: neither a run (run.json) nor an experiment (experiment.json)", dir);
}

int results_read_any(Results *results, const char *dir, bool *experiment)
{
    *results = (Results){0};
    int code = results_kind(dir, experiment);
    if (code != 0) {
        return code;
    }
    return *experiment ? results_read(results, dir) : read_run(results, dir);
}

void results_free(Results *results)
{
    for (int i = 0; i < results->count; i++) {
        Result *result = &results->runs[i];
        for (int rank = 0; rank < result->rank_count; rank++) {
            cJSON_Delete(result->ranks[rank]);
        }
        free(result->ranks);
        cJSON_Delete(result->run);
        cJSON_Delete(result->settings);
        cJSON_Delete(result->config);
        free(result->varying);
        free(result->label);
        curve_free(&result->curve);
    }
    free(results->runs);
    free(results->first);
    cJSON_Delete(results->baseline);
    cJSON_Delete(results->json);
    free(results->dir);
    *results = (Results){0};
}
