#pragma once
/* The documents of one text file (source.h), found with a buffer of fixed size. */
#include "data/document.h"
#include "data/source_file.h"

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
