#include "metrics/json.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_LIMIT ((size_t)256 << 20)

static void added(const void *item)
{
    mem_checked((void *)item, sizeof(cJSON));
}

cJSON *json_object(void)
{
    cJSON *object = cJSON_CreateObject();
    added(object);
    return object;
}

cJSON *json_array(void)
{
    cJSON *array = cJSON_CreateArray();
    added(array);
    return array;
}

void json_put_item(cJSON *object, const char *name, cJSON *item)
{
    if (item == NULL) {
        added(cJSON_AddNullToObject(object, name));
    } else {
        added(cJSON_AddItemToObject(object, name, item) ? item : NULL);
    }
}

/* Adds "name is what" to the object's note. */
static void put_note(cJSON *object, const char *name, const char *what)
{
    const cJSON *old = cJSON_GetObjectItemCaseSensitive(object, "note");
    char *text = old != NULL ? mem_format("%s, %s is %s", old->valuestring, name, what)
                             : mem_format("%s is %s", name, what);
    cJSON_DeleteItemFromObjectCaseSensitive(object, "note");
    json_put_text(object, "note", text);
    free(text);
}

void json_put(cJSON *object, const char *name, Value value)
{
    if (!value.known) {
        return;
    }
    if (isfinite(value.number)) {
        added(cJSON_AddNumberToObject(object, name, value.number));
        return;
    }
    json_put_item(object, name, NULL);
    put_note(object, name,
             isnan(value.number) ? "NaN"
             : value.number > 0  ? "infinite"
                                 : "-infinite");
}

void json_put_or_null(cJSON *object, const char *name, Value value)
{
    if (value.known) {
        json_put(object, name, value);
    } else {
        json_put_item(object, name, NULL);
    }
}

void json_put_whole(cJSON *object, const char *name, int64_t number)
{
    added(cJSON_AddNumberToObject(object, name, (double)number));
}

void json_put_text(cJSON *object, const char *name, const char *text)
{
    if (text != NULL) {
        added(cJSON_AddStringToObject(object, name, text));
    }
}

int json_save(const char *path, const cJSON *tree)
{
    char *text = cJSON_Print(tree);
    added(text);
    size_t size = strlen(text);
    text[size] = '\n'; /* in place of the NUL: a text file ends with a newline */
    int code = io_write_atomic(path, text, size + 1);
    cJSON_free(text);
    return code;
}

int json_load(const char *path, cJSON **tree)
{
    *tree = NULL;
    char *text;
    size_t size;
    int code = io_read_all(path, RECORD_LIMIT, &text, &size);
    if (code != 0) {
        return code;
    }
    const char *end = NULL;
    cJSON *parsed = cJSON_ParseWithLengthOpts(text, size, &end, 0);
    if (!cJSON_IsObject(parsed) || end + strspn(end, " \t\r\n") != text + size) {
        code = err_set(ERR_INPUT, "%s: not a JSON object, at or before byte %lld", path,
                       end != NULL ? (long long)(end - text) : 0LL);
        cJSON_Delete(parsed);
    } else {
        *tree = parsed;
    }
    free(text);
    return code;
}

int json_write(const char *path, const cJSON *tree)
{
    char *text = cJSON_Print(tree);
    added(text);
    char *safe = escape_json(text);
    cJSON_free(text);
    Output *output;
    int code = output_open(path, &output);
    if (code == 0) {
        output_put(output, safe, strlen(safe));
        output_put(output, "\n", 1);
        code = output_commit(output);
    }
    free(safe);
    return code;
}
