#pragma once
/* Text from anywhere as documents, one after the other. An input is
 *   a text file: documents lie between the strings <|endoftext|>, wherever these stand. One at the
 *     beginning of a line takes the line break behind it along. All other bytes stay as they are;
 *     a UTF-8 byte order mark at the start of the file is dropped;
 *   a JSONL file (by its name, or because the format says so): a JSON object on each line, the
 *     document being the string under one of its fields, or where it has none of that name a
 *     record of instruction data (instruct.h);
 *   a folder: its files and folders in byte order of their names, hidden ones left out;
 *   "-": standard input;
 *   builtin:stories or builtin:stories:BYTES: pacer's own stories (stories.h).
 * Documents without a byte are left out. Memory does not depend on the size of files, documents or
 * lines of text; a line of JSONL is held whole. */
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *const *inputs; /* in this order */
    int input_count;
    int format; /* CONFIG_FORMAT_TEXT, _JSONL, or _AUTO: JSONL where the name ends in .jsonl or
                   .ndjson, else text */
    const char *field;        /* of JSONL; NULL: "text" */
    const char *chat;         /* template of messages; NULL: none, they are refused */
    bool skip_bad;            /* bad lines of JSONL are counted and left out */
    uint64_t stories_seed;    /* of builtin:stories */
    int (*interrupted)(void); /* 0, or the code to end with; asked now and then; may be NULL */
} SourceOptions;

/* The inputs of a command that reads text, by its arguments and options (format, field, skip-bad,
 * seed). Signals end it. */
SourceOptions text_source_options(const Config *cfg, int argc, char **argv);
uint64_t text_source_seed(const Config *cfg); /* of stories */

/* A piece of a document, from the end of the one before it; the last may be empty. */
typedef struct {
    uint64_t end;
    bool counts; /* in a loss */
} SourcePiece;

typedef struct {
    const uint8_t *bytes;      /* for source_chunk; NULL: in the file, from `offset` on */
    uint64_t size;             /* of them, at least 1 */
    uint64_t hash;             /* XXH3 of them */
    uint64_t line;             /* on which it begins, from 1 */
    uint64_t offset;           /* where in the input it begins */
    const char *file;          /* where it is, for messages; valid until source_close */
    const SourcePiece *pieces; /* of bytes; NULL: all of it counts */
    size_t piece_count;
} SourceDocument;

typedef struct TextSource TextSource;

/* Looks at every input: ERR_INPUT for one that cannot be read or is no text, with what to do
 * about it. Files of other content inside a folder are left out with a warning. Reads standard
 * input to its end. The options' strings stay where they are until source_close. */
int source_open(SourceOptions options, TextSource **out);
void source_close(TextSource *source); /* NULL is fine */

/* The next document; *found is false behind the last, where warnings about what was left out are
 * said. ERR_INPUT when there was none at all. */
int source_next(TextSource *source, SourceDocument *document, bool *found);

/* The next bytes of that document, valid until the next call; *size is 0 when it is over. */
int source_chunk(TextSource *source, const uint8_t **bytes, size_t *size);

/* For progress: bytes of all inputs, and how many of them were gone through. */
uint64_t source_bytes(const TextSource *source);
uint64_t source_position(const TextSource *source);
