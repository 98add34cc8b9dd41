#pragma once
/* Values back out of a record that anybody may have written: each is what it must be, or
 * ERR_INPUT names the file and the field. */
#include "metrics/json.h"

#include <stddef.h>

/* Where an object is: a file, and the way to it inside ("summary.phases"; "" for the top). */
typedef struct {
    const char *path, *inside;
} Place;

#define FIELD_WHOLE_MAX 1000000000000000.0 /* counts are exact below 10^15 */

/* A number, or missing when absent or null. A null that the object's "note" calls NaN or
 * infinite is NaN. */
int field_number(Place place, const cJSON *object, const char *name, Value *out);

/* A whole number from 0 to FIELD_WHOLE_MAX, or missing. */
int field_count(Place place, const cJSON *object, const char *name, Value *out);

/* Text, cut to size; "" when absent or null. Bytes below space become '?', for it may be
 * printed. */
int field_text(Place place, const cJSON *object, const char *name, char *out, size_t size);

/* An object or an array; NULL when absent or null. */
int field_object(Place place, const cJSON *object, const char *name, const cJSON **out);
int field_array(Place place, const cJSON *object, const char *name, const cJSON **out);

/* The number of the format that a file is written in. ERR_INPUT when it is above `newest`, the
 * newest that is known here: its fields may mean something else. Says nothing about a file
 * without one. */
int field_format(Place place, const cJSON *object, const char *name, int newest);

/* ERR_INPUT: "PATH: INSIDE.NAME is not WHAT". */
int field_error(Place place, const char *name, const char *what);
