#include "fuzz/config_check.h"

#include "base/assert.h"
#include "base/err.h"
#include "support/config_difference.h"

#include <cjson/cJSON.h>
#include <string.h>

void fuzz_config_again(const Config *cfg)
{
    cJSON *json = config_to_json(cfg);
    Config again;
    config_init(&again, cfg->command);
    int code = config_from_json(&again, json, "again");
    PACER_ASSERT(code == 0, "its own JSON is refused: %s", err_message());
    const Option *other = config_first_difference(cfg, &again, 0);
    PACER_ASSERT(other == NULL, "%s changes on its way through JSON", other->name);
    char id[CONFIG_ID_SIZE], id_again[CONFIG_ID_SIZE];
    config_run_id(cfg, id);
    config_run_id(&again, id_again);
    PACER_ASSERT(strcmp(id, id_again) == 0, "run id %s becomes %s", id, id_again);
    config_free(&again);
    cJSON_Delete(json);
}
