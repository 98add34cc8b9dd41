#pragma once
/* The parts of source.c: source_inputs.c makes a list of what to read and reads files at any place,
 * source_text.c and source_jsonl.c find the documents of one file. */
#include "data/source.h"

/* A file of text that is open, read at any place. */
typedef struct {
    char *name; /* its path, or "standard input" */
    int file;
    uint64_t size;            /* as it was when opened */
    uint64_t start;           /* of the text: behind a byte order mark */
    int (*interrupted)(void); /* asked before each read, as in SourceOptions; may be NULL */
} SourceFile;

/* ERR_INPUT when it cannot be read or is no regular file. */
int source_file_open(SourceFile *file, const char *path, int (*interrupted)(void));

/* All that can be read from descriptor `from`, kept in a file without a name in $TMPDIR or /tmp, so
 * that it can be read at any place and again. */
int source_file_spool(SourceFile *file, int from, const char *name, int (*interrupted)(void));

void source_file_close(SourceFile *file); /* no-op on a zeroed one */

/* Bytes [offset, offset + size). ERR_INPUT when the file has become shorter. */
int source_file_read(const SourceFile *file, uint64_t offset, void *out, size_t size);

/* Looks at the first bytes: sets `start`, and `*objection` to what stands against reading the
 * file as text, with advice; NULL when nothing does. Caller frees it. */
int source_file_inspect(SourceFile *file, char **objection);

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

/* A document as the readers of one file hand it on. */
typedef struct {
    const uint8_t *bytes; /* all of it, until the reader's next call; NULL: not all in memory */
    uint64_t size, hash, line; /* as in SourceDocument (source.h) */
} Document;

/* The documents of one text file, found with a buffer of fixed size. */

typedef struct TextDocuments TextDocuments;

/* The file stays open until text_documents_close. The buffer has at least 32 bytes. */
TextDocuments *text_documents_open(const SourceFile *file, size_t buffer_bytes);
void text_documents_close(TextDocuments *documents); /* NULL is fine */

/* The next one; *found is false behind the last. `bytes` is NULL when it does not fit the
 * buffer. */
int text_documents_next(TextDocuments *documents, Document *document, bool *found);

/* Bytes of that document from `at` (below its size) on, some of them, until the next call. */
int text_documents_chunk(TextDocuments *documents, uint64_t at, const uint8_t **bytes,
                         size_t *size);

/* Where in the file the last call was. */
uint64_t text_documents_position(const TextDocuments *documents);

/* The documents of a JSONL file: a JSON object on each line, of which one field is the text. */

/* Lines that were left out, over all files. */
typedef struct {
    uint64_t count;
    char *first; /* the message of the first; NULL: none */
} BadLines;

typedef struct {
    const char *field;
    BadLines *bad;   /* lines that are wrong are counted here; NULL: they are errors */
    size_t max_line; /* bytes; a longer line is wrong */
} JsonlOptions;

typedef struct JsonlDocuments JsonlDocuments;

/* File and options stay where they are until jsonl_documents_close. */
JsonlDocuments *jsonl_documents_open(const SourceFile *file, JsonlOptions options);
void jsonl_documents_close(JsonlDocuments *documents); /* NULL is fine */

/* The next one; *found is false behind the last. A line that is wrong: ERR_INPUT as FILE:LINE. */
int jsonl_documents_next(JsonlDocuments *documents, Document *document, bool *found);

/* Where in the file the last call was. */
uint64_t jsonl_documents_position(const JsonlDocuments *documents);
