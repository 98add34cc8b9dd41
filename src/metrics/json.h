#pragma once
/* Numbers on their way into a record. JSON has no NaN and no infinity, and a number that was never
 * measured is not 0: a Value says whether it is known, and the writers below keep the three
 * apart. */
#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

typedef struct {
    bool known; /* false in a zeroed struct: missing is the default */
    double number;
} Value;

static inline Value value_of(double number)
{
    return (Value){true, number};
}

/* name: number. A known number that is NaN or infinite becomes null, and the object's "note" says
 * so ("loss is NaN"); a missing one is left out. */
void json_put(cJSON *object, const char *name, Value value);

/* The same, but a missing number is written as null: for records whose set of names is fixed. */
void json_put_or_null(cJSON *object, const char *name, Value value);

void json_put_whole(cJSON *object, const char *name, int64_t number);  /* exact below 10^15 */
void json_put_text(cJSON *object, const char *name, const char *text); /* NULL is left out */
void json_put_item(cJSON *object, const char *name, cJSON *item);      /* takes item; NULL: null */
cJSON *json_object(void);
cJSON *json_array(void);

/* Replaces path with the printed tree as one event (io_write_atomic). */
int json_save(const char *path, const cJSON *tree);

/* Writes the tree where an option says, "-" being standard output. */
int json_write(const char *path, const cJSON *tree);

/* Reads a JSON object; ERR_INPUT names the path. Caller deletes *tree. */
int json_load(const char *path, cJSON **tree);
