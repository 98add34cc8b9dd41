#include "base/json.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT ((size_t)256 << 20)

Value value_finite(double number)
{
    return (Value){isfinite(number), number};
}

/* --- writing --- */

static void *made(const void *item)
{
    return mem_checked((void *)item, sizeof(cJSON));
}

cJSON *json_object(void)
{
    return made(cJSON_CreateObject());
}

cJSON *json_array(void)
{
    return made(cJSON_CreateArray());
}

cJSON *json_copy(const cJSON *item)
{
    return item != NULL ? made(cJSON_Duplicate(item, true)) : NULL;
}

void json_put_item(cJSON *object, const char *name, cJSON *item)
{
    if (item == NULL) {
        made(cJSON_AddNullToObject(object, name));
    } else {
        made(cJSON_AddItemToObject(object, name, item) ? item : NULL);
    }
}

cJSON *json_put_object(cJSON *object, const char *name)
{
    return made(cJSON_AddObjectToObject(object, name));
}

cJSON *json_put_array(cJSON *object, const char *name)
{
    return made(cJSON_AddArrayToObject(object, name));
}

void json_append(cJSON *array, cJSON *item)
{
    made(cJSON_AddItemToArray(array, item) ? item : NULL);
}

void json_append_text(cJSON *array, const char *text)
{
    json_append(array, cJSON_CreateString(text));
}

