#include "data/source_internal.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_BUFFER ((size_t)1 << 20)
#define ESCAPED_ZERO "\\u0000"
#define ESCAPED_ZERO_LENGTH (sizeof ESCAPED_ZERO - 1)

/* The buffer holds file bytes up to `read_to`; those from `begin` on are lines to come. */
struct JsonlDocuments {
    const SourceFile *file;
    JsonlOptions options;
    uint64_t line, read_to;
    size_t begin, used, capacity;
    char *buffer;
    cJSON *root; /* holds the current document's text */
};

typedef struct {
    const char *bytes;
    size_t size;
    bool too_long; /* then it has no bytes */
} Line;

JsonlDocuments *jsonl_documents_open(const SourceFile *file, JsonlOptions options)
{
    JsonlDocuments *d = mem_alloc(sizeof *d);
    *d = (JsonlDocuments){.file = file,
                          .options = options,
                          .read_to = file->start,
                          .capacity = FIRST_BUFFER,
                          .buffer = mem_alloc(FIRST_BUFFER)};
    return d;
}

void jsonl_documents_close(JsonlDocuments *documents)
{
    if (documents != NULL) {
        cJSON_Delete(documents->root);
        free(documents->buffer);
        free(documents);
    }
}

uint64_t jsonl_documents_position(const JsonlDocuments *documents)
{
    return documents->read_to - (documents->used - documents->begin);
}

/* Reads on behind what the buffer holds, in a larger buffer where it is full. */
static int read_more(JsonlDocuments *d)
{
    memmove(d->buffer, d->buffer + d->begin, d->used - d->begin);
    d->used -= d->begin;
    d->begin = 0;
    if (d->used == d->capacity) {
        d->buffer = mem_realloc(d->buffer, 2 * d->capacity, 1);
        d->capacity *= 2;
    }
    uint64_t left = d->file->size - d->read_to;
    size_t room = d->capacity - d->used, part = left < room ? (size_t)left : room;
    int code = source_file_read(d->file, d->read_to, d->buffer + d->used, part);
    if (code == 0) {
        d->used += part;
        d->read_to += part;
    }
    return code;
}

/* The next line without its line break; *found is false at the end. Of a line that is too long no
 * more than the limit is ever held. */
static int next_line(JsonlDocuments *d, Line *line, bool *found)
{
    *line = (Line){0};
    for (size_t searched = 0;;) {
        const char *from = d->buffer + d->begin;
        size_t size = d->used - d->begin;
        const char *end = memchr(from + searched, '\n', size - searched);
        bool last = d->read_to == d->file->size;
        if (end != NULL || last) {
            *found = size > 0 || line->too_long;
            line->bytes = from;
            line->size = end != NULL ? (size_t)(end - from) : size;
            line->too_long = line->too_long || line->size > d->options.max_line;
            d->begin += line->size + (end != NULL);
            d->line += *found;
            return 0;
        }
        searched = size;
        if (size > d->options.max_line) {
            line->too_long = true;
            d->begin = d->used;
            searched = 0;
        }
        int code = read_more(d);
        if (code != 0) {
            return code;
        }
    }
}

static bool is_blank(Line line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (strchr(" \t\r", line.bytes[i]) == NULL || line.bytes[i] == '\0') {
            return false;
        }
    }
    return !line.too_long;
}

static const char *type_name(const cJSON *item)
{
    return cJSON_IsNull(item)     ? "null"
           : cJSON_IsBool(item)   ? "true or false"
           : cJSON_IsNumber(item) ? "a number"
           : cJSON_IsString(item) ? "a string"
           : cJSON_IsArray(item)  ? "a list"
                                  : "an object";
}

/* The names of an object's fields, as far as there is room, fit for a terminal. */
static const char *list_fields(const cJSON *object, char *out, size_t room)
{
    size_t used = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        int length =
            snprintf(out + used, room - used, "%s%.40s", used > 0 ? ", " : "", item->string);
        if (length < 0 || (size_t)length >= room - used) {
            snprintf(out + (used < room - 5 ? used : room - 5), 5, " ...");
            break;
        }
        used += (size_t)length;
    }
    return out;
}

__attribute__((format(printf, 2, 3))) static int wrong(const JsonlDocuments *d, const char *format,
                                                       ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return err_set(ERR_INPUT, "%s:%" PRIu64 ": %s", d->file->name, d->line, text);
}

