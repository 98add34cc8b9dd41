#pragma once
/* Pre-tokens: the pieces of a text that byte-pair merges never cross. A regular expression decides:
 * each match is a piece, and so is what lies between two matches (the behaviour "Isolated" of
 * Hugging Face's Split). Patterns that have a name have scanners written for them; any other
 * runs through PCRE2, whose idea of letters and numbers then holds. A byte
 * that is not part of a UTF-8 character counts as one character that is neither letter, number nor
 * white space (as U+FFFD would). */
#include "base/choices.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Pretok Pretok; /* read-only once open: threads may share it */

/* Names of patterns (PRETOK_* of base/choices.h); NULL behind the last. */
const char *pretok_names(size_t i);
/* Letters, digits, _ and - alone: a name or a misspelt one, though it would be a regular expression
 * too. */
bool pretok_reads_as_name(const char *text);
/* By name or spelling: one of those where no text has a gap between two matches. */
bool pretok_is_gapless(const char *pattern);
/* The same of one that is open. Then a letter and what cannot go on behind it (scan_parts) are
 * always in two pieces. */
bool pretok_parts_words(const Pretok *pretok);
/* Pieces are decided by the class of each character alone: all numbers, or all others. */
bool pretok_is_class(const Pretok *pretok);

/* `pattern`: a name, or a regular expression as Hugging Face tokenizers reads it. One that is
 * a named one's, in any of its usual spellings, is served by its scanner. ERR_INPUT for a
 * name that there is not, with PCRE2's own words and the offset for what does not compile, and
 * when it matches the empty string at once. */
int pretok_open(const char *pattern, Pretok **out);
void pretok_close(Pretok *pretok); /* NULL is fine */

const char *pretok_regex(const Pretok *pretok);    /* as given: what tokenizer.json carries */
const char *pretok_identity(const Pretok *pretok); /* the same for all spellings of one pattern */
const char *pretok_name(const Pretok *pretok);     /* a name, or "regex" */

/* What one thread needs while it walks texts; threads do not share it. */
typedef struct PretokWalk PretokWalk;
PretokWalk *pretok_walk_open(const Pretok *pretok);
void pretok_walk_close(PretokWalk *walk); /* NULL is fine */

/* Begins a text, which stays where it is until the walk is over. */
void pretok_walk_begin(PretokWalk *walk, const uint8_t *text, size_t size);

/* End of the piece that starts where the last one ended (at first 0); pieces are never empty. False
 * when the text is used up. */
bool pretok_walk_next(PretokWalk *walk, size_t *end);

/* Whether the last piece was a match, and not what lies between two. */
bool pretok_walk_matched(const PretokWalk *walk);

/* Bytes of the texts begun so far that are not UTF-8. */
uint64_t pretok_walk_invalid(const PretokWalk *walk);

/* A position c, 0 < c <= size, such that text[0, c) and whatever starts at c have together the
 * pieces that the whole text has, whatever follows text[size - 1]: the last such position that is
 * easily found. 0 when none is. */
size_t pretok_walk_cut(PretokWalk *walk, const uint8_t *text, size_t size);