void json_replace(cJSON *object, const char *name, cJSON *item)
{
    while (json_get(object, name) != NULL) { /* a file may have it twice */
        cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    }
    json_put_item(object, name, item);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool is_list(const cJSON *item)
{
    return cJSON_IsObject(item) || cJSON_IsArray(item);
}

/* Whether the two are equal but for their names. */
static bool share(cJSON *item, const cJSON *like)
{
    bool same = (item->type & 0xff) == (like->type & 0xff);
    if (!same || !is_list(item)) {
        return same && same_text(item->valuestring, like->valuestring) &&
               (!cJSON_IsNumber(item) || item->valuedouble == like->valuedouble);
    }
    const cJSON *other = like->child;
    for (cJSON *child = item->child; child != NULL; child = child->next) {
        const cJSON *twin = other;
        if (twin == NULL || !same_text(child->string, twin->string)) {
            twin = child->string != NULL ? json_get(like, child->string) : NULL;
            same = false;
        }
        same = twin != NULL && share(child, twin) && same;
        other = other != NULL ? other->next : NULL;
    }
    if (same && other == NULL && item->child != like->child) {
        cJSON_Delete(item->child);
        item->child = like->child;
        item->type |= cJSON_IsReference;
    }
    return same && other == NULL;
}

void json_share(cJSON *tree, const cJSON *like)
{
    if (tree != NULL && like != NULL && tree != like) {
        share(tree, like);
    }
}

/* Adds "name is what" to the object's note. */
static void put_note(cJSON *object, const char *name, const char *what)
{
    const char *old = json_text(object, "note");
    char *text = old != NULL ? mem_format("%s, %s is %s", old, name, what)
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
        made(cJSON_AddNumberToObject(object, name, value.number));
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

void json_put_number(cJSON *object, const char *name, double number)
{
    json_put(object, name, value_of(number));
}

void json_put_whole(cJSON *object, const char *name, int64_t number)
{
    made(cJSON_AddNumberToObject(object, name, (double)number));
}

void json_put_text(cJSON *object, const char *name, const char *text)
{
    if (text != NULL) {
        made(cJSON_AddStringToObject(object, name, text));
    }
}

void json_put_bool(cJSON *object, const char *name, bool value)
{
    made(cJSON_AddBoolToObject(object, name, value));
}

void json_put_raw(cJSON *object, const char *name, const char *json)
{
    made(cJSON_AddRawToObject(object, name, json));
}

char *json_print(const cJSON *tree)
{
    char *printed = made(cJSON_Print(tree));
    char *text = mem_format("%s\n", printed);
    cJSON_free(printed);
    return text;
}

char *json_line(const cJSON *tree)
{
    char *printed = made(cJSON_PrintUnformatted(tree));
    char *text = mem_strdup(printed);
    cJSON_free(printed);
    return text;
}

int json_save(const char *path, const cJSON *tree)
{
    char *text = json_print(tree);
    int code = io_write_atomic(path, text, strlen(text));
    free(text);
    return code;
}

int json_write(const char *path, cJSON *tree)
{
    char *text = json_print(tree), *safe = escape_json(text);
    Output *output;
    int code = output_open(path, &output);
    if (code == 0) {
        output_put(output, safe, strlen(safe));
        code = output_commit(output);
    }
    free(safe);
    free(text);
    cJSON_Delete(tree);
    return code;
}

/* --- reading --- */

cJSON *json_parse(const char *text, size_t size, JsonFault *fault)
{
    const char *end = text, *last = text + size;
    cJSON *tree = cJSON_ParseWithLengthOpts(text, size, &end, false);
    end = end != NULL ? end : text;
    while (tree != NULL && end < last && *end != '\0' && strchr(" \t\r\n", *end) != NULL) {
        end++;
    }
    if (tree != NULL && end == last) {
        return tree;
    }
    if (fault != NULL) {
        *fault = (JsonFault){(size_t)(end - text), 1};
        for (const char *at = text; at < end; at++) {
            fault->line += *at == '\n';
        }
    }
    cJSON_Delete(tree);
    return NULL;
}

int json_load(const char *path, cJSON **tree)
{
    *tree = NULL;
    char *text;
    size_t size;
    int code = io_read_all(path, FILE_LIMIT, &text, &size);
    if (code != 0) {
        return code;
    }
    JsonFault fault = {size, 0};
    *tree = json_parse(text, size, &fault);
    free(text);
    if (!cJSON_IsObject(*tree)) {
        cJSON_Delete(*tree);
        *tree = NULL;
        return err_set(ERR_INPUT, "%s: not a JSON object, at or before byte %zu", path, fault.byte);
    }
    return 0;
}

int json_load_optional(const char *path, cJSON **tree)
{
    *tree = NULL;
    return io_exists(path) ? json_load(path, tree) : 0;
}

/* --- tolerant --- */

cJSON *json_get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

const cJSON *json_find(const cJSON *tree, const char *path)
{
    char name[64];
    for (const char *at = path; tree != NULL;) {
        size_t length = strcspn(at, ".");
        if (length >= sizeof name) {
            return NULL;
        }
        memcpy(name, at, length);
        name[length] = '\0';
        tree = json_get(tree, name);
        at += length;
        if (*at == '\0') {
            return tree;
        }
        at++;
    }
    return NULL;
}

const char *json_text(const cJSON *tree, const char *path)
{
    return cJSON_GetStringValue(json_find(tree, path));
}

double json_number(const cJSON *tree, const char *path)
{
    const cJSON *item = json_find(tree, path);
    return cJSON_IsNumber(item) && isfinite(item->valuedouble) ? item->valuedouble : NAN;
}

const char *json_text_or(const cJSON *tree, const char *path, const char *otherwise)
{
    const char *text = json_text(tree, path);
    return text != NULL ? text : otherwise;
}

/* The note is a list "loss is NaN, ms is infinite". */
static bool noted(const cJSON *object, const char *name)
{
    const char *note = json_text(object, "note");
    if (note == NULL) {
        return false;
    }
    char *wanted = mem_format("%s is ", name);
    bool found = false;
    for (const char *at = note; at != NULL && !found;) {
        found = strncmp(at, wanted, strlen(wanted)) == 0;
        at = strstr(at, ", ");
        at = at != NULL ? at + 2 : NULL;
    }
    free(wanted);
    return found;
}

Value json_value(const cJSON *object, const char *name)
{
    const cJSON *item = json_get(object, name);
    if (cJSON_IsNumber(item)) {
        return value_of(item->valuedouble);
    }
    return cJSON_IsNull(item) && noted(object, name) ? value_of(NAN) : (Value){0};
}

bool json_is_true(const cJSON *tree, const char *path)
{
    return cJSON_IsTrue(json_find(tree, path));
}

bool json_lists(const cJSON *array, const char *text)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, text) == 0) {
            return true;
        }
    }
    return false;
}

