#include "data/source_internal.h"

#include "base/assert.h"
#include "base/mem.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SEPARATOR_LENGTH (sizeof TOKENIZER_END - 1)
#define LOOK_AHEAD (SEPARATOR_LENGTH + 2) /* the separator with CR LF */
#define LEAST_BUFFER 32

/* The buffer holds file bytes [buffer_start, buffer_start + buffer_used). A document is looked
 * for in the part from `next` on, which moves to the front of the buffer when its end is not
 * there. One that is longer than the buffer is hashed as it passes through, and read a second
 * time by text_documents_chunk. */
struct TextDocuments {
    const SourceFile *file;
    uint64_t next, next_line; /* where the next document begins */
    bool next_begins_line;    /* nothing but a line break, or the file's start, is before it */
    uint64_t start, end;      /* of the current document */
    uint64_t buffer_start, position; /* position: where the last call was */
    size_t buffer_used, capacity;
    XXH3_state_t *hash;
    uint8_t *buffer;
};

TextDocuments *text_documents_open(const SourceFile *file, size_t buffer_bytes)
{
    PACER_ASSERT(buffer_bytes >= LEAST_BUFFER, "buffer of %zu bytes", buffer_bytes);
    TextDocuments *d = mem_alloc(sizeof *d);
    *d = (TextDocuments){.file = file,
                         .next = file->start,
                         .next_line = 1,
                         .next_begins_line = true,
                         .buffer_start = file->start,
                         .position = file->start,
                         .capacity = buffer_bytes,
                         .hash = mem_checked(XXH3_createState(), sizeof(XXH3_state_t *)),
                         .buffer = mem_alloc(buffer_bytes)};
    return d;
}

void text_documents_close(TextDocuments *documents)
{
    if (documents != NULL) {
        XXH3_freeState(documents->hash);
        free(documents->buffer);
        free(documents);
    }
}

uint64_t text_documents_position(const TextDocuments *documents)
{
    return documents->position;
}

static uint64_t buffer_end(const TextDocuments *d)
{
    return d->buffer_start + d->buffer_used;
}

/* The buffer begins at `offset` and holds as much from there as it can. */
static int slide(TextDocuments *d, uint64_t offset)
{
    size_t kept = 0;
    if (offset >= d->buffer_start && offset < buffer_end(d)) {
        kept = (size_t)(buffer_end(d) - offset);
        memmove(d->buffer, d->buffer + (offset - d->buffer_start), kept);
    }
    uint64_t left = d->file->size - offset;
    size_t wanted = left < d->capacity ? (size_t)left : d->capacity;
    d->buffer_start = offset;
    d->buffer_used = kept;
    int code = source_file_read(d->file, offset + kept, d->buffer + kept, wanted - kept);
    d->buffer_used = code == 0 ? wanted : kept;
    return code;
}

static uint64_t count_lines(const uint8_t *bytes, size_t size)
{
    uint64_t count = 0;
#pragma omp simd reduction(+ : count)
    for (size_t i = 0; i < size; i++) {
        count += bytes[i] == '\n';
    }
    return count;
}

/* Where a document that is looked for has come to. */
typedef struct {
    uint64_t from;   /* offset of the window: what the buffer holds from there on */
    size_t searched; /* bytes of the window that no separator begins in */
    bool longer;     /* than the buffer: the bytes before the window are hashed */
    uint64_t lines;  /* line breaks before the window */
} Search;

/* True when the window holds the document's end, *length bytes in; *separated tells whether a
 * separator stands there or the file ends. */
static bool find_end(const TextDocuments *d, Search *search, size_t *length, bool *separated)
{
    const uint8_t *window = d->buffer + (search->from - d->buffer_start);
    size_t size = (size_t)(buffer_end(d) - search->from);
    bool last = buffer_end(d) == d->file->size;
    const uint8_t *found =
        memmem(window + search->searched, size - search->searched, TOKENIZER_END, SEPARATOR_LENGTH);
    *separated = found != NULL && (last || (size_t)(found - window) + LOOK_AHEAD <= size);
    *length = *separated ? (size_t)(found - window) : size;
    search->searched = size >= LOOK_AHEAD ? size - LOOK_AHEAD + 1 : 0;
    return *separated || last;
}

/* Brings more of the file into the window; a window that fills the buffer moves on. */
static int look_further(TextDocuments *d, Search *search)
{
    size_t size = (size_t)(buffer_end(d) - search->from);
    if (size == d->capacity) {
        if (!search->longer) {
            XXH3_64bits_reset(d->hash);
            search->longer = true;
        }
        size_t passed = size - LOOK_AHEAD;
        XXH3_64bits_update(d->hash, d->buffer, passed);
        search->lines += count_lines(d->buffer, passed);
        search->from += passed;
        search->searched = 0;
    }
    return slide(d, search->from);
}

/* Sets `next` behind the separator that is `length` bytes into the window. */
static void pass_separator(TextDocuments *d, const Search *search, size_t length)
{
    const uint8_t *window = d->buffer + (search->from - d->buffer_start);
    size_t size = (size_t)(buffer_end(d) - search->from), after = length + SEPARATOR_LENGTH;
    size_t line_break = 0;
    /* A window that has moved on begins inside the document, never with its separator. */
    if (length > 0 ? window[length - 1] == '\n' : d->next_begins_line) {
        if (size > after && window[after] == '\n') {
            line_break = 1;
        } else if (size > after + 1 && memcmp(window + after, "\r\n", 2) == 0) {
            line_break = 2;
        }
    }
    d->next = search->from + after + line_break;
    d->next_line += line_break > 0;
    d->next_begins_line = line_break > 0;
}

int text_documents_next(TextDocuments *d, Document *document, bool *found)
{
    *found = false;
    while (!*found && d->next < d->file->size) {
        if (d->next < d->buffer_start || d->next >= buffer_end(d)) {
            int code = slide(d, d->next);
            if (code != 0) {
                return code;
            }
        }
        Search search = {.from = d->next};
        size_t length;
        bool separated;
        while (!find_end(d, &search, &length, &separated)) {
            int code = look_further(d, &search);
            if (code != 0) {
                return code;
            }
        }
        const uint8_t *window = d->buffer + (search.from - d->buffer_start);
        d->start = d->next;
        d->end = search.from + length;
        *document = (Document){.bytes = search.longer ? NULL : window,
                               .size = d->end - d->start,
                               .line = d->next_line};
        *found = document->size > 0;
        if (search.longer) {
            XXH3_64bits_update(d->hash, window, length);
            document->hash = XXH3_64bits_digest(d->hash);
        } else {
            document->hash = XXH3_64bits(window, length);
        }
        d->next_line += search.lines + count_lines(window, length);
        d->position = d->start;
        if (separated) {
            pass_separator(d, &search, length);
        } else {
            d->next = d->end;
        }
    }
    d->position = *found ? d->position : d->file->size;
    return 0;
}

int text_documents_chunk(TextDocuments *d, uint64_t at, const uint8_t **bytes, size_t *size)
{
    uint64_t offset = d->start + at;
    PACER_ASSERT(offset < d->end, "byte %llu of a document of %llu", (unsigned long long)at,
                 (unsigned long long)(d->end - d->start));
    if (offset < d->buffer_start || offset >= buffer_end(d)) {
        int code = slide(d, offset);
        if (code != 0) {
            return code;
        }
    }
    uint64_t end = d->end < buffer_end(d) ? d->end : buffer_end(d);
    *bytes = d->buffer + (offset - d->buffer_start);
    *size = (size_t)(end - offset);
    d->position = end;
    return 0;
}
