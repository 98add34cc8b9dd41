#pragma once
/* JSON over cJSON: trees written without gaps, files read with checks. Trees are cJSON's own, and
 * cJSON_Delete releases them. Running out of memory ends the program (mem.h): no tree lacks a part
 * silently. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

/* A number on its way into or out of a record. JSON has no NaN and no infinity, and a number that
 * was never measured is not 0: a Value says whether it is known. */
typedef struct {
    bool known; /* false in a zeroed struct: missing is the default */
    double number;
} Value;

static inline Value value_of(double number)
{
    return (Value){true, number};
}

/* Missing unless it is finite. */
Value value_finite(double number);

/* --- writing --- */

cJSON *json_object(void);
cJSON *json_array(void);
cJSON *json_copy(const cJSON *item); /* deep; NULL stays NULL */

/* name: number. A known number that is NaN or infinite becomes null, and the object's "note" says
 * so ("loss is NaN"); a missing one is left out. */
void json_put(cJSON *object, const char *name, Value value);

/* The same, but a missing number is written as null: for records whose set of names is fixed. */
void json_put_or_null(cJSON *object, const char *name, Value value);

void json_put_number(cJSON *object, const char *name, double number);  /* json_put, known */
void json_put_whole(cJSON *object, const char *name, int64_t number);  /* exact below 10^15 */
void json_put_text(cJSON *object, const char *name, const char *text); /* NULL is left out */
void json_put_bool(cJSON *object, const char *name, bool value);
void json_put_raw(cJSON *object, const char *name, const char *json);
void json_put_item(cJSON *object, const char *name, cJSON *item); /* takes item; NULL: null */
cJSON *json_put_object(cJSON *object, const char *name);          /* a fresh one, to be filled */
cJSON *json_put_array(cJSON *object, const char *name);
void json_append(cJSON *array, cJSON *item); /* takes item */
void json_append_text(cJSON *array, const char *text);

/* The member takes the place of one of that name, at the end of the object. */
void json_replace(cJSON *object, const char *name, cJSON *item);

/* Of many trees that are alike: objects and arrays of `tree` that equal those at the same place in
 * `like` become references to them. `like` must outlive `tree`, and neither may be changed. */
void json_share(cJSON *tree, const cJSON *like);

char *json_print(const cJSON *tree); /* indented, with a newline at its end; caller frees */
char *json_line(const cJSON *tree);  /* on one line, without a newline; caller frees */

/* Replaces path with the printed tree as one event (io_write_atomic). */
int json_save(const char *path, const cJSON *tree);

/* Writes the tree, which it takes, where an option says, "-" being standard output. */
int json_write(const char *path, cJSON *tree);

/* --- reading --- */

/* Where a text stops being JSON: bytes before it, and its line from 1. */
typedef struct {
    size_t byte;
    int line;
} JsonFault;

/* The tree of a text that is one JSON value and white space; NULL otherwise, and *fault (may be
 * NULL) says where. */
cJSON *json_parse(const char *text, size_t size, JsonFault *fault);

/* Reads a JSON object; ERR_INPUT names the path. *tree is NULL on failure. */
int json_load(const char *path, cJSON **tree);

/* The same, but a file that is not there is no error: *tree is NULL. */
int json_load_optional(const char *path, cJSON **tree);

/* --- members of a record that was checked, or whose gaps do not matter --- */

/* The member of that name; NULL when there is none, or the object is none. */
cJSON *json_get(const cJSON *object, const char *name);

/* The member at a path such as "summary.tokens". */
const cJSON *json_find(const cJSON *tree, const char *path);

const char *json_text(const cJSON *tree, const char *path); /* lives in the tree; NULL: no text */
const char *json_text_or(const cJSON *tree, const char *path, const char *otherwise);
double json_number(const cJSON *tree, const char *path); /* NAN: no finite number */
bool json_is_true(const cJSON *tree, const char *path);
bool json_lists(const cJSON *array, const char *text); /* whether the text is one of its items */

/* The number of that name, as json_put wrote it: NaN where the object's "note" says that it was
 * NaN or infinite, missing when it is no number. */
Value json_value(const cJSON *object, const char *name);

bool json_is_nothing(const cJSON *item); /* absent or null */

/* Whether the item is a whole number from 0 to most, at most 2^53. */
bool json_whole(const cJSON *item, double most, int64_t *out);

/* --- members of a record that anybody may have written --- */

/* What is read: a file, and the way to the object inside ("summary.phases"; "" for the top). The
 * getters take paths like json_find's from there. What is absent or null is missing. The first
 * member that is not what it must be sets `code` to ERR_INPUT with a message that names file and
 * member; later questions then do nothing and find nothing. */
typedef struct {
    const char *path, *inside;
    int code;
} JsonReader;

#define JSON_WHOLE_MAX 1000000000000000.0 /* counts are exact below 10^15 */

Value json_read_number(JsonReader *reader, const cJSON *tree, const char *path); /* as json_value */
Value json_read_count(JsonReader *reader, const cJSON *tree, const char *path);  /* whole, from 0 */
const cJSON *json_read_object(JsonReader *reader, const cJSON *tree, const char *path);
const cJSON *json_read_array(JsonReader *reader, const cJSON *tree, const char *path);

/* Text, cut to size; "" when missing. Bytes below space become '?', for it may be printed. */
void json_read_text(JsonReader *reader, const cJSON *tree, const char *path, char *out,
                    size_t size);

/* Sets the code unless there is one: "PATH: INSIDE.NAME is not WHAT". */
void json_wrong(JsonReader *reader, const char *name, const char *what);

/* The number of the format that a file is written in. ERR_INPUT when it is above `newest`, the
 * newest that is known here: its members may mean something else. Says nothing about a file
 * without one. */
int json_read_format(const char *path, const cJSON *object, const char *name, int newest);
