#include "record/summary.h"

#include "base/json.h"
#include "base/mem.h"

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

void summary_read(JsonReader *reader, const cJSON *object, Summary *summary)
{
#define X(name) summary->name = json_read_number(reader, object, #name);
    PACER_SUMMARY(X)
#undef X
}

/* A time that is missing is NaN: the checks find it where there should be one. */
static PhaseReport read_phase(JsonReader *reader, const cJSON *object)
{
    PhaseReport phase = {0};
    const struct {
        const char *name;
        double *seconds;
    } fields[] = {{"total_s", &phase.total_s}, {"exclusive_s", &phase.exclusive_s},
                  {"mean_s", &phase.mean_s},   {"p50_s", &phase.p50_s},
                  {"p95_s", &phase.p95_s},     {"p99_s", &phase.p99_s},
                  {"max_s", &phase.max_s}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        Value value = json_read_number(reader, object, fields[i].name);
        *fields[i].seconds = value.known ? value.number : NAN;
    }
    Value count = json_read_count(reader, object, "count");
    phase.count = count.known ? (int64_t)count.number : 0;
    return phase;
}

static Phase find_phase(const char *name)
{
    int phase = 0;
    while (phase < PHASE_COUNT && strcmp(phase_name((Phase)phase), name) != 0) {
        phase++;
    }
    return (Phase)phase;
}

double summary_read_phases(JsonReader *reader, const char *name, const cJSON *object,
                           TimerReport *report)
{
    const cJSON *item, *phases = json_read_object(reader, object, name);
    const char *dot = reader->inside[0] != '\0' ? "." : "";
    double other = 0;
    memset(report, 0, sizeof *report);
    cJSON_ArrayForEach(item, phases)
    {
        char *inside = mem_format("%s%s%s", reader->inside, dot, name);
        char *within = mem_format("%s.%s", inside, item->string);
        JsonReader in_all = {reader->path, inside, reader->code};
        if (!cJSON_IsObject(item)) {
            json_wrong(&in_all, item->string, "an object");
        }
        JsonReader in_one = {reader->path, within, in_all.code};
        PhaseReport phase = read_phase(&in_one, item);
        reader->code = in_one.code;
        free(within);
        free(inside);
        Phase known = find_phase(item->string);
        if (known < PHASE_COUNT) {
            report->phases[known] = phase;
        } else if (strcmp(item->string, "unattributed") == 0) {
            report->unattributed_s = phase.exclusive_s;
        } else {
            other += phase.exclusive_s;
        }
    }
    return other;
}
