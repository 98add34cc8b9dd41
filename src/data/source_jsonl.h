#pragma once
/* The documents of a JSONL file: a JSON object on each line, of which one field is the text. */
#include "data/document.h"
#include "data/source_file.h"

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
