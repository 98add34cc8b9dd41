/* The options of a record, as run.json and state.json have them. */
#include "fuzz/config_check.h"
#include "fuzz/fuzz.h"

#include "config/config.h"

#include <cjson/cJSON.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *json = cJSON_ParseWithLength((const char *)data, size);
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    fuzz_forget();
    int code = config_from_json(&cfg, json, "run.json");
    fuzz_expect(code);
    if (code == 0) {
        fuzz_config_again(&cfg);
    }
    config_free(&cfg);
    cJSON_Delete(json);
    return 0;
}
