#pragma once
/* Pieces of a text, and texts that trouble patterns. */
#include "text/pretok.h"

/* A pattern with what it takes to walk. */
typedef struct {
    Pretok *pretok;
    PretokWalk *walk;
} Walker;

Walker walker_open(const char *pattern); /* the test fails when it does not compile */
void walker_close(Walker walker);

/* Appends the ends of the pieces of text, plus offset, at ends; returns how many. The text lies in
 * memory of exactly its size, so that reading past it is seen by the sanitizer. */
size_t pieces_of(Walker walker, const uint8_t *text, size_t size, size_t offset, size_t *ends);

/* `expected`: the text with | where it is to be cut. */
void assert_pieces(Walker walker, const char *expected);

/* Characters that trouble patterns, and bytes that are none: text number `number`. All were
 * assigned long ago, so that any PCRE2 knows them. Returns its size; `text` has room for
 * NASTY_BYTES per character. */
#define NASTY_BYTES 10
size_t nasty_text(uint64_t number, size_t characters, uint8_t *text);
