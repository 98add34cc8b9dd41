#pragma once
/* Members of a JSON object that a test demands. */
#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static inline const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (found == NULL) {
        fail_msg("no \"%s\"", name);
    }
    return found;
}

static inline double number(const cJSON *object, const char *name)
{
    const cJSON *found = member(object, name);
    if (!cJSON_IsNumber(found)) {
        fail_msg("\"%s\" is no number", name);
    }
    return found->valuedouble;
}

static inline void assert_text(const cJSON *object, const char *name, const char *text)
{
    const cJSON *found = member(object, name);
    assert_true(cJSON_IsString(found));
    assert_string_equal(found->valuestring, text);
}
