/* The files of the ranks. Only those that are there are opened, however many a record claims. */
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "metrics/recheck_files.h"

#include <stdlib.h>
#include <string.h>

static int read_identity(JsonPlace place, const cJSON *object, int64_t number, CheckRank *rank)
{
    Value own, all;
    int code = schema_check(place, object);
    code = code != 0 ? code : json_read_count(place, object, "rank", &own);
    code = code != 0 ? code : json_read_count(place, object, "ranks", &all);
    if (code != 0) {
        return code;
    }
    if (!own.known || own.number != (double)number) {
        return json_wrong(place, "rank", "that of the file's name");
    }
    if (!all.known || all.number < 1) {
        return json_wrong(place, "ranks", "a whole number from 1 on");
    }
    rank->rank = number;
    rank->ranks = (int64_t)all.number;
    code = json_read_text(place, object, "host", rank->host, sizeof rank->host);
    code = code != 0 ? code
                     : json_read_text(place, object, "device", rank->device, sizeof rank->device);
    return code != 0 ? code : json_read_text(place, object, "uuid", rank->uuid, sizeof rank->uuid);
}

static int read_categories(JsonPlace place, const cJSON *memory, CheckRank *rank)
{
    const cJSON *categories, *row;
    int code = json_read_array(place, memory, "categories", &categories);
    if (code != 0 || cJSON_GetArraySize(categories) == 0) {
        return code;
    }
    JsonPlace inside = {place.path, "memory.categories"};
    rank->planned_sum = rank->peak_sum = value_of(0);
    cJSON_ArrayForEach(row, categories)
    {
        Value planned, peak;
        code = json_read_count(inside, row, "planned_bytes", &planned);
        code = code != 0 ? code : json_read_count(inside, row, "peak_bytes", &peak);
        if (code != 0) {
            return code;
        }
        if (!planned.known || !peak.known) {
            return json_wrong(inside, planned.known ? "peak_bytes" : "planned_bytes", "there");
        }
        rank->planned_sum.number += planned.number;
        rank->peak_sum.number += peak.number;
    }
    return 0;
}

static int read_memory(const char *path, const cJSON *object, CheckRank *rank)
{
    const cJSON *memory;
    JsonPlace place = {path, "memory"};
    int code = json_read_object((JsonPlace){path, ""}, object, "memory", &memory);
    code = code != 0 ? code : json_read_number(place, memory, "peak_bytes", &rank->peak_bytes);
    code = code != 0 ? code
                     : json_read_number(place, memory, "allocated_bytes", &rank->allocated_bytes);
    code =
        code != 0 ? code : json_read_number(place, memory, "planned_bytes", &rank->planned_bytes);
    return code != 0 ? code : read_categories(place, memory, rank);
}

static int read_gpu(const char *path, const cJSON *object, CheckRank *rank)
{
    const cJSON *gpu, *used = NULL;
    JsonPlace place = {path, "gpu"};
    int code = json_read_object((JsonPlace){path, ""}, object, "gpu", &gpu);
    code =
        code != 0 ? code : json_read_number(place, gpu, "throttled_share", &rank->throttled_share);
    code = code != 0
               ? code
               : json_read_text(place, gpu, "throttle", rank->throttle, sizeof rank->throttle);
    code =
        code != 0 ? code : json_read_number(place, gpu, "other_processes", &rank->other_processes);
    code = code != 0 ? code : json_read_number(place, gpu, "total_bytes", &rank->total_bytes);
    code = code != 0 ? code : json_read_object(place, gpu, "used_bytes", &used);
    return code != 0 ? code
                     : json_read_number((JsonPlace){path, "gpu.used_bytes"}, used, "max",
                                        &rank->used_bytes);
}

static int read_rank(const char *path, const cJSON *object, int64_t number, CheckRank *rank)
{
    const cJSON *timers = NULL;
    JsonPlace place = {path, ""};
    memset(rank, 0, sizeof *rank);
    int code = read_identity(place, object, number, rank);
    code = code != 0 ? code : json_read_number(place, object, "wall_s", &rank->wall_s);
    code = code != 0 ? code : json_read_object(place, object, "timers", &timers);
    if (code == 0 && timers != NULL) {
        rank->has_timers = true;
        code = summary_read_phases(path, "timers", timers, &rank->timers, &rank->other_phases);
        rank->timers.wall_s = rank->wall_s.number;
    }
    code = code != 0 ? code : read_memory(path, object, rank);
    return code != 0 ? code : read_gpu(path, object, rank);
}

int rank_files_read(const char *dir, CheckRank **ranks, size_t *count)
{
    *ranks = NULL;
    *count = 0;
    int64_t *numbers;
    size_t there;
    int code = record_rank_files(dir, &numbers, &there);
    CheckRank *found = there > 0 ? mem_zalloc(there, sizeof *found) : NULL;
    for (size_t i = 0; code == 0 && i < there; i++) {
        char *path = mem_format("%s/ranks/%lld.json", dir, (long long)numbers[i]);
        cJSON *object;
        code = json_load(path, &object);
        if (code == 0) {
            code = read_rank(path, object, numbers[i], &found[i]);
            cJSON_Delete(object);
        }
        free(path);
    }
    if (code == 0) {
        *ranks = found;
        *count = there;
    } else {
        free(found);
    }
    free(numbers);
    return code;
}
