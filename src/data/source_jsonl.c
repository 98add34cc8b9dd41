#include "data/source_internal.h"

#include "base/err.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define ESCAPED_ZERO "\\u0000"
#define ESCAPED_ZERO_LENGTH (sizeof ESCAPED_ZERO - 1)

typedef struct {
    const char *bytes;
    size_t size;
} Line; /* without its line break */

static bool is_blank(Line line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (strchr(" \t\r", line.bytes[i]) == NULL || line.bytes[i] == '\0') {
            return false;
        }
    }
    return true;
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

static int parse(const char *bytes, size_t size, cJSON **root)
{
    JsonFault fault;
    *root = json_parse(bytes, size, &fault);
    return *root != NULL
               ? 0
               : err_set(ERR_INPUT, "not valid JSON (at byte %zu of the line)", fault.byte + 1);
}

/* The string under the field, or the text of a record of instruction data. */
static int get_text(DocumentReader *r, const cJSON *root, const char **text)
{
    instruct_free(&r->record);
    if (!cJSON_IsObject(root)) {
        return err_set(ERR_INPUT, "%s, not a JSON object", type_name(root));
    }
    const char *field = r->field;
    const cJSON *item = json_get(root, field);
    if (item == NULL && instruct_is(root)) {
        int code = instruct_read(root, r->chat, &r->record);
        *text = r->record.text != NULL ? r->record.text : "";
        return code;
    }
    if (item == NULL && root->child == NULL) {
        return err_set(ERR_INPUT, "no field \"%s\", nor any other", field);
    }
    if (item == NULL) {
        char names[256];
        return err_set(ERR_INPUT, "no field \"%s\"; there is: %s (choose one with --field)", field,
                       list_fields(root, names, sizeof names));
    }
    if (!cJSON_IsString(item)) {
        return err_set(ERR_INPUT, "field \"%s\" is %s, not a string", field, type_name(item));
    }
    *text = item->valuestring;
    return 0;
}

/* A string of cJSON ends at a \u0000 in it, unseen. So a line that has the escape somewhere is
 * parsed with every \u0000 made \u0001, and with every one made \u0002: the text has one in it
 * when it comes out different. */
static int parse_zeros(DocumentReader *r, Line line, const char **text)
{
    char *copy = mem_alloc(line.size);
    memcpy(copy, line.bytes, line.size);
    char *first = NULL; /* the text as it came out of the first parse */
    int code = 0;
    for (int i = 0; code == 0 && i < 2; i++) {
        cJSON_Delete(r->root);
        r->root = NULL;
        for (size_t at = 0; at + ESCAPED_ZERO_LENGTH <= line.size; at++) {
            if (line.bytes[at] == '\\') {
                if (memcmp(line.bytes + at, ESCAPED_ZERO, ESCAPED_ZERO_LENGTH) == 0) {
                    copy[at + ESCAPED_ZERO_LENGTH - 1] = (char)('1' + i);
                }
                at++; /* the character behind a backslash begins no escape */
            }
        }
        code = parse(copy, line.size, &r->root);
        code = code != 0 ? code : get_text(r, r->root, text);
        first = code == 0 && i == 0 ? mem_strdup(*text) : first;
    }
    if (code == 0 && strcmp(first, *text) != 0) {
        code = r->record.text != NULL
                   ? err_set(ERR_INPUT, "has " ESCAPED_ZERO " in it, which is no text")
                   : err_set(ERR_INPUT, "field \"%s\" has " ESCAPED_ZERO " in it, which is no text",
                             r->field);
    }
    free(first);
    free(copy);
    return code;
}

/* *text is left alone for a line without anything on it. */
static int parse_line(DocumentReader *r, Line line, const char **text)
{
    if (line.size > r->max_line) {
        return err_set(ERR_INPUT, "longer than %zu bytes", r->max_line);
    }
    if (is_blank(line)) {
        return 0;
    }
    if (memchr(line.bytes, '\0', line.size) != NULL) {
        return err_set(ERR_INPUT, "not valid JSON (a byte of it is 0)");
    }
    if (memmem(line.bytes, line.size, ESCAPED_ZERO, ESCAPED_ZERO_LENGTH) != NULL) {
        return parse_zeros(r, line, text);
    }
    int code = parse(line.bytes, line.size, &r->root);
    return code != 0 ? code : get_text(r, r->root, text);
}

/* Passes the error of this line on, or counts it. */
static int handle_wrong(const DocumentReader *r, int code)
{
    BadLines *bad = r->bad;
    err_wrap(code, "%s:%" PRIu64, r->file->name, r->line);
    if (bad == NULL) {
        return code;
    }
    if (bad->count++ == 0) {
        bad->first = mem_strdup(err_message());
    }
    return 0;
}

int jsonl_document_next(DocumentReader *r, SourceDocument *document, bool *found)
{
    *found = false;
    while (r->at < r->file->size) {
        cJSON_Delete(r->root);
        r->root = NULL;
        size_t start = r->at, end;
        int code = source_file_find(r->file, start, "\n", &end);
        if (code != 0) {
            return code;
        }
        r->at = end + (end < r->file->size);
        r->line++;
        const uint8_t *bytes = NULL;
        size_t more;
        if (end - start <= r->max_line) {
            code = source_file_bytes(r->file, start, end - start, &bytes, &more);
        }
        if (code != 0) {
            return code;
        }
        const char *text = "";
        code = parse_line(r, (Line){(const char *)bytes, end - start}, &text);
        if (code != 0) {
            code = handle_wrong(r, code);
            if (code != 0) {
                return code;
            }
        } else if (text[0] != '\0') {
            size_t size = strlen(text);
            if (odd_look(&r->odd, (const uint8_t *)text, size) < size) {
                r->odd.first_line = r->line;
                r->odd.first_offset = UINT64_MAX;
            }
            *document = (SourceDocument){.bytes = (const uint8_t *)text,
                                         .size = size,
                                         .hash = XXH3_64bits(text, size),
                                         .line = r->line,
                                         .offset = start,
                                         .pieces = r->record.pieces,
                                         .piece_count = r->record.count};
            *found = true;
            return 0;
        }
    }
    return 0;
}
