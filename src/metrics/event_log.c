#include "metrics/event_log.h"

#include "base/assert.h"
#include "base/escape.h"
#include "base/mem.h"
#include "metrics/fields.h"

#include <stdio.h>
#include <stdlib.h>

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* Missing when it is no number; NaN where the record's note says so. */
static Value number_of(const cJSON *object, const char *name)
{
    const cJSON *item = member(object, name);
    Value value = {0};
    if (cJSON_IsNumber(item) || cJSON_IsNull(item)) {
        field_number((Place){"", ""}, object, name, &value);
    }
    return value;
}

static void put(Events *events, const char *tag, Value value)
{
    if (value.known) {
        events_scalar(events, tag, value.number);
    }
}

/* --- start --- */

/* A cell of a Markdown table. */
static void put_cell(FILE *out, const char *text)
{
    char *safe = escape_markdown(text);
    fprintf(out, " %s |", safe);
    free(safe);
}

/* Caller frees. */
static char *config_table(const cJSON *config)
{
    char *table = NULL;
    size_t size;
    FILE *out = open_memstream(&table, &size);
    mem_checked(out, sizeof *out);
    fputs("| option | value |\n| --- | --- |\n", out);
    const cJSON *item;
    cJSON_ArrayForEach(item, config)
    {
        char *printed = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
        fputc('|', out);
        put_cell(out, item->string);
        put_cell(out, printed != NULL ? printed : item->valuestring);
        fputc('\n', out);
        cJSON_free(printed);
    }
    mem_checked(fclose(out) == 0 ? table : NULL, size);
    return table;
}

int event_log_start(Events *events, const cJSON *run, double wall_time, int64_t resume_step)
{
    int code = resume_step >= 0 ? events_restart(events, wall_time, resume_step + 1) : 0;
    const cJSON *config = member(run, "config");
    if (code != 0 || !cJSON_IsObject(config)) {
        return code;
    }
    char *table = config_table(config);
    events_begin(events, wall_time, resume_step > 0 ? resume_step : 0);
    events_text(events, "config", table);
    events_hparams(events, config, wall_time);
    free(table);
    return events_end(events);
}

/* --- lines --- */

/* FLOP of one rank's update over its time and the measured rate of its device. */
static Value utilization(const cJSON *run, Value ms)
{
    Value flops = number_of(member(run, "model"), "flops_update");
    Value device = number_of(member(run, "machine"), "device_matmul_gflops");
    Value own = number_of(member(run, "machine"), "sgemm_gflops");
    Value gflops = device.known ? device : own;
    bool known = flops.known && gflops.known && gflops.number > 0 && ms.known && ms.number > 0;
    return known ? value_of(flops.number / (1e-3 * ms.number) / (1e9 * gflops.number)) : (Value){0};
}

int event_log_line(Events *events, const cJSON *run, const cJSON *line, double wall_time)
{
    static const struct {
        const char *field, *tag;
    } scalars[] = {
        {"loss", "train/loss"},
        {"lr", "train/lr"},
        {"grad_norm", "train/grad_norm"},
        {"tokens", "train/tokens"},
        {"tok_s", "speed/tok_s"},
        {"ms", "speed/ms_per_step"},
        {"peak_bytes", "memory/peak_bytes"},
        {"val_loss", "val/loss"},
    };
    Value step = number_of(line, "step");
    if (!(step.known && step.number >= 0 && step.number <= FIELD_WHOLE_MAX)) {
        return 0;
    }
    events_begin(events, wall_time, (int64_t)step.number);
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        put(events, scalars[i].tag, number_of(line, scalars[i].field));
    }
    put(events, "speed/mfu", utilization(run, number_of(line, "ms")));
    return events_end(events);
}

/* --- end --- */

int event_log_end(Events *events, const cJSON *run, double wall_time)
{
    static const char *const bytes[] = {"peak_bytes", "allocated_bytes", "reserved_bytes",
                                        "planned_bytes"};
    const cJSON *summary = member(run, "summary"), *phase;
    Value steps = number_of(summary, "steps");
    if (!(steps.known && steps.number >= 0 && steps.number <= FIELD_WHOLE_MAX)) {
        return 0;
    }
    events_begin(events, wall_time, (int64_t)steps.number);
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        char *tag = mem_format("memory/%s", bytes[i]);
        put(events, tag, number_of(summary, bytes[i]));
        free(tag);
    }
    cJSON_ArrayForEach(phase, member(summary, "phases"))
    {
        char *tag = mem_format("phases/%s_s", phase->string);
        put(events, tag, number_of(phase, "exclusive_s"));
        free(tag);
    }
    return events_end(events);
}
