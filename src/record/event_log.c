#include "record/events.h"

#include "base/assert.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/page.h"

#include <stdio.h>
#include <stdlib.h>

static void put(Events *events, const char *tag, Value value)
{
    if (value.known) {
        events_scalar(events, tag, value.number);
    }
}

/* --- start --- */

/* Caller frees. */
static char *config_table(const cJSON *config)
{
    Page table = {0};
    page_put(&table, "| option | value |\n| --- | --- |\n");
    const cJSON *item;
    cJSON_ArrayForEach(item, config)
    {
        char *printed = cJSON_IsString(item) ? NULL : json_line(item);
        char *name = escape_markdown(item->string);
        char *value = escape_markdown(printed != NULL ? printed : item->valuestring);
        page_put(&table, "| %s | %s |\n", name, value);
        free(value);
        free(name);
        free(printed);
    }
    return page_end(&table);
}

int event_log_start(Events *events, const cJSON *run, double wall_time, int64_t resume_step)
{
    int code = resume_step >= 0 ? events_restart(events, wall_time, resume_step + 1) : 0;
    const cJSON *config = json_get(run, "config");
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
        {"noise_scale", "noise/sequences"},
        {"noise_tokens", "noise/tokens"},
    };
    Value step = json_value(line, "step");
    if (!(step.known && step.number >= 0 && step.number <= JSON_WHOLE_MAX)) {
        return 0;
    }
    events_begin(events, wall_time, (int64_t)step.number);
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        put(events, scalars[i].tag, json_value(line, scalars[i].field));
    }
    /* FLOP of one rank's update over its time and the measured rate of its device; not where
     * updates change their size. */
    Value ms = json_value(line, "ms"), flops = json_value(json_get(run, "model"), "flops_update");
    Value device = json_value(json_get(run, "machine"), "device_matmul_gflops");
    Value own = json_value(json_get(run, "machine"), "sgemm_gflops");
    Value gflops = device.known ? device : own;
    if (json_get(run, "ramp") == NULL && flops.known && gflops.known && gflops.number > 0 &&
        ms.known && ms.number > 0) {
        events_scalar(events, "speed/mfu",
                      flops.number / (1e-3 * ms.number) / (1e9 * gflops.number));
    }
    return events_end(events);
}

/* --- end --- */

int event_log_end(Events *events, const cJSON *run, double wall_time)
{
    static const char *const bytes[] = {"peak_bytes", "allocated_bytes", "reserved_bytes",
                                        "planned_bytes"};
    const cJSON *summary = json_get(run, "summary"), *phase;
    Value steps = json_value(summary, "steps");
    if (!(steps.known && steps.number >= 0 && steps.number <= JSON_WHOLE_MAX)) {
        return 0;
    }
    events_begin(events, wall_time, (int64_t)steps.number);
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        char *tag = mem_format("memory/%s", bytes[i]);
        put(events, tag, json_value(summary, bytes[i]));
        free(tag);
    }
    cJSON_ArrayForEach(phase, json_get(summary, "phases"))
    {
        char *tag = mem_format("phases/%s_s", phase->string);
        put(events, tag, json_value(phase, "exclusive_s"));
        free(tag);
    }
    return events_end(events);
}