static int parse(const JsonlDocuments *d, const char *bytes, size_t size, cJSON **root)
{
    JsonFault fault;
    *root = json_parse(bytes, size, &fault);
    return *root != NULL ? 0 : wrong(d, "not valid JSON (at byte %zu of the line)", fault.byte + 1);
}

static int get_text(const JsonlDocuments *d, const cJSON *root, const char **text)
{
    if (!cJSON_IsObject(root)) {
        return wrong(d, "%s, not a JSON object", type_name(root));
    }
    const char *field = d->options.field;
    const cJSON *item = json_get(root, field);
    if (item == NULL && root->child == NULL) {
        return wrong(d, "no field \"%s\", nor any other", field);
    }
    if (item == NULL) {
        char names[256];
        return wrong(d, "no field \"%s\"; there is: %s (choose one with --field)", field,
                     list_fields(root, names, sizeof names));
    }
    if (!cJSON_IsString(item)) {
        return wrong(d, "field \"%s\" is %s, not a string", field, type_name(item));
    }
    *text = item->valuestring;
    return 0;
}

/* A string of cJSON ends at a \u0000 in it, unseen. So a line that has the escape somewhere is
 * parsed with every \u0000 made \u0001, and with every one made \u0002: the text has one in it
 * when it comes out different. */
static int parse_zeros(JsonlDocuments *d, Line line, const char **text)
{
    char *copy = mem_alloc(line.size);
    memcpy(copy, line.bytes, line.size);
    cJSON *roots[2] = {NULL, NULL};
    const char *texts[2] = {NULL, NULL};
    int code = 0;
    for (int i = 0; code == 0 && i < 2; i++) {
        for (size_t at = 0; at + ESCAPED_ZERO_LENGTH <= line.size; at++) {
            if (line.bytes[at] == '\\') {
                if (memcmp(line.bytes + at, ESCAPED_ZERO, ESCAPED_ZERO_LENGTH) == 0) {
                    copy[at + ESCAPED_ZERO_LENGTH - 1] = (char)('1' + i);
                }
                at++; /* the character behind a backslash begins no escape */
            }
        }
        code = parse(d, copy, line.size, &roots[i]);
        code = code != 0 ? code : get_text(d, roots[i], &texts[i]);
    }
    if (code == 0 && strcmp(texts[0], texts[1]) != 0) {
        code =
            wrong(d, "field \"%s\" has " ESCAPED_ZERO " in it, which is no text", d->options.field);
    }
    free(copy);
    cJSON_Delete(roots[1]);
    d->root = roots[0];
    *text = texts[0];
    return code;
}

static int parse_line(JsonlDocuments *d, Line line, const char **text)
{
    if (line.too_long) {
        return wrong(d, "longer than %zu bytes", d->options.max_line);
    }
    if (memchr(line.bytes, '\0', line.size) != NULL) {
        return wrong(d, "not valid JSON (a byte of it is 0)");
    }
    if (memmem(line.bytes, line.size, ESCAPED_ZERO, ESCAPED_ZERO_LENGTH) != NULL) {
        return parse_zeros(d, line, text);
    }
    int code = parse(d, line.bytes, line.size, &d->root);
    return code != 0 ? code : get_text(d, d->root, text);
}

/* Passes the error on, or counts it. */
static int handle_wrong(const JsonlDocuments *d, int code)
{
    BadLines *bad = d->options.bad;
    if (bad == NULL) {
        return code;
    }
    if (bad->count++ == 0) {
        bad->first = mem_strdup(err_message());
    }
    return 0;
}

int jsonl_documents_next(JsonlDocuments *d, Document *document, bool *found)
{
    *found = false;
    for (;;) {
        cJSON_Delete(d->root);
        d->root = NULL;
        Line line;
        bool any;
        int code = next_line(d, &line, &any);
        if (code != 0 || !any) {
            return code;
        }
        if (is_blank(line)) {
            continue;
        }
        const char *text = NULL;
        code = parse_line(d, line, &text);
        if (code != 0) {
            code = handle_wrong(d, code);
            if (code != 0) {
                return code;
            }
        } else if (text[0] != '\0') {
            size_t size = strlen(text);
            *document = (Document){(const uint8_t *)text, size, XXH3_64bits(text, size), d->line};
            *found = true;
            return 0;
        }
    }
}
