#pragma once
/* What a user gave as inputs (source.h), as a list of files to read: folders are walked, standard
 * input is kept, every file's first bytes are looked at. */
#include "data/source.h"
#include "data/source_file.h"

typedef enum { INPUT_TEXT, INPUT_JSONL, INPUT_STORIES } InputKind;

typedef struct {
    char *name; /* path, or what messages call it */
    InputKind kind;
    uint64_t bytes;
    SourceFile kept; /* of standard input; zeroed for others */
} SourceInput;

typedef struct {
    SourceInput *list;
    size_t count, capacity;
    uint64_t bytes;    /* of all */
    uint64_t left_out; /* files */
} SourceInputs;

int source_inputs_open(SourceInputs *inputs, const SourceOptions *options);
void source_inputs_close(SourceInputs *inputs); /* no-op on a zeroed list */

/* Counts a file as left out and says so, this often at most. */
#define SOURCE_MOST_WARNINGS 5
void source_inputs_leave_out(SourceInputs *inputs, const char *name, const char *why);
