#pragma once
/* A reader of TensorBoard's event files that shares nothing with the writer: record by record,
 * field by field. What is wrong in a file fails the test. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_MAX_VALUES 32
#define EVENT_MAX_COUNT 32

typedef struct {
    const uint8_t *data;
    size_t size;
} Span;

typedef struct {
    Span tag, tensor, metadata;
    bool simple;
    float number;
} SeenValue;

typedef struct {
    double time;
    uint64_t step;
    Span version, session;
    SeenValue values[EVENT_MAX_VALUES];
    int count;
} SeenEvent;

typedef struct {
    char *bytes;
    SeenEvent events[EVENT_MAX_COUNT];
    int count;
} SeenFile;

/* Every record whole, every checksum right, the version first; caller frees file->bytes. */
void event_file_read(const char *path, SeenFile *file);

/* The event files of a folder in the order of their names, `most` at most; caller frees each. */
int event_files_find(const char *dir, char **paths, int most);

/* The value of this tag, which must be there. */
const SeenValue *event_value(const SeenEvent *event, const char *tag);
bool event_text_is(Span span, const char *text);

typedef struct {
    int number, wire;
    uint64_t value; /* of a number, as bits */
    Span span;      /* of a block */
} Field;

/* The next field of a message; false at its end. */
bool event_take_field(Span *from, Field *field);

/* The block at a path of field numbers, the first of each; size 0 when there is none. */
Span event_inside(Span message, const int *path, int depth);
#define INSIDE(message, ...)                          \
    event_inside(message, (const int[]){__VA_ARGS__}, \
                 (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))
