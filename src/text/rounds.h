#pragma once
/* Documents through several threads in bounded memory. They are pushed in, in pieces of any size;
 * when a round's worth is together, it is cut into parts where that changes nothing, and threads
 * take the parts. What lies behind the last cut of a document that has not ended moves to the front
 * of the next round. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A document, or a piece of a long one: text [start, end) of the round. */
typedef struct {
    size_t start, end;
    uint64_t tag; /* of the document */
    bool begins;  /* the document */
    bool ends;    /* the document; such a part may be empty */
    int thread;   /* for the worker's notes: who did it, and where the results are */
    size_t first, count;
} TextPart;

typedef struct {
    int threads;        /* at least 1 */
    size_t round_bytes; /* that start a round */
    size_t part_bytes;  /* longer documents are cut */
    size_t most_bytes;  /* without a place to cut; then it is cut between two characters, */
    size_t margin;      /* this far before the end */

    /* Where text can be cut whatever follows; 0: nowhere. */
    size_t (*cut)(void *context, const uint8_t *text, size_t size);
    /* Called by several threads; ROUNDS_AHEAD bytes behind the text can be read. */
    void (*work)(void *context, int thread, const uint8_t *text, TextPart *part);
    /* The round is over, all its parts are done; in the order of the text. */
    int (*finish)(void *context, const TextPart *parts, size_t count);
    void *context;
} RoundOptions;

#define ROUNDS_AHEAD 16

typedef struct TextRounds TextRounds;
TextRounds *rounds_open(RoundOptions options);
void rounds_close(TextRounds *rounds); /* NULL is fine; what was not flushed is dropped */

/* A document: begin, put any number of times, end. Errors are those of finish. */
void rounds_begin(TextRounds *rounds, uint64_t tag);
int rounds_put(TextRounds *rounds, const void *bytes, size_t size);
int rounds_end(TextRounds *rounds);
int rounds_flush(TextRounds *rounds); /* all that was ended is done */
