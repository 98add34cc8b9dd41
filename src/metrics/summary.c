#include "metrics/summary.h"

#include "base/mem.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

cJSON *summary_json(const Summary *summary, cJSON *checks)
{
    cJSON *object = json_object();
#define X(name) json_put_or_null(object, #name, summary->name);
    PACER_SUMMARY(X)
#undef X
    json_put_item(object, "phases", summary->phases != NULL ? timers_json(summary->phases) : NULL);
    json_put_item(object, "checks", checks);
    return object;
}

int summary_read(const char *path, const cJSON *object, Summary *summary)
{
    JsonPlace place = {path, "summary"};
    const struct {
        const char *name;
        Value *value;
    } fields[] = {
#define X(name) {#name, &summary->name},
        PACER_SUMMARY(X)
#undef X
    };
    int code = 0;
    for (size_t i = 0; code == 0 && i < sizeof fields / sizeof fields[0]; i++) {
        code = json_read_number(place, object, fields[i].name, fields[i].value);
    }
    return code;
}

/* A time that is missing is NaN: the checks find it where there should be one. */
static int read_phase(JsonPlace place, const cJSON *object, PhaseReport *phase)
{
    const struct {
        const char *name;
        double *seconds;
    } fields[] = {{"total_s", &phase->total_s}, {"exclusive_s", &phase->exclusive_s},
                  {"mean_s", &phase->mean_s},   {"p50_s", &phase->p50_s},
                  {"p95_s", &phase->p95_s},     {"p99_s", &phase->p99_s},
                  {"max_s", &phase->max_s}};
    Value value;
    int code = 0;
    for (size_t i = 0; code == 0 && i < sizeof fields / sizeof fields[0]; i++) {
        code = json_read_number(place, object, fields[i].name, &value);
        *fields[i].seconds = value.known ? value.number : NAN;
    }
    if (code == 0) {
        code = json_read_count(place, object, "count", &value);
        phase->count = value.known ? (int64_t)value.number : 0;
    }
    return code;
}

static Phase find_phase(const char *name)
{
    int phase = 0;
    while (phase < PHASE_COUNT && strcmp(phase_name((Phase)phase), name) != 0) {
        phase++;
    }
    return (Phase)phase;
}

int summary_read_phases(const char *path, const char *inside, const cJSON *object,
                        TimerReport *report, double *other)
{
    memset(report, 0, sizeof *report);
    *other = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        if (!cJSON_IsObject(item)) {
            return json_wrong((JsonPlace){path, inside}, item->string, "an object");
        }
        char *within = mem_format("%s.%s", inside, item->string);
        PhaseReport phase;
        int code = read_phase((JsonPlace){path, within}, item, &phase);
        free(within);
        if (code != 0) {
            return code;
        }
        Phase known = find_phase(item->string);
        if (known < PHASE_COUNT) {
            report->phases[known] = phase;
        } else if (strcmp(item->string, "unattributed") == 0) {
            report->unattributed_s = phase.exclusive_s;
        } else {
            *other += phase.exclusive_s;
        }
    }
    return 0;
}
