#include "api/result.h"

#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

struct pacer_result {
    char *directory;
    cJSON *numbers;
};

pacer_result *result_new(char *directory, cJSON *numbers)
{
    pacer_result *result = mem_zalloc(1, sizeof *result);
    result->directory = directory != NULL ? directory : mem_strdup("");
    result->numbers = numbers;
    return result;
}

void pacer_result_free(pacer_result *result)
{
    if (result != NULL) {
        cJSON_Delete(result->numbers);
        free(result->directory);
        free(result);
    }
}

const char *pacer_result_directory(const pacer_result *result)
{
    return result->directory;
}

double pacer_result_number(const pacer_result *result, const char *name)
{
    const cJSON *item = json_get(result->numbers, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}
