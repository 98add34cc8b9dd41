#include "metrics/summary.h"

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