bool json_is_nothing(const cJSON *item)
{
    return item == NULL || cJSON_IsNull(item);
}

bool json_whole(const cJSON *item, double most, int64_t *out)
{
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0 && value <= most) || value != floor(value)) {
        return false;
    }
    *out = (int64_t)value;
    return true;
}

/* --- checked --- */

void json_wrong(JsonReader *reader, const char *name, const char *what)
{
    if (reader->code == 0) {
        reader->code =
            err_set(ERR_INPUT, "%s: \"%s%s%s\" is not %s; the record is damaged, or not pacer's",
                    reader->path, reader->inside, reader->inside[0] == '\0' ? "" : ".", name, what);
    }
}

/* The object that has the last name of the path, in *name; NULL when there is none. */
static const cJSON *holder(JsonReader *reader, const cJSON *tree, const char *path,
                           const char **name)
{
    *name = path;
    for (const char *dot; reader->code == 0 && (dot = strchr(*name, '.')) != NULL;) {
        char step[64];
        snprintf(step, sizeof step, "%.*s", (int)(dot - *name), *name);
        tree = json_get(tree, step);
        if (!json_is_nothing(tree) && !cJSON_IsObject(tree)) {
            snprintf(step, sizeof step, "%.*s", (int)(dot - path), path);
            json_wrong(reader, step, "an object");
        }
        *name = dot + 1;
    }
    return reader->code == 0 ? tree : NULL;
}

Value json_read_number(JsonReader *reader, const cJSON *tree, const char *path)
{
    const char *name;
    const cJSON *object = holder(reader, tree, path, &name);
    const cJSON *item = json_get(object, name);
    if (!json_is_nothing(item) && !cJSON_IsNumber(item)) {
        json_wrong(reader, path, "a number");
    }
    return json_value(object, name);
}

Value json_read_count(JsonReader *reader, const cJSON *tree, const char *path)
{
    Value value = json_read_number(reader, tree, path);
    if (value.known && !(value.number >= 0 && value.number <= JSON_WHOLE_MAX &&
                         floor(value.number) == value.number)) {
        json_wrong(reader, path, "a whole number from 0 to 10^15");
        return (Value){0};
    }
    return value;
}

/* NULL for what is absent or null. */
static const cJSON *of_kind(JsonReader *reader, const cJSON *tree, const char *path,
                            cJSON_bool (*is)(const cJSON *), const char *kind)
{
    const char *name;
    const cJSON *object = holder(reader, tree, path, &name), *item = json_get(object, name);
    if (json_is_nothing(item)) {
        return NULL;
    }
    if (!is(item)) {
        json_wrong(reader, path, kind);
        return NULL;
    }
    return item;
}

void json_read_text(JsonReader *reader, const cJSON *tree, const char *path, char *out, size_t size)
{
    const cJSON *item = of_kind(reader, tree, path, cJSON_IsString, "text");
    snprintf(out, size, "%s", item != NULL ? item->valuestring : "");
    for (char *at = out; *at != '\0'; at++) {
        *at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at;
    }
}

const cJSON *json_read_object(JsonReader *reader, const cJSON *tree, const char *path)
{
    return of_kind(reader, tree, path, cJSON_IsObject, "an object");
}

const cJSON *json_read_array(JsonReader *reader, const cJSON *tree, const char *path)
{
    return of_kind(reader, tree, path, cJSON_IsArray, "an array");
}

int json_read_format(const char *path, const cJSON *object, const char *name, int newest)
{
    const cJSON *item = json_get(object, name);
    if (cJSON_IsNumber(item) && item->valuedouble > newest) {
        return err_set(ERR_INPUT,
                       "%s: written by a newer pacer: \"%s\" %.15g, this one reads up to %d; use a "
                       "newer pacer",
                       path, name, item->valuedouble, newest);
    }
    return 0;
}
