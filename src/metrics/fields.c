#include "metrics/fields.h"

#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int field_error(Place place, const char *name, const char *what)
{
    bool top = place.inside[0] == '\0';
    return err_set(ERR_INPUT, "%s: \"%s%s%s\" is not %s; the record is damaged, or not pacer's",
                   place.path, place.inside, top ? "" : ".", name, what);
}

/* NULL for what is absent or null. */
static const cJSON *present(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNull(item) ? NULL : item;
}

/* The note is a list "loss is NaN, ms is infinite". */
static bool noted(const cJSON *object, const char *name)
{
    const cJSON *note = cJSON_GetObjectItemCaseSensitive(object, "note");
    if (!cJSON_IsString(note) || !cJSON_HasObjectItem(object, name)) {
        return false;
    }
    char *wanted = mem_format("%s is ", name);
    bool found = false;
    for (const char *at = note->valuestring; at != NULL && !found;) {
        found = strncmp(at, wanted, strlen(wanted)) == 0;
        at = strstr(at, ", ");
        at = at != NULL ? at + 2 : NULL;
    }
    free(wanted);
    return found;
}

int field_number(Place place, const cJSON *object, const char *name, Value *out)
{
    *out = (Value){0};
    const cJSON *item = present(object, name);
    if (item == NULL) {
        *out = noted(object, name) ? value_of(NAN) : (Value){0};
        return 0;
    }
    if (!cJSON_IsNumber(item)) {
        return field_error(place, name, "a number");
    }
    *out = value_of(item->valuedouble);
    return 0;
}

int field_count(Place place, const cJSON *object, const char *name, Value *out)
{
    int code = field_number(place, object, name, out);
    if (code == 0 && out->known &&
        !(out->number >= 0 && out->number <= FIELD_WHOLE_MAX &&
          floor(out->number) == out->number)) {
        *out = (Value){0};
        code = field_error(place, name, "a whole number from 0 to 10^15");
    }
    return code;
}

int field_format(Place place, const cJSON *object, const char *name, int newest)
{
    const cJSON *item = present(object, name);
    if (cJSON_IsNumber(item) && item->valuedouble > newest) {
        return err_set(ERR_INPUT,
                       "%s: written by a newer pacer: \"%s\" %.15g, this one reads up to %d; use a "
                       "newer pacer",
                       place.path, name, item->valuedouble, newest);
    }
    return 0;
}

int field_text(Place place, const cJSON *object, const char *name, char *out, size_t size)
{
    out[0] = '\0';
    const cJSON *item = present(object, name);
    if (item == NULL) {
        return 0;
    }
    if (!cJSON_IsString(item)) {
        return field_error(place, name, "text");
    }
    size_t length = strnlen(item->valuestring, size - 1);
    memcpy(out, item->valuestring, length);
    out[length] = '\0';
    for (size_t i = 0; i < length; i++) {
        out[i] = (unsigned char)out[i] < ' ' || out[i] == 0x7f ? '?' : out[i];
    }
    return 0;
}

int field_object(Place place, const cJSON *object, const char *name, const cJSON **out)
{
    *out = present(object, name);
    return *out == NULL || cJSON_IsObject(*out) ? 0 : field_error(place, name, "an object");
}

int field_array(Place place, const cJSON *object, const char *name, const cJSON **out)
{
    *out = present(object, name);
    return *out == NULL || cJSON_IsArray(*out) ? 0 : field_error(place, name, "an array");
}
