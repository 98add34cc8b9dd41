#pragma once
/* The parts of source.c: source_inputs.c makes a list of what to read and opens files,
 * source_text.c and source_jsonl.c find the documents of one file, source_odd.c says what is odd in
 * them. */
#include "base/io.h"
#include "base/json.h"
#include "data/instruct.h"
#include "data/source.h"

/* A file of text, of which a window is in memory. */
typedef struct {
    char *name; /* its path, or "standard input" */
    IoFile *file;
    size_t size;
    size_t start; /* of the text: behind a byte order mark */
    uint8_t *window;
    size_t window_at, window_size, window_room;
    int (*interrupted)(void); /* as in SourceOptions; may be NULL */
} SourceFile;

/* ERR_INPUT when it cannot be read or is no regular file. Looks at the first bytes: `*objection` is
 * what stands against reading the file as text, with advice; NULL when nothing does. Caller
 * frees it. */
int source_file_open(SourceFile *file, const char *path, int (*interrupted)(void),
                     char **objection);

void source_file_close(SourceFile *file); /* no-op on a zeroed one */

/* The code to end with when that was asked for. */
int source_file_interrupted(const SourceFile *file);

/* Bytes from `at` on, at least `least` of them and *size in all, valid until the next call; the
 * least lie within the file. Few of them need no more memory than a window has. ERR_INPUT when
 * the file has become shorter; or the code to end with. */
int source_file_bytes(SourceFile *file, size_t at, size_t least, const uint8_t **bytes,
                      size_t *size);

/* Where the first `what` from `from` on begins; the file's size when there is none. */
int source_file_find(SourceFile *file, size_t from, const char *what, size_t *at);

/* What a user gave as inputs, as a list of files to read: folders are walked, standard input is
 * kept, every file's first bytes are looked at. */

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

/* What is odd in a text and stays in it all the same. */
typedef struct {
    uint64_t invalid;      /* bytes that are not UTF-8 */
    uint64_t first_line;   /* where the first of them is, from 1; 0: unknown */
    uint64_t first_offset; /* in the file; UINT64_MAX: unknown */
    uint64_t crlf;         /* line ends */
} OddText;

/* Adds what is odd in a piece of text. No character and no line end lies in two pieces. Returns
 * where the first byte that is not UTF-8 is, if there was none before; else size. */
size_t odd_look(OddText *odd, const uint8_t *bytes, size_t size);

/* Files that were said to have odd text; from some number on, only what they have together. */
typedef struct {
    uint64_t count;
    OddText rest;
} OddFiles;

/* `mark`: a byte order mark was left out. */
void odd_say(OddFiles *files, const OddText *odd, const char *name, bool mark);
void odd_say_rest(OddFiles *files);

uint64_t source_count_lines(const uint8_t *bytes, size_t size); /* line feeds */

/* Lines that were left out, over all files. */
typedef struct {
    uint64_t count;
    char *first; /* the message of the first; NULL: none */
} BadLines;

/* Goes through a file from document to document. Zeroed but for the file, its start and, for JSONL,
 * field, bad and max_line: at the beginning. */
typedef struct {
    SourceFile *file;
    size_t at;        /* bytes gone through */
    uint64_t line;    /* line breaks before them */
    bool inside_line; /* text: a separator on the same line is before `at` */
    const char *field, *chat;
    BadLines *bad;   /* lines that are wrong are counted here; NULL: they are errors */
    size_t max_line; /* bytes; a longer line is wrong */
    OddText odd;     /* in the documents so far */
    cJSON *root;     /* holds the current text of JSONL; the owner deletes the last one */
    Instruct record; /* or this does; the owner frees it */
} DocumentReader;

/* The next document, valid until the next call; *found is false behind the last. A line of JSONL
 * that is wrong: ERR_INPUT as FILE:LINE. */
int text_document_next(DocumentReader *reader, SourceDocument *document, bool *found);
int jsonl_document_next(DocumentReader *reader, SourceDocument *document, bool *found);
